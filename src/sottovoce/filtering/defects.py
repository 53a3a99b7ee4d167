# SPDX-License-Identifier: Apache-2.0
"""What one step of a filter falls short of, entry by entry: in doubled precision, or in plain floats with room.

With G = [I, −K; 0, X] and Y = [A; C] P [A; C]ᵀ + [B; D][B; D]ᵀ the defect of a step is G Y Gᵀ − diag(P_{t+1}, I), whose
blocks are Δ, ΓXᵀ and X R' Xᵀ − I: Γ = (A P Cᵀ + B Dᵀ) − K R', and Δ = A P Aᵀ + B Bᵀ − (Γ + K R')Kᵀ − KΓᵀ − P_{t+1}.

Source: docs/proofs/programs.md, "How white the innovations are" and "Defects in plain floats".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import Doubled, add, from_left, from_right, product
from sottovoce.filtering.rounding import UNDERFLOWN, WHITE, fine_gamma
from sottovoce.rounding import above, closely_above, twice_above

if TYPE_CHECKING:
    from sottovoce.filtering.stages import Stage

__all__ = ["Unsure", "doubled_defect", "plain_defect"]


def doubled_defect(
    stage: Stage, P: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """A bound of |G Y Gᵀ − diag(P_{t+1}, I)|, found in doubled precision; what that may miss is added.

    Guarantee: upper bound entry by entry, with A, C and the covariances of the noise as they are exactly.
    Source: docs/proofs/programs.md, "How white the innovations are".
    """
    size, count, both = stage.size, stage.count, stage.both
    held, noise = Doubled(high=P), stage.noise
    if noise.injected is not None:
        held = add(held, noise.injected)
    moved = product(both, from_right(held, size), size)
    seen = product(from_left(moved, size), both.T, size)
    if noise.drawn is not None:
        seen = add(seen, noise.drawn)
    answer = from_left(Doubled(high=np.vstack([-K, X])), count)
    for _ in range(2):
        # G Y, then G (G Y)ᵀ: rows of states stay, and get what the answer makes of rows that are seen.
        shown = product(answer, from_right(seen[size:, :], count), count)
        seen = add(seen[:size, :].over(count), shown).T
    aim = np.zeros((size + count, size + count))
    aim[:size, :size] = following
    aim[size:, size:] = np.eye(count)
    return closely_above(add(seen, Doubled(high=aim), -1).sizes())


def plain_defect(
    stage: Stage, held: np.ndarray, seen: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """The same on a Krylov space in plain floats: see `_computed` for what is given.

    With b the norms of the rows of [A; C], h ≥ ‖|held|‖ and g = |G|b what floats make of G Y Gᵀ errs by at most

        ((2r + 2m + 13)u·h + e) g gᵀ,      e ≥ what Q is off by, in norm,

    entry by entry: |x|ᵀ|held||y| ≤ h‖x‖‖y‖ for all rows x and y of [A; C].

    Guarantee: upper bound entry by entry, for the stage as stored and Q as it is exactly.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """
    found = _computed(stage, seen, K, X, following)
    wide = _answered(K, X, stage.row_lengths)
    largest = min(float(np.linalg.norm(held)), float(np.abs(held).sum(axis=1).max(initial=0.0)))
    injected = stage.injected
    missed = 0.0 if injected.error is None else float(np.linalg.norm(injected.error))
    share = above(fine_gamma(2 * stage.size + 2 * stage.count + 13) * largest + missed)
    found += np.outer(share * wide, wide)
    return found


def _computed(
    stage: Stage, seen: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """The sizes of the defect as floats have it, from `seen` = fl(fl([A; C] held) [A; C]ᵀ).

    `held` is fl(P + Q).

    Guarantee: the true defect is within what `plain_defect` adds of it.
    """
    size, count = stage.size, stage.count
    crossed = seen[:size, size:]
    gamma = crossed - K @ seen[size:, size:]
    found = np.empty((size + count, size + count))
    found[:size, :size] = seen[:size, :size] - crossed @ K.T - K @ gamma.T - following
    found[:size, size:] = gamma @ X.T
    found[size:, :size] = found[:size, size:].T
    found[size:, size:] = X @ seen[size:, size:] @ X.T - np.eye(count)
    np.abs(found, out=found)
    found *= 1 + fine_gamma(2)
    found += UNDERFLOWN * (1 + float(np.abs(K).sum() + np.abs(X).sum())) ** 2
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Read:
    """What sizes x of states and of rows read of a step.

    With x' = |G|ᵀx, `rows`: |B|ᵀ(k + 4)x' is `counted`, |held||B|ᵀx' is `held`, |N̂|x' is `drawn` and v·x' is `missed`.
    """

    rows: np.ndarray
    counted: np.ndarray
    held: np.ndarray
    drawn: np.ndarray | None
    missed: float


class Unsure:
    """What a step of the filter in plain floats falls short of, read by sizes: xᵀ|Δ|x for x as they come.

    From Ŷ = fl(fl(B held) Bᵀ) + N̂, B = [A; C], and any X the step has formed a = fl(Ŷ₁₂Xᵀ), K = fl(a X) and P' =
    fl(Ŷ₁₁ − a aᵀ), made symmetric. With W = X Ŷ₂₂Xᵀ − I, α = |a|ᵀx and β = |X||Ŷ₂₁|x the defect of these is at most

        xᵀ|Δ|x ≤ 2γ_m β·α + αᵀ|W|α + (γ_m + 2u)α·α + …,

    and Y itself is within (k_i + k_j + 8)u(|B||held||B|ᵀ)_ij + 6u|N̂_ij| + e v_iv_j of Ŷ, which G makes |G|(·)|G|ᵀ of: B
    has k_i entries in row i, N̂ is what is drawn, and the noise as stored is off by e v vᵀ.

    Guarantee: upper bounds, for A, C and the covariances of the noise as they are exactly.
    Source: docs/proofs/programs.md, "Steps in plain floats".
    """

    def __init__(
        self, stage: Stage, held: np.ndarray, seen: np.ndarray, K: np.ndarray, X: np.ndarray
    ) -> None:
        """Take a step: `held` is P, or P + Q where noise is injected, and `seen` has Ŷ₁₂ above Ŷ₂₂, symmetric."""
        self._stage, self._held, self._seen = stage, held, seen
        self._gain, self._whitener = K, X

    def drift(self, sizes: np.ndarray) -> tuple[float, float]:
        """xᵀ|Δ|x, and Σ_ij x_i|ΓXᵀ|_ij, for `sizes` x of states.

        Guarantee: upper bounds, rounding included.
        """
        one, other = self._read(sizes, None), self._shown
        formed, across = self._formed(sizes)
        return self._product(one, one) + formed, self._product(one, other) + across

    @cached_property
    def white(self) -> float:
        """The largest row sum of |X R' Xᵀ − I|, or more: the sum of all of it.

        Guarantee: an upper bound, rounding included.
        """
        return float(self._unwhite.sum()) + self._product(self._shown, self._shown)

    @cached_property
    def norm(self) -> float:
        """A bound of ‖Δ‖, by Frobenius norms.

        Guarantee: an upper bound, rounding included.
        """
        stage, size = self._stage, self._stage.size
        gain, X = 1 + float(np.linalg.norm(self._gain)), float(np.linalg.norm(self._whitener))
        crossed, R = (float(np.linalg.norm(part)) for part in (self._seen[:size], self._seen[size:]))
        answer, white = X * crossed, float(np.linalg.norm(self._unwhite))
        if not float(self._unwhite.sum()) < WHITE:
            return math.inf
        units = fine_gamma(stage.count + 2)
        read = X * R * X * answer
        rounded = 2 * float(stage.row_units.max(initial=0.0)) * stage.both_norm**2
        rounded *= float(np.linalg.norm(self._held))
        if stage.noise.whole is not None:
            rounded += 6 * float(np.linalg.norm(stage.noise.whole))
        formed = 3 * units * answer**2 + white * answer**2
        formed += 2 * units * (3 * units * max(answer, read) + white * answer) * read
        missed = self._missed * float(self._entering @ self._entering)
        return twice_above(gain**2 * (fine_gamma(rounded) + missed) + formed)

    def _formed(self, sizes: np.ndarray) -> tuple[float, float]:
        """What forming a, K and P' of Ŷ does to Δ and to ΓXᵀ.

        `sizes` are those of the factor that the defect is read with, shape (states,). The numbers bound trace-like
        sums: what the rounding of a = ŶXᵀ, K = aX and P' = Y − aaᵀ adds to Δ, and to ΓXᵀ.

        Guarantee: upper bounds; infinite where the whitener is not close to one.
        Source: docs/proofs/programs.md, "Steps in plain floats".
        """
        size, count = self._stage.size, self._stage.count
        crossed, R, X = np.abs(self._seen[:size]), np.abs(self._seen[size:]), np.abs(self._whitener)
        units, white = fine_gamma(count + 2), self._unwhite
        if not float(white.sum()) < WHITE:
            return math.inf, math.inf
        beta = X @ (crossed.T @ sizes)
        alpha = np.abs(self._answer).T @ sizes + 2 * units * beta + UNDERFLOWN
        turned = X.T @ alpha
        read = X @ (R @ turned)
        across = float((units * beta + white @ alpha + units * read).sum())
        drift = 2 * units * float(beta @ alpha) + float(alpha @ white @ alpha) + units * float(alpha @ alpha)
        # Γδᵀ and δ R δᵀ with δ what K is off by, |δ| ≤ γ_m|a||X|.
        drift += 2 * units * float((units * beta + white @ alpha + 2 * units * read) @ read) + UNDERFLOWN
        return above(drift), above(across + UNDERFLOWN)

    @cached_property
    def _answer(self) -> np.ndarray:
        """Ŷ₁₂Xᵀ."""
        return np.asarray(self._seen[: self._stage.size] @ self._whitener.T)

    @cached_property
    def _unwhite(self) -> np.ndarray:
        """A bound of |W|.

            W = X R Xᵀ − I,   |W| ≤ |fl(X R Xᵀ − I)| + (2m + 4)u|X||R||X|ᵀ

        Guarantee: an upper bound, entry by entry, for R as stored.
        """
        X, R = self._whitener, self._seen[self._stage.size :]
        sizes = np.abs(X)
        found = np.abs(X @ R @ X.T - np.eye(len(X)))
        found += fine_gamma(2 * len(X) + 4) * (sizes @ np.abs(R) @ sizes.T) + UNDERFLOWN
        return np.asarray(found)

    @cached_property
    def _missed(self) -> float:
        """`e` of what noise is off by."""
        return _unknown(self._stage)[0]

    @cached_property
    def _entering(self) -> np.ndarray:
        """`v` of what noise is off by."""
        return _unknown(self._stage)[1]

    @cached_property
    def _sizes(self) -> np.ndarray:
        """|held|."""
        return np.asarray(np.abs(self._held))

    @cached_property
    def _shown(self) -> _Read:
        """What rows of ones read."""
        return self._read(np.zeros(self._stage.size), np.ones(self._stage.count))

    def _read(self, states: np.ndarray, shown: np.ndarray | None) -> _Read:
        """What x reads: sizes of `states`, (states,), or with zeros for these sizes of what is `shown`, (rows,).

        These are sums of sizes, from which products of sizes are formed without a matrix of sizes for each.
        """
        stage = self._stage
        seen = states @ np.abs(self._gain) if shown is None else shown @ np.abs(self._whitener)
        rows, drawn = np.concatenate([states, seen]), stage.noise.whole
        return _Read(
            rows=rows,
            counted=(stage.row_units * rows) @ stage.dense_sizes,
            held=self._sizes @ (rows @ stage.dense_sizes),
            drawn=None if drawn is None else np.abs(drawn) @ rows,
            missed=float(rows @ self._entering),
        )

    def _product(self, one: _Read, other: _Read) -> float:
        """What the errors of Ŷ make of two that were read."""
        rounded = float(one.counted @ other.held) + float(other.counted @ one.held)
        if other.drawn is not None:
            rounded += 6 * float(one.rows @ other.drawn)
        return above(fine_gamma(rounded) + self._missed * one.missed * other.missed)


def _answered(K: np.ndarray, X: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """|G| times sizes, G = [I, −K; 0, X]."""
    size = len(K)
    return np.concatenate([sizes[:size] + np.abs(K) @ sizes[size:], np.abs(X) @ sizes[size:]])


def _unknown(stage: Stage) -> tuple[float, np.ndarray]:
    """(e, v): the covariances of the noise as stored are off by at most e v vᵀ in Y, entry by entry.

    Guarantee: an upper bound, entry by entry.
    """
    noise = stage.noise.injected or stage.noise.drawn
    if noise is None or noise.error is None:
        return 0.0, stage.row_lengths
    if stage.noise.injected is not None:
        return float(np.linalg.norm(noise.error)), stage.row_lengths
    return float(noise.error.max(initial=0.0)), np.ones(stage.size + stage.count)
