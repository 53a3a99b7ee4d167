# SPDX-License-Identifier: Apache-2.0
"""Many nodes, many rounds, and SIGKILL at random moments: nobody hangs, no sum is wrong, nothing is sent twice.

    python -m benchmarks.peers_soak --nodes 32 --rounds 1000

Every node writes down, besides its transcript, what it sent and what it received. Afterwards each sum that was received
is added up again from what the survivors sent.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import struct
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.peers import Moment, Network, Outcome, Place, read_network, read_transcript, write_identity
from sottovoce.peers.exchanges import Clear, Masking
from sottovoce.peers.identity import create_identity
from sottovoce.peers.local import _child, free_ports, process_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.peers.exchanges import Post

DEGREE, WIDTH = 4, 3
SENT, RECEIVED = 0, 1


def main() -> None:
    """Run the soak, check everything, and print what was measured."""
    words = argparse.ArgumentParser()
    words.add_argument("--nodes", type=int, default=32)
    words.add_argument("--rounds", type=int, default=1000)
    words.add_argument("--killed", type=float, default=0.3, help="share of the nodes that are killed")
    words.add_argument("--masked", action="store_true")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument(
        "--limit", type=float, default=3600.0, help="seconds after which nodes are said to hang"
    )
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(soak(Path(folder), **vars(asked)))


@dataclass
class _Soak:
    """What goes on: who runs, who is to be killed and when, who comes back."""

    places: dict[str, Place]
    rng: random.Random
    running: dict[Connection, tuple[str, Any]] = field(default_factory=dict)
    moments: dict[str, Moment] = field(default_factory=dict)
    outcomes: dict[str, Outcome | str] = field(default_factory=dict)
    kills: int = 0
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
            if isinstance(said, Moment):
                self.moments[name] = said
            else:
                self.outcomes[name] = said

    def kill(self, name: str) -> None:
        for held, process in self.running.values():
            if held == name and name not in self.outcomes and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
                self.kills += 1
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
        while going.running or going.restarts:
            now = time.monotonic()
            assert now - began < limit, f"a node hangs: {going.moments}"
            going.listen()
            ahead = max((moment.round for moment in going.moments.values()), default=0)
            for place, name in [each for each in due if each[0] <= ahead]:
                due.remove((place, name))
                going.kill(name)
            for when, name in [each for each in going.restarts if each[0] <= now]:
                going.restarts.remove((when, name))
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
        "kills": going.kills,
        "ends": dict(ends),
        **checked(network, going.places),
    }


def child(place: Place, pipe: Connection) -> None:
    """A node that also writes down what it sends and receives."""
    log = os.open(place.folder.with_suffix(".log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(what: int, exchange: Clear, values: np.ndarray, survivors: tuple[int, ...] = ()) -> None:
        set_ = sum(1 << peer for peer in survivors)
        os.write(log, struct.pack("<BIQ", what, exchange.round, set_) + values.astype("<f8").tobytes())

    for kind in (Clear, Masking):
        begin, received = kind.begin, kind.received

        def begun(self: Clear, begin: Callable[..., list[Post]] = begin) -> list[Post]:
            note(SENT, self, self.message[0])
            return begin(self)

        def ended(self: Clear, received: Callable[..., np.ndarray] = received) -> np.ndarray:
            found = received(self)
            note(RECEIVED, self, found[0], self.survivors)
            return found

        kind.begin, kind.received = begun, ended  # type: ignore[method-assign]
    _child(place, pipe)


def checked(network: Network, held: dict[str, Place]) -> dict[str, int]:
    """Add up every sum again, and read every transcript."""
    sent: dict[tuple[int, int], np.ndarray] = {}
    sums, left_out, lines = 0, 0, 0
    for name, place in held.items():
        me = network.index(name)
        for what, t, _, values in logged(place, network.dimension):
            # A node that was killed before it had kept a message makes another: the last is the one that was sent.
            if what == SENT:
                sent[me, t] = values
        found = read_transcript(place.folder / "transcript.jsonl", network.settings.nodes[me].signing_key)
        once = Counter((line["round"], line["exchange"]) for line in found if line["what"] == "sent")
        assert set(once.values()) == {1}, f"{name} says that it sent twice"
        lines += len(found)
    for name, place in held.items():
        me, row = network.index(name), network.numerators[network.index(name)]
        for what, t, survivors, values in logged(place, network.dimension):
            if what == RECEIVED:
                own = network.denominator - sum(row[j] for j in survivors)
                total = own * sent[me, t] + sum(row[j] * sent[j, t] for j in survivors)
                off = float(np.abs(values - total / network.denominator).max())
                allowed = network.grid.unit if network.settings.sums == "masked" else 1e-9
                assert off <= allowed, f"{name} received a wrong sum in round {t}: off by {off}"
                sums, left_out = sums + 1, left_out + len(network.senders(me)) - len(survivors)
    return {"sums checked": sums, "terms left out": left_out, "lines of transcripts": lines}


def logged(place: Place, width: int) -> Iterator[tuple[int, int, list[int], np.ndarray]]:
    """What a node wrote down."""
    content = place.folder.with_suffix(".log").read_bytes()
    size = struct.calcsize("<BIQ") + 8 * width
    for start in range(0, len(content) // size * size, size):
        what, t, members = struct.unpack_from("<BIQ", content, start)
        values = np.frombuffer(content, "<f8", width, start + size - 8 * width)
        yield what, t, [j for j in range(64) if members >> j & 1], values


def written(folder: Path, nodes: int, rounds: int, masked: bool) -> Path:
    """A network in which every node is linked with the two before and the two after it."""
    assert nodes <= 64
    names = [f"n{k}" for k in range(nodes)]
    made = [
        create_identity(name, f"127.0.0.1:{port}")
        for name, port in zip(names, free_ports(nodes), strict=True)
    ]
    pairs = {
        tuple(sorted((k, (k + step) % nodes))) for k in range(nodes) for step in range(1, DEGREE // 2 + 1)
    }
    rng = np.random.default_rng(1)
    for identity in made:
        write_identity(identity, folder)
        points = rng.normal(size=(8, WIDTH))
        rows = "\n".join(",".join(f"{x:.4f}" for x in point) + f",{k % 2}" for k, point in enumerate(points))
        (folder / f"{identity.name}.csv").write_text(f"a,b,c,class\n{rows}\n")
    edges = ", ".join(f'["n{a}", "n{b}"]' for a, b in sorted(pairs))
    text = f"""name = "soak"
rounds = {rounds}
noise_multiplier = 4.0
weights = "uniform"
sums = "{"masked" if masked else "plain"}"
edges = [{edges}]
task = {{ loss = "logistic", features = {WIDTH}, classes = 2, shard_size = 8 }}
deadlines = {{ join = 600, round = 30, lost = 2 }}
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
