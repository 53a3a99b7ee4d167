# SPDX-License-Identifier: Apache-2.0
"""A star of two leaves whose other leaf takes clipped gradient steps: its privacy loss by quadrature and simulation.

Two rounds, σ = 1, the target contributes 1 in both. The other leaf has a Huber loss with gradient g(θ) = θ within
±clip and ±clip beyond, and takes steps of size 1. With the centre's own first message v known, it sees

    z_1 = A + B,   z_2 = ⅔A + c_2 + n + ⅔B − g(⅔B + ⅓v),   A ~ N(c_1, 1), B ~ N(0, 1), n ~ N(0, 2),

so B given z_1 is N((z_1 − c_1)/2, ½), and given B too z_2 is normal: the density of (z_1, z_2) is a sum of three
terms, one for each piece of g, in normal densities and distribution functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sottovoce import gaussian

__all__ = ["Clipped", "Loss", "density", "nonlinear_loss"]

SPAN = 11.0


@dataclass(frozen=True, kw_only=True)
class Clipped:
    """Where the other leaf clips, at which ε its loss is asked for, and the effort of simulation and quadrature."""

    simulations: int = 400_000
    epsilons: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
    grid: int = 601
    nodes: int = 15
    clip: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Loss:
    """δ(ε) of the nonlinear loop over ε, what is certified for fixed contributions, and δ(1) simulated.

    `quadrature_error` is the change of δ(1) under a grid twice as coarse, plus the mass off the grid.
    """

    certified: np.ndarray
    delta: np.ndarray
    delta_at_rest: float
    quadrature_error: float
    simulated: float
    simulated_error: float


def density(
    first: np.ndarray, second: np.ndarray, contribution: float, own: np.ndarray | float, clip: float
) -> np.ndarray:
    """The density of (z_1, z_2) when the target contributes `contribution` in both rounds, given v = `own`.

    Guarantee: exact up to rounding.
    """
    mean, rest = (first - contribution) / 2, second - 2 / 3 * first - contribution
    low, high = 1.5 * (-clip - own / 3), 1.5 * (clip - own / 3)
    root = np.sqrt(0.5)
    below = ndtr((low - mean) / root) * _normal(rest - clip, 2.0)
    beyond = ndtr((mean - high) / root) * _normal(rest + clip, 2.0)
    # Between the kinks z_2 is linear in B: rest = −⅔B − v/3 + n, so B given rest is normal with this mean and variance.
    variance = 1 / (2 + (4 / 9) / 2)
    centre = variance * (2 * mean - (rest + own / 3) / 3)
    between = ndtr((high - centre) / np.sqrt(variance)) - ndtr((low - centre) / np.sqrt(variance))
    linear = _normal(rest + 2 / 3 * mean + own / 3, 2 + 4 / 9 / 2) * between
    return np.asarray(_normal(first - contribution, 2.0) * (below + beyond + linear))


def nonlinear_loss(asked: Clipped, rng: np.random.Generator) -> Loss:
    """δ(ε) averaged over the centre's own first message, by quadrature, and δ(1) by simulating the protocol."""
    epsilons, clip, grid = asked.epsilons, asked.clip, asked.grid
    places, shares = np.polynomial.hermite_e.hermegauss(asked.nodes)
    shares = shares / shares.sum()
    levels = np.array([*epsilons, 1.0])
    fine = sum(x * _deltas(levels, clip, float(v), grid) for v, x in zip(places, shares, strict=True))
    coarse = sum(
        x * _deltas(levels, clip, float(v), grid // 2 + 1) for v, x in zip(places, shares, strict=True)
    )
    simulated, error = _simulated(clip, asked.simulations, rng)
    return Loss(
        certified=gaussian.delta(np.ones(len(epsilons)), np.array(epsilons)),
        delta=np.asarray(fine)[:-1],
        delta_at_rest=float(_deltas(np.array([1.0]), clip, 0.0, grid)[0]),
        quadrature_error=float(abs(np.asarray(fine)[-1] - np.asarray(coarse)[-1])) + 1e-9,
        simulated=simulated,
        simulated_error=error,
    )


def _deltas(epsilons: np.ndarray, clip: float, own: float, grid: int) -> np.ndarray:
    """∫ max(0, p − e^ε q) by the trapezoidal rule on a square grid, for each ε."""
    axis = np.linspace(-SPAN, SPAN, grid)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    p, q = (density(first, second, c, own, clip) for c in (1.0, 0.0))
    cell = (axis[1] - axis[0]) ** 2
    return np.array([np.maximum(p - np.exp(epsilon) * q, 0).sum() * cell for epsilon in epsilons])


def _simulated(clip: float, count: int, rng: np.random.Generator) -> tuple[float, float]:
    """δ(1) = E[(1 − e^{1 − L})₊] over runs of the protocol, L the log-likelihood ratio of what was seen."""
    sent = rng.standard_normal((count, 3)) + np.array([0.0, 1.0, 0.0])
    # Metropolis weights of a star with two leaves: 1/3 along edges, 2/3 for a leaf itself.
    state = 2 / 3 * sent[:, 1:] + sent[:, :1] / 3
    first = sent[:, 1] + sent[:, 2]
    gradient = np.clip(state[:, 1], -clip, clip)
    again = state + rng.standard_normal((count, 2)) + np.column_stack([np.ones(count), -gradient])
    second = again.sum(axis=1) - 2 / 3 * sent[:, 0]
    p, q = (density(first, second, c, sent[:, 0], clip) for c in (1.0, 0.0))
    gains = np.maximum(1 - np.exp(1.0) * q / p, 0)
    return float(gains.mean()), float(gains.std() / np.sqrt(count))


def _normal(x: np.ndarray, variance: float) -> np.ndarray:
    return np.asarray(np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance))
