# SPDX-License-Identifier: Apache-2.0
"""What clients get around a result, which is a document of `sottovoce.documents`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "About",
    "ErrorReply",
    "Fault",
    "FaultKind",
    "Job",
    "Progress",
    "State",
    "Status",
    "Workers",
]

State = Literal["waiting", "running", "done", "failed", "cancelled"]
FaultKind = Literal[
    "input",
    "not-certified",
    "limit",
    "time",
    "busy",
    "access",
    "not-found",
    "method",
    "media",
    "gone",
    "internal",
]


class Fault(msgspec.Struct, frozen=True):
    """What went wrong, in a sentence that names the value, the rule and the remedy."""

    kind: FaultKind
    message: str


class ErrorReply(msgspec.Struct, frozen=True):
    """An error."""

    error: Fault


class Progress(msgspec.Struct, frozen=True):
    """How many of how many pairs are done."""

    done: int
    total: int


class Job(msgspec.Struct, frozen=True):
    """A job: its state, how far it is, and in the end its result or its error."""

    id: str
    state: State
    progress: Progress | None = None
    result: Any = None
    error: Fault | None = None


class AboutLimits(msgspec.Struct, frozen=True):
    """The limits of this server that matter to who asks."""

    nodes: int
    edges: int
    rounds: int
    pairs: int
    body: int
    answer: int
    seconds: float


class About(msgspec.Struct, frozen=True):
    """Version and limits of the server, and graphs to begin with."""

    version: str
    limits: AboutLimits
    examples: list[str]


class Workers(msgspec.Struct, frozen=True):
    """The processes that compute: how many there should be, are ready and are at work, and what was lost."""

    wanted: int
    ready: int
    running: int
    lost: int
    trouble: str | None


class Status(msgspec.Struct, frozen=True):
    """How the server is: its workers, the jobs that wait for one, and the requests that are remembered."""

    workers: Workers
    waiting: int
    tickets: int
