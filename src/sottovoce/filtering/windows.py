# SPDX-License-Identifier: Apache-2.0
"""How much noise the rounds of a window put into every direction of a state, whatever the gains of the filter are.

Noise of covariance Q joins the state of every round, and Q may be singular: what no draw of a round enters is
reached by those before, through the loops Φ = A − K C between. Over k rounds that is at least Y_k for all gains K,

    W_1 = Q,      W_{j+1} = Φ W_j Φᵀ + Q ⪰ Y_{j+1},      if      [A; C] Y_j [A; C]ᵀ + diag(Q − Y_{j+1}, 0) ⪰ 0,

since [I, −K] times that matrix times [I, −K]ᵀ is Φ Y_j Φᵀ + Q − Y_{j+1}. Y_{j+1} is what the filter would make of Y_j,
less what rounding needs to prove it.

Source: docs/proofs/programs.md, "Noise of several rounds".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy import linalg

from sottovoce.filtering.rounding import eigenvalue_ends, is_above, product_error, spectral_norm
from sottovoce.rounding import above, closely_above, gamma, gamma_above

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.filtering.innovations import Filtered
    from sottovoce.filtering.stages import Stage

__all__ = ["Floor", "answer_norm", "least_noise", "noise_floor", "noise_of_rounds", "windowed_noise"]

Sizes = TypeVar("Sizes", float, np.ndarray)

# Speed alone: windows of more rounds are not looked at.
LONGEST_WINDOW = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Floor:
    """What noise puts into every direction: over each `window` of rounds, k, at least `least`, λ, whatever the gains.

    With Φ_1, …, Φ_{k−1} the loops of the first rounds `early` ≥ Σ_s max_t ‖Φ_{t−1} ⋯ Φ_s‖² over 1 ≤ s < k and s ≤ t
    ≤ k, and `shown` ≥ Σ_s Σ_{t<k} ‖X_tCΦ_{t−1} ⋯ Φ_s‖²; both are 0 for windows of one round. `below` is Y_k ⪰ λI, what
    noise puts in at least.
    """

    window: int
    least: float
    below: np.ndarray | None = field(default=None, repr=False)
    early: float = 0.0
    shown: float = 0.0

    @property
    def strength(self) -> float:
        """A q with ‖𝒪‖² ≤ (1 + ‖E‖)/q: λ for windows of one round, else less.

        Guarantee: 1/q ≥ (Σ_j j² + `early`)/λ + `shown`, over 1 ≤ j ≤ k.
        Source: docs/proofs/programs.md, "Noise of several rounds".
        """
        if self.window == 1:
            return self.least
        k = self.window
        squares = k * (k + 1) * (2 * k + 1) / 6
        return 1 / closely_above((squares + self.early) / self.least + self.shown)

    def reached(self, covariance: Sizes, injected: Sizes, drift: float) -> Sizes:
        """S with R_tR_tᵀ ⪯ I + S, from P_t and Q: entries of diagonals, or norms; δ = `drift` bounds all ‖Δ_t‖.

        Contributions of energy 1 whose inputs have norm at most √β make a z with zzᵀ ⪯ βS.

        Guarantee: upper bounds if 2δ < λ, and 2(k + `early`)δ < λ for windows of more rounds.
        Source: docs/proofs/programs.md, "States from noise" and "Noise of several rounds".
        """
        if self.window == 1:
            return closely_above(covariance + drift) / (self.least - drift)
        several = self.window + self.early
        found = closely_above(several * covariance + (1 + self.early) * injected)
        return found / (self.least - several * drift) + closely_above(self.early)

    def outweighs(self, drift: float) -> bool:
        """Whether noise is clearly more than what steps fall short of.

        Guarantee: True proves that twice what all steps of a window and of its start fall short of is less than the
        least noise.
        """
        several = 1.0 if self.window == 1 else self.window + self.early
        return self.least > 0 and 2 * several * drift < self.least


def least_noise(stages: Iterable[Stage]) -> float:
    """A q with Q ⪰ q I for what each of the stages injects; not positive where some direction gets no noise.

    Guarantee: a lower bound of the least eigenvalue, proved by a Cholesky factor (`eigenvalue_ends`).
    """
    least = math.inf
    for stage in stages:
        noise = stage.noise.injected
        if noise is None:
            return 0.0
        least = min(least, eigenvalue_ends(np.asarray(noise.high))[0] - _injected_room(stage))
    return least


def noise_of_rounds(stages: Iterable[Stage]) -> tuple[int, float]:
    """(k, λ): over any k rounds, whatever the gains, noise puts at least λ into every direction.

    λ is not positive, and k is 1, where nothing is proved.

    Guarantee: λ is a lower bound. Windows of several rounds are looked at where all stages are one and the same.
    Source: docs/proofs/programs.md, "Noise of several rounds".
    """
    kinds = list({id(stage): stage for stage in stages}.values())
    least = least_noise(kinds)
    if least > 0 or len(kinds) > 1 or kinds[0].noise.injected is None:
        return 1, least
    return kinds[0].windowed[:2]


def windowed_noise(stage: Stage) -> tuple[int, float, np.ndarray | None]:
    """`noise_of_rounds`, and Y_k, for rounds that are all this stage: the best window of two rounds or more.

    Guarantee: λ is a lower bound of the least eigenvalue of Y_k, and Y_k as stored one of what k rounds put in,
    whatever the gains; k is 1, λ 0 and Y_k None where no window of several rounds is proved.
    Source: docs/proofs/programs.md, "Noise of several rounds".
    """
    size, both = stage.size, stage.dense_both
    noise = np.asarray(stage.injected.high)
    longest = float((both**2).sum())
    room, added = _injected_room(stage), gamma_above(4) * float(np.linalg.norm(noise))
    best: tuple[int, float, np.ndarray | None] = (1, 0.0, None)
    held = noise.copy()
    held.flat[:: size + 1] -= room
    for k in range(2, LONGEST_WINDOW + 1):
        seen = both @ held @ both.T
        seen = (seen + seen.T) / 2
        seen[:size, :size] += noise
        # Products of three, as computed, and Q as stored, which is added.
        off = gamma_above(2 * size + 8) * longest * float(np.linalg.norm(held)) + room + added
        following = _answered(seen, size)
        if following is None:
            break
        following.flat[:: size + 1] -= 4 * off
        seen[:size, :size] -= following
        for _ in range(8):
            if is_above(seen, off):
                break
            step = 2 * off + 2 * _room_of(seen)
            seen.flat[: size * (size + stage.count + 1) : size + stage.count + 1] += step
            following.flat[:: size + 1] -= step
        else:
            break
        held = following
        least = eigenvalue_ends(held)[0]
        worth = Floor(window=k, least=least).strength if least > 0 else 0.0
        if worth > 0 and (best[0] == 1 or worth > Floor(window=best[0], least=best[1]).strength):
            best = k, least, held
        elif best[0] > 1:
            break
    return best


def noise_floor(run: Sequence[Filtered]) -> Floor:
    """The floor of a filter with these gains; `least` is not positive where nothing is proved.

    Guarantee: that of `Floor`.
    """
    window, least = noise_of_rounds(each.stage for each in run)
    if window == 1 or not least > 0 or len(run) <= window:
        return Floor(window=1, least=least if window == 1 else 0.0)
    early = shown = 0.0
    # From each of the first rounds to round k, by products of loops; what they err by is carried on.
    for first in range(window - 1):
        moved, off, longest = np.eye(run[0].stage.size), 0.0, 1.0
        for each in run[first : window - 1]:
            read = each.whitener @ each.stage.rows
            shown += (_wide(read, moved) + float(np.linalg.norm(read)) * off) ** 2
            loop, length, slip = _loop(each)
            off = (length + slip) * off + slip * spectral_norm(moved) + product_error(len(loop), loop, moved)
            moved = loop @ moved
            longest = max(longest, spectral_norm(moved) + off)
        early += longest**2
    below = run[0].stage.windowed[2]
    return Floor(window=window, least=least, below=below, early=above(early), shown=above(shown))


def answer_norm(run: Sequence[Filtered], floor: Floor, unwhite: float) -> float:
    """A bound of the norm of the filter as a map L = diag(X) − 𝒪 diag(K) from all that is seen to ν, η = `unwhite`.

    What K_t puts in is a combination of noise of the k rounds before, of norm at most ‖Y_k^{−½}K_t‖; before round k it
    is moved there first.

    Guarantee: upper bound, for windows of two rounds and more.
    Source: docs/proofs/programs.md, "Noise of several rounds".
    """
    if floor.below is None:
        return math.inf
    k, root = floor.window, math.sqrt(1 + unwhite)
    several = {id(each): each for each in run[k - 2 :]}.values()
    inverse = _Below(below=floor.below, least=floor.least)
    later = max(inverse.length(each.gain, 0.0) for each in several)
    early = 0.0
    for first in range(k - 2):
        moved, off = run[first].gain, 0.0
        for each in run[first + 1 : k - 1]:
            read = each.whitener @ each.stage.rows
            early += (float(np.linalg.norm(read @ moved)) + float(np.linalg.norm(read)) * off) ** 2
            loop, length, slip = _loop(each)
            off = (
                (length + slip) * off
                + slip * float(np.linalg.norm(moved))
                + product_error(len(loop), loop, moved)
            )
            moved = loop @ moved
        early += (root * inverse.length(moved, off)) ** 2
    squares = k * (k + 1) * (2 * k + 1) / 6
    whitener = max(float(np.linalg.norm(each.whitener)) for each in {id(each): each for each in run}.values())
    return above(whitener + math.hypot(root * math.sqrt(squares) * later, math.sqrt(early)))


def _loop(each: Filtered) -> tuple[np.ndarray, float, float]:
    """Φ in floats, a bound of its norm, and of what it is off by, by K or by A K⁺ in its place."""
    stage = each.stage
    loop = stage.dense_both[: stage.size] - each.gain @ stage.rows
    slip = product_error(stage.size + stage.count + 4, each.gain_sizes, np.abs(stage.rows))
    slip += gamma(1) * float(np.linalg.norm(stage.dense_both))
    return loop, spectral_norm(loop), slip


class _Below:
    """‖Y^{−½}K‖ for a Y ⪰ λI: with K = YZ + r it is at most (‖ZᵀK‖ + ‖r‖‖Z‖ + ‖r‖²/λ)^½, whatever Z is."""

    def __init__(self, *, below: np.ndarray, least: float) -> None:
        """Y, and a factor of it, for guesses of Z.

        Guarantee: a Y that is not positive definite raises, so that no guess is made from it.
        """
        self._below, self._least = below, least
        self._factor = linalg.cho_factor(below, lower=True)

    def length(self, columns: np.ndarray, off: float) -> float:
        """The bound for columns that are off by `off`, in norm. Guarantee: upper bound."""
        guess = linalg.cho_solve(self._factor, columns)
        made = self._below @ guess
        rest = float(np.linalg.norm(columns - made)) + 2 * product_error(len(guess), self._below, guess) + off
        rest += gamma(1) * float(np.linalg.norm(columns))
        sizes = float(np.linalg.norm(guess))
        inner = float(np.linalg.norm(guess.T @ columns)) + product_error(len(guess), guess, columns)
        return above(math.sqrt(inner + rest * (2 * sizes) + rest**2 / self._least))


def _wide(read: np.ndarray, moved: np.ndarray) -> float:
    """‖read·moved‖ from above."""
    return spectral_norm(read @ moved) + 2 * product_error(len(moved), read, moved)


def _answered(seen: np.ndarray, size: int) -> np.ndarray | None:
    """What is left of the covariance of a state, in the first rows, once the rows after them are seen."""
    try:
        half = np.linalg.solve(np.linalg.cholesky(seen[size:, size:]), seen[size:, :size])
    except np.linalg.LinAlgError:
        return None
    found = seen[:size, :size] - half.T @ half
    return np.asarray((found + found.T) / 2)


def _injected_room(stage: Stage) -> float:
    """What Q as stored may be off by, in norm.

    Guarantee: an upper bound: the largest row sum of a symmetric matrix of sizes bounds its norm, and a thousandth is
    added for the sum's rounding.
    """
    error = stage.injected.error
    return 0.0 if error is None else closely_above(float(error.sum(axis=1).max(initial=0.0)))


def _room_of(matrix: np.ndarray) -> float:
    """About what a Cholesky factor needs to prove that a matrix is above 0. Speed alone."""
    return gamma(2 * len(matrix)) * float(np.abs(matrix.diagonal()).sum())
