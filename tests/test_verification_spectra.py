# SPDX-License-Identifier: Apache-2.0
"""What a check proves of spectra: true in 512 bits, close to the truth, and false with a hundredth of it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb, arb_mat
from tests.ball_matrices import balls
from tests.sensitivities.test_rounding import barely_indefinite

from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.verification import rounding, spectra
from sottovoce.verification.balls.numbers import decided, positive
from sottovoce.verification.spectra import (
    factors,
    frobenius,
    is_above,
    largest_eigenvalue,
    least_singular,
    norm_above,
    skewness,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MUTANT = 0.01


def scaled(number: float, size: int) -> arb_mat:
    """A number times the identity."""
    return arb_mat(size, size, [arb(number) if i == j else arb(0) for i in range(size) for j in range(size)])


def no_less(number: float, symmetric: np.ndarray) -> bool | None:
    """Whether no eigenvalue of a symmetric matrix exceeds a number: exactly."""
    return decided(lambda: positive(scaled(number, len(symmetric)) - balls(symmetric)))


def no_shorter(number: float, matrix: np.ndarray) -> bool | None:
    """Whether ‖X‖₂ is at most a number: exactly."""
    return decided(
        lambda: positive(
            scaled(number, 1)[0, 0] * scaled(number, len(matrix)) - balls(matrix) * balls(matrix).transpose()
        )
    )


def no_longer(number: float, matrix: np.ndarray) -> bool | None:
    """Whether σ_min of rows is at least a number: exactly."""
    return decided(
        lambda: positive(
            balls(matrix) * balls(matrix).transpose() - scaled(number, 1)[0, 0] * scaled(number, len(matrix))
        )
    )


def no_straighter(number: float, rows: np.ndarray) -> bool | None:
    """Whether ‖BBᵀ − I‖₂ is at most a number: exactly."""

    def holds() -> bool | None:
        apart = balls(rows) * balls(rows).transpose() - scaled(1.0, len(rows))
        return positive(scaled(number, 1)[0, 0] * scaled(number, len(rows)) - apart * apart)

    return decided(holds)


def symmetric(rng: np.random.Generator) -> np.ndarray:
    """One with entries of all sizes, some with an eigenvalue that is nearly 0."""
    n = int(rng.integers(1, 5))
    X = rng.standard_normal((n, n)) * 10.0 ** rng.integers(-3, 4)
    if rng.random() < 0.5:
        X[:, :1] = X[:, -1:]
    return np.asarray(X @ X.T if rng.random() < 0.5 else (X + X.T) / 2)


def wide(rng: np.random.Generator) -> np.ndarray:
    """Rows, some of them nearly dependent on the others."""
    k = int(rng.integers(1, 4))
    X = rng.standard_normal((k, k + int(rng.integers(0, 3))))
    if k > 1 and rng.random() < 0.7:
        X[-1] = X[0] + 10.0 ** rng.integers(-12, -2) * rng.standard_normal(X.shape[1])
    return np.asarray(X * 2.0 ** rng.integers(-300, 300))


def nearly_orthonormal(rng: np.random.Generator) -> np.ndarray:
    """Rows of a QR factorisation as LAPACK has them, some of them moved by a little more than that."""
    k = int(rng.integers(1, 5))
    Q = np.linalg.qr(rng.standard_normal((k + 3, k)))[0].T
    return np.asarray(Q * (1 + 10.0 ** rng.integers(-17, -6)))


PROVED: list[tuple[Callable[[np.ndarray], float], Any, Any]] = [
    (largest_eigenvalue, symmetric, no_less),
    (norm_above, wide, no_shorter),
    (least_singular, wide, no_longer),
    (skewness, nearly_orthonormal, no_straighter),
]


def cases(make: Any, count: int) -> Iterator[np.ndarray]:
    """The same ones each time."""
    rng = np.random.default_rng(11)
    yield from (make(rng) for _ in range(count))


@pytest.mark.parametrize(("bound", "make", "holds"), PROVED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_proved_of_a_spectrum_is_true_and_a_hundredth_of_its_room_is_too_little(
    bound: Callable[[np.ndarray], float], make: Any, holds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(holds(bound(matrix), matrix) is True for matrix in cases(make, 300))
    for name in ("definite_room", "gamma", "roundings"):
        whole = getattr(spectra, name)
        monkeypatch.setattr(spectra, name, lambda *given, whole=whole: MUTANT * whole(*given))
    # Nor is a per cent of the bound itself added then.
    monkeypatch.setattr(spectra, "above", lambda number: number)
    assert any(holds(bound(matrix), matrix) is False for matrix in cases(make, 300))


def test_what_is_proved_of_a_spectrum_is_close_to_it() -> None:
    for X in cases(symmetric, 100):
        truth, size = np.linalg.eigvalsh(X)[-1], np.linalg.norm(X)
        assert largest_eigenvalue(X) <= truth + 1000 * UNIT_ROUNDOFF * size
    for scaled_rows in cases(wide, 100):
        X = scaled_rows / 2.0 ** round(np.log2(np.abs(scaled_rows).max()))
        values = np.linalg.svd(X, compute_uv=False)
        assert norm_above(X) <= values[0] * (1 + 1e-13)
        # What is nearly dependent is told from what is dependent by how nearly.
        assert least_singular(X) >= values[-1] * (1 - 1e-13 * (values[0] / values[-1]))
    for B in cases(nearly_orthonormal, 100):
        assert skewness(B) <= 1.02 * np.linalg.norm(B @ B.T - np.eye(len(B))) + 1e-14


def indefinite(matrix: np.ndarray, least: float) -> bool:
    """Whether X − βI has a negative determinant, exactly."""
    (a, d), (_, b) = ([Fraction(x) for x in row] for row in matrix.tolist())
    return (a - Fraction(least)) * (b - Fraction(least)) < d**2


def test_nothing_indefinite_is_taken_for_definite(monkeypatch: pytest.MonkeyPatch) -> None:
    barely = [np.diag(y) - form for form, y in barely_indefinite(2000)]
    assert not any(is_above(X) for X in barely)
    # So it is of what is to be proved on either side of 0.
    for least in (-4.0, 4.0):
        moved = [Y for Y in (X + least * np.eye(2) for X in barely) if indefinite(Y, least)]
        assert len(moved) > 100
        assert not any(is_above(Y, least) for Y in moved)
    assert all(is_above(X + 60 * UNIT_ROUNDOFF * np.trace(X) * np.eye(2)) for X in barely)
    whole = rounding.definite_room
    monkeypatch.setattr(spectra, "definite_room", lambda *given: MUTANT * whole(*given))
    assert any(is_above(X) for X in barely)


def test_what_is_tiny_is_not_taken_for_definite_because_it_underflows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each square in the last row of the factor is less than half of the least float, and three are more than one."""
    X = 2.0**-1030 * np.eye(4)
    X[3, :3] = X[:3, 3] = 1.55e-162 * 2.0**-515
    X[3, 3] = 2.0**-1074
    assert decided(lambda: positive(balls(X))) is False
    assert factors(X)
    assert not is_above(X)
    assert frobenius(np.full((3, 3), 1e-200)) >= 3e-200
    assert norm_above(np.full((3, 3), 1e-200)) >= 3e-200
    assert least_singular(np.array([[1e-200, 0.0]])) <= 1e-200
    monkeypatch.setattr(rounding, "UNDERFLOWN", 0.0)
    assert is_above(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_proves_nothing(bad: float) -> None:
    X = np.array([[1.0, 0.0], [0.0, bad]])
    assert not factors(X)
    assert not is_above(X)
    assert largest_eigenvalue(X) == norm_above(X) == frobenius(X) == skewness(X) == np.inf
    assert least_singular(X) == 0


def test_what_overflows_on_the_way_proves_nothing() -> None:
    X = np.array([[1e-300, 1e300, 0.0], [1e300, 1e308, 1e300], [0.0, 1e300, 1.0]])
    assert not factors(X)
    assert norm_above(np.full((2, 2), 1e200)) == np.inf
    assert 0 <= least_singular(np.full((1, 2), 1e200)) <= 1.4e200


def test_dependent_rows_and_too_many_prove_nothing() -> None:
    assert least_singular(np.array([[1.0, 1.0], [1.0, 1.0]])) == 0
    assert least_singular(np.array([[1.0], [1.0]])) == 0
    assert least_singular(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])) <= 2.0**-52


def test_nothing_has_next_to_no_eigenvalue() -> None:
    assert 0 <= spectra.largest_eigenvalue(np.zeros((0, 0))) < 1e-150
