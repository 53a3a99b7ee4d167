# SPDX-License-Identifier: Apache-2.0
"""`ModuleLoss`: gradients of single records of a PyTorch module, a few at a time, clipped and summed.

A record is known to the rest of the trainer by (site, place) alone, so it never leaves its data set but for the few
moments in which its gradient is computed. Gradients are taken in the type of the module, float32 as a rule. Models,
norms, sums, noise and messages are float64: a sum of float32 rounds by what others are in it, and a record would move
it by more than its clip.

Chunks are made of places, as many at every site as the public shard size. One that no record has is gone through as
zeros and counts as nothing. So chunks have the same shapes, and everybody the same row in them, whoever else is there:
nobody's gradient is rounded in another way because of somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from sottovoce.errors import InputError
from sottovoce.learning.clipping import Sums
from sottovoce.learning.fingerprints import fingerprint
from sottovoce.learning.losses import Reacting
from sottovoce.learning.rounding import clip_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from sottovoce.learning.losses import Labels
    from sottovoce.learning.shards import Shards
    from sottovoce.learning.sites.modules import Layout
    from sottovoce.learning.sites.records import Records
    from sottovoce.protocols import Losses

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["ModuleLoss"]

# Below such a clip the square of a norm may vanish.
_SMALL = 1e-100
# How many records are gone through together where no gradient is taken.
_FORWARD = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleLoss(Reacting):
    """The loss `criterion(module(input), target)` of each record, both for a batch of one, on flattened parameters.

    `chunk` records are gone through together, `start` is the module's parameters, with which every node begins.
    `records` holds the sites' own, and those that are held out as one site more, if there are any. `smoothness` and
    `convex` are taken on trust, as in `GradientLoss`; `told` stands for module and criterion, where it is given.
    """

    module: nn.Module
    criterion: Callable[[Any, Any], Any]
    layout: Layout
    records: Records
    start: Array
    chunk: int
    device: torch.device
    smoothness: float | None = None
    convex: bool = False
    told: str | None = None

    @property
    def name(self) -> str:
        """The class of the module."""
        return type(self.module).__name__

    @property
    def dimension(self) -> int:
        """How many parameters are trained."""
        return self.layout.dimension

    @cached_property
    def version(self) -> str:
        """What tells this loss from others: its module and criterion, all records, and the library that rounds."""
        own = self.told or fingerprint((self.module, self.criterion))
        return f"{own} {self.records.digest} torch {torch.__version__} {self.device}"

    def shape(self, clip: float, *, whole: bool) -> Losses:  # noqa: ARG002 - any clip may act
        """As declared; of gradients that are convex but of unknown length the clip acts on vectors."""
        return "clipped" if self.convex else "smooth"

    def clipped_sums(self, models: Array, shards: Shards, weights: Array, clip: float | None) -> Sums:
        """Each site's gradients, clipped record by record and summed; no more than a chunk of them exists at a time.

        Guarantee: a record moves the sum of its site by at most `clip`, the rounding of the sum included, however many
        parameters there are; one whose gradient is not finite counts as zero.
        Source: docs/proofs/clips.md.
        """
        sums = np.zeros_like(models)
        rows = torch.empty(self.chunk, self.dimension, dtype=torch.float64, device=self.device)
        records, zeroed = np.zeros((2, len(models)), dtype=np.int64)
        clipped, loss = 0, 0.0
        for i, model in enumerate(models):
            places = np.flatnonzero(weights[i])
            parameters = self.layout.parameters(model, self.device)
            total = torch.zeros(self.dimension, dtype=torch.float64, device=self.device)
            for chunk in self._chunks(shards.features[i, places], self.chunk):
                values = self._differentiate(parameters, chunk, rows)
                rows[~chunk.there] = 0
                bounded = _bounded(rows, clip, shards.nominal)
                counted = np.zeros(self.chunk)
                counted[: len(places[chunk.part])] = weights[i, places[chunk.part]]
                total.addmv_(rows.T, torch.from_numpy(counted).to(self.device) * bounded.factors)
                clipped += int(bounded.clipped.sum())
                zeroed[i] += int(bounded.zeroed.sum())
                loss += float(values[chunk.there].double().nansum())
                records[i] += int(chunk.there.sum())
            sums[i] = total.cpu().numpy()
        # No record alone can bring that about, unless there is one site alone.
        if (records > 0).all() and (zeroed == records).all():
            raise InputError(
                f"none of the {records.sum()} gradients of a round is finite, at any site (take a smaller step, or "
                "mend the criterion)"
            )
        total_records = int(records.sum())
        if total_records == 0:
            return Sums(sums, 0.0, 0)
        return Sums(sums, clipped / total_records, int(zeroed.sum()), loss / total_records)

    def values(self, model: Array, features: Array, labels: Labels) -> Array:  # noqa: ARG002 - targets lie with inputs
        """The loss of each record that `features` names; 0 for a place that no record has."""
        one, parameters = vmap(self.one, in_dims=(None, 0, 0)), self.layout.parameters(model, self.device)
        found = np.zeros(len(features))
        with torch.no_grad():
            for chunk in self._chunks(features, _FORWARD):
                values = torch.where(chunk.there, one(parameters, chunk.inputs, chunk.targets), 0)
                found[chunk.part] = values.double().cpu().numpy()[: len(found[chunk.part])]
        return found

    def predictions(self, model: Array, features: Array) -> Labels | None:
        """The class with the largest output for each record that `features` names, or its only output."""
        parameters = self.layout.parameters(model, self.device)
        output = vmap(lambda given: functional_call(self.module, parameters, (given[None],)).reshape(-1))
        with torch.no_grad():
            found = torch.cat(
                [
                    output(chunk.inputs)[: len(features[chunk.part])].double().cpu()
                    for chunk in self._chunks(features, _FORWARD)
                ]
            ).numpy()
        return np.asarray(found.argmax(axis=1) if found.shape[1] > 1 else found[:, 0])

    def one(
        self, parameters: dict[str, torch.Tensor], given: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        """The loss of one record, as a batch of one."""
        return self.criterion(functional_call(self.module, parameters, (given[None],)), target[None]).reshape(
            ()
        )

    def _differentiate(
        self, parameters: dict[str, torch.Tensor], chunk: _Chunk, rows: torch.Tensor
    ) -> torch.Tensor:
        """Write the gradient of each record into a row; what is returned is their losses."""
        each = vmap(grad_and_value(self.one), in_dims=(None, 0, 0))
        gradients, values = each(parameters, chunk.inputs, chunk.targets)
        columns = rows.split(self.layout.sizes, dim=1)
        for name, column in zip(self.layout.names, columns, strict=True):
            column.copy_(gradients.pop(name).flatten(1))
        return values.detach()

    def _chunks(self, features: Array, size: int) -> Iterator[_Chunk]:
        """The records that `features` names, site by site, in chunks of one size; what is not there is zeros."""
        form = self.records.form
        for part in _stretches(features[:, 0], size):
            site, places = int(features[part.start, 0]), features[part, 1].astype(np.int64)
            there = np.zeros(size, dtype=np.bool_)
            there[: len(places)] = places < self.records.counts[site]
            inputs = torch.zeros(size, *form.input_shape, dtype=form.input_type)
            targets = torch.zeros(size, *form.target_shape, dtype=form.target_type)
            if there.any():
                inputs[there], targets[there] = self.records.fetch(site, places[there[: len(places)]])
            yield _Chunk(part, *(x.to(self.device) for x in (inputs, targets, torch.from_numpy(there))))


class _Chunk(NamedTuple):
    """Some records, which of them are there, and which part they are of those that were asked for."""

    part: slice
    inputs: torch.Tensor
    targets: torch.Tensor
    there: torch.Tensor


def _stretches(sites: Array, size: int) -> Iterator[slice]:
    """Stretches of at most `size` records, none of which goes over from one site to another."""
    start = 0
    for end in [*(np.flatnonzero(np.diff(sites)) + 1).tolist(), len(sites)]:
        for first in range(start, end, size):
            yield slice(first, min(first + size, end))
        start = end


class _Bounded(NamedTuple):
    """The factor that clips each row; which rows were clipped, and which were not finite."""

    factors: torch.Tensor
    clipped: torch.Tensor
    zeroed: torch.Tensor


def _bounded(rows: torch.Tensor, clip: float | None, records: int = 1) -> _Bounded:
    """What to multiply each row with, so that it is no longer than `clip`; rows that are not finite become zeros.

    A row whose square overflows is divided by its largest entry first, in place. So many `records` are summed at most.

    Guarantee: |factor·row| ≤ clip, rounding included, whatever float64 numbers the rows hold.
    Source: docs/proofs/clips.md, "One row".
    """
    norms = torch.linalg.vector_norm(rows, dim=1)
    zeroed = torch.zeros_like(norms, dtype=torch.bool)
    limit = float("inf") if clip is None else clip_limit(clip, rows.shape[1], records)
    factors = torch.ones_like(norms) if clip is None else limit / norms.clamp(min=limit)
    clipped = norms > (float("inf") if clip is None else clip)
    wild = ~torch.isfinite(norms) if clip is None or clip > _SMALL else torch.ones_like(zeroed)
    for k in wild.nonzero()[:, 0].tolist():
        peak = float(rows[k].abs().max())
        if 0 < peak < float("inf"):
            rows[k] /= peak
        span = float(torch.linalg.vector_norm(rows[k]))
        zeroed[k] = not peak * span < float("inf") if clip is None else not peak < float("inf")
        clipped[k] = clip is not None and peak * span > clip
        factors[k] = peak if peak * span <= limit else limit / span
        if zeroed[k]:
            rows[k] = factors[k] = 0
    return _Bounded(factors, clipped & ~zeroed, zeroed)
