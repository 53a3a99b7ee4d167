# SPDX-License-Identifier: Apache-2.0
"""Work in whole numbers is counted where it is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sottovoce.errors import NotCertified
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.verification.backwards import Budget, Round, _mixed


def test_every_product_with_a_weight_is_counted_before_it_is_made() -> None:
    weights = metropolis_weights("star:n=5")
    (program,) = gossip(weights, rounds=1).programs
    step_in = Round(weights=weights, program=program, known=frozenset(), target=1)
    moved: Any = np.array([[1, 0, 2**200, 0, 0], [3, 0, 0, 0, 0]], dtype=object)
    # Node 0 hears five nodes and is in two rows; node 2 hears two and is in one.
    products = 2 * 5 + 2
    budget = Budget(cost := products * (80 + 200 // 64))
    W = (weights.matrix.toarray() * step_in.mixing[1]).round().astype(int)
    assert (_mixed(step_in, moved, budget) == moved @ W.astype(object)).all()
    assert budget.left == 0
    with pytest.raises(NotCertified, match="more exact arithmetic than is done here"):
        _mixed(step_in, moved, Budget(cost - 1))
