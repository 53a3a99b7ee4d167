# SPDX-License-Identifier: Apache-2.0
"""What each protocol costs to account for, as a multiple of plain gossip in the same run.

One observer, all targets, explicit rounds: processor seconds of the sensitivity of every target.

    python -m benchmarks.protocols [--quick | --large] [--rounds 100] [--json FILE] [GRAPH]

At most 5 times plain gossip is the goal for one register and one exchange, and 3·q·K times for q registers and K
exchanges. Large networks are bounded for all targets together, with neighbours solved one by one, as plain gossip is.
Exact diffusion runs on lazy weights: it diverges where an eigenvalue of W is below −1/3.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import View, graphs, sensitivity
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

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights

GRAPH, LARGE = "erdos-renyi:n=100,p=0.15,seed=1", "random-regular:n=10000,d=8,seed=1"


def protocols(weights: GossipWeights, rounds: int) -> list[tuple[str, Protocol]]:
    """One of every builder, plain gossip first."""
    square_root = [1.0]
    for k in range(1, rounds):
        square_root.append(square_root[-1] * (2 * k - 1) / (2 * k))
    columns = weights.matrix.T.tocsr()
    return [
        ("gossip", gossip(weights, rounds=rounds)),
        ("gossip, noise levels", gossip(weights, rounds=rounds, noise_levels=2)),
        ("gossip, square-root encoder", gossip(weights, rounds=rounds, encoder=square_root)),
        ("pairwise noise", pairwise_noise(weights, rounds=rounds, local=1, shared=2)),
        ("push-sum", push_sum(columns, rounds=rounds)),
        ("clean state", clean_state(weights, rounds=rounds, keep="1/2")),
        ("momentum", momentum(weights, rounds=rounds, beta="9/10")),
        ("gradient tracking", gradient_tracking(weights, rounds=rounds)),
        ("exact diffusion", exact_diffusion(graphs.lazy_weights(weights), rounds=rounds)),
        ("repeated, 3 steps", repeated(weights, rounds=rounds, steps=3)),
        ("chebyshev, 3 steps", chebyshev(weights, rounds=rounds, steps=3)),
        ("once, 5 steps", once(weights, steps=5)),
        ("scheduled, 2 matrices", scheduled([weights, graphs.lazy_weights(weights)], rounds=rounds)),
    ]


def seconds(protocol: Protocol, view: View) -> tuple[float, float, float]:
    """Processor seconds for all targets, and the median and the widest relative gap between the ends of an interval."""
    begin = time.process_time()
    found = sensitivity(protocol, view)
    spent = time.process_time() - begin
    seen = found.squared_lower > 0
    ratios = found.squared_upper[seen] / found.squared_lower[seen]
    return spent, float(np.median(ratios)) - 1 if ratios.size else 0.0, float(ratios.max(initial=1.0)) - 1


def main(arguments: list[str] | None = None) -> None:
    """Time every protocol, print the multiples, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default=GRAPH, metavar="GRAPH")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="20 nodes, 20 rounds")
    parser.add_argument("--large", action="store_true", help="10,000 nodes, 1000 rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    graph = "erdos-renyi:n=20,p=0.3,seed=1" if chosen.quick else LARGE if chosen.large else chosen.graph
    rounds = 20 if chosen.quick else 1000 if chosen.large else chosen.rounds
    weights = graphs.metropolis_weights(graph)
    rows = []
    for view in (View.secure_sum(weights.labels[0]), View.neighbourhood(weights.labels[0])):
        plain = None
        print(f"{view.name}, {graph}, {rounds} rounds")
        for name, protocol in protocols(weights, rounds):
            spent, median, gap = seconds(protocol, view)
            plain = spent if plain is None else plain
            rows.append(
                {"view": view.name, "protocol": name, "seconds": spent, "multiple": spent / plain}
                | {"median_gap": median, "gap": gap}
            )
            print(
                f"  {name:30} {spent:8.2f} s  {spent / plain:6.1f} x plain   "
                f"ends within {median:.1e} (median), {gap:.1e}",
                flush=True,
            )
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"graph": graph, "rounds": rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
