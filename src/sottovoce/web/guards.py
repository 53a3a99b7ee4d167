# SPDX-License-Identifier: Apache-2.0
"""What stands before every request: who may ask, for which host, and what an answer lets a browser do."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from sottovoce.web.replies import ErrorReply, Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "POLICY", "Guard", "problem"]

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9A-Za-z.-]+))(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://([^/?#@\s]+)")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def problem(status: int, kind: FaultKind, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error as JSON."""
    content = msgspec.json.encode(ErrorReply(Fault(kind, message)))
    return Response(content, status, headers, "application/json")


class Guard:
    """Lets through what is meant for this server, comes from its own page or from no page, and bears the token."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], token: str | None) -> None:
        self.app = app
        self.hosts = frozenset(hosts)
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused, pass on the rest, and put the headers on every answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/api/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        refused = self._refusal(Headers(scope=scope), scope["path"])
        await (refused or self.app)(scope, receive, send_guarded)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        """Why a request is refused, if it is; the token is looked at first."""
        if self.token is not None and path.startswith("/api/"):
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self.token.encode()
            ):
                told = "the access token is missing or wrong (send it as Authorization: Bearer …)"
                return problem(401, "access", told, {"WWW-Authenticate": "Bearer"})
        host = headers.get("host", "")
        # A name that someone else's page made point here is not one of ours.
        if self.hosts and _bare(host) not in self.hosts:
            known = ", ".join(sorted(self.hosts))
            return problem(
                403, "access", f"this server answers to {known}; got {host!r} (use its own address)"
            )
        if any(_place(origin) != host for origin in headers.getlist("origin")) or (
            headers.get("sec-fetch-site") == "cross-site" and path.startswith("/api/")
        ):
            return problem(
                403, "access", "requests from other pages are refused (open the page of this server)"
            )
        return None


def _place(origin: str) -> str | None:
    """Host and port of an origin; None if it is not one, which is nobody's page."""
    found = _ORIGIN.fullmatch(origin)
    return found and found[1]


def _bare(host: str) -> str:
    """A host without its port; empty if it is not one."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""
