# SPDX-License-Identifier: Apache-2.0
"""Forms that are bands: whether diag(y) is above one, and the most that a stream which turns shows of it.

A form M̃ of T rounds that is 0 beyond w rounds off its diagonal is held as the lower band that LAPACK takes, (w + 1, T).

Soundness: `is_dominated`. Speed: `peak`.
Source: docs/proofs/insertion.md, "Domination".
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft
from scipy.linalg.lapack import dpbtrf

from sottovoce.sensitivities.rounding import definiteness_margin

__all__ = ["is_dominated", "peak"]

# Speed alone: the points of the grid for ω.
POINTS = 4096


def peak(row: np.ndarray) -> tuple[float, float]:
    """ω where r_0 + 2Σ r_d cos ωd is largest, next to a grid, and the value there.

    A grid by one Fourier transform, then a parabola through three of its points.

    Guarantee: none: an estimate that tells which frequency to try. The value is that of the symbol at the frequency
    returned.
    """
    symbol = 2 * fft.rfft(row, 2 * POINTS).real - row[0]
    best = int(np.argmax(symbol))
    frequency = math.pi * best / POINTS
    if 0 < best < POINTS:
        before, here, after = symbol[best - 1 : best + 2]
        curve = before - 2 * here + after
        frequency += (before - after) / (2 * curve) * math.pi / POINTS if curve < 0 else 0.0
    return frequency, float(row[0] + 2 * np.cos(frequency * np.arange(1, len(row))) @ row[1:])


def is_dominated(band: np.ndarray, y: np.ndarray) -> bool:
    """Whether diag(y) ⪰ M, proved for a banded M as stored, given by its lower band.

    Guarantee: True is a proof, by the margin of `definiteness_margin`: a Cholesky factor of a band is one of the
    matrix. False says nothing.
    Source: docs/proofs/spectra.md, "One matrix above another".

    >>> is_dominated(np.array([[2.0, 2.0], [-1.0, 0.0]]), np.array([3.1, 3.1]))
    True
    """
    if not (y >= 0).all() or not np.isfinite(y).all():
        return False
    margin = definiteness_margin(len(y), float(y.sum() + np.abs(band[0]).sum()))
    rest = np.negative(band)
    rest[0] += y - margin
    # What is no number makes all pivots after it none, and LAPACK need not say so.
    factor, failed = dpbtrf(rest, lower=1, overwrite_ab=1)
    return bool(failed == 0 and factor[0, -1] > 0)
