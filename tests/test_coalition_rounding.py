# SPDX-License-Identifier: Apache-2.0
"""Allowances for pieces of coalitions, against rationals: enough, and not a thousand times too large."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from sottovoce.coalitions.heard_rows import _powers
from sottovoce.coalitions.rounding import comparison_room, piece_error, product_room, row_error
from sottovoce.interval import UNIT_ROUNDOFF


def exact(matrix: np.ndarray) -> np.ndarray:
    """A matrix of rationals."""
    return np.array([Fraction(entry) for entry in matrix.flat], dtype=object).reshape(matrix.shape)


def size(matrix: np.ndarray) -> float:
    """The Frobenius norm of rationals that floats hold once they are added up."""
    return math.sqrt(sum((entry**2 for entry in matrix.flat), Fraction(0)))


def test_products_of_pieces_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, once, twice = np.random.default_rng(1), [], []
    for _ in range(60):
        left, right = (np.tril(rng.uniform(-1, 1, (3, 3))) for _ in range(2))
        stack = rng.uniform(-1, 1, (2, 3, 3))
        found, both = left @ stack, left @ stack @ right.T
        for k in range(2):
            true = exact(left) @ exact(stack[k])
            once.append(size(exact(found[k]) - true) / product_room(left, stack)[k])
            true = true @ exact(right).T
            twice.append(size(exact(both[k]) - true) / product_room(left, stack, right)[k])
    for shares in (once, twice):
        assert max(shares) <= 1
        assert max(shares) > 1 / 100


def test_comparisons_of_norms_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(2), []
    for _ in range(200):
        members = int(rng.integers(1, 6))
        known, share, other, norm = rng.uniform(0, 1, (2, members)), 1 / 3, 1 / 10, float(rng.uniform())
        found = share * norm + other * float(known[0] @ known[1])
        true = Fraction(norm) / 3 + sum((Fraction(a) * Fraction(b) for a, b in known.T), Fraction(0)) / 10
        room = comparison_room(members)
        assert (1 - room) * found <= true <= (1 + room) * found
        shares.append(float(abs(Fraction(found) - true) / true) / room)
    assert max(shares) > 1 / 50


def test_powers_and_rows_are_within_what_is_allowed_and_need_some_of_it() -> None:
    """Of weights that two floats do not hold: sevenths and elevenths."""
    rng, shares, close = np.random.default_rng(3), [], []
    for _ in range(20):
        whole = rng.integers(1, 9, (3, 3))
        # In any order, as rows of a network whose nodes are relabelled are.
        rows = [{int(j): Fraction(int(row[j]), int(row.sum())) for j in rng.permutation(3)} for row in whole]
        weights = np.array([[row[j] for j in range(3)] for row in rows])
        true = weights
        for power in _powers(rows, 4, lambda: None):
            stored = exact(np.asarray(power.high)) + exact(np.asarray(power.low))
            assert (abs(stored - true) <= exact(np.asarray(power.error))).all()
            close.append(float(np.max(np.asarray(power.error))))
            shares.append(size(exact(np.asarray(power.rounded())) - true) / row_error(power))
            true = true @ weights
    assert max(close) < UNIT_ROUNDOFF / 1000
    assert max(shares) <= 1
    assert max(shares) > 1 / 10


def test_pieces_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(4), []
    T, p, n = 2, 2, 4
    for _ in range(10):
        rows, y = rng.uniform(-1, 1, (p, T, n, T)), rng.uniform(0.5, 2, T)
        flat = rows.reshape(p, T, -1)
        # The block of two members over all columns but their own, D = I − Y⁻¹ at the target.
        others = [2, 3]
        found = sum(rows[0, :, c] @ rows[1, :, c].T for c in others) - rows[0, :, p] / y @ rows[1, :, p].T
        true = sum(exact(rows[0, :, c]) @ exact(rows[1, :, c]).T for c in others)
        true = true - (exact(rows[0, :, p]) / exact(y)) @ exact(rows[1, :, p]).T
        assert flat.shape == (p, T, n * T)
        shares.append(size(exact(np.asarray(found)) - true) / piece_error(rows, p, 0.0, y, p))
    assert max(shares) <= 1
    assert max(shares) > 1 / 1000
