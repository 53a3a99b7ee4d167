# SPDX-License-Identifier: Apache-2.0
"""Defaults from a TOML file: sottovoce.toml here or above, or the file that --config names."""

from __future__ import annotations

import difflib
import tomllib
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts.config import Dict

from sottovoce.errors import FileError

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection

__all__ = ["DEFAULTS_FILE", "file_defaults", "note_sources", "with_source"]

DEFAULTS_FILE = "sottovoce.toml"

_given_by: ContextVar[dict[str, str]] = ContextVar("given_by")


def file_defaults(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give every option of the command that has no value yet the one in the file of defaults."""
    named = [
        token.value for argument in arguments if argument.name == "--config" for token in argument.tokens
    ]
    path = Path(named[-1]) if named else _nearest(Path.cwd())
    if not commands or path is None:
        return
    tables = given = _tables(path)
    for word in commands:
        given = given.get(word, {})
    known = [
        argument.name.removeprefix("--")
        for argument in arguments
        if argument.name.startswith("--") and argument.name != "--config"
    ]
    for key in given:
        if key not in known:
            raise FileError(f"{path}: [{'.'.join(commands)}] has no key {key!r} ({_remedy(key, known)})")
    Dict(tables, source=str(path))(app, commands, arguments)


def note_sources(_: App, __: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Remember which options have their value from a file of defaults or from the environment."""
    _given_by.set(
        {
            argument.name: f"the environment variable {token.keyword}"
            if token.source == "env"
            else token.source
            for argument in arguments
            for token in argument.tokens
            if token.source not in {"", "cli"}
        }
    )


def with_source(message: str) -> str:
    """A message that begins with an option, with where its value stands if nobody typed it."""
    option = message.partition(" ")[0]
    source = _given_by.get({}).get(option)
    return message if source is None else f"{option}, from {source},{message.removeprefix(option)}"


def _nearest(directory: Path) -> Path | None:
    """The file of defaults in `directory` or the closest directory above that has one."""
    places = (place / DEFAULTS_FILE for place in (directory, *directory.parents))
    return next((place for place in places if place.is_file()), None)


def _tables(path: Path) -> dict[str, Any]:
    """The tables of a TOML file, each of them named after a command."""
    from sottovoce.cli.application import app

    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read as TOML: {reason} (correct the file or its path)") from None
    known = [name for name in app if not name.startswith("-")]
    for name, table in tables.items():
        if name not in known or not isinstance(table, dict):
            raise FileError(
                f"{path}: {name!r} is not a table of defaults; each command has one ({_remedy(name, known)})"
            )
    return tables


def _remedy(word: str, known: list[str]) -> str:
    """Which word was probably meant, or which there are."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
