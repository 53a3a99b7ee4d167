# SPDX-License-Identifier: Apache-2.0
"""`audit_training`: train again and again, with and without a canary record, and attack what an observer sees.

The rounds are those of `learning` itself, `init` and `step` with the nodes' own noise; only the loss of the target is
told to hold one more record. What a view shows is read off its name, as in every audit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.auditing.copies import copied, most_copies
from sottovoce.auditing.programs import linear_attack, program_scene
from sottovoce.auditing.results import TrainingAudit, claimed_ends
from sottovoce.auditing.verbs import CONFIDENCE, audit_simulator
from sottovoce.errors import InputError, at_least, one_of, probability
from sottovoce.learning import NodeNoise, clipped_rows, closed_loop, init, step, taking_part
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity as exposed
from sottovoce.threads import one_blas_thread
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sottovoce.accounting import Account
    from sottovoce.auditing.programs import ProgramScene
    from sottovoce.auditing.simulate import Simulator
    from sottovoce.learning import Array, Labels, Loss, Plan, Shards, Sums
    from sottovoce.protocols import Losses

__all__ = ["CanaryLoss", "audit_training", "training_simulator"]

Canary = Literal["witness", "constant"]
TRIALS = 4_000
# More rounds than this, over all runs, take hours.
MOST_ROUNDS = 50_000_000
# Weights are fitted where there are so many runs for each of them.
RUNS_PER_WEIGHT = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class CanaryLoss:
    """A loss, and at one node a further record: its gradient is `gradient` at any model, clipped as all others are.

    With a `place` it stands there, whatever record does so otherwise, and takes part when that place does. A slice of
    nodes holds one each.
    """

    loss: Loss
    node: int | slice
    gradient: Array
    place: int | None = None

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def dimension(self) -> int:
        """That of the loss."""
        return self.loss.dimension

    @property
    def start(self) -> Array | None:
        """That of the loss."""
        return self.loss.start

    @property
    def curvature(self) -> Array:
        """That of the loss."""
        return self.loss.curvature

    @property
    def state_free(self) -> bool:
        """The canary's gradient is; the rest is that of the loss."""
        return self.loss.state_free

    @property
    def smoothness(self) -> float | None:
        """That of the loss: the record that differs needs none."""
        return self.loss.smoothness

    def shape(self, clip: float, *, whole: bool) -> Losses:
        """That of the loss."""
        return self.loss.shape(clip, whole=whole)

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Those of the loss, with the canary in its node's sum; what was clipped or zeroed is that of the records."""
        added = self.gradient if clip is None else clipped_rows(self.gradient[None], clip).values[0]
        if self.place is not None:
            added, weights = np.multiply.outer(weights[self.node, self.place], added), weights.copy()
            weights[self.node, self.place] = 0
        found = self.loss.clipped_sums(models, shards, weights, clip)
        sums = found.values.copy()
        sums[self.node] += added
        return found._replace(values=sums)

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """Those of the loss."""
        return self.loss.values(model, features, labels)

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """Those of the loss."""
        return self.loss.predictions(model, features)


