# SPDX-License-Identifier: Apache-2.0
"""`Shards`: which node holds which records, as arrays over all nodes at once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least, positive
from sottovoce.learning.rounding import ball_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sottovoce.learning.data import Data

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Shards", "in_ball", "shards_of", "split"]

_ATTEMPTS = 200
_BINS = 10
# Features beyond this, or below its inverse, are scaled before their squares are summed.
_FIT = 2.0**100


@dataclass(frozen=True, kw_only=True, eq=False)
class Shards:
    """The records of n nodes, padded to the longest shard: features (n, m, p), labels (n, m), `present` (n, m).

    `nominal` is the public number that every node divides its sum by, whatever it holds: so the sensitivity is the
    same on all nodes, and no true count leaves a node. It is also the most records that a node may train on.
    """

    features: Array
    labels: Array | NDArray[np.int64]
    present: NDArray[np.bool_]
    nominal: int

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together, and nodes without records."""
        at_least(1, nominal=self.nominal)
        # Norms and sums are those of float64, whatever the records come as.
        object.__setattr__(self, "features", np.asarray(self.features, dtype=np.float64))
        n, m, _ = self.features.shape
        if self.labels.shape != (n, m) or self.present.shape != (n, m):
            raise InputError(
                f"labels and present must have shape {(n, m)}, as the features of the shards have; got "
                f"{self.labels.shape} and {self.present.shape}"
            )
        empty = np.flatnonzero(~self.present.any(axis=1))
        if empty.size:
            raise InputError(
                f"every node needs at least one record; node {int(empty[0])} has none "
                "(take fewer nodes, more records or less skew)"
            )

    @property
    def nodes(self) -> int:
        """How many nodes hold records."""
        return len(self.features)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many records each node holds; these numbers are not public."""
        return np.asarray(self.present.sum(axis=1))

    @cached_property
    def scaled(self) -> tuple[Array, Array | None, NDArray[np.bool_] | None]:
        """Features whose squares neither overflow nor vanish: x = size·(scaled x), sizes powers of two, shape (n, m).

        Records that are not finite are zeros there, and marked. Where all records are fit, as they should be, these are
        the features themselves, None and None.
        """
        peaks = np.abs(self.features).max(axis=2, initial=0.0)
        broken = ~np.isfinite(peaks)
        wild = broken | (peaks > _FIT) | ((peaks > 0) & (peaks < 1 / _FIT))
        if not wild.any():
            return self.features, None, None
        sizes = np.ldexp(1.0, np.where(wild & ~broken, np.frexp(np.where(broken, 1.0, peaks))[1] - 1, 0))
        return np.where(broken[:, :, None], 0.0, self.features) / sizes[:, :, None], sizes, broken

    @cached_property
    def norms(self) -> Array:
        """The Euclidean norm of each record's scaled features, shape (n, m)."""
        features = self.scaled[0]
        return np.asarray(np.sqrt(np.einsum("nmp,nmp->nm", features, features)))

    def within(self, radius: float, outputs: int = 1) -> Shards:
        """The same shards with each record that is longer than `radius` scaled down to it, by itself: see `in_ball`."""
        asked = radius, outputs
        if asked not in self._balls:
            inside = in_ball(self.features, radius, outputs, self.nominal)
            same = np.array_equal(inside, self.features, equal_nan=True)
            self._balls[asked] = self if same else replace(self, features=inside)
        return self._balls[asked]

    @cached_property
    def _balls(self) -> dict[tuple[float, int], Shards]:
        """What `within` has found, as every round asks for it."""
        return {}

    @cached_property
    def pooled(self) -> tuple[Array, Array | NDArray[np.int64]]:
        """All records together: features (N, p) and labels (N,)."""
        return self.features[self.present], self.labels[self.present]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what each node holds."""
        digest = hashlib.sha256(f"{self.features.shape} {self.nominal}".encode())
        for part in (self.features, self.labels.astype(np.float64), self.present):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


def in_ball(rows: Array, radius: float, outputs: int = 1, records: int = 1) -> Array:
    """Rows along the last axis, those longer than `radius` scaled down to it; rows that are not finite as they are.

    A gradient has so many `outputs` for each feature, and a node sums those of so many `records` at most.

    Guarantee: norms of finite rows are at most `radius`, in exact arithmetic, however many features there are; so much
    below it that no gradient x·rᵀ with |r| ≤ ρ, nor the mean of those of a node, is cut by a clip of ρ·radius.
    Source: docs/proofs/clips.md, "Records in a ball".

    >>> in_ball(np.array([[3.0, 4.0], [0.0, 0.5]]), 1.0).round(6).tolist()
    [[0.6, 0.8], [0.0, 0.5]]
    """
    rows = np.asarray(rows, dtype=np.float64)
    limit = ball_limit(radius, (rows.shape[-1] + 1) * outputs, records)
    peaks = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    finite = np.isfinite(peaks)
    peaks = np.where(finite & (peaks > 0), peaks, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        directions = rows / peaks
        norms = np.sqrt((directions**2).sum(axis=-1, keepdims=True))
        outside = finite & (peaks * norms > limit)
        return np.where(outside, directions * (limit / np.where(outside, norms, 1.0)), rows)


def split(
    data: Data, nodes: int, *, nominal: int | None = None, skew: float | None = None, seed: int = 0
) -> Shards:
    """Deal the records to the nodes: at random in equal parts, or with a `skew` by Dirichlet proportions.

    With `skew` the records of each class (each tenth of the range, for numbers) go to the nodes in proportions
    drawn from a Dirichlet distribution with that parameter: 100 is nearly even, 0.1 leaves most nodes few classes.

    `nominal` is the public shard size: the number to divide by, and the most records that a node gets. Without it the
    published number of records over the number of nodes is taken, rounded up; for data whose size is not public it has
    to be given. Records that would be too many for their node go to nodes that have room, as long as there are any.

    Records of clients are not dealt: node k holds what client k has, all of it, so no client may have more than
    `nominal`.
    """
    at_least(1, nodes=nodes)
    at_least(0, seed=seed)
    if data.owner is not None and len(data.clients) != nodes:
        raise InputError(
            f"{data.name}: there must be one node for each client; got {nodes} nodes and {len(data.clients)} clients "
            f"(take a graph of {len(data.clients)} nodes)"
        )
    if data.owner is not None and skew is not None:
        raise InputError(
            f"{data.name}: records of clients are not dealt; got a skew of {skew!r} (leave it out)"
        )
    if data.records < nodes:
        raise InputError(
            f"{data.name}: every node needs at least one record; there are {data.records} for {nodes} nodes "
            "(take fewer nodes)"
        )
    if nominal is None:
        if data.published_records is None:
            raise InputError(
                f"nominal must be given, a public shard size to divide by; how many records {data.name} has is not "
                f"public (the true mean is {data.records // nodes}, if that may be known)"
            )
        nominal = -(-data.published_records // nodes)
    at_least(1, nominal=nominal)
    if data.owner is not None:
        return _by_client(data, data.owner, nominal)
    rng = np.random.default_rng([int(seed), 2])
    owner = _even(data, nodes, rng) if skew is None else _skewed(data, nodes, skew, rng)
    return _dealt(data, _levelled(owner, nodes, int(nominal), rng), nodes, nominal)


def _by_client(data: Data, owner: NDArray[np.int64], nominal: int) -> Shards:
    """Each client's records at its own node; which of too many to leave out would depend on the others of them."""
    counts = np.bincount(owner, minlength=len(data.clients))
    largest = int(counts.argmax())
    if counts[largest] > nominal:
        raise InputError(
            f"{data.name}: no node may hold more records than the public shard size, {nominal}; "
            f"{data.clients[largest]} has {counts[largest]} (give a larger one, "
            "or leave records out by a rule that looks at each alone)"
        )
    return _dealt(data, owner, len(data.clients), nominal)


