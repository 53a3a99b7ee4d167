"""A Dask cluster on this machine: the bits of one process, whatever becomes of a worker."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster

from sottovoce.errors import InputError
from sottovoce.protocols import Protocol
from sottovoce.sweeps import clusters, sweep

pytestmark = pytest.mark.load


def test_a_local_cluster_gives_the_same_pairs(protocol: Protocol, pairs: Any, tmp_path: Path) -> None:
    sweep(protocol, "secure-sum", tmp_path / "one", tile=4)
    done = sweep(protocol, "secure-sum", tmp_path / "many", tile=4, cluster="local", workers=2)
    assert len(done.computed) == 4
    assert pairs == done.folder
    for part in done.parts:
        assert part.read_bytes() == (tmp_path / "one" / part.name).read_bytes()


@pytest.mark.parametrize("count", [2, 1])
def test_a_worker_that_is_killed_costs_nothing(
    count: int, protocol: Protocol, pairs: Any, tmp_path: Path
) -> None:
    # The nannies start a new worker in place of a dead one; with one worker alone the work is sent again.
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=count,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    ) as cluster:
        killed: list[int] = []

        def kill_one(done: int, _: int) -> None:
            if done and not killed:
                killed.append(cluster.workers[0].pid)
                os.kill(killed[0], signal.SIGKILL)

        start = time.monotonic()
        done = sweep(protocol, "secure-sum", tmp_path, cluster=cluster.scheduler_address, progress=kill_one)
        assert time.monotonic() - start < 40
    assert killed
    assert len(done.computed) == 15
    assert pairs == tmp_path


def test_a_scheduler_that_does_not_answer_is_named(
    protocol: Protocol, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "ANSWER_SECONDS", 0.5)
    with pytest.raises(
        InputError, match=r"the cluster 'tcp://127.0.0.1:9' must have a scheduler and workers"
    ):
        sweep(protocol, "secure-sum", tmp_path, cluster="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="the workers of a cluster at an address are its own"):
        sweep(protocol, "secure-sum", tmp_path, cluster="tcp://127.0.0.1:9", workers=2)
