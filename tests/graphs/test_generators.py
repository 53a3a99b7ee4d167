"""Specifications: every family by name, and the sentence for each kind of mistake."""

from typing import Any

import pytest

from sottovoce.errors import GraphError
from sottovoce.graphs import FAMILIES, generate_graph, graph_size
from sottovoce.graphs.generators import nearest_family

SPECS = [
    ("erdos-renyi:n=100,p=0.15,seed=1", 100, None),
    ("preferential:n=100,core=5,links=3,seed=1", 100, 295),
    ("ring:n=10", 10, 10),
    ("path:n=10", 10, 9),
    ("star:n=10", 10, 9),
    ("complete:n=10", 10, 45),
    ("grid:rows=3,cols=4", 12, 17),
    ("torus:rows=3,cols=4", 12, 24),
    ("hypercube:dim=3", 8, 12),
    ("random-regular:n=10,d=3", 10, 15),
    ("small-world:n=20,k=4,p=0.1,seed=2", 20, 40),
    ("exponential:n=16", 16, 56),
    ("cliques:base=ring,n=20,size=5", 100, 700),
    ("cliques:size=2,base=torus,rows=3,cols=4", 24, 108),
    ("cliques:base=random-regular,n=10,d=3,seed=7,size=3", 30, 165),
    ("cliques:base=karate,size=1", 34, 78),
    ("karate", 34, 78),
    ("les-miserables", 77, 254),
    ("florentine", 15, 20),
    (" ring : n = 10 , ", 10, 10),
]


@pytest.mark.parametrize(("spec", "n", "edges"), SPECS)
def test_every_family_by_name(spec: str, n: int, edges: Any) -> None:
    graph = generate_graph(spec)
    assert graph.n == n
    assert edges in (None, graph.edges)


@pytest.mark.parametrize(
    "spec", [*(spec for spec, _, _ in SPECS), "ring:n=2", "exponential:n=2", "exponential:n=13"]
)
def test_the_size_is_known_before_the_graph(spec: str) -> None:
    graph = generate_graph(spec)
    nodes, edges = graph_size(spec)
    assert nodes == graph.n
    if spec.startswith("erdos-renyi"):
        assert 0 < edges < graph.edges < 2 * edges
    else:
        assert edges == graph.edges


def test_every_family_is_in_the_list_above() -> None:
    assert {spec.partition(":")[0].strip() for spec, _, _ in SPECS} == set(FAMILIES)


