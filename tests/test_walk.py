# SPDX-License-Identifier: Apache-2.0
"""The walk of one account in docs/architecture.md is the one that is really taken."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.cli import main

if TYPE_CHECKING:
    from types import CodeType, FrameType

PAGE = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
HOP = re.compile(r"^( *)\d+\. `([\w/]+)\.([\w.]+)`", re.MULTILINE)


@dataclass
class Walk:
    """The functions of the package in the order in which they were first called, each with all that stood above it."""

    above: dict[str, tuple[str, ...]] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (name := named(frame.f_code)):
            if name not in self.above:
                self.above[name] = tuple(self.open)
            self.open.append(name)
        elif event == "return" and self.open and named(frame.f_code):
            self.open.pop()


@functools.cache
def named(code: CodeType) -> str:
    """The name of a function of the package as the page writes it; of any other, nothing."""
    folder, package, module = code.co_filename.rpartition("/sottovoce/")
    ours = package and folder.endswith("/src")
    return f"{module.removesuffix('.py')}.{code.co_qualname}" if ours else ""


@dataclass(frozen=True)
class Hop:
    """A line of the walk, and the line that it stands under."""

    name: str
    under: str | None


def hops() -> list[Hop]:
    """The lines of the walk."""
    found: list[Hop] = []
    under: list[tuple[int, str]] = []
    for indent, module, function in HOP.findall(PAGE):
        depth, name = len(indent), f"{module}.{function}"
        while under and under[-1][0] >= depth:
            under.pop()
        found.append(Hop(name, under[-1][1] if under else None))
        under.append((depth, name))
    return found


@pytest.fixture(scope="module")
def walk() -> Walk:
    """The walk that the command of the page takes."""
    command = re.search(r"\$ sottovoce (account .*)", PAGE)
    assert command
    taken = Walk()
    # A first run has read modules and cached what is asked for once.
    assert main(shlex.split(command[1])) == 0
    before = sys.getprofile()
    sys.setprofile(taken)
    try:
        assert main(shlex.split(command[1])) == 0
    finally:
        sys.setprofile(before)
    return taken


def test_the_walk_has_its_hops() -> None:
    assert len(hops()) >= 20


def test_every_hop_is_taken_from_the_one_it_stands_under(walk: Walk) -> None:
    assert [hop.name for hop in hops() if hop.name not in walk.above] == []
    strayed = [
        f"{hop.name} is not called below {hop.under}"
        for hop in hops()
        if hop.under and hop.under not in walk.above[hop.name]
    ]
    assert strayed == []


def test_hops_come_in_the_order_of_the_page(walk: Walk) -> None:
    taken = list(walk.above)
    places = [taken.index(hop.name) for hop in hops()]
    assert places == sorted(places)


def test_a_hop_that_is_not_taken_is_noticed(walk: Walk) -> None:
    assert "sensitivities/certify.certify" not in walk.above
    assert all(
        "cli/application.run" not in above
        for name, above in walk.above.items()
        if name == "cli/__init__.main"
    )
