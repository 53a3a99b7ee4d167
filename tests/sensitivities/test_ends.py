# SPDX-License-Identifier: Apache-2.0
"""Ends that get closer step by step."""

from __future__ import annotations

import numpy as np

from sottovoce.sensitivities.ends import Ends


def test_what_is_closer_is_taken_over_with_what_is_behind_it() -> None:
    ends = Ends.unknown(3, 10)
    first = Ends.unknown(2, 10)
    first.lower[:], first.upper[:], first.method[:] = [1, 2], [5, 10], ["dual", "cap"]
    first.frequency[:] = [0.5, np.nan]
    first.streams[1] = np.ones(4)
    ends.improve(np.array([2, 0]), first)
    assert ends.lower.tolist() == [2, 0, 1]
    assert ends.upper.tolist() == [10, 10, 5]
    assert ends.method.tolist() == ["cap", "cap", "dual"]
    assert ends.frequency[2] == 0.5
    assert list(ends.streams) == [0]
    # A better stream takes the place of the old one; a worse one does not.
    second = Ends.unknown(1, 10)
    second.lower[:], second.upper[:], second.frequency[:] = 3, 11, 0.25
    ends.improve(np.array([0]), second)
    assert (ends.lower[0], ends.upper[0], ends.frequency[0]) == (3, 10, 0.25)
    assert not ends.streams
    ends.improve(np.array([1, 0]), first)
    assert ends.lower.tolist() == [3, 1, 1]
