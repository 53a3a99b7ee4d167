# SPDX-License-Identifier: Apache-2.0
"""Δ² of one target over a horizon of any length: y is a profile of the first rounds and one rate for all later.

    y = (start_1, …, start_τ, ρ, ρ, …, ρ),   Δ² ≤ Σ start_t + (T − τ)ρ,   ρ a little above sup φ.

The gains are frozen after τ + 1 rounds. Then one V with V ⪰ f(V) under y = ρ bounds every settled round
(`settled_value`), and the recursion walks from V back through the first τ rounds (`walks_back`). Both costs are
free of T. ρ cannot be below sup φ of the frozen gains, and a turning stream attains nearly as much in the long run.

Soundness: `settled_value` and `walks_back`. Speed: where the start comes from, and the excesses that are tried.
Source: docs/mathematics.md, sections 7 and 8; docs/proofs/bounded-real.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.long_horizons.bounded_real import settled_value, walks_back
from sottovoce.sensitivities.long_horizons.model import model_of, peak_of
from sottovoce.sensitivities.long_horizons.streams import attained_turning, best_periodic_signs
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.sensitivities.rounding import summed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["FREEZE", "HorizonSolution", "short_profiles", "solve_horizon"]

# Speed alone: how far above sup φ the rate stands: closer costs precision, farther costs noise. The
# first that is proved is taken.
EXCESSES = (1e-4, 5e-4, 2e-3, 1e-2, 5e-2)
# Speed alone: the upper end freezes the gains after this many rounds at the latest: that takes noise away, never
# adds it (`filtering.filter_gains`), whatever the number.
FREEZE = 512
# Speed alone: the start profile is taken from the dual solution of this short horizon.
SHORT = 768


@dataclass(frozen=True, kw_only=True, eq=False)
class HorizonSolution:
    """attained ≤ Δ² ≤ bound for the model as stored, over its T rounds.

    The upper end is Σ `start` + (T − len(start))·`rate`, proved with the matrix `value` under gains frozen
    after the start; the lower end belongs to `stream`: unit vectors that turn by `frequency` each round, which
    attain `reached`, or periodic signs (`signs` is one period). `start` has an entry for each of the first
    rounds, `value` is V, r × r.
    """

    attained: float
    reached: float
    bound: float
    start: np.ndarray
    rate: float
    value: np.ndarray
    frequency: float
    signs: np.ndarray | None

    def stream(self, rounds: int) -> np.ndarray:
        """The contributions behind the lower end: shape (T,) for signs, (T, 2) for turning vectors.

        Guarantee: ‖c_t‖ = 1 but for the rounding of cosine and sine, which `attained` allows for; signs are exact.
        """
        if self.signs is not None:
            return np.resize(self.signs, rounds)
        angles = self.frequency * np.arange(rounds)
        return np.column_stack([np.cos(angles), np.sin(angles)])


def solve_horizon(
    response: FilteredResponse,
    position: int,
    *,
    contribution: Contribution = "vector",
    profile: np.ndarray | None = None,
) -> HorizonSolution | None:
    """Ends of Δ² for the target at `position`, or None if no bound below the cap T is found.

    The gains are frozen after the rounds for which a guess of y is given (`profile`), or after `FREEZE` rounds.

    Guarantee: attained ≤ Δ² ≤ bound for vectors of every dimension, for the model as stored; every step's rounding
    is covered by inflating V. The round T, which may show fewer rows, is counted as if it showed all.
    Source: docs/proofs/bounded-real.md, docs/proofs/streams.md; discrete-time bounded-real lemma over a finite
    horizon (Green & Limebeer, *Linear Robust Control*, ch. 6 and appendix B).
    """
    whole = model_of(response, position, len(response.gains.gain))
    frequency, _ = peak_of(whole)
    reached = attained_turning(whole, frequency)
    attained, signs = best_periodic_signs(whole, frequency) if contribution == "scalar" else (reached, None)
    model = model_of(response, position, FREEZE if profile is None else len(profile) + 1)
    _, peak = peak_of(model)
    if profile is None:
        (profile,) = short_profiles(response, np.array([position]))
    profile = np.maximum(profile, peak)
    for excess in EXCESSES:
        rate = peak * (1 + excess)
        value = settled_value(model, rate)
        start = None if value is None else _proved_start(model, value, profile, excess * rate)
        if value is not None and start is not None:
            bound = math.fsum(start) + (model.rounds - len(start)) * rate
            return HorizonSolution(
                attained=attained,
                reached=reached,
                bound=bound * summed(4),
                start=start,
                rate=rate,
                value=value,
                frequency=frequency,
                signs=signs,
            )
    return None


def short_profiles(response: FilteredResponse, positions: np.ndarray) -> Iterator[np.ndarray]:
    """For each target the y of a short horizon's dual solution, for the rounds before the gains are frozen.

    They are what `solve_horizon` begins with where it is given none; targets that are asked for together share the
    rows of the response. Guesses: the recursion judges them, so that nothing is proved here.
    """
    frozen_at = min(FREEZE, len(response.gains.gain))
    # Only a guess that the recursion will judge, so gains that hardly move may be taken as settled.
    moved = np.abs(response.gains.gain[:frozen_at] - response.gains.gain[frozen_at - 1]).max(axis=(1, 2))
    settled = int(np.argmax(moved <= 1e-6))
    short = response.shortened(min(response.rounds, SHORT), frozen_at=settled)
    for forms in short.forms(positions):
        for form in forms.matrices:
            y = solve_dual(form, tolerance=2e-4).y
            yield np.asarray((np.abs(form).sum(axis=1) if y is None else y)[: frozen_at - 1])


def _proved_start(
    model: TargetModel, value: np.ndarray, profile: np.ndarray, lift: float
) -> np.ndarray | None:
    """The profile lifted until the recursion accepts it, or None.

    The rounds before the settled ones are walked backwards with their own gains.
    """
    for factor in (1.0, 4.0, 16.0, 64.0, 256.0):
        lifted = profile + factor * lift
        if walks_back(model, value, lifted):
            return lifted
    return None
