# SPDX-License-Identifier: Apache-2.0
"""`sensitivity`: one view, all its targets, each with a certified interval of Δ²; which room serves which question.

    every message is seen, plain gossip    Δ² counts rounds             closed form
    training (`updates`)                   `training`                   a bound for all maps in a ball
    energy, or another program             `programs`                   M from the compiled maps
    plain gossip                           `assessment`                 M from the hidden system's filter
    the same with one level, an encoder    `encoded`                    CᵀMC/ℓ² from that filter

Where a node's noise is known but its inflow is not, the upper end gives the observer that inflow and the lower
end takes the noise as unknown: one is more than the view, the other less, so that Δ² lies between. Nothing in
this module computes a bound; what it decides beyond that is how much time to spend.
Source: docs/mathematics.md, sections 3, 4 and 10.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.filtering import (
    EXPLICIT_ROUNDS,
    hidden_system,
)
from sottovoce.scenarios import StreamWords, asked
from sottovoce.sensitivities.assessment import assess
from sottovoce.sensitivities.encoded import encoded_sensitivity, rescaled
from sottovoce.sensitivities.ends import BULK_TOLERANCE, Problem
from sottovoce.sensitivities.many_targets.at_once import FEWEST_ROUNDS
from sottovoce.sensitivities.one_form.patterns import earliest_pattern
from sottovoce.sensitivities.programs import held, program_sensitivity
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.sensitivities.training import training_view_sensitivity
from sottovoce.threads import one_blas_thread
from sottovoce.views import METHOD_NAMES, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Effort, Engine, Scenario
    from sottovoce.views import View

__all__ = [
    "TOLERANCE",
    "bounds_together",
    "sensitivity",
]

# Speed alone: how far apart, relatively, the ends of a vector sensitivity may stay before rounding is counted.
TOLERANCE = 2e-4
# Speed alone, from here on. Above this many entries of M in all, targets are no longer solved one by
# one unless that is asked for.
MOST_ENTRIES = 2 * 10**9
# Known nodes whose inflow the view leaves open stay in the state up to so many rounds, and rounds × nodes².
WHOLE_ROUNDS, WHOLE_STATES = 512, 2 * 10**7


@one_blas_thread()
def sensitivity(
    question: Scenario | Protocol,
    view: View | None = None,
    targets: Iterable[Hashable] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[StreamWords],
) -> Sensitivities:
    """How far each target's contributions can move the view, in units of the noise: Δ² as certified intervals.

    M = Gᵀ(N Nᵀ)⁻¹G is the quadratic form of the view, and with contributions that differ by c_t, ‖c_t‖ ≤ 1,

        Δ² = max Σ_st M_st ⟨c_s, c_t⟩

    over signs (`contribution="scalar"`) or vectors of any dimension ("vector"), in the rounds of one pattern; with
    "energy" over vectors with Σ‖c_t‖² ≤ 1 instead.

    Args:
        question: a `Scenario` of one view; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: what the observer sees and whose noise it knows.
        targets: names of the nodes to protect; all whose noise the observer does not know if None.
        progress: called with (targets done, targets in all).
        words: as in `sottovoce.scenarios.StreamWords`: `contribution`, `participation`, and what may be spent.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, rounding included; `method` names the bound behind the upper end,
    the smallest of `abs`, `dual` (or `horizon`, its form for long horizons; `spectral`, its fallback) and the `cap`
    on the number of rounds; in bulk `peak`, `projection`, `lags` or `blocks`; `enumeration` of all signs, `exact`
    where every message is seen, `unreached` where nothing arrives, `infinite` where no noise hides a contribution.
    The lower end is the value of an actual stream.
    Source: Theorem 12 of Koskela & Kulkarni for `abs`; semidefinite duality for `dual`; the cap because M ⪯ I.

    >>> from sottovoce import View, gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> sensitivity(ring, View.secure_sum(0), targets=[1, 2]).squared_upper.round(2)
    array([3.36, 1.02])
    """
    scenario, effort = asked(question, view, words, StreamWords, targets=targets)
    return _answer(scenario, effort, progress)


def _answer(scenario: Scenario, effort: Effort, progress: Callable[[int, int], None] | None) -> Sensitivities:
    """`sensitivity` of one view, by the room that serves the question.

    Training has an engine of its own; a program that is plain gossip with an encoder or a level goes back to plain
    gossip; all other programs, and energies, go to `program_sensitivity`; plain gossip has closed forms where all or
    nothing is seen.
    """
    protocol, view, chosen = scenario.protocol, scenario.one_view, scenario.participation
    contribution, engine = scenario.contribution, effort.engine
    tolerance = TOLERANCE if effort.tolerance is None else effort.tolerance
    cap = chosen.largest_count(protocol.rounds)
    observation = observe(protocol, view)
    indices = target_indices(protocol, view, observation.known, scenario.targets)
    if protocol.updates is not None:
        return training_view_sensitivity(scenario, effort, progress)
    if cap == 0:
        # The first round of a target comes after the last one.
        return _closed_form(scenario, indices, 0.0, "unreached")
    by_program = partial(
        program_sensitivity, scenario, indices, engine=engine, tolerance=tolerance, progress=progress
    )
    in_bulk = _in_bulk(scenario, effort, len(indices))
    if contribution == "energy" and protocol.plain and protocol.rounds > EXPLICIT_ROUNDS:
        raise NotCertified(
            f"contributions of bounded energy are accounted for over at most {EXPLICIT_ROUNDS} rounds; got "
            f"{protocol.rounds} (longer horizons are worked out for contribution vector and scalar)"
        )
    if contribution == "energy" or not protocol.plain:
        found = _by_kernel(scenario, indices, effort, in_bulk, progress) if contribution != "energy" else None
        return found if found is not None else by_program(in_bulk=in_bulk)
    problem = Problem(
        contribution=contribution,
        participation=chosen,
        engine=engine,
        in_bulk=in_bulk,
        tolerance=max(tolerance, BULK_TOLERANCE) if in_bulk else tolerance,
        cap=cap,
    )
    if view.name == "everyone":
        # Each contribution stands beside its own noise alone, so Δ² counts rounds.
        return _closed_form(scenario, indices, float(cap), "exact")
    system = hidden_system(protocol, observation)
    if system.rows.shape[0] == 0:
        return _closed_form(scenario, indices, 0.0, "unreached")
    upper_side = assess(system, indices, problem, progress)
    lower = upper_side.lower
    witness_of: Callable[[int], np.ndarray] = upper_side.witness_of
    if upper_side.system.over_informed:
        # The upper side was given inflows that the view does not tell, so its streams prove nothing: the lower
        # end is that of an observer who knows less than the view.
        told = hidden_system(protocol, observation, complete=False)
        if told.rows.shape[0]:
            lower_side = assess(told, indices, problem, None)
            lower, witness_of = lower_side.lower, lower_side.witness_of
        else:
            lower, witness_of = np.zeros(len(indices)), lambda _: np.zeros(protocol.rounds)
    found = Sensitivities(
        scenario=scenario,
        engine=upper_side.response.engine,
        indices=indices,
        squared_lower=np.minimum(lower, upper_side.upper),
        squared_upper=upper_side.upper,
        method=upper_side.method,
        witness_of=witness_of,
    )
    if system.over_informed and not in_bulk and _is_followed_whole(protocol, engine):
        # A filter over all nodes is given nothing beyond the view, but may be unsure of what nothing excites.
        return found.closer(by_program())
    return found


def _by_kernel(
    scenario: Scenario,
    indices: np.ndarray,
    effort: Effort,
    in_bulk: bool,
    progress: Callable[[int, int], None] | None,
) -> Sensitivities | None:
    """What is known from plain gossip, where a protocol differs from it by one level and an encoder; None elsewhere.

    Noise of one level ℓ in place of 1 divides Δ² by ℓ², exactly but for one rounding; an encoder turns M into CᵀMC.

    Guarantee: that of what it asks.
    """
    if (kernel := scenario.protocol.kernel) is None or not held(kernel[1]):
        return None
    plain, level = kernel
    if not scenario.protocol.encoded:
        return rescaled(_answer(replace(scenario, protocol=plain), effort, progress), scenario, level)
    if scenario.view_name == "everyone":
        return None
    tolerance = TOLERANCE if effort.tolerance is None else effort.tolerance
    found = encoded_sensitivity(
        scenario,
        indices,
        plain,
        engine=effort.engine,
        tolerance=tolerance,
        in_bulk=in_bulk,
        progress=progress,
    )
    return None if found is None else rescaled(found, scenario, level)


def _is_followed_whole(protocol: Protocol, engine: Engine) -> bool:
    """Whether a filter over all nodes is affordable in place of one over the hidden ones.

    Speed alone: without it the interval is what giving and taking an inflow leave between them.
    """
    small = protocol.rounds <= WHOLE_ROUNDS and protocol.rounds * protocol.n**2 <= WHOLE_STATES
    return small and engine in {"auto", "filter"}


def bounds_together(scenario: Scenario, effort: Effort) -> bool:
    """Whether the targets of one view are bounded together: on request, or if there are many.

    Guarantee: none is needed: either way has ends that hold, and which is taken decides time and width alone.
    """
    return _in_bulk(scenario, effort, scenario.pairs)


def _in_bulk(scenario: Scenario, effort: Effort, count: int) -> bool:
    """Whether so many targets are bounded together; of plain gossip only where they contribute in all rounds.

    Speed alone: ends hold either way. Together they cost less a target and are wider.
    """
    protocol, rounds = scenario.protocol, scenario.protocol.rounds
    if rounds < FEWEST_ROUNDS or effort.depth == "fine":
        return False
    if scenario.contribution == "energy" or not protocol.plain:
        together, longest = effort.engine != "filter", rounds
    else:
        together, longest = scenario.participation.kind == "full", min(rounds, EXPLICIT_ROUNDS)
    return together and (effort.depth == "bulk" or count * longest**2 > MOST_ENTRIES)


def _closed_form(scenario: Scenario, indices: np.ndarray, squared: float, method: str) -> Sensitivities:
    """The same Δ² for every target, known without computing.

    Guarantee: exact, for the callers' reasons: with every message seen M = I, so that any pattern of the most
    rounds attains `squared`; where nothing is seen M = 0, and where no round takes part there is no stream but 0.
    """
    stream = partial(earliest_pattern, scenario.participation, scenario.protocol.rounds)
    return Sensitivities(
        scenario=scenario,
        engine="closed form",
        indices=indices,
        squared_lower=np.full(len(indices), squared),
        squared_upper=np.full(len(indices), squared),
        method=np.full(len(indices), method, dtype=METHOD_NAMES),
        witness_of=lambda _: stream().astype(np.float64),
    )
