# SPDX-License-Identifier: Apache-2.0
"""The one writer of files that appear whole or not at all, and the one reader of text that others wrote."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["public_rights", "put_whole", "read_bounded"]


def put_whole(
    chunks: Iterable[bytes | memoryview],
    directory: Path,
    named: Callable[[], str],
    *,
    rights: int,
    draft: str = ".sottovoce-",
) -> Path:
    """Write a draft, which its owner alone can read, and only when it is safely on the disk give it rights and name.

    `named` is asked last, so that a name may depend on what was written; what has that name is replaced at once. The
    name of a draft begins with `draft`. On failure, an OSError among others, nothing new is left and nothing old lost.
    """
    kept: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=draft, delete=False) as stream:
            kept = Path(stream.name)
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        kept.chmod(rights)
        placed = kept.replace(directory / named())
        kept = None
    finally:
        if kept is not None:
            with contextlib.suppress(OSError):
                kept.unlink()
    return placed


def public_rights() -> int:
    """The rights that a new file of this process has."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def read_bounded(file: Path, what: str, most: int) -> str:
    """The text of a file that may be anybody's: no more than `most` bytes of it are read.

    A sentence with the file's name says what is wrong: it cannot be read, is longer, or is no text. `what` names it.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise FileError(f"{file}: the {what} cannot be read: {error.strerror or error}") from None
    if len(content) > most:
        raise FileError(f"{file}: a {what} has at most {most} bytes; this file has more")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise FileError(f"{file}: a {what} is UTF-8 text; this file is not") from None
