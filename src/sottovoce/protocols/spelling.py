# SPDX-License-Identifier: Apache-2.0
"""Protocols as people write them: `momentum:beta=0.9`, or a TOML file that holds a program."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal

from sottovoce.errors import FileError, InputError, at_least, at_most
from sottovoce.protocols.builders import (
    MOST_STEPS,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    push_sum,
    repeated,
)
from sottovoce.protocols.program import Program
from sottovoce.protocols.protocol import MOST_ROUNDS, Protocol
from sottovoce.protocols.updates import parse_updates
from sottovoce.spellings import Spelling, name_and_rest, spelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.graphs import GossipWeights, Sums
    from sottovoce.protocols.updates import Slopes

__all__ = ["SPELLED", "parse_program", "parse_protocol", "read_program", "running", "weight_sums"]


@dataclass(frozen=True, kw_only=True)
class _Spelling:
    """A builder, the parameters that its spelling must give, and those that it may."""

    build: Callable[..., Protocol]
    needed: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()
    has_rounds: bool = True
    sums: Sums = "rows"


SPELLED: dict[str, _Spelling] = {
    "gossip": _Spelling(build=gossip, possible=("noise_levels", "encoder", "updates")),
    "repeated": _Spelling(build=repeated, needed=("steps",)),
    "chebyshev": _Spelling(build=chebyshev, needed=("steps",), possible=("gamma",)),
    "momentum": _Spelling(build=momentum, needed=("beta",), possible=("noise",)),
    "gradient-tracking": _Spelling(build=gradient_tracking, possible=("noise",)),
    "exact-diffusion": _Spelling(build=exact_diffusion, possible=("noise",)),
    "pairwise-noise": _Spelling(build=pairwise_noise, needed=("local", "shared")),
    "once": _Spelling(build=once, needed=("steps",), has_rounds=False),
    "clean-state": _Spelling(build=clean_state, needed=("keep",), possible=("noise_levels",)),
    "push-sum": _Spelling(build=push_sum, sums="columns"),
}
"""The protocols that have a spelling; schedules are given in Python."""


_MOST_DIGITS = 1000
_KEYS = {"keeps", "draws", "instructions", "model", "encoder", "name"}


def parse_protocol(spelling: str, weights: GossipWeights, *, rounds: int) -> Protocol:
    """The protocol that `spelling` names on `weights`: NAME:KEY=VALUE,KEY=VALUE, or the path of a .toml file.

    Numbers are the rationals that they say; those of an encoder are joined by +, as in gossip:encoder=1+0.5+3/8,
    and so are the slopes of updates, as in gossip:updates=0.9+1 (or gossip:updates=any).

    >>> from sottovoce.graphs import metropolis_weights
    >>> parse_protocol("momentum:beta=0.9", metropolis_weights("ring:n=5"), rounds=3).sentence
    'v = 0.9·v + contribution + u; message = model + v; exchange message → model; 3 rounds'
    """
    if not isinstance(spelling, str):
        raise InputError(
            f"protocol must be spelled, as in 'momentum:beta=0.9', or name a .toml file; got {spelling!r}"
        )
    if spelling.lower().endswith(".toml"):
        return running(read_program(spelling), spelling, weights, rounds=rounds)
    written = spelled(spelling)
    name = written.name
    if name not in SPELLED:
        raise InputError(
            f"protocol must be one of {', '.join(SPELLED)}, or a .toml file that holds a program; got {spelling!r}"
        )
    known = SPELLED[name]
    given = _parameters(spelling, written, (*known.needed, *known.possible))
    for key in known.needed:
        if key not in given:
            raise InputError(f"the protocol {name} needs {key}; got {spelling!r} (write {name}:{key}=…)")
    if not known.has_rounds and rounds != 1:
        raise InputError(
            f"the protocol {name} is one round of several exchanges; got {rounds} rounds (ask for 1 round)"
        )
    return known.build(weights, **given, **({"rounds": rounds} if known.has_rounds else {}))


def weight_sums(spelling: str) -> Sums:
    """What of the weights must sum to 1 for a protocol that is spelled so: rows, or columns for push-sum.

    >>> weight_sums("push-sum"), weight_sums("momentum:beta=0.9"), weight_sums("mine.toml")
    ('columns', 'rows', 'rows')
    """
    known = SPELLED.get(name_and_rest(spelling)[0])
    return "rows" if known is None else known.sums


def running(
    read: tuple[Program, dict[str, Any]],
    where: str,
    weights: GossipWeights,
    *,
    rounds: int,
    updates: Slopes | Literal["any"] | None = None,
) -> Protocol:
    """What `read_program` or `parse_program` found, on some weights; an error where it does not fit names `where`."""
    at_least(1, rounds=rounds)
    at_most(MOST_ROUNDS, rounds=rounds)
    program, more = read
    try:
        return Protocol(weights=weights, program=program, rounds=rounds, updates=updates, **more)
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def read_program(path: str | Path) -> tuple[Program, dict[str, Any]]:
    """The program of a TOML file, and the `encoder` and `name` that it gives if it does.

    The file holds keeps, [[draws]] with name, level and each, [[instructions]] that are either combine with terms or
    exchange with into, and model: the fields of `Program`.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{source}: cannot be read: {error.strerror or error} (check the path)") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: is no TOML file: {error} (mend it there)") from None
    return parse_program(text, str(source))


