# SPDX-License-Identifier: Apache-2.0
"""The closed loop of a filter whose gains no longer change: B = AΦ and D = L⁻¹C, and what an input shows later.

The response to an input b is f_ℓ = D B^ℓ b, ℓ rounds later, and φ(ω) = ‖D(I − e^{−iω}B)⁻¹b‖² in the long run.
Blocks of lags are summed by doubling,

    G_{k+1} = G_k + P_kᵀ G_k P_k,   P_{k+1} = P_k²,   G_0 = DᵀD,   P_0 = B,

and what rounding does to G_k and P_k is bounded alongside, by its norm, from one doubling to the next.

Source: docs/mathematics.md, sections 7 and 8; docs/proofs/spectra.md (norms, lags and powers of a loop) and
docs/proofs/cut.md (what is cut for ever).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import product_error, spectral_norm, spread, terms
from sottovoce.rounding import TINY, above, closely_above, gamma, roundings

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ClosedLoop", "LagBlock"]

# Speed alone: frequencies are solved for together while their matrices take no more than this.
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class LagBlock:
    """The `added` form of the lags `length` to 2·`length` − 1, the `gram` of all up to there, and their errors.

    `stretch` ≥ ‖B^length‖, for every loop within `off`. `added` and `gram` are forms in the state, (r, r); their
    errors are bounds of spectral norms, infinite where something overflowed.
    """

    length: int
    stretch: float
    added: np.ndarray
    added_error: float
    gram: np.ndarray
    gram_error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ClosedLoop:
    """B and D as dense matrices; what is said to be proved holds for every loop within `off` of the one stored.

    `loop` is B, (r, r), `whitener` D, (m, r), and `off` a bound of a spectral norm.

    >>> halving = ClosedLoop(loop=np.eye(1) / 2, whitener=np.eye(1))
    >>> halving.taps(3).ravel().tolist(), round(halving.value(0.0, np.ones(1)), 12)
    ([1.0, 0.5, 0.25], 4.0)
    >>> round(float(halving.gramian(64)[0, 0]), 9)
    1.333333333
    """

    loop: np.ndarray
    whitener: np.ndarray
    off: float = 0.0

    @property
    def size(self) -> int:
        """The dimension of the state."""
        return len(self.loop)

    @property
    def step_error(self) -> float:
        """How far rows times B as computed, with the loop that is stored, are off: γ_r‖|B|‖ + `off`, a share of ‖X‖.

        Guarantee: an upper bound in the Frobenius norm, for every loop within `off` of the one stored.
        Source: Higham, *Accuracy and Stability*, Section 3.5.
        """
        return above(gamma(self.size) * spread(self.loop) + self.off)

    def taps(self, count: int) -> np.ndarray:
        """D B^ℓ for ℓ < count, as (count, m, r).

        Guarantee: none of its own; `sottovoce.sensitivities.rounding.tap_errors` says how far they are off.
        """
        rows = np.empty((count, *self.whitener.shape))
        for lag in range(count):
            # D B^ℓ = (D B^{ℓ−1}) B
            rows[lag] = rows[lag - 1] @ self.loop if lag else self.whitener
        return rows

    def shifted(self, angle: float) -> np.ndarray:
        """I − e^{−iω}B."""
        return np.asarray(np.eye(self.size) - np.exp(-1j * angle) * self.loop)

    def state(self, angle: float, source: np.ndarray) -> np.ndarray:
        """The steady state (I − e^{−iω}B)⁻¹b that a contribution turning by ω each round keeps up."""
        return np.asarray(np.linalg.solve(self.shifted(angle), source.astype(complex)))

    def value(self, angle: float, source: np.ndarray) -> float:
        """φ(ω) for the input b, an estimate."""
        return float(np.linalg.norm(self.whitener @ self.state(angle, source)) ** 2)

    def values(self, angles: np.ndarray, source: np.ndarray) -> np.ndarray:
        """φ at each of these frequencies, many at a time.

            φ(ω) = ‖D(I − e^{−iω}B)⁻¹b‖²

        Guarantee: none: values in plain floats, for searches. Suprema are proved by `rates`.
        """
        batch = max(1, BATCH_BYTES // (16 * self.size**2))
        identity, column = np.eye(self.size), source.astype(complex)[:, None]
        found = []
        for begin in range(0, len(angles), batch):
            turns = np.exp(-1j * angles[begin : begin + batch])[:, None, None]
            states = np.linalg.solve(identity - turns * self.loop, column)
            found.append((np.abs(self.whitener @ states) ** 2).sum(axis=(1, 2)))
        return np.concatenate(found)

    def coupling(self, residual: np.ndarray, resolvent: float) -> tuple[float, float]:
        """‖D(I − zB)⁻¹J‖ for |z| = 1 as it is computed, and from above, where ‖(I − zB)⁻¹‖ is at most `resolvent`.

        With R_ℓ next to DB^ℓ and R_{ℓ+1} = R_ℓB + δ_ℓ the sum Σ R_ℓz^ℓJ over ℓ < L misses (R_Lz^L − Σ δ_ℓz^{ℓ+1})(I
        − zB)⁻¹J of it.

        Guarantee: the second number is an upper bound, rounding included.
        Source: docs/proofs/cut.md, "For ever, where the noise of the observer is known".
        """
        rows, total, slipped = self.whitener, 0.0, 0.0
        size, count = spread(self.loop), terms(self.loop.T)
        inner = float(np.linalg.norm(residual))
        # Speed alone: what is left after so many lags, or is a thousandth of the rest, is counted by its norm.
        for _ in range(4 * self.size + 400):
            left = float(np.linalg.norm(rows))
            if left * resolvent * inner <= 1e-3 * (total + slipped * resolvent * inner):
                break
            total += float(np.linalg.norm(rows @ residual)) + gamma(self.size) * left * inner
            slipped += (gamma(count) * size + self.off) * left
            rows = rows @ self.loop
        return total, above(total + (slipped + float(np.linalg.norm(rows))) * resolvent * inner)

    @np.errstate(over="ignore", invalid="ignore")
    def gramian(self, rounds: int) -> np.ndarray:
        """Σ (DB^ℓ)ᵀDB^ℓ over at least `rounds` lags, from above: zᵀGz is what a state z still shows at most.

        Guarantee: an upper bound as a positive semidefinite matrix; the bound of its error (see `blocks`) is added
        to the diagonal.
        """
        gram, error = self._first()
        for block in self.blocks(rounds):
            gram, error = block.gram, block.gram_error
        symmetric = (gram + gram.T) / 2
        raised = closely_above(error + roundings(1) * float(np.linalg.norm(gram)))
        return np.asarray(symmetric + raised * np.eye(self.size))

    @np.errstate(over="ignore", invalid="ignore")
    def tail_gramian(self, first: int, rounds: int) -> np.ndarray:
        """The same sum over the lags from `first`, a power of two, up to `rounds` at least; 0 if there are none.

        Guarantee: that of `gramian`.
        """
        tail, error = np.zeros_like(self.loop), 0.0
        for block in self.blocks(rounds):
            if block.length >= first:
                tail = tail + (block.added + block.added.T) / 2
                error += block.added_error + roundings(2) * float(np.linalg.norm(tail))
        return np.asarray(tail + closely_above(error) * np.eye(self.size))

    def raw_gramian(self, rounds: int) -> np.ndarray:
        """The same sum as it comes out, for those who need no proof of it.

        Guarantee: none: what rounding may have done to it is not added.
        """
        gram, _ = self._first()
        for block in self.blocks(rounds):
            gram = block.gram
        return np.asarray(gram)

    def blocks(self, rounds: int) -> Iterator[LagBlock]:
        """The sums G_k of 2^k lags, until there are `rounds`, with bounds of the norms of their errors.

        With ‖Ĝ − G‖ ≤ g, ‖P̂ − P‖ ≤ p and s = ‖P̂‖,

            ‖P̂ᵀĜP̂ − PᵀGP‖ ≤ s²g + p(2s + p)(‖Ĝ‖ + g),   ‖P̂² − P²‖ ≤ p(2s + p),

        and a product of r terms errs by at most γ_r‖X‖_F‖Y‖_F (Higham, *Accuracy and Stability*, Section 3.5).
        Where the loop fades, s does and with it every error; no power of the loop's own norm enters.

        Guarantee: `stretch`, `added_error` and `gram_error` are upper bounds for every loop within `off`.
        Source: docs/proofs/spectra.md, "Lags and powers of a loop".
        """
        gram, gram_error = self._first()
        power, power_error, length = self.loop, self.off, 1
        while length < rounds:
            # Q_{2ℓ} = Q_ℓ + (B^ℓ)ᵀQ_ℓ B^ℓ,  B^{2ℓ} = B^ℓ B^ℓ
            half = gram @ power
            added = power.T @ half
            stretch = spectral_norm(power)
            carried = power_error * (2 * stretch + power_error)
            added_error = (
                stretch**2 * gram_error
                + carried * (float(np.linalg.norm(gram)) + TINY + gram_error)
                + product_error(self.size, power, half)
                + stretch * product_error(self.size, gram, power)
            )
            gram = gram + added
            gram_error = gram_error + added_error + roundings(1) * float(np.linalg.norm(gram))
            yield LagBlock(
                length=length,
                stretch=_finite(stretch + power_error),
                added=added,
                added_error=_finite(added_error),
                gram=gram,
                gram_error=_finite(gram_error),
            )
            power_error = carried + product_error(self.size, power, power)
            power, length = power @ power, 2 * length

    def _first(self) -> tuple[np.ndarray, float]:
        """G_0, and a bound of its error."""
        return self.whitener.T @ self.whitener, product_error(
            len(self.whitener), self.whitener, self.whitener
        )


def _finite(error: float) -> float:
    """An error bound; infinite where it is no number."""
    return error if np.isfinite(error) else np.inf
