# SPDX-License-Identifier: Apache-2.0
"""Small modules and data sets that the tests of sites share."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

__all__ = ["cnn", "frozen", "images", "squared", "tables"]


def cnn(channels: int = 2) -> nn.Sequential:
    """A small network on 8 × 8 images, the same each time."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.GroupNorm(1, channels),
        nn.Flatten(),
        nn.Linear(16 * channels, 3),
    )


def frozen() -> nn.Sequential:
    """A backbone that is frozen, and a head that is not."""
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    module[0].requires_grad_(False)
    return module


def squared(output: Any, target: Any) -> Any:
    return ((output[:, 0] - target) ** 2).sum() / 2


def images(sites: int, count: int = 12, seed: int = 1) -> list[TensorDataset]:
    """Images of three classes at each site."""
    made = torch.Generator().manual_seed(seed)
    return [
        TensorDataset(
            torch.randn(count, 1, 8, 8, generator=made), torch.randint(0, 3, (count,), generator=made)
        )
        for _ in range(sites)
    ]


def tables(sites: int, count: int = 6, seed: int = 1) -> list[TensorDataset]:
    """Rows of three numbers and a target at each site."""
    made = torch.Generator().manual_seed(seed)
    return [
        TensorDataset(torch.randn(count, 3, generator=made), torch.randn(count, generator=made))
        for _ in range(sites)
    ]
