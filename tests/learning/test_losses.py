"""Clipped sums against finite differences and a plain loop, record by record."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import (
    GradientLoss,
    LinearLoss,
    Loss,
    Shards,
    logistic,
    quadratic,
    ridge,
    shards_of,
    softmax,
)
from sottovoce.learning.clipping import clipped_rows

RNG = np.random.default_rng(4)
LOSSES: dict[str, Any] = {
    "ridge": ridge(3),
    "logistic": logistic(3),
    "softmax": softmax(3, 4),
    "quadratic": quadratic(3, [0.5, 1.0, 2.0]),
}


def shards_for(name: str) -> Any:
    sizes = (4, 2, 5)
    classes = {"logistic": 2, "softmax": 4}.get(name)
    labels = [RNG.integers(0, classes, m) if classes else RNG.standard_normal(m) for m in sizes]
    return shards_of([2 * RNG.standard_normal((m, 3)) for m in sizes], labels, nominal=4)


def gradient_of_record(loss: Loss, model: np.ndarray, row: np.ndarray, label: float) -> np.ndarray:
    """By central differences of the loss of one record, of which the public part h∘θ is not a part."""
    step = 1e-6
    found = np.empty(len(model))
    for k in range(len(model)):
        ahead, behind = model.copy(), model.copy()
        ahead[k] += step
        behind[k] -= step
        values = [loss.values(at, row[None], np.array([label]))[0] for at in (ahead, behind)]
        found[k] = (values[0] - values[1]) / (2 * step)
    return found


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("clip", [None, 0.7, 1000.0])
def test_sums_are_those_of_a_plain_loop(name: str, clip: float | None) -> None:
    loss, shards = LOSSES[name], shards_for(name)
    models = RNG.standard_normal((3, loss.dimension))
    weights = shards.present * RNG.integers(0, 2, shards.present.shape)
    sums, share, *_ = loss.clipped_sums(models, shards, weights.astype(np.float64), clip)
    expected = np.zeros_like(models)
    longer = []
    for node, place in np.argwhere(weights):
        one = gradient_of_record(loss, models[node], shards.features[node, place], shards.labels[node, place])
        norm = np.linalg.norm(one)
        longer.append(clip is not None and bool(norm > clip))
        expected[node] += one if clip is None else one * min(1, clip / norm)
    assert np.allclose(sums, expected, rtol=1e-5, atol=1e-6)
    assert share == pytest.approx(np.mean(longer))


@pytest.mark.parametrize("name", LOSSES)
def test_no_record_moves_a_sum_by_more_than_the_clip(name: str) -> None:
    loss, shards = LOSSES[name], shards_for(name)
    models = 50 * RNG.standard_normal((3, loss.dimension))
    whole = shards.present.astype(np.float64)
    moved = []
    for node, place in np.argwhere(shards.present):
        without = whole.copy()
        without[node, place] = 0
        one = whole - without
        moved.append(np.linalg.norm(loss.clipped_sums(models, shards, one, 0.3)[0]))
        both = [loss.clipped_sums(models, shards, each, 0.3)[0] for each in (whole, without)]
        assert np.linalg.norm(both[0] - both[1]) <= 0.3
    assert max(moved) <= 0.3
    assert max(moved) > 0.2999


def test_a_gradient_of_ones_own() -> None:
    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:
        return np.asarray(features * (features @ model - labels)[:, None])

    own = GradientLoss(gradients=gradients, dimension=3)
    shards = shards_for("ridge")
    models = RNG.standard_normal((3, 3))
    weights = shards.present.astype(np.float64)
    weights[1] = 0
    for clip in (None, 0.5):
        mine, bundled = (loss.clipped_sums(models, shards, weights, clip) for loss in (own, LOSSES["ridge"]))
        assert np.allclose(mine[0], bundled[0])
        assert mine[1] == bundled[1]
    assert np.isnan(own.values(models[0], *shards.pooled)).all()
    assert own.predictions(models[0], shards.pooled[0]) is None


def test_a_gradient_that_is_a_mean_is_refused() -> None:
    own = GradientLoss(gradients=lambda model, _, __: model, dimension=3)
    shards = shards_for("ridge")
    with pytest.raises(
        InputError, match=r"one gradient a record, shape \(4, 3\); got \(3,\) \(do not average"
    ):
        own.clipped_sums(np.zeros((3, 3)), shards, shards.present.astype(float), 1.0)


def test_predictions() -> None:
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert np.asarray(LOSSES["ridge"].predictions(np.array([2.0, 3.0, 4.0]), rows)).tolist() == [2, 3]
    assert np.asarray(LOSSES["logistic"].predictions(np.array([2.0, -3.0, 4.0]), rows)).tolist() == [1, 0]
    table = np.array([[0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4])
    assert np.asarray(LOSSES["softmax"].predictions(table.ravel(), rows)).tolist() == [1, 3]
    assert LOSSES["quadratic"].predictions(np.zeros(3), rows) is None


def test_curvatures_of_outputs_bound_second_derivatives() -> None:
    z = np.linspace(-9, 9, 2001)
    sigmoid = 1 / (1 + np.exp(-z))
    assert (sigmoid * (1 - sigmoid)).max() <= LOSSES["logistic"].output_curvature == 0.25
    largest = 0.0
    for _ in range(500):
        p = RNG.dirichlet(np.full(4, 0.3))
        largest = max(largest, float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]))
    assert 0.45 < largest <= LOSSES["softmax"].output_curvature == 0.5


def test_what_is_refused() -> None:
    for curvature in (0.0, [1.0, 2.0], [1.0, -1.0, 1.0], np.inf):
        with pytest.raises(
            InputError, match="the curvature must be positive: a number, or one for each of the 3"
        ):
            quadratic(3, curvature)
    from sottovoce.learning import LinearLoss

    with pytest.raises(InputError, match="kind must be one of ridge, huber, logistic, softmax"):
        LinearLoss(kind="hinge", features=2)  # type: ignore[arg-type]


def test_rows_are_clipped_each_by_itself() -> None:
    rows, share, *_ = clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    assert np.allclose(rows, np.array([[0.6, 0.8], [0.3, 0.4], [0, 0]]), rtol=1e-8)
    assert np.linalg.norm(rows, axis=1).max() <= 1
    assert share == pytest.approx(1 / 3)


def as_gradients(name: str) -> GradientLoss:
    """A bundled loss as one of one's own: the gradients of its records, one a row."""
    loss = LOSSES[name]

    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            if name == "quadratic":
                return np.asarray(-loss.curvature * features)
            assert isinstance(loss, LinearLoss)
            outputs = features @ model.reshape(loss.features, loss.outputs)
            return np.asarray(
                [
                    np.outer(x, r).ravel()
                    for x, r in zip(features, loss._residuals(outputs[None], labels[None])[0], strict=True)
                ]
            )

    return GradientLoss(gradients=gradients, dimension=loss.dimension)


