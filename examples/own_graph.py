# SPDX-License-Identifier: Apache-2.0
"""A network of one's own: who learns most about whom, and what would change that.

Run it: python examples/own_graph.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import networkx as nx

from sottovoce import account_all, gossip, graphs

ROUNDS, NOISE, DELTA = 30, 4.0, 1e-5


def main() -> None:
    """Account for every pair under two views, and print the most exposed nodes."""
    friends = nx.Graph(
        [
            ("anna", "ben"),
            ("anna", "cora"),
            ("ben", "cora"),
            ("cora", "dan"),
            ("dan", "emil"),
            ("emil", "fay"),
            ("fay", "dan"),
        ]
    )
    protocol = gossip(graphs.metropolis_weights(friends), rounds=ROUNDS)
    for view in ("neighbourhood", "secure-sum"):
        table = account_all(protocol, view, noise_multiplier=NOISE, delta=DELTA)
        print(f"{view}:")
        for target, account in table.most_exposed(3):
            (observer,) = account.observers
            print(f"  {observer} learns at most ε = {account.epsilon().upper:.3f} about {target}")


if __name__ == "__main__":
    main()
