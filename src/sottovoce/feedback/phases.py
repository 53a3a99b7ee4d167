# SPDX-License-Identifier: Apache-2.0
"""A chain of matrix inequalities as data: the rows that all phases share, the phases, and a solution.

In a basis X of what is not seen, Π = X P Xᵀ, the inequality of Theorem 1 for a phase p after a phase p′ reads

    F_p = B₁ P_p B₁ᵀ − B₂ P_p′ B₂ᵀ − κ_p b bᵀ + diag(1 − β, β)  ⪰ 0,       B₁ = [X; 0],  B₂ = [c A X; r A X],

in units in which every noise level is 1. Its rows come in two kinds, those with 1 − β on the diagonal ("upper") and
those with β ("lower"). Nodes that share a β may be rotated among each other, which is how a hundred thousand nodes
become a few dozen rows: only the span of their rows matters.

F_p is the matrix of Theorem 1 of docs/training.md, divided from both sides by √q of its node; β here is β/q there.
In it P_p is what differences of this round may be, P_p′ what those of the round before were, and κ_p what a
contribution in this round costs, 1/κ_p of Δ². What is held here is data of a search; nothing is claimed of it until
it is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Phase", "Rows", "Solution"]

# Singular values of the rows of a group below this are left out of the search; the proof has them all.
NEGLIGIBLE = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of [B₁ B₂ b]: `upper` carries 1 − β of its group, `lower` carries β of its group.

    `upper_group` and `lower_group` say to which of `groups` groups a row belongs. A group without lower rows (r = 0)
    has β = 0.

    Both are arrays of 2q + 1 columns: q of B₁ (zero below), q of B₂, and b (zero below), with q = `width`.
    """

    groups: int
    upper: np.ndarray
    lower: np.ndarray
    upper_group: np.ndarray
    lower_group: np.ndarray

    @property
    def width(self) -> int:
        """How many columns B₁ and B₂ have."""
        return int(self.upper.shape[1] - 1) // 2

    @property
    def free(self) -> np.ndarray:
        """The groups whose β is to be chosen: those with lower rows, where some map of the group has a radius."""
        return np.unique(self.lower_group)

    @classmethod
    def grouped(cls, upper: np.ndarray, lower: np.ndarray, groups: Sequence[np.ndarray]) -> Rows:
        """The rows of nodes in groups that share one β, those of a large group turned into few.

        D is constant in a group, so an orthogonal transformation of its rows changes nothing: with the singular
        values of a block in place of the block, F keeps its signature. A zero row stands for all directions that no
        column reaches.

        Args:
            upper: the rows of [B₁ B₂ b] with 1 − β, one a node.
            lower: those with β, one a node.
            groups: arrays of row numbers that cover all nodes.

        Guarantee: F over these rows is positive definite if and only if it is over all, up to singular values below
        10⁻⁷.

        >>> few = Rows.grouped(np.ones((4, 3)), np.zeros((4, 3)), [np.arange(4)])
        >>> abs(few.upper).round(3).tolist()
        [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]
        """
        kept: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        owners: tuple[list[int], list[int]] = ([], [])
        for g, nodes in enumerate(groups):
            for side, rows in enumerate((upper, lower)):
                few = _compressed(rows[nodes])
                if side == 0 and len(few) < len(nodes):
                    # Directions that no column reaches still ask for 1 − β ≥ 0.
                    few = np.vstack([few, np.zeros_like(rows[:1])])
                kept[side].append(few)
                owners[side].extend([g] * len(few))
        return cls(
            groups=len(groups),
            upper=np.vstack(kept[0]),
            lower=np.vstack(kept[1]),
            upper_group=np.array(owners[0], dtype=np.int64),
            lower_group=np.array(owners[1], dtype=np.int64),
        )


def _compressed(rows: np.ndarray) -> np.ndarray:
    """Few rows with the same Gram matrix, up to what a proof repairs later.

    R = U S Vᵀ has RᵀR = (S Vᵀ)ᵀ(S Vᵀ), and S Vᵀ has no more rows than R has columns.
    """
    present = rows[np.any(rows != 0, axis=1)]
    if len(present) <= 1:
        return present
    _, sizes, turned = np.linalg.svd(present, full_matrices=False)
    large = sizes > NEGLIGIBLE
    return np.asarray(sizes[large, None] * turned[large])


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One inequality of a chain: whose P stands before it, what its κ weighs, and whether its own P is given.

    `previous` is the index of the phase whose P enters with a minus (None: nothing does), `weight` is 0 where the
    target does not contribute, and `given` is a factor of a P that is not to be chosen.

    A phase that is its own `previous` recurs in every round; a ring of phases recurs as a whole.
    """

    previous: int | None
    weight: float
    given: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Factors L of P = L Lᵀ, multipliers β of all groups and κ for each phase; `closed` if the gap was reached.

    `factors` are q × q, `multipliers` have one number for each group in units of the noise level, `kappas` one for
    each phase (0 where nothing is charged), `steps` counts Newton steps.
    """

    factors: tuple[np.ndarray, ...]
    multipliers: tuple[np.ndarray, ...]
    kappas: np.ndarray
    steps: int
    closed: bool
