"""One tile: how large it is by default, and what it holds."""

import pytest

from sottovoce.sweeps import VIEWS
from sottovoce.sweeps.tiles import default_tile, expected_pairs
from sottovoce.views import VIEW_NAMES


@pytest.mark.parametrize(
    ("nodes", "tile"), [(2, 1), (34, 1), (100, 3), (1000, 31), (4039, 25), (100_000, 1), (1_000_000, 1)]
)
def test_a_part_has_about_100_000_rows_or_there_are_32(nodes: int, tile: int) -> None:
    assert default_tile(nodes) == tile


def test_observers_who_know_their_noise_skip_themselves() -> None:
    observers, targets = expected_pairs(range(1, 3), 3, "known")
    assert observers.tolist() == [1, 1, 2, 2]
    assert targets.tolist() == [0, 2, 0, 1]
    assert expected_pairs(range(1, 3), 3, "hidden")[1].tolist() == [0, 1, 2, 0, 1, 2]


def test_views_are_views() -> None:
    assert set(VIEWS) < set(VIEW_NAMES)
