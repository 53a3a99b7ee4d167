# SPDX-License-Identifier: Apache-2.0
"""Files appear whole or not at all, with the rights asked for; what others wrote is read so far and no further."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.errors import FileError
from sottovoce.files import public_rights, put_whole, read_bounded


def test_a_file_appears_whole_and_replaces_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_bytes(b"old")
    written: list[bytes] = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"a,", b"b\n"):
            written.append(chunk)
            yield chunk
            assert (tmp_path / "pairs.csv").read_bytes() == b"old"

    # The name is asked for when all is written.
    placed = put_whole(
        chunks(), tmp_path, lambda: f"pairs{'.csv' if len(written) == 2 else ''}", rights=0o640
    )
    assert placed == tmp_path / "pairs.csv"
    assert placed.read_bytes() == b"a,b\n"
    assert placed.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.csv"]


def test_a_failure_leaves_nothing_new_and_loses_nothing_old(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_bytes(b"old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        (draft,) = tmp_path.glob(".draft-*")
        assert draft.stat().st_mode & 0o777 == 0o600
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        put_whole(broken(), tmp_path, lambda: "pairs.csv", rights=0o644, draft=".draft-")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("pairs.csv", b"old")]


def test_public_rights_are_those_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    assert public_rights() == (tmp_path / "new").stat().st_mode & 0o777


def test_no_more_is_read_than_a_file_may_have_and_sentences_name_it(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(FileError, match=r"report.html: the report cannot be read: No such file"):
        read_bounded(file, "report", 4)
    file.write_bytes("Δ²".encode())
    assert read_bounded(file, "report", 4) == "Δ²"
    with pytest.raises(FileError, match=r"report.html: a report has at most 3 bytes; this file has more"):
        read_bounded(file, "report", 3)
    file.write_bytes(b"\xff")
    with pytest.raises(FileError, match=r"report.html: a report is UTF-8 text; this file is not"):
        read_bounded(file, "report", 4)
