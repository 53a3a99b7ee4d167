"""A PyTorch module as a loss, where torch is installed."""

import sys
from typing import Any

import numpy as np
import pytest

from sottovoce import gossip, graphs
from sottovoce.errors import InputError
from sottovoce.learning import Run, Task, load_data, shards_of, split, torch_loss, train
from sottovoce.learning.fingerprints import loss_fingerprint

RING = gossip(graphs.metropolis_weights("ring:n=3"), rounds=6)


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install '\.\[torch\]'"):
        torch_loss(None, lambda output, _: output)


def test_gradients_are_those_of_the_bundled_loss() -> None:
    torch: Any = pytest.importorskip("torch")
    from sottovoce.learning import softmax

    data = load_data("digits")
    whole = split(data, 3)
    shards = shards_of(
        [whole.features[i, :5] for i in range(3)], [whole.labels[i, :5] for i in range(3)], nominal=5
    )
    module = torch.nn.Linear(64, 10, bias=False).double()
    own = torch_loss(module, torch.nn.functional.cross_entropy, integer_labels=True)
    bundled = softmax(64, 10)
    models = np.random.default_rng(1).standard_normal((3, 640))
    # torch keeps one row a class, the bundled loss one column a class.
    turned = models.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640)
    weights = shards.present.astype(np.float64)
    sums, share, _ = own.clipped_sums(models, shards, weights, 0.5)
    expected, expected_share, _ = bundled.clipped_sums(turned, shards, weights, 0.5)
    assert np.allclose(sums.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640), expected)
    assert share == expected_share
    assert own.start is not None
    assert np.array_equal(own.start, module.weight.detach().numpy().ravel())


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def network(torch: Any) -> Any:
    """A backbone that is frozen, and a head that is not."""
    torch.manual_seed(3)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    module[0].requires_grad_(False)
    return module


def squared(output: Any, label: Any) -> Any:
    return ((output[:, 0] - label) ** 2).sum() / 2


def task_of(loss: Any) -> Task:
    rng = np.random.default_rng(2)
    shards = shards_of(list(rng.standard_normal((3, 6, 3))), list(rng.standard_normal((3, 6))), nominal=6)
    return Task(name="own", loss=loss, shards=shards)


def test_what_is_frozen_is_no_part_of_a_model(torch: Any) -> None:
    task = task_of(torch_loss(network(torch), squared))
    # The head alone: four weights and a bias.
    assert task.dimension == 5
    assert task.loss.start is not None
    assert task.loss.start.shape == (5,)
    run = train(task, RING, noise_multiplier=2.0, step=0.1)
    assert run.state.models.shape == (3, 5)
    # A model is the head on the frozen backbone: the same numbers by hand.
    rows = task.shards.features[0]
    with torch.no_grad():
        hidden = network(torch)[:2].double()(torch.as_tensor(rows)).numpy()
    predicted = np.asarray(task.loss.predictions(run.model, rows))
    assert np.allclose(predicted, hidden @ run.model[:4] + run.model[4])


def test_what_is_frozen_is_not_counted_in_the_clip(torch: Any) -> None:
    task, module = task_of(torch_loss(network(torch), squared)), network(torch).double()
    shards = task.shards
    one = np.zeros(shards.present.shape)
    one[0, 0] = 1
    assert task.loss.start is not None
    models = np.tile(task.loss.start, (3, 1))
    found = task.loss.clipped_sums(models, shards, one, None).values[0]
    row = torch.as_tensor(shards.features[0, 0])
    with torch.no_grad():
        residual = float(module(row)[0]) - shards.labels[0, 0]
        expected = residual * np.append(module[:2](row).numpy(), 1.0)
    assert np.allclose(found, expected)
    kept = task.loss.clipped_sums(models, shards, one, float(np.linalg.norm(expected)) * 1.001)
    assert np.allclose(kept.values[0], expected)
    assert kept.clipped == 0


