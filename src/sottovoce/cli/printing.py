# SPDX-License-Identifier: Apache-2.0
"""Results to stdout, everything else to stderr, and numbers rounded in the safe direction."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import warnings
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sottovoce.errors import FileError
from sottovoce.interval import as_given, both_ends, in_short, rounded_down, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "as_given",
    "both_ends",
    "complain",
    "in_short",
    "letters_told",
    "prepare_streams",
    "progress",
    "readable",
    "result_console",
    "result_page",
    "rounded_down",
    "rounded_up",
    "settle_output",
    "typed",
    "typed_command",
    "within_budget",
    "write_result",
]


_NO_LETTER = r"Glyph (\d+) .*missing from font"

typed: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
"""The words after `sottovoce` on the command line."""


def typed_command() -> str:
    """The command that was typed, as a shell takes it."""
    return shlex.join(["sottovoce", *typed.get()])


class _ResultConsole(Console):
    """A console whose reader may leave early, as `head` does, without that being an error."""

    def on_broken_pipe(self) -> None:
        """Drop what is left; the exit code still tells the outcome."""
        _discard_output()


def result_console() -> Console:
    """The console for results: plain text unless stdout is a terminal."""
    return _ResultConsole(highlight=False, markup=False, emoji=False)


@contextlib.contextmanager
def result_page() -> Iterator[Console]:
    """A console for one result: styled on a terminal, elsewhere plain lines without blanks at their ends."""
    console = result_console()
    if console.is_terminal:
        yield console
        return
    page = io.StringIO()
    yield Console(file=page, width=console.width, highlight=False, markup=False, emoji=False)
    write_result(_stripped(page.getvalue()))


def _stripped(text: str) -> str:
    """Lines without blanks at their ends."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def write_result(text: str) -> None:
    """Write `text` to stdout as it is."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        _discard_output()
        raise FileError(f"the result cannot be written: {error.strerror} (make room)") from None


def complain(message: str) -> None:
    """One line on stderr."""
    with contextlib.suppress(OSError):
        print(f"sottovoce: {readable(' '.join(message.split()))}", file=sys.stderr, flush=True)


def within_budget(epsilon: float, most: float) -> int:
    """The exit code for a budget: 0 if the largest certified ε keeps it, else 3, with a word on what helps."""
    if epsilon <= most:
        return 0
    complain(
        f"budget exceeded: the certified ε goes up to {rounded_up(epsilon)}, above --max-epsilon {as_given(most)} "
        "(add noise: sottovoce calibrate says how much)"
    )
    return 3


def readable(text: object) -> str:
    """Text without characters that could steer a terminal; they are shown as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[int, int], None] | None]:
    """A callback that moves a bar on stderr, or None when no one is watching."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def letters_told() -> Iterator[None]:
    """Say once, and last, which letters of figures no installed font has; matplotlib warns of each, each time."""
    missing: dict[str, None] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=_NO_LETTER)
        show = warnings.showwarning

        def told(message: Warning | str, *place: Any) -> None:  # noqa: ANN401 - what Python hands over
            found = re.match(_NO_LETTER, str(message))
            if found is None:
                show(message, *place)
            else:
                missing[chr(int(found[1]))] = None

        warnings.showwarning = told  # type: ignore[assignment]
        yield
    if missing:
        shown = "".join(list(missing)[:20]) + (" …" if len(missing) > 20 else "")
        complain(
            f"warning: no installed font has {shown}, and figures show boxes in their place (install a font that has "
            "them, such as Noto Sans CJK)"
        )


def prepare_streams() -> None:
    """Let streams that cannot hold Greek letters show a replacement instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def settle_output() -> bool:
    """Flush stdout, so that no error surfaces after the exit code is decided; False if it cannot be done."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except (OSError, ValueError) as error:
        _discard_output()
        complain(
            f"error: the result cannot be written: {getattr(error, 'strerror', None) or error} (make room)"
        )
        return False
    return True


def _discard_output() -> None:
    """Send whatever is still in stdout's buffer to nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
