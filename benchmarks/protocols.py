# SPDX-License-Identifier: Apache-2.0
"""What each protocol costs to account for, as a multiple of plain gossip in the same run.

One observer, all targets, explicit rounds: processor seconds of the sensitivity of every target.

    python -m benchmarks.protocols [--quick | --large] [--view NAME] [--only NAME …] [--rounds 100] [--repeat 3]
                                   [--json FILE] [GRAPH]
    python -m benchmarks.protocols --before FOLDER [--repeat 3] [--rounds 100] [GRAPH]

Each time is the median of several, and so is a multiple: plain gossip is measured next to it every time, so that a busy
machine slows both. FOLDER holds the sources of another version: then plain gossip alone is measured, by
both versions in turn in processes of their own, and how far their ends are apart.

At most 5 times plain gossip is the goal for one register and one exchange, and 3·q·K times for q registers and K
exchanges. Large networks are bounded for all targets together, with neighbours solved one by one, as plain gossip is.
Exact diffusion runs on lazy weights: it diverges where an eigenvalue of W is below −1/3.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import View, graphs, sensitivity
from sottovoce.protocols import (
    Exchange,
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
    from sottovoce.sensitivities import Sensitivities

GRAPH, LARGE = "erdos-renyi:n=100,p=0.15,seed=1", "random-regular:n=10000,d=8,seed=1"


def protocols(weights: GossipWeights, rounds: int) -> list[tuple[str, Protocol]]:
    """One of every builder, plain gossip first."""
    square_root = [1.0]
    for k in range(1, rounds):
        square_root.append(square_root[-1] * (2 * k - 1) / (2 * k))
    columns, levels = weights.matrix.T.tocsr(), tuple(1 + Fraction(k % 5, 4) for k in range(weights.n))
    return [
        ("gossip", gossip(weights, rounds=rounds)),
        ("gossip, one level", gossip(weights, rounds=rounds, noise_levels=2)),
        ("gossip, noise levels", gossip(weights, rounds=rounds, noise_levels=levels)),
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


def goal(protocol: Protocol) -> int:
    """How many times plain gossip is allowed: 5 for one register and one exchange, else 3·q·K."""
    program = protocol.programs[0]
    exchanges = sum(isinstance(step, Exchange) for step in program.instructions)
    return 5 if len(program.keeps) * exchanges == 1 else 3 * len(program.keeps) * exchanges


def seconds(protocol: Protocol, view: View) -> tuple[float, Sensitivities]:
    """Processor seconds for all targets, and what was found."""
    begin = time.process_time()
    found = sensitivity(protocol, view)
    return time.process_time() - begin, found


def beside_plain(plain: Protocol, protocol: Protocol, view: View, repeat: int) -> dict[str, float]:
    """Seconds, the multiple of plain gossip, and the median and the widest relative gap between ends."""
    taken, multiples = [], []
    for _ in range(repeat):
        first, found = seconds(plain, view)
        spent = first
        if protocol is not plain:
            spent, found = seconds(protocol, view)
        taken.append(spent)
        multiples.append(spent / first)
    seen = found.squared_lower > 0
    ratios = found.squared_upper[seen] / found.squared_lower[seen]
    return {
        "seconds": statistics.median(taken),
        "multiple": statistics.median(multiples),
        "median_gap": float(np.median(ratios)) - 1 if ratios.size else 0.0,
        "gap": float(ratios.max(initial=1.0)) - 1,
    }


PLAIN = """
import json, sys, time
from sottovoce import View, gossip, graphs, sensitivity
graph, rounds, repeat = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
weights = graphs.metropolis_weights(graph)
for view in (View.secure_sum(weights.labels[0]), View.neighbourhood(weights.labels[0])):
    spent = []
    for _ in range(repeat + 1):
        begin = time.process_time()
        found = sensitivity(gossip(weights, rounds=rounds), view)
        spent.append(time.process_time() - begin)
    print(json.dumps([view.name, min(spent[1:]), [*found.squared_lower, *found.squared_upper]]))
"""


def beside(folder: Path, graph: str, rounds: int, repeat: int) -> None:
    """Plain gossip by this version and by that in a folder, in turn: the least seconds, and how far ends are apart."""
    here = Path(__file__).parent.parent / "src"
    there = folder / "src" if (folder / "src").is_dir() else folder
    spent: dict[str, dict[Path, list[float]]] = {}
    ends: dict[str, dict[Path, np.ndarray]] = {}
    for _ in range(repeat):
        for sources in (there, here):
            ran = subprocess.run(
                [sys.executable, "-c", PLAIN, graph, str(rounds), str(repeat)],
                env={**os.environ, "PYTHONPATH": str(sources)},
                capture_output=True,
                text=True,
                check=True,
            )
            for view, took, found in map(json.loads, ran.stdout.splitlines()):
                spent.setdefault(view, {here: [], there: []})[sources].append(took)
                ends.setdefault(view, {})[sources] = np.array(found)
    for view, took in spent.items():
        old, new = min(took[there]), min(took[here])
        apart = np.abs(ends[view][here] - ends[view][there]) / np.maximum(ends[view][there], 1e-300)
        same = "the same bits" if not apart.any() else f"ends within {apart.max():.1e}"
        print(f"{view:14} before {old:.4f} s, now {new:.4f} s, {new / old - 1:+.1%}, {same}")


def main(arguments: list[str] | None = None) -> None:
    """Time every protocol, print the multiples, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default=GRAPH, metavar="GRAPH")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="20 nodes, 20 rounds")
    parser.add_argument("--large", action="store_true", help="10,000 nodes, 1000 rounds")
    parser.add_argument("--view", choices=["secure-sum", "neighbourhood"], help="one of the two views alone")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="protocols whose names begin so, and plain gossip"
    )
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many times counts")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="sources of another version")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    graph = "erdos-renyi:n=20,p=0.3,seed=1" if chosen.quick else LARGE if chosen.large else chosen.graph
    rounds = 20 if chosen.quick else 1000 if chosen.large else chosen.rounds
    if chosen.before is not None:
        beside(chosen.before, graph, rounds, chosen.repeat)
        return
    weights = graphs.metropolis_weights(graph)
    rows = []
    (_, plain), *others = protocols(weights, rounds)
    wanted = [each for each in others if chosen.only is None or each[0].startswith(tuple(chosen.only))]
    seconds(gossip(weights, rounds=4), View.secure_sum(weights.labels[0]))
    for view in (View.secure_sum(weights.labels[0]), View.neighbourhood(weights.labels[0])):
        if chosen.view not in {None, view.name}:
            continue
        print(f"{view.name}, {graph}, {rounds} rounds")
        for name, protocol in [("gossip", plain), *wanted]:
            found = beside_plain(plain, protocol, view, chosen.repeat)
            rows.append({"view": view.name, "protocol": name, "goal": goal(protocol), **found})
            print(
                f"  {name:30} {found['seconds']:8.2f} s  {found['multiple']:6.1f} x plain (goal {goal(protocol):2})   "
                f"ends within {found['median_gap']:.1e} (median), {found['gap']:.1e}",
                flush=True,
            )
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"graph": graph, "rounds": rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
