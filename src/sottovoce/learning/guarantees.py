# SPDX-License-Identifier: Apache-2.0
"""What a training run gives away: the accounts of the loop that the trainer runs, with their assumption.

Other nodes' gradients carry on what a record has changed in the models. `table` holds whatever they carry on, if their
update maps lie in a known ball (`smooth`) or whatever they are (`none`). Quadratic losses close a linear loop, which is
computed as it is (`quadratic`). `averaging` takes it for granted that gradients carry nothing on (`hidden-state`): that
is the number of the literature, and no guarantee for training.

In both loops the public part h∘θ of the gradient damps what a node received, so that the transition is A = D W with
D = 1 − ηh, and steps that vary scale the rounds unlike each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np

from sottovoce.accounting import (
    AccountTable,
    SampledAccount,
    account,
    account_all,
    local_account,
    sampled_from,
    table_of,
)
from sottovoce.errors import InputError, NotCertified, ViewError, at_least, one_of, positive, probability
from sottovoce.learning.certified import SHORT, certified_table, depth_of, remembered
from sottovoce.learning.coins import Certified
from sottovoce.learning.descent import check_protocol
from sottovoce.learning.programs import heard, noised_at_once, stepped, unshared
from sottovoce.learning.reactions import Reaction
from sottovoce.participation import Participation
from sottovoce.protocols import Combine, Program, Protocol, gossip
from sottovoce.scenarios import Answer, Effort, Scenario
from sottovoce.views import ONE_OBSERVER, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.accounting import Account
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Contribution
    from sottovoce.scenarios import Depth

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Exposure", "check_question", "quadratic_damping"]


class _Words(TypedDict):
    noise_multiplier: float
    delta: float
    rounds: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Exposure(Answer):
    """Who sees what of a run, and how the run moves: enough to account for any number of its first rounds.

    `scenario` is what is asked about the run: its protocol, who sees what, what counts as a neighbour. `steps` are η_t,
    `damping` is 1 − η_t h for each round and node (T × n, or T × 1). `state_free` says that contributions do not depend
    on the models, `reaction` what is known of them where they do. `effort` is what may be spent on its accounts.
    """

    scenario: Scenario
    steps: Array
    damping: Array
    state_free: bool = False
    reaction: Reaction = field(default_factory=Reaction)
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self) -> None:
        """Refuse a view that is none, a protocol that training cannot run, and damping that is not between 0 and 1."""
        check_protocol(self.protocol)
        if isinstance(self.scenario.view, str) and self.scenario.observers is None:
            one_of(("everyone", *ONE_OBSERVER), view=self.scenario.view)
        if self.scenario.view_name == "custom":
            raise ViewError(
                "training is accounted for by named views, such as View.secure_sum(0); got a custom one "
                "(account for its protocol with `account` instead)"
            )
        if not ((self.damping >= 0) & (self.damping <= 1)).all():
            raise InputError("damping must lie between 0 and 1 (take a smaller step, or less regularisation)")
        if self.protocol.encoded and np.ptp(self.steps):
            raise InputError(
                "steps must be constant with an encoder, which takes back in a round what earlier ones have drawn; "
                f"they go from {self.steps.max():.4g} to {self.steps.min():.4g} (take one step size)"
            )

    @property
    def unconditional(self) -> bool:
        """Whether every message is seen, so that nothing is assumed about how contributions arise.

        Guarantee: exact: where it is True the assumption of the account is "none".
        """
        return self.scenario.view_name == "everyone"

    def certified(
        self,
        *,
        noise_multiplier: float,
        delta: float,
        rounds: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Certified:
        """What is certified for training, over the first `rounds` rounds or all of them, coins and all.

        Guarantee: as for `table` and, where records take part by coins, as for `sottovoce.accounting.sampled_from`:
        given all coins the run is one that the tables are about, with as many rounds as the coins of the record say.
        """
        words = _Words(noise_multiplier=noise_multiplier, delta=delta, rounds=rounds)
        whole = self.table(**words, progress=progress)
        if not self.by_coins:
            return Certified(table=whole)
        once = self._once.table(**words, progress=progress)
        return Certified(
            table=whole, sampled=self._sampled(whole, once, words), everyone=self._everyone_sampled(words)
        )

    def table(
        self,
        *,
        noise_multiplier: float,
        delta: float,
        rounds: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> AccountTable:
        """The accounts of all pairs over the first `rounds` rounds, or all of them, whichever records are drawn.

        Guarantee: upper ends hold for the loop that the trainer runs, under the assumption that the table names, and
        are at most those of the everyone view. Where records take part by coins, they may do so in every round.
        """
        if self.by_coins:
            words = _Words(noise_multiplier=noise_multiplier, delta=delta, rounds=rounds)
            return self._always.table(**words, progress=progress)
        protocol = self._first(rounds, noise_multiplier, delta)
        if self.unconditional:
            return self._trained(self._seen_by_all(protocol, noise_multiplier, delta))
        if self.state_free:
            found = self._linear(protocol, noise_multiplier, delta, progress)
            plain = bool((self._factors(protocol.rounds) == 1).all())
            return replace(found, assumption="oblivious" if plain else "quadratic")
        if not self.protocol.plain:
            asked = replace(self.scenario, protocol=protocol)
            seen = remembered(heard(asked, self.effort, progress), asked, self.reaction, progress)
            found = table_of(asked, seen, noise_multiplier=noise_multiplier, delta=delta)
            hidden = bool((found.method == "shift").any())
            return self._trained(replace(found, assumption="smooth" if hidden else "none"))
        # Of what is zeroed out the ball of training takes care; the accountant need not ask for the identity in it.
        relation = self.scenario.relation
        unzeroed = replace(self, scenario=replace(self.scenario, relation="add-remove"))
        return certified_table(
            protocol,
            self.scenario.views[0],
            self.reaction,
            relation,
            self.scenario.participation,
            lambda later: (unzeroed if relation == "zero-out" else self)._accounted(
                later, noise_multiplier, delta, progress, depth_of(self.effort, later.rounds)
            ),
        )

    def costs_alike(self, table: AccountTable) -> bool:
        """Whether Δ² of fewer rounds is in proportion to how often a record takes part in them, for all pairs.

        Caps, twins, one round of memory, steps that recur and the moves of a program cost the same in every round;
        steps of single rounds, which few rounds have, and what was computed for all rounds together do not.

        Guarantee: if so, the first t rounds have Δ² at most Δ²·count(t)/count(T).
        Source: Theorems 1 and 2 of docs/training.md with one κ.
        """
        if self.by_coins or self.unconditional or self.state_free or self.scenario.contribution == "energy":
            return False
        if not self.protocol.plain:
            return not np.ptp(self.steps) and bool((table.method == "shift").all())
        listed = self.scenario.participation.kind in {"full", "epochs", "at-most"}
        rounds = table.protocol.rounds
        # Who solves for each target may give each round a step of its own.
        together = rounds > SHORT and depth_of(self.effort, rounds) == "bulk"
        return listed and not self.reaction.varies and together

    def averaging(
        self,
        *,
        noise_multiplier: float,
        delta: float,
        rounds: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> AccountTable:
        """The pairs of `table` as if contributions were fixed in advance: averaging, assumption `hidden-state`.

        For plain gossip (constant steps, no damping) the tables are those of `account_all`. Otherwise the transition is
        D W; where D or the steps vary from round to round, each round is a program of its own.

        Guarantee: none for training. It holds for gradients that do not depend on models.
        """
        words = _Words(noise_multiplier=noise_multiplier, delta=delta, rounds=rounds)
        if self.by_coins:
            return self._always.averaging(**words, progress=progress)
        protocol = self._first(rounds, noise_multiplier, delta)
        if self.unconditional or self.state_free:
            return self.table(**words, progress=progress)
        return replace(self._linear(protocol, noise_multiplier, delta, progress), assumption="hidden-state")

    def _first(self, rounds: int | None, noise_multiplier: float, delta: float) -> Protocol:
        """The protocol of the first rounds, with its steps; settings that make no guarantee are refused.

        Plain gossip with steps that vary shows what it shows with each message divided by its step: see `_factors`.
        Who hears all of a program that noises contributions at once learns no more than plain gossip tells, whatever
        the steps; of other programs each round becomes one of its own.
        """
        positive(noise_multiplier=noise_multiplier)
        probability(delta=delta)
        count = self.protocol.rounds if rounds is None else rounds
        at_least(1, rounds=count)
        whole = replace(self.protocol, rounds=int(count))
        if whole.plain or not np.ptp(self.steps):
            return whole
        return (
            gossip(whole.schedule[0], rounds=whole.rounds)
            if noised_at_once(whole)
            else stepped(whole, self.steps)
        )

    def _seen_by_all(self, protocol: Protocol, noise: float, delta: float) -> AccountTable:
        """The view of everyone: messages tell every model, so gradients depend on what is seen and nothing else."""
        seen = replace(self.scenario.of(View.everyone), protocol=protocol)
        return self._told(
            replace(account(seen, noise_multiplier=noise, delta=delta, effort=self.effort), assumption="none")
        )

    def _told(self, found: AccountTable) -> AccountTable:
        """A table under the name of the program that is run, and not of one a round where steps vary."""
        if self.protocol.plain or not np.ptp(self.steps):
            return found
        named = replace(self.protocol, rounds=found.protocol.rounds)
        return replace(found, scenario=replace(found.scenario, protocol=named))

    def _trained(self, found: AccountTable) -> AccountTable:
        """A table of another program than gossip that says how its nodes update, as far as its bounds use that.

        Steps that vary have bounds of their own, which no certificate holds.
        """
        if self.protocol.plain or np.ptp(self.steps):
            return self._told(found)
        ball = self.reaction.hull(0, found.protocol.rounds) if found.assumption == "smooth" else None
        updates: Any = "any" if ball is None else ball
        trained = replace(found.protocol, updates=updates)
        return replace(found, scenario=replace(found.scenario, protocol=trained))

    def _linear(
        self, protocol: Protocol, noise: float, delta: float, progress: Callable[[int, int], None] | None
    ) -> AccountTable:
        """The loop s_t = D_t W s_{t−1} + x_t + u_t of contributions that are fixed in advance."""
        factors = self._factors(protocol.rounds)
        if not self.protocol.plain:
            loop = stepped(replace(self.protocol, rounds=protocol.rounds), self.steps, self.damping)
            return self._told(self._accounted(loop, noise, delta, progress))
        if (factors[1:] == factors[1:2]).all() and factors.max() <= 1:
            damping = np.broadcast_to(factors[-1], protocol.n) if protocol.rounds > 1 else None
            return self._accounted(
                gossip(protocol.weights, rounds=protocol.rounds, damping=damping), noise, delta, progress
            )
        return self._accounted(_moving(protocol, factors), noise, delta, progress)

    def averaged(self, *, noise_multiplier: float, delta: float) -> Account:
        """The worst pair of `averaging`, with the coins by which records take part.

        Guarantee: that of `averaging`; with coins ε and δ are upper bounds, those of `sampled_from`.
        """
        words = _Words(noise_multiplier=noise_multiplier, delta=delta, rounds=None)
        whole = self.averaging(**words)
        if not self.by_coins:
            return whole.worst()
        worst, once = whole.worst(), self._taking(contribution="energy").averaging(**words)
        return self._sampled(whole, once, words).account(observers=worst.observers, target=worst.target)

    def everyone(self, *, noise_multiplier: float, delta: float, rounds: int | None = None) -> Account:
        """What holds without any assumption: every message is seen, Δ² = T in plain gossip.

        Draws that two nodes share count as known: whoever shares one with the target may tell it. Coins by which
        records take part do not.

        Guarantee: exact there, whatever steps and damping, if for any fixed transcript contributions differ by at most
        the sensitivity, nodes mix their own noised message, and T, steps, noise and clip are public.
        """
        if self.by_coins:
            words = _Words(noise_multiplier=noise_multiplier, delta=delta, rounds=rounds)
            return self._everyone_sampled(words).account()
        protocol = self._first(rounds, noise_multiplier, delta)
        if protocol.plain:
            asked = replace(self.scenario, protocol=protocol)
            return local_account(asked, noise_multiplier=noise_multiplier, delta=delta)
        found = self._seen_by_all(unshared(protocol), noise_multiplier, delta).worst()
        return replace(found, method="local DP")

    def rounds_within(
        self,
        max_epsilon: float,
        *,
        noise_multiplier: float,
        delta: float,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """The most rounds, at most those of the protocol, whose ε stays within a budget; known before any data is used.

        Guarantee: the account of that many rounds has every upper end of ε at most `max_epsilon`.
        """
        positive(max_epsilon=max_epsilon)

        def fits(rounds: int) -> bool:
            found = self.certified(
                noise_multiplier=noise_multiplier, delta=delta, rounds=rounds, progress=progress
            )
            return found.epsilon <= max_epsilon

        def fits_everyone(rounds: int) -> bool:
            seen = self.everyone(noise_multiplier=noise_multiplier, delta=delta, rounds=rounds)
            return bool(seen.epsilon().upper <= max_epsilon)

        if fits(self.protocol.rounds):
            return self.protocol.rounds
        # No view costs more than that of everyone, which is known at once.
        low = _most(fits, _most(fits_everyone, 0, self.protocol.rounds), self.protocol.rounds)
        if low == 0:
            raise NotCertified(
                f"not a single round stays within ε = {max_epsilon!r} at δ = {delta!r} with noise multiplier "
                f"{noise_multiplier!r} (add noise, or let it be chosen for that ε)"
            )
        return low

    @property
    def by_coins(self) -> bool:
        """Whether records take part in each round by coins of their own."""
        return self.scenario.participation.kind == "poisson"

    @property
    def _always(self) -> Exposure:
        """The same as if records took part in every round."""
        return self._taking(participation=Participation.full())

    @property
    def _once(self) -> Exposure:
        """The question whose Δ², times k, bounds that of any k rounds.

        What Theorem 1 proves is a sum of prices of the rounds that take part, and who sees every message of plain
        gossip sees each round for itself. Elsewhere k contributions of norm 1 have an energy of k at most.
        """
        if self.protocol.plain and (self.unconditional or not self.state_free):
            return self._taking(participation=Participation.at_most(1))
        return self._taking(contribution="energy")

    def _taking(
        self, *, participation: Participation | None = None, contribution: Contribution = "vector"
    ) -> Exposure:
        """The same question of other streams, in rounds of one's choice."""
        asked = replace(
            self.scenario, participation=participation or Participation.full(), contribution=contribution
        )
        return replace(self, scenario=asked)

    def _everyone_sampled(self, words: _Words) -> SampledAccount:
        """The account of coins for who sees every message, and knows every draw that two nodes share."""
        protocol = self._first(words["rounds"], words["noise_multiplier"], words["delta"])
        seen = protocol if protocol.plain else unshared(protocol)
        open_to_all = replace(self, scenario=self.scenario.of(View.everyone))
        whole, once = (
            each._seen_by_all(seen, words["noise_multiplier"], words["delta"])
            for each in (open_to_all._always, open_to_all._once)
        )
        return self._sampled(whole, once, words)

    def _sampled(self, whole: AccountTable, once: AccountTable, words: _Words) -> SampledAccount:
        """What coins make of tables of all rounds and of the price of one."""
        return sampled_from(
            whole,
            once,
            rate=self.scenario.participation.rate,
            noise_multiplier=words["noise_multiplier"],
            delta=words["delta"],
            run=self.protocol,
        )

    def _factors(self, rounds: int) -> Array:
        """D_t η_{t−1}/η_t for each round and node; the first is 1, as nothing has been received before it."""
        factors = self.damping[:rounds].copy()
        factors[1:] *= (self.steps[: rounds - 1] / self.steps[1:rounds])[:, None]
        factors[0] = 1.0
        return factors

    def _accounted(
        self,
        protocol: Protocol,
        noise: float,
        delta: float,
        progress: Callable[[int, int], None] | None,
        depth: Depth | None = None,
    ) -> AccountTable:
        """What the accountant computes for the view, or for every observer in turn."""
        return account_all(
            replace(self.scenario, protocol=protocol),
            noise_multiplier=noise,
            delta=delta,
            effort=self.effort if depth is None else replace(self.effort, depth=depth),
            progress=progress,
        )


