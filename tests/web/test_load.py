# SPDX-License-Identifier: Apache-2.0
"""Fifty clients at once: no error, and memory that does not grow with what was asked."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import psutil
import pytest
from tests.servers import serving

CLIENTS = 50
WAVES = 3
RUN: dict[str, Any] = {"graph": {"kind": "name", "name": "ring:n=8"}, "rounds": 5}


async def visitor(address: str, number: int, wave: int) -> list[int]:
    """What one visitor does: look around, ask for something shared and something of its own, wait for it."""
    # There is no TLS here, and reading its certificates fifty times is no part of the load.
    async with httpx.AsyncClient(base_url=address, timeout=60, verify=False) as client:
        answers = [await client.get("/"), await client.get("/assets/vendor/cytoscape.min.js")]
        answers.append(await client.post("/api/page?wait=30", json=RUN))
        own = {**RUN, "rounds": 2 + (number + 7 * wave) % 25}
        job = await client.post("/api/page", json=own)
        answers.append(job)
        body = job.json()
        while body["state"] in {"waiting", "running"}:
            await asyncio.sleep(0.05)
            found = await client.get(f"/api/jobs/{body['id']}")
            answers.append(found)
            body = found.json()
        assert body["state"] == "done", body
        assert body["result"]["rounds"] == own["rounds"]
        answers.append(await client.delete(f"/api/jobs/{body['id']}"))
        return [answer.status_code for answer in answers]


async def wave(address: str, number: int) -> set[int]:
    found = await asyncio.gather(*(visitor(address, k, number) for k in range(CLIENTS)))
    return {status for statuses in found for status in statuses}


def memory(process: psutil.Process) -> int:
    """Bytes that the server and its workers hold."""
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


@pytest.mark.load
def test_fifty_clients_are_served_and_memory_stays_flat() -> None:
    with serving() as server:
        process = psutil.Process(server.process.pid)
        assert asyncio.run(wave(server.address, 0)) <= {200, 202, 204}
        first = memory(process)
        for number in range(1, WAVES):
            assert asyncio.run(wave(server.address, number)) <= {200, 202, 204}
        assert memory(process) - first < 40 * 2**20
