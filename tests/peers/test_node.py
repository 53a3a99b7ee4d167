"""The node as a machine: it does what the simulator does, bit for bit, and no death of others stops it."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.peers.networks import complete, network
from tests.peers.swarm import Swarm

from sottovoce.learning import Data, Descent, SilentNoise, init, shards_of, step
from sottovoce.peers import Deadlines, Local, Network, Policy, notes
from sottovoce.peers.letters import Kind, Letter
from sottovoce.peers.messages import Refused
from sottovoce.protocols import CONTRIBUTION, Exchange, initial_registers, run_round, run_to_exchange


class Fixed:
    """Contributions and noise that are drawn once for all nodes and rounds."""

    def __init__(self, run: Network, scale: float = 1.0) -> None:
        rng = np.random.default_rng(7)
        shape = (run.settings.rounds, run.n, run.dimension)
        names = sorted({draw.name for program in run.run.programs for draw in program.draws})
        self.contributions = rng.standard_normal(shape) * scale
        self.noise = {name: rng.standard_normal(shape) * scale for name in names}

    def __call__(self, i: int, t: int, model: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        # A little of the model, so that what a node does depends on what it received.
        own = self.contributions[t, i : i + 1] - 0.25 * model
        return own, {name: drawn[t, i : i + 1] for name, drawn in self.noise.items()}


def simulated(run: Network, given: Fixed) -> dict[tuple[int, int, int], bytes]:
    """The messages of all nodes by the simulator."""
    held = initial_registers(run.run, run.dimension)
    found: dict[tuple[int, int, int], bytes] = {}
    for t in range(run.settings.rounds):
        weights, program = run.run.round_of(t)
        contribution = given.contributions[t] - 0.25 * held[program.model]
        noise = {draw.name: given.noise[draw.name][t] for draw in program.draws}
        held, messages = run_round(weights, program, held, contribution, noise)
        for k, message in enumerate(messages):
            found |= {(i, t, k): message[i].astype("<f8").tobytes() for i in range(run.n)}
    return found


@pytest.mark.parametrize(
    "protocol",
    [
        "gossip",
        "repeated:steps=2",
        "chebyshev:steps=3",
        "momentum:beta=0.9",
        "momentum:beta=0.9,noise=message",
        "gradient-tracking",
        "gradient-tracking:noise=messages",
        "exact-diffusion",
        "gossip:encoder=1+1+1",
    ],
)
def test_messages_are_those_of_the_simulator_to_the_bit(protocol: str) -> None:
    run = network(
        6,
        protocol=protocol,
        rounds=3,
        weights="metropolis",
        edges=(*complete(4), ("site-3", "site-4"), ("site-4", "site-5")),
    )
    given = Fixed(run)
    swarm = Swarm(run, given)
    for i in range(run.n):
        swarm.start(i)
    swarm.run()
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.values == simulated(run, given)
    assert swarm.refused == []
    assert all(not box for box in swarm.outbox.values())
    closed = [note for note in swarm.notes[0] if isinstance(note, notes.Closed)]
    assert closed
    assert all(note.missing == () for note in closed)


@pytest.mark.parametrize("unit", ["record", "node"])
def test_training_sends_what_train_sends(unit: str) -> None:
    run = network(4, edges=complete(4), rounds=4, unit=unit, noise_multiplier=1e-300)
    rng = np.random.default_rng(3)
    tasks = [
        run.local_task(
            Data(name="own", features=rng.normal(size=(20, 3)), labels=np.arange(20) % 2, classes=2)
        )
        for _ in range(4)
    ]
    own = [Local(run, task) for task in tasks]
    silent = {"u": np.zeros((1, run.dimension))}
    swarm = Swarm(run, lambda i, t, model: (own[i].contribution(t, model), silent))
    for i in range(4):
        swarm.start(i)
    swarm.run()
    shards = [task.shards for task in tasks]
    joint = replace(
        tasks[0],
        shards=shards_of(
            [each.features[0] for each in shards], [each.labels[0] for each in shards], nominal=20
        ),
    )
    descent = Descent(
        task=joint,
        protocol=run.protocol,
        steps=run.steps,
        noise=SilentNoise(4),
        noise_std=0.0,
        unit=run.settings.unit,
    )
    state = init(descent)
    for t in range(4):
        state, info = step(descent, state)
        for i in range(4):
            assert swarm.values[i, t, 0] == (info.messages[0][i] + 0.0).tobytes()


def test_a_node_that_dies_is_left_out_and_its_weight_stays_with_the_receiver() -> None:
    run = network(4, edges=complete(4), rounds=6)
    given = Fixed(run)
    swarm = Swarm(run, given)
    for i in range(4):
        swarm.start(i)

    def die() -> None:
        if 3 in swarm.nodes and swarm.nodes[3].round >= 2:
            swarm.kill(3)

    swarm.run(die)
    assert {swarm.done[i] for i in range(3)} == {"finished"}
    # Nobody waited longer than the grace for somebody lost.
    assert swarm.now < 2.0
    closed = {note.round: note for note in swarm.notes[0] if isinstance(note, notes.Closed)}
    assert closed[0].missing == ()
    assert closed[5].missing == ("site-3",)
    assert closed[5].weights == {"site-0": 2, "site-1": 1, "site-2": 1}
    held = [np.frombuffer(swarm.values[(i, 5, 0)]) for i in range(3)]
    expected = (held[0] * 2 + held[1] + held[2]) / 4
    np.testing.assert_allclose(swarm.nodes[0].model[0], expected, rtol=1e-14)
    assert swarm.nodes[0].deviated


@pytest.mark.parametrize("sums", ["plain", "masked"])
def test_the_weight_of_who_is_missing_is_spread_if_the_network_says_so(sums: str) -> None:
    run = network(4, edges=complete(4), rounds=4, sums=sums, missing="survivors", colluders=0)
    unit = run.grid.unit if sums == "masked" else 1.0
    drawn = np.rint(np.random.default_rng(4).standard_normal((4, 4, 2, run.dimension)) * 1e5) * unit
    swarm = Swarm(run, lambda i, t, _: (drawn[t, i, :1], {"u": drawn[t, i, 1:]}))
    for i in range(4):
        swarm.start(i)
    swarm.run(lambda: swarm.kill(3) if 3 in swarm.nodes and swarm.nodes[3].round >= 2 else None)
    assert {swarm.done[i] for i in range(3)} == {"finished"}
    last = {i: swarm.notes[i] for i in range(3)}
    for several in last.values():
        (closed,) = [note for note in several if isinstance(note, notes.Closed) and note.round == 3]
        assert (closed.denominator, set(closed.weights.values()), len(closed.weights)) == (3, {1}, 3)
    models = [swarm.nodes[i].model[0] / unit for i in range(3)]
    assert np.allclose(models[0], models[1], rtol=1e-12)
    assert np.allclose(models[0], models[2], rtol=1e-12)


@pytest.mark.load
@pytest.mark.parametrize(("sums", "seed"), [("plain", 0), ("plain", 1), ("masked", 2)])
def test_whoever_is_killed_and_whenever_nobody_hangs_and_nothing_is_sent_twice(sums: str, seed: int) -> None:
    waits = Deadlines(join=5.0, round=2.0, lost=0.3)
    run = network(6, edges=complete(6), rounds=12, sums=sums, deadlines=waits)
    on_grid = run.grid.unit if sums == "masked" else 1.0
    fresh = np.random.default_rng(seed)

    def drawn(*_: object) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        whole = np.rint(fresh.standard_normal((2, 1, run.dimension)) * 1000)
        return whole[0] * on_grid, {"u": whole[1] * on_grid}

    swarm = Swarm(run, drawn, seed=seed)
    for i in range(run.n):
        swarm.start(i)

    def chaos() -> None:
        alive = [i for i in swarm.nodes if i not in swarm.done]
        if len(alive) > 3 and swarm.rng.random() < 0.01:
            swarm.kill(swarm.rng.choice(alive))
        dead = [i for i in range(run.n) if i not in swarm.nodes]
        if dead and swarm.rng.random() < 0.02:
            swarm.start(swarm.rng.choice(dead))

    swarm.run(chaos)
    assert all(reason in {"finished", "alone"} for reason in swarm.done.values())
    # One message a round and receiver, however often a node came back.
    assert all(len(bodies) == 1 for bodies in swarm.sent.values())
    assert any(isinstance(note, notes.Resumed) for several in swarm.notes.values() for note in several)
    for several in swarm.notes.values():
        assert [note.number for note in several] == list(range(1, len(several) + 1))


def test_a_masked_node_that_is_back_at_once_is_not_waited_for_in_the_sum_that_it_lost() -> None:
    run = network(3, edges=complete(3), rounds=6, sums="masked", quorum=2)
    swarm = Swarm(run, lambda *_: (np.zeros((1, run.dimension)), {"u": np.zeros((1, run.dimension))}))
    for i in range(3):
        swarm.start(i)
    letters = 0

    def back_at_once() -> None:
        nonlocal letters
        letters += 1
        if letters == 20:
            swarm.kill(1)
            swarm.start(1)

    swarm.run(back_at_once)
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.now < run.settings.deadlines.round


def three_masked() -> Swarm:
    """Three nodes that are up, masked, and have six rounds before them."""
    run = network(3, edges=complete(3), rounds=6, sums="masked", quorum=2)
    swarm = Swarm(run, lambda *_: (np.zeros((1, run.dimension)), {"u": np.zeros((1, run.dimension))}))
    for i in range(3):
        swarm.start(i)
    return swarm


def test_a_masked_node_that_went_on_is_not_waited_for_in_a_round_that_it_cannot_join_any_more() -> None:
    swarm = three_masked()
    killed = False

    def between_two_rounds() -> None:
        nonlocal killed
        behind, ahead = swarm.nodes[0], swarm.nodes.get(1)
        if not killed and ahead is not None and behind.round + 1 == ahead.round == 3:
            swarm.kill(1)
            killed = True
        elif killed and ahead is None and (behind.round, behind.phase) == (3, "pausing"):
            swarm.start(1)

    swarm.run(between_two_rounds)
    assert killed
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.now < swarm.network.settings.deadlines.round


def test_a_masked_node_that_wrote_ahead_and_died_is_not_waited_for_when_it_is_back_at_once() -> None:
    swarm = three_masked()
    killed = False

    def after_it_wrote_ahead() -> None:
        nonlocal killed
        # What site-2 says to site-0 travels slowly, so that site-1 is ahead.
        swarm.queue.sort(key=lambda each: each[:2] == (2, 0))
        if not killed and any(each.header.round == 1 for each in swarm.nodes[0]._early):
            swarm.kill(1)
            killed = True
        elif killed and 1 not in swarm.nodes and {node.round for node in swarm.nodes.values()} == {1}:
            swarm.start(1)

    swarm.run(after_it_wrote_ahead)
    assert killed
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.now < swarm.network.settings.deadlines.round


def test_nodes_that_gave_each_other_up_find_together_again() -> None:
    run = network(3, edges=complete(3), rounds=6, quorum=2)
    swarm = Swarm(run, Fixed(run))
    for i in range(3):
        swarm.start(i)

    def silence() -> None:
        # Everything that is sent within the first deadline is lost, and everybody lives.
        if swarm.now < run.settings.deadlines.round:
            swarm.queue = []

    swarm.run(silence)
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.nodes[0].deviated


def test_masked_sums_are_exact_on_the_grid() -> None:
    run = network(5, edges=complete(5), rounds=2, sums="masked")
    rng, unit = np.random.default_rng(1), run.grid.unit
    drawn = np.rint(rng.standard_normal((2, 5, 2, run.dimension)) * 1e5)
    swarm = Swarm(run, lambda i, t, _: (drawn[t, i, :1] * unit, {"u": drawn[t, i, 1:] * unit}))
    for i in range(5):
        swarm.start(i)
    swarm.run()
    assert set(swarm.done.values()) == {"finished"}
    held = np.zeros((5, run.dimension))
    for t in range(2):
        message = held + drawn[t, :, 0] + drawn[t, :, 1]
        held = np.tile(np.floor(message.sum(axis=0) / 5 + 0.5), (5, 1))
    assert all((swarm.nodes[i].model[0] / unit == held[i]).all() for i in range(5))
    # No message went over the wire as it is.
    assert swarm.values == {}


@pytest.mark.parametrize(
    "protocol",
    ["momentum:beta=0.9", "repeated:steps=3", "chebyshev:steps=2", "gradient-tracking", "exact-diffusion"],
)
def test_masked_programs_are_those_of_whole_numbers_to_the_bit(protocol: str) -> None:
    run = network(
        5,
        protocol=protocol,
        rounds=2,
        sums="masked",
        weights="metropolis",
        edges=(*complete(4), ("site-2", "site-4"), ("site-3", "site-4")),
    )
    rng, unit = np.random.default_rng(1), run.grid.unit
    drawn = np.rint(rng.standard_normal((2, 5, 2, run.dimension)) * 1e5) * unit
    swarm = Swarm(run, lambda i, t, _: (drawn[t, i, :1], {"u": drawn[t, i, 1:]}))
    for i in range(run.n):
        swarm.start(i)
    swarm.run()
    assert set(swarm.done.values()) == {"finished"}
    assert swarm.values == {}
    # The same program on all nodes at once, in units, with sums of Python's whole numbers.
    rows = np.array([[run.numerators[i].get(j, 0) for j in range(run.n)] for i in range(run.n)], dtype=object)
    registers = initial_registers(run.run, run.dimension)
    program = run.run.programs[0]
    for t in range(2):
        sources = {CONTRIBUTION: drawn[t, :, 0] / unit, "u": drawn[t, :, 1] / unit}
        place = run_to_exchange(program, registers, sources, 0, rounded=np.rint)
        while place < len(program.instructions):
            step = program.instructions[place]
            assert isinstance(step, Exchange)
            sums = rows @ registers[step.message].astype(np.int64).astype(object)
            registers[step.into] = ((2 * sums + run.denominator) // (2 * run.denominator)).astype(np.float64)
            place = run_to_exchange(program, registers, sources, place + 1, rounded=np.rint)
    for i in range(run.n):
        assert np.array_equal(swarm.nodes[i].model[0] / unit, registers["model"][i])


def test_a_node_stops_before_the_round_that_its_policy_forbids_and_the_others_go_on() -> None:
    run = network(4, edges=complete(4), rounds=8)
    most = Swarm(run, Fixed(run)).budgets[1].certain[3]
    swarm = Swarm(run, Fixed(run), {1: Policy(everyone=most)})
    for i in range(4):
        swarm.start(i)
    swarm.run()
    assert swarm.done == {0: "finished", 1: "policy", 2: "finished", 3: "finished"}
    assert swarm.nodes[1].sent == 3
    assert swarm.now < 1.0


def test_wrong_rounds_and_second_messages_are_refused() -> None:
    run = network(4)
    swarm = Swarm(run, Fixed(run))
    for i in (0, 1, 3):
        swarm.start(i)
    node, office = swarm.nodes[0], swarm.offices[1]

    def letter(round_: int, body: bytes, kind: Kind = "values") -> Letter:
        return swarm.offices[0].opened(1, office.sealed(0, kind, round_, 0, body))

    body = np.ones(run.dimension).tobytes()
    with pytest.raises(Refused, match="the run has no such round"):
        node.received(0.0, letter(5, body))
    with pytest.raises(Refused, match=r"values must be 4 numbers"):
        node.received(0.0, letter(0, body[:-8]))
    with pytest.raises(Refused, match="not finite"):
        node.received(0.0, letter(0, np.full(run.dimension, np.nan).tobytes()))
    assert node.late == ["site-1", "site-3"]
    node.received(0.0, letter(0, body))
    node.received(0.0, letter(0, body))
    assert node.late == ["site-3"]
    with pytest.raises(Refused, match="second, different"):
        node.received(0.0, letter(0, body[::-1]))
    with pytest.raises(Refused, match="sends no 'to-sum'"):
        node.received(0.0, letter(0, b"", "to-sum"))


def test_a_neighbour_cannot_fill_memory_with_what_it_tells() -> None:
    run = network(3, edges=complete(3), rounds=2)
    swarm = Swarm(run, Fixed(run))
    for i in range(3):
        swarm.start(i)
    node, noted = swarm.nodes[0], swarm.nodes[0].noted

    def tell(kind: Kind, exchange: int, body: bytes) -> None:
        wire = swarm.offices[1].sealed(0, kind, 0, exchange, body)
        try:
            node.received(0.0, swarm.offices[0].opened(1, wire))
        except Refused as error:
            swarm.refused.append(str(error))

    for k in range(50):
        tell("receipt", 0, k.to_bytes(33, "big"))
        tell("receipt", k + 1, bytes(33))
        tell("farewell", 0, (9).to_bytes(4, "big") + bytes(1000 + k))
    assert node.noted - noted == 2
    assert len(swarm.refused) == 48 + 50 + 50


def test_who_comes_back_to_neighbours_that_have_ended_does_not_wait_for_them() -> None:
    waits = Deadlines(join=600.0, round=5.0, lost=0.5)
    run = network(3, edges=complete(3), rounds=6, deadlines=waits)
    swarm, events = Swarm(run, Fixed(run)), iter(range(10**6))
    for i in range(3):
        swarm.start(i)
    swarm.run(lambda: swarm.kill(0) if next(events) == 3 else None)
    assert swarm.done == {1: "finished", 2: "finished"}
    # They are there for a moment, with nothing to send again, and then their processes are over.
    swarm.outbox = {i: {} for i in range(3)}
    memory = swarm.kept[0]
    began = swarm.now
    swarm.start(0)
    while swarm.queue:
        swarm.event()
    for i in (1, 2):
        swarm.kill(i)
    swarm.run(until=began + 60)
    assert swarm.done[0] == "alone"
    # Who was killed after that knows that they said goodbye, and asks nobody.
    assert swarm.kept[0][0].left == {1: 6, 2: 6}
    swarm.kept[0] = msgspec.structs.replace(memory[0], left=swarm.kept[0][0].left), memory[1]
    del swarm.nodes[0], swarm.done[0]
    swarm.start(0)
    assert swarm.nodes[0].deserted
    swarm.run(until=swarm.now + 4 * waits.lost)
    assert swarm.done[0] == "alone"
