# SPDX-License-Identifier: Apache-2.0
"""Gradients of single records: what they are, that each is clipped alone, and that few exist at a time."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.sites.samples import cnn, frozen, images, squared, tables
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from sottovoce.errors import InputError
from sottovoce.learning import clipped_rows, load_data, softmax, split
from sottovoce.learning.fingerprints import loss_fingerprint
from sottovoce.learning.sites import ModuleLoss, module_task
from sottovoce.learning.sites.losses import _bounded

CROSS = nn.functional.cross_entropy


def loss_of(task: Any) -> ModuleLoss:
    assert isinstance(task.loss, ModuleLoss)
    return task.loss


def by_hand(module: nn.Module, criterion: Any, dataset: Any) -> list[torch.Tensor]:
    """The gradients of one site, record by record with plain autograd."""
    rows = []
    for given, target in dataset:
        module.zero_grad()
        criterion(module(given[None]), target[None]).backward()
        rows.append(torch.cat([p.grad.reshape(-1).double() for p in module.parameters() if p.requires_grad]))
    return rows


def summed(rows: list[torch.Tensor], clip: float | None) -> np.ndarray:
    """The clipped sum of gradients."""
    shares = [1.0 if clip is None else min(1.0, clip / float(row.norm())) for row in rows]
    return np.asarray(sum(row * share for row, share in zip(rows, shares, strict=True)))


@cache
def one_by_one() -> tuple[list[list[torch.Tensor]], float]:
    """The gradients of every record of three sites, and the mean loss."""
    sites, losses = images(3), []
    for given, targets in (each.tensors for each in sites):
        losses.append(float(CROSS(cnn()(given), targets).detach()))
    return [by_hand(cnn(), CROSS, site) for site in sites], float(np.mean(losses))


@pytest.mark.parametrize("clip", [None, 0.3, 1e6])
@pytest.mark.parametrize("chunk", [1, 5, 12, 20])
def test_sums_are_those_of_records_one_by_one(chunk: int, clip: float | None) -> None:
    task = module_task(cnn(), CROSS, images(3), shard_size=12, chunk=chunk)
    models = np.tile(loss_of(task).start, (3, 1))
    found = task.loss.clipped_sums(models, task.shards, task.shards.present.astype(float), clip)
    gradients, loss = one_by_one()
    for value, rows in zip(found.values, gradients, strict=True):
        assert np.allclose(value, summed(rows, clip), atol=1e-5)
    assert found.clipped == (1.0 if clip == 0.3 else 0.0)
    assert found.loss == pytest.approx(loss, rel=1e-5)


def test_sums_are_those_of_the_bundled_loss() -> None:
    whole = split(load_data("digits"), 3)
    sites = [
        TensorDataset(torch.as_tensor(whole.features[i, :5]), torch.as_tensor(whole.labels[i, :5]))
        for i in range(3)
    ]
    task = module_task(nn.Linear(64, 10, bias=False).double(), CROSS, sites, shard_size=5)
    models = np.random.default_rng(1).standard_normal((3, 640))
    # torch keeps one row a class, the bundled loss one column a class.
    turned = models.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640)
    weights = whole.present.astype(np.float64)
    weights[:, 5:] = 0
    found = task.loss.clipped_sums(models, task.shards, weights[:, :5], 0.5)
    expected = softmax(64, 10).clipped_sums(turned, whole, weights, 0.5)
    assert np.allclose(
        found.values.reshape(3, 10, 64).transpose(0, 2, 1).reshape(3, 640), expected.values, atol=1e-12
    )
    assert found.clipped == expected.clipped


@pytest.mark.parametrize(
    "module", [cnn(), nn.Sequential(nn.Flatten(), nn.Linear(64, 33), nn.ReLU(), nn.Linear(33, 3))]
)
def test_nobodys_gradient_depends_on_who_else_is_there(module: nn.Module) -> None:
    def rows(count: int) -> list[np.ndarray]:
        """The gradients of all places, where the last records are not there."""
        sites = [TensorDataset(*(part[:count] for part in images(1, 23)[0].tensors))]
        loss = loss_of(module_task(module, CROSS, sites, shard_size=23, chunk=7))
        found, parameters = [], loss.layout.parameters(loss.start, torch.device("cpu"))
        for chunk in loss._chunks(np.column_stack([np.zeros(23), np.arange(23.0)]), 7):
            made = torch.empty(7, loss.dimension, dtype=torch.float64)
            loss._differentiate(parameters, chunk, made)
            found += [row.numpy() for row in made[chunk.there]]
        return found

    whole = rows(23)
    for count in (1, 5, 12, 22):
        fewer = rows(count)
        assert len(fewer) == count
        assert all(map(np.array_equal, fewer, whole))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6, 1e30])
def test_a_record_moves_its_site_by_at_most_the_clip(size: float) -> None:
    def summed(count: int) -> np.ndarray:
        inputs, targets = images(1, 12)[0].tensors
        inputs[-1] *= size
        sites = [TensorDataset(inputs[:count], targets[:count])]
        # Without GroupNorm, which would make nothing of the size.
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        with torch.no_grad():
            module[1].weight.fill_(0.01)
            module[1].bias.fill_(0)
        task = module_task(module, CROSS, sites, shard_size=12, chunk=5)
        weights = np.ones((1, 12))
        models = loss_of(task).start[None]
        return np.asarray(task.loss.clipped_sums(models, task.shards, weights, 0.7).values[0])

    moved = float(np.linalg.norm(summed(12) - summed(11)))
    assert moved <= 0.7
    assert moved > (0.699 if size >= 1 else 0)


class Largest(TorchDispatchMode):  # type: ignore[misc]
    """The most numbers that any tensor made inside holds."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, tuple | list) else [out]:
            if isinstance(each, torch.Tensor):
                self.numbers = max(self.numbers, each.numel())
        return out


