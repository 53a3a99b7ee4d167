"""Risks, gradients, constants and optima, against differences and closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import (
    Data,
    Task,
    load_data,
    parse_synthetic,
    ridge,
    shards_of,
    softmax,
    synthetic_task,
    task_from,
)

RNG = np.random.default_rng(11)
TASKS = {
    "ridge": lambda: task_from(load_data("diabetes"), 4, l2=0.1),
    "huber": lambda: task_from(load_data("diabetes"), 4, loss="huber", l2=0.1),
    "logistic": lambda: task_from(load_data("breast-cancer"), 4, l2=0.05),
    "quadratic": lambda: synthetic_task(4, dimension=5, convexity=0.5, smoothness=2.0),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_gradient_is_that_of_the_risk(name: str) -> None:
    task = TASKS[name]()
    model = RNG.standard_normal(task.dimension)
    direction = RNG.standard_normal(task.dimension)
    slope = (task.risk(model + 1e-5 * direction) - task.risk(model - 1e-5 * direction)) / 2e-5
    assert task.gradient(model) @ direction == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_curvature_lies_between_the_constants(name: str) -> None:
    task = TASKS[name]()
    assert task.smoothness is not None
    assert task.convexity is not None
    for _ in range(30):
        a, b = RNG.standard_normal((2, task.dimension))
        for node in range(task.nodes):
            shift = (task.gradients(np.tile(a, (4, 1))) - task.gradients(np.tile(b, (4, 1))))[node]
            curvature = shift @ (a - b) / ((a - b) @ (a - b))
            assert task.convexity * (1 - 1e-9) <= curvature <= task.smoothness * (1 + 1e-9)


def test_constants_are_attained() -> None:
    task = TASKS["ridge"]()
    features = task.shards.features
    grams = [x.T @ x / task.shards.nominal + 0.1 * np.eye(features.shape[2]) for x in features]
    assert task.smoothness == pytest.approx(max(np.linalg.eigvalsh(gram)[-1] for gram in grams))
    assert task.convexity == pytest.approx(min(np.linalg.eigvalsh(gram)[0] for gram in grams))


def test_the_optimum_of_ridge_solves_its_equations() -> None:
    task = TASKS["ridge"]()
    X, y = task.shards.pooled
    total = task.nodes * task.shards.nominal
    solution: np.ndarray = np.linalg.solve(X.T @ X / total + 0.1 * np.eye(X.shape[1]), X.T @ y / total)
    assert task.optimum is not None
    assert np.allclose(task.optimum.model, solution, atol=1e-6)
    assert task.optimum.gap < 1e-10
    assert task.risk(solution) >= task.optimum.risk - task.optimum.gap


def test_the_optimum_of_logistic_is_that_of_another_solver() -> None:
    from sklearn.linear_model import LogisticRegression

    task = TASKS["logistic"]()
    X, y = task.shards.pooled
    total = task.nodes * task.shards.nominal
    other = LogisticRegression(C=1 / (total * 0.05), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(
        X, y
    )
    assert task.optimum is not None
    assert task.optimum.risk == pytest.approx(task.risk(other.coef_[0]), rel=1e-9)
    assert np.allclose(task.optimum.model, other.coef_[0], atol=1e-4)
    assert task.optimum.gap < 1e-10


@pytest.mark.parametrize(("convexity", "smoothness"), [(1.0, 1.0), (0.5, 4.0)])
def test_synthetic_problems_are_as_they_were_asked_for(convexity: float, smoothness: float) -> None:
    task = synthetic_task(
        7, dimension=6, convexity=convexity, smoothness=smoothness, heterogeneity=0.3, seed=2
    )
    assert (task.convexity, task.smoothness) == (convexity, smoothness)
    assert task.optimum is not None
    assert np.linalg.norm(task.optimum.model) == pytest.approx(1)
    assert np.abs(task.gradient(task.optimum.model)).max() < 1e-12
    assert task.heterogeneity == pytest.approx(0.3)
    pulls = task.gradients(np.tile(task.optimum.model, (7, 1)))
    assert np.sqrt((pulls**2).sum(axis=1).mean()) == pytest.approx(0.3)
    # Half the curvature times the squared distance is the excess risk.
    away = task.optimum.model + np.eye(6)[0]
    assert task.risk(away) - task.optimum.risk == pytest.approx(convexity / 2)


def test_public_smoothness_needs_no_data_and_holds_for_shards_of_nominal_size() -> None:
    for name in TASKS:
        task = TASKS[name]()
        assert task.public_smoothness is not None
        assert task.smoothness is not None
        assert task.shards.counts.max() <= task.shards.nominal
        assert task.smoothness <= task.public_smoothness * (1 + 1e-12)


def test_the_loss_fits_the_labels() -> None:
    names = {
        name: task_from(load_data(name), 3).loss.name for name in ("digits", "breast-cancer", "diabetes")
    }
    assert names == {"digits": "softmax", "breast-cancer": "logistic", "diabetes": "ridge"}
    assert task_from(load_data("breast-cancer"), 3, loss="softmax").dimension == 62
    means = task_from(load_data("diabetes"), 3, loss="quadratic")
    assert (means.dimension, means.test) == (10, None)
    with pytest.raises(
        InputError, match="the loss ridge does not fit labels that are 10 classes \\(take softmax\\)"
    ):
        task_from(load_data("digits"), 3, loss="ridge")
    with pytest.raises(InputError, match="the loss logistic does not fit labels that are numbers"):
        task_from(load_data("diabetes"), 3, loss="logistic")


@pytest.mark.parametrize("clip", [1.0, 0.3, 7.0])
@pytest.mark.parametrize(
    ("data", "loss", "share"),
    [
        ("digits", "softmax", 0.5**0.5),
        ("breast-cancer", "logistic", 1.0),
        ("breast-cancer", "softmax", 0.5**0.5),
        ("diabetes", "ridge", 1.0),
        ("diabetes", "huber", 1.0),
    ],
)
def test_records_and_their_constant_lie_in_a_public_ball(
    data: str, loss: str, share: float, clip: float
) -> None:
    task = task_from(load_data(data), 3, loss=loss, clip=clip)
    features = task.shards.pooled[0]
    norms = np.linalg.norm(features, axis=1)
    assert norms.max() <= share * clip
    if data == "diabetes":
        assert np.allclose(features[:, -1], clip * 0.5**0.5, rtol=1e-8)
    else:
        # Classes do not depend on the length of a record, so each has the one that serves best.
        assert norms.min() >= share * clip * (1 - 1e-8)
    assert task.loss.smoothness == pytest.approx(task.loss.output_curvature * (share * clip) ** 2)  # type: ignore[attr-defined]
    # A round clips nothing, but for ridge, wherever the models are.
    for scale in (0.0, 1.0, 1e6):
        models = scale * RNG.standard_normal((3, task.dimension))
        weights = task.shards.present.astype(float)
        found = task.loss.clipped_sums(models, task.shards, weights, clip)
        free = task.loss.clipped_sums(models, task.shards, weights, None)
        assert loss == "ridge" or (found.clipped == 0 and np.array_equal(found.values, free.values))


def test_a_record_is_scaled_by_itself() -> None:
    few = Data(name="own", features=np.array([[3.0, 4.0], [0.3, 0.4]]), labels=np.array([0.0, 1.0]))
    other = Data(name="own", features=np.array([[3.0, 4.0], [30.0, 4.0]]), labels=np.array([0.0, 1.0]))
    for classes in (0, 2):
        rows = [
            task_from(replace(each, classes=classes), 2, nominal=1, test_share=0).shards.pooled[0].tolist()
            for each in (few, other)
        ]
        shared = [row for row in rows[0] if row in rows[1]]
        assert len(shared) == 1
        expected = np.array([0.6, 0.8, 1.0]) / 2**0.5 if not classes else np.array([3.0, 4.0, 1.0]) / 26**0.5
        assert shared[0] == pytest.approx(expected.tolist(), rel=1e-8)


def test_where_nothing_is_known_nothing_is_said() -> None:
    from sottovoce.learning import GradientLoss

    shards = shards_of([np.ones((2, 3))] * 2, [np.ones(2)] * 2, nominal=2)
    own = Task(name="own", loss=GradientLoss(gradients=lambda m, x, _: x + m, dimension=3), shards=shards)
    assert (own.smoothness, own.convexity, own.public_smoothness) == (None, None, None)
    assert (own.optimum, own.heterogeneity, own.accuracy(np.zeros(3))) == (None, None, None)
    assert Task(name="flat", loss=ridge(3), shards=shards).optimum is None


def test_synthetic_problems_by_their_spelling() -> None:
    found = parse_synthetic("synthetic:dimension=4,smoothness=3,heterogeneity=0.5,seed=2", 6)
    same = synthetic_task(6, dimension=4, smoothness=3.0, heterogeneity=0.5, seed=2)
    assert found.shards.fingerprint == same.shards.fingerprint
    assert parse_synthetic("synthetic", 3).dimension == 10
    for text in (
        "synthetic:dim=4",
        "synthetic:dimension=x",
        "synthetic:dimension",
        "synthetic:dimension=2.5",
    ):
        with pytest.raises(InputError, match="a synthetic problem is spelled like"):
            parse_synthetic(text, 3)
    with pytest.raises(InputError, match="dimension must be a whole number of at least 1"):
        parse_synthetic("synthetic:dimension=0", 3)


def test_one_class_is_refused() -> None:
    one = Data(name="own", features=np.eye(6), labels=np.ones(6), classes=2)
    with pytest.raises(
        InputError, match="own: a classifier needs records of at least two classes; all 6 to learn from"
    ):
        task_from(one, 2, nominal=3, test_share=0.0)
    # A class that is missing among the few records to test on is no fault.
    few = Data(name="own", features=np.eye(6), labels=np.array([0, 1, 0, 1, 0, 1]), classes=2)
    assert task_from(few, 2, nominal=3, test_share=0.2).test is not None


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="l2 must be a finite number of at least 0"):
        task_from(load_data("diabetes"), 3, l2=-1)
    with pytest.raises(
        InputError, match="loss must be one of auto, ridge, huber, logistic, softmax, quadratic"
    ):
        task_from(load_data("diabetes"), 3, loss="hinge")
    with pytest.raises(InputError, match="0 < convexity ≤ smoothness"):
        synthetic_task(3, convexity=2.0, smoothness=1.0)


@pytest.mark.parametrize("wrong", [-1, 3, 0.5])
def test_labels_that_name_no_class_are_refused(wrong: float) -> None:
    labels = np.array([0, 1, 2, wrong])
    complaint = f"from 0 to 2, one for each of its 3 classes; the nodes have {wrong:g}"
    with pytest.raises(InputError, match=complaint):
        Task(name="own", loss=softmax(2, 3), shards=shards_of([np.ones((4, 2))], [labels], nominal=4))
    fine = shards_of([np.ones((3, 2))], [labels[:3]], nominal=3)
    Task(name="own", loss=softmax(2, 3), shards=fine)
    held = Data(name="own", features=np.ones((4, 2)), labels=np.array([0, 1, 2, 4]), classes=5)
    with pytest.raises(InputError, match="the held-out records have 4"):
        Task(name="own", loss=softmax(2, 3), shards=fine, test=held)
