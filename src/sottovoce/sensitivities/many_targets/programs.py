# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for all targets of a view of a program at once, where solving for each would take too long.

On a Krylov space a program is filtered as plain gossip is, but for the covariance of what is injected. So
the bounds for all targets of plain gossip serve, wherever rounds are alike: rows that are only learnt a
round or two later are given at once in the last rounds (never lowers Δ), and what a stream attains is
counted without those rounds.

Where rounds differ, or contributions are coded or follow a pattern, energies of blocks of F serve (`block_ends`):
with E_τσ = ‖F_τσ‖²_F a stream whose norm on block σ is w_σ shows at most Σ_σ w_σ√E_τσ in block τ.
Soundness: `whitened_above`, `whitened_below`, the room of `block_energies`. Speed: how many blocks there are.
Source: docs/proofs/programs.md, Energies of blocks and States that are followed in plain floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import FilteredResponse, Gains, fine_gamma, in_full, noise_of_rounds
from sottovoce.rounding import above
from sottovoce.sensitivities.many_targets.at_once import EndsAtOnce, ends_at_once
from sottovoce.sensitivities.many_targets.streams import constant_stream
from sottovoce.sensitivities.rounding import whitened_above, whitened_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.filtering import FilterStep, ProgramResponse
    from sottovoce.protocols import Contribution

__all__ = ["BlockEnds", "ProgramBulk", "block_ends", "block_energies", "program_bulk"]

