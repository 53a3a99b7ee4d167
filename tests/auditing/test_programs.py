# SPDX-License-Identifier: Apache-2.0
"""Programs as they are executed, held against what is compiled and what is accounted for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.interpreter import decoded, knowing, owners_of, run, weights_at
from tests.scenes import EVERY_PROTOCOL

from sottovoce import View, audit, sensitivity
from sottovoce.auditing.programs import program_attack, program_scene
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Protocol, momentum, once, pairwise_noise


@EVERY_PROTOCOL
@pytest.mark.parametrize("view", [View.neighbourhood(1), View.secure_sum(0), View.single_node(2)], ids=str)
def test_unit_impulses_do_what_the_interpreter_says(protocol: Protocol, view: View) -> None:
    scene = program_scene(protocol, view, protocol.n - 1)
    shown = scene.shows(np.eye(protocol.rounds), lambda count: np.zeros((count, protocol.rounds)))
    seen = shown[~scene.told]
    assert not shown[scene.told].any()
    exact = [run(protocol, view, (t, "contribution", (protocol.n - 1,))) for t in range(protocol.rounds)]
    assert seen == pytest.approx(np.array(exact, dtype=float).T, abs=1e-12)
    impulses = iter(np.eye(scene.draws))
    shown = scene.shows(
        np.zeros((protocol.rounds, scene.draws)),
        lambda count: np.array([next(impulses) for _ in range(count)]),
    )
    seen = shown[~scene.told]
    noise = [
        (t, draw.name, owners, run(protocol, view, (t, draw.name, owners)))
        for t in range(protocol.rounds)
        for draw in protocol.round_of(t)[1].draws
        for owners in owners_of(draw, weights_at(protocol, t), protocol.n)
    ]
    known = [bool(knowing(view) & set(owners)) for _, _, owners, _ in noise]
    assert np.concatenate(scene.known).tolist() == known
    # What the observer drew stands beside what it sees, as it was drawn.
    assert np.array_equal(shown[scene.told], np.eye(scene.draws)[known])
    columns = np.array(decoded(protocol, noise), dtype=float).T
    if protocol.encoded:
        # The interpreter lists the rounds of each draw together.
        columns = columns.reshape(len(columns), -1, protocol.rounds).swapaxes(1, 2).reshape(len(columns), -1)
    assert seen == pytest.approx(columns, abs=1e-12)


@EVERY_PROTOCOL
def test_the_attack_attains_what_is_accounted_for(protocol: Protocol) -> None:
    view, target = View.secure_sum(0), 1
    found = sensitivity(protocol, view, [target], contribution="scalar")
    stream = found[target].witness[:, None]
    attack = program_attack(program_scene(protocol, view, target), stream)
    assert attack.separation is not None
    assert attack.separation**2 == pytest.approx(found.squared_upper[0], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "protocol",
    [
        momentum(metropolis_weights("path:n=3"), rounds=3, beta="1/2", noise="message"),
        pairwise_noise(metropolis_weights("path:n=3"), rounds=2, local=1, shared=1),
        once(metropolis_weights("path:n=3"), steps=3),
    ],
    ids=lambda protocol: protocol.name,
)
def test_honest_claims_stand_and_halved_ones_fall(protocol: Protocol) -> None:
    def played(seed: int, claim: float | None) -> bool:
        found = audit(
            protocol,
            View.neighbourhood(0),
            1,
            noise_multiplier=1.0,
            delta=1e-5,
            claim=claim,
            trials=6000,
            rng=np.random.default_rng(seed),
        )
        return found.refuted

    assert not played(1, None)
    assert played(2, 0.4)


def test_nothing_is_claimed_where_no_noise_hides() -> None:
    bare = pairwise_noise(metropolis_weights("path:n=3"), rounds=2, local=0, shared=1)
    with pytest.raises(InputError, match="an audit needs a finite sensitivity; no noise hides node 0"):
        audit(bare, View.everyone, 0, noise_multiplier=1.0, delta=1e-5)
