# SPDX-License-Identifier: Apache-2.0
"""A program: what every node does in a round, as frozen data.

It has registers, draws and two kinds of instruction: combine (a linear combination of what the node holds) and exchange
(send a register, receive the weighted sum). Accountant, simulator and people read the same value.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, Literal

from sottovoce.errors import InputError, one_of
from sottovoce.protocols.rationals import PerNode, exact, plain_numbers, written

__all__ = [
    "CONTRIBUTION",
    "Combine",
    "Draw",
    "Exchange",
    "Program",
    "Terms",
    "is_some",
    "told_by",
    "unsent_draws",
]

# Far more than people write, and not enough to fill a machine's memory before anything is computed.
MOST_INSTRUCTIONS = 10_000

# What the parts of a program look like, for whoever got one wrong.
_FORMS = {
    "keeps": 'names such as "model"',
    "draws": 'as in Draw("u"), or { name = "u" } in a file',
    "instructions": 'as in Exchange("y", "model"), or { exchange = "y", into = "model" } in a file',
}

CONTRIBUTION = "contribution"
"""The source that stands for what a node contributes in a round."""


@dataclass(frozen=True)
class Draw:
    """Fresh Gaussian noise of a round, N(0, level²): one number a node, or one an edge.

    The draw of an edge is added at one end, taken off at the other, and known to both.
    """

    name: str
    level: PerNode = 1
    each: Literal["node", "edge"] = "node"

    def __post_init__(self) -> None:
        """Refuse a level that is negative or not a number, and a level a node for the draws of edges."""
        _check_name(self.name, "a draw")
        one_of(("node", "edge"), **{f"each of the draw {self.name!r}": self.each})
        level = plain_numbers(self.level, f"the level of the draw {self.name!r}")
        object.__setattr__(self, "level", level)
        several = level if isinstance(level, tuple) else (level,)
        for value in several:
            if exact(value) < 0:
                raise InputError(
                    f"the level of the draw {self.name!r} must be at least 0; got {value!r} (a level is a deviation)"
                )
        if self.each == "edge" and isinstance(level, tuple):
            raise InputError(
                f"the draw {self.name!r} of edges has one level for all edges; got {len(level)} levels "
                "(give one number)"
            )


class Terms(Mapping[str, PerNode]):
    """What a combination adds up, source by source: a mapping that nobody can change.

    What is known of a program is kept with it, its hash too, and would not be true of a changed one.
    """

    def __init__(self, terms: Mapping[str, PerNode]) -> None:
        """Copy the terms."""
        self._held = dict(terms)

    def __getitem__(self, source: str) -> PerNode:
        """The coefficient of a source."""
        return self._held[source]

    def __iter__(self) -> Iterator[str]:
        """The sources, in order."""
        return iter(self._held)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._held)

    def __hash__(self) -> int:
        """Equal terms have equal hashes, in whatever order they stand."""
        return hash(frozenset(self._held.items()))

    def __repr__(self) -> str:
        """As a dict is written."""
        return repr(self._held)


@dataclass(frozen=True)
class Combine:
    """`into` becomes Σ coefficient · source over registers, draws and "contribution", node by node."""

    into: str
    terms: Mapping[str, PerNode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Copy the terms, and refuse coefficients that are not numbers."""
        _check_name(self.into, "a register")
        if not isinstance(self.terms, Mapping):
            raise InputError(
                f"the terms of {self.into!r} must map sources to coefficients; got {self.terms!r} "
                '(as in {"model": 1, "contribution": 1, "u": 1})'
            )
        terms = {
            source: plain_numbers(value, f"the coefficient of {source!r} in {self.into!r}")
            for source, value in self.terms.items()
        }
        object.__setattr__(self, "terms", Terms(terms))


@dataclass(frozen=True)
class Exchange:
    """Send the register `message`; `into` becomes Σ_k W_ik · message_k, of the register as it was."""

    message: str
    into: str

    def __post_init__(self) -> None:
        """Refuse names that no register can have."""
        _check_name(self.message, "a register")
        _check_name(self.into, "a register")


