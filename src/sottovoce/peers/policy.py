# SPDX-License-Identifier: Apache-2.0
"""What others will know of a node after a run, from public numbers alone, held against the node's own policy.

A neighbour sees the messages that it receives, or their sum where sums are masked. A coalition pools that. Whoever
reads every message, a wire-tapper who holds all keys, sees local DP. None of it needs data or a connection.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import msgspec

from sottovoce import gaussian
from sottovoce.errors import FileError, InputError, positive, probability
from sottovoce.forms import Form, read_form
from sottovoce.interval import Interval
from sottovoce.peers.earlier import NOTHING, Earlier
from sottovoce.peers.network import read_table
from sottovoce.peers.spending import Cost, costs_of, round_mu, together
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from sottovoce.learning import Plan
    from sottovoce.peers.network import Network

__all__ = ["Budget", "Knowledge", "Policy", "Seen", "epsilon_of", "known_after", "read_policy"]

MOST_COALITIONS = 300
"""More coalitions than these are not looked at one by one: they are bounded by whoever reads every message."""


_LOOKS = 8


class Policy(Form, frozen=True, kw_only=True):
    """The most ε that a node lets others have after a run: one other node, a coalition of `size`, all messages."""

    delta: float = 1e-5
    node: float = math.inf
    coalition: float = math.inf
    size: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    everyone: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one observer, or one coalition, knows at most: an upper bound of ε with its method and its assumption."""

    kind: str
    who: tuple[str, ...]
    sees: str
    epsilon: float
    method: str
    assumption: str
    neighbour: bool = False


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What others know of node `me` at most after `rounds` rounds of a network, at `delta`."""

    me: str
    rounds: int
    delta: float
    nodes: tuple[Seen, ...]
    coalition: Seen | None
    everyone: Seen

    def above(self, policy: Policy) -> list[tuple[Seen, float]]:
        """Who would know more than the policy allows, with what it allows."""
        found = [(seen, policy.node) for seen in self.nodes]
        if self.coalition is not None:
            found.append((self.coalition, policy.coalition))
        found.append((self.everyone, policy.everyone))
        return [(seen, most) for seen, most in found if not seen.epsilon <= most]


def read_policy(path: Path) -> Policy:
    """The policy in a TOML file, checked."""
    data = read_table(path)
    try:
        policy = read_form(data, Policy, "a policy")
        probability(delta=policy.delta)
        for name in ("node", "coalition", "everyone"):
            value = getattr(policy, name)
            if not math.isinf(value):
                positive(**{name: value})
    except InputError as error:
        raise FileError(f"{path}: {error}") from None
    return policy


def known_after(
    network: Network,
    me: str,
    *,
    rounds: int | None = None,
    delta: float | None = None,
    size: int | None = None,
    observers: Iterable[int] | None = None,
    earlier: Earlier = NOTHING,
    progress: Callable[[int, int], None] | None = None,
) -> Knowledge:
    """What each other node, the worst coalition of `size`, and whoever reads every message know of `me` at most.

    What `earlier` runs of the node gave away is in every number.

    Guarantee: upper bounds for the loop that nodes run, under the assumption that each names, if the run goes as it was
    agreed on: nobody drops out.
    """
    target = network.index(me)
    count = network.settings.rounds if rounds is None else rounds
    level = network.settings.delta if delta is None else delta
    asked = _Question(network=network, target=target, rounds=count, delta=level, earlier=earlier)
    others = [i for i in (range(network.n) if observers is None else observers) if i != target]
    groups = [] if size is None else _coalitions(network, target, size)
    total, done = len(others) + len(groups), itertools.count(1)

    def seen(kind: str, members: tuple[int, ...]) -> Seen:
        found = asked.seen(kind, members)
        if progress is not None:
            progress(next(done), total)
        return found

    everyone = asked.everyone()
    nodes = tuple(_capped(seen("node", (i,)), everyone) for i in others)
    coalition = None
    if size is not None:
        pooled = [_capped(seen("coalition", group), everyone) for group in groups]
        bound = replace(everyone, kind="coalition", who=(f"any {size} nodes",))
        coalition = max(pooled, key=lambda one: one.epsilon) if pooled else bound
    return Knowledge(me=me, rounds=count, delta=level, nodes=nodes, coalition=coalition, everyone=everyone)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """In how many rounds a policy lets a node send, and what is known after each: all found before the first.

    `planned` is what others know after the rounds that the policy allows if nobody drops out; None where it says
    nothing of single nodes. `mus` are μ of whoever reads every message of this run after 0, 1, 2, … of them, and
    `certain` is ε of that and of earlier runs together, whatever others do.
    `costs` are what one round in which all went as agreed costs, observer by observer.
    """

    policy: Policy
    planned: Knowledge | None
    mus: tuple[float, ...]
    certain: tuple[float, ...]
    costs: tuple[Cost, ...] = ()

    @classmethod
    def of(cls, network: Network, me: str, policy: Policy, earlier: Earlier = NOTHING) -> Budget:
        """The budget of a node in a network, after what it spent in earlier runs."""
        rounds = network.settings.rounds
        mus, before = cls.mus_of(network), earlier.squared(None)
        certain = tuple(epsilon_of(together(mu, before), policy.delta) for mu in mus)
        pooled = policy.size if policy.coalition < math.inf else 1
        costs = tuple(
            replace(cost, earlier=earlier.squared(network.signing_keys(cost.observers)))
            for cost in costs_of(network, network.index(me), pooled)
        )
        found = cls(policy=policy, planned=None, mus=mus, certain=certain, costs=costs)
        if math.isinf(min(policy.node, policy.coalition)):
            return found
        size = None if math.isinf(policy.coalition) else policy.size

        def known(count: int) -> Knowledge:
            return known_after(network, me, rounds=count, delta=policy.delta, size=size, earlier=earlier)

        # What nobody can take away is where the search begins.
        low = max((count for count in range(rounds + 1) if certain[count] <= found.least), default=0)
        best, high = known(rounds), rounds
        if not best.above(policy):
            return replace(found, planned=best)
        kept = None
        while high - low > 1:
            middle = (low + high) // 2
            best = known(middle)
            low, high, kept = (middle, high, best) if not best.above(policy) else (low, middle, kept)
        return replace(found, planned=kept)

    @staticmethod
    def mus_of(network: Network) -> tuple[float, ...]:
        """μ of whoever reads every message of a run after 0, 1, 2, … rounds in which a node sent.

        Guarantee: upper bounds, whatever others do, if noise is as the network says.
        """
        return tuple(_mus(network))

    @property
    def least(self) -> float:
        """The smallest ε that the policy allows to anybody."""
        return min(self.policy.node, self.policy.coalition, self.policy.everyone)

    def spent(self, sent: int) -> float:
        """ε of whoever reads every message after so many rounds in which the node sent."""
        return self.certain[sent]

    def known(self, clean: int, sent: int) -> list[tuple[Cost, float]]:
        """ε of each observer after `sent` rounds, in `clean` of which all is known to have gone as agreed.

        Guarantee: holds whatever others did in the other rounds, and whatever comes.
        """
        return [(cost, cost.epsilon(clean, sent, self.policy.delta)) for cost in self.costs]

    def allows(self, sent: int, *, deviated: bool, clean: int = 0) -> bool:
        """Whether a node may send in one more round after `sent`, in `clean` of which all went as agreed.

        Once a run has deviated from what was agreed on, nothing is presumed of what others do with messages: rounds
        that are not known to have gone as agreed, and the one to come, count as if every message were seen.
        """
        following = sent + 1
        if following >= len(self.certain) or self.certain[following] > self.policy.everyone:
            return False
        if self.certain[following] <= self.least:
            return True
        if not deviated and self.planned is not None:
            return following <= self.planned.rounds
        # Who knows too much for a coalition knows too much alone.
        limits = {False: min(self.policy.node, self.policy.coalition), True: self.policy.coalition}
        return bool(self.costs) and all(
            epsilon <= limits[len(cost.observers) > 1] for cost, epsilon in self.known(clean, following)
        )


def _mus(network: Network) -> Iterator[float]:
    """μ of whoever reads every message of this run after 0, 1, 2, … rounds: of ported programs all cost the same.

    Others, which take their time, are looked at after a few counts of rounds alone, and the rest rounded up to them.
    """
    rounds = network.settings.rounds
    yield 0.0
    if network.ported:
        for count in range(1, rounds + 1):
            yield math.nextafter(round_mu(network, count, network.local_excess(count)), math.inf)
        return
    whole = network.plan("everyone")
    words = {"noise_multiplier": whole.noise_multiplier, "delta": network.settings.delta}
    share = max(1, rounds // _LOOKS)
    for first in range(0, rounds, share):
        last = min(rounds, first + share)
        yield from [float(whole.exposure.everyone(**words, rounds=last).mu.upper)] * (last - first)


def epsilon_of(mu: float, delta: float) -> float:
    """ε at δ of what is μ-Gaussian-private.

    Guarantee: an upper bound, as `sottovoce.gaussian.epsilon` is.
    """
    return float(gaussian.epsilon(mu, delta)) if mu else 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question:
    """What is asked about a node: what others know of it after so many rounds, at δ, and after its earlier runs."""

    network: Network
    target: int
    rounds: int
    delta: float
    earlier: Earlier

    def everyone(self) -> Seen:
        """What whoever reads every message knows."""
        whole = self.network.plan("everyone", rounds=self.rounds, delta=self.delta)
        return self._row(whole, "everyone", (), "all messages")

    def seen(self, kind: str, members: tuple[int, ...]) -> Seen:
        """What one node or coalition sees, by the masks that there are."""
        network = self.network
        names = tuple(network.names[i] for i in members)
        masked = network.settings.sums == "masked" and not network.unmasks(members)
        view = View.coalition_sums(names) if masked else View.coalition_messages(names)
        if len(names) == 1:
            view = View.secure_sum(names[0]) if masked else View.neighbourhood(names[0])
        # On a grid other programs than gossip have a proof for whoever reads every message, and nobody reads more.
        sums_proved = network.protocol.plain or network.settings.sums == "plain"
        plan = network.plan(view if sums_proved else "everyone", rounds=self.rounds, delta=self.delta)
        return self._row(plan, kind, members, "sums" if masked else "messages")

    def _row(self, plan: Plan, kind: str, members: tuple[int, ...], sees: str) -> Seen:
        """The row of the target in the table of a view."""
        network = self.network
        account = plan.table.about(network.names[self.target])
        # On the grid the difference of two worlds is longer by what rounding adds.
        if members and network.protocol.plain:
            on_grid = network.settings.sums == "masked"
            excess = network.grid_excess(members, sums=sees == "sums") if on_grid else 0.0
        else:
            excess = network.local_excess(plan.protocol.rounds)
        more = network.grid_mu(excess)
        upper = account.mu.upper
        if more:
            # The proof of other programs than gossip spends a whole round, also where the real view would cost less.
            least = 0.0 if network.protocol.plain else round_mu(network, plan.protocol.rounds, excess)
            upper = max(math.nextafter(upper + more, math.inf), least)
        before = self.earlier.squared(network.signing_keys(members) if members else None)
        if more or before:
            account = replace(account, mu=Interval(account.mu.lower, together(upper, before)))
        return Seen(
            kind=kind,
            who=tuple(network.names[i] for i in members),
            sees=sees,
            epsilon=float(account.epsilon().upper),
            method=account.method,
            assumption=account.assumption,
            neighbour=len(members) == 1 and members[0] in network.neighbours(self.target),
        )


def _capped(seen: Seen, everyone: Seen) -> Seen:
    """Nobody knows more than whoever reads every message."""
    if seen.epsilon <= everyone.epsilon:
        return seen
    return replace(seen, epsilon=everyone.epsilon, method=everyone.method, assumption=everyone.assumption)


def _coalitions(network: Network, target: int, size: int) -> list[tuple[int, ...]]:
    """All coalitions of a size without the target; none if they are too many to look at."""
    others = [i for i in range(network.n) if i != target]
    if size > len(others):
        raise InputError(
            f"a coalition of {size} needs as many nodes besides the target; there are {len(others)} (ask for fewer)"
        )
    return (
        list(itertools.combinations(others, size)) if math.comb(len(others), size) <= MOST_COALITIONS else []
    )
