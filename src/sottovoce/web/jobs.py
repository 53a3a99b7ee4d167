# SPDX-License-Identifier: Apache-2.0
"""Jobs: who asked for what, which worker computes it, and what became of it.

A request gets a ticket. Tickets with the same content share one computation, and its result is kept by content
hash. A computation ends early when the last of its tickets is cancelled or forgotten: its process is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from sottovoce.web.answers import Job, Problem, Progress, State
from sottovoce.web.cache import Cache
from sottovoce.web.worker import HEAD, Failed, Message, Moved, Ready, Result, Task, framed

if TYPE_CHECKING:
    from sottovoce.web.limits import Limits

__all__ = ["Busy", "Jobs"]

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_TASKS_OF_A_WORKER = 200
_START_SECONDS = 60.0


class Busy(Exception):  # noqa: N818 - a state, not a mistake
    """Too much is asked at the same time."""


@dataclass(eq=False)
class _Computation:
    """One piece of work and those who wait for it."""

    key: str
    kind: str
    request: bytes
    state: State = "waiting"
    progress: Progress | None = None
    error: Problem | None = None
    tickets: set[str] = field(default_factory=set)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    worker: _Worker | None = None


@dataclass(eq=False)
class _Ticket:
    computation: _Computation
    seen: float


@dataclass(eq=False)
class _Worker:
    """A process that computes one task after another."""

    process: asyncio.subprocess.Process
    tasks: int = 0

    @classmethod
    async def start(cls) -> _Worker:
        environment = {**os.environ, **dict.fromkeys(_ONE_THREAD, "1")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "sottovoce.web.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await worker.read()
        except BaseException:
            worker.end()
            raise
        return worker

    async def read(self) -> Message:
        stream = self.process.stdout
        assert stream is not None
        (size,) = HEAD.unpack(await stream.readexactly(HEAD.size))
        message: Message = msgspec.msgpack.decode(await stream.readexactly(size), type=Message)
        return message

    def send(self, kind: str, request: bytes, limits: Limits) -> None:
        assert self.process.stdin is not None
        self.tasks += 1
        self.process.stdin.write(framed(Task(kind, request, limits)))

    def end(self) -> None:
        """End the process; not by `process.kill`, which may take its exit code away from who waits for it."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)


