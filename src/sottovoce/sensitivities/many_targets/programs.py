# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for all targets of a view of a program at once, where solving for each would take too long.

On a Krylov space a program is filtered as plain gossip is, but for the covariance of what is injected. So the bounds
for all targets of plain gossip serve, wherever rounds are alike: rows that are only learnt a round or two later are
given at once in the last rounds (never lowers Δ), and what a stream attains is counted without those rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import FilteredResponse
from sottovoce.filtering.kalman import Gains
from sottovoce.sensitivities.many_targets.at_once import EndsAtOnce, ends_at_once
from sottovoce.sensitivities.many_targets.streams import constant_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering.program_forms import ProgramResponse
    from sottovoce.protocols import Contribution

__all__ = ["BlockEnds", "ProgramBulk", "block_ends", "program_bulk"]

# Rounds are taken together in at most so many blocks, and in fewer where forms are large.
MOST_BLOCKS, MOST_WORK = 32, 2e11
# Forms that are followed through the rounds are known up to this relative error for each of their terms and rounds.
ROUNDING = 64 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramBulk:
    """Certified ends for some targets, the names of the bounds, and the frequencies of streams behind lower ends."""

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class _OnKrylovSpace(FilteredResponse):
    """The filter of a program; what rounding does to it is known from the accuracy of the program's response."""

    def recursion_error(self, rounds: int) -> float:
        """Nothing more."""
        del rounds
        return 0.0


def program_bulk(
    response: ProgramResponse,
    targets: np.ndarray,
    direct: np.ndarray,
    *,
    contribution: Contribution,
    progress: Callable[[int, int], None] | None,
) -> ProgramBulk | None:
    """Ends for the targets (node indices), those whose message of a round is seen in that round marked as `direct`.

    None where rounds are not alike. The exact form of the reduced system lies within η of that of the filter as it was
    run, and so does the true one, within η and what was cut; both together are counted twice.

    Guarantee: lower ≤ Δ² ≤ upper, up to the allowances of `ends_at_once`.
    """
    whole, tail = _filtered(response)
    if whole is None:
        return None
    rounds = whole.rounds
    found = ends_at_once(whole, targets, direct, contribution=contribution, progress=progress)
    if tail:
        found = _without_the_last(whole, found, targets, rounds - tail)
    accuracy = response.accuracy
    return ProgramBulk(
        lower=_from_below(found.attained, accuracy, float(np.sqrt(rounds))),
        upper=_from_above(found.bound, accuracy, float(np.sqrt(rounds))),
        method=found.method,
        frequency=found.frequency,
    )


def _from_above(squared: np.ndarray, accuracy: tuple[float, float, float], norm: float) -> np.ndarray:
    """What the square of a response to streams of this norm may truly be at most; rounding is counted twice."""
    unwhite, at_once, _ = accuracy
    if not unwhite < 0.25:
        return np.full_like(squared, np.inf)
    bounded = np.where(np.isfinite(squared), squared, np.inf)
    return np.asarray((np.sqrt(bounded) + 2 * at_once * norm) ** 2 / (1 - 2 * unwhite) * (1 + 1e-9))


def _from_below(squared: np.ndarray, accuracy: tuple[float, float, float], norm: float) -> np.ndarray:
    """What the square of the response to a stream of this norm truly is at least; rounding is counted twice."""
    unwhite, at_once, _ = accuracy
    attained = np.where(np.isfinite(squared), np.maximum(squared, 0), 0.0)
    low = np.maximum(np.sqrt(attained) - 2 * at_once * norm, 0) ** 2
    return np.asarray(low / (1 + 2 * unwhite) * (1 - 1e-9))


def _filtered(response: ProgramResponse) -> tuple[_OnKrylovSpace | None, int]:
    """The filter in the form of plain gossip, and in how many of the last rounds less is seen than it says."""
    steps, rounds = response.steps, len(response.steps)
    stage = steps[0].stage
    tail = next((k for k in range(rounds) if steps[rounds - 1 - k].stage is stage), rounds)
    alike = all(step.stage is stage for step in steps[: rounds - tail])
    if response.protocol.varies or stage.given is None or not alike or rounds - tail < 2:
        return None, 0
    settled = next((t for t in range(1, rounds) if steps[t - 1].filtered is steps[t].filtered), rounds - 1)
    kept = [step.filtered for step in steps[: min(rounds - tail, settled)]]
    rows = np.asarray(stage.rows)
    whiteners = np.array([each.whitener @ rows for each in kept])
    gains = Gains(
        gain=np.array([each.update for each in kept]),
        whitener=whiteners,
        last_whitener=whiteners[-1] if tail else steps[-1].filtered.whitener @ rows,
        covariance_norm=1.0,
        frozen=settled < rounds - 1 or tail > 0,
        missing=0.0,
        distortion=0.0,
    )
    return _OnKrylovSpace(
        transition=np.asarray(stage.transition),
        rows=rows,
        inputs=stage.given,
        gains=gains,
        rounds=rounds,
        distortion=0.0,
        engine="reduced",
    ), tail


def _without_the_last(
    whole: _OnKrylovSpace, found: EndsAtOnce, targets: np.ndarray, rounds: int
) -> EndsAtOnce:
    """The ends with what a constant stream attains in the first `rounds` rounds."""
    steady = constant_stream(whole.shortened(rounds))
    attained = steady.value(whole.columns(targets))
    return replace(found, attained=attained, frequency=np.zeros(len(targets)))


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockEnds:
    """Ends of Δ² for some targets, and an upper end for contributions of bounded energy, whatever the rounds are."""

    lower: np.ndarray
    upper: np.ndarray
    energy: np.ndarray


