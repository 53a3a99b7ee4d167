# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.errors import FileError, InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    parse_protocol,
    read_program,
    repeated,
)
from sottovoce.protocols.spelling import SPELLED

if TYPE_CHECKING:
    from pathlib import Path

RING = metropolis_weights("ring:n=5")
PROGRAM = """
keeps = ["model"]
encoder = [1, "1/2"]
[[draws]]
name = "u"
level = 2
[[instructions]]
combine = "message"
terms = {model = 1, contribution = 1, u = "1/3"}
[[instructions]]
exchange = "message"
into = "model"
"""


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("gossip", gossip(RING, rounds=4)),
        ("gossip:encoder=1+1/2+0.375", gossip(RING, rounds=4, encoder=(1, "1/2", "3/8"))),
        ("gossip:noise_levels=2", gossip(RING, rounds=4, noise_levels=2)),
        ("repeated:steps=3", repeated(RING, rounds=4, steps=3)),
        ("chebyshev:steps=3,gamma=1.2", chebyshev(RING, rounds=4, steps=3, gamma="6/5")),
        ("momentum:beta=0.9", momentum(RING, rounds=4, beta="9/10")),
        ("momentum:beta=0.9,noise=message", momentum(RING, rounds=4, beta="9/10", noise="message")),
        ("gradient-tracking", gradient_tracking(RING, rounds=4)),
        ("exact-diffusion:noise=messages", exact_diffusion(RING, rounds=4, noise="messages")),
        ("pairwise-noise:local=1,shared=2", pairwise_noise(RING, rounds=4, local=1, shared=2)),
        ("clean-state:keep=1/2", clean_state(RING, rounds=4, keep=0.5)),
    ],
)
def test_spellings_mean_what_builders_build(spelling: str, expected: Protocol) -> None:
    assert parse_protocol(spelling, RING, rounds=4).hash == expected.hash


def test_one_round_of_many_exchanges() -> None:
    assert parse_protocol("once:steps=4", RING, rounds=1).hash == once(RING, steps=4).hash
    with pytest.raises(InputError, match="once is one round of several exchanges; got 2 rounds"):
        parse_protocol("once:steps=4", RING, rounds=2)


@pytest.mark.parametrize(
    ("spelling", "complaint"),
    [
        ("adam", "protocol must be one of gossip, repeated, .*; got 'adam'"),
        ("momentum", r"the protocol momentum needs beta; got 'momentum' \(write momentum:beta=…\)"),
        ("momentum:alpha=1", "momentum knows beta, noise; got 'alpha=1'"),
        ("momentum:beta", "got 'beta' in 'momentum:beta'"),
        ("momentum:beta=much", "beta must be a finite number"),
        ("momentum:beta=0.9,noise=both", "noise must be one of gradient, message; got 'both'"),
        (
            "repeated:steps=2.5",
            "steps of a protocol must be a whole number of at least 1 and at most 1000; got '2.5'",
        ),
        (
            "repeated:steps=0",
            "steps of a protocol must be a whole number of at least 1 and at most 1000; got '0'",
        ),
        ("repeated:steps=1001", "at least 1 and at most 1000; got '1001' in 'repeated:steps=1001'"),
        (f"repeated:steps={'9' * 5000}", r"at least 1 and at most 1000; got '9+\.\.\.9+' in"),
        ("pairwise-noise:local=x,shared=1", "local must be a finite number"),
        ("pairwise-noise:local=1,shared=x", "shared must be a finite number"),
        (
            "gossip:damping=0.5",
            r"damping is given beside the protocol.*; got 'damping=0.5'.*\(take it out, and give damping beside it\)",
        ),
        ("push-sum:x=1", "push-sum has no parameters; got 'x=1'"),
        (None, r"protocol must be spelled, as in 'momentum:beta=0.9', or name a \.toml file; got None"),
    ],
)
def test_spellings_that_mean_nothing_are_refused(spelling: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse_protocol(spelling, RING, rounds=4)


def test_every_spelling_is_tried() -> None:
    assert set(SPELLED) == {
        *("gossip", "repeated", "chebyshev", "momentum", "gradient-tracking", "exact-diffusion"),
        *("pairwise-noise", "once", "clean-state", "push-sum"),
    }


def test_a_program_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(PROGRAM, encoding="utf-8")
    protocol = parse_protocol(str(path), RING, rounds=4)
    assert protocol.name == "mine"
    assert protocol.encoder == (1, "1/2")
    assert protocol.programs[0].to_json() == read_program(path)[0].to_json()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("keeps = [", r"mine\.toml: is no TOML file"),
        ("keeps = " + "[" * 3000 + "]" * 3000, r"mine\.toml: is no TOML file: maximum recursion"),
        ('keeps = ["x"]', r"mine\.toml: a program needs 'instructions'"),
        (PROGRAM.replace("model = 1", "theta = 1"), r"mine\.toml: .*'theta' is read for 'message'"),
        (
            "colour = 1" + PROGRAM,
            r"mine\.toml: a program has no 'colour' \(it knows draws, encoder, .*, name\)",
        ),
        (
            PROGRAM.replace('[1, "1/2"]', "[0, 1]"),
            r"mine\.toml: the encoder must begin with a number other than 0",
        ),
        (
            PROGRAM.replace("level = 2", "level = [1, 2]"),
            r"mine\.toml: the level of the draw 'u' must be one number for all nodes or one for each of the 5 nodes",
        ),
        (
            'keeps = ["x"]\ninstructions = ["x"]',
            r"mine\.toml: an instruction must be a table of combine and terms, or of exchange and into; got 'x'",
        ),
        (None, r"mine\.toml: cannot be read: No such file"),
    ],
)
def test_files_that_hold_no_program_are_refused(tmp_path: Path, text: Any, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=complaint):
        parse_protocol(str(path), RING, rounds=4)
