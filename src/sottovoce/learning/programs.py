# SPDX-License-Identifier: Apache-2.0
"""Training on any program: the loop that quadratic losses close, and what holds where nothing is known of losses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from sottovoce.protocols import CONTRIBUTION, Combine, PerNode, Program, Protocol, spread
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities import Sensitivities

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["closed_loop", "heard", "noised_at_once", "stepped", "unshared"]


def closed_loop(protocol: Protocol, factors: Array) -> Protocol:
    """The loop that quadratic losses close: c_t − (1 − D)·θ_t is contributed, θ_t being the model before the round.

    `factors` are D, one number of all nodes or one a node.

    Guarantee: exact for contributions c_t that are fixed in advance.

    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import momentum
    >>> heavy = momentum(metropolis_weights("ring:n=5"), rounds=2, beta="1/2")
    >>> print(closed_loop(heavy, np.array([0.75])).program)
    model_before = model; v = 1/2·v + contribution + u − 1/4·model_before; message = model + v; exchange message → model
    """
    pull = tuple(Fraction(float(factor)) - 1 for factor in factors)
    return _each(protocol, lambda program: _pulled(program, pull)) if any(pull) else protocol


def stepped(protocol: Protocol, steps: Array, damping: Array | None = None) -> Protocol:
    """The protocol with steps of its own in each round, a program a round, in units of what the first step adds.

    A contribution is −η_t times a gradient and a draw is scaled by η_t too, so in round t both come η_t/η_1 times; what
    is kept goes on as it is. With `damping`, D_t in row t, it is the loop that quadratic losses close. Protocols of one
    step are returned as they are.

    Guarantee: exact, in rationals: what runs, divided by η_1.

    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import momentum
    >>> heavy = momentum(metropolis_weights("ring:n=5"), rounds=2, beta="1/2")
    >>> print(stepped(heavy, np.array([1.0, 0.5])).programs[1])
    v = 1/2·v + 1/2·contribution + 1/2·u; message = model + v; exchange message → model
    """
    if not np.ptp(steps):
        return protocol if damping is None else closed_loop(protocol, damping[-1])
    sizes = [Fraction(float(size)) for size in steps[: protocol.rounds]]
    programs = []
    for t, size in enumerate(sizes):
        program = protocol.programs[t % len(protocol.programs)]
        if damping is not None:
            program = _pulled(program, tuple(Fraction(float(factor)) - 1 for factor in damping[t]))
        programs.append(_scaled(program, size / sizes[0]))
    return replace(protocol, program=tuple(programs))


def noised_at_once(protocol: Protocol) -> bool:
    """Whether each contribution is noised before anything is made of it: a node's one draw comes with it everywhere.

    All messages are then made of c_t + u_t, whatever coefficients follow and whatever the steps: who hears all of them
    learns at most what plain gossip tells, Δ² ≤ T.

    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import momentum
    >>> ring = metropolis_weights("ring:n=5")
    >>> [noised_at_once(momentum(ring, rounds=2, beta="1/2", noise=where)) for where in ("gradient", "message")]
    [True, False]
    """
    if protocol.encoded:
        return False
    for program in protocol.programs:
        if len(program.draws) != 1 or program.draws[0].each != "node" or program.draws[0].level != 1:
            return False
        name = program.draws[0].name
        combined = (step.terms for step in program.instructions if isinstance(step, Combine))
        if any(terms.get(CONTRIBUTION) != terms.get(name) for terms in combined):
            return False
    return True


def _scaled(program: Program, factor: Fraction) -> Program:
    """A program whose contributions and draws come `factor` times as large."""
    fresh = {CONTRIBUTION, *(draw.name for draw in program.draws)}
    steps = [
        Combine(
            step.into,
            {
                name: _times(value, (factor,)) if name in fresh else value
                for name, value in step.terms.items()
            },
        )
        if isinstance(step, Combine)
        else step
        for step in program.instructions
    ]
    return replace(program, instructions=tuple(steps))


def _pulled(program: Program, pull: tuple[Fraction, ...]) -> Program:
    """A program whose contributions come with `pull` times the model before the round."""
    before = f"{program.model}_before"
    while before in {*program.registers, *(draw.name for draw in program.draws)}:
        before += "_"
    steps = [
        Combine(step.into, {**step.terms, before: _times(step.terms[CONTRIBUTION], pull)})
        if isinstance(step, Combine) and CONTRIBUTION in step.terms
        else step
        for step in program.instructions
    ]
    return replace(program, instructions=(Combine(before, {program.model: 1}), *steps))


def _times(value: PerNode, factors: tuple[Fraction, ...]) -> PerNode:
    """A coefficient times one factor of all nodes or one a node."""
    given = spread(value, len(factors))
    each = factors * len(given) if len(factors) == 1 else factors
    numbers = tuple(a * b for a, b in zip(given, each, strict=True))
    return numbers[0] if len(numbers) == 1 else numbers


def unshared(protocol: Protocol) -> Protocol:
    """The protocol without the noise of edges: what is left for whoever is told all draws that two nodes share."""
    return _each(protocol, _alone) if _shares_draws(protocol) else protocol


def _alone(program: Program) -> Program:
    """A program whose edges draw nothing."""
    draws = (replace(draw, level=0) if draw.each == "edge" else draw for draw in program.draws)
    return replace(program, draws=tuple(draws))


def _shares_draws(protocol: Protocol) -> bool:
    """Whether two nodes know the same draw."""
    return any(draw.each == "edge" for program in protocol.programs for draw in program.draws)


def _each(protocol: Protocol, change: Callable[[Program], Program]) -> Protocol:
    """The protocol with every program changed."""
    programs = tuple(map(change, protocol.programs))
    return replace(protocol, program=programs if len(programs) > 1 else programs[0])


def heard(
    scenario: Scenario, effort: Effort, progress: Callable[[int, int], None] | None = None
) -> list[Sensitivities]:
    """Each view as if its observer heard every message: then nothing is hidden that a gradient could depend on.

    The observer knows what it drew, alone or with a neighbour. Without draws that are shared this is local DP: what a
    node keeps is made of messages and of its own draws, so that those of others tell nothing new about it.

    Guarantee: upper ends hold for training, whatever the losses, if messages tell the models. There are no lower ends.
    Source: docs/training.md, where every message is seen.
    """
    protocol, views = scenario.protocol, scenario.views
    alone = None if _shares_draws(protocol) else sensitivity(scenario.of(View.everyone), effort=effort)
    found = []
    for done, view in enumerate(views, start=1):
        known = view.observers if view.own_noise == "known" else ()
        if alone is None:
            hears_all = View(observation=sparse.eye_array(protocol.n, format="csr"), known_noise=known)
            whole = sensitivity(scenario.of(hears_all), effort=effort)
        else:
            whole = _without(alone, [protocol.index(label) for label in known])
        found.append(replace(whole, scenario=whole.scenario.of(view), squared_lower=np.zeros(len(whole))))
        if progress is not None:
            progress(done, len(views))
    return found


def _without(found: Sensitivities, nodes: Sequence[int]) -> Sensitivities:
    """The targets but for some nodes."""
    kept = ~np.isin(found.indices, nodes)
    columns = ("indices", "squared_lower", "squared_upper", "method")
    return replace(found, **{name: getattr(found, name)[kept] for name in columns})
