# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network, trained over sites that keep their images: four on a ring, and eight hospitals.

Run it: python examples/torch_sites.py [rounds]   (needs the extras torch and learn)
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from sottovoce.interval import rounded_up
from sottovoce.learning.sites import train_module


def network() -> nn.Module:
    """Two convolutions and a linear layer; the parameters that it starts from are public."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1))
    return nn.Sequential(*layers, nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))


def main(rounds: int = 60) -> None:
    """Train at the same ε on a ring, where a network of which nothing is known hides nobody, and where sums hide."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    data = TensorDataset(images, torch.tensor(digits.target))
    for graph, sites in (("ring:n=4", 4), ("complete:n=8", 8)):
        share = 1440 // sites
        parts = random_split(data, [share] * sites + [len(data) - share * sites])
        run = train_module(
            network(),
            nn.functional.cross_entropy,
            [DataLoader(part, batch_size=share // 4) for part in parts[:-1]],
            graph,
            rounds=rounds,
            shard_size=share,
            view="secure-sum",
            target_epsilon=8.0,
            target_delta=1e-5,
            step=2.0,
            test=parts[-1],
        )
        print(
            f"{graph}: accuracy {run.run.accuracy:.1%}, noise multiplier {run.run.noise_multiplier:.2f}, "
            f"ε ≤ {rounded_up(run.epsilon.upper)} assuming {run.account.assumption}, "
            f"ε ≤ {rounded_up(run.unconditional.epsilon().upper)} whoever sees whatever"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
