# SPDX-License-Identifier: Apache-2.0
"""What checks of a certificate allow for rounding: above the truth, and too little at a hundredth of it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpq_mat
from tests.ball_matrices import balls
from tests.sensitivities.test_rounding import barely_indefinite

from sottovoce.errors import NotCertified
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.verification.balls.numbers import positive, rational
from sottovoce.verification.hidden import _float_rows
from sottovoce.verification.rounding import (
    MOST_DEFECT,
    above,
    closely_above,
    contraction_room,
    definite_room,
    gamma,
    inverted,
    narrowly_above,
    raised,
    rational_room,
    roundings,
    scaled_error,
    slightly_raised,
    underflown,
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


def test_what_underflows_in_sums_of_products_is_less_than_is_allowed() -> None:
    rng = np.random.default_rng(12)
    for _ in range(200):
        G, c = (10.0 ** rng.uniform(-165, -158, 4) for _ in range(2))
        Z = float(10.0 ** rng.uniform(0, 20))
        lost = sum(Fraction(g) * Fraction(x) for g, x in zip(G, c, strict=True)) * Fraction(Z) - Fraction(
            float(G @ c) * Z
        )
        assert abs(lost) <= Fraction(underflown(Z)) + abs(Fraction(float(G @ c) * Z)) * 8 * UNIT
    # Where all of it underflows nothing else is left that could be allowed.
    assert 1.5e-162 * 1.5e-162 == 0
    assert underflown() >= 10**22 * Fraction(1, 2**1075)


def test_what_is_multiplied_with_a_measured_inverse_is_within_what_is_allowed() -> None:
    rng, shares = np.random.default_rng(13), []
    for _ in range(300):
        R = float(rng.uniform(0.5, 2))
        # An inverse that is off by up to what is not refused.
        X = (1 - float(rng.uniform(-MOST_DEFECT, MOST_DEFECT)) * 0.999) / R
        rho = abs(1 - Fraction(X) * Fraction(R))
        assert rho <= Fraction(MOST_DEFECT)
        size, apart = 1 / Fraction(R), abs(1 / Fraction(R) - Fraction(X))
        assert size <= Fraction(inverted(abs(X)))
        assert apart <= Fraction(inverted(abs(X))) * rho
        shares.append((size / Fraction(abs(X)) - 1) / (Fraction(inverted(1.0)) - 1))
    assert max(shares) > 1 / 10


def test_floats_that_stand_for_rows_are_as_long_and_as_straight_as_they_are_said_to_be() -> None:
    """In rationals and balls: the rows that are returned against the span that they stand for."""
    rng = np.random.default_rng(14)
    for k in range(60):
        many, columns = int(rng.integers(1, 4)), int(rng.integers(4, 7))
        numbers = rng.integers(-9, 10, (many, columns))
        # Every other time the last row nearly depends on the first one.
        near = Fraction(1, 10 ** int(rng.integers(1, 9))) if k % 2 else Fraction(1)
        lines = [{j: Fraction(int(x), 7) for j, x in enumerate(row) if x} for row in numbers]
        if many > 1:
            lines[-1] = {
                j: x
                for j in range(columns)
                if (x := lines[0].get(j, Fraction(0)) + near * lines[-1].get(j, Fraction(0)))
            }
        exact = fmpq_mat(
            many, columns, [rational(line.get(j, Fraction(0))) for line in lines for j in range(columns)]
        )
        if exact.rank() < many:
            continue
        rows, smallest, turned, relative = _float_rows(lines, columns)
        assert 0.999 < smallest <= 1
        with ctx.workprec(512):
            C, B = arb_mat(exact), balls(rows)
            P = C.transpose() * (C * C.transpose()).inv() * C
            one = arb_mat(columns, columns, [int(i == j) for i in range(columns) for j in range(columns)])
            away, kept = B * (one - P), B * P
            allowed = turned + relative * UNIT_ROUNDOFF
            least = arb_mat(many, many, [int(i == j) for i in range(many) for j in range(many)])
            assert positive(least * (arb(allowed) * arb(1.001)) ** 2 - away * away.transpose()) is True
            short = least * (arb(smallest) - arb(relative * UNIT_ROUNDOFF)) ** 2
            assert positive(kept * kept.transpose() - short) is True


def test_rows_that_floats_take_for_one_node_are_not_taken_for_it() -> None:
    tiny = Fraction(1, 10**400)
    with pytest.raises(NotCertified, match="more than 10¹⁰⁰ times"):
        _float_rows([{0: Fraction(1), 1: tiny}, {0: Fraction(1), 1: 2 * tiny}], 2)
    # The same node twice is no two independent rows.
    assert _float_rows([{0: Fraction(1)}, {0: Fraction(2)}], 2)[1] == 0
    assert _float_rows([{1: Fraction(3)}, {0: Fraction(2)}], 2)[1:] == (1.0, 0.0, 0)
