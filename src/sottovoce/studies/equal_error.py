# SPDX-License-Identifier: Apache-2.0
"""What each protocol costs in privacy when all average equally well.

Every protocol gets the noise with which its average is as far off after the last round as that of plain gossip.
Protocols that mix better, or let noise cancel, may add more of it; what they tell for that is another matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from sottovoce import gaussian
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.averaging import AveragingError, averaging_error
from sottovoce.studies.encoders import encoder
from sottovoce.studies.results import Finding, Table, above, below, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.studies.results import Progress

__all__ = ["VIEWS", "Config", "Result", "Row", "compared", "matchings", "one_peer", "run"]

OBSERVER = 0
FASTER = ("repeated, 3 steps", "Chebyshev, 3 steps")
LATE = ("momentum", "gradient tracking", "exact diffusion")
CODED = ("DP-λCGD", "banded square root", "square root", "Anti-PGD")
VIEWS = ("everyone", "neighbour", "far node", "neighbour, sums", "far node, sums")
"""Of whom what is learnt: any node, from all messages; a neighbour and a far node, from messages and from sums."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A ring of a power of two, the rounds, the noise of plain gossip that sets the error, and δ."""

    nodes: int = 16
    rounds: int = 20
    noise_multiplier: float = 4.0
    delta: float = 1e-5


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """One protocol: its error, the noise multiplier that makes it that of gossip, and Δ² and ε for each of `VIEWS`.

    `squared` holds both ends, `epsilon` is at most; it is infinite where mixing alone leaves more than the error.
    """

    name: str
    program: str
    exchanges: int
    error: AveragingError
    noise: float
    squared: np.ndarray
    epsilon: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One row a protocol, plain gossip first; `error` is the mean-square error that all have."""

    config: Config
    error: float
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row:
        """The row of the protocol called `name`."""
        return next(row for row in self.rows if row.name == name)

    @property
    def table(self) -> Table:
        """One row for each protocol."""
        ends = [f"{view.replace(', ', '_').replace(' ', '_')}_epsilon" for view in VIEWS]
        return Table(
            columns=("protocol", "exchanges", "mixing", "noise", "noise_multiplier", *ends, "program"),
            rows=tuple(
                (row.name, row.exchanges, row.error.mixing, row.error.noise, row.noise, *map(float, row.epsilon),
                 row.program)
                for row in self.rows
            ),
        )  # fmt: skip

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What faster mixing, noise on messages, shared noise, correlated noise and a single draw come to."""
        plain = self.rows[0]
        faster = [self.row(name) for name in FASTER]
        late = [(self.row(name), self.row(f"{name}, noise on messages")) for name in LATE]
        shared, single = self.row("pairwise noise"), self.row("once")
        coded = [self.row(name) for name in CODED]
        return (
            _finding(
                "mixing faster lets a protocol add more noise, and it tells more about a far node all the same",
                [
                    (
                        f"{row.name}: {near(row.noise / plain.noise, 3)} times the noise, ε of the far node "
                        f"{near(row.epsilon[2])} against {near(plain.epsilon[2])}",
                        [row.noise > plain.noise, self._attained(row, 2) > plain.epsilon[2]],
                    )
                    for row in faster
                ],
            ),
            _finding(
                "noise on the messages instead of the gradient costs everyone's and a neighbour's view more",
                [
                    (
                        f"{early.name}: ε of everyone {near(row.epsilon[0])} against {near(early.epsilon[0])}, of a "
                        f"neighbour {near(row.epsilon[1])} against {near(early.epsilon[1])}",
                        [self._attained(row, k) > early.epsilon[k] for k in (0, 1)],
                    )
                    for early, row in late
                ],
            ),
            _finding(
                "shared noise beside local noise costs less than gossip, before an eavesdropper and before a neighbour",
                [
                    (
                        f"ε of the eavesdropper {near(shared.epsilon[0])} against {near(plain.epsilon[0])}, of a "
                        f"neighbour {near(shared.epsilon[1])} against {near(plain.epsilon[1])}",
                        [shared.epsilon[k] < self._attained(plain, k) for k in (0, 1)],
                    )
                ],
            ),
            _finding(
                "noise that cancels over the rounds tells a neighbour less than independent noise",
                [
                    (
                        f"{row.name}: {near(row.epsilon[1])} against {near(plain.epsilon[1])}, everyone "
                        f"{near(row.epsilon[0])} against {near(plain.epsilon[0])}",
                        [row.epsilon[1] < self._attained(plain, 1)],
                    )
                    for row in coded
                ],
            ),
            _finding(
                "one draw that is averaged many times hides far nodes better than near ones",
                [
                    (
                        f"after {single.exchanges} exchanges on {self.config.nodes} nodes Δ² ≥ "
                        f"{below(single.squared[2, 0])} of the far node and ≤ {above(single.squared[1, 1])} of the "
                        "near one, where 1 is the whole first message: the observer has more equations than there are "
                        "draws",
                        [single.squared[2, 1] < single.squared[1, 0]],
                    )
                ],
            ),
        )

    def _attained(self, row: Row, place: int) -> float:
        """The ε that some contributions attain: a lower end, to be held against an upper one."""
        return float(gaussian.epsilon(np.sqrt(row.squared[place, 0]) / row.noise, self.config.delta))


