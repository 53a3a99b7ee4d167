# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once where the filter settles long before the end.

Once the gains are steady F is a Toeplitz matrix S; E = F − S lives in the first τ columns. All that the bound needs
of either is a quadratic form of the target's input, so that a target costs a few r × r products, whatever T is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import Step, product_error
from sottovoce.rounding import above, gamma, gamma_above
from sottovoce.sensitivities.many_targets.lag_forms import LagForms, lag_forms
from sottovoce.sensitivities.rounding import tap_errors, weights_before

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["LagTables", "first_columns", "lag_bound", "lag_tables"]

# Speed alone: lags that are looked at one by one, a power of two; longer ones go in blocks.
LAGS = 64
# Speed alone: blocks of first columns grow by this factor.
GROWTH = 1.5
# Speed alone: rows of their forms that are below this share of the longest, as squares, are left out, unless that would
# widen a bound by more than so much of it.
SHORT, WIDENED = 1e-8, 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class LagTables:
    """The lags of S, first `rows` (off by `rows_error`·‖b‖), then `later`; the norms of E by blocks, `early`.

    `left` is what E still shows after the rounds `looked` at. `rows` is (lags, m, r): row ℓ times b is f_ℓ. `quick` are
    `early` and `left` with fewer rows.
    """

    rounds: int
    looked: int
    rows: np.ndarray
    rows_error: np.ndarray
    later: LagForms
    early: LagForms
    left: LagForms
    quick: tuple[LagForms, LagForms]


@np.errstate(over="ignore", invalid="ignore")
def lag_tables(response: FilteredResponse) -> LagTables:
    """The tables of a response whose gains settle, or are taken to settle in the last round.

    Column s of E is what an input of round s shows under the true gains, less what it would show under the
    settled ones. Both start from the state b, so that its squared norm is the form of the pair (b, b) in `_Pair`,
    carried back from the settled round to s; columns are summed by blocks of rounds.

    Guarantee: upper bounds of the norms of E for the model as stored; rounding is in the forms (see `_Pair`).
    Source: docs/mathematics.md, section 7; docs/proofs/spectra.md.
    """
    rounds, start = response.rounds, len(response.gains.gain) - 1
    closed = response.closed_loop(start)
    reach = 1 << round(math.log2(3 * start + LAGS))
    columns, after_all = first_columns(
        response, start, after=_Pair.of(closed.tail_gramian(reach, rounds - start))
    )
    rows = closed.taps(min(LAGS, rounds))
    products = gamma(response.size) * np.sqrt((rows**2).sum(axis=(1, 2)))
    return LagTables(
        rounds=rounds,
        looked=min(rounds, start + reach),
        rows=rows,
        rows_error=above(tap_errors(closed, rows) + products),
        later=lag_forms(closed, LAGS, rounds),
        early=columns,
        left=after_all,
        quick=(columns.fewer(SHORT), after_all.fewer(SHORT)),
    )


def first_columns(
    response: FilteredResponse, start: int, *, after: _Pair | None = None
) -> tuple[LagForms, LagForms]:
    """The norms of E by blocks of columns, gains being frozen in round `start`, and what `after` says of all of them.

    Guarantee: upper bounds of the squared norms of columns, summed by blocks, for the model as stored (see `_Pair`).
    Source: docs/mathematics.md, section 7; docs/proofs/spectra.md.
    """
    closed, edges = response.closed_loop(start), _edges(start)
    step = Step.of(response.transition, response.rows, response.gains.gain[: start + 1])
    early = [np.zeros_like(closed.loop) for _ in edges[1:]]
    left = np.zeros_like(closed.loop)
    margins = np.zeros(len(edges))
    # Gramians of the pair (state of F, state of S): what it shows from now on, and what after the rounds looked at.
    shown = _Pair.of(closed.gramian(response.rounds))
    true = settled = np.eye(response.size)
    for block in range(len(edges) - 2, -1, -1):
        for s in range(edges[block + 1] - 1, edges[block] - 1, -1):
            shown = shown.before(response, s, step, start).seeing(response.gains.whitener[s], closed.whitener)
            true = weights_before(response, step, true, s)
            settled = weights_before(response, step, settled, start)
            early[block], room = shown.added_to(early[block], true + settled)
            margins[block] += room
            if after is not None:
                after = after.before(response, s, step, start)
                left, room = after.added_to(left, true + settled)
                margins[-1] += room
    return LagForms.of(early, np.diff(edges), margins[:-1]), LagForms.of(
        [left], np.array([start]), margins[-1:]
    )


