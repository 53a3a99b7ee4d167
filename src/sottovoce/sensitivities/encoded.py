# SPDX-License-Identifier: Apache-2.0
"""Δ² of gossip whose noise has another level than 1, or is correlated over the rounds, from the filter of plain gossip.

Noise of level ℓ at every node is noise of level 1 in other units, and an encoder C commutes with rounds that are all
alike. So with M the form of plain gossip, that of s_t = D W s_{t−1} + x_t + ℓ(C⁻¹ξ)_t is M' = CᵀMC/ℓ²:

    cᵀM'c = ‖F C c‖²/ℓ²,      ‖(C c)_t‖ ≤ w_t = Σ_{s≤t} |C_ts|   for streams with ‖c_t‖ ≤ 1.

M ⪯ I, so that ‖F‖ ≤ 1 and Δ² ≤ Σ w_t²/ℓ². Nothing of the filter depends on C or ℓ.

Soundness: `_Code`, `_Encoded`, `rescaled`. Speed: which targets are solved one by one.
Source: docs/protocols.md, How it is computed, step 5; docs/proofs/widening.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS, hidden_system, whitened_response
from sottovoce.protocols import float_above, float_below
from sottovoce.rounding import above, gamma, gamma_above
from sottovoce.sensitivities.capacity import room_for_forms
from sottovoce.sensitivities.ends import BULK_TOLERANCE
from sottovoce.sensitivities.many_targets.at_once import MOST_STATES, settled_bound
from sottovoce.sensitivities.many_targets.projection import projection_bound, projection_tables
from sottovoce.sensitivities.many_targets.streams import constant_stream
from sottovoce.sensitivities.many_targets.units import balanced
from sottovoce.sensitivities.one_form.patterns import earliest_pattern
from sottovoce.sensitivities.programs import encoder_matrix
from sottovoce.sensitivities.questions import FormQuestion, solve_question
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.sensitivities.rounding import root_less, summed, widened
from sottovoce.views import METHOD_NAMES, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from sottovoce.filtering import FilteredResponse, HiddenSystem
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Engine, Scenario
    from sottovoce.sensitivities.one_form.solution import FormSolution
    from sottovoce.views import View

__all__ = ["encoded_sensitivity", "rescaled"]

# Speed alone: so few targets are not bounded together; of more, so many that are heard directly are solved one by one.
FEW, SOLVED = 64, 16


def rescaled(found: Sensitivities, scenario: Scenario, level: Fraction) -> Sensitivities:
    """What was found for noise of level 1, for noise of this level at every node: M' = M/ℓ².

    Guarantee: ends hold if those of `found` do; the factor is rounded outwards, and so is each product.
    """
    share = 1 / (level * level)
    lower, upper = found.squared_lower * float_below(share), found.squared_upper * float_above(share)
    return replace(
        found,
        scenario=scenario,
        squared_lower=np.nextafter(lower, 0.0),
        squared_upper=np.where(found.squared_upper > 0, np.nextafter(upper, np.inf), 0.0),
    )


def encoded_sensitivity(
    scenario: Scenario,
    indices: np.ndarray,
    plain: Protocol,
    *,
    engine: Engine,
    tolerance: float,
    in_bulk: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivities | None:
    """Δ² for each target of gossip with an encoder, noise of level 1, from the filter of `plain`, its kernel.

    None where the plain filter is given more than the view says, sees nothing, or has too many rounds or states, and
    for patterns in bulk.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, rounding included.
    Source: the module.
    """
    if plain.rounds > EXPLICIT_ROUNDS or (in_bulk and scenario.participation.kind != "full"):
        return None
    asked = _Asked(
        weights=plain.schedule[0],
        damping=None if plain.damping is None else plain.damping.tobytes(),
        rounds=plain.rounds,
        view=scenario.one_view,
        engine=engine,
        coarse=in_bulk,
        plain=plain,
    )
    system, response = _filter_of(asked)
    if response is None or (in_bulk and response.size > MOST_STATES):
        return None
    positions, hops = np.searchsorted(system.unknown, indices), system.hops()
    question = FormQuestion(
        contribution=scenario.contribution,
        participation=scenario.participation,
        tolerance=max(tolerance, BULK_TOLERANCE) if in_bulk else tolerance,
    )
    encoded = _Encoded(response=response, code=_Code.of(scenario.protocol), question=question)
    count = len(indices)
    lower, upper = np.zeros(count), np.zeros(count)
    method = np.full(count, "unreached", dtype=METHOD_NAMES)
    reached = np.flatnonzero(hops[positions] < plain.rounds)
    alone = reached
    together = in_bulk and reached.size > FEW
    if together:
        lower[reached], upper[reached] = encoded.together(positions[reached])
        method[reached] = "projection"
        near = reached[hops[positions[reached]] == 0]
        alone = near[np.argsort(lower[near] - upper[near], kind="stable")[:SOLVED]]
    done, solved = count - len(alone), set[int]()
    for place, (low, high, name) in zip(alone, encoded.solved(positions[alone]), strict=True):
        if high < upper[place] or not together:
            upper[place], method[place] = high, name
        if low >= lower[place]:
            lower[place] = low
            solved.add(int(place))
        done += 1
        if progress is not None:
            progress(done, count)
    capped = upper > encoded.code.cap
    upper[capped], method[capped] = encoded.code.cap, "cap"

    def witness_of(place: int) -> np.ndarray:
        if place in solved:
            ((solution, *_),) = encoded.solutions(positions[[place]])
            return solution.witness
        return encoded.stream

    return Sensitivities(
        scenario=scenario,
        engine=response.engine,
        indices=indices,
        squared_lower=np.minimum(lower, upper),
        squared_upper=upper,
        method=method,
        witness_of=witness_of,
    )


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What the filter of plain gossip depends on: the weights and the view themselves, and D, which floats hold.

    `plain` is the protocol that all of it is read off.
    """

    weights: object
    damping: bytes | None
    rounds: int
    view: View
    engine: Engine
    coarse: bool
    plain: Protocol = field(compare=False)


