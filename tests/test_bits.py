# SPDX-License-Identifier: Apache-2.0
"""Numbers that no change of the code was meant to change: to the last bit where sums round alike, else closely."""

from __future__ import annotations

import pytest
from tests import bits

# How far ends may move where another BLAS adds up in another order.
CLOSE = 1e-9


def test_ends_are_those_that_are_stored() -> None:
    """If this fails and numbers were meant to change, `python -m tests.bits` writes them anew."""
    found, here = bits.ends(), bits.machine()
    assert len(found) >= 20
    stored = bits.stored()
    assert len(stored) >= 2
    for each in stored:
        assert found.keys() == each["ends"].keys()
        if here == each["machine"]:
            assert found == each["ends"]
        for name, pairs in found.items():
            for ends, old in zip(pairs, each["ends"][name], strict=True):
                assert list(map(float.fromhex, ends)) == pytest.approx(
                    list(map(float.fromhex, old)), rel=CLOSE, abs=CLOSE
                ), name
