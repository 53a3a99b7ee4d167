# SPDX-License-Identifier: Apache-2.0
"""Losses: clipped sums of per-record gradients for all nodes at once, without a loop over nodes.

The gradient that node i takes its step with is

    h∘θ_i + (1/nominal) Σ_r clip(ψ_r(θ_i)) + noise,

h being public and the same whatever the data (regularisation, and the curvature of `quadratic`), ψ_r what record r
adds. Only ψ_r is clipped, as only it depends on the data. With `unit="node"` the whole second term is clipped.

A ψ_r that is not finite counts as zero, whatever the loss, and one that is finite is clipped, however large it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sottovoce.errors import InputError, one_of, positive
from sottovoce.learning.clipping import Sums, bounded, row_limit, summed
from sottovoce.learning.rounding import is_reached
from sottovoce.learning.shards import in_ball

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from sottovoce.learning.shards import Shards
    from sottovoce.protocols import Losses


__all__ = [
    "LOSS_NAMES",
    "GradientLoss",
    "LinearLoss",
    "Loss",
    "QuadraticLoss",
    "Reacting",
    "huber",
    "logistic",
    "quadratic",
    "ridge",
    "softmax",
]

Array: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.float64] | NDArray[np.int64]

LOSS_NAMES = ("ridge", "huber", "logistic", "softmax", "quadratic")
Kinds = Literal["ridge", "huber", "logistic", "softmax"]


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

    @property
    def smoothness(self) -> float | None:
        """L: ψ_r moves by at most L times what the model moves by, whatever the record; None if nothing is known.

        It is public: a number that holds for all records there could be, never one measured on those there are.

        Guarantee: whoever writes a loss owes an upper bound for all records and models; accounts rest on it.
        """

    def shape(self, clip: float, *, whole: bool) -> Losses:
        """What is known of clipped gradients, as `update_slopes` calls it; `whole` if a node's sum is clipped.

        Guarantee: whoever writes a loss owes that gradients, cut at this clip, react to models as it says.
        """

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Σ_r weight_r·clip(ψ_r(θ_i)) for each node i, unclipped if None; a ψ_r that is not finite counts as zero.

        Guarantee: whoever writes a loss owes that no record moves the sum of its node by more than `clip`, rounding
        included, and those of others not at all.
        """

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """The loss of one model on each of some records, without h∘θ."""

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """What one model predicts for each of some records; None where there is nothing to predict."""


