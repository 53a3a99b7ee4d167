"""Random families: simple graphs with the right counts, the same for the same seed."""

from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs import generate_graph, random_families
from sottovoce.graphs.random_families import erdos_renyi, preferential, random_regular, small_world

DRAWS = {
    "erdos-renyi": lambda seed: erdos_renyi(60, 0.1, seed),
    "preferential": lambda seed: preferential(60, 5, 3, seed),
    "random-regular": lambda seed: random_regular(60, 5, seed),
    "small-world": lambda seed: small_world(60, 4, 0.3, seed),
}


@pytest.mark.parametrize("family", DRAWS)
def test_draws_are_simple_and_follow_their_seed(family: str) -> None:
    first, again, other = (DRAWS[family](seed).adjacency for seed in (1, 1, 2))
    assert (first.data == 1).all()
    assert not first.diagonal().any()
    assert (first != again).nnz == 0
    assert (first != other).nnz > 0


@pytest.mark.parametrize("family", DRAWS)
def test_the_seed_left_out_is_zero(family: str) -> None:
    spec = {
        "erdos-renyi": "p=0.1",
        "preferential": "core=5,links=3",
        "random-regular": "d=5",
        "small-world": "k=4,p=0.3",
    }
    graph = generate_graph(f"{family}:n=60,{spec[family]}")
    assert (graph.adjacency != DRAWS[family](0).adjacency).nnz == 0


@pytest.mark.parametrize(
    ("family", "edges"),
    [
        ("erdos-renyi", [(0, 5), (0, 19), (0, 24), (0, 38)]),
        ("preferential", [(0, 1), (0, 2), (0, 3), (0, 4)]),
        ("random-regular", [(0, 8), (0, 16), (0, 31), (0, 32)]),
        ("small-world", [(0, 1), (0, 24), (0, 58), (0, 59)]),
    ],
)
def test_a_specification_names_the_same_graph_for_ever(family: str, edges: Any) -> None:
    upper = scipy.sparse.triu(DRAWS[family](1).adjacency).tocoo()
    pairs = sorted(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    assert pairs[:4] == edges


@pytest.mark.parametrize(
    ("n", "p"), [(2, 1.0), (50, 1.0), (50, 0.0), (400, 0.5), (3000, 0.001), (50, 1e-300)]
)
def test_erdos_renyi_has_the_expected_number_of_edges(n: int, p: float) -> None:
    pairs = n * (n - 1) / 2
    deviation = np.sqrt(pairs * p * (1 - p))
    counts = [erdos_renyi(n, p, seed).edges for seed in range(5)]
    assert np.abs(np.array(counts) - pairs * p).max() <= 4.5 * deviation + 1e-9


def test_erdos_renyi_joins_every_pair_equally_often() -> None:
    total = sum(erdos_renyi(6, 0.3, seed).adjacency.toarray() for seed in range(2000))
    pairs = total[np.triu_indices(6, k=1)]
    assert np.abs(pairs / 2000 - 0.3).max() <= 4.5 * np.sqrt(0.3 * 0.7 / 2000)


def test_pair_numbers_are_exact_far_out() -> None:
    codes = np.array([0, 1, 2, 3, 5 * 10**13 - 1, 5 * 10**13, 12_499_997_499_999, 12_499_997_500_000])
    i, j = random_families._pair_of(codes)
    assert (i >= 0).all()
    assert (i < j).all()
    assert (j * (j - 1) // 2 + i == codes).all()


@pytest.mark.parametrize(
    ("n", "core", "links"), [(2, 2, 1), (5, 5, 3), (200, 5, 3), (300, 4, 4), (300, 2, 1)]
)
def test_preferential_attachment_counts(n: int, core: int, links: int) -> None:
    graph = preferential(n, core, links, 3)
    assert graph.edges == core * (core - 1) // 2 + (n - core) * links
    assert graph.adjacency.toarray()[:core, :core].sum() == core * (core - 1)
    later = np.tril(graph.adjacency.toarray(), k=-1)[core:]
    assert (later.sum(axis=1) == links).all()


def test_preferential_attachment_follows_degrees() -> None:
    # Core 0–1–2 complete, node 3 joins one of them: then degrees are 3, 2, 2, 1 of a sum of 8.
    hits = np.zeros(4)
    draws = 3000
    for seed in range(draws):
        A = preferential(5, 3, 1, seed).adjacency.toarray()
        joined, target = np.argmax(A[3, :3]), np.argmax(A[4, :4])
        hits[0] += target == joined
        hits[3] += target == 3
    assert abs(hits[0] / draws - 3 / 8) <= 4.5 * np.sqrt(3 / 8 * 5 / 8 / draws)
    assert abs(hits[3] / draws - 1 / 8) <= 4.5 * np.sqrt(1 / 8 * 7 / 8 / draws)


@pytest.mark.parametrize(
    ("n", "d"),
    [
        (2, 1),
        (4, 1),
        (5, 2),
        (3, 2),
        (6, 3),
        (6, 4),
        (6, 5),
        (10, 9),
        (40, 19),
        (41, 20),
        (40, 30),
        (200, 99),
        (5000, 8),
    ],
)
def test_random_regular_graphs_are_regular_and_simple(n: int, d: int) -> None:
    for seed in range(5):
        graph = random_regular(n, d, seed)
        assert (graph.degrees == d).all()
        assert graph.edges == n * d // 2
        assert not graph.adjacency.diagonal().any()


def test_random_regular_gives_up_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_families, "_switch_to_simple", lambda *_: False)
    with pytest.raises(
        GraphError, match=r"random-regular: no simple graph .* n=6, d=2, seed=1 .*\(take another seed"
    ):
        random_regular(6, 2, 1)


@pytest.mark.parametrize(
    ("n", "k", "p"), [(20, 4, 0.0), (20, 4, 0.5), (200, 6, 1.0), (7, 6, 1.0), (6, 4, 1.0), (3, 2, 0.5)]
)
def test_small_worlds_keep_their_edges_and_connect(n: int, k: int, p: float) -> None:
    graph = small_world(n, k, p, 5)
    assert graph.edges == n * k // 2
    assert scipy.sparse.csgraph.connected_components(graph.adjacency)[0] == 1


def test_small_worlds_rewire_about_a_share_p() -> None:
    lattice = small_world(2000, 6, 0.0, 1).adjacency
    kept = small_world(2000, 6, 0.25, 1).adjacency.multiply(lattice).sum() / lattice.sum()
    assert kept == pytest.approx(0.75, abs=0.03)


def test_small_worlds_that_never_connect_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_families, "_ATTEMPTS", 1)
    with pytest.raises(
        GraphError, match=r"no connected graph .* n=3000, k=2, p=1.0, seed=6 in 1 .*\(take a larger k"
    ):
        small_world(3000, 2, 1.0, 6)
