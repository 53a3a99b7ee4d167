"""`summarise`: what an `AccountTable` of all pairs says, from the parts."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow.parquet as pq
import pytest

from sottovoce import graphs
from sottovoce.accounting import AccountTable, Relation, account_all, central_account, local_account
from sottovoce.errors import FileError, InputError
from sottovoce.protocols import Protocol, gossip
from sottovoce.sweeps import Summary, reading, summarise, sweep


def assert_same(found: Summary, table: AccountTable) -> None:
    assert found.worst == table.worst()
    assert found.median == table.median()
    assert found.best == table.best()
    assert list(found.most_exposed) == [account for _, account in table.most_exposed(10)]
    # The last bit of an ε may depend on the array that it is computed in.
    assert found.epsilon_upper == pytest.approx(table.epsilon_upper.max(), rel=1e-14)
    assert found.epsilon_upper >= found.worst.epsilon().upper
    assert len(found) == len(table)


@pytest.mark.parametrize("relation", get_args(Relation))
@pytest.mark.parametrize(("source", "tile"), [("florentine", 4), ("ring:n=7", 1), ("star:n=6", 6)])
def test_it_names_the_pairs_of_a_table(
    source: str, tile: int, relation: Relation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BATCH_ROWS", 10)
    protocol = gossip(graphs.metropolis_weights(source), rounds=3)
    settings: dict[str, Any] = {"noise_multiplier": 2.5, "delta": 1e-6}
    table = account_all(protocol, "secure-sum", relation=relation, **settings)
    sweep(protocol, "secure-sum", tmp_path, tile=tile)
    found = summarise(tmp_path, relation=relation, **settings)
    assert_same(found, table)
    assert found.local == local_account(protocol, relation=relation, **settings)
    assert found.central == central_account(protocol, relation=relation, **settings)


def test_participation_and_contribution_are_in_the_accounts(protocol: Protocol, tmp_path: Path) -> None:
    table = account_all(
        protocol,
        "single-node",
        noise_multiplier=1.0,
        delta=1e-5,
        own_noise="hidden",
        contribution="scalar",
        participation="every:2",
    )
    sweep(
        protocol, "single-node", tmp_path, own_noise="hidden", contribution="scalar", participation="every:2"
    )
    found = summarise(tmp_path, noise_multiplier=1.0, delta=1e-5)
    assert_same(found, table)
    assert found.local is not None
    assert found.local.sensitivity_squared is not None
    assert found.local.sensitivity_squared.upper == 3


def test_any_numbers_have_their_middle(protocol: Protocol, tmp_path: Path) -> None:
    # Random numbers, many of them equal, over many orders of magnitude, in place of those computed.
    rng = np.random.default_rng(4)
    done = sweep(protocol, "secure-sum", tmp_path, tile=4)
    squares = np.concatenate([10.0 ** rng.integers(-300, 3, 150), np.zeros(30), rng.random(30)])
    rng.shuffle(squares)
    start = 0
    for part in done.parts:
        old = pq.read_table(part)
        column = squares[start : start + len(old)]
        start += len(old)
        for place, name in ((2, "squared_lower"), (3, "squared_upper")):
            old = old.set_column(place, old.schema.field(name), [column])
        pq.write_table(old, part)
    found = summarise(tmp_path, noise_multiplier=1.0, delta=1e-5, exposed=3)
    order = np.argsort(squares, kind="stable")
    chosen = {int(order[104]): found.median, int(order[0]): found.best, int(squares.argmax()): found.worst}
    for where, account in chosen.items():
        observer, target = divmod(where, 14)
        assert account.observers == (protocol.labels[observer],)
        assert account.target == protocol.labels[target + (target >= observer)]
    assert len(found.most_exposed) == 3


def test_settings_and_folder_are_checked(protocol: Protocol, tmp_path: Path) -> None:
    done = sweep(protocol, "secure-sum", tmp_path, tile=15)
    with pytest.raises(InputError, match="noise_multiplier must be a finite number above 0"):
        summarise(tmp_path, noise_multiplier=0.0, delta=1e-5)
    with pytest.raises(InputError, match="delta must lie strictly between 0 and 1"):
        summarise(tmp_path, noise_multiplier=1.0, delta=1.0)
    with pytest.raises(InputError, match="exposed must be a whole number of at least 1"):
        summarise(tmp_path, noise_multiplier=1.0, delta=1e-5, exposed=0)
    done.parts[0].unlink()
    with pytest.raises(FileError, match="the sweep is not finished"):
        summarise(tmp_path, noise_multiplier=1.0, delta=1e-5)
