"""A network of nodes without sockets: letters travel at the same moment, time goes by in steps, and nodes may die."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.peers.networks import identities, joined

from sottovoce.peers import Budget, Network, Policy, notes
from sottovoce.peers.actions import Actions, Ask, Done, Keep, Memory, Settle
from sottovoce.peers.exchanges import Post, in_the_clear, masked_by
from sottovoce.peers.letters import PostOffice
from sottovoce.peers.messages import Refused
from sottovoce.peers.node import Node

Given = Callable[[int, int, np.ndarray], tuple[np.ndarray, dict[str, np.ndarray]]]


class Swarm:
    """All nodes of a network, with what each keeps and sends."""

    def __init__(
        self, network: Network, given: Given, policies: dict[int, Policy] | None = None, seed: int = 0
    ) -> None:
        self.network, self.asked = joined(network), given
        network = self.network
        keys = identities(network.n)
        self.offices = [PostOffice(network, each) for each in keys]
        self.budgets = [
            Budget.of(network, network.names[i], (policies or {}).get(i, Policy())) for i in range(network.n)
        ]
        self.openings = [
            masked_by(each.signing) if network.settings.sums == "masked" else in_the_clear for each in keys
        ]
        self.now, self.rng = 0.0, random.Random(seed)
        self.nodes: dict[int, Node] = {}
        self.kept: dict[int, tuple[Memory, dict[Any, bytes]]] = {}
        self.outbox: dict[int, dict[Any, bytes]] = {i: {} for i in range(network.n)}
        self.sent: dict[tuple[int, int, int, int], set[bytes]] = {}
        self.values: dict[tuple[int, int, int], bytes] = {}
        self.notes: dict[int, list[notes.AnyNote]] = {i: [] for i in range(network.n)}
        self.done: dict[int, str] = {}
        self.refused: list[str] = []
        self.queue: list[tuple[int, int, bytes]] = []

    def start(self, i: int) -> None:
        memory, self.outbox[i] = self.kept.get(i, (None, {}))
        self.outbox[i] = dict(self.outbox[i])
        node = Node(self.network, i, budget=self.budgets[i], opening=self.openings[i], memory=memory)
        self.nodes[i] = node
        self.carry(i, node.started(self.now))
        for j in self.network.neighbours(i):
            if j in self.nodes:
                self.carry(i, node.found(self.now, j))
                self.carry(j, self.nodes[j].found(self.now, i))
                self.resend(i, j)
                self.resend(j, i)

    def kill(self, i: int) -> None:
        del self.nodes[i]
        self.queue = [each for each in self.queue if each[0] != i and each[1] != i]
        for j in self.network.neighbours(i):
            if j in self.nodes:
                self.carry(j, self.nodes[j].lost(self.now, i))

    def resend(self, i: int, j: int) -> None:
        self.queue += [(i, j, wire) for (to, *_), wire in self.outbox[i].items() if to == j]

    def carry(self, i: int, actions: Actions) -> None:
        wires = []
        for action in actions:
            if isinstance(action, Post):
                wire = self.offices[i].sealed(
                    action.receiver, action.kind, action.round, action.exchange, action.body
                )
                if action.lasting:
                    self.outbox[i][(action.receiver, action.round, action.exchange)] = wire
                    self.sent.setdefault((i, action.receiver, action.round, action.exchange), set()).add(
                        action.body
                    )
                    self.values[(i, action.round, action.exchange)] = action.body
                wires.append((i, action.receiver, wire))
        for action in actions:
            match action:
                case Keep():
                    node = self.nodes[i]
                    self.kept[i] = (node.memory(), dict(self.outbox[i]))
                    self.notes[i] += [note for note in node.notes if note.number > len(self.notes[i])]
                    node.notes = []
                case Settle():
                    self.outbox[i].pop((action.receiver, action.round, action.exchange), None)
                case Done():
                    self.done[i] = action.reason
        self.queue += wires
        for action in actions:
            if isinstance(action, Ask) and i in self.nodes:
                contribution, noise = self.asked(i, action.round, action.model)
                self.carry(i, self.nodes[i].given(self.now, contribution, noise))

    def event(self) -> None:
        """One letter arrives, or, if none is under way, a tenth of a second goes by."""
        if not self.queue:
            self.now += 0.1
            for i in list(self.nodes):
                self.carry(i, self.nodes[i].ticked(self.now))
            return
        i, j, wire = self.queue.pop(0)
        if j in self.nodes:
            try:
                letter = self.offices[j].opened(i, wire)
                self.carry(j, self.nodes[j].received(self.now, letter))
            except Refused as error:
                self.refused.append(str(error))

    def run(self, chaos: Callable[[], None] = lambda: None, until: float = 100.0) -> None:
        """Until all nodes that live have ended."""
        while not set(self.nodes) <= set(self.done):
            assert self.now < until, "a node hangs"
            self.event()
            chaos()
        while self.queue:
            self.event()
