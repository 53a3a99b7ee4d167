from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.pairings import each_pair

from sottovoce.certificates import Mechanism
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import metropolis_weights, weights_by_rule
from sottovoce.protocols import gossip
from sottovoce.sensitivities import certify, sensitivity
from sottovoce.verification import verify
from sottovoce.views import View

GRAPHS = ["ring:n=9", "star:n=6", "complete:n=6", "erdos-renyi:n=12,p=0.3,seed=1", "path:n=5"]
VIEWS = [
    View.everyone,
    View.secure_sum(1),
    View.single_node(1),
    View.single_node(1, own_noise="hidden"),
    View.neighbourhood(1),
    View.coalition_sums([1, 2]),
    View.coalition_messages([1, 2]),
]


@pytest.mark.parametrize(
    ("graph", "view", "participation", "place"),
    [
        *each_pair(GRAPHS, VIEWS, [None, "every:3", "at-most:2"], [0, -1]),
        # Rows of many nodes, in floats; and so many that they are told apart modulo a prime.
        ("karate", View.neighbourhood(1), None, 0),
        ("karate", View.everyone, None, -1),
    ],
    ids=repr,
)
def test_the_independent_verifier_accepts_what_is_certified(
    graph: str, view: View, participation: str | None, place: int
) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=9)
    target = range(protocol.n)[place]
    found = verify(certify(protocol, view, target, participation=participation), protocol.weights)
    assert found.verified, found.reason
    measured = sensitivity(protocol, view, [target], participation=participation)
    assert found.squared.upper >= measured.squared_lower[0]
    assert found.squared.lower <= measured.squared_upper[0]


@pytest.mark.parametrize("graph", ["ring:n=12", "erdos-renyi:n=16,p=0.4,seed=2", "grid:rows=3,cols=4"])
def test_long_horizons_are_certified_by_a_model(graph: str) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=100_000)
    certificate = certify(protocol, View.secure_sum(0), 1)
    assert certificate.proof.kind == "horizon"
    found = verify(certificate, protocol.weights)
    assert found.verified, found.reason
    measured = sensitivity(protocol, View.secure_sum(0), [1])
    assert measured.squared_lower[0] <= certificate.squared_upper <= measured.squared_lower[0] * 1.001


def test_what_cannot_be_certified_is_refused() -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=3)
    with pytest.raises(InputError, match="node 0 cannot be a target of"):
        certify(protocol, View.secure_sum(0), 0)
    with pytest.raises(
        InputError, match="relation must be one of add-remove, replace-one, zero-out; got 'swap'"
    ):
        Mechanism(noise_multiplier=1.0, delta=1e-5, relation="swap")
    with pytest.raises(NotCertified, match="shows nothing at all, so Δ² = 0"):
        certify(protocol, View.coalition_messages(range(5), own_noise="hidden"), 1)


@pytest.mark.parametrize(("contribution", "participation"), [("scalar", None), ("vector", "at-most:2")])
def test_what_was_enumerated_is_certified_by_a_y_for_vectors(contribution: Any, participation: Any) -> None:
    protocol = gossip(metropolis_weights("ring:n=6"), rounds=12)
    certificate = certify(
        protocol, View.secure_sum(0), 1, contribution=contribution, participation=participation
    )
    found = sensitivity(
        protocol, View.secure_sum(0), [1], contribution=contribution, participation=participation
    )
    assert certificate.proof.method == "dual"
    assert found.squared_lower[0] <= certificate.squared_upper <= found.squared_upper[0] * 1.2
    assert verify(certificate, protocol.weights).verified


@pytest.mark.parametrize("rule", ["laplacian:0.01", "laplacian:0.001"])
@pytest.mark.parametrize("participation", ["full", "fixed:1", "at-most:2"])
def test_what_is_handed_out_is_verified_in_networks_that_hardly_mix(rule: str, participation: str) -> None:
    weights = weights_by_rule("path:n=6", rule)
    for view in (View.secure_sum(0), View.neighbourhood(0), View.coalition_messages([0, 3])):
        certificate = certify(gossip(weights, rounds=80), view, 5, participation=participation)
        assert verify(certificate, weights).verdict == "verified"


def test_noise_that_is_known_and_nothing_seen_beside_it_is_certified_from_above() -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=2)
    certificate = certify(protocol, View(observation=np.zeros((1, 5)), known_noise=(1,)), 2)
    assert certificate.squared_lower == 0
    for arithmetic in ("float", "balls"):
        assert verify(certificate, protocol.weights, arithmetic=arithmetic).verdict == "verified"
