# SPDX-License-Identifier: Apache-2.0
"""The API described in OpenAPI, from the types that read and write it."""

from __future__ import annotations

from typing import Any

import msgspec

from sottovoce._version import __version__
from sottovoce.web.replies import About, ErrorReply, Job, Status
from sottovoce.web.work import KINDS

__all__ = ["LONGEST_WAIT", "openapi"]

LONGEST_WAIT = 30.0
SUMMARIES = {
    "graph": "A graph and its weights, to draw",
    "page": "Δ² of every pair by columns",
    "account": "(ε, δ) of every pair",
    "calibrate": "The noise that is enough for a budget",
    "curve": "Δ² against rounds",
    "sampled": "ε where records take part by coins",
    "report": "The report of an account, as a file",
}
ERRORS = {
    "400": "The request is not what is described here",
    "401": "The access token is missing or wrong",
    "403": "The request came from another page, or for another host",
    "408": "The request did not arrive in time",
    "413": "The request has too many bytes",
    "415": "The request is not JSON",
    "422": "A value breaks a rule, a limit, or nothing could be certified",
    "500": "An internal error",
    "503": "Too much is asked at the same time",
    "504": "The job took too long",
}


def openapi(*, token: bool) -> dict[str, Any]:
    """The whole description; `token` says whether the server asks for one."""
    types = [
        About,
        ErrorReply,
        Job,
        Status,
        *(each for kind in KINDS.values() for each in (kind.request, kind.result)),
    ]
    refs, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    found = dict(zip(types, refs, strict=True))
    paths: dict[str, Any] = {
        "/api/about": {"get": _told("about", "Version and limits", found[About], found[ErrorReply])},
        "/api/status": {"get": _told("status", "How the server is", found[Status], found[ErrorReply])},
    }
    for name, kind in KINDS.items():
        result = found[kind.result]
        paths[f"/api/{name}"] = {
            "post": _submit(name, found[kind.request], result, found[Job], found[ErrorReply])
        }
    paths["/api/jobs/{id}"] = _job(found[Job], found[ErrorReply])
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Sottovoce",
            "version": __version__,
            "description": "What each node of a gossip network can learn about each other node.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if token:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _errors(answer: dict[str, Any], *codes: str) -> dict[str, Any]:
    return {code: {"description": ERRORS[code], "content": _content(answer)} for code in codes}


def _told(name: str, summary: str, value: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": summary,
        "operationId": name,
        "responses": {
            "200": {"description": summary, "content": _content(value)},
            **_errors(answer, "401", "403"),
        },
    }


def _submit(
    kind: str, request: dict[str, Any], result: dict[str, Any], job: dict[str, Any], answer: dict[str, Any]
) -> dict[str, Any]:
    done = {"allOf": [job, {"properties": {"state": {"const": "done"}, "result": result}}]}
    return {
        "summary": SUMMARIES[kind],
        "operationId": kind,
        "parameters": [
            {
                "name": "wait",
                "in": "query",
                "description": "Seconds to wait for the result before a job is answered.",
                "schema": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0},
            }
        ],
        "requestBody": {"required": True, "content": _content(request)},
        "responses": {
            "200": {"description": "Done, with the result", "content": _content(done)},
            "202": {"description": "A job, to be asked for by its id", "content": _content(job)},
            **_errors(answer, *ERRORS),
        },
    }


def _job(job: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    missing = {"404": {"description": "No such job", "content": _content(answer)}}
    identifier = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    refused = _errors(answer, "401", "403")
    return {
        "parameters": [identifier],
        "get": {
            "summary": "How a job stands, and in the end its result",
            "operationId": "job",
            "responses": {
                "200": {"description": "The job", "content": _content(job)},
                **missing,
                **refused,
                **_errors(answer, "503"),
            },
        },
        "delete": {
            "summary": "Cancel a job",
            "operationId": "cancel",
            "responses": {"204": {"description": "Cancelled"}, **missing, **refused},
        },
    }
