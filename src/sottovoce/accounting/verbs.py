# SPDX-License-Identifier: Apache-2.0
"""`account`, `account_all` and `calibrate`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.accounting.table import AccountTable
from sottovoce.errors import positive, probability
from sottovoce.scenarios import Words, asked
from sottovoce.sensitivities import (
    SharedQuestions,
    carried_views,
    portion_of,
    sensitivity,
    sharpened_views,
    solves_each,
)
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities import Sensitivities
    from sottovoce.views import View

__all__ = ["Interrupted", "account", "account_all", "calibrate", "table_of"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while `account_all` goes through observers: `table` holds the pairs of those that were finished.

    `pairs` is how many were asked for.
    """

    def __init__(self, table: AccountTable, pairs: int) -> None:
        """Keep what there is."""
        super().__init__(f"interrupted after {len(table)} of {pairs} pairs")
        self.table = table
        self.pairs = pairs


def account(
    question: Scenario | Protocol,
    view: View | None = None,
    *,
    noise_multiplier: float,
    delta: float,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[Words],
) -> AccountTable:
    """What one view gives away about each target, over all rounds of the protocol.

        μ = factor·Δ/noise_multiplier,   factor 1 (add-remove, zero-out) or 2 (replace-one).

    Args:
        question: a `Scenario` of one view; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: what the observer sees and whose noise it knows, such as `View.secure_sum(3)`.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        progress: called with (targets done, targets in all).
        words: as in `sottovoce.scenarios.Words`: `targets`, `relation`, `contribution`, `participation`, and what may
            be spent.

    Guarantee: the ends of every interval hold, rounding included, for contributions that are fixed in advance
    or depend only on what the observer has seen; with a protocol that damps, also on hidden states as quadratic
    losses make them.
    Source: Theorem 12 of Koskela & Kulkarni for Δ; Dong, Roth & Su 2022 for μ.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.protocols import gossip
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    >>> table = account(ring, View.secure_sum(0), noise_multiplier=2.0, delta=1e-5)
    >>> table.epsilon_upper.round(2)
    array([2.42, 0.65, 0.24, 0.65, 2.42])
    """
    scenario, effort = asked(question, view, words)
    _check_mechanism(scenario, noise_multiplier, delta)
    found = sensitivity(scenario, effort=effort, progress=progress)
    return table_of(scenario, [found], noise_multiplier=noise_multiplier, delta=delta)


def account_all(
    question: Scenario | Protocol,
    view: View | str | None = None,
    *,
    noise_multiplier: float,
    delta: float,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[Words],
) -> AccountTable:
    """What each observer in turn learns about each target, all with the view of one name.

    Args:
        question: a `Scenario`; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: "neighbourhood", "secure-sum", "single-node", or "everyone", which is the same whoever observes; a `View`,
            or the name of a coalition's with its `observers`, is one view alone.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        progress: called with (pairs done, pairs in all).
        words: as in `sottovoce.scenarios.Words`.

    Guarantee: as for `account`. Ctrl-C raises `Interrupted`, which holds the pairs of all observers that were finished.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> path = gossip(graphs.metropolis_weights("path:n=3"), rounds=2)
    >>> table = account_all(path, "secure-sum", noise_multiplier=5.0, delta=1e-5, observers=[0, 1])
    >>> table.mu_upper.round(3)
    array([0.276, 0.063, 0.2  , 0.2  ])
    """
    scenario, effort = asked(question, view, words)
    _check_mechanism(scenario, noise_multiplier, delta)
    found: list[Sensitivities] = []
    questions = scenario.each()
    total = sum(one.pairs for one in questions)
    try:
        seen_by_all = scenario.view_name == "everyone"
        if scenario.protocol.updates is None or seen_by_all or solves_each(effort.depth, total):
            _one_by_one(questions, effort, total, progress, found)
        else:
            _together(questions, effort, total, progress, found)
    except KeyboardInterrupt:
        if not found:
            raise
        kept = table_of(scenario, found, noise_multiplier=noise_multiplier, delta=delta)
        raise Interrupted(kept, total) from None
    return table_of(scenario, found, noise_multiplier=noise_multiplier, delta=delta)


