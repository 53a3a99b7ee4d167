# SPDX-License-Identifier: Apache-2.0
"""Four sites, each with its own keys, images and encrypted links, train one convolutional network together.

Here they are threads of one process; on machines of their own, each runs `site` alone.

Run it: python examples/torch_peers.py [rounds]   (needs the extras peers, torch and learn)
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

import itertools
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sottovoce.interval import rounded_up
from sottovoce.peers import Peer, create_identity, module_facts, write_identity
from sottovoce.peers.local import free_ports

SITES, SHARE = 4, 320


def model() -> nn.Module:
    """Two convolutions and a linear layer; the parameters that it starts from are public."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1))
    return nn.Sequential(*layers, nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10))


# In threads there is one seed for all; on a machine of its own each site makes the same start, or reads it from a file.
START = model()


def images(site: int) -> TensorDataset:
    """The images of one site; those of a site more are held out."""
    digits, mine = load_digits(), slice(site * SHARE, (site + 1) * SHARE)
    return TensorDataset(
        torch.tensor(digits.images[mine], dtype=torch.float32)[:, None] / 16,
        torch.tensor(digits.target[mine]),
    )


def site(network: Path, k: int) -> str:
    """All that a site does: its own loader, and the others are at the other end of the links."""
    loader = DataLoader(images(k), batch_size=SHARE)
    trained = Peer(network, f"site-{k}").train(START, loader, nn.functional.cross_entropy)
    inputs, targets = images(SITES)[:]
    right = (trained.module(inputs).argmax(1) == targets).float().mean()
    end = trained.outcome
    return (
        f"site-{k}: {end.reason} after {end.rounds} rounds, accuracy {right:.0%}, ε ≤ {rounded_up(end.epsilon)} "
        "for whoever reads every message"
    )


def agreed(folder: Path, rounds: int) -> Path:
    """Keys for every site, and the network that they agree on."""
    ports = free_ports(SITES)
    sites = [create_identity(f"site-{k}", f"127.0.0.1:{port}") for k, port in enumerate(ports)]
    for each in sites:
        write_identity(each, folder)
    task = module_facts(START, shard_size=SHARE, step="2.0")
    edges = ", ".join(f'["{one.name}", "{two.name}"]' for one, two in itertools.combinations(sites, 2))
    said = f'loss = "module", features = {task.features}, shard_size = {SHARE}, l2 = 0.0, step = "2.0"'
    said += f', start = "{task.start}"'
    text = f"""name = "digits"
rounds = {rounds}
noise_multiplier = 8.0
unit = "record"
sums = "masked"
weights = "uniform"
edges = [{edges}]
task = {{ {said} }}
"""
    path = folder / "network.toml"
    path.write_text(text + "".join("\n" + each.public_text for each in sites))
    return path


def main(rounds: int = 30) -> None:
    """Start all sites and wait for them."""
    with tempfile.TemporaryDirectory() as folder:
        network = agreed(Path(folder), rounds)
        with ThreadPoolExecutor(SITES) as sites:
            print("\n".join(sites.map(site, [network] * SITES, range(SITES))))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
