# SPDX-License-Identifier: Apache-2.0
"""Bases that are lifted from one Krylov space of W: generators, what the observer knows beside them, and the ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb_mat, ctx
from tests.ball_matrices import balls
from tests.interpreter import exact_view
from tests.pairings import each_pair

from sottovoce import View, gossip, sensitivity
from sottovoce.filtering import program_forms, program_response, reduction
from sottovoce.filtering.backward import backward
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.generators import generators
from sottovoce.filtering.lifted import Lifted, _Lift, followed_beyond, lifted_basis
from sottovoce.filtering.overall import Overall, overall
from sottovoce.filtering.windows import answer_norm, noise_floor
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import (
    clean_state,
    exact_diffusion,
    gradient_tracking,
    momentum,
    pairwise_noise,
    repeated,
)

if TYPE_CHECKING:
    from sottovoce.filtering import ProgramResponse
    from sottovoce.protocols import Protocol

WEIGHTS, ROUNDS = metropolis_weights("random-regular:n=180,d=6,seed=1"), 12
LAZY = lazy_weights(WEIGHTS)
MISSED = [exact_diffusion(LAZY, rounds=ROUNDS), gradient_tracking(WEIGHTS, rounds=ROUNDS)]


def lifted(protocol: Protocol, view: View) -> tuple[Lifted, Any, np.ndarray]:
    seen = seen_view(protocol, view, thrifty=True)
    maps = backward(protocol, np.array(sorted(seen.rounds[0].known)))
    block, columns = reduction._start_block(seen, maps)
    span = reduction._seen_in_full(seen, maps, columns)
    assert span is not None
    made = lifted_basis(maps, block[:, span[0]], protocol.rounds, 1e-6)
    assert made is not None
    return made, maps, block[:, span[0]]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every network counts as a large one."""
    monkeypatch.setattr(reduction, "LARGE", 0)
    monkeypatch.setattr(program_forms, "DEAR", 0)


@pytest.mark.parametrize("protocol", MISSED, ids=lambda each: each.name)
def test_generators_move_as_the_program_read_backwards(protocol: Protocol) -> None:
    found = generators(protocol.programs[0])
    assert found is not None
    maps = backward(protocol, np.array([0, 3]))
    lift, count = _Lift(each=maps.rounds[0], generators=found), len(found.rows)
    vectors = np.random.default_rng(1).normal(size=(protocol.n, 2))
    powers = [vectors, maps.rounds[0].weights.matrix @ vectors]
    read = maps @ lift.columns(vectors)
    for j, row in enumerate(found.moved):
        expected = np.zeros_like(read[:, j::count])
        for k, p in enumerate(row):
            moved = sum((float(x) * power for x, power in zip(p, powers, strict=False)), 0 * vectors)
            expected += lift.columns(moved)[:, k::count]
        np.testing.assert_allclose(read[:, j::count], expected, atol=1e-13)


def test_noise_misses_some_programs_and_not_others() -> None:
    missed = {each.name: generators(each.programs[0]) for each in MISSED}
    assert all(found is not None and found.misses for found in missed.values())
    for protocol in (
        gossip(WEIGHTS, rounds=2),
        momentum(WEIGHTS, rounds=2, beta="9/10"),
        clean_state(WEIGHTS, rounds=2, keep="1/2"),
        repeated(WEIGHTS, rounds=2, steps=3),
        exact_diffusion(LAZY, rounds=2, noise="messages"),
    ):
        found = generators(protocol.programs[0])
        assert found is not None
        assert not found.misses
    assert generators(pairwise_noise(WEIGHTS, rounds=2, local=1, shared=2).programs[0]) is None


@pytest.mark.parametrize("protocol", MISSED, ids=lambda each: each.name)
def test_relations_hold_and_what_is_left_out_is_known(protocol: Protocol) -> None:
    made, maps, block = lifted(protocol, View.neighbourhood(0))
    basis, (known, h) = made.basis, (made.known, made.added)
    neighbours = len(WEIGHTS.neighbours(0))
    # The average of what noise misses, and differences between the sums of what neighbours send.
    assert known.shape[1] == (neighbours if protocol is MISSED[0] else 2 * neighbours)
    defect = made.measured(maps, block, protocol.rounds)
    relation = maps @ basis.vectors - basis.vectors @ basis.projected - basis.following @ basis.factor
    relation -= known @ made.entering
    assert np.linalg.norm(relation) < defect.relation < 1e-8
    assert np.linalg.norm(block - basis.vectors @ basis.start - known @ made.shown) < defect.start < 1e-8
    # Whatever is drawn and contributed, sums of what is seen say what κ is.
    draws, rng = maps.rounds[0].size - maps.rounds[0].kept, np.random.default_rng(2)
    kept, told = np.zeros(maps.rounds[0].kept), np.zeros(known.shape[1])
    pulled = maps @ np.eye(maps.rounds[0].size, maps.rounds[0].kept)
    for _ in range(protocol.rounds):
        state = np.concatenate([kept, rng.normal(size=draws)])
        np.testing.assert_allclose(known.T @ state, told, atol=1e-9)
        told += h.T @ (block.T @ state)
        kept = pulled.T @ state