def _finding(claim: str, parts: Sequence[tuple[str, Sequence[object]]]) -> Finding:
    """A claim about protocols of one averaging error, with what was measured and whether each part agrees."""
    return Finding(
        statement="equal averaging error",
        claim=claim,
        measured="; ".join(words for words, _ in parts),
        verdict=verdict_of([bool(each) for _, agrees in parts for each in agrees]),
    )


def compared(nodes: int, rounds: int) -> dict[str, Protocol]:
    """The protocols set side by side, all on `nodes` nodes; plain gossip first."""
    W = metropolis_weights(f"ring:n={nodes}")
    codes = {name: encoder(name, rounds, bands=4, decay="1/2") for name in CODED}
    ahead = np.roll(np.eye(nodes), 1, axis=0)
    return {
        "gossip": gossip(W, rounds=rounds),
        "repeated, 3 steps": repeated(W, rounds=rounds, steps=3),
        "Chebyshev, 3 steps": chebyshev(W, rounds=rounds, steps=3),
        "momentum": momentum(W, rounds=rounds, beta="0.9"),
        "momentum, noise on messages": momentum(W, rounds=rounds, beta="0.9", noise="message"),
        "gradient tracking": gradient_tracking(W, rounds=rounds),
        "gradient tracking, noise on messages": gradient_tracking(W, rounds=rounds, noise="messages"),
        "exact diffusion": exact_diffusion(W, rounds=rounds),
        "exact diffusion, noise on messages": exact_diffusion(W, rounds=rounds, noise="messages"),
        "pairwise noise": pairwise_noise(W, rounds=rounds, local=1, shared=2),
        "once": once(W, steps=rounds),
        "clean state": clean_state(W, rounds=rounds, keep="0.5"),
        "push-sum, directed ring": push_sum((np.eye(nodes) + ahead) / 2, rounds=rounds),
        "matchings in turn": scheduled(matchings(nodes), rounds=rounds),
        "one-peer exponential": scheduled(one_peer(nodes), rounds=rounds),
        **{name: gossip(W, rounds=rounds, encoder=code) for name, code in codes.items()},
    }


def matchings(n: int) -> list[np.ndarray]:
    """The two matchings of a ring of even n: partners average, and the next round has other partners.

    >>> matchings(4)[1].tolist()
    [[0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5]]
    """
    partners = [[(((i - first) % n ^ 1) + first) % n for i in range(n)] for first in (0, 1)]
    return [(np.eye(n) + np.eye(n)[partner]) / 2 for partner in partners]


def one_peer(n: int) -> list[np.ndarray]:
    """One-peer exponential graph, n a power of two: every node hears the one 1, 2, 4, … places on, in turn.

    Source: Ying et al. 2021.

    >>> one_peer(4)[1].tolist()
    [[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]]
    """
    return [(np.eye(n) + np.roll(np.eye(n), 2**k, axis=1)) / 2 for k in range(n.bit_length() - 1)]


def run(config: Config, progress: Progress | None = None) -> Result:
    """Each protocol's error on impulses, the noise that makes it that of gossip, and Δ² with ε at that noise."""
    protocols = compared(config.nodes, config.rounds)
    step = steps(progress, len(protocols))
    error, rows = 0.0, []
    for name, protocol in protocols.items():
        own = averaging_error(protocol)
        error = error or own.at(config.noise_multiplier)
        noise, squared = own.multiplier(error), _squared(protocol)
        rows.append(
            Row(
                name=name,
                program=protocol.sentence,
                exchanges=protocol.rounds * len(protocol.programs[0].exchanges),
                error=own,
                noise=noise,
                squared=squared,
                epsilon=np.array(
                    [
                        float(gaussian.epsilon(np.sqrt(x) / noise, config.delta)) if noise else np.inf
                        for x in squared[:, 1]
                    ]
                ),
            )
        )
        step()
    return Result(config=config, error=error, rows=tuple(rows))


def _squared(protocol: Protocol) -> np.ndarray:
    """Δ² between its ends for each of `VIEWS`: the largest among the nodes nearest to the observer, or farthest."""
    heard = sum((weights.matrix for weights in protocol.schedule), start=sparse.csr_array((protocol.n,) * 2))
    hops = csgraph.shortest_path(heard, unweighted=True, indices=OBSERVER)
    asked = [(View.everyone, 0.0)]
    asked += [
        (view, distance)
        for view in (View.neighbourhood(OBSERVER), View.secure_sum(OBSERVER))
        for distance in (1.0, hops.max())
    ]
    found = [sensitivity(protocol, view, np.flatnonzero(hops == far).tolist()) for view, far in asked]
    return np.array([[each.squared_lower.max(), each.squared_upper.max()] for each in found])
