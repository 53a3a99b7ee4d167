# SPDX-License-Identifier: Apache-2.0
"""One drawing a study: `draw_*(result, axes=None)` puts it on the axes given, or on a new figure's."""

from sottovoce.report.figures.assumptions import draw_constant_step, draw_hidden_states, draw_slips
from sottovoce.report.figures.errata import (
    draw_counterexamples,
    draw_neighbours,
    draw_observed_targets,
    draw_removed_noise,
    draw_vectors,
)
from sottovoce.report.figures.files import DRAWINGS, drawn, figure_bytes
from sottovoce.report.figures.frontiers import draw_frontier
from sottovoce.report.figures.protocols import (
    draw_encoders,
    draw_equal_error,
    draw_shared_noise,
    draw_surprises,
)
from sottovoce.report.figures.reproductions import (
    draw_agreement,
    draw_figure_1,
    draw_figure_2,
    draw_growth,
)
from sottovoce.report.figures.training import draw_training
from sottovoce.report.figures.utility import draw_utility

__all__ = [
    "DRAWINGS",
    "draw_agreement",
    "draw_constant_step",
    "draw_counterexamples",
    "draw_encoders",
    "draw_equal_error",
    "draw_figure_1",
    "draw_figure_2",
    "draw_frontier",
    "draw_growth",
    "draw_hidden_states",
    "draw_neighbours",
    "draw_observed_targets",
    "draw_removed_noise",
    "draw_shared_noise",
    "draw_slips",
    "draw_surprises",
    "draw_training",
    "draw_utility",
    "draw_vectors",
    "drawn",
    "figure_bytes",
]
