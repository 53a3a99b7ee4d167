# SPDX-License-Identifier: Apache-2.0
"""Shares: never more than there is, and always something for the next client."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.web.shares import FairShares, client_name


@given(st.integers(1, 60), st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 5), st.booleans())))
def test_no_one_holds_more_than_is_free(most: int, steps: list[tuple[str, int, bool]]) -> None:
    shares = FairShares(most)
    held: Counter[str] = Counter()
    for client, amount, gives in steps:
        if gives:
            amount = min(amount, held[client])
            shares.give(client, amount)
            held[client] -= amount
        elif shares.take(client, amount):
            held[client] += amount
            assert held[client] <= most - (held.total() - amount)
        else:
            assert held[client] + amount > most - held.total()
        assert shares.total == held.total() <= most


@pytest.mark.parametrize("greedy", [1, 2, 5])
def test_the_next_client_finds_half_of_what_any_has(greedy: int) -> None:
    shares = FairShares(600)
    names = [str(number) for number in range(greedy)]
    held = Counter(name for _ in range(600) for name in names if shares.take(name))
    assert set(held.values()) == {600 // (greedy + 1)}
    assert sum(shares.take("late") for _ in range(600)) == 600 // (greedy + 1) // 2


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_client_is_an_address_or_a_network(host: str, name: str) -> None:
    assert client_name(host) == name
