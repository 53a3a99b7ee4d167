# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from flint import fmpq
from tests.interpreter import each, weights_at
from tests.scenes import EVERY_PROTOCOL, PROTOCOLS

from sottovoce.protocols import Combine, Protocol
from sottovoce.protocols.compiled import GIVEN, STATE, compile_round, compiled_rounds


@EVERY_PROTOCOL
def test_compiled_rows_are_what_unit_impulses_do(protocol: Protocol) -> None:
    weights, program = protocol.round_of(0)
    compiled = compile_round(weights, program)
    n = protocol.n
    columns = [
        *(STATE + k for k in range(n * len(program.keeps))),
        *range(len(compiled.owners)),
        *(GIVEN + j for j in range(n)),
    ]
    for column in columns:
        registers = {name: [fmpq(0)] * n for name in program.keeps}
        sources = {draw.name: [fmpq(0)] * n for draw in program.draws}
        sources["contribution"] = [fmpq(0)] * n
        if column >= GIVEN:
            sources["contribution"][column - GIVEN] = fmpq(1)
        elif column >= STATE:
            registers[program.keeps[(column - STATE) // n]][(column - STATE) % n] = fmpq(1)
        else:
            (level,) = (draw.level for draw in program.draws if draw.name == compiled.names[column])
            for place, node in enumerate(compiled.owners[column]):
                sources[compiled.names[column]][node] = (-1) ** place * each(level, node)
        sent = []
        for step in program.instructions:
            if isinstance(step, Combine):
                held = {**registers, **sources}
                registers[step.into] = [
                    sum((each(x, i) * held[name][i] for name, x in step.terms.items()), fmpq(0))
                    for i in range(n)
                ]
            else:
                sent.append(list(registers[step.message]))
                registers[step.into] = [
                    sum((w * m for w, m in zip(row, sent[-1], strict=True)), fmpq(0))
                    for row in weights_at(protocol, 0)
                ]
        kept = [x for name in program.keeps for x in registers[name]]
        assert [
            fmpq(form.get(column, 0), compiled.state.denominator) for form in compiled.state.forms
        ] == kept
        for rows, message in zip(compiled.messages, sent, strict=True):
            assert [fmpq(form.get(column, 0), rows.denominator) for form in rows.forms] == message


def test_rounds_that_are_alike_are_compiled_once() -> None:
    protocol = next(each for each in PROTOCOLS if each.name == "scheduled")
    rounds = compiled_rounds(protocol)
    assert len({id(each) for each in rounds}) == len(protocol.schedule)
    assert rounds[0] is rounds[len(protocol.schedule)]
