# SPDX-License-Identifier: Apache-2.0
"""The damping of each node from a file: a CSV of two columns, the node's name and its number."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import FileError, GraphError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from sottovoce.graphs import GossipWeights

__all__ = ["parse_damping", "read_damping"]


def read_damping(path: str | os.PathLike[str], weights: GossipWeights) -> NDArray[np.float64]:
    """One number a node in index order, from a CSV file that names every node once; a heading line may come first."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(str(file), error) from None
    return parse_damping(text, str(file), weights)


def parse_damping(text: str, file: str, weights: GossipWeights) -> NDArray[np.float64]:
    """The same from the text of such a file, which messages call `file`."""
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
    except csv.Error as error:
        raise _unreadable(file, error) from None
    values = np.full(weights.n, np.nan)
    for number, line in enumerate(lines, start=1):
        if len(line) != 2:
            raise FileError(f"{file}: line {number} must hold a node's name and a number; it holds {line}")
        if number == 1 and _number(line[1]) is None:
            continue
        index = _index(file, weights, line[0].strip())
        value = _number(line[1])
        if value is None:
            raise FileError(f"{file}: the damping of node {line[0]!r} must be a number; got {line[1]!r}")
        if not np.isnan(values[index]):
            raise FileError(f"{file}: node {line[0]!r} stands there twice (leave one line out)")
        values[index] = value
    if np.isnan(values).any():
        missing = weights.labels[int(np.argmax(np.isnan(values)))]
        raise FileError(f"{file}: node {missing!r} has no damping (give every node a line; 1 damps nothing)")
    return values


def _unreadable(file: str, error: Exception) -> FileError:
    return FileError(
        f"{file}: the damping cannot be read: {error} (give a number, or a CSV file of names and numbers)"
    )


def _index(file: str, weights: GossipWeights, name: str) -> int:
    """The index of the node that is written `name`."""
    try:
        return weights.index(weights.written(name))
    except GraphError as error:
        raise FileError(f"{file}: {error}") from None


def _number(text: str) -> float | None:
    """The finite number that `text` spells, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
