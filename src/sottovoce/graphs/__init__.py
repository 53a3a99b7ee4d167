# SPDX-License-Identifier: Apache-2.0
"""Graphs and gossip weights: reading, generating and naming graphs; weight rules; the spectrum.

Entry [i, j] of every matrix here is nonzero when node i receives from node j.
"""

from sottovoce.graphs.columns import twins
from sottovoce.graphs.generators import FAMILIES, generate_graph, graph_size
from sottovoce.graphs.matrices import MATRIX_SUFFIXES, matrix_size
from sottovoce.graphs.model import GossipWeights, Graph, canonical_matrix, is_symmetric, row_indices
from sottovoce.graphs.rationals import Quotients, quotients
from sottovoce.graphs.reading import GRAPH_SUFFIXES, as_graph, parse_graph, read_graph
from sottovoce.graphs.spectra import Spectrum, spectrum
from sottovoce.graphs.symmetries import Orbits, Symmetries
from sottovoce.graphs.topologies import PREFIX as TOPOLOGIES
from sottovoce.graphs.topologies import read_topology, topology_names
from sottovoce.graphs.validation import Sums, check_entries, check_sums, check_weights, uneven_row
from sottovoce.graphs.weighted import WeightedGraph
from sottovoce.graphs.weights import (
    WEIGHT_RULES,
    as_weights,
    graph_weights,
    laplacian_weights,
    lazy_weights,
    matrix_weights,
    maximum_degree_weights,
    metropolis_weights,
    parse_weights,
    uniform_weights,
    weights_by_rule,
)

__all__ = [
    "FAMILIES",
    "GRAPH_SUFFIXES",
    "MATRIX_SUFFIXES",
    "TOPOLOGIES",
    "WEIGHT_RULES",
    "GossipWeights",
    "Graph",
    "Orbits",
    "Quotients",
    "Spectrum",
    "Sums",
    "Symmetries",
    "WeightedGraph",
    "as_graph",
    "as_weights",
    "canonical_matrix",
    "check_entries",
    "check_sums",
    "check_weights",
    "generate_graph",
    "graph_size",
    "graph_weights",
    "is_symmetric",
    "laplacian_weights",
    "lazy_weights",
    "matrix_size",
    "matrix_weights",
    "maximum_degree_weights",
    "metropolis_weights",
    "parse_graph",
    "parse_weights",
    "quotients",
    "read_graph",
    "read_topology",
    "row_indices",
    "spectrum",
    "topology_names",
    "twins",
    "uneven_row",
    "uniform_weights",
    "weights_by_rule",
]
