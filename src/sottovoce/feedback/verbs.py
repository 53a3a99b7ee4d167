# SPDX-License-Identifier: Apache-2.0
"""`training_sensitivity`: one view and one target; `training_pairs`: the worst of many pairs, every one proved."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import InputError, one_of, positive
from sottovoce.feedback.attacks import best_attack
from sottovoce.feedback.chains import layered, periodic, proved, round_by_round, setting, steady, steps_of
from sottovoce.feedback.closed import cap, memory_one, memory_one_rates, twins
from sottovoce.feedback.problem import training, training_of
from sottovoce.feedback.results import TrainingPairs, TrainingSensitivity
from sottovoce.feedback.subspaces import MOST_COLUMNS
from sottovoce.interval import Interval
from sottovoce.views import View, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import ArrayLike

    from sottovoce.feedback.chains import Proved
    from sottovoce.feedback.problem import Training
    from sottovoce.graphs import GossipWeights
    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol

__all__ = ["Effort", "training_pairs", "training_sensitivities", "training_sensitivity"]

Effort = Literal["auto", "quick", "fine"]
# Each round has a step of its own as long as the Newton system has at most so many unknowns.
MOST_UNKNOWNS = 900
# A start and an end of so many rounds each, where the rounds are too many for steps of their own but not so many that
# it makes no difference.
LAYER = 6
LAYERED = {"quick": 0, "auto": 500, "fine": 10**9}
MOST_PERIOD = 12
MOST_NODES = 4000
GAPS = {"auto": 1e-4, "quick": 1e-3, "fine": 1e-6}
COLUMNS = {"auto": MOST_COLUMNS, "quick": 14, "fine": MOST_COLUMNS + 8}


def training_sensitivity(
    weights: GossipWeights,
    view: View,
    target: Hashable,
    *,
    rounds: int,
    updates: tuple[ArrayLike, ArrayLike] | Literal["any"],
    noise_levels: ArrayLike | None = None,
    participation: Participation | str | None = None,
    effort: Effort = "auto",
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


def training_sensitivities(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    *,
    participation: Participation,
    effort: Effort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> list[TrainingSensitivity]:
    """`training_sensitivity` for the nodes at `indices`, of a protocol with `updates`.

    Guarantee: that of `training_sensitivity`, for each.
    """
    case = training_of(protocol, view, participation)
    found = []
    for index in indices.tolist():
        found.append(_measured(case, index, effort))
        if progress is not None:
            progress(len(found), len(indices))
    return found


def _measured(case: Training, index: int, effort: Effort) -> TrainingSensitivity:
    """Both ends for the node of this index."""
    place = case.loop.position(index)
    best = min(_candidates(case, place, effort), key=lambda found: found.squared_upper)
    attack = best_attack(case, place)
    return TrainingSensitivity(
        target=case.protocol.labels[index],
        squared=Interval(attack.squared, best.squared_upper),
        method=best.proof.method,
        assumption="none" if best.proof.method in {"cap", "twins"} else "smooth",
        proof=best.proof,
        attack=attack,
    )


def _candidates(case: Training, place: int, effort: Effort) -> list[Proved]:
    """All bounds for one target, those that are cheap first."""
    found: list[Proved] = [cap(case, place)]
    if not case.loop.rows or not case.count:
        return found
    if (alike := twins(case, place)) is not None:
        found.append(alike)
    if case.slopes is not None and case.rows.shape[0] < case.loop.unknown.size:
        found.append(memory_one(case, place))
        found += [one for one in _inequalities(case, place, effort) if one is not None]
    return found


def _inequalities(case: Training, place: int, effort: Effort) -> list[Proved | None]:
    """The matrix inequality in the forms that suit the rounds and the participation."""
    gap = GAPS[effort]
    rounds, family = case.charged, case.participation
    if effort != "quick" and family.kind in {"full", "fixed", "every"}:
        here = setting(case, place, columns=COLUMNS[effort])
        # Before the first contribution there is no difference; rounds are counted from there.
        first = (family.offset or 1) - 1 if family.kind == "every" else 0
        length = rounds - first
        if length <= 0:
            return []
        if length * here.unknowns <= MOST_UNKNOWNS:
            return [round_by_round(here, _charged(case, length), gap=gap)]
    found: list[Proved | None] = []
    here, solution = steady(case, place, gap=gap, columns=COLUMNS[effort])
    found.append(proved(here, bulk=steps_of(here, solution, last=False)))
    if family.kind == "every" and 1 < family.size <= MOST_PERIOD:
        found.append(periodic(here, family.size, gap=gap))
    elif rounds > 2 * LAYER and LAYER * here.unknowns <= 2 * MOST_UNKNOWNS and rounds <= LAYERED[effort]:
        found.append(layered(here, solution, LAYER, gap=max(gap, 1e-4)))
    return found


def _charged(case: Training, length: int) -> np.ndarray:
    """1 for the rounds in which the target contributes, counted from its first if it takes part every k-th round."""
    weights = np.zeros(length)
    match case.participation.kind:
        case "every":
            weights[:: case.participation.size] = 1.0
        case "fixed":
            weights[[k - 1 for k in case.participation.rounds if k <= length]] = 1.0
        case _:
            weights[:] = 1.0
    return weights


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
    slack: float = 1e-3,
    effort: Effort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> TrainingPairs:
    """A proved upper bound on Δ² for every pair of observer and target, as sharp as the worst one needs.

    Bounds by one round of memory come first, for all targets of an observer together. The pair with the largest bound
    left is then sharpened by the matrix inequality, first in a small and then in a large subspace, until a pair that
    needs no more work is the largest. So the worst is found early, and each other pair is proved to lie below it.

    Args:
        weights: the gossip matrix.
        rounds: T.
        updates: (lower, upper) slopes of the update maps.
        view: what an observer sees: `View.secure_sum`, `View.neighbourhood` or another of one node.
        observers: the nodes that look; all if None.
        pairs: only targets that the observer hears, or all.
        noise_levels: q, one variance a node in units of σ²; 1 if None.
        participation: the rounds in which a record takes part; all if None.
        slack: a pair that exceeds the largest settled one by no more than this part is not sharpened further.
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
    stages: tuple[Effort, ...] = ("quick",) if effort == "quick" else ("quick", effort)
    positive(slack=slack)
    if isinstance(updates, str):
        raise InputError("training_pairs compares smooth maps; got updates='any' (use training_sensitivity)")
    if weights.n > MOST_NODES:
        raise InputError(
            f"training_pairs compares pairs of at most {MOST_NODES} nodes; this network has {weights.n} "
            "(ask for single pairs with training_sensitivity)"
        )
    cases: dict[Hashable, Training] = {}
    queue: list[tuple[float, int, Hashable, int]] = []
    for observer in weights.labels if observers is None else observers:
        case = cases[observer] = training(
            weights,
            view(observer),
            rounds=rounds,
            updates=updates,
            noise_levels=noise_levels,
            participation=participation,
        )
        rates = memory_one_rates(case) * case.count
        heard = np.isin(case.loop.unknown, case.weights.neighbours(case.weights.index(observer)))
        places = np.flatnonzero(heard) if pairs == "neighbours" else np.arange(case.loop.unknown.size)
        queue += [(-float(rates[k]), len(queue) + i, observer, int(k)) for i, k in enumerate(places)]
    settled: list[tuple[Hashable, int, Proved, bool]] = []
    solved: dict[int, tuple[Proved, int]] = {}
    heapq.heapify(queue)
    total, largest = len(queue), 0.0
    while queue:
        bound, number, observer, place = heapq.heappop(queue)
        case = cases[observer]
        found, stage = solved.pop(number, (None, 0))
        if stage < len(stages) and -bound > largest * (1 + slack):
            # Still the largest: sharpen it, and come back to it when it is the largest again.
            sharper = min(_candidates(case, place, stages[stage]), key=lambda one: one.squared_upper)
            best = sharper if found is None else min(found, sharper, key=lambda one: one.squared_upper)
            solved[number] = best, stage + 1
            heapq.heappush(queue, (-best.squared_upper, number, observer, place))
            continue
        best = found or min(cap(case, place), _projected(case, place), key=lambda one: one.squared_upper)
        largest = max(largest, best.squared_upper)
        settled.append((observer, place, best, stage > 0))
        if progress is not None:
            progress(len(settled), total)
    return TrainingPairs(
        observers=tuple(one[0] for one in settled),
        targets=tuple(weights.labels[int(cases[one[0]].loop.unknown[one[1]])] for one in settled),
        squared_upper=np.array([one[2].squared_upper for one in settled]),
        method=tuple(one[2].proof.method for one in settled),
        refined=np.array([one[3] for one in settled], dtype=bool),
    )


def _projected(case: Training, place: int) -> Proved:
    """The bound by one round of memory along the part of b that is not seen: what the queue is ordered by, proved."""
    b = np.zeros((case.loop.unknown.size, 1))
    b[place] = 1.0
    unseen = b - case.rows.T @ np.linalg.lstsq((case.rows @ case.rows.T).toarray(), case.rows @ b)[0]
    return memory_one(case, place, basis=unseen)
