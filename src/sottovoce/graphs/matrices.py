# SPDX-License-Identifier: Apache-2.0
"""Square matrices from memory and from .npy, .npz and Matrix Market files."""

from __future__ import annotations

import io
import itertools
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.errors import FileError, GraphError
from sottovoce.graphs.contents import foreign_kind
from sottovoce.graphs.files import BEGINNING, file_bytes, file_suffix
from sottovoce.graphs.model import canonical_matrix
from sottovoce.graphs.validation import ROW_SUM_TOLERANCE, check_entries

if TYPE_CHECKING:
    import os

__all__ = ["MATRIX_SUFFIXES", "read_matrix", "square_matrix", "square_table"]

MATRIX_SUFFIXES = (".npy", ".npz", ".mtx", ".mtx.gz")


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


def square_table(text: str, name: str, delimiter: str | None) -> Any | None:  # noqa: ANN401
    r"""The matrix in a text of numbers alone with as many columns as lines; None where the text is an edge list.

    A matrix has rows that sum to 1, or zeros and ones from four columns on; three columns of zeros and ones may be
    either and are refused.

    >>> square_table("0.5,0.5\n0.25,0.75\n", "w.csv", ",").toarray().tolist()
    [[0.5, 0.5], [0.25, 0.75]]
    """
    found = (line for line in io.StringIO(text) if line.strip() and line.lstrip()[0] not in "#%")
    first = next(found, "")
    size = len(first.split(delimiter))
    # One line too many tells as well as all of them.
    lines = [first, *itertools.islice(found, size)]
    if len(lines) != size or size < 2 or not all(map(str.isascii, lines)):
        return None
    try:
        table = np.loadtxt(lines, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    binary = bool(np.isin(table, (0, 1)).all())
    if (size > 3 and binary) or (not binary and (table >= 0).all() and _sums_to_1(table)):
        return square_matrix(table)
    if size == 3 and binary:
        raise FileError(
            f"{name}: three lines of three zeros and ones may be a matrix or edges with weights (save a matrix with "
            "numpy.save; begin a list of edges with the line source,target,weight)"
        )
    if size > 3:
        worst = int(np.argmax(np.abs(table.sum(axis=1) - 1)))
        raise FileError(
            f"{name}: a table of {size} by {size} numbers is a matrix if it holds zeros and ones, or if every row sums "
            f"to 1 with no number below 0; line {worst + 1} sums to {table[worst].sum():.12g} (write every digit, as "
            "numpy.save does; edges have two or three columns)"
        )
    return None


def _sums_to_1(table: Any) -> bool:  # noqa: ANN401
    return bool((np.abs(table.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE).all())


def _from_npy(content: bytes, name: str) -> Any:  # noqa: ANN401
    if not content.startswith(b"\x93NUMPY"):
        raise FileError(
            f"{name}: a .npy file must hold one plain array of numbers; found something else (save it with numpy.save)"
        )
    try:
        return np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FileError(
            f"{name}: a .npy file must hold one plain array of numbers; numpy says: {_sentence(error)} (save "
            "it again with numpy.save, without pickled objects)"
        ) from None


def _from_npz(content: bytes, name: str) -> Any:  # noqa: ANN401
    rule = "a .npz file must hold one sparse matrix or one array with two dimensions"
    remedy = "save it with scipy.sparse.save_npz or numpy.savez"
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if "format" in archive.files:
                return scipy.sparse.load_npz(io.BytesIO(content))
            arrays = [array for key in archive.files if (array := archive[key]).ndim == 2]
            found = ", ".join(archive.files) or "nothing"
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise FileError(f"{name}: {rule}; numpy says: {_sentence(error)} ({remedy})") from None
    if len(arrays) != 1:
        raise FileError(f"{name}: {rule}; found {len(arrays)} such arrays among {found} ({remedy})")
    return arrays[0]


def _from_mtx(content: bytes, name: str) -> Any:  # noqa: ANN401
    try:
        return scipy.io.mmread(io.BytesIO(content))
    except (ValueError, OSError, OverflowError, EOFError, TypeError) as error:
        raise FileError(
            f"{name}: not a Matrix Market file; scipy says: {_sentence(error)} (write it with "
            "scipy.io.mmwrite)"
        ) from None


def _sentence(error: Exception) -> str:
    """The first line of another library's message, fit to stand inside one of ours."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