@one_blas_thread()
def audit_training(
    plan: Plan,
    *,
    target: Hashable = None,
    claim: Account | float | None = None,
    canary: Canary = "witness",
    direction: Array | None = None,
    told: bool = False,
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingAudit:
    """Train many times with and without a canary at the target, and hold what an attack finds against the account.

    The observer sees what its view shows of every message, and the noise that it knows, along the canary's direction.
    Its score is Fisher's discriminant, fitted to runs that serve for nothing else, or the likelihood ratio of the loop
    without hidden states where views have too many numbers for that. Where records take part in some rounds alone, the
    canary has a place among them: it is dealt or tossed with the others.

    Args:
        plan: what is trained, as `learning.plan` returns it: task, protocol, view, noise, steps, clip.
        target: the node that gets the canary, and its worst observer; the worst pair of the view if None.
        claim: what to audit: an `Account`, or an ε at the δ of the plan; the plan's account of the pair if None.
        canary: "witness" for the signs that leak most in averaging, whose streams are fixed in advance; "constant" for
            one sign, which may leak more where gradients depend on models.
        direction: where the canary's gradient points, a vector of the model's dimension; at random if None. Where coins
            are tossed, those of other records hide it, but not in a direction in which these have no gradient.
        told: whether the attacker is told in which rounds the canary takes part; of coins, what holds for who is told
            them is then audited. It adds up what these rounds show, and what stood before each of them.
        trials: how many runs to train, half of them with the canary.
        confidence: with which probability the empirical bounds hold.
        rng: where the nodes' keys and the canary's direction come from; system entropy if None.
        progress: called with (runs done, runs in all).

    Guarantee: if the claim holds for the run, it is refuted with probability at most 1 − `confidence`; nothing
    follows from a claim that is not refuted. The plan's account, under `smooth`, holds; that of averaging
    (`claim=plan.averaging`) may be refuted, rightly, as training breaks its assumption.
    Source: as for `audit_simulator`; canaries with gradients of their own, Nasr et al. 2023.

    >>> from sottovoce import View, gossip, graphs
    >>> from sottovoce.learning import plan, synthetic_task
    >>> ring = gossip(graphs.metropolis_weights("ring:n=4"), rounds=3)
    >>> chosen = plan(synthetic_task(4, dimension=2), ring, view=View.secure_sum(0), noise_multiplier=1.0)
    >>> found = audit_training(chosen, trials=600, rng=np.random.default_rng(1))
    >>> found.refuted, found.unconditional_refuted, found.account.assumption
    (False, False, 'quadratic')
    """
    one_of(("witness", "constant"), canary=canary)
    probability(confidence=confidence)
    at_least(16, trials=trials)
    _check(plan, trials)
    source = np.random.default_rng() if rng is None else rng
    pair, local = plan.account if target is None else plan.about(target), plan.unconditional
    if told:
        pair, local = _as_told(pair), _as_told(local)
    view = View(name=pair.view, observers=pair.observers, own_noise=plan.table.own_noise)
    sizes = plan.schedule.sizes(plan.protocol.rounds)
    # The loop as it would be if gradients did not depend on models: for signs and weights, which need no precision.
    damping = float(np.clip(1 - np.median(sizes) * plan.task.linear.mean(), 0, 1))
    loop = (
        gossip(plan.protocol.weights, rounds=plan.protocol.rounds, damping=damping)
        if plan.protocol.plain
        else closed_loop(plan.protocol, np.array([damping]))
    )
    scene = program_scene(loop, view, pair.target)
    signs = np.ones(plan.protocol.rounds)
    if canary == "witness":
        found = exposed(loop, view, [pair.target], contribution="scalar")[pair.target]
        signs = np.sign(np.asarray(found.witness, dtype=np.float64).reshape(plan.protocol.rounds))
    fitted = told or len(scene.told) * RUNS_PER_WEIGHT <= trials
    evidence = audit_simulator(
        training_simulator(plan, scene, _direction(plan, direction, source), signs if told else None),
        (-signs if pair.relation == "replace-one" else np.zeros_like(signs), signs),
        delta=plan.recipe.target_delta,
        score=None if fitted else linear_attack(loop, scene, signs[:, None]),
        trials=trials,
        batch=max(1, min(100, trials // 20)),
        confidence=confidence,
        rng=source,
        progress=progress,
    )
    epsilon, mu = claimed_ends(pair if claim is None else claim, plan.recipe.target_delta)
    return TrainingAudit(
        view=view,
        target=pair.target,
        account=pair,
        unconditional=local,
        noise_multiplier=plan.noise_multiplier,
        delta=plan.recipe.target_delta,
        claimed_epsilon=epsilon,
        claimed_mu=mu,
        signs=signs,
        fitted=fitted,
        trials=2 * (trials // 2),
        found=evidence,
    )


def training_simulator(
    plan: Plan, scene: ProgramScene, direction: np.ndarray, told: np.ndarray | None = None
) -> Simulator:
    """Training runs as a simulator: the stream holds one number a round, the canary's gradient in clips.

    A view holds round by round what is seen of the messages, and then the draws that the observer knows, along
    `direction` and in units of what a record moves a gradient by. With the signs that are `told` it holds the sums of
    that over the rounds in which the canary's place takes part, each times its sign, and of the rounds before them.
    """
    unit = plan.gradient_sensitivity
    sizes = plan.schedule.sizes(plan.protocol.rounds)
    task, place = plan.task, None
    if min(plan.recipe.batch_fraction, 1 / plan.recipe.batches) < 1:
        # The first place is the canary's, in both worlds; without it nobody stands there.
        place, present = 0, task.shards.present.copy()
        present[scene.target, 0] = True
        task = replace(task, shards=replace(task.shards, present=present))

    base, n = replace(plan, task=task), plan.protocol.n
    most = most_copies(base)

    @cache
    def beside(copies: int) -> Plan:
        return copied(base, copies) if copies > 1 else base

    def planned(share: float, copies: int) -> Plan:
        chosen = beside(copies)
        if share == 0 and place is None:
            return chosen
        gradient = share * plan.recipe.clip * direction
        loss = CanaryLoss(loss=task.loss, node=slice(scene.target, None, n), gradient=gradient, place=place)
        return replace(chosen, task=replace(chosen.task, loss=loss))

    def side_by_side(stream: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        keys = rng.integers(2**64, size=(runs * n, 2), dtype=np.uint64)
        noise = NodeNoise(keys, plan.task.dimension)
        descents = {share: planned(share, runs).descent(noise) for share in set(stream.tolist())}
        state = init(next(iter(descents.values())))
        written, part = [], []
        for t, share in enumerate(stream.tolist()):
            state, info = step(descents[share], state)
            # One column a run, here and below.
            seen = [_along(each, runs, direction) for each in (*info.messages, *info.noise)]
            messages, noises = seen[: len(info.messages)], seen[len(info.messages) :]
            # A message moves by −η times what the gradient moves by.
            sent = [each / (-sizes[t] * unit) for each in messages]
            written.append(scene.written(t, sent, plan.noise_multiplier * np.concatenate(noises)))
            there = np.ones(runs, dtype=bool)
            if place is not None:
                there = taking_part(descents[share], t)[scene.target :: n, place]
            part.append(there)
        if told is None:
            return np.concatenate(written).T
        return _summed(np.array(written), told[:, None] * np.array(part))

    def run(stream: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        return np.concatenate(
            [side_by_side(stream, min(most, runs - done), rng) for done in range(0, runs, most)]
        )

    return run


def _along(rows: Array, runs: int, direction: np.ndarray) -> Array:
    """What rows, those of one run after those of another, are along a direction; one column a run."""
    return np.asarray((rows @ direction).reshape(runs, -1).T)


def _summed(rounds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What was written down of each round times its weight, added up; and so what stood before it, with that weight.

    `rounds` is (rounds, numbers, runs) and `weights` (rounds, runs); there is one row a run.
    """
    before = np.concatenate([np.zeros_like(rounds[:1]), rounds[:-1]])
    return np.hstack([np.einsum("tr,twr->rw", weights, each) for each in (rounds, before)])


def _as_told(account: Account) -> Account:
    """What holds for who is told the coins."""
    if account.coins is None:
        return account
    return replace(account, method="told", coins=replace(account.coins, own_level=None))


def _direction(plan: Plan, given: Array | None, rng: np.random.Generator) -> np.ndarray:
    """The direction that is given, or one without preference, as noise is the same in all of them."""
    drawn = rng.standard_normal(plan.task.dimension) if given is None else np.asarray(given, dtype=float)
    size = float(np.linalg.norm(drawn))
    if drawn.shape != (plan.task.dimension,) or not 0 < size < math.inf:
        raise InputError(
            f"direction must be a vector of {plan.task.dimension} finite numbers that are not all 0, as many as the "
            f"model has; got shape {drawn.shape} and norm {size!r}"
        )
    return np.asarray(drawn / size)


def _check(plan: Plan, trials: int) -> None:
    """Refuse plans whose records a canary is not like, and audits that never end."""
    if plan.recipe.unit != "record":
        raise InputError(
            f"a canary is one record; got unit {plan.recipe.unit!r} (audit such runs with audit_simulator and a canary "
            "of your own)"
        )
    if trials * plan.protocol.rounds > MOST_ROUNDS:
        raise InputError(
            f"{trials} runs of {plan.protocol.rounds} rounds each would take hours (ask for fewer trials or rounds)"
        )
