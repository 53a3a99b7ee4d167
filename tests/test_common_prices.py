# SPDX-License-Identifier: Apache-2.0
"""Prices that hold for many coalitions at once: pieces against the definition, allowances against rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from sottovoce import graphs
from sottovoce.coalitions import common_prices as room
from sottovoce.coalitions import heard_rows, verbs, worst_coalition
from sottovoce.coalitions.common_prices import CommonPrices
from sottovoce.coalitions.echoes import Echoes
from sottovoce.coalitions.heard_rows import responses
from sottovoce.protocols import gossip

NETWORKS = [
    ("ring:n=7", 5),
    ("path:n=6", 4),
    ("grid:rows=2,cols=4", 4),
    ("erdos-renyi:n=9,p=0.4,seed=3", 5),
    ("preferential:n=8,core=3,links=2,seed=1", 3),
]


def never() -> None:
    """A tick that nobody waits for."""


def answers(matrix: np.ndarray, rounds: int) -> np.ndarray:
    """H by the definition: (n, T, n, T), how sums that are received answer all noise."""
    n = len(matrix)
    H = np.zeros((n, rounds, n, rounds))
    for t in range(rounds):
        for s in range(t + 1):
            H[:, t, :, s] = np.linalg.matrix_power(matrix, t - s + 1)
    return H


def defined(matrix: np.ndarray, members: tuple[int, ...], target: int, rounds: int) -> np.ndarray:
    """M of a coalition that sees sums, by the definition."""
    H = answers(matrix, rounds)[list(members)]
    noise = np.delete(H, list(members), axis=2).reshape(len(members) * rounds, -1)
    signal = H[:, :, target].reshape(-1, rounds)
    return np.asarray(signal.T @ np.linalg.pinv(noise @ noise.T, rcond=1e-11) @ signal)


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_all_pieces_of_a_coalition_add_up_to_what_is_to_be_proved(size: int, told: bool) -> None:
    weights = graphs.metropolis_weights("erdos-renyi:n=9,p=0.5,seed=3")
    found = responses(weights, 2, [0, 1, 3, 4, 5, 7, 8], 3, told=told)
    assert found is not None
    y = np.array([0.7, 1.3, 0.9])
    whole = CommonPrices(found, y, size)
    members = (0, 2, 3, 5, 6)[:size]
    rows = [*members, *[found.count] * told]
    D = np.ones(found.rows.shape[2:])
    D[found.count] -= 1 / y
    D[list(members)] = 0
    flat = found.rows[rows].reshape(len(rows) * 3, -1)
    expected = (flat * D.ravel()) @ flat.T
    for m in range(min(3, size), size + 1):
        total = np.zeros((len(rows), 3, len(rows), 3))
        for chosen in itertools.combinations(range(size), m):
            places = [*chosen, *[size] * told]
            piece = whole._written_out(np.array([[members[i] for i in chosen]]))[0]
            total[np.ix_(places, range(3), places, range(3))] += piece.reshape(m + told, 3, m + told, 3)
        assert np.abs(total.reshape(expected.shape) - expected).max() < 1e-10


@cache
def tops_of(source: str, rounds: int, size: int) -> dict[tuple[int, ...], float]:
    """The largest eigenvalue of M of node 1, by definition, for each coalition of a size."""
    weights = graphs.metropolis_weights(source)
    matrix, target = weights.matrix.toarray(), 1
    candidates = [node for node in range(weights.n) if node != target]
    return {
        places: float(
            np.linalg.eigvalsh(defined(matrix, tuple(candidates[place] for place in places), target, rounds))[
                -1
            ]
        )
        for places in itertools.combinations(range(len(candidates)), size)
    }


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("source", "rounds"), NETWORKS)
def test_a_coalition_that_is_not_named_keeps_the_prices(
    source: str, rounds: int, size: int, told: bool
) -> None:
    """And one that keeps them, told the mean of all sums or not, is not named unless that tells all noise."""
    weights = graphs.metropolis_weights(source)
    target = 1
    candidates = [node for node in range(weights.n) if node != target]
    found = responses(weights, target, candidates, rounds, told=told)
    assert found is not None
    tops = tops_of(source, rounds, size)
    spared = 0
    for share in (0.05, 0.2, 0.5, 0.8, 0.95, 1.001):
        y = np.full(rounds, share)
        named = CommonPrices(found, y, size).beyond(never)
        assert named is not None
        for places, top in tops.items():
            if places in named:
                seen = np.delete(found.rows[[*places, *[found.count] * told]], places, axis=2)
                noise = seen.reshape((size + told) * rounds, -1)
                bare = np.linalg.eigvalsh(noise @ noise.T)[0] < 1e-6
                assert bare or np.linalg.eigvalsh(found.form(places))[-1] > share * (1 - 1e-6)
            else:
                assert top <= share * (1 + 1e-9)
                spared += 1
    assert spared > 0 or size > 2


@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.02, 1.2), st.booleans(), st.booleans())
def test_nobody_who_exceeds_random_prices_passes(
    seed: int, size: int, share: float, told: bool, whole: bool
) -> None:
    rng = np.random.default_rng(seed)
    n, rounds = int(rng.integers(4, 8)), int(rng.integers(1, 5))
    matrix = rng.random((n, n)) ** 3 * (rng.random((n, n)) < 0.7) + np.eye(n) * 0.1 + np.eye(n, k=1) * 0.1
    matrix[-1, 0] += 0.1
    weights = graphs.matrix_weights(matrix / matrix.sum(axis=1, keepdims=True), normalise=True)
    candidates = list(range(1, n))
    size = min(size, n - 1)
    found = responses(weights, 0, candidates, rounds, told=told)
    if found is None:
        return
    y = share * (0.5 + rng.random(rounds))
    all_of_them = list(itertools.combinations(range(n - 1), size))
    named = CommonPrices(found, y, size).beyond(never, all_of_them if whole else None)
    assert named is not None
    for places in set(all_of_them) - set(named):
        members = tuple(candidates[place] for place in places)
        form = defined(weights.matrix.toarray(), members, 0, rounds)
        assert np.linalg.eigvalsh(np.diag(y) - form)[0] >= -1e-7 * max(1, np.abs(form).max())


def rational(value: Any) -> fmpq:
    """A number as the rational that it is."""
    return fmpq(*Fraction(value).as_integer_ratio())


exactly = np.vectorize(rational, otypes=[object])


def exact_rows(weights: Any, order: list[int], C: np.ndarray, B: np.ndarray, own: int | None) -> np.ndarray:
    """C(H_a − B H₀) in rationals, or C H₀ where no node is named, H₀ the sum of all; columns in this order."""
    n, rounds = weights.n, len(C)
    rows = [weights.exact_row(i) for i in order]
    W = np.array([[rational(row.get(j, 0)) for j in order] for row in rows])
    H = np.full((n, rounds, n, rounds), fmpq(0))
    for t, s in itertools.combinations_with_replacement(range(rounds), 2):
        power = W
        for _ in range(s - t):
            power = power @ W
        H[:, s, :, t] = power
    every = H.sum(axis=0)
    shown = (every if own is None else H[own]).reshape(rounds, -1)
    if own is not None:
        shown = shown - exactly(B) @ every.reshape(rounds, -1)
    return np.asarray(exactly(C) @ shown)


def rows_and_truth(
    source: str, rounds: int, target: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, list[np.ndarray], list[float]]:
    """Responses to a target, the same rows in rationals, and how far each is off."""
    weights = graphs.metropolis_weights(source)
    made: dict[str, list[np.ndarray]] = {"_whitener": [], "_regression": []}

    def keep(name: str) -> None:
        original = getattr(heard_rows, name)

        def kept(*given: np.ndarray) -> np.ndarray:
            made[name].append(original(*given))
            return made[name][-1]

        monkeypatch.setattr(heard_rows, name, kept)

    for name in made:
        keep(name)
    # Whoever comes first is told first: nodes are relabelled.
    candidates = [node for node in reversed(range(weights.n)) if node != target]
    found = responses(weights, target, candidates, rounds)
    assert found is not None
    order = [*candidates, target]
    C0, *whiteners = made["_whitener"]
    true = [
        exact_rows(weights, order, C, B, a)
        for a, (C, B) in enumerate(zip(whiteners, made["_regression"], strict=True))
    ]
    true.append(exact_rows(weights, order, C0, C0, None))
    stored = exactly(found.rows.reshape(len(true), rounds, -1))
    errors = [float(np.linalg.norm((x - s).astype(float))) for x, s in zip(true, stored, strict=True)]
    return found, true, errors


def test_rows_that_all_but_vanish_are_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A centre's sums are all but those of everybody: what is left of them is rounding, scaled up to 1."""
    found, _, errors = rows_and_truth("star:n=6", 2, 2, monkeypatch)
    assert 1e-12 < max(errors) <= found.off


