"""Real networks by name, from the files that topohub ships."""

import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import GraphError, InputError
from sottovoce.graphs import as_graph, metropolis_weights


def test_a_network_of_the_topology_zoo_keeps_names_and_places() -> None:
    graph = as_graph("topohub:topozoo/Geant2012")
    assert (graph.n, graph.edges, graph.directed, graph.weighted) == (37, 58, False, False)
    assert graph.name == "topohub:topozoo/Geant2012"
    assert graph.labels[:3] == ("NL", "BE", "DK")
    assert graph.adjacency[graph.index("NL"), graph.index("BE")] == 1
    assert len(graph.positions) == graph.n
    assert graph.positions[graph.index("NL")] == (4.89, 52.37)
    # Lengths of lines are no gossip weights, and nobody asks whether they are.
    assert graph.unread == ()
    assert metropolis_weights(graph).origin == "metropolis rule on the graph of topohub:topozoo/Geant2012"


# topohub leaves the file open that it reads.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_graph_is_what_topohub_itself_says() -> None:
    import networkx as nx
    import topohub

    from_package = topohub.get("sndlib/polska", use_names=True)
    links = nx.Graph([(edge["source"], edge["target"]) for edge in from_package["edges"]])
    graph = as_graph(" topohub : sndlib/polska ")
    assert set(graph.labels) == set(links)
    assert np.array_equal(graph.adjacency.toarray(), nx.to_numpy_array(links, nodelist=list(graph.labels)))


@pytest.mark.parametrize(
    ("spec", "shared", "n"),
    [("topohub:topozoo/BtEurope", 2, 22), ("topohub:backbone/africa", 244 + 2, 403)],
)
def test_names_that_occur_twice_or_not_at_all_are_told_apart(spec: str, shared: int, n: int) -> None:
    labels = as_graph(spec).labels
    assert len(set(labels)) == n
    assert sum("#" in str(label) for label in labels) == shared


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            "topohub:topozoo/Geant2013",
            r"^topohub has no topology called 'topozoo/Geant2013' \(did you mean topozoo/Ge",
        ),
        (
            "topohub:geant2012",
            r"^topohub has no topology called 'geant2012' \(did you mean topozoo/Geant2012",
        ),
        (
            "topohub:zzzzzz",
            r"^topohub has no topology called 'zzzzzz' \(groups are backbone, caida, gabriel, sndlib, t",
        ),
        (
            "topohub",
            r"^topohub has no topology called '' \(groups are .*; as in topohub:topozoo/Geant2012\)$",
        ),
        ("topohub:../../setup", r"^topohub has no topology called '../../setup' \("),
    ],
)
def test_unknown_names_tell_the_near_ones(spec: str, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        as_graph(spec)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "this is not JSON"),
        ("[" * 100_000, "this is not JSON"),
        ('{"nodes": [], "nodes": [], "edges": []}', "a field stands twice"),
        ('{"nodes": [{"id": 0, "pos": [NaN, 0]}], "edges": []}', "finite numbers only; this file holds NaN"),
        ('{"nodes": [{"id": 0, "pos": [0, 1e999]}], "edges": []}', "this file holds 1e999"),
        ('{"nodes": [{"id": 0, "pos": ["0", 0]}], "edges": []}', "must be a number; got '0'"),
        ('{"nodes": [{"id": 0, "pos": [0]}], "edges": []}', "must be a list of 2; got a list of 1"),
        (
            '{"nodes": [{"id": 0.5, "pos": [0, 0]}], "edges": []}',
            "id must be a whole number or text; got 0.5",
        ),
        ('{"nodes": []}', "lacks the field edges"),
        (
            '{"nodes": [], "edges": [{"source": 0, "target": 1}]}',
            "a line ends at a node that there is not: 0",
        ),
    ],
)
def test_a_file_that_is_no_topology_is_refused(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.json").write_text(text)
    monkeypatch.setattr("sottovoce.graphs.topologies.files", lambda _: tmp_path)
    with pytest.raises(GraphError, match=f"the graph topohub:one cannot be read: .*{sentence}"):
        as_graph("topohub:one")


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "topohub", None)
    with pytest.raises(
        InputError, match=r"^the graph topohub:topozoo/Geant2012 needs .* '\.\[topologies\]'\)$"
    ):
        as_graph("topohub:topozoo/Geant2012")
