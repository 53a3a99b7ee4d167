# SPDX-License-Identifier: Apache-2.0
"""Rounds that are inserted into a short form: against whole forms, in floats and in 256 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from tests.ball_matrices import balls
from tests.dense import dense_response
from tests.laws.test_threshold_laws import FEWER, write_fewer

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.participation import Participation
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.sensitivities.ends import Problem
from sottovoce.sensitivities.long_horizons import insertion
from sottovoce.sensitivities.long_horizons.bands import is_dominated
from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion, insertion_of
from sottovoce.sensitivities.long_horizons.insertion import inserted_ends, inserted_stream
from sottovoce.sensitivities.one_form import dual
from sottovoce.sensitivities.one_form.batches import batch_ends
from sottovoce.sensitivities.rounding import inserted_error
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.protocols import Contribution
    from sottovoce.scenarios import StreamWords

RANDOM = "erdos-renyi:n=30,p=0.3,seed=1"


def response_of(graph: str, view: View, rounds: int) -> FilteredResponse:
    protocol = gossip(metropolis_weights(graph), rounds=rounds)
    return whitened_response(hidden_system(protocol, observe(protocol, view)))


def problem_of(
    rounds: int, contribution: Contribution = "vector", participation: Participation | None = None
) -> Problem:
    chosen = Participation.full() if participation is None else participation
    return Problem(
        contribution=contribution,
        participation=chosen,
        engine="auto",
        in_bulk=False,
        tolerance=2e-4,
        cap=chosen.largest_count(rounds),
    )


def exact_form(response: FilteredResponse, position: int) -> np.ndarray:
    """M = FᵀF of the model as stored, in 256 bits, round by round from its definition."""
    gains, rounds = response.gains, response.rounds
    transition, rows, source = map(
        balls, (response.transition, response.rows, response.source(position)[:, None])
    )
    kept = [(balls(gain), balls(whitener)) for gain, whitener in zip(gains.gain, gains.whitener, strict=True)]
    last, size = gains.last_whitener, response.size
    shows = balls(last) if len(last) else arb_mat(0, size)
    # What contributions of all rounds so far have made of the state, a column each.
    states, lines = arb_mat(size, rounds), []
    for t in range(rounds):
        for i in range(size):
            states[i, t] = source[i, 0]
        gain, whitener = kept[gains.at(t)]
        lines += ((shows if t == rounds - 1 else whitener) * states).tolist()
        states = transition * (states - gain * (rows * states))
    columns = arb_mat(lines)
    return np.array((columns.transpose() * columns).tolist(), dtype=object)


@pytest.mark.parametrize(
    ("graph", "view", "width"),
    [
        ("path:n=3", View.secure_sum(0), 6),
        ("path:n=3", View.single_node(0), 6),
        ("path:n=3", View.neighbourhood(0), 4),
    ],
)
def test_what_insertion_is_off_by_is_allowed_for_in_256_bits(graph: str, view: View, width: int) -> None:
    long = response_of(graph, view, 200)
    start = long.gains.settled_from(200)
    assert long.gains.frozen
    plan = Insertion(start=start, width=width, rest=width // 2, rounds=start + 4 * width)
    long, short = replace(long, rounds=plan.rounds), replace(long, rounds=plan.short)
    with ctx.workprec(256):
        whole, part = exact_form(long, 0), exact_form(short, 0)
        c, w, K = plan.start, plan.width, plan.inserted
        off = arb(0)
        for s in range(plan.rounds):
            for t in range(plan.rounds):
                low, high = min(s, t), max(s, t)
                if high < c + w:
                    put = part[s, t]
                elif low >= c + K:
                    put = part[s - K, t - K]
                else:
                    put = part[c, c + high - low] if high - low <= w else arb(0)
                off += abs(whole[s, t] - put)
    allowed = inserted_error(
        long,
        long.columns(np.array([0])),
        plan,
        counted=plan.rounds,
        shown=np.array([max(float(part[t, t]) for t in range(c, plan.short))]),
    )
    assert 1e-3 * allowed[0] < float(off.mid()) <= allowed[0]


@pytest.mark.parametrize(("view", "period"), [(View.secure_sum(0), 2), (View.neighbourhood(0), 3)])
def test_what_insertion_is_off_by_every_few_rounds_is_allowed_for_in_256_bits(
    view: View, period: int
) -> None:
    long = response_of("path:n=3", view, 200)
    start, width, rest = long.gains.settled_from(200), 2 * period, 2 * period
    rounds = start + width + rest + 1 + 5 * period
    plan = Insertion(start=start, width=width, rest=rest, rounds=rounds, period=period)
    assert plan.inserted % period == 0
    long, short = replace(long, rounds=rounds), replace(long, rounds=plan.short)
    allowed = inserted_error(
        long,
        long.columns(np.array([0])),
        plan.loosened,
        counted=-(-rounds // period),
        shown=np.ones(1),
    )
    with ctx.workprec(256):
        whole, part = exact_form(long, 0), exact_form(short, 0)
        for offset in range(period):
            chosen, inner = plan.every(offset)
            assert inner.inserted == plan.inserted // period
            # What is put together from floats keeps the places of entries: those of M⁰ are numbered.
            places = np.arange(1.0, plan.short**2 + 1).reshape(plan.short, -1)[chosen, chosen]
            taken = inner.whole(np.minimum(places, places.T), inner.inserted).astype(int)
            flat = np.concatenate([[arb(0)], part.ravel()])
            off = np.abs(whole[chosen, chosen] - flat[taken]).sum()
            assert float(off.mid()) <= allowed[0]


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
@pytest.mark.parametrize(
    "spelling", ["every:2", "every:3,offset=2", "every:40", "fixed:1,2,30,100,151,152,153,299,300"]
)
def test_inserted_patterns_hold_what_whole_forms_hold(spelling: str, contribution: Contribution) -> None:
    rounds, chosen = 300, Participation.parse(spelling)
    response = response_of(RANDOM, View.secure_sum(0), rounds)
    problem = problem_of(rounds, contribution, chosen)
    period = chosen.size if chosen.kind == "every" and chosen.size < 5 else 1
    plan = insertion_of(response, 2e-4, period)
    assert plan is not None
    positions = np.arange(0, 29, 7)
    ends, told = inserted_ends(response, plan, positions, problem, None)
    assert told.all()
    (forms,) = response.forms(positions)
    lower, upper, _ = batch_ends(forms, problem)
    assert (ends.lower <= upper).all()
    assert (lower <= ends.upper).all()
    assert (ends.upper <= 1.001 * upper).all()
    assert (ends.lower >= (0.999 if contribution == "vector" else 0.995) * lower).all()
    for place, position in enumerate(positions):
        stream = inserted_stream(response, plan, int(position), problem).reshape(rounds, -1)
        assert chosen.allows(np.flatnonzero(stream.any(axis=1)), rounds)
        shown = float((response.respond(int(position), stream) ** 2).sum())
        assert ends.lower[place] <= shown * (1 + 1e-9)


def test_a_form_at_some_rounds_is_a_part_of_the_whole() -> None:
    response = response_of(RANDOM, View.secure_sum(0), 300)
    plan = insertion_of(response, 2e-4)
    assert plan is not None
    (forms,) = replace(response, rounds=plan.short).forms(np.array([3, 5]))
    pattern = np.unique(np.random.default_rng(1).integers(0, 300, 90))
    for place, found in enumerate(plan.at(forms.matrices, pattern)):
        whole = plan.whole(forms.matrices[place], plan.inserted)
        assert np.array_equal(found, whole[np.ix_(pattern, pattern)])


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(0), View.single_node(0)])
def test_inserted_signs_are_as_good_as_those_of_whole_forms(view: View) -> None:
    rounds = 240
    response = response_of(RANDOM, view, rounds)
    plan, problem = insertion_of(response, 2e-4), problem_of(rounds, "scalar")
    assert plan is not None
    positions = np.arange(0, 29, 5)
    ends, told = inserted_ends(response, plan, positions, problem, None)
    assert told.all()
    whole = [batch_ends(forms, problem) for forms in response.forms(positions)]
    lower, upper = (np.concatenate([each[k] for each in whole]) for k in (0, 1))
    assert (ends.lower <= upper).all()
    assert (lower <= ends.upper).all()
    assert (ends.upper <= 1.001 * upper).all()
    assert (ends.lower >= 0.995 * lower).all()
    for place, position in enumerate(positions):
        signs = inserted_stream(response, plan, int(position), problem)
        assert set(np.unique(signs)) <= {-1.0, 1.0}
        shown = float((response.respond(int(position), signs) ** 2).sum())
        assert ends.lower[place] <= shown * (1 + 1e-9)


def test_signs_at_1000_rounds_are_looked_for_without_the_whole_form(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    forms = FilteredResponse.forms

    def counted(self: FilteredResponse, *arguments: object, **words: object) -> object:
        sizes.append(self.rounds)
        return forms(self, *arguments, **words)  # type: ignore[arg-type]

    monkeypatch.setattr(FilteredResponse, "forms", counted)
    protocol = gossip(metropolis_weights(RANDOM), rounds=1000)
    found = sensitivity(protocol, View.secure_sum(0), contribution="scalar")
    assert max(sizes) < 300
    vectors = sensitivity(protocol, View.secure_sum(0))
    assert (found.squared_lower <= vectors.squared_upper).all()
    assert (found.squared_upper <= 1.1 * found.squared_lower).all()
    place = int(np.argmax(found.squared_upper / found.squared_lower))
    assert set(np.unique(found.witness_of(place))) <= {-1.0, 1.0}
    assert max(sizes) < 300


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(0), View.single_node(0)])
def test_inserted_ends_hold_what_whole_forms_hold(view: View) -> None:
    rounds = 300
    response = response_of(RANDOM, view, rounds)
    plan, problem = insertion_of(response, 2e-4), problem_of(rounds)
    assert plan is not None
    positions = np.arange(0, 29, 4)
    ends, _ = inserted_ends(response, plan, positions, problem, None)
    whole = [batch_ends(forms, problem) for forms in response.forms(positions)]
    lower, upper = (np.concatenate([each[k] for each in whole]) for k in (0, 1))
    assert (ends.lower <= upper).all()
    assert (lower <= ends.upper).all()
    assert (ends.upper <= 1.001 * ends.lower).all()
    assert (np.maximum(ends.upper, upper) <= 1.001 * np.minimum(ends.lower, lower)).all()


def test_a_band_put_together_is_the_form_written_out() -> None:
    response = response_of(RANDOM, View.secure_sum(0), 400)
    plan = insertion_of(response, 2e-4)
    assert plan is not None
    (forms,) = replace(response, rounds=plan.short).forms(np.array([3]))
    for count in (plan.width, plan.width + 7, plan.inserted):
        whole, band = plan.whole(forms.matrices[0], count), plan.band(forms.matrices[0], count)
        for lag in range(plan.width + 1):
            assert np.array_equal(np.diagonal(whole, lag), band[lag, : len(whole) - lag])
        assert np.array_equal(whole, whole.T)
        assert not np.diagonal(whole, plan.width + 1).any()


def test_the_stream_behind_a_lower_end_attains_it() -> None:
    rounds = 400
    response = response_of(RANDOM, View.secure_sum(0), rounds)
    plan, problem = insertion_of(response, 2e-4), problem_of(rounds)
    assert plan is not None
    positions = np.arange(0, 29, 3)
    ends, _ = inserted_ends(response, plan, positions, problem, None)
    dimensions = set()
    for place, position in enumerate(positions):
        stream = inserted_stream(response, plan, int(position), problem).reshape(rounds, -1)
        assert np.linalg.norm(stream, axis=1).max() <= 1 + 1e-12
        shown = float((response.respond(int(position), stream) ** 2).sum())
        assert ends.lower[place] <= shown * (1 + 1e-9)
        dimensions.add(stream.shape[1])
    assert len(dimensions) > 1


def test_a_band_is_dominated_where_the_whole_form_is() -> None:
    response = response_of(RANDOM, View.secure_sum(0), 400)
    plan = insertion_of(response, 2e-4)
    assert plan is not None
    (forms,) = replace(response, rounds=plan.short).forms(np.array([3]))
    whole, band = plan.whole(forms.matrices[0], plan.width), plan.band(forms.matrices[0], plan.width)
    top = float(np.linalg.eigvalsh(whole)[-1])
    for factor, held in ((1 + 1e-9, True), (1 - 1e-9, False)):
        y = np.full(len(whole), factor * top)
        assert is_dominated(band, y) is dual.is_dominated(whole, y) is held


def test_a_band_that_is_no_number_somewhere_is_dominated_by_nothing() -> None:
    for place in ((0, 0), (1, 2), (0, 5)):
        band = np.array([[1.0] * 6, [0.1] * 6])
        assert is_dominated(band, np.full(6, 5.0))
        band[place] = np.nan
        assert not is_dominated(band, np.full(6, 5.0))


def test_a_filter_that_settles_late_has_nothing_inserted() -> None:
    assert insertion_of(response_of("ring:n=60", View.secure_sum(0), 300), 2e-4) is None


def test_ends_that_insertion_leaves_apart_are_solved_from_the_whole_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocol = gossip(metropolis_weights(RANDOM), rounds=200)
    whole = sensitivity(protocol, View.secure_sum(0), [3, 4])
    monkeypatch.setattr(insertion, "LIFTS", ())
    found = sensitivity(protocol, View.secure_sum(0), [3, 4])
    assert (found.squared_upper <= 1.001 * found.squared_lower).all()
    assert (found.squared_lower <= whole.squared_upper).all()
    assert (whole.squared_lower <= found.squared_upper).all()
    assert np.isfinite(found.witness_of(0)).all()


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize(
    ("matrix", "damping"),
    [
        ([[0.75, 0.25], [0.25, 0.75]], [0.999, -0.999]),
        ([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]], [1.0, 1.0, 1.0]),
        ([[0.75, 0.25, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]], [0.5, 0.0, 1 - 2.0**-30]),
    ],
)
def test_ends_hold_however_narrow_the_band_and_odd_the_network(
    matrix: list[list[float]], damping: list[float], width: int
) -> None:
    """Damping next to ±1 or 0 (then nothing gets through), two nodes, no weight of one's own; w that is too small."""
    rounds = 70
    protocol = gossip(matrix_weights(np.array(matrix)), rounds=rounds, damping=np.array(damping))
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    response = whitened_response(system)
    assert response.gains.frozen
    plan = Insertion(start=response.gains.settled_from(rounds), width=width, rest=0, rounds=rounds)
    assert plan.inserted >= width
    kinds: tuple[Contribution, ...] = ("vector", "scalar")
    for problem in (problem_of(rounds, kind) for kind in kinds):
        positions = np.arange(len(system.unknown))
        ends, _ = inserted_ends(response, plan, positions, problem, None)
        for place, forms in enumerate(dense_response(system).forms(positions)):
            lower, upper, _ = batch_ends(forms, problem)
            assert ends.lower[place] <= upper[0]
            assert lower[0] <= ends.upper[place]