@pytest.mark.parametrize("price", [0.75, 0.1])
@pytest.mark.parametrize(
    ("source", "rounds", "target"),
    [
        ("ring:n=5", 3, 0),
        ("erdos-renyi:n=7,p=0.5,seed=1", 3, 0),
        ("erdos-renyi:n=7,p=0.5,seed=3", 3, 4),
        ("star:n=6", 3, 0),
    ],
)
def test_allowances_cover_rationals_and_are_not_a_thousand_times_too_large(
    source: str, rounds: int, target: int, price: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, true, errors = rows_and_truth(source, rounds, target, monkeypatch)
    weights, count = graphs.metropolis_weights(source), found.count
    assert found.off / 10 < max(errors) <= found.off

    y = np.full(rounds, price)
    whole = CommonPrices(found, y, 3)
    kappa, whole.kappa = whole.kappa, 0.0
    monkeypatch.setattr(room, "definiteness_margin", lambda _, sizes: 0 * sizes)
    worst = 0.0
    for members in itertools.combinations(range(count), 3):
        D = np.full((weights.n, rounds), fmpq(1))
        D[count] -= 1 / rational(price)
        D[list(members)] = fmpq(0)
        rows = np.concatenate([true[a] for a in (*members, count)])
        computed = exactly(whole._written_out(np.array([members]))[0])
        error = (computed - (rows * D.ravel()) @ rows.T).astype(float)
        worst = max(worst, float(np.linalg.norm(error, 2)))
    assert kappa / 1000 < worst <= kappa


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 1)])
def test_what_is_no_number_proves_nothing(
    wrong: float, place: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = np.stack([2 * np.eye(2), 2 * np.eye(2)])
    matrix[1][place] = matrix[1][place[::-1]] = wrong
    assert room._have_pivots(matrix).tolist() == [True, False]
    found = responses(graphs.metropolis_weights("ring:n=5"), 0, [1, 2, 3, 4], 2)
    assert found is not None
    prices = CommonPrices(found, np.ones(2), 1)
    monkeypatch.setattr(prices, "_written_out", lambda *_: matrix)
    assert prices._proved_by_factors(np.array([[0], [1]])).tolist() == [True, False]


def leafy(seed: int) -> Any:
    """A random tree of twelve nodes, in which leaves hear what others hear, and one link more now and then."""
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(0, max(1, child // 2))), child) for child in range(1, 12)]
    edges += [(3, 7)] if seed % 2 else []
    return graphs.metropolis_weights(nx.Graph(sorted(edges)))


@pytest.mark.parametrize("seed", range(6))
def test_what_members_are_told_twice_changes_nothing_and_hides_nobody(seed: int) -> None:
    """Leaves of one node hear the same, and a leaf of a member hears what is known: such coalitions are settled too."""
    weights, rounds = leafy(seed), 4
    matrix, target = weights.matrix.toarray(), 0
    candidates = list(range(1, 12))
    found = responses(weights, target, candidates, rounds, told=False)
    assert found is not None
    who = Echoes(found.weights)
    echoed = settled = 0
    for share in (0.3, 0.7, 0.99):
        named = CommonPrices(found, np.full(rounds, share), 3).beyond(never)
        assert named is not None
        for places in itertools.combinations(range(11), 3):
            kept, echoes = who.last(places)
            members = tuple(candidates[place] for place in places)
            form = defined(matrix, members, target, rounds)
            if echoes:
                echoed += 1
                settled += places not in named
                heard = answers(matrix, rounds)[[candidates[place] for place in kept]]
                noise = np.delete(heard, members, axis=2).reshape(len(kept) * rounds, -1)
                signal = heard[:, :, target].reshape(-1, rounds)
                without = signal.T @ np.linalg.pinv(noise @ noise.T, rcond=1e-11) @ signal
                assert np.allclose(form, without, atol=1e-6)
            if places not in named:
                assert np.linalg.eigvalsh(form)[-1] <= share * (1 + 1e-7)
    assert echoed > 0
    assert settled > 0


def test_rows_that_are_nearly_proportional_are_not_told_twice() -> None:
    half, tiny = Fraction(1, 2), Fraction(1, 10**20)
    assert Echoes([{0: half, 3: half}, {1: half - tiny, 3: half + tiny}]).last([0, 1]) == ([0], [1])
    assert Echoes([{3: half, 4: half}, {3: half - tiny, 4: half + tiny}]).last([0, 1]) == ([0, 1], [])
    assert Echoes([{3: half, 4: half}, {3: Fraction(1)}]).last([0, 1]) == ([0, 1], [])
    assert Echoes([{0: Fraction(1)}, {0: half, 1: half}]).last([0, 1]) == ([], [0, 1])


def test_the_worst_three_around_a_hub_with_leaves_are_proved() -> None:
    """Of a tree of 40 nodes: without the mean of all sums, and with rows that are told twice left out."""
    rng = np.random.default_rng(5)
    edges = [
        *((0, leaf) for leaf in range(1, 7)),
        *((int(rng.integers(6, node)), node) for node in range(7, 40)),
    ]
    protocol = gossip(graphs.metropolis_weights(nx.Graph(sorted(edges))), rounds=10)
    search = worst_coalition(protocol, 0, size=3)
    assert search.exact
    assert search.evaluated < 400


def test_long_horizons_are_factored_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = responses(graphs.metropolis_weights("erdos-renyi:n=9,p=0.5,seed=1"), 0, list(range(1, 9)), 12)
    assert found is not None
    expected = CommonPrices(found, np.full(12, 0.2), 3).beyond(never)
    sizes: list[int] = []
    original = CommonPrices._written_out

    def watched(self: CommonPrices, some: np.ndarray, heard: int | None = None) -> np.ndarray:
        whole = original(self, some, heard)
        sizes.append(whole.size)
        return whole

    monkeypatch.setattr(CommonPrices, "_written_out", watched)
    monkeypatch.setattr(room, "FACTORED_AT_ONCE", 3 * (4 * 12) ** 2)
    assert CommonPrices(found, np.full(12, 0.2), 3).beyond(never) == expected
    assert max(sizes) == 3 * (4 * 12) ** 2


def test_thousands_of_coalitions_of_a_dense_network_are_settled() -> None:
    """Of the sums of four of 30 nodes, which no union of many rules out."""
    protocol = gossip(graphs.metropolis_weights("erdos-renyi:n=30,p=0.33,seed=1"), rounds=4)
    search = worst_coalition(protocol, 0, size=4)
    assert search.exact
    assert search.coalitions == 23_751
    assert search.evaluated < 500


def test_where_pieces_are_too_many_unions_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = gossip(graphs.metropolis_weights("erdos-renyi:n=9,p=0.4,seed=2"), rounds=4)
    expected = worst_coalition(protocol, 0, size=3)
    for module, name in ((room, "MOST_PIECES"), (heard_rows, "MOST_NUMBERS")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 5)
            found = worst_coalition(protocol, 0, size=3)
        assert found.exact
        assert found.sensitivity.upper == pytest.approx(expected.sensitivity.upper, rel=1e-3)


def test_a_few_coalitions_of_many_rounds_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All prices of 100 rounds would take longer than five observers do, and so few need none at all."""
    asked: list[int] = []

    def counted(*given: Any, told: bool) -> Any:
        asked.append(given[3])
        return responses(*given, told=told)

    monkeypatch.setattr(verbs, "responses", counted)
    for few in (0, verbs.FEW_LEFT):
        monkeypatch.setattr(verbs, "FEW_LEFT", few)
        for rounds in (4, 100):
            found = worst_coalition(gossip(graphs.metropolis_weights("ring:n=6"), rounds=rounds), 0, size=1)
            assert found.exact
    assert set(asked) == {4}
    assert len(asked) == 2


def test_prices_are_those_of_the_patterns_that_are_allowed() -> None:
    protocol = gossip(graphs.metropolis_weights("erdos-renyi:n=9,p=0.4,seed=2"), rounds=6)
    for participation in ("at-most:2", "every:3", "separated:2", "fixed:1,4"):
        found = worst_coalition(protocol, 0, size=2, participation=participation)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verbs, "_screen", lambda *_: None)
            expected = worst_coalition(protocol, 0, size=2, participation=participation)
        assert found.exact
        assert found.sensitivity.upper == pytest.approx(expected.sensitivity.upper, rel=1e-3)


def test_a_screen_stops_when_time_is_up() -> None:
    """Whatever it is at: rows, blocks, norms or pieces."""
    weights = graphs.metropolis_weights("erdos-renyi:n=9,p=0.5,seed=1")

    class UpError(Exception):
        pass

    def after(count: int) -> Any:
        left = itertools.count(count, -1)

        def tick() -> None:
            if next(left) == 0:
                raise UpError

        return tick

    def whole(tick: Any) -> Any:
        found = responses(weights, 0, list(range(1, 9)), 4, tick)
        assert found is not None
        return CommonPrices(found, np.full(4, 0.3), 3, tick).beyond(tick)

    for count in range(8 + 8 + 9 + 9 + 2):
        with pytest.raises(UpError):
            whole(after(count))
    assert whole(after(1000)) == whole(never)


def test_an_interrupt_inside_the_screen_proves_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by then is kept, and the bound is the one of before."""
    protocol = gossip(graphs.metropolis_weights("erdos-renyi:n=12,p=0.3,seed=2"), rounds=4)
    whole = worst_coalition(protocol, 0, size=3)

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    for step in ("_compare", "_failed", "_proved_by_factors"):
        with monkeypatch.context() as patch:
            patch.setattr(CommonPrices, step, interrupted)
            part = worst_coalition(protocol, 0, size=3)
        assert part.stopped == "interrupted"
        assert part.upper_bound == 4
        assert part.sensitivity.lower <= whole.sensitivity.upper <= part.upper_bound


class Told:
    """Weights as rationals, and nothing else that rows ask for."""

    def __init__(self, rows: list[list[Fraction]]) -> None:
        self.rows, self.n = rows, len(rows)

    def exact_row(self, i: int) -> dict[int, Fraction]:
        return {j: weight for j, weight in enumerate(self.rows[i]) if weight}


def test_what_two_floats_alone_tell_apart_is_not_proved_away() -> None:
    """Sums that differ in the 60th bit tell two members the target's message: M = 1, which floats would not see."""
    n, tiny, target = 16, Fraction(1, 2**60), 2
    rows = [[Fraction(1, n)] * n for _ in range(n)]
    for i, j, share in ((0, target, 1), (1, target, -2), *((i, (i + 1) % n, 1) for i in range(3, n))):
        rows[i][j] += share * tiny
        rows[i][i] -= share * tiny
    weights: Any = Told(rows)
    candidates = [node for node in range(n) if node != target]
    found = responses(weights, target, candidates, 1)
    assert found is not None
    for price in (0.3, 0.9, 0.99):
        left = CommonPrices(found, np.array([price]), 2).beyond(never)
        assert left is None or (0, 1) in left
