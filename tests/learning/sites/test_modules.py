# SPDX-License-Identifier: Apache-2.0
"""Which modules are refused, by layer and remedy, and where their parameters stand in a vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.sites.samples import cnn, frozen
from torch import nn

from sottovoce.errors import InputError
from sottovoce.learning.sites import check_module
from sottovoce.learning.sites.modules import filled, layout_of, state_of


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            nn.Sequential(nn.Conv2d(1, 48, 3), nn.BatchNorm2d(48)),
            r"layer '1' \(BatchNorm2d\) cannot be trained record by record: .*put torch\.nn\.GroupNorm\(16, 48\)",
        ),
        (
            nn.ModuleDict({"deep": nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7))}),
            r"layer 'deep\.1' \(BatchNorm1d\) .*GroupNorm\(1, 7\) in its place; or call eval\(\) on it",
        ),
        (
            nn.BatchNorm1d(4, track_running_stats=False).eval(),
            r"^BatchNorm1d cannot be trained record by record",
        ),
        (
            nn.Sequential(nn.InstanceNorm2d(4, track_running_stats=True)),
            r"layer '0' \(InstanceNorm2d\) .*keeps running statistics.*track_running_stats=False",
        ),
        (
            nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.25)),
            r"layer '1' \(Dropout\) .*drops 0\.25 of its inputs.*p=0",
        ),
        (nn.LazyLinear(3), r"'weight' has none yet \(run the module on one record first\)"),
        (torch.tanh, "module must be a torch.nn.Module; got builtin_function_or_method"),
    ],
)
def test_what_has_no_gradients_of_single_records_is_refused(module: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_module(module)


@pytest.mark.parametrize(
    "module",
    [
        cnn(),
        nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7)).eval(),
        nn.Sequential(nn.InstanceNorm2d(4, affine=True), nn.LayerNorm(4), nn.Dropout(0)),
    ],
)
def test_what_goes_through_records_one_by_one_is_let_through(module: nn.Module) -> None:
    assert check_module(module) is module


def test_a_module_without_anything_to_train_is_refused() -> None:
    with pytest.raises(InputError, match="none of Linear requires a gradient"):
        layout_of(nn.Linear(3, 1).requires_grad_(False))
    with pytest.raises(InputError, match=r"'weight' of Linear is of torch\.complex64"):
        layout_of(nn.Linear(3, 1, dtype=torch.complex64))


def test_a_vector_goes_into_a_module_and_back() -> None:
    module = frozen()
    module.register_buffer("scale", torch.tensor([2.0]))
    layout = layout_of(module)
    assert (layout.names, layout.dimension) == (("2.weight", "2.bias"), 5)
    flat = np.arange(5.0)
    made = filled(module, layout, flat)
    assert np.array_equal(layout.flat(made), flat)
    assert torch.equal(made[0].weight, module[0].weight)
    assert not made[0].weight.requires_grad
    assert float(made.scale) == 2
    assert not np.array_equal(layout.flat(module), flat)


def test_a_shared_parameter_is_in_the_state_under_all_of_its_names() -> None:
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    state = state_of(module, layout_of(module), np.arange(4.0))
    assert list(state) == ["0.weight", "1.weight"]
    assert torch.equal(state["0.weight"], state["1.weight"])
    assert state["1.weight"].tolist() == [[0, 1], [2, 3]]
