# SPDX-License-Identifier: Apache-2.0
"""Square matrices from memory and from .npy, .npz and Matrix Market files."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.arrays import read_npy, read_npz
from sottovoce.errors import FileError, GraphError
from sottovoce.graphs.contents import foreign_kind
from sottovoce.graphs.edgelists import names_edges
from sottovoce.graphs.files import BEGINNING, file_bytes, file_suffix
from sottovoce.graphs.model import canonical_matrix
from sottovoce.graphs.validation import ROW_SUM_TOLERANCE, check_entries

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

__all__ = ["MATRIX_SUFFIXES", "matrix_size", "parse_matrix", "read_matrix", "square_matrix", "square_table"]

MATRIX_SUFFIXES = (".npy", ".npz", ".mtx", ".mtx.gz")


# So many nodes may be without an entry, and are named by whoever needs a connected graph; more would fill the memory.
_MOST_ALONE = 1_000_000


def square_matrix(source: Any) -> Any:  # noqa: ANN401
    """An array or sparse matrix as a canonical csr_array; entries must be real, finite and at least 0."""
    values: Any = source.copy() if scipy.sparse.issparse(source) else np.asarray(source)
    if values.dtype.kind not in "buif":
        raise GraphError(
            f"the matrix of a graph must hold real numbers; got entries of type {values.dtype} (convert it "
            "to floats)"
        )
    if values.ndim != 2:
        raise GraphError(
            f"the matrix of a graph must be square; got an array of {values.ndim} dimensions (one row and "
            "column per node)"
        )
    if scipy.sparse.issparse(values) and max(values.shape) > 2 * values.nnz + _MOST_ALONE:
        raise GraphError(
            f"the matrix of a graph must have an entry for every node; got {values.nnz} for {max(values.shape)} nodes "
            "(leave out nodes that have no neighbour)"
        )
    matrix = canonical_matrix(values)
    check_entries(matrix, range(matrix.shape[0]), "entries of a graph's matrix")
    return matrix


def read_matrix(path: str | os.PathLike[str]) -> Any:  # noqa: ANN401
    """The square matrix in a .npy, .npz or .mtx[.gz] file, as a canonical csr_array."""
    name, suffix = file_suffix(path)
    readers = {".npy": _from_npy, ".npz": _from_npz, ".mtx": _from_mtx}
    if suffix not in readers:
        raise FileError(
            f"{name}: a matrix file must end in {', '.join(MATRIX_SUFFIXES)}; found "
            f"{suffix or 'no ending'} (save the matrix in one of these formats)"
        )
    content = file_bytes(path)
    kind = foreign_kind(content[:BEGINNING])
    if kind is not None and kind[0] not in {"a numpy array", "a zip archive"}:
        raise FileError(f"{name}: a matrix was expected by its ending; found {kind[0]} ({kind[1]})")
    try:
        return square_matrix(readers[suffix](content, name))
    except GraphError as error:
        raise FileError(f"{name}: {error}") from None


def parse_matrix(text: str, name: str) -> Any:  # noqa: ANN401
    """The square matrix in the text of a Matrix Market file called `name`, as a canonical csr_array."""
    try:
        return square_matrix(_from_mtx(text.encode(), name))
    except GraphError as error:
        raise FileError(f"{name}: {error}") from None


def matrix_size(text: str, name: str) -> int:
    r"""How many rows or columns, whichever are more, a Matrix Market text announces; nothing of it is built.

    >>> matrix_size("%%MatrixMarket matrix coordinate real general\n% W\n1000000000 3 1\n1 1 1\n", "w.mtx")
    1000000000
    """
    lines = (line for line in io.StringIO(text) if line.strip() and not line.startswith("%"))
    words = next(lines, "").split()
    if len(words) < 2 or not all(word.isascii() and word.isdigit() for word in words[:2]):
        raise FileError(
            f"{name}: a Matrix Market file must give its size in the first line that is no comment; found "
            f"{' '.join(words)[:40]!r} (write it with scipy.io.mmwrite)"
        )
    # So many digits are a number beyond any matrix, and cheap to read.
    return max(int(word.lstrip("0")[:18] or "0") for word in words[:2])


def square_table(text: str, name: str, delimiter: str | None) -> tuple[Any, Sequence[int | str]] | None:
    r"""The matrix in a text of numbers with as many columns as lines, and its nodes; None where it is an edge list.

    A line above that, with a name for each column, names the nodes. A matrix has rows that sum to 1, or zeros and ones
    from four columns on; three columns of zeros and ones may be either and are refused.

    >>> matrix, nodes = square_table("anna,ben\n0.5,0.5\n0.25,0.75\n", "w.csv", ",")
    >>> matrix.toarray().tolist(), nodes
    ([[0.5, 0.5], [0.25, 0.75]], ['anna', 'ben'])
    """
    found = (line for line in io.StringIO(text) if line.strip() and line.lstrip()[0] not in "#%")
    first = next(found, "")
    size = len(first.split(delimiter))
    # One line too many tells as well as all of them.
    lines = [first, *itertools.islice(found, size + 1)]
    nodes: Sequence[int | str] = range(size)
    if len(lines) == size + 1 and not names_edges(first, delimiter):
        named = _named_nodes(first, delimiter)
        if named is None:
            return None
        nodes, lines = named, lines[1:]
    if len(lines) != size or size < 2 or not all(map(str.isascii, lines)):
        return None
    try:
        table = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    binary = bool(np.isin(table, (0, 1)).all())
    if (size > 3 and binary) or (not binary and (table >= 0).all() and _sums_to_1(table)):
        return square_matrix(table), _distinct(nodes, name)
    if size == 3 and binary:
        raise FileError(
            f"{name}: three lines of three zeros and ones may be a matrix or edges with weights (save a matrix with "
            "numpy.save; begin a list of edges with the line source,target,weight)"
        )
    if size > 3:
        worst = int(np.argmax(np.abs(table.sum(axis=1) - 1)))
        raise FileError(
            f"{name}: a table of {size} by {size} numbers is a matrix if it holds zeros and ones, or if every row sums "
            f"to 1 with no number below 0; row {worst + 1} sums to {table[worst].sum():.12g} (write every digit, as "
            "numpy.save does; edges have two or three columns)"
        )
    return None


def _named_nodes(header: str, delimiter: str | None) -> list[int | str] | None:
    """The nodes that a header names, by whole numbers too where lines are too long for edges; None if it is none."""
    names = [cell.strip().strip('"') for cell in header.split(delimiter)]
    try:
        np.array(names, dtype=np.float64)
    except ValueError:
        return list(names)
    whole = len(names) > 3 and all(cell.isascii() and cell.isdigit() for cell in names)
    return [int(cell) for cell in names] if whole else None


def _distinct(nodes: Sequence[int | str], name: str) -> Sequence[int | str]:
    """The nodes of a header; one without a name, or a name that stands twice, is refused."""
    twice = [node for node, count in Counter(nodes).items() if count > 1 or node == ""]
    if twice:
        raise FileError(
            f"{name}: the header of a matrix must give each column a name of its own; {twice[0]!r} stands "
            f"{list(nodes).count(twice[0])} times (rename it, or leave the header out)"
        )
    return nodes


def _sums_to_1(table: Any) -> bool:  # noqa: ANN401
    return bool((np.abs(table.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE).all())


def _from_npy(content: bytes, name: str) -> Any:  # noqa: ANN401
    return read_npy(content, name, "save one plain array of numbers with numpy.save")


def _from_npz(content: bytes, name: str) -> Any:  # noqa: ANN401
    rule = "a .npz file must hold one sparse matrix or one array with two dimensions"
    remedy = "save it with scipy.sparse.save_npz or numpy.savez"
    found = read_npz(content, name, remedy)
    if "format" in found:
        spoilt = [key for key, array in found.items() if key != "data" and array.dtype.kind not in "buiSU"]
        if spoilt:
            raise FileError(f"{name}: {rule}; its {spoilt[0]} are not whole numbers ({remedy})")
        try:
            return scipy.sparse.load_npz(io.BytesIO(content))
        except (ValueError, KeyError, AttributeError, TypeError, IndexError, OverflowError) as error:
            raise FileError(f"{name}: {rule}; scipy says: {_sentence(error)} ({remedy})") from None
    arrays = [array for array in found.values() if array.ndim == 2]
    if len(arrays) != 1:
        named = ", ".join(found) or "nothing"
        raise FileError(f"{name}: {rule}; found {len(arrays)} such arrays among {named} ({remedy})")
    return arrays[0]


def _from_mtx(content: bytes, name: str) -> Any:  # noqa: ANN401
    try:
        announced = scipy.io.mminfo(io.BytesIO(content))[2]
        # Each takes two bytes or more, and those above a diagonal may be left out.
        found = scipy.io.mmread(io.BytesIO(content)) if announced <= len(content) else None
    except (ValueError, OSError, OverflowError, EOFError, TypeError) as error:
        raise FileError(
            f"{name}: not a Matrix Market file; scipy says: {_sentence(error)} (write it with "
            "scipy.io.mmwrite)"
        ) from None
    if found is None:
        raise FileError(
            f"{name}: must hold the entries that its first lines announce; {announced} of them have no room in "
            f"{len(content)} bytes (write it with scipy.io.mmwrite)"
        )
    return found


def _sentence(error: Exception) -> str:
    """The first line of another library's message, fit to stand inside one of ours."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
