# SPDX-License-Identifier: Apache-2.0
"""How much a server does for those who ask."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sottovoce.documents import PAIRS_IN_JSON
from sottovoce.errors import InputError, at_least, positive

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on requests, jobs and memory; whatever exceeds one is refused with the number and a remedy.

    Of connections, jobs that wait, tickets and bytes under way, one client gets as much as is left free, so at most
    half (`FairShares`).

    Attributes:
        nodes: nodes of a graph.
        edges: edges of a graph.
        rounds: rounds of a run.
        pairs: pairs of observers and targets in one answer.
        body: bytes of a request.
        answer: bytes of a result.
        seconds: time for one job.
        workers: jobs that are computed at the same time, each in a process of its own.
        waiting: jobs that may wait for a worker.
        tickets: requests that are remembered until they are asked for again.
        patience: seconds after which a request that no one asks for is forgotten, and its job cancelled.
        cache: bytes of results that are kept.
        memory: MiB that a worker may take.
        connections: connections that are open at the same time.
        head_seconds: time in which the head of a request has to arrive.
        body_seconds: time in which the body of a request has to arrive.
        stall_seconds: time in which a client has to read the next part of its answer.
        answer_seconds: time in which a client has to read a whole answer.
    """

    nodes: int = 2_000
    edges: int = 100_000
    rounds: int = 10_000
    pairs: int = PAIRS_IN_JSON
    body: int = 2_000_000
    answer: int = 32_000_000
    seconds: float = 60.0
    workers: int = 2
    waiting: int = 64
    tickets: int = 1_000
    patience: float = 120.0
    cache: int = 64_000_000
    memory: int = 4_096
    connections: int = 256
    head_seconds: float = 10.0
    body_seconds: float = 15.0
    stall_seconds: float = 10.0
    answer_seconds: float = 120.0

    @property
    def arriving(self) -> int:
        """Bytes of requests that may be on their way in."""
        return 32 * self.body

    @property
    def waits(self) -> int:
        """Connections on which the server may keep its client waiting; the others can be dropped for new ones."""
        return (self.connections + 1) // 2

    @property
    def sending(self) -> int:
        """Bytes of results that may be on their way out."""
        return 4 * self.answer

    @property
    def overrun(self) -> str:
        """What is said of a job that takes too long."""
        seconds = "1 second" if self.seconds == 1 else f"{self.seconds:g} seconds"
        remedy = "take fewer rounds, observers or targets, or the command line"
        return f"the job took longer than {seconds} ({remedy})"

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing, and answers that the JSON form cannot hold."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, float):
                positive(**{field.name: value})
            else:
                at_least(1, **{field.name: value})
        if self.pairs > PAIRS_IN_JSON:
            raise InputError(
                f"pairs must be at most {PAIRS_IN_JSON}, which is what one JSON answer holds; got {self.pairs} "
                "(use sottovoce sweep for more)"
            )
