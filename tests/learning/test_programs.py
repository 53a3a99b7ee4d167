# SPDX-License-Identifier: Apache-2.0
"""Training on any program: what runs is what is accounted for, and what cannot be accounted for is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import linalg
from tests.interpreter import exact_view, largest_over_signs
from tests.scenes import PROTOCOLS

from sottovoce import View, account, gaussian
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.learning import (
    Task,
    init,
    load_data,
    plan,
    quadratic,
    shards_of,
    step,
    synthetic_task,
    task_from,
    train,
)
from sottovoce.learning.clipping import Sums
from sottovoce.learning.descent import Descent, _drawn, _gradients, check_protocol
from sottovoce.learning.noise import BoundNoise, fresh_keys
from sottovoce.protocols import (
    Combine,
    Draw,
    Protocol,
    clean_state,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.protocols.compiled import GIVEN, STATE, ExactRows, compiled_rounds, edges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.learning import State

RING = metropolis_weights("ring:n=6")
# Of runs that answer impulses: not 1, and not inverse to each other, so that none of the two can be left out unseen.
STEP, NOISE_STD = 0.5, 3.0


@cache
def dense_maps(
    protocol: Protocol,
) -> list[tuple[np.ndarray, list[np.ndarray], list[tuple[str, tuple[int, ...]]]]]:
    """For each round the rows of what is kept and of each exchange, over what was kept, draws and contributions."""
    maps = []
    for compiled in compiled_rounds(protocol):
        size, n = compiled.size, protocol.n
        columns = list(zip(compiled.names, compiled.owners, strict=True))

        def dense(rows: ExactRows, drawn: int = len(columns), size: int = size, n: int = n) -> np.ndarray:
            made = np.zeros((len(rows.forms), size + drawn + n))
            for i, form in enumerate(rows.forms):
                for key, value in form.items():
                    kept = key - STATE if key >= STATE else size + key
                    made[i, size + drawn + key - GIVEN if key >= GIVEN else kept] = value / rows.denominator
            return made

        maps.append((dense(compiled.state), [dense(rows) for rows in compiled.messages], columns))
    return maps


def sent_by_maps(protocol: Protocol, t: int, source: str, owners: tuple[int, ...]) -> np.ndarray:
    """All messages after a unit of one contribution, or of the fresh ξ behind one draw, in round t."""
    maps, n = dense_maps(protocol), protocol.n
    column = np.zeros(protocol.rounds)
    column[: len(protocol.code)] = [float(x) for x in protocol.code]
    encoder = linalg.toeplitz(column, np.zeros(protocol.rounds))
    decoder = linalg.solve_triangular(encoder, np.eye(protocol.rounds)[:, 0], lower=True)
    state, sent = np.zeros(maps[0][0].shape[0]), []
    for u in range(protocol.rounds):
        kept, messages, columns = maps[u % len(maps)]
        given = np.zeros(len(columns) + n)
        if source == "contribution":
            given[len(columns) + owners[0]] = float(u == t)
        elif u >= t:
            given[columns.index((source, owners))] = decoder[u - t]
        inputs = np.concatenate([state, given])
        sent += [rows @ inputs for rows in messages]
        state = kept @ inputs
    return np.array(sent)


class Impulse:
    """A unit of one draw of one node or edge in one round, and nothing else."""

    def __init__(self, number: int | None, owners: tuple[int, ...]) -> None:
        self.number, self.owners = number, owners

    def covering(self, number: int, content: Sequence[np.ndarray], scale: float, width: int) -> np.ndarray:
        return self.between(number, [(i,) for i in range(len(content[0]))], content, scale, width)

    def between(
        self,
        number: int,
        edges: Sequence[tuple[int, ...]],
        content: Sequence[np.ndarray],
        scale: float,
        width: int,
    ) -> np.ndarray:
        assert scale == STEP * NOISE_STD
        assert {part.shape for part in content} == {content[0].shape}
        drawn = np.zeros((len(edges), width))
        if number == self.number:
            drawn[list(edges).index(self.owners)] = 1.0
        return drawn

    def uniform(self, round_index: int, count: int) -> np.ndarray:
        raise AssertionError((round_index, count))


def answers(
    task: Task,
    protocol: Protocol,
    t: int,
    source: str,
    owners: tuple[int, ...],
    *,
    noise: Callable[[int | None, tuple[int, ...]], Impulse] = Impulse,
    **more: Any,
) -> np.ndarray:
    """All messages of training, one row an exchange, after a unit of one draw in round t, or of what the task has."""
    names = [draw.name for draw in protocol.programs[0].draws]
    number = None if source == "contribution" else t * len(names) + names.index(source)
    with pytest.MonkeyPatch.context() as patch:
        # What runs is what is accounted for, also where training is refused as nothing would be proved of it.
        patch.setattr("sottovoce.learning.descent.check_protocol", lambda _: None)
        descent = Descent(
            task=task,
            protocol=protocol,
            steps=np.full(protocol.rounds, STEP),
            noise=noise(number, owners),
            noise_std=NOISE_STD,
            **more,
        )
        state, sent = init(descent), []
        for _ in range(protocol.rounds):
            state, info = step(descent, state)
            assert all((message[:, :1] == message).all() for message in info.messages)
            sent += [message[:, 0] for message in info.messages]
    # Noise of training counts downwards, in steps of its own deviation.
    return np.array(sent) if number is None else np.array(sent) / (-STEP * NOISE_STD)


def answers_on(
    gradients: Callable[[Descent, State], Sums],
    task: Task,
    protocol: Protocol,
    t: int,
    source: str,
    owners: tuple[int, ...],
) -> np.ndarray:
    """The same where losses have these gradients, and a contribution is a step of 1 beside them."""

    def moved(descent: Descent, state: State) -> Sums:
        found = gradients(descent, state)
        values = found.values.copy()
        values[owners[0]] -= float(source == "contribution" and state.round == t) / STEP
        return found._replace(values=values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sottovoce.learning.descent._gradients", moved)
        return answers(task, protocol, t, source, owners)


def sent_by_training(protocol: Protocol, t: int, source: str, owners: tuple[int, ...]) -> np.ndarray:
    """The same as by the maps, gradients being what is contributed and nothing else."""

    def gradients(descent: Descent, state: State) -> Sums:
        return Sums(values=-descent.task.linear * state.models, clipped=0.0, zeroed=0)

    return answers_on(gradients, synthetic_task(protocol.n, dimension=2), protocol, t, source, owners)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: f"{each.name}-{each.n}-{each.rounds}")
def test_the_trainer_answers_impulses_as_the_compiled_maps_do(protocol: Protocol) -> None:
    for t in {0, protocol.rounds // 2, protocol.rounds - 1}:
        weights, program = protocol.round_of(t)
        sources: list[tuple[str, tuple[int, ...]]] = [("contribution", (i,)) for i in range(protocol.n)]
        for draw in program.draws:
            ends = [(i,) for i in range(protocol.n)] if draw.each == "node" else edges_of(weights)
            sources += [(draw.name, owners) for owners in ends]
        for source, owners in sources:
            found = sent_by_training(protocol, t, source, owners)
            assert np.allclose(found, sent_by_maps(protocol, t, source, owners), atol=1e-12)


def test_programs_that_take_turns_count_their_draws_on() -> None:
    one, two = (momentum(RING, rounds=1, beta=beta).programs[0] for beta in (0.5, 0.25))
    adding, exchange = Combine("message", {"model": 1, "v": 1, "w": 1}), two.instructions[-1]
    more = replace(two, draws=(Draw("u"), Draw("w")), instructions=(two.instructions[0], adding, exchange))
    protocol = Protocol(weights=RING, program=(one, more, two), rounds=8)
    numbers: list[int] = []

    class Counting(Impulse):
        def covering(self, number: int, *rest: Any) -> np.ndarray:
            numbers.append(number)
            return super().covering(number, *rest)

    chosen = plan(synthetic_task(6, dimension=2), protocol, noise_multiplier=1.0, step=STEP)
    descent = replace(chosen.descent(Counting(None, (0,))), noise_std=NOISE_STD)
    state = init(descent)
    for _ in range(8):
        state, _ = step(descent, state)
    assert numbers == list(range(4 * 2 + 3))


def refused(protocol: Protocol) -> bool:
    try:
        check_protocol(protocol)
    except InputError:
        return True
    return False


def test_what_training_refuses_of_the_list() -> None:
    assert {(each.name, each.plain) for each in PROTOCOLS if refused(each)} == {
        ("gossip", True),
        ("clean_state", False),
        ("push_sum", False),
    }


@pytest.mark.parametrize(
    "protocol",
    [
        momentum(RING, rounds=6, beta=0.5),
        gradient_tracking(RING, rounds=6, noise="messages"),
        repeated(RING, rounds=6, steps=2),
        gossip(RING, rounds=6, encoder=(1, "1/2", "3/8")),
        scheduled([RING, np.eye(6)], rounds=6, encoder=[1] * 6),
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


DECOR = pairwise_noise(RING, rounds=4, local=1, shared=2)


def test_an_eavesdropper_on_shared_noise_is_not_whoever_sees_whatever() -> None:
    run = train(synthetic_task(6), DECOR, target_epsilon=4.0, step=0.05, seed=1)
    heard = account(DECOR, View.everyone, noise_multiplier=run.noise_multiplier, delta=1e-5).worst()
    assert (run.account.view, run.account.assumption) == ("everyone", "none")
    assert run.account.mu.upper == heard.mu.upper
    # Whoever is told the draws of all edges is left with the local noise: Δ² = T.
    assert run.unconditional.sensitivity_squared is not None
    assert run.unconditional.sensitivity_squared.upper == pytest.approx(4, rel=1e-9)
    assert run.unconditional.mu.upper > run.account.mu.upper
    assert not run.one_number
    assert run.epsilon.upper == 4.0 < run.unconditional_epsilon.upper
    assert repr(run).endswith("(everyone, none), ε ≤ 8.693 (local DP), a simulation by a seed)")


@pytest.mark.parametrize(
    "protocol", [DECOR, momentum(RING, rounds=4, beta=0.5, noise="message")], ids=lambda each: each.name
)
def test_what_a_node_learns_of_any_loss_is_what_it_would_hearing_all(protocol: Protocol) -> None:
    task = task_from(load_data("breast-cancer"), 6)
    chosen = plan(task, protocol, view="neighbourhood", noise_multiplier=1.0, step=0.5)
    assert len(chosen.table) == 6 * 5
    assert chosen.account.assumption == "none"
    for observer in range(6):
        knowing = View(observation=np.eye(6), known_noise=[observer])
        for target in set(range(6)) - {observer}:
            M = exact_view(protocol, knowing, target).form()
            assert M is not None
            pair = chosen.table[observer, target].sensitivity_squared
            assert pair is not None
            # At T = 4 signs leave little to vectors, and the interval must hold both.
            value = float(largest_over_signs(M))
            assert pair.lower == 0
            assert value * (1 - 1e-12) <= pair.upper <= value * 1.05
    assert chosen.account.mu.upper <= chosen.unconditional.mu.upper * (1 + 1e-9)
    hidden = plan(task, protocol, view="secure-sum", own_noise="hidden", noise_multiplier=1.0, step=0.5)
    outside = plan(task, protocol, noise_multiplier=1.0, step=0.5)
    assert hidden.account.mu.upper == pytest.approx(outside.account.mu.upper, rel=1e-9)


ZEROS = Task(
    name="zeros",
    loss=quadratic(1, 1.0),
    shards=shards_of([np.zeros((2, 1))] * 6, [np.zeros(2)] * 6, nominal=2),
)


@cache
def sent_by_quadratic_losses(protocol: Protocol, t: int, source: str, owners: tuple[int, ...]) -> np.ndarray:
    """The same of training on quadratic losses of curvature 1."""
    return answers_on(_gradients, ZEROS, protocol, t, source, owners)


def seen_in_training(protocol: Protocol, rows: np.ndarray, known: set[int], target: int) -> np.ndarray:
    """M of a view of training on quadratic losses, from impulses of the trainer itself."""

    def shown(t: int, source: str, owners: tuple[int, ...]) -> np.ndarray:
        return np.asarray(sent_by_quadratic_losses(protocol, t, source, owners) @ rows.T).ravel()

    nodes: list[tuple[int, ...]] = [(i,) for i in range(protocol.n)]
    unknown = [
        (t, draw.name, owners)
        for t in range(protocol.rounds)
        for draw in protocol.programs[0].draws
        for owners in (nodes if draw.each == "node" else edges_of(protocol.weights))
        if known.isdisjoint(owners)
    ]
    N = np.array([shown(*each) for each in unknown]).T
    G = np.array([shown(t, "contribution", (target,)) for t in range(protocol.rounds)]).T
    return np.asarray(G.T @ np.linalg.pinv(N @ N.T) @ G)


ENCODED_DECOR = replace(DECOR, encoder=(1, "1/2"))


@pytest.mark.parametrize("view", ["neighbourhood", "secure-sum", "single-node"])
def test_quadratic_losses_close_the_loop_of_any_program(view: Any) -> None:
    for protocol in (DECOR, ENCODED_DECOR):
        chosen = plan(ZEROS, protocol, view=view, noise_multiplier=1.0, step=STEP, observers=[0])
        assert chosen.account.assumption == "quadratic"
        W, eye = RING.matrix.toarray(), np.eye(6)
        rows = {"neighbourhood": eye[[0, 1, 5]], "secure-sum": W[:1], "single-node": eye[:1]}[view]
        for target in range(1, 6):
            M = seen_in_training(protocol, rows, {0}, target)
            signs = np.array([[1, *rest] for rest in itertools.product((1, -1), repeat=3)])
            pair = chosen.table[0, target].sensitivity_squared
            assert pair is not None
            value = np.einsum("ks,st,kt->k", signs, M, signs).max()
            assert pair.upper >= value * (1 - 1e-9)
            assert pair.lower <= np.abs(M).sum() * (1 + 1e-9)
            assert pair.upper <= value * 1.05 + 1e-12


@pytest.mark.parametrize(
    "protocol",
    [
        pairwise_noise(RING, rounds=20, local=1, shared=2),
        gossip(RING, rounds=20, encoder=(1, "1/2", "3/8")),
        gossip(RING, rounds=20, encoder=[1] * 20),
    ],
    ids=["edges", "banded", "anti"],
)
def test_shared_and_encoded_noise_goes_on_bit_for_bit_without_a_seed(protocol: Protocol) -> None:
    task, kept = synthetic_task(6), list[Any]()
    settings: dict[str, Any] = {"noise_multiplier": 2.0, "step": 0.05}
    whole = train(task, protocol, **settings, checkpoint=kept.append, checkpoint_every=7)
    again = train(task, protocol, **settings, resume=kept[1])
    assert np.array_equal(again.state.registers, whole.state.registers)
    # What is remembered of earlier draws is part of the checkpoint, and forgetting it is found out.
    if protocol.encoded:
        registers = kept[1].state.registers
        assert len(registers) == 2 + (len(protocol.encoder) == 3)
        forgot = replace(
            kept[1],
            state=kept[1].state._replace(registers=registers * [[[1]], *[[[0]]] * (len(registers) - 1)]),
        )
        with pytest.raises(InputError, match="round 7 does not come out as it did"):
            train(task, protocol, **settings, resume=forgot)


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
        (gossip(RING, rounds=3, updates=(0.5, 1)), {}, "how nodes update follows from the loss"),
        (push_sum(np.array([[0.5, 0, 0.5], [0.5, 1, 0], [0, 0, 0.5]]), rounds=3), {}, "do not sum to 1"),
        (gossip(RING, rounds=3, encoder=[1, 0.5]), {"step": "0.1/sqrt(t)"}, "must be constant"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(
    protocol: Protocol, more: dict[str, Any], complaint: str
) -> None:
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "step": 0.1} | more
    with pytest.raises(InputError, match=complaint):
        train(synthetic_task(protocol.n), protocol, **settings)


def test_a_neighbours_change_leaves_no_noise_of_a_node_as_it_was() -> None:
    ring = metropolis_weights("ring:n=6")
    run = pairwise_noise(ring, rounds=1, local="1/1000", shared=1000)
    rng = np.random.default_rng(2)
    content = rng.standard_normal((6, 3))
    other = content.copy()
    other[0] += 0.5
    noise = BoundNoise(fresh_keys(6))
    descent: Any = SimpleNamespace(run=run, noise=noise)
    before, after = (_drawn(descent, 0, (each,), 1.0) for each in (content, other))
    (place,) = (k for k, draw in enumerate(run.programs[0].draws) if draw.each == "node")
    # Node 0 and both who share a draw with it draw anew; those who share none draw what they drew.
    assert (before[place] != after[place]).any(axis=1).tolist() == [True, True, False, False, False, True]
