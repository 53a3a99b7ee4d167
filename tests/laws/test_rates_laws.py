# SPDX-License-Identifier: Apache-2.0
"""Laws of the rates, on random networks, views and frequencies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce.filtering import hidden_system
from sottovoce.graphs import GossipWeights, matrix_weights
from sottovoce.protocols import gossip
from sottovoce.rates import rate, response_spectrum, steady_state
from sottovoce.views import View, observe

VIEWS = (
    lambda i: View.single_node(i, own_noise="hidden"),
    lambda i: View.single_node(i),
    lambda i: View.secure_sum(i),
    lambda i: View.secure_sum(i, own_noise="hidden"),
    lambda i: View.neighbourhood(i),
    lambda i: View.coalition_sums([i, (i + 1) % 3]),
    lambda i: View.coalition_messages([i, (i + 1) % 3]),
)


@st.composite
def networks(draw: st.DrawFn, symmetric: bool | None = None) -> GossipWeights:
    """A path with random further edges, and random weights on them; directed half of the time."""
    n = draw(st.integers(4, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    edges = np.triu(rng.random((n, n)) < draw(st.floats(0.1, 0.8)), 1) | np.eye(n, k=1, dtype=bool)
    shares = rng.uniform(0.2, 1, (n, n)) * (edges | edges.T)
    if draw(st.booleans()) if symmetric is None else symmetric:
        shares = (shares + shares.T) / 2
        shares /= 1.25 * shares.sum(axis=1).max()
        return matrix_weights(shares + np.diag(1 - shares.sum(axis=1)))
    shares += np.diag(rng.uniform(0.2, 1, n))
    return matrix_weights(shares / shares.sum(axis=1, keepdims=True))


views = st.sampled_from(VIEWS)
observers = st.integers(0, 2)
frequencies = st.floats(0.05, np.pi)


def brute_force(weights: GossipWeights, view: View, frequency: float) -> tuple[np.ndarray, np.ndarray, int]:
    """g* K⁺ g of every unknown node, from the definition; the unknown nodes; the rank of K."""
    protocol = gossip(weights, rounds=1)
    seen = observe(protocol, view)
    W = weights.matrix.toarray()
    R = seen.rows.toarray() @ np.linalg.inv(np.eye(protocol.n) - np.exp(-1j * frequency) * W)
    unknown = np.setdiff1d(np.arange(protocol.n), seen.known)
    N = R[:, unknown]
    inverse = np.linalg.pinv(N, rcond=1e-9)
    return np.linalg.norm(inverse @ N, axis=0) ** 2, unknown, int(np.linalg.matrix_rank(N, tol=1e-9))


@examples(40)
@given(networks(), views, observers, frequencies)
def test_the_spectrum_is_the_definition(
    weights: GossipWeights, make: object, node: int, frequency: float
) -> None:
    view = make(node)  # type: ignore[operator]
    expected, unknown, rank = brute_force(weights, view, frequency)
    got = [response_spectrum(weights, view, int(j), np.array([frequency]))[0] for j in unknown]
    assert got == pytest.approx(expected, abs=1e-8)
    assert sum(got) == pytest.approx(rank, abs=1e-8)


@examples(40)
@given(networks(), views, observers, st.floats(0, np.pi))
def test_over_all_targets_the_spectrum_sums_to_the_rows_seen(
    weights: GossipWeights, make: object, node: int, frequency: float
) -> None:
    protocol = gossip(weights, rounds=1)
    system = hidden_system(protocol, observe(protocol, make(node)))  # type: ignore[operator]
    state = steady_state(system)
    shifted = np.eye(state.size) - np.exp(-1j * frequency) * state.closed.loop
    response = state.closed.whitener @ np.linalg.inv(shifted)
    assert (np.abs(response) ** 2).sum() == pytest.approx(len(system.rows), rel=1e-9)


@examples(40)
@given(networks(), views, observers, st.lists(frequencies, min_size=20, max_size=20))
def test_no_frequency_beats_the_upper_end_and_signs_reach_at_least_eight_over_pi_squared_of_it(
    weights: GossipWeights, make: object, node: int, sample: list[float]
) -> None:
    view = make(node)  # type: ignore[operator]
    found, signs = rate(weights, view), rate(weights, view, contribution="scalar")
    assert (found.lower >= 0).all()
    assert (found.lower <= found.upper).all()
    assert (found.upper <= 1).all()
    assert (found.upper <= found.lower * (1 + 1e-6)).all()
    assert (found.constant <= found.upper).all()
    for one in found:
        values = response_spectrum(weights, found.view, one.target, np.array([one.frequency, *sample, 0.0]))
        assert values.max() <= one.limit.upper + 1e-10
        assert values[0] == pytest.approx(one.limit.lower, rel=1e-6)
        assert values[-1] == pytest.approx(one.constant, abs=1e-9)
    assert (signs.lower <= found.upper).all()
    assert (signs.upper == found.upper).all()
    assert (signs.lower >= found.lower * 0.81).all()
    assert (signs.lower >= signs.constant * (1 - 1e-9)).all()


@examples(40)
@given(networks(), observers, st.sampled_from(["known", "hidden"]))
def test_constants_are_told_by_stationary_shares_when_one_row_is_seen(
    weights: GossipWeights, node: int, own: str
) -> None:
    found = rate(weights, View.secure_sum(node, own_noise=own))  # type: ignore[arg-type]
    values, vectors = np.linalg.eig(weights.matrix.toarray().T)
    shares = np.abs(vectors[:, np.argmin(np.abs(values - 1))])[found.indices] ** 2
    assert found.constant == pytest.approx(shares / shares.sum(), rel=1e-7)


@examples(40)
@given(networks(), observers, st.randoms(use_true_random=False))
def test_new_names_permute_the_rates_and_seeing_more_lowers_none(
    weights: GossipWeights, node: int, random: object
) -> None:
    order = list(range(weights.n))
    random.shuffle(order)  # type: ignore[attr-defined]
    renamed = matrix_weights(weights.matrix.toarray()[np.ix_(order, order)], labels=order)
    before, after = (rate(w, View.secure_sum(node)) for w in (weights, renamed))
    for one in before:
        assert after[one.target].limit.upper == pytest.approx(one.limit.upper, rel=1e-8)
        assert after[one.target].limit.lower == pytest.approx(one.limit.lower, rel=1e-8)
    assert (before.lower <= rate(weights, View.neighbourhood(node)).upper).all()