def check_question(scenario: Scenario) -> None:
    """Refuse what training decides by itself: every node counts, and contributes vectors in rounds of its batches."""
    usual = Scenario(protocol=scenario.protocol, view="everyone")
    for word in ("targets", "contribution", "participation"):
        if getattr(scenario, word) != getattr(usual, word):
            raise InputError(
                f"{word} must be left out where training is accounted for, as every node contributes vectors in rounds "
                f"that its batches say; got {getattr(scenario, word)!r} (account for the protocol itself instead)"
            )


def _moving(protocol: Protocol, factors: Array) -> Protocol:
    """Plain gossip with steps or damping that vary, each message divided by its step, which shows the same.

        s̃_t = r_t W s̃_{t−1} + c_t + u_t,   r_t = D_t η_{t−1}/η_t,

    is a program a round, in the order of the rounds; `factors` holds r_t for each round, of all nodes or of each.
    """
    (send, receive), draws = protocol.programs[0].instructions, protocol.programs[0].draws
    if not isinstance(send, Combine):
        raise TypeError(f"plain gossip combines before it sends; got {send!r}")
    kept = protocol.programs[0].keeps
    programs = tuple(
        Program(
            keeps=kept,
            draws=draws,
            instructions=(Combine(send.into, {**send.terms, kept[0]: _one_or_each(row)}), receive),
        )
        for row in factors
    )
    return Protocol(
        weights=protocol.weights, program=programs, rounds=protocol.rounds, name="gossip with varying steps"
    )


