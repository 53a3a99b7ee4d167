# SPDX-License-Identifier: Apache-2.0
"""`Peer`: a node in Python, which trains a PyTorch module with the others on records of its own.

The account is that of `train_module`: the same clip, the same noise, the same rounds; of the module nothing is known
but how many parameters it has. It needs the extras `peers` and `torch`, the latter for `train` alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import InputError
from sottovoce.peers.contributing import Local
from sottovoce.peers.local import own_identity, run_linked, spent_beside
from sottovoce.peers.network import Network, TaskFacts, read_network
from sottovoce.peers.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch
    from torch import nn

    from sottovoce.peers.outcomes import Outcome, Whereabouts
    from sottovoce.peers.policy import Policy

__all__ = ["Peer", "Trained", "module_facts"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """What a node has in the end: a module with the parameters it came to, and how the run ended for it."""

    module: nn.Module
    outcome: Outcome


def module_facts(module: nn.Module, *, shard_size: int, step: str, l2: float = 0.0) -> TaskFacts:
    """The task of training a module, for `network.toml`: how large it is, and a digest of what it starts from.

    The start is public, and the same at all nodes: who has another one is refused before it has sent anything.
    """
    from sottovoce.learning.sites import check_module, layout_of

    layout = layout_of(check_module(module))
    return TaskFacts(
        loss="module",
        features=layout.dimension,
        shard_size=shard_size,
        l2=l2,
        step=step,
        start=_digest(str(layout), layout.flat(module)),
    )


@dataclass(frozen=True)
class Peer:
    """A node of a network on this machine, with what it finds beside `network.toml` unless it is told otherwise."""

    network: Path
    me: str
    _: KW_ONLY
    keys: Path | None = None
    folder: Path | None = None
    policy: Policy | None = None
    spent: Path | None = None
    listen: str | None = None

    def train(
        self,
        module: nn.Module,
        loader: Any,  # noqa: ANN401 - a data set, or a loader of one
        criterion: Callable[[Any, Any], Any],
        *,
        device: str | torch.device = "cpu",
        chunk: int | None = None,
        progress: Callable[[Whereabouts], None] | None = None,
    ) -> Trained:
        """Train a module on this node's records, together with the others; started again, it goes on.

        Guarantee: what others know of the node is what `known_after` says of the network, given that nodes follow it:
        no record, or no node, moves what is sent by more than the clip, and noise is that of the network.
        """
        agreed, folder = read_network(self.network), self.network.parent
        keys = self.keys or folder / f"{self.me}.keys"
        identity = own_identity(agreed, self.me, keys)
        own, fill = _own(agreed, module, loader, criterion, device=device, chunk=chunk)
        site = Site(
            identity=identity,
            contributor=own,
            folder=self.folder or folder / f"{self.me}.run",
            policy=self.policy,
            spent=self.spent or spent_beside(keys),
        )
        outcome = run_linked(agreed, site, listen=self.listen, progress=progress)
        return Trained(module=fill(outcome.model), outcome=outcome)


def _own(
    agreed: Network,
    module: nn.Module,
    loader: Any,  # noqa: ANN401
    criterion: Callable[[Any, Any], Any],
    *,
    device: str | torch.device,
    chunk: int | None,
) -> tuple[Local, Callable[[Any], nn.Module]]:
    """What a node contributes, and how its model becomes a module again."""
    from sottovoce.learning.sites import filled, layout_of, module_task

    problem = agreed.settings.task
    task = module_task(
        module,
        criterion,
        [loader],
        shard_size=problem.shard_size,
        l2=problem.l2,
        device=device,
        chunk=chunk,
    )
    layout, start = layout_of(module), np.asarray(task.loss.start)
    if problem.loss != "module" or problem.start != _digest(str(layout), start):
        raise InputError(
            f"the module must be the one that the network agreed on, with the parameters that all start from; it has "
            f"{layout.dimension} parameters with the digest {_digest(str(layout), start)} (make it as the others do, "
            "from the same seed or file, or agree on module_facts(module, …) of this one)"
        )
    return Local(agreed, task), lambda model: filled(module, layout, model + start)


def _digest(layout: str, start: Any) -> str:  # noqa: ANN401
    """What names a module as it starts: parameters by name, shape and type, and their values."""
    values = np.ascontiguousarray(start, dtype="<f8").tobytes()
    return hashlib.sha256(b"sottovoce module 1\n" + layout.encode() + b"\n" + values).hexdigest()
