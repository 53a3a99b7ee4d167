# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pickle
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from sottovoce import View, sensitivity
from sottovoce.errors import InputError, NotCertified, ViewError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    gossip,
    momentum,
    once,
    repeated,
    scheduled,
)

RING = metropolis_weights("ring:n=4")
WRONG: Any = 3
SEND = Combine("message", {"model": 1, "contribution": 1, "u": 1})
RECEIVE = Exchange("message", "model")
PLAIN = Program(keeps=("model",), draws=(Draw("u"),), instructions=(SEND, RECEIVE))


def program(**changes: Any) -> Program:
    parts = {"keeps": ("model",), "draws": (Draw("u"),), "instructions": (SEND, RECEIVE)}
    return Program(**{**parts, **changes})


UNSENT = Program(
    keeps=("model", "aside"),
    draws=(Draw("u"),),
    instructions=(
        Combine("aside", {"aside": 1, "u": 1}),
        Combine("model", {"model": 1}),
        Exchange("model", "model"),
    ),
)


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (
            lambda: program(keeps=()),
            r"set before it is read; 'model' is read for 'message' and nothing has set it",
        ),
        (
            lambda: program(instructions=(SEND, RECEIVE, Exchange("sum", "model"))),
            "'sum' is read for 'model' and nothing has set it",
        ),
        (
            lambda: program(instructions=(SEND,)),
            r"must exchange something; this one has no exchange \(add Exchange",
        ),
        (
            lambda: program(draws=(Draw("u"), Draw("w"))),
            "every draw must be added somewhere; nobody adds 'w'",
        ),
        (lambda: program(draws=(Draw("u"), Draw("u"))), "names of a program must differ; 'u' stands twice"),
        (lambda: program(keeps=("model", "u")), "'u' is a draw and a register"),
        (
            lambda: program(model="theta"),
            r"model must name a register of the program; got 'theta' \(it has model",
        ),
        (lambda: program(draws="u"), "draws of a program must be a tuple of its values; got 'u'"),
        (lambda: Draw("u", level=-1), "level of the draw 'u' must be at least 0; got -1"),
        (lambda: Draw("u", level=()), "level of the draw 'u' must be a number, or one a node; got none"),
        (lambda: Draw("u", level=[[1], [2, 3]]), "each of the level of the draw 'u' must be a finite number"),  # type: ignore[arg-type]
        (lambda: Draw("u", level="a lot"), "level of the draw 'u' must be a finite number"),
        (
            lambda: Draw("u", level=float("nan")),
            r"must be a finite number, or a rational such as '1/3'; got nan \(write 0.5 or '1/3', say\)",
        ),
        (lambda: Draw("u", level=True), "must be a finite number"),
        (
            lambda: Draw("w", level=(1, 2), each="edge"),
            r"one level for all edges; got 2 levels \(give one number\)",
        ),
        (lambda: Draw("w", each=WRONG), "must be one of node, edge; got 3"),
        (lambda: Draw("contribution"), "and not 'contribution'; got 'contribution'"),
        (lambda: Draw("u v"), "a name of letters, digits and _"),
        (lambda: Exchange("ﬁ", "fi"), r"looks like no other; got 'ﬁ', which reads as 'fi' \(write 'fi'\)"),
        (lambda: Draw("ｃontribution"), "which reads as 'contribution'"),
        (lambda: Combine("y", {"model": "1/0"}), "coefficient of 'model' in 'y' must be a finite number"),
        (lambda: Combine("y", WRONG), "terms of 'y' must map sources to coefficients"),
        (lambda: Exchange("y", WRONG), "a register must have a name"),
        (lambda: Program.from_json({"keeps": ["x"]}), "a program needs 'instructions'"),
        (
            lambda: Program.from_json({"keeps": [], "instructions": [], "colour": 1}),
            "a program has no 'colour'",
        ),
        (
            lambda: Program.from_json({"keeps": [], "instructions": [{"send": "x"}]}),
            "must be a table of combine and terms, or of exchange and into",
        ),
        (lambda: Program.from_json(WRONG), "a program must be a table of"),
        (
            lambda: program(
                instructions=(Combine("message", {"model": 1, "contribution": 1, "u": 0}), RECEIVE)
            ),
            "nobody adds 'u' .*by a number other than 0",
        ),
        (
            lambda: program(instructions=(Combine("message", {"model": 1, "u": (0, "0/3")}), RECEIVE)),
            "nobody adds 'u'",
        ),
        (lambda: program(keeps=("model", "model")), "'model' stands twice"),
        (lambda: program(keeps={"model": 1}), r"keeps of a program must be a tuple .*\(names such as"),
        (lambda: program(draws=3), "draws of a program must be a tuple of its values; got 3"),
        *(
            (
                lambda key=key, value=value: Program.from_json({**PLAIN.to_json(), key: value}),
                f"{key} of a program must be a list; got",
            )
            for key in ("keeps", "draws", "instructions")
            for value in (3, "model", {"model": 1})
        ),
        (lambda: Draw("u", level="1e999999999"), "must have at most 4000 digits; got '1e999999999'"),
        (lambda: Draw("u", level="1/" + "9" * 5000), "must have at most 4000 digits"),
        (lambda: Combine("y", {"model": Fraction(1, 3**9000)}), "must have at most 4000 digits"),
        (lambda: Combine("y", {"model": "1e-9999_9"}), "must have at most 4000 digits"),
        (lambda: Draw("u", level="1e_"), "a finite number, or a rational such as '1/3'; got '1e_'"),
        (lambda: Draw("u", level="1e__5"), "a finite number, or a rational such as '1/3'; got '1e__5'"),
    ],
)
def test_a_program_that_cannot_run_is_refused(build: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        build()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"program": program(draws=(Draw("u", level=(1, 2)),))},
            r"each of the 4 nodes; got 2 \(give one a node",
        ),
        (
            {"program": program(instructions=(Combine("message", {"model": (1, 2, 3), "u": 1}), RECEIVE))},
            "coefficient of 'model' in 'message' must be one number .* each of the 4 nodes; got 3",
        ),
        ({"encoder": (0, 1)}, r"begin with a number other than 0, or C has no inverse; got \(0, 1\)"),
        ({"encoder": ()}, "must begin with a number other than 0"),
        ({"encoder": 1}, "encoder must be a tuple of numbers"),
        ({"encoder": (1, "x")}, "each number of the encoder must be a finite number"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"program": "gossip"}, "program must be a Program, or a tuple of them; got 'gossip'"),
        ({"program": (PLAIN, program(keeps=("model", "v")))}, "must keep the same registers"),
        (
            {"program": UNSENT},
            r"must reach a message; 'u' is added to registers that are never sent.*\(add it to",
        ),
        ({"program": (UNSENT, UNSENT)}, "'u' is added to registers that are never sent"),
        ({"program": ()}, "program must hold at least one Program"),
        ({"weights": (RING, metropolis_weights("ring:n=5"))}, "must be on the same nodes; got 4 nodes and 5"),
        ({"weights": ()}, "weights must hold at least one matrix"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Protocol(**{"weights": RING, "program": PLAIN, "rounds": 3, **changes})


def test_a_draw_may_wait_for_a_later_round_or_another_program() -> None:
    sends = Program(
        keeps=("model", "aside"),
        draws=(),
        instructions=(Combine("y", {"model": 1, "aside": 1}), Exchange("y", "model")),
    )
    assert Protocol(weights=RING, program=(UNSENT, sends), rounds=4).varies
    later = Program(
        keeps=("model", "aside"),
        draws=(Draw("u"),),
        instructions=(*sends.instructions, Combine("aside", {"u": 1, "contribution": 1})),
    )
    assert Protocol(weights=RING, program=later, rounds=4).program == later


def test_a_program_survives_its_file() -> None:
    given = Program(
        keeps=("model", "v"),
        draws=(Draw("u", level=("1/3", 2, 0.5, Fraction(1, 7))), Draw("w", level=2, each="edge")),
        instructions=(Combine("v", {"v": 0.9, "u": 1, "w": "-2/3"}), Exchange("v", "model")),
        model="v",
    )
    again = Program.from_json(json.loads(json.dumps(given.to_json())))
    one, other = (Protocol(weights=RING, program=each, rounds=2) for each in (given, again))
    assert one.hash == other.hash
    assert again.draws[0].level == ("1/3", 2, 0.5, "1/7")


def test_a_program_is_read_aloud() -> None:
    assert str(PLAIN) == "message = model + contribution + u; exchange message → model"
    protocol = momentum(RING, rounds=7, beta="0.9")
    assert protocol.sentence.startswith(
        "v = 0.9·v + contribution + u; message = model + v; exchange message → model"
    )
    assert protocol.sentence.endswith("; 7 rounds")
    assert str(program(instructions=(Combine("message", {"model": -1, "u": "-1/2"}), RECEIVE))).startswith(
        "message = −model − 1/2·u"
    )
    assert set(protocol.terms) == {"protocol", "program", "protocol_hash"}
    assert protocol.terms["protocol_hash"] == protocol.hash


def test_the_hash_is_of_the_meaning_not_of_the_spelling() -> None:
    one = momentum(RING, rounds=7, beta="0.5")
    assert (
        one.hash
        == momentum(RING, rounds=7, beta=Fraction(1, 2)).hash
        == momentum(RING, rounds=7, beta=0.5).hash
    )
    others = [
        momentum(RING, rounds=8, beta="0.5"),
        momentum(RING, rounds=7, beta="0.4"),
        momentum(metropolis_weights("ring:n=5"), rounds=7, beta="0.5"),
        gossip(RING, rounds=7),
        gossip(RING, rounds=7, encoder=(1, 1)),
        gossip(RING, rounds=7, noise_levels=2),
    ]
    assert len({one.hash, *(each.hash for each in others)}) == 7
    assert gossip(RING, rounds=7, encoder=(1, 0, 0)).hash == gossip(RING, rounds=7).hash


def test_plain_gossip_is_recognised_by_what_it_does() -> None:
    renamed = Program(
        keeps=("theta",),
        draws=(Draw("z", level=("1", 1.0, 1, Fraction(1))),),
        instructions=(
            Combine("s", {"z": 1, "theta": "1/2", "contribution": (1, 1, 1, 1)}),
            Exchange("s", "theta"),
        ),
        model="theta",
    )
    protocol = Protocol(weights=RING, program=renamed, rounds=3, name="mine")
    assert protocol.plain
    assert protocol.damping is not None
    assert (protocol.damping == 0.5).all()


@pytest.mark.parametrize(
    "protocol",
    [
        gossip(RING, rounds=3, noise_levels=2),
        gossip(RING, rounds=3, encoder=(1, 1)),
        momentum(RING, rounds=3, beta="1/2"),
        scheduled([RING, np.eye(4)], rounds=3),
        Protocol(
            weights=RING,
            program=program(
                instructions=(Combine("message", {"model": "1/3", "contribution": 1, "u": 1}), RECEIVE)
            ),
            rounds=2,
        ),
        Protocol(
            weights=RING,
            program=program(
                instructions=(Combine("message", {"model": 2, "contribution": 1, "u": 1}), RECEIVE)
            ),
            rounds=2,
        ),
        Protocol(weights=RING, program=program(instructions=(SEND, RECEIVE, RECEIVE)), rounds=2),
        Protocol(weights=RING, program=program(draws=(Draw("u", each="edge"),)), rounds=2),
    ],
)
def test_what_is_not_plain_gossip_never_passes_for_it(protocol: Protocol) -> None:
    assert not protocol.plain
    for part in ("transition", "damping", "symmetric"):
        with pytest.raises(InputError, match="worked out for plain gossip"):
            getattr(protocol, part)


@pytest.mark.parametrize("given", [None, 3, "ring:n=5", RING])
def test_a_schedule_must_be_a_list(given: Any) -> None:
    with pytest.raises(
        InputError, match=r"weights must be a list of what each round mixes by.*\(put one matrix"
    ):
        scheduled(given, rounds=3)


@pytest.mark.parametrize("given", [{1, 2}, {1: 2}, "12", 1])
def test_an_encoder_must_be_in_order(given: Any) -> None:
    for build in (gossip, partial(Protocol, program=PLAIN)):
        with pytest.raises(
            InputError, match="encoder must be a tuple of numbers, the first column of C in order"
        ):
            build(weights=RING, rounds=3, encoder=given)


@pytest.mark.parametrize("given", [1, "1"])
def test_exchanges_of_a_view_must_be_a_list(given: Any) -> None:
    with pytest.raises(
        ViewError, match=r"exchanges of a view must be a list of numbers from 1 on; got .*\(write \[1\]"
    ):
        View.secure_sum(0, exchanges=given)


def test_a_schedule_of_one_is_no_schedule() -> None:
    assert scheduled([RING], rounds=3).plain
    assert scheduled([RING], rounds=3).weights is RING


def test_terms_cannot_be_changed_after_what_is_known_of_them() -> None:
    protocol = gossip(RING, rounds=3)
    before = protocol.hash, protocol.plain
    step = protocol.programs[0].instructions[0]
    assert isinstance(step, Combine)
    with pytest.raises(TypeError, match="does not support item assignment"):
        step.terms["contribution"] = 100  # type: ignore[index]
    given = {"model": 1}
    copied = Combine("message", given)
    given["model"] = 100
    assert copied.terms == {"model": 1}
    assert (protocol.hash, protocol.plain) == before
    again = pickle.loads(pickle.dumps(protocol.programs[0]))
    assert again == protocol.programs[0]
    assert hash(again) == hash(protocol.programs[0])
    assert repr(copied) == "Combine(into='message', terms={'model': 1})"


def test_a_program_that_keeps_nothing_is_told_what_to_keep() -> None:
    forgetful = (Combine("message", {"contribution": 1, "u": 1}), RECEIVE)
    with pytest.raises(InputError, match=r'must keep a register .* keeps=\("model",\)'):
        program(keeps=(), instructions=forgetful)
    protocol = Protocol(weights=RING, program=program(instructions=forgetful), rounds=4)
    assert sensitivity(protocol, View.everyone, [1]).squared_upper.tolist() == [4]


def test_programs_of_more_instructions_than_anybody_writes_are_refused_before_they_are_built() -> None:
    with pytest.raises(InputError, match="at most 10000 instructions; got 10002"):
        program(instructions=(SEND, *[Exchange("message", "message")] * 10_000, RECEIVE))
    with pytest.raises(InputError, match="steps must be at most 1000; got 1000000000000"):
        once(RING, steps=10**12)
    with pytest.raises(InputError, match="steps must be at most 1000; got 1000000000000"):
        repeated(RING, rounds=2, steps=10**12)


def test_hundreds_of_exchanges_are_compiled_one_after_the_other() -> None:
    found = sensitivity(once(RING, steps=700), View.neighbourhood(0), [2])
    assert found.squared_lower[0] == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", [3, ["x"], "", "  ", "a\x1b[31mred", "two\nlines", "x" * 201])
def test_names_are_text_that_can_be_shown(name: Any) -> None:
    with pytest.raises(InputError, match="text of 1 to 200 printable characters"):
        Protocol(weights=RING, program=PLAIN, rounds=2, name=name)


@pytest.mark.parametrize("level", ["1e3000", "1e-3000", ("1e3000", 1, 1, 1)])
def test_levels_that_floats_do_not_hold_are_refused(level: Any) -> None:
    with pytest.raises(NotCertified, match="numbers that floats do not hold"):
        sensitivity(gossip(RING, rounds=3, noise_levels=level), View.secure_sum(0), [1])
