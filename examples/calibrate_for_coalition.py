# SPDX-License-Identifier: Apache-2.0
"""How much noise holds against several nodes that pool what they see.

Run it: python examples/calibrate_for_coalition.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

from sottovoce import View, account, calibrate, gossip, graphs
from sottovoce.interval import rounded_up

EPSILON, DELTA = 1.0, 1e-5


def main() -> None:
    """Calibrate for one node, for growing coalitions, and for whoever sees everything."""
    protocol = gossip(graphs.metropolis_weights("karate"), rounds=20)
    views = {
        "node 0": View.secure_sum(0),
        "nodes 0 and 33": View.coalition_sums([0, 33]),
        "nodes 0, 33 and 2": View.coalition_sums([0, 33, 2]),
        "the same, messages in the clear": View.coalition_messages([0, 33, 2]),
        "whoever sees everything": View.everyone,
    }
    for name, view in views.items():
        noise = calibrate(protocol, view, target_epsilon=EPSILON, target_delta=DELTA)
        worst = account(protocol, view, noise_multiplier=noise, delta=DELTA).worst()
        print(
            f"{name}: noise multiplier {noise:.3f}, ε ≤ {rounded_up(worst.epsilon().upper)} about node {worst.target}"
        )


if __name__ == "__main__":
    main()
