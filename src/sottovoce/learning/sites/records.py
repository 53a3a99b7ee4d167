# SPDX-License-Identifier: Apache-2.0
"""The records of all sites, each in a data set of its owner's: checked once, then fetched a few at a time.

A loader is a claim about how records are sampled. What it says of its data set and the size of its batches is taken;
which records make a batch is decided by the trainer, as privacy is accounted for that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["Records", "read_records"]

# How many records are looked at together when all are checked, and how many of a site are looked at twice.
_BLOCK, _TWICE = 512, 16


class RecordShape(NamedTuple):
    """Shape and type of one record's input and target."""

    input_shape: tuple[int, ...]
    input_type: torch.dtype
    target_shape: tuple[int, ...]
    target_type: torch.dtype

    def __str__(self) -> str:
        """In words."""
        return (
            f"an input of shape {self.input_shape}, {_short(self.input_type)}, and a target of shape "
            f"{self.target_shape}, {_short(self.target_type)}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Records:
    """The data sets of all sites, whose records have one form; `batch_size` is that of their loaders, if they have any.

    `digest` is SHA-256 of all records, site by site.
    """

    sets: tuple[Any, ...]
    counts: tuple[int, ...]
    form: RecordShape
    batch_size: int | None
    digest: str

    def fetch(
        self, site: int, places: Sequence[int] | NDArray[np.int64]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The inputs and targets of some records of a site, stacked."""
        return _fetched(self.sets[site], site, places, self.form)


def read_records(sites: Iterable[object]) -> Records:
    """The records of all sites, each given as a data set or a loader; what cannot be accounted for is refused.

    Every record is looked at once, before anything is sent: one of another shape would stop a run in its midst.
    """
    given = list(sites)
    if not given:
        raise InputError("there must be a data set or a loader for each site; got none")
    opened = [_opened(each, site) for site, each in enumerate(given)]
    sizes = {size for _, size in opened}
    if len(sizes) > 1:
        raise InputError(
            "loaders must have the same batch_size at all sites, as everybody divides by it; got "
            f"{', '.join(str(size) for _, size in opened)} (give all of them the same)"
        )
    sets = tuple(dataset for dataset, _ in opened)
    _check_once(sets)
    counts = tuple(_count(dataset, site) for site, dataset in enumerate(sets))
    form = _form(*_pair(sets[0][0], 0, 0))
    digest = hashlib.sha256(f"{form} {counts}".encode())
    for site, (dataset, count) in enumerate(zip(sets, counts, strict=True)):
        _check_form(_pair(dataset[0], site, 0), form, site, 0)
        _check_same(dataset, site, range(min(count, _TWICE)), form)
        for start in range(0, count, _BLOCK):
            for part in _fetched(dataset, site, range(start, min(count, start + _BLOCK)), form):
                digest.update(_bits(part).numpy().tobytes())
    return Records(sets=sets, counts=counts, form=form, batch_size=sizes.pop(), digest=digest.hexdigest())


def _check_once(sets: Sequence[Any]) -> None:
    """Refuse records that are there twice: what protects one record would count it once."""
    for site, dataset in enumerate(sets):
        first = next(k for k, other in enumerate(sets) if other is dataset)
        if first < site:
            raise InputError(
                f"sites must hold records of their own; site {site} was given the very data set of site {first} "
                "(split it, with torch.utils.data.Subset for example)"
            )
        if isinstance(dataset, Subset) and len(set(dataset.indices)) < len(dataset.indices):
            raise InputError(
                f"a record must be at a site once; the Subset of site {site} names a place twice (name each once)"
            )


def _opened(given: Any, site: int) -> tuple[Any, int | None]:  # noqa: ANN401 - whatever a user gives
    """A site's data set, and the size of its batches if a loader says one."""
    dataset, size = given, None
    if isinstance(given, DataLoader):
        _check_loader(given, site)
        dataset, size = given.dataset, given.batch_size
    if isinstance(dataset, IterableDataset) or not (
        hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    ):
        raise InputError(
            f"site {site} must give a data set whose records have places (__getitem__ and __len__), so that each is "
            f"dealt to batches by its place; got {type(dataset).__name__} (take a torch.utils.data.Dataset)"
        )
    return dataset, size


def _check_loader(loader: Any, site: int) -> None:  # noqa: ANN401 - a loader of records of any kind
    """Refuse a loader that samples, or makes batches, in a way that no account is about."""
    sampler, batches = loader.sampler, loader.batch_sampler
    remedy = "(leave it out: records are dealt to batches by the trainer, in a secret order)"
    if loader.batch_size is None or type(batches) is not BatchSampler:
        raise InputError(
            f"the loader of site {site} makes its batches by {type(batches).__name__}, and privacy is accounted for "
            f"batches of a public size; give it a batch_size {remedy}"
        )
    if type(sampler) not in {RandomSampler, SequentialSampler} or len(sampler) != len(loader.dataset):
        raise InputError(
            f"the loader of site {site} draws records by {type(sampler).__name__}, which may take one of them more "
            f"often than the account says {remedy}"
        )
    if isinstance(sampler, RandomSampler) and sampler.replacement:
        raise InputError(
            f"the loader of site {site} draws with replacement, so that a record may be in a batch twice {remedy}"
        )
    if loader.drop_last:
        raise InputError(f"the loader of site {site} has drop_last=True, and every record is dealt {remedy}")
    if loader.collate_fn is not default_collate:
        raise InputError(
            f"the loader of site {site} has a collate_fn of its own, which might mix records (leave it out, and let "
            "the data set do what it does to each record alone)"
        )


def _count(dataset: Any, site: int) -> int:  # noqa: ANN401
    """How many records a site has."""
    count = len(dataset)
    if count == 0:
        raise InputError(f"every site needs at least one record; site {site} has none (leave it out)")
    return count


def _fetched(
    dataset: Any,  # noqa: ANN401
    site: int,
    places: Sequence[int] | NDArray[np.int64],
    form: RecordShape,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The records of some places, if all of them have one form."""
    if type(dataset) is Subset and type(dataset.dataset) is TensorDataset:
        return _fetched(dataset.dataset, site, [dataset.indices[int(place)] for place in places], form)
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        inputs, targets = dataset[torch.as_tensor(np.asarray(places))]
        return inputs.detach().cpu(), targets.detach().cpu()
    pairs = [_pair(dataset[int(place)], site, int(place)) for place in places]
    for place, pair in zip(places, pairs, strict=True):
        _check_form(pair, form, site, int(place))
    inputs, targets = zip(*pairs, strict=True)
    return torch.stack(inputs), torch.stack(targets)


def _pair(record: Any, site: int, place: int) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ANN401
    """Input and target of a record, as tensors."""
    try:
        given, target = record
        return torch.as_tensor(given).detach().cpu(), torch.as_tensor(target).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"a record must be a pair (input, target) of tensors, arrays or numbers; record {place} of site {site} is "
            f"{_kind(record)} (let the data set return such a pair)"
        ) from None


def _check_form(pair: tuple[torch.Tensor, torch.Tensor], form: RecordShape, site: int, place: int) -> None:
    """Refuse a record of another form than the first of all."""
    if (found := _form(*pair)) != form:
        raise InputError(
            f"all records must have one form; record {place} of site {site} has {found}, and the first one has "
            f"{form} (crop, pad or convert it in the data set)"
        )


def _check_same(dataset: Any, site: int, places: range, form: RecordShape) -> None:  # noqa: ANN401
    """Refuse a data set that makes up its records anew, by coins that may turn out otherwise if one record is away."""
    for one, two in zip(*(_fetched(dataset, site, places, form) for _ in range(2)), strict=True):
        if not torch.equal(_bits(one), _bits(two)):
            raise InputError(
                f"a record must be the same whenever it is asked for, or it would matter to others that it is there; "
                f"the data set of site {site} returns other ones each time (leave out what it does at random)"
            )


def _bits(part: torch.Tensor) -> torch.Tensor:
    """The bytes of numbers, of which NaN is equal to itself."""
    return part.contiguous().reshape(-1).view(torch.uint8)


def _form(given: torch.Tensor, target: torch.Tensor) -> RecordShape:
    """The form of a record."""
    return RecordShape(tuple(given.shape), given.dtype, tuple(target.shape), target.dtype)


def _kind(record: object) -> str:
    """What a record is, in words."""
    if isinstance(record, tuple | list):
        return f"a {type(record).__name__} of {', '.join(type(part).__name__ for part in record)}"
    return f"a {type(record).__name__}"


def _short(kind: torch.dtype) -> str:
    """float32 for torch.float32."""
    return str(kind).removeprefix("torch.")
