# SPDX-License-Identifier: Apache-2.0
"""Lower ends of Δ² for many targets at once: what streams that turn evenly, or never change, attain.

Rounds are followed one by one while the gains change; from then on what is shown is known from the settled state
that such a stream keeps up.

    followed:  z_t = A x_{t−1} + b e^{iωt}, shown Σ ‖D_t z_t‖²
    settled:   s = (I − e^{−iω}B)⁻¹b, shown √R‖Ds‖ but for what deviates, in R rounds,

where a deviation e shows √(e*Ge) at most, G the Gramian of the settled loop over the R rounds that are left.
Source: docs/proofs/streams.md; docs/mathematics.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS, square
from sottovoce.rounding import above, gamma, gamma_above
from sottovoce.sensitivities.rounding import length_above, norm, settled_residual

if TYPE_CHECKING:
    from sottovoce.filtering import ClosedLoop, FilteredResponse

__all__ = ["ConstantStream", "constant_stream", "turning_value"]

# Speed alone: the states that are followed through all rounds should stay in the processor's cache, and so should those
# of so many constant streams.
FOLLOWED_BYTES, AT_ONCE = 2**19, 512


def turning_value(response: FilteredResponse, sources: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """‖Fc‖², from below, for unit vectors c_t that turn by each target's frequency each round.

    Rounds are followed one by one while the gains change. From then on the state differs from the steady one, whose
    output has norm √(rounds·φ), by a deviation that shows at most its norm in the Gramian; round T is left out.

    Guarantee: a lower bound of Δ² for vectors (for signs too at the frequencies 0 and π), up to what
    `FilteredResponse.recursion_error` says of the rounds followed. A settled state that is off by ρ a round counts
    for ρ in each round after it; phases are products of t factors, off by γ_{4t}.
    Source: docs/proofs/streams.md.
    """
    followed = _followed(response)
    remaining = response.rounds - 1 - followed
    turn = np.exp(1j * frequencies)
    values, states = _follow(response, sources, turn, followed)
    if remaining > 0:
        closed = response.closed_loop(followed)
        steady = np.empty_like(states)
        for back in np.unique(np.conj(turn)):
            alike = np.conj(turn) == back
            steady[:, alike] = np.linalg.solve(np.eye(closed.size) - back * closed.loop, sources[:, alike])
        deviation = states + (sources - steady) * turn**followed
        gram = closed.gramian(remaining)
        values += _later(
            closed, gram, steady, deviation, (sources, np.conj(turn)), response.rounds, remaining
        )
    return np.asarray(values * (1 - gamma(16 * (response.rounds + response.size + 16))))


def _later(
    closed: ClosedLoop,
    gram: np.ndarray,
    steady: np.ndarray,
    deviation: np.ndarray,
    turning: tuple[np.ndarray, np.ndarray | complex],
    rounds: float,
    remaining: int,
) -> np.ndarray:
    """What the `remaining` rounds show of settled states `steady` under `turning` inputs, squared, from below.

    `gram` is the loop's Gramian over these rounds.

    Guarantee: √remaining·‖Ds‖ less what the deviation, and in each round the residual of s, show at most. Phases of
    up to so many `rounds` are off by γ_{4·rounds}, and so are states that are multiplied by them.
    Source: docs/proofs/streams.md.
    """
    sources, back = turning
    sizes, lengths = np.linalg.norm(steady, axis=0), np.linalg.norm(sources, axis=0)
    products = gamma(2 * closed.size + 4) * norm(closed.whitener) * sizes
    shown = np.sqrt(remaining) * (np.linalg.norm(closed.whitener @ steady, axis=0) - products)
    unsure = remaining * settled_residual(closed, steady, back, sources)
    unsure += gamma(8) * (rounds * (sizes + lengths) + np.linalg.norm(deviation, axis=0))
    lost = length_above(deviation, gram) + above(np.sqrt(norm(gram))) * unsure
    return np.asarray(np.maximum(shown - lost, 0) ** 2)


def _follow(
    response: FilteredResponse, sources: np.ndarray, turn: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """What streams that turn show in the first `rounds` rounds, squared, and the states that they leave.

        z_t = AΦ_{t−1} z_{t−1} + b e^{iωt},   shown = Σ_t ‖D_t z_t‖²

    for each target with its own ω, in complex numbers: real part and imaginary part are the two columns of a stream
    of vectors.

    Guarantee: plain floats; callers take their rounding off what is attained.
    """
    shown, states = np.zeros(sources.shape[1]), np.zeros(sources.shape, dtype=complex)
    batch = max(1, FOLLOWED_BYTES // (16 * response.size))
    for begin in range(0, sources.shape[1], batch):
        part = slice(begin, begin + batch)
        inputs, state = sources[:, part].astype(complex), np.ascontiguousarray(states[:, part])
        phase, turned = np.ones_like(turn[part]), np.empty_like(inputs)
        for t in range(rounds):
            # z_t = (what AΦ_{t−1} left of z_{t−1}) + b e^{iωt};  shown += ‖D_t z_t‖²
            state += np.multiply(inputs, phase, out=turned)
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

    bᵀ`form`b − `margin`·‖b‖² while the gains change, then what the `remaining` of all `rounds` show of settled
    states `steady`·b but for what is left of the `deviation`; `gram` is the loop's Gramian over these rounds.
    """

    form: np.ndarray
    margin: float
    rounds: int
    remaining: int
    closed: ClosedLoop
    gram: np.ndarray
    steady: np.ndarray
    deviation: np.ndarray

    def value(self, sources: np.ndarray) -> np.ndarray:
        """‖F1‖², from below, for each column of `sources`.

        Guarantee: a lower bound of Δ², for signs too, up to what `FilteredResponse.recursion_error`
        says of the rounds followed.
        Source: docs/proofs/streams.md.
        """
        parts = np.arange(AT_ONCE, sources.shape[1], AT_ONCE)
        return np.concatenate([self._value(part.copy()) for part in np.split(sources, parts, axis=1)])

    def _value(self, sources: np.ndarray) -> np.ndarray:
        """The same for a few columns.

            Σ over early rounds of bᵀ(form)b − margin·‖b‖²,   and for later rounds what a settled state goes on to show

        Guarantee: a lower bound: what rounding may add is taken off, and a share of the whole for the sums.
        """
        slack = self.margin * (sources**2).sum(axis=0)
        total = np.maximum(np.einsum("rj,rj->j", sources, self.form @ sources) - slack, 0)
        if self.remaining > 0:
            deviation = self.deviation @ sources
            # The product errs by γ_r of the norms behind it, as much as so many more rounds of phases would.
            rounds = self.rounds + len(sources) * (1 + norm(self.deviation))
            steady = self.steady @ sources
            total += _later(self.closed, self.gram, steady, deviation, (sources, 1.0), rounds, self.remaining)
        return np.asarray(total * (1 - gamma(16 * (len(sources) + 16))))


