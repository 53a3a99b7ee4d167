# SPDX-License-Identifier: Apache-2.0
"""ε against rounds: Δ² of the worst, the median and the best target of a view, for growing horizons.

A curve is a few accounts of the same view over fewer rounds. Nothing is interpolated: points are certified one by
one, and monotonicity says what lies between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.accounting.verbs import account
from sottovoce.errors import InputError, at_least
from sottovoce.scenarios import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting.table import AccountTable
    from sottovoce.interval import Interval
    from sottovoce.scenarios import Scenario

__all__ = ["Curve", "horizons", "table_curve", "table_curves", "view_curve"]

_PAIRS = 4000


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Δ² of the worst, the median and the best target of one view, for several numbers of rounds.

    `counts` are the rounds in which a target contributes at most: Δ² of local DP in plain gossip. It is empty where Δ²
    of local DP is another, as with programs.
    """

    observers: tuple[int, ...]
    rounds: tuple[int, ...]
    counts: tuple[int, ...]
    worst: tuple[Interval, ...]
    median: tuple[Interval, ...]
    best: tuple[Interval, ...]


def horizons(rounds: int, count: int = 8) -> tuple[int, ...]:
    """About `count` numbers of rounds up to `rounds`, evenly spaced on a logarithmic axis.

    The first is 1 and the last is `rounds`; fewer than `count` come out where rounding makes two the same.

    >>> horizons(100)
    (1, 2, 4, 7, 14, 27, 52, 100)
    """
    at_least(1, rounds=rounds, count=count)
    spaced = np.round(np.geomspace(1, rounds, count)).astype(int)
    return tuple(sorted({*spaced.tolist(), int(rounds)}))


def view_curve(scenario: Scenario, *, progress: Callable[[int, int], None] | None = None) -> Curve:
    """Δ² of the worst, the median and the best target of one view, for numbers of rounds up to the protocol's.

    Guarantee: each point is the certified interval of Δ² for that many rounds; between points Δ² lies between
    theirs, since it never falls as rounds are added.
    """
    protocol, view = scenario.protocol, scenario.one_view
    points: list[tuple[int, int, tuple[Interval, ...]]] = []
    spaced = horizons(protocol.rounds)
    # In training the worst target is what takes time.
    effort = Effort(depth="auto" if protocol.updates is None else "bulk")
    for done, rounds in enumerate(spaced, start=1):
        try:
            shorter = replace(scenario, protocol=replace(protocol, rounds=rounds))
        except InputError:
            # Fixed rounds do not fit every shorter run.
            continue
        # Δ² depends neither on the noise nor on δ, which only have to be something.
        found = account(shorter, noise_multiplier=1.0, delta=0.5, effort=effort)
        points.append((rounds, shorter.participation.largest_count(rounds), _three(found)))
        if progress is not None:
            progress(done, len(spaced))
    counted = protocol.plain and scenario.contribution != "energy"
    return Curve(
        observers=tuple(protocol.index(label) for label in view.observers),
        rounds=tuple(rounds for rounds, _, _ in points),
        counts=tuple(count for _, count, _ in points) if counted else (),
        worst=tuple(three[0] for _, _, three in points),
        median=tuple(three[1] for _, _, three in points),
        best=tuple(three[2] for _, _, three in points),
    )


def table_curve(
    table: AccountTable, row: int, *, progress: Callable[[int, int], None] | None = None
) -> Curve:
    """The curve of the view and the targets that row `row` of `table.observers` stands for.

    Guarantee: that of `view_curve`.
    """
    chosen = table.target_indices[table.observer_of == row]
    targets = [table.protocol.labels[index] for index in chosen]
    return view_curve(table.scenario.of(table.view_of(row), targets), progress=progress)


def table_curves(
    table: AccountTable,
    *,
    most_pairs: int = _PAIRS,
    progress: Callable[[int, int], None] | None = None,
) -> Sequence[Curve]:
    """The curves of the observers that learn most, as many as `most_pairs` allow and at least one.

    Observers are ranked by the largest upper end of Δ² over their targets; a curve costs as many accounts as it has
    points, so `most_pairs` bounds the work.

    Guarantee: that of `view_curve` for each; nothing is claimed of observers that are left out.
    """
    worst = np.zeros(len(table.observers))
    np.maximum.at(worst, table.observer_of, table.squared_upper)
    order = np.argsort(-worst, kind="stable")
    size = -(-len(table) // len(table.observers)) * len(horizons(table.protocol.rounds))
    chosen = order[: max(1, most_pairs // size)]
    curves = []
    for done, row in enumerate(chosen.tolist(), start=1):
        curves.append(table_curve(table, row))
        if progress is not None:
            progress(done, len(chosen))
    return curves


def _three(table: AccountTable) -> tuple[Interval, ...]:
    """Δ² of the worst, the median and the best target."""
    found = [each.sensitivity_squared for each in (table.worst(), table.median(), table.best())]
    return tuple(interval for interval in found if interval is not None)