def _one_or_each(factors: Array) -> float | tuple[float, ...]:
    """One number where all nodes have the same."""
    numbers = tuple(factors.tolist())
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _most(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The most that fits, from `low`, which does, to below `high`, which does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def quadratic_damping(task: Task, step: float) -> Array:
    """D = diag(1 − ηh_k) of the closed loop s_t = D W s_{t−1} + x_t + u_t, where the loop is linear; else a refusal.

    It is linear under three conditions: the curvature h_k is one number a node; clipping does not act on what
    depends on the state; and the record that differs adds a gradient that does not depend on the state. The
    quadratic loss meets the last two by its form, as only what a record adds is clipped.

    Guarantee: exact; with it the account of the closed loop holds for training, without the hidden-state assumption.

    >>> from sottovoce.learning.tasks import synthetic_task
    >>> quadratic_damping(synthetic_task(3, dimension=2), 0.25).tolist()
    [0.75, 0.75, 0.75]
    """
    positive(step=step)
    if not task.loss.state_free:
        raise NotCertified(
            f"the loop that {task.loss.name} closes is not linear: what a record adds to the gradient depends on the "
            "model (take the quadratic loss, or the everyone view)"
        )
    if np.ptp(task.linear) > 0:
        raise NotCertified(
            "the loop is linear but of another curvature in each coordinate, which one damping a node cannot say "
            "(take one curvature for all coordinates, or the everyone view)"
        )
    damping = 1 - step * float(task.linear[0, 0])
    if not 0 <= damping <= 1:
        raise InputError(
            f"step times curvature must lie between 0 and 1; got {1 - damping!r} (take a smaller step)"
        )
    return np.full(task.nodes, damping)
