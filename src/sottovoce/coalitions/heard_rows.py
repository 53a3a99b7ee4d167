# SPDX-License-Identifier: Apache-2.0
"""How the sums that each candidate receives answer all noise, in rows that are nearly independent.

Source: docs/proofs/coalitions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.coalitions.rounding import LARGEST, power_error, row_error
from sottovoce.filtering import Doubled, Parts, add, from_left, from_right, product, sparse_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.graphs import GossipWeights

__all__ = ["Responses", "responses"]

# Speed and memory alone: nodes times rounds.
MOST_NUMBERS = 4000
# Speed alone: with rows that are off by so much nothing would be proved.
HOPELESS = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Responses:
    """Rows X_a of the candidates, and last that of the mean of all sums if it is `told`: (p or p + 1) × T × n × T.

    Columns are those of a node and a round, and stand in the order of the candidates, then the target, then all
    others. `gram` is X Xᵀ. The rows of candidate a over all columns but its own have X_a X_aᵀ = I, nearly. `off`
    bounds ‖X̂_a − X_a‖_F, in floats against the rows that exact weights have; `weights` has these, by node.
    """

    rows: np.ndarray
    gram: np.ndarray
    off: float
    told: bool
    weights: tuple[dict[int, Fraction], ...]

    @property
    def count(self) -> int:
        """How many candidates there are; the row of the mean, and the columns of the target, are at this place.

        The place p: rows 0 … p − 1 are those of candidates, and so are the first p blocks of columns.
        """
        return len(self.rows) - self.told

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.rows.shape[1])

    def form(self, members: Sequence[int]) -> np.ndarray:
        """M of a coalition, told the mean or not; nothing rests on it but good prices.

            M = Sᵀ(R Rᵀ)⁺S,   R the rows that are seen without the noise of members, S their columns of the target

        Guarantee: none: least squares in floats. Prices that are made from it are proved by `CommonPrices`.
        """
        seen = [*members, *[self.count] * self.told]
        hidden = np.delete(self.rows[seen], list(members), axis=2)
        flat = hidden.reshape(len(seen) * self.rounds, -1)
        signal = self.rows[seen, :, self.count].reshape(-1, self.rounds)
        form = signal.T @ np.linalg.lstsq(flat @ flat.T, signal, rcond=None)[0]
        return np.asarray(form + form.T) / 2


def responses(
    weights: GossipWeights,
    target: int,
    candidates: Sequence[int],
    rounds: int,
    tick: Callable[[], None] = lambda: None,
    *,
    told: bool = True,
) -> Responses | None:
    """The rows of all candidates; nothing where a row has no noise of others, or where there are too many numbers.

    `tick` is called every now and then, and may raise.

    Guarantee: X_a = C_a(H_a − B_a H₀), or C_a H_a if the mean is not told, with C_a invertible, within `off`.
    """
    n = weights.n
    if n * rounds > MOST_NUMBERS:
        return None
    first = [*candidates, target]
    order = [*first, *sorted(set(range(n)).difference(first))]
    place = {node: k for k, node in enumerate(order)}
    exact = tuple({place[j]: weight for j, weight in weights.exact_row(i).items()} for i in order)
    powers = _powers(exact, rounds, tick)
    try:
        rows, off = _whitened(powers, len(candidates), tick, told=told)
    except np.linalg.LinAlgError:
        return None
    if not off < HOPELESS:
        return None
    flat = rows.reshape(-1, n * rounds)
    gram = (flat @ flat.T).reshape(len(rows), rounds, len(rows), rounds)
    return Responses(rows=rows, gram=gram, off=off, told=told, weights=exact[: len(candidates)])


def _powers(exact: Sequence[dict[int, Fraction]], rounds: int, tick: Callable[[], None]) -> list[Doubled]:
    """W, W², …, W^T in doubled precision, n × n each.

    Guarantee: each entry within its `error` of that of the exact weights, which are not negative.
    Source: docs/proofs/coalitions.md, Claim 5.
    """
    n = len(exact)
    columns = [j for row in exact for j in row]
    weights = [weight for row in exact for weight in row.values()]
    high = [float(weight) for weight in weights]
    low = [float(weight - Fraction(near)) for weight, near in zip(weights, high, strict=True)]
    W = sparse_rows(high, low, columns, [0, *accumulate(map(len, exact))], n)
    terms = int(np.bincount(columns, minlength=n).max())
    right, found = from_right(W, terms), [W.each(lambda part: np.asarray(part @ np.eye(n)))]
    for _ in range(1, rounds):
        tick()
        found.append(product(from_left(found[-1], terms), right, terms))
    return [replace(power, error=power_error(power, lag + 1)) for lag, power in enumerate(found)]


def _heard(lags: Sequence[Doubled], node: int) -> Doubled:
    """H_a, T × nT: entry (t, s) of the block of node c is (W^{t−s+1})_ac for t ≥ s, else 0."""
    rounds, n = len(lags), lags[0].high.shape[1]

    def spread(parts: Sequence[np.ndarray]) -> np.ndarray:
        found = np.zeros((rounds, n, rounds))
        for lag, part in enumerate(parts):
            for t in range(lag, rounds):
                found[t, :, t - lag] = part[node]
        return found.reshape(rounds, -1)

    return Doubled(
        high=spread([np.asarray(each.high) for each in lags]),
        low=spread([np.asarray(each.low) for each in lags]),
        error=spread([np.asarray(each.error) for each in lags]),
    )


def _whitened(
    powers: Sequence[Doubled], candidates: int, tick: Callable[[], None], *, told: bool
) -> tuple[np.ndarray, float]:
    """X_a = C_a(H_a − B_a H₀) for each candidate, then X₀ = C₀H₀, or C_a H_a alone; and the largest error of a row.

        X_a = C_a(H_a − B_a H₀),   B_a H₀ the regression of H_a on the sum H₀ of all

    Rows are made in doubled precision and rounded once. What is returned is (p or p + 1) × T × n × T.

    Guarantee: each row, as floats, is within the error that is returned of the exact row with C_a and B_a as stored,
    in the Frobenius norm. Any invertible C_a and any B_a serve: they only change how close pieces are to the
    identity.
    Source: docs/proofs/coalitions.md, Claims 2 and 5.
    """
    rounds, n = len(powers), powers[0].high.shape[0]
    rows, errors = [], []

    def made(C: np.ndarray, rest: Parts) -> np.ndarray:
        row = product(from_left(Doubled(high=C), rounds), rest, rounds)
        rows.append(np.asarray(row.rounded()))
        errors.append(row_error(row))
        return rows[-1]

    if told:
        ones = from_left(Doubled(high=np.ones((1, n))), n)
        sums = _heard([product(ones, from_right(power, n), n) for power in powers], 0)
        C0, every = _whitener(np.asarray(sums.rounded())), from_right(sums, rounds)
        X0 = made(C0, every)
    for a in range(candidates):
        tick()
        rest = _heard(powers, a)
        if told:
            B = _regression(np.asarray(rest.rounded()), X0, C0)
            rest = add(rest, product(from_left(Doubled(high=B), rounds), every, rounds), -1)
        floats = np.asarray(rest.rounded()).reshape(rounds, n, rounds)
        C = _whitener(np.delete(floats, a, axis=1).reshape(rounds, -1))
        made(C, from_right(rest, rounds))
    # The row of all stands last.
    return np.stack([*rows[told:], *rows[:told]]).reshape(-1, rounds, n, rounds), float(np.max(errors))


def _regression(own: np.ndarray, told: np.ndarray, C0: np.ndarray) -> np.ndarray:
    """B_a with B_a H₀ = (H_a X₀ᵀ) X₀, nearly: what of a row all sums together say."""
    return np.asarray((own @ told.T) @ C0)


def _whitener(rows: np.ndarray) -> np.ndarray:
    """A lower-triangular C with C R Rᵀ Cᵀ = I, nearly; LinAlgError where rows are dependent, or nearly nothing.

    Guarantee: as stored C is invertible, and its entries are so small that what underflows in R does not matter.
    """
    C = np.tril(np.linalg.inv(np.linalg.cholesky(rows @ rows.T)))
    if not (np.isfinite(C).all() and np.abs(C).max() < LARGEST and (np.diagonal(C) > 0).all()):
        raise np.linalg.LinAlgError("rows too small to follow")
    return C
