"""Links in one process: queues between threads that run nodes, a record of every wire, and deaths at any step."""

import queue
import threading
from collections.abc import Callable  # noqa: TC003 - of an attribute
from pathlib import Path

import numpy as np
from tests.peers.networks import identities

from sottovoce.learning import Data
from sottovoce.peers import Contributor, Local, Network, Outcome, Policy, Site, run_peer
from sottovoce.peers.transport import Happening


class Killed(BaseException):
    """What SIGKILL is to a thread: nothing that comes after is done."""


class Wires:
    """All links of a network; `before` is called before each step of a node, and may kill it."""

    def __init__(self, run: Network, folder: Path, *, spent: Path | None = None) -> None:
        self.run, self.folder, self.spent = run, folder, spent
        self.queues: list[queue.Queue[Happening]] = [queue.Queue() for _ in range(run.n)]
        self.sent: list[tuple[int, int, bytes]] = []
        self.up: set[int] = set()
        self.lock = threading.Lock()
        self.found: dict[int, Outcome] = {}
        self.errors: dict[int, BaseException] = {}
        self.before: Callable[[int], None] = lambda _: None
        self.own: Callable[[int], Contributor] = lambda i: Local(run, run.local_task(records(i)))

    def one(self, i: int, policy: Policy | None = None) -> None:
        """Run a node to its end, or until it is killed."""
        own = self.own(i)
        links = _End(self, i)
        self._changed(i, "found")
        try:
            site = Site(
                identity=identities(self.run.n)[i],
                contributor=own,
                folder=self.folder / f"site-{i}",
                policy=policy or Policy(),
                spent=None if self.spent is None else self.spent / f"site-{i}.spent.jsonl",
            )
            self.found[i] = run_peer(self.run, site, links)
        except BaseException as error:
            self.errors[i] = error
        finally:
            self._changed(i, "lost")

    def all(self, again: int = 0) -> None:
        """Run all nodes; who was killed is started again, so many times."""

        def lives(i: int) -> None:
            self.one(i)
            for _ in range(again):
                if isinstance(self.errors.get(i), Killed):
                    del self.errors[i]
                    self.one(i)

        threads = [threading.Thread(target=lives, args=(i,), daemon=True) for i in range(self.run.n)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert not any(each.is_alive() for each in threads), "a node hangs"

    def _changed(self, i: int, what: str) -> None:
        with self.lock:
            (self.up.add if what == "found" else self.up.discard)(i)
            for j in self.run.neighbours(i):
                if j in self.up:
                    self.queues[j].put(Happening(what, i))  # type: ignore[arg-type]
                    if what == "found":
                        self.queues[i].put(Happening("found", j))
            if what == "lost":
                self.queues[i] = queue.Queue()


class _End:
    """One node's end of the links."""

    def __init__(self, wires: Wires, me: int) -> None:
        self.wires, self.me = wires, me

    def send(self, receiver: int, wire: bytes) -> None:
        self.wires.before(self.me)
        with self.wires.lock:
            self.wires.sent.append((self.me, receiver, wire))
            if receiver in self.wires.up:
                self.wires.queues[receiver].put(Happening("wire", self.me, wire))

    def next(self, timeout: float) -> Happening | None:
        try:
            return self.wires.queues[self.me].get(timeout=timeout)
        except queue.Empty:
            return None


def records(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    labels = np.arange(10) % 2
    return Data(name="mine", features=rng.normal(size=(10, 3)) + labels[:, None], labels=labels, classes=2)
