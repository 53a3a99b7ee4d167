# SPDX-License-Identifier: Apache-2.0
"""The bytes and the text of a graph file, with errors that name the file."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.errors import FileError
from sottovoce.graphs.contents import foreign_kind

if TYPE_CHECKING:
    import os

__all__ = ["BEGINNING", "file_beginning", "file_bytes", "file_suffix", "file_text"]

# So many bytes tell what a file is.
BEGINNING = 4096


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


def file_beginning(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of a file, unpacked when its name ends in .gz; nothing of what cannot be read."""
    file = Path(path)
    try:
        if not file.is_file():
            return b""
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as stream:
            return stream.read(BEGINNING)
    except (OSError, EOFError, zlib.error):
        return b""


def file_text(path: str | os.PathLike[str]) -> str:
    """The content of a text file in UTF-8, or UTF-16 with its mark; anything else is refused as what it is."""
    content, name = file_bytes(path), Path(path).name
    try:
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16")
        text = content.decode("utf-8-sig")
        spoilt = text.find("\0")
    except UnicodeDecodeError as error:
        spoilt = error.start
    if spoilt < 0:
        return text
    kind, remedy = foreign_kind(content[:BEGINNING]) or _spoilt_text(content, spoilt)
    line = content.count(b"\n", 0, spoilt) + 1
    raise FileError(f"{name}, line {line}: a text file in UTF-8 was expected; found {kind} ({remedy})")


def _spoilt_text(content: bytes, spoilt: int) -> tuple[str, str]:
    """What bytes are that no UTF-8 has: letters of an older encoding, shown as they are probably meant, or no text."""
    # Texts of one byte a letter have no control characters but those that part words and lines.
    if set(content) & (set(range(32)) - set(b"\t\n\f\r")):
        return "binary content", "give matrices the ending .npy or .npz, compressed files .gz"
    around = re.search(rb"[^\s,;\"]*\Z", content[:spoilt]), re.match(rb"[^\s,;\"]*", content[spoilt:])
    word = b"".join(found[0] for found in around if found).decode("cp1252", "replace")
    return (
        f"{word!r} in another encoding, read here as Latin-1 (Windows-1252)",
        "save the file as UTF-8, as in: iconv -f WINDOWS-1252 -t UTF-8",
    )
