# SPDX-License-Identifier: Apache-2.0
"""Rounds per second of the vectorised trainer against a plain loop over nodes, against n, and its memory.

Both do the same rounds from the same keys: clipped gradients of every record, noise by each node's own generator, a
step, gossip with a sparse matrix. The models agree to rounding, and the largest difference is shown.

    python -m benchmarks.learning [--quick] [--nodes 10 100 1000] [--rounds 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce import gossip, graphs
from sottovoce.learning import Data, Descent, NodeNoise, fresh_keys, init, step, task_from


def measured(nodes: int, rounds: int, *, records: int, features: int, classes: int) -> dict[str, Any]:
    """Rounds per second of both, their ratio, the share of time that noise takes, and peak memory."""
    rng = np.random.default_rng(1)
    total = nodes * records
    data = Data(
        name="benchmark",
        features=rng.standard_normal((total, features)),
        labels=rng.integers(0, classes, total),
        classes=classes,
        published_records=total,
    )
    task = task_from(data, nodes, test_share=0.0)
    protocol = gossip(graphs.metropolis_weights(f"ring:n={nodes}"), rounds=rounds)
    descent = Descent(
        task=task,
        protocol=protocol,
        steps=np.full(rounds, 0.5),
        noise=NodeNoise(fresh_keys(nodes, 1), task.dimension),
        noise_std=0.01,
    )
    vectorised, models = _timed(descent)
    plain, others = _plain(descent)
    noise = NodeNoise(fresh_keys(nodes, 1), task.dimension)
    begin = time.perf_counter()
    for t in range(rounds):
        noise.gaussian(t)
    drawing = time.perf_counter() - begin
    tracemalloc.start()
    _timed(descent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "nodes": nodes,
        "dimension": task.dimension,
        "rounds": rounds,
        "rounds_per_second": rounds / vectorised,
        "plain_rounds_per_second": rounds / plain,
        "ratio": plain / vectorised,
        "noise_share": drawing / vectorised,
        "peak_mib": peak / 2**20,
        "difference": float(np.abs(models - others).max()),
    }


def _timed(descent: Descent) -> tuple[float, np.ndarray]:
    """Seconds for all rounds, and the models."""
    state = init(descent)
    begin = time.perf_counter()
    for _ in range(descent.protocol.rounds):
        state, _ = step(descent, state)
    return time.perf_counter() - begin, state.models


def _plain(descent: Descent) -> tuple[float, np.ndarray]:
    """The same rounds, node by node."""
    task, weights = descent.task, descent.protocol.weights.matrix
    shards, loss = task.shards, task.loss
    noise = NodeNoise(fresh_keys(task.nodes, 1), task.dimension)
    classes = task.dimension // shards.features.shape[2]
    shares = [(weights[[i]].indices, weights[[i]].data) for i in range(task.nodes)]
    models = [np.zeros(task.dimension) for _ in range(task.nodes)]
    begin = time.perf_counter()
    for t in range(descent.protocol.rounds):
        drawn = noise.gaussian(t)
        sent = []
        for i, model in enumerate(models):
            rows = shards.features[i][shards.present[i]]
            labels = shards.labels[i][shards.present[i]].astype(int)
            z = rows @ model.reshape(-1, classes)
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(labels)), labels] -= 1
            norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(p, axis=1)
            p *= np.minimum(1, descent.clip / np.maximum(norms, 1e-300))[:, None]
            gradient = (rows.T @ p).ravel() / shards.nominal
            size = float(descent.steps[t])
            noisy = gradient + descent.noise_std * drawn[i]
            sent.append((1 - size * float(task.linear[0, 0])) * model - size * noisy)
        models = [sum(w * sent[j] for j, w in zip(*share, strict=True)) for share in shares]
    assert loss.name == "softmax"
    return time.perf_counter() - begin, np.array(models)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", nargs="+", type=int, default=[10, 100, 1000, 3000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--records", type=int, default=10, help="records a node")
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="10 and 100 nodes only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    columns = (
        "rounds_per_second",
        "plain_rounds_per_second",
        "ratio",
        "noise_share",
        "peak_mib",
        "difference",
    )
    print(f"{'nodes':>6} {'d':>5}", *(f"{name:>24}" for name in columns))
    rows = []
    for nodes in [10, 100] if chosen.quick else chosen.nodes:
        row = measured(
            nodes,
            chosen.rounds,
            records=chosen.records,
            features=chosen.features,
            classes=chosen.classes,
        )
        rows.append(row)
        print(f"{nodes:6} {row['dimension']:5}", *(f"{row[name]:24.4g}" for name in columns))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
