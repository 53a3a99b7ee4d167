# SPDX-License-Identifier: Apache-2.0
"""The options that several commands share, and the run that they describe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from sottovoce import vocabulary
from sottovoce.cli.printing import progress
from sottovoce.errors import InputError
from sottovoce.spellings import listed
from sottovoce.vocabulary import ViewName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cyclopts import Token

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import Graph, WeightedGraph
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Effort, Scenario

Answered = TypeVar("Answered")

__all__ = [
    "AS_TEXT",
    "GOSSIP",
    "NO_MAPS",
    "PAIRS_AS_TEXT",
    "SEEN",
    "SURROUNDINGS",
    "USUAL",
    "USUAL_VIEWS",
    "AnySight",
    "Config",
    "Contribution",
    "Course",
    "Damping",
    "Delta",
    "Depth",
    "Doing",
    "Engine",
    "Horizon",
    "Json",
    "Label",
    "Maps",
    "MaxEpsilon",
    "NoiseMultiplier",
    "Observers",
    "Output",
    "OwnNoise",
    "ParticipationName",
    "ProtocolName",
    "Regularisation",
    "RelationName",
    "ReportOption",
    "Rounds",
    "ShardSize",
    "Shown",
    "ShownPairs",
    "Sight",
    "Skew",
    "Source",
    "Spending",
    "Surroundings",
    "TestShare",
    "Tolerance",
    "ViewName",
    "ViewOption",
    "Weights",
    "Workers",
    "accounted",
    "asked_of",
    "network",
    "protocol_of",
    "scenario_of",
    "whole_number",
]

Source = Annotated[
    str,
    Parameter(
        help="A graph file (edge list, GraphML, GML, .mtx, .npy, .npz), or a name such as karate, ring:n=20, "
        "erdos-renyi:n=100,p=0.15,seed=1, cliques:base=ring,n=20,size=5 or topohub:topozoo/Geant2012."
    ),
]
Weights = Annotated[
    str,
    Parameter(
        help="Gossip weights: graph (those that the graph carries), metropolis, lazy, maximum-degree, "
        "laplacian:STEP, uniform, or a matrix file; auto is graph where it carries weights, else metropolis."
    ),
]
Damping = Annotated[
    str | None,
    Parameter(
        help="Account for gradient steps on quadratic losses: what 1 - step * curvature is, as a number for all nodes "
        "or a CSV file of node and number. Without it, contributions do not depend on hidden states.",
        show_default=False,
    ),
]
ProtocolName = Annotated[
    str,
    Parameter(
        name="--protocol",
        help="What nodes do each round: gossip, repeated:steps=3, chebyshev:steps=3, momentum:beta=0.9, "
        "gradient-tracking, exact-diffusion, pairwise-noise:local=1,shared=2, once:steps=8, clean-state:keep=0.5, "
        "push-sum, or a .toml file that holds a program.",
    ),
]
NoiseMultiplier = Annotated[
    float, Parameter(help="Standard deviation of each node's noise, in units of the clipping norm.")
]
Delta = Annotated[float, Parameter(help="The δ at which ε is given.")]
MaxEpsilon = Annotated[
    float | None, Parameter(help="Exit with code 3 if any ε exceeds this budget.", show_default=False)
]
Observers = Annotated[
    tuple[str, ...],
    Parameter(
        help="Name of an observing node; repeat it for several (each in turn, or one coalition). Without "
        "it, every node in turn.",
        show_default=False,
        negative_iterable=(),
    ),
]
Engine = Annotated[
    vocabulary.Engine,
    Parameter(help="How to compute; it changes the time taken, not what is guaranteed."),
]
Depth = Annotated[
    vocabulary.Depth,
    Parameter(
        help="Solve for each target (fine), or bound all together within a few per cent (bulk); by default "
        "fine while that takes minutes."
    ),
]
Tolerance = Annotated[
    float | None,
    Parameter(help="How far apart, relatively, the two ends of a number may stay.", show_default=False),
]
Json = Annotated[bool, Parameter(help="Print one JSON object instead of text.")]
ReportOption = Annotated[
    Path | None,
    Parameter(
        help="Write a report to this .html file: a page to look at, with everything in it.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None, Parameter(help="Write every pair to this CSV file, with all digits.", show_default=False)
]
Config = Annotated[
    Path | None,
    Parameter(help="Take defaults from this TOML file instead of sottovoce.toml.", show_default=False),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Shown:
    """How an answer is shown, and where its defaults are taken from, which happens before the command runs."""

    json: Json = False
    report: ReportOption = None
    config: Config = None


AS_TEXT = Shown()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ShownPairs:
    """The same of an answer whose pairs can be written to a file."""

    json: Json = False
    output: Output = None
    report: ReportOption = None
    config: Config = None


PAIRS_AS_TEXT = ShownPairs()


def whole_number(_: object, tokens: Sequence[Token]) -> int:
    """A whole number as it is written; 2.5 is refused and not cut off."""
    token = tokens[0]
    try:
        return int(token.value)
    except ValueError:
        source = "" if token.source in {"", "cli"} else f" from {token.source}"
        raise ValueError(f'unable to convert "{token.value}"{source} into a whole number.') from None


Rounds = Annotated[int, Parameter(help="How many rounds T the nodes gossip.", converter=whole_number)]
Workers = Annotated[
    int, Parameter(help="How many processes compute at the same time.", converter=whole_number)
]
Label = Annotated[
    str | None,
    Parameter(
        help="The column of a CSV file that holds the labels; the last by default.", show_default=False
    ),
]
Regularisation = Annotated[
    float, Parameter(name="--l2", help="Weight of the regularisation, half the squared norm of a model.")
]
ShardSize = Annotated[
    int | None,
    Parameter(
        help="The public number that each node divides its sum by, and the most records that a node gets. Bundled "
        "data have a published one; for a file it has to be given.",
        show_default=False,
        converter=whole_number,
    ),
]
Skew = Annotated[
    float | None,
    Parameter(
        help="Deal the records by Dirichlet proportions with this parameter; small is skewed. Without it, at "
        "random in equal parts.",
        show_default=False,
    ),
]
TestShare = Annotated[float, Parameter(help="The share of records held out to test on.")]
ParticipationName = Annotated[
    str,
    Parameter(
        help="In which rounds a target contributes: full, fixed:1,5,9, every:4 (at an unknown phase), "
        "every:4,offset=2, at-most:5, separated:3, separated:3,at-most=5, epochs:8 (once in every eight "
        "rounds), or, for account and calibrate, poisson:0.1 (by a coin in each round)."
    ),
]
SEEN = (
    "What an observer sees: every message, those of its neighbours, the weighted sum it receives, its own messages; "
    "or what several observers (the coalition) see together."
)
ViewOption = Annotated[ViewName, Parameter(help=SEEN)]
# The one that shows more comes first, so that it is there when an interrupt comes.
USUAL_VIEWS: tuple[ViewName, ...] = ("neighbourhood", "secure-sum")
OwnNoise = Annotated[vocabulary.OwnNoise, Parameter(help="Whether observers know the noise that they drew.")]
Contribution = Annotated[
    vocabulary.Contribution,
    Parameter(
        help="Whether contributions are vectors, numbers, or vectors of norm 1 over all rounds together."
    ),
]
Exchanges = Annotated[
    str | None,
    Parameter(
        help="Which exchanges of a round are seen, counted from 1, as in 1,3; all of them if left out.",
        show_default=False,
    ),
]
RelationName = Annotated[
    vocabulary.Relation,
    Parameter(help="Which data are neighbours; replace-one moves a contribution twice as far."),
]


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What is seen."""

    view: ViewOption


