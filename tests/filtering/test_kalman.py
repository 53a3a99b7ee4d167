# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from tests.laws.test_threshold_laws import two_cliques

from sottovoce.filtering import HiddenSystem, hidden_system, whitened_response
from sottovoce.filtering.kalman import FilterSizes, Gains, Settling, filter_gains, gain_distortion
from sottovoce.filtering.response import FilteredResponse
from sottovoce.filtering.rounding import MOST_MISSING
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights, uniform_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.protocols import gossip
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.views import View, observe

DIRECTED = matrix_weights(
    [
        [0.5, 0.3, 0.0, 0.2, 0.0],
        [0.1, 0.6, 0.3, 0.0, 0.0],
        [0.0, 0.2, 0.2, 0.2, 0.4],
        [0.7, 0.0, 0.0, 0.3, 0.0],
        [0.0, 0.25, 0.0, 0.25, 0.5],
    ]
)
SYSTEMS = {
    "ring, own message": (metropolis_weights("ring:n=6"), View.single_node(0, own_noise="hidden")),
    "ring, sum": (metropolis_weights("ring:n=6"), View.secure_sum(0)),
    "star, own message known": (metropolis_weights("star:n=6"), View.single_node(0)),
    "star uniform, leaf": (uniform_weights("star:n=6"), View.neighbourhood(2, own_noise="hidden")),
    "directed, coalition": (DIRECTED, View.coalition_sums([0, 3])),
    "directed, mixed rows": (
        DIRECTED,
        View(observation=[[1, 0, 0, 0, 0], [0, 1, 1, 0, -1]], known_noise=[0]),
    ),
}
ALL = pytest.mark.parametrize("name", SYSTEMS)


def system_of(name: str, rounds: int) -> HiddenSystem:
    weights, view = SYSTEMS[name]
    protocol = gossip(weights, rounds=rounds)
    return hidden_system(protocol, observe(protocol, view))


def gains_of(system: HiddenSystem, within: float) -> Gains:
    return filter_gains(
        system.transition, system.rows, system.last_rows, system.rounds, Settling(within=within)
    )


def response_with(system: HiddenSystem, gains: Gains) -> FilteredResponse:
    response = whitened_response(system, engine="filter")
    assert isinstance(response, FilteredResponse)
    # Of gains that are kept as early as here M is known, and no bound of its rounding.
    return replace(response, gains=replace(gains, missing=min(gains.missing, MOST_MISSING)))


def forms_of(response: object, system: HiddenSystem) -> np.ndarray:
    assert hasattr(response, "forms")
    return np.concatenate([f.matrices for f in response.forms(np.arange(system.unknown.size))])


@ALL
def test_the_whole_whitened_view_has_unit_covariance(name: str) -> None:
    system = system_of(name, 7)
    response = response_with(system, gains_of(system, 0.0))
    columns = [response.respond(k, np.eye(7)) for k in range(system.unknown.size)]
    whitened = np.hstack(columns)
    assert len(whitened) == 6 * len(system.rows) + len(system.last_rows)
    assert np.allclose(whitened @ whitened.T, np.eye(len(whitened)), atol=1e-12)


@ALL
def test_each_gain_follows_the_recursion(name: str) -> None:
    system = system_of(name, 6)
    gains = gains_of(system, 0.0)
    A, C = system.transition.toarray(), system.rows
    P = np.eye(len(A))
    for k in range(5):
        R = C @ P @ C.T
        assert np.linalg.eigvalsh(R)[0] >= 1 - 1e-12
        K = P @ C.T @ np.linalg.inv(R)
        assert np.allclose(gains.gain[gains.at(k)], K, atol=1e-12)
        W = gains.whitener[gains.at(k)]
        assert np.allclose(W.T @ W, C.T @ np.linalg.inv(R) @ C, atol=1e-12)
        P = A @ (P - K @ C @ P) @ A.T + np.eye(len(A))
    last = gains.last_whitener
    expected = (
        system.last_rows.T @ np.linalg.inv(system.last_rows @ P @ system.last_rows.T) @ system.last_rows
    )
    assert np.allclose(last.T @ last, expected, atol=1e-12)
    assert gains.covariance_norm == pytest.approx(np.linalg.norm(P, 2), rel=1e-12)


@ALL
@pytest.mark.parametrize("within", [0.3, 1e-2, 1e-4])
def test_freezing_takes_noise_away_and_no_more_than_it_says(name: str, within: float) -> None:
    rounds = 30
    system = system_of(name, rounds)
    gains = gains_of(system, within)
    assert gains.frozen
    assert 0 <= gains.missing <= within
    assert len(gains.gain) < rounds - 1
    frozen = forms_of(response_with(system, gains), system)
    exact = forms_of(response_with(system, gains_of(system, 0.0)), system)
    for hat, form in zip(frozen, exact, strict=True):
        assert np.linalg.eigvalsh(hat - form)[0] >= -1e-11
        assert np.linalg.eigvalsh(form - (1 - gains.missing) * hat)[0] >= -1e-11


