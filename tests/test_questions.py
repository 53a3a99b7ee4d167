# SPDX-License-Identifier: Apache-2.0
"""Questions in words: what a command line and a request can both ask, and the sentences in which both refuse."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.cli.options import Course, Sight, network, scenario_of
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip, momentum
from sottovoce.questions import Spelled, SpelledProtocol, spelled_protocol, spelled_scenario
from sottovoce.scenarios import Effort, Scenario
from sottovoce.web.requests import PageRequest

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = metropolis_weights("ring:n=5")
PROGRAM = 'keeps = ["model"]\ninstructions = [{ exchange = "model", into = "model" }]'


def test_words_are_those_of_the_value() -> None:
    """Besides the protocol, which takes several words, a question is spelled by the names of its fields."""
    asked = {field.name for field in fields(Spelled)} - {field.name for field in fields(SpelledProtocol)}
    assert asked == {field.name for field in fields(Scenario)} - {"protocol"}


def test_a_request_has_every_word_and_what_may_be_spent() -> None:
    known = set(PageRequest.__struct_fields__)
    assert {field.name for field in fields(Spelled)} - known == {"files"}
    spent = {"depth": "effort"}
    assert {spent.get(field.name, field.name) for field in fields(Effort)} - known == {"workers"}


def test_a_command_and_a_request_ask_the_same() -> None:
    words: dict[str, Any] = {"participation": "at-most:2", "relation": "replace-one"}
    said = spelled_scenario(
        WEIGHTS, Spelled(rounds=4, view="secure-sum", observers=[1, "1"], targets=["3"], **words)
    )
    sight = Sight(view="secure-sum", observer=("1",), target=("3",))
    told = scenario_of(network("ring:n=5", "auto"), sight, Course(rounds=4, **words))
    assert said.terms() == told.terms()
    assert (said.observers, said.targets) == (told.observers, told.targets) == ((1,), (3,))


def test_a_protocol_is_spelled_damped_or_told_by_its_maps() -> None:
    for words, expected in (
        ({}, gossip(WEIGHTS, rounds=4)),
        ({"protocol": "momentum:beta=0.9"}, momentum(WEIGHTS, rounds=4, beta="0.9")),
        ({"damping": "0.5"}, gossip(WEIGHTS, rounds=4, damping=0.5)),
        ({"damping": "".join(f"{k},0.5\n" for k in range(5))}, gossip(WEIGHTS, rounds=4, damping=0.5)),
        ({"updates": "0.9,1"}, gossip(WEIGHTS, rounds=4, updates=(0.9, 1))),
    ):
        found = spelled_protocol(WEIGHTS, SpelledProtocol(rounds=4, **words))  # type: ignore[arg-type]
        assert (found.hash, str(found.updates)) == (expected.hash, str(expected.updates)), words
    assert spelled_protocol(WEIGHTS, SpelledProtocol(rounds=4, program=PROGRAM)).name == "the program"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"view": "coalition-sums"}, "needs the members of the coalition (name each in observers)"),
        ({"view": "everyone", "observers": ["2"]}, "as the view everyone takes no observer; got 2"),
        ({"losses": "smooth"}, "and their size is missing; got 'smooth' alone (add step_smoothness)"),
        (
            {"updates": "any", "step_smoothness": 0.5},
            "step_smoothness; 'any' and 0.5 say the same thing twice",
        ),
        ({"step_smoothness": 0.0}, "step_smoothness must be a finite number above 0; got 0.0"),
        (
            {"damping": "0.5", "protocol": "push-sum"},
            "left out with the protocol 'push-sum'; got '0.5' (write",
        ),
        ({"damping": "1\n" * 99, "program": PROGRAM}, "left out with a program of one's own; got '1\\n1\\n1"),
        ({"program": PROGRAM, "protocol": "push-sum"}, "beside a program of one's own; got 'push-sum'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        spelled_scenario(WEIGHTS, Spelled(**{"rounds": 4, "view": "secure-sum", **words}))
    assert sentence in str(caught.value)


def test_a_protocol_names_a_file_only_where_files_are_meant(tmp_path: Path) -> None:
    own = tmp_path / "own.TOML"
    own.write_text(PROGRAM, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        spelled_protocol(WEIGHTS, SpelledProtocol(rounds=4, protocol=str(own)))
    assert f"protocol must be spelled out; got the file {str(own)!r} (send its text as program)" in str(
        caught.value
    )
    assert spelled_protocol(WEIGHTS, SpelledProtocol(rounds=4, protocol=str(own), files=True)).name == "own"


def test_a_coalition_that_is_searched_for_has_no_members() -> None:
    asked = Spelled(rounds=4, view="coalition-sums", targets=["1"])
    assert spelled_scenario(WEIGHTS, asked, searched=True).observers is None


def test_maps_that_change_nothing_are_no_training() -> None:
    found = spelled_protocol(WEIGHTS, SpelledProtocol(rounds=4, updates="1,1"))
    assert found.hash == gossip(WEIGHTS, rounds=4).hash
    assert found.updates is None
