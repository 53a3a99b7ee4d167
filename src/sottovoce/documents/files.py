# SPDX-License-Identifier: Apache-2.0
"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import FileError

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
        return _put(encoded(), directory, lambda: named(digest.hexdigest()[:NAMED_BY]), 0o666 & ~_mask())
    except OSError as error:
        raise FileError(
            f"{directory}: the file cannot be written there: {error.strerror or error} "
            "(make room, or choose another directory)"
        ) from None


def write_bytes(content: bytes, file: Path, what: str, *, private: bool = False) -> Path:
    """Put `content` in the place of `file`, whole or not at all; a `private` one is for its owner's eyes alone."""
    try:
        return _put([content], file.parent, lambda: file.name, 0o600 if private else 0o666 & ~_mask())
    except OSError as error:
        raise FileError(
            f"{file}: {what} cannot be written: {error.strerror or error} (make room, or choose another place)"
        ) from None


def _put(chunks: Iterable[bytes], directory: Path, named: Callable[[], str], rights: int) -> Path:
    """Write a draft, which its owner alone can read, and only when it is safely on the disk give it rights and name."""
    kept: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".sottovoce-", delete=False) as draft:
            kept = Path(draft.name)
            for chunk in chunks:
                draft.write(chunk)
            draft.flush()
            os.fsync(draft.fileno())
        kept.chmod(rights)
        placed = kept.replace(directory / named())
        kept = None
    finally:
        if kept is not None:
            with contextlib.suppress(OSError):
                kept.unlink()
    return placed


def _check_directory(directory: Path, file: Path) -> None:
    """Refuse a directory in which no file can be created."""
    if not directory.is_dir():
        raise FileError(f"{file}: there is no directory {directory} (create it, or choose another)")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise FileError(f"{file}: the directory {directory} cannot be written to (choose another)")


def _mask() -> int:
    """The rights that this process withholds from new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
