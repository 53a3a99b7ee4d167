# SPDX-License-Identifier: Apache-2.0
"""Properties of training that hold on every small network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import dyadic_weights, relabelled

from sottovoce import Scenario, gossip
from sottovoce.learning import (
    Descent,
    Exposure,
    NodeNoise,
    Shards,
    fresh_keys,
    init,
    step,
    synthetic_task,
)


def last(descent: Descent) -> np.ndarray:
    state = init(descent)
    for _ in range(descent.protocol.rounds):
        state, _ = step(descent, state)
    return state.models


@examples(25)
@given(weights=dyadic_weights(), seed=st.integers(0, 2**32 - 1))
def test_relabelling_nodes_permutes_the_models(weights: Any, seed: int) -> None:
    n, rounds = weights.n, 4
    task = synthetic_task(n, dimension=2, records=3, seed=seed % 1000)
    keys = fresh_keys(n, seed)
    order = np.random.default_rng(seed).permutation(n)
    settings: dict[str, Any] = {"steps": np.full(rounds, 0.3), "noise_std": 0.2, "clip": 0.5}
    straight = Descent(
        task=task, protocol=gossip(weights, rounds=rounds), noise=NodeNoise(keys, 2), **settings
    )
    shards = task.shards
    moved = Shards(
        features=shards.features[order],
        labels=shards.labels[order],
        present=shards.present[order],
        nominal=shards.nominal,
    )
    turned = Descent(
        task=replace(task, shards=moved),
        protocol=gossip(relabelled(weights, order), rounds=rounds),
        noise=NodeNoise(keys[order], 2),
        **settings,
    )
    assert np.allclose(last(turned), last(straight)[order], rtol=1e-12, atol=1e-14)


@examples(25)
@given(
    weights=dyadic_weights(),
    view=st.sampled_from(["secure-sum", "neighbourhood", "single-node"]),
    steps=st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=1, max_size=5),
    pull=st.sampled_from([0.0, 0.25, 0.5]),
)
def test_no_view_shows_more_than_all_messages(
    weights: Any, view: str, steps: list[float], pull: float
) -> None:
    sizes = np.array(steps)
    exposure = Exposure(
        scenario=Scenario(protocol=gossip(weights, rounds=len(sizes)), view=view),
        steps=sizes,
        damping=(1 - sizes * pull)[:, None],
    )
    table = exposure.table(noise_multiplier=2.0, delta=1e-5)
    assert (table.squared_lower <= table.squared_upper).all()
    assert (table.squared_upper <= len(sizes)).all()
    more = exposure.table(noise_multiplier=4.0, delta=1e-5)
    assert (more.epsilon_upper <= table.epsilon_upper).all()
    everyone = exposure.everyone(noise_multiplier=2.0, delta=1e-5)
    assert table.epsilon_upper.max() <= everyone.epsilon().upper
