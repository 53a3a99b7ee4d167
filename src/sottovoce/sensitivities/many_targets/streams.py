# SPDX-License-Identifier: Apache-2.0
"""Lower ends of Δ² for many targets at once: what streams that turn by one angle each round attain, or never change.

Rounds are followed one by one while the gains change; from then on what is shown is known from the settled state that
such a stream keeps up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.filtering.rounding import GAMMA, ROOM

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["ConstantStream", "constant_stream", "turning_value"]

# The states that are followed through all rounds should stay in the processor's cache.
FOLLOWED_BYTES = 2**19


def turning_value(response: FilteredResponse, sources: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """‖Fc‖², from below, for unit vectors c_t that turn by each target's frequency each round.

    Rounds are followed one by one while the gains change. From then on the state differs from the steady one, whose
    output has norm √(rounds·φ), by a deviation that shows at most its norm in the Gramian; round T is left out.

    Guarantee: a lower bound of Δ² for vectors (for signs too at the frequencies 0 and π), up to a relative 1e-9 that
    is taken off for rounding.
    """
    followed = _followed(response)
    remaining = response.rounds - 1 - followed
    turn = np.exp(1j * frequencies)
    values, states = _follow(response, sources, turn, followed)
    if remaining > 0:
        closed = response.closed_loop(followed)
        steady = np.empty_like(states)
        for j, back in enumerate(np.conj(turn)):
            steady[:, j] = np.linalg.solve(np.eye(closed.size) - back * closed.loop, sources[:, j])
        shown = np.sqrt(remaining) * np.linalg.norm(closed.whitener @ steady, axis=0)
        deviation = states + (sources - steady) * turn**followed
        values += np.maximum(shown - _length(deviation, closed.gramian(remaining)), 0) ** 2
    return values * (1 - 1e-9)


def _follow(
    response: FilteredResponse, sources: np.ndarray, turn: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """What streams that turn show in the first `rounds` rounds, squared, and the states that they leave."""
    shown, states = np.zeros(sources.shape[1]), np.zeros(sources.shape, dtype=complex)
    batch = max(1, FOLLOWED_BYTES // (16 * response.size))
    for begin in range(0, sources.shape[1], batch):
        part = slice(begin, begin + batch)
        inputs, state = np.ascontiguousarray(sources[:, part]), np.ascontiguousarray(states[:, part])
        phase = np.ones_like(turn[part])
        for t in range(rounds):
            state = state + inputs * phase
            seen = response.whitener(t) @ state
            shown[part] += (seen.real**2 + seen.imag**2).sum(axis=0)
            phase = phase * turn[part]
            if t < response.rounds - 1:
                # Real and imaginary parts side by side: a real matrix is not made complex for them.
                state = response.after(state.view(np.float64), t).view(complex)
        states[:, part] = state
    return shown, states


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantStream:
    """What a contribution that never changes gives away, as forms that serve every target.

    bᵀ`form`b − `margin`·‖b‖² while the gains change, then √`remaining`·‖`shown`·b‖ but for what is left of the
    `deviation`.
    """

    form: np.ndarray
    margin: float
    remaining: int
    shown: np.ndarray
    deviation: np.ndarray
    gram: np.ndarray

    def value(self, sources: np.ndarray) -> np.ndarray:
        """‖F1‖², from below, for each column of `sources`.

        Guarantee: a lower bound of Δ², for signs too, up to a relative 1e-9 that is taken off for rounding.
        """
        slack = self.margin * (sources**2).sum(axis=0)
        total = np.maximum(np.einsum("rj,rj->j", sources, self.form @ sources) - slack, 0)
        if self.remaining > 0:
            later = np.sqrt(self.remaining) * np.linalg.norm(self.shown @ sources, axis=0)
            total += np.maximum(later - _length(self.deviation @ sources, self.gram), 0) ** 2
        return np.asarray(total * (1 - 1e-9))


def constant_stream(response: FilteredResponse) -> ConstantStream:
    """The sums of `turning_value` at the frequency 0, for the r basis inputs at once.

    Guarantee: `form` is off by at most `margin` for what is shown as computed. With V_t of m rows shown in round t, the
    sum G of V_tᵀV_t over τ rounds errs by at most γ_{m+τ} of Σ |V_t|ᵀ|V_t|, whose norm is at most Σ ‖V_t‖² = tr G;
    products with an input on both sides add γ_{2r}‖G‖.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    size = response.transition.shape[0]
    identity = np.eye(size)
    state, form = np.zeros((size, size)), np.zeros((size, size))
    followed = _followed(response)
    for t in range(followed):
        state.flat[:: size + 1] += 1.0
        shown = response.whitener(t) @ state
        form += shown.T @ shown
        if t < response.rounds - 1:
            state = response.after(state, t)
    margin = ROOM * GAMMA * (len(response.rows) + followed + 2 * size) * float(np.trace(form))
    remaining = response.rounds - 1 - followed
    if remaining <= 0:
        nothing = np.zeros((0, size))
        return ConstantStream(
            form=form, margin=margin, remaining=0, shown=nothing, deviation=nothing, gram=np.eye(0)
        )
    closed = response.closed_loop(followed)
    steady = np.linalg.solve(identity - closed.loop, identity)
    return ConstantStream(
        form=form,
        margin=margin,
        remaining=remaining,
        shown=closed.whitener @ steady,
        deviation=state + identity - steady,
        gram=closed.gramian(remaining),
    )


def _followed(response: FilteredResponse) -> int:
    """How many rounds have gains of their own, or all while they are few."""
    if response.rounds <= EXPLICIT_ROUNDS or not response.gains.frozen:
        return response.rounds
    return min(response.rounds, len(response.gains.gain) - 1)


def _length(states: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """√(z*Gz) for each column z."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("rj,rj->j", states.conj(), gram @ states).real, 0)))