class Reacting:
    """What losses have in common whose gradients may depend on the model: no curvature of their own beside these."""

    @property
    def curvature(self) -> Array:
        """None of its own."""
        return np.zeros((1, 1))

    @property
    def state_free(self) -> bool:
        """Gradients may depend on the model."""
        return False


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearLoss(Reacting):
    """A loss of the outputs z = xᵀθ, by its kind.

    ½(z − y)² is ridge, the same with its slope cut to ±1 huber, log(1 + eᶻ) − yz logistic, cross entropy softmax.
    Gradients are outer products x·(∂ℓ/∂z)ᵀ, so their norms are products of two norms and none is ever formed.

    `radius` is a public bound R on |x|, the constant for the intercept included. A record that is longer is scaled down
    to it before anything else happens, so it holds whatever the data. Without one nothing is known of the smoothness.
    """

    kind: Kinds
    features: int
    outputs: int = 1
    radius: float | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown kind, and a radius that is none."""
        one_of(("ridge", "huber", "logistic", "softmax"), kind=self.kind)
        if self.radius is not None:
            positive(radius=self.radius)

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
    def output_curvature(self) -> float:
        """κ, the largest second derivative in the outputs: 1, ¼ or ½."""
        return {"ridge": 1.0, "huber": 1.0, "logistic": 0.25, "softmax": 0.5}[self.kind]

    @property
    def smoothness(self) -> float | None:
        """L = κR²: the Hessian of one record's loss is x xᵀ ⊗ H with 0 ⪯ H ⪯ κ.

        Guarantee: an upper bound for every record, as records are scaled into the ball of radius R. H is σ(1 − σ) ≤ ¼
        for logistic, 1 or 0 for ridge and huber, and diag(p) − p pᵀ for softmax, whose eigenvalues are at most ½.
        Source: Böhning (1992) for softmax.
        """
        return None if self.radius is None else self.output_curvature * self.radius**2

    @property
    def steepest(self) -> float:
        """The norm that no gradient of a record exceeds: R·|∂ℓ/∂z|.

        Guarantee: |∂ℓ/∂z| ≤ 1 for huber by its form and for logistic as labels are cut to [0, 1]. For softmax it is
        |p − e_y|² = (1 − p_y)² + Σ_{k≠y} p_k² ≤ 2(1 − p_y)² ≤ 2. Ridge has no bound. So a clip of R, or √2 R for
        softmax, never acts; records stay a little inside the ball, which covers rounding.
        """
        outputs = {"ridge": np.inf, "huber": 1.0, "logistic": 1.0, "softmax": np.sqrt(2.0)}[self.kind]
        return float("inf" if self.radius is None else outputs * self.radius)

    def shape(self, clip: float, *, whole: bool) -> Losses:
        """Convex where no clip acts, and also where it acts on single gradients φ(xᵀθ)x: it cuts a monotone φ.

        A clipped sum, and a gradient of softmax, is clipped as a vector, which is worse than convex.
        """
        unclipped = not is_reached(clip, self.steepest)
        return "convex" if unclipped or not (whole or self.kind == "softmax") else "clipped"

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Xᵀ(scaled residuals), batched over the nodes."""
        n = len(models)
        shards = shards if self.radius is None else shards.within(self.radius, self.outputs)
        features, sizes, broken = shards.scaled
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = features @ models.reshape(n, self.features, self.outputs)
            if sizes is not None:
                outputs *= sizes[:, :, None]
            residuals = self._residuals(outputs, shards.labels)
        limit = row_limit(clip, self.features + self.outputs, shards)
        found = bounded(residuals, clip, limit, lengths=shards.norms, sizes=sizes)
        sums = features.transpose(0, 2, 1) @ ((weights * found.factors)[:, :, None] * found.directions)
        return summed(sums.reshape(n, -1), found, weights, broken)

    def values(self, model: Array, features: Array, labels: Labels) -> Array:
        """The loss of each record."""
        z = self._outputs(model, features)
        if self.kind == "ridge":
            return np.asarray((z[:, 0] - labels) ** 2 / 2)
        if self.kind == "huber":
            far = np.abs(z[:, 0] - labels)
            return np.asarray(np.where(far <= 1, far**2 / 2, far - 0.5))
        if self.kind == "logistic":
            return np.asarray(np.logaddexp(0, z[:, 0]) - np.clip(labels, 0, 1) * z[:, 0])
        rows = np.arange(len(labels))
        return np.asarray(special.logsumexp(z, axis=1) - z[rows, labels.astype(np.int64)])

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """Numbers for ridge and huber, classes for the others."""
        z = self._outputs(model, features)
        if self.kind in {"ridge", "huber"}:
            return np.asarray(z[:, 0])
        return (z[:, 0] > 0).astype(np.int64) if self.kind == "logistic" else np.argmax(z, axis=1)

    def _outputs(self, model: Array, features: Array) -> Array:
        """Z = xᵀθ of one model, for records that are scaled as those of the shards are."""
        rows = features if self.radius is None else in_ball(features, self.radius, self.outputs)
        return np.asarray(rows @ model.reshape(self.features, self.outputs))

    def _residuals(self, outputs: Array, labels: Labels) -> Array:
        """∂ℓ/∂z for every record."""
        if self.kind == "ridge":
            return np.asarray(outputs - labels[:, :, None])
        if self.kind == "huber":
            return np.clip(outputs - labels[:, :, None], -1, 1)
        if self.kind == "logistic":
            return np.asarray(special.expit(outputs) - np.clip(labels, 0, 1)[:, :, None])
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

    @property
    def smoothness(self) -> float | None:
        """0: what a record adds does not depend on the model at all; the public h∘θ stands beside it.

        Guarantee: exact.
        """
        return 0.0

    def shape(self, clip: float, *, whole: bool) -> Losses:  # noqa: ARG002 - whatever is clipped is constant
        """Convex, as constants are."""
        return "convex"

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Σ −h∘x, clipped."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = bounded(-self.curvature * shards.features, clip, row_limit(clip, self.features, shards))
        sums = np.einsum("nm,nmp->np", weights * found.factors, found.directions)
        return summed(sums.reshape(models.shape), found, weights)

    def values(self, model: Array, features: Array, labels: Labels) -> Array:  # noqa: ARG002 - no labels here
        """½ h|x|² − h⟨θ, x⟩: with the public ½ h|θ|² added once, the loss of each record."""
        return np.asarray((self.curvature * features * (features / 2 - model)).sum(axis=1))

    def predictions(self, model: Array, features: Array) -> Labels | None:  # noqa: ARG002
        """There is nothing to predict."""
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientLoss(Reacting):
    """Any model: `gradients(model, features, labels)` returns one gradient a record, shape (records, dimension).

    `losses(model, features, labels)` returns the loss of each record and `predict(model, features)` a prediction;
    both may be left out. `start` is the public model that every node starts from, zeros if None. Nodes are gone
    through one after the other.

    `smoothness` declares that no gradient moves by more than L times what the model moves by, for every record that
    there could be and all models; `convex` that losses are convex. Both are taken on trust, and must not come from the
    data. Without `smoothness` nothing is assumed about the gradients.

    A run goes on from a checkpoint only with the loss that it began with, told by its code and all that it refers to.
    `version` tells it instead, where code does not say all: a new one whenever the loss changes is then up to you.
    """

    gradients: Callable[[Array, Array, Labels], ArrayLike]
    dimension: int
    losses: Callable[[Array, Array, Labels], ArrayLike] | None = None
    predict: Callable[[Array, Array], ArrayLike] | None = None
    start: Array | None = None
    name: str = "custom"
    version: str | None = None
    smoothness: float | None = None
    convex: bool = False

    def __post_init__(self) -> None:
        """Refuse a smoothness that is none, and convexity that would be of no use."""
        if self.smoothness is not None:
            positive(smoothness=self.smoothness)
        elif self.convex:
            raise InputError(
                "convex=True says something about the gradients only together with a smoothness (declare it too)"
            )

    def shape(self, clip: float, *, whole: bool) -> Losses:  # noqa: ARG002 - any clip may act
        """As declared; of gradients that are convex but of unknown length the clip acts on vectors."""
        return "clipped" if self.convex else "smooth"

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Gradients of each node's records, clipped and summed."""
        sums = np.zeros_like(models)
        clipped = counted = zeroed = 0
        for i, model in enumerate(models):
            chosen = np.flatnonzero(weights[i])
            if chosen.size == 0:
                continue
            rows = self._checked(
                self.gradients(model, shards.features[i, chosen], shards.labels[i, chosen]), len(chosen)
            )
            found = bounded(rows, clip, row_limit(clip, self.dimension, shards))
            clipped += int(found.clipped.sum())
            zeroed += int(found.zeroed.sum())
            counted += len(chosen)
            sums[i] = (weights[i, chosen] * found.factors) @ found.directions
        return Sums(sums, clipped / max(counted, 1), zeroed)

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


