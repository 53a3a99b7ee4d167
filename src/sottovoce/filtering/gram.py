# SPDX-License-Identifier: Apache-2.0
"""M = FᵀF from the columns of F, where most of F is Toeplitz.

Once the gains are frozen, from round τ on, column s of F is column τ shifted by s − τ. So M has four parts: columns
before τ with each other (a product), with later ones (a correlation), and later ones with each other: with f_ℓ the
lags, 0-based rounds and round T apart,

    M_st = Σ_{u ≥ max(s, t)} f_{u−s}·f_{u−t},   so   M_st = M_{s+1,t+1} + f_{T−2−s}·f_{T−2−t}.

All of it is exact algebra; how M is put together is speed, and what rounding does to each part is in `gram_error`.

Source: docs/mathematics.md, section 5; docs/proofs/transforms.md, "Correlations in M".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from sottovoce.filtering.rounding import gram_error

__all__ = ["Impulses", "gram_matrices"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Impulses:
    """The whitened response to a unit contribution in each round, for several targets at once.

    With τ the round from which on the filter is steady: `early[j, :, s]` is the whole response to round s < τ, the
    rows of rounds 1..T−1 first and those of round T last; a contribution in a later round s is answered in round u
    by `steady[j, u − s]`, and in round T by `last[j, T − 1 − s]` (0-based).

    With k targets, m rows a round and m' in the last: `early` is (k, (T − 1)m + m', τ), `steady` (k, T − 1 − τ, m)
    and `last` (k, T − τ, m').
    """

    early: np.ndarray
    steady: np.ndarray
    last: np.ndarray

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.early.shape[2] + self.last.shape[1])


def gram_matrices(impulses: Impulses) -> tuple[np.ndarray, np.ndarray]:
    """M for every target, and a bound for each of how far rounding moves cᵀMc, |c_t| ≤ 1.

    Early × early is a product, early × late a correlation (by FFT), and late × late obeys
    M_{s,t} = M_{s+1,t+1} + f_{T−2−s}·f_{T−2−t} apart from round T, so it costs T² additions.

    Guarantee: the second is an upper bound of |cᵀ(M̂ − FᵀF)c| for F as stored.
    Source: docs/proofs/transforms.md, "Correlations in M".

    >>> lags = np.array([[[1.0], [0.5]]])
    >>> found, rounding = gram_matrices(Impulses(early=np.zeros((1, 3, 0)), steady=lags, last=np.zeros((1, 3, 1))))
    >>> found[0].tolist()
    [[1.25, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    count, start, rounds = len(impulses.early), impulses.early.shape[2], impulses.rounds
    matrices = np.empty((count, rounds, rounds))
    matrices[:, :start, :start] = impulses.early.transpose(0, 2, 1) @ impulses.early
    cross = _early_late(impulses)
    matrices[:, :start, start:] = cross
    matrices[:, start:, :start] = cross.transpose(0, 2, 1)
    matrices[:, start:, start:] = _late_late(impulses)
    return matrices, gram_error(impulses.early, impulses.steady, impulses.last, _points(impulses))


def _early_late(impulses: Impulses) -> np.ndarray:
    """M_st for s < τ ≤ t: Σ_{u ≥ t} F_us · f_{u−t}, and round T by itself."""
    count, _, start = impulses.early.shape
    lags, m = impulses.steady.shape[1:]
    before_last = (impulses.rounds - 1) * m
    final = impulses.early[:, before_last:]
    cross = np.einsum("jps,jlp->jsl", final, impulses.last[:, ::-1])
    if lags:
        late = impulses.early[:, start * m : before_last].reshape(count, lags, m, start)
        size = _points(impulses)
        spectrum = fft.rfft(late, size, axis=1)
        spectrum *= np.conj(fft.rfft(impulses.steady, size, axis=1))[..., None]
        cross[:, :, :lags] += fft.irfft(spectrum.sum(axis=2), size, axis=1)[:, :lags].transpose(0, 2, 1)
    return np.asarray(cross)


def _late_late(impulses: Impulses) -> np.ndarray:
    """M_st for s, t ≥ τ, filled from the last round backwards.

    `backwards[a, b]` is M of rounds that are a and b before the last one, so that the recurrence runs down its
    diagonals.
    """
    count, lags, _ = impulses.steady.shape
    backwards = np.zeros((count, lags + 1, lags + 1))
    np.matmul(impulses.steady, impulses.steady.transpose(0, 2, 1), out=backwards[:, 1:, 1:])
    for a in range(2, lags + 1):
        backwards[:, a, 2:] += backwards[:, a - 1, 1:-1]
    backwards += impulses.last @ impulses.last.transpose(0, 2, 1)
    return backwards[:, ::-1, ::-1]


def _points(impulses: Impulses) -> int:
    """The points of a transform for all late lags: never three times as many, nor with factors above 11."""
    return int(fft.next_fast_len(2 * max(1, impulses.steady.shape[1]), real=True))
