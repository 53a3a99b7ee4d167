"""Graphs from every kind of source, and round trips through every file format."""

import gzip
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy

from sottovoce.errors import FileError, GraphError
from sottovoce.graphs import FAMILIES, as_graph, parse_graph, read_graph
from sottovoce.graphs.edgelists import parse_edges

FLORENTINE = nx.florentine_families_graph()
KARATE = nx.Graph(nx.karate_club_graph().edges)


def same(graph: Any, expected: Any) -> Any:
    """Whether both have the same edges between equally named nodes."""
    names = list(graph.labels)
    wanted = nx.to_numpy_array(expected, nodelist=names, weight=None)
    return np.array_equal(graph.adjacency.toarray(), wanted.T if expected.is_directed() else wanted)


def write_csv(graph: Any, path: Any) -> Any:
    path.write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in graph.edges))


WRITERS = {
    "g.edgelist": lambda graph, path: nx.write_edgelist(graph, path, data=False),
    "g.edges": nx.write_edgelist,
    "g.txt": lambda graph, path: nx.write_edgelist(graph, path, data=False),
    "g.tsv": lambda graph, path: nx.write_edgelist(graph, path, data=False, delimiter="\t"),
    "g.csv": write_csv,
    "g.graphml": nx.write_graphml,
    "g.gml": nx.write_gml,
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_named_graphs_return_from_text_formats(tmp_path: Path, name: str, packed: bool) -> None:
    path = tmp_path / name
    WRITERS[name](FLORENTINE, path)
    if packed:
        packed_path = tmp_path / f"{name}.gz"
        packed_path.write_bytes(gzip.compress(path.read_bytes()))
        path = packed_path
    graph = read_graph(path)
    assert graph.edges == 20
    assert not graph.directed
    assert not graph.weighted
    assert same(graph, FLORENTINE)


@pytest.mark.parametrize("name", ["g.edgelist", "g.edges", "g.csv"])
def test_numbered_graphs_return_with_numbers(tmp_path: Path, name: str) -> None:
    WRITERS[name](KARATE, tmp_path / name)
    graph = as_graph(str(tmp_path / name))
    assert graph.labels == range(34)
    assert same(graph, KARATE)


@pytest.mark.parametrize("name", ["g.mtx", "g.npy", "g.npz"])
def test_numbered_graphs_return_from_matrix_formats(tmp_path: Path, name: str) -> None:
    A = nx.to_numpy_array(KARATE, nodelist=range(34), weight=None)
    write: dict[str, Any] = {
        "g.mtx": lambda path: scipy.io.mmwrite(path, scipy.sparse.coo_array(A)),
        "g.npy": lambda path: np.save(path, A),
        "g.npz": lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_array(A)),
    }
    write[name](tmp_path / name)
    graph = as_graph(tmp_path / name)
    assert same(graph, KARATE)
    assert not graph.weighted


def test_matrices_are_read_as_rows_that_receive() -> None:
    graph = as_graph(np.array([[0, 2.0], [0, 0]]))
    assert graph.directed
    assert graph.weighted
    assert graph.degrees.tolist() == [1, 0]