def test_no_more_than_a_chunk_of_gradients_exists() -> None:
    most = []
    for count in (10, 40, 160):
        task = module_task(cnn(), CROSS, images(2, count), shard_size=count, chunk=5)
        models = np.tile(loss_of(task).start, (2, 1))
        with Largest() as seen:
            task.loss.clipped_sums(models, task.shards, task.shards.present.astype(float), 1.0)
        most.append(seen.numbers)
    assert most == most[:1] * 3
    assert most[0] < 10 * task.dimension


def test_rows_of_any_floats_are_clipped_as_those_of_other_losses() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((9, 4)) * 10.0 ** np.array(
        [[0], [1], [-3], [200], [308], [-200], [0], [0], [160]]
    )
    rows[6, 1], rows[7, 2] = np.nan, np.inf
    for clip in (1.0, 1e-3, 1e-150, 1e200):
        mine = torch.from_numpy(rows.copy())
        found, expected = _bounded(mine, clip), clipped_rows(rows, clip)
        made = (found.factors[:, None] * mine).numpy()
        assert np.allclose(made, expected.values, rtol=1e-9, atol=0)
        assert int(found.zeroed.sum()) == expected.zeroed == 2
        assert float(found.clipped.double().mean()) == expected.clipped
        with np.errstate(over="ignore"):
            assert (np.abs(made).max(axis=1) <= clip).all()


def test_rows_are_no_longer_than_the_clip_in_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)

    def longest() -> Fraction:
        """The largest square of a row, as a multiple of that of the clip."""
        found = Fraction(0)
        for width in (2, 7, 30, 301):
            rows = torch.from_numpy(rng.standard_normal((40, width)) * 10.0 ** rng.uniform(1, 3, (40, 1)))
            made = _bounded(rows, 0.7).factors[:, None] * rows
            squares = (sum((Fraction(x) ** 2 for x in row), Fraction(0)) for row in made.tolist())
            found = max(found, *squares)
        return found / Fraction(0.7) ** 2

    assert 1 - Fraction(1, 10**8) < longest() <= 1
    monkeypatch.setattr("sottovoce.learning.sites.losses.clip_limit", lambda clip, *_: clip)
    assert longest() > 1


