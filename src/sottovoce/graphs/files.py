# SPDX-License-Identifier: Apache-2.0
"""The bytes and the text of a graph file, with errors that name the file."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import FileError

if TYPE_CHECKING:
    import os

__all__ = ["file_bytes", "file_suffix", "file_text"]


def file_suffix(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The file's name and its lower-case ending, where a final .gz is looked through."""
    name = Path(path).name
    bare = Path(name[:-3] if name.lower().endswith(".gz") else name)
    return name, bare.suffix.lower()


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file, unpacked when its name ends in .gz."""
    file = Path(path)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{file}: there is no such file (check the path)") from None
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror} (check the path and its rights)") from None
    if file.name.lower().endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FileError(
                f"{file.name}: not a complete gzip file: {error} (compress it again, or drop the .gz if it "
                "is plain)"
            ) from None
    if not content.strip():
        raise FileError(f"{file.name}: the file is empty (write one edge per line, as in: a b)")
    return content


def file_text(path: str | os.PathLike[str]) -> str:
    """The content of a text file in UTF-8; binary content is refused with the line where it starts."""
    content, name = file_bytes(path), Path(path).name
    try:
        text = content.decode("utf-8-sig")
        spoilt = text.find("\0")
    except UnicodeDecodeError as error:
        spoilt = error.start
    if spoilt >= 0:
        line = content.count(b"\n", 0, spoilt) + 1
        raise FileError(
            f"{name}, line {line}: a text file in UTF-8 was expected; found binary content (give matrices "
            "the ending .npy or .npz, compressed files .gz)"
        )
    return text
