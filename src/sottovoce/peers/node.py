# SPDX-License-Identifier: Apache-2.0
"""A node without input or output: what happens goes in with the time at which it did, what to do comes out.

It interprets the program that the accountant reads, one instruction after the other. All that it waits for has an end:
a message that does not come in time is left out, its weight goes where the network says, and so does the transcript. A
node that comes back late closes its round with what it has and goes on where its neighbours are.

What is to be done is done in order. After `Keep` has been carried out, the node can be killed at any moment: taken up
from what was kept, it sends the same letters again, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from sottovoce.peers import notes
from sottovoce.peers.actions import Actions, Ask, Done, Keep, Memory, Phase, Settle, Stopped
from sottovoce.peers.early import Early
from sottovoce.peers.exchanges import Post, receipt
from sottovoce.peers.history import Clean, Told, names_in
from sottovoce.peers.messages import Refused
from sottovoce.protocols import CONTRIBUTION, Exchange, exact, run_to_exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sottovoce.peers.exchanges import Exchanging, Opening
    from sottovoce.peers.letters import Letter
    from sottovoce.peers.network import Network
    from sottovoce.peers.policy import Budget
    from sottovoce.protocols import Program

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Node"]


class Node:
    """One node of a network, from its first round or from what it kept."""

    def __init__(
        self, network: Network, me: int, *, budget: Budget, opening: Opening, memory: Memory | None = None
    ) -> None:
        """`opening` makes exchanges, in the clear or masked; `budget` says when to stop."""
        self.network, self.me, self.budget = network, me, budget
        self._opening = opening
        self._peers = set(network.neighbours(me))
        self._left: dict[int, int] = {}
        self._away: set[int] = set()
        self._fallen: set[int] = set()
        self._spoke: set[int] = set()
        self._lost: dict[int, float] = {}
        self._early = Early()
        self._lingering: list[tuple[float, Exchanging]] = []
        self._exchange: Exchanging | None = None
        self._since, self._target = 0.0, 0
        self._owed: Actions = []
        self._clean = Clean(network)
        self._used: set[tuple[int, int, int]] = set()
        self._told = Told(network)
        self.notes: list[notes.AnyNote] = []
        self.noted = 0
        self.phase: Phase = "joining"
        self._reason: Stopped = "finished"
        self.round, self._place, self.sent, self.deviated = 0, 0, 0, False
        width = network.dimension
        self._registers = {name: np.zeros((1, width)) for name in network.run.programs[0].keeps}
        self._sources: dict[str, Array] = {}
        if memory is not None:
            self._take_up(memory)

    # What happens.

    def started(self, now: float) -> Actions:
        """The node is up."""
        self._since, waits = now, self.network.settings.deadlines
        # Who comes back may have to find its neighbours first, but for those that said goodbye.
        later = now + waits.round - waits.lost
        self._lost = {peer: now if peer in self._left else later for peer in self._peers}
        if not self.noted:
            network = self.network
            self._note(notes.Begun(run=network.run_name, me=network.names[self.me], parts=network.parts))
            return []
        if self.phase == "done" and self.round >= self.network.settings.rounds:
            # Nothing is to be noted of a run that was over; who is there still is told so.
            return [*(self._farewell(peer) for peer in sorted(self._peers)), Done(reason=self._reason)]
        self._note(notes.Resumed(round=self.round))
        if self.phase != "exchanging":
            return self._begin_round(now)
        return self._reopened(now)

    def given(self, now: float, contribution: Array, noise: Mapping[str, Array]) -> Actions:
        """What the node contributes in this round, and its draws with deviation 1 where the level is 1."""
        if self.phase != "asking":
            raise Refused(f"nothing was asked for; the node is {self.phase}")
        program = self.network.run.round_of(self.round)[1]
        self._sources = {CONTRIBUTION: contribution}
        for draw in program.draws:
            level = draw.level[self.me] if isinstance(draw.level, tuple) else draw.level
            self._sources[draw.name] = float(exact(level)) * noise[draw.name]
        self.sent += 1
        self._place = self._combined(program, 0)
        return self._open(now)

    def received(self, now: float, letter: Letter) -> Actions:
        """A genuine letter of a neighbour; `Refused` if it breaks a rule, and then nothing has changed."""
        header, sender = letter.header, letter.header.sender
        if header.round >= self.network.settings.rounds:
            raise Refused(f"node {sender} writes of round {header.round}, and the run has no such round")
        if header.kind in {"receipt", "closed", "farewell"} and not self._told.new(letter):
            return []
        match header.kind:
            case "receipt":
                self._note(notes.Receipt(peer=self._name(sender), signed=letter.signed, body=letter.body))
                return [Settle(receiver=sender, round=header.round, exchange=header.exchange)]
            case "closed":
                self.deviated |= not self._clean.closed(header.round, sender, names_in(letter.body))
                self._note(notes.Told(peer=self._name(sender), signed=letter.signed, body=letter.body))
                self._give_up(sender, (header.round, header.exchange))
                return []
            case "farewell":
                self._left[sender] = int.from_bytes(letter.body[:4], "big")
                self._note(notes.Farewell(peer=self._name(sender), signed=letter.signed, body=letter.body))
                self._give_up(sender)
                return [Keep(), *self._settle(now)]
            case "of-sum":
                return self._answered(now, letter)
        actions = self._heard_again(now, sender) if header.round >= self.round - 1 else []
        return actions + self._values(now, letter)

    def lost(self, now: float, peer: int) -> Actions:
        """A neighbour's sign of life is gone."""
        if peer in self._peers:
            self._lost.setdefault(peer, now)
            if self._masked:
                # Secrets of sums die with their node, and frames are not sent again. Even if it comes back at once it
                # has no part in this sum, nor in those of which it wrote ahead, and its own sums are over.
                self._fallen.add(peer)
                self._early.forget_sums(peer)
                self._give_up(peer)
        return self._settle(now)

    def _give_up(self, receiver: int, place: tuple[int, int] | None = None) -> None:
        """A receiver will say no more in one of its sums, or in any: what this node has not given it never gives."""
        for exchange in self._exchanges:
            if place in {None, (exchange.round, exchange.number)}:
                exchange.end(receiver)
        self._tidy()

    def found(self, now: float, peer: int) -> Actions:
        """A neighbour shows a sign of life."""
        self._lost.pop(peer, None)
        # Who comes back was not there when goodbye was said, and would wait.
        return [self._farewell(peer)] if self.phase == "done" else self._heard_again(now, peer)

    def ticked(self, now: float) -> Actions:
        """Time has passed."""
        actions: Actions = []
        over = 3 * self.network.settings.deadlines.round
        for since, exchange in self._lingering:
            if now - since > over:
                actions += exchange.end()
        self._tidy()
        waits = self.network.settings.deadlines
        if self.phase == "joining" and (not self._lost or now - self._since > waits.join):
            return actions + self._begin_round(now)
        if self.phase == "pausing" and (self.deserted or now - self._since > waits.join):
            return actions + self._finish("alone")
        return actions + self._settle(now)

    @property
    def busy(self) -> bool:
        """Whether sums of others still need this node."""
        return any(exchange.busy for _, exchange in self._lingering)

    @property
    def _exchanges(self) -> list[Exchanging]:
        """Exchanges in which others may still need this node, or it others."""
        return [each for _, each in self._lingering] + ([self._exchange] if self._exchange else [])

    @property
    def clean(self) -> int:
        """In how many rounds all went as agreed, by the word of everybody."""
        return len(self._clean.rounds)

    @property
    def late(self) -> list[str]:
        """Whose message the node waits for."""
        missing = set() if self._exchange is None else self._exchange.awaited
        return [self._name(peer) for peer in sorted(missing)]

    @property
    def model(self) -> Array:
        """The node's model, as the difference from the public start."""
        return self._registers[
            self.network.run.round_of(min(self.round, self.network.run.rounds - 1))[1].model
        ]

    def memory(self) -> Memory:
        """All that has to be kept."""
        return Memory(
            run=self.network.run_name,
            phase=self.phase,
            round=self.round,
            place=self._place,
            sent=self.sent,
            clean=sorted(self._clean.rounds),
            deviated=self.deviated,
            registers={name: value.tobytes() for name, value in self._registers.items()},
            sources={name: value.tobytes() for name, value in self._sources.items()},
            used=sorted(self._used),
            left=self._left,
            noted=self.noted,
            notes=self.notes,
        )

    # What follows from it.

    @property
    def _gone(self) -> set[int]:
        """Neighbours that take no part in this round or later ones."""
        return {peer for peer, first in self._left.items() if self.round >= first}

    @property
    def deserted(self) -> bool:
        """Whether all neighbours have said goodbye."""
        return self._left.keys() >= self._peers

    def _begin_round(self, now: float) -> Actions:
        """Ask for the contribution of the next round, unless the run is over or nobody is there."""
        if self.round >= self.network.settings.rounds:
            return self._finish("finished")
        if not self.budget.allows(self.sent, deviated=self.deviated, clean=self.clean):
            return self._finish("policy")
        if self._gone >= self._peers:
            return self._finish("alone")
        living, quorum = self._peers - self._gone - set(self._lost), self.network.settings.quorum
        if len(living - self._away) < quorum:
            # Who lives and was too slow is waited for again, or nodes that gave each other up would all be silent.
            self._away = set()
        if len(living) < quorum:
            if self.phase != "pausing":
                self.phase, self._since = "pausing", now
            return []
        self.phase = "asking"
        return [Ask(round=self.round, model=self.model.copy())]

    def _open(self, now: float) -> Actions:
        """Begin the exchange that the program has come to."""
        exchange = self._made()
        self._exchange, self.phase, self._since = exchange, "exchanging", now
        self._fallen, self._spoke = set(), set()
        receivers = self.network.receivers(self.me)
        self._note(notes.Sent(round=self.round, exchange=exchange.number, receivers=receivers))
        posts = exchange.begin()
        owed, self._owed = self._owed, []
        actions: Actions = [Keep(), *posts, *owed]
        return actions + self._take_early(now, exchange)

    def _take_early(self, now: float, exchange: Exchanging) -> Actions:
        """Letters that came before their exchange was open."""
        actions: Actions = []
        for letter in self._early.taken((self.round, exchange.number)):
            self._spoke.add(letter.sender)
            try:
                actions += exchange.take(letter)
            except Refused as error:
                self._note(notes.Refusal(peer=self._name(letter.sender), reason=str(error)[:200]))
        self._fallen |= {letter.sender for letter in self._early if self._passed(letter)}
        return actions + self._settle(now)

    def _passed(self, letter: Letter) -> bool:
        """Whether who writes of a later sum has no part in this one: it was killed in it, or before it."""
        return letter.header.kind == "to-sum" and letter.sender not in self._spoke

    def _made(self) -> Exchanging:
        """The exchange at the node's place in the program."""
        program = self.network.run.round_of(self.round)[1]
        step = program.instructions[self._place]
        assert isinstance(step, Exchange)
        return self._opening(self.network, self.me, self.round, self._number, self._registers[step.message])

    @property
    def _number(self) -> int:
        """Which exchange of its round the node has come to."""
        program = self.network.run.round_of(self.round)[1]
        return sum(isinstance(each, Exchange) for each in program.instructions[: self._place])

    def before(self, round_: int, exchange: int) -> bool:
        """Whether the node has yet to come to an exchange, so that it cannot have sent anything in it."""
        here = (self.round, self._number) if self.phase == "exchanging" else (self.round, -1)
        return (round_, exchange) > here

    def _reopened(self, now: float) -> Actions:
        """Go on with the exchange in which the node was killed: its letters are sent again, by who keeps them.

        Secrets of a masked exchange were never kept, so that it is over for this node.
        """
        self._exchange, self._since = self._made(), now
        if self.network.settings.sums == "masked":
            return self._close(now)
        return self._take_early(now, self._exchange)

    def _values(self, now: float, letter: Letter) -> Actions:
        """A message, or a frame of a sum that this node receives."""
        header, exchange = letter.header, self._exchange
        place = (header.round, header.exchange)
        current = (self.round, exchange.number) if exchange and self.phase == "exchanging" else None
        if place == current and exchange is not None:
            self._spoke.add(header.sender)
            return [*exchange.take(letter), *self._settle(now)]
        if place < (self.round, 0 if current is None else current[1]):
            used = (header.sender, *place) in self._used
            return [receipt(letter, used=used)] if header.kind == "values" else []
        self._early.keep(letter)
        if current is not None and self._passed(letter):
            self._fallen.add(header.sender)
        if header.round >= self.round + 2:
            self._target = max(self._target, header.round)
        return self._settle(now)

    def _answered(self, now: float, letter: Letter) -> Actions:
        """A frame of the receiver of a sum that this node sends to."""
        place = (letter.header.round, letter.header.exchange)
        for exchange in self._exchanges:
            if (exchange.round, exchange.number) == place:
                posts = exchange.take(letter)
                self._tidy()
                return [*posts, *self._settle(now)]
        return []

    def _settle(self, now: float) -> Actions:
        """Wait no longer than is worth it, and go on when the exchange is over."""
        actions: Actions = []
        while self.phase == "exchanging" and self._exchange is not None:
            exchange, waits = self._exchange, self.network.settings.deadlines
            if not exchange.over:
                out = now - self._since >= waits.round
                if self._worth_waiting(now) and not out:
                    break
                self._away |= exchange.awaited - set(self._lost) if out else set()
                self._since = now
                actions += exchange.expire()
                if not exchange.over and self._masked:
                    continue
            actions += self._close(now)
        return actions

    def _worth_waiting(self, now: float) -> bool:
        """Whether anybody that is missing may still come, and the others have not gone on without this node."""
        assert self._exchange is not None
        if self._target >= self.round + 2:
            return False
        grace = self.network.settings.deadlines.lost
        missing = self._exchange.awaited - self._gone - self._away - self._fallen
        return any(now - self._lost.get(peer, now) < grace for peer in missing)

    @property
    def _masked(self) -> bool:
        return self.network.settings.sums == "masked"

    def _close(self, now: float) -> Actions:
        """Take what was received into the register, say what was left out, and go on with the program."""
        exchange, network = self._exchange, self.network
        assert exchange is not None
        program = network.run.round_of(self.round)[1]
        step = program.instructions[self._place]
        assert isinstance(step, Exchange)
        alone = len(exchange.survivors) < network.settings.quorum
        survivors = () if alone else exchange.survivors
        missing = [peer for peer in network.senders(self.me) if peer not in survivors]
        row = network.row(self.me, survivors)
        self._registers[step.into] = exchange.message if alone else exchange.received()
        heard = tuple(self._name(peer) for peer in survivors)
        self._note(
            notes.Closed(
                round=self.round,
                exchange=exchange.number,
                survivors=heard,
                missing=tuple(self._name(peer) for peer in missing),
                denominator=sum(row.values()),
                weights={self._name(peer): weight for peer, weight in row.items()},
            )
        )
        self._owed += [receipt(letter, used=letter.sender in survivors) for letter in exchange.letters]
        # Who was killed before it had kept a receipt asks for it again.
        self._used |= {(peer, self.round, exchange.number) for peer in survivors}
        self._used = {each for each in self._used if each[1] >= self.round - 2}
        self.deviated |= not self._clean.closed(self.round, self.me, heard)
        if missing or self._masked:
            # Who was in a sum knows over whom it was opened, and is told here what became of it.
            body = msgspec.msgpack.encode(heard)
            self._owed += [
                Post(receiver=peer, kind="closed", round=self.round, exchange=exchange.number, body=body)
                for peer in sorted(self._peers - self._gone)
            ]
        self._lingering.append((now, exchange))
        self._exchange = None
        for peer in {*self._lost, *self._gone}:
            # Who was away all the time, or left before, receives nothing.
            exchange.end(peer)
        self._tidy()
        self._place = self._combined(program, self._place + 1)
        return self._open(now) if self._place < len(program.instructions) else self._end_round(now)

    def _combined(self, program: Program, place: int) -> int:
        """Run the program on to its next exchange; where sums are masked, every term stays on the grid."""
        grid = self.network.grid if self._masked else None
        return run_to_exchange(
            program,
            self._registers,
            self._sources,
            place,
            self.me,
            rounded=None if grid is None else lambda term: grid.real(grid.whole(term)),
        )

    def _end_round(self, now: float) -> Actions:
        """The round is over; those that the others have had without this node are left out."""
        kept = self.network.run.programs[0].keeps
        self._registers = {name: self._registers[name] for name in kept}
        self._sources = {}
        following = self.round + 1
        if self._target > following:
            self._note(notes.Skipped(first=following, last=self._target - 1))
            self.deviated = True
            following = self._target
        self.round, self._place, self.phase = following, 0, "asking"
        self._early.forget_before(following)
        return self._begin_round(now)

    def _finish(self, reason: Stopped) -> Actions:
        """Say goodbye, so that nobody waits."""
        self.phase = "done"
        for _, exchange in self._lingering:
            if exchange.round < self.round - 1:
                exchange.end()
        self._tidy()
        self._note(notes.Stopped(reason=reason, round=self.round))
        owed, self._owed = self._owed, []
        self._reason = reason
        goodbye = [self._farewell(peer) for peer in sorted(self._peers)]
        return [Keep(), *owed, *goodbye, Done(reason=reason)]

    def _farewell(self, peer: int) -> Post:
        """From which round on the node takes no part; what it began it still brings to an end."""
        body = self.round.to_bytes(4, "big") + self._reason.encode()
        return Post(receiver=peer, kind="farewell", round=0, exchange=0, body=body)

    def _heard_again(self, now: float, peer: int) -> Actions:
        """A neighbour that was away is there."""
        self._away.discard(peer)
        if self.phase == "pausing":
            return self._begin_round(now)
        if self.phase == "joining" and not self._lost:
            return self._begin_round(now)
        return []

    def ended(self) -> None:
        """The node will answer nobody any more: what it has not given by now it never gives."""
        for _, exchange in self._lingering:
            exchange.end()
        self._tidy()

    def _tidy(self) -> None:
        """Note how sums ended, and let go of exchanges in which nobody needs this node."""
        for exchange in self._exchanges:
            for note in exchange.notes:
                self._note(note)
            for receiver, names in exchange.given.items():
                self._clean.given(exchange.round, receiver, names)
            exchange.notes = []
        self._lingering = [(since, each) for since, each in self._lingering if each.busy]

    def _note(self, note: notes.AnyNote) -> None:
        """A line for the transcript, written after what it speaks of is kept."""
        self.noted += 1
        self.notes.append(msgspec.structs.replace(note, number=self.noted))

    def _name(self, peer: int) -> str:
        return self.network.names[peer]

    def _take_up(self, memory: Memory) -> None:
        """Go on from what was kept."""
        if memory.run != self.network.run_name:
            raise Refused("what was kept is of another run (give the network of that run, or another folder)")
        self.phase, self.round, self.sent = memory.phase, memory.round, memory.sent
        self.deviated, self._place = memory.deviated, memory.place
        self._clean.rounds |= set(memory.clean)
        self._registers, self._sources = (
            {name: np.frombuffer(value)[None, :].copy() for name, value in kept.items()}
            for kept in (memory.registers, memory.sources)
        )
        self._used, self._left = set(memory.used), dict(memory.left)
        self.noted, self.notes = memory.noted, list(memory.notes)
