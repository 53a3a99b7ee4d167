"""What a small model leaves out is at most what the verifier says it is, on graphs where it leaves out much."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sottovoce.certificates import HorizonProof
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights, uniform_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.protocols import gossip
from sottovoce.sensitivities import certify
from sottovoce.verification import reduction, verify
from sottovoce.verification.forms import dense_form
from sottovoce.verification.hidden import HiddenNodes, hidden_nodes
from sottovoce.verification.meaning import question
from sottovoce.verification.reduction import Model, distortion, models
from sottovoce.verification.rounding import gamma
from sottovoce.views import View

ROUNDS = 40


def directed_ring(n: int) -> GossipWeights:
    W = np.zeros((n, n))
    W[np.arange(n), np.arange(n)] = W[np.arange(n), np.arange(n) - 1] = 0.5
    return matrix_weights(W)


SCENES: list[tuple[GossipWeights, View, Any]] = [
    (metropolis_weights("ring:n=40"), View.secure_sum(0), None),
    (metropolis_weights("ring:n=40"), View.secure_sum(0, own_noise="hidden"), None),
    (metropolis_weights("erdos-renyi:n=40,p=0.2,seed=1"), View.secure_sum(0), None),
    (metropolis_weights("erdos-renyi:n=40,p=0.2,seed=1"), View.neighbourhood(0), None),
    (metropolis_weights("grid:rows=6,cols=6"), View.coalition_sums([0, 7], own_noise="hidden"), None),
    (uniform_weights("preferential:n=40,core=4,links=2,seed=1"), View.secure_sum(3), None),
    (uniform_weights("star:n=30"), View.neighbourhood(1), None),
    (directed_ring(30), View.secure_sum(0), None),
    (metropolis_weights("ring:n=40"), View.secure_sum(0), np.linspace(-1, 1, 40)),
    (metropolis_weights("karate"), View(observation=np.eye(34)[[1, 5]] + 0.25, known_noise=[0]), None),
]


def _hidden(weights: GossipWeights, view: View, damping: Any, target: int) -> HiddenNodes:
    certificate = certify(gossip(weights, rounds=1, damping=damping), view, target)
    return hidden_nodes(question(certificate, weights), complete=True)


def _whitened(rows: Any, transition: Any, source: Any, rounds: int) -> Any:
    """F of a small dense system with noise I, by a Cholesky factor of the whole covariance."""
    blocks = [rows]
    for _ in range(rounds - 1):
        blocks.append(blocks[-1] @ transition)
    m, r = rows.shape
    N = np.zeros((m * rounds, r * rounds))
    for t in range(rounds):
        for s in range(t + 1):
            N[t * m : (t + 1) * m, s * r : (s + 1) * r] = blocks[t - s]
    G = N @ np.kron(np.eye(rounds), source[:, None])
    return np.linalg.solve(np.linalg.cholesky(N @ N.T), G)


@pytest.mark.parametrize(("weights", "view", "damping"), SCENES)
def test_the_distortion_covers_what_a_model_leaves_out(
    weights: GossipWeights, view: View, damping: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    monkeypatch.setattr(reduction, "_FIRST_STATES", 4)
    missed = 0.0
    for target in (2, weights.n - 1, weights.n // 2):
        hidden = _hidden(weights, view, damping, target)
        hidden = replace(hidden, last=hidden.rows.shape[0])
        M = dense_form(hidden, ROUNDS).matrix
        for model in models(hidden, ROUNDS):
            lost = distortion(model)
            F = _whitened(model.rows, model.transition, model.source, ROUNDS)
            size = np.sqrt(1 - model.skew)
            # A stream in each column.
            C = np.hstack(
                [np.linalg.eigh(M - F.T @ F)[1], rng.normal(size=(ROUNDS, 40)), np.ones((ROUNDS, 1))]
            )
            learnt, modelled = (
                np.sqrt(np.maximum((C * (M @ C)).sum(axis=0), 0)),
                np.linalg.norm(F @ C, axis=0),
            )
            given = np.linalg.norm(C, axis=0)
            assert (learnt <= (modelled + lost * given) / size + 1e-9).all()
            missed = max(missed, ((learnt - modelled) / given).max())
    # Coarse models do leave something out, or the test would show nothing; a star has no coarse ones.
    assert missed > 1e-4 or weights.n == 30


def test_coarse_models_leave_something_out_and_fine_ones_do_not() -> None:
    hidden = _hidden(metropolis_weights("ring:n=120"), View.secure_sum(0), None, 1)
    lost = [(model.source.size, distortion(model)) for model in models(hidden, 1000)]
    assert [size for size, _ in lost] == [32, 60]
    assert lost[0][1] > 1e-3
    assert lost[1][1] < 1e-9


def test_a_model_says_what_it_left_out() -> None:
    """Columns of Q that do not close leave a residual of the size of the weights, and none is called closed."""
    hidden = _hidden(metropolis_weights("ring:n=120"), View.secure_sum(0), None, 1)
    first = next(iter(models(hidden, 1000)))
    assert isinstance(first, Model)
    assert first.closed < first.source.size
    assert first.leak == pytest.approx(1 / 3, rel=1e-6)
    assert first.residual < 1e-13
    assert first.row_residual < 1e-13
    assert first.skew < 1e-12


@pytest.mark.parametrize("own", ["known", "hidden"])
def test_reduced_horizons_hold_for_the_dense_form(own: Any) -> None:
    """y that is proved through a model dominates the form itself."""
    weights = metropolis_weights("erdos-renyi:n=60,p=0.15,seed=3")
    view = View.secure_sum(0, own_noise=own)
    long = certify(gossip(weights, rounds=3000), view, 5)
    found = verify(long, weights)
    assert found.verified, found.reason
    assert isinstance(long.proof, HorizonProof)
    M = dense_form(hidden_nodes(question(long, weights), complete=True), 200).matrix
    y = np.resize(long.proof.start, 200)
    y[long.proof.start.size :] = long.proof.rate
    assert np.linalg.eigvalsh(np.diag(y) - M)[0] > -1e-7


def star_in(n: int, weight: float) -> Any:
    """All hear node 0 alone: rows of one entry, and a column of n."""
    return sparse.csr_array((np.full(n, weight), np.zeros(n, dtype=np.int64), np.arange(n + 1)), shape=(n, n))


def test_powers_are_bounded_where_columns_weigh_more_than_rows() -> None:
    A = star_in(100, 0.3)
    norms = [float(np.linalg.norm(np.linalg.matrix_power(A.toarray(), k), 2)) for k in range(8)]
    assert sum(norms) <= reduction._summed(A, 0, 8) <= 3 * sum(norms)


def test_what_floats_take_to_keep_its_size_may_grow_over_many_rounds() -> None:
    """Ten times the float 0.1 is above 1 by less than a unit, and that counts in the end."""
    rounds, more = 10**14, 10 * Fraction(0.1) - 1
    assert 0 < more < UNIT_ROUNDOFF
    powers = Fraction(rounds) * (1 + more * (rounds - 1) / 2)
    assert powers <= Fraction(reduction._summed(sparse.csr_array(np.full((10, 10), 0.1)), 0, rounds))


def test_sums_over_long_columns_round_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def noted(count: int) -> float:
        counted.append(count)
        return gamma(count)

    monkeypatch.setattr(reduction, "gamma", noted)
    reduction._summed(star_in(100, 0.3), 0, 8)
    assert max(counted) >= 100
