# SPDX-License-Identifier: Apache-2.0
"""Where nodes are drawn: every node has a place of its own, and the same one each time."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.graphs import as_graph
from sottovoce.page import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def neighbours(name: str) -> list[list[int]]:
    matrix = as_graph(name).adjacency
    return [matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]].tolist() for i in range(matrix.shape[0])]


@pytest.fixture(scope="module")
def page(browser: Browser) -> Any:
    found = browser.new_page()
    found.add_script_tag(content=FOLDER.joinpath("panels/layout.js").read_text(encoding="utf-8"))
    yield found
    found.close()


@pytest.mark.parametrize(
    "lists",
    [
        neighbours("ring:n=12"),
        neighbours("star:n=30"),
        neighbours("complete:n=8"),
        neighbours("grid:rows=5,cols=4"),
        neighbours("path:n=2"),
        [[1], [0], [3], [2], []],
        [[]],
        [[], [], []],
    ],
    ids=["ring", "star", "complete", "grid", "edge", "pieces", "single", "alone"],
)
def test_every_node_has_a_place_of_its_own(lists: list[list[int]], page: Any) -> None:
    places = page.evaluate("(lists) => sottovoce.layout.positions(lists)", lists)
    assert len(places) == len(lists)
    assert all(math.isfinite(value) for place in places for value in place)
    apart = [math.dist(a, b) for a, b in itertools.combinations(places, 2)]
    assert not apart or min(apart) > 0.05
    assert places == page.evaluate("(lists) => sottovoce.layout.positions(lists)", lists)


def test_a_ring_is_drawn_as_a_ring(page: Any) -> None:
    places = page.evaluate("(lists) => sottovoce.layout.positions(lists)", neighbours("ring:n=16"))
    centre = [sum(axis) / 16 for axis in zip(*places, strict=True)]
    radii = [math.dist(place, centre) for place in places]
    assert min(radii) > 0.6 * max(radii)


def test_parts_of_a_large_network(page: Any) -> None:
    lists = neighbours("preferential:n=1200,core=5,links=3,seed=1")
    near = page.evaluate("(lists) => sottovoce.layout.around([7], lists, 50)", lists)
    assert near[0] == 7
    assert len(near) == len(set(near)) == 50
    assert set(lists[7]) <= set(near) or len(lists[7]) >= 50
    sample = page.evaluate("(lists) => sottovoce.layout.byDegree(lists, 100)", lists)
    assert len(sample) == len(set(sample)) == 100
    degrees = [len(each) for each in lists]
    assert degrees[sample[0]] == max(degrees)
    assert degrees[sample[-1]] <= sorted(degrees)[30]
