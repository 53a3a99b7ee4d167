# SPDX-License-Identifier: Apache-2.0
"""`module_task`: a module and the records of all sites as a task that `train` and `plan` take, checked beforehand."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sottovoce.errors import InputError, at_least, positive
from sottovoce.learning.data import Data
from sottovoce.learning.shards import Shards
from sottovoce.learning.sites.losses import ModuleLoss
from sottovoce.learning.sites.modules import check_module, layout_of
from sottovoce.learning.sites.probes import outputs_of
from sottovoce.learning.sites.records import Records, read_records
from sottovoce.learning.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import nn

__all__ = ["module_task"]

# How many numbers of gradients are held at a time, and how many records at most.
_NUMBERS, _RECORDS = 2**22, 256


def module_task(
    module: nn.Module,
    criterion: Callable[[Any, Any], Any],
    sites: Iterable[Any],
    *,
    shard_size: int | None = None,
    l2: float = 0.0,
    test: Any | None = None,  # noqa: ANN401 - a data set or a loader
    device: str | torch.device = "cpu",
    chunk: int | None = None,
    smoothness: float | None = None,
    convex: bool = False,
    version: str | None = None,
) -> Task:
    """The task of training a module on the records of all sites, one data set or loader each.

    Args:
        module: any `torch.nn.Module`. It is copied; its parameters are public, as every node starts from them. Those
            with `requires_grad=False`, and buffers, stay as they are: they are not trained, clipped, noised or mixed.
        criterion: `criterion(output, target)` for a batch of one, such as `torch.nn.functional.cross_entropy`.
        sites: for each node a `Dataset` of pairs (input, target), or a `DataLoader` of one, whose `batch_size` counts.
        shard_size: a public number that every site divides its sums by, and the most records that a site may have.
        l2: public regularisation ½·l2·|θ|², outside the clip.
        test: records to measure the accuracy on, as a data set or loader.
        device: where gradients are computed.
        chunk: how many records' gradients are held at a time; by default about four million numbers' worth of them.
        smoothness: L, as in `GradientLoss`, of a module in float64; most networks have none that holds everywhere.
        convex: with `smoothness`, that the loss of a record is convex in the parameters.
        version: stands for module and criterion where a run goes on; to be changed whenever they are.

    >>> from torch import nn, rand
    >>> from torch.utils.data import TensorDataset
    >>> sites = [TensorDataset(rand(5, 1, 8, 8), rand(5)) for _ in range(3)]
    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(64, 1), nn.Flatten(0))
    >>> module_task(module, nn.functional.mse_loss, sites, shard_size=5).dimension
    65
    """
    own = _moved(copy.deepcopy(check_module(module)), device)
    layout, records = layout_of(own), read_records(sites)
    size = _size(shard_size, records.counts)
    if smoothness is not None:
        positive(smoothness=smoothness)
        _check_exact(layout.types)
    elif convex:
        raise InputError(
            "convex=True says something about the gradients only together with a smoothness (declare it too)"
        )
    held = None if test is None else _held_out(records, test)
    if chunk is None:
        chunk = _chunk(layout.dimension, min(size, records.batch_size or size))
    at_least(1, chunk=chunk)
    loss = ModuleLoss(
        module=own,
        criterion=criterion,
        layout=layout,
        records=records if held is None else held,
        start=layout.flat(own),
        chunk=int(chunk),
        device=torch.device(device),
        smoothness=smoothness,
        convex=convex,
        told=version,
    )
    outputs = outputs_of(loss)
    return Task(
        name=loss.name,
        loss=loss,
        shards=_places(len(records.counts), size),
        l2=l2,
        test=None if held is None else _classes(held, outputs),
    )


def _moved(module: nn.Module, device: str | torch.device) -> nn.Module:
    """The module on a device, which must be able to sum in float64."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
        return module.to(device)
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"device must be one that PyTorch knows, and that has float64; got {str(device)!r}: {first} (take 'cpu')"
        ) from None


def _size(shard_size: int | None, counts: tuple[int, ...]) -> int:
    """The public shard size: one that only the data tell is not to be divided by, nor one that a site exceeds."""
    most = max(counts)
    if shard_size is None:
        raise InputError(
            "shard_size must be given, a public number that every site divides by and that none exceeds; how many "
            f"records a site has is not public (the most of any site is {most}, if that may be known)"
        )
    at_least(1, shard_size=shard_size)
    if most > shard_size:
        raise InputError(
            f"no site may train on more records than the public shard size; site {counts.index(most)} has {most}, and "
            f"the shard size is {shard_size} (take a larger one, or leave records out beforehand)"
        )
    return int(shard_size)


def _chunk(dimension: int, records: int) -> int:
    """How many records of a round are gone through together: as many as fit, in parts that are alike."""
    most = max(1, min(_NUMBERS // dimension, _RECORDS))
    return -(-records // -(-records // most))


def _check_exact(types: Iterable[torch.dtype]) -> None:
    """Refuse a smoothness of gradients that rounding makes jump."""
    for kind in types:
        if kind != torch.float64:
            raise InputError(
                f"a smoothness holds for gradients that do not jump by rounding; got a module of {kind} (take "
                "module.double(), or declare no smoothness)"
            )


def _places(nodes: int, shard_size: int) -> Shards:
    """The places of all sites as (site, place): what the trainer knows of records, whether there are any or not."""
    features = np.zeros((nodes, shard_size, 2))
    features[:, :, 0] = np.arange(nodes)[:, None]
    features[:, :, 1] = np.arange(shard_size)
    everywhere = np.ones((nodes, shard_size), dtype=np.bool_)
    return Shards(
        features=features, labels=np.zeros((nodes, shard_size)), present=everywhere, nominal=shard_size
    )


def _held_out(records: Records, test: Any) -> Records:  # noqa: ANN401
    """The records with those held out as one site more."""
    more = read_records([test])
    if more.form != records.form:
        raise InputError(
            f"records that are held out must have the form of the others; they have {more.form}, and the others have "
            f"{records.form} (make them alike)"
        )
    return replace(records, sets=(*records.sets, *more.sets), counts=(*records.counts, *more.counts))


def _classes(records: Records, outputs: int) -> Data | None:
    """The records of the last site with their classes; None where targets are none."""
    site, kind = len(records.counts) - 1, records.form.target_type
    if outputs < 2 or records.form.target_shape or kind.is_floating_point or kind.is_complex:
        return None
    places = np.arange(records.counts[site])
    targets = [records.fetch(site, part)[1] for part in np.array_split(places, -(-len(places) // _RECORDS))]
    return Data(
        name="the records that are held out",
        features=np.column_stack([np.full(len(places), site), places]).astype(np.float64),
        labels=torch.cat(targets).numpy().astype(np.int64),
        classes=outputs,
    )