def test_what_lies_beyond_a_basis_gets_no_more_than_its_bound() -> None:
    made, maps, _ = lifted(MISSED[0], View.neighbourhood(0))
    drawn, given = followed_beyond(maps, made.basis.following, 1e4, 1e4, ROUNDS)
    first, last = maps.rounds[0].kept, maps.rounds[0].kept + maps.rounds[0].drawn
    rows, parts = made.basis.following, []
    for _ in range(ROUNDS):
        parts.append(rows)
        rows = maps @ rows
    blocks = [[parts[t - s] if s <= t else 0 * rows for s in range(ROUNDS)] for t in range(ROUNDS)]
    for bound, chosen in ((drawn, slice(first, last)), (given, [last + 7])):
        whole = np.block([[part[chosen].T for part in line] for line in blocks])
        assert np.linalg.norm(whole, 2) <= bound < 100


def reduced(protocol: Protocol, view: View) -> tuple[ProgramResponse, Overall]:
    response = program_response(protocol, view, coarse=True)
    assert response.cut is not None
    bounds = overall(response.steps, response.cut, response._adjoints())
    assert bounds is not None
    return response, bounds


def moved_states(response: ProgramResponse, *, exactly: bool) -> tuple[list[list[Any]], list[Any]]:
    """What round s has put into the state of round t ≥ s, as a map, and X C of every round; in 128 bits if asked."""

    def read(matrix: Any) -> Any:
        return balls(matrix) if exactly else np.asarray(matrix)

    with ctx.workprec(128):
        size = response.steps[0].stage.size
        several = {id(step.filtered): step.filtered for step in response.steps}
        loops = {
            key: read(each.stage.transition) - times(read(each.gain), read(each.stage.rows))
            for key, each in several.items()
        }
        shows = {key: times(read(each.whitener), read(each.stage.rows)) for key, each in several.items()}
        order = [id(step.filtered) for step in response.steps]
        moved: list[list[Any]] = [[] for _ in order]
        for s in range(len(order)):
            state = read(np.eye(size))
            for t in range(s, len(order)):
                moved[t].append(state)
                state = times(loops[order[t]], state)
        return moved, [shows[key] for key in order]


def times(left: Any, right: Any) -> Any:
    return left * right if isinstance(left, arb_mat) else left @ right


def floats(matrix: Any) -> np.ndarray:
    return np.array(matrix.tolist(), dtype=np.float64) if isinstance(matrix, arb_mat) else matrix


def wide_norm(matrix: np.ndarray) -> float:
    """The spectral norm of a matrix with many more columns than rows, from its Gram matrix."""
    return float(np.sqrt(np.linalg.eigvalsh(matrix @ matrix.T)[-1]))


