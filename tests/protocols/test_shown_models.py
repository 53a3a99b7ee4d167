# SPDX-License-Identifier: Apache-2.0
"""Which programs tell their models to whoever sees all messages, held against what unit impulses do."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scenes import PATH, PROTOCOLS

from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol
from sottovoce.protocols.execution import draw_counts, initial_registers, run_round


def told_by_messages(protocol: Protocol) -> bool:
    """Whether every model is a linear function of all earlier messages: the rank of those decides."""
    names, counts = protocol.programs[0].draws, draw_counts(protocol.schedule[0], protocol.programs[0])
    columns = protocol.rounds * (protocol.n + sum(counts.values()))
    held, seen, column = initial_registers(protocol, columns), np.zeros((0, columns)), 0

    def impulses(count: int) -> np.ndarray:
        nonlocal column
        column += count
        return np.eye(columns)[column - count : column]

    for t in range(protocol.rounds):
        weights, program = protocol.round_of(t)
        models = np.vstack([seen, held[program.model]])
        if np.linalg.matrix_rank(models) > np.linalg.matrix_rank(seen):
            return False
        noise = {draw.name: impulses(counts[draw.name]) for draw in names}
        held, messages = run_round(weights, program, held, impulses(protocol.n), noise)
        seen = np.vstack([seen, *messages])
    return True


SEVERAL = [protocol for protocol in PROTOCOLS if protocol.rounds > 1]


@pytest.mark.parametrize("protocol", SEVERAL, ids=lambda each: f"{each.name}-{each.n}-{each.rounds}")
def test_a_model_that_is_shown_is_told_by_messages(protocol: Protocol) -> None:
    assert protocol.programs[0].shows_model == told_by_messages(protocol)
    assert protocol.programs[0].shows_model == (protocol.name != "clean_state")


def test_what_is_kept_for_a_later_round_counts() -> None:
    # The model is last round's unsent register: two rounds pass before it is hidden.
    program = Program(
        keeps=("model", "next"),
        draws=(Draw("u"),),
        instructions=(
            Combine("message", {"model": 1, "contribution": 1, "u": 1}),
            Exchange("message", "sum"),
            Combine("model", {"next": 1}),
            Combine("next", {"sum": 1, "contribution": 1}),
        ),
    )
    protocol = Protocol(weights=PATH, program=program, rounds=4)
    assert not program.shows_model
    assert not told_by_messages(protocol)


def test_a_model_that_is_not_kept_is_not_shown() -> None:
    program = Program(
        keeps=("state",),
        draws=(Draw("u"),),
        instructions=(Combine("y", {"contribution": 1, "u": 1}), Exchange("y", "state")),
    )
    assert not program.shows_model
