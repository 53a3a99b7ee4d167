# SPDX-License-Identifier: Apache-2.0
"""The report of a request: the file that `sottovoce account --report` writes of the same run, as text."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sottovoce.accounting import carried_proofs, table_curves
from sottovoce.documents import InputFile, occasion, page_document
from sottovoce.forms import Form
from sottovoce.report import page_report
from sottovoce.web.requests import GraphFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import WeightedGraph
    from sottovoce.web.requests import ReportRequest

__all__ = ["ReportFile", "command_of", "report_of"]

# What a request and the command line call alike, with the value that need not be said.
_OPTIONS = {
    "weights": "auto",
    "own_noise": "known",
    "protocol": "gossip",
    "updates": None,
    "step_smoothness": None,
    "losses": None,
    "contribution": "vector",
    "participation": "full",
    "relation": "add-remove",
    "engine": "auto",
    "effort": "auto",
    "tolerance": None,
    "max_epsilon": None,
}


class ReportFile(Form, frozen=True, kw_only=True):
    """A report: the name for its file, and what is in it."""

    name: str
    html: str


def report_of(
    request: ReportRequest,
    tables: Sequence[AccountTable],
    network: WeightedGraph,
    progress: Callable[[int, int], None],
) -> ReportFile:
    """The report of tables, one a view; whatever it says of its origin is taken from the request itself."""
    # Of equals the view that shows more leads, as on the command line.
    ordered = sorted(tables, key=lambda table: (-float(table.epsilon_upper.max()), table.view))
    curves = table_curves(ordered[0], progress=progress)
    proofs = carried_proofs(ordered, progress=progress)
    said = replace(occasion(command_of(request), (), request.max_epsilon), inputs=_inputs(request))
    first, *beside = (proof.table for proof in proofs)
    page = page_document(first, network, curves=curves, beside=beside, occasion=said)
    called = Path(_graph_name(request)).name
    html = page_report(page, title=f"Account of {called}", proofs=proofs)
    return ReportFile(name="sottovoce-report.html", html=html)


def command_of(request: ReportRequest) -> str:
    """What to type for the same run; texts that a request holds stand there as the files that `_inputs` names."""
    words = ["sottovoce", "account", _graph_name(request), "--rounds", str(request.rounds)]
    words += ["--noise-multiplier", repr(request.noise_multiplier), "--delta", repr(request.delta)]
    if request.other_view is None:
        words += ["--view", request.view]
    for name, usual in _OPTIONS.items():
        value = getattr(request, name)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if request.matrix is not None:
        words += ["--weights", "matrix.mtx"]
    if request.damping is not None:
        words += ["--damping", "damping.csv" if "," in request.damping else request.damping]
    if request.program is not None:
        words += ["--protocol", "program.toml"]
    if request.exchanges is not None:
        words += ["--exchanges", ",".join(map(str, request.exchanges))]
    for option, nodes in (("--observer", request.observers), ("--target", request.targets)):
        for node in nodes or ():
            words += [option, str(node)]
    return shlex.join(words)


def _graph_name(request: ReportRequest) -> str:
    source = request.graph
    return (source.name or f"graph.{source.format}") if isinstance(source, GraphFile) else source.name


def _inputs(request: ReportRequest) -> tuple[InputFile, ...]:
    """The texts that came with a request, each with its hash."""
    texts = {}
    if isinstance(request.graph, GraphFile):
        texts[_graph_name(request)] = request.graph.text
    if request.matrix is not None:
        texts["matrix.mtx"] = request.matrix
    if request.damping is not None and "," in request.damping:
        texts["damping.csv"] = request.damping
    if request.program is not None:
        texts["program.toml"] = request.program
    return tuple(
        InputFile(name=name, sha256=hashlib.sha256(text.encode()).hexdigest()) for name, text in texts.items()
    )