@dataclass(frozen=True, kw_only=True)
class _MaybeSeen:
    """What is seen, if that is said."""

    view: Annotated[
        ViewName | None,
        Parameter(
            help=f"{SEEN} Without it secure-sum and neighbourhood stand side by side.", show_default=False
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Maps:
    """By which maps nodes update what they received: those of training."""

    updates: Annotated[
        str | None,
        Parameter(
            help="Account for training: the slopes of every node's update map lie between two numbers (0.9,1, say), "
            "or nothing is known of the maps (any).",
            show_default=False,
        ),
    ] = None
    step_smoothness: Annotated[
        float | None,
        Parameter(
            help="Account for training by gradient steps: the step size times the public smoothness of one record's "
            "loss, in place of --updates.",
            show_default=False,
        ),
    ] = None
    losses: Annotated[
        vocabulary.Losses | None,
        Parameter(
            help="Which losses these steps are on: convex (the default; clipping never active, or of scalar models), "
            "clipped (convex, gradient vectors clipped), or smooth (not convex, clipped or not).",
            show_default=False,
        ),
    ] = None


NO_MAPS = Maps()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Doing:
    """What the nodes of a graph do, and what a target contributes."""

    weights: Weights = "auto"
    damping: Damping = None
    protocol: ProtocolName = "gossip"
    maps: Maps = NO_MAPS
    contribution: Contribution = "vector"


GOSSIP = Doing()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What all nodes do, and what of it an observer hears and knows."""

    doing: Doing = GOSSIP
    own_noise: OwnNoise = "known"
    exchanges: Exchanges = None

    def seen(self, view: ViewName, *, observer: tuple[str, ...] = (), target: tuple[str, ...] = ()) -> Sight:
        """The same with who sees what of whom."""
        given = {field.name: getattr(self, field.name) for field in fields(Surroundings)}
        return Sight(view=view, observer=observer, target=target, **given)


SURROUNDINGS = Surroundings()


@dataclass(frozen=True, kw_only=True)
class _Named:
    """Who observes whom."""

    observer: Observers = ()
    target: Annotated[
        tuple[str, ...],
        Parameter(
            help="Name of a node to protect; repeat it for several. Without it, all nodes.",
            show_default=False,
            negative_iterable=(),
        ),
    ] = ()


# Options stand in the order of the classes from right to left: what is seen, by whom and of whom, and the rest.
@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Sight(Surroundings, _Named, _Seen):
    """Who sees what of whom."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AnySight(Surroundings, _Named, _MaybeSeen):
    """Who sees what of whom, or whom alone: then what is seen is looked at both ways that are usual."""

    def sights(self) -> list[Sight]:
        """One for the view that is named, or one for each of the usual two."""
        views = (self.view,) if self.view else USUAL_VIEWS
        return [self.seen(view, observer=self.observer, target=self.target) for view in views]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Spending:
    """What may be spent on an answer; no number depends on it for what it guarantees."""

    engine: Engine = "auto"
    effort: Depth = "auto"
    tolerance: Tolerance = None

    def effort_of(self, workers: int = 1) -> Effort:
        """The same as the value that verbs take."""
        from sottovoce.scenarios import Effort

        return Effort(engine=self.engine, depth=self.effort, tolerance=self.tolerance, workers=workers)


USUAL = Spending()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How long nodes gossip, and in which of the rounds a target contributes."""

    rounds: Rounds
    participation: ParticipationName = "full"

    def under(self, relation: vocabulary.Relation = "add-remove") -> Course:
        """The same with what counts as a neighbour, where nothing is spent on it."""
        return Course(rounds=self.rounds, participation=self.participation, relation=relation)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Course(Horizon):
    """The same with what counts as a neighbour, and what may be spent on the answer."""

    relation: RelationName = "add-remove"
    spending: Spending = USUAL


def network(source: str | Graph, rule: str, protocol: str = "gossip") -> WeightedGraph:
    """The graph and weights that GRAPH and --weights describe, for what nodes do with them."""
    from sottovoce.graphs import WeightedGraph, as_graph, weights_by_rule
    from sottovoce.protocols import weight_sums

    graph = as_graph(source)
    return WeightedGraph(graph=graph, weights=weights_by_rule(graph, rule, weight_sums(protocol)))


def protocol_of(network: WeightedGraph, doing: Doing, *, rounds: int) -> Protocol:
    """The protocol on a network over some rounds that --protocol, --damping and --updates describe."""
    from sottovoce.questions import SpelledProtocol, spelled_protocol

    return spelled_protocol(network.weights, SpelledProtocol(rounds=rounds, **_spelled(doing)))


def scenario_of(network: WeightedGraph, sight: Sight, course: Course, *, searched: bool = False) -> Scenario:
    """The question that the options of a command ask about a network; a coalition that is searched has no members."""
    from sottovoce.questions import Spelled, spelled_scenario

    words = Spelled(
        rounds=course.rounds,
        view=sight.view,
        observers=sight.observer,
        own_noise=sight.own_noise,
        exchanges=_numbered(sight.exchanges),
        targets=sight.target,
        contribution=sight.doing.contribution,
        participation=course.participation,
        relation=course.relation,
        **_spelled(sight.doing),
    )
    return spelled_scenario(network.weights, words, searched=searched)


def _numbered(text: str | None) -> tuple[int, ...] | None:
    """The exchanges that --exchanges lists."""
    if text is None:
        return None
    parts = listed(text)
    if not all(part.isdecimal() and len(part) < 7 and int(part) for part in parts):
        raise InputError(f"--exchanges must list whole numbers from 1 on; got {text!r} (write 1,3, say)")
    return tuple(map(int, parts))


def _spelled(doing: Doing) -> dict[str, Any]:
    """The words that say what nodes do."""
    return {"files": True, "protocol": doing.protocol, "damping": doing.damping, **asdict(doing.maps)}


def accounted(
    course: Course, sight: Sight, network: WeightedGraph, *, noise_multiplier: float, delta: float
) -> AccountTable:
    """The table of all pairs that are asked for."""
    from sottovoce.accounting import account_all

    return asked_of(account_all, course, sight, network, noise_multiplier=noise_multiplier, delta=delta)


def asked_of(
    verb: Callable[..., Answered], course: Course, sight: Sight, network: WeightedGraph, **mechanism: float
) -> Answered:
    """What a verb of accounting answers to what the options ask, with progress for the view."""
    asked = scenario_of(network, sight, course)
    with progress(f"pairs, {sight.view}") as callback:
        return verb(asked, effort=course.spending.effort_of(), progress=callback, **mechanism)
