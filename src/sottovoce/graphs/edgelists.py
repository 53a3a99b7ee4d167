# SPDX-License-Identifier: Apache-2.0
"""Edge lists in text: one edge per line, two labels and perhaps a weight.

Tables of whole numbers are parsed in one vectorised pass; everything else, and every table with a
mistake in it, goes through the line-by-line reader, which knows the line numbers.
"""

from __future__ import annotations

import ast
import csv
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy

from sottovoce.errors import FileError
from sottovoce.graphs.model import Graph

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["parse_edges"]

_SOURCE = ("source", "from", "src", "sender")
_TARGET = ("target", "to", "dst", "receiver")
_WEIGHT = ("weight", "w", "value")
# Python reads no number of more digits than 4300; a name may have them.
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")


def parse_edges(text: str, name: str, delimiter: str | None = None, *, directed: bool = False) -> Graph:
    r"""The graph of an edge list; `delimiter` None means white space, `name` is the file's in errors.

    Lines that start with # or % are comments. Labels that are all integers are sorted, others keep the
    order in which they appear. An edge may be repeated as long as its weight is; a weight of 0 is no edge.

    >>> graph = parse_edges("anna ben\nben cora\n", "friends.txt")
    >>> graph.labels, graph.edges
    (('anna', 'ben', 'cora'), 2)
    """
    numbers, lines = _data_lines(text)
    if not lines:
        raise FileError(f"{name}: the file holds no edges (write one edge per line, as in: a b)")
    columns = _header(lines[0], delimiter)
    unread: tuple[str, ...] = ()
    if columns is not None:
        unread = _unread(lines[0], delimiter, columns)
        del numbers[0], lines[0]
        if not lines:
            raise FileError(f"{name}: the file holds a header and no edges (write one edge per line)")
    table = _whole_number_table(lines, delimiter, columns)
    if table is None:
        ends, weights = _slow_table(lines, numbers, delimiter, columns, name)
        labels, codes = _named(ends)
    else:
        codes_of, weights = table
        found, inverse = np.unique(codes_of, return_inverse=True)
        labels, codes = found.tolist(), inverse.reshape(codes_of.shape)
    if weights is not None:
        _check_weight_column(weights, numbers, name)
    graph = _assemble(codes, weights, labels, directed, name)
    return replace(graph, unread=unread) if unread else graph


def _data_lines(text: str) -> tuple[list[int], list[str]]:
    """The lines that are neither blank nor comments, with their numbers."""
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if (start := line.lstrip()[:1]) and start not in "#%"
    ]
    return [number for number, _ in numbered], [line for _, line in numbered]


def names_edges(line: str, delimiter: str | None) -> bool:
    """Whether a line is a header that names the columns of edges."""
    return _header(line, delimiter) is not None


def _header(line: str, delimiter: str | None) -> tuple[int, int, int | None] | None:
    """The columns of source, target and weight when `line` is a header that names them."""
    fields = [field.strip().strip('"').lower() for field in line.split(delimiter)]
    source, target, weight = (
        next((k for k, field in enumerate(fields) if field in names), None)
        for names in (_SOURCE, _TARGET, _WEIGHT)
    )
    return None if source is None or target is None else (source, target, weight)


def _unread(line: str, delimiter: str | None, columns: tuple[int, int, int | None]) -> tuple[str, ...]:
    """The columns that a header without one for weights names besides the two ends."""
    fields = [field.strip().strip('"') for field in line.split(delimiter)]
    return () if columns[2] is not None else tuple(f for k, f in enumerate(fields) if k not in columns)


def _whole_number_table(
    lines: Sequence[str], delimiter: str | None, columns: tuple[int, int, int | None] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None] | None:
    """Both ends as an array with two rows, and the weights, when all labels are integers; else None."""
    width = len(lines[0].split(delimiter))
    expected = {2: (0, 1, None), 3: (0, 1, 2)}
    if width not in expected or columns not in (None, expected[width]):
        return None
    # numpy looks letters beyond ASCII up past the end of its table when it reads whole numbers, and crashes.
    if not all(map(str.isascii, lines)):
        return None
    fields = [("u", np.int64), ("v", np.int64), ("w", np.float64)][:width]
    try:
        with warnings.catch_warnings():
            # numpy only warns when it reads 1.5 as a whole number.
            warnings.simplefilter("error")
            table = np.loadtxt(lines, dtype=fields, delimiter=delimiter, comments=None, ndmin=1)
    except (ValueError, DeprecationWarning, OverflowError):
        return None
    return np.stack([table["u"], table["v"]]), table["w"].copy() if width == 3 else None