@np.errstate(over="ignore", invalid="ignore")
def lag_bound(tables: LagTables, sources: np.ndarray) -> np.ndarray:
    """An upper bound of Δ² for each column b of `sources`.

    With g_t = Σ_{ℓ ≤ t} ‖f_ℓ‖, so that (Sc)_t has norm at most g_t, e = Σ_s ‖E_{:,s}‖ and, of the rounds after the
    first U, e_U likewise,

        Δ² ≤ Σ_t g_t² + 2e√(Σ_{t<U} g_t²) + 2e_U√(Σ_t g_t²) + e².

    Guarantee: an upper bound for vectors of every dimension; sums of norms over a block of rounds or lags are taken
    by Cauchy and Schwarz from the squared norm of the block. Nothing is subtracted, so that sums and products of
    them err by a factor within 1 ± γ_k at most, k of order the number of terms.
    Source: docs/mathematics.md, section 7, with the start-up looked at for U rounds only; docs/proofs/spectra.md.
    """
    count, m, size = tables.rows.shape
    lags = (tables.rows.reshape(-1, size) @ sources).reshape(count, m, -1)
    rounding = np.outer(tables.rows_error, np.sqrt((sources**2).sum(axis=0)))
    grown = np.cumsum(np.sqrt((lags**2).sum(axis=1)) + rounding, axis=0)
    energies = tables.later.energies(sources)
    settled, looked = (_shown(tables, grown, energies, rounds) for rounds in (tables.rounds, tables.looked))
    (early, least), (left, fewest) = (forms.norm_sums(sources) for forms in tables.quick)
    bound = _whole(settled, looked, early, left)
    unsure = np.flatnonzero(~(bound - _whole(settled, looked, least, fewest) <= WIDENED * bound))
    if unsure.size:
        early, left = (forms.norm_sum(sources[:, unsure]) for forms in (tables.early, tables.left))
        bound[unsure] = _whole(settled[unsure], looked[unsure], early, left)
    terms = m + count + len(energies) + len(tables.early.lengths) + 16
    return np.asarray(bound * (1 + gamma(8 * terms)))


