# SPDX-License-Identifier: Apache-2.0
"""Many masked nodes, many rounds, and SIGKILL at random moments: nobody hangs, no sum is wrong, none is opened twice.

    python -m benchmarks.peers_soak --nodes 32 --rounds 1000

Nodes form a necklace of diamonds: in each, two nodes have the same neighbours and hide each other. Every node writes
down, besides its transcript, what it sent and what it received. Afterwards each sum that was received is added up again
from what the survivors sent, every certificate that a node wrote is proved again, and what follows from all transcripts
together is held against an account of the same schedule that is made here from those notes alone.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import null_space

from sottovoce import gaussian
from sottovoce.peers import (
    Network,
    Outcome,
    Place,
    Whereabouts,
    notes,
    read_network,
    read_run,
    read_transcript,
    running,
    verify_run,
    write_identity,
)
from sottovoce.peers.exchanges import Clear, Masking
from sottovoce.peers.history import RunHistory, history_of
from sottovoce.peers.identity import create_identity
from sottovoce.peers.local import _child, free_ports, process_context
from sottovoce.peers.node import Node
from sottovoce.peers.spending import spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sottovoce.peers.exchanges import Post
    from sottovoce.peers.notes import AnyNote

WIDTH, NOISE = 3, 40.0
SENT, RECEIVED, CLOSED, DELTA = 0, 1, 2, 1e-5
# Seconds between two words on how it goes.
EVERY = 10.0


def main() -> None:
    """Run the soak, check everything, and print what was measured."""
    words = argparse.ArgumentParser()
    words.add_argument("--nodes", type=int, default=32)
    words.add_argument("--rounds", type=int, default=1000)
    words.add_argument("--killed", type=float, default=0.3, help="share of the nodes that are killed")
    words.add_argument("--plain", dest="masked", action="store_false")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument(
        "--limit", type=float, default=3600.0, help="seconds after which nodes are said to hang"
    )
    words.add_argument("--folder", type=Path, help="keep all files here")
    asked = vars(words.parse_args())
    kept = asked.pop("folder")
    with tempfile.TemporaryDirectory() as folder:
        for name, value in soak(kept or Path(folder), **asked).items():
            print(f"{name:32} {value}")


@dataclass
class _Soak:
    """What goes on: who runs, who is to be killed and when, who comes back."""

    places: dict[str, Place]
    rng: random.Random
    running: dict[Connection, tuple[str, Any]] = field(default_factory=dict)
    moments: dict[str, Whereabouts] = field(default_factory=dict)
    outcomes: dict[str, Outcome | str] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    restarted: int = 0
    restarts: list[tuple[float, str]] = field(default_factory=list)

    def start(self, name: str) -> None:
        context = process_context()
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(self.places[name], theirs), daemon=True)
        process.start()
        theirs.close()
        self.running[mine] = name, process

    def listen(self) -> None:
        """Hear what nodes say; one that dies without a word was killed."""
        wait(list(self.running), timeout=0.1)
        for pipe in [pipe for pipe in self.running if pipe.poll()]:
            name, process = self.running[pipe]
            try:
                said = pipe.recv()
            except (EOFError, OSError):
                process.join()
                del self.running[pipe]
                continue
            if isinstance(said, Whereabouts):
                self.moments[name] = said
            else:
                self.outcomes[name] = said

    def kill(self, name: str) -> None:
        for held, process in self.running.values():
            if held == name and name not in self.outcomes and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
                self.killed.append(name)
                if self.rng.random() < 0.7:
                    self.restarts.append((time.monotonic() + self.rng.uniform(0.5, 5.0), name))


def soak(
    folder: Path, *, nodes: int, rounds: int, killed: float, masked: bool, seed: int, limit: float
) -> dict[str, object]:
    """One soak in a folder; an AssertionError says what went wrong."""
    rng = random.Random(seed)
    file = written(folder, nodes, rounds, masked)
    network = read_network(file)
    going = _Soak(places=places(file, network), rng=rng)
    began = time.monotonic()
    try:
        for name in network.names:
            going.start(name)
        victims = rng.sample(network.names, round(killed * nodes))
        due = [
            (rng.uniform(0.02, 0.9) * rounds, name) for name in victims for _ in range(rng.choice((1, 1, 2)))
        ]
        said = began
        while going.running or going.restarts:
            now = time.monotonic()
            assert now - began < limit, f"a node hangs: {going.moments}"
            going.listen()
            ahead = max((moment.round for moment in going.moments.values()), default=0)
            if now - said >= EVERY:
                said = now
                print(f"{now - began:.0f} s: round {ahead}, {len(going.running)} nodes", file=sys.stderr)
            for place, name in [each for each in due if each[0] <= ahead]:
                due.remove((place, name))
                going.kill(name)
            for when, name in [each for each in going.restarts if each[0] <= now]:
                going.restarts.remove((when, name))
                going.restarted += 1
                going.start(name)
    finally:
        for _, process in going.running.values():
            process.kill()
            process.join()
    seconds = time.monotonic() - began
    ends = Counter(each if isinstance(each, str) else each.reason for each in going.outcomes.values())
    assert set(ends) <= {"finished", "alone"}, ends
    return {
        "nodes": nodes,
        "rounds": rounds,
        "masked": masked,
        "seconds": round(seconds, 1),
        "nodes killed": len(set(going.killed)),
        "kills": len(going.killed),
        "restarts": going.restarted,
        "ends": dict(ends),
        **checked(network, going.places, going.outcomes),
    }


def child(place: Place, pipe: Connection) -> None:
    """A node that also writes down what it sends and receives."""
    log = os.open(place.folder.with_suffix(".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(what: int, round_: int, values: np.ndarray, survivors: Iterable[int] = ()) -> None:
        set_ = sum(1 << peer for peer in survivors)
        os.write(log, struct.pack("<BIQ", what, round_, set_) + values.astype("<f8").tobytes())

    for kind in (Clear, Masking):
        begin, received = kind.begin, kind.received

        def begun(self: Clear, begin: Callable[..., list[Post]] = begin) -> list[Post]:
            note(SENT, self.round, self.message[0])
            return begin(self)

        def ended(self: Clear, received: Callable[..., np.ndarray] = received) -> np.ndarray:
            found = received(self)
            note(RECEIVED, self.round, found[0], self.survivors)
            return found

        kind.begin, kind.received = begun, ended  # type: ignore[method-assign]

    class Watched(Node):
        def _note(self, said: AnyNote) -> None:
            if isinstance(said, notes.Closed):
                note(CLOSED, said.round, self.model[0], map(self.network.index, said.survivors))
            super()._note(said)

    running.Node = Watched  # type: ignore[attr-defined]
    _child(place, pipe)


def checked(network: Network, held: dict[str, Place], outcomes: Mapping[str, object]) -> dict[str, object]:
    """Add up every sum again, read every transcript, and prove every certificate."""
    sent: dict[tuple[int, int], np.ndarray] = {}
    heard: dict[tuple[int, int], list[int]] = {}
    taken: dict[tuple[int, int], list[int]] = {}
    lists: dict[tuple[int, str], set[tuple[str, ...]]] = defaultdict(set)
    left_out, lines = 0, dict[str, "list[AnyNote]"]()
    for name, place in held.items():
        me = network.index(name)
        for what, t, survivors, values in logged(place, network.dimension):
            # A node that was killed before it had kept a message makes another: the last is the one that was sent.
            if what == SENT:
                sent[me, t] = values
            # Nor does it know any more what it had received: it closes the round again, with nothing.
            if what == CLOSED:
                taken[me, t] = survivors
        lines[name] = read_transcript(
            place.folder / "transcript.jsonl", network.settings.nodes[me].signing_key
        )
        once = Counter(line.round for line in lines[name] if isinstance(line, notes.Sent))
        assert set(once.values()) == {1}, f"{name} says that it sent twice"
        for line in lines[name]:
            if isinstance(line, notes.Given | notes.Summed):
                lists[line.round, line.receiver].add(line.survivors)
    twice = [place for place, found in lists.items() if len(found) > 1]
    assert not twice, f"sums were opened over two lists: {twice}"
    for name, place in held.items():
        me = network.index(name)
        for what, t, survivors, values in logged(place, network.dimension):
            if what == RECEIVED:
                row = network.row(me, survivors)
                total = sum(weight * sent[j, t] for j, weight in row.items()) / sum(row.values())
                off = float(np.abs(values - total).max())
                allowed = network.grid.unit if network.settings.sums == "masked" else 1e-9
                assert off <= allowed, f"{name} received a wrong sum in round {t}: off by {off}"
                heard[me, t] = survivors
                left_out += len(network.senders(me)) - len(survivors)
    return {
        "sums added up again, none wrong": len(heard),
        "terms left out": left_out,
        "sums opened, each over one list": len(lists),
        "lines of transcripts, all signed": sum(map(len, lines.values())),
        **proved(network, held, lines, Schedule(taken=taken, opened=lists), outcomes),
    }


def proved(
    network: Network,
    held: dict[str, Place],
    lines: dict[str, list[AnyNote]],
    schedule: Schedule,
    outcomes: Mapping[str, object],
) -> dict[str, object]:
    """Every certificate again, and the account of all transcripts against one from what nodes wrote down."""
    alive = [name for name, end in outcomes.items() if isinstance(end, Outcome) and end.reason == "finished"]
    for name in alive:
        made = read_run(held[name].folder / "certificate.json")
        again = verify_run(made, network, {name: held[name].folder / "transcript.jsonl"})
        assert all(each.holds for each in again), f"the certificate of {name} does not hold"
    first = lines[alive[0]][0]
    assert isinstance(first, notes.Begun)
    history = history_of(network.joined(first.parts), lines, checked=True)
    ratios, gains = [], []
    for name in alive if network.settings.sums == "masked" else ():
        me = network.index(name)
        for observer in network.neighbours(me):
            if network.names[observer] in alive:
                known = spent(history, me, (observer,), delta=DELTA)
                gains.append(known.epsilon / spent(history, me, (), delta=DELTA).epsilon)
                # Rounds in which nobody is missing may have a smaller account together, by smooth updates.
                if not known.together:
                    ratios.append(known.epsilon / offline(network, schedule, history, me, observer))
                    assert 1 - 1e-9 <= ratios[-1] <= 1.01, (
                        f"{name} and {network.names[observer]}: {ratios[-1]}"
                    )
    return {
        "certificates, all proved again": len(alive),
        "pairs accounted for": len(ratios),
        "ε over that of the schedule": f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else "–",
        "ε over that of local DP": f"{min(gains):.4f} to {max(gains):.4f}" if gains else "–",
    }


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What happened: whose messages each node took up, by (node, round), and over whom each sum was opened."""

    taken: dict[tuple[int, int], list[int]]
    opened: dict[tuple[int, str], set[tuple[str, ...]]]

    def rows(self, network: Network, t: int, observer: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Weights of a round: what hidden nodes took up, and what the observer may have seen."""
        for i in range(network.n):
            heard = self.taken.get((i, t), [])
            if i == observer:
                names = next(iter(self.opened.get((t, network.names[i]), {()})))
                heard = [network.index(name) for name in names]
            yield tuple(sorted(network.row(i, heard).items()))


def offline(network: Network, schedule: Schedule, history: RunHistory, me: int, observer: int) -> float:
    """ε of the schedule that nodes wrote down: each round costs what no twin of the target hides."""
    squared = 0.0
    for t in range(network.settings.rounds):
        if (t, me) in history.sent:
            squared += _cost(tuple(schedule.rows(network, t, observer)), me, observer)
    return float(gaussian.epsilon(math.sqrt(squared) / network.settings.noise_multiplier, DELTA))


@functools.lru_cache(maxsize=100_000)
def _cost(rows: tuple[tuple[tuple[int, int], ...], ...], me: int, observer: int) -> float:
    """1 − what of the target's unit vector lies in the kernel of all that anybody receives of the hidden nodes."""
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, weight in row:
            matrix[i, j] = weight
    kernel = null_space(np.delete(matrix, observer, axis=1))
    place = me - (me > observer)
    return 1 - float(kernel[place] @ kernel[place])


def logged(place: Place, width: int) -> Iterator[tuple[int, int, list[int], np.ndarray]]:
    """What a node wrote down."""
    content = place.folder.with_suffix(".log").read_bytes()
    size = struct.calcsize("<BIQ") + 8 * width
    for start in range(0, len(content) // size * size, size):
        what, t, members = struct.unpack_from("<BIQ", content, start)
        values = np.frombuffer(content, "<f8", width, start + size - 8 * width)
        yield what, t, [j for j in range(64) if members >> j & 1], values


def written(folder: Path, nodes: int, rounds: int, masked: bool) -> Path:
    """A necklace of diamonds a–{b, c}–d with b–c, each d linked with the next a: everybody has three neighbours."""
    assert nodes <= 64
    assert nodes % 4 == 0
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"n{k}" for k in range(nodes)]
    made = [
        create_identity(name, f"127.0.0.1:{port}")
        for name, port in zip(names, free_ports(nodes), strict=True)
    ]
    within = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4))
    pairs = {tuple(sorted((k + a, (k + b) % nodes))) for k in range(0, nodes, 4) for a, b in within}
    rng = np.random.default_rng(1)
    for identity in made:
        write_identity(identity, folder)
        points = rng.normal(size=(8, WIDTH))
        rows = "\n".join(",".join(f"{x:.4f}" for x in point) + f",{k % 2}" for k, point in enumerate(points))
        (folder / f"{identity.name}.csv").write_text(f"a,b,c,class\n{rows}\n")
    edges = ", ".join(f'["n{a}", "n{b}"]' for a, b in sorted(pairs))
    text = f"""name = "soak"
rounds = {rounds}
noise_multiplier = {NOISE}
unit = "node"
weights = "uniform"
missing = "survivors"
colluders = 0
sums = "{"masked" if masked else "plain"}"
edges = [{edges}]
task = {{ loss = "logistic", features = {WIDTH}, classes = 2, shard_size = 8 }}
deadlines = {{ join = 600, round = 60, lost = 5 }}
"""
    (folder / "network.toml").write_text(text + "".join(each.public_text for each in made))
    return folder / "network.toml"


def places(file: Path, network: Network) -> dict[str, Place]:
    """Where each node finds what is its own."""
    return {
        name: Place(
            network=file,
            name=name,
            keys=file.parent / f"{name}.keys",
            data=file.parent / f"{name}.csv",
            folder=file.parent / f"{name}.run",
        )
        for name in network.names
    }


if __name__ == "__main__":
    main()
