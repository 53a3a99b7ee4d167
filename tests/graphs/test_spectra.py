"""Spectra against closed forms and against numpy's dense eigenvalues, on both sides of the dense limit."""

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from sottovoce.graphs import (
    lazy_weights,
    matrix_weights,
    metropolis_weights,
    spectra,
    spectrum,
    uniform_weights,
)


@pytest.fixture(autouse=True)
def _a_lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the dense limit need not be large."""
    monkeypatch.setattr(spectra, "_DENSE_NODES", 200)


def two_way_ring(n: int, left: float) -> Any:
    """A directed ring that is doubly stochastic and not symmetric."""
    forth = np.roll(np.eye(n), 1, axis=0)
    return 0.2 * np.eye(n) + left * forth + (0.8 - left) * forth.T


def random_directed(n: int, seed: int) -> Any:
    graph = nx.DiGraph()
    rng = np.random.default_rng(seed)
    graph.add_edges_from((i, (i + 1) % n) for i in range(n))
    graph.add_edges_from(rng.integers(n, size=(5 * n, 2)).tolist())
    return uniform_weights(graph)


CASES: dict[str, Callable[[int], Any]] = {
    "symmetric": lambda n: metropolis_weights(f"small-world:n={n},k=6,p=0.3,seed=3"),
    "slow": lambda n: metropolis_weights(f"grid:rows=10,cols={n // 10}"),
    "lazy": lambda n: lazy_weights(f"preferential:n={n},core=4,links=2,seed=1"),
    "reversible": lambda n: uniform_weights(f"preferential:n={n},core=4,links=2,seed=1"),
    "directed": lambda n: random_directed(n, 4),
    "lazy directed": lambda n: lazy_weights(random_directed(n, 5)),
}


def nontrivial_eigenvalues(weights: Any) -> Any:
    W = weights.matrix.toarray()
    values = np.linalg.eigvalsh(W) if weights.symmetric else np.linalg.eigvals(W)
    return np.delete(values, np.argmin(np.abs(values - 1)))


@pytest.mark.parametrize("size", [60, 220])
@pytest.mark.parametrize("case", CASES)
def test_against_dense_eigenvalues(case: str, size: int) -> None:
    weights = CASES[case](size)
    found = spectrum(weights)
    others = nontrivial_eigenvalues(weights)
    expected = (others.real.max(), others.real.min(), np.abs(others).max())
    assert found.converged
    assert (found.second, found.smallest, found.rho) == pytest.approx(expected, abs=2e-6)
    assert found.gap == 1 - found.rho
    assert np.abs(weights.matrix.T @ found.stationary - found.stationary).max() <= 1e-14
    assert found.stationary.sum() == pytest.approx(1, abs=1e-12)
    assert found.stationary.min() > 0


@pytest.mark.parametrize("n", [3, 10, 201])
def test_ring(n: int) -> None:
    values = (1 + 2 * np.cos(2 * np.pi * np.arange(1, n) / n)) / 3
    found = spectrum(metropolis_weights(f"ring:n={n}"))
    assert found.second == pytest.approx(values.max(), abs=1e-9)
    assert found.smallest == pytest.approx(values.min(), abs=1e-9)


@pytest.mark.parametrize("n", [2, 9, 250])
def test_complete(n: int) -> None:
    found = spectrum(metropolis_weights(f"complete:n={n}"))
    assert found.rho == pytest.approx(0, abs=1e-12)
    assert found.gap == pytest.approx(1, abs=1e-12)


def test_one_step_to_a_common_value_without_symmetry() -> None:
    pi = np.arange(1.0, 251.0)
    pi /= pi.sum()
    found = spectrum(matrix_weights(np.tile(pi, (250, 1)), normalise=True))
    assert found.rho == pytest.approx(0, abs=1e-9)
    assert np.allclose(found.stationary, pi, atol=1e-15)


def test_complete_without_self_weights_has_only_negative_eigenvalues() -> None:
    n = 240
    found = spectrum(matrix_weights((np.ones((n, n)) - np.eye(n)) / (n - 1)))
    assert (found.second, found.smallest) == pytest.approx((-1 / (n - 1), -1 / (n - 1)), abs=1e-9)


@pytest.mark.parametrize("spec", ["karate", "ring:n=300"])
def test_stationary_is_exactly_uniform_for_symmetric_weights(spec: str) -> None:
    weights = metropolis_weights(spec)
    assert (spectrum(weights).stationary == 1 / weights.n).all()


def test_stationary_is_exactly_uniform_for_doubly_stochastic_weights() -> None:
    weights = matrix_weights(two_way_ring(8, 0.6))
    found = spectrum(weights)
    assert not weights.symmetric
    assert (found.stationary == 1 / 8).all()
    assert found.rho == pytest.approx(abs(0.2 + 0.6 * np.exp(-0.25j * np.pi) + 0.2 * np.exp(0.25j * np.pi)))


def test_stationary_of_uniform_weights_is_proportional_to_closed_degrees() -> None:
    found = spectrum(uniform_weights("star:n=5"))
    assert found.stationary == pytest.approx(np.array([5, 2, 2, 2, 2]) / 13)


def test_an_iteration_that_ends_early_says_so_and_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "_LANCZOS_STEPS", 30)
    found = spectrum(metropolis_weights("ring:n=3000"))
    assert not found.converged
    assert 0.9 < found.second < 1
    assert found.gap > 0


def test_arnoldi_without_convergence_still_answers() -> None:
    found = spectrum(matrix_weights(two_way_ring(400, 0.5)))
    assert not found.converged
    assert 0.9 < found.rho <= 1
    assert (found.stationary == 1 / 400).all()


def test_a_power_iteration_that_ends_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectra, "_WORK", 0)
    weights = lazy_weights(uniform_weights(nx.DiGraph([*nx.cycle_graph(210, nx.DiGraph).edges, (0, 105)])))
    found = spectrum(weights)
    assert not found.converged
    assert found.stationary.sum() == pytest.approx(1)