# Speed alone: rounds are taken together in at most so many blocks, and in fewer where forms are large.
MOST_BLOCKS, MOST_WORK = 32, 2e11
# Speed alone: a filter that settles after more than this share of the rounds is taken as one that never does, as bounds
# that count the start-up apart are wide there.
LATE = 0.5
# Speed alone: the same for states of more than this many numbers, of which tables of a start-up take longer.
LARGE, LATE_FOR_LARGE = 400, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramBulk:
    """Certified ends for some targets, the names of the bounds, and the frequencies of streams behind lower ends.

    Arrays with an entry a target; ends hold for the true forms, frequencies are in radians a round.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray


def program_bulk(
    response: ProgramResponse,
    targets: np.ndarray,
    direct: np.ndarray,
    *,
    contribution: Contribution,
    progress: Callable[[int, int], None] | None,
) -> ProgramBulk | None:
    """Ends for the targets (node indices), those whose message of a round is seen in that round marked as `direct`.

    None where rounds are not alike, or gains that are frozen are not proved to whiten. `ends_at_once` takes the filter
    with A K⁺ for K and fl(X C) for X C as its model: its response is within `plainly` of that of the filter, and so is
    what a stream is followed to in floats; from above `Overall.frozen` says what the model and its frozen gains cost.

    Guarantee: lower ≤ Δ² ≤ upper, up to the allowances of `ends_at_once` for the model.
    Source: docs/proofs/programs.md, "Frozen gains".
    """
    whole, tail = _filtered(response)
    if whole is None:
        return None
    frozen = in_full(response).overall.frozen
    if not frozen.short < 0.5:
        return None
    rounds = whole.rounds
    # Speed alone: where noise takes several rounds to reach a direction, states ring.
    rings = noise_of_rounds([response.steps[0].stage])[0] > 1
    found = ends_at_once(whole, targets, direct, contribution=contribution, rings=rings, progress=progress)
    if tail:
        found = _without_the_last(whole, found, targets, rounds - tail)
    longest = float(np.sqrt(rounds))
    # Two parts of a stream in two models, orthogonal to each other, are off by √2 times as much as one in one.
    models = np.where(found.method == "projection", 1.42, 1.0)
    return ProgramBulk(
        # What is attained is followed in floats, in a model that is off itself.
        lower=whitened_below(
            found.attained,
            (2 * response.overall.plainly + response.overall.cut) * longest,
            response.overall.unwhite,
        ),
        upper=whitened_above(found.bound, models * frozen.beside * longest, frozen.short),
        method=found.method,
        frequency=found.frequency,
    )


def _filtered(response: ProgramResponse) -> tuple[FilteredResponse | None, int]:
    """The filter in the form of plain gossip, and in how many of the last rounds less is seen than it says.

    None where rounds differ, or where no filter of one size serves all of them: then programs are bounded by other
    means. A filter that settles late is treated as one that does not settle.

    Guarantee: what is returned shows the same rows as the steps do, in plain floats; rounds of the tail show no more
    than it says.
    """
    steps, rounds = response.steps, len(response.steps)
    stage = steps[0].stage
    tail = next((k for k in range(rounds) if steps[rounds - 1 - k].stage is stage), rounds)
    alike = all(step.stage is stage for step in steps[: rounds - tail])
    if response.protocol.varies or stage.given is None or not alike or rounds - tail < 2:
        return None, 0
    settled = next((t for t in range(1, rounds) if steps[t - 1].filtered is steps[t].filtered), rounds - 1)
    if settled > (LATE if stage.size <= LARGE else LATE_FOR_LARGE) * rounds:
        settled = rounds - 1
    tail = max(tail, response.cut.tail if response.cut is not None else 0)
    kept = [step.filtered for step in steps[: min(rounds - tail, settled)]]
    rows = np.asarray(stage.rows)
    whiteners = np.array([each.plainly_whitened for each in kept])
    gains = Gains(
        gain=np.array([each.update for each in kept]),
        whitener=whiteners,
        last_whitener=whiteners[-1] if tail else steps[-1].filtered.plainly_whitened,
        # Of a program it is not known, and whoever asks for it here gets no bound.
        covariance_norm=np.inf,
        frozen=settled < rounds - 1 or tail > 0,
        missing=0.0,
        distortion=0.0,
    )
    return FilteredResponse(
        transition=np.asarray(stage.transition),
        rows=rows,
        inputs=stage.given,
        gains=gains,
        rounds=rounds,
        distortion=0.0,
        engine="reduced",
    ), tail


def _without_the_last(
    whole: FilteredResponse, found: EndsAtOnce, targets: np.ndarray, rounds: int
) -> EndsAtOnce:
    """The ends with what a constant stream attains in the first `rounds` rounds."""
    steady = constant_stream(whole.shortened(rounds))
    attained = steady.value(whole.columns(targets))
    return replace(found, attained=attained, frequency=np.zeros(len(targets)))


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockEnds:
    """Ends of Δ² for some targets, and an upper end for contributions of bounded energy, whatever the rounds.

    Arrays with an entry a target: `lower` and `upper` for streams within the weights asked about,
    `energy` for those with Σ‖c_t‖² ≤ 1.
    """

    lower: np.ndarray
    upper: np.ndarray
    energy: np.ndarray


def block_ends(
    response: ProgramResponse,
    targets: np.ndarray,
    weights: np.ndarray,
    stream: np.ndarray,
    *,
    stream_error: float = 0.0,
) -> BlockEnds:
    """Ends from the energies of blocks of F, for rounds that may differ, on a Krylov space.

    A stream whose norms are at most `weights` shows in the rounds of block τ at most

        Σ_σ w_σ √E_τσ,      E_τσ = Σ_{t ∈ τ, s ∈ σ} ‖F_ts‖²,      w_σ² = Σ_{s ∈ σ} weights_s²,

    by Cauchy and Schwarz, and Δ² is at most the sum of the squares. Of energy 1 it shows at most the norm of the
    matrix of the √E_τσ. The lower end is what `stream` attains, which is known up to `stream_error` in norm.

    Guarantee: bounds of the true numbers, rounding included (see `block_energies`).
    """
    rounds, size = len(response.steps), response.steps[0].stage.size
    affordable = int(MOST_WORK / (4 * rounds * size**3))
    edges = np.linspace(0, rounds, max(1, min(MOST_BLOCKS, rounds, affordable)) + 1).round().astype(int)
    blocks = len(edges) - 1
    shown, squares, columns = (np.zeros((blocks, len(targets))) for _ in range(3))
    for block, energies, allowance in block_energies(response, targets, edges):
        roots = np.sqrt(np.maximum(energies, 0.0) + allowance)
        squared = float((weights[edges[block] : edges[block + 1]] ** 2).sum())
        shown[block:] += np.sqrt(squared) * roots
        squares[block:] += roots
        columns[block] = roots.sum(axis=0)
    # Sums of no more than so many numbers ≥ 0, their squares and roots.
    summed = 1 + fine_gamma(2 * rounds + 4 * blocks + 16)
    widest, longest = float(np.linalg.norm(weights)), float(np.linalg.norm(stream))
    cut, plainly, unwhite = response.overall.cut, response.overall.plainly, response.overall.unwhite
    energy = whitened_above(squares.max(axis=0) * columns.max(axis=0) * summed, cut, unwhite)
    attained = _attained(response, targets, stream) if affordable >= 1 else np.zeros(len(targets))
    return BlockEnds(
        lower=whitened_below(
            attained, (cut + plainly) * longest + np.sqrt(energy) * stream_error, response.overall.unwhite
        ),
        upper=whitened_above((shown**2).sum(axis=0) * summed, cut * widest, unwhite),
        energy=energy,
    )


def block_energies(
    response: ProgramResponse, targets: np.ndarray, edges: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(σ, E_τσ for all τ ≥ σ and all targets, and by how much they may be off), from the last block backwards.

    E_τσ = Σ_s b_sᵀ G_τs b_s over the rounds s of block σ, with G_τs = [s ∈ τ](X_s C)ᵀX_s C + Φ_sᵀ G_τ,s+1 Φ_s.

    Guarantee: the energies of the filter's response in exact arithmetic, within the allowance. A step of G errs by
    R with |R| ≤ ku|Φ|ᵀ|G||Φ|, k being 2r + 12, but for what the loop slips by: the states z of the round read it,
    one for each impulse before. Over these Σ|z_i||z_k| ≤ h_i h_k, h² being `held`² and the square of what enters in
    the round itself, so that the energies of block τ are all together off by at most Σ_s hᵀ|R_s|h. Sums over the L
    rounds of a block, products with an input and sums over k kinds of inputs err by (2r + L + k)u in proportion to
    (dᵀ|b|)², d_i² being the diagonal of ΣG: no entry of a part of that sum is larger than d_i d_k, whatever cancels.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5; docs/proofs/programs.md.
    """
    steps, size = response.steps, response.steps[0].stage.size
    blocks, longest = len(edges) - 1, int(np.diff(edges).max())
    grams, room = np.zeros((0, size, size)), np.zeros(blocks)
    for block in range(blocks - 1, -1, -1):
        grams = np.concatenate([np.zeros((1, size, size)), grams])
        sums: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for s in range(edges[block + 1] - 1, edges[block] - 1, -1):
            whitener, loop = steps[s].filtered.whitened, steps[s].filtered.loop
            given = _inputs(response, s)
            state = np.hypot(steps[s].held[:, 0], steps[s].stage.largest_given)
            room[block:] += _congruence_room(steps[s], grams, state)
            # G_τs = [s ∈ τ](X_s C)ᵀX_s C + Φ_sᵀ G_τ,s+1 Φ_s, for all τ from this block on; the first is its own
            grams = loop.T @ grams @ loop
            grams[0] += whitener.T @ whitener
            total, _ = sums.get(id(given), (np.zeros_like(grams), given))
            sums[id(given)] = total + grams, given
        energies, off = np.zeros((2, blocks - block, len(targets)))
        for total, given in sums.values():
            sources = given[:, targets]
            sizes, roots = np.abs(sources), np.sqrt(np.maximum(np.einsum("kii->ki", total), 0.0))
            for k, matrix in enumerate(total):
                energies[k] += _form(matrix, sources)
            off += fine_gamma(1) * (2 * size + longest + len(sums)) * (roots @ sizes) ** 2
        yield block, energies, above(room[block:, None] + off)


