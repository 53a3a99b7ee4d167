# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any, Literal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from tests.dense import dense_response
from tests.filtering.test_kalman import SYSTEMS, precise
from tests.laws.test_threshold_laws import two_cliques
from tests.reference import CASES, Scene, custom_view, definition, named_view, scenes
from tests.scenes import EVERY_ENGINE

from sottovoce.errors import InputError
from sottovoce.filtering import (
    FilteredResponse,
    QuadraticForms,
    hidden_system,
    whitened_response,
)
from sottovoce.graphs import GossipWeights, metropolis_weights, uniform_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.views import View, observe

Exact = Literal["dense", "filter", "reduced"]
ENGINES: tuple[Exact, ...] = ("dense", "filter", "reduced")


def respond(weights: GossipWeights, view: View, rounds: int, engine: Any) -> tuple[Any, np.ndarray]:
    protocol = gossip(weights, rounds=rounds)
    system = hidden_system(protocol, observe(protocol, view))
    return dense_response(system) if engine == "dense" else whitened_response(
        system, engine=engine
    ), system.unknown


def one_form(weights: GossipWeights, view: View, target: int, rounds: int, engine: Any) -> QuadraticForms:
    response, unknown = respond(weights, view, rounds, engine)
    (forms,) = response.forms(np.array([np.searchsorted(unknown, target)]))
    assert isinstance(forms, QuadraticForms)
    return forms


def norm_bounds(forms: QuadraticForms, stream: np.ndarray) -> tuple[float, float]:
    """The ends between which the value claims that ‖Fc‖ lies."""
    value = float(np.sum(stream * (forms.matrices[0] @ stream)))
    size, d = np.sqrt(len(stream)), forms.distortion
    low = np.sqrt(max(0.0, value - forms.rounding[0])) - d * size
    high = np.sqrt(value + forms.rounding[0]) + d * size
    return float(np.sqrt(1 - forms.missing) * low / (1 + d)), float(high / (1 - d))


@given(scenes(most_rounds=7))
def test_the_true_norm_lies_between_the_stated_ends(scene: Scene) -> None:
    protocol = gossip(scene.weights, rounds=scene.rounds)
    system = hidden_system(protocol, observe(protocol, scene.view))
    for engine in ENGINES:
        forms = one_form(scene.weights, scene.view, scene.target, scene.rounds, engine)
        for signs in (np.ones(scene.rounds), (-1.0) ** np.arange(scene.rounds)):
            truth = float(scene.form.value(signs)) ** 0.5
            low, high = norm_bounds(forms, signs)
            assert truth <= high * (1 + 1e-15), engine
            if not system.over_informed:
                assert low * (1 - 1e-15) <= truth, engine


@pytest.mark.parametrize("engine", ENGINES)
def test_named_and_written_out_views_have_the_same_form(engine: Exact) -> None:
    for case in CASES[::5]:
        weights = uniform_weights_of(case)
        named, written = [
            one_form(weights, view, case["target"], case["T"], engine).matrices[0]
            for view in (named_view(case), exact_custom(weights, case))
        ]
        assert np.allclose(named, written, rtol=0, atol=1e-10)


def uniform_weights_of(case: dict[str, Any]) -> GossipWeights:
    """Weights in powers of two on the graph of a case, so that rows written as floats are the exact ones."""
    n = case["n"]
    matrix = np.zeros((n, n))
    for a, b in case["edges"]:
        matrix[a, b] = matrix[b, a] = 1 / 16
    matrix[np.diag_indices(n)] = 1 - matrix.sum(axis=1)
    protocol = gossip(matrix, rounds=1)
    return protocol.weights


def exact_custom(weights: GossipWeights, case: dict[str, Any]) -> View:
    seen = observe(gossip(weights, rounds=1), named_view(case))
    return View(observation=seen.rows, known_noise=custom_view(case).known_noise)


VIEWS = {
    "own message": View.single_node(0, own_noise="hidden"),
    "own message known": View.single_node(0),
    "sum": View.secure_sum(0),
    "messages": View.neighbourhood(0),
    "coalition": View.coalition_sums([0, 2]),
    "everyone": View.everyone,
}
GRAPHS = {
    "ring": metropolis_weights("ring:n=12"),
    "star": uniform_weights("star:n=9"),
    "random": metropolis_weights("erdos-renyi:n=14,p=0.4,seed=2"),
}
PAIRS = pytest.mark.parametrize(("graph", "view"), [(g, v) for g in GRAPHS for v in VIEWS])


