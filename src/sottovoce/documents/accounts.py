# SPDX-License-Identifier: Apache-2.0
"""The JSON form of an account, a calibration and a graph, and what all documents say of network and protocol."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sottovoce._version import __version__
from sottovoce.documents.pairs import Count, EndsForm, Label, Pair, account_pair, plain_label, table_pairs
from sottovoce.errors import FileError, InputError
from sottovoce.forms import Form, json_text, read_form, strict_json
from sottovoce.graphs import twins
from sottovoce.protocols import CLIPPING, RECORDS, Losses
from sottovoce.scenarios import protocol_terms
from sottovoce.views import ONE_OBSERVER

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Sequence, Sized

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, WeightedGraph
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario

__all__ = [
    "HEAD",
    "MOST_EXPOSED",
    "PAIRS_IN_JSON",
    "SCHEMA",
    "AccountDocument",
    "Baselines",
    "CalibrationDocument",
    "DampingFacts",
    "Document",
    "GraphDocument",
    "GraphFacts",
    "PairSummary",
    "Sight",
    "Terms",
    "UpdatesFacts",
    "account_document",
    "as_json",
    "baselines",
    "calibration_document",
    "fits_json",
    "graph_document",
    "graph_facts",
    "pairs_possible",
    "part_seen",
    "protocol_facts",
    "read_account_json",
    "terms",
    "updates_facts",
    "view_pairs",
]

SCHEMA: Literal[2] = 2
PAIRS_IN_JSON = 100_000
MOST_EXPOSED = 10
SHOWN_LABELS = 10
_GOSSIP = re.compile(
    r"(?P<message>\S+) = (?P<terms>[^;]+); exchange (?P=message) → (?P<model>\S+); \d+ rounds?"
)

HEAD: dict[str, Any] = {"schema": SCHEMA, "version": __version__}
"""What every document begins with, after its kind."""


class Document(Form, frozen=True, kw_only=True, tag_field="kind"):
    """What every document says of itself: beside its kind, the schema and the version that wrote it."""

    schema: Literal[2]
    version: str


class GraphFacts(Form, frozen=True, kw_only=True):
    """Size, spectral gap and hash of a graph with its weights, their rule, and in words where they come from."""

    nodes: int
    edges: int
    gap: float
    hash: str
    rule: str
    origin: str


class DampingFacts(Form, frozen=True, kw_only=True):
    """The hash of a damping and, where all of it is at hand, its range."""

    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    hash: str


class UpdatesFacts(Form, frozen=True, kw_only=True):
    """Slopes of the maps by which nodes train (null where nothing is known of them), and what they ask for."""

    lower: float | None
    upper: float | None
    step_smoothness: float | UnsetType | None = UNSET
    losses: str | UnsetType | None = UNSET
    clipping: str | UnsetType = UNSET
    records: str | UnsetType = UNSET


class Sight(Document, frozen=True, kw_only=True):
    """Who sees what of which protocol, under which assumption; plain gossip that is damped also says by how much.

    `exchanges` stands where a view shows some exchanges of a round alone, counted from 1; without it, it shows all.
    """

    view: str
    own_noise: str
    exchanges: tuple[int, ...] | UnsetType = UNSET
    contribution: str
    assumption: str
    damping: DampingFacts | UnsetType = UNSET
    protocol: str
    program: str
    updates: UpdatesFacts | UnsetType = UNSET

    @property
    def gossips(self) -> bool:
        """Whether its sentence is that of gossip, damped or not, with fresh noise of level 1 on each contribution."""
        found = _GOSSIP.fullmatch(self.program)
        terms = [] if found is None else found["terms"].split(" + ", 3)
        if found is None or len(terms) > 3:
            return False
        fresh = [term for term in terms if not _is_damped(term, found["model"])]
        alone = all(term and "·" not in term and not _has_blanks(term) for term in fresh)
        return alone and len(fresh) == 2 and "contribution" in fresh


def _is_damped(term: str, model: str) -> bool:
    """Whether a term is the model, or a number times it: in one pass, as a sentence is a claim of any length."""
    bare = term.removesuffix("·(one number a node)")
    factor = bare.removesuffix(f"·{model}")
    return bare == model or (factor != bare and factor != "" and not _has_blanks(factor))


def _has_blanks(text: str) -> bool:
    """Whether there is any white space."""
    return any(map(str.isspace, text))


class Terms(Sight, frozen=True, kw_only=True):
    """What every number of a run rests on; the hash is that of the protocol over all rounds."""

    protocol_hash: str
    rounds: Count
    relation: str
    participation: str


class Baselines(Form, frozen=True, kw_only=True):
    """ε of local DP and of central aggregation at the same noise; null where there is nothing to compare with."""

    local: EndsForm | None
    central: EndsForm | None


class PairSummary(Form, frozen=True, kw_only=True):
    """The worst, the median and the best pair, and the worst pair of each of the most exposed nodes."""

    worst: Pair
    median: Pair
    best: Pair
    most_exposed: tuple[Pair, ...]


class AccountDocument(Terms, frozen=True, kw_only=True, tag="account"):
    """Every pair with the intervals of Δ², μ and ε; or, of very many, a summary and the file that holds them.

    `infinite` says which noise is missing where ε is infinite, `other_views` holds the same run in views that show
    less, `interrupted` says how far an account got, and `command` what was typed.
    """

    graph: GraphFacts
    noise_multiplier: float
    delta: float
    infinite: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    worst: Pair
    baselines: Baselines
    pairs: tuple[Pair, ...] | UnsetType = UNSET
    summary: PairSummary | UnsetType = UNSET
    pairs_file: str | UnsetType | None = UNSET
    other_views: tuple[AccountDocument, ...] | UnsetType = UNSET
    interrupted: str | UnsetType = UNSET
    command: str | UnsetType = UNSET


class CalibrationDocument(Terms, frozen=True, kw_only=True, tag="calibration"):
    """The noise that is enough, the pair that needs it, and what local DP and a trusted server give at that noise."""

    graph: GraphFacts
    target_epsilon: float
    target_delta: float
    noise_multiplier: float
    infinite: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    worst: Pair
    baselines: Baselines
    command: str | UnsetType = UNSET


class Degrees(Form, frozen=True, kw_only=True):
    """How many neighbours nodes have."""

    min: int
    median: float
    max: int


class ShownGraph(GraphFacts, frozen=True, kw_only=True):
    """A graph with its degrees and the names of its first nodes."""

    directed: bool
    degrees: Degrees
    labels: tuple[Label, ...]


class WeightsFacts(Form, frozen=True, kw_only=True):
    """Gossip weights: their rule and their spectrum."""

    rule: str
    symmetric: bool
    second_eigenvalue: float
    smallest_eigenvalue: float
    rho: float
    converged: bool


class TwinsFacts(Form, frozen=True, kw_only=True):
    """Nodes that all nodes weigh alike, and the most that secure sums of any training show about one of them.

    These are parts of Δ² of local DP, for observers outside the group and for those that are of it.
    """

    nodes: tuple[Label, ...]
    outside: float
    inside: float


class GraphDocument(Document, frozen=True, kw_only=True, tag="graph"):
    """A graph, its gossip weights, and the groups of its nodes that hide each other."""

    graph: ShownGraph
    weights: WeightsFacts
    twins: tuple[TwinsFacts, ...]


def account_document(
    table: AccountTable,
    network: WeightedGraph,
    *,
    beside: Sequence[AccountTable] = (),
    pairs_file: str | None = None,
    interrupted: str | None = None,
    command: str | None = None,
) -> AccountDocument:
    """The document of `table`: every pair, or above `PAIRS_IN_JSON` a summary and `pairs_file`.

    Tables `beside` it hold the same run in views that show less.
    """
    held: dict[str, Any] = {"summary": _summary(table), "pairs_file": pairs_file}
    if fits_json(table):
        held = {"pairs": tuple(table_pairs(table))}
    return AccountDocument(
        **HEAD,
        **terms(table),
        graph=graph_facts(network, table.protocol.schedule[0]),
        noise_multiplier=float(table.noise_multiplier),
        delta=float(table.delta),
        worst=account_pair(table.worst(), table.delta),
        baselines=baselines(table),
        **held,
        other_views=tuple(account_document(other, network, pairs_file=pairs_file) for other in beside)
        or UNSET,
        interrupted=interrupted or UNSET,
        command=command or UNSET,
    )


def fits_json(table: Sized) -> bool:
    """Whether a JSON object holds every pair of a table, and not a summary."""
    return len(table) <= PAIRS_IN_JSON


def calibration_document(
    table: AccountTable,
    network: WeightedGraph,
    *,
    target_epsilon: float,
    target_delta: float,
    command: str | None = None,
) -> CalibrationDocument:
    """The document of a calibration: `table` holds the accounts at the calibrated noise."""
    return CalibrationDocument(
        **HEAD,
        **terms(table),
        graph=graph_facts(network, table.protocol.schedule[0]),
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        noise_multiplier=float(table.noise_multiplier),
        worst=account_pair(table.worst(), target_delta),
        baselines=baselines(table),
        command=command or UNSET,
    )


def graph_document(network: WeightedGraph) -> GraphDocument:
    """The document that describes a graph and its gossip weights."""
    graph, weights, spectrum = network.graph, network.weights, network.spectrum
    degrees = sorted(graph.degrees.tolist())
    middle = (degrees[(graph.n - 1) // 2] + degrees[graph.n // 2]) / 2
    return GraphDocument(
        **HEAD,
        graph=ShownGraph(
            **msgspec.structs.asdict(graph_facts(network, weights)),
            directed=graph.directed,
            degrees=Degrees(min=degrees[0], median=middle, max=degrees[-1]),
            labels=tuple(plain_label(label) for label in graph.labels[:SHOWN_LABELS]),
        ),
        weights=WeightsFacts(
            rule=weights.rule,
            symmetric=weights.symmetric,
            second_eigenvalue=spectrum.second,
            smallest_eigenvalue=spectrum.smallest,
            rho=spectrum.rho,
            converged=spectrum.converged,
        ),
        twins=tuple(
            TwinsFacts(
                nodes=tuple(plain_label(weights.labels[k]) for k in group),
                outside=_share(len(group)),
                inside=_share(len(group) - 1),
            )
            for group in twins(weights)
        ),
    )


def _share(hidden: int) -> float:
    """One over so many hidden twins, not rounded below it."""
    return min(1.0, math.nextafter(1 / hidden, math.inf))


def as_json(document: object) -> str:
    """A document as strict JSON text in ASCII, ended by a new line."""
    return json_text(document, indent=2) + "\n"


def read_account_json(source: str | os.PathLike[str]) -> AccountDocument:
    """The account in a JSON file, or in JSON text itself."""
    text, name = _text(source)
    try:
        value = strict_json(text, "an account")
        if isinstance(value, dict) and (value.get("kind"), value.get("schema")) != ("account", SCHEMA):
            raise InputError(f"an account of schema {SCHEMA} was expected (give what account --json wrote)")
        return read_form(value, AccountDocument, "an account")
    except InputError as error:
        raise FileError(f"{name}: {error}") from None


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """JSON text and what to call it: `source` itself if it opens with a brace, else the file of that name."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "JSON text"
    try:
        return Path(source).read_text(encoding="utf-8"), Path(source).name
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{source}: cannot be read: {error} (check the path and the file)") from None


