# SPDX-License-Identifier: Apache-2.0
"""`summarise`: the telling pairs of a sweep at one noise and one δ, found by passing over its parts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Unpack

import numpy as np

from sottovoce import gaussian
from sottovoce.accounting import RELATIONS, Account, mu_ends
from sottovoce.errors import at_least, one_of, positive, probability
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.protocols import check_identity, exact_span
from sottovoce.sweeps.reading import SweepTable, read_sweep
from sottovoce.views import assumption_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from sottovoce.accounting import Facts, Relation
    from sottovoce.sweeps.manifest import Manifest

__all__ = ["Summary", "summarise"]

# A float that is not negative orders like the whole number with the same bits, of which a pass decides these many.
DIGIT = 16
DIGITS = 64 // DIGIT


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The worst, the median and the best pair of a sweep, and the most exposed targets, as accounts.

    `most_exposed` holds for each of the targets about which most is learnt, worst first, the account of the
    observer that learns most. `epsilon_upper` is the largest upper end of ε over all pairs. `local` and
    `central` are what local DP and central aggregation give at the same noise; None for a program, whose weights a
    sweep does not keep (`local_account` takes the protocol itself).
    """

    manifest: Manifest
    noise_multiplier: float
    delta: float
    relation: Relation
    worst: Account
    median: Account
    best: Account
    most_exposed: tuple[Account, ...]
    epsilon_upper: float
    local: Account | None
    central: Account | None

    def __len__(self) -> int:
        """How many pairs the sweep holds."""
        return self.manifest.pairs


class _Extremes(NamedTuple):
    """Places of the worst and the best pair, and for each target its worst μ with the place of that pair."""

    worst: int
    best: int
    largest: float
    exposure: np.ndarray
    place: np.ndarray


def summarise(
    folder: str | os.PathLike[str] | SweepTable,
    *,
    noise_multiplier: float,
    delta: float,
    relation: Relation = "add-remove",
    exposed: int = 10,
) -> Summary:
    """The telling pairs of a finished sweep, at one noise and one δ.

        μ = factor·Δ/noise_multiplier,   factor 1 (add-remove, zero-out) or 2 (replace-one).

    Args:
        folder: where `sweep` put the parts, or what `read_sweep` gave.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
        exposed: how many of the most exposed targets to list.

    Guarantee: the pairs and accounts are those that an `AccountTable` of all pairs names worst, median, best
    and most exposed. Memory grows with the number of nodes and not of pairs; the parts are read seven times.
    Source: Dong, Roth & Su 2022 for μ.

    >>> import tempfile
    >>> from sottovoce import gossip, graphs
    >>> from sottovoce.sweeps import sweep
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     done = sweep(ring, "secure-sum", directory)
    ...     found = summarise(directory, noise_multiplier=2.0, delta=1e-5)
    >>> round(found.epsilon_upper, 3), round(found.local.epsilon().upper, 3)
    (2.421, 3.709)
    """
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta)
    one_of(RELATIONS, relation=relation)
    at_least(1, exposed=exposed)
    table = folder if isinstance(folder, SweepTable) else read_sweep(folder)
    if (
        (slopes := table.manifest.updates) is not None
        and slopes.lower is not None
        and slopes.upper is not None
    ):
        check_identity(exact_span(slopes.lower, slopes.upper), relation, holds=slopes.hold_identity)
    pairs = _Pairs(table=table, noise_multiplier=noise_multiplier, delta=delta, relation=relation)
    extremes = pairs.extremes()
    order = np.lexsort((extremes.place, -extremes.exposure))[: int(exposed)]
    places = [extremes.worst, pairs.median(), extremes.best, *extremes.place[order].tolist()]
    accounts, epsilon_upper = pairs.accounts(places, extremes.largest)
    worst, median, best, *most = (accounts[place] for place in places)
    return Summary(
        manifest=table.manifest,
        noise_multiplier=noise_multiplier,
        delta=delta,
        relation=relation,
        worst=worst,
        median=median,
        best=best,
        most_exposed=tuple(most),
        epsilon_upper=max(epsilon_upper, worst.epsilon(delta).upper),
        local=pairs.compared("local"),
        central=pairs.compared("central"),
    )


