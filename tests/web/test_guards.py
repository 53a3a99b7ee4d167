# SPDX-License-Identifier: Apache-2.0
"""Who is let through: the right host, no foreign page, the token; and headers on every answer."""

from __future__ import annotations

import asyncio
import hmac
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sottovoce.web.guards import POLICY
from sottovoce.web.limits import Limits
from sottovoce.web.server import application

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = "a-token-of-some-length"


def fetched(
    path: str, headers: Mapping[str, str] | None = None, method: str = "GET", **settings: Any
) -> httpx.Response:
    """The answer of an application without a network."""

    async def fetch() -> httpx.Response:
        transport = httpx.ASGITransport(app=application(Limits(), **settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(fetch())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "[::1]:8765", "LOCALHOST"])
def test_own_names_are_answered(host: str) -> None:
    assert fetched("/api/about", {"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example:1",
        "evil.example@localhost",
        "localhost:1@evil.example",
        "localhost#evil.example",
        "localhost/evil.example",
        "localhost:port",
        "",
        "[::1",
    ],
)
def test_a_name_that_others_gave_is_refused(host: str) -> None:
    for path in ("/", "/api/about", "/assets/page.css"):
        answer = fetched(path, {"Host": host})
        assert answer.status_code == 403
        assert "this server answers to 127.0.0.1, ::1, localhost" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:2"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://[::1"},
        {"Origin": "http://[evil]"},
        {"Origin": "//"},
        {"Origin": "http://127.0.0.1:1/page"},
        {"Origin": "http://evil.example@127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_pages_are_refused(headers: dict[str, str]) -> None:
    answer = fetched("/api/about", headers)
    assert answer.status_code == 403
    assert "requests from other pages are refused" in answer.json()["error"]["message"]
    assert fetched("/api/about", {"Origin": "http://127.0.0.1:1"}).status_code == 200


def test_one_foreign_page_among_two_is_enough() -> None:
    both = httpx.Headers([("Origin", "http://127.0.0.1:1"), ("Origin", "https://evil.example")])
    assert fetched("/api/about", both).status_code == 403


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (None, 401),
        ("", 401),
        (TOKEN, 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_the_token_is_asked_for(given: str | None, status: int) -> None:
    answer = fetched("/api/about", None if given is None else {"Authorization": given}, token=TOKEN)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert TOKEN not in answer.text
    assert fetched("/", token=TOKEN).status_code == 200


def test_the_token_is_looked_at_before_anything_else() -> None:
    strange = {"Host": "evil.example", "Origin": "http://[::1", "Content-Type": "text/plain"}
    assert fetched("/api/page", strange, "POST", token=TOKEN).status_code == 401
    assert fetched("/api/nothing", strange, "PUT", token=TOKEN).status_code == 401


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def never(given: bytes, token: bytes) -> bool:
        compared.append((given, token))
        return False

    monkeypatch.setattr(hmac, "compare_digest", never)
    assert fetched("/api/about", {"Authorization": f"Bearer {TOKEN}"}, token=TOKEN).status_code == 401
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


@pytest.mark.parametrize("path", ["/", "/assets/main.js", "/api/about", "/nothing", "/api/nothing"])
def test_headers_are_on_every_answer(path: str) -> None:
    answer = fetched(path)
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self';")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert ("no-store" in answer.headers.get("Cache-Control", "")) == path.startswith("/api/")
    assert "Access-Control-Allow-Origin" not in answer.headers
