# SPDX-License-Identifier: Apache-2.0
"""What one would not expect of six protocols, each in a small network.

Everyone's view has a closed form where noise is added to messages: a contribution that comes in again, with the other
sign or carried on, is seen again. The others are questions of which equations an observer can solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    scheduled,
)
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.equal_error import one_peer
from sottovoce.studies.results import Finding, Table, above, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.studies.results import Progress

__all__ = ["SURPRISES", "Config", "Result", "SurpriseCurve", "heavy_ball", "run"]

CLOSE = 1e-3
ACCELERATION = "acceleration"
SUMS = "sums of two"
TRACKING = "noise on messages"
CARRIED = "momentum"
SEEDS = "edge draws"
SINGLE = "one draw"
SURPRISES = (ACCELERATION, SUMS, TRACKING, CARRIED, SEEDS, SINGLE)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The rings, rounds and parameters of each surprise."""

    ring: int = 6
    accelerated_rounds: int = 6
    gamma: str = "6/5"
    peers: int = 8
    peer_rounds: int = 6
    shared: float = 2.0
    rounds: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 14, 20)
    beta: str = "9/10"
    averaged: int = 16
    steps: tuple[int, ...] = (1, 2, 4, 6, 7, 8, 9, 10, 12, 16)


@dataclass(frozen=True, kw_only=True, eq=False)
class SurpriseCurve:
    """Δ² between its ends at each of `at`: a curve of one surprise."""

    surprise: str
    name: str
    at: tuple[int, ...]
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """All curves, in the order of `SURPRISES`."""

    config: Config
    curves: tuple[SurpriseCurve, ...]

    def of(self, surprise: str) -> tuple[SurpriseCurve, ...]:
        """The curves of one surprise."""
        return tuple(curve for curve in self.curves if curve.surprise == surprise)

    @property
    def table(self) -> Table:
        """One row for each point."""
        rows = tuple(
            (curve.surprise, curve.name, at, float(curve.lower[k]), float(curve.upper[k]))
            for curve in self.curves
            for k, at in enumerate(curve.at)
        )
        return Table(columns=("surprise", "curve", "at", "squared_lower", "squared_upper"), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One for each surprise; a claim counts as right where a lower end passes an upper one, or ends meet."""
        plain, fast = self.of(ACCELERATION)
        sums, messages, ring_sums, ring_messages = self.of(SUMS)
        early, late, diffusion = self.of(TRACKING)
        carried = self.of(CARRIED)[1]
        eavesdropper, neighbour, forgetful, _ = self.of(SEEDS)
        near_node, far_node = self.of(SINGLE)[0], self.of(SINGLE)[-1]
        T, last = self.config.rounds, self.config.rounds[-1]
        forms = carried_form(Fraction(self.config.beta), T)
        return (
            Finding(
                statement="Berthier, Bach & Gaillard 2020",
                claim=f"acceleration (γ = {self.config.gamma}) leaks more to far nodes",
                measured="; ".join(
                    f"Δ {near(np.sqrt(fast.upper[k]))} against {near(np.sqrt(plain.upper[k]))} at {hop} "
                    f"{'hop' if hop == 1 else 'hops'}"
                    for k, hop in enumerate(fast.at)
                ),
                verdict=verdict_of([bool(x) for x in fast.lower[1:] > plain.upper[1:]]),
            ),
            Finding(
                statement="Ying et al. 2021",
                claim="a sum of two hides nothing: with one peer a round, secure sums tell what messages tell",
                measured=f"Δ² of {len(sums.at)} targets differs by at most "
                f"{above(float(np.abs(sums.upper - messages.upper).max()), 2)}; on a ring, where sums are of "
                f"three, they tell {near(float(ring_sums.upper[0] / ring_messages.upper[0]), 3)} of a neighbour",
                verdict=verdict_of([_meet(sums, messages)]),
            ),
            Finding(
                statement="Nedić, Olshevsky & Shi 2017; Yuan et al. 2018",
                claim="noise on messages costs everyone's view 4T − 3, noise on gradients T",
                measured=f"at T = {last}: gradient tracking {near(late.upper[-1])}, exact diffusion "
                f"{near(diffusion.upper[-1])}, noise on gradients {near(early.upper[-1])}",
                verdict=verdict_of(
                    [_is(early, T)] + [_is(curve, [4 * t - 3 for t in T]) for curve in (late, diffusion)]
                ),
            ),
            Finding(
                statement="momentum",
                claim="noise on messages costs everyone's view Σ_t ((1 − β^t)/(1 − β))², noise on gradients T",
                measured=f"at T = {last}, β = {self.config.beta}: {near(carried.upper[-1])}, the sum being "
                f"{near(float(forms[-1]))}",
                verdict=verdict_of([_is(self.of(CARRIED)[0], T), _is(carried, [float(x) for x in forms])]),
            ),
            Finding(
                statement="Allouah et al. 2024 (DECOR)",
                claim="a neighbour that knows its edges' draws breaks part of the shared noise",
                measured=f"Δ² {near(neighbour.upper[0])} of a neighbour's two messages, where an eavesdropper on all "
                f"has {near(eavesdropper.upper[0])}; {near(forgetful.upper[0])} if it forgot its draws",
                verdict=verdict_of(
                    [bool(neighbour.lower[0] > other.upper[0]) for other in (eavesdropper, forgetful)]
                ),
            ),
            Finding(
                statement="Cyffers et al. 2022 (Muffliato)",
                claim="after enough exchanges one draw hides the far node no better than the near one",
                measured=f"Δ² of the farthest of {self.config.averaged} nodes on a ring is {_reach(far_node)}; of a "
                f"neighbour {near(near_node.upper[-1])}",
                verdict=verdict_of([bool(far_node.lower[-1] > near_node.upper[-1] * (1 - CLOSE))]),
            ),
        )


def _reach(curve: SurpriseCurve) -> str:
    """From which exchange on a node is heard, in words."""
    if not curve.upper.any():
        return f"0 up to {curve.at[-1]} exchanges"
    reached = int(np.argmax(curve.upper > 0))
    return (
        f"0 while it is out of reach and {near(curve.upper[reached])} from {curve.at[reached]} exchanges on"
    )


def carried_form(beta: Fraction, rounds: Sequence[int]) -> list[Fraction]:
    """Σ_{t ≤ T} ((1 − β^t)/(1 − β))² for each T.

    >>> carried_form(Fraction(1, 2), (1, 2))
    [Fraction(1, 1), Fraction(13, 4)]
    """
    return [sum((((1 - beta**t) / (1 - beta)) ** 2 for t in range(1, T + 1)), Fraction(0)) for T in rounds]


def heavy_ball(nodes: int, rounds: int, gamma: Fraction) -> Protocol:
    """s_t = γ W s_{t−1} + (1 − γ) s_{t−2} + x_t + u_t on a ring: one exchange a round, the first step a plain one.

    >>> print(heavy_ball(6, 6, Fraction(6, 5)).programs[1])
    message = model + contribution + u; exchange message → mixed; model = 6/5·mixed − 1/5·before; before = message
    """

    def program(factor: Fraction) -> Program:
        return Program(
            keeps=("model", "before"),
            draws=(Draw("u"),),
            instructions=(
                Combine("message", {"model": 1, "contribution": 1, "u": 1}),
                Exchange("message", "mixed"),
                Combine("model", {"mixed": factor, "before": 1 - factor}),
                Combine("before", {"message": 1}),
            ),
        )

    programs = (program(Fraction(1)), *[program(gamma)] * (rounds - 1))
    return Protocol(
        weights=metropolis_weights(f"ring:n={nodes}"), program=programs, rounds=rounds, name="heavy_ball"
    )


def run(config: Config, progress: Progress | None = None) -> Result:
    """Δ² for numbers of each small network, between its ends."""
    step = steps(progress, len(SURPRISES))
    curves = []
    for make in (_acceleration, _sums, _tracking, _carried, _seeds, _single):
        curves += make(config)
        step()
    return Result(config=config, curves=tuple(curves))


def _acceleration(config: Config) -> list[SurpriseCurve]:
    hops = tuple(range(1, config.ring // 2 + 1))
    return [
        _over_targets(
            ACCELERATION,
            name,
            heavy_ball(config.ring, config.accelerated_rounds, gamma),
            View.neighbourhood(0),
            hops,
        )
        for name, gamma in (("plain", Fraction(1)), ("accelerated", Fraction(config.gamma)))
    ]


def _sums(config: Config) -> list[SurpriseCurve]:
    targets = tuple(range(1, config.peers))
    peers = scheduled(one_peer(config.peers), rounds=config.peer_rounds)
    ring = gossip(metropolis_weights(f"ring:n={config.peers}"), rounds=config.peer_rounds)
    return [
        _over_targets(SUMS, f"{name}, {words}", protocol, view, targets)
        for name, protocol in (("one peer", peers), ("ring", ring))
        for words, view in (("sums", View.secure_sum(0)), ("messages", View.neighbourhood(0)))
    ]


def _tracking(config: Config) -> list[SurpriseCurve]:
    W, T = metropolis_weights(f"ring:n={config.ring}"), config.rounds
    return [
        _over_rounds(TRACKING, "noise on gradients", [gradient_tracking(W, rounds=t) for t in T]),
        _over_rounds(
            TRACKING, "gradient tracking", [gradient_tracking(W, rounds=t, noise="messages") for t in T]
        ),
        _over_rounds(
            TRACKING, "exact diffusion", [exact_diffusion(W, rounds=t, noise="messages") for t in T]
        ),
    ]


def _carried(config: Config) -> list[SurpriseCurve]:
    W, T, beta = metropolis_weights(f"ring:n={config.ring}"), config.rounds, config.beta
    late = [momentum(W, rounds=t, beta=beta, noise="message") for t in T]
    return [
        _over_rounds(CARRIED, "noise on gradients", [momentum(W, rounds=t, beta=beta) for t in T]),
        _over_rounds(CARRIED, "noise on messages", late),
    ]


def _seeds(config: Config) -> list[SurpriseCurve]:
    W = metropolis_weights(f"ring:n={config.peers}")
    protocol = pairwise_noise(W, rounds=config.peer_rounds, local=1, shared=config.shared)
    hops = tuple(range(1, config.peers // 2 + 1))
    return [
        _over_targets(SEEDS, name, protocol, view, hops)
        for name, view in (
            ("eavesdropper", View.everyone),
            ("neighbour", View.neighbourhood(0)),
            ("neighbour, draws forgotten", View.neighbourhood(0, own_noise="hidden")),
            ("neighbour, secure sums", View.secure_sum(0)),
        )
    ]


def _single(config: Config) -> list[SurpriseCurve]:
    W = metropolis_weights(f"ring:n={config.averaged}")
    found = [
        _over_targets(
            SINGLE, "", once(W, steps=K), View.neighbourhood(0), tuple(range(1, config.averaged // 2 + 1))
        )
        for K in config.steps
    ]
    return [
        SurpriseCurve(
            surprise=SINGLE,
            name=f"{hop} hops" if hop > 1 else "1 hop",
            at=config.steps,
            lower=np.array([curve.lower[hop - 1] for curve in found]),
            upper=np.array([curve.upper[hop - 1] for curve in found]),
        )
        for hop in sorted({1, 2, config.averaged // 4, config.averaged // 2})
    ]


def _over_targets(
    surprise: str, name: str, protocol: Protocol, view: View, targets: tuple[int, ...]
) -> SurpriseCurve:
    """Δ² of several nodes."""
    found = sensitivity(protocol, view, list(targets), contribution="scalar")
    return SurpriseCurve(
        surprise=surprise, name=name, at=targets, lower=found.squared_lower, upper=found.squared_upper
    )


def _over_rounds(surprise: str, name: str, protocols: Sequence[Protocol]) -> SurpriseCurve:
    """Everyone's Δ² over several T."""
    found = [sensitivity(protocol, View.everyone, [0], contribution="scalar") for protocol in protocols]
    return SurpriseCurve(
        surprise=surprise,
        name=name,
        at=tuple(protocol.rounds for protocol in protocols),
        lower=np.array([each.squared_lower[0] for each in found]),
        upper=np.array([each.squared_upper[0] for each in found]),
    )


def _meet(one: SurpriseCurve, other: SurpriseCurve) -> bool:
    """Whether the intervals of two curves overlap everywhere, and are narrow."""
    overlap = (one.lower <= other.upper) & (other.lower <= one.upper)
    return bool(overlap.all()) and _narrow(one) and _narrow(other)


def _is(curve: SurpriseCurve, values: Sequence[float]) -> bool:
    """Whether every interval is narrow and holds the value, up to the rounding of a float."""
    exact = np.array(values, dtype=float)
    held = (curve.lower <= exact * (1 + 1e-12)) & (exact <= curve.upper * (1 + 1e-12))
    return bool(held.all()) and _narrow(curve)


def _narrow(curve: SurpriseCurve) -> bool:
    """Whether both ends all but meet."""
    return bool((curve.upper <= curve.lower * (1 + CLOSE)).all())
