# SPDX-License-Identifier: Apache-2.0
"""What is not seen, solved from exact rows: its pivots in rationals, what rounding does, and what work it takes."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import fmpq_mat

from sottovoce.errors import NotCertified
from sottovoce.verification import loops
from sottovoce.verification.attacks import _shown
from sottovoce.verification.balls.numbers import fraction, rational
from sottovoce.verification.loops import Kernel, kernel

if TYPE_CHECKING:
    from collections.abc import Iterator


def drawn(count: int) -> Iterator[tuple[np.random.Generator, Kernel, list[list[Fraction]]]]:
    """Kernels of a few rows with signs on five entries, and S in rationals."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        rows = [
            {j: Fraction(int(a), int(b)) for j, (a, b) in enumerate(line)}
            for line in rng.integers((-9, 1), (10, 12), (1 + seed % 3, 5, 2))
        ]
        found = kernel(rows, np.arange(5))
        if len(found.pivots) < len(rows):
            continue
        pivots, free = (
            fmpq_mat([[rational(row[int(j)]) for j in some] for row in rows])
            for some in (found.pivots, found.free)
        )
        yield rng, found, [[fraction(x) for x in line] for line in pivots.solve(free).tolist()]


def check(shares: list[float]) -> None:
    """What rounding did, as shares of what was allowed: never more, and somewhere more than a tenth."""
    assert max(shares) <= 1
    assert max(shares) > 1 / 10


def test_a_row_is_solved_with_its_signs_and_its_sizes_are_beside_it() -> None:
    found = kernel([{0: Fraction(3), 1: Fraction(1), 2: Fraction(-1), 3: Fraction(1, 3)}], np.arange(4))
    assert (found.pivots.tolist(), found.free.tolist(), found.terms) == ([0], [1, 2, 3], 3)
    assert found.solved.toarray().tolist() == [[1 / 3, -1 / 3, 1 / 9]]
    assert found.sizes.toarray().tolist() == [[1 / 3, 1 / 3, 1 / 9]]
    signed, sizes = found.backwards
    assert signed.toarray().tolist() == [[1 / 3], [-1 / 3], [1 / 9]]
    assert sizes.toarray().tolist() == [[1 / 3], [1 / 3], [1 / 9]]


def test_what_free_entries_determine_is_off_by_no_more_than_is_said_and_needs_a_tenth_of_it() -> None:
    shares = []
    for rng, found, solved in drawn(300):
        assert found.terms == max(sum(x != 0 for x in line) for line in solved)
        X = rng.normal(size=(5, 2))
        full, error = found.lifted(X)
        assert (full[found.free] == X[found.free]).all()
        assert not error[found.free].any()
        for p, line in zip(found.pivots, solved, strict=True):
            for column in range(2):
                exact = -sum(s * Fraction(X[f, column]) for s, f in zip(line, found.free, strict=True))
                if allowed := float(error[p, column]):
                    shares.append(float(abs(Fraction(full[p, column]) - exact)) / allowed)
                else:
                    assert exact == full[p, column]
    check(shares)


def test_what_a_statistic_weighs_is_off_by_no_more_than_is_said_and_needs_a_tenth_of_it() -> None:
    shares = []
    for rng, found, solved in drawn(300):
        asked: Any = SimpleNamespace(seen=found, loop=SimpleNamespace(unknown=np.arange(5)))
        weights = rng.normal(size=(len(solved), 2))
        full, error = _shown(asked, weights)
        assert (full[found.pivots] == weights).all()
        for f, line in zip(found.free, zip(*solved, strict=True), strict=True):
            exact = [
                sum((s * Fraction(w) for s, w in zip(line, weights[:, k], strict=True)), Fraction(0))
                for k in (0, 1)
            ]
            off = sum(abs(Fraction(full[f, k]) - exact[k]) for k in (0, 1))
            if allowed := float(error[f]):
                shares.append(float(off) / allowed)
            else:
                assert off == 0
    check(shares)


@pytest.mark.parametrize("small", [Fraction(1, 10**101), Fraction(1, 10**400)])
def test_rows_that_floats_cannot_hold_are_refused(small: Fraction) -> None:
    assert kernel([{0: Fraction(1), 1: Fraction(1, 10**99)}], np.arange(2)).solved.nnz == 1
    with pytest.raises(NotCertified, match="too uneven to be solved in floats"):
        kernel([{0: Fraction(1), 1: small}], np.arange(2))


def test_work_is_counted_in_words_and_refused_where_there_is_too_much_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {0: Fraction(1)}
    assert loops._subtract(row, Fraction(1, 2**128), {0: Fraction(2**128), 1: Fraction(3)}) == 2 * 3
    assert row == {1: Fraction(-3, 2**128)}
    rows = [{j: Fraction(1, 1 + i + j) for j in range(9)} for i in range(5)]
    assert len(kernel(rows, np.arange(9)).pivots) == 5
    # Five rows of nine: each pair is cleared from each other once.
    monkeypatch.setattr(loops, "MOST_WORK", 50)
    with pytest.raises(NotCertified, match="more exact arithmetic than is done here"):
        kernel(rows, np.arange(9))
