# SPDX-License-Identifier: Apache-2.0
"""Training with hidden states: what is certified covers what is attained, and averaging's number does not."""

from __future__ import annotations

import pytest
from tests.studies.small import quick

from sottovoce import gaussian

TWO = ("star:n=9", "ring:n=12")


def test_no_loop_in_the_ball_beats_what_is_certified() -> None:
    result = quick("training", networks=TWO)
    assert len(result.cases) == 6
    for case in result.cases:
        assert 0.8 * case.certified < case.attained <= case.certified <= result.config.rounds
    assert [finding.verdict for finding in result.findings] == ["does not hold", "holds", "holds", "holds"]


def test_known_values() -> None:
    result = quick("training", networks=TWO)
    complete = quick("training", networks=("complete:n=12",), balls=((0.0, 1.0),))
    found = {(case.network, case.ball): case for case in (*result.cases, *complete.cases)}
    rounds = result.config.rounds
    # 81/88 is exact for the star of 8 leaves; the ring's value is that of the reference solver.
    assert found["star:n=9", (0.0, 1.0)].certified / rounds == pytest.approx(81 / 88, rel=1e-4)
    assert found["ring:n=12", (0.9, 1.0)].certified / rounds == pytest.approx(0.52419, rel=1e-4)
    assert found["complete:n=12", (0.0, 1.0)].certified / rounds == pytest.approx(1 / 11, rel=1e-9)
    star = found["star:n=9", (1.0, 1.0)]
    assert star.certified == star.averaging == pytest.approx(rounds / 8, rel=1e-6)


def test_the_clipped_neighbour_lies_between() -> None:
    result = quick("training", networks=TWO)
    one = result.config.epsilons.index(1.0)
    assert result.smallest == pytest.approx(1.3, rel=1e-4)
    assert result.certified_delta[one] == pytest.approx(gaussian.delta(1.3**0.5, 1.0), rel=1e-3)
    assert result.nonlinear.certified[one] < result.nonlinear.delta[one] < result.certified_delta[one]
