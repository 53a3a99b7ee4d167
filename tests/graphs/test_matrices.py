"""Matrix files: round trips, and the sentence for each kind of mistake."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.errors import FileError
from sottovoce.graphs.matrices import read_matrix, square_matrix

W = np.array([[0.5, 0.5, 0], [0.1, 0.2, 0.7], [0, 1, 0]])


def mtx(matrix: Any) -> Any:
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix)
    return buffer.getvalue()


def npy(array: Any, **options: Any) -> Any:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npz(**arrays: Any) -> Any:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def sparse_npz(matrix: Any) -> Any:
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, matrix)
    return buffer.getvalue()


FILES = [
    ("w.npy", npy(W)),
    ("w.npz", npz(anything=W)),
    ("w.npz", npz(w=W, note=np.zeros(3))),
    ("w.npz", sparse_npz(scipy.sparse.csr_array(W))),
    ("w.npz", sparse_npz(scipy.sparse.coo_matrix(W))),
    ("w.mtx", mtx(scipy.sparse.coo_array(W))),
    ("w.mtx", mtx(W)),
    ("w.mtx.gz", gzip.compress(mtx(scipy.sparse.coo_array(W)))),
]


@pytest.mark.parametrize(("name", "content"), FILES)
def test_round_trips(tmp_path: Path, name: str, content: Any) -> None:
    (tmp_path / name).write_bytes(content)
    assert np.array_equal(read_matrix(tmp_path / name).toarray(), W)


def test_a_pattern_matrix_reads_as_ones(tmp_path: Path) -> None:
    (tmp_path / "g.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n")
    assert read_matrix(tmp_path / "g.mtx").toarray().tolist() == [[0, 1], [1, 0]]


MISTAKES = [
    (
        "w.npy",
        npy(np.array([{}], dtype=object), allow_pickle=True),
        r"^w.npy: .*found Python objects, which are never opened \(convert",
    ),
    ("w.npy", b"garbage", r"^w.npy: not a whole .npy file: an array of numpy begins otherwise"),
    (
        "w.npy",
        npy(W)[:-8],
        r"^w.npy: not a whole .npy file: an array of \d+ bytes was announced, and \d+ are there \(save",
    ),
    ("w.npy", npy(np.ones((2, 3))), r"^w.npy: .*must be square; got 2 x 3 \(one row and column per node\)"),
    ("w.npy", npy(np.ones(3)), r"^w.npy: .*must be square; got an array of 1 dimensions"),
    ("w.npy", npy(np.ones((2, 2)) * 1j), r"^w.npy: .*real numbers; got entries of type complex128 \(convert"),
    ("w.npy", npy(np.array([[1, np.nan], [0, 1]])), r"^w.npy: .* finite numbers; row 0, column 1 is nan"),
    ("w.npy", npy(np.array([[1, -2], [0, 1]])), r"^w.npy: .* at least 0; row 0, column 1 is -2"),
    ("w.npz", b"garbage", r"^w.npz: not a whole .npz file: File is not a zip file \(save it with scipy"),
    ("w.npz", npz(a=W)[:40], r"^w.npz: not a whole .npz file: "),
    (
        "w.npz",
        npz(a=W, b=W),
        r"^w.npz: .*; found 2 such arrays among a, b \(save it with scipy.sparse.save_npz or",
    ),
    ("w.npz", npz(a=np.ones(2)), r"^w.npz: .*; found 0 such arrays among a"),
    ("w.npz", npz(format=np.array("csr")), r"^w.npz: .* scipy says: "),
    (
        "w.mtx",
        b"0 1\n",
        r"^w.mtx: not a Matrix Market file; scipy says: .* \(write it with scipy.io.mmwrite\)",
    ),
    ("w.mtx", mtx(W)[:-8], r"^w.mtx: not a Matrix Market file"),
    (
        "w.mtx",
        b"%%MatrixMarket matrix coordinate real general\n3 3 10000000000\n1 2 1.0\n",
        r"^w.mtx: must hold the entries that its first lines announce; 10000000000 of them have no room in 70 bytes",
    ),
    (
        "w.mtx",
        b"%%MatrixMarket matrix array real general\n100000 100000\n1.0\n",
        r"^w.mtx: must hold the entries",
    ),
    (
        "w.mtx",
        b"%%MatrixMarket matrix coordinate real general\n10000000000 10000000000 1\n1 2 1.0\n",
        r"^w.mtx: .* must have an entry for every node; got 1 for 10000000000 nodes \(leave out nodes that have no",
    ),
    (
        "w.npz",
        npz(format="coo", shape=[10**10, 10**10], data=[1.0], row=[0], col=[1]),
        r"^w.npz: .* must have an entry for every node; got 1 for 10000000000 nodes",
    ),
    (
        "w.txt",
        b"0 1\n",
        r"^w.txt: a matrix file must end in .npy, .npz, .mtx, .mtx.gz; found .txt \(save the",
    ),
    ("w", b"0 1\n", r"^w: a matrix file must end in .*; found no ending"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), MISTAKES)
def test_mistakes(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=sentence):
        read_matrix(tmp_path / name)


@pytest.mark.parametrize("values", [np.eye(2, dtype=bool), np.eye(2, dtype=np.int8), [[1, 0], [0, 1]]])
def test_any_real_type_becomes_float(values: Any) -> None:
    assert square_matrix(values).dtype == np.float64
