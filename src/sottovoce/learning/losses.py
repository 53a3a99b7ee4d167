# SPDX-License-Identifier: Apache-2.0
"""Losses: clipped sums of per-record gradients for all nodes at once, without a loop over nodes.

The gradient that node i takes its step with is

    h∘θ_i + (1/nominal) Σ_r clip(ψ_r(θ_i)) + noise,

h being public and the same whatever the data (regularisation, and the curvature of `quadratic`), ψ_r what record r
adds. Only ψ_r is clipped, as only it depends on the data. With `unit="node"` the whole second term is clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy import special

from sottovoce.errors import InputError, one_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from sottovoce.learning.shards import Shards

    Array: TypeAlias = NDArray[np.float64]
    Labels: TypeAlias = NDArray[np.float64] | NDArray[np.int64]

__all__ = [
    "LOSS_NAMES",
    "GradientLoss",
    "LinearLoss",
    "Loss",
    "QuadraticLoss",
    "clipped_rows",
    "logistic",
    "quadratic",
    "ridge",
    "softmax",
]

LOSS_NAMES = ("ridge", "logistic", "softmax", "quadratic")
# Clipped norms stay this much below the clip, so that rounding does not carry them over it.
_WITHIN = 1 - 2.0**-30


class Loss(Protocol):
    """What `descent` needs of a loss; parameters are flat vectors of length `dimension`."""

    @property
    def name(self) -> str:
        """What to call it."""

    @property
    def dimension(self) -> int:
        """How many parameters a model has."""

    @property
    def start(self) -> Array | None:
        """The model that every node starts from, public and the same for all; None for zeros."""

    @property
    def curvature(self) -> Array:
        """The public h of the loss itself, to be broadcast to (nodes, dimension)."""

    @property
    def state_free(self) -> bool:
        """Whether ψ_r does not depend on the model, so that contributions are fixed in advance."""

    def clipped_sums(
        self, models: Array, shards: Shards, weights: Array, clip: float | None
    ) -> tuple[Array, float]:
        """Σ_r weight_r·clip(ψ_r(θ_i)) for each node i (unclipped if None), and the share of records clipped."""

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """The loss of one model on each of some records, without h∘θ."""

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """What one model predicts for each of some records; None where there is nothing to predict."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearLoss:
    """A loss of the outputs z = xᵀθ: ½(z − y)² (ridge), log(1 + eᶻ) − yz (logistic), or cross entropy (softmax).

    Gradients are outer products x·(∂ℓ/∂z)ᵀ, so their norms are products of two norms and none is ever formed.
    """

    kind: Literal["ridge", "logistic", "softmax"]
    features: int
    outputs: int = 1

    def __post_init__(self) -> None:
        """Refuse an unknown kind."""
        one_of(("ridge", "logistic", "softmax"), kind=self.kind)

    @property
    def name(self) -> str:
        """What to call it."""
        return self.kind

    @property
    def start(self) -> Array | None:
        """Zeros."""
        return None

    @property
    def dimension(self) -> int:
        """Features times outputs."""
        return self.features * self.outputs

    @property
    def curvature(self) -> Array:
        """None of its own."""
        return np.zeros((1, 1))

    @property
    def state_free(self) -> bool:
        """Gradients depend on the model."""
        return False

    @property
    def output_curvature(self) -> float:
        """κ, the largest second derivative in the outputs: 1, ¼ or ½."""
        return {"ridge": 1.0, "logistic": 0.25, "softmax": 0.5}[self.kind]

    def clipped_sums(
        self, models: Array, shards: Shards, weights: Array, clip: float | None
    ) -> tuple[Array, float]:
        """Xᵀ(scaled residuals), batched over the nodes."""
        n = len(models)
        outputs = shards.features @ models.reshape(n, self.features, self.outputs)
        residuals = self._residuals(outputs, shards.labels)
        scale, share = weights, 0.0
        if clip is not None:
            norms = shards.norms * np.sqrt(np.einsum("nmk,nmk->nm", residuals, residuals))
            scale = weights * _shrink(norms, clip)
            share = _share(norms, clip, weights)
        sums = shards.features.transpose(0, 2, 1) @ (scale[:, :, None] * residuals)
        return sums.reshape(n, -1), share

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """The loss of each record."""
        z = features @ model.reshape(self.features, self.outputs)
        if self.kind == "ridge":
            return np.asarray((z[:, 0] - labels) ** 2 / 2)
        if self.kind == "logistic":
            return np.asarray(np.logaddexp(0, z[:, 0]) - labels * z[:, 0])
        rows = np.arange(len(labels))
        return np.asarray(special.logsumexp(z, axis=1) - z[rows, labels.astype(np.int64)])

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """Numbers for ridge, classes for the others."""
        z = features @ model.reshape(self.features, self.outputs)
        if self.kind == "ridge":
            return np.asarray(z[:, 0])
        return (z[:, 0] > 0).astype(np.int64) if self.kind == "logistic" else np.argmax(z, axis=1)

    def _residuals(self, outputs: Array, labels: Labels) -> Array:
        """∂ℓ/∂z for every record."""
        if self.kind == "ridge":
            return np.asarray(outputs - labels[:, :, None])
        if self.kind == "logistic":
            return np.asarray(special.expit(outputs) - labels[:, :, None])
        residuals = special.softmax(outputs, axis=2)
        nodes, places = np.ogrid[: labels.shape[0], : labels.shape[1]]
        residuals[nodes, places, labels.astype(np.int64)] -= 1
        return np.asarray(residuals)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticLoss:
    """½ Σ_ℓ h_ℓ (θ_ℓ − x_ℓ)² of a record x: its mean is learnt, and the loop it closes is linear.

    h∘θ is public and stands outside the clip; what a record adds, −h∘x, does not depend on the model. `curvature`
    is h: one number, shape (1, 1), or one a coordinate, shape (1, d).
    """

    features: int
    curvature: Array

    @property
    def name(self) -> str:
        """What to call it."""
        return "quadratic"

    @property
    def start(self) -> Array | None:
        """Zeros."""
        return None

    @property
    def dimension(self) -> int:
        """One parameter for each coordinate of a record."""
        return self.features

    @property
    def state_free(self) -> bool:
        """What a record adds is fixed in advance."""
        return True

    def clipped_sums(
        self, models: Array, shards: Shards, weights: Array, clip: float | None
    ) -> tuple[Array, float]:
        """Σ −h∘x, clipped."""
        added = -self.curvature * shards.features
        scale, share = weights, 0.0
        if clip is not None:
            norms = np.sqrt(np.einsum("nmp,nmp->nm", added, added))
            scale = weights * _shrink(norms, clip)
            share = _share(norms, clip, weights)
        return np.einsum("nm,nmp->np", scale, added).reshape(models.shape), share

    def values(self, model: Array, features: Array, labels: Labels) -> Array:  # noqa: ARG002 - no labels here
        """½ h|x|² − h⟨θ, x⟩: with the public ½ h|θ|² added once, the loss of each record."""
        return np.asarray((self.curvature * features * (features / 2 - model)).sum(axis=1))

    def predictions(self, model: Array, features: Array) -> Labels | None:  # noqa: ARG002
        """There is nothing to predict."""
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientLoss:
    """Any model: `gradients(model, features, labels)` returns one gradient a record, shape (records, dimension).

    `losses(model, features, labels)` returns the loss of each record and `predict(model, features)` a prediction;
    both may be left out. `start` is the public model that every node starts from, zeros if None. Nodes are gone
    through one after the other.
    """

    gradients: Callable[[Array, Array, Labels], ArrayLike]
    dimension: int
    losses: Callable[[Array, Array, Labels], ArrayLike] | None = None
    predict: Callable[[Array, Array], ArrayLike] | None = None
    start: Array | None = None
    name: str = "custom"

    @property
    def curvature(self) -> Array:
        """None of its own."""
        return np.zeros((1, 1))

    @property
    def state_free(self) -> bool:
        """Nothing is known about the gradients, so they may depend on the model."""
        return False

    def clipped_sums(
        self, models: Array, shards: Shards, weights: Array, clip: float | None
    ) -> tuple[Array, float]:
        """Gradients of each node's records, clipped and summed."""
        sums = np.zeros_like(models)
        clipped = counted = 0.0
        for i, model in enumerate(models):
            chosen = np.flatnonzero(weights[i])
            if chosen.size == 0:
                continue
            rows = self._checked(
                self.gradients(model, shards.features[i, chosen], shards.labels[i, chosen]), len(chosen)
            )
            scale = weights[i, chosen]
            if clip is not None:
                norms = np.sqrt((rows**2).sum(axis=1))
                clipped += float((norms > clip).sum())
                scale = scale * _shrink(norms, clip)
            counted += len(chosen)
            sums[i] = scale @ rows
        return sums, clipped / max(counted, 1)

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """The loss of each record; undefined if no function was given for it."""
        if self.losses is None:
            return np.full(len(features), np.nan)
        return np.asarray(self.losses(model, features, labels), dtype=np.float64)

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """What the given function predicts."""
        return None if self.predict is None else np.asarray(self.predict(model, features))

    def _checked(self, found: Any, records: int) -> Array:  # noqa: ANN401 - whatever a user's function returns
        """The user's gradients as an array, if there is one for each record."""
        rows = np.asarray(found, dtype=np.float64)
        if rows.shape != (records, self.dimension):
            raise InputError(
                f"gradients must return one gradient a record, shape {(records, self.dimension)}; got {rows.shape} "
                "(do not average over the records: each is clipped on its own)"
            )
        return rows


