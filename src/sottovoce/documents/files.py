# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import FileError
from sottovoce.files import public_rights, put_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["check_path", "write_bytes", "write_whole"]

NAMED_BY = 12


def check_path(path: str | os.PathLike[str], suffixes: tuple[str, ...], what: str) -> Path:
    """The path, if a file of one of these endings can be put there; an error before any work is lost."""
    file = Path(path)
    if file.suffix.lower() not in suffixes:
        raise FileError(
            f"{file}: {what} is written to a file that ends in {' or '.join(suffixes)} (rename it)"
        )
    if file.exists() and not file.is_file():
        raise FileError(f"{file}: there is something that is not a file (choose another name)")
    _check_directory(file.parent, file)
    return file


def write_whole(chunks: Iterable[str], directory: Path, named: Callable[[str], str]) -> Path:
    """Write `chunks` as UTF-8 to a new file and then move it to `named(digest)`, which is replaced at once.

    `digest` is the start of the content's SHA-256. On failure nothing new is left and nothing old lost.
    """
    _check_directory(directory, directory)
    digest = hashlib.sha256()

    def encoded() -> Iterator[bytes]:
        for chunk in chunks:
            content = chunk.encode()
            digest.update(content)
            yield content

    try:
        return put_whole(
            encoded(), directory, lambda: named(digest.hexdigest()[:NAMED_BY]), rights=public_rights()
        )
    except OSError as error:
        raise FileError(
            f"{directory}: the file cannot be written there: {error.strerror or error} "
            "(make room, or choose another directory)"
        ) from None


def write_bytes(content: bytes, file: Path, what: str, *, private: bool = False) -> Path:
    """Put `content` in the place of `file`, whole or not at all; a `private` one is for its owner's eyes alone."""
    try:
        rights = 0o600 if private else public_rights()
        return put_whole([content], file.parent, lambda: file.name, rights=rights)
    except OSError as error:
        raise FileError(
            f"{file}: {what} cannot be written: {error.strerror or error} (make room, or choose another place)"
        ) from None


def _check_directory(directory: Path, file: Path) -> None:
    """Refuse a directory in which no file can be created."""
    if not directory.is_dir():
        raise FileError(f"{file}: there is no directory {directory} (create it, or choose another)")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise FileError(f"{file}: the directory {directory} cannot be written to (choose another)")
