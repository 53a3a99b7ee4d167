# SPDX-License-Identifier: Apache-2.0
"""`sottovoce graph`: what a graph and its gossip weights look like."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import Annotated

from cyclopts import Parameter

from sottovoce.cli.options import Config, Json, Source, Weights, network
from sottovoce.cli.printing import result_page, write_result

__all__ = ["EXAMPLE", "USAGE", "graph"]

EXAMPLE = "sottovoce graph erdos-renyi:n=100,p=0.15,seed=1 --weights lazy"
USAGE = "sottovoce graph GRAPH [OPTIONS]"


def graph(
    graph: Source,
    /,
    *,
    weights: Weights = "auto",
    json: Json = False,
    output: Annotated[
        Path | None, Parameter(help="Write the graph to this .edgelist or .graphml file.", show_default=False)
    ] = None,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Describe a graph and its gossip weights: size, degrees, spectral gap, hash, and which nodes hide each other."""
    from sottovoce import documents

    if output is not None:
        documents.check_graph_path(output)
    chosen = network(graph, weights)
    if output is not None:
        documents.refuse_another_graph(chosen.graph, output)
    document = documents.graph_document(chosen)
    written = documents.write_graph(chosen.graph, output) if output is not None else None
    if json:
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.tables import graph_text

        with result_page() as console:
            graph_text(console, document, written)
    return 0
