# SPDX-License-Identifier: Apache-2.0
"""`certify`: one target's claim on Δ² with everything a reviewer needs to check it.

    kind       what is in the file                     what it proves
    dense      y, a stream c                           diag(y) ⪰ M, so Δ² ≤ max_π Σ_{t ∈ π} y_t;  cᵀMc ≤ Δ²
    horizon    the first y_t, then one rate ρ          the same y, by the bounded-real recursion; no lower end
    shift      a feasible point, a loop in the ball    training: `certify_training`

The verifier rebuilds M from the graph and the statement and judges what it is given: it shares no numerical code
with the search. So the order is search, leave room, ask the verifier, and claim what it says if that is wider. No
room that is left here can make a claim wrong: too little makes it wider or refused, too much makes it loose.
Source: docs/mathematics.md, sections 3 and 7; docs/certificates.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from sottovoce.certificates import (
    MOST_DIGITS,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StatedWeights,
    StoredWeights,
)
from sottovoce.errors import InputError, NotCertified
from sottovoce.filtering import EXPLICIT_ROUNDS, FilteredResponse, hidden_system
from sottovoce.protocols import check_zero_out, digits_of, missing_noise, spread
from sottovoce.scenarios import Scenario, WidthWords, asked
from sottovoce.sensitivities.assessment import Assessment, assess
from sottovoce.sensitivities.certify_training import certify_memory, certify_training
from sottovoce.sensitivities.ends import Problem
from sottovoce.sensitivities.long_horizons.start_and_rate import solve_horizon
from sottovoce.sensitivities.one_form.batches import solve_problem
from sottovoce.sensitivities.one_form.patterns import covering, earliest_pattern
from sottovoce.sensitivities.policy import TOLERANCE
from sottovoce.sensitivities.programs import program_solution
from sottovoce.threads import one_blas_thread
from sottovoce.verification import program_question, require_affordable, verify
from sottovoce.views import observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.protocols import Protocol
    from sottovoce.views import Observation, View

__all__ = ["certify"]

# Weights are stored in the file up to this many nodes; beyond, the file names them by their hash.
LARGEST_STORED = 20_000
# Room in the claim of a long horizon for what the verifier's own model leaves out. No proof needs it: the
# verifier's number is claimed where it is larger.
_HORIZON_ROOM = 1e-5


@one_blas_thread()
def certify(
    question: Scenario | Protocol,
    view: View | None = None,
    target: Hashable = None,
    *,
    mechanism: Mechanism | None = None,
    **words: Unpack[WidthWords],
) -> Certificate:
    """A certificate for the sensitivity of one target: a claim, and y and witness (or start and rate) to prove it.

    `question` is a `Scenario` of one view and one target; or a protocol, with a view, a target and words as in
    `sottovoce.scenarios.WidthWords`. Of what may be spent, the tolerance alone counts. With a `mechanism` (noise,
    δ and neighbouring relation) the verifier also says the ε that follows.

    Guarantee: diag(y) ⪰ M for the true form M, rounding included: `sottovoce.verification.verify`, which shares
    nothing with this but the meaning of programs and participation, has accepted it. The claim can be looser than
    `sensitivity`, which may also go through patterns one by one. Above `EXPLICIT_ROUNDS` rounds the certificate is
    of kind "horizon": it claims an upper end only, of plain gossip. With `updates` it is of kind "shift": what
    proves the upper end for all maps in the ball, and a loop in it that attains the lower; of other programs than
    gossip it is of kind "moves", or of kind "dense" as if every message were heard, whichever proves less.
    Source: weak duality; the bounded-real lemma for long horizons.

    Raises NotCertified where Δ is infinite, or where no proof is affordable.

    >>> from sottovoce import View, gossip, graphs, verify
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> verify(certify(ring, View.secure_sum(0), 1), ring.weights).verdict
    'verified'
    """
    scenario, effort = asked(question, view, words, WidthWords, targets=None if target is None else [target])
    if isinstance(question, Scenario) and mechanism is not None and mechanism.relation != scenario.relation:
        raise InputError(
            f"the relation of the scenario is {scenario.relation!r} and that of the mechanism "
            f"{mechanism.relation!r}: they must be the same (give Mechanism(relation=…) that of the scenario)"
        )
    protocol, view, chosen = scenario.protocol, scenario.one_view, scenario.participation
    contribution = scenario.contribution
    tolerance = TOLERANCE if effort.tolerance is None else effort.tolerance
    observation = observe(protocol, view)
    indices = target_indices(protocol, view, observation.known, [scenario.one_target])
    if protocol.updates is not None:
        check_zero_out(protocol.updates, None if mechanism is None else mechanism.relation)
        stated = {**_stated_protocol(protocol), "view": _stated(protocol, view, observation)}
        index = int(indices[0])
        if protocol.gossips:
            return certify_training(scenario, index, stated=stated, mechanism=mechanism, tolerance=tolerance)
        return certify_memory(
            scenario,
            index,
            stated=stated,
            mechanism=mechanism,
            dense=lambda heard: _program_proof(heard, index, tolerance)["proof"],
        )
    problem = Problem(
        contribution=contribution,
        participation=chosen,
        engine="auto",
        in_bulk=False,
        tolerance=tolerance,
        cap=chosen.largest_count(protocol.rounds),
    )
    place = int(indices[0])
    claim = Certificate(
        **_stated_protocol(protocol),
        view=_stated(protocol, view, observation),
        target=protocol.labels[place],
        contribution=contribution,
        participation=str(chosen),
        squared_lower=0.0,
        squared_upper=0.0,
        proof=DenseProof(),
        mechanism=mechanism,
    )
    if not protocol.plain and (capped := _capped(claim, protocol)) is not None:
        return capped
    if contribution == "energy" or not protocol.plain:
        proof = _program_proof(scenario, place, tolerance)
    elif view.name == "everyone":
        proof = _everyone_proof(protocol, problem)
    else:
        proof = _gossip_proof(protocol, view, observation, indices, problem)
    certificate = replace(claim, **proof)
    # A claim closer than what the verifier's own margins leave would be true and refused.
    found = verify(certificate, protocol, arithmetic="float")
    if math.isinf(found.squared.upper):
        raise NotCertified(f"no finite bound could be proved: {found.reason} (take fewer rounds)")
    return replace(
        certificate,
        squared_lower=min(certificate.squared_lower, found.squared.lower),
        squared_upper=max(certificate.squared_upper, found.squared.upper),
    )


def _stated_protocol(protocol: Protocol) -> dict[str, Any]:
    """The protocol as a certificate names it, by the names of the fields of `Certificate`.

    A schedule of several matrices states the first as the weights and the others as
    `further`; hashes are always there. What a file could not hold is refused before anything is proved.
    """
    numbers = [x for program in protocol.programs for value in program.numbers for x in spread(value, 1)]
    longest = max(digits_of(x) for x in (*numbers, *protocol.code))
    if longest > MOST_DIGITS:
        raise NotCertified(
            f"a certificate holds numbers of at most {MOST_DIGITS} digits on each side; a level, a coefficient or the "
            f"encoder has one of {longest} (round it: floats are numbers of at most 326 digits)"
        )
    stored = protocol.n * len(protocol.schedule) <= LARGEST_STORED
    first, *further = (
        StatedWeights(
            hash=weights.hash, rule=weights.rule, matrix=StoredWeights.of(weights) if stored else None
        )
        for weights in protocol.schedule
    )
    return {
        "weights_hash": first.hash,
        "rule": first.rule,
        "weights": first.matrix,
        "further": tuple(further),
        "program": protocol.program,
        "rounds": protocol.rounds,
        "encoder": protocol.code,
    }


def _stated(protocol: Protocol, view: View, observation: Observation) -> StatedView:
    """The view as a certificate names it: observers by their labels, a custom one by its rows.

    Rows are stated in rationals, since ranks are decided exactly and Δ² jumps with them.
    """
    if view.name != "custom":
        observers = tuple(protocol.labels[protocol.index(label)] for label in view.observers)
        own_noise = "known" if view.name == "everyone" else view.own_noise
        return StatedView(name=view.name, observers=observers, own_noise=own_noise, exchanges=view.exchanges)
    rows = (observation.exact(k) for k in range(observation.rows.shape[0]))
    return StatedView(
        name="custom",
        rows=tuple(tuple(sorted(row.items())) for row in rows),
        known_noise=tuple(protocol.labels[k] for k in observation.known),
        exchanges=view.exchanges,
    )


def _capped(asked: Certificate, protocol: Protocol) -> Certificate | None:
    """Where M is too large to be rebuilt, what the target's own noise guarantees; None where M is not too large.

    Guarantee: `verify` itself has found the cap, M ⪯ κ²I, from noise that enters with the target's contributions.
    Raises NotCertified, as the verifier would, where that is infinite.
    """
    question = program_question(asked, protocol)
    try:
        require_affordable(question)
    except NotCertified:
        cap = verify(asked, protocol, arithmetic="float").squared.upper
        if math.isinf(cap):
            raise
        return replace(asked, squared_upper=cap)
    return None


def _program_proof(scenario: Scenario, target: int, tolerance: float) -> dict[str, Any]:
    """A y and a witness from the form of any program; the verifier has the last word on what they prove.

    With contributions of energy 1 the bound is λ_max(M), and y_t = λ_max(M) for all t says that λ_max(M)·I ⪰ M.
    Raises NotCertified where Δ is infinite: no finite claim is true then.
    """
    protocol = scenario.protocol
    solved = program_solution(scenario, target, tolerance=tolerance)
    if solved is None:
        raise NotCertified(
            f"Δ is infinite, so there is nothing to certify: {scenario.one_view!r} shows something of what "
            f"{protocol.labels[target]!r} contributes beside none of the noise that the observer does not know, as "
            f"{missing_noise(protocol, target)} (add a draw of that node to what it sends, at a level above 0)"
        )
    form, solution = solved
    y = solution.y
    if scenario.contribution == "energy":
        y = np.full(protocol.rounds, solution.bound)
    elif y is None:
        y = covering(form, scenario.participation, tolerance=tolerance)
    # Room for rounding on both sides, so that y need not be raised to be proved.
    y = np.maximum(y, 0.0) * (1 + 1e-8)
    lower = solution.attained * (1 - 1e-8)
    proof = DenseProof(y=y, witness=solution.witness if lower > 0 else None)
    return {"proof": proof, "squared_lower": lower, "squared_upper": solution.attained}


def _everyone_proof(protocol: Protocol, problem: Problem) -> dict[str, Any]:
    """Nothing to prove: Δ² is the number of rounds. Views too large to be rebuilt get no witness.

    The cap is Δ² itself here, and needs no y; to check a witness the verifier rebuilds n rows a round.
    """
    cap = float(problem.cap)
    small = protocol.n * protocol.rounds <= 4000
    witness = earliest_pattern(problem.participation, protocol.rounds).astype(float) if small else None
    lower = cap * (1 - 1e-8) if small else 0.0
    return {"proof": DenseProof(witness=witness), "squared_lower": lower, "squared_upper": cap}


def _gossip_proof(
    protocol: Protocol, view: View, observation: Observation, indices: np.ndarray, problem: Problem
) -> dict[str, Any]:
    """The proof of plain gossip: dense, or for very many rounds a start and a rate.

    Raises NotCertified where the view shows nothing: the verifier has no form to rebuild then.
    """
    system = hidden_system(protocol, observation)
    if system.rows.shape[0] == 0:
        raise NotCertified(f"{view!r} shows nothing at all, so Δ² = 0 and there is nothing to certify")
    found = assess(system, indices, problem, None)
    if protocol.rounds > EXPLICIT_ROUNDS:
        return _horizon_proof(found)
    return _dense_proof(protocol, observation, found, indices)


def _dense_proof(
    protocol: Protocol, observation: Observation, found: Assessment, indices: np.ndarray
) -> dict[str, Any]:
    """A y that dominates the true form, and the witness on the side of what the observer surely sees.

    y is found for M̂ as stored, and raised twice: by what M̂ may be off from the true M (`rounding`, d), which is
    proved, and by `room`, which is a guess of what the verifier's own margins will ask for. Where the sum exceeds
    the cap, the cap is claimed and no y is needed.
    Source: docs/proofs/widening.md.
    """
    problem = found.problem
    cap = float(problem.cap)
    lower, witness = float(found.lower[0]), found.witness_of(0)
    if found.system.over_informed:
        told = hidden_system(protocol, observation, complete=False)
        if told.rows.shape[0]:
            attained = assess(told, indices, problem, None)
            lower, witness = float(attained.lower[0]), attained.witness_of(0)
        else:
            lower = 0.0
    lower *= 1 - 1e-8
    shown = witness if lower > 0 else None
    (forms,) = found.response.forms(found.positions)
    y = solve_problem(forms.matrices[0], problem).y
    if y is None:
        # Neither signs nor patterns that were gone through one by one have a y of their own.
        y = covering(forms.matrices[0], problem.participation, tolerance=problem.tolerance)
    d = forms.distortion
    # ‖Fc‖ ≤ (‖F̂c‖ + d‖c‖)/(1 − d) and ‖F̂‖ ≤ 1 + d give M ⪯ (M̂ + (2d + 3d²)I)/(1 − d)².
    y = (y + float(forms.rounding[0]) + 2 * d + 3 * d**2) / (1 - d) ** 2
    # The verifier's own rounding grows with the horizon; y and the claim leave it room.
    # A basis of several rows is rounded once more than a row.
    room = (4e-8 if len(found.system.rows) == 1 else 2e-7) * max(1.0, protocol.rounds / 50) ** 2
    y *= 1 + room
    upper = problem.participation.largest_sum(y) * (1 + room)
    if upper > cap:
        return {"proof": DenseProof(witness=shown), "squared_lower": lower, "squared_upper": cap}
    return {"proof": DenseProof(y=y, witness=shown), "squared_lower": lower, "squared_upper": upper}


def _horizon_proof(found: Assessment) -> dict[str, Any]:
    """The start profile and the rate that prove a long horizon; no lower end is claimed.

        Δ² ≤ ((√(T'ρ + extra) + d√T')/(1 − d))²,   T' the rounds of a pattern, extra = max_π Σ (y_t − ρ)₊,

    d the distortion of the response, as in `widened`. Raises NotCertified where no such y was proved below the cap.
    Source: docs/mathematics.md, section 7; docs/proofs/bounded-real.md, docs/proofs/widening.md.
    """
    response, problem = found.response, found.problem
    assert isinstance(response, FilteredResponse)
    solution = solve_horizon(response, int(found.positions[0]), contribution=problem.contribution)
    if solution is None:
        raise NotCertified(
            f"no bound below the cap of {problem.cap} rounds was proved for this pair "
            f"(take at most {EXPLICIT_ROUNDS} rounds for a dense certificate)"
        )
    # y is summed as the verifier sums it: the rate in every round of a pattern, and what the start has above it.
    above = np.maximum(solution.start - solution.rate, 0.0)
    if problem.participation.kind == "fixed":
        extra = float(sum(above[t - 1] for t in problem.participation.rounds if t <= above.size))
    else:
        # Gains that are frozen from the first round on have no start.
        extra = problem.participation.largest_sum(above) if above.size else 0.0
    total = math.sqrt(problem.cap * solution.rate + extra) + response.distortion * math.sqrt(problem.cap)
    return {
        "proof": HorizonProof(start=solution.start, rate=solution.rate),
        "squared_lower": 0.0,
        "squared_upper": min(
            (total / (1 - response.distortion)) ** 2 * (1 + _HORIZON_ROOM), float(problem.cap)
        ),
    }
