# SPDX-License-Identifier: Apache-2.0
"""Training with hidden states: certified for all update maps in a ball, attacked, and assumed.

In each network node 0 looks, by the weighted sums that it receives. For each ball of slopes [lower, upper] the worst of
its neighbours is taken, and four numbers are set side by side:

    certified ≥ what the best linear loop found in the ball attains;   Δ² of fixed contributions;   T, local DP.

The smallest star is also looked at with a neighbour whose loss is not quadratic, by quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import gaussian
from sottovoce.feedback import training_pairs
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.nonlinear_neighbour import Clipped, Loss, nonlinear_loss
from sottovoce.studies.results import Finding, Table, above, below, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.graphs import GossipWeights
    from sottovoce.studies.results import Progress

__all__ = ["Case", "Config", "Result", "run"]


@dataclass(frozen=True, kw_only=True)
class Config(Clipped):
    """Networks, balls of slopes and rounds, beside what is asked about a clipped neighbour in the smallest star."""

    networks: tuple[str, ...] = (
        "star:n=9",
        "ring:n=12",
        "torus:rows=4,cols=4",
        "random-regular:n=20,d=6,seed=1",
        "erdos-renyi:n=60,p=0.25,seed=1",
        "complete:n=12",
    )
    balls: tuple[tuple[float, float], ...] = (
        (1.0, 1.0),
        (0.99, 1.0),
        (0.9, 1.0),
        (0.5, 1.0),
        (0.0, 1.0),
        (-1.0, 1.0),
    )
    rounds: int = 1000
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Case:
    """Δ² of the worst neighbour of node 0, over all rounds; `averaging` is that of contributions fixed in advance."""

    network: str
    ball: tuple[float, float]
    target: Hashable
    method: str
    certified: float
    attained: float
    averaging: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One case for each network and ball, and the smallest star with a clipped neighbour."""

    config: Config
    cases: tuple[Case, ...]
    nonlinear: Loss
    smallest: float
    certified_delta: np.ndarray

    def of(self, network: str) -> tuple[Case, ...]:
        """The cases of one network, in the order of the balls."""
        return tuple(case for case in self.cases if case.network == network)

    @property
    def table(self) -> Table:
        """One row a case, then one for each ε of the clipped neighbour."""
        rows: list[tuple[str | int | float, ...]] = [
            (
                case.network,
                *case.ball,
                f"node {case.target}",
                case.method,
                case.attained,
                case.certified,
                case.averaging,
                float(self.config.rounds),
            )
            for case in self.cases
        ]
        rows += [
            (
                f"star:n=3, clipped gradients, δ({x:g})",
                0.0,
                1.0,
                "node 1",
                "shift",
                float(self.nonlinear.delta[t]),
                float(self.certified_delta[t]),
                float(self.nonlinear.certified[t]),
                float(gaussian.delta(2**0.5, x)),
            )
            for t, x in enumerate(self.config.epsilons)
        ]
        columns = (
            "network",
            "lower",
            "upper",
            "target",
            "method",
            "attained",
            "certified",
            "averaging",
            "local",
        )
        return Table(columns=columns, rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What becomes of the claim that averaging's number serves adaptive contributions, and what stands instead."""
        closed = [case for case in self.cases if case.ball != (1.0, 1.0)]
        broken = [case for case in closed if case.attained > case.averaging]
        worst = max(closed, key=lambda case: case.attained / case.averaging)
        tightest = [case.attained / case.certified for case in self.cases]
        one = self.config.epsilons.index(1.0)
        loss = self.nonlinear
        mildest = [case for case in self.cases if case.ball == self._mild]
        return (
            Finding(
                statement="Theorem 12, Appendix A",
                claim="the sensitivity of fixed contributions holds for adaptive ones, gradients too",
                measured=f"in {len(broken)} of {len(closed)} cases a linear loop in the ball attains more; most on "
                f"{worst.network} with slopes {_words(worst.ball)}: Δ² ≥ {below(worst.attained)} against "
                f"{above(worst.averaging)} over {self.config.rounds} rounds",
                verdict="does not hold" if broken else "holds",
            ),
            Finding(
                statement="Theorem 1 of docs/training.md",
                claim="no update maps in the ball let a view tell more than is certified",
                measured=f"the best linear loops found attain {below(min(tightest))} to {below(max(tightest))} of what "
                f"is certified, in {len(self.cases)} cases",
                verdict=verdict_of([case.attained <= case.certified for case in self.cases]),
            ),
            Finding(
                statement="Theorem 1 of docs/training.md",
                claim=f"it covers a neighbour with gradients clipped at {near(self.config.clip)} (star:n=3, T = 2)",
                measured=f"δ(1) is {near(loss.delta[one])} ± {above(loss.quadrature_error, 1)} by quadrature and "
                f"{near(loss.simulated)} ± {near(loss.simulated_error, 2)} by simulation; "
                f"{above(self.certified_delta[one])} is certified (Δ² ≤ {above(self.smallest)}), and "
                f"{above(loss.certified[one])} would be for fixed contributions",
                verdict=verdict_of((loss.delta - loss.quadrature_error <= self.certified_delta).tolist()),
            ),
            Finding(
                statement="Local DP",
                claim=f"training with slopes in {_words(self._mild)} costs less than local DP against one's neighbours",
                measured="certified Δ²/T: "
                + ", ".join(
                    f"{case.network} {above(case.certified / self.config.rounds)}" for case in mildest
                ),
                verdict=verdict_of([case.certified < self.config.rounds for case in mildest]),
            ),
        )

    @property
    def _mild(self) -> tuple[float, float]:
        """The ball of small steps that the last finding speaks of: the second of those that are asked about."""
        balls = [ball for ball in self.config.balls if ball != (1.0, 1.0)]
        return balls[min(1, len(balls) - 1)]


def run(config: Config, progress: Progress | None = None) -> Result:
    """Every network with every ball, then the clipped neighbour."""
    step = steps(progress, len(config.networks) * len(config.balls) + 1)
    cases = []
    for network in config.networks:
        weights = metropolis_weights(network)
        open_loop = sensitivity(gossip(weights, rounds=config.rounds), View.secure_sum(0))
        averaging = dict(zip(open_loop.targets.tolist(), open_loop.squared_upper.tolist(), strict=True))
        for ball in config.balls:
            cases.append(_case(network, weights, ball, averaging, config.rounds))
            step()
    nonlinear = nonlinear_loss(config, np.random.default_rng(config.seed))
    star = gossip(metropolis_weights("star:n=3"), rounds=2, updates=(0, 1))
    smallest = sensitivity(star, View.secure_sum(0), [1], effort="fine")[1].squared.upper
    step()
    return Result(
        config=config,
        cases=tuple(cases),
        nonlinear=nonlinear,
        smallest=smallest,
        certified_delta=np.array([gaussian.delta(smallest**0.5, x) for x in config.epsilons]),
    )


def _case(
    network: str,
    weights: GossipWeights,
    ball: tuple[float, float],
    averaging: dict[Hashable, float],
    rounds: int,
) -> Case:
    """The worst neighbour of node 0 for one ball: all are proved, the worst is looked at closely."""
    if ball == (1.0, 1.0):
        heard = [weights.labels[k] for k in weights.neighbours(0).tolist()]
        target = max(heard, key=lambda label: averaging.get(label, 0.0))
    else:
        target = training_pairs(weights, rounds=rounds, updates=ball, observers=[0]).worst[1]
    found = sensitivity(gossip(weights, rounds=rounds, updates=ball), View.secure_sum(0), [target])[target]
    return Case(
        network=network,
        ball=ball,
        target=target,
        method=found.method,
        certified=found.squared.upper,
        attained=found.squared.lower,
        averaging=averaging[target],
    )


def _words(ball: tuple[float, float]) -> str:
    """A ball as an interval."""
    return f"[{ball[0]:g}, {ball[1]:g}]"
