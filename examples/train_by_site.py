# SPDX-License-Identifier: Apache-2.0
"""Records that belong to sites: one node for each, and what the choice of the topology saves.

No data set that comes with the package has sites of its own, so the table is made up here: eight hospitals of unlike
size, whose patients differ in age. Any CSV file with such a column will do.

Run it: python examples/train_by_site.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import csv
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from sottovoce import gossip, graphs, train
from sottovoce.interval import rounded_up
from sottovoce.learning import load_data, task_from

SITES = ("Bergen", "Bern", "Gent", "Graz", "Lyon", "Porto", "Turku", "Vilnius")
ROUNDS, EPSILON, DELTA, SHARD_SIZE = 20, 4.0, 1e-5, 200


def write_table(path: Path) -> None:
    """A table with a line for each patient and a column that says at which site."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["site", "age", "dose", "pressure", "recovered"])
        for place, site in enumerate(SITES):
            for _ in range(rng.integers(120, SHARD_SIZE)):
                age, dose, pressure = rng.normal([place / 8 - 0.5, 0, 0], 0.5)
                chance = 1 / (1 + np.exp(-6 * (dose - 0.7 * age - 0.4 * pressure)))
                table.writerow([site, age, dose, pressure, "yes" if rng.random() < chance else "no"])


def main() -> None:
    """Train on three topologies at the same ε, with sums that hide their terms."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "patients.csv")
        data = load_data(Path(folder) / "patients.csv", split_by="site", classification=True)
    print(f"{data.records} records at {', '.join(data.clients)}")
    # 200 records a site is what everybody knows, whatever a site holds.
    task = task_from(data, len(data.clients), loss="logistic", nominal=SHARD_SIZE)
    for name in ("ring:n=8", "cliques:base=ring,n=4,size=2", "complete:n=8"):
        graph = replace(graphs.as_graph(name), labels=data.clients)
        run = train(
            task,
            gossip(graphs.metropolis_weights(graph), rounds=ROUNDS),
            view="secure-sum",
            target_epsilon=EPSILON,
            target_delta=DELTA,
            seed=1,
        )
        print(
            f"{name}: noise multiplier {run.noise_multiplier:.2f}, accuracy {task.accuracy(run.model):.3f}, "
            f"ε ≤ {rounded_up(run.epsilon.upper)} assuming {run.account.assumption}"
        )


if __name__ == "__main__":
    main()
