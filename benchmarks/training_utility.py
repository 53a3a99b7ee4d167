# SPDX-License-Identifier: Apache-2.0
"""What the certificate for training buys in accuracy: digits on three networks against local DP, at the same (ε, δ).

Both arms train the same softmax model by the same rounds; they differ in noise alone, and in the step and the number of
rounds that serve each best. Those are chosen on splits of the data that are used for nothing else. Then both run on the
same further splits with the same seeds of noise, and their accuracies are compared pair by pair.

    python -m benchmarks.training_utility [--full] [--json FILE]

With a file, runs that are there already are not run again. The quick size takes a minute, --full about ten.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce import gossip, graphs, train
from sottovoce.learning import Task, load_data, plan, task_from

NODES = 10
NETWORKS = {
    "ring": "ring:n=10",
    "4-regular": "random-regular:n=10,d=4,seed=1",
    "complete": "complete:n=10",
}
ARMS = {"local DP": "everyone", "certified": "secure-sum"}
EPSILON, DELTA = 4.0, 1e-5
# Splits from here on serve for choosing steps and rounds.
TUNING = 1000


@cache
def task(split: int) -> Task:
    """Digits dealt to ten nodes, a fifth held out; the public smoothness is ¼."""
    return task_from(load_data("digits"), NODES, split_seed=split, l2=0.0)


@cache
def chosen(network: str, view: str, rounds: int, reach: float) -> tuple[float, float]:
    """The noise multiplier for a view, and its Δ²/T; from public numbers, so any split will do."""
    protocol = gossip(graphs.metropolis_weights(NETWORKS[network]), rounds=rounds)
    found = plan(task(0), protocol, view=view, target_epsilon=EPSILON, target_delta=DELTA, step=_step(reach))
    squared = found.account.sensitivity_squared
    assert squared is not None
    return found.noise_multiplier, squared.upper / rounds


def _step(reach: float) -> float:
    """The step η with this ηL."""
    smoothness = task(0).public_smoothness
    assert smoothness is not None
    return reach / smoothness


class Runs:
    """Accuracies of runs by their settings, kept in a file if there is one."""

    def __init__(self, file: Path | None) -> None:
        """Read what is there."""
        self.file = file
        self.found: dict[str, float] = (
            json.loads(file.read_text()) if file is not None and file.exists() else {}
        )

    def accuracy(self, network: str, arm: str, rounds: int, reach: float, split: int) -> float:
        """The accuracy of the mean model of one run."""
        noise, _ = chosen(network, ARMS[arm], rounds, reach)
        key = json.dumps([network, arm, rounds, reach, split, round(noise, 9)])
        if key not in self.found:
            protocol = gossip(graphs.metropolis_weights(NETWORKS[network]), rounds=rounds)
            # The noise is that of the arm; the account of the run itself is of no interest here.
            run = train(task(split), protocol, noise_multiplier=noise, step=_step(reach), seed=split)
            assert run.accuracy is not None
            self.found[key] = run.accuracy
            if self.file is not None:
                self.file.write_text(json.dumps(self.found, indent=0))
        return self.found[key]


def compared(
    runs: Runs, network: str, *, horizons: list[int], reaches: list[float], tuning: int, splits: int
) -> dict[str, Any]:
    """Both arms at their own best settings, and the paired difference."""
    row: dict[str, Any] = {"network": network}
    found = {}
    for arm, view in ARMS.items():
        settings = [(rounds, reach) for rounds in horizons for reach in reaches]
        means = [
            np.mean([runs.accuracy(network, arm, *each, TUNING + k) for k in range(tuning)])
            for each in settings
        ]
        best = settings[int(np.argmax(means))]
        found[arm] = np.array([runs.accuracy(network, arm, *best, split) for split in range(splits)])
        row[arm] = {
            "accuracy": float(found[arm].mean()),
            "rounds": best[0],
            "reach": best[1],
            "share": chosen(network, view, *best)[1],
        }
    difference = 100 * (found["certified"] - found["local DP"])
    row["points"] = float(difference.mean())
    row["error"] = float(difference.std(ddof=1) / np.sqrt(splits))
    return row


def main(arguments: list[str] | None = None) -> None:
    """Run, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="20 splits, two horizons, five steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where runs are kept")
    asked = parser.parse_args(arguments)
    size: dict[str, Any] = (
        {"horizons": [50, 150], "reaches": [0.25, 0.5, 1.0, 2.0, 4.0], "tuning": 3, "splits": 20}
        if asked.full
        else {"horizons": [50], "reaches": [0.5, 2.0], "tuning": 1, "splits": 4}
    )
    runs = Runs(asked.json)
    print("| network | local DP | certified | difference |\n|---|---|---|---|")
    for network in NETWORKS:
        row = compared(runs, network, **size)
        cells = [
            f"{one['accuracy']:.3f} (T {one['rounds']}, ηL {one['reach']:g}, Δ²/T {one['share']:.3f})"
            for one in (row[arm] for arm in ARMS)
        ]
        print(
            f"| {network} | {cells[0]} | {cells[1]} | {row['points']:+.1f} ± {row['error']:.1f} points |",
            flush=True,
        )


if __name__ == "__main__":
    main()