@pytest.mark.parametrize(
    ("protocol", "view"),
    [(MISSED[0], View.neighbourhood(0)), (MISSED[1], View.secure_sum(0))],
    ids=["messages", "sums"],
)
@pytest.mark.usefixtures("large")
def test_noise_of_several_rounds_bounds_a_filter(protocol: Protocol, view: View) -> None:
    response, bounds = reduced(protocol, view)
    run, size = [step.filtered for step in response.steps], response.steps[0].stage.size
    floor, noise = noise_floor(run), np.asarray(run[0].stage.injected.high)
    assert floor.window > 1
    # In 128 bits where states are few; bounds are far from what doubles err by.
    moved, shows = moved_states(response, exactly=size < 100)
    window = np.zeros((size, size))
    for s in range(floor.window):
        part = floats(moved[floor.window - 1][s])
        window += part @ noise @ part.T
    assert 0 < floor.least <= np.linalg.eigvalsh(window)[0] * (1 + 1e-9)
    with ctx.workprec(128):
        shown = np.block(
            [
                [
                    floats(times(shows[t], moved[t][s])) if s <= t else np.zeros(floats(shows[t]).shape)
                    for s in range(len(run))
                ]
                for t in range(len(run))
            ]
        )
    # 𝒪, the covariance of ν, L, and what disturbances make of states.
    norm = wide_norm(shown[:, size:])
    told = np.hstack([part @ noise for part in np.split(shown, len(run), axis=1)])
    unwhite = np.linalg.norm(told @ shown.T - np.eye(len(shown)), 2)
    assert unwhite <= bounds.unwhite < 0.01
    assert norm**2 <= (1 + bounds.unwhite) / floor.strength < 1e5 * norm**2
    answer, gains = np.zeros((len(shown), len(shown))), np.zeros((len(run) * size, len(shown)))
    for t, each in enumerate(run):
        rows = slice(int(response.starts[t]), int(response.starts[t + 1]))
        answer[rows, rows] = each.whitener
        if t + 1 < len(run):
            gains[(t + 1) * size : (t + 2) * size, rows] = each.gain
    answer -= shown @ gains
    largest = np.linalg.norm(answer, 2)
    assert largest <= answer_norm(run, floor, bounds.unwhite) < 1e3 * largest
    for t, step in enumerate(response.steps[1:], 1):
        reached = wide_norm(np.hstack([floats(moved[t][s]) for s in range(1, t + 1)]))
        assert reached <= step.reach < 1e3 * reached


@pytest.mark.parametrize("view", [View.neighbourhood(0), View.secure_sum(0)], ids=str)
@pytest.mark.usefixtures("large")
def test_ends_by_lifted_bases_hold_those_that_are_solved(view: View) -> None:
    weights = metropolis_weights("random-regular:n=60,d=8,seed=1")
    targets = [1, 5, *weights.neighbours(0)[:2].tolist()]
    for protocol in (
        exact_diffusion(lazy_weights(weights), rounds=40),
        gradient_tracking(weights, rounds=40),
    ):
        fine = sensitivity(protocol, view, targets, effort="fine")
        bulk = sensitivity(protocol, view, targets, effort="bulk")
        assert (bulk.squared_lower <= fine.squared_upper).all()
        assert (bulk.squared_upper >= fine.squared_lower).all()
        # Two rounds of 40 do not count below where rows are learnt later.
        assert (bulk.squared_upper <= 1.12 * bulk.squared_lower).all()


@pytest.mark.usefixtures("large")
def test_a_lifted_basis_that_closes_leaves_nothing_out() -> None:
    """A star of so many leaves that nodes of one kind are many, and the space of one kind of them small."""
    lazy = lazy_weights(metropolis_weights("star:n=40"))
    for protocol in (exact_diffusion(lazy, rounds=64), gradient_tracking(lazy, rounds=64)):
        fine, bulk = (
            sensitivity(protocol, View.secure_sum(0), [5], effort=effort) for effort in ("fine", "bulk")
        )
        assert bulk.squared_lower[0] <= fine.squared_upper[0] <= 1.01 * bulk.squared_upper[0]
        assert bulk.squared_upper[0] >= fine.squared_lower[0]


@pytest.mark.parametrize(
    ("spec", "contribution", "build", "view"),
    [
        *each_pair(
            ["ring:n=6", "complete:n=5", "path:n=4"],
            ["vector", "scalar", "energy"],
            ["exact diffusion", "gradient tracking"],
            [View.neighbourhood(0), View.secure_sum(0)],
        ),
        # Its witness is found again, and has to be looked for more closely.
        ("ring:n=6", "vector", "exact diffusion", View.secure_sum(0)),
    ],
    ids=str,
)
@pytest.mark.usefixtures("large")
def test_ends_hold_in_small_networks_in_rationals(
    spec: str, contribution: Any, build: str, view: View
) -> None:
    weights = metropolis_weights(spec)
    if build == "exact diffusion":
        protocol = exact_diffusion(lazy_weights(weights), rounds=5)
    else:
        protocol = gradient_tracking(weights, rounds=5)
    found = sensitivity(protocol, view, effort="bulk", contribution=contribution)
    for place, target in enumerate(found.targets):
        exact = exact_view(protocol, view, int(target)).form()
        assert exact is not None
        form = np.array([[float(x) for x in row] for row in exact])
        witness = np.asarray(found.witness_of(place))
        attained = float(np.sum(witness * (form @ witness)))
        assert found.squared_lower[place] <= attained * (1 + 1e-9) + 1e-12
        top = float(np.linalg.eigvalsh(form)[-1])
        least = top if contribution == "energy" else max(form.sum(), attained)
        assert found.squared_upper[place] >= least * (1 - 1e-9)
