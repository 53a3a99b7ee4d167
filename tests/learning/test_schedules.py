"""Step sizes and their spelling."""

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import Schedule
from sottovoce.learning.schedules import as_schedule


@pytest.mark.parametrize("text", ["0.5", "2", "0.25/sqrt(t)", "1e-05", "0.5/(1+t/20)", "3/(1+t/2.5)"])
def test_spellings_return(text: str) -> None:
    assert str(Schedule.parse(text)) == text
    assert Schedule.parse(f" {text} ") == Schedule.parse(text)


def test_sizes() -> None:
    assert Schedule(size=0.5).sizes(3).tolist() == [0.5, 0.5, 0.5]
    assert np.allclose(Schedule.parse("1/sqrt(t)").sizes(3), [1, 2**-0.5, 3**-0.5])
    assert np.allclose(Schedule.parse("1/(1+t/2)").sizes(3), [2 / 3, 1 / 2, 2 / 5])


def test_numbers_and_texts_are_schedules() -> None:
    assert as_schedule(0.5) == as_schedule("0.5") == as_schedule(Schedule(size=0.5))


@pytest.mark.parametrize("text", ["", "-1", "1/t", "fast", "1/(1+t/0)", "0"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be"):
        Schedule.parse(text)
