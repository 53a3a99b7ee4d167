# SPDX-License-Identifier: Apache-2.0
"""What one step of a filter falls short of, entry by entry: in doubled precision, or in plain floats with room.

With G = [I, −K; 0, X] and Y = [A; C] P [A; C]ᵀ + [B; D][B; D]ᵀ the defect of a step is G Y Gᵀ − diag(P_{t+1}, I), whose
blocks are Δ, ΓXᵀ and X R' Xᵀ − I: Γ = (A P Cᵀ + B Dᵀ) − K R', and Δ = A P Aᵀ + B Bᵀ − (Γ + K R')Kᵀ − KΓᵀ − P_{t+1}.

Source: docs/proofs/programs.md, "How white the innovations are" and "Defects in plain floats".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import Doubled, add, from_left, from_right, product
from sottovoce.filtering.rounding import UNDERFLOWN, fine_gamma
from sottovoce.rounding import above, closely_above

if TYPE_CHECKING:
    from sottovoce.filtering.stages import Stage

__all__ = ["Unsure", "doubled_defect", "plain_defect", "plain_loop"]


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

    With b the norms of the rows of [A; C], k their numbers of entries, h ≥ ‖|held|‖, g = |G|b and d = |G|diag(k + 4)b
    what floats make of G Y Gᵀ errs by at most

        u·h(d gᵀ + g dᵀ) + ((2m + 5)u·h + e) g gᵀ,      e ≥ what Q is off by, in norm,

    entry by entry: |x|ᵀ|held||y| ≤ h‖x‖‖y‖ for all rows x and y of [A; C].

    Guarantee: upper bound entry by entry, for the stage as stored and Q as it is exactly.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """
    found = _computed(stage, seen, K, X, following)
    wide, counted = (
        _answered(K, X, sizes) for sizes in (stage.row_lengths, stage.row_units * stage.row_lengths)
    )
    largest = min(float(np.linalg.norm(held)), float(np.abs(held).sum(axis=1).max(initial=0.0)))
    injected = stage.injected
    missed = 0.0 if injected.error is None else float(np.linalg.norm(injected.error))
    share = above(fine_gamma(2 * stage.count + 5) * largest + missed)
    # d gᵀ + g dᵀ + s g gᵀ in one product of two columns.
    found += np.column_stack([fine_gamma(largest) * counted + share * wide, wide]) @ np.vstack(
        [wide, fine_gamma(largest) * counted]
    )
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
    """What a step of the filter in plain floats falls short of, read by sizes: |Δ|x and |XΓᵀ|x for x as they come.

    For any K, Δ = ΦZΦᵀ + (B − K D)(B − K D)ᵀ − P', Φ = A − K C, Z being P, or P + Q where noise is injected: P' has
    been formed so, of Φ̂ = fl(Φ), and errs by what these products round. Γ = Y₁₂ − K R' of a = fl(Ŷ₁₂Xᵀ) and K = fl(a X)
    has ΓXᵀ = −δ_a − aW − δ_K R Xᵀ up to what Ŷ is off by, W = X R Xᵀ − I, for any X.

    Guarantee: upper bounds, for A, C and the covariances of the noise as they are exactly.
    Source: docs/proofs/programs.md, "Steps in plain floats".
    """

    def __init__(
        self, stage: Stage, held: np.ndarray, seen: np.ndarray, K: np.ndarray, X: np.ndarray
    ) -> None:
        """Take a step: `held` is Z, and `seen` has Ŷ₁₂ above R = Ŷ₂₂, symmetric."""
        self._stage, self._held, self._seen = stage, np.abs(held), seen
        self._gain, self._whitener = K, X

    @cached_property
    def loop(self) -> np.ndarray:
        """Φ̂, as `Filtered.plain_loop` has it."""
        return plain_loop(self._stage, self._gain)

    @cached_property
    def loop_sizes(self) -> np.ndarray:
        """|Φ̂|."""
        return np.asarray(np.abs(self.loop))

    def drift(self, sizes: np.ndarray) -> tuple[float, float]:
        """xᵀ|Δ|x, and ‖xᵀ|ΓXᵀ|‖, for `sizes` x of states.

        Guarantee: upper bounds, rounding included.
        """
        counted, plain, closer = self._moved(sizes)
        rounded = 2 * float(counted @ plain) + fine_gamma(float(counted @ closer))
        drift = fine_gamma(rounded) + float(sizes @ self._drawn(sizes)) + UNDERFLOWN
        return above(drift), above(float(np.linalg.norm(self._shown(sizes))))

    @cached_property
    def norm(self) -> float:
        """A bound of ‖Δ‖: the largest row sum of |Δ|.

        Guarantee: an upper bound, rounding included.
        """
        stage, size, loop, ones = self._stage, self._stage.size, self.loop_sizes, np.ones(self._stage.size)
        A, C = stage.dense_sizes[:size], stage.dense_sizes[size:]
        _, plain, closer = self._moved(ones)
        # Ψ(|Z|(φ + uψ)) + |Φ̂||Z|ψ.
        reach = plain + fine_gamma(closer)
        found = loop @ (reach + closer) + stage.loop_units * (loop @ reach) + A @ reach
        found += np.abs(self._gain) @ (C @ (stage.column_units * reach))
        return above(float((fine_gamma(found) + self._drawn(ones)).max(initial=0.0) + UNDERFLOWN))

    @cached_property
    def white(self) -> float:
        """The largest row sum of |X R' Xᵀ − I|.

        Guarantee: an upper bound, rounding included.
        """
        sizes = np.abs(self._whitener)
        rows = np.concatenate([np.zeros(self._stage.size), sizes.sum(axis=0)])
        return above(float((self._sums[0].sum(axis=1) + sizes @ self._seen_apart(rows)).max(initial=0.0)))

    def _moved(self, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """ψ = Ψᵀx, |Z|φ and |Z|ψ, φ = |Φ̂|ᵀx, for `sizes` x of states.

        With D = |A| + |K||C|diag(c + 1) + |Φ̂| units that Φ̂ is off by, c being the entries of a column of C, k those of
        a row of Φ̂ and Ψ = diag(k + 4)|Φ̂| + D,

            |P' − ΦZΦᵀ| ≤ u(Ψ|Z||Φ̂|ᵀ + |Φ̂||Z|Ψᵀ + uΨ|Z|Ψᵀ).

        Guarantee: upper bounds, entry by entry, but for the rounding of these sums.
        """
        stage, size = self._stage, self._stage.size
        plain = sizes @ self.loop_sizes
        counted = plain + (stage.loop_units * sizes) @ self.loop_sizes + sizes @ stage.dense_sizes[:size]
        counted += stage.column_units * ((sizes @ np.abs(self._gain)) @ stage.dense_sizes[size:])
        return counted, self._held @ plain, self._held @ counted

    def _drawn(self, sizes: np.ndarray) -> np.ndarray:
        """What noise adds to |Δ|x: of draws of covariance N (2m + 8)u|G||N̂||G|ᵀ, G = (I, −K), and what N is off by.

        What Q is off by, where noise is injected, is read by Φ.

        Guarantee: upper bounds, entry by entry, but for the rounding of these sums.
        """
        stage, size, (missed, entering) = self._stage, self._stage.size, self._stage.unknown
        if stage.noise.whole is None:
            return np.asarray(missed * float(sizes @ self._lengths) * self._lengths)
        gain = np.abs(self._gain)
        rows = np.concatenate([sizes, sizes @ gain])
        noise = fine_gamma(2 * stage.count + 8) * (np.abs(stage.noise.whole) @ rows)
        noise += missed * float(rows @ entering) * entering
        return np.asarray(noise[:size] + gain @ noise[size:])

    def _shown(self, sizes: np.ndarray) -> np.ndarray:
        """|XΓᵀ|x for `sizes` x of states.

        With α = |a|ᵀx, β = |X||Ŷ₂₁|x and ϱ = |X||R||X|ᵀα, forming a and K does no more than γ_m β + |W|α + γ_m ϱ.

        Guarantee: upper bounds, entry by entry, but for the rounding of these sums.
        """
        size, units, (white, spread) = self._stage.size, fine_gamma(self._stage.count + 2), self._sums
        crossed, X = np.abs(self._seen[:size]), np.abs(self._whitener)
        beta = X @ (sizes @ crossed)
        # |a| as it is formed here and as the step has formed it are apart by 2γb.
        alpha = sizes @ np.abs(self._seen[:size] @ self._whitener.T) + 2 * units * beta
        apart = self._seen_apart(np.concatenate([sizes, sizes @ np.abs(self._gain)]))
        return np.asarray(X @ apart + units * (beta + spread @ alpha) + white @ alpha)

    def _seen_apart(self, rows: np.ndarray) -> np.ndarray:
        """What rows of Ŷ that are seen may be off by times sizes of all rows.

            (k_i + k_j + 8)u(|B||Z||B|ᵀ)_ij + 6u|N̂_ij| + e v_iv_j,     k_i the entries of row i of B = [A; C]

        Guarantee: upper bounds, but for the rounding of these sums.
        """
        stage, size, (missed, entering) = self._stage, self._stage.size, self._stage.unknown
        units, sizes = stage.row_units, stage.dense_sizes
        plain, counted = (sizes[size:] @ (self._held @ (read @ sizes)) for read in (rows, units * rows))
        found = units[size:] * plain + counted
        if stage.noise.whole is not None:
            found += 6 * (np.abs(stage.noise.whole[size:]) @ rows)
        return np.asarray(fine_gamma(found) + missed * float(rows @ entering) * entering[size:] + UNDERFLOWN)

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The norms of the rows of Φ, from those of Φ̂ and of what it is off by.

        Guarantee: upper bounds.
        """
        stage, size = self._stage, self._stage.size
        off = 2 * stage.row_lengths[:size]
        off += (stage.column_units.max(initial=0.0) + 1) * (np.abs(self._gain) @ stage.row_lengths[size:])
        found = np.sqrt(np.einsum("ij,ij->i", self.loop, self.loop)) + fine_gamma(off)
        return np.asarray(above(found))

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


def plain_loop(stage: Stage, K: np.ndarray) -> np.ndarray:
    """Φ = A − K C in plain floats.

    Guarantee: within u(|A| + |K||C|diag(c + 1) + |Φ|), entry by entry, c being the entries of a column of C.
    """
    size, both, wide = stage.size, stage.dense_both, stage.read_width
    loop = both[:size].copy()
    loop[:, :wide] -= K @ both[size:, :wide]
    return loop


def _answered(K: np.ndarray, X: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """|G| times sizes, G = [I, −K; 0, X]."""
    size = len(K)
    return np.concatenate([sizes[:size] + np.abs(K) @ sizes[size:], np.abs(X) @ sizes[size:]])