def test_a_record_whose_gradient_is_not_finite_counts_as_zero() -> None:
    def rooted(output: Any, target: Any) -> Any:
        return torch.sqrt(output[:, 0] * target).sum()

    sites = [TensorDataset(torch.ones(2, 3), torch.tensor([1.0, -1.0])) for _ in range(2)]
    task = module_task(frozen(), rooted, sites, shard_size=2)
    models = np.tile(loss_of(task).start, (2, 1))
    found = task.loss.clipped_sums(models, task.shards, np.ones((2, 2)), 0.5)
    assert found.zeroed == 2
    assert np.isfinite(found.values).all()
    assert (np.linalg.norm(found.values, axis=1) <= 0.5).all()
    with pytest.raises(InputError, match="none of the 4 gradients of a round is finite, at any site"):
        task.loss.clipped_sums(np.full_like(models, np.nan), task.shards, np.ones((2, 2)), 0.5)
    # One site alone, or a site without records in the round, stops nobody.
    half = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert task.loss.clipped_sums(models, task.shards, half, 0.5).zeroed == 1
    few = task.loss.clipped_sums(np.full_like(models, np.nan), task.shards, np.array([[0.0, 0], [0, 1]]), 0.5)
    assert few.zeroed == 1
    none = task.loss.clipped_sums(models, task.shards, np.zeros((2, 2)), 0.5)
    assert (none.loss, none.clipped, none.zeroed) == (None, 0.0, 0)
    assert not none.values.any()


def test_what_is_frozen_is_no_part_of_a_model() -> None:
    task = module_task(frozen(), squared, tables(2), shard_size=6)
    assert task.dimension == 5
    rows = np.array([[0.0, k] for k in range(6)])
    with torch.no_grad():
        hidden = frozen()[:2](tables(2)[0].tensors[0]).double().numpy()
    model = np.arange(5.0)
    predicted = np.asarray(task.loss.predictions(model, rows))
    assert np.allclose(predicted, hidden @ model[:4] + model[4], atol=1e-6)


def test_parameters_that_layers_share_are_one() -> None:
    class Tied(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

        def forward(self, rows: Any) -> Any:
            return self.second(torch.tanh(self.first(rows)))

    torch.manual_seed(1)
    module = Tied()
    task = module_task(module, squared, tables(2), shard_size=6)
    assert task.dimension == 9
    found = task.loss.clipped_sums(np.tile(loss_of(task).start, (2, 1)), task.shards, np.ones((2, 6)), None)
    assert np.allclose(found.values[1], summed(by_hand(module, squared, tables(2)[1]), None), atol=1e-5)


def test_losses_are_told_apart_by_module_criterion_and_records() -> None:
    def told(
        change: Any = None, criterion: Any = squared, sites: Any = None, version: str | None = None
    ) -> str:
        module = frozen()
        if change is not None:
            with torch.no_grad():
                change(module)
        task = module_task(module, criterion, sites or tables(2), shard_size=6, version=version)
        return loss_fingerprint(task.loss)

    def head(module: Any) -> None:
        module[2].weight[0, 0] += 1e-6

    def backbone(module: Any) -> None:
        module[0].weight[0, 0] += 1e-6

    def activation(module: Any) -> None:
        module[1] = nn.ReLU()

    def slope(module: Any) -> None:
        module[1] = nn.LeakyReLU(0.3)

    def absolute(output: Any, target: Any) -> Any:
        return (output[:, 0] - target).abs().sum()

    found = [*map(told, (None, head, backbone, activation, slope)), told(criterion=absolute)]
    found += [told(sites=tables(2, seed=2)), told(sites=[*reversed(tables(2))]), told(version="1")]
    assert len(set(found)) == len(found)
    assert told() == found[0]


def test_a_module_is_copied() -> None:
    module = frozen()
    task = module_task(module, squared, tables(2), shard_size=6)
    rows = np.array([[1.0, 2.0]])
    before = np.asarray(task.loss.predictions(loss_of(task).start, rows))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(9.0)
    assert np.array_equal(np.asarray(task.loss.predictions(loss_of(task).start, rows)), before)


def test_a_smoothness_is_for_gradients_that_do_not_jump() -> None:
    with pytest.raises(InputError, match=r"got a module of torch\.float32 \(take module\.double\(\)"):
        module_task(frozen(), squared, tables(2), shard_size=6, smoothness=1.0)
    with pytest.raises(InputError, match="convex=True says something about the gradients only together"):
        module_task(frozen(), squared, tables(2), shard_size=6, convex=True)
    sites = [TensorDataset(*(part.double() for part in each.tensors)) for each in tables(2)]
    task = module_task(frozen().double(), squared, sites, shard_size=6, smoothness=1.0, convex=True)
    assert task.loss.smoothness == 1
    assert task.loss.shape(1.0, whole=False) == "clipped"
