# SPDX-License-Identifier: Apache-2.0
"""What whole numbers cost: views of tiny runs written out in full, and the coupling of the proof, path by path."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from sottovoce.errors import InputError, NotCertified
from sottovoce.gaussian import delta
from sottovoce.graphs import matrix_weights
from sottovoce.peers import grid as grids
from sottovoce.peers.grid import (
    Grid,
    Messages,
    chosen_grid,
    covering_radius,
    grid_excess,
    largest_value,
    mixed,
    view_excess,
)
from sottovoce.peers.noise import rounded_gaussian
from sottovoce.peers.whole import check_ported, ported, program_reach
from sottovoce.protocols import (
    CONTRIBUTION,
    Exchange,
    Protocol,
    initial_registers,
    parse_protocol,
    push_sum,
    run_to_exchange,
)

Whole = NDArray[np.int64]
Law = dict[tuple[int, ...], float]


class Run:
    """Hidden nodes that mix whole numbers: S = round(w S / d) + round(x) + u, of which `rows` are seen each round."""

    def __init__(
        self,
        rows: list[list[int]],
        mixing: list[list[int]],
        denominator: int,
        deviation: int,
        reach: int = 9,
        reacts: Callable[[Whole], Whole] = np.zeros_like,
    ) -> None:
        self.rows, self.mixing = np.array(rows), np.array(mixing)
        self.denominator, self.deviation = denominator, deviation
        self.nodes = self.mixing.shape[0]
        # What a node adds for what it received, besides what it is given.
        self.reacts = reacts
        reach *= deviation
        self.noise = np.array(list(itertools.product(range(-reach, reach + 1), repeat=self.nodes)))
        one = np.diff(ndtr((np.arange(-reach, reach + 2) - 0.5) / deviation))
        self.chance = np.prod(one[self.noise + reach], axis=1)

    def view(self, given: NDArray[np.float64]) -> Law:
        """The law of what is seen, history by history: every noise is gone through."""
        # What is seen so far, and where the messages stand before noise, with their probability.
        states: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {((), (0,) * self.nodes): 1.0}
        for number, x in enumerate(np.rint(given).astype(np.int64)):
            found: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = defaultdict(float)
            last = number == len(given) - 1
            for (seen, kept), weight in states.items():
                sent = np.array(kept) + x + self.noise
                shown = sent @ self.rows.T
                after = np.zeros_like(sent) if last else mixed(sent @ self.mixing.T, self.denominator)
                after = after + self.reacts(after)
                keys = np.concatenate([shown, after], axis=1)
                names, place = np.unique(keys, axis=0, return_inverse=True)
                chances = np.bincount(place.ravel(), weights=weight * self.chance)
                for name, chance in zip(names.tolist(), chances.tolist(), strict=True):
                    if chance > 1e-15:
                        found[(seen + tuple(name[: len(self.rows)]), tuple(name[len(self.rows) :]))] += chance
            states = found
        law: Law = defaultdict(float)
        for (seen, _), chance in states.items():
            law[seen] += chance
        return law

    def real_shift(self, moved: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the real view: the least change of noise that hides a change, and how messages then differ."""
        rounds = len(moved)
        transition = self.mixing / self.denominator
        powers = [np.linalg.matrix_power(transition, k) for k in range(rounds)]
        whole = np.block(
            [
                [
                    self.rows @ powers[t - s] if s <= t else np.zeros((len(self.rows), self.nodes))
                    for s in range(rounds)
                ]
                for t in range(rounds)
            ]
        )
        noise = (np.linalg.pinv(whole, rcond=1e-12) @ whole @ moved.ravel()).reshape(rounds, self.nodes)
        states, state = [], np.zeros(self.nodes)
        for t in range(rounds):
            state = transition @ state + moved[t] - noise[t]
            states.append(state)
        assert np.allclose(np.array(states) @ self.rows.T, 0, atol=1e-8)
        return noise, np.array(states)

    def gain(self) -> float:
        return float(np.linalg.norm(self.mixing / self.denominator, 2))

    def excess(self, rounds: int) -> float:
        radius = covering_radius(self.rows.tolist(), nodes=self.nodes)
        return grid_excess([radius] * rounds, hidden=self.nodes, dimension=1, gain=self.gain())