def _slow_table(
    lines: Sequence[str],
    numbers: Sequence[int],
    delimiter: str | None,
    columns: tuple[int, int, int | None] | None,
    name: str,
) -> tuple[tuple[list[str], list[str]], NDArray[np.float64] | None]:
    """Both ends as lists of strings, and the weights, read line by line."""
    sources: list[str] = []
    targets: list[str] = []
    weights: list[float] = []
    with_weights: bool | None = None
    for number, line, fields in zip(numbers, lines, _split(lines, delimiter), strict=True):
        where = f"{name}, line {number}"
        chosen = _chosen(fields, columns, where, line)
        weight = _weight(chosen[2], where) if len(chosen) == 3 else None
        if with_weights is None:
            with_weights = weight is not None
        elif with_weights != (weight is not None):
            raise FileError(
                f"{where}: all lines must have a weight or none; found {_shown(line)} after lines "
                f"{'with' if with_weights else 'without'} one (complete the column, or remove it)"
            )
        sources.append(chosen[0])
        targets.append(chosen[1])
        if weight is not None:
            weights.append(weight)
    return (sources, targets), np.array(weights) if with_weights else None


def _split(lines: Sequence[str], delimiter: str | None) -> Iterable[list[str]]:
    """The fields of each line; networkx's trailing {…} counts as one field."""
    if delimiter is None:
        return (line.strip().split(None, 2) for line in lines)
    # Strings that open a quotation and do not close it would swallow the following lines.
    return (next(csv.reader([line], delimiter=delimiter, skipinitialspace=True)) for line in lines)


def _chosen(
    fields: list[str], columns: tuple[int, int, int | None] | None, where: str, line: str
) -> list[str]:
    """Source, target and perhaps weight of one line."""
    chosen = [field.strip() for field in fields]
    if columns is not None:
        wanted = [k for k in columns if k is not None]
        if max(wanted) >= len(chosen):
            raise FileError(
                f"{where}: the header promises {max(wanted) + 1} columns or more; found {_shown(line)} "
                "(complete the line)"
            )
        chosen = [chosen[k] for k in wanted]
    if len(chosen) not in (2, 3) or not (chosen[0] and chosen[1]):
        raise FileError(
            f"{where}: an edge is written as source, target and perhaps a weight; found {_shown(line)} "
            "(correct the line, or start it with # to leave it out)"
        )
    return chosen


def _weight(field: str, where: str) -> float | None:
    """The weight in a third column: a number, or networkx's dictionary of attributes."""
    if field == "{}":
        return None
    try:
        if field.startswith("{"):
            attributes = ast.literal_eval(field)
            return float(attributes["weight"]) if "weight" in attributes else None
        return float(field)
    except (ValueError, TypeError, SyntaxError):
        raise FileError(
            f"{where}: a weight must be a number; found {_shown(field)} (correct it, or remove the column)"
        ) from None


def _check_weight_column(weights: NDArray[np.float64], numbers: Sequence[int], name: str) -> None:
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise FileError(
            f"{name}, line {numbers[k]}: a weight must be a finite number of at least 0; found "
            f"{weights[k]:.6g} (correct it, or leave the edge out)"
        )


def _named(ends: tuple[list[str], list[str]]) -> tuple[list[Hashable], NDArray[np.int64]]:
    """Labels and the positions of both ends among them."""
    tokens = [token for pair in zip(*ends, strict=True) for token in pair]
    names: list[Hashable]
    if all(map(_INTEGER.fullmatch, tokens)):
        whole = list(map(int, tokens))
        ranked = sorted(set(whole))
        rank = {label: k for k, label in enumerate(ranked)}
        names, codes = [*ranked], [rank[label] for label in whole]
    else:
        names = list(dict.fromkeys(tokens))
        position = {label: k for k, label in enumerate(names)}
        codes = [position[label] for label in tokens]
    return names, np.array(codes, dtype=np.int64).reshape(-1, 2).T


def _assemble(
    codes: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    labels: list[Hashable],
    directed: bool,
    name: str,
) -> Graph:
    """The graph whose edges run from codes[0] to codes[1]; repeated edges must agree on their weight."""
    n = len(labels)
    senders, receivers = codes if directed else (codes.min(axis=0), codes.max(axis=0))
    keys, first, inverse = np.unique(receivers * n + senders, return_index=True, return_inverse=True)
    data = np.ones(keys.size) if weights is None else weights[first]
    if weights is not None and (conflict := weights != data[inverse.ravel()]).any():
        k = int(np.argmax(conflict))
        remedy = "keep one of them" + ("" if directed else ", or read the file with directed=True")
        raise FileError(
            f"{name}: an edge must have one weight; {labels[senders[k]]!r} and {labels[receivers[k]]!r} have "
            f"{data[inverse.ravel()[k]]:.6g} and {weights[k]:.6g} ({remedy})"
        )
    rows, columns = keys // n, keys % n
    if not directed:
        other = rows != columns
        rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
        data = np.concatenate([data, data[other]])
    adjacency = scipy.sparse.coo_array((data, (rows, columns)), shape=(n, n)).tocsr()
    return Graph(
        adjacency=adjacency, labels=labels, directed=directed, weighted=weights is not None, name=name
    )


def _shown(text: str) -> str:
    """A piece of a file, short enough for a message."""
    stripped = text.strip()
    return repr(stripped if len(stripped) <= 60 else stripped[:57] + "...")
