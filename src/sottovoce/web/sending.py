# SPDX-License-Identifier: Apache-2.0
"""Answers on their way: in parts, from one copy, with a bound on what waits to be read."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from sottovoce.web.guards import problem
from sottovoce.web.shares import FairShares

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from sottovoce.web.replies import Job

__all__ = ["InParts", "Outbox"]

_PART = 2**16


class InParts(Response):
    """An answer whose parts are handed over one by one, as the client reads them; nothing is copied before."""

    def __init__(self, *contents: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.contents = contents
        super().__init__(None, status, {"Content-Length": str(sum(map(len, contents)))}, kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head, and then one part after another."""
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for content in self.contents:
            for begin in range(0, len(content), _PART):
                part = content[begin : begin + _PART]
                await send({"type": "http.response.body", "body": part, "more_body": True})
                # Others come in between, and a client that has gone is noticed.
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


class Outbox:
    """The results that are being read. One that several clients read is held once, in the name of the first."""

    def __init__(self, most: int) -> None:
        self._shares = FairShares(most)
        self._readers: Counter[int] = Counter()
        self._owners: dict[int, str] = {}

    def answer(self, job: Job, client: str, status: int = 200) -> Response:
        """A job with its result, or why it has to wait."""
        if job.result is None:
            return Response(msgspec.json.encode(job), status, media_type="application/json")
        content: bytes = job.result
        # The result is JSON already, and goes where the null stands in a job without one.
        before, between, after = msgspec.json.encode(msgspec.structs.replace(job, result=None)).rpartition(
            b'"result":null'
        )
        assert between
        if not self._hold(content, client):
            waits = f"{self._shares.total} bytes of results wait to be read already"
            return problem(
                503, "busy", f"{waits} (read them, or try again in a minute)", {"Retry-After": "5"}
            )
        return _Held(self, content, before + b'"result":', after, status)

    def _hold(self, content: bytes, client: str) -> bool:
        held = id(content)
        if held not in self._owners:
            if not self._shares.take(client, len(content)):
                return False
            self._owners[held] = client
        self._readers[held] += 1
        return True

    def release(self, content: bytes) -> None:
        """Say that one reader is done."""
        held = id(content)
        self._readers[held] -= 1
        if not self._readers[held]:
            del self._readers[held]
            self._shares.give(self._owners.pop(held), len(content))


class _Held(InParts):
    """An answer that is released when it has been sent, or when its reader is gone."""

    def __init__(self, outbox: Outbox, content: bytes, before: bytes, after: bytes, status: int) -> None:
        super().__init__(before, content, after, status=status)
        self.outbox, self.content = outbox, content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, and let go of it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.outbox.release(self.content)
