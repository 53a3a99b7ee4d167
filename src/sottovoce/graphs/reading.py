# SPDX-License-Identifier: Apache-2.0
"""Graphs from files and from the values that users hold."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.errors import FileError, GraphError
from sottovoce.graphs.contents import foreign_kind
from sottovoce.graphs.edgelists import parse_edges
from sottovoce.graphs.files import BEGINNING, file_beginning, file_suffix, file_text
from sottovoce.graphs.generators import FAMILIES, generate_graph, nearest_family
from sottovoce.graphs.matrices import parse_matrix, read_matrix, square_matrix, square_table
from sottovoce.graphs.model import Graph, is_symmetric
from sottovoce.graphs.topologies import PREFIX, read_topology
from sottovoce.spellings import name_and_rest

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    Point = tuple[float, float]

__all__ = ["GRAPH_SUFFIXES", "as_graph", "parse_graph", "read_graph"]

_EDGE_LISTS = (".edgelist", ".edges", ".txt", ".tsv", ".csv")
_MARKUP = (".graphml", ".gml")
GRAPH_SUFFIXES = (*_EDGE_LISTS, *_MARKUP, ".mtx", ".npy", ".npz")
_COORDINATES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("Longitude", "Latitude"))
_FARTHEST = 1e9


def as_graph(source: object) -> Graph:
    """`source` as a Graph.

    Accepted are a Graph, a networkx graph, a sparse or dense matrix (row i receives from column j), the
    path of a file, a specification such as "ring:n=10" or "karate", and a real network such as
    "topohub:topozoo/Geant2012" (extra `topologies`). Of a networkx graph the nodes keep their names and order, an
    edge attribute "weight" makes it weighted, and parallel edges are merged.

    >>> as_graph("ring:n=10").edges
    10
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str):
        name, _ = name_and_rest(source)
        if name in FAMILIES:
            return generate_graph(source)
        if name == PREFIX:
            return read_topology(source)
    if isinstance(source, str | os.PathLike):
        return read_graph(source)
    if isinstance(source, np.ndarray) or scipy.sparse.issparse(source):
        matrix = square_matrix(source)
        return _from_matrix(matrix, range(matrix.shape[0]), "a matrix")
    import networkx as nx

    if isinstance(source, nx.Graph):
        return _from_networkx(source, source.name or "a networkx graph")
    raise GraphError(
        "a graph must be a Graph, a networkx graph, a matrix, a path or a specification; got a "
        f"{type(source).__name__} (for example as_graph('ring:n=10'))"
    )


def read_graph(path: str | os.PathLike[str], *, directed: bool = False) -> Graph:
    """The graph in a file; the ending says the format, and a final .gz is unpacked.

    Edge lists (.edgelist, .edges, .txt, .tsv: white space; .csv: commas) are read as undirected unless
    `directed`, when an edge u v means that u sends to v. Numbers alone, in as many columns as lines, are a matrix, if
    every row sums to 1 or they are zeros and ones; a header above them names the nodes. GraphML, GML, Matrix Market,
    .npy and .npz files say themselves; matrices are read as row i receives from column j.
    """
    name, suffix = file_suffix(path)
    if not Path(path).exists():
        raise FileError(_missing(str(path)))
    if Path(path).is_dir():
        raise FileError(f"{path}: a graph is read from a file; found a directory ({_inside(Path(path))})")
    if suffix in (*_EDGE_LISTS, *_MARKUP):
        return parse_graph(file_text(path), name, directed=directed)
    if suffix in (".mtx", ".npy", ".npz"):
        matrix = read_matrix(path)
        return _from_matrix(matrix, range(matrix.shape[0]), name)
    kind = foreign_kind(file_beginning(path))
    if kind is not None:
        raise FileError(
            f"{name}: an edge list, GraphML, GML or a matrix was expected; found {kind[0]} ({kind[1]})"
        )
    raise FileError(
        f"{name}: the ending must be one of {', '.join(GRAPH_SUFFIXES)}, perhaps followed by .gz; found "
        f"{suffix or 'none'} (rename the file after its format)"
    )


def parse_graph(text: str, name: str, *, directed: bool = False) -> Graph:
    r"""The graph in the text of a file called `name`, as `read_graph` reads it; nothing is opened.

    >>> parse_graph("source,target\nanna,ben\n", "friends.csv").labels
    ('anna', 'ben')
    """
    suffix = file_suffix(name)[1]
    kind = foreign_kind(text[:BEGINNING].encode())
    if kind is not None and (kind[0] != "GraphML" or suffix != ".graphml"):
        what = "an edge list" if suffix in _EDGE_LISTS else suffix.removeprefix(".")
        raise FileError(f"{name}: {what} was expected by its ending; found {kind[0]} ({kind[1]})")
    if suffix in _EDGE_LISTS:
        delimiter = _delimiter(text, suffix)
        table = square_table(text, name, delimiter)
        if table is not None:
            return _from_matrix(*table, name)
        return parse_edges(text, name, delimiter, directed=directed)
    if suffix in _MARKUP:
        return _from_markup(text, name, suffix)
    if suffix == ".mtx":
        matrix = parse_matrix(text, name)
        return _from_matrix(matrix, range(matrix.shape[0]), name)
    raise FileError(
        f"{name}: text is read by an ending that is one of {', '.join((*_EDGE_LISTS, *_MARKUP, '.mtx'))}; found "
        f"{suffix or 'none'} (name the text after its format)"
    )