def test_directed_edges_say_who_sends(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("a,b\nb,c\n")
    (tmp_path / "g.txt").write_text("0 1\n")
    assert read_graph(tmp_path / "g.csv", directed=True).degrees.tolist() == [0, 1, 1]
    assert read_graph(tmp_path / "g.txt", directed=True).adjacency.toarray().tolist() == [[0, 0], [1, 0]]
    assert as_graph(nx.DiGraph([("a", "b")])).adjacency.toarray().tolist() == [[0, 0], [1, 0]]
    nx.write_graphml(nx.DiGraph([("a", "b")]), tmp_path / "g.graphml")
    assert read_graph(tmp_path / "g.graphml").adjacency.toarray().tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_may_use_other_marks(tmp_path: Path, mark: str) -> None:
    (tmp_path / "g.csv").write_text(f"# ties\nNew York{mark}Boston{mark}2\n")
    graph = read_graph(tmp_path / "g.csv")
    assert graph.labels == ("New York", "Boston")
    assert graph.weighted


def test_networkx_graphs_keep_names_order_and_weights() -> None:
    source = nx.Graph()
    source.add_nodes_from(["z", "a", "lone"])
    source.add_edge("a", "z", weight=2.5)
    source.add_edge("a", "a", weight=1)
    graph = as_graph(source)
    assert graph.labels == ("z", "a", "lone")
    assert graph.adjacency.toarray().tolist() == [[0, 2.5, 0], [2.5, 1, 0], [0, 0, 0]]
    assert graph.weighted
    source.add_edge("lone", "z")
    assert as_graph(source).adjacency.toarray()[0, 2] == 1


def test_parallel_edges_are_merged() -> None:
    plain = nx.MultiGraph([(0, 1), (0, 1), (1, 0)])
    assert as_graph(plain).adjacency.toarray().tolist() == [[0, 1], [1, 0]]
    plain.add_edge(0, 1, weight=2)
    assert as_graph(plain).adjacency.toarray().tolist() == [[0, 5], [5, 0]]
    assert as_graph(nx.MultiDiGraph([(0, 1), (0, 1)])).edges == 1


def test_graphs_and_specifications_pass() -> None:
    graph = as_graph("ring:n=5")
    assert as_graph(graph) is graph
    assert graph.edges == 5
    assert as_graph("karate").n == 34


def test_markup_prefers_labels_where_they_are_distinct(tmp_path: Path) -> None:
    (tmp_path / "g.gml").write_text(
        'graph [ node [ id 7 label "x" ] node [ id 9 label "y" ] edge [ source 7 target 9 ] ]'
    )
    (tmp_path / "h.gml").write_text(
        'graph [ node [ id 7 label "x" ] node [ id 9 label "x" ] edge [ source 7 target 9 ] ]'
    )
    (tmp_path / "i.gml").write_text(
        "graph [ node [ id 7 ] node [ id 9 ] edge [ source 7 target 9 weight 2 ] ]"
    )
    assert read_graph(tmp_path / "g.gml").labels == ("x", "y")
    assert read_graph(tmp_path / "h.gml").labels == (7, 9)
    assert read_graph(tmp_path / "i.gml").weighted
    named = nx.relabel_nodes(FLORENTINE, {name: f"n{k}" for k, name in enumerate(FLORENTINE)})
    nx.set_node_attributes(named, dict(zip(named, FLORENTINE, strict=True)), "label")
    nx.write_graphml(named, tmp_path / "g.graphml")
    assert same(read_graph(tmp_path / "g.graphml"), FLORENTINE)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "g.xyz",
            "0 1",
            r"^g.xyz: the ending must be one of .edgelist, .*, perhaps followed by .gz; found .xyz \(",
        ),
        ("graph", "0 1", r"^graph: the ending must be one of .*; found none"),
        ("g.gz", "0 1", r"^g.gz: the ending must be one of .*; found none"),
        (
            "g.graphml",
            "<graphml><",
            r"^g.graphml: not a GraphML file that can be read; networkx says: .* \(export",
        ),
        ("g.graphml", "0 1", r"^g.graphml: not a GraphML file"),
        ("g.gml", "graph [", r"^g.gml: not a GML file that can be read; networkx says: "),
        ("g.gml", "graph [ ]", r"^g.gml: a graph must have nodes; this networkx graph has none"),
        (
            "g.gml",
            'graph [ node [ id 1 ] edge [ source 1 target 1 weight "x" ] ]',
            r"^g.gml: edge weights must be",
        ),
        ("g.txt", "", r"^g.txt: the file is empty"),
        ("g.csv", "0,1,x\n", r"^g.csv, line 1: a weight must be a number; found 'x'"),
        ("g.mtx", "0 1\n", r"^g.mtx: not a Matrix Market file"),
    ],
)
def test_mistakes_in_files(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(FileError, match=sentence):
        read_graph(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "rign:n=5",
            r"^rign:n=5: there is no such file and no such family of graphs \(did you mean ring\? "
            rf"families are {', '.join(FAMILIES)}\)$",
        ),
        ("cube:n=5", r"no such family of graphs \((did you mean hypercube\? )?families are erdos-renyi"),
        ("karat", r"did you mean karate\?"),
        ("nowhere", r"^nowhere: there is no such file and no such family of graphs \(families are"),
        ("nowhere.csv", r"^nowhere.csv: there is no such file \(check the path\)$"),
    ],
)
def test_missing_files_may_be_misspelt_families(source: Any, sentence: str) -> None:
    with pytest.raises(FileError, match=sentence):
        as_graph(source)


