# SPDX-License-Identifier: Apache-2.0
"""`certify`: one target's claim on Δ² with everything a reviewer needs to check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.certificates import Certificate, HorizonModel, SparseRows
from sottovoce.errors import NotCertified, one_of, positive
from sottovoce.filtering import EXPLICIT_ROUNDS, FilteredResponse, hidden_system
from sottovoce.sensitivities.horizon import FREEZE, dense_transition, solve_horizon
from sottovoce.sensitivities.measure import TOLERANCE, Assessment, Search, as_participation, assess, solve
from sottovoce.sensitivities.participating import earliest_pattern
from sottovoce.sensitivities.solve import solve_form
from sottovoce.views import View, assumption_of, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy as np

    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.views import Observation

__all__ = ["certify"]

# Weights are stored in the file up to this many nodes; long horizons can do without.
LARGEST_STORED = 20_000


def certify(
    protocol: Protocol,
    view: View,
    target: Hashable,
    *,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    relation: str = "add-remove",
    tolerance: float = TOLERANCE,
) -> Certificate:
    """A certificate for the sensitivity of one target: the claim, and y and witness (or a small model) that prove it.

    Guarantee: diag(y) ⪰ M for the true form M, rounding included, so that `sottovoce.verification.verify`, which shares
    nothing with this but the meaning of participation, accepts it if it is small enough to be rebuilt. The claim can be
    looser than `sensitivity`, which may also go through patterns one by one. Above `EXPLICIT_ROUNDS` rounds the
    certificate is of kind "horizon": it claims an upper end only and stores the reduced model.
    Source: weak duality; the bounded-real lemma for long horizons.

    >>> from sottovoce import gossip, graphs, verify
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> verify(certify(ring, View.secure_sum(0), 1)).verified
    True
    """
    one_of(("vector", "scalar"), contribution=contribution)
    one_of(("add-remove", "replace-one", "zero-out"), relation=relation)
    positive(tolerance=tolerance)
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
    if protocol.n > LARGEST_STORED and protocol.rounds <= EXPLICIT_ROUNDS:
        raise NotCertified(
            f"a certificate of at most {EXPLICIT_ROUNDS} rounds holds the weights, of at most {LARGEST_STORED} nodes; "
            f"this network has {protocol.n} (take more rounds, or a smaller network)"
        )
    if view.name == "everyone":
        proof = _everyone_proof(protocol, search)
    else:
        system = hidden_system(protocol, observation)
        if system.rows.shape[0] == 0:
            raise NotCertified(f"{view!r} shows nothing at all, so Δ² = 0 and there is nothing to certify")
        found = assess(system, indices, search, None)
        if protocol.rounds > EXPLICIT_ROUNDS:
            proof = _horizon_proof(protocol, found)
        else:
            proof = _dense_proof(protocol, observation, found, indices)
    return Certificate(
        labels=protocol.labels,
        weights=SparseRows.of(protocol.weights.matrix) if protocol.n <= LARGEST_STORED else None,
        weights_hash=protocol.weights.hash,
        fractions=protocol.weights.unit is not None,
        damping=protocol.damping,
        assumption=assumption_of(view, protocol.damping),
        rounds=protocol.rounds,
        view=view.name,
        observers=view.observers,
        own_noise=view.own_noise,
        observation=SparseRows.of(observation.rows),
        known_noise=observation.known,
        target=int(indices[0]),
        contribution=contribution,
        participation=str(chosen),
        relation=relation,
        **proof,
    )


def _everyone_proof(protocol: Protocol, search: Search) -> dict[str, Any]:
    """Nothing to prove: Δ² is the number of rounds. Views too large to be rebuilt get no witness."""
    cap = float(search.cap)
    small = protocol.n * protocol.rounds <= 4000
    witness = earliest_pattern(search.participation, protocol.rounds).astype(float) if small else None
    lower = cap * (1 - 1e-8) if small else 0.0
    return {"y": None, "witness": witness, "squared_lower": lower, "squared_upper": cap, "method": "cap"}


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
    claim = {
        "squared_lower": lower * (1 - 1e-8),
        "witness": witness if lower > 0 else None,
        "kind": "dense",
    }
    (forms,) = found.response.forms(found.positions)
    y = solve(forms.matrices[0], search).y
    if y is None:
        # Enumeration has no y of its own; one for vectors in all rounds serves, if less tightly.
        y = solve_form(forms.matrices[0], contribution="vector", tolerance=search.tolerance).y
    assert y is not None
    d = forms.distortion
    # ‖Fc‖ ≤ (‖F̂c‖ + d‖c‖)/(1 − d) and ‖F̂‖ ≤ 1 + d give M ⪯ (M̂ + (2d + 3d²)I)/(1 − d)².
    y = (y + float(forms.rounding[0]) + 2 * d + 3 * d**2) / (1 - d) ** 2
    # The verifier's own rounding grows with the horizon; y and the claim leave it room.
    room = 4e-8 * max(1.0, protocol.rounds / 50) ** 2
    y *= 1 + room
    upper = search.participation.largest_sum(y) * (1 + room)
    if upper > cap:
        return {**claim, "y": None, "squared_upper": cap, "method": "cap"}
    return {**claim, "y": y, "squared_upper": upper, "method": "dual"}


def _horizon_proof(protocol: Protocol, found: Assessment) -> dict[str, Any]:
    """The reduced model with its start profile, bulk constant and matrix V; no lower end is claimed."""
    response = found.response
    assert isinstance(response, FilteredResponse)
    position = int(found.positions[0])
    solution = solve_horizon(response, position, contribution=found.search.contribution)
    if solution is None:
        raise NotCertified(
            f"no bound below the cap of {found.search.cap} rounds was proved for this pair "
            f"(take at most {EXPLICIT_ROUNDS} rounds for a dense certificate)"
        )
    return {
        "kind": "horizon",
        "squared_lower": 0.0,
        "squared_upper": min(float(found.upper[0]) * (1 + 1e-6), float(found.search.cap)),
        "method": "horizon",
        "horizon": HorizonModel(
            transition=dense_transition(response),
            rows=response.rows,
            source=response.source(position),
            start=solution.start,
            rate=solution.bulk,
            bound=solution.value,
            distortion=response.distortion,
            residual=f"{response.engine} model with {response.rows.shape[1]} states of {protocol.n} nodes; "
            f"gains frozen after {min(FREEZE, len(response.gains.gain))} rounds",
        ),
    }
