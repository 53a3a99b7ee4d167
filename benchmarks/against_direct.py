# SPDX-License-Identifier: Apache-2.0
"""All pairs of secure sums against the definition: build H_T, take the pseudoinverse of its noise part, form M.

The definition is timed for one observer in the neighbourhood view at n = T = 100; ours for every pair of the same
graph over 1000 rounds. A second table compares the same view and horizon, where both can do it; a third has the
processor time of one observer and all its targets against the rounds, as a multiple of that of 100 rounds; a fourth
that of all pairs of networks with symmetries, as a multiple of that of one observer.

    python -m benchmarks.against_direct [--quick] [--rounds 1000] [--json FILE] [GRAPH]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import View, account_all, gossip, graphs, sensitivity, theory

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.scenarios import StreamWords

GRAPH = "erdos-renyi:n=100,p=0.15,seed=1"


def direct_forms(matrix: np.ndarray, rows: np.ndarray, known: list[int], rounds: int) -> list[np.ndarray]:
    """M = Gᵀ(N Nᵀ)⁺G for every target whose noise is not known, by the definition."""
    n = len(matrix)
    whole = theory.system_matrix(matrix, rows, rounds)
    targets = [j for j in range(n) if j not in known]
    noise = whole[:, np.isin(np.arange(n * rounds) % n, targets)]
    inverse = np.linalg.pinv(noise)
    responses = [inverse @ whole[:, j::n] for j in targets]
    return [response.T @ response for response in responses]


def direct_time(weights: GossipWeights, observer: int, rounds: int) -> tuple[float, int]:
    """Processor seconds of the definition for one observer's neighbourhood, and the number of rows it sees."""
    matrix = weights.matrix.toarray()
    seen = np.flatnonzero(matrix[observer])
    begin = time.process_time()
    direct_forms(matrix, np.eye(len(matrix))[seen], [observer], rounds)
    return time.process_time() - begin, len(seen)


def against_rounds(weights: GossipWeights, horizons: list[int]) -> list[dict[str, object]]:
    """Processor seconds of a fine account of one observer, its multiple of the first horizon, and the widest gap.

    Of vectors in all rounds for two views, and for sums of numbers and of vectors every fourth round, in rounds that
    are four apart, once in each epoch of eight and at most three times. The least of up to three times counts.
    """
    rows: list[dict[str, object]] = []
    node = weights.labels[0]
    questions: list[tuple[str, View, StreamWords]] = [
        ("neighbourhood", View.neighbourhood(node), {"effort": "fine"}),
        ("secure sum", View.secure_sum(node), {"effort": "fine"}),
        ("secure sum, numbers", View.secure_sum(node), {"effort": "fine", "contribution": "scalar"}),
        (
            "secure sum, every 4th round",
            View.secure_sum(node),
            {"effort": "fine", "participation": "every:4"},
        ),
    ]
    questions += [
        (f"secure sum, {name}", View.secure_sum(node), {"effort": "fine", "participation": family})
        for name, family in (
            ("rounds 4 apart", "separated:4"),
            ("one of 8 rounds", "epochs:8"),
            ("3 rounds at most", "at-most:3"),
        )
    ]
    for name, view, words in questions:
        first = 0.0
        for rounds in horizons:
            seconds: list[float] = []
            while len(seconds) < 3 and sum(seconds) < 1:
                begin = time.process_time()
                found = sensitivity(gossip(weights, rounds=rounds), view, **words)
                seconds.append(time.process_time() - begin)
            first = first or min(seconds)
            gap = float((found.squared_upper / np.maximum(found.squared_lower, 1e-300) - 1).max())
            print(
                f"{name}, T = {rounds}: {min(seconds):.3f} s, {min(seconds) / first:.2f} times {horizons[0]} "
                f"rounds, widest gap {gap:.1e}"
            )
            rows.append(
                {
                    "view": name,
                    "rounds": rounds,
                    "seconds": min(seconds),
                    "ratio": min(seconds) / first,
                    "gap": gap,
                }
            )
    return rows


def against_one(sources: list[str], rounds: int) -> list[dict[str, object]]:
    """Processor seconds of all pairs of networks that are alike in many places, as a multiple of one observer's."""
    rows: list[dict[str, object]] = []
    for source in sources:
        protocol = gossip(graphs.metropolis_weights(source), rounds=rounds)
        begin = time.process_time()
        sensitivity(protocol, View.secure_sum(protocol.labels[0]))
        one = time.process_time() - begin
        begin = time.process_time()
        table = account_all(protocol, "secure-sum", noise_multiplier=1.0, delta=1e-5)
        every = time.process_time() - begin
        orbits = protocol.symmetries.orbits(range(protocol.n))
        count = len({orbits.first(node) for node in range(protocol.n)})
        print(
            f"{source}, T = {rounds}: {len(table)} pairs, {count} of {protocol.n} observers looked at, {every:.2f} s, "
            f"{every / one:.1f} times one observer"
        )
        rows.append({"graph": source, "orbits": count, "seconds": every, "ratio": every / one})
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Time both, print the ratios, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default=GRAPH, metavar="GRAPH")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument(
        "--quick", action="store_true", help="30 rounds of the definition, 5 observers of ours"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    weights = graphs.metropolis_weights(chosen.graph)
    horizon = 30 if chosen.quick else 100
    direct, rows = direct_time(weights, 0, horizon)
    print(f"definition, one observer of {weights.n} nodes, {rows} rows, T = {horizon}: {direct:.2f} s")
    result: dict[str, object] = {"graph": chosen.graph, "direct seconds": direct, "direct rounds": horizon}

    begin = time.process_time()
    same = sensitivity(gossip(weights, rounds=horizon), View.neighbourhood(weights.labels[0]))
    ours = time.process_time() - begin
    print(f"ours, the same view, certified and solved: {ours:.2f} s, {direct / ours:.1f} times faster")

    by_rounds = against_rounds(weights, [30, 300] if chosen.quick else [100, 1000, 2000, 3000])

    small = ["ring:n=20", "star:n=20"]
    large = [
        "ring:n=100",
        "torus:rows=10,cols=10",
        "hypercube:dim=7",
        "complete:n=100",
        "star:n=100",
        "path:n=100",
    ]
    by_symmetry = against_one(small if chosen.quick else large, horizon)

    observers = weights.labels[:5] if chosen.quick else weights.labels
    protocol = gossip(weights, rounds=chosen.rounds)
    gaps = []
    begin = time.process_time()
    for label in observers:
        found = sensitivity(protocol, View.secure_sum(label), effort="bulk")
        gaps.append(found.squared_upper / found.squared_lower - 1)
    every = time.process_time() - begin
    worst = float(np.concatenate(gaps).max())
    pairs = sum(len(gap) for gap in gaps)
    print(f"ours, {pairs} pairs of secure sums, T = {chosen.rounds}: {every:.1f} s, largest gap {worst:.3%}")
    print(f"all pairs take {every / direct:.2f} times what one observer takes by the definition")
    result |= {
        "same view seconds": ours,
        "same view gap": float((same.squared_upper / np.maximum(same.squared_lower, 1e-300) - 1).max()),
        "pairs": pairs,
        "rounds": chosen.rounds,
        "seconds": every,
        "ratio": every / direct,
        "largest gap": worst,
        "against rounds": by_rounds,
        "against one observer": by_symmetry,
    }
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
