# SPDX-License-Identifier: Apache-2.0
"""What does not fit together is said before the first round, in words and with the layer it was in."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.learning.sites.samples import cnn, images, squared, tables
from torch import nn
from torch.utils.data import TensorDataset

from sottovoce.errors import InputError
from sottovoce.learning.sites import module_task

CROSS = nn.functional.cross_entropy


class Counting(nn.Module):  # type: ignore[misc]
    """Counts how often it was run, and keeps that."""

    def __init__(self, *, detached: bool) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)
        self.detached = detached
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, rows: Any) -> Any:
        if self.detached:
            self.seen = torch.ones(1)
        else:
            self.seen += 1
        return self.head(rows)


class Branching(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, rows: Any) -> Any:
        return self.head(rows) if float(rows.sum()) > 0 else -self.head(rows)


@pytest.mark.parametrize(
    ("module", "criterion", "sites", "words"),
    [
        (
            cnn().double(),
            CROSS,
            images(2),
            r"inputs must be of the module's own type, float64; got float32 \(convert them in the data set, as by "
            r"\.to\(torch\.float64\)",
        ),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(60, 3)),
            CROSS,
            images(2),
            r"layer '1' \(Linear\) does not take a record of this form, a batch of one of shape \(1, 1, 8, 8\): mat1",
        ),
        (
            cnn(),
            CROSS,
            [TensorDataset(each.tensors[0], each.tensors[1] + 7) for each in images(2)],
            r"the criterion does not take an output of shape \(1, 3\), torch\.float32, with a target of shape \(1,\), "
            r"torch\.int64: Target \d+ is out of bounds",
        ),
        (
            cnn(),
            lambda output, _: nn.functional.mse_loss(output, 0 * output, reduction="none"),
            images(2),
            r"must return one number for a batch of one record; got shape \(1, 3\)",
        ),
        (cnn(), lambda *_: 1.0, images(2), "must return one number .*got a float"),
        (
            nn.LSTM(3, 2, batch_first=True),
            CROSS,
            tables(2),
            r"must return one tensor; got a tuple|does not take",
        ),
        (Counting(detached=False), squared, tables(2), "Counting has no gradients of single records: "),
        (
            Branching(),
            squared,
            tables(2),
            "Branching has no gradients of single records: vmap: It looks like",
        ),
        (
            nn.Sequential(nn.Linear(3, 1), nn.Flatten(), nn.RReLU()),
            squared,
            tables(2),
            r"layer '2' \(RReLU\) has no gradients of single records",
        ),
        (
            nn.Linear(3, 1),
            lambda output, _: output.sum() * float("nan"),
            tables(2),
            "the loss of the first record of every site is nan with the parameters that the module has",
        ),
    ],
)
def test_what_does_not_fit_is_named(module: Any, criterion: Any, sites: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        module_task(module, criterion, sites, shard_size=12)


def test_a_buffer_that_changes_is_named() -> None:
    module = nn.Sequential(Counting(detached=True))
    with pytest.raises(InputError, match=r"layer '0' cannot be .*it changes its buffer 'seen' as it runs"):
        module_task(module, squared, tables(2), shard_size=6)


def test_hooks_are_taken_away_again() -> None:
    task = module_task(cnn(), CROSS, images(2), shard_size=12)
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in task.loss.module.modules())  # type: ignore[attr-defined]
