# SPDX-License-Identifier: Apache-2.0
"""The harness that cuts allowances does cut them, wherever they were imported."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.allowances import ROOMS, ROOT, allowances, changes, cut, holds, methods, modules, swapped

from sottovoce.filtering import block_rounding, rounding, windows
from sottovoce.filtering.block_rounding import BlockAccuracy, Formed, Measured
from sottovoce.filtering.rounding import Step, is_above, norm_above, product_error, terms
from sottovoce.rounding import above, gamma, roundings, slightly_above
from sottovoce.sensitivities.rounding import congruence, matrix_power

if TYPE_CHECKING:
    import pytest


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
    assert {"sottovoce.accounting.values", "sottovoce.learning.plans"} <= {
        module.__name__
        for function in (roundings, slightly_above)
        for module, _, _ in swapped(every, function)
    }
    assert dict(allowances(rounding))["product_error"] is product_error
    assert all((ROOT / "tests" / name).exists() for names in ROOMS.values() for name in names)


def test_methods_of_classes_are_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    written = {(kind, name) for kind, name, _, _ in methods(block_rounding)}
    assert {
        (BlockAccuracy, "allowances"),
        (Formed, "valued"),
        (Formed, "lengths"),
        (Measured, "add"),
        (Measured, "_turn"),
        (Measured, "leak"),
        (Measured, "accuracy"),
    } <= written
    every = list(modules())
    places = {name: found for _, name, found in changes(every)}
    one, form = np.ones((2, 2)), Formed(matrices=np.ones((1, 2, 2)), tails=np.ones((1, 2)), edges=[0, 2])
    step, valued, lengths = (
        Step.of(one, one, one[None]),
        form.valued(form.matrices, energy=True),
        form.lengths,
    )
    for name in ("filtering.rounding.Step.of", "filtering.block_rounding.Formed.valued"):
        ((kind, attribute, instead),) = places[name]
        monkeypatch.setattr(kind, attribute, instead)
    smaller = Step.of(one, one, one[None])
    assert 0 < smaller.error < 0.011 * step.error
    assert 0 < form.valued(form.matrices, energy=True)[0] < 0.011 * valued[0]
    # What counts in no unit is the same, and is said to have nothing to cut.
    assert places["filtering.block_rounding.Formed.lengths"] == []
    assert lengths.tolist() == [[1.0, 1.0]]
    assert places["filtering.rounding.terms"] == []
    assert not holds(terms)
    # What it asks for a norm is NumPy, and no allowance of that name.
    assert not holds(congruence)
    assert "gaussian.rounding.complement_error" in places
