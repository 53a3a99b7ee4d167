# SPDX-License-Identifier: Apache-2.0
"""The crew: workers that die while they start, while they compute and while they idle, and how that is told."""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import TYPE_CHECKING

import pytest
from tests.web.test_jobs import LONG, QUICK, play, submit, until, workers

from sottovoce.web.jobs import Busy, Jobs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.load
PYTHON = sys.executable


def dying(folder: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the first workers die while they start; the file with the time of each start."""
    starts, script = folder / "starts", folder / "python"
    script.write_text(
        f"""#!/bin/sh
date +%s.%N >> {starts}
[ $(wc -l < {starts}) -le {times} ] && exit 7
exec {PYTHON} "$@"
"""
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    return starts


def test_a_worker_that_dies_while_it_starts_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = dying(tmp_path, 2, monkeypatch)

    async def scene(jobs: Jobs) -> None:
        assert (await jobs.wait(submit(jobs, QUICK).id, 60)).state == "done"
        assert len(starts.read_text().split()) == 3
        health = jobs.health().workers
        assert (health.wanted, health.ready, health.lost, health.trouble) == (1, 1, 2, None)

    play(scene)


def test_workers_that_always_die_are_told_and_do_not_spin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = dying(tmp_path, 1000, monkeypatch)
    told = "a process that computes cannot be started: it ended with code 7 (try again in a minute)"

    async def scene(jobs: Jobs) -> None:
        job = await jobs.wait(submit(jobs, QUICK).id, 60)
        assert job.error is not None
        assert (job.state, job.error.kind, job.error.message) == ("failed", "busy", told)
        with pytest.raises(Busy, match="cannot be started: it ended with code 7"):
            submit(jobs, QUICK)
        assert jobs.health().workers.trouble == told.removesuffix(" (try again in a minute)")
        await until(lambda: len(starts.read_text().split()) >= 5)
        assert jobs.health().workers.ready == 0

    play(scene)
    times = [float(line) for line in starts.read_text().split()]
    for k, (earlier, later) in enumerate(itertools.pairwise(times[:5])):
        assert later - earlier >= 0.25 * 2**k


def test_a_server_recovers_when_workers_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying(tmp_path, 4, monkeypatch)

    async def scene(jobs: Jobs) -> None:
        assert (await jobs.wait(submit(jobs, QUICK).id, 60)).state == "failed"
        await until(lambda: jobs.health().workers.ready == 1)
        assert (await jobs.wait(submit(jobs, QUICK).id, 60)).state == "done"

    play(scene)


def test_a_worker_that_dies_at_work_is_replaced() -> None:
    async def scene(jobs: Jobs) -> None:
        running = submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        for worker in workers():
            worker.kill()
        found = await jobs.wait(running.id, 30)
        assert found.error is not None
        assert "the process that computed this was ended" in found.error.message
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).state == "done"
        assert jobs.health().workers.lost == 1

    play(scene)


def test_a_worker_that_dies_idle_is_replaced_before_anyone_asks() -> None:
    async def scene(jobs: Jobs) -> None:
        await jobs.wait(submit(jobs, QUICK).id, 30)
        before = workers()
        for worker in before:
            worker.kill()
        await until(lambda: jobs.health().workers.lost == 1 and jobs.health().workers.ready == 1)
        assert workers()
        assert not workers() & before

    play(scene)


def test_a_late_cancellation_does_not_spoil_the_next_job() -> None:
    async def scene(jobs: Jobs) -> None:
        await jobs.wait(submit(jobs, QUICK).id, 30)
        before = workers()
        for rounds in range(4, 12):
            job = submit(jobs, {**QUICK, "rounds": rounds})
            await asyncio.sleep(0.004 * (rounds - 4))
            jobs.cancel(job.id)
            found = await jobs.wait(submit(jobs, {**QUICK, "rounds": rounds}).id, 30)
            assert (found.state, found.error) == ("done", None)
        assert workers() == before

    play(scene)
