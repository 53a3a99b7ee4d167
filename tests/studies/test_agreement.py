# SPDX-License-Identifier: Apache-2.0
"""Where the paper is right."""

from __future__ import annotations

import numpy as np
from tests.studies.small import quick

NETWORKS = (
    "complete:n=100",
    "erdos-renyi:n=100,p=0.15,seed=1",
    "preferential:n=100,core=5,links=3,seed=1",
    "ring:n=100",
)


def test_constants_mixing_and_distance() -> None:
    result = quick("agreement", networks=NETWORKS)
    assert [finding.verdict for finding in result.findings] == ["holds", "holds", "holds"]
    by_name = {network.name.partition(":")[0]: network for network in result.networks}
    for network in result.networks:
        assert np.abs(network.constant - 1).max() < 1e-6
        assert (network.lower <= network.upper).all()
    random = by_name["erdos-renyi"]
    assert random.upper[random.hops > 0].max() < 1.05
    distances, largest = by_name["ring"].largest()
    assert largest[0] > 15
    assert largest[-1] < 1.001
    assert distances[-1] == 50
    # Far nodes do not stick out more than near ones.
    assert (np.diff(largest) < 1e-3).all()
