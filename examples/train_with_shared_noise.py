# SPDX-License-Identifier: Apache-2.0
"""Train with noise that neighbours share (DECOR), and say what each observer learns, beside local DP.

Run it: python examples/train_with_shared_noise.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

from sottovoce import graphs, train
from sottovoce.learning import plan, synthetic_task
from sottovoce.protocols import pairwise_noise

NODES, ROUNDS, NOISE, STEP = 8, 20, 4.0, 0.1


def main() -> None:
    """Account for one training as an eavesdropper, a neighbour and a secure sum see it; then run it."""
    task = synthetic_task(NODES, dimension=5)
    decor = pairwise_noise(graphs.metropolis_weights(f"ring:n={NODES}"), rounds=ROUNDS, local=1, shared=2)
    print(decor.sentence)
    views = {
        "an eavesdropper on all messages": "everyone",
        "a curious neighbour, who knows the draws of its edges": "neighbourhood",
        "a node that is sent secure sums": "secure-sum",
    }
    for name, view in views.items():
        seen = plan(task, decor, view=view, noise_multiplier=NOISE, step=STEP)
        print(f"{name}: ε ≤ {seen.account.epsilon().upper:.2f} (assumption {seen.account.assumption})")
    run = train(task, decor, noise_multiplier=NOISE, step=STEP, seed=1)
    print(f"local DP, whoever sees whatever: ε ≤ {run.unconditional.epsilon().upper:.2f}")
    print(f"excess risk of the mean model: {run.excess_risk:.3f}")


if __name__ == "__main__":
    main()
