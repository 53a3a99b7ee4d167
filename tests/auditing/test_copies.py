# SPDX-License-Identifier: Apache-2.0
"""Runs at once are those that they would be one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import View, gossip
from sottovoce.auditing import copies, training_simulator
from sottovoce.auditing.programs import program_scene
from sottovoce.graphs import metropolis_weights
from sottovoce.learning import QuadraticLoss, plan, synthetic_task
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, momentum, pairwise_noise, repeated

if TYPE_CHECKING:
    from sottovoce.learning import Plan

RING, PATH = (metropolis_weights(f"{graph}:n=4") for graph in ("ring", "path"))
# Every node has a level and a coefficient of its own, and receives half of what it is sent in every other round.
OWN = Program(
    keeps=("model", "half"),
    draws=(Draw("u", (1, 2, "1/2", 3)),),
    instructions=(
        Combine("message", {"model": 1, "contribution": 1, "u": 1}),
        Exchange("message", "model"),
        Combine("half", {"model": (1, 2, 3, "1/3")}),
    ),
)
PROTOCOLS = [
    gossip(RING, rounds=3),
    pairwise_noise(PATH, rounds=3, local=1, shared=2),
    gossip(RING, rounds=3, encoder=(1, "1/2")),
    momentum(RING, rounds=3, beta=0.5),
    repeated(RING, rounds=3, steps=2),
    Protocol(weights=(RING, PATH), program=OWN, rounds=3, name="own"),
]


def planned(protocol: Any = PROTOCOLS[0], **terms: Any) -> Plan:
    settings = {"view": View.neighbourhood(0), "noise_multiplier": 2.0, "target_delta": 0.1, "step": 0.25}
    return plan(synthetic_task(4, dimension=2, records=5), protocol, **{**settings, **terms})


def views_of(chosen: Plan, told: np.ndarray | None = None) -> np.ndarray:
    scene = program_scene(chosen.protocol, View.neighbourhood(0), 2)
    run = training_simulator(chosen, scene, np.array([0.6, 0.8]), told)
    return run(np.array([1.0, 0.0, -1.0]), 7, np.random.default_rng(1))


def one_by_one(chosen: Plan, told: np.ndarray | None = None) -> np.ndarray:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "MOST_FEATURES", 1)
        assert copies.most_copies(chosen) == 1
        return views_of(chosen, told)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_runs_of_any_program(protocol: Protocol) -> None:
    chosen = planned(protocol)
    assert copies.most_copies(chosen) >= 7
    alone = one_by_one(chosen)
    assert len(np.unique(alone, axis=0)) == 7
    assert views_of(chosen) == pytest.approx(alone, abs=1e-12)


@pytest.mark.parametrize("signs", [None, np.array([1.0, -1.0, 1.0])], ids=["untold", "told"])
@pytest.mark.parametrize("way", [{"batches": 2}, {"batch_fraction": 0.5}], ids=["dealt", "tossed"])
def test_runs_in_batches(way: dict[str, Any], signs: np.ndarray | None) -> None:
    chosen = planned(**way)
    assert views_of(chosen, signs) == pytest.approx(one_by_one(chosen, signs), abs=1e-12)


def test_runs_of_more_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = planned()
    alone = one_by_one(chosen)
    monkeypatch.setattr(copies, "MOST_FEATURES", 3 * chosen.task.shards.features.size)
    assert copies.most_copies(chosen) == 3
    assert views_of(chosen) == pytest.approx(alone, abs=1e-12)


@dataclass(frozen=True, kw_only=True, eq=False)
class Uneven(QuadraticLoss):
    """Every node has a public curvature of its own."""


def test_a_loss_that_differs_from_node_to_node_runs_alone() -> None:
    chosen = planned()
    curvature = np.array([[0.5], [1.0], [0.25], [2.0]])
    uneven = replace(chosen.task, loss=Uneven(features=2, curvature=curvature))
    assert copies.most_copies(replace(chosen, task=uneven)) == 1
