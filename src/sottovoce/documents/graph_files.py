# SPDX-License-Identifier: Apache-2.0
"""Graph files: what `as_graph` reads back as the same graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.documents.files import check_path, write_whole
from sottovoce.errors import FileError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from sottovoce.graphs import Graph

__all__ = ["check_graph_path", "refuse_another_graph", "write_graph"]


def check_graph_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a graph file can be put there."""
    return check_path(path, (".edgelist", ".graphml"), "a graph")


def write_graph(graph: Graph, path: str | os.PathLike[str]) -> Path:
    """Write `graph` as an edge list (undirected, no weights) or as GraphML (any graph), by the ending."""
    file = check_graph_path(path).resolve()
    write_whole(_chunks(graph, file), file.parent, lambda _: file.name)
    return Path(path)


def refuse_another_graph(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Refuse a path where something else lies than what `write_graph` would write there."""
    file = Path(path).resolve()
    try:
        there = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error} (choose another name)") from None
    if there and there != "".join(_chunks(graph, file)).encode():
        raise FileError(
            f"{path}: a graph takes the place of the same graph alone, and something else lies there (choose another "
            "name, or remove it)"
        )


def _chunks(graph: Graph, file: Path) -> Iterator[str]:
    """The text of a graph in the form that the file's ending asks for."""
    return _graphml(graph) if file.suffix.lower() == ".graphml" else _edge_list(graph, file.name)


def _edges(graph: Graph) -> Iterator[tuple[int, int, float]]:
    """Each edge once as (sender, receiver, entry), in index order."""
    matrix = graph.adjacency.tocoo()
    for receiver, sender, entry in zip(
        *(part.tolist() for part in (*matrix.coords, matrix.data)), strict=True
    ):
        if graph.directed or sender <= receiver:
            yield sender, receiver, entry


def _edge_list(graph: Graph, name: str) -> Iterator[str]:
    """One edge a line, refused where the plain form would not say everything."""
    words = [str(label) for label in graph.labels]
    spoilt = next((word for word in words if len(word.split()) != 1 or word[0] in "#%"), None)
    if graph.directed or graph.weighted or spoilt is not None:
        reason = "directions or weights" if spoilt is None else f"the name {spoilt!r}"
        raise FileError(
            f"{name}: an edge list holds plain undirected edges, not {reason} (end the name in .graphml)"
        )
    for sender, receiver, _ in _edges(graph):
        yield f"{words[sender]} {words[receiver]}\n"


def _graphml(graph: Graph) -> Iterator[str]:
    """One node or edge a line, a weight being the data of its edge."""
    from xml.sax.saxutils import quoteattr

    names = [quoteattr(str(label)) for label in graph.labels]
    yield "<?xml version='1.0' encoding='utf-8'?>\n"
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    if graph.weighted:
        yield '  <key id="weight" for="edge" attr.name="weight" attr.type="double"/>\n'
    yield f'  <graph edgedefault="{"directed" if graph.directed else "undirected"}">\n'
    yield from (f"    <node id={name}/>\n" for name in names)
    for sender, receiver, entry in _edges(graph):
        ends = f"    <edge source={names[sender]} target={names[receiver]}"
        yield f'{ends}><data key="weight">{entry!r}</data></edge>\n' if graph.weighted else f"{ends}/>\n"
    yield "  </graph>\n</graphml>\n"
