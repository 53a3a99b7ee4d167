# SPDX-License-Identifier: Apache-2.0
"""Real networks by name, as in "topohub:topozoo/Geant2012": the topologies that the package topohub ships."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import GraphError, InputError, needs
from sottovoce.forms import Form, read_form, strict_json
from sottovoce.graphs.families import from_pairs
from sottovoce.spellings import name_and_rest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

    from numpy.typing import NDArray

    from sottovoce.graphs.model import Graph

__all__ = ["PREFIX", "read_topology", "topology_names"]

PREFIX = "topohub"


class _Node(Form, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A node of a file of topohub: its number or name there, what people call it, longitude and latitude."""

    id: int | str
    name: str | None = None
    pos: tuple[float, float]


class _Link(Form, frozen=True, kw_only=True, forbid_unknown_fields=False):
    source: int | str
    target: int | str


class _Topology(Form, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """What is read of a file of topohub, which holds more."""

    nodes: tuple[_Node, ...]
    edges: tuple[_Link, ...]


def read_topology(spec: str) -> Graph:
    """The network that "topohub:GROUP/NAME" names, with the names of its nodes and their longitudes and latitudes.

    Groups are topozoo (the Internet Topology Zoo), sndlib, backbone, caida and gabriel. Nothing is downloaded, and
    the lengths of lines are no weights. Names that occur twice, and nodes without one, get the number that the file
    gives them: "Milan #3", "#7".
    """
    try:
        held = files(PREFIX) / "data"
    except ModuleNotFoundError:
        raise needs(f"the graph {spec}", PREFIX, "topologies") from None
    key = name_and_rest(spec)[1]
    known = dict(_topologies(held))
    if key not in known:
        raise GraphError(_unknown(key, list(known)))
    # topohub.get opens the same file in the encoding of the place, and leaves it open.
    try:
        found = read_form(strict_json(known[key].read_text(encoding="utf-8"), key), _Topology, key)
        pairs = _pairs(found)
    except (OSError, UnicodeDecodeError, InputError) as error:
        raise GraphError(f"the graph {spec} cannot be read: {error} (install topohub anew)") from None
    return replace(
        from_pairs(len(found.nodes), pairs[:, 0], pairs[:, 1]),
        labels=_names(found.nodes),
        name=f"{PREFIX}:{key}",
        positions=tuple(node.pos for node in found.nodes),
    )


def topology_names() -> list[str]:
    """What can follow "topohub:"; nothing where the package is not installed."""
    try:
        return [name for name, _ in _topologies(files(PREFIX) / "data")]
    except ModuleNotFoundError:
        return []


def _topologies(folder: Traversable, group: str = "") -> Iterator[tuple[str, Traversable]]:
    """Every topology below a folder, by its name, with its file."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _topologies(entry, f"{group}{entry.name}/")
        elif entry.name.endswith(".json"):
            yield group + entry.name.removesuffix(".json"), entry


def _pairs(found: _Topology) -> NDArray[np.int64]:
    """The two ends of each line, by the places of nodes."""
    at = {str(node.id): k for k, node in enumerate(found.nodes)}
    ends = [str(end) for link in found.edges for end in (link.source, link.target)]
    if missing := next((end for end in ends if end not in at), None):
        raise InputError(f"a line ends at a node that there is not: {missing[:60]}")
    return np.array([at[end] for end in ends], dtype=np.int64).reshape(-1, 2)


def _names(nodes: Sequence[_Node]) -> list[str]:
    """The names of nodes; with their numbers, where names alone do not tell them apart."""
    often = Counter(node.name for node in nodes)
    return [
        node.name if node.name and often[node.name] == 1 else f"{node.name or ''} #{node.id}".strip()
        for node in nodes
    ]


def _unknown(key: str, known: list[str]) -> str:
    """The error for a topology that is not there: the names that come nearest, or how names look."""
    called = {name.lower(): name for name in known} | {
        name.rpartition("/")[2].lower(): name for name in known
    }
    near = dict.fromkeys(called[word] for word in difflib.get_close_matches(key.lower(), called, n=3))
    groups = ", ".join(dict.fromkeys(name.partition("/")[0] for name in known))
    remedy = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"groups are {groups}; as in topohub:topozoo/Geant2012"
    )
    return f"topohub has no topology called {key!r} ({remedy})"
