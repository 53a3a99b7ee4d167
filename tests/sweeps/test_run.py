"""`sweep`: the numbers of `account_all`, written once, found again, and never mixed with others."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import graphs
from sottovoce.accounting import account_all
from sottovoce.errors import FileError, InputError
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, gossip
from sottovoce.sweeps import read_sweep, sweep, workers
from sottovoce.sweeps.tiles import tile_bytes

# Sweeps the network of these tests slowly and notes each tile that it begins.
DRIVER = """
import multiprocessing, sys, time
from sottovoce import graphs
from sottovoce.protocols import gossip
from sottovoce.sweeps import sweep, workers

if __name__ == "__main__":
    folder, notes, count = sys.argv[1:]
    compute = workers.tile_bytes

    def slow(work, span, *more):
        with open(notes, "a") as file:
            print("tile", span.start, file=file)
        time.sleep(0.1)
        return compute(work, span, *more)

    def heard(done, total):
        with open(notes, "a") as file:
            for child in multiprocessing.active_children():
                print("child", child.pid, file=file)

    workers.tile_bytes = slow
    protocol = gossip(graphs.metropolis_weights("florentine"), rounds=5)
    sweep(protocol, "secure-sum", folder, workers=int(count), progress=heard)
"""


def identity(path: Path) -> tuple[int, int]:
    """What changes when a file is written again."""
    return path.stat().st_ino, path.stat().st_mtime_ns


def started(folder: Path, notes: Path, workers: int) -> subprocess.Popen[bytes]:
    """A sweep in another process that has finished some parts."""
    process = subprocess.Popen([sys.executable, "-c", DRIVER, str(folder), str(notes), str(workers)])
    end = time.monotonic() + 30
    while len(list(folder.glob("part-*"))) < 3:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    return process


def test_the_pairs_are_those_of_account_all(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    done = sweep(protocol, "secure-sum", tmp_path / "new" / "pairs", progress=lambda *at: heard.append(at))
    assert pairs == done.folder
    assert len(done) == 15 * 14
    assert (done.computed, done.kept, done.set_aside) == (tuple(range(15)), (), {})
    assert sorted(entry.name for entry in done.folder.iterdir()) == [
        "manifest.json",
        *(part.name for part in done.parts),
    ]
    assert heard[0] == (0, 210)
    assert heard[-1] == (210, 210)
    assert heard == sorted(heard)


@pytest.mark.parametrize(
    ("view", "settings"),
    [
        ("neighbourhood", {"own_noise": "hidden"}),
        ("single-node", {"contribution": "scalar", "engine": "filter"}),
        ("secure-sum", {"participation": Participation.at_most(2)}),
    ],
)
def test_every_setting_reaches_the_pairs(view: str, settings: dict[str, Any], tmp_path: Path) -> None:
    protocol = gossip(graphs.metropolis_weights("path:n=5"), rounds=4)
    table = account_all(protocol, view, noise_multiplier=1.0, delta=1e-5, **settings)
    done = sweep(protocol, view, tmp_path, tile=2, **settings)
    found = read_sweep(tmp_path).to_arrow()
    assert np.array_equal(found["squared_lower"], table.squared_lower)
    assert np.array_equal(found["squared_upper"], table.squared_upper)
    assert np.array_equal(found["target"], table.target_indices)
    assert done.manifest.tiles == 3
    assert [file.name for file in done.parts] == [f"part-{k:05d}.parquet" for k in range(3)]


def test_a_folder_that_holds_something_is_refused(protocol: Protocol, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    remedy = "must be empty; something lies there.*resume=True, or choose another folder"
    with pytest.raises(InputError, match=remedy):
        sweep(protocol, "secure-sum", tmp_path)
    with pytest.raises(FileError, match=r"there is no sweep, as manifest.json is missing"):
        sweep(protocol, "secure-sum", tmp_path, resume=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_resuming_computes_what_is_missing_and_nothing_twice(
    protocol: Protocol, pairs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweep(protocol, "secure-sum", tmp_path, resume=True, tile=4)
    assert done.computed == (0, 1, 2, 3)
    done.parts[2].unlink()
    before = {part: identity(part) for part in done.parts if part.exists()}
    spans: list[range] = []
    compute = tile_bytes

    def noted(work: Any, span: range, *more: Any) -> bytes:
        spans.append(span)
        return compute(work, span, *more)

    monkeypatch.setattr(workers, "tile_bytes", noted)
    again = sweep(protocol, "secure-sum", tmp_path, resume=True)
    assert spans == [range(8, 12)]
    assert (again.computed, again.kept) == ((2,), (0, 1, 3))
    assert {part: identity(part) for part in before} == before
    assert pairs == tmp_path
    assert sweep(protocol, "secure-sum", tmp_path, resume=True).computed == ()
    assert len(spans) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"view": "single-node"}, "view"),
        ({"own_noise": "hidden"}, "own_noise"),
        ({"contribution": "scalar"}, "contribution"),
        ({"participation": "every:2"}, "participation"),
        ({"engine": "filter"}, "engine"),
        ({"tile": 3}, "tile"),
    ],
)
def test_a_sweep_of_something_else_is_not_continued(
    change: dict[str, Any],
    field: str,
    protocol: Protocol,
    swept: Callable[[int, Path], None],
    tmp_path: Path,
) -> None:
    swept(5, tmp_path)
    before = {part: identity(part) for part in tmp_path.iterdir()}
    settings = {"view": "secure-sum", **change}
    with pytest.raises(InputError, match=rf"its {field} is .* was asked for \(ask for .* another folder\)"):
        sweep(protocol, folder=tmp_path, resume=True, **settings)
    assert {part: identity(part) for part in tmp_path.iterdir()} == before


def test_another_network_is_not_continued(protocol: Protocol, tmp_path: Path) -> None:
    sweep(protocol, "secure-sum", tmp_path, tile=15)
    with pytest.raises(InputError, match="its rounds is 5, and 6 was asked for"):
        sweep(gossip(protocol.weights, rounds=6), "secure-sum", tmp_path, resume=True)
    with pytest.raises(
        InputError,
        match=r"on the network it began with, 15 nodes and 20 edges with the weights metropolis rule .* \(name",
    ):
        sweep(gossip(graphs.lazy_weights("florentine"), rounds=5), "secure-sum", tmp_path, resume=True)


def test_a_full_disk_keeps_what_is_finished(
    protocol: Protocol, pairs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, calls = os.fsync, []

    def fill(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(FileError, match=r"part-00003.parquet: cannot be written: No space left.*make room"):
        sweep(protocol, "secure-sum", tmp_path)
    monkeypatch.undo()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "manifest.json",
        *(f"part-{k:05d}.parquet" for k in range(3)),
    ]
    done = sweep(protocol, "secure-sum", tmp_path, resume=True)
    assert done.kept == (0, 1, 2)
    assert pairs == tmp_path


def test_a_folder_that_cannot_be_made_is_named(protocol: Protocol, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file/pairs: the folder cannot be created: .* \(choose another\)"):
        sweep(protocol, "secure-sum", tmp_path / "file" / "pairs")


def test_a_failure_before_the_first_part_leaves_the_folder_empty(protocol: Protocol, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the cluster must be 'local' or an address such as"):
        sweep(protocol, "secure-sum", tmp_path, cluster="nowhere")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"view": "coalition-sums"}, "one observer at a time"),
        ({"view": "everyone"}, "view must be one of neighbourhood, secure-sum, single-node"),
        ({"own_noise": "secret"}, "own_noise must be one of known, hidden"),
        ({"contribution": "both"}, "contribution must be one of"),
        ({"engine": "steam"}, "engine must be one of"),
        ({"participation": 3}, "participation must be a Participation or its spelling"),
        ({"participation": "fixed:9"}, "names round 9, but there are 5 rounds"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"tile": 0}, "tile must be a whole number of at least 1"),
    ],
)
def test_settings_are_checked_before_the_work(
    change: dict[str, Any], rule: str, protocol: Protocol, tmp_path: Path
) -> None:
    settings = {"view": "secure-sum", **change}
    with pytest.raises(InputError, match=rule):
        sweep(protocol, folder=tmp_path / "pairs", **settings)
    assert not (tmp_path / "pairs").exists()


@pytest.mark.load
def test_a_killed_sweep_goes_on_where_it_was(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    folder, notes = tmp_path / "pairs", tmp_path / "notes"
    process = started(folder, notes, 1)
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    finished = sorted(folder.glob("part-*.parquet"))
    before = {part: identity(part) for part in finished}
    begun = notes.read_text().count("tile")
    assert len(finished) <= begun <= len(finished) + 1
    done = sweep(protocol, "secure-sum", folder, resume=True)
    assert len(done.kept) == len(finished)
    assert len(done.computed) == 15 - len(finished)
    assert {part: identity(part) for part in finished} == before
    assert pairs == folder
    assert not list(folder.glob(".*"))


@pytest.mark.load
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see whether a process lives")
def test_workers_end_with_a_sweep_that_is_killed(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    folder, notes = tmp_path / "pairs", tmp_path / "notes"
    process = started(folder, notes, 2)
    process.kill()
    process.wait(10)
    words = [line.split() for line in notes.read_text().splitlines()]
    children = {int(number) for word, number in words if word == "child"}
    assert len(children) == 2

    def alive(pid: int) -> bool:
        stat = Path(f"/proc/{pid}/stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX"

    end = time.monotonic() + 20
    while any(map(alive, children)):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert sweep(protocol, "secure-sum", folder, resume=True).kept
    assert pairs == folder
