# SPDX-License-Identifier: Apache-2.0
"""Δ² of any protocol over explicit rounds: the forms of a view of a program, solved target by target.

The compiled maps of a program and a view give rows of which each has fresh noise (`filtering.decorrelation`), a
filter whitens them (`filtering.innovations`), and its response F̂ to a target gives M̂ = F̂ᵀF̂. With the ends of
M̂ as stored, `one_form` as for plain gossip, and η = `unwhite`, s = `shift`, r = `rounding` of `ProgramForm`,

    (√(attained − r) − s)²/(1 + η) ≤ Δ² ≤ (√(bound + r) + s)²/(1 − η).

Three things differ from plain gossip. Noise need not enter where contributions do, so that M ⪯ I may fail: the cap
is M ⪯ diag(κ_t²) where the target's own draw hides it at level 1/κ_t, and infinite elsewhere. A contribution may be
seen beside no noise at all: then Δ² is infinite, and that is decided exactly. An encoder C gives M' = CᵀMC.
Soundness: `_ends`, `_caps`, `_is_bare`, and the allowances of `filtering`. Speed: which
targets are solved one by one.
Source: docs/protocols.md, How it is computed; docs/proofs/programs.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.filtering import EXPLICIT_ROUNDS, SMALLEST, program_response, quick_response, seen_view
from sottovoce.protocols import compiled_rounds, float_above, unencoded
from sottovoce.rounding import roundings, slightly_above
from sottovoce.sensitivities.capacity import memory_at_hand
from sottovoce.sensitivities.ends import BULK_TOLERANCE, SAME
from sottovoce.sensitivities.long_horizons.closest import turning_stream
from sottovoce.sensitivities.many_targets.programs import block_ends, program_bulk
from sottovoce.sensitivities.one_form.patterns import earliest_pattern
from sottovoce.sensitivities.one_form.witnesses import value_of
from sottovoce.sensitivities.questions import FormQuestion, batched, solve_question, solve_questions
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.sensitivities.rounding import summed, whitened_above, whitened_below
from sottovoce.views import METHOD_NAMES, observe, seen_exchanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sottovoce.filtering import BlockResponse, ProgramForm, ProgramResponse
    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Engine, Scenario
    from sottovoce.sensitivities.one_form.solution import FormSolution
    from sottovoce.views import View

__all__ = ["encoder_matrix", "held", "program_sensitivity", "program_solution"]

# Programs may grow beyond all bounds. What overflows is no number or infinite, and so are bounds of its error: the
# ends say that nothing is known, and no warning is needed.
QUIET = np.errstate(over="ignore", invalid="ignore")
# Speed alone: of targets that are bounded together so many are solved one by one, the worst of those that are
# heard directly, while their ends stay this far apart.
SOLVED, APART = 16, 0.02
# Speed alone: by how much forms may be off where ends are not left apart by a search for vectors.
EXACTLY_LOOSE = 1e-6
# Speed alone: no Krylov space that is worth it has fewer blocks than this; memory is refused by it, nothing else.
FEWEST_BLOCKS = 4


@QUIET
def program_sensitivity(
    scenario: Scenario,
    indices: np.ndarray,
    *,
    engine: Engine,
    tolerance: float,
    in_bulk: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivities:
    """Δ² of a view for each target, whatever the protocol: the compiled maps decide, never its name.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, rounding included. `infinite` says that a contribution is seen
    beside no unknown noise, `cap` that a target's noise enters with its contributions, so that M ⪯ κ² I.
    Source: `filtering.decorrelation` and `filtering.innovations` for M; M' = CᵀMC for an encoder C, which commutes
    with maps that do not change from round to round. Where they do, C is written out as registers that nodes keep.
    """
    protocol, view, participation = scenario.protocol, scenario.one_view, scenario.participation
    contribution = scenario.contribution
    _check_size(protocol)
    run = _run(protocol)
    _check_memory(run, view)
    bulk = program_response(run, view, engine=engine, coarse=True) if in_bulk else None
    together = bulk is not None and bulk.cut is not None
    question = FormQuestion(
        contribution=contribution,
        participation=participation,
        tolerance=max(tolerance, BULK_TOLERANCE) if together else tolerance,
    )
    loose = tolerance if question.of_vectors else min(tolerance, EXACTLY_LOOSE)
    response = quick_response(run, view, engine=engine, loose=loose) if bulk is None else bulk
    code = encoder_matrix(run)
    count = len(indices)
    lower, upper = np.zeros(count), np.zeros(count)
    method = np.full(count, "unreached", dtype=METHOD_NAMES)
    streams, frequency = dict[int, np.ndarray](), dict[int, float]()
    # Targets of three kinds: seen beside no noise (infinite), never reached (0, as it
    # stands), and open to be bounded.
    seen_bare = _bare_rounds(response, view, participation)
    bare = np.isin(indices, [j for _, j in seen_bare])
    for place in np.flatnonzero(bare):
        bare[place] = _is_bare(seen_bare, int(indices[place]), participation, run.rounds)
    lower[bare], upper[bare], method[bare] = np.inf, np.inf, "infinite"
    open_to = np.flatnonzero(response.reached[indices] & ~bare)
    caps = _caps(run, question, code)
    upper[open_to] = np.inf
    forms_of = partial(response.forms, energy=contribution == "energy", encoder=code)
    ready: dict[int, ProgramForm] = {}
    if bulk is not None and together and open_to.size:
        direct = _are_direct(bulk, indices[open_to])
        if direct.sum() <= SOLVED and not bulk.is_dear:
            # One pass over the rows of the filter serves these forms, and the accuracy that all bounds ask for.
            ready = {form.target: form for form in forms_of(indices[open_to[direct]])}
        found = _together(bulk, indices[open_to], direct, question, code, progress)
        lower[open_to], upper[open_to], method[open_to] = found.lower, found.upper, found.method
        frequency = dict(zip(open_to.tolist(), found.frequency, strict=True))
        solved = open_to[_worth_solving(found, direct)]
    else:
        solved = open_to
    done = count - len(solved)
    forms = (ready[j] for j in indices[solved]) if ready else forms_of(indices[solved])
    for place, (solution, low, high) in zip(
        solved, _solved_forms(forms, question, alike=together), strict=True
    ):
        if high < upper[place] or not together:
            upper[place], method[place] = high, solution.method
        if low >= lower[place]:
            lower[place] = low
            if together:
                streams[int(place)] = solution.witness
        done += 1
        if progress is not None:
            progress(done, count)

    def witness_of(place: int) -> np.ndarray:
        if place in streams:
            return streams[place]
        if place in frequency:
            return _stream_at(frequency[place], run.rounds, question)
        found = str(method[place]), float(lower[place])
        return _witness(response, indices[place : place + 1], question, code, found, seen_bare)

    beyond = np.flatnonzero(upper[open_to] > caps[indices[open_to]])
    at_cap = open_to[beyond]
    upper[at_cap], method[at_cap] = caps[indices[at_cap]], "cap"
    lower[open_to] = np.minimum(lower[open_to], upper[open_to])
    return Sensitivities(
        scenario=scenario,
        engine=response.engine,
        indices=indices,
        squared_lower=lower,
        squared_upper=upper,
        method=method,
        witness_of=witness_of,
    )


@QUIET
def program_solution(
    scenario: Scenario, target: int, *, tolerance: float
) -> tuple[np.ndarray, FormSolution] | None:
    """M of one target as computed, and what was found of it; None where no noise hides a contribution.

    Guarantee: that of `solve_participation`, for the form as stored: nothing is widened by what the form is off
    by. It serves a certificate, whose verifier makes a form of its own.
    """
    protocol, view, participation = scenario.protocol, scenario.one_view, scenario.participation
    contribution = scenario.contribution
    _check_size(protocol)
    response = program_response(_run(protocol), view)
    seen_bare = _bare_rounds(response, view, participation)
    if _is_bare(seen_bare, target, participation, protocol.rounds):
        return None
    question = FormQuestion(contribution=contribution, participation=participation, tolerance=tolerance)
    (form,) = response.forms(
        np.array([target]), energy=contribution == "energy", encoder=encoder_matrix(response.protocol)
    )
    return form.matrix, solve_question(form.matrix, question)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Together:
    """Ends for many targets, the names of the bounds, and the streams behind the lower ends.

    Arrays have an entry a target; `_stream_at` makes the stream behind a lower end from its `frequency`.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray


