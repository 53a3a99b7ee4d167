# SPDX-License-Identifier: Apache-2.0
"""`WeightedGraph`: a graph and the gossip weights on it, with their spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sottovoce.graphs.spectra import spectrum

if TYPE_CHECKING:
    from sottovoce.graphs.model import GossipWeights, Graph
    from sottovoce.graphs.spectra import Spectrum

__all__ = ["WeightedGraph"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedGraph:
    """A graph and the gossip weights on it; what is shown of both is told by this one value.

    >>> from sottovoce.graphs import as_graph, metropolis_weights
    >>> ring = as_graph("ring:n=6")
    >>> round(WeightedGraph(graph=ring, weights=metropolis_weights(ring)).spectrum.gap, 12)
    0.333333333333
    """

    graph: Graph
    weights: GossipWeights

    @cached_property
    def spectrum(self) -> Spectrum:
        """The spectrum of the weights, found once, when it is asked for.

        Guarantee: that of `sottovoce.graphs.spectrum`; no privacy guarantee may rest on it.
        """
        return spectrum(self.weights)