def parse_program(text: str, where: str) -> tuple[Program, dict[str, Any]]:
    """The program in the text of a TOML file, with the `encoder` and `name` that it gives; errors call it `where`.

    >>> lines = ('keeps = ["model"]', 'instructions = [{ exchange = "model", into = "model" }]')
    >>> parse_program(chr(10).join(lines), "idle.toml")[1]
    {'name': 'idle'}
    """
    try:
        data = tomllib.loads(text)
    # A number of thousands of digits is a ValueError too, and so many brackets are too deep to follow.
    except (ValueError, RecursionError) as error:
        raise FileError(f"{where}: is no TOML file: {error} (mend it there)") from None
    for key in sorted(data.keys() - _KEYS):
        raise FileError(f"{where}: a program has no {key!r} (it knows {', '.join(sorted(_KEYS))})")
    more: dict[str, Any] = {key: data.pop(key) for key in ("encoder", "name") if key in data}
    try:
        return Program.from_json(data), {"name": Path(where).stem, **more}
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def _parameters(spelling: str, written: Spelling, known: tuple[str, ...]) -> dict[str, Any]:
    """The parameters of a spelling, by name."""
    strange = [
        *written.plain,
        *(f"{key}={value}" for key, value in written.keyed.items() if key not in known),
    ]
    if strange and written.name == "gossip" and strange[0].startswith("damping="):
        raise InputError(
            f"damping is given beside the protocol, and not in it; got {strange[0]!r} in {spelling!r} (take it out, "
            "and give damping beside it)"
        )
    if strange:
        allowed = f"knows {', '.join(known)}" if known else "has no parameters"
        raise InputError(
            f"the protocol {written.name} {allowed}; got {strange[0]!r} in {spelling!r} "
            "(write NAME:KEY=VALUE,KEY=VALUE)"
        )
    return {key: _value(spelling, key, value) for key, value in written.keyed.items()}


def _value(spelling: str, key: str, text: str) -> Any:  # noqa: ANN401
    """A parameter as its builder takes it."""
    if key == "steps":
        # Thousands of digits are more than Python reads as a number.
        if not text.isdecimal() or len(text) > _MOST_DIGITS or not 1 <= int(text) <= MOST_STEPS:
            raise InputError(
                f"the steps of a protocol must be a whole number of at least 1 and at most {MOST_STEPS}; got "
                f"{shortened(text)} in {shortened(spelling)}"
            )
        return int(text)
    if key == "updates":
        return parse_updates(text.replace("+", ","))
    return tuple(text.split("+")) if key == "encoder" else text
