# SPDX-License-Identifier: Apache-2.0
"""The work behind a request: a graph from its name or text, an account, a curve, a calibration."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
from sottovoce.feedback import gradient_steps
from sottovoce.forms import Form, plain
from sottovoce.graphs import generate_graph, graph_size, parse_graph, spectrum, weights_by_rule
from sottovoce.protocols import (
    Protocol,
    checked_updates,
    gossip,
    parse_program,
    parse_protocol,
    parse_updates,
)
from sottovoce.scenarios import Effort, Scenario
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
    from collections.abc import Callable, Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, Graph, Spectrum
    from sottovoce.web.limits import Limits
    from sottovoce.web.requests import Request

    Report = Callable[[int, int], None]
    Run = PageRequest | CurveRequest | AccountRequest | CalibrateRequest

__all__ = ["KINDS", "LimitError", "perform"]

_ENTITIES = re.compile(r"<!\s*(DOCTYPE|ENTITY)", re.IGNORECASE)
ENDINGS = {"edgelist": (".edgelist", ".edges", ".txt")}
# A request for Δ² alone has no noise and no δ; the table wants some.
_UNIT, _DELTA = 1.0, 1e-5
# A spelling of some letters must not stand for a program, or a number, that fills the memory.
STEPS = 64
_STEPS, _LONG = re.compile(r"\bsteps=(\d+)"), re.compile(r"\d\.?[eE][+-]?\d{4}")


class LimitError(InputError):
    """A request that asks for more than this server gives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Network:
    graph: Graph
    weights: GossipWeights
    spectrum: Spectrum


def perform(kind: str, request: Request, limits: Limits, progress: Report) -> bytes:
    """The result of a request of one of the `KINDS`, as JSON."""
    document = KINDS[kind].answer(request, limits, progress)
    return json.dumps(plain(document), allow_nan=False, separators=(",", ":")).encode()


def _graph(request: GraphRequest, limits: Limits, progress: Report) -> NetworkDocument:
    del progress
    network = _network(request, limits)
    return documents.network_document(network.graph, network.weights, network.spectrum)


def _page(request: PageRequest, limits: Limits, progress: Report) -> PageDocument:
    network = _network(request, limits)
    table = _table(request, network, limits, _UNIT, _DELTA, progress)
    return documents.page_document(table, network.graph, network.spectrum)


def _account(request: AccountRequest, limits: Limits, progress: Report) -> AccountDocument:
    network = _network(request, limits)
    table = _table(request, network, limits, request.noise_multiplier, request.delta, progress)
    return documents.account_document(table, network.graph, network.spectrum)


def _calibrate(request: CalibrateRequest, limits: Limits, progress: Report) -> CalibrationDocument:
    network = _network(request, limits)
    unit = _table(request, network, limits, _UNIT, request.target_delta, progress)
    table = unit.with_noise(unit.calibrated_noise(request.target_epsilon, request.target_delta))
    return documents.calibration_document(
        table,
        network.graph,
        network.spectrum,
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
    return documents.sampled_document(found, network.graph, network.spectrum)


def _report(request: ReportRequest, limits: Limits, progress: Report) -> ReportFile:
    network = _network(request, limits)
    views = [request.view, *([] if request.other_view in (None, request.view) else [request.other_view])]
    tables = [
        _table(
            replaced(request, view=view), network, limits, request.noise_multiplier, request.delta, progress
        )
        for view in views
    ]
    return report_of(request, tables, network.graph, network.spectrum, progress)


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


def _network(request: GraphRequest, limits: Limits) -> _Network:
    """The graph and its weights, if they are small enough."""
    graph = _read(request.graph, limits)
    _check_graph(graph.n, graph.edges, limits)
    weights = weights_by_rule(graph, request.weights)
    return _Network(graph=graph, weights=weights, spectrum=spectrum(weights))


def _read(source: Source, limits: Limits) -> Graph:
    """A graph of a family or from text; no file is opened, whatever the name."""
    if isinstance(source, GraphFile):
        if _ENTITIES.search(source.text):
            raise FileError("a graph file must not declare a DOCTYPE or entities (export it again without)")
        if "\0" in source.text:
            raise FileError("a graph file must be text; found binary content (write an edge list)")
        return parse_graph(source.text, _called(source))
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
    request: Run, network: _Network, limits: Limits, noise: float, delta: float, progress: Report
) -> AccountTable:
    """The pairs that a request asks for."""
    asked = _scenario(request, network, limits)
    return account_all(asked, noise_multiplier=noise, delta=delta, effort=_effort(request), progress=progress)