@dataclass(frozen=True)
class Program:
    """One round, the same for every node.

    `keeps` live on from round to round and start at 0; other registers live within a round, and every name is set
    before it is read. `model` is the register at which a trainer takes gradients.

    >>> program = Program(
    ...     keeps=("model",),
    ...     draws=(Draw("u"),),
    ...     instructions=(
    ...         Combine("message", {"model": 1, "contribution": 1, "u": 1}),
    ...         Exchange("message", "model"),
    ...     ),
    ... )
    >>> print(program)
    message = model + contribution + u; exchange message → model
    """

    keeps: tuple[str, ...]
    draws: tuple[Draw, ...]
    instructions: tuple[Combine | Exchange, ...]
    model: str = "model"

    def __post_init__(self) -> None:
        """Refuse a program that cannot run: names out of order, nothing sent, noise that nobody adds."""
        for name, kinds in (("keeps", str), ("draws", Draw), ("instructions", (Combine, Exchange))):
            value = getattr(self, name)
            listed = isinstance(value, tuple | list) and all(isinstance(each, kinds) for each in value)
            if not listed:
                raise InputError(
                    f"{name} of a program must be a tuple of its values; got {value!r} ({_FORMS[name]})"
                )
            object.__setattr__(self, name, tuple(value))
        if len(self.instructions) > MOST_INSTRUCTIONS:
            raise InputError(
                f"a program must have at most {MOST_INSTRUCTIONS} instructions; got {len(self.instructions)} "
                "(take fewer steps a round, and more rounds)"
            )
        for register in self.keeps:
            _check_name(register, "a register")
        self._check_names()
        self._check_order()
        if not self.keeps:
            raise InputError(
                "a program must keep a register from round to round; got keeps = () (name the one that receives, as in "
                'keeps=("model",): it tells nothing where nobody reads it)'
            )
        if not self.exchanges:
            raise InputError(
                "a program must exchange something; this one has no exchange (add Exchange(message, into))"
            )
        if self.model != "model" and self.model not in self.registers:
            raise InputError(
                f"model must name a register of the program; got {self.model!r} "
                f"(it has {', '.join(self.registers)})"
            )

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges of a round, in order."""
        return tuple(step for step in self.instructions if isinstance(step, Exchange))

    @cached_property
    def registers(self) -> tuple[str, ...]:
        """Every register, the kept ones first."""
        return tuple(dict.fromkeys((*self.keeps, *(step.into for step in self.instructions))))

    @property
    def numbers(self) -> list[PerNode]:
        """Every level and coefficient, in order: one number for all nodes, or one a node."""
        combined = [step for step in self.instructions if isinstance(step, Combine)]
        return [draw.level for draw in self.draws] + [x for step in combined for x in step.terms.values()]

    @cached_property
    def shows_model(self) -> bool:
        """Whether whoever sees all messages can tell every model, so that gradients depend on nothing that is hidden.

        A register is told by messages if it is sent, if it is what an exchange received, or if it combines such
        registers alone. The model is told if it is kept, and told at the end of every round.

        >>> from sottovoce.protocols import clean_state, momentum
        >>> from sottovoce.graphs import metropolis_weights
        >>> ring = metropolis_weights("ring:n=5")
        >>> momentum(ring, rounds=2, beta=0.9).program.shows_model
        True
        >>> clean_state(ring, rounds=2, keep=0.5).program.shows_model
        False
        """
        return self.model in told_by((self,))

    def told_after(self, told: set[str]) -> set[str]:
        """The registers that messages tell at the end of a round that begins with `told`."""
        told = set(told)
        for step in self.instructions:
            if isinstance(step, Exchange):
                told |= {step.message, step.into}
            elif told.issuperset(step.terms):
                told.add(step.into)
            else:
                told.discard(step.into)
        return told

    def needed_for(self, kept: set[str]) -> set[str]:
        """What messages of a round tell something of, or registers of `kept` at its end: sources, as it begins."""
        needed = set(kept)
        for step in reversed(self.instructions):
            if isinstance(step, Exchange):
                needed = needed - {step.into} | {step.message}
            elif step.into in needed:
                needed.remove(step.into)
                needed.update(name for name, value in step.terms.items() if is_some(value))
        return needed

    def _check_names(self) -> None:
        """Refuse names that stand for two things."""
        names = [draw.name for draw in self.draws]
        for several in (names, self.keeps):
            for name, count in Counter(several).items():
                if count > 1:
                    raise InputError(f"names of a program must differ; {name!r} stands twice (rename one)")
        for name in names:
            if name in self.registers:
                raise InputError(
                    f"names of a program must differ; {name!r} is a draw and a register (rename one)"
                )

    def _check_order(self) -> None:
        """Refuse reading what is not set, and draws that nobody adds."""
        sources = {CONTRIBUTION, *(draw.name for draw in self.draws)}
        held = set(self.keeps)
        added: set[str] = set()
        for step in self.instructions:
            read = step.terms if isinstance(step, Combine) else (step.message,)
            known = held | sources if isinstance(step, Combine) else held
            for name in read:
                if name not in known:
                    raise InputError(
                        f"a register must be set before it is read; {name!r} is read for {step.into!r} and nothing "
                        f"has set it (set it earlier in the round, or add it to keeps; known here: "
                        f"{', '.join(sorted(known))})"
                    )
            if isinstance(step, Combine):
                added.update(name for name, value in step.terms.items() if is_some(value))
            held.add(step.into)
        for draw in self.draws:
            if draw.name not in added:
                raise InputError(
                    f"every draw must be added somewhere; nobody adds {draw.name!r} (put it among the terms of a "
                    "Combine, by a number other than 0, or leave the draw out)"
                )

    def __str__(self) -> str:
        """The instructions, as one reads them, and the levels of draws where these are not 1."""
        return "; ".join([*map(_sentence, self.instructions), *filter(None, map(_loudness, self.draws))])

    def to_json(self) -> dict[str, Any]:
        """The program as plain data: what JSON and TOML files and certificates hold.

        >>> Program.from_json(Program(keeps=("x",), draws=(), instructions=(Exchange("x", "x"),)).to_json()).keeps
        ('x',)
        """
        return {
            "keeps": list(self.keeps),
            "draws": [
                {"name": draw.name, "level": written(draw.level), "each": draw.each} for draw in self.draws
            ],
            "instructions": [
                {"exchange": step.message, "into": step.into}
                if isinstance(step, Exchange)
                else {
                    "combine": step.into,
                    "terms": {name: written(value) for name, value in step.terms.items()},
                }
                for step in self.instructions
            ],
            "model": self.model,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Program:
        """The program that plain data describe, checked."""
        _check_keys(data, {"keeps", "draws", "instructions", "model"}, {"keeps", "instructions"}, "a program")
        for name in ("keeps", "draws", "instructions"):
            if not isinstance(data.get(name, []), list | tuple):
                raise InputError(f"{name} of a program must be a list; got {data[name]!r} ({_FORMS[name]})")
        draws = []
        for entry in data.get("draws", ()):
            _check_keys(entry, {"name", "level", "each"}, {"name"}, "a draw")
            draws.append(Draw(**entry))
        return cls(
            keeps=tuple(data["keeps"]),
            draws=tuple(draws),
            instructions=tuple(map(_instruction, data["instructions"])),
            model=data.get("model", "model"),
        )


def told_by(programs: Sequence[Program]) -> set[str]:
    """The kept registers that messages tell at the end of every round, whichever of the programs it runs."""
    told = set(programs[0].keeps)
    while (left := told.intersection(*(program.told_after(told) for program in programs))) != told:
        told = left
    return told


def unsent_draws(programs: Sequence[Program]) -> list[str]:
    """The draws of which no message of any round tells anything, however long the programs run.

    >>> idle = Program(
    ...     keeps=("x", "y"),
    ...     draws=(Draw("u"),),
    ...     instructions=(Combine("y", {"y": 1, "u": 1}), Exchange("x", "x")),
    ... )
    >>> unsent_draws((idle,))
    ['u']
    """
    kept: set[str] = set()
    while (
        more := set[str]().union(*(program.needed_for(kept) & {*program.keeps} for program in programs))
        - kept
    ):
        kept |= more
    return [
        draw.name
        for program in programs
        for draw in program.draws
        if draw.name not in program.needed_for(kept)
    ]


def _instruction(entry: Mapping[str, Any]) -> Combine | Exchange:
    """The instruction that plain data describe."""
    if not isinstance(entry, Mapping) or not {"combine", "exchange"} & entry.keys():
        raise InputError(
            "an instruction must be a table of combine and terms, or of exchange and into; got "
            f'{shortened(entry)} (write {{ exchange = "model", into = "model" }}, say)'
        )
    if "exchange" in entry:
        _check_keys(entry, {"exchange", "into"}, {"exchange", "into"}, "an exchange")
        return Exchange(entry["exchange"], entry["into"])
    _check_keys(entry, {"combine", "terms"}, {"combine", "terms"}, "an instruction")
    return Combine(entry["combine"], entry["terms"])


def _check_keys(data: object, known: set[str], needed: set[str], what: str) -> None:
    """Refuse plain data that lack a key, or hold one that means nothing."""
    if not isinstance(data, Mapping):
        raise InputError(f"{what} must be a table of {', '.join(sorted(known))}; got {shortened(data)}")
    for key in sorted(needed - set(data)):
        raise InputError(f"{what} needs {key!r}; got {sorted(map(str, data))} (add it)")
    for key in sorted(map(str, set(data) - known)):
        raise InputError(f"{what} has no {key!r} (it knows {', '.join(sorted(known))})")


def _check_name(name: object, what: str) -> None:
    """Refuse what cannot name a register or a draw."""
    if not isinstance(name, str) or not name.isidentifier() or name == CONTRIBUTION:
        raise InputError(
            f"{what} must have a name of letters, digits and _, and not 'contribution'; got {name!r} (rename it)"
        )
    if (plain := unicodedata.normalize("NFKC", name)) != name:
        raise InputError(
            f"{what} must have a name that looks like no other; got {name!r}, which reads as {plain!r} "
            f"(write {plain!r})"
        )


def is_some(value: PerNode) -> bool:
    """Whether a coefficient is other than 0 at some node."""
    return any(map(exact, value)) if isinstance(value, tuple) else bool(exact(value))


def _loudness(draw: Draw) -> str:
    """The level of a draw, or its least and its largest, and whether edges have it; nothing for level 1 of nodes."""
    levels = draw.level if isinstance(draw.level, tuple) else (draw.level,)
    least, most = min(levels, key=exact), max(levels, key=exact)
    alike = exact(least) == exact(most)
    where = " on each edge" if draw.each == "edge" else ""
    if alike and exact(most) == 1:
        return where and f"{draw.name}{where}"
    return f"{draw.name} of level{f' {least}' if alike else f's {least} to {most}'}{where}"


def _sentence(step: Combine | Exchange) -> str:
    """One instruction, as one reads it."""
    if isinstance(step, Exchange):
        return f"exchange {step.message} → {step.into}"
    text = ""
    for name, value in step.terms.items():
        if isinstance(value, tuple):
            text += f" + {name}·(one number a node)"
            continue
        size, sign = abs(exact(value)), "-" if exact(value) < 0 else "+"
        shown = str(value).lstrip("-") if not isinstance(value, float) else repr(abs(value))
        text += f" {sign} {name}" if size == 1 else f" {sign} {shown}·{name}"
    return f"{step.into} ={text}".replace("= + ", "= ").replace("= - ", "= −").replace(" - ", " − ") + (
        "" if step.terms else " 0"
    )
