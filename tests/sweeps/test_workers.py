"""Who computes: a pool gives the bits of one process, and a worker that is killed costs nothing."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sottovoce import crews
from sottovoce.errors import InputError
from sottovoce.protocols import Protocol
from sottovoce.sweeps import sweep

pytestmark = pytest.mark.load


def content(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


def test_two_workers_write_the_same_bytes_as_one(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    before = dict(os.environ)
    sweep(protocol, "secure-sum", tmp_path / "one", tile=2)
    heard: list[int] = []
    sweep(
        protocol,
        "secure-sum",
        tmp_path / "two",
        tile=2,
        workers=2,
        progress=lambda done, _: heard.append(done),
    )
    assert heard == sorted(heard)
    assert (heard[0], heard[-1]) == (0, 210)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert pairs == tmp_path / "two"
    assert dict(os.environ) == before
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_killed_costs_nothing(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_one(*_: int) -> None:
        if list(tmp_path.glob("part-*")) and not killed:
            killed.append(multiprocessing.active_children()[0].pid or 0)
            os.kill(killed[0], signal.SIGKILL)

    done = sweep(protocol, "secure-sum", tmp_path, workers=2, progress=kill_one)
    assert killed
    assert len(done.computed) == 15
    assert pairs == tmp_path


def test_workers_that_die_again_and_again_are_given_up(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crews, "RESTARTS", 0)

    def kill_all(*_: int) -> None:
        for child in multiprocessing.active_children() if list(tmp_path.glob("part-*")) else []:
            child.kill()

    with pytest.raises(InputError, match=r"workers must stay alive; one ended 1 times.*resume=True"):
        sweep(protocol, "secure-sum", tmp_path, workers=2, tile=1, progress=kill_all)
    assert sweep(protocol, "secure-sum", tmp_path, resume=True).kept


def test_an_error_ends_the_workers(protocol: Protocol, tmp_path: Path) -> None:
    def stop(*_: int) -> None:
        if list(tmp_path.glob("part-*")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(protocol, "secure-sum", tmp_path, workers=2, progress=stop)
    assert multiprocessing.active_children() == []
    assert len(list(tmp_path.glob("part-*.parquet"))) == 1
