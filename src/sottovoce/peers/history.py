# SPDX-License-Identifier: Apache-2.0
"""What really happened in a run, from transcripts: who sent, over whom each sum was opened, who mixed what.

A transcript is the word of the node that signed it. What its neighbours signed is in it, and is checked here: a sum
counts as opened over a list if as many of its senders as the threshold signed that list; how a neighbour closed an
exchange is that neighbour's own letter. What nobody says is not known, and nothing is presumed of it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from sottovoce.errors import InputError
from sottovoce.peers import notes
from sottovoce.peers.exchanges import group_of
from sottovoce.peers.letters import checked_header
from sottovoce.peers.lists import by_sender
from sottovoce.peers.messages import Agreed, Refused
from sottovoce.protocols import Exchange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sottovoce.peers.letters import Header, Letter
    from sottovoce.peers.network import Network
    from sottovoce.peers.notes import AnyNote

__all__ = ["Clean", "Row", "RunHistory", "Told", "history_of", "names_in"]

Row = dict[int, int]
"""Whole weights over their sum, by sender; all of them with the node itself where it heard nobody."""

# What is noted of a letter is so long at most, besides names; two that differ of one exchange tell a liar.
_LONGEST, _VERSIONS = 64, 2

_LETTERS = {notes.Receipt: "receipt", notes.Told: "closed", notes.Farewell: "farewell"}


@dataclass(frozen=True, kw_only=True, eq=False)
class RunHistory:
    """What transcripts say of a run; keys are (round, node), rounds from 0.

    `sent` says who sent. `closed` holds by its own word whose messages a node took up, `opened` by its senders' words
    over whom its sum was opened; None where lists contradict each other. `silent` holds the senders that say that
    they showed no share in the sum of a node. `ended` are authors whose transcripts say that they take part no more,
    `finished` those of them that were there until the last round.
    """

    network: Network
    authors: frozenset[int]
    sent: set[tuple[int, int]] = field(default_factory=set)
    closed: dict[tuple[int, int], frozenset[int] | None] = field(default_factory=dict)
    opened: dict[tuple[int, int], frozenset[int] | None] = field(default_factory=dict)
    silent: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    ended: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)

    def acting(self, t: int) -> frozenset[int]:
        """Who sent in a round, as far as anybody says; whoever is not among them may not have drawn noise."""
        nodes = range(self.network.n)
        lists = [held.get((t, i)) or () for held in (self.opened, self.closed) for i in nodes]
        return frozenset(i for i in nodes if (t, i) in self.sent).union(*lists)

    def row(self, t: int, i: int, *, observers: Collection[int]) -> Row | None:
        """What node i received in a round, or, if it is an observer, all that it can have seen; None if not known.

        An observer is not believed: its senders say what it saw, those that are no observers themselves. A hidden node
        follows the program, and says itself what it took up.
        """
        seen = self.opened.get((t, i), frozenset() if self._shut(t, i, observers) else None)
        if i not in observers:
            # What was not opened was not taken up either.
            seen = self.closed.get((t, i), None if seen else seen)
        return None if seen is None else self.mixing(i, seen)

    def mixing(self, i: int, heard: Iterable[int]) -> Row:
        """The row of a node that heard these, by the rule of the network for who is missing."""
        return self.network.row(i, heard)

    def planned(self, i: int) -> Row:
        """The row that was agreed on."""
        return self.mixing(i, self.network.senders(i))

    def _shut(self, t: int, i: int, observers: Collection[int]) -> bool:
        """Whether so many hidden senders showed no share that a node cannot have opened its sum, over any list."""
        network, senders = self.network, self.network.senders(i)
        if len(senders) < 2 or network.settings.sums != "masked":
            return False
        believed = self.silent.get((t, i), set()).difference(observers)
        return len(set(senders) - believed) < network.threshold(i)


def history_of(
    network: Network, transcripts: Mapping[str, Sequence[AnyNote]], *, checked: bool = False
) -> RunHistory:
    """The history that transcripts of one run tell together, their lines as `read_transcript` gives them.

    `checked` says that signatures in them were checked when they came.

    Guarantee: nothing is taken from a transcript that its author alone asserts of others; what neighbours are said to
    have signed, they signed.
    """
    found = RunHistory(network=network, authors=frozenset(map(network.index, transcripts)))
    for name, lines in transcripts.items():
        _Reader(found, network.index(name), checked=checked).read(lines)
    _check_complete(found)
    return found


def _check_complete(history: RunHistory) -> None:
    """Refuse a transcript that ends before rounds in which others, by what was signed, have its author."""
    for t in range(history.network.settings.rounds):
        for i in sorted(history.authors & history.acting(t)):
            if (t, i) not in history.sent:
                raise InputError(
                    f"the transcript of {history.network.names[i]} knows nothing of round {t + 1}, and others have its "
                    "message there: it is an old copy (take the file as it was at the end of the run)"
                )


class _Reader:
    """One transcript, line by line, into a history."""

    def __init__(self, history: RunHistory, author: int, *, checked: bool) -> None:
        self.history, self.network, self.author = history, history.network, author
        self._checked = checked

    def read(self, lines: Sequence[AnyNote]) -> None:
        """All lines; a line that cannot be is an error that names it."""
        name, network = self.network.names[self.author], self.network
        for line in lines:
            try:
                self._line(line)
            except (ValueError, Refused, msgspec.DecodeError) as error:
                raise InputError(
                    f"line {line.number} of the transcript of {name} cannot be: {error} (take the original file)"
                ) from None
        sent = {t for t, i in self.history.sent if i == self.author}
        # A file that was copied too early says nothing of what came after its last round.
        ended = self.author in self.history.ended
        for t in range(network.settings.rounds if ended else max(sent, default=0)):
            if t not in sent:
                # In a round in which it sends nothing a node shows no shares, and takes nothing up.
                self._close((t, self.author), ())
                for receiver in network.receivers(self.author):
                    self.history.silent[t, receiver].add(self.author)

    def _line(self, line: AnyNote) -> None:
        history = self.history
        match line:
            case notes.Begun():
                if (line.run, line.me) != (self.network.run_name, self.network.names[self.author]):
                    raise Refused("it is of another run, or of another node")
            case notes.Sent():
                history.sent.add((self._round(line), self.author))
            case notes.Closed():
                self._close((self._round(line), self.author), line.survivors)
                self._check_weights(line)
            case notes.Given():
                self._given(line)
            case notes.Failed():
                receiver = self.network.index(line.receiver)
                if receiver != self.author:
                    # Even if its masked message had gone out: who ends so has shown no share, and never will.
                    history.silent[self._round(line), receiver].add(self.author)
            case notes.Stopped():
                history.ended.add(self.author)
                if line.reason == "finished":
                    history.finished.add(self.author)
            case notes.Written():
                header = self._letter(line)
                if isinstance(line, notes.Told):
                    self._close((header.round, header.sender), names_in(line.body))

    def _close(self, place: tuple[int, int], names: Collection[str]) -> None:
        """A node's own word; one that says two things is not believed in either."""
        heard = frozenset(map(self.network.index, names))
        if not heard <= set(self.network.senders(place[1])):
            raise Refused("it names nodes that send nothing there")
        known = self.history.closed.setdefault(place, heard)
        if known != heard:
            self.history.closed[place] = None

    def _check_weights(self, line: notes.Closed) -> None:
        """Refuse a line whose weights are not those that the rule of the network gives to who was heard."""
        network = self.network
        row = network.row(self.author, map(network.index, line.survivors))
        said = {network.index(name): weight for name, weight in line.weights.items()}
        if (said, line.denominator) != (row, sum(row.values())):
            raise Refused("its weights are not those that the network agreed on for whom it heard")

    def _given(self, line: notes.Given) -> None:
        """A sum that enough of its senders signed the list of."""
        t, receiver, names = self._round(line), self.network.index(line.receiver), line.survivors
        group = group_of(self.network, receiver, t, line.exchange)
        if group is None or self.network.names[self.author] not in names:
            raise Refused("it gave to a sum in which it has no part")
        said = [] if self._checked else [each for _, each in by_sender(group, line.receipt, Agreed).values()]
        if any(each.names != names or each.dealers != said[0].dealers for each in said):
            raise Refused("the signatures are under another list")
        heard = frozenset(map(self.network.index, names))
        known = self.history.opened.setdefault((t, receiver), heard)
        if known != heard:
            self.history.opened[t, receiver] = None

    def _letter(self, line: notes.Written) -> Header:
        """The header of a letter that a neighbour wrote to the author in this run."""
        peer = self.network.index(line.peer)
        key = None if self._checked else self.network.settings.nodes[peer].signing_key
        header = checked_header(line.signed, key)
        said = (header.run, header.sender, header.receiver, header.kind, header.digest)
        body = hashlib.sha256(line.body).digest()
        if said != (self.network.run_name, peer, self.author, _LETTERS[type(line)], body):
            raise Refused("a letter in it is another one than it says")
        return header

    def _round(self, line: notes.InExchange) -> int:
        if line.round >= self.network.settings.rounds:
            raise Refused(f"there is no round {line.round + 1}")
        return line.round


