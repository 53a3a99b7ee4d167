# SPDX-License-Identifier: Apache-2.0
"""Connections: how many there may be, and how long each may keep the server waiting.

A connection waits for its client (to send a head, to send a body, to read an answer) or the client waits for the
server. In the first case it has a deadline, and it is the first to go when there is no room for a new one. uvicorn
has a time limit for connections that are silent between two requests and no other, so this subclass of its protocol
looks at the state of the connection after everything that happens to it.

A client that is honest sends its head at once. So the connection that has kept the server waiting the longest is
dropped for a new one, and clients that only hold connections drop their own.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sottovoce.web.guards import HEADERS, problem
from sottovoce.web.shares import FairShares, client_name

if TYPE_CHECKING:
    import asyncio

    from uvicorn import Config
    from uvicorn.server import ServerState

    from sottovoce.web.limits import Limits

__all__ = ["KEPT_ALIVE", "Connection", "Door"]

KEPT_ALIVE = 10
"""Seconds for which uvicorn keeps a connection that is silent between two requests."""

_GRACE = 5.0
_SEND_BUFFER = 2**17

Phase = Literal["head", "body", "reading"]


class Door:
    """The connections that are open."""

    def __init__(self, limits: Limits, *, proxy: str | None = None) -> None:
        self.limits = limits
        self.proxy = proxy
        self._shares = FairShares(limits.connections)
        self._inside: dict[Connection, str] = {}

    def enter(self, connection: Connection, host: str, port: int) -> bool:
        """Let a connection in, if need be in the place of one that keeps the server waiting."""
        # All clients behind a proxy share its address; each of its connections stands for itself.
        client = f"{host}:{port}" if host == self.proxy else client_name(host)
        while not self._shares.take(client):
            own = [each for each, name in self._inside.items() if name == client]
            waiting = [each for each in own or self._inside if each.since is not None]
            if not waiting:
                return False
            longest = min(waiting, key=lambda each: each.since or 0.0)
            self.leave(longest)
            longest.transport.abort()
        self._inside[connection] = client
        return True

    def leave(self, connection: Connection) -> None:
        """Forget a connection, if it was let in."""
        client = self._inside.pop(connection, None)
        if client is not None:
            self._shares.give(client)


class Connection(H11Protocol):
    """An HTTP connection with a deadline on all that it waits for its client to do."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.since: float | None = None
        self._door = door
        self._phase: Phase | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer_ends = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let the connection in, or say why not."""
        super().connection_made(transport)
        # What a client does not read waits in the system too, which would let that grow to megabytes.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        host, port = self.client or ("", 0)
        if self._door.enter(self, host, port):
            self._look()
        else:
            transport.write(_refusal())
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room."""
        self._door.leave(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Go on with a request."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client has read some of its answer."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """Notice what the connection waits for, and set the deadline when that is new."""
        phase = self._waits_for()
        if phase == self._phase:
            return
        self._phase = phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if phase is None:
            self.since = None
            return
        now = self.loop.time()
        self.since, limits = now, self._door.limits
        if phase == "reading":
            # A client that reads a little now and then must still come to an end.
            self._answer_ends = self._answer_ends or now + limits.answer_seconds
            until = min(now + limits.stall_seconds, self._answer_ends)
        elif phase == "body":
            # The application says so when this time is over; the grace is for what no one reads.
            until = now + limits.body_seconds + _GRACE
        else:
            self._answer_ends = 0.0
            until = now + limits.head_seconds + (0 if self.cycle is None else KEPT_ALIVE)
        self._timer = self.loop.call_at(until, self.transport.abort)

    def _waits_for(self) -> Phase | None:
        """What the client has to do next; None if it is the server's turn."""
        if self.flow.write_paused or self.transport.is_closing():
            return "reading"
        if self.conn.their_state is h11.SEND_BODY:
            return "body"
        return "head" if self.conn.their_state is h11.IDLE else None


def _refusal() -> bytes:
    """What a client is told for whom there is no room."""
    told = "too many connections are open (close some, or try again in a minute)"
    answer = problem(503, "busy", told, {**HEADERS, "Connection": "close", "Retry-After": "5"})
    head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
    return b"HTTP/1.1 503 Service Unavailable\r\n%b\r\n%b" % (head, bytes(answer.body))
