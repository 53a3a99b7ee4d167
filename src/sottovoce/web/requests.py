# SPDX-License-Identifier: Apache-2.0
"""What clients may ask, as typed and described values."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal, TypeVar

import msgspec

from sottovoce._version import __version__
from sottovoce.errors import InputError
from sottovoce.forms import read_form, strict_json
from sottovoce.vocabulary import Contribution, Depth, Engine, Losses, OwnNoise, Relation, ViewName

__all__ = [
    "AccountRequest",
    "CalibrateRequest",
    "CurveRequest",
    "GraphFile",
    "GraphRequest",
    "NamedGraph",
    "PageRequest",
    "ReportRequest",
    "Request",
    "SampledRequest",
    "Source",
    "content_hash",
    "read_request",
]

Asked = TypeVar("Asked")

Label = int | Annotated[str, msgspec.Meta(max_length=200)]
Names = Annotated[list[Label], msgspec.Meta(min_length=1)]
Rounds = Annotated[int, msgspec.Meta(ge=1, description="Rounds T of gossip.", examples=[20])]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Tolerance = Annotated[
    float,
    msgspec.Meta(gt=0, le=1, description="How far apart, relatively, the two ends of a number may stay."),
]
Probability = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Rule = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(auto|metropolis|lazy|maximum-degree|uniform|graph|laplacian:[0-9./]{1,20})$",
        description="How gossip weights are built; auto takes those that the graph carries, else Metropolis.",
        examples=["auto", "metropolis"],
    ),
]
Matrix = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        description="Gossip weights of one's own, as the text of a Matrix Market file; weights is left out then.",
    ),
]
Participation = Annotated[
    str, msgspec.Meta(max_length=200, description="Rounds in which a target contributes.", examples=["full"])
]
Spelling = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=500,
        description="What nodes do each round, as --protocol spells it; no file is opened.",
        examples=["gossip", "momentum:beta=0.9"],
    ),
]
Exchanges = Annotated[
    list[Annotated[int, msgspec.Meta(ge=1)]],
    msgspec.Meta(
        min_length=1,
        max_length=100,
        description="Which exchanges of a round are seen, counted from 1; all of them if left out.",
        examples=[[1, 3]],
    ),
]
ProgramText = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=10_000,
        description="A program of one's own, as the text of a TOML file; protocol is left out then.",
    ),
]
Damping = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        description="Gradient steps on quadratic losses: what 1 - step * curvature is, as a number for all nodes, "
        "or as the text of a CSV file of nodes and numbers.",
        examples=["0.9"],
    ),
]
Updates = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=100,
        description="Training: the slopes of every node's update map, or any where nothing is known of them.",
        examples=["0.9,1", "any"],
    ),
]


class NamedGraph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="name", tag_field="kind"):
    """A graph of a known family, such as karate or ring:n=20, or a real network, such as topohub:topozoo/Geant2012."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200, examples=["karate", "ring:n=6"])]


class GraphFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text", tag_field="kind"):
    """The text of a graph file, its format, and what messages call it; nothing is opened by that name."""

    text: Annotated[str, msgspec.Meta(min_length=1, examples=["a b\nb c\nc a\n"])]
    format: Literal["edgelist", "csv", "tsv", "graphml", "gml", "mtx"] = "edgelist"
    name: Annotated[str, msgspec.Meta(max_length=200)] | None = None


Source = NamedGraph | GraphFile


class GraphRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Read a graph."""

    graph: Source
    weights: Rule = "auto"
    matrix: Matrix | None = None
    protocol: Spelling = "gossip"


class _Run(GraphRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who gossips how long, and who sees what of whom."""

    rounds: Rounds
    program: ProgramText | None = None
    view: ViewName = "neighbourhood"
    own_noise: OwnNoise = "known"
    exchanges: Exchanges | None = None
    observers: Names | None = None
    targets: Names | None = None
    damping: Damping | None = None
    updates: Updates | None = None
    step_smoothness: Positive | None = None
    losses: Losses | None = None
    contribution: Contribution = "vector"
    participation: Participation = "full"
    relation: Relation = "add-remove"
    engine: Engine = "auto"
    effort: Depth = "auto"
    tolerance: Tolerance | None = None


class PageRequest(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Δ² of every pair by columns, for any noise and any δ."""


class CurveRequest(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Δ² of the worst, the median and the best target of one view, for growing numbers of rounds."""


class AccountRequest(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """(ε, δ) of every pair, as `sottovoce account --json` writes it."""

    noise_multiplier: Positive
    delta: Probability = 1e-5


class CalibrateRequest(_Run, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The noise that keeps every pair within a budget, as `sottovoce calibrate --json` writes it."""

    target_epsilon: Positive
    target_delta: Probability = 1e-5


class SampledRequest(AccountRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """ε of the worst pair asked about where records take part by coins, as `sottovoce account --json` writes it."""


class ReportRequest(AccountRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The report of an account, as `sottovoce account --report` writes it, perhaps with another view beside it."""

    other_view: ViewName | None = None
    max_epsilon: Positive | None = None


Request = GraphRequest | PageRequest | CurveRequest | AccountRequest | CalibrateRequest


def read_request(body: bytes, kind: type[Asked]) -> tuple[Asked, bytes]:
    """The request in the bytes of a client, and the bytes that it is passed on as; refused in a sentence.

    Whoever calls this has limited the size of the body.
    """
    try:
        read = read_form(strict_json(body.decode(), "the body", "request"), kind, "the request", "request")
        return read, msgspec.json.encode(read)
    except UnicodeError as error:
        raise InputError(f"the body is text in UTF-8; {error}") from None
    except RecursionError:
        raise InputError("the body is nested too deeply") from None


def content_hash(kind: str, request: Request) -> str:
    """The same for equal requests of one kind and version, different otherwise."""
    content = msgspec.json.encode([__version__, kind, request])
    return hashlib.sha256(content).hexdigest()
