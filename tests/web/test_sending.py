# SPDX-License-Identifier: Apache-2.0
"""Answers on their way: the same bytes in parts, one copy for all who read it, and a bound on what waits."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest
from tests.servers import serving

from sottovoce.web.replies import Job, Progress
from sottovoce.web.sending import InParts, Outbox

if TYPE_CHECKING:
    from starlette.responses import Response

# Long names make long answers of few pairs: ten million bytes.
HUB, LEAVES = "h" * 250, [f"{number:03}" + "l" * 250 for number in range(110)]
STAR = "".join(f"{HUB} {leaf}\n" for leaf in LEAVES)
LARGE: dict[str, Any] = {"graph": {"kind": "text", "text": STAR}, "rounds": 1, "noise_multiplier": 4}


def sent(answer: Response) -> tuple[int, int, bytes]:
    """The status, the largest part and all bytes of an answer."""
    messages: list[Any] = []

    async def run() -> None:
        async def send(message: Any) -> None:
            messages.append(message)

        async def receive() -> Any:
            raise AssertionError

        await answer({"type": "http"}, receive, send)

    asyncio.run(run())
    parts = [message.get("body", b"") for message in messages[1:]]
    content = b"".join(parts)
    assert (b"content-length", str(len(content)).encode()) in messages[0]["headers"]
    assert [message.get("more_body", False) for message in messages[1:]] == [True] * (len(parts) - 1) + [
        False
    ]
    return messages[0]["status"], max(map(len, parts)), content


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**16 + 1, 10**6])
def test_parts_are_small_and_complete(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    status, largest, found = sent(InParts(content, b"end"))
    assert (status, found) == (200, content + b"end")
    assert largest <= 2**16


def test_a_result_stands_where_a_job_has_it() -> None:
    result = json.dumps({"text": '"result":null', "pairs": list(range(50_000))}).encode()
    job = Job('name"result":null', "done", Progress(1, 2), result)
    status, largest, content = sent(Outbox(10**7).answer(job, "someone", 202))
    assert status == 202
    assert largest <= 2**16
    assert json.loads(content) == {
        "id": 'name"result":null',
        "state": "done",
        "progress": {"done": 1, "total": 2},
        "result": json.loads(result),
        "error": None,
    }


def test_what_waits_to_be_read_is_bounded_for_each_client() -> None:
    outbox = Outbox(100)
    results = [b"[%038d]" % number for number in range(3)]
    first, second = (outbox.answer(Job("a", "done", None, results[0]), "greedy") for _ in range(2))
    refused = outbox.answer(Job("b", "done", None, results[1]), "greedy")
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "5"
    assert b"40 bytes of results wait to be read already (read them, or try again" in bytes(refused.body)
    other = outbox.answer(Job("c", "done", None, results[2]), "modest")
    assert sent(first)[0] == sent(other)[0] == 200
    # One reader is left, and holds what it reads.
    assert outbox.answer(Job("b", "done", None, results[1]), "greedy").status_code == 503
    assert sent(second)[0] == 200
    assert sent(outbox.answer(Job("b", "done", None, results[1]), "greedy"))[0] == 200


@pytest.mark.load
def test_forty_answers_that_no_one_reads_are_held_once() -> None:
    with serving("--workers", "1") as server:
        with httpx.Client(base_url=server.address, timeout=60) as client:
            job = client.post("/api/account?wait=30", json=LARGE).json()
            assert job["state"] == "done"
            size = len(json.dumps(job["result"]))
            assert size > 8_000_000
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        readers = []
        for _ in range(40):
            reader = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            reader.sendall(f"GET /api/jobs/{job['id']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            # The head has come, so the answer is on its way.
            assert reader.recv(15) == b"HTTP/1.1 200 OK"
            readers.append(reader)
        time.sleep(0.5)
        assert process.memory_info().rss - before < 3 * size
        assert httpx.get(f"{server.address}api/status", timeout=30).status_code == 200
        for reader in readers:
            reader.close()
