# SPDX-License-Identifier: Apache-2.0
"""What checks of a certificate allow for rounding: above the truth, and too little at a hundredth of it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.sensitivities.test_rounding import barely_indefinite

from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.verification.rounding import (
    above,
    closely_above,
    contraction_room,
    definite_room,
    gamma,
    narrowly_above,
    raised,
    rational_room,
    roundings,
    scaled_error,
    slightly_raised,
)

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT, MUTANT = Fraction(UNIT_ROUNDOFF), 0.01


def factors(matrix: np.ndarray) -> bool:
    """Whether a Cholesky factorisation in floats runs to its end."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


@pytest.mark.parametrize("count", [1, 3, 1000, 10**6 + 1, 10**12])
def test_units_are_what_so_many_roundings_do(count: int) -> None:
    exact = count * UNIT / (1 - count * UNIT)
    assert exact * (1 - 4 * UNIT) <= Fraction(gamma(count)) <= exact * (1 + 4 * UNIT)
    assert exact <= Fraction(above(gamma(count))) <= Fraction(1011, 1000) * exact
    assert Fraction(roundings(count)) == count * UNIT
    # What a path of roundings takes off a bound is less than the room that it is given.
    for room, most in ((above, 10**12), (closely_above, 10**11), (narrowly_above, 10**8)):
        assert Fraction(room(1.0)) * (1 - (most + 2) * UNIT) > 1
    assert gamma(8) < slightly_raised(1.0) - 1 < gamma(20)
    assert gamma(80) < raised(1.0) - 1 < gamma(200)


@pytest.mark.parametrize(
    "room",
    [lambda X: definite_room(len(X), float(np.abs(np.diag(X)).sum())), rational_room],
    ids=["floats", "rationals"],
)
def test_nothing_indefinite_is_taken_for_definite_and_a_hundredth_of_the_room_is_too_little(
    room: Callable[[np.ndarray], float],
) -> None:
    cases = [np.diag(y) - form for form, y in barely_indefinite(4000)]
    for X in cases:
        (a, d), (_, b) = X.tolist()
        assert Fraction(a) * Fraction(b) < Fraction(d) ** 2
    assert not any(factors(X - room(X) * np.eye(2)) for X in cases)
    assert any(factors(X - MUTANT * room(X) * np.eye(2)) for X in cases)
    # What is definite by little more than the room is proved to be.
    assert all(factors(X + 60 * UNIT_ROUNDOFF * np.trace(X) * np.eye(2) - room(X) * np.eye(2)) for X in cases)


def test_nothing_that_stretches_is_taken_for_a_contraction_and_a_hundredth_of_the_room_is_too_little() -> (
    None
):
    rng, cases = np.random.default_rng(9), []
    for _ in range(300):
        V = rng.uniform(0.1, 1, (100, 1))
        V /= np.linalg.norm(V)
        # Floats between 2⁻⁸ and 1 are whole numbers of 2⁻⁶⁰.
        while sum(int(x * 2.0**60) ** 2 for x in V[:, 0].tolist()) <= 2**120:
            V[0, 0] = np.nextafter(V[0, 0], 2)
        cases.append(V)

    def proved(V: np.ndarray, share: float) -> bool:
        room = contraction_room(100, 1, float(np.einsum("ij,ij->", V, V)))
        return factors((1 - share * room) * np.eye(1) - V.T @ V)

    assert not any(proved(V, 1.0) for V in cases)
    assert any(proved(V, MUTANT) for V in cases)
    assert all(proved(V * (1 - 200 * UNIT_ROUNDOFF), 1.0) for V in cases)


def test_rows_that_are_scaled_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(10), []
    for _ in range(200):
        rest, scale = rng.uniform(-1, 1, 2), float(rng.uniform(0.5, 2))
        V = scale * rest
        off = sum((Fraction(v) - Fraction(scale) * Fraction(x)) ** 2 for v, x in zip(V, rest, strict=True))
        shares.append(float(off) ** 0.5 / scaled_error(0.0, float(np.linalg.norm(V))))
    assert max(shares) <= 1
    assert max(shares) > 1 / 10
    assert scaled_error(1.0, 0.0) == above(1.0)