class Clean:
    """Rounds in which all went as agreed, by the word of everybody, as they become known.

    Every sum that the node sends to was opened over all its senders, and everybody, the node too, took up all that it
    was sent. Only a node that is linked with all others ever knows that.
    """

    def __init__(self, network: Network) -> None:
        """No round is known yet."""
        self._network = network
        self._known: dict[int, set[tuple[str, int]]] = defaultdict(set)
        self.rounds: set[int] = set()

    def closed(self, round_: int, node: int, names: Collection[str]) -> bool:
        """A node says whose messages it took up; whether these are all that there were to be."""
        return self._whole(round_, "closed", node, names)

    def given(self, round_: int, receiver: int, names: Collection[str]) -> None:
        """A sum was opened over these."""
        self._whole(round_, "given", receiver, names)

    def _whole(self, round_: int, what: str, node: int, names: Collection[str]) -> bool:
        network = self._network
        if set(names) != {network.names[j] for j in network.senders(node)}:
            return False
        self._known[round_].add((what, node))
        if len(self._known[round_]) == 2 * network.n - 1:
            self.rounds.add(round_)
        return True


class Told:
    """What neighbours told a node, so that each of their letters is noted once, and no more than there is to tell."""

    def __init__(self, network: Network) -> None:
        """Nobody has told anything."""
        self._network = network
        self._longest = _LONGEST + sum(len(name.encode()) + 5 for name in network.names)
        self._known: dict[tuple[str, int, int, int], set[bytes]] = defaultdict(set)

    def new(self, letter: Letter) -> bool:
        """Whether a letter is to be noted; `Refused` if no honest neighbour would write it."""
        header = letter.header
        steps = self._network.run.round_of(header.round)[1].instructions
        count = sum(isinstance(each, Exchange) for each in steps)
        if header.exchange >= count or len(letter.body) > self._longest:
            raise Refused(
                f"node {header.sender} tells of an exchange that there is not, or more than there is"
            )
        known = self._known[header.kind, header.sender, header.round, header.exchange]
        if header.digest in known:
            return False
        if len(known) >= _VERSIONS:
            raise Refused(f"node {header.sender} tells too many stories of one exchange")
        known.add(header.digest)
        return True


def names_in(body: bytes) -> list[str]:
    """The names in the body of a letter that closes an exchange."""
    try:
        return msgspec.msgpack.decode(body, type=list[str])
    except msgspec.DecodeError:
        raise Refused("an exchange is closed with a list of names; this is none") from None
