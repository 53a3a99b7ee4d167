# SPDX-License-Identifier: Apache-2.0
"""What the arguments of commands can be, as far as it has been typed: names, spellings, files, nodes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.errors import InputError
from sottovoce.spellings import listed, name_and_rest, spelled, unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["OPEN", "VALUES", "Candidate", "files", "nodes"]

OPEN = (":", "=", ",", "/")
"""How a word ends that goes on."""

# A larger graph would keep the shell waiting.
_MOST_NODES = 1000
_MOST_BYTES = 1_000_000


class Candidate(NamedTuple):
    """A whole word, and what it is."""

    word: str
    about: str = ""


class _Keys(NamedTuple):
    """The parameters of a spelling: those that it needs, those that it may have, and whether a value stands first."""

    needed: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    first: bool = False


def files(word: str, *suffixes: str) -> Iterator[Candidate]:
    """Folders, and files that end in one of the suffixes (in anything where there is none)."""
    folder, name = os.path.split(word)
    try:
        found = sorted(Path(folder or ".").expanduser().iterdir())
    except OSError:
        return
    for path in found:
        # A line is a candidate, and a terminal is steered by what cannot be printed.
        shown = path.name.isprintable() and (not path.name.startswith(".") or name.startswith("."))
        if not shown or not path.name.startswith(name):
            continue
        written = word[: len(word) - len(name)] + path.name
        if path.is_dir():
            yield Candidate(f"{written}/", "folder")
        elif not suffixes or path.name.lower().removesuffix(".gz").endswith(suffixes):
            yield Candidate(written, "file")


def nodes(source: str) -> Iterator[Candidate]:
    """The names of the nodes of a graph that is small enough to look at while someone waits."""
    from sottovoce.graphs import FAMILIES, as_graph, graph_size

    try:
        if name_and_rest(source)[0] in FAMILIES:
            small = graph_size(source)[0] <= _MOST_NODES
        else:
            small = not Path(source).is_file() or Path(source).stat().st_size <= _MOST_BYTES
        labels = as_graph(source).labels if small else ()
    except InputError:
        return
    for label in itertools.islice(labels, _MOST_NODES):
        if str(label).isprintable():
            yield Candidate(str(label), "node")


def _spelled(word: str, names: Mapping[str, _Keys], about: str) -> Iterator[Candidate]:
    """How NAME:KEY=VALUE,KEY=VALUE can go on."""
    if ":" not in word:
        for each, keys in names.items():
            if not keys.needed and not keys.first:
                yield Candidate(each, about)
            if any(keys):
                yield Candidate(f"{each}:", about)
        return
    try:
        done, last = unfinished(word)
    except InputError:
        # What stands twice goes on in no way.
        return
    keys = names.get(done.name, _Keys())
    key, equals, value = last.partition("=")
    if equals or (keys.first and not done.plain and not done.keyed):
        # A value is typed: the word is whole, unless something is still needed.
        if value or (last and not equals):
            yield Candidate(word if {*done.keyed, key}.issuperset(keys.needed) else f"{word},", about)
        return
    for each in (*keys.needed, *keys.possible):
        if each not in done.keyed:
            yield Candidate(f"{word.removesuffix(last)}{each}=", about)


def _graphs(word: str) -> Iterator[Candidate]:
    """Families of graphs, real networks, and files."""
    from sottovoce.graphs import FAMILIES, GRAPH_SUFFIXES, topology_names

    if word.startswith("topohub:"):
        yield from (Candidate(f"topohub:{name}", "network") for name in topology_names())
        return
    names = {
        name: _Keys(
            tuple(key for key, each in family.parameters.items() if each.default is None),
            tuple(key for key, each in family.parameters.items() if each.default is not None),
        )
        for name, family in FAMILIES.items()
    }
    if word.startswith("cliques:") and "base=" in word:
        before, _, base = word.rpartition("base=")
        inner = names.get(base.partition(",")[0], _Keys())
        names["cliques"] = _Keys(("base", *inner.needed, "size"), inner.possible)
        if "," not in base:
            yield from (Candidate(f"{before}base={name},", "graph") for name in names if name != "cliques")
            return
    else:
        names["cliques"] = _Keys(("base", "size"))
    yield from _spelled(word, names, "graph")
    yield Candidate("topohub:", "network")
    yield from files(word, *GRAPH_SUFFIXES)


def _protocols(word: str) -> Iterator[Candidate]:
    """Protocols with their parameters, and files that hold a program."""
    from sottovoce.protocols import SPELLED

    names = {name: _Keys(each.needed, each.possible) for name, each in SPELLED.items()}
    yield from _spelled(word, names, "protocol")
    yield from files(word, ".toml")


def _weights(word: str) -> Iterator[Candidate]:
    """Rules of weights, and matrix files."""
    from sottovoce.graphs import MATRIX_SUFFIXES, WEIGHT_RULES

    names = {name_and_rest(rule)[0]: _Keys(first=":" in rule) for rule in WEIGHT_RULES}
    yield from _spelled(word, names, "weights")
    yield from files(word, *MATRIX_SUFFIXES)


def _participations(word: str) -> Iterator[Candidate]:
    """In which rounds a target contributes."""
    from sottovoce.participation import SPELLINGS

    names: dict[str, _Keys] = {}
    for spelling in SPELLINGS:
        form = spelled(spelling)
        names[form.name] = _Keys(possible=tuple(form.keyed), first=":" in spelling)
    yield from _spelled(word, names, "rounds")


def _data(word: str) -> Iterator[Candidate]:
    """Data that are known by name, synthetic problems, and files."""
    from sottovoce.learning import DATA_NAMES, DATA_SUFFIXES, SYNTHETIC_KEYS

    names = {name: _Keys() for name in DATA_NAMES} | {"synthetic": _Keys(possible=SYNTHETIC_KEYS)}
    yield from _spelled(word, names, "data")
    yield from files(word, *DATA_SUFFIXES)


def _views(word: str) -> Iterator[Candidate]:
    """Views with commas between them."""
    from sottovoce.views import ONE_OBSERVER

    before, comma, last = word.rpartition(",")
    chosen = listed(before)
    for view in ("everyone", *ONE_OBSERVER):
        if view not in chosen and view.startswith(last):
            yield Candidate(f"{before}{comma}{view}", "view")


def _words(_: str) -> Iterator[Candidate]:
    """Words that can be explained."""
    from sottovoce.explanations import ALIASES, EXPLANATIONS, KINDS

    yield from (Candidate(kind, about) for kind, about in KINDS.items())
    yield from (Candidate(word, each.kind) for word, each in EXPLANATIONS.items())
    yield from (Candidate(word, same) for word, same in ALIASES.items())


def _updates(_: str) -> Iterator[Candidate]:
    yield Candidate("any", "nothing is known of the maps")


def _clusters(_: str) -> Iterator[Candidate]:
    yield Candidate("local", "processes of this machine")
    yield Candidate("tcp:", "the address of a scheduler")


VALUES: dict[str, Callable[[str], Iterable[Candidate]]] = {
    "GRAPH": _graphs,
    "GRAPHS": _graphs,
    "--graph": _graphs,
    "--protocol": _protocols,
    "--protocols": _protocols,
    "--weights": _weights,
    "--participation": _participations,
    "--updates": _updates,
    "DATA": _data,
    "--tune-on": _data,
    "--data": lambda word: files(word, ".csv", ".npz"),
    "--views": _views,
    "--cluster": _clusters,
    "WORD": _words,
    "CERTIFICATE": lambda word: files(word, ".json", ".html"),
    "NETWORK": lambda word: files(word, ".toml"),
    "--network": lambda word: files(word, ".toml"),
    "--policy": lambda word: files(word, ".toml"),
    "--keys": lambda word: files(word, ".keys"),
    "--transcript": lambda word: files(word, ".jsonl"),
    "--with": lambda word: files(word, ".jsonl"),
    "--spent": lambda word: files(word, ".jsonl"),
    "--report": lambda word: files(word, ".html"),
    "--plot": lambda word: files(word, ".svg", ".png", ".pdf"),
    "--damping": lambda word: files(word, ".csv"),
    "--config": lambda word: files(word, ".toml"),
}
"""What an argument of that name can be, given what has been typed of it."""
