# SPDX-License-Identifier: Apache-2.0
"""Take out of the system whatever the observer can compute by itself.

When an observer knows the noise of the nodes A and sees what A receives, it knows every message of A. Subtracting
them leaves the unknown nodes U with transition A_UU, fresh noise of every node, and observation rows that reach U.
An orthonormal basis of those rows says the same, and makes every innovation at least as noisy as one noise draw.

A row v of known nodes alone, v_A s_A, is known but for what flowed into A a round before: v_A A_AU s_{t−1}. So it
is a row of the round before it, and the last round has none of its kind.

Soundness: ranks are decided in rationals (`RowSpace`), because Δ² jumps where rows become dependent, and only the
basis that survives is rounded, within `rows_error`. Nothing in this module is a matter of speed.

Source: docs/mathematics.md, section 4; docs/proofs/filter.md, "Exact weights and rows".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from sottovoce.errors import ViewError
from sottovoce.filtering.lines import size_sums
from sottovoce.filtering.rowspace import RowSpace, independent_rows
from sottovoce.rounding import roundings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sottovoce.protocols import Protocol
    from sottovoce.views import ExactRow, Observation

__all__ = ["HiddenSystem", "hidden_system"]


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenSystem:
    """What the observer cannot compute: s_t = A s_{t−1} + x_t + u_t over the unknown nodes, seen through rows.

    `rows` is seen of rounds 1..T−1 and `last_rows` of round T (fewer, when a row is learnt only a round later).
    Both have orthonormal rows; `rows_error` bounds how far rounding may have turned them, and what it did to A = D
    W where nodes damp what they receive. `over_informed` says that the observer was given more than its view says
    (an upper bound, then). `links` has an entry wherever A has one and `read` says which nodes the rows read,
    before anything was rounded.

    With n unknown nodes (`unknown`, their indices in the protocol, ascending) `transition` is A, (n, n), and `rows`
    is C, (m, n). `symmetric` says that A is symmetric and has no negative entry.
    """

    unknown: np.ndarray
    transition: csr_array
    rows: np.ndarray
    last_rows: np.ndarray
    rows_error: float
    rounds: int
    symmetric: bool
    over_informed: bool
    links: csr_array
    read: np.ndarray

    @cached_property
    def adjoint(self) -> csr_array:
        """Aᵀ by rows: A itself where it is symmetric."""
        return self.transition if self.symmetric else self.transition.T.tocsr()

    @cached_property
    def power_norm(self) -> float:
        """A bound of ‖Aᵏ‖₂ for every k < T: 1 for symmetric A and √n for others, if no row sums to more than 1.

        ‖X‖₂ ≤ √n‖X‖_∞, and ‖Aᵏ‖_∞ ≤ ‖A‖_∞ᵏ; a symmetric A has ‖A‖₂ ≤ ‖A‖_∞. Row sums that rounding puts above 1
        count to the power T.

        Guarantee: upper bound.
        """
        excess = max(1.0, float(size_sums(self.transition, 1).max())) ** self.rounds
        return excess * (1.0 if self.symmetric else float(np.sqrt(self.unknown.size)))

    def hops(self) -> np.ndarray:
        """In how many rounds a contribution of each unknown node reaches the observed rows: infinite if never.

        A contribution made h hops away touches the view h rounds later: nodes T or more hops away are not seen at
        all.

        Guarantee: exact for the pattern of A and of the rows; what cancels in numbers still counts as reaching.
        """
        n, seen = self.unknown.size, np.flatnonzero(self.read)
        # One extra node that receives from every observed node; distances to it are hops + 1.
        senders = np.concatenate([self.links.indices, seen.astype(self.links.indices.dtype)])
        ends = np.append(self.links.indptr, senders.size).astype(self.links.indptr.dtype)
        joined = sparse.csr_array((np.ones(senders.size), senders, ends), shape=(n + 1, n + 1))
        return np.asarray(csgraph.dijkstra(joined, unweighted=True, indices=n)[:n] - 1)


def hidden_system(protocol: Protocol, observation: Observation, *, complete: bool = True) -> HiddenSystem:
    """The system over the nodes whose noise is unknown, and the independent rows the observer has of it.

    A known node whose inflow the observer cannot work out is handled on the safe side: with `complete` the observer
    is given that inflow (never lowers Δ), without it that node's noise is taken as unknown (never raises Δ).

    Guarantee: exact where every known node's inflow is determined by the view (all named views); otherwise an upper
    bound of what the view tells with `complete`, a lower bound without.
    Source: docs/mathematics.md, section 4. Being told more can only raise Δ: M of a part of the rows is ⪯ M of all.

    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import gossip
    >>> from sottovoce.views import View, observe
    >>> path = gossip(metropolis_weights("path:n=3"), rounds=4)
    >>> system = hidden_system(path, observe(path, View.secure_sum(0)))
    >>> system.unknown.tolist(), system.rows.tolist(), system.hops().tolist()
    ([1, 2], [[1.0, 0.0]], [0.0, 1.0])
    """
    known = observation.known
    while True:
        system, undetermined = _eliminate(protocol, observation, known)
        if complete or not undetermined:
            return system
        known = np.setdiff1d(known, undetermined)


def _eliminate(
    protocol: Protocol, observation: Observation, known: np.ndarray
) -> tuple[HiddenSystem, list[int]]:
    """The hidden system for one set of known nodes, completed; and the known nodes that needed completion.

    `now` spans what a round shows of itself, `soon` what it shows together with the round after it.
    """
    n = protocol.n
    position = np.full(n, -1, dtype=np.int64)
    unknown = np.delete(np.arange(n), known)
    if unknown.size == 0:
        raise ViewError("the observer knows the noise of every node, so nothing is hidden (leave a node out)")
    position[unknown] = np.arange(unknown.size)

    # A known node of whose senders none is unknown has no inflow to speak of. The diagonal does not count, so that
    # floats show what rationals would.
    hidden = position >= 0
    fed = _holds(protocol.schedule[0].matrix, hidden)
    fresh: list[ExactRow] = []
    delayed: list[ExactRow] = []
    for k in np.flatnonzero(_holds(observation.rows, hidden | fed)).tolist():
        row = observation.exact(k)
        seen = _restrict(row, position)
        if seen:
            fresh.append(seen)
        elif row:
            # A row of known nodes alone tells, one round later, what flowed into them: v_A A_AU s_{t−1}.
            delayed.append(_restrict(_inflow(protocol, row), position))
    inflows = {int(a): _restrict(protocol.exact_row(int(a)), position) for a in known if fed[a]}

    now = RowSpace.spanned_by(fresh)
    soon = now.extended(delayed)
    # Messages of a known node can be subtracted only by an observer who knows what flowed into that node.
    undetermined = [a for a, row in inflows.items() if row and not soon.contains(row)]
    for a in undetermined:
        now = now.extended([inflows[a]])
        soon = soon.extended([inflows[a]])

    rows, error = independent_rows(soon, unknown.size)
    last_rows, last_error = (rows, error) if soon.rank == now.rank else independent_rows(now, unknown.size)
    system = HiddenSystem(
        unknown=unknown,
        transition=_among(protocol.transition, position, unknown.size),
        rows=rows,
        last_rows=last_rows,
        rows_error=max(error, last_error) + _product_error(protocol, unknown.size),
        rounds=protocol.rounds,
        symmetric=protocol.symmetric,
        over_informed=bool(undetermined),
        links=_links(protocol, position, unknown),
        read=np.isin(np.arange(unknown.size), [j for row in soon.pivots.values() for j in row]),
    )
    return system, undetermined


def _holds(rows: csr_array, nodes: np.ndarray) -> np.ndarray:
    """Which rows have an entry in the columns of some nodes."""
    found = np.concatenate([[0], np.cumsum(nodes[rows.indices])])[rows.indptr]
    return np.asarray(found[1:] > found[:-1])


def _among(matrix: csr_array, position: np.ndarray, size: int) -> csr_array:
    """The rows and columns of the nodes that have a position, which rise with their indices, in one pass.

    Guarantee: exact: a block of the matrix, entries copied.
    """
    rows, columns = np.repeat(position, np.diff(matrix.indptr)), position[matrix.indices]
    kept = (rows >= 0) & (columns >= 0)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=size))])
    return sparse.csr_array((matrix.data[kept], columns[kept], ends), shape=(size, size))


def _links(protocol: Protocol, position: np.ndarray, unknown: np.ndarray) -> csr_array:
    """1 wherever A = D W has an entry: also where the float of a product of tiny numbers is 0.

    Guarantee: exact: an entry that floats round to 0 is still a link, so that who is reached is decided on the
    pattern.
    """
    links = _among(protocol.weights.matrix, position, unknown.size)
    passes = np.ones(protocol.n) if protocol.damping is None else (protocol.damping != 0).astype(np.float64)
    links.data = np.repeat(passes[unknown], np.diff(links.indptr))
    links.eliminate_zeros()
    return links


def _product_error(protocol: Protocol, size: int) -> float:
    """A bound of ‖fl(D W) − D W‖₂: no entry errs by more than one unit, and ‖ |D W| ‖₂ ≤ √n.

    Guarantee: upper bound; 0 without damping, where the rounding of W itself is counted elsewhere.
    """
    return 0.0 if protocol.damping is None else float(roundings(2) * np.sqrt(size))


def _restrict(row: ExactRow, position: np.ndarray) -> ExactRow:
    """The part of a row that falls on unknown nodes, in their positions."""
    return {int(position[j]): x for j, x in row.items() if position[j] >= 0 and x}


def _inflow(protocol: Protocol, row: ExactRow) -> ExactRow:
    """Row · A, in rationals.

    Guarantee: exact.
    """
    total: ExactRow = {}
    for a, factor in row.items():
        for j, x in protocol.exact_row(a).items():
            total[j] = total.get(j, x * 0) + factor * x
    return total