def _together(
    response: ProgramResponse,
    targets: np.ndarray,
    direct: np.ndarray,
    question: FormQuestion,
    code: np.ndarray | None,
    progress: Callable[[int, int], None] | None,
) -> _Together:
    """Ends for all targets at once: by the bounds of plain gossip where rounds are alike, else from blocks of them.

    `direct` marks those that are heard directly.

    With an encoder C round t of C c has a norm of at most Σ_k≤t |C_k|, and ‖C‖ is at most the largest of these
    sums, which `summed` raises by what they and C as rounded may lose; `off` is what C c as computed may be off by,
    in norm.

    Guarantee: lower ≤ Δ² ≤ upper, rounding included (see `program_bulk`, `block_ends`).
    """
    rounds, count = response.protocol.rounds, len(targets)
    participation, contribution = question.participation, question.contribution
    if participation.kind == "full" and contribution != "energy" and code is None:
        found = program_bulk(response, targets, direct, contribution=contribution, progress=progress)
        if found is not None:
            return _Together(
                lower=found.lower, upper=found.upper, method=found.method, frequency=found.frequency
            )
    stream = _stream_at(np.nan, rounds, question)
    weights, coded, off = np.ones(rounds), stream, 0.0
    if code is not None:
        weights, coded = np.abs(code) @ weights * summed(rounds + 4), code @ stream
        off = roundings(2 * (rounds + 6)) * float(np.linalg.norm(np.abs(code) @ stream))
    ends = block_ends(response, targets, weights, coded, stream_error=off)
    upper = ends.upper
    if contribution == "energy":
        upper = ends.energy if code is None else ends.energy * weights[-1] ** 2
    return _Together(
        lower=ends.lower,
        upper=upper,
        method=np.full(count, "blocks", dtype=METHOD_NAMES),
        frequency=np.full(count, np.nan),
    )


