# SPDX-License-Identifier: Apache-2.0
"""What a node writes down of what a run costs it: in the file of all its runs, the ledger, and the certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sottovoce.peers.earlier import EarlierRun, Known
from sottovoce.peers.outcomes import KnownBy
from sottovoce.peers.policy import epsilon_of
from sottovoce.peers.proofs import certify_run, made_before, write_run
from sottovoce.peers.spending import together
from sottovoce.peers.transcript import Ledger

if TYPE_CHECKING:
    from sottovoce.peers.earlier import Earlier
    from sottovoce.peers.network import Network
    from sottovoce.peers.node import Node
    from sottovoce.peers.policy import Budget
    from sottovoce.peers.sites import Site
    from sottovoce.peers.transcript import Lines

__all__ = ["Books"]


class Books:
    """The books of one node in one run; what stands in them is not written a second time."""

    def __init__(
        self,
        network: Network,
        site: Site,
        budget: Budget,
        earlier: Earlier,
        written: EarlierRun | None,
        spent: Lines | None,
    ) -> None:
        """`written` is what stands of this run in the file of `spent` lines; `earlier` are the other runs in it."""
        self.network, self.site, self.budget, self.earlier = network, site, budget, earlier
        self.written, self._spent = written, spent
        self._ledger = Ledger(site.folder)

    def spend(self, sent: int, known: tuple[Known, ...] = ()) -> None:
        """Write down what this run has cost so far, before anything of it is sent."""
        last = 0 if self.written is None else self.written.sent
        if self._spent is None or (sent <= last and not known):
            return
        settings = self.network.settings
        line = EarlierRun(
            run=self.network.run_name.hex(),
            unit=settings.unit,
            relation=settings.relation,
            sent=max(sent, last),
            mu=self.budget.mus[max(sent, last)],
            nodes=self.network.signing_keys(range(self.network.n)),
            known=known,
        )
        if line != self.written:
            self.written = line
            self._spent.add([msgspec.json.encode(line)])

    def round_over(self, node: Node) -> None:
        """Write down ε so far: of each neighbour and coalition, and of whoever reads every message."""
        if not node.sent:
            return
        common = {"round": node.round + 1, "sent": node.sent, "delta": self.budget.policy.delta}
        known = [("+".join(each.observers), each.epsilon) for each in self.known(node)]
        self._ledger.add(
            [
                common | {"observer": name, "epsilon": epsilon}
                for name, epsilon in [*known, ("everyone", self.budget.spent(node.sent))]
            ]
        )

    def known(self, node: Node) -> tuple[KnownBy, ...]:
        """ε so far of each neighbour and coalition, earlier runs included.

        What is not known yet to have gone as agreed counts as seen, so that no number is ever taken back.

        Guarantee: upper bounds, whatever others did and whatever comes.
        """
        names, certain = self.network.names, self.budget.spent(node.sent)
        found = tuple(
            KnownBy(observers=tuple(names[i] for i in cost.observers), epsilon=min(epsilon, certain))
            for cost, epsilon in self.budget.known(node.clean, node.sent)
        )
        return found or tuple(
            KnownBy(observers=(names[i],), epsilon=certain) for i in self.network.neighbours(node.me)
        )

    def certify(self, node: Node) -> tuple[KnownBy, ...]:
        """Write what each observer knows of the node after the run, with what proves it; ε, earlier runs included.

        Guarantee: upper bounds, if the certificate holds, and the numbers in the file of earlier runs do.
        """
        policy, folder, name = self.budget.policy, self.site.folder, self.network.names[node.me]
        transcript, path = folder / "transcript.jsonl", folder / "certificate.json"
        made = made_before(self.network, path, transcript, delta=policy.delta, size=policy.size)
        if made is None:
            made = certify_run(
                self.network,
                self.site.identity,
                {name: transcript},
                delta=policy.delta,
                size=policy.size,
                checked=True,
            )
            write_run(made, path)
        found, keys_of = [], self.network.signing_keys
        pools = [
            (each, keys_of(map(self.network.index, each.observers))) for each in made.known if each.observers
        ]
        if self.written is not None and self.written.sent == made.sent:
            self.spend(made.sent, tuple(Known(keys=keys, mu=each.mu) for each, keys in pools))
        certain = self.budget.spent(node.sent)
        for each, keys in pools:
            before = self.earlier.squared(keys)
            epsilon = epsilon_of(together(each.mu, before), policy.delta) if before else each.epsilon
            found.append(KnownBy(observers=tuple(each.observers), epsilon=min(epsilon, certain)))
        return tuple(found)