@PAIRS
def test_the_form_is_the_gram_matrix_of_the_impulse_responses(graph: str, view: str) -> None:
    for engine, rounds in itertools.product(ENGINES, (1, 2, 25)):
        response, unknown = respond(GRAPHS[graph], VIEWS[view], rounds, engine)
        for position in (0, unknown.size - 1):
            (forms,) = response.forms(np.array([position]))
            F = response.respond(position, np.eye(rounds))
            assert np.allclose(forms.matrices[0], F.T @ F, atol=1e-12), (engine, rounds, position)


@PAIRS
def test_a_response_is_linear_and_causal(graph: str, view: str) -> None:
    for engine in ENGINES:
        response, _ = respond(GRAPHS[graph], VIEWS[view], 10, engine)
        rng = np.random.default_rng(0)
        stream = rng.standard_normal((10, 2))
        F = response.respond(1, np.eye(10))
        assert np.allclose(response.respond(1, stream), F @ stream, atol=1e-12), engine
        assert response.respond(1, stream[:, 0]).shape == (len(F), 1), engine
        seen = len(F) // 10 if len(F) % 10 == 0 else len(F) // 9
        late = np.concatenate([np.zeros(6), np.ones(4)])
        assert np.abs(response.respond(1, late)[: 6 * seen]).max() == 0.0, engine


@PAIRS
def test_engines_agree(graph: str, view: str) -> None:
    positions = np.arange(3)
    stacks = [
        np.concatenate(
            [f.matrices for f in respond(GRAPHS[graph], VIEWS[view], 40, engine)[0].forms(positions)]
        )
        for engine in ENGINES
    ]
    assert np.allclose(stacks[0], stacks[1], atol=1e-7)
    assert np.allclose(stacks[1], stacks[2], atol=1e-9)


@PAIRS
def test_no_form_exceeds_that_of_seeing_everything(graph: str, view: str) -> None:
    response, unknown = respond(GRAPHS[graph], VIEWS[view], 20, "filter")
    for forms in response.forms(np.arange(unknown.size)):
        assert np.linalg.eigvalsh(forms.matrices)[:, -1].max() <= 1 + 1e-7
        assert np.linalg.eigvalsh(forms.matrices)[:, 0].min() >= -1e-12


def test_batches_cover_all_targets_in_order() -> None:
    response, _ = respond(GRAPHS["ring"], VIEWS["sum"], 20, "filter")
    positions = np.array([7, 2, 9, 0, 4])
    (whole,) = response.forms(positions)
    batches = list(response.forms(positions, 8 * 20 * 130))
    assert len(batches) > 1
    assert np.concatenate([b.positions for b in batches]).tolist() == positions.tolist()
    assert np.allclose(np.concatenate([b.matrices for b in batches]), whole.matrices, atol=1e-14)


def test_the_engine_says_its_name() -> None:
    for engine in ("filter", "reduced"):
        assert respond(GRAPHS["ring"], VIEWS["sum"], 5, engine)[0].engine == engine


def test_auto_reduces_where_that_is_smaller_and_filters_where_it_is_not() -> None:
    assert respond(GRAPHS["ring"], VIEWS["own message"], 30, "auto")[0].engine == "reduced"
    assert respond(GRAPHS["random"], VIEWS["messages"], 30, "auto")[0].engine == "filter"
    reduced = respond(metropolis_weights("ring:n=50"), VIEWS["own message"], 200, "auto")[0]
    assert reduced.transition.shape == (26, 26)


def test_a_cut_space_is_paid_for_in_distortion() -> None:
    # Ten rounds do not reach around a ring of 200: the space is cut, and the answer stays within the distortion.
    weights = metropolis_weights("ring:n=200")
    reduced, _ = respond(weights, VIEWS["own message"], 30, "reduced")
    full, _ = respond(weights, VIEWS["own message"], 30, "filter")
    assert reduced.transition.shape[0] < 60
    for position in (1, 5, 20):
        (a,), (b,) = reduced.forms(np.array([position])), full.forms(np.array([position]))
        assert np.abs(a.matrices - b.matrices).sum() <= 4 * a.distortion * 30 + 1e-9


def test_the_exact_value_lies_between_narrow_ends() -> None:
    weights, view, rounds = GRAPHS["star"], VIEWS["sum"], 12
    exact = definition(weights, view, 3, rounds)
    for engine in ENGINES:
        forms = one_form(weights, view, 3, rounds, engine)
        low, high = norm_bounds(forms, np.ones(rounds))
        assert low <= float(exact.value(np.ones(rounds))) ** 0.5 <= high
        assert high - low < 1e-6


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match="engine must be one of auto, filter, reduced; got 'quick'"):
        respond(GRAPHS["ring"], VIEWS["sum"], 3, "quick")


