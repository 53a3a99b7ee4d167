# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from flint import fmpq_mat

from sottovoce.filtering import decorrelation
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Form,
    Protocol,
    chebyshev,
    gossip,
    gradient_tracking,
    once,
    pairwise_noise,
    repeated,
)
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


def rank(forms: tuple[Form, ...]) -> int:
    """The dimension that forms span, in rationals."""
    columns = sorted({key for form in forms for key in form})
    return int(fmpq_mat([[form.get(key, 0) for key in columns] for form in forms]).rank())


@pytest.mark.parametrize(
    "view", [View.neighbourhood(1), View.coalition_messages([0, 3]), View.single_node(2)]
)
@pytest.mark.parametrize(
    "protocol",
    [
        repeated(metropolis_weights("erdos-renyi:n=12,p=0.4,seed=1"), rounds=2, steps=3),
        chebyshev(metropolis_weights("ring:n=9"), rounds=2, steps=4),
        once(metropolis_weights("grid:rows=3,cols=4"), steps=5),
        once(metropolis_weights("complete:n=6"), steps=3),
    ],
    ids=lambda protocol: protocol.name,
)
def test_rows_that_floats_chose_say_what_all_of_them_do(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    eliminated = seen_view(protocol, view)
    turned = []
    found = decorrelation._turned

    def watched(forms: Any) -> Any:
        turned.append(found(forms))
        return turned[-1]

    monkeypatch.setattr(decorrelation, "_turned", watched)
    monkeypatch.setattr(decorrelation, "MANY", 0)
    quick = seen_view(protocol, view, thrifty=True)
    assert quick.bare == eliminated.bare
    assert turned or all(
        decorrelation._are_independent(each.rows) or each.rows == other.rows
        for each, other in zip(quick.rounds, eliminated.rounds, strict=True)
    )
    for each, other in zip(quick.rounds, eliminated.rounds, strict=True):
        assert len(each.rows) == len(other.rows) == rank(each.rows) == rank((*each.rows, *other.rows))


def test_what_is_left_of_forms_without_draws_is_kept() -> None:
    first, second = {0: 2, 1: 1, STATE: 5}, {0: 1, 1: 3}
    both = [first, second]
    assert decorrelation._told_apart([*both, {0: 3, 1: 4, STATE: 5}]) == (both, [])
    assert decorrelation._told_apart([*both, {0: 3, 1: 4, STATE: 4}]) == (both, [{STATE: -1}])
    assert decorrelation._told_apart([{STATE: 3}, *both]) == (both, [{STATE: 1}])
    # A multiple of the prime is no draw modulo it, and nothing that is left over either.
    assert decorrelation._told_apart([first, {1: decorrelation.PRIME}]) is None


def test_combinations_of_forms_that_are_nearly_the_same_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decorrelation, "MANY", 0)
    forms = [{0: 10**6, 1: 1, 2: 7}, {0: 10**6, 1: 2, STATE: 3}, {0: 1, 2: 1}]
    assert not decorrelation._are_independent(forms)
    turned = decorrelation._clearly_independent(forms)
    assert turned is not None
    rows, old = turned
    assert not old
    assert decorrelation._are_independent(rows)
    assert rank((*forms, *rows)) == 3
    # Where they cannot be told apart by floats nothing is chosen.
    assert decorrelation._clearly_independent([{0: 10**12, 1: 1}, {0: 10**12, 1: 2}]) is None
