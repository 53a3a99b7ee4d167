# SPDX-License-Identifier: Apache-2.0
"""The application: its commands, and what becomes of every error."""

from __future__ import annotations

import copy
import difflib
import itertools
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, get_args

from cyclopts import (
    App,
    CycloptsError,
    Group,
    MissingArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)
from cyclopts.config import Env

from sottovoce._version import __version__
from sottovoce.cli import (
    account,
    audit,
    calibrate,
    certify,
    coalition,
    compare,
    completion,
    explain,
    frontier,
    graph,
    peers,
    rate,
    reproduce,
    serve,
    summary,
    sweep,
    train,
    verify,
)
from sottovoce.cli.defaults import file_defaults, note_sources, with_source
from sottovoce.cli.outputs import check_outputs
from sottovoce.cli.printing import (
    complain,
    letters_told,
    prepare_streams,
    result_console,
    settle_output,
    typed,
)
from sottovoce.cli.wording import SEEN_IN_WORDS, in_options
from sottovoce.errors import InputError, NotCertified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from cyclopts import Argument, ArgumentCollection, Parameter

__all__ = ["app", "commands", "run"]

PREFIX = "SOTTOVOCE_"
DEBUG = "SOTTOVOCE_DEBUG"

ABOUT = """What each node of a gossip network can learn about each other node, and how much noise is enough.

Options take their defaults from the file sottovoce.toml in this directory or one above (delta = 1e-6 under \
[account]) and from the environment (SOTTOVOCE_ACCOUNT_DELTA=1e-6). The command line wins over the \
environment, and the environment over the file.

Exit codes: 0 done, 1 internal error, 2 bad input, 3 budget exceeded, not certified or refuted, 130 interrupted."""