def true_delta(left: Law, right: Law, epsilon: float) -> float:
    """The larger of both directions: Σ max(0, P − e^ε Q)."""
    names = left.keys() | right.keys()
    ways = ((left, right), (right, left))
    return max(
        math.fsum(max(0.0, p.get(name, 0.0) - math.exp(epsilon) * q.get(name, 0.0)) for name in names)
        for p, q in ways
    )


RUNS = {
    "sum of two, one round": (Run([[1, 1]], [[0, 0], [0, 0]], 1, 1), 1),
    "unlike weights": (Run([[1, 5]], [[0, 0], [0, 0]], 1, 1), 1),
    "unlike weights, more noise": (Run([[2, 3]], [[0, 0], [0, 0]], 1, 3), 1),
    "star of three": (Run([[1, 1]], [[2, 0], [0, 2]], 3, 1), 2),
    "triangle": (Run([[1, 1]], [[1, 1], [1, 1]], 3, 1), 2),
    "path, one end looks": (Run([[1, 0]], [[1, 1], [1, 2]], 3, 1), 2),
    "three of unlike weights": (Run([[1, 2, 3]], [[0, 0, 0]] * 3, 1, 1, reach=6), 1),
    "complete graph of four": (Run([[1, 1, 1]], [[1, 1, 1]] * 3, 4, 1, reach=5), 2),
    "two that look at three": (
        Run([[1, 1, 0], [0, 1, 1]], [[2, 1, 0], [1, 1, 1], [0, 1, 2]], 4, 1, reach=5),
        1,
    ),
    "halves": (Run([[1, 2]], [[1, 1], [1, 1]], 2, 1), 2),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("change", [0.5, 1.7])
def test_a_view_of_whole_numbers_is_within_what_is_certified(name: str, change: float) -> None:
    run, rounds = RUNS[name]
    rng = np.random.default_rng(len(name))
    given = rng.uniform(-1, 1, (rounds, run.nodes))
    left = run.view(given)
    for target in range(run.nodes):
        moved = np.zeros_like(given)
        moved[:, target] = change * rng.choice([-1, 1], rounds)
        right = run.view(given + moved)
        noise, _ = run.real_shift(moved)
        mu = (float(np.linalg.norm(noise)) + run.excess(rounds)) / run.deviation
        for epsilon in (0.0, 0.3, 1.0, 2.0, 4.0):
            # What was cut off counts as told.
            cut = 2 - math.fsum(left.values()) - math.fsum(right.values())
            assert true_delta(left, right, epsilon) + cut * math.exp(epsilon) <= delta(mu, epsilon)


def test_twins_that_react_in_any_way_are_within_what_is_certified() -> None:
    """On a complete graph messages may jump with what was received: Δ² = T/3, and nobody's input moves."""

    def jumps(state: Whole) -> Whole:
        return np.where(state > 0, 3, -2) * np.arange(1, state.shape[-1] + 1)

    run = Run([[1, 1, 1]], [[1, 1, 1]] * 3, 4, 1, reach=6, reacts=jumps)
    given, moved = np.zeros((2, 3)), np.zeros((2, 3))
    moved[:, 1] = 1.0
    left, right = run.view(given), run.view(given + moved)
    excess = view_excess(
        [[1, 1, 1]], mixing=[[1, 1, 1]] * 3, denominator=4, rounds=2, dimension=1, lipschitz=None
    )
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        found = true_delta(left, right, epsilon)
        assert 0.7 * delta(math.sqrt(2 / 3), epsilon) < found + 1e-3
        assert found <= delta(math.sqrt(2 / 3) + excess, epsilon)


def program_law(protocol: Protocol, given: NDArray[np.float64], seen: list[int], reach: int = 4) -> Law:
    """The law of all sums that nodes `seen` receive, of a program on whole numbers with noise of deviation 1."""
    program, n, rounds = protocol.programs[0], protocol.n, protocol.rounds
    weights = protocol.schedule[0]
    denominator = math.lcm(*(each.denominator for i in range(n) for each in weights.exact_row(i).values()))
    rows = np.array([[int(weights.exact_row(i).get(j, 0) * denominator) for j in range(n)] for i in range(n)])
    one = np.diff(ndtr(np.arange(-reach, reach + 2) - 0.5))
    paths = np.array(list(itertools.product(range(-reach, reach + 1), repeat=n * rounds))).T
    chance = np.prod(one[paths + reach], axis=0)
    registers = initial_registers(protocol, paths.shape[1])
    shown = []
    for t, x in enumerate(np.rint(given)):
        sources = {
            CONTRIBUTION: np.tile(x[:, None], paths.shape[1]),
            "u": paths[t * n : (t + 1) * n].astype(float),
        }
        place = run_to_exchange(program, registers, sources, 0, rounded=np.rint)
        while place < len(program.instructions):
            step = program.instructions[place]
            assert isinstance(step, Exchange)
            sums = rows @ registers[step.message].astype(np.int64)
            shown.append(sums[seen])
            registers[step.into] = mixed(sums, denominator).astype(float)
            place = run_to_exchange(program, registers, sources, place + 1, rounded=np.rint)
    names, where = np.unique(np.concatenate(shown), axis=1, return_inverse=True)
    chances = np.bincount(where.ravel(), weights=chance)
    return {tuple(name): value for name, value in zip(names.T.tolist(), chances.tolist(), strict=True)}


@pytest.mark.parametrize(
    "spelling",
    [
        "momentum:beta=1/2",
        "repeated:steps=2",
        "chebyshev:steps=2,gamma=4/3",
        "exact-diffusion",
        "gradient-tracking",
    ],
)
@pytest.mark.parametrize("seen", [[0], [0, 1]])
def test_programs_on_whole_numbers_are_within_what_is_certified(spelling: str, seen: list[int]) -> None:
    weights = matrix_weights(np.array([[2, 1], [1, 2]]), ["a", "b"], normalise=True)
    protocol = parse_protocol(spelling, weights, rounds=2)
    assert ported(protocol)
    given = np.array([[0.4, -0.3], [0.2, 0.4]])
    moved = given + np.array([[0.0, 0.8], [0.0, -0.8]])
    left, right = program_law(protocol, given, seen), program_law(protocol, moved, seen)
    mu = 0.8 * math.sqrt(2) + grid_excess([0.0] * 2, hidden=1, dimension=1, lipschitz=0.0)
    cut = 2 - math.fsum(left.values()) - math.fsum(right.values())
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        found = true_delta(left, right, epsilon)
        assert found + cut * math.exp(epsilon) <= delta(mu, epsilon)
    # Whoever sees all sums of a change of whole units learns all that the certified number says, but for its excess.
    if seen == [0, 1]:
        whole = program_law(protocol, np.rint(given) + np.array([[0, 1], [0, -1]]), seen)
        found = true_delta(program_law(protocol, np.rint(given), seen), whole, 0.5)
        assert found > 0.8 * delta(math.sqrt(2), 0.5)


@pytest.mark.parametrize(
    ("spelling", "fails"),
    [
        ("momentum:beta=0.9,noise=message", "beside each contribution"),
        ("gradient-tracking:noise=messages", "beside each contribution"),
        ("gossip:encoder=1+1/2", "beside each contribution"),
        ("gossip:noise_levels=2", "beside each contribution"),
        ("push-sum", "sum to 1"),
    ],
)
def test_programs_without_a_proof_on_whole_numbers_are_refused(spelling: str, fails: str) -> None:
    if spelling == "push-sum":
        protocol = push_sum(np.array([[2, 2], [1, 1]]) / 3, rounds=2)
    else:
        protocol = parse_protocol(spelling, matrix_weights(np.full((2, 2), 0.5), ["a", "b"]), rounds=2)
    with pytest.raises(InputError, match=fails):
        check_ported(protocol)


@pytest.mark.parametrize(
    "spelling", ["momentum:beta=0.9", "chebyshev:steps=3", "exact-diffusion", "gradient-tracking"]
)
def test_no_message_of_a_program_is_beyond_its_reach(spelling: str) -> None:
    protocol = parse_protocol(spelling, matrix_weights(np.full((3, 3), 1 / 3), list("abc")), rounds=8)
    program, rng, fresh = protocol.programs[0], np.random.default_rng(2), 1000
    reach = program_reach(program, rounds=8, fresh=fresh, pull=Fraction(1, 10))
    most = 0.0
    for _ in range(50):
        registers = initial_registers(protocol, 1)
        for _ in range(8):
            # Any weights that sum to 1, and signs that add up where they can.
            own = fresh * rng.choice([-1.0, 1.0], (3, 1)) - 0.1 * registers["model"]
            sources = {CONTRIBUTION: own, "u": np.zeros((3, 1))}
            place = run_to_exchange(program, registers, sources, 0, rounded=np.rint)
            while place < len(program.instructions):
                step = program.instructions[place]
                assert isinstance(step, Exchange)
                most = max(most, float(np.abs(registers[step.message]).max()))
                registers[step.into] = np.rint(rng.dirichlet(np.full(3, 0.1), 3) @ registers[step.message])
                place = run_to_exchange(program, registers, sources, place + 1, rounded=np.rint)
    assert 0.01 * reach < most <= reach


def test_without_the_allowance_a_coarse_grid_tells_more() -> None:
    """x₁ + 5 x₂ shows x₁ modulo 5: the real view would be hidden by the noise of x₂."""
    run, _ = RUNS["unlike weights"]
    moved = np.array([[1.0, 0.0]])
    left, right = run.view(np.zeros((1, 2))), run.view(moved)
    noise, _ = run.real_shift(moved)
    naive = float(np.linalg.norm(noise))
    assert naive == pytest.approx(1 / math.sqrt(26))
    assert true_delta(left, right, 0.5) > 10 * delta(naive, 0.5)


def test_a_finer_grid_tells_hardly_more_than_a_real_view() -> None:
    """Weights 1 and 5 again, the same change in units of noise: what a coarse grid shows is gone."""
    found = []
    for deviation in (1, 4, 16):
        run = Run([[1, 5]], [[0, 0], [0, 0]], 1, deviation)
        moved = np.array([[float(deviation), 0.0]])
        found.append(true_delta(run.view(np.zeros((1, 2))), run.view(moved), 0.1))
    real = delta(1 / math.sqrt(26), 0.1)
    assert found[0] > 5 * real
    assert found[2] == pytest.approx(real, rel=0.01)


def nearest(vector: NDArray[np.float64], basis: NDArray[np.float64]) -> Whole:
    """A lattice point near a vector of its span (Babai's nearest plane)."""
    left, point = vector.copy(), np.zeros(vector.size)
    lengths, _ = np.linalg.qr(basis.T)
    for index in range(len(basis) - 1, -1, -1):
        times = round(float(left @ lengths[:, index]) / float(basis[index] @ lengths[:, index]))
        left, point = left - times * basis[index], point + times * basis[index]
    return np.rint(point).astype(np.int64)


def unseen(run: Run) -> NDArray[np.float64]:
    rows = [[int(entry) for entry in row] for row in run.rows]
    return np.array([vector.astype(float) for vector in grids._kernel(rows, run.nodes)])


@pytest.mark.parametrize("seed", range(12))
def test_the_coupling_of_the_proof_shows_the_same_view_within_its_budget(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, rounds = int(rng.integers(2, 6)), int(rng.integers(1, 12))
    mixing = rng.integers(0, 5, (nodes, nodes))
    denominator = int(mixing.sum(axis=1).max()) + int(rng.integers(0, 3)) or 1
    rows = [[int(entry) for entry in rng.integers(1, 9, nodes)]]
    run = Run.__new__(Run)
    run.rows, run.mixing, run.denominator, run.nodes = np.array(rows), mixing, denominator, nodes
    given, moved = rng.normal(0, 3, (rounds, nodes)), np.zeros((rounds, nodes))
    moved[:, 0] = rng.normal(0, 3, rounds)
    shift, states = run.real_shift(moved)
    basis = unseen(run)
    noise = rounded_gaussian(rounds * nodes, deviation=3).reshape(rounds, nodes)
    sent = other = np.zeros(nodes, dtype=np.int64)
    spent = 0.0
    for t in range(rounds):
        before = mixed(mixing @ sent, denominator) + np.rint(given[t]).astype(np.int64)
        moving = mixed(mixing @ other, denominator) + np.rint(given[t] + moved[t]).astype(np.int64)
        sent = before + noise[t]
        other = sent + nearest(states[t], basis)
        changed = other - moving - noise[t]
        spent += float(changed @ changed)
        assert np.array_equal(run.rows @ sent, run.rows @ other)
    assert math.sqrt(spent) <= float(np.linalg.norm(shift)) + run.excess(rounds)


@pytest.mark.parametrize("lipschitz", [1.0, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_training_is_within_its_budget_on_the_grid(seed: int, lipschitz: float) -> None:
    """The coupling of Corollary 2 of training, memory of one round, carried out with bent maps on whole numbers."""
    rng = np.random.default_rng(seed)
    rounds, change, scale = 15, 30.0, 12.0
    rows, mixing, denominator = (
        [[2, 1, 0, 1]],
        np.array([[4, 2, 0, 2], [2, 5, 3, 0], [0, 3, 5, 2], [2, 0, 2, 5]]),
        10,
    )
    basis = np.array([vector.astype(float) for vector in grids._kernel(rows, 4)])
    bend = rng.uniform(0, 6, 4)

    def map_of(held: Whole) -> NDArray[np.float64]:
        """No difference of inputs is stretched by more than `lipschitz`."""
        swing = lipschitz - 0.5
        return 0.5 * held + swing * scale * np.sin(held / scale + bend)

    row = np.array(rows[0])
    unit = np.array([1.0, 0, 0, 0])
    along = unit - row * (row @ unit) / (row @ row)
    budget = change * math.sqrt(
        rounds * ((np.abs(unit - along) + lipschitz * np.abs(mixing @ along) / denominator) ** 2).sum()
    )
    sent = other = np.zeros(4, dtype=np.int64)
    spent = 0.0
    for _ in range(rounds):
        held, moving = mixed(mixing @ sent, denominator), mixed(mixing @ other, denominator)
        delta_t = change * rng.choice([-1, 1]) * unit
        noise = rounded_gaussian(4, deviation=25)
        sent = np.rint(map_of(held)).astype(np.int64) + noise
        changed = (
            sent
            + nearest(along * delta_t[0], basis)
            - np.rint(map_of(moving) + delta_t).astype(np.int64)
            - noise
        )
        other = sent + nearest(along * delta_t[0], basis)
        spent += float(changed @ changed)
        assert not np.any(row @ (other - sent))
    excess = view_excess(
        rows, mixing=mixing.tolist(), denominator=denominator, rounds=rounds, dimension=1, lipschitz=lipschitz
    )
    assert math.sqrt(spent) <= budget + excess


@pytest.mark.parametrize("seed", range(4))
def test_twins_hide_each_other_whatever_they_compute(seed: int) -> None:
    """On a complete graph nobody's input moves, so messages may be any function of them, rounded however."""
    rng = np.random.default_rng(seed)
    nodes, rounds, dimension, change = 4, 6, 3, 40.0
    radius = covering_radius([[1] * nodes], nodes=nodes)
    basis = np.array([vector.astype(float) for vector in grids._kernel([[1] * nodes], nodes)])
    seen = np.zeros(dimension, dtype=np.int64)
    spent = 0.0
    for _ in range(rounds):
        state = mixed(seen, nodes + 1)
        gradients = np.rint(30 * np.sign(np.sin(state + np.arange(nodes)[:, None]))).astype(np.int64)
        other = gradients.copy()
        direction = rng.normal(size=dimension)
        other[0] += np.rint(change * direction / np.linalg.norm(direction)).astype(np.int64)
        noise = rounded_gaussian(nodes * dimension, deviation=50).reshape(nodes, dimension)
        wanted = (other - gradients).astype(float)
        wanted -= wanted.mean(axis=0)
        move = np.array([nearest(column, basis) for column in wanted.T]).T
        changed = gradients + move - other
        spent += float((changed**2).sum())
        seen = (state + gradients + noise).sum(axis=0)
        assert np.array_equal(seen, (state + other + noise + changed).sum(axis=0))
    excess = grid_excess([radius] * rounds, hidden=1, dimension=dimension, lipschitz=0)
    assert math.sqrt(spent) <= change * math.sqrt(rounds / nodes) + excess


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 1, 1]],
        [[1, 2, 4]],
        [[6, 10, 15]],
        [[3, 3, 0, 5]],
        [[1, 2, 3, 4], [4, 3, 2, 1]],
        [[0, 0, 0]],
        [[7, 1000]],
    ],
)
def test_no_point_is_farther_from_the_lattice_than_the_radius(rows: list[list[int]]) -> None:
    nodes = len(rows[0])
    radius = covering_radius(rows, nodes=nodes)
    basis = np.array([vector.astype(float) for vector in grids._kernel(rows, nodes)])
    assert not np.any(np.array(rows) @ basis.T)
    assert np.linalg.matrix_rank(basis) == nodes - np.linalg.matrix_rank(np.array(rows))
    # A basis of all whole vectors in the kernel, not of a part of them: none in a small box is left out.
    for point in itertools.product(range(-3, 4), repeat=nodes):
        if not np.any(np.array(rows) @ np.array(point)):
            times = np.linalg.lstsq(basis.T, np.array(point, dtype=float), rcond=None)[0]
            assert np.allclose(times, np.rint(times), atol=1e-9)
    rng = np.random.default_rng(0)
    far = [basis.T @ rng.uniform(-3, 3, len(basis)) for _ in range(300)]
    assert max(float(np.linalg.norm(point - nearest(point, basis))) for point in far) <= radius