BAD_WEIGHT = nx.Graph()
BAD_WEIGHT.add_edge("a", "b", weight=-1)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            7,
            r"must be a Graph, a networkx graph, a matrix, a path or a specification; got a int \(for",
        ),
        (nx.Graph(), r"must have nodes; this networkx graph has none \(add nodes and edges\)"),
        (
            BAD_WEIGHT,
            r"finite numbers of at least 0; the edge from 'a' to 'b' has -1 \(correct it, or remove",
        ),
        (np.ones((2, 3)), r"must be square; got 2 x 3"),
        (np.array([[0, np.inf], [1, 0]]), r"must be finite numbers; row 0, column 1 is inf"),
        (scipy.sparse.csr_array([[0, -1.0], [1, 0]]), r"must be at least 0; row 0, column 1 is -1"),
    ],
)
def test_sources_that_are_no_graph(source: Any, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        as_graph(source)


def test_text_is_read_as_the_file_of_that_name(tmp_path: Path) -> None:
    texts = {
        "a.csv": "source,target\na,b\nb,c\n",
        "a.edgelist": "a b\nb c\n",
        "a.gml": "\n".join(nx.generate_gml(nx.path_graph(3))),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        parsed, read = parse_graph(text, name), read_graph(tmp_path / name)
        assert list(parsed.labels) == list(read.labels)
        assert (parsed.adjacency != read.adjacency).nnz == 0


def test_text_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(FileError, match=r"a\.npz: text is read by an ending that is one of .*name the text"):
        parse_graph("a b", "a.npz")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("anna,ben\n0.5,0.5\n0.25,0.75\n", ["anna", "ben"]),
        ('"anna","ben","cleo"\n0.5,0.5,0\n0.25,0.5,0.25\n0,0.5,0.5\n', ["anna", "ben", "cleo"]),
        ("4,3,2,1\n0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n", [4, 3, 2, 1]),
    ],
)
def test_a_matrix_with_a_header_has_named_nodes(tmp_path: Path, text: str, labels: list[Any]) -> None:
    (tmp_path / "w.csv").write_text(text)
    graph = read_graph(tmp_path / "w.csv")
    assert list(graph.labels) == labels
    (tmp_path / "bare.csv").write_text(text.partition("\n")[2])
    assert (graph.adjacency != read_graph(tmp_path / "bare.csv").adjacency).nnz == 0


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n0,1\n1,0\n",
        "0,1,0.5\n1,2,1\n2,3,0\n3,4,1\n",
        "0,1,1\n1,2,1\n2,3,1\n3,4,0\n",
        "source,target\n0.5,0.5\n0.25,0.75\n",
        "a,b\nc,d\ne,f\n",
    ],
)
def test_edges_are_not_taken_for_a_matrix_with_a_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.csv").write_text(text)
    graph, edges = read_graph(tmp_path / "g.csv"), parse_edges(text, "g.csv", ",")
    assert list(graph.labels) == list(edges.labels)
    assert (graph.adjacency != edges.adjacency).nnz == 0


def test_a_name_that_stands_twice_in_a_header_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("anna,anna\n0.5,0.5\n0.25,0.75\n")
    with pytest.raises(FileError, match="must give each column a name of its own; 'anna' stands 2 times"):
        read_graph(tmp_path / "w.csv")
