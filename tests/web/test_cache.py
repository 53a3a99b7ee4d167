# SPDX-License-Identifier: Apache-2.0
"""The cache keeps what was used last, within its bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.web.cache import Cache


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 60), st.booleans()), max_size=60))
def test_it_never_holds_more_than_it_may(steps: list[tuple[str, int, bool]]) -> None:
    cache = Cache(100)
    order: list[tuple[str, int]] = []
    for key, size, reads in steps:
        if reads:
            found = cache.find(key)
            held = dict(order)
            assert (None if found is None else len(found)) == held.get(key)
            if found is not None:
                order = [each for each in order if each[0] != key] + [(key, held[key])]
            continue
        cache.put(key, b"x" * size)
        order = [each for each in order if each[0] != key] + [(key, size)]
        while sum(size for _, size in order) > 100:
            order.pop(0)
        assert cache.bytes == sum(size for _, size in order) <= 100
        assert len(cache) == len(order)


def test_one_that_is_too_large_stands_alone() -> None:
    cache = Cache(10)
    cache.put("small", b"123")
    cache.put("large", b"x" * 50)
    assert cache.find("small") is None
    assert cache.find("large") == b"x" * 50
    cache.put("small", b"123")
    assert cache.find("large") is None
    assert cache.bytes == 3
