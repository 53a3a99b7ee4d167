# SPDX-License-Identifier: Apache-2.0
"""Numbers in findings are rounded to the safe side, and verdicts count cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.studies.results import above, below, near, verdict_of


@given(st.floats(1e-12, 1e12))
def test_ends_are_rounded_outward(value: float) -> None:
    assert float(below(value)) <= value <= float(above(value))
    assert float(above(value)) == pytest.approx(value, rel=2e-3)
    assert float(near(value)) == pytest.approx(value, rel=1e-3)


def test_zero_and_negative() -> None:
    assert below(0.0) == above(0.0) == near(0.0) == "0"
    assert float(below(-1.23456)) <= -1.23456 <= float(above(-1.23456))


def test_verdicts() -> None:
    assert verdict_of([True, True]) == "holds"
    assert verdict_of([True, False]) == "holds in part"
    assert verdict_of([False]) == "does not hold"
