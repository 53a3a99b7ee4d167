# SPDX-License-Identifier: Apache-2.0
"""The nonlinear neighbour: its density against plain integration, its loss against known ends and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from tests.studies.small import quick

from sottovoce import gaussian
from sottovoce.studies.nonlinear_neighbour import Clipped, density, nonlinear_loss


@pytest.mark.parametrize(("first", "second", "own"), [(0.3, -0.7, 0.0), (2.0, 1.0, 1.5), (-3.0, 2.5, -2.0)])
def test_the_density_is_an_integral_over_what_is_hidden(first: float, second: float, own: float) -> None:
    clip, c = 1.0, 1.0

    def normal(x: float, variance: float) -> float:
        return float(np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))

    def joint(b: float) -> float:
        # A = z_1 − B; the second sum is ⅔A + c + n + ⅔B − clip(⅔B + ⅓v).
        rest = second - 2 / 3 * (first - b) - c - 2 / 3 * b + np.clip(2 / 3 * b + own / 3, -clip, clip)
        return normal(b, 1) * normal(first - b - c, 1) * normal(rest, 2)

    kinks = [1.5 * (-clip - own / 3), 1.5 * (clip - own / 3)]
    exact = integrate.quad(joint, -12, 12, points=kinks, epsabs=1e-13)[0]
    found = density(np.array([first]), np.array([second]), c, own, clip)
    assert found[0] == pytest.approx(exact, rel=1e-9)


def test_the_ends_are_the_open_and_the_linear_loop() -> None:
    rng = np.random.default_rng(1)
    still, linear = (
        nonlinear_loss(Clipped(clip=clip, epsilons=(1.0,), grid=301, nodes=5, simulations=1000), rng)
        for clip in (1e-9, 50.0)
    )
    assert still.delta[0] == pytest.approx(gaussian.delta(1.0, 1.0), abs=2e-4)
    assert linear.delta[0] == pytest.approx(gaussian.delta(1.3**0.5, 1.0), abs=2e-4)


def test_quadrature_and_simulation_agree_above_what_is_certified() -> None:
    loss = quick("errata-f").nonlinear
    one = quick("errata-f").config.epsilons.index(1.0)
    assert abs(loss.delta[one] - loss.simulated) < 4 * loss.simulated_error + loss.quadrature_error
    assert loss.certified[one] == pytest.approx(gaussian.delta(1.0, 1.0))
    assert loss.simulated - 4 * loss.simulated_error > loss.certified[one]
    assert loss.delta[one] == pytest.approx(0.170, abs=1e-3)
    assert loss.delta_at_rest == pytest.approx(0.1724, abs=1e-3)
    assert (loss.delta >= loss.certified).all()