def test_mixing_rounds_to_the_nearest_exactly() -> None:
    totals = np.array([2**62, 2**62 + 1, -(2**62) - 1, -5, -4, -3, 0, 3, 4, 5], dtype=np.int64)
    for denominator in (1, 2, 3, 8, 999_983):
        found = mixed(totals, denominator).tolist()
        for total, value in zip(totals.tolist(), found, strict=True):
            assert value == math.floor(Fraction(total, denominator) + Fraction(1, 2))


@pytest.mark.parametrize(
    ("dimension", "rounds", "weight_total"), [(10, 20, 8), (10**6, 1000, 8), (10**7, 100, 2**12)]
)
def test_the_finest_grid_fits_and_costs_less_than_a_hundredth(
    dimension: int, rounds: int, weight_total: int
) -> None:
    run = Messages(rounds=rounds, clip=1.0, noise_std=8.0)
    # A node among seven others that are seen in sum alone: the least sensitive view there is here.
    seen: dict[str, Any] = {"sensitivity": math.sqrt(rounds / 7)}
    excess = view_excess([[1] * 7], mixing=[[1] * 7] * 7, denominator=8, rounds=rounds, dimension=dimension)
    grid = chosen_grid(run, **seen, excess=excess, weight_total=weight_total)
    largest = largest_value(run, grid)
    assert largest < 2**53
    assert weight_total * largest < 2**63
    assert grid.unit * excess < 1e-4 * seen["sensitivity"]
    finer = largest_value(run, Grid(exponent=grid.exponent + 1))
    assert finer >= 2**53 or weight_total * finer >= 2**63
    with pytest.raises(NotCertified, match="costs more than"):
        chosen_grid(run, **seen, excess=excess, weight_total=weight_total, cost=1e-14)
    with pytest.raises(NotCertified, match="no grid holds it"):
        chosen_grid(run, **seen, excess=excess, weight_total=2**60)


