# SPDX-License-Identifier: Apache-2.0
"""What a bound for training costs and how close it is: one pair against n, steps, all pairs, subspaces.

    python -m benchmarks.training_certificate [--quick] [--nodes 100 1000 …] [--pairs GRAPH …] [--json FILE]

Times are processor seconds of this machine; beside them stands the time as a multiple of 100 products W·v (one pair)
or of one pair (all pairs).
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import products_time
from sottovoce import View, graphs
from sottovoce.feedback import TrainingView, best_attack, training, training_pairs, training_sensitivity
from sottovoce.feedback.chains import proved, recurring_step, steps_of

BALLS = ((0.9, 1.0), (0.0, 1.0), (-1.0, 1.0))
ROUNDS = 1000
STEPS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0)
EVEN = ("ring:n=100", "torus:rows=10,cols=10", "hypercube:dim=6")


def rate(case: TrainingView, place: int, *, gap: float, columns: int = 24) -> float:
    """The proved cost of one round under one step for all of them."""
    here, solution = recurring_step(case, place, gap=gap, columns=columns)
    found = proved(here, recurring=steps_of(here, solution, last=False))
    assert found is not None
    return found.squared_upper / case.count


def one_pair(n: int) -> list[dict[str, Any]]:
    """A neighbour in a 6-regular graph: the rate that is proved, the one that is attained, and the time."""
    weights = graphs.metropolis_weights(f"random-regular:n={n},d=6,seed=1")
    products = products_time(weights)
    target = int(weights.neighbours(0)[0])
    rows = []
    for ball in BALLS:
        begin = time.process_time()
        case = training(weights, View.secure_sum(0), rounds=ROUNDS, updates=ball)
        place = case.loop.position(target)
        upper = rate(case, place, gap=1e-4)
        seconds = time.process_time() - begin
        lower = best_attack(case, place).squared / ROUNDS
        rows.append(
            {
                "nodes": n,
                "ball": ball,
                "upper": upper,
                "lower": lower,
                "seconds": seconds,
                "ratio": seconds / products,
            }
        )
    return rows


def all_pairs(graph: str, ball: tuple[float, float]) -> dict[str, Any]:
    """Every pair of neighbours: the worst, and how many needed the inequality."""
    weights = graphs.metropolis_weights(graph)
    begin = time.process_time()
    found = training_pairs(weights, rounds=ROUNDS, updates=ball)
    seconds = time.process_time() - begin
    observer, target, worst = found.worst
    begin = time.process_time()
    training_sensitivity(
        weights, View.secure_sum(observer), target, rounds=ROUNDS, updates=ball, effort="quick"
    )
    return {
        "graph": graph,
        "ball": ball,
        "pairs": len(found),
        "worst": worst / ROUNDS,
        "observer": observer,
        "target": target,
        "solved": int(found.refined.sum()),
        "seconds": seconds,
        "ratio": seconds / (time.process_time() - begin),
    }


def subspaces(graph: str, ball: tuple[float, float]) -> list[dict[str, Any]]:
    """The bound of one pair against the number of columns that differences are looked for in."""
    weights = graphs.metropolis_weights(graph)
    case = training(weights, View.secure_sum(0), rounds=ROUNDS, updates=ball)
    place = case.loop.position(int(weights.neighbours(0)[0]))
    rows = []
    for columns in (4, 8, 14, 24, 32):
        begin = time.process_time()
        value = rate(case, place, gap=1e-4, columns=columns)
        rows.append({"columns": columns, "upper": value, "seconds": time.process_time() - begin})
    return rows


def steps(graph: str) -> dict[str, Any]:
    """The rate of a neighbour against ηL for convex losses, in a graph that looks the same from every node."""
    weights = graphs.metropolis_weights(graph)
    rates = {}
    for reach in STEPS:
        case = training(weights, View.secure_sum(0), rounds=ROUNDS, updates=(1 - reach, 1.0))
        rates[reach] = rate(case, case.loop.position(int(weights.neighbours(0)[0])), gap=1e-4)
    return {"graph": graph, "rates": rates}


def reference(n: int, ball: tuple[float, float]) -> dict[str, Any]:
    """The same inequality by cvxpy and Clarabel: time and value of both."""
    cvxpy: Any = importlib.import_module("cvxpy")
    case = training(graphs.metropolis_weights(f"ring:n={n}"), View.secure_sum(0), rounds=ROUNDS, updates=ball)
    begin = time.process_time()
    ours = rate(case, 0, gap=1e-5)
    seconds = time.process_time() - begin
    assert case.slopes is not None
    A, C, m = case.loop.transition.toarray(), case.rows.toarray(), case.loop.unknown.size
    c, r = case.slopes.centre[0], case.slopes.radius[0]
    basis = np.linalg.svd(C)[2][len(C) :].T
    P, beta = cvxpy.Variable((m - 1, m - 1), PSD=True), cvxpy.Variable(m, nonneg=True)
    kappa, Pi = cvxpy.Variable(), basis @ P @ basis.T
    X, b = A @ Pi @ A.T, np.eye(m)[:, [0]]
    upper = np.eye(m) + Pi - cvxpy.diag(beta) - kappa * (b @ b.T) - c * c * X
    F = cvxpy.bmat([[upper, -c * r * X], [-c * r * X, cvxpy.diag(beta) - r * r * X]])
    begin = time.process_time()
    cvxpy.Problem(cvxpy.Maximize(kappa), [(F + F.T) / 2 >> 0]).solve(solver="CLARABEL")
    theirs = time.process_time() - begin
    return {
        "nodes": n,
        "ours": ours,
        "theirs": 1 / float(kappa.value),
        "seconds": seconds,
        "ratio": theirs / seconds,
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the tables, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small networks only")
    parser.add_argument("--nodes", nargs="+", type=int, default=[100, 1000, 10_000, 100_000])
    parser.add_argument("--pairs", nargs="*", default=["erdos-renyi:n=100,p=0.15,seed=1"], metavar="GRAPH")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    answers: dict[str, list[Any]] = {
        "one pair": [],
        "subspaces": [],
        "steps": [],
        "reference": [],
        "all pairs": [],
    }
    print(f"{'6-regular, n':>12} {'ball':>12} {'upper':>8} {'attained':>8} {'seconds':>8} {'x 100 W·v':>10}")
    for n in [100] if chosen.quick else chosen.nodes:
        for row in one_pair(n):
            answers["one pair"].append(row)
            slopes = "[{:g}, {:g}]".format(*row["ball"])
            print(f"{n:12} {slopes:>12} {row['upper']:8.4f} {row['lower']:8.4f}", end=" ")
            print(f"{row['seconds']:8.2f} {row['ratio']:10.1f}")
    graph = "random-regular:n=100,d=6,seed=1" if chosen.quick else "erdos-renyi:n=100,p=0.15,seed=1"
    for row in subspaces(graph, (0.0, 1.0)):
        answers["subspaces"].append(row)
        print(f"{graph}: {row['columns']:3} columns {row['upper']:.5f} in {row['seconds']:.2f} s")
    print(f"{'a neighbour, ηL =':>24}", *(f"{reach:>7g}" for reach in STEPS))
    for graph in ["ring:n=12"] if chosen.quick else EVEN:
        row = steps(graph)
        answers["steps"].append(row)
        print(f"{graph:>24}", *(f"{value:7.4f}" for value in row["rates"].values()))
    row = reference(8 if chosen.quick else 16, (0.5, 1.0))
    answers["reference"].append(row)
    print(
        f"ring of {row['nodes']}: {row['ours']:.6f} in {row['seconds']:.2f} s; Clarabel {row['theirs']:.6f}",
        end=", ",
    )
    print(f"{row['ratio']:.1f} times as long")
    for graph in ["ring:n=12"] if chosen.quick else chosen.pairs:
        for ball in BALLS[:2]:
            row = all_pairs(graph, ball)
            answers["all pairs"].append(row)
            print(
                f"{graph}, [{ball[0]:g}, {ball[1]:g}]: {row['pairs']} pairs, worst {row['worst']:.4f}",
                end=" ",
            )
            print(f"({row['observer']} sees {row['target']}), {row['solved']} by the inequality", end=", ")
            print(f"{row['seconds']:.1f} s = {row['ratio']:.0f} x one pair")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
