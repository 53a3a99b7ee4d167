# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once whose response rings: neither smooth in time nor soon over.

With gains frozen after some rounds F is a Toeplitz matrix S but for its first columns, E = F − S, as in `peak`; there
what these add is followed round by round for each target. Here forms of the target's input say how large they are,

    Δ ≤ √(T·sup_ω φ(ω)) + Σ_s ‖E_s‖,      φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖²,

so that a target costs its lags, one Fourier transform and a few products of r × r numbers. That the lags of a target
change signs, or the frequency at which φ is largest is not 0, widens nothing.
Soundness: `peaks` and `first_columns`. Speed: the round in which gains are frozen, and how finely φ is sampled.
Source: docs/proofs/peak.md, "Rings"; docs/proofs/programs.md, "Frozen gains".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.rounding import above, gamma
from sottovoce.sensitivities.many_targets.lag_sums import first_columns
from sottovoce.sensitivities.many_targets.peak import peaks
from sottovoce.sensitivities.rounding import tap_errors

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.sensitivities.many_targets.lag_forms import LagForms

__all__ = ["RingingTables", "ringing_bound", "ringing_tables"]

# Speed alone: gains are frozen after so many rounds, or after this share of them. Later is closer and dearer.
FROZEN, SHARE = 32, 0.06
# Speed alone: 1/cos(π/16) is 1.02.
OVERSAMPLING = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class RingingTables:
    """The lags of S, `rows` (T, m, r), off by `rows_error`·‖b‖ in all, and the norms of E by blocks, `early`."""

    rows: np.ndarray
    rows_error: float
    early: LagForms


@np.errstate(over="ignore", invalid="ignore")
def ringing_tables(response: FilteredResponse) -> RingingTables | None:
    """The tables of a response; None where rounds are too many to be looked at one by one.

    Guarantee: upper bounds of the norms of E, and of what the lags are off by, for the model as stored.
    Source: docs/proofs/peak.md, "Rings".
    """
    if response.rounds > EXPLICIT_ROUNDS:
        return None
    start = min(max(FROZEN, round(SHARE * response.rounds)), len(response.gains.gain)) - 1
    closed = response.closed_loop(start)
    rows = closed.taps(response.rounds)
    errors = tap_errors(closed, rows) + gamma(response.size) * np.sqrt((rows**2).sum(axis=(1, 2)))
    early, _ = first_columns(response, start)
    return RingingTables(rows=rows, rows_error=float(above(errors.sum())), early=early)


@np.errstate(over="ignore", invalid="ignore")
def ringing_bound(tables: RingingTables, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An upper bound of Δ² for each column b of `sources`, and the frequency at which φ is largest.

    Guarantee: an upper bound for vectors of every dimension, for a filter whose gains are frozen; infinite where
    anything overflows.
    Source: docs/proofs/peak.md, "Rings".
    """
    rounds, m, _ = tables.rows.shape
    lengths = np.sqrt((sources**2).sum(axis=0))
    peak, frequency = peaks(tables.rows, sources, tables.rows_error * lengths, OVERSAMPLING)
    bound = (np.sqrt(rounds * peak) + tables.early.norm_sum(sources)) ** 2
    bound *= 1 + gamma(8) * (rounds * m + len(tables.early.lengths) + 64)
    return np.where(np.isfinite(bound), bound, np.inf), frequency
