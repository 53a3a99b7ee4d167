# SPDX-License-Identifier: Apache-2.0
"""Jobs: shared, kept, cancelled, timed out, forgotten; and who gets how many."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from sottovoce.web.jobs import Busy, Jobs
from sottovoce.web.limits import Limits
from sottovoce.web.requests import content_hash
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sottovoce.web.replies import Job

pytestmark = pytest.mark.load

QUICK = {"graph": {"kind": "name", "name": "ring:n=5"}, "rounds": 3}
LONG = {"graph": {"kind": "name", "name": "ring:n=60"}, "rounds": 5000, "view": "neighbourhood"}


def submit(jobs: Jobs, value: dict[str, Any], client: str = "someone", kind: str = "page") -> Job:
    content = json.dumps(value).encode()
    request: Any = msgspec.json.decode(content, type=KINDS[kind].request)
    return jobs.submit(kind, content, content_hash(kind, request), client)


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


def test_a_job_that_is_done_has_all_of_it_done() -> None:
    asked = {
        "graph": {"kind": "name", "name": "karate"},
        "rounds": 10,
        "noise_multiplier": 4,
        "view": "neighbourhood",
    }

    async def scene(jobs: Jobs) -> None:
        found = await jobs.wait(submit(jobs, asked, kind="account").id, 60)
        assert found.state == "done"
        assert found.progress is not None
        assert found.progress.done == found.progress.total == 34 * 33

    play(scene)


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
        first, second = submit(jobs, QUICK), submit(jobs, QUICK)
        assert first.id != second.id
        done = await jobs.wait(first.id, 30)
        assert done.state == "done"
        assert json.loads(done.result)["rounds"] == 3
        assert (await jobs.wait(second.id, 1)).result == done.result
        third = submit(jobs, QUICK)
        assert (third.state, third.result) == ("done", done.result)
        assert len(jobs.cache) == 1

    play(scene)


def test_workers_say_nothing_of_themselves(capfd: pytest.CaptureFixture[str]) -> None:
    async def scene(jobs: Jobs) -> None:
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).state == "done"

    play(scene)
    assert capfd.readouterr() == ("", "")


def test_an_error_is_told_and_not_kept() -> None:
    async def scene(jobs: Jobs) -> None:
        wrong = submit(jobs, {**QUICK, "observers": [9]})
        found = await jobs.wait(wrong.id, 30)
        assert found.state == "failed"
        assert found.error is not None
        assert found.error.kind == "input"
        assert "no node is called 9" in found.error.message
        assert len(jobs.cache) == 0
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).state == "done"

    play(scene)


def test_the_last_ticket_that_is_cancelled_ends_the_job() -> None:
    async def scene(jobs: Jobs) -> None:
        first, second = submit(jobs, LONG), submit(jobs, LONG)
        await until(lambda: jobs.status(first.id).state == "running")
        jobs.cancel(first.id)
        await asyncio.sleep(0.2)
        assert jobs.status(second.id).state == "running"
        jobs.cancel(second.id)
        with pytest.raises(KeyError):
            jobs.status(second.id)
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).state == "done"

    play(scene)


def test_starting_and_cancelling_costs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.web.crew._STOP_SECONDS", 30.0)

    async def scene(jobs: Jobs) -> None:
        await jobs.wait(submit(jobs, QUICK).id, 60)
        before = workers()
        for rounds in range(8):
            job = submit(jobs, {**LONG, "rounds": 5000 + rounds})
            await until(lambda name=job.id: jobs.status(name).state == "running")  # type: ignore[misc]
            jobs.cancel(job.id)
        assert (await jobs.wait(submit(jobs, {**QUICK, "rounds": 4}).id, 60)).state == "done"
        assert workers() == before
        assert jobs.health().workers.lost == 0

    play(scene)


def test_a_worker_that_does_not_stop_is_ended() -> None:
    async def scene(jobs: Jobs) -> None:
        job = submit(jobs, LONG)
        await until(lambda: jobs.status(job.id).state == "running")
        (stuck,) = workers()
        stuck.suspend()
        jobs.cancel(job.id)
        assert (await jobs.wait(submit(jobs, QUICK).id, 60)).state == "done"
        assert stuck not in workers()

    play(scene)


def test_a_job_can_be_cancelled_in_every_state() -> None:
    async def scene(jobs: Jobs) -> None:
        running = submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        waiting = submit(jobs, QUICK)
        done_by_cache = {**QUICK, "rounds": 5}
        jobs.cancel(waiting.id)
        jobs.cancel(running.id)
        for value, state in ((done_by_cache, "done"), ({**QUICK, "observers": [9]}, "failed")):
            job = submit(jobs, value)
            assert (await jobs.wait(job.id, 60)).state == state
            jobs.cancel(job.id)
            with pytest.raises(KeyError):
                jobs.cancel(job.id)
        jobs.cancel(submit(jobs, done_by_cache).id)
        assert jobs.health().tickets == jobs.health().waiting == 0
        assert (await jobs.wait(submit(jobs, {**QUICK, "rounds": 6}).id, 60)).state == "done"
        assert jobs.health().workers.running == 0

    play(scene)


def test_a_job_that_waits_is_cancelled_without_a_trace() -> None:
    async def scene(jobs: Jobs) -> None:
        running = submit(jobs, LONG)
        waiting = submit(jobs, QUICK)
        await until(lambda: jobs.status(running.id).state == "running")
        assert jobs.status(waiting.id).state == "waiting"
        jobs.cancel(waiting.id)
        again = submit(jobs, QUICK)
        assert again.state == "waiting"
        jobs.cancel(running.id)
        assert (await jobs.wait(again.id, 30)).state == "done"

    play(scene)


def test_a_job_that_takes_too_long_is_ended() -> None:
    async def scene(jobs: Jobs) -> None:
        found = await jobs.wait(submit(jobs, LONG).id, 30)
        assert found.error is not None
        assert found.error.kind == "time"
        assert "longer than 0.5 seconds (take fewer rounds, observers or targets" in found.error.message
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).error is None

    play(scene, seconds=0.5)


def test_more_than_may_wait_is_refused_to_who_has_most() -> None:
    async def scene(jobs: Jobs) -> None:
        running = submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        for rounds in (3, 4):
            submit(jobs, {**QUICK, "rounds": rounds}, "greedy")
        with pytest.raises(Busy, match="2 jobs are waiting already, and you may add no more"):
            submit(jobs, {**QUICK, "rounds": 5}, "greedy")
        submit(jobs, {**QUICK, "rounds": 4}, "greedy")
        assert submit(jobs, {**QUICK, "rounds": 5}, "modest").state == "waiting"
        jobs.cancel(running.id)

    play(scene, waiting=4)


def test_a_thousand_tickets_of_one_client_do_not_shut_others_out() -> None:
    async def scene(jobs: Jobs) -> None:
        for _ in range(500):
            submit(jobs, LONG, "greedy")
        with pytest.raises(Busy, match="500 requests are remembered already, and you may add no more"):
            submit(jobs, LONG, "greedy")
        assert (await jobs.wait(submit(jobs, LONG, "modest").id, 0.1)).state in {"waiting", "running"}

    play(scene)


def test_a_ticket_that_is_over_makes_room() -> None:
    async def scene(jobs: Jobs) -> None:
        first = submit(jobs, QUICK)
        second = submit(jobs, QUICK)
        with pytest.raises(Busy, match="2 requests are remembered already"):
            submit(jobs, QUICK)
        await jobs.wait(second.id, 30)
        await jobs.wait(first.id, 30)
        third = submit(jobs, QUICK)
        assert jobs.status(first.id).state == jobs.status(third.id).state == "done"
        with pytest.raises(KeyError):
            jobs.status(second.id)

    play(scene, tickets=4)


def test_clients_take_turns() -> None:
    async def scene(jobs: Jobs) -> None:
        running = submit(jobs, LONG)
        await until(lambda: jobs.status(running.id).state == "running")
        greedy = [submit(jobs, {**QUICK, "rounds": rounds}, "greedy") for rounds in range(3, 23)]
        own = submit(jobs, {**QUICK, "rounds": 30}, "modest")
        shared = submit(jobs, {**QUICK, "rounds": 22}, "modest")
        order: list[str] = []
        for job in (*greedy, own):
            computation = jobs._tickets[job.id].computation
            watched = asyncio.create_task(computation.finished.wait())
            watched.add_done_callback(lambda _, name=job.id: order.append(name))  # type: ignore[misc]
        jobs.cancel(running.id)
        assert (await jobs.wait(shared.id, 60)).state == "done"
        await until(lambda: greedy[-1].id in order)
        assert order[:2] == [greedy[0].id, own.id]
        # What two clients wait for comes when it is the turn of either.
        assert order.index(greedy[-1].id) == 3

    play(scene)


def test_what_no_one_asks_for_is_forgotten() -> None:
    async def scene(jobs: Jobs) -> None:
        left = submit(jobs, LONG)
        await until(lambda: jobs.status(left.id).state == "running")
        await until(lambda: jobs.health().tickets == 0)
        with pytest.raises(KeyError):
            jobs.status(left.id)
        assert (await jobs.wait(submit(jobs, QUICK).id, 30)).state == "done"

    play(scene, patience=0.8)


def test_a_result_that_is_no_longer_kept_says_so() -> None:
    async def scene(jobs: Jobs) -> None:
        first = await jobs.wait(submit(jobs, QUICK).id, 30)
        await jobs.wait(submit(jobs, {**QUICK, "rounds": 4}).id, 30)
        found = jobs.status(first.id)
        assert found.state == "failed"
        assert found.error is not None
        assert found.error.message == "the result is no longer kept (ask again)"

    play(scene, cache=10)
