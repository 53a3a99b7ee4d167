# SPDX-License-Identifier: Apache-2.0
"""Jobs: who asked for what, and what became of it.

A request gets a ticket. Tickets with the same content share one computation, and its result is kept by content
hash. A computation ends early when the last of its tickets is cancelled or forgotten.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from dataclasses import dataclass

from sottovoce.web.cache import Cache
from sottovoce.web.crew import Computation, Crew
from sottovoce.web.limits import Limits  # noqa: TC001
from sottovoce.web.queues import FairQueue
from sottovoce.web.replies import Fault, Job, Status
from sottovoce.web.shares import FairShares

__all__ = ["Busy", "Jobs"]


class Busy(Exception):  # noqa: N818 - a state, not a mistake
    """Too much is asked at the same time."""


@dataclass(eq=False)
class _Ticket:
    computation: Computation
    client: str
    seen: float


class Jobs:
    """Takes requests, lets the crew compute them, and answers for them until they are forgotten."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cache = Cache(limits.cache)
        self._tickets: dict[str, _Ticket] = {}
        self._held = FairShares(limits.tickets)
        self._current: dict[str, Computation] = {}
        self._waiting = FairQueue[Computation](limits.waiting)
        self._crew = Crew(limits, self._waiting, self.cache.put)
        self._forgetting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the workers and the one who forgets."""
        await self._crew.start()
        self._forgetting = asyncio.create_task(self._forget())

    async def stop(self) -> None:
        """End all workers."""
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.gather(self._forgetting, return_exceptions=True)
        await self._crew.stop()

    def health(self) -> Status:
        """How the workers are and how much there is to do."""
        return Status(self._crew.health(), len(self._waiting), len(self._tickets))

    def submit(self, kind: str, request: bytes, key: str, client: str) -> Job:
        """A ticket for a request: done at once if its result is kept."""
        computation = self._current.get(key)
        if computation is None or computation.finished.is_set():
            computation = Computation(key, kind, request)
            if self.cache.find(key) is not None:
                computation.finish("done")
            elif self._crew.trouble is not None:
                raise Busy(f"{self._crew.trouble} (try again in a minute)")
        self._make_room(client)
        if computation.state == "waiting":
            if not self._waiting.push(client, computation) and not computation.tickets:
                self._held.give(client)
                raise Busy(
                    f"{len(self._waiting)} jobs are waiting already, and you may add no more (try again in a minute)"
                )
            self._crew.nudge()
        self._current[key] = computation
        name = secrets.token_urlsafe(16)
        computation.tickets.add(name)
        self._tickets[name] = _Ticket(computation, client, time.monotonic())
        return self.status(name)

    def _make_room(self, client: str) -> None:
        """Let a client have one more ticket, if need be in the place of one whose job has long been finished."""
        while not self._held.take(client):
            old = [
                (ticket.seen, name)
                for name, ticket in self._tickets.items()
                if ticket.client == client and ticket.computation.finished.is_set() and ticket.seen < math.inf
            ]
            if not old:
                raise Busy(
                    f"{len(self._tickets)} requests are remembered already, and you may add no more "
                    "(cancel some, or try again in a minute)"
                )
            self.cancel(min(old)[1])

    def status(self, name: str) -> Job:
        """How a ticket stands, with its result as it is kept; KeyError if there is none of this name."""
        ticket = self._tickets[name]
        ticket.seen = time.monotonic()
        computation = ticket.computation
        if computation.state != "done":
            return Job(name, computation.state, computation.progress, None, computation.error)
        content = self.cache.find(computation.key)
        if content is None:
            gone = Fault("gone", "the result is no longer kept (ask again)")
            return Job(name, "failed", error=gone)
        return Job(name, "done", computation.progress, content)

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
        ticket = self._tickets.pop(name)
        self._held.give(ticket.client)
        computation = ticket.computation
        computation.tickets.discard(name)
        if not computation.tickets:
            if self._current.get(computation.key) is computation:
                del self._current[computation.key]
            self._waiting.remove(computation)
            computation.cancel()

    async def _forget(self) -> None:
        """Cancel what no one has asked for in a long time."""
        while True:
            await asyncio.sleep(min(5.0, self.limits.patience / 4))
            before = time.monotonic() - self.limits.patience
            for name in [name for name, ticket in self._tickets.items() if ticket.seen < before]:
                self.cancel(name)
