# SPDX-License-Identifier: Apache-2.0
"""What one step of a filter falls short of, entry by entry: in doubled precision, or in plain floats with room.

With G = [I, −K; 0, X] and Y = [A; C] P [A; C]ᵀ + [B; D][B; D]ᵀ the defect of a step is G Y Gᵀ − diag(P_{t+1}, I), whose
blocks are Δ, ΓXᵀ and X R' Xᵀ − I: Γ = (A P Cᵀ + B Dᵀ) − K R', and Δ = A P Aᵀ + B Bᵀ − (Γ + K R')Kᵀ − KΓᵀ − P_{t+1}.

Source: docs/proofs/programs.md, "How white the innovations are" and "Defects in plain floats".
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import Doubled, add, from_left, from_right, product
from sottovoce.filtering.rounding import UNDERFLOWN, WHITE, fine_gamma
from sottovoce.rounding import above, closely_above

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


class Unsure:
    """What a step of the filter in plain floats falls short of, read by sizes: |Δ|x for x as they come.

    From Ŷ = fl(fl(B held) Bᵀ) + N̂, B = [A; C], and any X the step has formed a = fl(Ŷ₁₂Xᵀ), K = fl(a X) and P' =
    fl(Ŷ₁₁ − a aᵀ), made symmetric. `_formed` says what that does, with W = X Ŷ₂₂Xᵀ − I; and Y itself is within (k_i +
    k_j + 8)u(|B||held||B|ᵀ)_ij + 6u|N̂_ij| + e v_iv_j of Ŷ, which G makes |G|(·)|G|ᵀ of: B has k_i entries in row i, N̂
    is what is drawn, and the noise as stored is off by e v vᵀ.

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
        """xᵀ|Δ|x, and ‖xᵀ|ΓXᵀ|‖, for `sizes` x of states.

        Guarantee: upper bounds, rounding included; infinite where X is not proved to whiten.
        """
        if not self._whitens:
            return math.inf, math.inf
        states, shown = self._short(sizes, self._rounded(self._read(sizes)))
        return above(float(sizes @ states)), above(float(np.linalg.norm(shown)))

    @property
    def norm(self) -> float:
        """A bound of ‖Δ‖: the largest row sum of |Δ|.

        Guarantee: an upper bound, rounding included; infinite where X is not proved to whiten.
        """
        return self._largest[0]

    @property
    def white(self) -> float:
        """The largest row sum of |X R' Xᵀ − I|.

        Guarantee: an upper bound, rounding included.
        """
        return self._largest[1]

    @cached_property
    def _largest(self) -> tuple[float, float]:
        """`norm` and `white`, for which ones are read together."""
        size, sizes, ones = self._stage.size, np.abs(self._whitener), np.ones(self._stage.size)
        shown = np.concatenate([np.zeros(size), sizes.sum(axis=0)])
        rounded = self._rounded(np.column_stack([self._read(ones), shown]))
        white = self._sums[0].sum(axis=1) + sizes @ rounded[size:, 1]
        states = self._short(ones, rounded[:, 0])[0] if self._whitens else np.full(1, np.inf)
        return above(float(states.max(initial=0.0))), above(float(white.max(initial=0.0)))

    @property
    def _whitens(self) -> bool:
        """Whether X is close enough to whitening for what is said of K."""
        return float(self._sums[0].sum()) < WHITE

    def _read(self, sizes: np.ndarray) -> np.ndarray:
        """|G|ᵀ times sizes of states: these, and what K makes of rows for them."""
        return np.concatenate([sizes, sizes @ np.abs(self._gain)])

    def _short(self, sizes: np.ndarray, rounded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """|Δ|x and |XΓᵀ|x for `sizes` x of states: what Ŷ is off by, `rounded`, and what forming a, K and P' does.

        Guarantee: upper bounds, entry by entry, but for the rounding of these sums, if X is proved to whiten.
        Source: docs/proofs/programs.md, "Steps in plain floats".
        """
        size = self._stage.size
        into, shown = self._formed(sizes)
        states = rounded[:size] + np.abs(self._gain) @ rounded[size:] + into
        return states, np.abs(self._whitener) @ rounded[size:] + shown

    @cached_property
    def _sizes(self) -> np.ndarray:
        """|held|."""
        return np.asarray(np.abs(self._held))

    def _rounded(self, rows: np.ndarray) -> np.ndarray:
        """What Y may be off from Ŷ by times sizes of rows, in one column or more.

            ((k_i + k_j + 8)u(|B||held||B|ᵀ)_ij + 6u|N̂_ij| + e v_iv_j) · rows

        Guarantee: upper bounds, but for the rounding of these sums.
        """
        stage, drawn = self._stage, self._stage.noise.whole
        sizes, units = stage.dense_sizes, stage.row_units
        flat = rows.reshape(len(rows), -1)
        both = np.hstack([flat, units[:, None] * flat])
        once, counted = np.hsplit(sizes @ (self._sizes @ (sizes.T @ both)), 2)
        found = units[:, None] * once + counted
        if drawn is not None:
            found += 6 * (np.abs(drawn) @ flat)
        missed, entering = stage.unknown
        found = fine_gamma(found) + missed * np.outer(entering, entering @ flat) + UNDERFLOWN
        return np.asarray(found.reshape(rows.shape))

    def _formed(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What forming a, K and P' of Ŷ does to |Δ|x and to |XΓᵀ|x, for `sizes` x of states.

        With b = |Ŷ₁₂||X|ᵀ, α = |a|ᵀx, β = bᵀx, S = |X||R||X|ᵀ and ϱ = Sα,

            |XΓᵀ|x ≤ γβ + |W|α + γϱ = σ,
            |Δ|x ≤ γ(bα + |a|β) + |a|(|W| + γ + 2u)α + γ|a|S(σ + γα) + γ(γb + |a||W| + γ|a|S)ϱ,     γ = γ_m.

        Guarantee: upper bounds, but for the rounding of these sums.
        Source: docs/proofs/programs.md, "Steps in plain floats".
        """
        size, units, white, spread = self._stage.size, fine_gamma(self._stage.count + 2), *self._sums
        crossed, X = np.abs(self._seen[:size]), np.abs(self._whitener)
        beta = X @ (crossed.T @ sizes)
        alpha = np.abs(self._answer).T @ sizes + 2 * units * beta
        turned = spread @ alpha
        shown = units * (beta + turned) + white @ alpha
        read = units * (beta + alpha + spread @ (shown + units * turned) + units * (spread @ turned))
        read += white @ (alpha + units * turned)
        # |a| as it was formed here and as the step formed it are apart by 2γb.
        put = 2 * units * read + units * (alpha + units * turned)
        return np.abs(self._answer) @ read + crossed @ (X.T @ put), shown

    @cached_property
    def _answer(self) -> np.ndarray:
        """Ŷ₁₂Xᵀ."""
        return np.asarray(self._seen[: self._stage.size] @ self._whitener.T)

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        """A bound of |W|, and |X||R||X|ᵀ.

            W = X R Xᵀ − I,   |W| ≤ |fl(X R Xᵀ − I)| + (2m + 4)u|X||R||X|ᵀ

        Guarantee: an upper bound, entry by entry, for R as stored.
        """
        X, R = self._whitener, self._seen[self._stage.size :]
        sizes = np.abs(X)
        spread = sizes @ np.abs(R) @ sizes.T
        found = np.abs(X @ R @ X.T - np.eye(len(X)))
        found += fine_gamma(2 * len(X) + 4) * spread + UNDERFLOWN
        return found, spread


def _answered(K: np.ndarray, X: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """|G| times sizes, G = [I, −K; 0, X]."""
    size = len(K)
    return np.concatenate([sizes[:size] + np.abs(K) @ sizes[size:], np.abs(X) @ sizes[size:]])
