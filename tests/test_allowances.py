# SPDX-License-Identifier: Apache-2.0
"""The harness that cuts allowances does cut them, wherever they were imported."""

from __future__ import annotations

import inspect

import numpy as np
from benchmarks.allowances import ROOMS, ROOT, allowances, cut, modules, swapped

from sottovoce.filtering import rounding, windows
from sottovoce.filtering.rounding import is_above, norm_above, product_error
from sottovoce.rounding import above, gamma, roundings, slightly_above
from sottovoce.sensitivities.rounding import matrix_power


def test_what_is_an_amount_is_a_hundredth_and_all_else_counts_in_smaller_units() -> None:
    one = np.ones((2, 2))
    assert cut(product_error)(2, one, one) == 0.01 * product_error(2, one, one)
    assert cut(gamma)(3) == 0.01 * gamma(3)
    assert cut(above)(1.0) == 1 + 0.01 * (above(1.0) - 1)
    # 1 − 4u is closer to the truth than what is proved needs, and not than a hundredth of it.
    assert not is_above(np.eye(2), 1 - 4 * 2.0**-53)
    assert cut(is_above)(np.eye(2), 1 - 4 * 2.0**-53)
    # One that is wrapped, so that it does not warn, is cut all the same.
    assert cut(matrix_power).__code__ is inspect.unwrap(matrix_power).__code__
    assert 1 <= cut(norm_above)(np.eye(2)[None])[0] < norm_above(np.eye(2)[None])[0]


def test_every_place_is_found_and_every_room_has_tests() -> None:
    every = list(modules())
    places = {module.__name__ for module, _, _ in swapped(every, product_error)}
    assert {rounding.__name__, windows.__name__, "sottovoce.filtering"} <= places
    assert {"sottovoce.accounting.values", "sottovoce.learning.reactions"} <= {
        module.__name__
        for function in (roundings, slightly_above)
        for module, _, _ in swapped(every, function)
    }
    assert dict(allowances(rounding))["product_error"] is product_error
    assert all((ROOT / "tests" / name).exists() for names in ROOMS.values() for name in names)
