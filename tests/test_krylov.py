# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy
from flint import arb, arb_mat, ctx
from scipy import sparse
from tests.ball_matrices import balls

from sottovoce.errors import InputError
from sottovoce.filtering import power_sum
from sottovoce.graphs import metropolis_weights, uniform_weights
from sottovoce.krylov import (
    NEGLIGIBLE,
    KrylovBasis,
    _product_units,
    krylov_bases,
    measured_defect,
    power_error,
    proved_power_error,
)

SYMMETRIC = ("ring:n=24", "erdos-renyi:n=30,p=0.2,seed=1", "star:n=12", "karate", "torus:rows=4,cols=5")


def arnoldi(matrix: Any, block: np.ndarray, *, size: int, symmetric: bool = False) -> KrylovBasis:
    """The first basis of at least `size` dimensions, or the last one."""
    bases = krylov_bases(matrix, block, symmetric=symmetric, largest=size)
    for basis in bases:
        if basis.size >= size:
            return basis
    return basis


def transposed(graph: str, symmetric: bool) -> Any:
    """The transposed gossip matrix: of norm 1 in the Euclidean norm if symmetric, in ℓ¹ otherwise."""
    weights = metropolis_weights(graph) if symmetric else uniform_weights(graph)
    return weights.matrix.T.tocsr()


def left_over(X: Any, basis: KrylovBasis) -> np.ndarray:
    return np.asarray(X @ basis.vectors - basis.vectors @ basis.projected)


def true_power_errors(X: Any, V: np.ndarray, basis: KrylovBasis, powers: int) -> np.ndarray:
    """Σ_ℓ ‖X^ℓ V − Q H^ℓ QᵀV‖ in the Frobenius norm, or with absolute values for bases built in ℓ¹: every sum."""
    sizes, exact, small = np.empty(powers), V.copy(), basis.start.copy()
    for k in range(powers):
        error = exact - basis.vectors @ small
        sizes[k] = np.linalg.norm(error) if basis.euclidean else np.abs(error).sum()
        exact, small = X @ exact, basis.projected @ small
    return np.cumsum(sizes)


def true_power_error(X: Any, V: np.ndarray, basis: KrylovBasis, powers: int) -> float:
    return float(true_power_errors(X, V, basis, powers)[-1])


@pytest.mark.parametrize("graph", SYMMETRIC)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_vectors_are_orthonormal_and_hold_the_start(graph: str, symmetric: bool, width: int) -> None:
    X = transposed(graph, symmetric)
    V = np.eye(X.shape[0])[:, :width]
    for basis in krylov_bases(X, V, largest=9, symmetric=symmetric):
        assert np.allclose(basis.vectors.T @ basis.vectors, np.eye(basis.size), atol=1e-13)
        assert np.allclose(basis.vectors @ basis.start, V, atol=1e-14)


@pytest.mark.parametrize("graph", SYMMETRIC)
@pytest.mark.parametrize("symmetric", [True, False])
def test_the_residual_bounds_what_the_relation_leaves_over(graph: str, symmetric: bool) -> None:
    X = transposed(graph, symmetric)
    rng = np.random.default_rng(3)
    for basis in krylov_bases(X, np.eye(X.shape[0])[:, :2], largest=8, symmetric=symmetric):
        rest = left_over(X, basis)
        defect = measured_defect(X, np.eye(X.shape[0])[:, :2], basis)
        # The part within the space is rounding alone.
        assert np.abs(basis.vectors.T @ rest).max() <= defect.relation + defect.skew
        for v in rng.standard_normal((5, basis.size)):
            size = np.linalg.norm(rest @ v) if symmetric else np.abs(rest @ v).sum()
            factor = basis.residual @ v
            bound = np.linalg.norm(factor) if symmetric else np.abs(factor).sum()
            assert size <= bound + np.sqrt(X.shape[0]) * defect.relation * np.linalg.norm(v)


@pytest.mark.parametrize("n", [6, 7, 12, 13])
def test_a_ring_closes_at_half_its_nodes_and_one(n: int) -> None:
    X = transposed(f"ring:n={n}", True)
    basis = arnoldi(X, np.eye(n)[:, :1], size=n, symmetric=True)
    assert basis.size == n // 2 + 1
    assert basis.residual.shape[0] == 0
    assert np.linalg.norm(left_over(X, basis)) <= measured_defect(X, np.eye(n)[:, :1], basis).relation
    assert power_error(basis, 500) == 0.0