def _dealt(data: Data, owner: NDArray[np.int64], nodes: int, nominal: int) -> Shards:
    """The records at the nodes that own them."""
    return shards_of(
        [data.features[owner == node] for node in range(nodes)],
        [data.labels[owner == node] for node in range(nodes)],
        nominal=nominal,
    )


def shards_of(
    features: Sequence[Array], labels: Sequence[Array | NDArray[np.int64]], *, nominal: int
) -> Shards:
    """Shards from the records of each node."""
    most = max(len(part) for part in features)
    n, width = len(features), features[0].shape[1]
    padded = np.zeros((n, most, width))
    marks: Array | NDArray[np.int64] = np.zeros((n, most), dtype=labels[0].dtype)  # type: ignore[assignment]
    present = np.zeros((n, most), dtype=np.bool_)
    for node, (rows, names) in enumerate(zip(features, labels, strict=True)):
        padded[node, : len(rows)] = rows
        marks[node, : len(rows)] = names
        present[node, : len(rows)] = True
    return Shards(features=padded, labels=marks, present=present, nominal=nominal)


def _even(data: Data, nodes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The owner of each record, all owners alike."""
    return np.asarray(rng.permutation(np.arange(data.records) % nodes))


def _levelled(owner: NDArray[np.int64], nodes: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The owners with no more than `most` records each; −1 for records that nobody has room for."""
    counts = np.bincount(owner, minlength=nodes)
    surplus = [
        rng.choice(np.flatnonzero(owner == node), counts[node] - most, replace=False)
        for node in np.flatnonzero(counts > most)
    ]
    if not surplus:
        return owner
    moved = rng.permutation(np.concatenate(surplus))
    room = rng.permutation(np.repeat(np.arange(nodes), np.maximum(most - counts, 0)))
    levelled = owner.copy()
    levelled[moved] = -1
    levelled[moved[: len(room)]] = room[: len(moved)]
    return levelled


def _skewed(data: Data, nodes: int, skew: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The owner of each record by Dirichlet proportions, drawn again until no node is without records."""
    positive(skew=skew)
    kinds = data.labels if data.classes else _tenths(data.labels)
    for _ in range(_ATTEMPTS):
        owner = np.empty(data.records, dtype=np.int64)
        for kind in np.unique(kinds):
            places = np.flatnonzero(kinds == kind)
            shares = rng.dirichlet(np.full(nodes, skew))
            owner[places] = rng.choice(nodes, size=len(places), p=shares)
        if len(np.unique(owner)) == nodes:
            return owner
    raise InputError(
        f"{data.name}: a skew of {skew!r} leaves some of the {nodes} nodes without records in each of {_ATTEMPTS} "
        "draws (raise the skew, or take fewer nodes)"
    )


def _tenths(labels: Array | NDArray[np.int64]) -> NDArray[np.int64]:
    """In which tenth of the labels' range each lies."""
    low, high = float(labels.min()), float(labels.max())
    if low == high:
        return np.zeros(len(labels), dtype=np.int64)
    return np.minimum(_BINS * (labels - low) / (high - low), _BINS - 1).astype(np.int64)
