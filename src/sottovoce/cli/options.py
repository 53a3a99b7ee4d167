# SPDX-License-Identifier: Apache-2.0
"""The options that several commands share, and the run that they describe."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from sottovoce.cli.printing import progress
from sottovoce.errors import InputError, positive

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy as np
    from cyclopts import Token
    from numpy.typing import NDArray

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, Graph
    from sottovoce.protocols import Protocol, Slopes
    from sottovoce.scenarios import Scenario

Answered = TypeVar("Answered")

__all__ = [
    "GOSSIP",
    "NO_MAPS",
    "SEEN",
    "USUAL_VIEWS",
    "AnySight",
    "Config",
    "Contribution",
    "Course",
    "Damping",
    "Delta",
    "Doing",
    "Effort",
    "Engine",
    "Json",
    "Label",
    "Maps",
    "MaxEpsilon",
    "Network",
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
    "Sight",
    "Skew",
    "Source",
    "TestShare",
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

ViewName = Literal[
    "everyone", "neighbourhood", "secure-sum", "single-node", "coalition-sums", "coalition-messages"
]
Relation = Literal["add-remove", "replace-one", "zero-out"]

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
    Literal["auto", "filter", "reduced"],
    Parameter(help="How to compute; it changes the time taken, not what is guaranteed."),
]
Effort = Annotated[
    Literal["auto", "fine", "bulk"],
    Parameter(
        help="Solve for each target (fine), or bound all together within a few per cent (bulk); by default "
        "fine while that takes minutes."
    ),
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
OwnNoise = Annotated[
    Literal["known", "hidden"], Parameter(help="Whether observers know the noise that they drew.")
]
Contribution = Annotated[
    Literal["vector", "scalar", "energy"],
    Parameter(
        help="Whether contributions are vectors, numbers, or vectors of norm 1 over all rounds together."
    ),
]
RelationName = Annotated[
    Relation,
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
        Literal["convex", "clipped", "smooth"] | None,
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
class Pairs:
    """Who observes whom, and what all of them do."""

    observer: Observers = ()
    target: Annotated[
        tuple[str, ...],
        Parameter(
            help="Name of a node to protect; repeat it for several. Without it, all nodes.",
            show_default=False,
            negative_iterable=(),
        ),
    ] = ()
    doing: Doing = GOSSIP
    own_noise: OwnNoise = "known"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Sight(Pairs, _Seen):
    """Who sees what of whom."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AnySight(Pairs, _MaybeSeen):
    """Who sees what of whom, or whom alone: then what is seen is looked at both ways that are usual."""

    def sights(self) -> list[Sight]:
        """One for the view that is named, or one for each of the usual two."""
        rest = {field.name: getattr(self, field.name) for field in fields(Pairs)}
        return [Sight(view=view, **rest) for view in ((self.view,) if self.view else USUAL_VIEWS)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Course:
    """How long nodes gossip, what counts as a neighbour, and how it is computed."""

    rounds: Rounds
    participation: ParticipationName = "full"
    relation: RelationName = "add-remove"
    engine: Engine = "auto"
    effort: Effort = "auto"


@dataclass(frozen=True, kw_only=True)
class Network:
    """A graph and the gossip weights on it."""

    graph: Graph
    weights: GossipWeights


def network(source: str | Graph, rule: str) -> Network:
    """The graph and weights that GRAPH and --weights describe."""
    from sottovoce.graphs import as_graph, weights_by_rule

    graph = as_graph(source)
    return Network(graph=graph, weights=weights_by_rule(graph, rule))


def protocol_of(network: Network, doing: Doing, *, rounds: int) -> Protocol:
    """The protocol on a network over some rounds that --protocol, --damping and --updates describe."""
    from sottovoce.protocols import gossip, parse_protocol

    protocol, damping = doing.protocol, doing.damping
    updates = _updates(doing.maps, network.weights.n)
    if protocol != "gossip":
        if damping is not None:
            raise InputError(
                f"damping must be left out with the protocol {protocol!r}; got {damping!r} "
                "(write the coefficients into a program)"
            )
        parsed = parse_protocol(protocol, network.weights, rounds=rounds)
        return parsed if updates is None else replace(parsed, updates=updates)
    if damping is None:
        return gossip(network.weights, rounds=rounds, updates=updates)
    try:
        value: float | NDArray[np.float64] = float(damping)
    except ValueError:
        from sottovoce.documents import read_damping

        value = read_damping(damping, network.weights)
    return gossip(network.weights, rounds=rounds, damping=value, updates=updates)


def _updates(maps: Maps, n: int) -> Slopes | Literal["any"] | None:
    """The slopes that the options describe, with where they come from; None where they say nothing."""
    from sottovoce.feedback import gradient_steps
    from sottovoce.protocols import checked_updates, parse_updates

    if maps.step_smoothness is None:
        if maps.losses is not None:
            raise InputError(
                f"--losses {maps.losses} says what steps are on, and their size is missing (add --step-smoothness)"
            )
        return None if maps.updates is None else checked_updates(parse_updates(maps.updates), n)
    if maps.updates is not None:
        raise InputError(
            f"--updates {maps.updates} and --step-smoothness say the same thing twice (leave one of them out)"
        )
    positive(**{"--step-smoothness": maps.step_smoothness})
    return gradient_steps(maps.step_smoothness, maps.losses, n)


def scenario_of(
    network: Network,
    sight: Sight,
    *,
    rounds: int,
    participation: str = "full",
    relation: Relation = "add-remove",
) -> Scenario:
    """The question that the options of a command ask about a network."""
    from sottovoce.scenarios import Scenario

    _check_observers(sight)
    return Scenario(
        protocol=protocol_of(network, sight.doing, rounds=rounds),
        view=sight.view,
        observers=_named(network.weights, sight.observer),
        own_noise=sight.own_noise,
        targets=_named(network.weights, sight.target),
        contribution=sight.doing.contribution,
        participation=participation,
        relation=relation,
    )


def accounted(
    course: Course, sight: Sight, network: Network, *, noise_multiplier: float, delta: float
) -> AccountTable:
    """The table of all pairs that are asked for."""
    from sottovoce.accounting import account_all

    return asked_of(account_all, course, sight, network, noise_multiplier=noise_multiplier, delta=delta)


def asked_of(
    verb: Callable[..., Answered], course: Course, sight: Sight, network: Network, **mechanism: float
) -> Answered:
    """What a verb of accounting answers to what the options ask, with progress for the view."""
    from sottovoce.scenarios import Effort

    asked = scenario_of(
        network, sight, rounds=course.rounds, participation=course.participation, relation=course.relation
    )
    with progress(f"pairs, {sight.view}") as callback:
        effort = Effort(engine=course.engine, depth=course.effort)
        return verb(asked, effort=effort, progress=callback, **mechanism)


def _check_observers(sight: Sight) -> None:
    """Refuse a coalition of no one, and an observer of everything."""
    if sight.view.startswith("coalition") and not sight.observer:
        raise InputError(
            f"the view {sight.view} needs the members of the coalition (repeat --observer for each)"
        )
    if sight.view == "everyone" and sight.observer:
        raise InputError(
            f"the view everyone takes no observer; got --observer {sight.observer[0]} (leave it out)"
        )


def _named(weights: GossipWeights, names: Sequence[str]) -> list[Hashable] | None:
    """The labels that are written like `names`, each once; None where all nodes are meant."""
    return list(dict.fromkeys(map(weights.written, names))) or None
