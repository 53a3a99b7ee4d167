# SPDX-License-Identifier: Apache-2.0
"""The balls of gradient steps hold the steps they are said to hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.feedback.balls import update_slopes


def in_ball(first: Any, second: Any, slopes: tuple[float, float]) -> bool:
    """Whether a difference of inputs and its difference of outputs fit the ball."""
    centre, radius = (slopes[0] + slopes[1]) / 2, (slopes[1] - slopes[0]) / 2
    return bool(np.linalg.norm(second - centre * first) <= radius * np.linalg.norm(first) * (1 + 1e-9))


@pytest.mark.parametrize("step", [0.1, 1.0, 3.0])
def test_clipped_softmax_leaves_the_convex_ball_and_stays_in_its_own(step: float) -> None:
    rng = np.random.default_rng(1)
    convex = update_slopes(step=step, smoothness=0.5)
    clipped = update_slopes(step=step, smoothness=0.5, losses="clipped")
    left = 0
    for _ in range(4000):
        x = rng.normal(size=2)
        x /= np.linalg.norm(x)
        z = rng.normal(size=(3, 2)) * 2
        other = z + rng.normal(size=z.shape) * 10 ** rng.uniform(-3, 0)
        moved = [w - step * clip(gradient(w, x), 0.6) for w in (z, other)]
        pair = (other - z).ravel(), (moved[1] - moved[0]).ravel()
        assert in_ball(*pair, clipped)
        left += not in_ball(*pair, convex)
    assert left > 0


def gradient(w: Any, x: Any) -> Any:
    """Of softmax cross-entropy of one record of class 0."""
    p = np.exp(w @ x - (w @ x).max())
    p /= p.sum()
    p[0] -= 1
    return np.outer(p, x)


def clip(g: Any, most: float) -> Any:
    return g * min(1.0, most / np.linalg.norm(g))


def test_a_projection_pair_attains_the_radius_of_clipping() -> None:
    """P and Q projections onto lines at angle θ: the largest ‖PQ − 3/8‖ is 3√3/8."""
    largest = 0.0
    for angle in np.linspace(0, np.pi, 2001):
        u, v = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
        largest = max(largest, float(np.linalg.norm(np.outer(u, u) @ np.outer(v, v) - 3 / 8 * np.eye(2), 2)))
    assert largest == pytest.approx(3 * np.sqrt(3) / 8, abs=1e-6)


@pytest.mark.parametrize("clipped", [False, True])
def test_logistic_steps_stay_in_the_convex_ball_clipped_or_not(clipped: bool) -> None:
    rng = np.random.default_rng(2)
    slopes = update_slopes(step=2.0, smoothness=0.25, ridge=0.1)
    for _ in range(2000):
        x = rng.normal(size=3)
        x /= np.linalg.norm(x)
        z, other = rng.normal(size=(2, 3)) * 3

        def moved(w: Any, x: Any = x) -> Any:
            g = -x / (1 + np.exp(w @ x))
            return w - 2.0 * ((clip(g, 0.3) if clipped else g) + 0.1 * w)

        assert in_ball(other - z, moved(other) - moved(z), slopes)


def test_strong_convexity_and_plain_smoothness() -> None:
    assert update_slopes(step=0.5, smoothness=1, convexity=0.5) == pytest.approx((0.5, 0.75))
    assert update_slopes(step=0.5, smoothness=1, losses="smooth") == pytest.approx((0.5, 1.5))
    assert update_slopes(step=1, smoothness=1, losses="clipped") == pytest.approx((-0.0245, 1.2745), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"step": 0}, "step must be"),
        ({"smoothness": -1}, "smoothness must be"),
        ({"losses": "deep"}, "losses must be one of"),
        ({"convexity": 2}, "at most the smoothness"),
        ({"convexity": 0.5, "losses": "clipped"}, "for clipped losses"),
        ({"ridge": -1}, "ridge must be"),
    ],
)
def test_bad_balls_are_refused(options: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        update_slopes(**({"step": 1, "smoothness": 1} | options))
