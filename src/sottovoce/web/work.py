# SPDX-License-Identifier: Apache-2.0
"""The work behind a request: a graph from its name or text, an account, a curve, a calibration."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace as replaced

from sottovoce import documents
from sottovoce.accounting import account_all, sampled_account, view_curve
from sottovoce.documents import (
    AccountDocument,
    CalibrationDocument,
    CurveDocument,
    NetworkDocument,
    PageDocument,
    SampledDocument,
)
from sottovoce.errors import FileError, InputError
from sottovoce.forms import Form, json_text
from sottovoce.graphs import (
    TOPOLOGIES,
    WeightedGraph,
    generate_graph,
    graph_size,
    matrix_size,
    parse_graph,
    parse_weights,
    read_topology,
    weights_by_rule,
)
from sottovoce.questions import Spelled, spelled_scenario, weight_sums
from sottovoce.scenarios import Effort
from sottovoce.spellings import name_and_rest, spelled
from sottovoce.web.reports import ReportFile, report_of
from sottovoce.web.requests import (
    AccountRequest,
    CalibrateRequest,
    CurveRequest,
    GraphFile,
    GraphRequest,
    PageRequest,
    ReportRequest,
    SampledRequest,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, Graph
    from sottovoce.scenarios import Scenario
    from sottovoce.web.limits import Limits
    from sottovoce.web.requests import Request

    Report = Callable[[int, int], None]
    Run = PageRequest | CurveRequest | AccountRequest | CalibrateRequest

__all__ = ["KINDS", "LimitError", "perform"]

_ENTITIES = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
ENDINGS = {"edgelist": (".edgelist", ".edges", ".txt")}
# A request for Δ² alone has no noise and no δ; the table wants some.
_UNIT, _DELTA = 1.0, 1e-5
# Requests hold the words of a question by their names.
WORDS = tuple(word.name for word in fields(Spelled) if word.name != "files")
# A spelling of some letters must not stand for a program, or a number, that fills the memory.
STEPS = 64
_LONG = re.compile(r"\d\.?[eE][+-]?\d{4}")


class LimitError(InputError):
    """A request that asks for more than this server gives."""


def perform(kind: str, request: Request, limits: Limits, progress: Report) -> bytes:
    """The result of a request of one of the `KINDS`, as JSON."""
    document = KINDS[kind].answer(request, limits, progress)
    return json_text(document, tight=True).encode()


def _graph(request: GraphRequest, limits: Limits, progress: Report) -> NetworkDocument:
    del progress
    network = _network(request, limits)
    return documents.network_document(network, network.weights)


def _page(request: PageRequest, limits: Limits, progress: Report) -> PageDocument:
    network = _network(request, limits)
    table = _table(request, network, limits, _UNIT, _DELTA, progress)
    return documents.page_document(table, network)


def _account(request: AccountRequest, limits: Limits, progress: Report) -> AccountDocument:
    network = _network(request, limits)
    table = _table(request, network, limits, request.noise_multiplier, request.delta, progress)
    return documents.account_document(table, network)


def _calibrate(request: CalibrateRequest, limits: Limits, progress: Report) -> CalibrationDocument:
    network = _network(request, limits)
    unit = _table(request, network, limits, _UNIT, request.target_delta, progress)
    table = unit.with_noise(unit.calibrated_noise(request.target_epsilon, request.target_delta))
    return documents.calibration_document(
        table,
        network,
        target_epsilon=request.target_epsilon,
        target_delta=request.target_delta,
    )


def _curve(request: CurveRequest, limits: Limits, progress: Report) -> CurveDocument:
    network = _network(request, limits)
    one_view = request.view == "everyone" or request.view.startswith("coalition")
    if not one_view and (request.observers is None or len(request.observers) != 1):
        raise InputError(
            f"a curve of the view {request.view} has one observer (name exactly one in observers)"
        )
    return documents.curve_document(view_curve(_scenario(request, network, limits), progress=progress))


def _sampled(request: SampledRequest, limits: Limits, progress: Report) -> SampledDocument:
    network = _network(request, limits)
    found = sampled_account(
        _scenario(request, network, limits),
        noise_multiplier=request.noise_multiplier,
        delta=request.delta,
        effort=_effort(request),
        progress=progress,
    )
    return documents.sampled_document(found, network)


def _report(request: ReportRequest, limits: Limits, progress: Report) -> ReportFile:
    network = _network(request, limits)
    views = [request.view, *([] if request.other_view in (None, request.view) else [request.other_view])]
    tables = [
        _table(
            replaced(request, view=view), network, limits, request.noise_multiplier, request.delta, progress
        )
        for view in views
    ]
    return report_of(request, tables, network, progress)


class Kind(NamedTuple):
    """A kind of request: its type, what answers it, and the type of that answer."""

    request: type
    answer: Callable[..., Form]
    result: type


KINDS = {
    "graph": Kind(GraphRequest, _graph, NetworkDocument),
    "page": Kind(PageRequest, _page, PageDocument),
    "account": Kind(AccountRequest, _account, AccountDocument),
    "calibrate": Kind(CalibrateRequest, _calibrate, CalibrationDocument),
    "curve": Kind(CurveRequest, _curve, CurveDocument),
    "sampled": Kind(SampledRequest, _sampled, SampledDocument),
    "report": Kind(ReportRequest, _report, ReportFile),
}
"""Each kind of request, by its name."""


def _network(request: GraphRequest, limits: Limits) -> WeightedGraph:
    """The graph and its weights, if they are small enough."""
    graph = _read(request.graph, limits)
    _check_graph(graph.n, graph.edges, limits)
    weights = _weights(graph, request, limits)
    return WeightedGraph(graph=graph, weights=weights)


def _weights(graph: Graph, request: GraphRequest, limits: Limits) -> GossipWeights:
    """The weights on a graph, by a rule or as a matrix of one's own."""
    if request.matrix is None:
        return weights_by_rule(graph, request.weights, weight_sums(request.protocol))
    if request.weights != "auto":
        raise InputError(
            f"weights must be left out beside a matrix of one's own; got {request.weights!r} and the matrix"
        )
    _check_matrix(request.matrix, "the matrix", limits)
    weights = parse_weights(graph, request.matrix, "the matrix", weight_sums(request.protocol))
    # What holds more entries than the graph has edges is as much work as such a graph.
    apart = weights.matrix.nnz - int(weights.matrix.diagonal().astype(bool).sum())
    _check_graph(weights.n, apart // 2 if weights.symmetric else apart, limits)
    return weights


def _check_matrix(text: str, name: str, limits: Limits) -> None:
    """Refuse a matrix that is too large, before it is built."""
    _within(matrix_size(text, name), limits.nodes, "nodes", "take a smaller graph, or the command line")


def _read(source: Source, limits: Limits) -> Graph:
    """A graph of a family, of those that topohub holds, or from text; no file is opened, whatever the name."""
    if isinstance(source, GraphFile):
        if _ENTITIES.search(source.text):
            raise FileError("a graph file must not declare a DOCTYPE or entities (export it again without)")
        if "\0" in source.text:
            raise FileError("a graph file must be text; found binary content (write an edge list)")
        if source.format == "mtx":
            _check_matrix(source.text, _called(source), limits)
        return parse_graph(source.text, _called(source))
    if name_and_rest(source.name)[0] == TOPOLOGIES:
        return read_topology(source.name)
    # What is too large is refused before it is built.
    _check_graph(*graph_size(source.name), limits)
    return generate_graph(source.name)


def _check_graph(nodes: int, edges: int, limits: Limits) -> None:
    _within(nodes, limits.nodes, "nodes", "take a smaller graph, or the command line")
    _within(edges, limits.edges, "edges", "take a sparser graph, or the command line")


def _called(source: GraphFile) -> str:
    """What a graph file is called: by its own name if that ends like its format."""
    name = source.name or ""
    endings = ENDINGS.get(source.format, (f".{source.format}",))
    return name if name.lower().endswith(endings) else f"graph.{source.format}"


def _table(
    request: Run, network: WeightedGraph, limits: Limits, noise: float, delta: float, progress: Report
) -> AccountTable:
    """The pairs that a request asks for."""
    asked = _scenario(request, network, limits)
    return account_all(asked, noise_multiplier=noise, delta=delta, effort=_effort(request), progress=progress)


def _effort(request: Run) -> Effort:
    return Effort(engine=request.engine, depth=request.effort, tolerance=request.tolerance)


def _scenario(request: Run, network: WeightedGraph, limits: Limits) -> Scenario:
    """What a request asks, if it is small enough; no file is opened, whatever a protocol is called."""
    _check_size(request, network, limits)
    if _LONG.search(request.program or request.protocol):
        raise LimitError(
            "this server takes numbers with exponents of at most 3 digits (write the number out)"
        )
    steps = spelled(request.protocol).keyed.get("steps", "")
    if steps.isdecimal():
        _within(int(steps), STEPS, "steps", "take fewer steps, or the command line")
    return spelled_scenario(network.weights, Spelled(**{word: getattr(request, word) for word in WORDS}))


def _check_size(request: Run, network: WeightedGraph, limits: Limits) -> None:
    """Refuse more rounds or pairs than the server takes, before any work."""
    _within(request.rounds, limits.rounds, "rounds", "take fewer rounds, or the command line")
    n = network.graph.n
    together = request.view == "everyone" or request.view.startswith("coalition")
    views = 1 if together else n if request.observers is None else len(set(request.observers))
    pairs = views * (n if request.targets is None else len(set(request.targets)))
    _within(pairs, limits.pairs, "pairs", "name fewer observers or targets, or use sottovoce sweep")


def _within(value: int, most: int, what: str, remedy: str) -> None:
    if value > most:
        raise LimitError(f"this server takes at most {most} {what}; got {value} ({remedy})")
