"""Bytes and text of files."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from sottovoce.errors import FileError
from sottovoce.graphs.files import file_bytes, file_suffix, file_text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.TXT", ("b.TXT", ".txt")),
        ("b.mtx.gz", ("b.mtx.gz", ".mtx")),
        ("b.gz", ("b.gz", "")),
        ("b", ("b", "")),
    ],
)
def test_suffix_looks_through_gz(path: Any, expected: Any) -> None:
    assert file_suffix(path) == expected


def test_text_is_unpacked_and_loses_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "g.txt.gz"
    file.write_bytes(gzip.compress("\ufeffä b\n".encode()))
    assert file_text(file) == "ä b\n"


MISTAKES = [
    ("g.txt", b"", r"^g.txt: the file is empty \(write one edge per line, as in: a b\)"),
    ("g.txt", b"  \n\n", r"^g.txt: the file is empty"),
    ("g.txt.gz", b"0 1\n", r"^g.txt.gz: not a complete gzip file: .* \(compress it again, or drop the .gz"),
    ("g.txt.gz", gzip.compress(b"0 1\n" * 99, mtime=0)[:-9], r"^g.txt.gz: not a complete gzip file"),
    (
        "g.txt.gz",
        gzip.compress(b"0 1\n", mtime=0)[:12] + b"zzzzzzzzzz",
        r"^g.txt.gz: not a complete gzip file",
    ),
    (
        "g.txt",
        b"0 1\n\xff\xfe\x00",
        r"^g.txt, line 2: a text file in UTF-8 was expected; found binary content \(",
    ),
    ("g.txt", b"0 1\n1 2\n2\x00 3", r"^g.txt, line 3: a text file in UTF-8"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), MISTAKES)
def test_mistakes(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=sentence):
        file_text(tmp_path / name)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none.npy: there is no such file \(check the path\)"):
        file_bytes(tmp_path / "none.npy")
    with pytest.raises(FileError, match=r"cannot be read: .* \(check the path and its rights\)"):
        file_bytes(tmp_path)