def _effort(request: Run) -> Effort:
    return Effort(engine=request.engine, depth=request.effort)


def _scenario(request: Run, network: _Network, limits: Limits) -> Scenario:
    """What a request asks, if it is small enough."""
    _check_size(request, network, limits)
    if request.view.startswith("coalition") and request.observers is None:
        raise InputError(
            f"the view {request.view} needs the members of the coalition (name them in observers)"
        )
    if request.view == "everyone" and request.observers is not None:
        raise InputError("the view everyone takes no observer (leave observers out)")
    return Scenario(
        protocol=_protocol(request, network),
        view=request.view,
        observers=_named(network.weights, request.observers),
        own_noise=request.own_noise,
        targets=_named(network.weights, request.targets),
        contribution=request.contribution,
        participation=request.participation,
        relation=request.relation,
    )


def _protocol(request: Run, network: _Network) -> Protocol:
    """The protocol that a request spells or whose program it holds; no file is opened, whatever it is called."""
    if _LONG.search(request.program or request.protocol):
        raise LimitError(
            "this server takes numbers with exponents of at most 3 digits (write the number out)"
        )
    told = _told(request, network.weights)
    if request.program is not None:
        if request.protocol != "gossip":
            raise InputError("protocol must be left out beside a program of one's own; got both")
        program, more = parse_program(request.program, "the program")
        return Protocol(weights=network.weights, program=program, rounds=request.rounds, **{**more, **told})
    if request.protocol.lower().endswith(".toml"):
        raise InputError(
            f"protocol must be spelled out; got the file {request.protocol!r} (send its text as program)"
        )
    for steps in _STEPS.findall(request.protocol):
        _within(int(steps[:9]), STEPS, "steps", "take fewer steps, or the command line")
    if "damping" in told:
        return gossip(network.weights, rounds=request.rounds, **told)
    parsed = parse_protocol(request.protocol, network.weights, rounds=request.rounds)
    return replace(parsed, **told) if told else parsed


def _told(request: Run, weights: GossipWeights) -> dict[str, Any]:
    """What a request says of damping and update maps, beside its protocol."""
    told: dict[str, Any] = {}
    if request.damping is not None:
        if request.protocol != "gossip" or request.program is not None:
            raise InputError(
                f"damping must be left out with the protocol {request.protocol!r} "
                "(write the coefficients into a program)"
            )
        told["damping"] = _damping(request.damping, weights)
    if request.losses is not None and request.step_smoothness is None:
        raise InputError(
            f"losses {request.losses} says what steps are on, and their size is missing (give step_smoothness)"
        )
    if request.updates is not None and request.step_smoothness is not None:
        raise InputError("updates and step_smoothness say the same thing twice (leave one of them out)")
    if request.updates is not None:
        told["updates"] = checked_updates(parse_updates(request.updates), weights.n)
    if request.step_smoothness is not None:
        told["updates"] = gradient_steps(request.step_smoothness, request.losses, weights.n)
    return told


def _damping(text: str, weights: GossipWeights) -> float | NDArray[np.float64]:
    try:
        return float(text)
    except ValueError:
        return documents.parse_damping(text, "the damping", weights)


def _check_size(request: Run, network: _Network, limits: Limits) -> None:
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


def _named(weights: GossipWeights, names: Sequence[int | str] | None) -> list[Hashable] | None:
    """The labels that are written like `names`, each once."""
    if names is None:
        return None
    return list(dict.fromkeys(map(weights.written, names)))
