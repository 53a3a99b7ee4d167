# SPDX-License-Identifier: Apache-2.0
"""Families of random graphs, drawn sparsely: the cost grows with the edges, not with the pairs of nodes.

Every function takes a seed for numpy's PCG64, so that a specification names the same graph everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs.families import check_size, complete, from_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.graphs.model import Graph

__all__ = ["erdos_renyi", "preferential", "random_regular", "small_world"]

_ATTEMPTS = 100


def erdos_renyi(n: int, p: float, seed: int) -> Graph:
    """Each pair of nodes is joined with probability p; the graph may be disconnected.

    The pairs are numbered, and the gaps between chosen pairs are geometric, so only edges are drawn.

    Source: Batagelj and Brandes, Efficient generation of large random networks (2005).
    """
    pairs = n * (n - 1) // 2
    check_size("erdos-renyi", pairs * p)
    if p == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return from_pairs(n, nothing, nothing)
    rng = np.random.default_rng(seed)
    blocks: list[NDArray[np.int64]] = []
    last = -1
    while last < pairs:
        count = int((pairs - last) * p * 1.01) + 100
        gaps = np.minimum(rng.geometric(p, size=count), pairs + 1)
        blocks.append(last + np.cumsum(gaps))
        last = int(blocks[-1][-1])
    codes = np.concatenate(blocks)
    return from_pairs(n, *_pair_of(codes[codes < pairs]))


def _pair_of(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pair i < j numbered j (j − 1) / 2 + i."""
    larger = ((1 + np.sqrt(1.0 + 8.0 * codes)) / 2).astype(np.int64)
    # The square root is a float; its whole part can be off by one either way.
    larger -= larger * (larger - 1) // 2 > codes
    larger += larger * (larger + 1) // 2 <= codes
    return codes - larger * (larger - 1) // 2, larger


def preferential(n: int, core: int, links: int, seed: int) -> Graph:
    """A fully connected core; each later node joins `links` others, chosen in proportion to degree.

    Source: Barabási and Albert, Emergence of scaling in random networks (1999).
    """
    check_size("preferential", core * (core - 1) / 2 + (n - core) * links)
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(core, k=1)
    # A node stands in `ends` once per edge, so a uniform position in it is a draw in proportion to degree.
    ends: list[int] = np.stack([first, second], axis=1).ravel().tolist()
    start = len(ends)
    lengths = start + 2 * links * np.arange(n - core)
    draws = (rng.random((n - core, links)) * lengths[:, np.newaxis]).astype(np.int64).tolist()
    for newcomer, positions in enumerate(draws, start=core):
        chosen: list[int] = []
        size = len(ends)
        for position in positions:
            node = ends[position]
            while node in chosen:
                node = ends[int(rng.random() * size)]
            chosen.append(node)
        for node in chosen:
            ends.append(newcomer)
            ends.append(node)
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return from_pairs(n, edges[:, 0], edges[:, 1])


def random_regular(n: int, d: int, seed: int) -> Graph:
    """A simple graph in which every node has exactly d neighbours.

    Half-edges are paired at random, and loops and double edges are switched away with random other edges;
    above half density the complement is drawn. The law is close to uniform, not exactly so.

    Source: McKay and Wormald, Uniform generation of random regular graphs of moderate degree (1990).
    """
    check_size("random-regular", n * d / 2)
    if 2 * d > n - 1:
        whole = complete(n)
        if d == n - 1:
            return whole
        rest = scipy.sparse.triu(whole.adjacency - random_regular(n, n - 1 - d, seed).adjacency).tocoo()
        kept = rest.data != 0
        return from_pairs(n, rest.row[kept], rest.col[kept])
    rng = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        ends = rng.permutation(np.repeat(np.arange(n), d)).reshape(-1, 2).T.copy()
        if _switch_to_simple(ends, n, rng):
            return from_pairs(n, ends[0], ends[1])
    raise GraphError(
        f"random-regular: no simple graph was found with n={n}, d={d}, seed={seed} in {_ATTEMPTS} attempts "
        "(take another seed)"
    )


def _switch_to_simple(ends: NDArray[np.int64], n: int, rng: np.random.Generator) -> bool:
    """Switch loops and double edges away in place; False when some are left in the end."""
    for _ in range(_ATTEMPTS):
        codes = _codes(ends[0], ends[1], n)
        order = np.argsort(codes, kind="stable")
        ranked = codes[order]
        repeated = order[1:][ranked[1:] == ranked[:-1]]
        bad = np.union1d(np.flatnonzero(ends[0] == ends[1]), repeated)
        if bad.size == 0:
            return True
        partner = rng.integers(codes.size, size=bad.size)
        # Edges u–v and x–y become u–x and v–y where that meets no edge and no other switch.
        one = _codes(ends[0, bad], ends[0, partner], n)
        two = _codes(ends[1, bad], ends[1, partner], n)
        accepted = (ends[0, bad] != ends[0, partner]) & (ends[1, bad] != ends[1, partner])
        accepted &= ~_among(one, ranked) & ~_among(two, ranked)
        accepted &= _once(np.stack([one, two])).all(axis=0)
        accepted &= _once(partner) & ~np.isin(partner, bad)
        chosen, other = bad[accepted], partner[accepted]
        ends[1, chosen], ends[0, other] = ends[0, other], ends[1, chosen]
    return False


def small_world(n: int, k: int, p: float, seed: int) -> Graph:
    """A ring of n nodes joined to their k nearest; each edge moves its far end with probability p.

    An edge moves to a uniform free place and stays where it is when none is found in a hundred draws. The
    graph is drawn again until it is connected.

    Source: Watts and Strogatz, Collective dynamics of small-world networks (1998).
    """
    check_size("small-world", n * k / 2)
    rng = np.random.default_rng(seed)
    near = np.tile(np.arange(n), k // 2)
    far = (near + np.repeat(np.arange(1, k // 2 + 1), n)) % n
    for _ in range(_ATTEMPTS):
        graph = from_pairs(n, near, _rewired(near, far.copy(), n, p, rng))
        if scipy.sparse.csgraph.connected_components(graph.adjacency, directed=False)[0] == 1:
            return graph
    raise GraphError(
        f"small-world: no connected graph was found with n={n}, k={k}, p={p}, seed={seed} in {_ATTEMPTS} "
        "draws (take a larger k or a smaller p)"
    )


def _rewired(
    near: NDArray[np.int64], far: NDArray[np.int64], n: int, p: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The far ends after rewiring; the edges stay distinct and free of loops throughout."""
    pending = np.flatnonzero(rng.random(near.size) < p)
    for _ in range(_ATTEMPTS):
        if pending.size == 0:
            break
        proposed = rng.integers(n, size=pending.size)
        codes = _codes(near[pending], proposed, n)
        accepted = (proposed != near[pending]) & _once(codes) & ~_among(codes, np.sort(_codes(near, far, n)))
        far[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    return far


def _codes(first: NDArray[np.int64], second: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """One number per unordered pair."""
    return np.minimum(first, second) * n + np.maximum(first, second)


def _among(values: NDArray[np.int64], ranked: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which values occur in a sorted array."""
    place = np.minimum(np.searchsorted(ranked, values), ranked.size - 1)
    return np.asarray(ranked[place] == values)


def _once(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which entries are the only ones of their value."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.reshape(values.shape)] == 1)
