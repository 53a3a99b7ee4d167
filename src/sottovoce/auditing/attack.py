# SPDX-License-Identifier: Apache-2.0
"""Attacks: a number for each view, large where the record is there.

For Gaussian views the likelihood ratio is a linear statistic, and Neyman and Pearson say that no other attack has fewer
misses at the same rate of false alarms. Any other statistic is a valid attack as well, only a weaker one: nothing that
an audit concludes rests on how well the weights were found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import linalg as sparse_linalg

if TYPE_CHECKING:
    from sottovoce.auditing.simulate import Scene

__all__ = ["ViewAttack", "fitted_attack", "likelihood_attack", "plain_stream"]

# A stream is seen along as few directions as hold all but this share of its energy.
DROPPED_ENERGY = 1e-4
PRECISION = 1e-10
MOST_STEPS = 4000


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewAttack:
    """Weights on a view; `separation` says how far apart the two worlds should lie, in noises of multiplier 1."""

    weights: np.ndarray
    separation: float | None = None

    def __call__(self, views: np.ndarray) -> np.ndarray:
        """The score of each view."""
        return np.asarray(views.reshape(len(views), -1) @ self.weights.ravel())


def plain_stream(stream: np.ndarray) -> np.ndarray:
    """A stream of shape (T,) or (T, d) as (T, k), turned so that k is small; no contribution grows.

    Noise is the same in all directions, so turning changes nothing, and leaving directions out makes a stream that is
    a little weaker and still allowed.
    """
    given = stream.reshape(len(stream), -1)
    if given.shape[1] == 1:
        return given
    _, sizes, turn = np.linalg.svd(given, full_matrices=False)
    missing = 1 - np.cumsum(sizes**2) / max(float((sizes**2).sum()), 1e-300)
    kept = int(np.argmax(missing <= DROPPED_ENERGY)) + 1
    return np.asarray(given @ turn[:kept].T)


def likelihood_attack(scene: Scene, stream: np.ndarray) -> ViewAttack:
    """The likelihood ratio of the simulated system for a stream of shape (T, k): Neyman and Pearson's best attack.

    With N the map from the noise that the observer does not know to what it sees, and c the stream at the target,

        w = argmin ‖Nᵀw − e_j ⊗ c‖,   score = ⟨w, Y − (what the known noise did)⟩,   separation = ⟨Nᵀw, e_j ⊗ c⟩/‖Nᵀw‖,

    because w = (N Nᵀ)⁺ N (e_j ⊗ c). N and Nᵀ are run, not formed: forwards and backwards through the rounds.

    Guarantee: none is needed; with less precise weights the attack is weaker.
    Source: Neyman & Pearson 1933; LSMR, Fong & Saunders 2011.
    """
    rounds, size = stream.shape
    rows, n = scene.shown.shape
    hidden = np.setdiff1d(np.arange(n), scene.known)
    operator = sparse_linalg.LinearOperator(
        dtype=np.float64,
        shape=(rounds * n, rounds * rows),
        matvec=lambda w: _masked(_noise_shares(scene, w.reshape(rounds, rows)), hidden).ravel(),
        rmatvec=lambda z: _seen(scene, _masked(z.reshape(rounds, n), hidden)).ravel(),
    )
    weights = np.zeros((rounds, rows + scene.known.size, size))
    shared, separated = 0.0, 0.0
    for k in range(size):
        wanted = np.zeros((rounds, n))
        wanted[:, scene.target] = stream[:, k]
        found = sparse_linalg.lsmr(
            operator, wanted.ravel(), atol=PRECISION, btol=PRECISION, conlim=0, maxiter=MOST_STEPS
        )[0].reshape(rounds, rows)
        shares = _noise_shares(scene, found)
        weights[:, :rows, k] = found
        weights[:, rows:, k] = -shares[:, scene.known]
        separated += float((shares * wanted).sum())
        shared += float((shares[:, hidden] ** 2).sum())
    return ViewAttack(weights=weights, separation=separated / shared**0.5 if shared > 0 else 0.0)


def fitted_attack(without: np.ndarray, with_record: np.ndarray) -> ViewAttack:
    """Fisher's linear discriminant of views from both worlds, for simulators of which no likelihood is at hand.

    w = S⁺(difference of the means), S the pooled covariance.

    Guarantee: none is needed; it must not be scored on the views that it was fitted to.
    Source: Fisher 1936.
    """
    first, second = (views.reshape(len(views), -1) for views in (without, with_record))
    difference = second.mean(axis=0) - first.mean(axis=0)
    pooled = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    # Directions in which nothing varies are left out.
    _, sizes, right = np.linalg.svd(pooled, full_matrices=False)
    kept = sizes > 1e-9 * max(float(sizes[0]), 1e-300)
    turned = right[kept]
    return ViewAttack(weights=turned.T @ ((turned @ difference) / sizes[kept] ** 2) * len(pooled))


def _masked(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The values of the nodes that are kept, 0 for the others."""
    result = np.zeros_like(values)
    result[:, kept] = values[:, kept]
    return result


def _noise_shares(scene: Scene, weights: np.ndarray) -> np.ndarray:
    """Nᵀw: with which weight each node's noise of each round enters the statistic."""
    shares = np.empty((scene.rounds, scene.nodes))
    state = np.zeros((scene.nodes, 1))
    for t in range(scene.rounds - 1, -1, -1):
        state = scene.retreat(state) + (scene.shown.T @ weights[t])[:, None]
        shares[t] = state[:, 0]
    return shares


def _seen(scene: Scene, noise: np.ndarray) -> np.ndarray:
    """What the observed rows show of some noise."""
    shown = np.empty((scene.rounds, scene.shown.shape[0]))
    state = np.zeros((scene.nodes, 1))
    for t in range(scene.rounds):
        state = scene.advance(state) + noise[t][:, None]
        shown[t] = (scene.shown @ state)[:, 0]
    return shown
