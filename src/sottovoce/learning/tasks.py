# SPDX-License-Identifier: Apache-2.0
"""`Task`: what is learnt from which shards, with the constants of the problem and its optimum where it is known.

f(θ) = (1/n) Σ_i f_i(θ),   f_i(θ) = (1/nominal) Σ_{r at node i} ℓ_r(θ) + ½ Σ_ℓ h_ℓ θ_ℓ².
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy

from sottovoce.errors import InputError, at_least, one_of, positive
from sottovoce.learning.data import Data, held_out
from sottovoce.learning.losses import (
    LOSS_NAMES,
    LinearLoss,
    Loss,
    QuadraticLoss,
    huber,
    logistic,
    quadratic,
    ridge,
    softmax,
)
from sottovoce.learning.shards import Shards, in_ball, shards_of, split
from sottovoce.spellings import spelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.learning.losses import Labels

    Array: TypeAlias = NDArray[np.float64]

# Shorter than any record with its constant: all of them come to lie on the sphere of this ball.
_SMALL = 2.0**-10

__all__ = ["SYNTHETIC_KEYS", "Optimum", "Task", "parse_synthetic", "synthetic_task", "task_from"]

_WHOLE = ("dimension", "records", "seed")
SYNTHETIC_KEYS = (*_WHOLE, "convexity", "smoothness", "heterogeneity", "spread")


@dataclass(frozen=True, kw_only=True, eq=False)
class Optimum:
    """The smallest risk and where it is; the true minimum lies between `risk` − `gap` and `risk`."""

    model: Array
    risk: float
    gap: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """A loss on the shards of the nodes, with regularisation ½·l2·|θ|² that stands outside the clip.

    What the properties below say about the data (smoothness, optimum, risk) is computed from the records
    themselves, without noise: it is for judging a run, and is not private.
    """

    name: str
    loss: Loss
    shards: Shards
    l2: float = 0.0
    test: Data | None = None

    def __post_init__(self) -> None:
        """Refuse a regularisation below 0, and labels that name no class."""
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise InputError(f"l2 must be a finite number of at least 0; got {self.l2!r}")
        if isinstance(self.loss, LinearLoss) and self.loss.kind == "softmax":
            _check_classes(self.shards.pooled[1], self.loss.outputs, "the nodes")
            if self.test is not None:
                _check_classes(self.test.labels, self.loss.outputs, "the held-out records")

    @property
    def nodes(self) -> int:
        """How many nodes hold records."""
        return self.shards.nodes

    @property
    def dimension(self) -> int:
        """How many parameters a model has."""
        return self.loss.dimension

    @property
    def linear(self) -> Array:
        """h: the public part of the gradient is h∘θ; shape (1, 1) or (1, d)."""
        return self.loss.curvature + self.l2

    @property
    def public_smoothness(self) -> float | None:
        """A bound of the smoothness of each f_i that needs no look at the data: L of the loss and the largest h.

        None where nothing is known of the loss.

        Guarantee: an upper bound, rounded up, where all records take part: no node sums more of them than it divides
        by. A batch may hold more than it is divided by, and `sottovoce.learning.reactions.reaction_of` counts that.
        """
        smoothness = self.loss.smoothness
        return None if smoothness is None else math.nextafter(smoothness + float(self.linear.max()), math.inf)

    @cached_property
    def smoothness(self) -> float | None:
        """L: the largest curvature of any f_i, from the records."""
        if isinstance(self.loss, QuadraticLoss):
            return float(self.linear.max())
        if not isinstance(self.loss, LinearLoss) or self.shards.scaled[1] is not None:
            return None
        return float(self.loss.output_curvature * self._gram_eigenvalues()[:, -1].max() + self.l2)

    @cached_property
    def convexity(self) -> float | None:
        """μ: the smallest curvature of any f_i, from the records."""
        if isinstance(self.loss, QuadraticLoss):
            return float(self.linear.min())
        if not isinstance(self.loss, LinearLoss) or self.shards.scaled[1] is not None:
            return None
        least = self._gram_eigenvalues()[:, 0].min() if self.loss.kind == "ridge" else 0.0
        return float(max(least, 0.0) + self.l2)

    def risk(self, model: Array) -> float:
        """The risk f at one model, from the records."""
        features, labels = self.shards.pooled
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(self.loss.values(model, features, labels).sum())
            penalty = float((self.linear * model**2).sum() / 2)
        return total / (self.nodes * self.shards.nominal) + penalty

    def gradients(self, models: Array) -> Array:
        """∇f_i at each node's model, from the records and without clipping."""
        weights = self.shards.present.astype(np.float64)
        sums = self.loss.clipped_sums(models, self.shards, weights, None).values
        return np.asarray(sums / self.shards.nominal + self.linear * models)

    def gradient(self, model: Array) -> Array:
        """∇f at one model."""
        return np.asarray(self.gradients(np.tile(model, (self.nodes, 1))).mean(axis=0))

    @cached_property
    def optimum(self) -> Optimum | None:
        """Where f is smallest, found without noise; None where f is not known to be strongly convex.

        Guarantee: f* lies within `gap` below `risk`, as f(θ) − f* ≤ |∇f(θ)|²/(2μ).
        """
        if not self.convexity:
            return None
        start = np.zeros(self.dimension)
        if isinstance(self.loss, QuadraticLoss):
            model = -self.gradient(start) / self.linear[0]
        else:
            found = scipy.optimize.minimize(
                self.risk,
                start,
                jac=self.gradient,
                method="L-BFGS-B",
                options={"maxiter": 20_000, "maxfun": 100_000, "ftol": 0, "gtol": 1e-9},
            )
            model = found.x
        gap = float((self.gradient(model) ** 2).sum() / (2 * self.convexity))
        return Optimum(model=model, risk=self.risk(model), gap=gap)

    @cached_property
    def heterogeneity(self) -> float | None:
        """ζ̄: the root mean square of |∇f_i(θ*)| over the nodes."""
        if self.optimum is None:
            return None
        found = self.gradients(np.tile(self.optimum.model, (self.nodes, 1)))
        return float(np.sqrt((found**2).sum(axis=1).mean()))

    def accuracy(self, model: Array) -> float | None:
        """The share of held-out records whose class a model predicts; None for numbers or without such records."""
        if self.test is None or not self.test.classes:
            return None
        predicted = self.loss.predictions(model, self.test.features)
        return None if predicted is None else float((predicted == self.test.labels).mean())

    def _gram_eigenvalues(self) -> Array:
        """The eigenvalues of Σ x xᵀ/nominal at each node, ascending."""
        features = self.shards.features
        return np.asarray(np.linalg.eigvalsh(features.transpose(0, 2, 1) @ features / self.shards.nominal))


