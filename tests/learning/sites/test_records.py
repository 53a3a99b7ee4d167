# SPDX-License-Identifier: Apache-2.0
"""Data sets and loaders: what is taken from them, and what nothing could be accounted for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.learning.sites.samples import images, tables
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from sottovoce.errors import InputError
from sottovoce.learning.sites.records import read_records

SITE = images(1)[0]


class Rows(Dataset):  # type: ignore[misc]
    """Records as a list."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, place: int) -> Any:
        return self.records[place]


class Noisy(Rows):
    """Records that are another each time."""

    def __getitem__(self, place: int) -> Any:
        given, target = super().__getitem__(place)
        return given + torch.rand(()), target


class Stream(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Any:
        return iter(SITE)


class Own(BatchSampler):  # type: ignore[misc]
    """Batches by some rule of one's own."""


def test_a_loader_gives_its_data_set_and_the_size_of_its_batches() -> None:
    loaders = [DataLoader(site, batch_size=4, shuffle=True) for site in images(3)]
    found = read_records(loaders)
    assert (found.batch_size, found.counts) == (4, (12, 12, 12))
    assert (found.form.input_shape, found.form.input_type) == ((1, 8, 8), torch.float32)
    assert (found.form.target_shape, found.form.target_type) == ((), torch.int64)
    plain = read_records(images(3))
    assert plain.batch_size is None
    assert plain.digest == found.digest != read_records(images(3, seed=2)).digest
    inputs, targets = found.fetch(1, np.array([3, 0]))
    assert torch.equal(inputs, images(3)[1].tensors[0][[3, 0]])
    assert torch.equal(targets, images(3)[1].tensors[1][[3, 0]])


def test_records_of_any_data_set_are_read_alike() -> None:
    rows = Rows([(given.numpy(), int(target)) for given, target in SITE])
    part = Subset(SITE, range(12))
    assert read_records([rows]).digest == read_records([part]).digest == read_records([SITE]).digest
    assert torch.equal(read_records([rows]).fetch(0, [5])[0], SITE.tensors[0][[5]])


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (
            DataLoader(SITE, sampler=WeightedRandomSampler([1.0] * 12, 12)),
            "draws records by WeightedRandomSampler",
        ),
        (DataLoader(SITE, sampler=SubsetRandomSampler(range(5))), "draws records by SubsetRandomSampler"),
        (
            DataLoader(SITE, sampler=RandomSampler(SITE, num_samples=24)),
            "RandomSampler, which may take one",
        ),
        (DataLoader(SITE, sampler=RandomSampler(SITE, replacement=True)), "draws with replacement"),
        (DataLoader(SITE, batch_sampler=Own(SequentialSampler(SITE), 2, False)), "makes its batches by Own"),
        (DataLoader(SITE, batch_size=None), "makes its batches by NoneType"),
        (DataLoader(SITE, batch_size=5, drop_last=True), "has drop_last=True, and every record is dealt"),
        (DataLoader(SITE, collate_fn=lambda batch: batch), "collate_fn of its own, which might mix records"),
        (DataLoader(Stream(), batch_size=2), "draws records by _InfiniteConstantSampler"),
        (Stream(), r"must give a data set whose records have places .*got Stream"),
        (3, "must give a data set whose records have places .*got int"),
    ],
)
def test_what_no_account_is_about_is_refused(loader: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"site 1 .*{words}"):
        read_records([SITE, loader])


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        ([], "there must be a data set or a loader for each site; got none"),
        ([SITE, Rows([])], "every site needs at least one record; site 1 has none"),
        (
            [DataLoader(SITE, batch_size=4), DataLoader(SITE, batch_size=5)],
            r"same batch_size at all sites.*got 4, 5",
        ),
        ([DataLoader(SITE, batch_size=4), SITE], "got 4, None"),
        (
            [SITE, images(1, 3)[0], tables(1)[0]],
            r"record 0 of site 2 has an input of shape \(3,\), float32, and a target of shape \(\), float32, and the "
            r"first one has an input of shape \(1, 8, 8\), float32, and a target of shape \(\), int64",
        ),
        (
            [Rows([(torch.ones(2), 1), (torch.ones(3), 1)])],
            r"record 1 of site 0 has an input of shape \(3,\)",
        ),
        ([Rows([(torch.ones(2), 1), (torch.ones(2).double(), 1)])], r"record 1 of site 0 .*float64"),
        (
            [SITE, Noisy(list(SITE))],
            "must be the same whenever it is asked for, .*the data set of site 1 returns other ones each time",
        ),
        ([Rows([torch.ones(())])], "record 0 of site 0 is a Tensor"),
        ([Rows([("text", 1)])], "record 0 of site 0 is a tuple of str, int"),
        ([TensorDataset(torch.ones(2, 3))], "record 0 of site 0 is a tuple of Tensor"),
    ],
)
def test_records_that_do_not_fit_are_named(sites: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_records(sites)


def test_a_record_that_is_there_twice_is_refused() -> None:
    """What protects one record would count such a one once."""
    with pytest.raises(InputError, match="the Subset of site 1 names a place twice"):
        read_records([images(2)[0], Subset(SITE, [0, 0, 1])])
    with pytest.raises(InputError, match="site 1 was given the very data set of site 0"):
        read_records([DataLoader(SITE, batch_size=4), DataLoader(SITE, batch_size=4)])