def _inside(folder: Path) -> str:
    """The remedy for a directory: the first graph files that it holds."""
    try:
        files = sorted(entry.name for entry in folder.iterdir() if file_suffix(entry)[1] in GRAPH_SUFFIXES)
    except OSError:
        files = []
    return f"name a file in it, such as {', '.join(files[:3])}" if files else "name a file"


def _missing(path: str) -> str:
    """What to say of a path that leads nowhere, which may be a misspelt specification."""
    near = nearest_family(name_and_rest(path)[0])
    if file_suffix(path)[1] not in GRAPH_SUFFIXES and (
        ":" in path or "=" in path or near or not Path(path).suffix
    ):
        guess = f"did you mean {near}? " if near else ""
        return (
            f"{path}: there is no such file and no such family of graphs ({guess}families are "
            f"{', '.join(FAMILIES)})"
        )
    return f"{path}: there is no such file (check the path)"


def _delimiter(text: str, suffix: str) -> str | None:
    """Commas in CSV (semicolons or tabs where there is no comma), tabs in TSV that has some, else blanks."""
    lines = (line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#%")
    first = next(lines, "")
    if suffix == ".csv":
        return next((mark for mark in (",", ";", "\t") if mark in first), ",")
    return "\t" if suffix == ".tsv" and "\t" in first else None


def _from_matrix(matrix: Any, labels: Sequence[int | str], name: str) -> Graph:  # noqa: ANN401
    return Graph(
        adjacency=matrix,
        labels=labels,
        directed=not is_symmetric(matrix),
        weighted=bool((matrix.data != 1).any()),
        name=name,
    )


def _from_networkx(graph: Any, name: str) -> Graph:  # noqa: ANN401
    """A networkx graph with its names, in its order."""
    if graph.number_of_nodes() == 0:
        raise GraphError("a graph must have nodes; this networkx graph has none (add nodes and edges)")
    labels = list(graph.nodes)
    position = {label: k for k, label in enumerate(labels)}
    triples = list(graph.edges(data="weight"))
    weighted = any(weight is not None for _, _, weight in triples)
    senders = np.array([position[u] for u, _, _ in triples], dtype=np.int64)
    receivers = np.array([position[v] for _, v, _ in triples], dtype=np.int64)
    data = np.array([_edge_weight(u, v, w) for u, v, w in triples]) if weighted else np.ones(len(triples))
    if not graph.is_directed():
        other = senders != receivers
        senders, receivers = (
            np.concatenate([senders, receivers[other]]),
            np.concatenate([receivers, senders[other]]),
        )
        data = np.concatenate([data, data[other]])
    matrix = scipy.sparse.coo_array((data, (receivers, senders)), shape=(len(labels),) * 2).tocsr()
    unread: set[str] = set()
    if not weighted:
        matrix.data[:] = 1.0
        for _, _, held in graph.edges(data=True):
            unread |= {str(key) for key, value in held.items() if type(value) in {int, float}}
    return Graph(
        adjacency=matrix,
        labels=labels,
        directed=graph.is_directed(),
        weighted=weighted,
        name=name,
        unread=tuple(sorted(unread)),
    )


def _edge_weight(u: object, v: object, weight: object) -> float:
    """The weight of one networkx edge; an edge without one counts 1."""
    try:
        value = 1.0 if weight is None else float(weight)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = np.nan
    if not (np.isfinite(value) and value >= 0):
        raise GraphError(
            f"edge weights must be finite numbers of at least 0; the edge from {u!r} to {v!r} has {weight!r} "
            "(correct it, or remove the attribute 'weight')"
        )
    return value


def _from_markup(text: str, name: str, suffix: str) -> Graph:
    """A GraphML or GML file, its nodes called by their labels where these are distinct."""
    import networkx as nx

    try:
        is_graphml = suffix == ".graphml"
        graph = nx.parse_graphml(text) if is_graphml else nx.parse_gml(text.splitlines(), label="id")
    # The two parsers raise whatever their own mistakes happen to be: KeyError, TypeError, ParseError.
    except Exception as error:
        kind = "GraphML" if suffix == ".graphml" else "GML"
        raise FileError(
            f"{name}: not a {kind} file that can be read; networkx says: {error} (export it again, or write "
            "an edge list)"
        ) from None
    names = [label for _, label in graph.nodes(data="label")]
    if None not in names and len(set(names)) == len(names):
        graph = nx.relabel_nodes(graph, dict(zip(graph.nodes, names, strict=True)))
    try:
        made = _from_networkx(graph, name)
    except GraphError as error:
        raise FileError(f"{name}: {error}") from None
    return replace(made, positions=_positions(dict(graph.nodes(data=True)), made.labels))


def _positions(nodes: dict[Hashable, dict[str, object]], labels: Sequence[Hashable]) -> tuple[Point, ...]:
    """Where the nodes lie, if every one of them has two finite coordinates under the same names; else nothing."""
    for pair in _COORDINATES:
        try:
            found = [tuple(float(nodes[label][name]) for name in pair) for label in labels]  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            continue
        # Numbers that no picture can hold are no places.
        if all(abs(value) < _FARTHEST for point in found for value in point):
            return tuple((x, y) for x, y in found)
    return ()
