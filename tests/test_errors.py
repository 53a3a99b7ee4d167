# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sottovoce import errors
from sottovoce.errors import (
    FileError,
    GraphError,
    InputError,
    NotCertified,
    SottovoceError,
    ViewError,
    at_least,
    one_of,
    positive,
    probability,
)


@pytest.mark.parametrize("kind", [InputError, GraphError, ViewError, FileError, NotCertified])
def test_every_error_is_a_sottovoce_error(kind: type[Exception]) -> None:
    assert issubclass(kind, SottovoceError)


@pytest.mark.parametrize("kind", [InputError, GraphError, ViewError, FileError])
def test_what_a_caller_got_wrong_is_a_value_error(kind: type[Exception]) -> None:
    assert issubclass(kind, InputError)
    assert issubclass(kind, ValueError)


def test_a_claim_that_is_not_proved_is_no_value_error() -> None:
    assert not issubclass(NotCertified, ValueError)


def test_the_tree_in_the_docstring_names_every_class() -> None:
    assert errors.__doc__ is not None
    for name in errors.__all__:
        if isinstance(getattr(errors, name), type):
            assert name in errors.__doc__


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, None, "many", True])
def test_positive_names_the_value_and_the_rule(value: Any) -> None:
    with pytest.raises(InputError, match=r"^clip must be a finite number above 0; got ") as raised:
        positive(clip=value)
    assert str(raised.value).endswith(repr(value))


@pytest.mark.parametrize("value", [1, 0.5, 1e-300, np.float64(2.0), np.int64(3)])
def test_positive_accepts_numbers_above_0(value: Any) -> None:
    positive(clip=value, noise=value)


def test_positive_points_at_the_value_that_is_wrong() -> None:
    with pytest.raises(InputError, match=r"^noise must"):
        positive(clip=1.0, noise=0.0)


@pytest.mark.parametrize("value", [0, -3, 1.5, math.nan, math.inf, None, "ten", False])
def test_at_least_wants_whole_numbers(value: Any) -> None:
    with pytest.raises(InputError, match=r"^rounds must be a whole number of at least 1; got "):
        at_least(1, rounds=value)


@pytest.mark.parametrize("value", [2, 2.0, np.int32(7)])
def test_at_least_accepts_whole_numbers_of_any_type(value: Any) -> None:
    at_least(2, rounds=value)


def test_the_minimum_itself_is_allowed_and_one_less_is_not() -> None:
    at_least(4, rounds=4)
    with pytest.raises(InputError, match="at least 4; got 3"):
        at_least(4, rounds=3)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.1, math.nan, None, "small", True])
def test_a_probability_lies_strictly_between_0_and_1(value: Any) -> None:
    with pytest.raises(InputError, match=r"^delta must lie strictly between 0 and 1; got "):
        probability(delta=value)


@pytest.mark.parametrize("value", [5e-324, 0.5, math.nextafter(1, 0)])
def test_the_smallest_and_the_largest_probability_are_accepted(value: float) -> None:
    probability(delta=value)


def test_one_of_lists_the_choices() -> None:
    one_of(("dense", "filter"), engine="filter")
    with pytest.raises(InputError, match=r"^engine must be one of dense, filter; got 'quick'$"):
        one_of(("dense", "filter"), engine="quick")


def test_one_of_reads_choices_from_any_iterable() -> None:
    one_of(iter(("a", "b")), first="a", second="b")
    with pytest.raises(InputError, match="second must be one of a, b; got 3"):
        one_of(iter(("a", "b")), first="a", second=3)


@pytest.mark.parametrize("value", ["3", b"3", 10**400, None, True])
def test_what_is_not_a_number_is_refused_as_input(value: object) -> None:
    for check in (positive, probability):
        with pytest.raises(InputError, match=r"^share must "):
            check(share=value)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^share must be a whole number of at least 1; got "):
        at_least(1, share=value)  # type: ignore[arg-type]
