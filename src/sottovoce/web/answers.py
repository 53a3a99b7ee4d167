# SPDX-License-Identifier: Apache-2.0
"""What clients get, as typed and described values; the results are the documents of `sottovoce.documents`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "About",
    "AccountResult",
    "Answer",
    "CalibrationResult",
    "CurveResult",
    "Job",
    "NetworkResult",
    "PageResult",
    "Problem",
    "ProblemKind",
    "Progress",
    "State",
    "Status",
    "Workers",
]

State = Literal["waiting", "running", "done", "failed", "cancelled"]
ProblemKind = Literal[
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
Label = int | str


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, in a sentence that names the value, the rule and the remedy."""

    kind: ProblemKind
    message: str


class Answer(msgspec.Struct, frozen=True):
    """An error."""

    error: Problem


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
    error: Problem | None = None


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


class Ends(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interval; null stands for infinity."""

    lower: float | None
    upper: float | None


class SquaredEnds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The interval of Δ² and the bound that proves its upper end."""

    lower: float | None
    upper: float | None
    method: str


class PairResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one observer (or coalition) can learn about one target."""

    observer: list[Label]
    target: Label
    sensitivity_squared: SquaredEnds
    mu: Ends
    epsilon: Ends


class GraphFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Size, spectral gap and hash of a graph with its weights, their rule, and in words where they come from."""

    nodes: int
    edges: int
    gap: float
    hash: str
    rule: str
    origin: str


class NetworkResult(GraphFacts, frozen=True, forbid_unknown_fields=True):
    """A graph to draw: each edge once, as the positions of its ends."""

    directed: bool
    labels: list[Label]
    links: list[tuple[int, int]]


class UpdatesFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Slopes of the maps by which nodes train (null where nothing is known of them), and what they ask for."""

    lower: float | None
    upper: float | None
    step_smoothness: float | None = None
    losses: str | None = None
    clipping: str | None = None
    records: str | None = None


class _Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every number rests on."""

    schema: int
    version: str
    rounds: int
    relation: str
    view: str
    own_noise: str
    contribution: str
    participation: str
    assumption: str
    pairs_computed: int
    pairs_possible: int
    protocol: str | msgspec.UnsetType = msgspec.UNSET
    program: str | msgspec.UnsetType = msgspec.UNSET
    protocol_hash: str | msgspec.UnsetType = msgspec.UNSET
    updates: UpdatesFacts | msgspec.UnsetType = msgspec.UNSET
    infinite: str | msgspec.UnsetType = msgspec.UNSET


class AccountResult(_Terms, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every pair with the intervals of Δ², μ and ε."""

    graph: GraphFacts
    noise_multiplier: float
    delta: float
    pairs: list[PairResult]


class CalibrationResult(_Terms, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The noise that is enough, and the pair that needs it."""

    graph: GraphFacts
    target_epsilon: float
    target_delta: float
    noise_multiplier: float
    worst: PairResult


class CurveResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Δ² for growing numbers of rounds; `counts` is that of local DP in plain gossip, and empty for a program."""

    observers: list[int]
    rounds: list[int]
    counts: list[int]
    worst: list[Ends]
    median: list[Ends]
    best: list[Ends]


class PairColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pairs by columns: positions of observers, targets and methods, and the ends of Δ²."""

    observer: list[int]
    target: list[int]
    method: list[int]
    lower: list[float | None]
    upper: list[float | None]


class _Part(_Terms, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Δ² of every pair of one view by columns."""

    noise_multiplier: float
    delta: float
    assumption_text: str
    factor: int
    local_squared: Ends | None
    central_squared: Ends | None
    observers: list[list[int]]
    observers_left_out: int
    epsilon_upper: float | None
    methods: list[str]
    pairs: PairColumns
    curves: list[CurveResult]


class PageResult(_Part, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Δ² of every pair by columns, with the network."""

    graph: NetworkResult
    beside: list[_Part]
