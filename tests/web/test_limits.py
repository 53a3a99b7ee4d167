# SPDX-License-Identifier: Apache-2.0
"""Limits that allow nothing, or more than an answer can hold, are refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sottovoce.documents import PAIRS_IN_JSON
from sottovoce.errors import InputError
from sottovoce.web.limits import Limits


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_is_above_0(name: str) -> None:
    with pytest.raises(
        InputError, match=rf"{name} must be a (finite number above 0|whole number of at least 1)"
    ):
        Limits(**{name: 0})


def test_an_answer_holds_what_json_holds() -> None:
    assert Limits().pairs == PAIRS_IN_JSON
    with pytest.raises(InputError, match=r"pairs must be at most 100000.*use sottovoce sweep for more"):
        Limits(pairs=PAIRS_IN_JSON + 1)


@pytest.mark.parametrize(("seconds", "said"), [(0.5, "0.5 seconds"), (1, "1 second"), (60, "60 seconds")])
def test_a_job_that_takes_too_long_is_told_how_long_it_may(seconds: float, said: str) -> None:
    assert Limits(seconds=seconds).overrun.startswith(f"the job took longer than {said} (take fewer rounds, ")
