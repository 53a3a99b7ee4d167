# SPDX-License-Identifier: Apache-2.0
"""`certify`: one target's claim on Δ² with everything a reviewer needs to check it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.certificates import (
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StoredWeights,
    gossip_program,
)
from sottovoce.errors import NotCertified, one_of, positive
from sottovoce.filtering import EXPLICIT_ROUNDS, FilteredResponse, hidden_system
from sottovoce.sensitivities.horizon import solve_horizon
from sottovoce.sensitivities.measure import TOLERANCE, Assessment, Search, as_participation, assess, solve
from sottovoce.sensitivities.participating import covering, earliest_pattern
from sottovoce.verification import verify
from sottovoce.views import View, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.views import Observation

__all__ = ["certify"]

# Weights are stored in the file up to this many nodes; beyond, the file names them by their hash.
LARGEST_STORED = 20_000
# Room in the claim of a long horizon for what the verifier's own model leaves out.
_HORIZON_ROOM = 1e-5


def certify(
    protocol: Protocol,
    view: View,
    target: Hashable,
    *,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    mechanism: Mechanism | None = None,
    tolerance: float = TOLERANCE,
) -> Certificate:
    """A certificate for the sensitivity of one target: the claim, and y and witness (or start and rate) to prove it.

    With a `mechanism` (noise, δ and neighbouring relation) the verifier also says the ε that follows.

    Guarantee: diag(y) ⪰ M for the true form M, rounding included, so that `sottovoce.verification.verify`, which shares
    nothing with this but the meaning of participation, accepts it if it is small enough to be rebuilt. The claim can be
    looser than `sensitivity`, which may also go through patterns one by one. Above `EXPLICIT_ROUNDS` rounds the
    certificate is of kind "horizon": it claims an upper end only.
    Source: weak duality; the bounded-real lemma for long horizons.

    >>> from sottovoce import gossip, graphs, verify
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> verify(certify(ring, View.secure_sum(0), 1), ring.weights).verdict
    'verified'
    """
    one_of(("vector", "scalar"), contribution=contribution)
    positive(tolerance=tolerance)
    protocol.require_plain("a certificate")
    chosen = as_participation(participation)
    observation = observe(protocol, view)
    indices = target_indices(protocol, view, observation.known, [target])
    search = Search(
        contribution=contribution,
        participation=chosen,
        engine="auto",
        in_bulk=False,
        tolerance=tolerance,
        cap=chosen.largest_count(protocol.rounds),
    )
    if view.name == "everyone":
        proof = _everyone_proof(protocol, search)
    else:
        system = hidden_system(protocol, observation)
        if system.rows.shape[0] == 0:
            raise NotCertified(f"{view!r} shows nothing at all, so Δ² = 0 and there is nothing to certify")
        found = assess(system, indices, search, None)
        if protocol.rounds > EXPLICIT_ROUNDS:
            proof = _horizon_proof(found)
        else:
            proof = _dense_proof(protocol, observation, found, indices)
    certificate = Certificate(
        weights_hash=protocol.weights.hash,
        rule=protocol.weights.rule,
        weights=StoredWeights.of(protocol.weights) if protocol.n <= LARGEST_STORED else None,
        program=gossip_program(protocol.damping),
        rounds=protocol.rounds,
        view=_stated(protocol, view, observation),
        target=protocol.labels[int(indices[0])],
        contribution="scalar" if contribution == "scalar" else "vector",
        participation=str(chosen),
        mechanism=mechanism,
        **proof,
    )
    # A claim closer than what the verifier's own margins leave would be true and refused.
    proved = verify(certificate, protocol.weights).squared
    return replace(
        certificate,
        squared_lower=min(certificate.squared_lower, proved.lower),
        squared_upper=max(certificate.squared_upper, proved.upper),
    )


def _stated(protocol: Protocol, view: View, observation: Observation) -> StatedView:
    """The view as a certificate names it: observers by their labels, a custom one by its rows."""
    if view.name != "custom":
        observers = tuple(protocol.labels[protocol.index(label)] for label in view.observers)
        own_noise = "known" if view.name == "everyone" else view.own_noise
        return StatedView(name=view.name, observers=observers, own_noise=own_noise)
    rows = (observation.exact(k) for k in range(observation.rows.shape[0]))
    return StatedView(
        name="custom",
        rows=tuple(tuple(sorted(row.items())) for row in rows),
        known_noise=tuple(protocol.labels[k] for k in observation.known),
    )


def _everyone_proof(protocol: Protocol, search: Search) -> dict[str, Any]:
    """Nothing to prove: Δ² is the number of rounds. Views too large to be rebuilt get no witness."""
    cap = float(search.cap)
    small = protocol.n * protocol.rounds <= 4000
    witness = earliest_pattern(search.participation, protocol.rounds).astype(float) if small else None
    lower = cap * (1 - 1e-8) if small else 0.0
    return {"proof": DenseProof(witness=witness), "squared_lower": lower, "squared_upper": cap}


def _dense_proof(
    protocol: Protocol, observation: Observation, found: Assessment, indices: np.ndarray
) -> dict[str, Any]:
    """A y that dominates the true form, and the witness on the side of what the observer surely sees."""
    search = found.search
    cap = float(search.cap)
    lower, witness = float(found.lower[0]), found.witness_of(0)
    if found.system.over_informed:
        told = assess(hidden_system(protocol, observation, complete=False), indices, search, None)
        lower, witness = float(told.lower[0]), told.witness_of(0)
    lower *= 1 - 1e-8
    shown = witness if lower > 0 else None
    (forms,) = found.response.forms(found.positions)
    y = solve(forms.matrices[0], search).y
    if y is None:
        # Neither signs nor patterns that were gone through one by one have a y of their own.
        y = covering(forms.matrices[0], search.participation, tolerance=search.tolerance)
    d = forms.distortion
    # ‖Fc‖ ≤ (‖F̂c‖ + d‖c‖)/(1 − d) and ‖F̂‖ ≤ 1 + d give M ⪯ (M̂ + (2d + 3d²)I)/(1 − d)².
    y = (y + float(forms.rounding[0]) + 2 * d + 3 * d**2) / (1 - d) ** 2
    # The verifier's own rounding grows with the horizon; y and the claim leave it room.
    # A basis of several rows is rounded once more than a row.
    room = (4e-8 if len(found.system.rows) == 1 else 2e-7) * max(1.0, protocol.rounds / 50) ** 2
    y *= 1 + room
    upper = search.participation.largest_sum(y) * (1 + room)
    if upper > cap:
        return {"proof": DenseProof(witness=shown), "squared_lower": lower, "squared_upper": cap}
    return {"proof": DenseProof(y=y, witness=shown), "squared_lower": lower, "squared_upper": upper}


def _horizon_proof(found: Assessment) -> dict[str, Any]:
    """The start profile and bulk constant that prove a long horizon; no lower end is claimed."""
    response, search = found.response, found.search
    assert isinstance(response, FilteredResponse)
    solution = solve_horizon(response, int(found.positions[0]), contribution=search.contribution)
    if solution is None:
        raise NotCertified(
            f"no bound below the cap of {search.cap} rounds was proved for this pair "
            f"(take at most {EXPLICIT_ROUNDS} rounds for a dense certificate)"
        )
    # y is summed as the verifier sums it: the rate in every round of a pattern, and what the start has above it.
    above = np.maximum(solution.start - solution.bulk, 0.0)
    if search.participation.kind == "fixed":
        extra = float(sum(above[t - 1] for t in search.participation.rounds if t <= above.size))
    else:
        extra = search.participation.largest_sum(above)
    total = math.sqrt(search.cap * solution.bulk + extra) + response.distortion * math.sqrt(search.cap)
    return {
        "proof": HorizonProof(start=solution.start, rate=solution.bulk),
        "squared_lower": 0.0,
        "squared_upper": min(
            (total / (1 - response.distortion)) ** 2 * (1 + _HORIZON_ROOM), float(search.cap)
        ),
    }