@pytest.mark.parametrize(
    ("words", "gap"),
    [
        ({}, 6e-4),
        ({"contribution": "scalar"}, 0.06),
        ({"participation": "every:4"}, 6e-4),
        ({"participation": "separated:6"}, 0.1),
    ],
)
def test_rounds_are_inserted_beyond_those_that_could_be_written_out(
    words: StreamWords, gap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fewer(monkeypatch)
    rounds, view, targets = FEWER + 150, View.secure_sum(0), [3, 20]
    protocol = gossip(metropolis_weights(RANDOM), rounds=rounds)
    found = sensitivity(protocol, view, targets, **words)
    assert (found.squared_upper <= (1 + gap) * found.squared_lower).all()
    assert set(found.method) <= {"abs", "dual"}
    monkeypatch.setattr(insertion, "MOST_BYTES", 0)
    other = sensitivity(protocol, view, targets, **words)
    assert set(other.method) == {"horizon"}
    assert (found.squared_lower <= other.squared_upper).all()
    assert (other.squared_lower <= found.squared_upper).all()
    if not words:
        stream = found.witness_of(0)
        assert stream.shape[0] == rounds
        assert np.linalg.norm(stream.reshape(rounds, -1), axis=1).max() <= 1 + 1e-9


def test_a_band_is_not_made_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, problem = Insertion(start=20, width=50, rest=25, rounds=10**5), problem_of(10**5)
    assert insertion.has_room_for(plan, problem)
    assert not insertion.has_room_for(replace(plan, rounds=10**7), problem_of(10**7))
    many = problem_of(10**5, participation=Participation.separated(4))
    assert not insertion.has_room_for(plan, many)
    monkeypatch.setattr(insertion, "memory_at_hand", lambda: 2.0**20)
    assert not insertion.has_room_for(plan, problem)