def _whole(settled: np.ndarray, looked: np.ndarray, early: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The bound of `lag_bound` from its four sums."""
    return np.asarray(settled + 2 * early * np.sqrt(looked) + 2 * left * np.sqrt(settled) + early**2)


def _shown(tables: LagTables, grown: np.ndarray, energies: np.ndarray, rounds: int) -> np.ndarray:
    """Σ g_t² over so many rounds: the first ones from `grown`, later ones by blocks whose lags have these energies.

    Of a block of lags with energy E the first j have norms that sum to at most √(jE).
    """
    total = (grown[:rounds] ** 2).sum(axis=0)
    before, first = grown[-1], len(grown)
    for length, energy in zip(tables.later.lengths, energies, strict=True):
        inside = min(length, rounds - first)
        if inside <= 0:
            break
        # Σ_{j ≤ J} (g + √(jE))² ≤ Jg² + 2g√E·Σ√j + E·Σj,   Σ√j ≤ ⅔(J + 1)^{3/2}
        roots, firsts = 2 / 3 * (inside + 1) ** 1.5, inside * (inside + 1) / 2
        total = total + inside * before**2 + 2 * before * np.sqrt(energy) * roots + energy * firsts
        before, first = before + np.sqrt(length * energy), first + length
    return np.asarray(total)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pair:
    """A form on pairs (x, y) of states, x of the true filter and y of the steady one: xᵀFx + 2xᵀCy + yᵀSy.

    Guarantee: for the pair (x, y) of a round, what was computed is within ρ(xᵀWx + yᵀVy) of the form that was begun
    with, carried back without rounding, ρ = `made` + `lost`; W and V weigh the states from this round to the
    settled one (`weights_before`). Why: a step makes X(AΦ) for each X of F, C and S, off by R' with ‖R'‖ ≤ κ‖X‖,
    and from that (AΦ)ᵀX(AΦ), off by R besides, κ of `Step`. With x, y the states before it and x₊, y₊ those after
    it, it moves the form by at most, R for norms,

        R'_F(‖x‖² + ‖x₊‖²)/2 + R'_S(‖y‖² + ‖y₊‖²)/2 + R'_C(‖x₊‖² + ‖y‖²) + R_F‖x‖² + R_S‖y‖² + R_C(‖x‖² + ‖y‖²).

    So `lost` is the largest max(R'_F, R'_S) + R'_C of all steps, `made` that of R; what is added errs as R does.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """

    first: np.ndarray
    cross: np.ndarray
    second: np.ndarray
    halfway: float = 0.0
    made: float = 0.0
    lost: float = 0.0

    @classmethod
    def of(cls, gram: np.ndarray) -> _Pair:
        """(x − y)ᵀG(x − y): once both filters have settled, what they show differs by what x − y shows."""
        return cls(first=gram, cross=-gram, second=gram)

    @property
    def norm(self) -> float:
        """max(‖F‖, ‖S‖) + ‖C‖."""
        return _largest(self.first, self.cross, self.second)

    def before(self, response: FilteredResponse, s: int, step: Step, settles: int) -> _Pair:
        """The form of the pair one round earlier.

            F ← (AΦ_s)ᵀF(AΦ_s),   C ← (AΦ_s)ᵀC(AΦ),   S ← (AΦ)ᵀS(AΦ),   Φ that of round `settles`.

        Guarantee: `made` and `lost` grow to cover the step.
        """
        first, cross = response.before(self.first, s), response.before(self.cross, settles)
        second = response.before(self.second, settles)
        halfway = step.error * _largest(first, cross, second)
        return _Pair(
            first=response.before(first.T, s),
            cross=response.before(cross.T, s).T,
            second=response.before(second.T, settles),
            halfway=halfway,
            made=max(self.made, halfway),
            lost=max(self.lost, step.error * self.norm),
        )

    def seeing(self, first: np.ndarray, second: np.ndarray) -> _Pair:
        """The form with ‖D₁x − D₂y‖², the squared difference of what the two whiteners show, added.

        Guarantee: `made` grows by what products and sums err by.
        """
        seen = replace(
            self,
            first=self.first + first.T @ first,
            cross=self.cross - first.T @ second,
            second=self.second + second.T @ second,
        )
        products = [
            product_error(len(x), x, y) for x, y in ((first, first), (first, second), (second, second))
        ]
        added = max(products[0], products[2]) + products[1] + gamma(1) * seen.norm
        return replace(seen, made=max(self.made, self.halfway + added))

    def added_to(self, form: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """`form` and an upper bound of this one where both states are an input b, and what sums err by times ‖b‖².

        bᵀ`weights`b is what the states that b leads to weigh in both filters.

        Guarantee: the first is an upper bound but for the second, as forms.
        """
        whole = self.first + self.cross + self.cross.T + self.second
        raised = (whole + whole.T) / 2 + above(self.made + self.lost) * weights
        total = form + raised
        room = 10 * self.norm + 2 * float(np.linalg.norm(raised)) + float(np.linalg.norm(total))
        return total, gamma_above(room)


def _largest(first: np.ndarray, cross: np.ndarray, second: np.ndarray) -> float:
    """max(‖F‖, ‖S‖) + ‖C‖."""
    outer = max(float(np.linalg.norm(first)), float(np.linalg.norm(second)))
    return outer + float(np.linalg.norm(cross))


def _edges(start: int) -> np.ndarray:
    """0 = e_0 < e_1 < … = start, in steps that grow."""
    edges = [0]
    while edges[-1] < start:
        edges.append(min(start, max(edges[-1] + 1, int(GROWTH * edges[-1]))))
    return np.array(edges)
