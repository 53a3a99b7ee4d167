# SPDX-License-Identifier: Apache-2.0
"""Eight car makers learn together what makes a car thirsty, and none learns much about a car of another.

The data are the cars of the 1983 exposition of the American Statistical Association, which the package vega-datasets
ships. A maker is a node with the cars that it made, as many as they are; nothing is dealt at random.

Run it: python examples/car_makers.py   (needs the package vega-datasets)
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from sottovoce import gossip, graphs, train
from sottovoce.interval import rounded_up
from sottovoce.learning import load_data, task_from

MAKERS, MOST_CARS, MILES = 8, 60, 20.0
ROUNDS, EPSILON, DELTA = 20, 8.0, 1e-4
# What everybody knows of cars: a middle and a spread of each number, which no record is asked for.
NUMBERS = {
    "Cylinders": (6, 2),
    "Displacement": (200, 100),
    "Horsepower": (100, 40),
    "Weight_in_lbs": (3000, 900),
}


def write_table(path: Path) -> None:
    """A line for each car of the makers with most cars: the maker, four numbers, and whether it goes far."""
    cars = json.loads(files("vega_datasets").joinpath("_data", "cars.json").read_text(encoding="utf-8"))
    whole = [car for car in cars if all(car[name] is not None for name in (*NUMBERS, "Miles_per_Gallon"))]
    makers = Counter(car["Name"].split()[0] for car in whole)
    shown = {maker for maker, _ in makers.most_common(MAKERS)}
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["maker", *NUMBERS, "far"])
        for car in whole:
            maker = car["Name"].split()[0]
            if maker in shown:
                scaled = [(car[name] - middle) / (2 * spread) for name, (middle, spread) in NUMBERS.items()]
                table.writerow([maker, *scaled, "yes" if car["Miles_per_Gallon"] > MILES else "no"])


def main() -> None:
    """Train at the same ε for whoever sees every message, and behind sums that hide their terms."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "cars.csv")
        data = load_data(Path(folder) / "cars.csv", split_by="maker", classification=True)
    print(f"{data.records} cars of {', '.join(data.clients)}")
    task = task_from(data, len(data.clients), loss="logistic", nominal=MOST_CARS)
    graph = replace(graphs.as_graph(f"complete:n={MAKERS}"), labels=data.clients)
    for view in ("everyone", "secure-sum"):
        run = train(
            task,
            gossip(graphs.metropolis_weights(graph), rounds=ROUNDS),
            view=view,
            target_epsilon=EPSILON,
            target_delta=DELTA,
            step=4.0,
            seed=1,
        )
        print(
            f"{view}: noise multiplier {run.noise_multiplier:.2f}, accuracy {task.accuracy(run.model):.2f}, "
            f"ε ≤ {rounded_up(run.epsilon.upper)} assuming {run.account.assumption}"
        )


if __name__ == "__main__":
    main()
