# SPDX-License-Identifier: Apache-2.0
"""`training_sensitivity`: one view and one target; `training_pairs`: the worst of many pairs, every one proved.

Upper ends come from `candidates` and `pairs`, lower ends from `attacks`. These functions only decide whom to ask,
and put the answers together; what they return is sound because every upper end was proved before it got here, for
the same question (`TrainingView.about`). The theorem, what it assumes and its proof are in docs/training.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import InputError, one_of
from sottovoce.feedback.attacks import best_attack, lasting_rates, rate_attack
from sottovoce.feedback.candidates import GAPS, SearchEffort, best_proved, stages_of
from sottovoce.feedback.pairs import Sharpening, first_bounds
from sottovoce.feedback.problem import training, training_of
from sottovoce.feedback.results import TrainingPairs, TrainingRates, TrainingSensitivity
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.threads import one_blas_thread
from sottovoce.views import View, target_indices, training_assumption

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import ArrayLike

    from sottovoce.feedback.problem import TrainingView
    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol

__all__ = [
    "SearchEffort",
    "training_pairs",
    "training_rates",
    "training_sensitivities",
    "training_sensitivity",
]

# Pairs are compared in networks of at most so many nodes: every view holds its own hidden loop.
MOST_NODES = 4000
# So few targets are solved for one by one when a rate is asked for.
MOST_SOLVED = 24
# Rounds beyond the number of nodes for which a rate is solved; too many for steps of single rounds.
LONG = 1024


@one_blas_thread()
def training_sensitivity(
    weights: GossipWeights,
    view: View,
    target: Hashable,
    *,
    rounds: int,
    updates: tuple[ArrayLike, ArrayLike] | Literal["any"],
    noise_levels: ArrayLike | None = None,
    participation: Participation | str | None = None,
    effort: SearchEffort = "auto",
) -> TrainingSensitivity:
    """How far one record of `target` can move what a view shows of training, whatever the losses, as an interval of Δ².

    Every node k updates what it received, sends it with fresh noise, and mixes what it is sent:

        s_t = g_t(z_t) + u_t,   u_t ~ N(0, σ² q_k I),   z_{t+1} = W s_t,

    with ‖g(z′) − g(z) − c(z′ − z)‖ ≤ r‖z′ − z‖ for all hidden nodes, c ± r being the slopes `updates`.

    Args:
        weights: the gossip matrix.
        view: what the observer sees and whose noise it knows.
        target: the node whose record is protected.
        rounds: T.
        updates: (lower, upper) slopes of the update maps, one pair or one a node; (1 − ηL, 1) for steps of size η on
            convex losses of smoothness L. "any" for maps of which nothing is known.
        noise_levels: q, the variance of every node's noise in units of σ²; 1 if None.
        participation: the rounds in which the record takes part; all if None.
        effort: "fine" looks for the optimum to six digits, "quick" to three and without steps for single rounds.

    Guarantee: the view is (√Δ²/σ)-GDP in both orders with Δ² at most the upper end, rounding included, for vectors of
    any dimension and against observers who send what they like. `method` is the best of `shift` (the matrix
    inequality), `memory-one`, `twins` and `cap`. The lower end is what a linear loop in the ball attains.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.

    >>> from sottovoce import graphs
    >>> star = graphs.metropolis_weights("star:n=3")
    >>> found = training_sensitivity(star, View.secure_sum(0), 1, rounds=2, updates=(0, 1))
    >>> found.method, round(found.squared.lower, 3), round(found.squared.upper, 3)
    ('shift', 1.3, 1.3)
    """
    one_of(GAPS, effort=effort)
    case = training(
        weights,
        view,
        rounds=rounds,
        updates=updates,
        noise_levels=noise_levels,
        participation=participation,
    )
    (index,) = target_indices(case.protocol, view, case.known, [target])
    return _measured(case, int(index), effort)


@one_blas_thread()
def training_sensitivities(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    *,
    participation: Participation,
    effort: SearchEffort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[TrainingSensitivity]:
    """`training_sensitivity` for the nodes at `indices`, of a protocol with `updates`.

    Args:
        protocol: gossip with `updates`; its noise levels are deviations.
        view: what the observer sees and whose noise it knows.
        indices: node indices of the targets, all hidden from the view.
        participation: the rounds in which the record takes part.
        effort: as in `training_sensitivity`.
        progress: called with (targets done, targets in all).

    Guarantee: that of `training_sensitivity`, for each.
    Source: as there.
    """
    case = training_of(protocol, view, participation)
    found = []
    for index in indices.tolist():
        found.append(_measured(case, index, effort))
        if progress is not None:
            progress(len(found), len(indices))
    return found


@one_blas_thread()
def training_rates(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingRates:
    """What each further round of training adds to Δ² in the long run, for the nodes at `indices`.

    One step of the inequality that recurs costs 1/κ a round for every number of rounds. Of many targets the largest are
    solved for and the others bounded.

    Cap, twins, one round of memory and one step that recurs all cost the same in each round, so the bound for a
    long run divided by its rounds is one for every round of any run.

    Guarantee: limsup Δ²/T is at most the upper end for all maps in the ball; the lower end is the rate of an actual
    statistic against an actual loop in it.
    Source: Theorem 1 of docs/training.md with one step for all rounds.
    """
    # Any number of rounds will do that lets every contribution arrive and is too long for steps of single rounds.
    case = training_of(replace(protocol, rounds=protocol.n + LONG), view, Participation.full())
    places = np.searchsorted(case.loop.unknown, indices)
    if len(indices) > MOST_SOLVED:
        work = Sharpening(cases=[case], places=[places], efforts=stages_of("auto"), attacked=False)
        work.run(progress)
        upper, method = work.upper, work.method
        lower, angle, constant = (values[places] for values in lasting_rates(case))
    else:
        upper, method = first_bounds(case, places)
        lower, angle, constant = np.zeros((3, len(places)))
        for k, place in enumerate(places.tolist()):
            if upper[k] > 0:
                found = best_proved(case, place, "auto")
                upper[k], method[k] = found.squared_upper, found.proof.method
            lower[k], angle[k], constant[k] = rate_attack(case, place)
            if progress is not None:
                progress(k + 1, len(places))
    rates = np.where(upper > 0, np.nextafter(upper / max(case.charged, 1), np.inf), 0.0)
    return TrainingRates(
        lower=np.minimum(lower, rates),
        upper=rates,
        method=method,
        angle=angle,
        constant=np.minimum(constant, rates),
    )


def _measured(case: TrainingView, index: int, effort: SearchEffort) -> TrainingSensitivity:
    """Both ends for the node of this index: the smallest bound that was proved, the best attack that was found."""
    place = case.loop.position(index)
    best = best_proved(case, place, effort)
    attack = best_attack(case, place)
    return TrainingSensitivity(
        target=case.protocol.labels[index],
        squared=Interval(attack.squared, best.squared_upper),
        method=best.proof.method,
        assumption=training_assumption([best.proof.method]),
        proof=best.proof,
        attack=attack,
    )


@one_blas_thread()
def training_pairs(
    weights: GossipWeights,
    *,
    rounds: int,
    updates: tuple[ArrayLike, ArrayLike],
    view: Callable[[Hashable], View] = View.secure_sum,
    observers: Iterable[Hashable] | None = None,
    pairs: Literal["neighbours", "all"] = "neighbours",
    noise_levels: ArrayLike | None = None,
    participation: Participation | str | None = None,
    effort: SearchEffort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> TrainingPairs:
    """A proved upper bound on Δ² for every pair of observer and target, as sharp as the worst one needs.

    The worst is found early, and each other pair is proved to lie below it; see `sottovoce.feedback.pairs`.

    Args:
        weights: the gossip matrix.
        rounds: T.
        updates: (lower, upper) slopes of the update maps.
        view: what an observer sees: `View.secure_sum`, `View.neighbourhood` or another of one node.
        observers: the nodes that look; all if None.
        pairs: only targets that the observer hears, or all.
        noise_levels: q, one variance a node in units of σ²; 1 if None.
        participation: the rounds in which a record takes part; all if None.
        effort: as in `training_sensitivity`, for the inequality.
        progress: called with (pairs settled, pairs in all).

    Guarantee: every upper end is proved, rounding included.
    Source: Theorem 1 and Corollary 2 of docs/training.md.

    >>> from sottovoce import graphs
    >>> ring = graphs.metropolis_weights("ring:n=6")
    >>> found = training_pairs(ring, rounds=10, updates=(0.9, 1), observers=[0])
    >>> len(found), round(found.worst[2], 2)
    (2, 5.2)
    """
    one_of(GAPS, effort=effort)
    one_of(("neighbours", "all"), pairs=pairs)
    if isinstance(updates, str):
        raise InputError("training_pairs compares smooth maps; got updates='any' (use training_sensitivity)")
    if weights.n > MOST_NODES:
        raise InputError(
            f"training_pairs compares pairs of at most {MOST_NODES} nodes; this network has {weights.n} "
            "(ask for single pairs with training_sensitivity)"
        )
    chosen = tuple(weights.labels if observers is None else observers)
    cases = [
        training(
            weights,
            view(observer),
            rounds=rounds,
            updates=updates,
            noise_levels=noise_levels,
            participation=participation,
        )
        for observer in chosen
    ]
    places = [
        np.flatnonzero(np.isin(case.loop.unknown, weights.neighbours(weights.index(observer))))
        if pairs == "neighbours"
        else np.arange(case.loop.unknown.size)
        for case, observer in zip(cases, chosen, strict=True)
    ]
    work = Sharpening(cases=cases, places=places, efforts=stages_of(effort), attacked=False)
    work.run(progress)
    return TrainingPairs(
        observers=tuple(o for o, some in zip(chosen, places, strict=True) for _ in some),
        targets=tuple(
            weights.labels[int(case.loop.unknown[k])]
            for case, some in zip(cases, places, strict=True)
            for k in some
        ),
        squared_upper=work.upper,
        method=tuple(map(str, work.method)),
        refined=work.refined,
    )
