# SPDX-License-Identifier: Apache-2.0
"""What Δ² is compared with: valid, and as loose as they are said to be."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce import gaussian, theory
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View


def test_muffliato_adds_every_message() -> None:
    weights, observer, target, T = metropolis_weights("karate"), 5, 20, 6
    W = weights.matrix.toarray()
    total = 0.0
    for s in range(1, T + 1):
        for k in range(T - s + 1):
            power = np.linalg.matrix_power(W, k)
            for w in weights.neighbours(observer):
                total += power[w, target] ** 2 / (power[w] ** 2).sum()
    assert theory.muffliato_growth(weights, observer, target, T)[-1] == pytest.approx(total)


@pytest.mark.parametrize(("observer", "target"), [(0, 33), (5, 6), (11, 0), (2, 15)])
def test_muffliato_never_lies_below_what_the_view_tells(observer: int, target: int) -> None:
    weights = metropolis_weights("karate")
    bound = theory.muffliato_growth(weights, observer, target, 12)
    view = View.neighbourhood(observer, own_noise="hidden")
    for T in (1, 3, 12):
        found = sensitivity(gossip(weights, rounds=T), view, [target])
        assert found.squared_lower[0] <= bound[T - 1] + 1e-9


def test_muffliato_grows_as_the_square() -> None:
    growth = theory.muffliato_growth(metropolis_weights("complete:n=10"), 0, 1, 2000)
    assert growth[1999] / growth[999] == pytest.approx(4, rel=0.01)
    # In the long run each of the 9 messages tells 1/n of a contribution, over half of T² pairs of rounds.
    assert growth[1999] == pytest.approx(9 / 10 * 2000**2 / 2, rel=0.01)


def test_renyi_epsilon_is_the_best_order_and_above_the_gaussian() -> None:
    rho, delta = 0.8, 1e-6
    orders = np.linspace(1.001, 40, 400_000)
    best = (orders * rho + np.log(1 / delta) / (orders - 1)).min()
    found = theory.renyi_epsilon(2 * rho * 9, 3.0, delta)
    assert found == pytest.approx(best, rel=1e-6)
    assert found > gaussian.epsilon(np.sqrt(2 * rho), delta)


def test_local_and_central() -> None:
    assert theory.local_growth(7) == 7
    assert theory.central_growth(4, 7) == 7 / 4


def test_errors() -> None:
    with pytest.raises(InputError, match="node 1 cannot be its own observer"):
        theory.muffliato_growth(np.full((2, 2), 0.5), 1, 1, 3)
    with pytest.raises(InputError, match="growth must be at least 0 and noise_multiplier above 0"):
        theory.renyi_epsilon(-1, 1, 1e-5)