@lru_cache(maxsize=1)
def _filter_of(asked: _Asked) -> tuple[HiddenSystem, FilteredResponse | None]:
    """The hidden system and its filter, made once for encoders that are looked at in turn; None where none serves."""
    system = hidden_system(asked.plain, observe(asked.plain, asked.view))
    if system.over_informed or system.rows.shape[0] == 0:
        return system, None
    return system, whitened_response(system, engine=asked.engine, coarse=asked.coarse)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Code:
    """C in floats, (T, T), and w, one number a round, from above; `cap` ≥ Σ w_t² ≥ ‖C c‖².

    Rationals are rounded once, a sum of T numbers ≥ 0 errs by γ_T of itself, and its raise rounds, too: `summed` of
    T + 4 covers w_t, and a square more each of their sum.
    """

    matrix: np.ndarray
    sizes: np.ndarray
    cap: float

    @classmethod
    def of(cls, protocol: Protocol) -> _Code:
        """The encoder of a protocol.

        Guarantee: `sizes` and `cap` are upper bounds: sums of sizes that were rounded once, raised by `summed` of
        what is summed.
        """
        matrix = encoder_matrix(protocol)
        coded = np.eye(protocol.rounds) if matrix is None else matrix
        raised = summed(protocol.rounds + 4)
        sizes = np.abs(coded).sum(axis=1) * raised
        return cls(matrix=coded, sizes=sizes, cap=float((sizes**2).sum() * raised))

    def form(self, form: np.ndarray) -> tuple[np.ndarray, float]:
        """CᵀMC, and what Σ_st |error| of it is at most: γ_{2T+8} of wᵀ|M|w, C as rounded included.

        Guarantee: the bound holds for the exact C and the form as stored.
        Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5.
        """
        coded = self.matrix.T @ form @ self.matrix
        off = gamma_above(2 * len(form) + 8) * float(self.sizes @ np.abs(form) @ self.sizes)
        return (coded + coded.T) / 2, off

    def sent(self, stream: np.ndarray) -> tuple[np.ndarray, float]:
        """C c, and how far it is off in norm at most: γ_{T+6} of ‖|C||c|‖, C as rounded included.

        Guarantee: the bound holds for the exact C and the stream as stored.
        Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5.
        """
        sizes = np.linalg.norm(np.abs(self.matrix) @ np.abs(stream))
        return self.matrix @ stream, gamma_above(len(stream) + 6) * float(sizes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Encoded:
    """The response of plain gossip, a code, and what is asked."""

    response: FilteredResponse
    code: _Code
    question: FormQuestion

    @property
    def stream(self) -> np.ndarray:
        """A constant stream in the earliest pattern."""
        pattern = earliest_pattern(self.question.participation, self.response.rounds)
        return np.asarray(pattern.astype(np.float64))

    def solutions(self, positions: np.ndarray) -> Iterator[tuple[FormSolution, float, float]]:
        """What is found of the form CᵀMC of each target, what it is off by, and the distortion of its noise.

        For streams with ‖c_t‖ ≤ 1 the form M is off by at most `rounding`, hence by w²·`rounding` for C c, w the
        largest of the w_t: C c/w is such a stream.

        Guarantee: |Δ² of CᵀMC as solved − the true one| is at most the second number for M as the filter stores it;
        the third is the distortion of the noise, which `widened` turns into ends.
        Source: docs/proofs/widening.md.
        """
        if not positions.size:
            return
        most = float(self.code.sizes.max() ** 2)
        for forms in self.response.forms(positions, room_for_forms(self.response)):
            for form, rounding in zip(forms.matrices, forms.rounding, strict=True):
                coded, off = self.code.form(form)
                yield (
                    solve_question(coded, self.question),
                    off + above(most) * float(rounding),
                    forms.distortion,
                )

    def solved(self, positions: np.ndarray) -> Iterator[tuple[float, float, str]]:
        """Ends of Δ² of each target, and the name of the bound.

        Guarantee: that of `widened`, as ‖C c‖² ≤ `cap`.
        """
        for solution, off, distortion in self.solutions(positions):
            lower, upper = widened(
                np.array(solution.attained - off),
                np.array(solution.bound + off),
                distortion=distortion,
                missing=self.response.gains.missing,
                rounds=self.code.cap,
            )
            yield float(lower), float(upper), solution.method

    def together(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends of Δ² for many targets: what a constant stream attains; `projection` for norms w_t, and w²·`lags`.

        Guarantee: lower ≤ Δ² ≤ upper. What C c is off by shows no larger, as ‖F‖ ≤ 1; states are followed over all
        rounds, which `recursion_error` counts.
        """
        response, code = self.response, self.code
        own, units = balanced(response)
        sent, slip = code.sent(self.stream)
        followed = constant_stream(own, sent)
        sources = response.columns(positions) / units[:, None]
        bound = projection_bound(projection_tables(own), sources, code.sizes)
        lags = settled_bound(own)
        if lags is not None:
            bound = np.fmin(bound, float(code.sizes.max() ** 2) * (1 + gamma(4)) * lags(sources))
        lower, upper = widened(
            followed.value(sources),
            bound,
            distortion=response.distortion + response.recursion_error(response.rounds),
            missing=response.gains.missing,
            rounds=code.cap,
        )
        return root_less(lower, slip) ** 2 * (1 - gamma(4)), upper
