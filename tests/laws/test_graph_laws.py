"""Laws of graphs and weights: renaming or reordering nodes reorders the answer and changes nothing else."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce.graphs import (
    as_graph,
    laplacian_weights,
    lazy_weights,
    maximum_degree_weights,
    metropolis_weights,
    spectrum,
    uniform_weights,
)

RULES = [
    metropolis_weights,
    lazy_weights,
    maximum_degree_weights,
    uniform_weights,
    lambda graph: laplacian_weights(graph, 1 / 32),
]


@st.composite
def connected_graphs(draw: Any) -> Any:
    n = draw(st.integers(min_value=2, max_value=12))
    parents = [draw(st.integers(min_value=0, max_value=k - 1)) for k in range(1, n)]
    extra = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=2 * n))
    graph = nx.empty_graph(n)
    graph.add_edges_from(enumerate(parents, start=1))
    graph.add_edges_from(extra)
    return graph


@pytest.mark.parametrize("rule", RULES)
@examples(40)
@given(graph=connected_graphs(), data=st.data())
def test_relabelling_nodes_permutes_weights(rule: Any, graph: Any, data: Any) -> None:
    n = graph.number_of_nodes()
    order = data.draw(st.permutations(range(n)))
    weights, renamed = rule(graph), rule(as_graph(graph).adjacency[order][:, order])
    assert np.allclose(
        renamed.matrix.toarray(), weights.matrix.toarray()[np.ix_(order, order)], atol=1e-15, rtol=0
    )
    place = {old: new for new, old in enumerate(order)}
    for new, old in enumerate(order):
        assert renamed.exact_row(new) == {place[j]: w for j, w in weights.exact_row(old).items()}


@pytest.mark.parametrize("rule", RULES)
@examples(40)
@given(graph=connected_graphs())
def test_exact_rows_are_distributions(rule: Any, graph: Any) -> None:
    weights = rule(graph)
    for i in range(weights.n):
        row = weights.exact_row(i)
        assert sum(row.values()) == 1
        assert min(row.values()) > 0
        assert set(weights.neighbours(i).tolist()) == set(row) - {i} == set(graph[i]) - {i}


@pytest.mark.parametrize("rule", RULES)
@examples(40)
@given(graph=connected_graphs())
def test_gossip_converges_to_the_stationary_mean(rule: Any, graph: Any) -> None:
    weights = rule(graph)
    found = spectrum(weights)
    assert 0 < found.gap <= 1 + 1e-12
    assert -1 < found.smallest <= found.second < 1
    assert np.allclose(found.stationary @ weights.matrix.toarray(), found.stationary, atol=1e-13)
    lazy = spectrum(lazy_weights(weights))
    assert lazy.second == pytest.approx((1 + found.second) / 2, abs=1e-9)
