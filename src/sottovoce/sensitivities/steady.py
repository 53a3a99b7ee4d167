# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once where the filter settles long before the end.

Once the gains are steady F is a Toeplitz matrix S; E = F − S lives in the first τ columns. All that the bound needs of
either is a quadratic form of the target's input, so that a target costs a few r × r products, whatever T is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.lags import (
    ROUNDING,
    LagForms,
    closed_loop,
    gramian,
    lag_forms,
    loop_error,
    taps,
)

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["SteadyTables", "steady_bound", "steady_tables"]

# Lags that are looked at one by one, a power of two; longer ones go in blocks.
LAGS = 64
# Blocks of first columns grow by this factor.
GROWTH = 1.5


@dataclass(frozen=True, kw_only=True, eq=False)
class SteadyTables:
    """The lags of S, first `rows` and then `later`; the norms of E on blocks of its columns, `early`.

    `left` is what E still shows after the rounds `looked` at.
    """

    rounds: int
    looked: int
    rows: np.ndarray
    later: LagForms
    early: LagForms
    left: LagForms


def steady_tables(response: FilteredResponse) -> SteadyTables:
    """The tables of a response whose gains settle, or are taken to settle in the last round."""
    rounds, start = response.rounds, len(response.gains.gain) - 1
    loop, whitener = closed_loop(response, start)
    looked = min(rounds, 4 * start + LAGS)
    off = loop_error(response, start)
    gram = gramian(loop, whitener, rounds, off=off)
    passage = np.linalg.matrix_power(loop, looked - start)
    edges = _edges(start)
    early = [np.zeros_like(loop) for _ in edges[1:]]
    left = np.zeros_like(loop)
    margins = np.zeros(len(edges))
    # Gramians of the pair (state of F, state of S): what it shows from now on, and what after the rounds looked at.
    shown, after = _Pair.of(gram), _Pair.of(passage.T @ gram @ passage)
    for block in range(len(edges) - 2, -1, -1):
        for s in range(edges[block + 1] - 1, edges[block] - 1, -1):
            shown = shown.before(response, s).seeing(response.gains.whitener[s], whitener)
            after = after.before(response, s)
            early[block] += shown.of_difference()
            left += after.of_difference()
            margins[block] += shown.margin
            margins[-1] += after.margin
    return SteadyTables(
        rounds=rounds,
        looked=looked,
        rows=taps(loop, whitener, min(LAGS, rounds)),
        later=lag_forms(loop, whitener, LAGS, rounds, off=off),
        early=LagForms.of(early, np.diff(edges), margins[:-1]),
        left=LagForms.of([left], np.array([start]), margins[-1:]),
    )


def steady_bound(tables: SteadyTables, sources: np.ndarray) -> np.ndarray:
    """An upper bound of Δ² for each column b of `sources`.

    With g_t = Σ_{ℓ ≤ t} ‖f_ℓ‖, so that (Sc)_t has norm at most g_t, e = Σ_s ‖E_{:,s}‖ and, of the rounds after the
    first U, e_U likewise,

        Δ² ≤ Σ_t g_t² + 2e√(Σ_{t<U} g_t²) + 2e_U√(Σ_t g_t²) + e².

    Guarantee: an upper bound for vectors of every dimension; sums of norms over a block of rounds or lags are taken
    by Cauchy and Schwarz from the squared norm of the block.
    Source: Section 5 of the mathematics page, with the start-up looked at for U rounds only.
    """
    count, m, size = tables.rows.shape
    lags = (tables.rows.reshape(-1, size) @ sources).reshape(count, m, -1)
    grown = np.cumsum(np.sqrt((lags**2).sum(axis=1)), axis=0)
    energies = tables.later.energies(sources)
    early, left = tables.early.norm_sum(sources), tables.left.norm_sum(sources)
    bulk, looked = (_shown(tables, grown, energies, rounds) for rounds in (tables.rounds, tables.looked))
    bound = bulk + 2 * early * np.sqrt(looked) + 2 * left * np.sqrt(bulk) + early**2
    return np.asarray(bound * (1 + 1e-9))


def _shown(tables: SteadyTables, grown: np.ndarray, energies: np.ndarray, rounds: int) -> np.ndarray:
    """Σ g_t² over so many rounds: the first ones from `grown`, later ones by blocks whose lags have these energies.

    Of a block of lags with energy E the first j have norms that sum to at most √(jE).
    """
    total = (grown[:rounds] ** 2).sum(axis=0)
    before, first = grown[-1], len(grown)
    for length, energy in zip(tables.later.lengths, energies, strict=True):
        inside = min(length, rounds - first)
        if inside <= 0:
            break
        roots, firsts = 2 / 3 * (inside + 1) ** 1.5, inside * (inside + 1) / 2
        total = total + inside * before**2 + 2 * before * np.sqrt(energy) * roots + energy * firsts
        before, first = before + np.sqrt(length * energy), first + length
    return np.asarray(total)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pair:
    """A form on pairs (x, y) of states, x of the true filter and y of the steady one: xᵀFx + 2xᵀCy + yᵀSy."""

    first: np.ndarray
    cross: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, gram: np.ndarray) -> _Pair:
        """(x − y)ᵀG(x − y)."""
        return cls(first=gram, cross=-gram, second=gram)

    def before(self, response: FilteredResponse, s: int) -> _Pair:
        """The form of the pair one round earlier."""
        steady = response.rounds
        return _Pair(
            first=response.before(response.before(self.first, s).T, s),
            cross=response.before(response.before(self.cross, steady).T, s).T,
            second=response.before(response.before(self.second, steady).T, steady),
        )

    def seeing(self, first: np.ndarray, second: np.ndarray) -> _Pair:
        """The form with the squared difference of what the two whiteners show added."""
        return _Pair(
            first=self.first + first.T @ first,
            cross=self.cross - first.T @ second,
            second=self.second + second.T @ second,
        )

    def of_difference(self) -> np.ndarray:
        """The form where both states are the same input b, up to `margin`·‖b‖²."""
        whole = self.first + self.cross + self.cross.T + self.second
        return np.asarray((whole + whole.T) / 2)

    @property
    def margin(self) -> float:
        """Room for what cancels in the form of a difference."""
        return ROUNDING * len(self.first) * float(np.linalg.norm(self.first))


def _edges(start: int) -> np.ndarray:
    """0 = e_0 < e_1 < … = start, in steps that grow."""
    edges = [0]
    while edges[-1] < start:
        edges.append(min(start, max(edges[-1] + 1, int(GROWTH * edges[-1]))))
    return np.array(edges)
