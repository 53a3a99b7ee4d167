# SPDX-License-Identifier: Apache-2.0
"""Streams of signs for a form that is a band: what they attain, and how they get better.

A form M̃ of T rounds that is 0 beyond w rounds off its diagonal is held as the lower band that LAPACK takes, (w + 1, T).
A product with it costs T·w, and signs that are more than w rounds apart can be flipped together: what flipping sign t
changes, 4(M̃_tt − c_t(M̃c)_t), does not depend on the other.

Soundness: a poor search gives a lower end that is low, never one that is wrong; `signs_value` takes off what its sum
may be off by.
Source: docs/mathematics.md, section 3; docs/proofs/insertion.md, "Signs".
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsbmv

from sottovoce.rounding import gamma_above
from sottovoce.sensitivities.one_form.witnesses import alternating_signs, constant_signs, rounded_signs

__all__ = ["best_banded_signs", "signs_value"]

# Speed alone: how many of the streams that are begun with are improved, and how often.
IMPROVED, SWEEPS = 6, 100
# Speed alone: periods up to twice this are tried, in so many phases.
LONGEST, PHASES = 16, 3


def signs_value(band: np.ndarray, signs: np.ndarray, sizes: float) -> float:
    """cᵀM̃c for signs c, from below; `sizes` is at least Σ|M̃_st|.

    Guarantee: a lower bound of what c attains: the sums err by γ_{T+2w+2} of the sum of sizes.
    Source: docs/proofs/insertion.md, "Signs".

    >>> round(signs_value(np.array([[2.0, 2.0], [-1.0, 0.0]]), np.array([1.0, -1.0]), 6.0), 9)
    6.0
    """
    width, rounds = len(band) - 1, band.shape[1]
    off = gamma_above(rounds + 2 * width + 16) * sizes
    return float(signs @ _product(band, signs) - off)


def best_banded_signs(band: np.ndarray, streams: np.ndarray, frequency: float) -> np.ndarray:
    """The best signs that are found: of vectors (T, d) that turn by ω = `frequency`, and periodic ones near it.

    Signs of cos(ωt + θ) beat against ω. Those of a multiple of π/q next to it repeat themselves after 2q rounds or
    sooner, and attain more as a rule. The best of all that are begun with are improved.

    Guarantee: they are signs, (T,).
    """
    rounds = band.shape[1]
    starts = [constant_signs(rounds), alternating_signs(rounds), *rounded_signs(streams)]
    starts += _periodic(frequency, rounds)
    values = np.array([float(start @ _product(band, start)) for start in starts])
    tried = [_improved(band, starts[k]) for k in np.argsort(-values, kind="stable")[:IMPROVED]]
    return max(tried, key=lambda signs: float(signs @ _product(band, signs)))


def _periodic(frequency: float, rounds: int) -> list[np.ndarray]:
    """The signs of cos(ω't + θ) for multiples ω' of π/q next to ω, in a few phases.

    Signs with a short period turn a band into few different sums, and the best stream of a settled filter is close to
    one of them. Candidates for a lower end; each is an allowed stream.
    """
    return [
        np.where(
            np.cos(np.pi / q * (round(frequency / np.pi * q) * np.arange(rounds) + phase)) < 0, -1.0, 1.0
        )
        for q in range(2, LONGEST + 1)
        for phase in (np.arange(PHASES) + 0.5) / PHASES
    ]


def _improved(band: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Signs after sweeps of flips, each of the most profitable ones that are more than w rounds apart.

    Flipping sign t changes cᵀMc by 4(M_tt − c_t(Mc)_t). Flips that are more than w rounds apart do not touch each
    other's gain in a band of width w, so that those of one sweep add up.

    Guarantee: cᵀMc does not fall, but for rounding; its value is computed anew by `signs_value`.
    """
    from scipy import ndimage

    found, diagonal, reach = signs.copy(), band[0], 2 * len(band) - 1
    least = 1e-12 * float(np.abs(diagonal).max(initial=0.0))
    for _ in range(SWEEPS):
        gains = diagonal - found * _product(band, found)
        top = ndimage.maximum_filter1d(gains, reach, mode="nearest")
        flipped = np.flatnonzero((gains == top) & (gains > least))
        if not flipped.size:
            break
        # Of equal gains that are close to each other the first is taken.
        flipped = flipped[np.concatenate([[True], np.diff(flipped) >= len(band)])]
        found[flipped] = -found[flipped]
    return found


def _product(band: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """M̃c."""
    return np.asarray(dsbmv(len(band) - 1, 1.0, band, signs, lower=1))
