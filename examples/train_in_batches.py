# SPDX-License-Identifier: Apache-2.0
"""Train on all records, on shuffled epochs and on records drawn by coins, and say what each costs at the same noise.

Run it: python examples/train_in_batches.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce import gossip, graphs, train
from sottovoce.learning import load_data, plan, task_from

if TYPE_CHECKING:
    from sottovoce.learning import TrainingWords

NODES, ROUNDS, NOISE, TARGET = 6, 40, 4.0, 2.0
WAYS: dict[str, TrainingWords] = {
    "all records in every round": {},
    "four batches an epoch": {"batches": 4},
    "each record by a coin, one round in four": {"batch_fraction": 0.25},
}


def main() -> None:
    """Say for each way what one noise gives away, what it learns, and which noise a target ε needs."""
    task = task_from(load_data("breast-cancer"), NODES)
    ring = gossip(graphs.metropolis_weights(f"ring:n={NODES}"), rounds=ROUNDS)
    for name, way in WAYS.items():
        run = train(task, ring, noise_multiplier=NOISE, seed=1, **way)
        needed = plan(task, ring, target_epsilon=TARGET, **way).noise_multiplier
        print(f"{name}: ε ≤ {run.epsilon.upper:.2f} ({run.account.method}), accuracy {run.accuracy:.3f};")
        print(f"  ε ≤ {TARGET:g} needs a noise multiplier of {needed:.2f}")


if __name__ == "__main__":
    main()
