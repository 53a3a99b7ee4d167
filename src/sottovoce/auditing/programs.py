# SPDX-License-Identifier: Apache-2.0
"""Programs as they happen, seen by an observer: simulated views, and the best attack on them.

The program is executed, not compiled, and what a view shows is read off its name once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.auditing.attack import Attack
from sottovoce.auditing.simulate import shown_rows
from sottovoce.errors import InputError, positive
from sottovoce.protocols.compiled import edges_of
from sottovoce.protocols.execution import draw_counts, initial_registers, run_round

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.auditing.simulate import Simulator
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["ProgramScene", "program_attack", "program_scene", "program_simulator"]

# The attack is worked out from the response to every single draw, as one dense matrix.
LARGEST = 40_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramScene:
    """A protocol, a view of it, and the target: what is executed and what is written down of it.

    All draws of all rounds stand in one list, ordered by round, name and node or edge; `known` marks those that the
    observer made. `decoder` is the first column of C⁻¹.
    """

    protocol: Protocol
    view: View
    target: int
    known: np.ndarray
    decoder: np.ndarray

    @property
    def draws(self) -> int:
        """How many numbers are drawn in all rounds together."""
        return len(self.known)

    def shows(self, stream: np.ndarray, fresh: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the observer sees of each column, and the noise that was added: rows for numbers, columns for runs.

        `stream` holds the contributions of the target, (rounds, columns), and `fresh` ξ, (draws, columns).
        """
        protocol = self.protocol
        noise = self._decoded(fresh)
        registers = initial_registers(protocol, stream.shape[1])
        seen, first = [], 0
        for t in range(protocol.rounds):
            weights, program = protocol.round_of(t)
            drawn = {}
            for name, count in draw_counts(weights, program).items():
                drawn[name] = noise[first : first + count]
                first += count
            given = np.zeros((protocol.n, stream.shape[1]))
            given[self.target] = stream[t]
            registers, messages = run_round(weights, program, registers, given, drawn)
            rows = shown_rows(protocol, self.view, weights)
            for number, message in enumerate(messages, start=1):
                if self.view.exchanges is None or number in self.view.exchanges:
                    seen.append(rows @ message)
        return np.concatenate(seen), noise

    def _decoded(self, fresh: np.ndarray) -> np.ndarray:
        """C⁻¹ξ over the rounds; an encoder has the same draws in every round."""
        if len(self.decoder) == 1:
            return np.asarray(self.decoder[0] * fresh)
        rounds = self.protocol.rounds
        inverse = linalg.toeplitz(self.decoder, np.zeros(rounds))
        by_round = fresh.reshape(rounds, -1, fresh.shape[1])
        return np.asarray(np.einsum("ts,sdc->tdc", inverse, by_round).reshape(fresh.shape))


def program_scene(protocol: Protocol, view: View, target: Hashable) -> ProgramScene:
    """Who runs what and who sees what of it."""
    told = view.own_noise == "known" and view.name != "everyone"
    names = view.known_noise if view.name == "custom" else view.observers if told else ()
    knowing = {protocol.index(label) for label in names}
    known: list[bool] = []
    for t in range(protocol.rounds):
        weights, program = protocol.round_of(t)
        for draw in program.draws:
            ends = [(i,) for i in range(protocol.n)] if draw.each == "node" else edges_of(weights)
            known += [not knowing.isdisjoint(each) for each in ends]
    return ProgramScene(
        protocol=protocol,
        view=view,
        target=protocol.index(target),
        known=np.array(known, dtype=bool),
        decoder=_decoder(protocol),
    )


def _decoder(protocol: Protocol) -> np.ndarray:
    """The first column of C⁻¹."""
    code = [float(value) for value in protocol.code]
    if len(code) == 1:
        return np.array([1 / code[0]])
    column = np.zeros(protocol.rounds)
    column[0] = 1 / code[0]
    for k in range(1, protocol.rounds):
        column[k] = -sum(code[a] * column[k - a] for a in range(1, min(k, len(code) - 1) + 1)) / code[0]
    return column


def program_simulator(scene: ProgramScene, *, noise_multiplier: float) -> Simulator:
    """A simulator of the scene: runs × (m + k) × d numbers, the m that are seen first, then the k draws it made."""
    positive(noise_multiplier=noise_multiplier)

    def run(stream: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        size = stream.shape[1]
        fresh = noise_multiplier * rng.standard_normal((scene.draws, runs * size))
        seen, noise = scene.shows(np.tile(stream, runs), fresh)
        written = np.concatenate([seen, noise[scene.known]])
        return np.asarray(written.reshape(len(written), runs, size).swapaxes(0, 1))

    return run


def program_attack(scene: ProgramScene, stream: np.ndarray) -> Attack:
    """The likelihood ratio of the executed program for a stream of shape (T, k), from unit impulses.

    w = (N Nᵀ)⁺ G c with N the response of what is seen to every draw the observer does not know, and G c to the stream.

    Guarantee: none is needed; with less precise weights the attack is weaker.
    Source: Neyman & Pearson 1933.
    """
    shift, _ = scene.shows(stream, np.zeros((scene.draws, stream.shape[1])))
    if scene.draws * max(len(shift), scene.draws) > LARGEST:
        raise InputError(
            f"an audit of a program follows each of its draws; {scene.draws} draws seen in {len(shift)} numbers are "
            "too many (audit fewer rounds or nodes)"
        )
    nothing, each = np.zeros((len(stream), scene.draws)), np.eye(scene.draws)
    unknown = scene.shows(nothing, each)[0][:, ~scene.known]
    # The observer takes off what the noise that it drew has done, as it was added.
    own = replace(scene, decoder=np.ones(1)).shows(nothing, each)[0][:, scene.known]
    weights = np.linalg.lstsq(unknown @ unknown.T, shift, rcond=1e-12)[0]
    spread = float(np.linalg.norm(unknown.T @ weights))
    return Attack(
        weights=np.concatenate([weights, -own.T @ weights]),
        separation=float((weights * shift).sum()) / spread if spread > 0 else 0.0,
    )