def graph_facts(network: WeightedGraph, weights: GossipWeights) -> GraphFacts:
    """What is said of a graph, with the weights that numbers were computed for."""
    return GraphFacts(
        nodes=network.graph.n,
        edges=network.graph.edges,
        gap=network.spectrum.gap,
        hash=weights.hash,
        rule=weights.rule,
        origin=weights.origin,
    )


def protocol_facts(protocol: Protocol) -> dict[str, Any]:
    """What is said of a protocol, as forms: name, program and hash, and its damping or its updates."""
    forms = {"damping": DampingFacts, "updates": UpdatesFacts}
    said = protocol_terms(protocol)
    return {name: forms[name](**value) if name in forms else value for name, value in said.items()}


def updates_facts(
    lower: float | None, upper: float | None, step_smoothness: float | None, losses: Losses | None
) -> UpdatesFacts:
    """What is said of the maps of training, given what is known of their slopes."""
    if lower is None:
        return UpdatesFacts(lower=None, upper=None)
    return UpdatesFacts(
        lower=lower,
        upper=upper,
        step_smoothness=step_smoothness,
        losses=losses,
        clipping=CLIPPING[losses],
        records=RECORDS,
    )


def part_seen(exchanges: tuple[int, ...] | None) -> tuple[int, ...] | UnsetType:
    """The exchanges of a round that a view is restricted to; nothing is said where it sees all of them."""
    return UNSET if exchanges is None else exchanges


