# SPDX-License-Identifier: Apache-2.0
"""Programs as they happen, seen by an observer: simulated views, and the best attack on them.

The program is executed, not compiled, and what a view shows is read off its name once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.auditing.attack import ViewAttack, likelihood_attack
from sottovoce.auditing.simulate import known_nodes, scene_of, shown_rows
from sottovoce.errors import InputError, positive
from sottovoce.protocols import draw_counts, edges_of, initial_registers, run_round, unencoded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from scipy.sparse import csr_array

    from sottovoce.auditing.simulate import Simulator
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["ProgramScene", "linear_attack", "program_attack", "program_scene", "program_simulator"]

# The attack is worked out from the response to every single draw, as one dense matrix.
LARGEST = 40_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramScene:
    """A protocol, a view of it, and the target: what is executed and what is written down of it.

    `protocol` draws afresh in each round: an encoder is written out as registers.
    """

    protocol: Protocol
    view: View
    target: int

    @cached_property
    def known(self) -> list[np.ndarray]:
        """For each round which of its draws, ordered by name and node or edge, the observer made."""
        knowing = {self.protocol.index(label) for label in known_nodes(self.view)}
        found = []
        for t in range(self.protocol.rounds):
            weights, program = self.protocol.round_of(t)
            ends: list[tuple[int, ...]] = []
            for draw in program.draws:
                ends += [(i,) for i in range(self.protocol.n)] if draw.each == "node" else edges_of(weights)
            found.append(np.array([not knowing.isdisjoint(each) for each in ends], dtype=bool))
        return found

    @property
    def draws(self) -> int:
        """How many numbers are drawn in all rounds together."""
        return sum(len(each) for each in self.known)

    @cached_property
    def told(self) -> np.ndarray:
        """Which of the numbers that are written down are draws that the observer made."""
        rounds = []
        for t, known in enumerate(self.known):
            seen = self._rows(t).shape[0] * len(self._seen(t))
            rounds.append(np.repeat([False, True], [seen, int(known.sum())]))
        return np.concatenate(rounds)

    def written(self, t: int, messages: Sequence[np.ndarray], drawn: np.ndarray) -> np.ndarray:
        """What the observer writes down of round t: what it sees of each exchange, and the draws that it made."""
        rows = self._rows(t)
        return np.concatenate([*(rows @ messages[k] for k in self._seen(t)), drawn[self.known[t]]])

    def shows(self, stream: np.ndarray, fresh: Callable[[int], np.ndarray]) -> np.ndarray:
        """All that is written down of each column: rows for numbers, round by round, columns for runs.

        `stream` holds the contributions of the target, (rounds, columns); `fresh` draws so many rows.
        """
        protocol = self.protocol
        registers = initial_registers(protocol, stream.shape[1])
        shown = []
        for t in range(protocol.rounds):
            weights, program = protocol.round_of(t)
            parts = {name: fresh(count) for name, count in draw_counts(weights, program).items()}
            given = np.zeros((protocol.n, stream.shape[1]))
            given[self.target] = stream[t]
            registers, messages = run_round(weights, program, registers, given, parts)
            drawn = np.concatenate([np.zeros((0, stream.shape[1])), *parts.values()])
            shown.append(self.written(t, messages, drawn))
        return np.concatenate(shown)

    def _rows(self, t: int) -> csr_array:
        """What is seen of an exchange of round t."""
        weights = self.protocol.round_of(t)[0]
        if id(weights) not in self._made:
            self._made[id(weights)] = shown_rows(self.protocol, self.view, weights)
        return self._made[id(weights)]

    def _seen(self, t: int) -> list[int]:
        """The exchanges of round t that are seen, counted from 0."""
        count, wanted = len(self.protocol.round_of(t)[1].exchanges), self.view.exchanges
        return [k for k in range(count) if wanted is None or k + 1 in wanted]

    @cached_property
    def _made(self) -> dict[int, csr_array]:
        """The rows that `_rows` has made."""
        return {}


def program_scene(protocol: Protocol, view: View, target: Hashable) -> ProgramScene:
    """Who runs what and who sees what of it."""
    return ProgramScene(protocol=unencoded(protocol), view=view, target=protocol.index(target))


def program_simulator(scene: ProgramScene, *, noise_multiplier: float) -> Simulator:
    """A simulator of the scene: runs × numbers × d, round by round what is seen, and then the draws it made.

    Contributions are in units of the clipping norm, and so is the noise. All other contributions are 0: they are the
    same in both worlds, and an observer who knows them can subtract them.
    """
    positive(noise_multiplier=noise_multiplier)

    def run(stream: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        size = stream.shape[1]
        shown = scene.shows(
            np.tile(stream, runs), lambda count: noise_multiplier * rng.standard_normal((count, runs * size))
        )
        return np.asarray(shown.reshape(len(shown), runs, size).swapaxes(0, 1))

    return run


def linear_attack(protocol: Protocol, scene: ProgramScene, stream: np.ndarray) -> ViewAttack:
    """The likelihood ratio of a scene of the protocol; where the loop is gossip it need not follow every draw."""
    if not protocol.plain:
        return program_attack(scene, stream)
    return likelihood_attack(scene_of(protocol, scene.view, protocol.labels[scene.target]), stream)


def program_attack(scene: ProgramScene, stream: np.ndarray) -> ViewAttack:
    """The likelihood ratio of the executed program for a stream of shape (T, k), from unit impulses.

    w = (N Nᵀ)⁺ G c with N the response of what is seen to every draw the observer does not know, and G c to the stream.

    Guarantee: none is needed; with less precise weights the attack is weaker.
    Source: Neyman & Pearson 1933.
    """
    rounds, size = stream.shape
    shift = scene.shows(stream, lambda count: np.zeros((count, size)))[~scene.told]
    if scene.draws * max(len(shift), scene.draws) > LARGEST:
        raise InputError(
            f"an audit of a program follows each of its draws; {scene.draws} draws seen in {len(shift)} numbers are "
            "too many (audit fewer rounds or nodes)"
        )
    each = iter(np.eye(scene.draws))
    response = scene.shows(
        np.zeros((rounds, scene.draws)), lambda count: np.array([next(each) for _ in range(count)])
    )[~scene.told]
    known = np.concatenate(scene.known)
    unknown, own = response[:, ~known], response[:, known]
    found = np.linalg.lstsq(unknown @ unknown.T, shift, rcond=1e-12)[0]
    spread = float(np.linalg.norm(unknown.T @ found))
    weights = np.empty((len(scene.told), size))
    # The observer takes off what the noise that it drew has done.
    weights[~scene.told], weights[scene.told] = found, -own.T @ found
    return ViewAttack(
        weights=weights, separation=float((found * shift).sum()) / spread if spread > 0 else 0.0
    )
