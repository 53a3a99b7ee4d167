# SPDX-License-Identifier: Apache-2.0
"""The whitened response of one target as matrices, and its steady response over frequencies.

    z_t = A x_{t−1} + b c_t;   (Fc)_t = D_t z_t;   x_t = (I − K_t C) z_t,   D_t = L_t⁻¹C.

From the last gains that are kept on, K_t and D_t no longer change. A stream that turns by ω each round then keeps
up the state e^{iωt}(I − e^{−iω}B)⁻¹b, B = A(I − KC), and shows φ(ω) = ‖D(I − e^{−iω}B)⁻¹b‖² a round. Freezing the
gains early takes noise away, never adds it, so that an upper end of the frozen model is one of the true one; a
lower end needs all the gains (`whole_model`).
Source: docs/mathematics.md, sections 5, 7 and 8; docs/proofs/bounded-real.md for ν and α.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sottovoce.filtering import ClosedLoop, spread
from sottovoce.rounding import gamma_above

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["TargetModel", "dense_transition", "model_of", "peak_of", "whole_model"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetModel:
    """The whitened response of one target as matrices: A, C, b and the gains and whiteners of the start-up.

    `transition` is A (r × r), `rows` C (m × r), `source` b (r); `gains` (rounds, r, m) and `whiteners` (rounds,
    m, r) hold K_t and D_t of the first rounds, the last of them for all rounds after. `rounds` is T. A state of
    norm 1 shows at most `shows` in all rounds after it: noise of covariance I would hide it, so that a filter
    without rounding shows at most 1 of it (docs/proofs/streams.md).
    """

    transition: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    gains: np.ndarray
    whiteners: np.ndarray
    rounds: int
    shows: float = 1.0

    @cached_property
    def turn(self) -> float:
        """ν ≥ ‖|K||C|‖ for all gains.

        Guarantee: an upper bound up to `ROOM`: a Frobenius norm of K times `reading`.
        """
        return self.reading * float(np.linalg.norm(self.gains, axis=(1, 2)).max(initial=0.0))

    @cached_property
    def showing(self) -> float:
        """The largest ‖D‖ of all whiteners.

        Guarantee: an upper bound of the spectral norms up to `ROOM`: Frobenius norms are larger.
        """
        return float(np.linalg.norm(self.whiteners, axis=(1, 2)).max(initial=0.0))

    @cached_property
    def stretch(self) -> float:
        """α ≥ ‖|A|‖.

        Guarantee: an upper bound, √(‖A‖₁‖A‖_∞) (`filtering.spread`).
        """
        return spread(np.abs(self.transition))

    @cached_property
    def reading(self) -> float:
        """A bound of ‖|C|‖.

        Guarantee: an upper bound.
        """
        return spread(np.abs(self.rows))

    @cached_property
    def closed(self) -> ClosedLoop:
        """A Φ and L⁻¹C in steady state; A − (AK)C errs by γ_{r+m+2}(|A| + |A||K||C|) at most.

        Guarantee: the true loop is within `off` of the one stored, in norm.
        """
        loop = self.transition - (self.transition @ self.gains[-1]) @ self.rows
        off = gamma_above(sum(self.rows.shape) + 2) * self.stretch * (1 + self.turn)
        return ClosedLoop(loop=loop, whitener=self.whiteners[-1], off=off)


def model_of(response: FilteredResponse, position: int, freeze: int) -> TargetModel:
    """The response of one target with its gains frozen after `freeze` rounds at the latest.

    Guarantee: M of this model is at least the true one, as forms, up to the distortion of the
    response: frozen gains are optimal for less noise. `shows` is made for all the gains, and is read
    with these alone (`whole_model`).
    Source: docs/mathematics.md, section 5; docs/proofs/streams.md, Claim 1, for `shows`.
    """
    return TargetModel(
        transition=dense_transition(response),
        rows=response.rows,
        source=response.source(position),
        gains=response.gains.gain[:freeze],
        whiteners=response.gains.whitener[:freeze],
        rounds=response.rounds,
        shows=(1 + response.distortion) / (1 - response.gains.missing) ** 0.5 + response.distortion,
    )


def whole_model(response: FilteredResponse, position: int) -> TargetModel:
    """The response of one target with all its gains, which lower ends need.

    Guarantee: the model as stored, gain by gain; a lower end of it must not be that of a model that froze its gains
    early.
    """
    return model_of(response, position, len(response.gains.gain))


def dense_transition(response: FilteredResponse) -> np.ndarray:
    """The transition of a response as a dense matrix."""
    matrix = response.transition
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def peak_of(model: TargetModel) -> tuple[float, float]:
    """The frequency of the largest steady response, and φ there: an estimate, which proves nothing.

    φ is looked at on a grid of 257 frequencies and at the angles of the poles, where it may rise in between, and
    the best place is refined. 0 and π are tried as well: plain streams have these frequencies.
    """
    closed, source = model.closed, model.source
    poles = np.linalg.eigvals(closed.loop)
    angles = np.concatenate([np.linspace(0, np.pi, 257), np.abs(np.angle(poles))])
    values = closed.values(angles, source)
    best, width = float(angles[np.argmax(values)]), np.pi / 256
    refined = scipy.optimize.minimize_scalar(
        lambda angle: -closed.value(angle, source),
        bounds=(max(0.0, best - width), min(np.pi, best + width)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    candidates = [best, float(refined.x), 0.0, np.pi]
    frequency = max(candidates, key=lambda angle: closed.value(angle, source))
    return frequency, closed.value(frequency, source)
