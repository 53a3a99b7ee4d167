# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sottovoce.filtering.decorrelation import seen_view
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Protocol, gossip, gradient_tracking, once, pairwise_noise, repeated
from sottovoce.protocols.compiled import STATE
from sottovoce.views import View

PATH = metropolis_weights("path:n=4")


def counts(protocol: Protocol, view: View) -> list[int]:
    return [len(each.rows) for each in seen_view(protocol, view).rounds]


@pytest.mark.parametrize(
    ("protocol", "view", "expected"),
    [
        (gossip(PATH, rounds=3), View.everyone, [4, 4, 4]),
        # The observer's own messages tell a round late what it received, which its neighbours' messages tell at once.
        (gossip(PATH, rounds=3), View.neighbourhood(1), [2, 2, 2]),
        (gossip(PATH, rounds=3), View.secure_sum(0), [1, 1, 1]),
        (gossip(PATH, rounds=3), View.single_node(0), [1, 1, 0]),
        (gossip(PATH, rounds=3), View.single_node(0, own_noise="hidden"), [1, 1, 1]),
        # Second messages of everyone follow from the first.
        (repeated(PATH, rounds=2, steps=3), View.everyone, [4, 4]),
        (repeated(PATH, rounds=2, steps=3), View(name="everyone", exchanges=(3,)), [4, 4]),
        (once(PATH, steps=5), View.secure_sum(0), [3]),
        # The tracked gradient is sent a round after it was drawn.
        (gradient_tracking(PATH, rounds=4), View.secure_sum(0), [2, 2, 1, 1]),
    ],
)
def test_how_many_rows_carry_noise_of_their_own(protocol: Protocol, view: View, expected: list[int]) -> None:
    assert counts(protocol, view) == expected


@pytest.mark.parametrize("view", [View.neighbourhood(1), View.everyone, View.coalition_sums([0, 2])])
def test_each_row_has_a_draw_to_itself(view: View) -> None:
    for seen in seen_view(repeated(PATH, rounds=3, steps=2), view).rounds:
        for row, pivot in zip(seen.rows, seen.pivots, strict=True):
            assert row[pivot] > 0
            assert [other for other in seen.pivots if other in row] == [pivot]
            assert all(seen.known.isdisjoint(seen.compiled.owners[key]) for key in row if key < STATE)


def test_draws_of_edges_are_known_at_both_ends() -> None:
    protocol = pairwise_noise(PATH, rounds=2, local=1, shared=1)
    (first, _) = seen_view(protocol, View.neighbourhood(1)).rounds
    drawn = {first.compiled.owners[key] for row in first.rows for key in row if key < STATE}
    assert drawn == {(0,), (2,), (2, 3)}


@pytest.mark.parametrize(
    ("local", "view", "bare"),
    [
        (0, View.everyone, {(t, j) for t in range(2) for j in range(4)}),
        ((0, 1, 1, 1), View.neighbourhood(1), {(t, 0) for t in range(2)}),
        ((0, 1, 1, 1), View.secure_sum(3), set()),
    ],
)
def test_what_no_noise_hides_is_found(local: Any, view: View, bare: set[tuple[int, int]]) -> None:
    assert seen_view(pairwise_noise(PATH, rounds=2, local=local, shared=1), view).bare == bare