def spoilt(name: str, **changes: float) -> tuple[Shards, Shards]:
    """Shards in which record 0 of node 0 has a strange feature or label, and the same without that record."""
    shards = shards_for(name)
    features, labels, present = shards.features.copy(), shards.labels.copy(), shards.present.copy()
    if "feature" in changes:
        features[0, 0, 1] = changes["feature"]
    if "label" in changes:
        labels = labels.astype(np.float64)
        labels[0, 0] = changes["label"]
    present[0, 0] = False
    return replace(shards, features=features, labels=labels), replace(shards, present=present)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("clip", [0.7, None])
@pytest.mark.parametrize("own", [False, True])
def test_a_gradient_that_is_not_finite_counts_as_no_gradient(
    name: str, strange: float, clip: float | None, own: bool
) -> None:
    loss = as_gradients(name) if own else LOSSES[name]
    models = RNG.standard_normal((3, loss.dimension))
    changed, without = spoilt(name, feature=strange)
    found = loss.clipped_sums(models, changed, changed.present.astype(float), clip)
    expected = loss.clipped_sums(models, without, without.present.astype(float), clip)
    assert np.allclose(found.values, expected.values, rtol=1e-12, atol=1e-14)
    assert (found.zeroed, expected.zeroed) == (1, 0)


@pytest.mark.parametrize("own", [False, True])
def test_a_label_or_a_model_that_overflows_is_zeroed(own: bool) -> None:
    loss = as_gradients("ridge") if own else LOSSES["ridge"]
    changed, without = spoilt("ridge", label=np.inf)
    models = RNG.standard_normal((3, loss.dimension))
    found = loss.clipped_sums(models, changed, changed.present.astype(float), 0.7)
    expected = loss.clipped_sums(models, without, without.present.astype(float), 0.7)
    assert np.allclose(found.values, expected.values)
    models[1] = np.nan
    assert loss.clipped_sums(models, without, without.present.astype(float), 0.7).values[1].tolist() == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [1e155, 1e200, 1e307, 1e-200])
@pytest.mark.parametrize("own", [False, True])
def test_however_large_a_gradient_is_it_is_clipped_along_its_direction(
    name: str, size: float, own: bool
) -> None:
    loss = as_gradients(name) if own else LOSSES[name]
    shards = shards_for(name)
    one = np.zeros(shards.present.shape)
    one[0, 0] = 1
    features = shards.features.copy()
    direction = features[0, 0] / np.abs(features[0, 0]).max()
    features[0, 0] = size * direction
    # At zeros the residual does not depend on the features.
    models = np.zeros((3, loss.dimension))
    for clip in (0.3, 1e-150):
        found = loss.clipped_sums(models, replace(shards, features=features), one, clip)
        plain = LOSSES[name].clipped_sums(models, shards, one, 1e-9).values[0]
        norm = np.linalg.norm(found.values[0] / clip)
        assert found.zeroed == 0
        assert norm <= 1
        if size * np.abs(plain).max() > clip:
            assert norm > 1 - 1e-8
            turned = found.values[0] / np.linalg.norm(found.values[0] / clip) / clip
            assert np.allclose(turned, plain / np.linalg.norm(plain), atol=1e-8)


def test_a_small_feature_does_not_hide_a_large_residual() -> None:
    shards = shards_for("ridge")
    features, labels = shards.features.copy(), shards.labels.astype(np.float64)
    features[0, 0], labels[0, 0] = [1e-200, -1e-200, 1e-200], 1e220
    one = np.zeros(shards.present.shape)
    one[0, 0] = 1
    found = LOSSES["ridge"].clipped_sums(
        np.zeros((3, 3)), replace(shards, features=features, labels=labels), one, 0.5
    )
    assert 0.5 * (1 - 1e-8) < np.linalg.norm(found.values[0]) <= 0.5
    assert found.clipped == 1


@pytest.mark.parametrize("row", [[1e200, -1e200], [np.inf, 0.0], [np.nan, 1.0], [1e308, 1e308]])
def test_whole_nodes_are_clipped_the_same_way(row: list[float]) -> None:
    found = clipped_rows(np.array([row, [0.1, 0.1]]), 1.0)
    finite = bool(np.isfinite(row).all())
    assert found.zeroed == 1 - finite
    assert np.linalg.norm(found.values[0]) == pytest.approx(float(finite), abs=1e-8)
    assert np.linalg.norm(found.values[0]) <= 1
    assert found.values[1].tolist() == [0.1, 0.1]
