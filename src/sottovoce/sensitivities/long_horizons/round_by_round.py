# SPDX-License-Identifier: Apache-2.0
"""Δ² over a horizon too long for a T × T matrix, round by round: for filters that take thousands to settle.

M C = Fᵀ(F C) takes one run of the filter forwards and one of its adjoint backwards, so the fixed point
behind the dual bound can be followed without M, and the bounded-real recursion proves its y. Both take time
∝ T, as the filter itself did.

The iteration is that of `one_form.dual`: rows of M C scaled to norm 1, y_t = ‖(MC)_t‖. Soundness: `is_proved` for
y and `_Run.attained` for the stream; how C is found matters for neither.
Source: docs/mathematics.md, section 7; docs/proofs/bounded-real.md, docs/proofs/streams.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.rounding import gamma
from sottovoce.sensitivities.long_horizons.bounded_real import is_proved
from sottovoce.sensitivities.long_horizons.model import dense_transition, peak_of, whole_model
from sottovoce.sensitivities.one_form.witnesses import alternating_signs, constant_signs, rounded_signs
from sottovoce.sensitivities.rounding import followed_error, norm, squared

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["MOST_FOLLOWED", "FollowedSolution", "solve_followed"]

# Speed alone: rounds that are followed one by one, and rounds in all repetitions of the fixed point together.
MOST_FOLLOWED, REPEATED = 100_000, 400_000
MOST_REPETITIONS = 120
# Speed alone: how far above the attained value Σ y_t may end, relatively: the least that is proved is taken.
LIFTS = (2e-4, 4e-4, 8e-4, 1.6e-3, 3e-3, 6e-3, 0.012, 0.025, 0.05, 0.1, 0.3, 1.0)
# Speed alone: how much of the other candidates is mixed into the best one, in dimensions of their own.
ASIDE = 0.15


@dataclass(frozen=True, kw_only=True, eq=False)
class FollowedSolution:
    """attained ≤ Δ² ≤ Σ `y` for the model as stored, over its T rounds; `y` is None where nothing was proved.

    The lower end belongs to `stream`, over the rounds that were followed, and 0 after them.
    """

    attained: float
    stream: np.ndarray
    y: np.ndarray | None


def solve_followed(
    response: FilteredResponse, position: int, *, contribution: Contribution = "vector"
) -> FollowedSolution:
    """Ends of Δ² for the target at `position`, whatever the gains do.

    Of more than `MOST_FOLLOWED` rounds the last so many are followed. An observer that is told every message of the
    rounds before them knows each contribution there up to its own noise, and is then as far as one who begins anew:

        M_T ⪯ diag(1, …, 1, M_S),   so   Δ²(S) ≤ Δ²(T) ≤ Δ²(S) + T − S.

    Guarantee: attained ≤ Δ² ≤ Σ y_t for vectors of every dimension, for the model as stored; the recursion's
    rounding is covered by inflating V, that of the stream by `followed_error`.
    Source: docs/proofs/bounded-real.md, docs/proofs/streams.md; docs/mathematics.md, section 7 (from T to T + 1);
    generalised power method, Journée et al., JMLR 11 (2010).
    """
    followed = min(response.rounds, MOST_FOLLOWED)
    short = response if followed == response.rounds else response.shortened(followed)
    run, model = _Run.of(short, position), whole_model(short, position)
    streams, product, attained = _fixed_point(run, peak_of(model)[0])
    level = np.linalg.norm(product, axis=1)
    y = None
    for lift in LIFTS:
        lifted = level + max(attained * (1 + lift) - float(level.sum()), lift * attained) / followed
        if is_proved(model, lifted):
            y = np.concatenate([np.ones(response.rounds - followed), lifted])
            break
    if contribution == "scalar":
        streams = _best_signs(run, streams)
    return FollowedSolution(attained=run.attained(model, streams), stream=streams, y=y)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Run:
    """The response of one target as matrices that a loop over rounds can use: A, C and b, dense."""

    transition: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    response: FilteredResponse

    @classmethod
    def of(cls, response: FilteredResponse, position: int) -> _Run:
        """The run of the target at `position`."""
        return cls(
            transition=dense_transition(response),
            rows=response.rows,
            source=response.source(position),
            response=response,
        )

    def shown(self, streams: np.ndarray, sizes: list[float] | None = None) -> list[np.ndarray]:
        """F C, round by round: z_t = A x_{t−1} + b c_t, L_t⁻¹C z_t, x_t = Φ_t z_t; ‖z_t‖ is appended to `sizes`.

        Guarantee: off by `followed_error` in norm at most, Σ ‖z_t‖ being the sum of `sizes`.
        """
        gains, found = self.response.gains, []
        state = np.zeros((len(self.source), streams.shape[1]))
        inputs = self.source[:, None]
        for t, contribution in enumerate(streams):
            # z_t = A x_{t−1} + b c_t;  x_t = z_t − K_t C z_t below
            state = self.transition @ state + inputs * contribution
            found.append(self.response.whitener(t) @ state)
            if sizes is not None:
                sizes.append(norm(state))
            state = state - gains.gain[gains.at(t)] @ (self.rows @ state)
        return found

    def product(self, streams: np.ndarray) -> np.ndarray:
        """M C = Fᵀ(F C): p_t = (L_t⁻¹C)ᵀ(F C)_t + (A Φ_t)ᵀ p_{t+1}, and (M C)_t = bᵀ p_t.

        As computed, for the search alone: no end rests on it.
        """
        gains, found = self.response.gains, np.empty(streams.shape)
        shown = self.shown(streams)
        state, back = np.zeros((len(self.source), streams.shape[1])), self.transition.T
        for t in range(len(streams) - 1, -1, -1):
            if t < len(streams) - 1:
                # p_t = (L_t⁻¹C)ᵀ(F C)_t + Φ_tᵀAᵀ p_{t+1}
                state = back @ state
                state = state - self.rows.T @ (gains.gain[gains.at(t)].T @ state)
            state = state + self.response.whitener(t).T @ shown[t]
            found[t] = self.source @ state
        return found

    def attained(self, model: TargetModel, streams: np.ndarray) -> float:
        """‖F C‖², from below, for rows of norm 1 as computed.

        Guarantee: a lower bound of Δ² for the model as stored. Rounding moves the norm of what is shown
        by no more than `followed_error`; a row of C may be longer than 1 by γ_{d+4}, and sums of
        squares err by γ_k of themselves.
        Source: docs/proofs/streams.md.
        """
        columns = streams.reshape(len(streams), -1)
        sizes: list[float] = []
        total = sum(squared(part) for part in self.shown(columns, sizes))
        shown = np.sqrt(total) * (1 - gamma(2 * (len(streams) + 64)))
        low = shown - followed_error(model, len(streams), sum(sizes))
        return float(max(0.0, low) ** 2 * (1 - gamma(4 * (columns.shape[1] + 8))))

    def values(self, streams: np.ndarray) -> np.ndarray:
        """‖F c‖² for each column c of `streams`, as computed, to choose among them."""
        return np.asarray(np.sum([(part**2).sum(axis=0) for part in self.shown(streams)], axis=0))


def _fixed_point(run: _Run, frequency: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Vectors C with rows of norm 1, M C and Σ ⟨c_t, (MC)_t⟩, where repeating M has led to from a plain stream.

    Constant, turning and alternating streams are tried; if the best is no fixed point, all four columns are followed,
    the others with a small weight, so that directions they have in M are found.

    Guarantee: rows of norm 1 but for rounding, so that the number is attained by an allowed stream, up to that
    rounding.
    """
    rounds = run.response.rounds
    angles = frequency * np.arange(rounds)
    plain = np.column_stack(
        [constant_signs(rounds), np.cos(angles), np.sin(angles), alternating_signs(rounds)]
    )
    constant, cosine, sine, alternating = run.values(plain)
    kinds = {(0,): constant, (1, 2): cosine + sine, (3,): alternating}
    best = max(kinds, key=lambda kind: kinds[kind])
    streams = plain[:, best]
    product = run.product(streams)
    if _is_close(streams, product):
        return streams, product, float(np.sum(streams * product))
    streams = _unit(plain * np.where(np.isin(np.arange(4), best), 1.0, ASIDE))
    previous, momentum = streams, 1.0
    # C ← rows of M C⁺ at norm 1, C⁺ ahead of C by momentum that starts anew when a step
    # turns back, as in `solve_dual`
    for _ in range(int(np.clip(REPEATED // rounds, 4, MOST_REPETITIONS))):
        ahead = streams + (momentum - 1) / (momentum + 2) * (streams - previous)
        following = _unit(run.product(ahead))
        backwards = np.sum((following - streams) * (streams - previous)) < 0
        momentum = 1.0 if backwards else momentum + 1
        moved = float(np.abs(following - streams).max())
        previous, streams = streams, following
        if moved < 1e-4:
            break
    product = run.product(streams)
    return streams, product, float(np.sum(streams * product))


def _is_close(streams: np.ndarray, product: np.ndarray) -> bool:
    """Whether Σ ‖(MC)_t‖ is next to Σ ⟨c_t, (MC)_t⟩, as it is at a fixed point."""
    return float(np.linalg.norm(product, axis=1).sum()) <= float(np.sum(streams * product)) * (
        1 + LIFTS[0] / 4
    )


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to norm 1; a row of 0 becomes the first unit vector."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    first = np.eye(1, rows.shape[1])
    return np.asarray(np.where(norms > 0, rows / np.where(norms > 0, norms, 1.0), first))


def _best_signs(run: _Run, streams: np.ndarray) -> np.ndarray:
    """The best of constant and alternating signs and of those that the vectors round to."""
    rounds = len(streams)
    candidates = np.vstack([constant_signs(rounds), alternating_signs(rounds), rounded_signs(streams)])
    values = run.values(candidates.T)
    return np.asarray(candidates[int(np.argmax(values))])
