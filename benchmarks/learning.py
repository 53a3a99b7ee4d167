# SPDX-License-Identifier: Apache-2.0
"""Rounds per second of the trainer against a plain loop over nodes, and its memory: linear models, then modules.

Both do the same rounds from the same keys: clipped gradients of every record, noise by each node's own generator, a
step, gossip with a sparse matrix. The models agree to rounding, and the largest difference is shown.

With PyTorch, modules of 10³ to 10⁶ parameters are trained as well, against the usual way: node by node, with the
gradients of all its records held at once. Each is measured in a process of its own: rounds a second of one processor,
and the memory that it added. The last rows have more records.

    python -m benchmarks.learning [--quick] [--nodes 10 100 1000] [--rounds 20] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
import tracemalloc
from importlib.util import find_spec
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


# Widths of the hidden layers of a network with 64 inputs and 10 outputs, for about 10³, 10⁴, 85 000 and 10⁶ parameters.
WIDTHS = (12, 70, 256, 960)
# What unlike numbers of records are tried with.
MANY = 256


def module_rows(*, nodes: int, records: int, rounds: int, widths: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for each size of a network, and one for each of three numbers of records."""
    sizes = [(width, records) for width in widths]
    if MANY in widths:
        sizes += [(MANY, records * 4), (MANY, records * 16)]
    rows = []
    for width, count in sizes:
        ours, usual = (_apart(way, width, nodes, count, rounds) for way in ("sites", "usual"))
        rows.append(
            {
                "parameters": ours["parameters"],
                "records": count,
                "rounds_per_second": 1 / ours["seconds"],
                "usual_rounds_per_second": 1 / usual["seconds"],
                "peak_mib": ours["mib"],
                "usual_peak_mib": usual["mib"],
                "difference": float(np.abs(ours["models"] - usual["models"]).max()),
            }
        )
    return rows


def _apart(way: str, *sizes: int) -> dict[str, Any]:
    """One measurement in a process of its own."""
    import torch  # noqa: F401 - loaded once, before the processes part

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_measured_module, args=(there, way, *sizes))
    process.start()
    there.close()
    found: dict[str, Any] = here.recv()
    process.join()
    return found


def _measured_module(out: Any, way: str, width: int, nodes: int, records: int, rounds: int) -> None:  # noqa: ANN401
    """Seconds a round, memory added, and the models that come out."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    small, module = (_network(size) for size in (2, width))
    data = [(torch.rand(records, 1, 8, 8), torch.randint(0, 10, (records,))) for _ in range(nodes)]
    run = _by_sites if way == "sites" else _the_usual_way
    # What is loaded on the way is not counted.
    run(small, [(x[:8], y[:8]) for x, y in data], 1)
    before = _peak()
    seconds, models = run(module, data, rounds)
    parameters = sum(value.numel() for value in module.parameters())
    out.send({"parameters": parameters, "seconds": seconds, "mib": _peak() - before, "models": models})


def _network(width: int) -> Any:  # noqa: ANN401
    """A network with 64 inputs, two hidden layers and 10 outputs."""
    from torch import nn

    hidden = (nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10))
    return nn.Sequential(nn.Flatten(), *hidden)


def _peak() -> float:
    """The most memory that this process has had, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _by_sites(module: Any, data: Any, rounds: int) -> tuple[float, np.ndarray]:  # noqa: ANN401
    """Seconds a round of `sottovoce.learning.sites`, and the models."""
    from torch import nn
    from torch.utils.data import TensorDataset

    from sottovoce.learning.sites import begin

    sites = [TensorDataset(*pair) for pair in data]
    words = {
        "shard_size": len(data[0][0]),
        "rounds": rounds + 1,
        "noise_multiplier": 1.0,
        "step": 0.5,
        "seed": 1,
    }
    training = begin(module, nn.functional.cross_entropy, sites, f"ring:n={len(data)}", **words)  # type: ignore[arg-type]
    training.step()
    start = time.process_time()
    for _ in range(rounds):
        training.step()
    return (time.process_time() - start) / rounds, training.run.state.models


def _the_usual_way(module: Any, data: Any, rounds: int) -> tuple[float, np.ndarray]:  # noqa: ANN401
    """The same rounds node by node, with the gradients of all records of a node at once, in float32."""
    import torch
    from torch import nn
    from torch.func import functional_call, grad, vmap

    held = {name: value.detach() for name, value in module.named_parameters()}
    shapes, sizes = [value.shape for value in held.values()], [value.numel() for value in held.values()]
    weights = graphs.metropolis_weights(f"ring:n={len(data)}").matrix
    noise = NodeNoise(fresh_keys(len(data), 1), sum(sizes))

    def one(parameters: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
        return nn.functional.cross_entropy(functional_call(module, parameters, (x[None],)), y[None])

    models = [torch.cat([value.reshape(-1) for value in held.values()]) for _ in data]
    for t in range(rounds + 1):
        if t == 1:
            start = time.process_time()
        drawn, sent = noise.gaussian(t), []
        for i, (x, y) in enumerate(data):
            parts = (part.reshape(shape) for part, shape in zip(models[i].split(sizes), shapes, strict=True))
            found = vmap(grad(one), in_dims=(None, 0, 0))(dict(zip(held, parts, strict=True)), x, y)
            norms = torch.stack([value.flatten(1).norm(dim=1) for value in found.values()]).norm(dim=0)
            factors = 1 / norms.clamp(min=1)
            total = torch.cat([factors @ value.flatten(1) for value in found.values()])
            noisy = (total + torch.from_numpy(drawn[i]).float()) / len(x)
            sent.append(models[i] - 0.5 * noisy)
        mixed = torch.from_numpy(weights @ torch.stack(sent).numpy()).float()
        models = list(mixed)
    return (time.process_time() - start) / rounds, torch.stack(models).double().numpy()


def _print_modules(rows: list[dict[str, Any]]) -> None:
    """The table of modules."""
    columns = ("rounds_per_second", "usual_rounds_per_second", "peak_mib", "usual_peak_mib", "difference")
    print(f"{'parameters':>10} {'records':>8}", *(f"{name:>24}" for name in columns))
    for row in rows:
        print(f"{row['parameters']:10} {row['records']:8}", *(f"{row[name]:24.4g}" for name in columns))


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the tables, and write them as JSON if asked to."""
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
    if find_spec("torch") is None:
        print("modules are left out: PyTorch is not installed")
    else:
        modules = module_rows(nodes=4, records=64, rounds=3, widths=WIDTHS[:2] if chosen.quick else WIDTHS)
        _print_modules(modules)
        rows += modules
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
