# SPDX-License-Identifier: Apache-2.0
"""What may stand at the cursor of a shell: commands, options, and what options take."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from sottovoce.cli.values import VALUES, Candidate, files, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyclopts import App, Argument

__all__ = ["candidates", "choices", "words_of"]


def words_of(line: str) -> list[str]:
    """The words after the program's name in the last command of a line, the last of them still being typed.

    >>> words_of("cd data; sottovoce account 'ring:n=5' --vi")
    ['account', 'ring:n=5', '--vi']
    >>> words_of("sottovoce account ")
    ['account', '']
    """
    words: list[str] = []
    for closing in ("", '"', "'"):
        split = shlex.shlex(line + closing, posix=True, punctuation_chars="();<>|&")
        split.whitespace_split, split.commenters = True, ""
        try:
            words = list(split)
        except ValueError:
            # A quotation that is still open.
            continue
        if not closing and line[-1:].isspace() and not line.endswith("\\ "):
            words.append("")
        break
    ends = [place for place, word in enumerate(words) if word and set(word) <= set("();<>|&")]
    command = words[ends[-1] + 1 :] if ends else words
    while command and "=" in command[0]:
        # A variable that is set for this command alone.
        command = command[1:]
    return command[1:] or [""]


def candidates(words: list[str]) -> list[Candidate]:
    """All that may stand where the last of the words is, which may be empty."""
    from sottovoce.cli.application import app

    *before, word = words
    command = app
    while before and not before[0].startswith("-") and before[0] in command:
        command = command[before.pop(0)]
    found = (
        _commands(command, before, word)
        if command.default_command is None
        else (_typed(command, before).following(command, word))
    )
    return [each for each in found if each.word.startswith(word)]


def _commands(command: App, before: list[str], word: str) -> list[Candidate]:
    """The commands under a name, unless another word stands where they do."""
    if word.startswith("-"):
        return _flags(command)
    names = [] if before else [name for name in command if not name.startswith("-")]
    return [Candidate(name, _first(command[name].help)) for name in names]


@dataclass(kw_only=True)
class _Typed:
    """What was typed after a command: values by the name of what takes them, and the option that waits for one."""

    options: dict[str, Argument]
    places: list[Argument]
    given: dict[str, list[str]] = field(default_factory=dict)
    filled: int = 0
    waiting: Argument | None = None

    def take(self, word: str) -> None:
        """Understand one more word."""
        name, equals, value = word.partition("=")
        if name in self.options:
            argument = self.options[name]
            self.given.setdefault(argument.name, []).extend([value] if equals else [])
            self.waiting = None if equals or argument.is_flag() else argument
        elif self.waiting is not None:
            self.given[self.waiting.name].append(word)
            # Some options take all that follows.
            self.waiting = self.waiting if self.waiting.parameter.consume_multiple else None
        elif self.place is not None:
            self.given.setdefault(self.place.name, []).append(word)
            self.filled += 1

    @property
    def place(self) -> Argument | None:
        """The argument that the next word without an option belongs to."""
        if self.filled < len(self.places):
            return self.places[self.filled]
        return self.places[-1] if self.places and self.places[-1].token_count()[1] else None

    def following(self, command: App, word: str) -> Iterable[Candidate]:
        """What may come next, if it begins like `word`."""
        if self.waiting is not None and not (
            self.waiting.parameter.consume_multiple and word.startswith("-")
        ):
            return self.values(self.waiting, word)
        name, equals, value = word.partition("=")
        if name in self.options and equals:
            return [
                Candidate(f"{name}={found.word}", found.about)
                for found in self.values(self.options[name], value)
            ]
        if word.startswith("-"):
            return [*self.names(negative=word.startswith("--no-")), *_flags(command)]
        return self.names(negative=False) if self.place is None else self.values(self.place, word)

    def names(self, *, negative: bool) -> Iterator[Candidate]:
        """The options that can still be given."""
        for name, argument in self.options.items():
            again = argument.token_count()[1]
            if name.startswith("--no-") == negative and (again or argument.name not in self.given):
                yield Candidate(name, _first(argument.parameter.help))

    def values(self, argument: Argument, word: str) -> Iterable[Candidate]:
        """What an argument may be."""
        fixed = list(choices(argument.hint))
        if fixed:
            return [Candidate(each) for each in fixed]
        if argument.name in {"--observer", "--target"}:
            graph = self.given.get("GRAPH") or self.given.get("--graph")
            return nodes(graph[0]) if graph else []
        if argument.name in VALUES:
            return VALUES[argument.name](word)
        return files(word) if Path in {argument.hint, *get_args(argument.hint)} else []


def _typed(command: App, words: Iterable[str]) -> _Typed:
    """What the words after a command say."""
    arguments = [each for each in command.assemble_argument_collection() if each.name != "*"]
    typed = _Typed(
        options={name: each for each in arguments for name in each.names if name.startswith("--")},
        places=[each for each in arguments if each.index is not None],
    )
    for word in words:
        typed.take(word)
    return typed


def choices(hint: object) -> Iterator[str]:
    """The words of every Literal inside a hint."""
    if get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    else:
        for part in get_args(hint):
            yield from choices(part)


def _flags(command: App) -> list[Candidate]:
    """The options that every command has."""
    return [Candidate(name) for name in (*command.help_flags, *command.version_flags)]


def _first(text: str | None) -> str:
    """The first sentence of a help text."""
    return (text or "").strip().partition("\n")[0].partition(". ")[0].rstrip(".")