@pytest.mark.parametrize("rounds", [200, 2000])
def test_long_vectors_cost_no_accuracy_in_a_dense_network(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dense networks mix within a few rounds, so that what is not looked at grows tenfold from step to step.
    protocol = gossip(metropolis_weights("erdos-renyi:n=900,p=0.15,seed=3"), rounds=rounds)
    hub = int(np.argmax(np.diff(protocol.weights.matrix.indptr)))
    system = hidden_system(protocol, observe(protocol, View.secure_sum(hub)))
    careful = whitened_response(system)
    monkeypatch.setattr("sottovoce.krylov.LONG", 0)
    thrifty = whitened_response(system)
    assert thrifty.distortion <= 2 * careful.distortion


def carried_rows(response: FilteredResponse, source: np.ndarray) -> np.ndarray:
    """F for one input, by rows that are carried back as all bounds do, (rows of the view, T)."""
    columns, rows = [], response.whitener(response.rounds - 1)
    for t in range(response.rounds - 1, -1, -1):
        if t < response.rounds - 1:
            rows = np.vstack([response.whitener(t), response.before(rows, t)])
        columns.append(np.pad(rows @ source, (t * len(response.rows), 0)))
    return np.column_stack(columns[::-1])


def test_the_error_of_followed_rows_is_covered_in_256_bits_and_not_a_thousand_times_too_large() -> None:
    shares, rounds = [], 5
    for weights, view in {**SYSTEMS, "slow": (two_cliques(3, 1e-6), View.secure_sum(1))}.values():
        protocol = gossip(weights, rounds=rounds)
        response = whitened_response(hidden_system(protocol, observe(protocol, view)), engine="filter")
        assert isinstance(response, FilteredResponse)
        source, gains = response.source(0), response.gains
        with mpmath.workprec(256):
            A, C = precise(dense_transition(response)), precise(response.rows)
            state, shown = precise(np.zeros((response.size, rounds))), []
            for t in range(rounds):
                state[:, t] = precise(source)
                shown.append(precise(response.whitener(t)) @ state)
                state = A @ (state - precise(gains.gain[gains.at(t)]) @ (C @ state))
            exact = np.vstack(shown)
            for found in (carried_rows(response, source), response.respond(0, np.eye(rounds))):
                error = np.linalg.norm((precise(found) - exact).astype(float), 2)
                shares.append(error / response.recursion_error(rounds))
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


@EVERY_ENGINE
@pytest.mark.parametrize("view", [View.neighbourhood(0), View.secure_sum(0)], ids=["picked", "mixed"])
def test_rows_and_columns_are_carried_back_by_the_matrix_that_states_are_carried_on_by(
    engine: Literal["filter", "reduced"], view: View
) -> None:
    protocol = gossip(metropolis_weights("erdos-renyi:n=15,p=0.4,seed=2"), rounds=30)
    response = whitened_response(hidden_system(protocol, observe(protocol, view)), engine=engine)
    rows = np.random.default_rng(1).standard_normal((7, response.size))
    expected = rows @ response.after(np.eye(response.size), 4)
    assert np.abs(response.before(rows, 4) - expected).max() < 1e-13
    found = np.empty((response.size, 9))
    response.before_columns(rows.T, 4, out=found[:, 2:])
    assert np.abs(found[:, 2:].T - expected).max() < 1e-13


@pytest.mark.parametrize("graph", ["path:n=5", "erdos-renyi:n=9,p=0.5,seed=4"])
@pytest.mark.parametrize("view", [View.neighbourhood(0), View.secure_sum(0)], ids=["picked", "mixed"])
def test_a_product_with_the_loop_errs_by_no_more_than_is_said_in_256_bits(graph: str, view: View) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=40)
    response = whitened_response(hidden_system(protocol, observe(protocol, view)), engine="filter")
    closed, exact = response.closed_loop(6), np.vectorize(mpmath.mpf, otypes=[object])
    rows = np.random.default_rng(2).standard_normal((3, response.size))
    with mpmath.workprec(256):
        gain, seen = exact(response.gains.gain[6]), exact(response.rows)
        loop = exact(response.transition.toarray()) @ (exact(np.eye(response.size)) - gain @ seen)  # type: ignore[union-attr]
        off = mpmath.sqrt(((exact(rows @ closed.loop) - exact(rows) @ loop) ** 2).sum())
    assert 1e-3 * closed.step_error < float(off) / np.linalg.norm(rows) <= closed.step_error
