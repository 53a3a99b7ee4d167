# SPDX-License-Identifier: Apache-2.0
"""Erratum (c): with the observer's noise removed a neighbour has about 1/degree."""

from __future__ import annotations

import numpy as np
from tests.studies.small import quick


def test_neighbours_have_one_over_degree() -> None:
    result = quick("errata-c")
    for network in result.networks:
        near, far = network.limit[network.neighbour], network.limit[~network.neighbour]
        assert near.min() > 2 * network.claimed
        assert 0.5 < (near * network.degree[network.neighbour]).mean() < 2
        assert far.max() < near.max()
        assert np.isclose(network.share[network.neighbour].sum(), 1)
    random = result.networks[0]
    assert random.limit[~random.neighbour].max() < 1.05 * random.claimed
    assert all(network.pooled > 1.5 * 3 / 97 for network in result.networks)
    assert {finding.verdict for finding in result.findings} == {"does not hold"}
