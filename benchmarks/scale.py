# SPDX-License-Identifier: Apache-2.0
"""One observer and all its targets: what Δ² costs against rounds and nodes, beside products with the gossip matrix.

For an ordinary observer and the best-connected node of each network: processor time as a multiple of 100 products W·v
of the same run, the largest gap among the observer's neighbours and the median gap of all targets, peak memory, and
the exponents by which the cost grows.

    python -m benchmarks.scale [--quick] [--rounds 1000 10000 …] [--nodes 10000 …] [--json FILE] [GRAPH …]

GRAPH is a file, or a family with {n} where the number of nodes goes.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce import View, gossip, graphs, sensitivity

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights

FAMILIES = ("random-regular:n={n},d=8,seed=1", "preferential:n={n},core=5,links=3,seed=1")
PRODUCTS = 100


def products_time(weights: GossipWeights) -> float:
    """Processor seconds of 100 products W·v."""
    vector = np.random.default_rng(1).standard_normal(weights.n)
    begin = time.process_time()
    for _ in range(PRODUCTS):
        vector = weights.matrix @ vector
    return time.process_time() - begin


def measured(weights: GossipWeights, observer: int, rounds: int) -> dict[str, Any]:
    """One observer over so many rounds: the cost beside 100 products timed before and after, and the gaps."""
    before = products_time(weights)
    begin = time.process_time()
    found = sensitivity(gossip(weights, rounds=rounds), View.secure_sum(weights.labels[observer]))
    seconds = time.process_time() - begin
    products = (before + products_time(weights)) / 2
    gap = found.squared_upper / np.maximum(found.squared_lower, np.finfo(float).tiny) - 1
    heard = np.isin(found.indices, weights.matrix[[observer], :].indices)
    methods, counts = np.unique(found.method, return_counts=True)
    return {
        "nodes": weights.n,
        "degree": int(heard.sum()),
        "rounds": rounds,
        "seconds": seconds,
        "products": products,
        "ratio": seconds / products,
        "neighbour gap": float(gap[heard].max()),
        "median gap": float(np.median(gap)),
        "memory GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "methods": dict(zip(methods.tolist(), counts.tolist(), strict=True)),
    }


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The power of the size by which the cost grows, by least squares in logarithms."""
    if len(set(sizes)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table and the exponents, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=list(FAMILIES), metavar="GRAPH")
    parser.add_argument("--rounds", nargs="+", type=int, default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--nodes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--quick", action="store_true", help="up to 20 000 nodes and 10 000 rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    rounds = [1000, 10_000] if chosen.quick else chosen.rounds
    nodes = [5000, 20_000] if chosen.quick else chosen.nodes
    columns = ("nodes", "degree", "rounds", "seconds", "ratio", "neighbour gap", "median gap", "memory GiB")
    print(f"{'graph':22} {'observer':9}", *(f"{column:>13}" for column in columns))
    rows: list[dict[str, Any]] = []
    for graph in chosen.graphs:
        for size in nodes if "{n}" in graph else [0]:
            weights = graphs.metropolis_weights(graph.format(n=size))
            degrees = np.diff(weights.matrix.indptr)
            middle = int(np.argsort(degrees, kind="stable")[weights.n // 2])
            for kind, observer in {"ordinary": middle, "hub": int(degrees.argmax())}.items():
                if kind == "hub" and degrees[observer] == degrees[middle]:
                    continue
                for horizon in rounds:
                    row = {"graph": graph, "observer": kind, **measured(weights, observer, horizon)}
                    rows.append(row)
                    print(
                        f"{graph[:22]:22} {kind:9}",
                        *(f"{row[column]:13.4g}" for column in columns),
                        flush=True,
                    )
                    _write(chosen.json, rows)
    growth = _growth(rows)
    for entry in growth:
        print(
            f"{entry['graph'][:22]:22} {entry['observer']:9} cost grows as {entry['what']}^{entry['exponent']:.2f}"
        )
    print(f"largest multiple of {PRODUCTS} products: {max(row['ratio'] for row in rows):.1f}")


def _write(file: Path | None, rows: list[dict[str, Any]]) -> None:
    """What has been measured so far, so that an interruption loses nothing."""
    if file is not None:
        content = {"rows": rows, "growth": _growth(rows)}
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The exponents in T at the most nodes, and in n at the most rounds, for each graph and observer."""
    found = []
    for graph, observer in dict.fromkeys((row["graph"], row["observer"]) for row in rows):
        mine = [row for row in rows if (row["graph"], row["observer"]) == (graph, observer)]
        for what, key, other in (("T", "rounds", "nodes"), ("n", "nodes", "rounds")):
            line = [row for row in mine if row[other] == max(each[other] for each in mine)]
            if len({row[key] for row in line}) > 1:
                power = exponent([row[key] for row in line], [row["seconds"] for row in line])
                found.append({"graph": graph, "observer": observer, "what": what, "exponent": power})
    return found


if __name__ == "__main__":
    main()