def ridge(features: int, *, radius: float | None = None) -> LinearLoss:
    """½(xᵀθ − y)²; regularisation is the task's `l2`. Records longer than `radius` are scaled down to it."""
    return LinearLoss(kind="ridge", features=features, radius=radius)


def huber(features: int, *, radius: float | None = None) -> LinearLoss:
    """½(xᵀθ − y)² up to a distance of 1 and |xᵀθ − y| − ½ beyond: as ridge, with gradients of bounded length."""
    return LinearLoss(kind="huber", features=features, radius=radius)


def logistic(features: int, *, radius: float | None = None) -> LinearLoss:
    """log(1 + exp(xᵀθ)) − y·xᵀθ for labels 0 and 1."""
    return LinearLoss(kind="logistic", features=features, radius=radius)


def softmax(features: int, classes: int, *, radius: float | None = None) -> LinearLoss:
    """The cross entropy of softmax probabilities with logits xᵀθ, for labels 0..classes−1."""
    return LinearLoss(kind="softmax", features=features, outputs=classes, radius=radius)


def quadratic(features: int, curvature: ArrayLike = 1.0) -> QuadraticLoss:
    """½ Σ_ℓ h_ℓ(θ_ℓ − x_ℓ)²: the mean of the records. `curvature` h is a number, or one for each coordinate."""
    h = np.array(curvature, dtype=np.float64).reshape(1, -1)
    if h.shape[1] not in {1, features} or not (np.isfinite(h) & (h > 0)).all():
        raise InputError(
            f"the curvature must be positive: a number, or one for each of the {features} coordinates; "
            f"got {curvature!r}"
        )
    return QuadraticLoss(features=features, curvature=h)
