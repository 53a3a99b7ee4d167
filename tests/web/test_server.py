# SPDX-License-Identifier: Apache-2.0
"""The server as a client meets it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.servers import Server, serving

from sottovoce import __version__
from sottovoce.graphs import as_graph
from sottovoce.page import SCRIPTS, STYLE
from sottovoce.web.server import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN: dict[str, Any] = {"graph": {"kind": "name", "name": "ring:n=6"}, "rounds": 4}
LONG = {"graph": {"kind": "name", "name": "ring:n=60"}, "rounds": 5000, "view": "neighbourhood"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving("--max-body", "5000", "--time-limit", "2", "--workers", "1") as found:
        yield found


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=30) as found:
        yield found


def test_the_page_and_its_files_are_given(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    for name in (STYLE, *SCRIPTS):
        assert f'"assets/{name}"' in page.text
        assert client.get(f"/assets/{name}").status_code == 200
    assert "<!-- scripts -->" not in page.text


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../pyproject.toml",
        "/assets/..%2f..%2fetc/passwd",
        "/assets//etc/passwd",
        "/assets/__init__.py",
        "/index.html",
        "/api/",
    ],
)
def test_nothing_else_is_given(path: str, client: httpx.Client) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["kind"] == "not-found"


def test_about_tells_version_and_limits(client: httpx.Client) -> None:
    about = client.get("/api/about").json()
    assert about["version"] == __version__
    assert about["limits"]["body"] == 5000
    assert about["examples"] == EXAMPLES
    assert all(as_graph(name).n <= about["limits"]["nodes"] for name in EXAMPLES)


def test_a_job_is_submitted_asked_for_and_done(client: httpx.Client) -> None:
    job = client.post("/api/account", json={**RUN, "noise_multiplier": 3})
    assert job.status_code == 202
    name = job.json()["id"]
    for _ in range(200):
        found = client.get(f"/api/jobs/{name}").json()
        if found["state"] == "done":
            break
        time.sleep(0.05)
    assert len(found["result"]["pairs"]) == 30
    again = client.post("/api/account", json={**RUN, "noise_multiplier": 3})
    assert again.status_code == 200
    assert again.json()["result"] == found["result"]
    assert client.delete(f"/api/jobs/{name}").status_code == 204
    assert client.delete(f"/api/jobs/{name}").status_code == 404
    assert "there is no such job" in client.get(f"/api/jobs/{name}").json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/page?wait=20", {**RUN, "observers": [9]}, 422, "no node is called 9"),
        (
            "/api/page?wait=20",
            {**RUN, "rounds": 20_000},
            422,
            "this server takes at most 10000 rounds; got 20000",
        ),
        ("/api/page?wait=20", LONG, 504, "the job took longer than 2 seconds"),
        ("/api/page?wait=31", RUN, 400, "wait must be a number of seconds from 0 to 30; got '31'"),
        ("/api/page?wait=nan", RUN, 400, "wait must be a number"),
        ("/api/page?speed=1", RUN, 400, "the only parameter is wait; got 'speed'"),
        ("/api/page", {**RUN, "rounds": -1}, 400, "rounds must be a whole number of at least 1; got -1"),
        ("/api/page", [], 400, "the request must be a JSON object; got a list of 0"),
    ],
)
def test_mistakes_are_json_with_a_remedy(
    path: str, body: Any, status: int, message: str, client: httpx.Client
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/json"
    assert message in answer.json()["error"]["message"]


def test_bodies_are_checked_before_they_are_read(client: httpx.Client) -> None:
    text = {"Content-Type": "text/plain"}
    assert client.post("/api/page", content=json.dumps(RUN), headers=text).status_code == 415
    typed = {"Content-Type": "application/json"}
    assert client.post("/api/page", content="{", headers=typed).status_code == 400
    assert client.post("/api/page", content=b"\xff\xfe", headers=typed).status_code == 400
    assert client.post("/api/page", content="[" * 4000, headers=typed).status_code == 400
    # What is no field is gone through all the same, in search of the tag.
    deep = '{"graph": {"x": ' + "[" * 2400 + "]" * 2400 + ', "kind": "name", "name": "karate"}, "rounds": 2}'
    answer = client.post("/api/page", content=deep, headers=typed)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "input")
    large = client.post("/api/page", content=b" " * 5001, headers=typed)
    assert (large.status_code, large.json()["error"]["kind"]) == (413, "limit")

    def chunks() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    assert client.post("/api/page", content=chunks(), headers=typed).status_code == 413


def test_other_methods_are_refused(client: httpx.Client) -> None:
    for method, path in (("GET", "/api/page"), ("PUT", "/api/about"), ("POST", "/")):
        answer = client.request(method, path)
        assert answer.status_code == 405
        assert answer.headers["Allow"]
        assert answer.json()["error"]["kind"] == "method"


@pytest.mark.load
def test_the_page_stays_responsive_while_jobs_run(client: httpx.Client) -> None:
    job = client.post("/api/page", json={**LONG, "rounds": 6000}).json()["id"]
    slowest = 0.0
    for _ in range(20):
        start = time.monotonic()
        assert client.get("/api/about").status_code == 200
        slowest = max(slowest, time.monotonic() - start)
    assert client.delete(f"/api/jobs/{job}").status_code == 204
    assert slowest < 1


@pytest.mark.load
def test_an_interrupt_ends_server_and_workers() -> None:
    with serving() as server:
        httpx.post(f"{server.address}api/page", json=LONG, timeout=30)
        assert server.end() == 130
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.address, timeout=5)
