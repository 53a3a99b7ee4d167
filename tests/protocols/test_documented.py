# SPDX-License-Identifier: Apache-2.0
"""What docs/protocols.md says of each protocol: its sentence, its file, its cost and its pictures."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.test_documentation import assert_same_drawing

from sottovoce import graphs
from sottovoce.protocols import (
    Program,
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    repeated,
)

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "protocols.md").read_text(encoding="utf-8")
W = graphs.metropolis_weights("ring:n=12")
PROTOCOLS = {
    "Gossip": gossip(W, rounds=10),
    "Repeated steps": repeated(W, rounds=10, steps=3),
    "Chebyshev": chebyshev(W, rounds=10, steps=3, gamma="3/2"),
    "Momentum": momentum(W, rounds=10, beta="0.9"),
    "Gradient tracking": gradient_tracking(W, rounds=10),
    "Exact diffusion": exact_diffusion(W, rounds=10),
    "Pairwise noise": pairwise_noise(W, rounds=10, local=1, shared=2),
    "One draw": once(W, steps=3),
    "Clean state": clean_state(W, rounds=10, keep="0.5"),
}
SHOWN = dict(re.findall(r"^### (.*)\n(?:(?!^#).*\n)*?> (.*)$", PAGE, re.MULTILINE))
FILES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def drawn() -> Any:
    """The script that draws the page's pictures, as a module."""
    spec = importlib.util.spec_from_file_location("draw_protocols", DOCS / "draw_protocols.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_every_protocol_has_its_program() -> None:
    assert list(SHOWN) == list(PROTOCOLS)
    assert len(FILES) == len(PROTOCOLS)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_sentence_and_the_file_are_those_of_the_builder(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert SHOWN[name] == str(protocol.programs[0])
    read = Program.from_json(tomllib.loads(FILES[list(PROTOCOLS).index(name)]))
    assert Protocol(weights=W, program=read, rounds=protocol.rounds).hash == protocol.hash


def test_the_table_and_the_pictures_are_what_comes_out() -> None:
    script = drawn()
    assert len(script.table()) >= 19
    assert "\n".join(script.table()) in PAGE
    for name in script.PICTURES:
        assert f"]({name}.svg)" in PAGE
        assert_same_drawing(script.picture(name).decode(), f"{name}.svg")
