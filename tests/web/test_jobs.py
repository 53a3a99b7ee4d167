# SPDX-License-Identifier: Apache-2.0
"""Jobs: shared, kept, cancelled, timed out, forgotten; and workers that come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from sottovoce.web.jobs import Busy, Jobs, _Worker
from sottovoce.web.limits import Limits
from sottovoce.web.requests import content_hash
from sottovoce.web.work import KINDS
from sottovoce.web.worker import Message, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sottovoce.web.answers import Job

QUICK = {"graph": {"kind": "name", "name": "ring:n=5"}, "rounds": 3}
LONG = {"graph": {"kind": "name", "name": "ring:n=60"}, "rounds": 5000, "view": "neighbourhood"}


async def submit(jobs: Jobs, value: dict[str, Any], kind: str = "page") -> Job:
    content = json.dumps(value).encode()
    request: Any = msgspec.json.decode(content, type=KINDS[kind][0])
    return await jobs.submit(kind, content, content_hash(kind, request))


def play(scene: Callable[[Jobs], Awaitable[None]], **limits: Any) -> None:
    """Run a scene with jobs of its own; in the end no worker is left."""

    async def run() -> None:
        jobs = Jobs(Limits(**{"workers": 1, **limits}))
        await jobs.start()
        try:
            await scene(jobs)
        finally:
            await jobs.stop()

    asyncio.run(run())
    assert not workers()


def workers() -> set[psutil.Process]:
    """The processes that compute; other tests in this process may have children of their own."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "sottovoce.web.worker" in child.cmdline():
                found.add(child)
    return found


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_result_is_computed_once_and_kept() -> None:
    async def scene(jobs: Jobs) -> None:
        first, second = await submit(jobs, QUICK), await submit(jobs, QUICK)
        assert first.id != second.id
        done = await jobs.wait(first.id, 30)
        assert done.state == "done"
        assert json.loads(msgspec.json.encode(done.result))["rounds"] == 3
        assert (await jobs.wait(second.id, 1)).result == done.result
        third = await submit(jobs, QUICK)
        assert (third.state, third.result) == ("done", done.result)
        assert len(jobs.cache) == 1

    play(scene)


def test_an_error_is_told_and_not_kept() -> None:
    async def scene(jobs: Jobs) -> None:
        wrong = await submit(jobs, {**QUICK, "observers": [9]})
        found = await jobs.wait(wrong.id, 30)
        assert found.state == "failed"
        assert found.error is not None
        assert found.error.kind == "input"
        assert "no node is called 9" in found.error.message
        assert len(jobs.cache) == 0
        assert (await jobs.wait((await submit(jobs, QUICK)).id, 30)).state == "done"

    play(scene)


def test_the_last_ticket_that_is_cancelled_ends_the_process() -> None:
    async def scene(jobs: Jobs) -> None:
        first, second = await submit(jobs, LONG), await submit(jobs, LONG)
        await until(lambda: jobs.status(first.id).state == "running")
        running = workers()
        assert running
        jobs.cancel(first.id)
        await asyncio.sleep(0.2)
        assert jobs.status(second.id).state == "running"
        jobs.cancel(second.id)
        await until(lambda: all(not worker.is_running() or worker.status() == "zombie" for worker in running))
        with pytest.raises(KeyError):
            jobs.status(second.id)
        assert (await jobs.wait((await submit(jobs, QUICK)).id, 30)).state == "done"

    play(scene)


def test_a_job_that_waits_is_cancelled_without_a_trace() -> None:
    async def scene(jobs: Jobs) -> None:
        running = await submit(jobs, LONG)
        waiting = await submit(jobs, QUICK)
        await until(lambda: jobs.status(running.id).state == "running")
        assert jobs.status(waiting.id).state == "waiting"
        jobs.cancel(waiting.id)
        again = await submit(jobs, QUICK)
        assert again.state == "waiting"
        jobs.cancel(running.id)
        assert (await jobs.wait(again.id, 30)).state == "done"

    play(scene)


def test_a_job_that_takes_too_long_is_ended() -> None:
    async def scene(jobs: Jobs) -> None:
        found = await jobs.wait((await submit(jobs, LONG)).id, 30)
        assert found.error is not None
        assert found.error.kind == "time"
        assert "longer than 0.5 seconds (take fewer rounds, observers or targets" in found.error.message
        assert (await jobs.wait((await submit(jobs, QUICK)).id, 30)).error is None

    play(scene, seconds=0.5)


def test_a_process_that_dies_is_replaced() -> None:
    async def scene(jobs: Jobs) -> None:
        running = await submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        for worker in workers():
            worker.kill()
        found = await jobs.wait(running.id, 30)
        assert found.error is not None
        assert "the process that computed this was ended" in found.error.message
        assert (await jobs.wait((await submit(jobs, QUICK)).id, 30)).state == "done"

    play(scene)


def test_a_process_that_dies_idle_is_replaced() -> None:
    async def scene(jobs: Jobs) -> None:
        await jobs.wait((await submit(jobs, QUICK)).id, 30)
        for worker in workers():
            worker.kill()
        await asyncio.sleep(0.3)
        assert (await jobs.wait((await submit(jobs, {**QUICK, "rounds": 4})).id, 30)).state == "done"

    play(scene)


def test_a_late_cancellation_does_not_spoil_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(jobs: Jobs) -> None:
        first = await submit(jobs, QUICK)
        original = _Worker.read

        async def read(worker: _Worker) -> Message:
            message = await original(worker)
            if isinstance(message, Result) and first.id in jobs._tickets:
                jobs.cancel(first.id)
            return message

        monkeypatch.setattr(_Worker, "read", read)
        await until(lambda: first.id not in jobs._tickets)
        found = await jobs.wait((await submit(jobs, {**QUICK, "rounds": 4})).id, 30)
        assert (found.state, found.error) == ("done", None)

    play(scene)


def test_more_than_may_wait_is_refused() -> None:
    async def scene(jobs: Jobs) -> None:
        running = await submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        await submit(jobs, QUICK)
        await submit(jobs, QUICK)
        with pytest.raises(Busy, match="1 jobs are waiting already"):
            await submit(jobs, {**QUICK, "rounds": 4})

    play(scene, waiting=1)


def test_more_tickets_than_can_be_remembered_are_refused() -> None:
    async def scene(jobs: Jobs) -> None:
        first = await submit(jobs, QUICK)
        await submit(jobs, QUICK)
        with pytest.raises(Busy, match="remembers as many requests as it can"):
            await submit(jobs, QUICK)
        jobs.cancel(first.id)
        await submit(jobs, QUICK)

    play(scene, tickets=2)


def test_what_no_one_asks_for_is_forgotten() -> None:
    async def scene(jobs: Jobs) -> None:
        left = await submit(jobs, LONG)
        await until(lambda: jobs.status(left.id).state == "running")
        await asyncio.sleep(1.6)
        with pytest.raises(KeyError):
            jobs.status(left.id)
        assert (await jobs.wait((await submit(jobs, QUICK)).id, 30)).state == "done"

    play(scene, patience=0.8)


def test_a_result_that_is_no_longer_kept_says_so() -> None:
    async def scene(jobs: Jobs) -> None:
        first = await jobs.wait((await submit(jobs, QUICK)).id, 30)
        await jobs.wait((await submit(jobs, {**QUICK, "rounds": 4})).id, 30)
        found = jobs.status(first.id)
        assert found.state == "failed"
        assert found.error is not None
        assert found.error.message == "the result is no longer kept (ask again)"

    play(scene, cache=10)
