"""What tells losses apart: whatever shapes a gradient shows in the fingerprint, or is refused by name."""

import functools
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import GradientLoss, logistic, quadratic, ridge, softmax
from sottovoce.learning.fingerprints import fingerprint, loss_fingerprint

SCALE = 2.0
LOCK = threading.Lock()


def scaled(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
    return np.asarray(SCALE * features + model)


def helper(features: np.ndarray) -> np.ndarray:
    return features * 2


def helped(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
    return np.asarray(helper(features) + model)


def locked(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
    with LOCK:
        return np.asarray(features + model)


def closed(factor: Any) -> Callable[..., np.ndarray]:
    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
        return np.asarray(factor * features + model)

    return gradients


def keyword(model: np.ndarray, features: np.ndarray, labels: Any, *, factor: float = 1.0) -> np.ndarray:  # noqa: ARG001
    return np.asarray(factor * features + model)


class Gradients:
    """A callable with state."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG002
        return np.asarray(self.factor * features + model)


def told(gradients: Callable[..., Any], **settings: Any) -> str:
    return loss_fingerprint(GradientLoss(gradients=gradients, dimension=2, **settings))


def test_bundled_losses_are_told_by_their_parameters() -> None:
    losses: list[Any] = [
        ridge(3),
        ridge(4),
        logistic(3),
        softmax(3, 2),
        softmax(3, 3),
        quadratic(3),
        quadratic(3, 2.0),
    ]
    found = [loss_fingerprint(loss) for loss in losses]
    assert len(set(found)) == len(losses)
    assert loss_fingerprint(quadratic(3, [1.0, 2.0, 3.0])) != loss_fingerprint(quadratic(3, [1.0, 2.0, 4.0]))
    assert loss_fingerprint(ridge(3)) == found[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda m, x, _: x + m, lambda m, x, _: x - m),
        (lambda m, x, _: 2 * x + m, lambda m, x, _: 3 * x + m),
        (closed(2.0), closed(3.0)),
        (closed(np.array([1.0, 2.0])), closed(np.array([1.0, 3.0]))),
        (closed(1), closed(1.0)),
        (functools.partial(keyword, factor=1.0), functools.partial(keyword, factor=2.0)),
        (Gradients(1.0), Gradients(2.0)),
        (Gradients(1.0).__call__, Gradients(2.0).__call__),
        (lambda m, x, _: np.sin(x) + m, lambda m, x, _: np.cos(x) + m),
        (lambda m, x, _: [np.sin(row) + m for row in x], lambda m, x, _: [np.cos(row) + m for row in x]),
    ],
)
def test_functions_of_one_name_are_told_by_what_they_do(one: Any, other: Any) -> None:
    assert told(one) != told(other)
    assert told(one) == told(one)


def test_functions_made_twice_are_the_same() -> None:
    assert told(closed(2.0)) == told(closed(2.0))
    assert told(Gradients(2.0)) == told(Gradients(2.0))


def test_globals_and_helpers_belong_to_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    before, helped_before = told(scaled), told(helped)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert told(scaled) != before
    assert told(helped) == helped_before
    monkeypatch.setitem(globals(), "helper", lambda features: features * 3)
    assert told(helped) != helped_before


def test_what_a_module_of_ones_own_holds_belongs_to_it() -> None:
    own = ModuleType("own_helpers")
    own.factor = 1.0  # type: ignore[attr-defined]
    space: dict[str, Any] = {"own": own, "__name__": "own_losses"}
    exec("def gradients(model, features, labels):\n    return own.factor * features + model\n", space)
    before = told(space["gradients"])
    own.factor = 2.0  # type: ignore[attr-defined]
    assert told(space["gradients"]) != before


def test_start_losses_and_name_belong_to_it() -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"start": np.zeros(2)},
        {"start": np.ones(2)},
        {"losses": lambda m, x, _: x @ m},
        {"name": "other"},
    ]
    assert len({told(scaled, **each) for each in settings}) == len(settings)


def test_a_version_stands_for_all_that_code_does_not_say() -> None:
    with pytest.raises(
        InputError,
        match=r"the loss 'custom' cannot be told from another of its name.*LOCK in locked is a lock, whose state "
        r"cannot be read \(give GradientLoss a version of its own",
    ):
        told(locked)
    assert told(locked, version="1") == told(locked, version="1") != told(locked, version="2")
    assert told(locked, version="1") != told(locked, version="1", start=np.ones(2))


def test_values_that_look_alike_differ() -> None:
    values = [1, 1.0, True, "1", b"1", (1,), [1], {1}, {1: 1}, None, [[1], []], [[], [1]], int, float]
    values += [
        np.array([1]),
        np.array(1),
        np.array([1.0]),
        np.float64(1.0),
        np.array([0.0]),
        np.array([-0.0]),
    ]
    # A number of NumPy and an array of one number without axes say the same.
    assert len({fingerprint(value) for value in values}) == len(values)


def test_sets_and_loops_are_read() -> None:
    assert fingerprint({"a", "b", "c"}) == fingerprint({"c", "b", "a"})
    loop: list[Any] = [1]
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop) != fingerprint([1, [1]])


OWN = """
import numpy as np
from sottovoce.learning import GradientLoss, quadratic
from sottovoce.learning.fingerprints import loss_fingerprint

KINDS = {"a", "b", "c", "d"}


def scaled(model, features, labels, kinds=("a", "b")):
    if "b" in {"x", "b", "y"} and kinds[0] in KINDS:
        return np.array([features[k] * (1, 2)[0] + model for k in range(len(features))])
    return features * (1, 2)[0]


def told():
    own = GradientLoss(gradients=scaled, losses=lambda m, x, y: x @ m * (1, 2)[0], dimension=2)
    return loss_fingerprint(own) + loss_fingerprint(quadratic(2, 1.5))


def warm():
    before = told()
    for _ in range(50):
        scaled(np.ones(2), np.ones((3, 2)), None)
    return before if told() == before else "another"
"""


def test_another_process_tells_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled just now or read from a cache, whatever the order of sets, before it has run or after."""
    (tmp_path / "own_losses.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    here = importlib.import_module("own_losses").warm()
    monkeypatch.delitem(sys.modules, "own_losses")
    assert list((tmp_path / "__pycache__").glob("own_losses.*"))
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", "import own_losses; print(own_losses.warm(), end='')"],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == here != "another"
