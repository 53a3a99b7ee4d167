# SPDX-License-Identifier: Apache-2.0
"""Connections that keep the server waiting: every deadline, and room for honest clients at all times.

The server is real, the deadlines are short, and no test expects anything to happen fast: only that it happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.web.connections import Door
from sottovoce.web.limits import Limits
from sottovoce.web.listening import bound_socket, server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Scene = Callable[[int], Awaitable[None]]

pytestmark = pytest.mark.load

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ABOUT = HALF.replace(b"/ ", b"/api/about ") + b"\r\n"
SCRIPT = HALF.replace(b"/ ", b"/assets/vendor/cytoscape.min.js ")
POST = b"POST /api/page HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
LONG = b'{"graph": {"kind": "name", "name": "ring:n=60"}, "rounds": 5000, "view": "neighbourhood"}'
NEVER = 1000.0
PATIENT = {"head_seconds": NEVER, "body_seconds": NEVER, "stall_seconds": NEVER, "answer_seconds": NEVER}


def play(scene: Scene, *, token: str | None = None, proxy: str | None = None, **limits: Any) -> None:
    """Run a scene against a server of its own; every deadline that is not given is out of reach."""

    async def run() -> None:
        listener = bound_socket("127.0.0.1", 0)
        chosen = Limits(**{"workers": 1, **PATIENT, **limits})
        running = server(chosen, host="127.0.0.1", token=token, proxy=proxy)
        task = asyncio.create_task(running.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(60):
                while not running.started:
                    await asyncio.sleep(0.02)
                await scene(listener.getsockname()[1])
        finally:
            running.should_exit = True
            await task

    asyncio.run(run())


async def opened(port: int, first: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which something has been sent and which reads no further than it is asked to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**12)
    writer.write(first)
    return reader, writer


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes the connection."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(2**16):
            content += part
    return content


async def asked(port: int, request: bytes = ABOUT) -> int:
    """The status of an answer to an honest client."""
    reader, writer = await opened(port, request.replace(b"Host:", b"Connection: close\r\nHost:"))
    content = await closed(reader)
    writer.close()
    return int(content.split(b" ", 2)[1])


@pytest.mark.parametrize("head", [b"", b"GET", HALF, b"GET / HTTP/1.1\r\nX: " + b"x" * 5000])
def test_a_head_has_to_arrive_in_time(head: bytes) -> None:
    async def scene(port: int) -> None:
        reader, writer = await opened(port, head)
        assert await closed(reader) == b""
        writer.close()

    play(scene, head_seconds=0.3)


def test_a_head_that_trickles_has_to_arrive_in_time() -> None:
    async def scene(port: int) -> None:
        reader, writer = await opened(port, HALF)
        ending = asyncio.create_task(closed(reader))
        with contextlib.suppress(ConnectionError):
            while not ending.done():
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.05)
        assert await ending == b""
        writer.close()

    play(scene, head_seconds=0.5)


@pytest.mark.parametrize(
    ("request_head", "part"),
    [
        (POST + b"Content-Length: 1000\r\n\r\n", b" "),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        # No one reads the body of these.
        (ABOUT[:-2] + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (POST.replace(b"page", b"nothing") + b"Content-Length: 1000\r\n\r\n", b" "),
        (b"DELETE /api/jobs/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n", b""),
    ],
)
def test_a_body_has_to_arrive_in_time(
    request_head: bytes, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sottovoce.web.connections._GRACE", 0.3)

    async def scene(port: int) -> None:
        reader, writer = await opened(port, request_head)
        ending = asyncio.create_task(closed(reader))
        with contextlib.suppress(ConnectionError):
            while not ending.done():
                writer.write(part)
                await asyncio.sleep(0.05)
        status = (await ending).split(b" ", 2)[1]
        assert status in {b"408", b"200", b"404"}
        writer.close()

    play(scene, body_seconds=0.4)


@pytest.mark.parametrize("deadline", ["stall_seconds", "answer_seconds"])
def test_an_answer_has_to_be_read_in_time(deadline: str) -> None:
    async def scene(port: int) -> None:
        # The system between server and client holds some answers; the last ones are left to wait.
        reader, writer = await opened(port, (SCRIPT + b"\r\n") * 100)
        if deadline == "answer_seconds":
            # A little now and then does not help.
            for _ in range(10):
                await reader.read(1000)
                await asyncio.sleep(0.1)
        await until_gone(writer)
        content = await closed(reader)
        assert content.count(b"HTTP/1.1 200 OK") < 100

    async def until_gone(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)

    limits: dict[str, Any] = {deadline: 0.5}
    play(scene, **limits)


@pytest.mark.parametrize(
    "held",
    [
        HALF,
        b"",
        POST + b"Content-Length: 1000\r\n\r\n{",
        POST + b"Transfer-Encoding: chunked\r\n\r\n",
        ABOUT,
    ],
    ids=["head", "nothing", "body", "chunks", "idle"],
)
def test_260_connections_that_wait_do_not_shut_an_honest_client_out(held: bytes) -> None:
    async def scene(port: int) -> None:
        connections = [await opened(port, held) for _ in range(260)]
        for _ in range(3):
            assert await asked(port) == 200
        for _, writer in connections:
            writer.close()

    play(scene)


def test_260_readers_who_do_not_read_do_not_shut_an_honest_client_out() -> None:
    async def scene(port: int) -> None:
        connections = [await opened(port, (SCRIPT + b"\r\n") * 20) for _ in range(260)]
        assert await asked(port) == 200
        for _, writer in connections:
            writer.transport.abort()

    play(scene)


def test_a_client_for_whom_there_is_no_room_is_told() -> None:
    long = POST.replace(b"page", b"page?wait=20") + b"Content-Length: %d\r\n\r\n%b" % (len(LONG), LONG)

    async def scene(port: int) -> None:
        _, waiting = await opened(port, long)
        # Until it waits for the server, which is nothing to drop it for.
        await asyncio.sleep(0.5)
        reader, writer = await opened(port, ABOUT)
        content = await closed(reader)
        assert content.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nretry-after: 5\r\n" in content.lower()
        assert json.loads(content.rpartition(b"\r\n\r\n")[2])["error"]["message"] == (
            "too many connections are open (close some, or try again in a minute)"
        )
        writer.close()
        waiting.close()
        while await asked(port) != 200:
            await asyncio.sleep(0.05)

    play(scene, connections=1)


def test_260_clients_who_wait_for_a_job_do_not_shut_an_honest_client_out() -> None:
    long = POST.replace(b"page", b"page?wait=30") + b"Content-Length: %d\r\n\r\n%b" % (len(LONG), LONG)

    async def scene(port: int) -> None:
        connections = [await opened(port, long) for _ in range(260)]
        assert await asked(port) == 200
        for _, writer in connections:
            writer.transport.abort()

    play(scene)


class Half:
    """A connection that keeps the server waiting since some time."""

    def __init__(self, since: float | None) -> None:
        self.since = since
        self.gone = False
        self.transport = self

    def abort(self) -> None:
        self.gone = True


def test_who_waits_longest_goes_first_and_among_ones_own() -> None:
    door: Any = Door(Limits(connections=5))
    other, busy, old, new = Half(0.0), Half(None), Half(1.0), Half(2.0)
    assert door.enter(other, "192.0.2.1", 1)
    assert door.enter(busy, "192.0.2.2", 1)
    assert door.enter(old, "192.0.2.2", 2)
    assert door.enter(new, "192.0.2.2", 3)
    assert (other.gone, busy.gone, old.gone, new.gone) == (False, False, True, False)
    last = Half(3.0)
    assert door.enter(last, "192.0.2.2", 4)
    assert (other.gone, new.gone) == (False, True)
    last.since = None
    assert not door.enter(Half(4.0), "192.0.2.2", 5)
    door.leave(old)
    assert not door.enter(Half(4.0), "192.0.2.2", 5)
    assert door.enter(Half(4.0), "192.0.2.3", 1)


def test_connections_of_a_proxy_are_not_one_client() -> None:
    door: Any = Door(Limits(connections=10), proxy="127.0.0.1")
    halves = [Half(None) for _ in range(11)]
    assert [door.enter(half, "127.0.0.1", port) for port, half in enumerate(halves)] == [True] * 10 + [False]


@pytest.mark.parametrize(("proxy", "clients"), [(None, 1), ("127.0.0.1", 2)])
def test_only_a_proxy_that_is_named_is_believed(proxy: str | None, clients: int) -> None:
    head = POST + b"X-Forwarded-For: 192.0.2.%d\r\nContent-Length: %d\r\n\r\n"

    async def scene(port: int) -> None:
        statuses = [await asked(port, head % (number, len(LONG)) + LONG) for number in (1, 2)]
        assert statuses == [202] * clients + [503] * (2 - clients)

    play(scene, proxy=proxy, tickets=2, seconds=NEVER)