def constant_stream(response: FilteredResponse, sizes: np.ndarray | None = None) -> ConstantStream:
    """The sums of `turning_value` at the frequency 0, for the r basis inputs at once.

    With `sizes` the stream is that of these numbers, one a round, over rounds that are all followed.

    Guarantee: `form` is off by at most `margin` for what is shown as computed. With V_t of m rows shown in round t,
    the sum G of V_tᵀV_t over τ rounds errs by at most γ_{m+τ} of Σ |V_t|ᵀ|V_t|, whose norm is at most Σ ‖V_t‖² = tr
    G; products with an input on both sides add γ_{2r}‖G‖.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    size = response.transition.shape[0]
    identity = np.eye(size)
    state, form = np.zeros((size, size)), np.zeros((size, size))
    followed = _followed(response)
    for t in range(followed):
        # Z_t = AΦ_{t−1}Z_{t−1} + I, the state that a constant contribution has made of each basis input
        state.flat[:: size + 1] += 1.0 if sizes is None else sizes[t]
        shown = response.whitener(t) @ state
        form += square(shown)
        if t < response.rounds - 1:
            state = response.after(state, t)
    margin = gamma_above(len(response.rows) + followed + 2 * size) * float(np.trace(form))
    remaining = response.rounds - 1 - followed
    closed = response.closed_loop(followed)
    steady = np.linalg.solve(identity - closed.loop, identity) if remaining > 0 else np.zeros((size, size))
    return ConstantStream(
        form=form,
        margin=margin,
        rounds=response.rounds,
        remaining=remaining,
        closed=closed,
        gram=closed.gramian(remaining) if remaining > 0 else np.zeros((size, size)),
        steady=steady,
        deviation=state + identity - steady,
    )


def _followed(response: FilteredResponse) -> int:
    """How many rounds have gains of their own, or all while they are few."""
    if response.rounds <= EXPLICIT_ROUNDS or not response.gains.frozen:
        return response.rounds
    return min(response.rounds, len(response.gains.gain) - 1)