def _stream_at(frequency: float, rounds: int, question: FormQuestion) -> np.ndarray:
    """The stream that turns by `frequency`; for NaN the constant one in the earliest pattern, of energy 1 if asked."""
    if not np.isnan(frequency):
        return turning_stream(float(frequency), rounds, question.contribution)
    stream = earliest_pattern(question.participation, rounds).astype(np.float64)
    return (
        stream / slightly_above(float(np.linalg.norm(stream)))
        if question.contribution == "energy"
        else stream
    )


def _are_direct(response: ProgramResponse, targets: np.ndarray) -> np.ndarray:
    """Which targets are heard in the round in which they contribute. Speed alone.

    Only few targets are: their forms are made together, in the same pass over the rows that the bounds of all need.
    """
    direct = np.zeros(len(targets), dtype=bool)
    for stage in {id(step.stage): step.stage for step in response.steps}.values():
        (put, *_) = stage.contributions(targets)
        direct |= np.abs(put.rounded()[stage.size :]).max(axis=0, initial=0.0) > 1e-9
    return direct


def _worth_solving(found: _Together, direct: np.ndarray) -> np.ndarray:
    """The places of the worst of the targets that are heard directly, in order. Speed alone."""
    apart = np.full(len(found.lower), np.inf)
    ratio = np.divide(found.upper, found.lower, out=apart, where=found.lower > 0)
    doubtful = np.flatnonzero(direct & (ratio > 1 + APART))
    return np.sort(doubtful[np.argsort(-ratio[doubtful], kind="stable")[:SOLVED]])


def _check_size(protocol: Protocol) -> None:
    """Refuse horizons that are not worked out, with NotCertified, rather than give a number that is not proved.

    Guarantee: what passes has ends that hold; a refusal says what longer horizons are worked out for.
    """
    if protocol.rounds > EXPLICIT_ROUNDS:
        raise NotCertified(
            f"the protocol {protocol.name!r} is accounted for over at most {EXPLICIT_ROUNDS} rounds; got "
            f"{protocol.rounds} (longer horizons are worked out for plain gossip)"
        )


def _run(protocol: Protocol) -> Protocol:
    """The protocol to work on: C does not commute with rounds that differ, and is then written out as registers."""
    return unencoded(protocol) if protocol.varies else protocol


