# SPDX-License-Identifier: Apache-2.0
"""Diagonals above many small forms at once, and norms from above."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from sottovoce.filtering import norm_above, rounding
from sottovoce.sensitivities.many_targets.block_dual import constant_in_blocks, dominating


def forms_of(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Forms of full and of small rank, of all scales, some of which see nothing of a block."""
    roots = rng.standard_normal((count, size, size)) * 10.0 ** rng.uniform(-8, 2, (count, 1, 1))
    roots[::3, 2:] = 0
    roots[1::4, :, -2:] = 0
    roots[-1] = 0
    return np.asarray(roots.transpose(0, 2, 1) @ roots)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_diagonals_lie_above_the_forms(degree: int) -> None:
    rng = np.random.default_rng(degree)
    lengths = np.array([3.0, 9.0, 9.0, 9.0])
    forms = forms_of(rng, 25, 4 * degree)
    y = dominating(forms, lengths)
    for form, found in zip(forms, y, strict=True):
        above = np.diag(np.repeat(found, degree)) - form
        assert np.linalg.eigvalsh(above)[0] >= -1e-13 * np.trace(form)


def test_the_diagonals_are_next_to_the_best_ones() -> None:
    rng = np.random.default_rng(5)
    lengths = np.full(6, 4.0)
    for form in forms_of(rng, 9, 12)[:-1]:
        V = rng.standard_normal((12, 12))
        for _ in range(3000):
            cut = (form @ V).reshape(6, -1)
            V = (2 * cut / (np.linalg.norm(cut, axis=1, keepdims=True) + 1e-300)).reshape(12, -1)
        attained = float((V * (form @ V)).sum())
        assert attained <= float(dominating(form[None], lengths)[0] @ lengths) * (1 + 1e-9)
        assert float(dominating(form[None], lengths)[0] @ lengths) <= 1.25 * attained


def test_forms_whose_squares_underflow_are_dominated_too() -> None:
    for size in (1e-160, 1e-200, 1e-300, 1e-320):
        form = np.full((1, 4, 4), size)
        assert (dominating(form, np.ones(2)) >= 3.9 * size).all()


def test_norms_hold_against_256_bits_and_are_close(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    matrices = rng.standard_normal((6, 4, 4)) * 10.0 ** rng.uniform(-100, 100, (6, 1, 1))
    # A matrix and its multiples of orthogonal ones have all singular values alike, where the last root is farthest off.
    matrices[0] = np.linalg.qr(matrices[1])[0]
    for squares, room in ((5, 4 ** (1 / 64)), (40, 1 + 1e-12)):
        monkeypatch.setattr(rounding, "SQUARES", squares)
        for matrix, found in zip(matrices, norm_above(matrices), strict=True):
            with mpmath.workprec(256):
                exact = max(mpmath.svd_r(mpmath.matrix(matrix.tolist()), compute_uv=False))
                share = (mpmath.mpf(float(found)) - exact) / exact
            assert 0 <= share <= room - 1 + 1e-12
    assert float(norm_above(np.zeros((1, 3, 3)))[0]) == 0


def test_vectors_that_keep_to_a_block_attain_what_is_said() -> None:
    rng = np.random.default_rng(7)
    forms = forms_of(rng, 9, 6)
    for streams in (1, 3):
        vectors, value = constant_in_blocks(forms, streams)
        assert np.abs(np.linalg.norm(vectors, axis=2) - 1).max() <= 1e-14
        expected = np.einsum("kid,kij,kjd->k", vectors, forms, vectors)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-300)
        # No less than vectors that never change.
        assert (value >= forms.sum(axis=(1, 2)) * (1 - 1e-9) - 1e-300).all()
