# SPDX-License-Identifier: Apache-2.0
"""The whitened response of one target as matrices, and its steady response over frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["Spectrum", "TargetModel", "dense_transition", "model_of", "peak_of", "whole_model"]

# The frequencies at which φ is looked for are solved for together while the matrices take no more than this.
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetModel:
    """The whitened response of one target as matrices: A, C, b and the gains and whiteners of the start-up."""

    transition: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    gains: np.ndarray
    whiteners: np.ndarray
    rounds: int

    @cached_property
    def stretch(self) -> float:
        """‖A‖₂², at least 1: what a product with A on both sides may enlarge an error by."""
        return max(1.0, float(np.linalg.norm(self.transition, 2)) ** 2)

    @property
    def closed_loop(self) -> np.ndarray:
        """A Φ in steady state."""
        return np.asarray(self.transition - (self.transition @ self.gains[-1]) @ self.rows)


def model_of(response: FilteredResponse, position: int, freeze: int) -> TargetModel:
    """The response of one target with its gains frozen after `freeze` rounds at the latest."""
    return TargetModel(
        transition=dense_transition(response),
        rows=response.rows,
        source=response.source(position),
        gains=response.gains.gain[:freeze],
        whiteners=response.gains.whitener[:freeze],
        rounds=response.rounds,
    )


def whole_model(response: FilteredResponse, position: int) -> TargetModel:
    """The response of one target with all its gains."""
    return model_of(response, position, len(response.gains.gain))


def dense_transition(response: FilteredResponse) -> np.ndarray:
    """The transition of a response as a dense matrix."""
    matrix = response.transition
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def peak_of(model: TargetModel) -> tuple[float, float]:
    """The frequency of the largest steady response, and φ there: an estimate, which proves nothing."""
    closed, whitener = model.closed_loop, model.whiteners[-1]
    poles = np.linalg.eigvals(closed)
    spectrum = Spectrum(closed=closed, whitener=whitener, source=model.source)
    angles = np.concatenate([np.linspace(0, np.pi, 257), np.abs(np.angle(poles))])
    values = spectrum.values(angles)
    best, width = float(angles[np.argmax(values)]), np.pi / 256
    refined = optimize.minimize_scalar(
        lambda angle: -spectrum(angle),
        bounds=(max(0.0, best - width), min(np.pi, best + width)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    candidates = [best, float(refined.x), 0.0, np.pi]
    frequency = max(candidates, key=spectrum)
    return frequency, spectrum(frequency)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """φ(ω) = ‖L⁻¹C (I − e^{−iω} AΦ)⁻¹ b‖²."""

    closed: np.ndarray
    whitener: np.ndarray
    source: np.ndarray

    def __call__(self, angle: float) -> float:
        """φ at one frequency."""
        return float(np.linalg.norm(self.whitener @ self.state(angle)) ** 2)

    def values(self, angles: np.ndarray) -> np.ndarray:
        """φ at each of these frequencies, many at a time."""
        batch = max(1, BATCH_BYTES // (16 * len(self.closed) ** 2))
        identity, source = np.eye(len(self.closed)), self.source.astype(complex)[:, None]
        found = []
        for begin in range(0, len(angles), batch):
            turns = np.exp(-1j * angles[begin : begin + batch])[:, None, None]
            states = np.linalg.solve(identity - turns * self.closed, source)
            found.append((np.abs(self.whitener @ states) ** 2).sum(axis=(1, 2)))
        return np.concatenate(found)

    def state(self, angle: float) -> np.ndarray:
        """The steady state (I − e^{−iω} AΦ)⁻¹ b that a contribution turning by ω each round keeps up."""
        turned = np.eye(len(self.closed)) - np.exp(-1j * angle) * self.closed
        return np.asarray(np.linalg.solve(turned, self.source.astype(complex)))
