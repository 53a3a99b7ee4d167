# SPDX-License-Identifier: Apache-2.0
"""What a file holds, told from its first bytes: for messages about files that are no graph files."""

from __future__ import annotations

import json
import re

__all__ = ["foreign_kind"]

_EXPORT = "read it where it was made, and write an edge list, GraphML or a .npy matrix"
_MAGIC = (
    (b"\x93NUMPY", "a numpy array", "give it the ending .npy"),
    (b"\x1f\x8b", "gzip-compressed content", "let the name end in .gz"),
    (b"PAR1", "Parquet", _EXPORT),
    (b"\x89HDF", "HDF5", _EXPORT),
    (b"\x89PNG", "a picture", _EXPORT),
    (b"%PDF", "PDF", _EXPORT),
    (b"SQLite format 3", "an SQLite database", _EXPORT),
)
_PICKLE = "a Python pickle, which is never opened, since opening it runs what is in it"
_MARKUP = {
    "gexf": ("GEXF", "write it as GraphML: networkx.write_graphml(networkx.read_gexf(…), …)"),
    "graphml": ("GraphML", "give it the ending .graphml"),
    "html": ("HTML", "download the file itself"),
}


def foreign_kind(content: bytes) -> tuple[str, str] | None:
    """The kind of file that this is the beginning of, if it is no edge list, and what to do about it.

    >>> foreign_kind(b'{"nodes": []}')
    ('JSON', 'read it where it was made, and write an edge list, GraphML or a .npy matrix')
    >>> foreign_kind(b"anna ben") is None
    True
    """
    for magic, kind, remedy in _MAGIC:
        if content.startswith(magic):
            return kind, remedy
    if content.startswith(b"PK\x03\x04"):
        held = b"xl/" in content or b"[Content_Types].xml" in content
        kind = "an Excel workbook" if held else "a zip archive"
        return (
            kind,
            "save the sheet as CSV" if held else "give a matrix of numpy the ending .npz, or unpack it",
        )
    if re.match(rb"\x80[\x02-\x05]|c\w+(\.\w+)*\n\w+\n|\([dl]p\d", content):
        return _PICKLE, "unpickle it yourself, and write an edge list, GraphML or a .npy matrix"
    text = content.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if found := re.match(
        r"(?:<\?xml.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>|\s)*<(\w+)", text, re.DOTALL | re.IGNORECASE
    ):
        name = found[1].lower()
        # A name of a node may stand in angle brackets too.
        if name in _MARKUP or text.startswith("<?xml"):
            return _MARKUP.get(name, (f"XML of the kind {found[1]!r}", _EXPORT))
    if text.startswith("*") and re.match(r"\*(vertices|network)\b", text, re.IGNORECASE):
        return "Pajek", "write it as GraphML: networkx.write_graphml(networkx.read_pajek(…), …)"
    return ("JSON", _EXPORT) if _looks_like_json(text) else None


def _looks_like_json(text: str) -> bool:
    """Whether text begins as a JSON object or list does."""
    if not re.match(r'\{\s*("|\})|\[\s*(["\[{\]]|-?\d)', text):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # The beginning of a longer text goes wrong at its end at the earliest.
        return error.pos >= min(len(text) - 1, 200)
    return True