def block_ends(
    response: ProgramResponse, targets: np.ndarray, weights: np.ndarray, stream: np.ndarray
) -> BlockEnds:
    """Ends from the energies of blocks of F, for rounds that may differ, on a Krylov space.

    A stream whose norms are at most `weights` shows in the rounds of block τ at most

        Σ_σ w_σ √E_τσ,      E_τσ = Σ_{t ∈ τ, s ∈ σ} ‖F_ts‖² = Σ_s b_sᵀ G_τs b_s,      w_σ² = Σ_{s ∈ σ} weights_s²,

    by Cauchy and Schwarz, and Δ² is at most the sum of the squares. Of energy 1 it shows at most the norm of the matrix
    of the √E_τσ. G_τs = [s ∈ τ](X_s C)ᵀX_s C + Φ_sᵀ G_τ,s+1 Φ_s is followed backwards. The lower end is what `stream`
    attains.

    Guarantee: bounds of the true numbers, with the accuracy of the response and `ROUNDING` allowed for in forms.
    """
    steps, rounds = response.steps, len(response.steps)
    size = steps[0].stage.size
    affordable = int(MOST_WORK / (4 * rounds * size**3))
    edges = np.linspace(0, rounds, max(1, min(MOST_BLOCKS, rounds, affordable)) + 1).round().astype(int)
    blocks = len(edges) - 1
    shown = np.zeros((blocks, len(targets)))
    squares, columns = np.zeros((blocks, len(targets))), np.zeros((blocks, len(targets)))
    grams = np.zeros((0, size, size))
    for block in range(blocks - 1, -1, -1):
        begin, end = edges[block], edges[block + 1]
        grams = np.concatenate([np.zeros((1, size, size)), grams])
        sums: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for s in range(end - 1, begin - 1, -1):
            whitener, loop = _round(response, s)
            grams = loop.T @ grams @ loop
            grams[0] += whitener.T @ whitener
            given = _inputs(response, s)
            total, _ = sums.get(id(given), (np.zeros_like(grams), given))
            sums[id(given)] = total + grams, given
        energies = np.zeros((blocks - block, len(targets)))
        for total, given in sums.values():
            sources = given[:, targets]
            energies += np.array([_form(matrix, sources, rounds) for matrix in total])
        roots = np.sqrt(energies)
        shown[block:] += np.sqrt((weights[begin:end] ** 2).sum()) * roots
        squares[block:] += roots
        columns[block] = roots.sum(axis=0)
    norm = np.sqrt(squares.max(axis=0) * columns.max(axis=0))
    attained = _attained(response, targets, stream) if affordable >= 1 else np.zeros(len(targets))
    accuracy = response.accuracy
    return BlockEnds(
        lower=_from_below(attained, accuracy, float(np.linalg.norm(stream))),
        upper=_from_above((shown**2).sum(axis=0), accuracy, float(np.linalg.norm(weights))),
        energy=_from_above(norm**2, accuracy, 1.0),
    )


def _attained(response: ProgramResponse, targets: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """‖F c‖² of one stream of numbers for all targets, from below: states and rows are linear in what is put in."""
    kinds = list({id(step.stage.given): step.stage.given for step in response.steps}.values())
    place = {id(given): k for k, given in enumerate(kinds)}
    size = response.steps[0].stage.size
    states = np.zeros((size, len(kinds) * size))
    form = np.zeros((len(kinds) * size, len(kinds) * size))
    for s, step in enumerate(response.steps):
        whitener, loop = _round(response, s)
        own = place[id(step.stage.given)] * size
        states[np.arange(size), own + np.arange(size)] += stream[s]
        seen = whitener @ states
        form += seen.T @ seen
        states = loop @ states
    sources = np.vstack([_inputs(response, _first_of(response, given))[:, targets] for given in kinds])
    return _form(form, sources, -len(response.steps))


def _first_of(response: ProgramResponse, given: np.ndarray | None) -> int:
    """A round into which contributions are put in this way."""
    return next(t for t, step in enumerate(response.steps) if step.stage.given is given)


def _round(response: ProgramResponse, round_index: int) -> tuple[np.ndarray, np.ndarray]:
    """X C and Φ = A − K C of a round, dense."""
    step = response.steps[round_index]
    rows = np.asarray(step.stage.rows)
    loop = np.asarray(step.stage.transition) - step.filtered.gain @ rows
    return step.filtered.whitener @ rows, loop


def _inputs(response: ProgramResponse, round_index: int) -> np.ndarray:
    """G of a round: what contributions put into the state."""
    given = response.steps[round_index].stage.given
    if given is None:
        raise TypeError("forms of inputs are taken on a Krylov space")
    return given


def _form(matrix: np.ndarray, sources: np.ndarray, rounds: int) -> np.ndarray:
    """bᵀGb for each column, of a form that so many rounds have made, from above; from below for a negative number."""
    values = np.einsum("rj,rj->j", sources, matrix @ sources)
    terms = len(matrix) + abs(rounds)
    room = ROUNDING * terms * float(np.linalg.norm(matrix)) * (sources**2).sum(axis=0)
    return np.asarray(np.maximum(values + np.sign(rounds) * room, 0.0))