def test_freezing_is_noticed_where_it_matters() -> None:
    system = system_of("ring, sum", 30)
    coarse = forms_of(response_with(system, gains_of(system, 0.3)), system)
    exact = forms_of(response_with(system, gains_of(system, 0.0)), system)
    assert np.abs(coarse - exact).max() > 1e-3


@ALL
def test_gains_that_never_settle_are_all_kept(name: str) -> None:
    system = system_of(name, 5)
    gains = gains_of(system, 0.0)
    assert not gains.frozen
    assert len(gains.gain) == 4
    assert gains.settled_from(5) == 4
    assert gains.missing == 0.0


def test_frozen_gains_hold_for_all_later_rounds() -> None:
    system = system_of("ring, sum", 200)
    gains = gains_of(system, 1e-6)
    assert gains.settled_from(200) == len(gains.gain) - 1
    assert gains.at(0) == 0
    assert gains.at(199) == gains.at(10**6) == len(gains.gain) - 1


def test_a_single_round_needs_no_gain() -> None:
    gains = gains_of(system_of("ring, sum", 1), 1e-8)
    assert len(gains.gain) == 0
    assert gains.last_whitener.shape == (1, 5)
    assert np.linalg.norm(gains.last_whitener) == pytest.approx(1.0)


@pytest.mark.parametrize("weights", [metropolis_weights("ring:n=40"), uniform_weights("star:n=40")])
def test_the_distortion_covers_what_single_precision_loses(weights: GossipWeights) -> None:
    # The same filter in single precision is off by no more than the stated distortion at that precision.
    protocol = gossip(weights, rounds=60)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    gains = gains_of(system, 0.0)
    A, C = system.transition.toarray().astype(np.float32), system.rows.astype(np.float32)
    P = np.eye(len(A), dtype=np.float32)
    for k in range(59):
        root = np.linalg.cholesky(C @ P @ C.T)
        S = np.linalg.solve(root, C @ P)
        rough = np.linalg.solve(root.T, S).T
        off = np.linalg.norm(A @ (rough - gains.gain[gains.at(k)]) @ root, 2)
        assert off <= gains.distortion * 2.0**29
        P = A @ (P - S.T @ S) @ A.T + np.eye(len(A), dtype=np.float32)


def precise(matrix: np.ndarray) -> np.ndarray:
    """Floats as numbers of the precision that is set."""
    return np.array([mpmath.mpf(float(x)) for x in np.ravel(matrix)], dtype=object).reshape(matrix.shape)


def unwhite(response: FilteredResponse) -> float:
    """How far the covariance of what the stored filter shows is from I, in 256 bits, for noise of covariance I."""
    gains, size, rounds = response.gains, response.size, response.rounds
    A, C = precise(dense_transition(response)), precise(response.rows)
    state, shown = precise(np.zeros((size, size * rounds))), []
    for t in range(rounds):
        state[:, size * t : size * (t + 1)] = precise(np.eye(size))
        shown.append(precise(response.whitener(t)) @ state)
        state = A @ (state - precise(gains.gain[gains.at(t)]) @ (C @ state))
    noise = np.vstack(shown)
    return float(np.linalg.norm((noise @ noise.T - precise(np.eye(len(noise)))).astype(float), 2))


def test_the_distortion_covers_rounding_in_256_bits_and_is_not_a_thousand_times_too_large() -> None:
    shares = []
    scenes = {**SYSTEMS, "slow": (two_cliques(3, 1e-6), View.secure_sum(1))}
    for weights, view in scenes.values():
        protocol = gossip(weights, rounds=12)
        system = hidden_system(protocol, observe(protocol, view))
        gains = gains_of(system, 0.0)
        with mpmath.workprec(256):
            # ‖N̂N̂ᵀ − I‖ ≤ 2d + d² where the noise map is off by d.
            shares.append(unwhite(response_with(system, gains)) / (2 * gains.distortion))
    assert max(shares) <= 1
    assert min(shares) >= 1e-3


def test_longer_rows_of_a_transition_distort_more() -> None:
    """AΦPAᵀ sums as many terms as a row of A has, twice: that counts in full, and halved in the result."""
    n = 40
    rows, P = np.eye(1, n), np.eye(n)
    short, long = (
        gain_distortion(FilterSizes(transition=A, covariance=P, norm=1.0, gain=1.0), rows)
        for A in (np.eye(n), np.full((n, n), 1 / n))
    )
    assert long - short >= (n - 1) * UNIT_ROUNDOFF * float(np.linalg.norm(P))
