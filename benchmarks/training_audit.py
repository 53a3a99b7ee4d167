# SPDX-License-Identifier: Apache-2.0
"""Canary audits of real training: what an attack finds against what is certified, local DP and averaging's number.

Three trainings: ridge on a star of nine, whose leaves forget what they receive; logistic regression on a ring of six;
softmax on digits on a ring of six. Each is run again and again, with and without a canary at a neighbour: on all
records in every round, on four batches an epoch, and on records that take part by coins, one round in four. Of orders
and coins the attacker is told when the canary took part, as what is certified holds for who knows that; but for coins
that are secret, which have a number of their own.

    python -m benchmarks.training_audit [--quick] [--trials 1000] [--confidence 0.999]
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from sottovoce import View, gossip, graphs
from sottovoce.auditing import audit_training
from sottovoce.auditing.training import Canary
from sottovoce.learning import Task, load_data, plan, ridge, shards_of, task_from

if TYPE_CHECKING:
    from sottovoce.learning import Array, Plan

DELTA = 0.1
MODES: dict[str, dict[str, Any]] = {
    "all records": {"noise_multiplier": 1.0},
    "4 batches an epoch, told": {"noise_multiplier": 0.25, "batches": 4},
    "coins, q = 1/4, told": {"noise_multiplier": 0.25, "batch_fraction": 0.25},
    "coins, q = 1/4, secret": {"noise_multiplier": 0.25, "batch_fraction": 0.25},
}


def trainings(mode: str) -> dict[str, Plan]:
    """The plans to audit, with noise at which an attack has a chance."""
    records = [np.zeros((1, 1))] * 2 + [np.ones((1, 1))] * 7
    star = Task(name="star", loss=ridge(1, radius=1), shards=shards_of(records, [np.zeros(1)] * 9, nominal=1))
    cases = {
        "ridge, star of 9": (star, "star:n=9", 6, 1.0),
        "logistic, ring of 6": (task_from(load_data("breast-cancer"), 6, l2=0.0), "ring:n=6", 8, 4.0),
        "softmax digits, ring of 6": (task_from(load_data("digits"), 6, l2=0.0), "ring:n=6", 8, 4.0),
    }
    return {
        name: plan(
            task,
            gossip(graphs.metropolis_weights(graph), rounds=rounds),
            view=View.secure_sum(0),
            target_delta=DELTA,
            step=size,
            averaging=True,
            **MODES[mode],
        )
        for name, (task, graph, rounds, size) in cases.items()
    }


def main(arguments: list[str] | None = None) -> None:
    """Audit, print the table; an audit that beats what is certified is an error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--confidence", type=float, default=0.999)
    parser.add_argument("--quick", action="store_true", help="100 runs each")
    asked = parser.parse_args(arguments)
    trials = 100 if asked.quick else asked.trials
    print(f"ε at δ = {DELTA}, {trials} runs, confidence {asked.confidence}\n")
    columns = (
        "training",
        "batches",
        "canary",
        "averaging (no guarantee)",
        "found at least",
        "certified",
        "local DP",
    )
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    for mode in MODES:
        for name, chosen in trainings(mode).items():
            for canary in get_args(Canary):
                row = f"| {name} | {mode} | {canary} |"
                audited(row, chosen, canary, trials, asked.confidence, told=mode.endswith("told"))


def audited(row: str, chosen: Plan, canary: Canary, trials: int, confidence: float, *, told: bool) -> None:
    """Audit one plan with one canary and print it; an attack that beats what is certified ends the program."""
    assert chosen.averaging is not None
    found = audit_training(
        chosen,
        # On the star, the leaf whose own map passes everything on.
        target=1,
        canary=canary,
        direction=quietest(chosen.task),
        told=told,
        trials=trials,
        confidence=confidence,
        rng=np.random.default_rng(1),
    )
    numbers = (
        chosen.averaging.epsilon().upper,
        found.empirical_epsilon_lower,
        found.certified_epsilon_upper,
        found.unconditional_epsilon_upper,
    )
    print(row, " | ".join(f"{number:.3f}" for number in numbers), "|", flush=True)
    if found.refuted or found.unconditional_refuted:
        raise SystemExit(f"{row} an attack did better than what is certified")


def quietest(task: Task) -> Array:
    """A direction in which records have next to no gradient, so that those that are drawn do not hide the canary."""
    if task.loss.name == "softmax":
        # Its gradients sum to 0 over the classes.
        return np.ones(task.dimension)
    rows = task.shards.features[task.shards.present]
    return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][-1])


if __name__ == "__main__":
    main()