def test_a_complete_graph_closes_at_two() -> None:
    X = transposed("complete:n=9", True)
    assert arnoldi(X, np.eye(9)[:, :1], size=9, symmetric=True).size == 2


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_closed_space_reproduces_every_power(symmetric: bool) -> None:
    X = transposed("karate", symmetric)
    V = np.eye(34)[:, [0, 5]]
    basis = arnoldi(X, V, size=34, symmetric=symmetric)
    assert basis.residual.shape[0] == 0
    assert true_power_error(X, V, basis, 60) < 1e-11


@pytest.mark.parametrize("graph", SYMMETRIC)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("width", [1, 2])
def test_the_power_error_is_an_upper_bound(graph: str, symmetric: bool, width: int) -> None:
    X = transposed(graph, symmetric)
    V = np.eye(X.shape[0])[:, :width]
    for basis in krylov_bases(X, V, largest=9, symmetric=symmetric):
        truth = true_power_errors(X, V, basis, 150)
        defect = measured_defect(X, V, basis)
        rounding = defect.relation + defect.start
        for powers in (1, 2, 5, 40, 150):
            bound = power_error(basis, powers) * (1 + 1e-12) + powers**2 * X.shape[0] * rounding
            assert truth[powers - 1] <= bound, powers


@pytest.mark.parametrize("graph", SYMMETRIC)
def test_the_power_error_is_within_a_factor_of_the_powers(graph: str) -> None:
    # Exact at two powers past the cut; over `powers` of them the triangle inequality loses less than that factor.
    X = transposed(graph, True)
    V = np.eye(X.shape[0])[:, :1]
    basis = arnoldi(X, V, size=2, symmetric=True)
    assert power_error(basis, 3) == pytest.approx(true_power_error(X, V, basis, 3), rel=1e-9)
    for powers in (5, 20):
        assert power_error(basis, powers) <= powers * true_power_error(X, V, basis, powers)


@pytest.mark.parametrize("powers", [1, 2, 63, 64, 65, 66, 129, 130])
def test_powers_taken_in_blocks_add_up_to_the_plain_sum(powers: int) -> None:
    X = transposed("erdos-renyi:n=30,p=0.2,seed=1", True)
    basis = arnoldi(X, np.eye(30)[:, :2], size=6, symmetric=True)
    plain, small = 0.0, basis.start
    for k in range(powers - 1):
        plain += (powers - 1 - k) * float(np.linalg.norm(basis.residual @ small))
        small = basis.projected @ small
    assert power_error(basis, powers) == pytest.approx(plain, rel=1e-10, abs=0)


def test_a_sum_that_is_given_up_has_passed_what_is_enough() -> None:
    basis = arnoldi(transposed("ring:n=24", True), np.eye(24)[:, :1], size=4, symmetric=True)
    assert power_error(basis, 1000) > 1e-3
    assert 1e-3 < power_error(basis, 1000, enough=1e-3) <= power_error(basis, 1000)


@pytest.mark.parametrize("symmetric", [True, False])
def test_dependent_starts_are_taken_once(symmetric: bool) -> None:
    X = transposed("torus:rows=4,cols=5", symmetric)
    first = np.eye(20)[:, :2]
    V = np.hstack([first, first @ [[1.0, -2.0], [0.5, 3.0]], np.zeros((20, 1))])
    for basis, plain in zip(
        krylov_bases(X, V, largest=8, symmetric=symmetric),
        krylov_bases(X, first, largest=8, symmetric=symmetric),
        strict=True,
    ):
        assert basis.size == plain.size
        assert np.allclose(basis.vectors @ basis.start, V, atol=1e-13)
        assert true_power_error(X, V, basis, 20) <= power_error(basis, 20) + 1e-11


def test_a_block_that_closes_in_part_goes_on_with_the_rest() -> None:
    # Two separate rings of 8 and of 20: the first start closes after 5 vectors, the second after 11.
    rings = [transposed(f"ring:n={n}", True) for n in (8, 20)]
    X = scipy.sparse.csr_array(scipy.sparse.block_diag(rings))
    V = np.eye(28)[:, [0, 8]]
    basis = arnoldi(X, V, size=28, symmetric=True)
    assert basis.size == 5 + 11
    assert true_power_error(X, V, basis, 50) < 1e-12


def test_a_symmetric_projection_is_symmetric_to_the_last_bit() -> None:
    basis = arnoldi(transposed("karate", True), np.eye(34)[:, :2], size=10, symmetric=True)
    assert (basis.projected == basis.projected.T).all()
    assert np.allclose(
        basis.projected, basis.vectors.T @ (transposed("karate", True) @ basis.vectors), atol=1e-14
    )


def test_the_size_asked_for_is_reached_and_the_block_not_cut() -> None:
    X = transposed("erdos-renyi:n=30,p=0.2,seed=1", True)
    assert arnoldi(X, np.eye(30)[:, :1], size=7, symmetric=True).size == 7
    assert 7 <= arnoldi(X, np.eye(30)[:, :3], size=7, symmetric=True).size <= 9