def test_the_bound_on_messages_holds_for_the_largest_noise_that_counts() -> None:
    grid, rounds, nodes = Grid(exponent=4), 30, 3
    largest = largest_value(Messages(rounds=rounds, clip=2.0, noise_std=1.5), grid)
    sent = np.zeros(nodes, dtype=np.int64)
    for _ in range(rounds):
        sent = (
            mixed(np.full(nodes, sent.sum()), nodes) + grid.whole(np.array([2.0])) + 40 * grid.deviation(1.5)
        )
    assert 0.9 * largest < sent.max() <= largest


def test_rounding_alone_is_allowed_for() -> None:
    """0.49 and 0.51 are 0 and 1 on the grid: a change of 0.02 is seen as one of 1."""
    run = Run([[1]], [[0]], 1, 1)
    moved = np.array([[0.02]])
    left, right = run.view(np.array([[0.49]])), run.view(np.array([[0.49]]) + moved)
    assert true_delta(left, right, 0.5) > delta(0.02, 0.5) + 0.1
    assert true_delta(left, right, 0.5) <= delta(0.02 + run.excess(1), 0.5)


def test_an_excess_serves_whatever_proof_a_sensitivity_has() -> None:
    rows, mixing = [[1, 2, 1]], [[2, 1, 0], [1, 2, 1], [0, 1, 2]]
    run: dict[str, Any] = {"mixing": mixing, "denominator": 5, "rounds": 9, "dimension": 4}
    anything = view_excess(rows, **run, lipschitz=None)
    # Nothing is unseen by all, so that only the rounding of the target counts.
    assert anything == pytest.approx(math.sqrt(9 * 4))
    one, two = (view_excess(rows, **run, lipschitz=bound) for bound in (1.0, 2.0))
    assert anything < one < two
    radius = covering_radius(rows, nodes=3)
    by_hand = math.sqrt(4) * math.hypot(radius + 2 * math.sqrt(3), *([radius * 1.8 + 2 * math.sqrt(3)] * 8))
    assert one == pytest.approx(by_hand)


def test_values_on_a_grid() -> None:
    grid = Grid(exponent=10)
    assert grid.deviation(1.0) == 1024
    assert grid.deviation(1.00001) == 1025
    whole = grid.whole(np.array([1.0, -0.3, 2**-11]))
    assert whole.tolist() == [1024, -307, 0]
    assert grid.real(whole, 4).tolist() == [0.25, -307 / 4096, 0.0]
    assert grid.units(np.array([-0.75])).tolist() == [-768]
    with pytest.raises(InputError, match="multiples of 2\\^-10"):
        grid.units(np.array([-0.75, 0.3]))
    assert grid.units(grid.noise(100, noise_std=0.01)).any()
    for bad in (np.array([math.nan]), np.array([math.inf]), np.array([2.0**60])):
        with pytest.raises(InputError, match="coarser grid"):
            grid.whole(bad)
    with pytest.raises(InputError, match="2\\^48 units"):
        Grid(exponent=48).deviation(1.5)
    with pytest.raises(InputError, match="one whole number a node, 3"):
        covering_radius([[1, 2]], nodes=3)