def _congruence_room(step: FilterStep, grams: np.ndarray, state: np.ndarray) -> np.ndarray:
    """hᵀ|R|h for the forms of all blocks, the new one included: what a step of `block_energies` may add to them.

    The loop errs by 2u of itself and a slip for each of its rows, the rows X C likewise.
    """
    filtered = step.filtered
    moved, slip = np.abs(filtered.loop) @ state, float(filtered.slip(state[:, None])[0])
    crossed = np.abs(grams) @ moved
    found = fine_gamma(2 * step.stage.size + 12) * (crossed @ moved) + 2.1 * slip * crossed.sum(axis=1)
    seen, slip = np.abs(filtered.whitened) @ state, slip * float(np.abs(filtered.whitener).sum())
    found[0] += fine_gamma(step.stage.count + 12) * float(seen @ seen) + 2.1 * slip * float(seen.sum())
    return np.asarray(found)


def _attained(response: ProgramResponse, targets: np.ndarray, stream: np.ndarray) -> np.ndarray:
    """‖F c‖² of one stream of numbers for all targets, as followed in floats, from below.

    States and rows are linear in what is put in. Of V_t, the rows shown in round t, the sum of
    V_tᵀV_t errs by γ_{m+T} of Σ|V_t|ᵀ|V_t|, whose norm is at most its trace, and a product with an
    input on both sides by γ_{2r} more.
    """
    kinds = list({id(step.stage.given): step.stage.given for step in response.steps}.values())
    place = {id(given): k for k, given in enumerate(kinds)}
    size, count = response.steps[0].stage.size, max(step.stage.count for step in response.steps)
    states = np.zeros((size, len(kinds) * size))
    form = np.zeros((len(kinds) * size, len(kinds) * size))
    # Rounds in which more is given than is seen do not count.
    counted = len(response.steps) - (response.cut.tail if response.cut is not None else 0)
    for s, step in enumerate(response.steps[:counted]):
        own = place[id(step.stage.given)] * size
        # Z_s = Φ_{s−1}Z_{s−1} + c_s (identity in the columns of this kind of input);  form = Σ (X_s C Z_s)ᵀ(…)
        states[np.arange(size), own + np.arange(size)] += stream[s]
        seen = step.filtered.whitened @ states
        form += seen.T @ seen
        states = step.filtered.loop @ states
    sources = np.vstack([_inputs(response, _first_of(response, given))[:, targets] for given in kinds])
    terms = count + len(response.steps) + 2 * len(form) + 8
    room = above(fine_gamma(terms)) * float(np.trace(form)) * (sources**2).sum(axis=0)
    return np.asarray(np.maximum(_form(form, sources) - room, 0.0))


def _first_of(response: ProgramResponse, given: np.ndarray | None) -> int:
    """A round into which contributions are put in this way."""
    return next(t for t, step in enumerate(response.steps) if step.stage.given is given)


def _inputs(response: ProgramResponse, round_index: int) -> np.ndarray:
    """G of a round: what contributions put into the state."""
    return response.steps[round_index].stage.inputs_given


def _form(matrix: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """bᵀGb for each column."""
    return np.asarray(np.einsum("rj,rj->j", sources, matrix @ sources))
