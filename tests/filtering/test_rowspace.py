# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce.filtering.rowspace import RowSpace, independent_rows

Row = dict[int, Fraction]
entries = st.integers(-3, 3)


@st.composite
def matrices(draw: Any) -> list[list[int]]:
    columns = draw(st.integers(1, 6))
    rows: list[list[int]] = draw(
        st.lists(st.lists(entries, min_size=columns, max_size=columns), min_size=1, max_size=6)
    )
    return rows


def as_row(numbers: Any) -> Row:
    return {j: Fraction(x) for j, x in enumerate(numbers) if x}


def spanned(rows: Any) -> RowSpace:
    return RowSpace.spanned_by(as_row(row) for row in rows)


@examples(60)
@given(matrices())
def test_the_rank_is_that_of_the_matrix(rows: list[list[int]]) -> None:
    # Whole numbers this small leave float ranks no room for doubt.
    assert spanned(rows).rank == np.linalg.matrix_rank(np.array(rows))


@examples(60)
@given(matrices(), st.lists(entries, min_size=6, max_size=6))
def test_every_combination_is_in_the_span(rows: list[list[int]], factors: list[int]) -> None:
    combination = np.array(factors[: len(rows)]) @ np.array(rows)
    assert spanned(rows).contains(as_row(combination.tolist()))


@examples(60)
@given(matrices(), matrices())
def test_a_row_is_contained_just_if_it_does_not_raise_the_rank(
    rows: list[list[int]], others: list[list[int]]
) -> None:
    space = spanned(rows)
    for other in others:
        row = as_row(other)
        assert space.contains(row) == (space.extended([row]).rank == space.rank)


@examples(60)
@given(matrices())
def test_extending_leaves_the_space_itself_as_it_was(rows: list[list[int]]) -> None:
    space = spanned(rows[:1])
    rank = space.rank
    grown = space.extended(as_row(row) for row in rows)
    assert space.rank == rank
    assert grown.rank == spanned(rows).rank


@examples(60)
@given(matrices())
def test_later_pivot_rows_are_0_in_earlier_pivot_columns(rows: list[list[int]]) -> None:
    pivots = list(spanned(rows).pivots.items())
    for place, (pivot, line) in enumerate(pivots):
        assert line[pivot] == 1
        assert all(pivot not in later for _, later in pivots[place + 1 :])


@examples(60)
@given(matrices())
def test_independent_rows_are_an_orthonormal_basis_of_the_span(rows: list[list[int]]) -> None:
    matrix = np.array(rows, dtype=float)
    basis, error = independent_rows(spanned(rows), matrix.shape[1])
    assert basis.shape == (np.linalg.matrix_rank(matrix), matrix.shape[1])
    assert np.abs(basis @ basis.T - np.eye(len(basis))).max(initial=0) <= error
    assert np.abs(matrix - matrix @ basis.T @ basis).max() <= 10 * error * (1 + np.abs(matrix).max()) * 6


@pytest.mark.parametrize("nudge", [1e-3, 1e-9, 1e-15, 2.0**-60, 1e-200])
def test_a_nudge_of_any_size_is_a_direction_of_its_own(nudge: float) -> None:
    space = RowSpace.spanned_by([as_row([1, 1, 1]), as_row([1, 1, Fraction(1) + Fraction(nudge)])])
    assert space.rank == 2
    basis, error = independent_rows(space, 3)
    # The span is that of (1, 1, 0) and (0, 0, 1), however small the nudge: nothing is lost to rounding.
    for row in ([1.0, 1.0, 0.0], [0.0, 0.0, 1.0]):
        assert np.linalg.norm(row - np.asarray(row) @ basis.T @ basis) <= 4 * error
    assert error < 1e-13


def test_thirds_of_a_rule_are_dependent_where_their_floats_are_not() -> None:
    third = Fraction(1, 3)
    exact = [{0: third, 1: third}, {0: Fraction(1, 2), 1: Fraction(1, 2)}]
    assert RowSpace.spanned_by(exact).rank == 1
    floats = [{0: Fraction(1 / 3), 1: Fraction(1 - 2 / 3)}, {0: Fraction(0.5), 1: Fraction(0.5)}]
    assert RowSpace.spanned_by(floats).rank == 2


def test_no_rows_span_nothing() -> None:
    space = RowSpace.spanned_by([{}, {2: Fraction(0)}])
    assert space.rank == 0
    assert space.contains({})
    assert not space.contains({0: Fraction(1)})
    assert independent_rows(space, 4)[0].shape == (0, 4)


def test_the_error_grows_with_the_condition_of_the_rows() -> None:
    def error(gap: Fraction) -> float:
        return independent_rows(
            RowSpace(pivots={0: {0: Fraction(1), 1: Fraction(1)}, 1: {1: gap, 0: Fraction(1)}}), 2
        )[1]

    assert error(Fraction(1) + Fraction(1, 10**6)) > 1e4 * error(Fraction(3))
