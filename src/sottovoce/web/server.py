# SPDX-License-Identifier: Apache-2.0
"""The server: the page, the API, and where it may listen."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from sottovoce._version import __version__
from sottovoce.errors import InputError
from sottovoce.page import FOLDER, INDEX, SCRIPTS, STYLE
from sottovoce.web.answers import About, AboutLimits, Problem
from sottovoce.web.guards import Guard, problem
from sottovoce.web.jobs import Busy, Jobs
from sottovoce.web.requests import content_hash
from sottovoce.web.schema import LONGEST_WAIT, openapi
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from sottovoce.web.limits import Limits

    Endpoint = Callable[[Request], Awaitable[Response]]

__all__ = ["application", "bound_socket", "check_access", "is_loopback", "listen"]

EXAMPLES = [
    "florentine",
    "karate",
    "les-miserables",
    "ring:n=20",
    "grid:rows=6,cols=6",
    "erdos-renyi:n=40,p=0.15,seed=1",
    "preferential:n=60,core=4,links=2,seed=1",
]
_STATUS = {"input": 422, "not-certified": 422, "limit": 422, "gone": 503, "time": 504, "internal": 500}
_BODY_SECONDS = 15.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
_SHORTEST_TOKEN = 16


def application(limits: Limits, *, hosts: tuple[str, ...] = _LOCAL, token: str | None = None) -> Starlette:
    """The server as an ASGI application; `hosts` are the names that it answers to, none for any."""
    jobs: Jobs | None = None

    def running() -> Jobs:
        assert jobs is not None
        return jobs

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        nonlocal jobs
        jobs = Jobs(limits)
        await jobs.start()
        yield
        await jobs.stop()

    described = json.dumps(openapi(token=token is not None)).encode()
    about = msgspec.json.encode(About(__version__, _told(limits), EXAMPLES))

    async def give_description(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def give_about(_: Request) -> Response:
        return Response(about, media_type="application/json")

    async def job(request: Request) -> Response:
        name = request.path_params["id"]
        try:
            if request.method == "DELETE":
                running().cancel(name)
                return Response(status_code=204)
            return Response(msgspec.json.encode(running().status(name)), media_type="application/json")
        except KeyError:
            return problem(
                404, "not-found", "there is no such job (it was cancelled, or forgotten; ask again)"
            )

    routes = [
        *_files(),
        Route("/openapi.json", give_description),
        Route("/api/about", give_about),
        *(Route(f"/api/{kind}", _submission(kind, limits, running), methods=["POST"]) for kind in KINDS),
        Route("/api/jobs/{id}", job, methods=["GET", "DELETE"]),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={404: _unknown, 405: _unknown, Exception: _broken},
    )


def _told(limits: Limits) -> AboutLimits:
    return AboutLimits(
        nodes=limits.nodes,
        edges=limits.edges,
        rounds=limits.rounds,
        pairs=limits.pairs,
        body=limits.body,
        seconds=limits.seconds,
    )


def _files() -> list[Route]:
    """The files of the page, read once: no name that a client sends is ever looked for."""
    kinds = {"js": "text/javascript", "css": "text/css", "html": "text/html"}
    scripts = "".join(f'<script src="assets/{name}"></script>\n' for name in SCRIPTS)
    page = FOLDER.joinpath(INDEX).read_text(encoding="utf-8").replace("<!-- scripts -->\n", scripts)
    files = {"/": (page.encode(), kinds["html"])}
    for name in (STYLE, *SCRIPTS):
        content = FOLDER.joinpath(name).read_bytes()
        files[f"/assets/{name}"] = (content, kinds[name.rpartition(".")[2]])

    def endpoint(content: bytes, kind: str) -> Endpoint:
        async def give(_: Request) -> Response:
            return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

        return give

    return [Route(path, endpoint(content, kind)) for path, (content, kind) in files.items()]


def _submission(kind: str, limits: Limits, running: Callable[[], Jobs]) -> Endpoint:
    """What takes requests of one kind."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(KINDS[kind][0])

    async def submit(request: Request) -> Response:
        body = await _body(request, limits.body)
        if isinstance(body, Response):
            return body
        try:
            seconds = _waiting_time(request.query_params)
            asked = decoder.decode(body)
        except (msgspec.DecodeError, InputError, UnicodeDecodeError) as error:
            return problem(400, "input", f"{error} (see /openapi.json for what is expected)")
        try:
            found = await running().submit(kind, msgspec.json.encode(asked), content_hash(kind, asked))
        except Busy as error:
            return problem(503, "busy", str(error), {"Retry-After": "5"})
        if found.state != "done" and seconds > 0:
            found = await running().wait(found.id, seconds)
        if found.error is not None:
            running().cancel(found.id)
            return _failure(found.error)
        status = 200 if found.state == "done" else 202
        return Response(msgspec.json.encode(found), status, media_type="application/json")

    return submit


