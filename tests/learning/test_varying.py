"""Δ² of loops that vary from round to round, against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from tests.learning.exact import moving_form
from tests.reference import exact_weights, seen_and_known, semidefinite_maximum

from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.filtering import hidden_system
from sottovoce.learning.varying import fits_dense, scale_spread, varying_ends
from sottovoce.views import observe

VIEWS = (
    View.secure_sum(0),
    View.neighbourhood(1),
    View.single_node(0),
    View.single_node(1, own_noise="hidden"),
    View.coalition_sums([0, 2]),
)
FACTORS = {
    "falling steps": [Fraction(1), Fraction(2), Fraction(3, 2), Fraction(4, 3), Fraction(5, 4)],
    "rising steps": [Fraction(1), Fraction(1, 2), Fraction(2, 3), Fraction(3, 4), Fraction(4, 5)],
    "back and forth": [Fraction(1), Fraction(3), Fraction(1, 4), Fraction(2), Fraction(1, 2)],
}


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("name", FACTORS)
def test_the_ends_hold_the_truth(view: View, name: str) -> None:
    weights = graphs.metropolis_weights("path:n=4")
    rounds = 5
    protocol = gossip(weights, rounds=rounds)
    W = exact_weights(weights)
    C, known = seen_and_known(view, W)
    system = hidden_system(protocol, observe(protocol, view))
    factors = FACTORS[name]
    targets = np.array([k for k in range(4) if k not in known])
    lower, upper, _ = varying_ends(system, targets, np.array([float(each) for each in factors]))
    for place, target in enumerate(targets):
        form = moving_form(W, C, known, int(target), [[f] * 4 for f in factors], [Fraction(1)] * rounds)
        truth = semidefinite_maximum(form) if form.any() else 0.0
        assert lower[place] <= truth + 1e-6
        assert upper[place] >= truth - 1e-6
        assert upper[place] <= truth * 1.001 + 1e-6


def test_factors_of_one_are_plain_gossip() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=6"), rounds=12)
    view = View.secure_sum(0)
    plain = sensitivity(protocol, view)
    system = hidden_system(protocol, observe(protocol, view))
    lower, upper, method = varying_ends(system, plain.indices, np.ones(12))
    assert np.allclose(upper, plain.squared_upper, rtol=3e-4)
    assert np.allclose(lower, plain.squared_lower, rtol=3e-4)
    assert set(method) <= {"abs", "dual"}


def test_targets_out_of_reach_are_not_seen() -> None:
    protocol = gossip(graphs.metropolis_weights("path:n=6"), rounds=3)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    lower, upper, method = varying_ends(system, np.array([1, 5]), np.array([1.0, 2.0, 1.5]))
    assert upper[0] > 0
    assert (lower[1], upper[1], method[1]) == (0, 0, "unreached")


def test_one_pair_of_scales_bounds_the_other_loop() -> None:
    """Δ²/spread ≤ Δ̃² ≤ spread·Δ², with Δ̃² from exact arithmetic."""
    weights = graphs.metropolis_weights("path:n=4")
    protocol = gossip(weights, rounds=5)
    view = View.secure_sum(0)
    W = exact_weights(weights)
    C, known = seen_and_known(view, W)
    plain = sensitivity(protocol, view)
    for name, factors in FACTORS.items():
        spread = scale_spread(np.array([float(each) for each in factors]), 1.0)
        for target in (1, 2, 3):
            form = moving_form(W, C, known, target, [[f] * 4 for f in factors], [Fraction(1)] * 5)
            truth = semidefinite_maximum(form)
            assert plain[target].squared.lower / spread <= truth + 1e-6, name
            assert truth <= plain[target].squared.upper * spread + 1e-6, name


def test_spread_is_exact_where_it_is_known() -> None:
    assert scale_spread(np.ones(9), 1.0) == pytest.approx(1)
    assert scale_spread(np.array([1, 2.0, 1.5, 4 / 3]), 1.0) == pytest.approx(16)
    assert scale_spread(np.array([1, 0.5, 0.5, 0.5]), 0.5) == pytest.approx(1)
    assert np.isfinite(scale_spread(np.full(10_000, 2.0), 1.0))


def test_a_loop_that_forgets_has_no_scale_of_its_own() -> None:
    assert scale_spread(np.array([1.0, 0.5, 0.0]), 1.0) == np.inf


def test_what_cannot_be_factorised_counts_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(_: np.ndarray) -> np.ndarray:
        raise np.linalg.LinAlgError

    protocol = gossip(graphs.metropolis_weights("path:n=4"), rounds=4)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    monkeypatch.setattr("numpy.linalg.cholesky", singular)
    lower, upper, method = varying_ends(system, np.array([1, 2]), np.array([1.0, 2.0, 1.5, 1.2]))
    assert (lower == 0).all()
    assert (upper == 4).all()
    assert set(method) == {"cap"}


def test_large_views_are_left_to_the_bound() -> None:
    small = gossip(graphs.metropolis_weights("ring:n=10"), rounds=50)
    large = gossip(graphs.metropolis_weights("ring:n=200"), rounds=500)
    assert fits_dense(hidden_system(small, observe(small, View.secure_sum(0))))
    assert not fits_dense(hidden_system(large, observe(large, View.secure_sum(0))))
