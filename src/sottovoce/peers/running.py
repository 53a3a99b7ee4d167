# SPDX-License-Identifier: Apache-2.0
"""A node that runs: the machine of `node`, with a clock, a folder on the disk, links, data and noise.

What is sent is on the disk before it is sent. A node that was killed is started again with the same folder, and sends
the very same letters or nothing; noise is drawn afresh from the system's generator for every message.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import numpy as np

from sottovoce.errors import FileError
from sottovoce.files import put_whole
from sottovoce.learning import clipped_gradients
from sottovoce.peers.actions import Actions, Ask, Done, Keep, Memory, Settle, Stopped
from sottovoce.peers.exchanges import Post, in_the_clear, masked_by
from sottovoce.peers.letters import PostOffice
from sottovoce.peers.messages import Refused
from sottovoce.peers.node import Node
from sottovoce.peers.noise import rounded_gaussian
from sottovoce.peers.policy import Budget
from sottovoce.peers.proofs import certify_run, write_run
from sottovoce.peers.transcript import Ledger, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.learning import Task
    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network
    from sottovoce.peers.policy import Policy
    from sottovoce.peers.transport import Happening

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Contributor", "Links", "Local", "Moment", "Outcome", "run_peer"]

# Seconds between two looks at the clock.
_TICK = 0.05
# Noise in the clear has 2 to this power of steps to a standard deviation.
_FINE = 30


class Contributor(Protocol):
    """What a node contributes: the seam at which other trainers than those of `train` are put in."""

    def contribution(self, round_: int, model: Array) -> Array:
        """What is added in a round to the difference of a model from the public start, one row.

        Two neighbouring data sets must never move it by more than the network's step times its sensitivity.
        """


class Links(Protocol):
    """What a node needs of a transport."""

    def send(self, receiver: int, wire: bytes) -> None:
        """Hand a letter to the link."""

    def next(self, timeout: float) -> Happening | None:
        """What came next; None if nothing does in time."""


class Local:
    """Clipped gradient steps on the node's own records: the tasks of `train`."""

    def __init__(self, network: Network, task: Task) -> None:
        """`task` holds the records of this node alone: `Network.local_task`."""
        self._network, self._task = network, task
        self._weights = task.shards.present.astype(np.float64)
        self._start = np.zeros(task.dimension) if task.loss.start is None else np.asarray(task.loss.start)

    def contribution(self, round_: int, model: Array) -> Array:
        """−η(g + h∘θ), as `train` has it."""
        settings, models = self._network.settings, model + self._start
        found = clipped_gradients(self._task, models, self._weights, clip=settings.clip, unit=settings.unit)
        return np.asarray(-float(self._network.steps[round_]) * (found.values + self._task.linear * models))


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a node stands: for whoever watches."""

    me: str
    phase: str
    round: int
    rounds: int
    late: tuple[str, ...]
    epsilon: float
    deviated: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """How a run ended for a node: why, after how many rounds, in how many of which it sent, and what that cost.

    `epsilon` is that of whoever reads every message, and holds whatever others did.
    """

    me: str
    reason: Stopped
    rounds: int
    sent: int
    deviated: bool
    epsilon: float
    delta: float
    refused: int
    model: Array


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file from which a node goes on: what it holds, and the letters that have no receipt yet."""

    memory: Memory
    letters: list[tuple[int, int, int, bytes]]


def run_peer(
    network: Network,
    identity: Identity,
    contributor: Contributor,
    links: Links,
    folder: Path,
    *,
    policy: Policy,
    progress: Callable[[Moment], None] | None = None,
) -> Outcome:
    """Run a node until its rounds are over, its policy forbids the next, or nobody is left; go on if it was killed.

    Everything that is kept is in `folder`: the state, for its owner's eyes alone, the transcript, the ledger and the
    certificate.
    """
    budget = Budget.of(network, identity.name, policy)
    with _locked(folder):
        return _Running(network, identity, contributor, links, folder, budget, progress).run()


