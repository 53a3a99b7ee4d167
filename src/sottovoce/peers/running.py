# SPDX-License-Identifier: Apache-2.0
"""A node that runs: the machine of `node`, with a clock, a folder on the disk, links, data and noise.

First it meets the others, and they name the run by what each of them drew (`joining`). What is sent is on the disk
before it is sent. A node that was killed is started again with the same folder, and sends the very same letters or
nothing; noise is drawn afresh from the system's generator for every message.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from sottovoce.errors import FileError
from sottovoce.peers.actions import Actions, Ask, Done, Keep, Settle, Stopped
from sottovoce.peers.books import Books
from sottovoce.peers.earlier import open_earlier
from sottovoce.peers.exchanges import Post, in_the_clear, masked_by
from sottovoce.peers.joining import Lobby, answer, read_hello
from sottovoce.peers.keeping import Kept, locked, write_kept
from sottovoce.peers.letters import PostOffice, checked_header
from sottovoce.peers.messages import Refused
from sottovoce.peers.node import Node
from sottovoce.peers.noise import rounded_gaussian
from sottovoce.peers.outcomes import KnownBy, Outcome, Whereabouts
from sottovoce.peers.policy import Budget
from sottovoce.peers.standing import standing_of, write_agreed
from sottovoce.peers.transport import Happening

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.peers.actions import Memory
    from sottovoce.peers.joining import Hello
    from sottovoce.peers.letters import Header, Letter
    from sottovoce.peers.network import Network
    from sottovoce.peers.outcomes import Links
    from sottovoce.peers.sites import Site
    from sottovoce.peers.standing import Standing
    from sottovoce.peers.transcript import Lines

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["ended_before", "run_peer"]

# Seconds between two looks at the clock, and between two hellos.
_TICK, _HELLO = 0.05, 0.5
# Letters of the run that come before this node is in it, so many of a neighbour at most.
_BEFORE = 64
# Noise in the clear has 2 to this power of steps to a standard deviation.
_FINE = 30


def run_peer(
    network: Network, site: Site, links: Links, progress: Callable[[Whereabouts], None] | None = None
) -> Outcome:
    """Run a node until its rounds are over, its policy forbids the next, or nobody is left; go on if it was killed.

    Guarantee: whoever reads every message has no more than `Outcome.epsilon` says, earlier runs in the site's file
    included, whatever others do, if noise and sums are as the network says; what is sent is written down before.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(site.folder))
        lines = None if site.spent is None else stack.enter_context(open_earlier(site.spent))
        return _Running(site, standing_of(network, site), links, lines, progress).run()


def ended_before(network: Network, site: Site, *, alone: bool = False) -> Outcome | None:
    """How the run in a site's folder ended, if all its rounds are over and nobody waits for the node any more.

    A neighbour that has not said goodbye may, unless the caller knows that all others ended, and says `alone`. None if
    there is something left to do. Nothing is sent; what lies there is checked as `run_peer` does.
    """
    with locked(site.folder) if site.folder.is_dir() else contextlib.nullcontext():
        standing = standing_of(network, site)
        if not standing.over or not (alone or standing.deserted):
            return None
        return _Running(site, standing, _Nowhere(), None, None).outcome("finished")


class _Nowhere:
    """Links of a node that has nothing to say."""

    def send(self, receiver: int, wire: bytes) -> None:
        """Nobody is told anything."""

    def next(self, timeout: float) -> None:
        """Nothing comes."""


