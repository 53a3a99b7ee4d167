# SPDX-License-Identifier: Apache-2.0
"""What a node gave away in a run that happened, observer by observer, from its history.

A round is accounted for in one of three ways, all of which may stand in one run, as their squares add up:

    seen      1            every message counts as seen: rows are not known, or nothing hides the target
    alone     Δ² of twins  what is unseen moves nobody's input, so that the round leaves nothing to the next
    together  Δ²           the rounds from one on to the last of the run, as one schedule of weights

The last begins where no earlier round has left anything, and may leave its own end unpaid, for nothing follows it.
Guarantee: upper bounds, if hidden nodes follow the program and who drops out when does not depend on their data.
Source: docs/proofs/transcripts.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce import gaussian
from sottovoce.certificates import ShiftProof
from sottovoce.errors import NotCertified
from sottovoce.graphs import GossipWeights, is_symmetric, quotients
from sottovoce.peers.grid import RoundSight, schedule_excess
from sottovoce.peers.history import RunHistory
from sottovoce.peers.rounding import few_above
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip
from sottovoce.rounding import TINY
from sottovoce.sensitivities import certify
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.certificates import Certificate
    from sottovoce.peers.history import Row
    from sottovoce.peers.network import Network

__all__ = [
    "CertifiedRounds",
    "Cost",
    "Layout",
    "Spent",
    "costs_of",
    "layout_of",
    "observers_of",
    "round_mu",
    "spent",
    "stands_alone",
    "together",
    "total",
]

_UNMOVED = frozenset({"cap", "twins"})
"""Proofs of a round in which nobody's input moves, whatever the maps: such rounds may follow each other."""

MOST_COALITIONS = 100
"""More coalitions than these are not looked at one by one: whoever reads every message bounds them."""