def terms(table: AccountTable) -> dict[str, Any]:
    """What every number of the table rests on, and of how many pairs the table holds how many."""
    return {
        "rounds": table.protocol.rounds,
        "relation": table.relation,
        "view": table.view,
        "own_noise": table.own_noise,
        "exchanges": part_seen(table.scenario.exchanges),
        "contribution": table.contribution,
        "participation": str(table.participation),
        "assumption": table.assumption,
        **protocol_facts(table.protocol),
        "infinite": UNSET if table.bare is None else table.bare,
        "pairs_computed": len(table),
        "pairs_possible": pairs_possible(table),
    }


def pairs_possible(table: AccountTable) -> int:
    """How many pairs there are in the view of a table, whoever of its network observes and is observed."""
    return view_pairs(table.scenario, table.observers)


def view_pairs(scenario: Scenario, observers: Sequence[tuple[Hashable, ...]]) -> int:
    """How many pairs the view of a scenario has over all nodes; of coalitions those of `observers`."""
    n, name, own = scenario.protocol.n, scenario.view_name, scenario.own_noise == "known"
    if name in ONE_OBSERVER:
        return n * (n - own)
    if name.startswith("coalition"):
        return sum(n - own * len(members) for members in observers)
    return n if name == "everyone" else replace(scenario, targets=None).pairs


def baselines(table: AccountTable) -> Baselines:
    """What local DP and central aggregation give at the noise of a table."""
    # Whoever reads or checks a file needs no accountant.
    from sottovoce.accounting import Account, compared

    found = compared(table).items()
    return Baselines(
        **{name: EndsForm.of(each.epsilon()) if isinstance(each, Account) else None for name, each in found}
    )


def _summary(table: AccountTable) -> PairSummary:
    exposed = [account for _, account in table.most_exposed(MOST_EXPOSED)]
    return PairSummary(
        worst=account_pair(table.worst(), table.delta),
        median=account_pair(table.median(), table.delta),
        best=account_pair(table.best(), table.delta),
        most_exposed=tuple(account_pair(account, table.delta) for account in exposed),
    )
