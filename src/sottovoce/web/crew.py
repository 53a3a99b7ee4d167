# SPDX-License-Identifier: Apache-2.0
"""The crew: workers that are replaced whatever ends them, and what each of them computes.

A worker that ends by itself is replaced after a pause, which doubles as long as its successors do the same. Who waits
while no worker can be started at all is told so. A task that is cancelled, or takes too long, is given up by the
worker, which stays: starting and cancelling jobs costs no worker.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sottovoce.web.processes import Worker, WorkerDied
from sottovoce.web.replies import Fault, Progress, State, Workers
from sottovoce.web.worker import ENDED, Failed, Moved, Result, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.web.limits import Limits
    from sottovoce.web.queues import FairQueue

__all__ = ["Computation", "Crew"]

_TASKS_OF_A_WORKER = 200
_STOP_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
_STARTS_THAT_FAIL = 3


@dataclass(eq=False)
class Computation:
    """One piece of work and those who wait for it."""

    key: str
    kind: str
    request: bytes
    state: State = "waiting"
    progress: Progress | None = None
    error: Fault | None = None
    tickets: set[str] = field(default_factory=set)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    stop: Callable[[], None] | None = None

    def finish(self, state: State, error: Fault | None = None) -> None:
        """Say what became of it; what is said first counts."""
        if not self.finished.is_set():
            self.state, self.error, self.request = state, error, b""
            if state == "done" and self.progress is not None:
                # A worker reports now and then, and never the last step.
                self.progress = Progress(self.progress.total, self.progress.total)
            self.finished.set()

    def cancel(self) -> None:
        """Give it up, wherever it is."""
        self.finish("cancelled")
        if self.stop is not None:
            self.stop()


class Crew:
    """So many workers, kept alive, that compute what waits in a queue."""

    def __init__(
        self, limits: Limits, queue: FairQueue[Computation], keep: Callable[[str, bytes], None]
    ) -> None:
        self.limits = limits
        self.running = 0
        self._queue = queue
        self._keep = keep
        self._ready = 0
        self._died = 0
        self._trouble: str | None = None
        self._hopeless = False
        self._nudges = [asyncio.Event() for _ in range(limits.workers)]
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the workers."""
        self._loops = [asyncio.create_task(self._supervise(nudge)) for nudge in self._nudges]

    async def stop(self) -> None:
        """End all workers."""
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    def nudge(self) -> None:
        """Say that something waits."""
        for nudge in self._nudges:
            nudge.set()

    @property
    def trouble(self) -> str | None:
        """Why nothing can be computed at present, if so."""
        return self._trouble if self._hopeless else None

    def health(self) -> Workers:
        """How the workers are."""
        return Workers(self.limits.workers, self._ready, self.running, self._died, self._trouble)

    async def _supervise(self, nudge: asyncio.Event) -> None:
        """Keep one worker alive for ever."""
        failures = 0
        while True:
            if failures:
                await asyncio.sleep(min(_FIRST_PAUSE * 2 ** min(failures - 1, 10), _LONGEST_PAUSE))
            try:
                worker = await Worker.start(self.limits)
            except Exception as error:
                # Whatever it was, those who wait must not wait for ever.
                failures += 1
                self._hopeless = self._hopeless or (not self._ready and failures >= _STARTS_THAT_FAIL)
                self._note(f"a process that computes cannot be started: {error}")
                continue
            self._ready += 1
            self._trouble, self._hopeless = None, False
            try:
                await self._serve(worker, nudge)
                failures = 0
            except Exception as error:
                failures = failures + 1 if worker.tasks <= 1 else 1
                self._note(f"a process that computes was lost: {error}")
            finally:
                self._ready -= 1
                await worker.end()

    def _note(self, trouble: str) -> None:
        """Remember why a worker was lost; if there is none and none can be had, tell all who wait."""
        self._died += 1
        self._trouble = trouble
        if self._hopeless:
            while (computation := self._queue.pop()) is not None:
                computation.finish("failed", Fault("busy", f"{trouble} (try again in a minute)"))

    async def _serve(self, worker: Worker, nudge: asyncio.Event) -> None:
        """Let a worker compute what waits, until it has done enough; WorkerDied if it ended before."""
        exit_code = asyncio.create_task(worker.process.wait())
        exit_code.add_done_callback(lambda _: nudge.set())
        try:
            while worker.tasks < _TASKS_OF_A_WORKER and worker.alive:
                computation = self._queue.pop()
                if computation is None:
                    nudge.clear()
                    await nudge.wait()
                elif computation.state == "waiting":
                    await self._compute(worker, computation)
            if not worker.told_to_end and worker.process.returncode is not None:
                raise WorkerDied(f"it ended with code {worker.process.returncode}")
        finally:
            exit_code.cancel()

    async def _compute(self, worker: Worker, computation: Computation) -> None:
        """Let a worker compute one thing; afterwards it is ready for the next, or ended."""
        self.running += 1
        computation.state = "running"
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.limits.seconds, self._take_too_long, computation)
        try:
            async with asyncio.timeout(None) as deadline:
                computation.stop = lambda: _stop(worker, deadline)
                worker.send(computation.kind, computation.request)
                while True:
                    match await worker.read():
                        case Moved(done, total):
                            computation.progress = Progress(done, total)
                        case Result(content):
                            self._keep(computation.key, content)
                            return computation.finish("done")
                        case Failed(kind, text):
                            return computation.finish("failed", Fault(kind, text))
                        case Stopped():
                            return computation.finish("cancelled")
        except TimeoutError:
            await worker.end()
        finally:
            timer.cancel()
            self.running -= 1
            computation.stop = None
            computation.finish("failed", Fault("internal", ENDED))

    def _take_too_long(self, computation: Computation) -> None:
        computation.finish("failed", Fault("time", self.limits.overrun))
        if computation.stop is not None:
            computation.stop()


def _stop(worker: Worker, deadline: asyncio.Timeout) -> None:
    """Ask a worker to give up, and leave it little time for that."""
    if not deadline.expired():
        worker.stop()
        soon = asyncio.get_running_loop().time() + _STOP_SECONDS
        deadline.reschedule(min(soon, deadline.when() or soon))
