# SPDX-License-Identifier: Apache-2.0
"""Audit a training run: one neighbour steps from its hidden state, and the account of averaging no longer holds.

A star with two leaves. The centre sees the sum that it receives, leaf 1 is the target, and leaf 2 takes gradient steps
on a Huber loss of its own state. What the centre sees is not Gaussian, so the attack is fitted to runs.

Run it: python examples/audit_training.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce import View, account, gossip, graphs
from sottovoce.auditing import audit_simulator

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.auditing import Simulator

WEIGHTS = graphs.metropolis_weights("star:n=3")
ROUNDS, TRIALS = 2, 240_000


def averaging(state: np.ndarray) -> np.ndarray:
    """A neighbour whose contribution does not depend on its state."""
    return np.zeros_like(state)


def huber_step(state: np.ndarray) -> np.ndarray:
    """A step of size 1 down a Huber loss: the gradient is the state, clipped to 1."""
    return -np.clip(state, -1, 1)


def training(neighbour: Callable[[np.ndarray], np.ndarray]) -> Simulator:
    """A simulator: what the centre sees of each run is the sums that it receives and the noise that it drew itself."""
    W = WEIGHTS.matrix.toarray()

    def run(stream: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
        held = np.zeros((3, runs))
        views = []
        for contribution in stream:
            noise = rng.standard_normal((3, runs))
            sent = held + noise
            sent[1] += contribution
            sent[2] += neighbour(held[2])
            held = W @ sent
            views += [held[0], noise[0]]
        return np.column_stack(views)

    return run


def main() -> None:
    """Hold both runs against what is certified for contributions that do not depend on hidden states."""
    certified = account(gossip(WEIGHTS, rounds=ROUNDS), View.secure_sum(0), noise_multiplier=1, delta=1e-5)[1]
    delta = certified.delta(1.0).upper
    print(f"certified: ε ≤ 1 at δ = {delta:.4f}, if contributions are {certified.assumption}")
    for name, neighbour in (("averaging", averaging), ("Huber steps", huber_step)):
        found = audit_simulator(
            training(neighbour),
            (np.zeros(ROUNDS), np.ones(ROUNDS)),
            delta=delta,
            trials=TRIALS,
            batch=20_000,
            rng=np.random.default_rng(1),
        )
        verdict = "refuted" if found.refutes(1.0, certified.mu.upper) else "stands"
        print(f"{name}: ε ≥ {found.epsilon_lower:.3f} with confidence {found.confidence:g}: {verdict}")


if __name__ == "__main__":
    main()