ALL = ", ".join(FAMILIES)
MISTAKES = [
    (
        "rings:n=5",
        rf"^there is no family of graphs called 'rings' \(did you mean ring\? families are {ALL}\)$",
    ),
    ("zzz", rf"^there is no family of graphs called 'zzz' \(families are {ALL}\)$"),
    ("ring", r"^ring: the parameter n is missing \(write ring:n=…\)$"),
    ("erdos-renyi:n=5", r"^erdos-renyi: the parameter p is missing \(write erdos-renyi:n=…,p=…,seed=…\)$"),
    ("ring:n=5,m=2", r"^ring: there is no parameter 'm' \(write ring:n=…\)$"),
    ("karate:n=5", r"^karate: there is no parameter 'n' \(write karate alone\)$"),
    ("ring:5", r"^ring: parameters are written name=value; got '5' \(write ring:n=…\)$"),
    ("ring:n=5,n=6", r"^ring: the parameter n is given twice"),
    ("ring:n=five", r"^ring: n must be a whole number from 2 to 50000000; got 'five' \(as in n=10\)$"),
    ("ring:n=5.5", r"n must be a whole number .*; got '5.5'"),
    ("ring:n=1", r"n must be a whole number from 2 .*; got '1'"),
    ("ring:n=-3", r"got '-3'"),
    ("ring:n=99999999999", r"from 2 to 50000000; got '99999999999'"),
    ("erdos-renyi:n=9,p=1.5", r"^erdos-renyi: p must be a number from 0 to 1; got '1.5' \(as in p=0.1\)$"),
    ("erdos-renyi:n=9,p=nan", r"p must be a number from 0 to 1; got 'nan'"),
    ("erdos-renyi:n=9,p=0.1,seed=-1", r"seed must be a whole number from 0 .*; got '-1'"),
    (
        "erdos-renyi:n=1000000,p=0.5",
        r"^erdos-renyi: .*at most 200,000,000 edges; .* 2.5e\+11 \(take a smaller",
    ),
    ("random-regular:n=5,d=3", r"^random-regular: n times d must be even; got n=5, d=3 \(take d=4 or n=6\)$"),
    ("random-regular:n=5,d=5", r"^random-regular: d must be below n; got d=5, n=5 \(a node has at most 4"),
    (
        "preferential:n=9,core=3,links=4",
        r"links must be at most core; got links=4, core=3 \(take fewer links",
    ),
    (
        "preferential:n=9,core=10,links=4",
        r"core must be at most n; got core=10, n=9 \(take a smaller core\)$",
    ),
    ("preferential:n=9,core=1,links=1", r"core must be a whole number from 2"),
    ("torus:rows=2,cols=5", r"^torus: rows must be a whole number from 3 to 50000000; got '2'"),
    (
        "grid:rows=1,cols=1",
        r"^grid: there must be at least 2 nodes; got rows=1, cols=1 \(take a longer side\)$",
    ),
    ("grid:rows=100000,cols=100000", r"^grid: there must be at most 50000000 nodes; got rows=100000"),
    ("hypercube:dim=25", r"^hypercube: dim must be a whole number from 1 to 24; got '25' \(as in dim=4\)$"),
    (
        "cliques:n=20,size=5",
        r"^cliques: the parameter base is missing \(write cliques:base=ring,n=20,size=5 or",
    ),
    (
        "cliques:base=ring,n=20",
        r"^cliques: the parameter size is missing \(write cliques:base=ring,n=20,size=5",
    ),
    (
        "cliques:base=ring,n=20,size=0",
        r"^cliques: size must be a whole number from 1 to 50000000; got '0' \(as",
    ),
    ("cliques:base=ring,n=1,size=5", r"^ring: n must be a whole number from 2 .*; got '1'"),
    (
        "cliques:base=ring,size=5",
        r"^ring: the parameter n is missing \(write cliques:base=ring,size=5,n=…\)$",
    ),
    (
        "cliques:base=ring,size=5,20",
        r"^ring: parameters are .*; got '20' \(write cliques:base=ring,size=5,n=…\)",
    ),
    (
        "cliques:base=karate,n=3,size=5",
        r"^karate: there is no parameter 'n' \(write cliques:base=karate,size=5 a",
    ),
    ("cliques:base=rings,n=3,size=5", r"^there is no family of graphs called 'rings' \(did you mean ring\?"),
    (
        "cliques:base=cliques,n=3,size=5",
        r"^cliques: base must be another family; got 'cliques' \(take a larger",
    ),
    (
        "cliques:base=ring,n=50000000,size=2",
        r"^cliques: there must be at most 50000000 nodes; got 50000000 cliq",
    ),
    (
        "cliques:base=ring,n=9,size=9999",
        r"^cliques: a generated graph has at most 200,000,000 edges; this one w",
    ),
    ("small-world:n=9,k=3,p=0.1", r"^small-world: k must be even, .*; got k=3 \(take k=4\)$"),
    ("small-world:n=9,k=10,p=0.1", r"^small-world: k must be below n; got k=10, n=9 \(take a smaller k\)$"),
]


@pytest.mark.parametrize(("spec", "sentence"), MISTAKES)
def test_mistakes_name_family_parameter_range_and_remedy(spec: str, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        generate_graph(spec)


@pytest.mark.parametrize(
    ("name", "near"), [("Karate", "karate"), ("erdos_renyi", "erdos-renyi"), ("xyzzy", None)]
)
def test_the_nearest_family(name: str, near: str | None) -> None:
    assert nearest_family(name) == near