class _Program(App):
    """An application that reads the signature of each command once, however often it is called or asked for."""

    def assemble_argument_collection(
        self, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        """The arguments of a command, without values yet."""
        kept: dict[tuple[Parameter | None, bool], ArgumentCollection] = vars(self).setdefault("_read", {})
        asked = (default_parameter, parse_docstring)
        if asked not in kept:
            kept[asked] = super().assemble_argument_collection(
                default_parameter=default_parameter, parse_docstring=parse_docstring
            )
        # Whoever parses fills arguments with values, but leaves alone what they were declared as.
        declared = [
            each
            for argument in kept[asked]
            for each in (argument.parameter, argument.field_info, argument.hint)
        ]
        return copy.deepcopy(kept[asked], {id(each): each for each in declared})


app: App = _Program(
    name="sottovoce",
    help=ABOUT,
    help_format="plaintext",
    version=__version__,
    version_flags=["--version"],
    config=(Env(PREFIX, show=False), file_defaults, note_sources, check_outputs),
    suppress_keyboard_interrupt=False,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
COMMANDS: dict[str, tuple[ModuleType, ...]] = {
    "Account": (account, calibrate, compare, rate, coalition, graph),
    "Prove": (certify, verify, audit),
    "Train": (train, frontier),
    "Study": (sweep, summary, reproduce),
    "Run": (serve, explain, completion),
}
for place, (heading, modules) in enumerate(COMMANDS.items()):
    group = Group(heading, sort_key=place)
    for module in modules:
        name = module.__name__.rpartition(".")[2]
        app.command(
            getattr(module, name),
            name=name,
            group=group,
            usage=f"Usage: {module.USAGE}",
            help_epilogue=f"Example:\n  {module.EXAMPLE}",
        )

# Several commands under one name stand in the last group, with what else runs.
peers.peers.group = group
app.command(peers.peers)
flags = Group("Help", sort_key=len(COMMANDS))
app["--help"].group = app["--version"].group = flags


def commands(within: App = app, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command that does something, by the words that call it."""
    for name in within:
        if not name.startswith("-"):
            words, command = (*before, name), within[name]
            if command.default_command is None:
                yield from commands(command, words)
            else:
                yield words, command


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and turn whatever happens into an exit code and at most one line on stderr."""
    prepare_streams()
    try:
        _warn_of_unknown_settings()
        words = sys.argv[1:] if arguments is None else list(arguments)
        typed.set(tuple(words))
        code = _outcome(words)
    except KeyboardInterrupt:
        complain("interrupted")
        code = 130
    return code if settle_output() else code or 2


def _outcome(tokens: list[str]) -> int:
    """The exit code of the command in `tokens`; only an interrupt passes."""
    try:
        with letters_told():
            code = app(tokens, console=result_console())
    except CycloptsError as error:
        complain(f"error: {_sentence(error, tokens)} (see {_help_command(error)})")
        return 2
    except InputError as error:
        complain(f"error: {with_source(in_options(str(error)))}")
        return 2
    except NotCertified as error:
        complain(f"not certified: {in_options(str(error))}")
        return 3
    except Exception as error:
        _report(error)
        return 1
    return code if isinstance(code, int) else 0


def _sentence(error: CycloptsError, tokens: Sequence[str]) -> str:
    """What the parser found wrong, as part of a longer sentence; a misspelt option is why much else looks wrong."""
    unknown = _unknown_option(tokens, tuple(error.command_chain or ()))
    if unknown is not None:
        return unknown
    if isinstance(error, UnknownCommandError):
        return _unknown_command(error)
    if isinstance(error, MissingArgumentError) and error.argument is not None and not error.argument.tokens:
        return f"{error.keyword} needs a value" if error.keyword else _missing(error.argument)
    if isinstance(error, UnusedCliTokensError):
        return f"nothing takes {' '.join(error.unused_tokens or ())}"
    return str(error).strip().rstrip("., ")


def _unknown_command(error: UnknownCommandError) -> str:
    """A word that is no command, the one that was probably meant, and all that there are."""
    word = (error.unused_tokens or [""])[0]
    known = [name for name in error.app or app if not name.startswith("-")]
    near = difflib.get_close_matches(word, known, n=1)
    meant = f' Did you mean "{near[0]}"?' if near else ""
    return f'Unknown command "{word}".{meant} Commands are {", ".join(known)}'


def _unknown_option(tokens: Sequence[str], words: tuple[str, ...]) -> str | None:
    """The first option that the command does not have, and the one that was probably meant."""
    asked = dict(commands()).get(words)
    known = [*app.help_flags, *app.version_flags]
    if asked is not None:
        known += [name for argument in asked.assemble_argument_collection() for name in argument.names]
    for word in itertools.takewhile(lambda word: word != "--", tokens):
        name = word.partition("=")[0]
        # A dash before a digit may be a number below 0, and so may -inf.
        if re.match("--?[A-Za-z]", word) and name not in known and word != "-inf":
            begun = [each for each in known if name.startswith("--") and each.startswith(name)]
            near = begun or difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            return f"Unknown option: {name}." + (f" Did you mean {near[0]}?" if near else "")
    return None


def _missing(argument: Argument) -> str:
    """An argument that must be given; a view with its choices in words."""
    if argument.name != "--view":
        return f"{argument.name} is missing"
    choices = "; ".join(f"{view}: {SEEN_IN_WORDS[view]}" for view in get_args(argument.hint))
    return f"--view is missing: say what an observer sees ({choices})"


def _warn_of_unknown_settings() -> None:
    """A word on environment variables that look like settings of a command and set nothing."""
    names = [name for name in os.environ if name.startswith(PREFIX)]
    if not names:
        return
    known = {DEBUG} | {
        PREFIX + "_".join((*words, argument.name.removeprefix("--"))).upper().replace("-", "_")
        for words, command in commands()
        for argument in command.assemble_argument_collection()
        if argument.name.startswith("--")
    }
    for name in sorted(set(names) - known):
        # The prefix makes all of them alike.
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        remedy = f"did you mean {near[0]}?" if near else f"settings are called {PREFIX}COMMAND_OPTION"
        complain(f"warning: the environment variable {name} sets nothing ({remedy})")


def _help_command(error: CycloptsError) -> str:
    """The command whose help answers the error."""
    return " ".join(["sottovoce", *(error.command_chain or ()), "--help"])


def _report(error: Exception) -> None:
    """Say shortly what went wrong inside, or everything for whoever debugs."""
    if os.environ.get(DEBUG, "") not in {"", "0"}:
        traceback.print_exception(error)
    if isinstance(error, MemoryError):
        complain("error: not enough memory (take fewer rounds, observers or targets)")
    else:
        complain(
            f"internal error: {type(error).__name__}: {error} "
            f"(please report it; {DEBUG}=1 shows where it arose)"
        )