class _Running:
    """One run of `run_peer`."""

    def __init__(
        self,
        network: Network,
        identity: Identity,
        contributor: Contributor,
        links: Links,
        folder: Path,
        budget: Budget,
        progress: Callable[[Moment], None] | None,
    ) -> None:
        self.network, self.budget, self.links, self.folder = network, budget, links, folder
        self.contributor, self.progress = contributor, progress
        self.office = PostOffice(network, identity)
        kept = _read_kept(folder / "state")
        self.letters: dict[tuple[int, int, int], bytes] = {}
        self.last_sent: dict[tuple[int, int, int], float] = {}
        if kept is not None:
            self.letters = {(to, round_, exchange): wire for to, round_, exchange, wire in kept.letters}
        opening = masked_by(identity.signing) if network.settings.sums == "masked" else in_the_clear
        memory = None if kept is None else kept.memory
        self.node = Node(network, self.office.me, budget=budget, opening=opening, memory=memory)
        self.transcript = Transcript(folder / "transcript.jsonl", identity.signing)
        self.transcript.add(self.node.notes)
        self.ledger = Ledger(folder)
        self.name, self.identity = identity.name, identity
        self.reason: Stopped | None = None
        self.refused = 0

    def run(self) -> Outcome:
        """Until the end, and then until neighbours have what was sent, or the time for that is over."""
        try:
            self._carry(self.node.started(_now()))
            ticked = 0.0
            ended = None
            while ended is None or ((self.letters or self.node.busy) and _now() < ended):
                happening = self.links.next(_TICK)
                if happening is not None:
                    self._happened(happening)
                if _now() - ticked >= _TICK:
                    ticked = _now()
                    self._carry(self.node.ticked(ticked))
                    self._send_again(ticked)
                    self._tell()
                if self.reason is not None and ended is None:
                    ended = _now() + self.network.settings.deadlines.round
        except KeyboardInterrupt:
            # What was sent is on the disk already, and nothing else counts.
            self.reason = self.reason or "interrupted"
        assert self.reason is not None
        node = self.node
        if node.phase == "done":
            node.ended()
            self._keep()
            if self.network.ported:
                self._certify()
        return Outcome(
            me=self.name,
            reason=self.reason,
            rounds=node.round,
            sent=node.sent,
            deviated=node.deviated,
            epsilon=self.budget.spent(node.sent),
            delta=self.budget.policy.delta,
            refused=self.refused,
            model=node.model[0].copy(),
        )

    def _happened(self, happening: Happening) -> None:
        """Hand what came to the node; what is not genuine, or breaks a rule, counts for nothing."""
        now, peer = _now(), happening.peer
        match happening.what:
            case "found":
                self._carry(self.node.found(now, peer))
                for key in [key for key in self.letters if key[0] == peer]:
                    self._send(key, now)
            case "lost":
                self._carry(self.node.lost(now, peer))
            case "wire":
                try:
                    letter = self.office.opened(peer, happening.wire)
                    self._carry(self.node.received(now, letter))
                except Refused:
                    self.refused += 1

    def _carry(self, actions: Actions) -> None:
        """Do what is to be done, in order: what is to last is sealed and on the disk before anything is sent."""
        wires = []
        for action in actions:
            if isinstance(action, Post):
                key = (action.receiver, action.round, action.exchange)
                wire = self.office.sealed(
                    action.receiver, action.kind, action.round, action.exchange, action.body
                )
                if action.lasting:
                    self.letters[key] = wire
                    self.last_sent[key] = _now()
                wires.append((action.receiver, wire))
        if any(isinstance(action, Keep) for action in actions):
            self._keep()
        for receiver, wire in wires:
            self.links.send(receiver, wire)
        for action in actions:
            match action:
                case Settle():
                    self.letters.pop((action.receiver, action.round, action.exchange), None)
                case Done():
                    self.reason = action.reason
                case Ask():
                    self._answer(action)

    def _answer(self, asked: Ask) -> None:
        """What the node contributes in a round, and fresh noise."""
        network, width = self.network, self.network.dimension
        scale = float(network.steps[asked.round]) * network.noise_std
        contribution = self.contributor.contribution(asked.round, asked.model)
        names = [draw.name for draw in network.run.round_of(asked.round)[1].draws]
        if network.settings.sums == "masked":
            # Each for itself on the grid, before they are added.
            contribution = network.grid.real(network.grid.whole(contribution))
            noise = {name: network.grid.noise(width, noise_std=scale)[None, :] for name in names}
        else:
            noise = {name: _fine_gaussian(width) * scale for name in names}
        self._carry(self.node.given(_now(), contribution, noise))

    def _keep(self) -> None:
        """Put all on the disk: the state first, then what it noted, whose numbers say what is there already."""
        oldest = self.node.round - 2
        self.letters = {key: wire for key, wire in self.letters.items() if key[1] >= oldest}
        letters = [(*key, wire) for key, wire in self.letters.items()]
        content = msgspec.msgpack.encode(_Kept(memory=self.node.memory(), letters=letters))
        try:
            put_whole([content], self.folder, lambda: "state", rights=0o600)
        except OSError as error:
            raise FileError(
                f"{self.folder}: the state cannot be kept, and nothing is sent that is not: {error.strerror or error} "
                "(make room, and start the node again)"
            ) from None
        self.transcript.add(self.node.notes)
        self.node.notes = []
        if self.node.sent:
            self.ledger.add(self._rows())

    def _certify(self) -> None:
        """Write what each observer knows of this node after the run, with what proves it."""
        policy = self.budget.policy
        made = certify_run(
            self.network,
            self.identity,
            {self.name: self.folder / "transcript.jsonl"},
            delta=policy.delta,
            size=policy.size,
            checked=True,
        )
        write_run(made, self.folder / "certificate.json")

    def _rows(self) -> list[dict[str, Any]]:
        """ε so far of each neighbour and coalition, and of whoever reads every message.

        What is not known yet to have gone as agreed counts as seen, so that no number is ever taken back.
        """
        node, names = self.node, self.network.names
        certain = self.budget.spent(node.sent)
        known = [
            ("+".join(names[i] for i in cost.observers), min(epsilon, certain))
            for cost, epsilon in self.budget.known(node.clean, node.sent)
        ]
        if not known:
            known = [(names[i], certain) for i in self.network.neighbours(node.me)]
        common = {"round": node.round + 1, "sent": node.sent, "delta": self.budget.policy.delta}
        return [
            common | {"observer": name, "epsilon": epsilon}
            for name, epsilon in [*known, ("everyone", certain)]
        ]

    def _send_again(self, now: float) -> None:
        """Send again what has had no receipt for long."""
        patience = max(1.0, self.network.settings.deadlines.round / 4)
        for key in self.letters:
            if now - self.last_sent.get(key, 0.0) > patience:
                self._send(key, now)

    def _send(self, key: tuple[int, int, int], now: float) -> None:
        self.last_sent[key] = now
        self.links.send(key[0], self.letters[key])

    def _tell(self) -> None:
        if self.progress is not None:
            node = self.node
            self.progress(
                Moment(
                    me=self.name,
                    phase=node.phase,
                    round=node.round,
                    rounds=self.network.settings.rounds,
                    late=tuple(node.late),
                    epsilon=self.budget.spent(node.sent),
                    deviated=node.deviated,
                )
            )


def _fine_gaussian(width: int) -> Array:
    """Standard Gaussian numbers, one row, drawn exactly on a grid so fine that floats hide it."""
    return np.ldexp(rounded_gaussian(width, deviation=2**_FINE).astype(np.float64), -_FINE)[None, :]


def _now() -> float:
    return time.monotonic()


def _read_kept(path: Path) -> _Kept | None:
    """What a node kept in its folder; None before it kept anything."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(
            f"{path}: cannot be read: {error} (a node that has sent must go on from what it kept; if the file is lost, "
            "agree on a new run, and add up the accounts of both)"
        ) from None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder, for one process alone: two that go on from the same state would send unlike things."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be used: {error.strerror or error} (choose another folder)"
        ) from None
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError(f"{folder}: another process runs this node (end it first)") from None
        yield
    finally:
        os.close(opened)
