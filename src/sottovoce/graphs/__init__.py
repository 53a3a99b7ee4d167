# SPDX-License-Identifier: Apache-2.0
"""Graphs and gossip weights: reading, generating and naming graphs; weight rules; the spectrum.

Entry [i, j] of every matrix here is nonzero when node i receives from node j.
"""

from sottovoce.graphs.generators import FAMILIES, generate_graph, graph_size
from sottovoce.graphs.model import GossipWeights, Graph
from sottovoce.graphs.reading import as_graph, parse_graph, read_graph
from sottovoce.graphs.spectra import Spectrum, spectrum
from sottovoce.graphs.validation import check_weights
from sottovoce.graphs.weights import (
    as_weights,
    graph_weights,
    laplacian_weights,
    lazy_weights,
    matrix_weights,
    maximum_degree_weights,
    metropolis_weights,
    uniform_weights,
    weights_by_rule,
)

__all__ = [
    "FAMILIES",
    "GossipWeights",
    "Graph",
    "Spectrum",
    "as_graph",
    "as_weights",
    "check_weights",
    "generate_graph",
    "graph_size",
    "graph_weights",
    "laplacian_weights",
    "lazy_weights",
    "matrix_weights",
    "maximum_degree_weights",
    "metropolis_weights",
    "parse_graph",
    "read_graph",
    "spectrum",
    "uniform_weights",
    "weights_by_rule",
]