def test_no_size_below_one() -> None:
    with pytest.raises(InputError, match="largest must be a whole number of at least 1; got 0"):
        arnoldi(transposed("ring:n=6", True), np.eye(6)[:, :1], size=0)


@pytest.mark.parametrize("graph", ["torus:rows=70,cols=60", "preferential:n=4200,core=5,links=3,seed=1"])
@pytest.mark.parametrize("width", [1, 3])
def test_long_vectors_stay_orthogonal_though_not_all_are_looked_at(
    graph: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = transposed(graph, True)
    V = np.linalg.qr(np.random.default_rng(5).standard_normal((X.shape[0], width)))[0]
    monkeypatch.setattr("sottovoce.krylov.LONG", X.shape[0])
    thrifty = arnoldi(X, V, size=90, symmetric=True)
    monkeypatch.setattr("sottovoce.krylov.LONG", X.shape[0] + 1)
    careful = arnoldi(X, V, size=90, symmetric=True)
    inner = left_over(X, thrifty)[:, : 90 - width]
    found, at_best = measured_defect(X, V, thrifty), measured_defect(X, V, careful)
    assert np.linalg.norm(thrifty.vectors.T @ thrifty.vectors - np.eye(90)) <= found.skew <= 2 * at_best.skew
    assert np.linalg.norm(inner) <= found.relation <= 2 * at_best.relation
    assert np.allclose(
        np.linalg.eigvalsh(thrifty.projected), np.linalg.eigvalsh(careful.projected), atol=1e-12
    )


@pytest.mark.parametrize("long", [True, False])
def test_a_space_that_closes_in_on_an_eigenvector_stays_orthogonal(
    long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An eigenvalue far from all others is found within a few steps, and comes back into every later vector.
    X = scipy.sparse.csr_array(np.diag(np.r_[1.0, np.linspace(0, 0.22, 79)]))
    V = np.full((80, 1), 80**-0.5)
    monkeypatch.setattr("sottovoce.krylov.LONG", 0 if long else 81)
    basis = arnoldi(X, V, size=40, symmetric=True)
    found = measured_defect(X, V, basis)
    assert np.linalg.norm(basis.vectors.T @ basis.vectors - np.eye(basis.size)) <= found.skew < 1e-12
    assert found.relation < 1e-13


def test_vectors_that_are_not_orthogonal_are_found_out() -> None:
    X = transposed("karate", True)
    V = np.eye(34)[:, :2]
    basis = arnoldi(X, V, size=10, symmetric=True)
    vectors = basis.vectors.copy()
    vectors[:, 7] += 1e-9 * vectors[:, 1]
    tilted = measured_defect(X, V, replace(basis, vectors=vectors))
    assert 1e-9 < tilted.skew < 2e-9
    assert 1e-10 < tilted.relation < 2e-9


def norm(matrix: arb_mat) -> float:
    """The Frobenius norm, to the nearest float."""
    return float(sum((x * x for x in matrix.entries()), arb(0)).sqrt())


def cut(basis: KrylovBasis, powers: int) -> float:
    """Σ (powers − 1 − k)·‖f H^k V‖ without rounding, or of the sizes of all entries for bases built in ℓ¹.

    Balls grow in every power, by less than the two bits a power that are given to them.
    """
    with ctx.workprec(256 + 2 * powers):
        H, f, v = (balls(part) for part in (basis.projected, basis.residual, basis.start))
        truth = arb(0)
        for k in range(powers - 1):
            shown = (f * v).entries()
            squares = sum((x * x for x in shown), arb(0))
            size = squares.sqrt() if basis.euclidean else sum(map(abs, shown), arb(0))
            truth += (powers - 1 - k) * size
            v = H * v
        assert truth.rad() <= truth.mid() * 2.0**-60
        return float(truth)


@pytest.mark.parametrize("graph", ["karate", "erdos-renyi:n=60,p=0.2,seed=1", "ring:n=40"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("width", [1, 3])
def test_the_measured_defect_holds_in_256_bits_and_is_not_a_thousand_times_too_large(
    graph: str, symmetric: bool, width: int
) -> None:
    X = transposed(graph, symmetric)
    V = np.linalg.qr(np.random.default_rng(2).standard_normal((X.shape[0], width)))[0]
    basis = arnoldi(X, V, size=15, symmetric=symmetric)
    found = measured_defect(X, V, basis)
    with ctx.workprec(256):
        Q, H, next_block, f, block, first = (
            balls(part)
            for part in (basis.vectors, basis.projected, basis.following, basis.factor, V, basis.start)
        )
        relation = balls(X) * Q - Q * H - next_block * f
        skew = Q.transpose() * Q - balls(np.eye(basis.size))
        true = [norm(rest) for rest in (relation, block - Q * first, skew)]
    for bound, size in zip((found.relation, found.start, found.skew), true, strict=True):
        assert size <= bound <= 1000 * size


@pytest.mark.parametrize("graph", ["ring:n=40", "karate", "erdos-renyi:n=30,p=0.2,seed=1"])
@pytest.mark.parametrize("size", [6, 20])
def test_what_is_cut_is_covered_in_256_bits_and_not_a_thousand_times_too_large(graph: str, size: int) -> None:
    X = transposed(graph, True)
    basis = arnoldi(X, np.eye(X.shape[0])[:, :1], size=size, symmetric=True)
    powers = 30
    truth = cut(basis, powers)
    found = proved_power_error(basis, powers, float(powers))
    assert truth <= found
    # What is added for rounding, beside the per mille for sums, is below a thousand units of all powers.
    assert found <= 1.01 * truth + 1000 * powers**2 * 2.0**-53


@pytest.mark.parametrize(
    ("graph", "symmetric", "size", "slow"),
    [
        ("ring:n=40", True, 6, False),
        ("karate", True, 12, True),
        ("karate", False, 12, True),
        ("erdos-renyi:n=60,p=0.2,seed=1", True, 12, True),
        ("erdos-renyi:n=60,p=0.2,seed=1", True, 3, True),
        ("hypercube:dim=5", True, 3, True),
    ],
)
@pytest.mark.parametrize("width", [1, 2])
def test_powers_that_are_not_followed_are_covered_in_256_bits(
    monkeypatch: pytest.MonkeyPatch, graph: str, symmetric: bool, size: int, slow: bool, width: int
) -> None:
    X = transposed(graph, symmetric)
    basis = arnoldi(X, np.eye(X.shape[0])[:, :width], size=size, symmetric=symmetric)
    powers = 600
    truth, stretch = cut(basis, powers), power_sum(basis.projected, 0.0, powers)
    for followed in (1, 2, 7, 30, 200):
        monkeypatch.setattr("sottovoce.krylov.FOLLOWED", followed)
        monkeypatch.setattr("sottovoce.krylov.SETTLING", min(followed, 30))
        assert truth <= proved_power_error(basis, powers, stretch)
    # Once one rate is left the bound is close; changes that last are counted again and again.
    assert proved_power_error(basis, powers, stretch) <= (3 if slow else 1000) * truth


def test_following_fewer_powers_costs_next_to_nothing_once_one_rate_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = transposed("karate", True)
    basis = arnoldi(X, np.eye(X.shape[0])[:, :1], size=12, symmetric=True)
    whole = proved_power_error(basis, 2000, 2000.0)
    monkeypatch.setattr("sottovoce.krylov.SETTLING", 500)
    # What is added for changes is a share of NEGLIGIBLE at most, or more powers are followed.
    assert whole < proved_power_error(basis, 2000, 2000.0) <= (1 + NEGLIGIBLE) * whole


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_space_that_never_settles_is_bounded_however_long(sign: float) -> None:
    # A path of states with a rate of ±1 that the last of them shows 1e-9 of.
    H = sign * np.diag([1.0, 0.5])
    H[0, 1] = H[1, 0] = 1e-9
    basis = KrylovBasis(
        vectors=np.eye(3)[:, :2],
        projected=H,
        start=np.array([[1.0], [0.0]]),
        following=np.eye(3)[:, 2:],
        factor=np.array([[0.0, 0.1]]),
        residual=np.array([[0.0, 0.1]]),
        euclidean=True,
    )
    powers = 10**6
    # The slow state is (1, 2e-9) or so, and stays; f reads 2e-10 of it in every power.
    expected = 0.1 * 2e-9 * powers**2 / 2
    assert 0.99 * expected <= proved_power_error(basis, powers, 2.0 * powers) <= 1.1 * expected


def test_a_product_errs_in_proportion_to_its_columns_as_well_as_to_its_rows() -> None:
    """‖diag(k)|X|‖ for X of many rows that all have one column, its transpose, and some of their kind."""
    rng, one = np.random.default_rng(8), np.zeros((16, 16))
    one[:, 0] = 1.0
    for X in (one, one.T, *(rng.normal(size=(9, 9)) * (rng.random((9, 9)) < 0.3) for _ in range(20))):
        counted = np.count_nonzero(X, axis=1)[:, None] * np.abs(X)
        units = _product_units(sparse.csr_array(X))
        assert np.linalg.norm(counted, 2) * (1 - 1e-14) <= units <= 4 * np.linalg.norm(counted, 2)
