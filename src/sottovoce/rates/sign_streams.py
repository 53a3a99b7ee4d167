# SPDX-License-Identifier: Apache-2.0
"""What streams of signs reach in the long run, for contributions that are numbers.

Signs c of period p have Δ²/T → Σ_ν |ĉ_ν|² φ(2πν/p), ĉ their Fourier coefficients over a period: each frequency of
the stream passes by itself. Every such sum is a lower end of the limit, and sup φ, the limit for vectors, an upper
one. Which streams are tried is speed: more of them can only raise the lower end.

Source: docs/mathematics.md, section 8; docs/proofs/transforms.md (peaks and signs).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.rates.rounding import FLOATED, sign_error
from sottovoce.rates.taylor_pieces import rows_at

if TYPE_CHECKING:
    from sottovoce.rates.supremum import Suprema
    from sottovoce.rates.taylor_pieces import Piece

__all__ = ["periodic_signs", "sign_limits", "sign_patterns"]

# Speed alone: a number of rounds with many divisors: all streams tried repeat after it.
PERIOD = 720


def sign_limits(found: list[Piece], inputs: np.ndarray, ends: Suprema) -> tuple[np.ndarray, np.ndarray]:
    """Lower bounds of lim Δ²/T for streams of signs, and their frequencies.

    A stream of period p reaches exactly Σ_ν |ĉ_ν|² φ(2πν/p). Tried are the signs of cos(ωt + phase) for all
    multiples ω of 2π/720, which include constant and alternating signs; at the best frequency of all, ω*, the
    signs of cos(ω*t) reach Σ_k 8/(π²(2k+1)²) φ((2k+1)ω*) ≥ (8/π²) φ(ω*).

    Guarantee: lower bounds, rounding included (`sign_error`). The second holds in some phase: in the mean over
    phases the harmonics (2k + 1)ω* add up without meeting each other. 8/π² is the share of the first, and no other
    is negative.
    Source: the Fourier series of a square wave, 4/π·Σ_k (−1)^k cos((2k + 1)ωt)/(2k + 1).
    """
    weights, frequencies = sign_patterns()
    rows, which = rows_at(found, frequencies)
    values = np.empty((len(frequencies), inputs.shape[1]))
    for k, number in enumerate(which):
        values[k] = found[number].lowered((np.abs(rows[k] @ inputs) ** 2).sum(axis=0))
    reached = np.maximum(weights @ values - sign_error(weights, values), 0.0)
    top = reached.argmax(axis=0)
    lower, frequency = reached[top, np.arange(inputs.shape[1])], frequencies[top % len(frequencies)]
    alone = ends.lower * (8 / math.pi**2) * (1 - FLOATED)
    best = np.maximum(lower, alone)
    return np.minimum(best, ends.lower), np.where(lower >= alone, frequency, ends.frequency)


@cache
def sign_patterns() -> tuple[np.ndarray, np.ndarray]:
    """|ĉ_ν|² of every stream, in two phases each, folded onto frequencies 0..π; and those frequencies.

    φ(−ω) = φ(ω), so that ν and 720 − ν count together. Each row of the weights sums to 1 (Parseval), up to
    rounding.

    >>> weights, frequencies = sign_patterns()
    >>> weights.shape, frequencies.shape, bool(np.allclose(weights.sum(axis=1), 1))
    ((722, 361), (361,), True)
    """
    count = PERIOD // 2 + 1
    power = np.abs(np.fft.fft(_all_signs(), axis=1) / PERIOD) ** 2
    folded = power[:, :count].copy()
    folded[:, 1:-1] += power[:, : PERIOD // 2 : -1]
    return folded, 2 * np.pi * np.arange(count) / PERIOD


def periodic_signs(pattern: int) -> np.ndarray:
    """The signs of a stream of `sign_patterns`, over one period.

    >>> periodic_signs(360)[:4].tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    return np.asarray(_all_signs()[pattern])


@cache
def _all_signs() -> np.ndarray:
    """The signs of cos(ωt + phase) for all multiples ω of 2π/720 up to π, in one phase and then in the other.

    Shape (2·(PERIOD/2 + 1), PERIOD). A stream of signs with a period attains the same in every period, up to its
    start.
    """
    count = PERIOD // 2 + 1
    steps = np.arange(count)[:, None] * np.arange(PERIOD) % PERIOD
    phases = (0.25, 0.5 * PERIOD / np.maximum(PERIOD // np.gcd(np.arange(count), PERIOD), 1)[:, None])
    # One phase is a quarter of a step of 2π/720, the other half of the smallest step that the stream makes. A
    # thousandth of a step on top keeps every sign of both away from the zeros of the cosine.
    return np.vstack(
        [np.where(np.cos(2 * np.pi * (steps + phase + 1e-3) / PERIOD) >= 0, 1.0, -1.0) for phase in phases]
    )