def ridge(features: int) -> LinearLoss:
    """½(xᵀθ − y)²; regularisation is the task's `l2`."""
    return LinearLoss(kind="ridge", features=features)


def logistic(features: int) -> LinearLoss:
    """log(1 + exp(xᵀθ)) − y·xᵀθ for labels 0 and 1."""
    return LinearLoss(kind="logistic", features=features)


def softmax(features: int, classes: int) -> LinearLoss:
    """The cross entropy of softmax probabilities with logits xᵀθ, for labels 0..classes−1."""
    return LinearLoss(kind="softmax", features=features, outputs=classes)


def quadratic(features: int, curvature: ArrayLike = 1.0) -> QuadraticLoss:
    """½ Σ_ℓ h_ℓ(θ_ℓ − x_ℓ)²: the mean of the records. `curvature` h is a number, or one for each coordinate."""
    h = np.array(curvature, dtype=np.float64).reshape(1, -1)
    if h.shape[1] not in {1, features} or not (np.isfinite(h) & (h > 0)).all():
        raise InputError(
            f"the curvature must be positive: a number, or one for each of the {features} coordinates; "
            f"got {curvature!r}"
        )
    return QuadraticLoss(features=features, curvature=h)


def clipped_rows(rows: Array, clip: float) -> tuple[Array, float]:
    """Each row scaled down to norm `clip` where it is longer, and the share of rows that were."""
    norms = np.sqrt((rows**2).sum(axis=1))
    return rows * _shrink(norms, clip)[:, None], float((norms > clip).mean())


def _shrink(norms: Array, clip: float) -> Array:
    """min(1, clip/norm), a little below it where it is not 1."""
    limit = clip * _WITHIN
    return np.asarray(limit / np.maximum(norms, limit))


def _share(norms: Array, clip: float, weights: Array) -> float:
    """Which share of the records that count was clipped."""
    counted = weights > 0
    return float((norms[counted] > clip).mean()) if counted.any() else 0.0