def _check_classes(labels: Labels, classes: int, whose: str) -> None:
    """Refuse labels of softmax that are not one of its classes: −1 would count as the last one."""
    wrong = ~np.isin(labels, np.arange(classes))
    if wrong.any():
        raise InputError(
            f"labels for softmax must be whole numbers from 0 to {classes - 1}, one for each of its {classes} classes; "
            f"{whose} have {labels[wrong][0].item()!r} (number the classes from 0, or ask for more of them)"
        )


def task_from(
    data: Data,
    nodes: int,
    *,
    loss: str = "auto",
    l2: float = 1e-3,
    nominal: int | None = None,
    skew: float | None = None,
    test_share: float = 0.2,
    split_seed: int = 0,
    clip: float = 1.0,
) -> Task:
    """A task on `data`, dealt to so many nodes; "auto" takes the loss that the labels ask for.

    For all losses of xᵀθ each record is given a constant 1 beside its features and scaled by itself, so that no
    gradient of huber, logistic or softmax is longer than `clip`: to a norm of at most `clip`, or clip/√2 for softmax.
    The quadratic loss takes the records as they are, without labels, and holds none out.
    """
    positive(clip=clip)
    one_of(("auto", *LOSS_NAMES), loss=loss)
    kind = _loss_kind(data) if loss == "auto" else loss
    _check_labels(data, kind)
    if kind == "quadratic":
        shards = split(data, nodes, nominal=nominal, skew=skew, seed=split_seed)
        return Task(name=data.name, loss=quadratic(data.features.shape[1]), shards=shards, l2=l2)
    radius = clip / math.sqrt(2) if kind == "softmax" else float(clip)
    learnt, test = held_out(_with_constant(data, radius), test_share, seed=split_seed)
    if learnt.classes and len(np.unique(learnt.labels)) < 2:
        raise InputError(
            f"{data.name}: a classifier needs records of at least two classes; all {learnt.records} to learn from are "
            "of one (add records, or choose another label)"
        )
    width = learnt.features.shape[1]
    losses = {
        "ridge": ridge(width, radius=radius),
        "huber": huber(width, radius=radius),
        "logistic": logistic(width, radius=radius),
        "softmax": softmax(width, max(data.classes, 2), radius=radius),
    }
    shards = split(learnt, nodes, nominal=nominal, skew=skew, seed=split_seed)
    return Task(name=data.name, loss=losses[kind], shards=shards, l2=l2, test=test)


