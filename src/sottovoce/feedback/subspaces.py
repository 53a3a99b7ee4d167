# SPDX-License-Identifier: Apache-2.0
"""Where the hidden differences are looked for: all that is not seen, or a small part of it; and who shares a β.

Whatever is left out only restricts the search. The bound stays valid.

Differences that matter are those that start at the target and those that the observers are about to see. So the
subspace holds what the target's unit vector becomes in a few rounds, what the observed rows were a few rounds ago,
and the nodes that are observed: a Krylov space from both ends, less its part in the rows that are seen.

Theorem 1 of docs/training.md asks for Π ⪰ 0 with C Π = 0 and says nothing of where Π comes from, so everything here
is speed. A column that is seen a little, by rounding, does no harm either: the check solves for the pivots of C
anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.sparse import csr_array

    from sottovoce.feedback.problem import TrainingView

__all__ = ["MOST_COLUMNS", "groups_by", "unseen_basis"]

# All that is not seen is searched up to this many dimensions, a part of that size beyond.
MOST_COLUMNS = 24
POWERS, MOST_UNITS = 5, 24
# Up to so many nodes each has a β of its own; of more only the most important ones do, and the others share one with
# those that matter as much.
ALONE, CLASSES = 120, 8
ALONE_OF_MANY = 48


def unseen_basis(case: TrainingView, target: int, *, most: int = MOST_COLUMNS) -> np.ndarray:
    """Columns over the hidden nodes that are not seen, orthonormal to rounding; `target` is a position.

    Everything up to `most` dimensions; beyond that what the target and the observed rows reach in a few rounds,

        b, A b, …, A⁴ b, Aᵀ w, …, (Aᵀ)⁵ w  (w the sum of the observed rows),  units e of observed nodes, and A e,

    each less its part in the rows that are seen. What comes first stays where there is no room for all.

    Args:
        case: the view of training.
        target: a position among the hidden nodes.
        most: how many columns there may be.

    Guarantee: none is needed, wherever the powers stop. Theorem 1 of docs/training.md holds for every Π ⪰ 0 with C Π =
    0; a basis X of columns that are not seen restricts Π to X Y Xᵀ, Y ⪰ 0, which is such a Π, and whose inequality is
    checked by itself. So a smaller basis can only leave a wider bound.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=1, updates=(0, 1))
    >>> abs(unseen_basis(star, 0)).round(3).ravel().tolist()  # what one leaf has more, the other has less
    [0.707, 0.707]
    """
    C = case.rows
    m = C.shape[1]
    project = _projector(C)
    if m - C.shape[0] <= most:
        return _independent(project(np.eye(m)), m)
    A = case.loop.transition
    b = np.zeros(m)
    b[target] = 1.0
    seen = np.asarray(abs(C).sum(axis=0)).ravel()
    forward, backward = [b], [np.asarray(C.sum(axis=0)).ravel()]
    for _ in range(POWERS):
        forward.append(np.asarray(A @ forward[-1]))
        backward.append(np.asarray(A.T @ backward[-1]))
    heard = np.flatnonzero(seen)
    if heard.size > MOST_UNITS:
        heard = heard[np.argsort(-seen[heard], kind="stable")[:MOST_UNITS]]
    units = np.zeros((m, heard.size))
    units[heard, np.arange(heard.size)] = 1.0
    vectors = [v for pair in zip(forward, backward[1:], strict=False) for v in pair]
    return _independent(project(np.column_stack([*vectors, units, A @ units])), most)


def groups_by(influence: np.ndarray) -> list[np.ndarray]:
    """The nodes in groups that share a β: the most important ones alone, the others by size of `influence`.

    A shared β is a restriction like any other. Classes are equal steps of log(influence), so that a β is shared by
    nodes that matter alike; nodes that matter next to nothing are one class.

    Guarantee: every node is in exactly one group.

    >>> [group.tolist() for group in groups_by(np.array([3.0, 1.0, 2.0]))]  # few nodes: each alone
    [[0], [1], [2]]
    """
    if influence.size <= ALONE:
        return [np.array([k]) for k in range(influence.size)]
    order = np.argsort(-influence, kind="stable")
    alone, classes = ALONE_OF_MANY, CLASSES
    rest = order[alone:]
    sizes = np.log(np.maximum(influence[rest], 1e-12 * max(float(influence[rest[0]]), 1e-300)))
    edges = np.linspace(sizes.max(), sizes.min(), classes + 1)[1:-1]
    place = np.searchsorted(-edges, -sizes)
    shared = [rest[place == k] for k in range(classes)]
    return [*(order[k : k + 1] for k in range(alone)), *(part for part in shared if part.size)]


def _projector(C: csr_array) -> Callable[[np.ndarray], np.ndarray]:
    """The map v ↦ v less its part in the rows of C, which may depend on each other.

    Done twice, as once leaves a part of the size of the condition number times rounding. The proof defines the pivots
    anew, in rationals, so what is left here costs width and no more.
    """
    gram = (C @ C.T).toarray()
    inverse = linalg.pinvh(gram) if gram.size else gram

    def project(v: np.ndarray) -> np.ndarray:
        for _ in range(2):
            v = v - C.T @ (inverse @ (C @ v))
        return np.asarray(v)

    return project


def _independent(vectors: np.ndarray, most: int) -> np.ndarray:
    """An orthonormal basis of the span of the first columns that are independent, `most` at most.

    Gram–Schmidt with a second pass; a column of which less than 10⁻⁷ is new is left out.
    """
    kept: list[np.ndarray] = []
    for v in vectors.T:
        size = np.linalg.norm(v)
        if len(kept) == most or size < 1e-9:
            continue
        rest = v / size
        if kept:
            basis = np.column_stack(kept)
            for _ in range(2):
                rest = rest - basis @ (basis.T @ rest)
        left = np.linalg.norm(rest)
        if left > 1e-7:
            kept.append(rest / left)
    return np.column_stack(kept) if kept else np.zeros((vectors.shape[0], 0))
