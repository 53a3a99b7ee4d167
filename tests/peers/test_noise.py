# SPDX-License-Identifier: Apache-2.0
"""Noise in whole numbers: the law that is promised, also where words are so short that every comparison ties."""

import functools
import os
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from sottovoce.errors import InputError
from sottovoce.peers import noise
from sottovoce.peers.noise import Deviates, Uniforms, rounded_gaussian


def agrees(values: NDArray[np.int64], edges: NDArray[np.floating], law: NDArray[np.floating]) -> bool:
    """Whether counts between edges could come from a law; the ends hold what lies beyond."""
    counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    return bool(stats.chisquare(counts, law * values.size).pvalue > 1e-6)


@pytest.mark.parametrize("deviation", [1, 2, 37, 2**20, 2**48])
def test_the_law_is_that_of_a_rounded_normal_deviate(deviation: int) -> None:
    values = rounded_gaussian(60_000, deviation=deviation)
    step = max(1, deviation // 4)
    edges = np.arange(-3 * deviation, 3 * deviation + 1, step) + 0.5
    below = ndtr(edges / deviation)
    assert agrees(values, edges, np.diff(below, prepend=0.0, append=1.0))


def short_words(bits: int) -> Callable[[int], NDArray[np.uint64]]:
    """Words of which only the first bits are drawn: numbers with digits of that many bits."""
    drawn = np.random.default_rng(bits)
    return lambda count: drawn.integers(0, 2**bits, count, dtype=np.uint64) << np.uint64(64 - bits)


@pytest.mark.parametrize("bits", [2, 5])
def test_ties_are_decided_by_further_words(bits: int) -> None:
    cases = np.random.default_rng(0)

    class Short(Deviates):
        def _cases(self, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
            return cases.integers(0, bounds).astype(np.uint64)

        def _choose_whole(self, at: NDArray[np.intp]) -> None:
            weights = np.exp(-(np.arange(9) ** 2) / 2)
            self.whole[at] = cases.choice(9, at.size, p=weights / weights.sum())

    drawn = Short(5000, short_words(bits))
    assert len(drawn.part.tails) > 100
    # Halves of the line: k, and the first bit of x.
    halves = 2 * drawn.whole + (drawn.part.words >= 2**63)
    edges = np.arange(6) + 0.5
    below = 2 * ndtr((edges + 0.5) / 2) - 1
    assert agrees(halves, edges, np.diff(below, prepend=0.0, append=1.0))


def test_levels_are_exact_to_their_last_bit() -> None:
    with mpmath.workprec(3000):
        weights = [mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(80)]
        whole = mpmath.fsum(weights)
        exact = [
            int(mpmath.floor(mpmath.fsum(weights[: k + 1]) / whole * mpmath.mpf(2) ** 1024))
            for k in range(39)
        ]
    assert list(noise._levels()[:39]) == exact


def test_a_number_at_a_level_is_looked_at_in_all_its_bits() -> None:
    level = noise._levels()[1]
    for number, expected in ((level - 1, 1), (level, 2), (level + 1, 2)):
        script = iter(
            [[int.from_bytes(number.to_bytes(128, "big")[8 * k : 8 * k + 8], "big")] for k in range(16)]
        )
        drawn = Deviates(0, lambda _: np.zeros(0, dtype=np.uint64))
        drawn.whole = np.zeros(1, dtype=np.int64)
        drawn._coin = Uniforms(1, functools.partial(lambda script, _: next(script), script))
        drawn._choose_whole(np.array([0]))
        assert drawn.whole.tolist() == [expected]
        assert next(script, None) is None


def test_cases_are_equal_where_words_do_not_divide() -> None:
    most = 2**64 - 1
    script = iter([[most], [most], [5]])
    drawn = Deviates(0, lambda _: np.array(next(script), dtype=np.uint64))
    # 2⁶⁴ is 1 modulo 3, so the last word would make one case likelier.
    assert drawn._cases(np.array([3], dtype=np.uint64)).tolist() == [2]


def test_a_number_is_compared_in_all_its_words() -> None:
    script = iter([[7], [7], [4], [4], [1], [2]])
    first, second = (Uniforms(1, lambda _: np.array(next(script), dtype=np.uint64)) for _ in range(2))
    at = np.array([0])
    first.draw(at)
    second.draw(at)
    assert first.below(second, at).tolist() == [True]
    assert first.tails == {0: [4, 1]}
    assert second.tails == {0: [4, 2]}
    # What was drawn for a comparison stays part of the number.
    assert second.below(first, at).tolist() == [False]


@pytest.mark.parametrize("by", [3, 2**31 - 1, 2**47 + 5])
def test_rounding_asks_for_as_many_words_as_it_needs(by: int) -> None:
    # On its first word x·by may be below ½ or not; the next decides, by its last bit.
    word, rest = divmod(2**63, by)
    assert rest > 0
    for tail, expected in ((rest * 2**64 // by, 0), (rest * 2**64 // by + 1, 1)):
        drawn = Deviates(0, lambda _: np.zeros(0, dtype=np.uint64))
        drawn.whole = np.zeros(1, dtype=np.int64)
        drawn.part = Uniforms(1, lambda _: np.array([0], dtype=np.uint64))
        drawn.part.words[0] = word
        drawn.part.tails[0] = [tail]
        exact = ((word * 2**64 + tail) * by * 2 + 2**128) >> 129
        assert drawn.scaled(by).tolist() == [exact]
        assert exact == expected


def test_products_are_exact() -> None:
    rng = np.random.default_rng(0)
    words = np.append(
        rng.integers(0, 2**64 - 1, 200, dtype=np.uint64), np.array([0, 2**64 - 1], dtype=np.uint64)
    )
    for factor in (1, 2**31, 2**32 + 1, 2**48):
        upper, lower = noise._product(words, np.uint64(factor))
        exact = [int(word) * factor for word in words]
        assert [(int(a) << 64) + int(b) for a, b in zip(upper, lower, strict=True)] == exact


def test_noise_comes_from_the_system_and_never_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.urandom

    def counted(count: int) -> bytes:
        asked.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", counted)
    first = rounded_gaussian(1000, deviation=2**30)
    assert sum(asked) >= 8 * 3 * 1000
    assert not np.any(first == rounded_gaussian(1000, deviation=2**30))
    np.random.seed(0)  # noqa: NPY002 - a seed must make no difference
    again = rounded_gaussian(1000, deviation=2**30)
    np.random.seed(0)  # noqa: NPY002
    assert not np.any(again == rounded_gaussian(1000, deviation=2**30))


def test_bad_deviations_are_refused() -> None:
    for deviation in (0, -1, 2**48 + 1):
        with pytest.raises(InputError, match="between 1 and 2\\^48"):
            rounded_gaussian(1, deviation=deviation)
    assert rounded_gaussian(0, deviation=1).size == 0