class Jobs:
    """Takes requests, computes them in worker processes, and answers for them until they are forgotten."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cache = Cache(limits.cache)
        self._tickets: dict[str, _Ticket] = {}
        self._current: dict[str, _Computation] = {}
        self._waiting: deque[_Computation] = deque()
        self._wake = asyncio.Condition()
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the workers and the one who forgets."""
        self._loops = [asyncio.create_task(self._serve()) for _ in range(self.limits.workers)]
        self._loops.append(asyncio.create_task(self._forget()))

    async def stop(self) -> None:
        """End all workers."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []

    async def submit(self, kind: str, request: bytes, key: str) -> Job:
        """A ticket for a request: done at once if its result is kept."""
        if len(self._tickets) >= self.limits.tickets:
            raise Busy("the server remembers as many requests as it can (try again in a minute)")
        computation = self._current.get(key)
        if computation is None:
            computation = _Computation(key, kind, request)
            if self.cache.find(key) is not None:
                computation.state = "done"
                computation.finished.set()
            elif len(self._waiting) >= self.limits.waiting:
                raise Busy(
                    f"{self.limits.waiting} jobs are waiting already, and the server takes no more "
                    "(try again in a minute)"
                )
            else:
                self._current[key] = computation
                self._waiting.append(computation)
                async with self._wake:
                    self._wake.notify()
        name = secrets.token_urlsafe(16)
        computation.tickets.add(name)
        self._tickets[name] = _Ticket(computation, time.monotonic())
        return self.status(name)

    def status(self, name: str) -> Job:
        """How a ticket stands; KeyError if there is none of this name."""
        ticket = self._tickets[name]
        ticket.seen = time.monotonic()
        computation = ticket.computation
        if computation.state != "done":
            return Job(name, computation.state, computation.progress, None, computation.error)
        content = self.cache.find(computation.key)
        if content is None:
            gone = Problem("gone", "the result is no longer kept (ask again)")
            return Job(name, "failed", error=gone)
        return Job(name, "done", computation.progress, msgspec.Raw(content))

    async def wait(self, name: str, seconds: float) -> Job:
        """The status once the job is finished, or after some seconds."""
        ticket = self._tickets[name]
        # Whoever waits has not forgotten.
        ticket.seen = math.inf
        try:
            async with asyncio.timeout(seconds):
                await ticket.computation.finished.wait()
        except TimeoutError:
            pass
        finally:
            ticket.seen = time.monotonic()
        return self.status(name)

    def cancel(self, name: str) -> None:
        """Give a ticket back; KeyError if there is none of this name."""
        computation = self._tickets.pop(name).computation
        computation.tickets.discard(name)
        if computation.tickets or computation.state not in {"waiting", "running"}:
            return
        self._finish(computation, "cancelled")
        with contextlib.suppress(ValueError):
            self._waiting.remove(computation)
        if computation.worker is not None:
            computation.worker.end()

    async def _serve(self) -> None:
        """Compute what waits, one after another, in a process that is started anew when it was ended."""
        worker: _Worker | None = None
        try:
            while True:
                if worker is None or worker.tasks >= _TASKS_OF_A_WORKER:
                    worker = await self._replace(worker)
                async with self._wake:
                    await self._wake.wait_for(lambda: self._waiting)
                    computation = self._waiting.popleft()
                if worker.process.returncode is not None:
                    # It ended while no one asked for anything.
                    worker = await self._replace(worker)
                if computation.state != "waiting":
                    continue
                if not await self._compute(worker, computation):
                    worker = await self._replace(worker)
        finally:
            if worker is not None:
                worker.end()
                await worker.process.wait()

    async def _replace(self, worker: _Worker | None) -> _Worker:
        if worker is not None:
            worker.end()
            await worker.process.wait()
        return await _Worker.start()

    async def _compute(self, worker: _Worker, computation: _Computation) -> bool:
        """Let a worker compute; whether it is fit for more."""
        computation.state, computation.worker = "running", worker
        try:
            worker.send(computation.kind, computation.request, self.limits)
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await worker.read()
                    match message:
                        case Moved(done, total):
                            computation.progress = Progress(done, total)
                        case _ if computation.finished.is_set():
                            # Cancelled while the last message was under way: the process is being ended.
                            return False
                        case Result(content):
                            self.cache.put(computation.key, content)
                            self._finish(computation, "done")
                            return True
                        case Failed(kind, text):
                            self._finish(computation, "failed", Problem(kind, text))
                            return kind != "internal"
                        case Ready():
                            pass
        except TimeoutError:
            took = f"the job took longer than {self.limits.seconds:g} seconds"
            remedy = "take fewer rounds, observers or targets, or the command line"
            self._finish(computation, "failed", Problem("time", f"{took} ({remedy})"))
        except (asyncio.IncompleteReadError, ConnectionError):
            # The process is gone: cancelled, or ended by the system.
            if computation.state == "running":
                text = "the process that computed this was ended (take fewer rounds, observers or targets)"
                self._finish(computation, "failed", Problem("internal", text))
        finally:
            computation.worker = None
        return False

    def _finish(self, computation: _Computation, state: State, error: Problem | None = None) -> None:
        computation.state, computation.error = state, error
        computation.request = b""
        self._current.pop(computation.key, None)
        computation.finished.set()

    async def _forget(self) -> None:
        """Cancel what no one has asked for in a long time."""
        while True:
            await asyncio.sleep(min(5.0, self.limits.patience / 4))
            before = time.monotonic() - self.limits.patience
            for name in [name for name, ticket in self._tickets.items() if ticket.seen < before]:
                self.cancel(name)
