# SPDX-License-Identifier: Apache-2.0
"""What holds for loops that quadratic losses close, s_t = D W s_{t−1} + x_t + u_t, against exact rationals."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import (
    ExactForm,
    Scene,
    exact_form,
    exact_weights,
    gossip_program,
    scenes,
    seen_and_known,
    semidefinite_maximum,
)
from tests.scenes import CHOICES, ENGINES, HEARD

from sottovoce.filtering import hidden_system
from sottovoce.graphs import GossipWeights, metropolis_weights, uniform_weights
from sottovoce.protocols import Protocol, gossip
from sottovoce.rates import rate, response_spectrum
from sottovoce.sensitivities import certify, sensitivity
from sottovoce.verification import verify
from sottovoce.views import View, observe

DAMPINGS = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.875, 1.0)


@dataclass(frozen=True)
class Loop:
    """A scene and the damping of its nodes, in eighths, which floats hold exactly."""

    scene: Scene
    damping: tuple[float, ...]

    @property
    def protocol(self) -> Protocol:
        return gossip(self.scene.weights, rounds=self.scene.rounds, damping=self.damping)

    @functools.cached_property
    def form(self) -> ExactForm:
        """M from the definition: messages move by D W, and views show rows of W or single messages."""
        W = exact_weights(self.scene.weights)
        rows, known = seen_and_known(self.scene.view, W)
        moved = [[Fraction(d) * x for x in row] for d, row in zip(self.damping, W, strict=True)]
        return exact_form(moved, rows, known, self.scene.target, self.scene.rounds)


@st.composite
def loops(draw: Any, most_rounds: int = 6) -> Loop:
    """Any small scene, with any damping."""
    scene = draw(scenes(most_rounds=most_rounds))
    n = scene.weights.n
    return Loop(scene, tuple(draw(st.lists(st.sampled_from(DAMPINGS), min_size=n, max_size=n))))


@given(loops(most_rounds=6), st.sampled_from(ENGINES))
def test_the_exact_maximum_over_signs_lies_in_the_interval(loop: Loop, engine: Any) -> None:
    exact = loop.form.scalar_maximum()
    found = sensitivity(
        loop.protocol, loop.scene.view, [loop.scene.target], contribution="scalar", engine=engine
    )
    assert Fraction(found.squared_lower[0]) <= exact <= Fraction(found.squared_upper[0])
    determined = not _completed(loop)
    if determined:
        # Signs of so few rounds are all tried: the interval is exact to rounding.
        assert found.squared_upper[0] <= float(exact) * (1 + 1e-8) + 1e-9


def _completed(loop: Loop) -> bool:
    """Whether the view leaves open what flows into a node it knows, so that its interval has two sides."""
    return hidden_system(loop.protocol, observe(loop.protocol, loop.scene.view)).over_informed


@examples(12)
@given(loops(most_rounds=6))
def test_the_semidefinite_maximum_lies_in_the_vector_interval(loop: Loop) -> None:
    form = loop.form.floats
    assume(np.abs(form).max() > 1e-3)
    value = semidefinite_maximum(form)
    found = sensitivity(loop.protocol, loop.scene.view, [loop.scene.target])
    assert found.squared_lower[0] <= value * (1 + 1e-6)
    assert value <= found.squared_upper[0] * (1 + 1e-6)


@given(loops(most_rounds=6))
def test_no_loop_gives_away_more_than_one_a_round(loop: Loop) -> None:
    # Noise enters where contributions do, so M is a part of a projector whatever A is.
    assert np.linalg.eigvalsh(loop.form.floats)[-1] <= 1 + 1e-12


@given(loops(most_rounds=5))
def test_certificates_of_closed_loops_are_verified(loop: Loop) -> None:
    seen = sensitivity(loop.protocol, loop.scene.view, [loop.scene.target])
    assume(seen.method[0] != "unreached")
    proof = certify(loop.protocol, loop.scene.view, loop.scene.target)
    found = verify(proof, loop.scene.weights)
    assert found.verified, found.reason
    exact = loop.form.scalar_maximum()
    assert exact <= Fraction(found.squared.upper)
    # What the witness attains is at most the maximum over vectors.
    assert found.squared.lower <= float(np.abs(loop.form.floats).sum()) * (1 + 1e-9)


@pytest.mark.parametrize("leaves", [2, 3, 5])
def test_a_certificate_of_the_open_loop_does_not_pass_for_a_closed_one(leaves: int) -> None:
    weights = metropolis_weights(f"star:n={leaves + 1}")
    proof = certify(gossip(weights, rounds=6), View.secure_sum(0), 1)
    assert verify(proof, weights).verified
    damping = np.zeros(leaves + 1)
    damping[1] = 1
    found = verify(replace(proof, program=gossip_program(damping)), weights)
    assert not found.upper_holds
    assert found.squared.upper > 1.2 * proof.squared_upper


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(0), View.coalition_sums([0, 7])])
def test_larger_networks_agree_with_a_plain_factorisation(view: View) -> None:
    rng = np.random.default_rng(5)
    weights = metropolis_weights("small-world:n=60,k=4,p=0.3,seed=2")
    rounds, target = 25, int(weights.neighbours(0)[0])
    protocol = gossip(weights, rounds=rounds, damping=rng.uniform(-1, 1, 60))
    shown = observe(protocol, view)
    A, C = protocol.transition.toarray(), shown.rows.toarray()
    blocks = [C]
    for _ in range(rounds - 1):
        blocks.append(blocks[-1] @ A)
    m, n = C.shape
    H = np.zeros((m * rounds, n * rounds))
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = blocks[t - s]
    unknown = np.setdiff1d(np.arange(n), shown.known)
    N = H[:, (np.arange(rounds)[:, None] * n + unknown).ravel()]
    form = np.linalg.pinv(N, rcond=1e-11) @ H[:, target::n]
    form = form.T @ form
    for engine in CHOICES:
        # Gains are kept from a round on that the tolerance says.
        found = sensitivity(protocol, view, [target], engine=engine, tolerance=1e-5)
        streams = found[target].witness.reshape(rounds, -1)
        attained = float(np.einsum("sd,st,td->", streams, form, streams))
        assert found.squared_lower[0] == pytest.approx(attained, rel=1e-7)
        assert attained <= found.squared_upper[0]
        assert found.squared_upper[0] <= attained * (1 + 2e-5)


@pytest.mark.parametrize("rule", [metropolis_weights, uniform_weights])
@pytest.mark.parametrize("damping", [0.75, -0.5, [1, 0.5, 0.25, 0, 1, 0.5]])
def test_a_rule_and_a_damping_are_measured_as_the_fractions_they_stand_for(rule: Any, damping: Any) -> None:
    weights: GossipWeights = rule("grid:rows=2,cols=3")
    each = tuple(np.broadcast_to(damping, 6).astype(float).tolist())
    for view in HEARD:
        loop = Loop(Scene(weights, view, 5, 6), each)
        exact = loop.form.scalar_maximum()
        for engine in ENGINES:
            found = sensitivity(loop.protocol, view, [5], contribution="scalar", engine=engine)
            assert Fraction(found.squared_lower[0]) <= exact <= Fraction(found.squared_upper[0])
            assert found.squared_upper[0] <= float(exact) * (1 + 1e-8) + 1e-9


@given(loops(), st.floats(0.05, np.pi))
def test_the_response_spectrum_is_that_of_the_definition(loop: Loop, frequency: float) -> None:
    protocol = loop.protocol
    A = protocol.transition.toarray()
    # Directions that never fade and are not seen leave no steady filter.
    assume(np.abs(np.linalg.eigvals(A)).max() < 0.99)
    shown = observe(protocol, loop.scene.view)
    system = hidden_system(protocol, shown)
    assume(not system.over_informed)
    assume(system.rows.shape[0] > 0)
    R = shown.rows.toarray() @ np.linalg.inv(np.eye(protocol.n) - np.exp(-1j * frequency) * A)
    N = R[:, np.setdiff1d(np.arange(protocol.n), shown.known)]
    g = R[:, [loop.scene.target]]
    expected = float(np.linalg.norm(np.linalg.pinv(N, rcond=1e-10) @ g) ** 2)
    found = response_spectrum(protocol, loop.scene.view, loop.scene.target, np.array([frequency]))
    assert found[0] == pytest.approx(expected, abs=1e-7)
    limit = rate(protocol, loop.scene.view, [loop.scene.target])[loop.scene.target].limit
    assert expected <= limit.upper * (1 + 1e-9) + 1e-9


@given(scenes(most_rounds=6))
def test_turning_every_sign_in_every_round_changes_nothing(scene: Scene) -> None:
    # With D = −I messages are (−1)ᵗ times those of the open loop with contributions (−1)ᵗ x_t.
    plain = sensitivity(gossip(scene.weights, rounds=scene.rounds), scene.view, [scene.target])
    turned = sensitivity(gossip(scene.weights, rounds=scene.rounds, damping=-1), scene.view, [scene.target])
    assert turned.squared_lower[0] <= plain.squared_upper[0]
    assert plain.squared_lower[0] <= turned.squared_upper[0]
    assert turned.squared_upper[0] == pytest.approx(plain.squared_upper[0], rel=1e-3, abs=1e-9)


def test_the_rate_of_a_turned_loop_is_that_of_the_open_one_half_a_turn_on() -> None:
    weights = metropolis_weights("ring:n=7")
    for view in (View.secure_sum(0), View.neighbourhood(0), View.single_node(0, own_noise="hidden")):
        plain, turned = (
            rate(gossip(weights, rounds=1, damping=damping), view, [1])[1].limit for damping in (None, -1)
        )
        assert turned.upper == pytest.approx(plain.upper, rel=1e-6)
        frequencies = np.linspace(0.1, 3, 7)
        assert response_spectrum(
            gossip(weights, rounds=1, damping=-1), view, 1, np.pi - frequencies
        ) == pytest.approx(response_spectrum(weights, view, 1, frequencies), abs=1e-8)


@pytest.mark.parametrize(
    "damping", [0.9, [1, 0.5, 0.9, 0.2, 1, 0.7, 1, 0.4], [1, -0.5, 0.9, -1, 0, 0.7, 1, -0.4]]
)
def test_long_horizons_agree_with_the_rate(damping: Any) -> None:
    weights = metropolis_weights("ring:n=8")
    protocol = gossip(weights, rounds=20_000, damping=damping)
    view = View.secure_sum(0)
    found = sensitivity(protocol, view, [1])
    limit = rate(protocol, view, [1])[1].limit
    assert found.method[0] == "dual"
    assert found.squared_lower[0] / 20_000 == pytest.approx(limit.upper, rel=2e-3)
    assert found.squared_upper[0] / 20_000 == pytest.approx(limit.upper, rel=2e-3)
    proof = certify(protocol, view, 1)
    assert verify(proof, weights).verified
