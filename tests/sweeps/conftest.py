"""A small network with names, all its pairs as `account_all` knows them, and sweeps of it."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from sottovoce import graphs
from sottovoce.accounting import AccountTable, account_all
from sottovoce.protocols import Protocol, gossip
from sottovoce.sweeps import read_sweep, sweep


@pytest.fixture(scope="session")
def protocol() -> Protocol:
    return gossip(graphs.metropolis_weights("florentine"), rounds=5)


@pytest.fixture(scope="session")
def table(protocol: Protocol) -> AccountTable:
    return account_all(protocol, "secure-sum", noise_multiplier=3.0, delta=1e-5)


class Pairs:
    """Compares the pairs in a folder with those of a table, to the last bit."""

    def __init__(self, table: AccountTable) -> None:
        self.table = table

    def __eq__(self, folder: object) -> bool:
        assert isinstance(folder, Path)
        found, table = read_sweep(folder).to_arrow(), self.table
        columns = {
            "observer": table.observer_of,
            "target": table.target_indices,
            "squared_lower": table.squared_lower,
            "squared_upper": table.squared_upper,
            "method": table.method,
        }
        assert found.column_names == list(columns)
        return all(np.array_equal(found[name].to_numpy(), column) for name, column in columns.items())

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture(scope="session")
def pairs(table: AccountTable) -> Pairs:
    return Pairs(table)


@pytest.fixture(scope="session")
def swept(protocol: Protocol, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Path], None]:
    """Puts all pairs, computed once in tiles of a size, into a folder, as a sweep that ended there leaves it."""

    @cache
    def made(tile: int) -> Path:
        return sweep(protocol, "secure-sum", tmp_path_factory.mktemp("swept"), tile=tile).folder

    def put(tile: int, folder: Path) -> None:
        shutil.copytree(made(tile), folder, dirs_exist_ok=True)

    return put
