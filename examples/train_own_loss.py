# SPDX-License-Identifier: Apache-2.0
"""Private decentralised training with a loss of one's own, and what its smoothness buys.

Run it: python examples/train_own_loss.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import numpy as np

from sottovoce import gossip, graphs, train
from sottovoce.interval import rounded_up
from sottovoce.learning import Data, GradientLoss, Task, split

NODES, ROUNDS, EPSILON, DELTA = 8, 30, 2.0, 1e-5


def huber_gradients(model: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One gradient a record: residuals count up to ½, so that outliers pull no harder.

    Features are cut to their published range, ±½, so that |x|² ≤ ¾ is a smoothness whatever the records hold.
    """
    inside = np.clip(features, -0.5, 0.5)
    return np.asarray(inside * np.clip(inside @ model - labels, -0.5, 0.5)[:, None])


def main() -> None:
    """Train under two views at the same ε, and compare what is learnt."""
    rng = np.random.default_rng(0)
    truth = np.array([0.6, -0.3, 0.2])
    features = rng.uniform(-0.5, 0.5, (1600, 3))
    labels = features @ truth + 0.05 * rng.standard_t(2, 1600)
    data = Data(name="sensors", features=features, labels=labels)
    # 200 records a node is what everybody knows, whatever a node holds.
    shards = split(data, NODES, nominal=200)
    loss = GradientLoss(gradients=huber_gradients, dimension=3, smoothness=0.75, convex=True)
    task = Task(name="sensors", loss=loss, shards=shards)
    ring = gossip(graphs.metropolis_weights(f"ring:n={NODES}"), rounds=ROUNDS)
    for view in ("secure-sum", "everyone"):
        run = train(
            task, ring, view=view, target_epsilon=EPSILON, target_delta=DELTA, step=1.0, clip=0.3, seed=1
        )
        error = float(np.linalg.norm(run.model - truth))
        print(
            f"{view}: noise multiplier {run.noise_multiplier:.2f}, error {error:.3f}, "
            f"ε ≤ {rounded_up(run.epsilon.upper)} assuming {run.account.assumption}, "
            f"ε ≤ {rounded_up(run.unconditional_epsilon.upper)} assuming nothing"
        )


if __name__ == "__main__":
    main()
