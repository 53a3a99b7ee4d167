# SPDX-License-Identifier: Apache-2.0
"""The occasion of a report: when, by which command, from which files, with what, and against which budget."""

from __future__ import annotations

import hashlib
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce._version import __version__
from sottovoce.errors import FileError
from sottovoce.forms import Form

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["InputFile", "Occasion", "occasion"]

_PACKAGES = ("numpy", "scipy")


class InputFile(Form, frozen=True, kw_only=True):
    """A file that a command read: its name, and the SHA-256 of what was in it."""

    name: str
    sha256: str


class Occasion(Form, frozen=True, kw_only=True):
    """When a report was written (UTC), what was typed, which files were read, which versions ran, and the budget."""

    date: str
    command: str
    inputs: tuple[InputFile, ...]
    versions: dict[str, str]
    max_epsilon: float | None


def occasion(command: str, inputs: Iterable[str | Path], max_epsilon: float | None) -> Occasion:
    """The occasion of a command, now; of `inputs` those that are files count, each once."""
    found = dict.fromkeys(Path(each) for each in inputs if Path(each).is_file())
    installed = {name: _installed(name) for name in _PACKAGES}
    return Occasion(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        inputs=tuple(InputFile(name=path.name, sha256=_digest(path)) for path in found),
        versions={"sottovoce": __version__, "Python": platform.python_version(), **installed},
        max_epsilon=max_epsilon,
    )


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path}: cannot be read again for its hash: {error.strerror or error}") from None