def test_all_frozen_is_refused(torch: Any) -> None:
    with pytest.raises(InputError, match="none of Linear requires a gradient"):
        torch_loss(torch.nn.Linear(3, 1).requires_grad_(False), squared)


def test_a_module_is_copied(torch: Any) -> None:
    module = network(torch)
    loss = torch_loss(module, squared)
    assert loss.start is not None
    before, told = np.asarray(loss.predictions(loss.start, np.ones((2, 3)))), loss_fingerprint(loss)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(9.0)
    assert np.array_equal(np.asarray(loss.predictions(loss.start, np.ones((2, 3)))), before)
    assert loss_fingerprint(loss) == told


def test_modules_of_one_class_are_told_apart(torch: Any) -> None:
    def weights(module: Any) -> None:
        with torch.no_grad():
            module[2].weight[0, 0] += 1e-6

    def backbone(module: Any) -> None:
        with torch.no_grad():
            module[0].weight[0, 0] += 1e-6

    def activation(module: Any) -> None:
        module[1] = torch.nn.ReLU()

    def slope(module: Any) -> None:
        module[1] = torch.nn.LeakyReLU(0.3)

    def other_slope(module: Any) -> None:
        module[1] = torch.nn.LeakyReLU(0.4)

    def thawed(module: Any) -> None:
        module[0].bias.requires_grad = True

    def absolute(output: Any, label: Any) -> Any:
        return (output[:, 0] - label).abs().sum()

    def told(change: Any = None, loss: Any = squared, **settings: Any) -> str:
        module = network(torch)
        if change is not None:
            change(module)
        return loss_fingerprint(torch_loss(module, loss, **settings))

    changes = (None, weights, backbone, activation, slope, other_slope, thawed)
    found = [*map(told, changes), told(loss=absolute), told(integer_labels=True)]
    assert len(set(found)) == len(found)
    assert told() == found[0]


def test_a_forward_of_ones_own_is_told_by_its_code(torch: Any) -> None:
    class Own(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(3, 1)

        def forward(self, rows: Any) -> Any:
            return self.head(rows)

    class Other(Own):
        def forward(self, rows: Any) -> Any:
            return self.head(2 * rows)

    Other.__name__ = Other.__qualname__ = Own.__qualname__
    found = []
    for kind in (Own, Own, Other):
        torch.manual_seed(1)
        found.append(loss_fingerprint(torch_loss(kind(), squared)))
    assert found[0] == found[1] != found[2]


def test_a_module_resumes_with_itself_alone(torch: Any) -> None:
    settings: dict[str, Any] = {"noise_multiplier": 2.0, "step": 0.1}
    kept: list[Run] = []
    task = task_of(torch_loss(network(torch), squared))
    whole = train(task, RING, checkpoint=kept.append, checkpoint_every=2, **settings)
    again = task_of(torch_loss(network(torch), squared))
    assert np.array_equal(train(again, RING, resume=kept[1], **settings).state.models, whole.state.models)
    module = network(torch)
    module[1] = torch.nn.ReLU()
    with pytest.raises(
        InputError, match="called 'Sequential' too, but its code, parameters or state are others"
    ):
        train(task_of(torch_loss(module, squared)), RING, resume=kept[1], **settings)


def test_a_gradient_of_nan_is_zeroed(torch: Any) -> None:
    def rooted(output: Any, label: Any) -> Any:
        return torch.sqrt(output[:, 0] * label).sum()

    loss = torch_loss(network(torch), rooted)
    assert loss.start is not None
    # At one of 1 and −1 the root is taken of a negative number.
    shards = shards_of([np.ones((2, 3))], [np.array([1.0, -1.0])], nominal=2)
    found = loss.clipped_sums(loss.start[None], shards, np.ones((1, 2)), 0.5)
    assert found.zeroed == 1
    assert np.isfinite(found.values).all()
    assert np.linalg.norm(found.values) <= 0.5