def _one_by_one(
    questions: Sequence[Scenario],
    effort: Effort,
    total: int,
    progress: Callable[[int, int], None] | None,
    found: list[Sensitivities],
) -> None:
    """Put what each view gives away into `found`, where it stays if an interrupt comes."""
    before = [0, *itertools.accumulate(one.pairs for one in questions)]

    def portion(number: int) -> Callable[[int, int], None] | None:
        return portion_of(progress, before[number], questions[number].pairs, total)

    for number, answer in enumerate(carried_views(questions, effort, portion)):
        found.append(answer)
        if progress is not None:
            progress(before[number + 1], total)


def _together(
    questions: Sequence[Scenario],
    effort: Effort,
    total: int,
    progress: Callable[[int, int], None] | None,
    found: list[Sensitivities],
) -> None:
    """The same for views of training whose pairs are sharpened together, while they may be the worst.

    An interrupt leaves what every pair had been bounded by until then, which holds: sharpening only lowers upper
    ends.
    """
    shared = SharedQuestions(questions)
    work = sharpened_views(shared.looked_at, effort)
    try:
        work.pairs.run(portion_of(progress, 0, total, total))
    finally:
        begun = work.found()
        found.extend(
            shared.answer(number, begun[source])
            for number, source in enumerate(shared.source)
            if source < len(begun)
        )


def table_of(
    scenario: Scenario, found: Sequence[Sensitivities], *, noise_multiplier: float, delta: float
) -> AccountTable:
    """The sensitivities of one or many views of a scenario as a table.

    Rows stand in the order of `found`, and within each in that of its targets.

    Guarantee: that of the sensitivities, whose ends are taken over as they are; the assumption is the strongest that
    any of their methods needs.
    """
    method = np.concatenate([each.method for each in found])
    return AccountTable(
        scenario=scenario,
        noise_multiplier=noise_multiplier,
        delta=delta,
        observers=tuple(each.view.observers for each in found),
        observer_of=np.repeat(np.arange(len(found)), [len(each) for each in found]),
        target_indices=np.concatenate([each.indices for each in found]),
        squared_lower=np.concatenate([each.squared_lower for each in found]),
        squared_upper=np.concatenate([each.squared_upper for each in found]),
        method=method,
        assumption=rests_on(scenario.protocol, scenario.view, set(method.tolist())),
    )


def calibrate(
    question: Scenario | Protocol,
    view: View | str | None = None,
    *,
    target_epsilon: float,
    target_delta: float,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[Words],
) -> float:
    """The smallest noise multiplier at which the worst pair is (target_epsilon, target_delta)-private.

        noise_multiplier = factor·Δ/μ(ε, δ),   Δ the largest upper end over the pairs.

    Args:
        question: a `Scenario`; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: one View, or a name that stands for every observer in turn, as in `account_all`.
        target_epsilon: the ε to reach, over all rounds.
        target_delta: the δ at which to reach it.
        progress: called with (pairs done, pairs in all).
        words: as in `sottovoce.scenarios.Words`.

    Guarantee: rounded up and re-checked; the account at this noise has every upper end of ε at most
    `target_epsilon`.
    Source: Balle & Wang 2018, Algorithm 1 (the analytic Gaussian mechanism).

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=100)
    >>> round(calibrate(ring, "everyone", target_epsilon=1.0, target_delta=1e-5), 4)
    37.3063
    """
    positive(target_epsilon=target_epsilon)
    probability(target_delta=target_delta)
    scenario, effort = asked(question, view, words)
    table = account_all(scenario, noise_multiplier=1.0, delta=target_delta, effort=effort, progress=progress)
    return table.calibrated_noise(target_epsilon, target_delta)


def _check_mechanism(scenario: Scenario, noise_multiplier: float, delta: float) -> None:
    """Refuse what makes no guarantee before the work that it would spoil."""
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta)
    scenario.check_relation()
