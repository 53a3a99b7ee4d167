# SPDX-License-Identifier: Apache-2.0
"""A certificate for training: the proof and the attack that were found, in the form that the verifier reads.

The upper end is a feasible point of a matrix inequality (`found.proof`), which proves Δ² for every family of
update maps in the ball. The lower end is one linear loop in the ball with a stream and a statistic
(`Attack.stored`): what the statistic sees of the stream, over its standard deviation, is attained by an actual run.
The verifier recomputes both from the file and the graph; nothing that is found here is taken on trust, and both
ends of the file are its own.
Source: docs/training.md, Theorem 1, Corollaries 2 and 3, and A certificate of it.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.certificates import Certificate, DenseProof
from sottovoce.errors import InputError, NotCertified
from sottovoce.feedback import recursion_cost, training_of, training_sensitivities
from sottovoce.protocols import Slopes
from sottovoce.verification import (
    as_if_heard,
    memory_recursion,
    program_question,
    question,
    require_affordable,
    stored_form,
    stored_moves,
    training_question,
    verify,
)
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.certificates import Mechanism, Proof
    from sottovoce.scenarios import Scenario

__all__ = ["QUICK", "certify_memory", "certify_training"]

# Speed alone: a tolerance below this asks for the optimum of the inequality to six digits.
_FINE = 1e-5
# And one from this on for a step that recurs, whose price is the same in every round.
QUICK = 1e-3
# The same of training with memory, as a part of the bound: below what tables are computed with.
_GAP = 1e-4


def certify_training(
    scenario: Scenario,
    index: int,
    *,
    stated: dict[str, Any],
    mechanism: Mechanism | None,
    tolerance: float,
) -> Certificate:
    """A certificate of kind shift for the node at `index`: both ends as the verifier itself has proved them.

    `stated` is what a certificate says of the protocol and the view.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper as `verify` has found them in floats; it
    accepts the file, given the graph.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.

    Raises InputError for contributions other than vectors; NotCertified where nothing is seen, and where the
    verifier finds no finite bound.
    """
    if scenario.contribution != "vector":
        raise InputError(
            "contributions to training are vectors, whose bounds hold for numbers too; got "
            f"{scenario.contribution!r} (leave contribution out)"
        )
    protocol, view, participation = scenario.protocol, scenario.one_view, scenario.participation
    (found,) = training_sensitivities(
        protocol,
        view,
        np.array([index]),
        participation=participation,
        effort="fine" if tolerance < _FINE else "auto" if tolerance < QUICK else "quick",
    )
    if found.squared.upper == 0:
        raise NotCertified(f"{view!r} shows nothing at all, so Δ² = 0 and there is nothing to certify")
    weights = protocol.weights
    certificate = _claim(scenario, index, stated, mechanism, upper=found.squared.upper, proof=found.proof)
    asked = training_question(certificate, question(certificate, weights), participation)
    proof = stored_form(found.proof, asked.loop)
    if found.squared.lower > 0:
        case = training_of(protocol, view, participation)
        proof = replace(proof, attack=found.attack.stored(case))
    certificate = replace(certificate, proof=proof)
    proved = verify(certificate, weights, arithmetic="float")
    if not np.isfinite(proved.squared.upper):
        raise NotCertified(f"the proof that was found does not stand the verifier: {proved.reason}")
    return replace(certificate, squared_lower=proved.squared.lower, squared_upper=proved.squared.upper)


def certify_memory(
    scenario: Scenario,
    index: int,
    *,
    stated: dict[str, Any],
    mechanism: Mechanism | None,
    dense: Callable[[Scenario], DenseProof],
) -> Certificate:
    """A certificate of training on another program than gossip: the least that moves and hearing every message prove.

    `dense` finds a y for a view of averaging.

    Guarantee: Δ² ≤ squared_upper as `verify` has found it in floats; no lower end is claimed.
    Source: Theorems 2 and 5 of docs/training.md.

    Raises NotCertified where the verifier finds no finite bound.
    """
    protocol, participation = scenario.protocol, scenario.participation
    claim = _claim(scenario, index, stated, mechanism, upper=sys.float_info.max, proof=DenseProof())
    tried = [claim]
    with contextlib.suppress(NotCertified):
        averaging = replace(protocol, updates=None)
        require_affordable(program_question(as_if_heard(claim, protocol.schedule), averaging))
        found = dense(replace(scenario.of(_hears_all(scenario)), protocol=averaging))
        tried.append(replace(claim, proof=DenseProof(y=found.y)))
    if isinstance(protocol.updates, Slopes):
        with contextlib.suppress(NotCertified):
            recursion, _ = memory_recursion(claim, protocol.schedule, participation)
            proof = stored_moves(recursion, recursion_cost(recursion, gap=_GAP).proof)
            tried.append(replace(claim, proof=proof))
    checked = [(verify(each, protocol.schedule, arithmetic="float"), each) for each in tried]
    proved, best = min(checked, key=lambda one: one[0].squared.upper)
    if not np.isfinite(proved.squared.upper):
        raise NotCertified(f"no finite bound could be proved: {proved.reason} (take fewer rounds)")
    return replace(best, squared_upper=proved.squared.upper)


def _claim(
    scenario: Scenario,
    index: int,
    stated: dict[str, Any],
    mechanism: Mechanism | None,
    *,
    upper: float,
    proof: Proof,
) -> Certificate:
    """A claim about training on the target of this index, with nothing attained yet.

    Guarantee: none until `verify` has accepted it; the lower end is 0, which always holds, until an attack raises it.
    """
    protocol = scenario.protocol
    return Certificate(
        **stated,
        updates=protocol.updates,
        target=protocol.labels[index],
        contribution="vector",
        participation=str(scenario.participation),
        squared_lower=0.0,
        squared_upper=upper,
        proof=proof,
        mechanism=mechanism,
    )


def _hears_all(scenario: Scenario) -> View:
    """A view in which the observer hears every message, and knows the draws that it knows in its own.

    Whoever hears every message can work out what any view shows, so that a bound for this one holds for the
    scenario's.

    Guarantee: Δ² of it is at least that of the scenario's view, for the same draws known.
    """
    view = scenario.one_view
    if view.name == "everyone":
        return view
    known = view.observers if view.own_noise == "known" else ()
    return View(observation=np.eye(scenario.protocol.n), known_noise=known)