def _check_memory(protocol: Protocol, view: View) -> None:
    """Refuse a view whose rows, the fewest vectors of a Krylov space and what is followed of them do not fit.

    Guarantee: none: an estimate of what the smallest reduction takes. Refused is what would fail later, after much
    work.
    """
    program, weights = protocol.programs[0], protocol.schedule[0]
    drawn = sum(protocol.n if draw.each == "node" else weights.matrix.nnz // 2 for draw in program.draws)
    length = len(protocol.schedule) * (protocol.n * (len(program.keeps) + 1) + drawn)
    rows = observe(protocol, view).rows.shape[0] * len(seen_exchanges(protocol, view, 0))
    needed = 8.0 * FEWEST_BLOCKS * rows * (length + protocol.rounds * rows)
    free = memory_at_hand()
    if min(needed, 8.0 * protocol.rounds * length**2) > free:
        raise NotCertified(
            f"this view of the protocol {protocol.name!r} needs about {needed / 2**30:.2g} GiB of memory, and "
            f"{free / 2**30:.2g} GiB are free (take a view of fewer rows, fewer rounds or a smaller network)"
        )


def encoder_matrix(protocol: Protocol) -> np.ndarray | None:
    """C as a lower-triangular Toeplitz matrix, T × T, its rational coefficients rounded; None for the identity.

    Refused, with NotCertified, where squares of the first or of the largest number could leave the range of floats.
    Later ones may be as small as they like: what is lost of them is nothing beside the rounding of the first.

    Guarantee: every coefficient is within half a unit in its last place of the rational one; `_Code` and the forms of
    programs count that.
    """
    if not protocol.encoded:
        return None
    first, largest = abs(protocol.code[0]), max(map(abs, protocol.code))
    if not held(first) or not held(largest):
        raise NotCertified(
            f"the encoder of the protocol {protocol.name!r} has numbers that floats do not hold: the first and the "
            f"largest must be between {SMALLEST} and {1 / SMALLEST} (scale it, or take levels of noise instead)"
        )
    column = np.zeros(protocol.rounds)
    column[: len(protocol.code)] = [float(value) for value in protocol.code]
    return np.asarray(linalg.toeplitz(column, np.zeros(protocol.rounds)))


def held(size: Fraction) -> bool:
    """Whether floats hold a number > 0 and its square, with room for sums of them.

    >>> from fractions import Fraction
    >>> held(Fraction(1, 3)), held(Fraction(1, 10**120)), held(Fraction(10**400))
    (True, False, False)
    """
    return Fraction(SMALLEST) < size < 1 / Fraction(SMALLEST)


def _bare_rounds(
    response: ProgramResponse | BlockResponse, view: View, participation: Participation
) -> frozenset[tuple[int, int]]:
    """The (round, node) pairs whose contributions are seen beside no unknown noise, encoders counted.

    An encoder C makes of a stream c one of Cc with fresh noise. Row r of contributions that are seen bare then shows
    (rC)_s of a contribution of round s. Streams of all rounds are those of Cc, as C has an inverse.

    Guarantee: exact, in rationals.
    """
    protocol = response.protocol
    if not response.bare or not protocol.encoded or participation.kind == "full":
        return response.bare
    code, found = protocol.code, set[tuple[int, int]]()
    for row in seen_view(protocol, view).bare_rows:
        for node in {node for _, node in row}:
            own = [(t, x) for (t, j), x in row.items() if j == node]
            for s in range(max(t for t, _ in own) + 1):
                # (rC)_s = Σ_t r_t c_{t−s}.
                shown = sum((x * code[t - s] for t, x in own if 0 <= t - s < len(code)), Fraction(0))
                if shown:
                    found.add((s, node))
    return frozenset(found)


def _is_bare(bare: frozenset[tuple[int, int]], node: int, participation: Participation, count: int) -> bool:
    """Whether some pattern lets the node contribute in one of `count` rounds in which no noise hides it.

    Guarantee: exact.
    """
    rounds = np.zeros(count)
    rounds[[t for t, j in bare if j == node]] = 1.0
    return bool(rounds.any() and participation.largest_sum(rounds) > 0)


def _caps(protocol: Protocol, question: FormQuestion, code: np.ndarray | None) -> np.ndarray:
    """For each node what its own noise alone guarantees; infinite where that is nothing.

    With M ⪯ diag(κ_t²) no stream exceeds the largest Σ κ_t² over a pattern; one of energy 1 not the largest κ_t².

    Guarantee: upper bounds of Δ²; κ_t is a rational (`ports`), its square is rounded up. Rounds that were
    compiled to the same maps are looked at once.
    Source: docs/protocols.md, How it is computed, step 4.
    """
    caps = np.full(protocol.n, np.inf)
    if code is not None:
        return caps
    rounds = compiled_rounds(protocol)
    kinds = list({id(compiled): compiled for compiled in rounds}.values())
    place = {id(compiled): k for k, compiled in enumerate(kinds)}
    order = [place[id(compiled)] for compiled in rounds]
    found: dict[tuple[Fraction | None, ...], float] = {}
    same: dict[tuple[int, ...], float] = {}
    for j, ports in enumerate(zip(*(compiled.ports for compiled in kinds), strict=True)):
        # Most nodes share one and the same value: fractions are dear to hash.
        one = tuple(map(id, ports))
        if one in same:
            caps[j] = same[one]
            continue
        if ports not in found:
            squares = np.array([np.inf if port is None else float_above(port * port) for port in ports])[
                order
            ]
            if np.isfinite(squares).all():
                most = question.participation.largest_sum(squares)
                found[ports] = float(squares.max() if question.contribution == "energy" else most)
            else:
                found[ports] = np.inf
        caps[j] = same[one] = found[ports]
    return caps


def _solved_forms(
    forms: Iterable[ProgramForm], question: FormQuestion, *, alike: bool
) -> Iterator[tuple[FormSolution, float, float]]:
    """Each form's solution, and the ends of Δ² that it gives; where forms are alike one's best streams start the next.

    Where a start leads is speed alone: both ends are proved of what was found.
    """
    if not alike:
        for some in batched(forms, question):
            for form, solution in zip(
                some, solve_questions([each.matrix for each in some], question), strict=True
            ):
                yield solution, *_ends(solution, form)
        return
    start: np.ndarray | None = None
    for form in forms:
        solution = solve_question(form.matrix, question, start)
        yield solution, *_ends(solution, form)
        start = solution.witness if solution.witness.ndim == 2 else start


@QUIET
def _witness(
    response: ProgramResponse | BlockResponse,
    target: np.ndarray,
    question: FormQuestion,
    code: np.ndarray | None,
    found: tuple[str, float],
    bare: frozenset[tuple[int, int]],
) -> np.ndarray:
    """The stream behind the lower end of one target, found again; of an infinite Δ², `bare` rounds that are allowed.

    `found` has the name of the bound and the lower end. A search that ends sooner than it did among others goes on.
    """
    method, lower = found
    rounds = response.protocol.rounds
    if method in {"infinite", "unreached"}:
        stream = earliest_pattern(question.participation, rounds).astype(np.float64)
        if method == "infinite":
            seen = [t for t, j in bare if j == target[0]]
            if question.contribution == "energy" or not question.participation.allows(seen, rounds):
                seen = [next(t for t in seen if question.participation.allows([t], rounds))]
            stream[:] = np.isin(np.arange(rounds), seen)
        return stream
    (form,) = response.forms(target, energy=question.contribution == "energy", encoder=code)
    solution = solve_question(form.matrix, question)
    if _ends(solution, form)[0] < (1 - SAME) * lower:
        solution = solve_question(form.matrix, replace(question, tolerance=question.tolerance / 8))
    return solution.witness


def _ends(solution: FormSolution, form: ProgramForm) -> tuple[float, float]:
    """Ends of Δ² that hold for the true form, from those of the form as stored.

        (√(attained − r) − s)²/(1 + η)  ≤  Δ²  ≤  (√(bound + r) + s)²/(1 − η)

    Guarantee: what `ProgramForm` says, for all streams at once; eight operations an end round by less than 16
    units. From η = ½ on nothing is known above, and nothing at all
    where an allowance is no finite number.
    Source: docs/proofs/programs.md.
    """
    if not np.isfinite([form.rounding, form.shift, form.unwhite]).all():
        return 0.0, np.inf
    attained = solution.attained
    if form.attained is not form.matrix:
        attained = value_of(form.attained, solution.witness)
    lower = whitened_below(np.array(attained - form.rounding), form.shift, form.unwhite)
    upper = whitened_above(np.array(max(solution.bound, 0.0) + form.rounding), form.shift, form.unwhite)
    return float(lower), float(upper)
