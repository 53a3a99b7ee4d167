# SPDX-License-Identifier: Apache-2.0
"""The server as an application: the page and the API."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from sottovoce._version import __version__
from sottovoce.errors import InputError
from sottovoce.forms import json_text
from sottovoce.page import FOLDER, INDEX, SCRIPTS, STYLE
from sottovoce.web.guards import Guard, problem
from sottovoce.web.jobs import Busy, Jobs
from sottovoce.web.replies import About, AboutLimits, Fault, Job
from sottovoce.web.requests import content_hash, read_request
from sottovoce.web.schema import LONGEST_WAIT, openapi
from sottovoce.web.sending import InParts, Outbox
from sottovoce.web.shares import FairShares, client_name
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from sottovoce.web.limits import Limits

    Endpoint = Callable[[Request], Awaitable[Response]]

__all__ = ["LOCAL", "application"]

EXAMPLES = [
    "florentine",
    "karate",
    "les-miserables",
    "ring:n=20",
    "grid:rows=6,cols=6",
    "cliques:base=ring,n=8,size=4",
    "erdos-renyi:n=40,p=0.15,seed=1",
    "preferential:n=60,core=4,links=2,seed=1",
]
_STATUS = {
    "input": 422,
    "not-certified": 422,
    "limit": 422,
    "gone": 503,
    "busy": 503,
    "time": 504,
    "internal": 500,
}
_NO_ONE = Response(status_code=499)
LOCAL = ("127.0.0.1", "localhost", "::1")


def application(limits: Limits, *, hosts: tuple[str, ...] = LOCAL, token: str | None = None) -> Starlette:
    """The server as an ASGI application; `hosts` are the names that it answers to, none for any."""
    jobs: Jobs | None = None
    outbox, inbox, waits = Outbox(limits.sending), FairShares(limits.arriving), FairShares(limits.waits)

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

    described = json_text(openapi(token=token is not None)).encode()
    about = msgspec.json.encode(About(__version__, _told(limits), EXAMPLES))

    async def give_description(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def give_about(_: Request) -> Response:
        return Response(about, media_type="application/json")

    async def give_status(_: Request) -> Response:
        return Response(msgspec.json.encode(running().health()), media_type="application/json")

    async def job(request: Request) -> Response:
        name = request.path_params["id"]
        try:
            if request.method == "DELETE":
                running().cancel(name)
                return Response(status_code=204)
            return outbox.answer(running().status(name), _client(request))
        except KeyError:
            return problem(
                404, "not-found", "there is no such job (it was cancelled, or forgotten; ask again)"
            )

    routes = [
        *_files(),
        Route("/openapi.json", give_description),
        Route("/api/about", give_about),
        Route("/api/status", give_status),
        *(
            Route(f"/api/{kind}", _submission(kind, limits, running, inbox, outbox, waits), methods=["POST"])
            for kind in KINDS
        ),
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
        answer=limits.answer,
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
            answer = InParts(content, kind=kind)
            answer.headers["Cache-Control"] = "no-cache"
            return answer

        return give

    return [Route(path, endpoint(content, kind)) for path, (content, kind) in files.items()]


def _client(request: Request) -> str:
    """Who asks, as far as shares go."""
    return client_name(request.client.host if request.client else "")


def _submission(
    kind: str,
    limits: Limits,
    running: Callable[[], Jobs],
    inbox: FairShares,
    outbox: Outbox,
    waits: FairShares,
) -> Endpoint:
    """What takes requests of one kind."""

    async def submit(request: Request) -> Response:
        body = await _body(request, limits, inbox)
        if isinstance(body, Response):
            return body
        asked: Any
        try:
            seconds = _waiting_time(request.query_params)
            asked, passed_on = read_request(body, KINDS[kind].request)
        except InputError as error:
            return problem(400, "input", f"{error} (see /openapi.json for what is expected)")
        client = _client(request)
        try:
            found = running().submit(kind, passed_on, content_hash(kind, asked), client)
        except Busy as error:
            return _failure(Fault("busy", str(error)))
        del body, asked, passed_on
        # To wait is a courtesy: whose share is used up gets the job at once, and asks for it later.
        if found.state != "done" and seconds > 0 and waits.take(client):
            try:
                waited = await _waited(request, running(), found, seconds)
            finally:
                waits.give(client)
            if waited is None:
                return _NO_ONE
            found = waited
        if found.error is not None:
            running().cancel(found.id)
            return _failure(found.error)
        return outbox.answer(found, client, 200 if found.state == "done" else 202)

    return submit


async def _waited(request: Request, jobs: Jobs, job: Job, seconds: float) -> Job | None:
    """The job after some time; None, and it is cancelled, if the client left: no one else knows of it."""
    waiting = asyncio.create_task(jobs.wait(job.id, seconds))
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        jobs.cancel(job.id)
        return None
    finally:
        waiting.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


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


def _failure(error: Fault) -> Response:
    headers = {"Retry-After": "5"} if error.kind == "busy" else None
    return problem(_STATUS[error.kind], error.kind, error.message, headers)


async def _body(request: Request, limits: Limits, inbox: FairShares) -> bytes | Response:
    """The bytes of a request, unless they are too many, too slow, or not JSON."""
    told = f"a request has at most {limits.body} bytes (send a smaller graph, or use the command line)"
    too_large = problem(413, "limit", told)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return problem(415, "media", "requests must be JSON (send Content-Type: application/json)")
    if request.headers.get("content-length", "0").isdecimal() and (
        int(request.headers.get("content-length", "0")) > limits.body
    ):
        return too_large
    client = _client(request)
    content = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                if len(content) + len(chunk) > limits.body:
                    return too_large
                if not inbox.take(client, len(chunk)):
                    waits = (
                        f"{inbox.total} bytes of requests are on their way already (try again in a minute)"
                    )
                    return _failure(Fault("busy", waits))
                content += chunk
    except TimeoutError:
        return problem(408, "time", "the request did not arrive in time (send it again)")
    except ClientDisconnect:
        return _NO_ONE
    finally:
        inbox.give(client, len(content))
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
