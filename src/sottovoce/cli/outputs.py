# SPDX-License-Identifier: Apache-2.0
"""What commands write: never over what they read, never two into one file, and over nothing that they do not write."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.errors import FileError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyclopts import App, ArgumentCollection

__all__ = ["KINDS", "KNOWN_BY_THEMSELVES", "WRITTEN", "check_outputs", "interrupted_name", "refuse_clashes"]

WRITTEN = ("--output", "--report", "--plot")
"""The options that name what a command writes; what any other argument names is read."""

BEGINNING = 1000


class Kind(NamedTuple):
    """What a command writes, and how a file of it begins."""

    what: str
    begins: str


_PAIRS = Kind("a table of pairs", "view,observer,target,")
_PICTURE = Kind("a picture", r"<\?xml[^>]*>\s*<!DOCTYPE svg|<(\?xml[^>]*>\s*<)?svg|\x89PNG|%PDF")
_REPORT = Kind("a report", r"<!doctype html>[^>]*>\s*<head>\s*<meta[^>]*>\s*<meta[^>]*script-src 'sha256-")

KINDS = {
    ("account", "--output"): _PAIRS,
    ("calibrate", "--output"): _PAIRS,
    ("rate", "--output"): _PAIRS,
    ("certify", "--output"): Kind("a certificate", r'\{"schema": \d+, "protocol": '),
    ("peers certify", "--output"): Kind("the certificate of a run", r'\{[^}]*"sottovoce run certificate '),
    ("frontier", "--output"): _PICTURE,
}
"""What stands in the place of an earlier file of the same command; every --plot is a picture, every --report a page."""

KNOWN_BY_THEMSELVES = {
    "graph": "an edge list says nothing of who wrote it: what is there has to be the same graph",
    "train": "a run is read before another takes its place",
    "sweep": "a folder",
    "reproduce": "a folder",
}
"""Commands that look themselves at what lies where --output points, and why."""


def check_outputs(_: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse, before a command begins, to lose a file by what it writes.

    A file that the command reads, by whatever link, is not written; two outputs are two files; and a file that is not
    of the kind that is written in its place stays.
    """
    given = [(argument.name, token.value) for argument in arguments for token in argument.tokens]
    written = [(name, value) for name, value in given if name in WRITTEN]
    if not written:
        return
    beside = [
        (f"what {name} leaves when interrupted,", str(interrupted_name(Path(value))))
        for name, value in written
        if commands == ("account",) and name == "--output"
    ]
    refuse_clashes([*written, *beside], [(name, value) for name, value in given if name not in WRITTEN])
    for name, value in (*written, *beside):
        kind = _kind(" ".join(commands), name if name in WRITTEN else "--output")
        if kind is not None:
            _refuse_foreign(Path(value), kind)


def interrupted_name(output: Path) -> Path:
    """Where the pairs go that are finished when an interrupt comes."""
    return output.with_name(f"{output.stem}.interrupted{output.suffix}")


def refuse_clashes(written: Iterable[tuple[str, str]], read: Iterable[tuple[str, str]]) -> None:
    """Refuse outputs that are one file with each other or with a file that is read; each comes with what names it."""
    taken = {_same(value): (name, value, "reads") for name, value in read if _is_file(value)}
    for name, value in written:
        found = taken.setdefault(_same(value), (name, value, "writes"))
        if found != (name, value, "writes"):
            other, there, does = found
            raise InputError(
                f"{name} {value} must be a file of its own; it is the file {there} that the command {does} as {other} "
                "(choose another name)"
            )


def _same(value: str) -> object:
    """What two names of one file have in common: the file, or the place where there is none yet."""
    try:
        found = Path(value).stat()
    except (OSError, ValueError):
        return os.path.normcase(os.path.realpath(value.replace("\0", "")))
    return found.st_dev, found.st_ino


def _is_file(value: str) -> bool:
    try:
        return Path(value).is_file()
    except (OSError, ValueError):
        return False


def _kind(command: str, option: str) -> Kind | None:
    """What the option writes there."""
    if option == "--report":
        return _REPORT
    return _PICTURE if option == "--plot" else KINDS.get((command, option))


def _refuse_foreign(file: Path, kind: Kind) -> None:
    """Refuse a file that holds something else; one that is empty, or cannot be read, holds nothing to lose or tell."""
    if not _is_file(str(file)):
        return
    try:
        with file.open("rb") as stream:
            content = stream.read(BEGINNING).decode("latin-1")
    except OSError:
        content = "\0"
    if content and not re.match(kind.begins, content):
        raise FileError(
            f"{file}: {kind.what} takes the place of {kind.what} alone, and something else lies there (choose another "
            "name, or remove it)"
        )
