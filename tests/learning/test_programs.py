# SPDX-License-Identifier: Apache-2.0
"""Training on any program: what runs is what is accounted for, and what cannot be accounted for is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.scenes import PROTOCOLS

from sottovoce import View, account, gaussian
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.learning import init, plan, step, synthetic_task, train
from sottovoce.learning.descent import check_protocol
from sottovoce.learning.losses import Sums
from sottovoce.protocols import (
    Protocol,
    clean_state,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    push_sum,
    repeated,
)
from sottovoce.protocols.compiled import GIVEN, STATE, ExactRows, compiled_rounds

if TYPE_CHECKING:
    from sottovoce.learning import State
    from sottovoce.learning.descent import Descent

RING = metropolis_weights("ring:n=6")


def can_train(protocol: Protocol) -> bool:
    try:
        check_protocol(protocol)
    except InputError:
        return False
    return True


TRAINED = [each for each in PROTOCOLS if can_train(each) and not (each.plain and each.damping is not None)]


def dense_maps(protocol: Protocol) -> list[tuple[np.ndarray, list[np.ndarray], list[tuple[str, int]]]]:
    """For each round the rows of what is kept and of each exchange, over what was kept, draws and contributions."""
    maps = []
    for compiled in compiled_rounds(protocol):
        size, n = compiled.size, protocol.n
        columns = [(name, owners[0]) for name, owners in zip(compiled.names, compiled.owners, strict=True)]

        def dense(rows: ExactRows, drawn: int = len(columns), size: int = size, n: int = n) -> np.ndarray:
            made = np.zeros((len(rows.forms), size + drawn + n))
            for i, form in enumerate(rows.forms):
                for key, value in form.items():
                    kept = key - STATE if key >= STATE else size + key
                    made[i, size + drawn + key - GIVEN if key >= GIVEN else kept] = value / rows.denominator
            return made

        maps.append((dense(compiled.state), [dense(rows) for rows in compiled.messages], columns))
    return maps


def sent_by_maps(protocol: Protocol, t: int, source: str, node: int) -> np.ndarray:
    """All messages after a unit of one draw, or of the contribution, of one node in round t."""
    maps, n = dense_maps(protocol), protocol.n
    state, sent = np.zeros(maps[0][0].shape[0]), []
    for u in range(protocol.rounds):
        kept, messages, columns = maps[u % len(maps)]
        given = np.zeros(len(columns) + n)
        if u == t:
            place = len(columns) + node if source == "contribution" else columns.index((source, node))
            given[place] = 1.0
        inputs = np.concatenate([state, given])
        sent += [rows @ inputs for rows in messages]
        state = kept @ inputs
    return np.array(sent)


class Impulse:
    """A unit of one draw of one node in one round, and nothing else."""

    def __init__(self, number: int | None, node: int) -> None:
        self.number, self.node = number, node

    def covering(self, number: int, content: np.ndarray, scale: float, width: int) -> np.ndarray:
        assert scale == 0.5
        drawn = np.zeros((len(content), width))
        drawn[self.node] = float(number == self.number)
        return drawn

    def uniform(self, round_index: int, count: int) -> np.ndarray:
        raise AssertionError((round_index, count))


def sent_by_training(
    monkeypatch: pytest.MonkeyPatch, protocol: Protocol, t: int, source: str, node: int
) -> np.ndarray:
    """The same from rounds of training at step ½ and noise 1, gradients being what is contributed and nothing else."""

    def gradients(descent: Descent, state: State) -> Sums:
        values = -descent.task.linear * state.models
        values[node] -= float(source == "contribution" and state.round == t) / 0.5
        return Sums(values=values, clipped=0.0, zeroed=0)

    monkeypatch.setattr("sottovoce.learning.descent._gradients", gradients)
    names = [draw.name for draw in protocol.programs[0].draws]
    number = None if source == "contribution" else t * len(names) + names.index(source)
    chosen = plan(synthetic_task(protocol.n, dimension=2), protocol, noise_multiplier=1.0, step=0.5)
    descent = replace(chosen.descent(Impulse(number, node)), noise_std=1.0)
    state, sent = init(descent), []
    for _ in range(protocol.rounds):
        state, info = step(descent, state)
        assert all((message[:, :1] == message).all() for message in info.messages)
        sent += [message[:, 0] for message in info.messages]
    # Noise and contributions of training count downwards, and noise in steps.
    return np.array(sent) if source == "contribution" else np.array(sent) / -0.5


def test_most_protocols_can_train() -> None:
    names = {each.name for each in TRAINED}
    assert names == {
        "gossip",
        "repeated",
        "chebyshev",
        "momentum",
        "gradient_tracking",
        "exact_diffusion",
        "once",
        "scheduled",
    }


@pytest.mark.parametrize("protocol", TRAINED, ids=lambda each: f"{each.name}-{each.n}-{each.rounds}")
def test_the_trainer_answers_impulses_as_the_compiled_maps_do(
    monkeypatch: pytest.MonkeyPatch, protocol: Protocol
) -> None:
    for t in {0, protocol.rounds // 2, protocol.rounds - 1}:
        for source in ("contribution", *(draw.name for draw in protocol.programs[0].draws)):
            for node in range(protocol.n):
                found = sent_by_training(monkeypatch, protocol, t, source, node)
                assert np.allclose(found, sent_by_maps(protocol, t, source, node), atol=1e-12)


@pytest.mark.parametrize(
    "protocol",
    [
        momentum(RING, rounds=6, beta=0.5),
        gradient_tracking(RING, rounds=6, noise="messages"),
        repeated(RING, rounds=6, steps=2),
    ],
    ids=lambda each: each.name,
)
def test_a_run_has_the_account_of_its_program(protocol: Protocol) -> None:
    run = train(synthetic_task(6), protocol, target_epsilon=4.0, step=0.05, seed=1)
    assert run.account.assumption == "none"
    assert run.account.epsilon().upper <= 4.0
    whole = account(protocol, View.everyone, noise_multiplier=run.noise_multiplier, delta=1e-5)
    assert run.account.mu.upper == whole.worst().mu.upper == run.unconditional.mu.upper
    assert (run.settings["protocol"], run.settings["protocol_hash"]) == (protocol.name, protocol.hash)
    assert run.history.loss[-1] < 1


def test_late_noise_costs_what_the_closed_form_says() -> None:
    # Everyone's Δ² of gradient tracking with noise on messages is 4T − 3.
    protocol = gradient_tracking(RING, rounds=7, noise="messages")
    run = train(synthetic_task(6), protocol, noise_multiplier=5.0, step=0.05, seed=1)
    assert run.account.epsilon().upper == pytest.approx(gaussian.epsilon(1.0, 1e-5), rel=1e-6)


def test_a_run_with_registers_goes_on_bit_for_bit() -> None:
    protocol, task = momentum(RING, rounds=20, beta=0.9), synthetic_task(6)
    kept: list[Any] = []
    whole = train(
        task, protocol, noise_multiplier=2.0, step=0.05, seed=3, checkpoint=kept.append, checkpoint_every=7
    )
    assert [run.state.round for run in kept] == [0, 7, 14]
    again = train(task, protocol, noise_multiplier=2.0, step=0.05, resume=kept[1])
    assert np.array_equal(again.state.registers, whole.state.registers)
    other = momentum(RING, rounds=20, beta=0.8)
    with pytest.raises(InputError, match=r"its program is 'v = 0\.9·v"):
        train(task, other, noise_multiplier=2.0, step=0.05, resume=kept[1])


@pytest.mark.parametrize(
    ("protocol", "more", "complaint"),
    [
        (clean_state(RING, rounds=3, keep=0.5), {}, "its messages do not tell its models"),
        (pairwise_noise(RING, rounds=3, local=1, shared=1), {}, "two nodes share a draw"),
        (gossip(RING, rounds=3, encoder=(1, 1)), {}, "its noise is encoded over the rounds"),
        (gossip(RING, rounds=3, updates=(0.5, 1)), {}, "how nodes update follows from the loss"),
        (push_sum(np.array([[0.5, 0, 0.5], [0.5, 1, 0], [0, 0, 0.5]]), rounds=3), {}, "do not sum to 1"),
        (momentum(RING, rounds=3, beta=0.5), {"view": "secure-sum"}, "accounted for in the everyone view"),
        (momentum(RING, rounds=3, beta=0.5), {"step": "0.1/sqrt(t)"}, "must be constant"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(
    protocol: Protocol, more: dict[str, Any], complaint: str
) -> None:
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "step": 0.1} | more
    with pytest.raises(InputError, match=complaint):
        train(synthetic_task(protocol.n), protocol, **settings)