class _Running:
    """One run of `run_peer`."""

    def __init__(
        self,
        site: Site,
        standing: Standing,
        links: Links,
        spent: Lines | None,
        progress: Callable[[Whereabouts], None] | None,
    ) -> None:
        self.site, self.standing, self.links = site, standing, links
        self.network = network = standing.agreed
        self.spent, self.progress = spent, progress
        self.folder, self.identity = site.folder, site.identity
        self.lobby_office = PostOffice(network, self.identity)
        self.me, self.name = self.lobby_office.me, self.identity.name
        self.transcript, self.earlier, kept = standing.transcript, standing.earlier, standing.kept
        self.budget = Budget.of(network, self.name, site.policy_in(network), self.earlier)
        self.lobby = Lobby(network, self.identity, own=None if kept is None else kept.own)
        self.letters: dict[tuple[int, int, int], bytes] = {}
        self.last_sent: dict[tuple[int, int, int], float] = {}
        self.heard: dict[int, bytes] = {}
        self.alive: set[int] = set()
        self.node: Node | None = None
        self.reason: Stopped | None = None
        self.refused = 0
        if kept is not None and kept.memory is not None:
            self.letters = {(to, round_, exchange): wire for to, round_, exchange, wire in kept.letters}
            self.heard = dict(kept.heard)
            self._enter(kept.parts, kept.memory)

    def run(self) -> Outcome:
        """Until the end, and then until neighbours have what was sent, or the time for that is over."""
        try:
            early = self._met()
            if self.node is None:
                self.reason = "apart" if self.lobby.apart else "alone"
            else:
                self._go_through(self.node, early)
        except KeyboardInterrupt:
            # What was sent is on the disk already, and nothing else counts.
            self.reason = self.reason or "interrupted"
        assert self.reason is not None
        if self.node is not None and self.node.phase == "done":
            self.node.ended()
            self._keep()
        return self.outcome(self.reason)

    def outcome(self, reason: Stopped) -> Outcome:
        """How the run ended for this node, and its certificate if it did."""
        node, known = self.node, tuple[KnownBy, ...]()
        if node is not None:
            certain = node.phase == "done" and self.network.ported
            known = self.books.certify(node) if certain else self.books.known(node)
        return Outcome(
            me=self.name,
            reason=reason,
            rounds=0 if node is None else node.round,
            sent=self.sent,
            deviated=node is not None and node.deviated,
            epsilon=self.budget.spent(self.sent),
            delta=self.budget.policy.delta,
            refused=self.refused,
            model=np.zeros(self.network.dimension) if node is None else node.model[0].copy(),
            known=known,
            earlier_runs=len(self.earlier.runs),
            had_finished=self.standing.finished,
        )

    @property
    def sent(self) -> int:
        """In how many rounds the node has sent."""
        return 0 if self.node is None else self.node.sent

    def _met(self) -> list[Happening]:
        """Meet the others: agree with them on a run, or hear from them what they have of this node.

        What came of the run meanwhile is handed back. A node that is in a run already goes on when all that are there
        have answered, or the time for that is over.
        """
        waits, early = self.network.settings.deadlines, list[Happening]()
        until = _now() + (waits.join if self.node is None else waits.round)
        if self.node is not None and self.node.deserted:
            until = _now() + waits.lost
        answered: set[int] = set()
        if self.node is None:
            self._keep()
        said = -_HELLO
        while _now() < until:
            if _now() - said >= _HELLO:
                said = _now()
                for peer in self.network.neighbours(self.me):
                    self._greet(peer, asks=True)
                self._tell()
            happening = self.links.next(_TICK)
            if happening is not None:
                self._heard_before(happening, answered, early)
            if self.node is None and self.lobby.ready:
                self._enter(self.lobby.parts, None)
                self._keep()
                break
            enough = len(answered) >= self.network.settings.quorum
            if self.node is not None and enough and answered >= self.alive:
                break
        return early

    def _heard_before(self, happening: Happening, answered: set[int], early: list[Happening]) -> None:
        """What came before the node is in its run, or in it again."""
        peer = happening.peer
        match happening.what:
            case "found":
                self.alive.add(peer)
                self._greet(peer, asks=True)
            case "lost":
                self.alive.discard(peer)
            case "wire":
                try:
                    letter = self.lobby_office.opened(peer, happening.wire)
                except Refused:
                    # Perhaps of a run that this node is about to be in: others may have begun.
                    if sum(each.peer == peer for each in early) < _BEFORE:
                        early.append(happening)
                    return
                self._greeted(letter, answered)

    def _greeted(self, letter: Letter, answered: set[int]) -> None:
        """A hello, before the run or beside it."""
        peer = letter.sender
        try:
            hello = read_hello(letter.body)
            if self.node is None:
                own = self.lobby.own
                self._check_unheard(peer, hello)
                more = self.lobby.received(peer, hello)
                if self.lobby.own != own:
                    self._keep()
                if more:
                    for other in self.network.neighbours(self.me):
                        self._greet(other, asks=False)
            elif hello.begun and hello.parts == self.network.parts:
                self._check_heard(peer, hello)
                answered.add(peer)
            if hello.asks:
                self._greet(peer, asks=False)
        except Refused:
            self.refused += 1

    def _greet(self, peer: int, *, asks: bool) -> None:
        """Say hello: with the parts that are known, or with those of the run that the node is in."""
        if self.node is None:
            body = self.lobby.hello(asks=asks)
        else:
            body = answer(self.network.parts, self.heard.get(peer, b""), asks=asks)
        self.links.send(peer, self.lobby_office.sealed(peer, "hello", 0, 0, body))

    def _check_heard(self, peer: int, hello: Hello) -> None:
        """Refuse to go on from a state that is older than what a neighbour has of this node, signed by it."""
        header = self._own_header(hello, self.network)
        if header is not None and self.node is not None and self.node.before(header.round, header.exchange):
            raise self._older(peer, header, f"of round {self.node.round + 1}")

    def _check_unheard(self, peer: int, hello: Hello) -> None:
        """Refuse to begin a run in which a neighbour has a letter of this node: the folder is of before that."""
        if not (hello.heard and hello.begun and self.lobby.own in hello.parts):
            return
        header = self._own_header(hello, self.network.joined(hello.parts))
        if header is not None:
            raise self._older(peer, header, "of before the run")

    def _own_header(self, hello: Hello, run: Network) -> Header | None:
        """The header, signed by this node, of the last letter in a run that a neighbour has of it, if it has one."""
        if not hello.heard:
            return None
        header = checked_header(hello.heard, self.identity.card.signing_key)
        return header if (header.run, header.sender) == (run.run_name, self.me) else None

    def _older(self, peer: int, header: Header, state: str) -> FileError:
        """What a node says that was started from a state before one of its own letters."""
        return FileError(
            f"{self.folder}: is older than what was sent: {self.network.names[peer]} has a letter of round "
            f"{header.round + 1}, which this node signed, and the state is {state} (go on from the folder as it was "
            "last, or agree on a new run, and add up the accounts of both)"
        )

    def _enter(self, parts: tuple[bytes, ...], memory: Memory | None) -> None:
        """Be a node of the run of these parts, from its beginning or from what was kept."""
        self.network = self.network.joined(parts)
        if memory is None and self.earlier.of_run(self.network.run_name.hex()) is not None:
            raise FileError(
                f"{self.folder}: is older than what was sent: rounds of this run are written down as spent, and the "
                "state is of before the run (go on from the folder as it was last, or agree on a new run)"
            )
        if memory is None:
            write_agreed(self.folder, self.network)
        self.office = PostOffice(self.network, self.identity)
        masked = self.network.settings.sums == "masked"
        opening = masked_by(self.identity.signing) if masked else in_the_clear
        self.node = Node(self.network, self.me, budget=self.budget, opening=opening, memory=memory)
        # A line is written before the state of its round, which may then be lost, and with it the round, unsent.
        written = self.standing.written
        if written is not None and written.sent > self.node.sent + 1:
            raise FileError(
                f"{self.folder}: is older than what was sent: {written.sent} rounds are written down as spent, "
                f"and the state knows of {self.node.sent} (go on from the folder as it was last, or agree on a new run)"
            )
        self.transcript.add(self.node.notes)
        self.books = Books(self.network, self.site, self.budget, self.earlier, written, self.spent)

    def _go_through(self, node: Node, early: list[Happening]) -> None:
        """All rounds, with what came before the first."""
        self._carry(node.started(_now()))
        for peer in sorted(self.alive):
            self._happened(node, Happening("found", peer))
        for happening in early:
            self._happened(node, happening)
        ticked = 0.0
        ended = None
        while ended is None or ((self.letters or node.busy) and _now() < ended):
            came = self.links.next(_TICK)
            if came is not None:
                self._happened(node, came)
            if _now() - ticked >= _TICK:
                ticked = _now()
                self._carry(node.ticked(ticked))
                self._send_again(ticked)
                self._tell()
            if self.reason is not None and ended is None:
                ended = _now() + self.network.settings.deadlines.round

    def _happened(self, node: Node, happening: Happening) -> None:
        """Hand what came to the node; what is not genuine, or breaks a rule, counts for nothing."""
        now, peer = _now(), happening.peer
        match happening.what:
            case "found":
                self._carry(node.found(now, peer))
                for key in [key for key in self.letters if key[0] == peer]:
                    self._send(key, now)
            case "lost":
                self._carry(node.lost(now, peer))
            case "wire":
                try:
                    letter = self._opened(peer, happening.wire)
                    if letter.header.kind == "hello":
                        self._greeted(letter, set())
                    else:
                        self._carry(node.received(now, letter))
                except Refused:
                    self.refused += 1

    def _opened(self, peer: int, wire: bytes) -> Letter:
        """A letter of the run, or a hello of somebody who is not in it yet, or not again."""
        try:
            letter = self.office.opened(peer, wire)
        except Refused:
            return self.lobby_office.opened(peer, wire)
        header = letter.header
        if header.kind in {"values", "to-sum"}:
            last = self.heard.get(peer)
            known = None if last is None else checked_header(last, None)
            if known is None or (header.round, header.exchange) > (known.round, known.exchange):
                self.heard[peer] = letter.signed
        return letter

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
        assert self.node is not None
        network, width = self.network, self.network.dimension
        scale = float(network.steps[asked.round]) * network.noise_std
        contribution = self.site.contributor.contribution(asked.round, asked.model)
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
        node = self.node
        kept = Kept(own=self.lobby.own)
        if node is not None:
            self.books.spend(node.sent)
            self.letters = {key: wire for key, wire in self.letters.items() if key[1] >= node.round - 2}
            letters = [(*key, wire) for key, wire in self.letters.items()]
            kept = msgspec.structs.replace(
                kept, parts=self.network.parts, memory=node.memory(), letters=letters, heard=self.heard
            )
        write_kept(self.folder, kept)
        if node is not None:
            self.transcript.add(node.notes)
            node.notes = []
            self.books.round_over(node)

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
                Whereabouts(
                    me=self.name,
                    phase="joining" if node is None else node.phase,
                    round=0 if node is None else node.round,
                    rounds=self.network.settings.rounds,
                    late=self.lobby.missing if node is None else tuple(node.late),
                    epsilon=self.budget.spent(self.sent),
                    deviated=node is not None and node.deviated,
                )
            )


def _fine_gaussian(width: int) -> Array:
    """Standard Gaussian numbers, one row, drawn exactly on a grid so fine that floats hide it."""
    return np.ldexp(rounded_gaussian(width, deviation=2**_FINE).astype(np.float64), -_FINE)[None, :]


def _now() -> float:
    return time.monotonic()