def synthetic_task(
    nodes: int,
    *,
    dimension: int = 10,
    records: int = 20,
    convexity: float = 1.0,
    smoothness: float = 1.0,
    heterogeneity: float = 1.0,
    spread: float = 0.1,
    seed: int = 0,
) -> Task:
    """A strongly convex problem whose optimum and heterogeneity are known: quadratic losses with moved centres.

    Curvatures go evenly from `convexity` μ to `smoothness` L over the coordinates; node i's records lie around a
    centre c_i with deviations `spread`, all moved so that the optimum θ* has norm 1 and ζ̄ is `heterogeneity`.

    >>> task = synthetic_task(5, dimension=3, convexity=1.0, smoothness=4.0, heterogeneity=0.5)
    >>> round(task.heterogeneity, 9), task.smoothness, task.convexity
    (0.5, 4.0, 1.0)
    """
    if not 0 < convexity <= smoothness or (dimension == 1 and convexity < smoothness):
        raise InputError(
            f"curvatures must obey 0 < convexity ≤ smoothness, equal in one dimension; got {convexity!r} and "
            f"{smoothness!r} with dimension {dimension!r}"
        )
    rng = np.random.default_rng([int(seed), 3])
    h = np.linspace(convexity, smoothness, dimension)
    if convexity == smoothness:
        h = h[:1]
    centres = rng.standard_normal((nodes, dimension))
    centres -= centres.mean(axis=0)
    pulls = np.sqrt(((h * centres) ** 2).sum(axis=1).mean())
    centres *= heterogeneity / pulls
    optimum = rng.standard_normal(dimension)
    optimum /= np.linalg.norm(optimum)
    noise = spread * rng.standard_normal((nodes, records, dimension))
    noise -= noise.mean(axis=1, keepdims=True)
    points = optimum + centres[:, None, :] + noise
    shards = shards_of(list(points), [np.zeros(records)] * nodes, nominal=records)
    return Task(name="synthetic", loss=quadratic(dimension, h), shards=shards)


def parse_synthetic(text: str, nodes: int) -> Task:
    """The synthetic problem that is spelled like synthetic or synthetic:dimension=10,smoothness=4, on so many nodes.

    >>> parse_synthetic("synthetic:dimension=3,smoothness=2", 4).smoothness
    2.0
    """
    given = spelled(text)
    settings: dict[str, Any] = {}
    try:
        settings = {key: int(value) if key in _WHOLE else float(value) for key, value in given.keyed.items()}
        fits = given.name == "synthetic" and not given.plain and settings.keys() <= set(SYNTHETIC_KEYS)
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"a synthetic problem is spelled like synthetic:dimension=10,smoothness=4; got {text!r} "
            f"(known: {', '.join(SYNTHETIC_KEYS)})"
        )
    at_least(1, **{key: settings[key] for key in ("dimension", "records") if key in settings})
    return synthetic_task(nodes, **settings)


def _loss_kind(data: Data) -> str:
    """The loss that labels ask for."""
    return "ridge" if not data.classes else "logistic" if data.classes == 2 else "softmax"


def _check_labels(data: Data, kind: str) -> None:
    """Refuse a loss for other labels than there are."""
    fitting = {
        "ridge": data.classes == 0,
        "huber": data.classes == 0,
        "logistic": data.classes == 2,
        "softmax": data.classes >= 2,
    }
    if not fitting.get(kind, True):
        found = f"{data.classes} classes" if data.classes else "numbers"
        raise InputError(
            f"{data.name}: the loss {kind} does not fit labels that are {found} (take {_loss_kind(data)})"
        )


def _with_constant(data: Data, radius: float) -> Data:
    """Each record with a constant 1 beside it, scaled by itself to a norm of at most `radius`.

    Classes do not depend on how long (x, 1) is, so all records are given the same length, the largest that is allowed.
    Numbers do: there x is scaled into the unit ball if it is longer, and all of (x, 1) by radius/√2.
    """
    ones = np.ones((data.records, 1))
    if data.classes:
        onto = in_ball(np.hstack([data.features, ones]), _SMALL) / _SMALL
        return replace(data, features=radius * onto)
    rows = np.hstack([in_ball(data.features, 1.0), ones])
    return replace(data, features=radius / math.sqrt(2) * rows)