@dataclass(frozen=True, kw_only=True)
class _Pairs:
    """The pairs of a sweep at one noise, passed over in the order of observers and targets."""

    table: SweepTable
    noise_multiplier: float
    delta: float
    relation: Relation

    def mu(self) -> Iterator[np.ndarray]:
        """The upper ends of μ, batch by batch.

        Guarantee: upper bounds, those of `mu_ends`.
        """
        for batch in self.table.batches(["squared_upper"]):
            yield self._mu(batch.column(0).to_numpy())

    def extremes(self) -> _Extremes:
        """One pass for the ends of the order; the first of equals counts.

        Guarantee: exact, as an order of upper ends: no pair of the sweep has a larger one than `worst`, nor a target
        than its own.
        """
        nodes = self.table.manifest.nodes
        exposure, place = np.full(nodes, -np.inf), np.zeros(nodes, dtype=np.int64)
        worst, best, largest, smallest, start = 0, 0, -np.inf, np.inf, 0
        for batch in self.table.batches(["target", "squared_upper"]):
            targets = batch.column("target").to_numpy()
            mu = self._mu(batch.column("squared_upper").to_numpy())
            top, low = int(np.argmax(mu)), int(np.argmin(mu))
            if mu[top] > largest:
                worst, largest = start + top, float(mu[top])
            if mu[low] < smallest:
                best, smallest = start + low, float(mu[low])
            # Sorted by target and then from the largest μ down, the first pair of each target is its worst here.
            order = np.lexsort((np.arange(len(mu)), -mu, targets))
            found, first = np.unique(targets[order], return_index=True)
            here = order[first]
            more = mu[here] > exposure[found]
            exposure[found[more]], place[found[more]] = mu[here[more]], start + here[more]
            start += len(mu)
        return _Extremes(worst, best, largest, exposure, place)

    def median(self) -> int:
        """The place of the middle pair, the lower of two, as a stable sort by μ finds it.

        Each pass decides the next 16 bits of the middle μ, and a last one counts to the pair among its equals.

        Guarantee: exact: floats that are not negative are ordered as their bits are.
        """
        rank, bits = (len(self.table) - 1) // 2, 0
        for digit in reversed(range(DIGITS)):
            counts = np.zeros(1 << DIGIT, dtype=np.int64)
            for mu in self.mu():
                ahead = mu.view(np.uint64) >> np.uint64(DIGIT * digit)
                near = ahead[(ahead >> np.uint64(DIGIT)) == bits] if digit < DIGITS - 1 else ahead
                counts += np.bincount((near & np.uint64(0xFFFF)).astype(np.int64), minlength=1 << DIGIT)
            below = np.cumsum(counts)
            found = int(np.searchsorted(below, rank, side="right"))
            rank -= int(below[found - 1]) if found else 0
            bits = bits << DIGIT | found
        start = 0
        for mu in self.mu():
            equal = np.flatnonzero(mu.view(np.uint64) == bits)
            if rank < len(equal):
                return start + int(equal[rank])
            rank -= len(equal)
            start += len(mu)
        raise AssertionError("the parts changed while they were read")

    def accounts(self, places: list[int], largest: float) -> tuple[dict[int, Account], float]:
        """The accounts of the pairs at some places, and the largest upper end of ε over all pairs.

        Rounding may put the ε of a pair whose μ all but equals the `largest` above that of the worst pair.

        Guarantee: each account is that of `Account.of`; the largest ε is an upper bound for every pair. ε grows by at
        least 0.8·μ times a share of μ, so that one whose μ is 10⁻⁹ smaller than the largest cannot be put above it by
        rounding.
        """
        wanted = np.unique(places)
        found: dict[int, Account] = {}
        start, highest = 0, 0.0
        for batch in self.table.batches():
            inside = wanted[(wanted >= start) & (wanted < start + len(batch))]
            for place in inside.tolist():
                found[place] = self._account(**batch.slice(place - start, 1).to_pylist()[0])
            mu = self._mu(batch.column("squared_upper").to_numpy())
            near = np.unique(mu[mu >= largest * (1 - 1e-9)])
            if near.size:
                highest = max(highest, float(np.max(gaussian.epsilon(near, self.delta))))
            start += len(batch)
        return found, highest

    def compared(self, kind: str) -> Account | None:
        """Local DP, where every message is seen (Δ² = T), or central aggregation (Δ² = T/n), at this noise.

        Guarantee: exact Δ² but for one rounding outward; None for programs, whose local DP is no count of rounds.
        """
        manifest = self.table.manifest
        if not manifest.protocol.plain and manifest.updates is None:
            return None
        rounds = Participation.parse(manifest.participation).largest_count(manifest.rounds)
        squared = Interval.exactly(1.0 if manifest.contribution == "energy" else float(rounds))
        known = manifest.updates
        least, total = (1, manifest.nodes) if known is None else (known.least_noise, known.total_noise)
        variance = Fraction(total if kind == "central" else least)
        if variance != 1:
            squared = squared.mapped(lambda count: float(Fraction(count) / variance))
        return self._of(
            squared,
            method="local DP" if kind == "local" else "central aggregation",
            assumption=assumption_of("everyone" if kind == "local" else "central", None),
            view="everyone" if kind == "local" else "central",
            participation=manifest.participation,
        )

    def _account(
        self, *, observer: int, target: int, squared_lower: float, squared_upper: float, method: str
    ) -> Account:
        """The account of one row."""
        manifest = self.table.manifest
        return self._of(
            Interval(squared_lower, squared_upper),
            method=method,
            contribution=manifest.contribution,
            assumption=manifest.rests_on([method]),
            view=manifest.view,
            observers=(manifest.labels[observer],),
            target=manifest.labels[target],
            participation=manifest.participation,
        )

    def _of(self, squared: Interval, *, method: str, **facts: Unpack[Facts]) -> Account:
        """An account at this noise and δ, under this relation."""
        return Account.of(
            squared,
            method=method,
            relation=self.relation,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
            **facts,
        )

    def _mu(self, squared: np.ndarray) -> np.ndarray:
        """Upper ends of μ."""
        ends = mu_ends(squared, squared, relation=self.relation, noise_multiplier=self.noise_multiplier)
        return ends[1]