def _waiting_time(parameters: object) -> float:
    """The number in ?wait=, which is the only parameter."""
    given = dict(parameters)  # type: ignore[call-overload]
    text = given.pop("wait", "0")
    if given:
        raise InputError(f"the only parameter is wait; got {next(iter(given))!r}")
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,20})?|[0-9](\.[0-9]{1,20})?e-[0-9]{1,3}", text) or not (
        0 <= float(text) <= LONGEST_WAIT
    ):
        raise InputError(f"wait must be a number of seconds from 0 to {LONGEST_WAIT:g}; got {text!r}")
    return float(text)


def _failure(error: Problem) -> Response:
    return problem(_STATUS[error.kind], error.kind, error.message)


async def _body(request: Request, most: int) -> bytes | Response:
    """The bytes of a request, unless they are too many, too slow, or not JSON."""
    too_large = problem(
        413, "limit", f"a request has at most {most} bytes (send a smaller graph, or use the command line)"
    )
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "media", "requests must be JSON (send Content-Type: application/json)")
    if request.headers.get("content-length", "0").isdecimal() and (
        int(request.headers.get("content-length", "0")) > most
    ):
        return too_large
    content = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    return too_large
    except TimeoutError:
        return problem(408, "time", "the request did not arrive in time (send it again)")
    return bytes(content)


async def _unknown(request: Request, error: Exception) -> Response:
    """There is nothing there, or not for this method."""
    if getattr(error, "status_code", 404) == 405:
        headers = getattr(error, "headers", None)
        return problem(
            405, "method", f"{request.method} is not for this address (see /openapi.json)", headers
        )
    return problem(404, "not-found", "there is nothing at this address (see /openapi.json)")


async def _broken(_: Request, error: Exception) -> Response:
    return problem(500, "internal", f"{type(error).__name__} (please report it)")


def is_loopback(host: str) -> bool:
    """Whether a server that listens at `host` can be reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_access(host: str, *, public: bool, token: str | None) -> None:
    """Refuse to listen where others can ask, unless that is meant and a token keeps strangers out."""
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(
            f"token must have at least {_SHORTEST_TOKEN} printable ASCII characters; got {len(token)} characters "
            "(python -c 'import secrets; print(secrets.token_urlsafe())' makes one)"
        )
    if is_loopback(host):
        return
    if not public:
        raise InputError(
            f"host must be a loopback address unless public access is asked for; got {host!r} "
            "(pass --public and --token, or --host 127.0.0.1)"
        )
    if token is None:
        raise InputError(
            f"a server at {host!r} can be reached by others and needs an access token (pass --token, or set "
            "SOTTOVOCE_SERVE_TOKEN)"
        )


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at `host` and `port`; 0 takes any free port."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port must be a whole number from 0 to 65535; got {port} (0 takes any free one)")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cannot listen at {host}:{port}: {reason} (choose another --port or --host)"
        ) from None


def listen(listener: socket.socket, limits: Limits, *, host: str, token: str | None) -> None:
    """Serve until interrupted."""
    import uvicorn

    # Who listens everywhere cannot know by which names it is called; the token keeps strangers out.
    hosts = (*_LOCAL, host.strip("[]")) if is_loopback(host) else ()
    config = uvicorn.Config(
        application(limits, hosts=hosts, token=token),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
        lifespan="on",
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listener])
