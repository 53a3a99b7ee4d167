# SPDX-License-Identifier: Apache-2.0
"""What contributions of every round show: the columns of F, where rounds after the gains have settled are alike.

From the 0-based round c on the gains are steady, B = AΦ and D = L⁻¹C. A state z of round c shows O z afterwards, the
rows of O being DB^ℓ, and those of round T. So a contribution of a round s < c is known by its answer before round c
and the state y_s that it has become by then; one of a later round by f_ℓ = DB^ℓb.

    F_s·F_t = Σ_{u<c} F_us·F_ut + (Oy_s)·(Oy_t),   F_s·F_{c+k} = y_s·g_k,   g_k = Σ_{ℓ≥k} (DB^ℓ)ᵀf_{ℓ−k},

and g_k = Bᵀg_{k−1} − (DB^L)ᵀf_{L−k}, L = T − 1 − c. O, which is tall, is Q·R with a small R, and |Oy| = |Ry|.

Soundness: that all of this is exact algebra but for what `LateRows` measures and `gram_error` counts. Speed: whether
rounds after c are treated as alike, and matrices as dense.
Source: docs/mathematics.md, section 5; docs/proofs/gram.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering.rounding import built_up, row_errors
from sottovoce.rounding import above, gamma

if TYPE_CHECKING:
    from sottovoce.filtering.response import FilteredResponse

__all__ = ["Impulses", "LateRows", "impulses_of", "late_rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LateRows:
    """What a state of round c shows: D B^ℓ for ℓ ≤ L as `settled`, the same with the rows of round T as `last`.

    `loop` is B as stored. Both are (L + 1, rows, r), and O has the first L of the former and the last of the latter.
    `root` is R, r × r, with O = QR up to `beside` in norm, and QᵀQ = I up to `skew`. `off` bounds the error of O as
    stored, in norm, and `final` that of DB^L and of its counterpart; a product with `loop` errs by `step` of what it
    is applied to, and no power of B is longer than `growth`.
    """

    loop: np.ndarray
    settled: np.ndarray
    last: np.ndarray
    root: np.ndarray
    beside: float
    skew: float
    off: float
    final: float
    step: float
    growth: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Impulses:
    """The whitened response to a unit contribution in each round, for several targets at once.

    With k targets, m rows a round and m' in the last: `early[j, s]` is what rounds before c show of round s < c, (k,
    c, cm), and where nothing is taken as alike, c = T − 1, also what the last one shows. `states[j, s]` is the state in
    round c, (k, c, r). A contribution in a later round s is answered in round u by `settled[j, u − s]`, (k, L, m), and
    in round T by `last[j, T − 1 − s]`, (k, L + 1, m'). `late` is None where c = T − 1.
    """

    early: np.ndarray
    states: np.ndarray
    settled: np.ndarray
    last: np.ndarray
    late: LateRows | None

    @property
    def rounds(self) -> int:
        """T."""
        return int(self.early.shape[1] + self.last.shape[1])


def impulses_of(
    response: FilteredResponse, positions: np.ndarray, *, out: np.ndarray | None = None
) -> Impulses:
    """F for the input b of targets at `positions`, which is linear in b; `early` and `states` are put into `out`.

    The rows (L_u⁻¹C)(A Φ_{u−1}) … (A Φ_s) of rounds u < c are carried backwards in s and serve every target, and so
    is what makes y_s of b, whose rows begin as those of I.

    Guarantee: plain floats; F made of them is within `FilteredResponse.forms_error` of that of the filter, in norm, and
    `gram_error` has what products of them add.
    Source: docs/proofs/gram.md.
    """
    gains, m = response.gains, response.rows.shape[0]
    start, size = response.alike_from, response.size
    late = late_rows(response, start) if start < response.rounds - 1 else None
    final = np.eye(size) if late is not None else gains.last_whitener
    early = np.empty((len(positions), start, start * m + len(final))) if out is None else out
    # Before step s the columns in `held` read the state of round s + 1; after it, that of round s. Speed alone: rows
    # stand as columns, in two places by turns, so that nothing is moved to make room for those of round s.
    places, held = np.empty((2, size, early.shape[2])), final.T
    for s in range(start - 1, -1, -1):
        following = places[s % 2, :, : held.shape[1] + m]
        following[:, :m] = gains.whitener[gains.at(s)].T
        response.before_columns(held, s, out=following[:, m:])
        held = following
        early[:, s, : s * m] = 0.0
        early[:, s, s * m :] = response.read(held, positions)
    last = gains.last_whitener[None] if late is None else late.last
    settled = np.zeros((0, m, size)) if late is None else late.settled[:-1]
    split = start * m if late is not None else early.shape[2]
    return Impulses(
        early=early[:, :, :split],
        states=early[:, :, split:],
        settled=_per_target(response, settled, positions),
        last=_per_target(response, last, positions),
        late=late,
    )


def late_rows(response: FilteredResponse, start: int) -> LateRows:
    """The rows of O with their errors, and R.

    Guarantee: `off`, `final`, `beside` and `skew` are upper bounds; what O = QR is off by is measured.
    Source: docs/proofs/gram.md.
    """
    gains, lags, closed = response.gains, response.rounds - 1 - start, response.settled_loop
    step = closed.step_error
    growth = built_up(gains, above(1.0))
    settled = _followed(closed.loop, gains.whitener[start], lags)
    same = np.array_equal(gains.last_whitener, gains.whitener[start])
    last = settled if same else _followed(closed.loop, gains.last_whitener, lags)
    errors = [row_errors(rows, step * growth) for rows in (settled, last)]
    rows = np.concatenate([settled[:-1].reshape(-1, response.size), last[-1]])
    base, root = linalg.qr(rows, mode="economic", check_finite=False)
    size = float(np.linalg.norm(rows))
    beside = float(np.linalg.norm(base @ root - rows)) + above(gamma(len(root) + 2)) * size * len(root) ** 0.5
    skew = float(np.linalg.norm(base.T @ base - np.eye(len(root))))
    skew = above(skew + above(gamma(len(rows) + 2)) * len(root))
    return LateRows(
        loop=closed.loop,
        settled=settled,
        last=last,
        root=root,
        beside=above(beside),
        skew=skew if skew < 1e-3 else np.inf,
        off=above(float(np.hypot(np.linalg.norm(errors[0][:-1]), errors[1][-1]))),
        final=above(float(max(each[-1] for each in errors))),
        step=step,
        growth=growth,
    )


def _followed(loop: np.ndarray, rows: np.ndarray, lags: int) -> np.ndarray:
    """Rows times B^ℓ for ℓ ≤ `lags`: (lags + 1, rows, r).

        X_0 = rows,   X_{ℓ+1} = X_ℓ B

    Guarantee: plain floats, ℓ products in a row; `row_errors` says what they may be off by.
    """
    found = np.empty((lags + 1, *rows.shape))
    found[0] = rows
    for lag in range(lags):
        # X_{ℓ+1} = X_ℓ B
        np.matmul(found[lag], loop, out=found[lag + 1])
    return found


def _per_target(response: FilteredResponse, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rows (lags, m, r) times the inputs of targets, as (targets, lags, m)."""
    lags, m, size = rows.shape
    return np.asarray(response.read(rows.reshape(-1, size).T, positions).reshape(len(positions), lags, m))