MOST_PARTS = 64
"""Rounds with the weights of more kinds than these count as seen: a certificate each would take too long."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CertifiedRounds:
    """Rounds that one certificate speaks of: the protocol that they were, and what was seen of each."""

    protocol: Protocol
    rounds: tuple[int, ...]
    sights: tuple[RoundSight, ...]
    together: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The rounds in which a node sent, laid out for one set of observers; `seen` are in no part."""

    network: Network
    me: int
    observers: tuple[int, ...]
    seen: int
    parts: tuple[CertifiedRounds, ...] = ()

    @property
    def view(self) -> View:
        """What the observers see in each part."""
        names = tuple(self.network.names[i] for i in self.observers)
        return View.secure_sum(names[0]) if len(names) == 1 else View.coalition_sums(names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spent:
    """What observers know of a node: `squared` is Δ² at most, `certificates` prove all of it but for `seen` rounds."""

    observers: tuple[int, ...]
    seen: int
    squared: float
    mu: float
    epsilon: float
    together: bool = False
    certificates: tuple[Certificate, ...] = ()


def spent(history: RunHistory, me: int, observers: tuple[int, ...], *, delta: float) -> Spent:
    """What observers who pool what they hold know of a node at most; without any, whoever reads every message.

    Two ways of accounting for the same rounds are tried, each round for itself and the longest end as one schedule;
    each of them holds, and the smaller is what is said.

    Guarantee: an upper bound of Δ², μ and ε, rounding and the grid included, for what the history says was sent.
    Source: docs/proofs/transcripts.md.
    """
    layouts = [layout_of(history, me, observers, together=together) for together in (False, True)]
    found = [_proved(layout, delta) for layout in layouts[: 1 + bool(layouts[1].parts)]]
    return min(found, key=lambda each: each.mu)


def _proved(layout: Layout, delta: float) -> Spent:
    """The account of a layout, with certificates of its parts as far as they say less than that all was seen."""
    made: list[Certificate] = []
    target = layout.network.names[layout.me]

    def proof(part: CertifiedRounds) -> float | None:
        try:
            certificate = certify(part.protocol, layout.view, target)
        except NotCertified:
            return None
        if not (part.together or stands_alone(certificate)):
            return None
        if certificate.squared_upper < len(part.rounds):
            made.append(certificate)
        return certificate.squared_upper

    found = total(layout, proof, delta)
    return replace(found, certificates=tuple(made))


def stands_alone(certificate: Certificate) -> bool:
    """Whether a proof moves nobody's input, so that it may stand for rounds with others between and after them.

    Guarantee: True only for proofs whose bound holds whatever comes between and after the rounds.
    """
    return isinstance(certificate.proof, ShiftProof) and certificate.proof.method in _UNMOVED


def total(layout: Layout, proof: Callable[[CertifiedRounds], float | None], delta: float) -> Spent:
    """Everything together: Δ² of the parts, by what proves it, rounds that count as seen, and what the grid adds.

    Guarantee: an upper bound if every number of `proof` is one of its part: Δ² of rounds that stand alone, or of a
    schedule, add up, a round that counts as seen adds 1, and sums are raised by more than their rounding.
    Source: docs/proofs/transcripts.md, "Rounds that add up".
    """
    network = layout.network
    squares, sights, seen = [], list[RoundSight | None](), layout.seen
    for part in layout.parts:
        found = proof(part)
        if found is None or found >= len(part.rounds):
            seen += len(part.rounds)
            continue
        squares.append(found)
        # Rounds that stand alone leave nothing to each other, in whatever order.
        sights += part.sights
    squared = few_above(math.fsum([*squares, seen]))
    excess = schedule_excess(
        [*[None] * seen, *sights], denominator=network.denominator, dimension=network.dimension
    )
    mu = round_mu(network, squared, excess)
    return Spent(
        observers=layout.observers,
        seen=seen,
        squared=squared,
        mu=mu,
        epsilon=float(gaussian.epsilon(mu, delta)) if mu else 0.0,
        together=any(part.together for part in layout.parts),
    )


def round_mu(network: Network, squared: float, excess: float) -> float:
    """μ of Δ² and of what the grid adds, in its units.

        μ = factor·√Δ²/noise_multiplier + what the grid adds

    Guarantee: an upper bound if both numbers are, rounding included.
    Source: docs/proofs/peers.md, "A few roundings".
    """
    factor = 2 if network.settings.relation == "replace-one" else 1
    mu = factor * math.sqrt(squared) / network.settings.noise_multiplier + network.grid_mu(excess)
    return few_above(mu)


def together(mu: float, earlier: float) -> float:
    """μ of a run and of those before it, the sum of whose squares is `earlier`, rounded up.

        μ = √(μ₁² + earlier)

    Guarantee: an upper bound if both numbers are, rounding included.
    Source: Dong, Roth & Su 2022, Corollary 3.3; docs/proofs/peers.md, "A few roundings".
    """
    size = max(mu, TINY) if mu else 0.0
    return few_above(math.sqrt(size * size + earlier))


def layout_of(history: RunHistory, me: int, observers: tuple[int, ...], *, together: bool) -> Layout:
    """How the rounds of a node are accounted for; `together` asks for the longest end that is known as one schedule.

    Guarantee: every round that the node sent in is in one part or counts as seen; no round is in two.
    Source: docs/proofs/transcripts.md, "Rounds that add up".
    """
    network = history.network
    if not network.ported:
        raise NotCertified(
            f"runs are certified in which noise enters beside each contribution, so that a round that is seen costs 1; "
            f"this one ran {network.protocol.name!r} (its ledger holds for whoever reads every message)"
        )
    sent = tuple(t for t in range(network.settings.rounds) if (t, me) in history.sent)
    layout = Layout(network=network, me=me, observers=observers, seen=len(sent))
    if not observers or not _hides(network, observers):
        return layout
    found = _Rounds(history, me, observers)
    first = found.first if together else network.settings.rounds
    groups: dict[str, list[int]] = {}
    for t in sent:
        if t < first and t in found.rows:
            groups.setdefault(found.shown(t).hash, []).append(t)
    often = sorted(groups.values(), key=len, reverse=True)[:MOST_PARTS]
    parts = [found.alone(tuple(rounds)) for rounds in often]
    if first < network.settings.rounds:
        parts.append(found.end)
    return replace(layout, seen=len(sent) - sum(len(part.rounds) for part in parts), parts=tuple(parts))


def observers_of(network: Network, me: int, size: int) -> list[tuple[int, ...]]:
    """Of whom is spoken: each neighbour, coalitions of a size unless they are too many, whoever reads every message."""
    others = [i for i in range(network.n) if i != me]
    groups: list[tuple[int, ...]] = []
    if 1 < size <= len(others) and math.comb(len(others), size) <= MOST_COALITIONS:
        groups = list(itertools.combinations(others, size))
    return [*((i,) for i in network.neighbours(me)), *groups, ()]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cost:
    """What a round in which all went as agreed costs a node: Δ² at most, and 1 in every other round."""

    network: Network
    observers: tuple[int, ...]
    squared: float
    sight: RoundSight
    earlier: float = 0.0
    """Σ μ² of the node's earlier runs."""

    def epsilon(self, clean: int, sent: int, delta: float) -> float:
        """ε after `sent` rounds, `clean` of which went as agreed; the others count as seen.

        Guarantee: an upper bound, rounding, the grid and earlier runs included, if at least `clean` rounds went as
        agreed.
        """
        one, seen = self._excesses
        squared = few_above(clean * self.squared + (sent - clean))
        excess = few_above(math.sqrt(clean * one**2 + (sent - clean) * seen**2))
        mu = together(round_mu(self.network, squared, excess), self.earlier)
        return float(gaussian.epsilon(mu, delta)) if mu else 0.0

    @cached_property
    def _excesses(self) -> tuple[float, float]:
        """What the grid adds in a round that went as agreed, and in one that counts as seen."""
        words = {"denominator": self.network.denominator, "dimension": self.network.dimension}
        return schedule_excess([self.sight], **words), schedule_excess([None], **words)


def costs_of(network: Network, me: int, size: int) -> Iterator[Cost]:
    """The costs of a round, for each neighbour and, from two on, each coalition of a size; none if they are too many.

    Only where every node hears from every other does a node know how all of them closed a round; elsewhere nothing is
    less than what whoever reads every message has.

    Guarantee: `squared` of each is an upper bound of what a round adds that went as agreed; 1, where nothing hides
    the node.
    """
    everybody = len(network.neighbours(me)) == network.n - 1
    many = size > 1 and math.comb(network.n - 1, size) > MOST_COALITIONS
    if not network.protocol.plain or many or not everybody:
        return
    planned = [RunHistory(network=network, authors=frozenset()).planned(i) for i in range(network.n)]
    protocol = gossip(_weights(planned, network), rounds=1, updates="any")
    for observers in observers_of(network, me, size)[:-1]:
        sight = _sight(planned, observers, None)
        squared = 1.0
        if _hides(network, observers):
            part = CertifiedRounds(protocol=protocol, rounds=(0,), sights=(sight,))
            layout = Layout(network=network, me=me, observers=observers, seen=0, parts=(part,))
            squared = _proved(layout, network.settings.delta).squared
        yield Cost(network=network, observers=observers, squared=squared, sight=sight)


def _hides(network: Network, observers: tuple[int, ...]) -> bool:
    """Whether observers see sums: masks are there, enough senders are not among them, and nobody sends in the clear."""
    single = any(len(network.senders(i)) == 1 for i in observers)
    masked = network.settings.sums == "masked" and network.protocol.plain
    return masked and not single and not network.unmasks(observers)


class _Rounds:
    """The rounds of a history as weights, for one set of observers."""

    def __init__(self, history: RunHistory, me: int, observers: tuple[int, ...]) -> None:
        self.history, self.network, self.me, self.observers = history, history.network, me, observers
        self.rows: dict[int, list[Row]] = {}
        self._made: dict[str, GossipWeights] = {}
        # From the end: who never sends again need not say what it received. That it does not, it says itself, or all
        # later rounds are known.
        sure, later = me in history.finished, set[int]()
        for t in reversed(range(self.network.settings.rounds)):
            found = self._known(t, sure, later)
            if found is not None:
                self.rows[t] = found
            sure = sure and found is not None
            later |= history.acting(t)

    def _known(self, t: int, sure: bool, later: set[int]) -> list[Row] | None:
        found = []
        for i in range(self.network.n):
            row = self.history.row(t, i, observers=self.observers)
            ended = i not in later and (sure or i in self.history.ended)
            if row is None and ended and i not in self.observers:
                # What is received in the last round nobody hears of.
                last = t + 1 == self.network.settings.rounds
                row = self.history.planned(i) if last else {i: self.network.denominator}
            if row is None:
                return None
            found.append(row)
        return found

    def weights(self, t: int) -> GossipWeights:
        """The weights that really were."""
        return self._weights(self.rows[t])

    def shown(self, t: int) -> GossipWeights:
        """The weights of a round that is to stand alone."""
        return self._weights(self._shown(t))

    def _shown(self, t: int) -> list[Row]:
        """What really was; observers who received nothing of hidden nodes count as if they had what the target had.

        Nobody's input moves in a round alone, the target's neither, so that to show it costs nothing.
        """
        rows, observers = self.rows[t], self.observers
        if any(j not in observers for i in observers for j in rows[i]):
            return rows
        return [rows[self.me] if i == observers[0] else row for i, row in enumerate(rows)]

    def _weights(self, rows: list[Row]) -> GossipWeights:
        key = str(rows)
        if key not in self._made:
            self._made[key] = _weights(rows, self.network)
        return self._made[key]

    def alone(self, rounds: tuple[int, ...]) -> CertifiedRounds:
        """Rounds with the same weights, each for itself, whatever nodes make of what they received."""
        protocol = gossip(self.shown(rounds[0]), rounds=len(rounds), updates="any")
        sights = tuple(self._sight(t, self._shown(t), None) for t in rounds)
        return CertifiedRounds(protocol=protocol, rounds=rounds, sights=sights)

    @cached_property
    def first(self) -> int:
        """The first round of the longest end that is accounted for together; the count of rounds if there is none."""
        rounds = self.network.settings.rounds
        if self.me not in self.history.finished:
            return rounds
        first = rounds
        while first and first - 1 in self.rows and self._fits(first - 1):
            first -= 1
        return first

    def _fits(self, t: int) -> bool:
        """Whether a round may be one of several together: all of them where losses are quadratic, or as agreed on."""
        return self.network.exposure.state_free or self._undisturbed(t)

    def _undisturbed(self, t: int) -> bool:
        agreed = all(
            self.rows[t][i] == self.history.planned(i)
            for i in range(self.network.n)
            if t + 1 < self.network.settings.rounds or i in self.observers
        )
        return agreed and len(self.history.acting(t)) == self.network.n

    @property
    def end(self) -> CertifiedRounds:
        """The rounds from the first one on as one schedule."""
        network, first = self.network, self.first
        rounds = tuple(range(first, network.settings.rounds))
        if network.exposure.state_free:
            protocol = self._schedule(rounds)
        else:
            hull = network.exposure.reaction.hull(first, network.settings.rounds)
            planned = network.protocol.schedule[0]
            protocol = gossip(planned, rounds=len(rounds), updates="any" if hull is None else hull)
        sights = tuple(self._sight(t, self.rows[t], network.lipschitz) for t in rounds)
        counted = tuple(t for t in rounds if (t, self.me) in self.history.sent)
        return CertifiedRounds(protocol=protocol, rounds=counted, sights=sights, together=True)

    def _schedule(self, rounds: tuple[int, ...]) -> Protocol:
        """The loop that quadratic losses closed, with the weights that were; who did not send drew nothing."""
        programs = tuple(self._program(t, first=t == rounds[0]) for t in rounds)
        weights = tuple(self.weights(t) for t in rounds)
        even = len({each.hash for each in weights}) == 1 and len({str(each) for each in programs[1:]}) <= 1
        if even and str(programs[0]) == str(programs[-1]):
            return Protocol(weights=weights[0], program=programs[0], rounds=len(rounds), name="gossip")
        return Protocol(weights=weights, program=programs, rounds=len(rounds), name="gossip as it was")

    def _program(self, t: int, *, first: bool) -> Program:
        network, acting = self.network, self.history.acting(t)
        there = tuple(int(i in acting) for i in range(network.n))
        exposure = network.exposure
        ratio = 1.0 if first or t == 0 else float(exposure.steps[t - 1] / exposure.steps[t])
        damped = np.broadcast_to(exposure.damping[t], network.n).tolist()
        kept = tuple(ratio * damping if here else ratio for damping, here in zip(damped, there, strict=True))
        return Program(
            keeps=("model",),
            draws=(Draw("u", level=_even(there)),),
            instructions=(
                Combine("message", {"model": _even(kept), "contribution": _even(there), "u": 1}),
                Exchange("message", "model"),
            ),
        )

    def _sight(self, t: int, rows: list[Row], lipschitz: float | None) -> RoundSight:
        idle = not self.history.acting(t) >= set(range(self.network.n)) - set(self.observers)
        return replace(_sight(rows, self.observers, lipschitz), idle=idle)


def _sight(rows: list[Row], observers: tuple[int, ...], lipschitz: float | None) -> RoundSight:
    """What observers see of the hidden nodes, and these of each other."""
    hidden = [i for i in range(len(rows)) if i not in observers]
    seen, mixing = (
        tuple(tuple(rows[i].get(j, 0) for j in hidden) for i in nodes) for nodes in (observers, hidden)
    )
    # Over the least sum of a row the weights are larger than they were, and so is what they stretch.
    least = min(sum(rows[i].values()) for i in hidden)
    return RoundSight(rows=seen, mixing=mixing, lipschitz=lipschitz, denominator=least)


def _even(values: tuple[float, ...]) -> float | tuple[float, ...]:
    """One number where all nodes have the same."""
    return values[0] if len(set(values)) == 1 else values


def _weights(rows: list[Row], network: Network) -> GossipWeights:
    """Rows of whole numbers as weights, in rationals; they need not connect all nodes."""
    n = network.n
    sums = [sum(row.values()) for row in rows]
    entries = [(i, j, value, sums[i]) for i, row in enumerate(rows) for j, value in sorted(row.items())]
    i, j, value, total = (np.array(column, dtype=np.int64) for column in zip(*entries, strict=True))
    matrix = sparse.csr_array((value / total, (i, j)), shape=(n, n))
    off = i != j
    return GossipWeights(
        matrix=matrix,
        labels=network.names,
        rule="as it was",
        symmetric=is_symmetric(matrix),
        quotients=quotients(value[off], total[off]),
    )
