# SPDX-License-Identifier: Apache-2.0
"""What a claim about training asks: the hidden loop of a view, its noise and its slopes, and who contributes when.

In training node k sends s_t^k = g_t^k(z_t^k) + u_t^k, where the map g is known to have slopes in [lower_k,
upper_k]: for all z, z' it holds ‖g(z') − g(z) − c_k(z' − z)‖ ≤ r_k ‖z' − z‖ with c = (lower + upper)/2 and r =
(upper − lower)/2. That ball is all that a proof may use of the maps (hypotheses H1 to H4 of docs/training.md). The
file gives slopes and noise levels; the graph gives everything else.

Squares of noise levels are rounded down for the upper end. The lower end divides by the same numbers, where down is
the wrong side; `attacks` counts that unit among its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import Slopes, spread
from sottovoce.verification.loops import hidden_loop, kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.certificates import Certificate, Floats
    from sottovoce.participation import Participation
    from sottovoce.verification.loops import HiddenLoop, Kernel
    from sottovoce.verification.meaning import AveragingQuestion

__all__ = ["TrainingQuestion", "noise_of", "squares_below", "training_question"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingQuestion:
    """One target in T rounds of training: s_t = g_t(z_t) + u_t, z_{t+1} = A s_t + (what the observers send).

    `levels` holds the variance of every node's noise in units of σ², `slopes` the ball of its map; None where
    nothing is known of the maps. `target` is a node index. `alone` are the nodes whose messages the view shows one
    by one. `loop` holds the hidden nodes, A = W_UU and the exact rows that are seen. `levels` and `slopes` are by
    node index, over all nodes, known ones too.
    """

    loop: HiddenLoop
    target: int
    rounds: int
    participation: Participation
    levels: Floats
    slopes: Slopes | None
    alone: frozenset[int]

    @property
    def charged(self) -> int:
        """How many rounds can cost anything: all, or all but the last where that one shows nothing.

        Guarantee: a contribution of a round that is not charged moves nothing that is seen.
        """
        return self.rounds if self.loop.last_rows else self.rounds - 1

    @property
    def count(self) -> int:
        """The largest number of charged rounds in which the target contributes.

        Guarantee: not below the size of any allowed pattern, cut to the charged rounds.
        """
        if self.participation.kind == "fixed":
            return sum(k <= self.charged for k in self.participation.rounds)
        return min(self.charged, self.participation.largest_count(self.rounds))

    @cached_property
    def seen(self) -> Kernel:
        """What is not seen of all hidden nodes; its pivots stand for the rows that are."""
        return kernel(self.loop.rows, np.arange(self.loop.unknown.size))

    @cached_property
    def seen_last(self) -> Kernel:
        """The same of the last charged round, which may show less."""
        return kernel(self.loop.last_rows or self.loop.rows, np.arange(self.loop.unknown.size))

    @cached_property
    def over_informed(self) -> bool:
        """Whether the hidden loop shows more than the view does, so that only upper bounds carry over.

        What flows into a known node counts as seen. That is what the view says where its rows determine it, or, one
        round later, where the node's own message is seen alone and its map is not constant.

        Guarantee: False is a proof that both show the same; True is the safe side, as a lower bound is then not
        accepted.
        """
        if self.loop.last_rows:
            return self.seen.pivots.size > self.seen_last.pivots.size
        if self.slopes is not None and np.any((self.slopes.lower == 0) & (self.slopes.upper == 0)):
            return True
        known = np.setdiff1d(np.arange(self.levels.size), self.loop.unknown)
        return not set(known.tolist()) <= self.alone


def training_question(
    certificate: Certificate,
    asked: AveragingQuestion,
    participation: Participation,
    *,
    levels: Floats | None = None,
) -> TrainingQuestion:
    """What a certificate about training asks, from its program, its slopes and the view that `asked` rebuilt.

    `levels` are variances of noise for a program that is read elsewhere; without them it must be gossip.

    Guarantee: rows and weights are rationals of the graph; squares of noise levels are rounded down, which never
    hides more.
    Source: Section "Model and hypotheses" of docs/training.md.
    """
    n, updates = asked.weights.n, certificate.updates
    if isinstance(updates, Slopes) and updates.lower.size != n:
        raise InputError(f"updates need a pair of slopes for each of the {n} nodes; got {updates.lower.size}")
    return TrainingQuestion(
        loop=hidden_loop(
            asked.weights, observation=asked.rows, known=np.array(sorted(asked.known), dtype=np.int64)
        ),
        target=asked.target,
        rounds=certificate.rounds,
        participation=participation,
        levels=squares_below(noise_of(certificate, n)) if levels is None else levels,
        slopes=updates if isinstance(updates, Slopes) else None,
        alone=frozenset(j for row in asked.rows if len(row) == 1 for j in row),
    )


def squares_below(deviations: Iterable[Fraction]) -> Floats:
    """The squares of exact numbers, each rounded down to a float.

    Guarantee: 0 ≤ x² − result ≤ 2u·x², in the normal range; compared as rationals, so there is no doubt about the
    side.
    """
    exact_squares = [x * x for x in deviations]
    try:
        squares = np.array([float(square) for square in exact_squares])
    except OverflowError:
        raise InputError("a noise level is too large for a float") from None
    above = np.array([Fraction(float(x)) > square for x, square in zip(squares, exact_squares, strict=True)])
    return np.where(above, np.nextafter(squares, 0.0), squares)


def noise_of(certificate: Certificate, n: int) -> list[Fraction]:
    """The deviations of the nodes' noise in a gossip program without damping; any other program is refused.

    Guarantee: exact, and all positive: the inequality of a step divides by them.
    """
    level = certificate.noise
    if level is None:
        raise NotCertified(
            "the program is not checked here: of training only gossip with fresh noise, message = model + contribution "
            f"+ u and exchange → model, is; got {certificate.sentence[:200]}"
        )
    if isinstance(level, tuple) and len(level) != n:
        raise InputError(f"the noise needs one level for each of the {n} nodes; got {len(level)}")
    numbers = spread(level, n)
    if not all(number > 0 for number in numbers):
        raise InputError("noise levels must be above 0: a node without noise hides nothing")
    return numbers
