# SPDX-License-Identifier: Apache-2.0
"""The proof's own coupling, run path by path with maps that are anything but linear.

Two runs of training, with and without the record, get noise that differs by a shift. The shift keeps every observation
the same to the last digit that rounding leaves, and its energy stays within the budget on every path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.profiles import seeds

from sottovoce import View, graphs
from sottovoce.feedback import training, training_sensitivity
from sottovoce.verification.loops import kernel

DIMENSION = 3


@dataclass
class Maps:
    """g_{k,t}(z) = c z + r R_{k,t}(z) with R a random map that never stretches."""

    rng: Any
    centre: Any
    radius: Any

    def drawn(self) -> list[Any]:
        """One map for each node, for one round."""
        return [self._map(c, r) for c, r in zip(self.centre, self.radius, strict=True)]

    def _map(self, c: float, r: float) -> Any:
        first, second = (np.linalg.qr(self.rng.normal(size=(DIMENSION, DIMENSION)))[0] for _ in range(2))
        move, kind = self.rng.normal(size=DIMENSION), int(self.rng.integers(4))

        def bend(z: Any) -> Any:
            match kind:
                case 0:
                    return second @ np.tanh(first @ z + move)
                case 1:
                    return second @ np.abs(first @ z + move)
                case 2:
                    w = first @ z + move
                    return second @ w / max(1.0, float(np.linalg.norm(w)))
                case _:
                    return second @ (first @ z)

        return lambda z: c * z + r * bend(z)


def record(z: Any, rng_free: Any) -> Any:
    """A contribution of length at most 1 that jumps with the state."""
    direction = np.sign(np.sin(7 * z + rng_free)) + 0.1
    return direction / np.linalg.norm(direction)


CASES = [
    ("ring:n=7", View.secure_sum(0), 1, (0.5, 1.0), 12, None),
    ("ring:n=7", View.secure_sum(0), 3, (-1.0, 1.0), 25, None),
    ("star:n=5", View.secure_sum(0), 2, (0.0, 1.0), 25, None),
    ("random-regular:n=10,d=4,seed=2", View.coalition_sums([0, 1]), 6, (0.9, 1.1), 25, None),
    ("random-regular:n=10,d=4,seed=2", View.neighbourhood(0), 4, (0.0, 1.0), 20, None),
    ("path:n=6", View.single_node(2, own_noise="hidden"), 4, (0.2, 1.0), 20, None),
    ("path:n=6", View.single_node(2), 1, (0.2, 1.0), 30, "every:3"),
]


@pytest.mark.parametrize(("graph", "view", "target", "updates", "rounds", "participation"), CASES)
@pytest.mark.parametrize("seed", seeds(1))
def test_shifted_noise_hides_the_record_within_the_budget(
    graph: str, view: View, target: int, updates: Any, rounds: int, participation: str | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weights = graphs.metropolis_weights(graph)
    n = weights.n
    levels = rng.uniform(0.5, 2.0, n)
    found = training_sensitivity(
        weights,
        view,
        target,
        rounds=rounds,
        updates=updates,
        noise_levels=levels,
        participation=participation,
    )
    proof = found.proof
    assert proof.method == "shift"
    case = training(
        weights, view, rounds=rounds, updates=updates, noise_levels=levels, participation=participation
    )
    assert case.slopes is not None
    loop, U = case.loop, case.loop.unknown
    Q, A, C = np.diag(levels[U]), loop.transition.toarray(), case.rows.toarray()
    place = loop.position(target)
    unseen = kernel(loop.rows, np.searchsorted(U, proof.support))
    shown_last = np.zeros((0, U.size))
    if loop.last_rows:
        shown_last = np.array([[float(row.get(k, 0)) for k in range(U.size)] for row in loop.last_rows])
    maps = Maps(rng, case.slopes.centre[U], case.slopes.radius[U])
    z = np.zeros((U.size, DIMENSION))
    e = np.zeros_like(z)
    spent = 0.0
    order = proof.order(case.charged)
    period = 3 if participation else 1
    for t in range(case.charged):
        step, g = proof.steps[order[t]], maps.drawn()
        other = z + A @ e if t else z
        v = np.array([g[k](other[k]) - g[k](z[k]) for k in range(U.size)])
        if t % period == 0:
            v[place] += record(other[place], t)
        if step.last:
            rows = shown_last if len(shown_last) else C
            a = -Q @ rows.T @ np.linalg.pinv(rows @ Q @ rows.T) @ rows @ v
            e = v + a
            assert np.abs(rows @ e).max() < 1e-9
        else:
            X = np.zeros((U.size, step.factor.shape[1]))
            X[np.searchsorted(U, proof.support)] = unseen.lifted(step.factor)[0]
            kept = np.linalg.solve(Q + X @ X.T, v)
            a, e = -Q @ kept, X @ (X.T @ kept)
            assert np.abs(C @ e).max() < 1e-9
        spent += float((a**2 / levels[U][:, None]).sum())
        # An observer that sends what it likes, after looking.
        messages = rng.normal(size=(U.size, DIMENSION))
        s = (
            np.array([g[k](z[k]) for k in range(U.size)])
            + rng.normal(size=z.shape) * np.sqrt(levels[U])[:, None]
        )
        z = A @ s + messages
    assert 0 < spent <= found.squared.upper
