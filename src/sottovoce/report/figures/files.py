# SPDX-License-Identifier: Apache-2.0
"""From a study's result to the bytes of its picture."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from sottovoce.report.figures.assumptions import draw_constant_step, draw_hidden_states, draw_slips
from sottovoce.report.figures.errata import (
    draw_counterexamples,
    draw_neighbours,
    draw_observed_targets,
    draw_removed_noise,
    draw_vectors,
)
from sottovoce.report.figures.letters import find_fonts
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
from sottovoce.report.figures.style import looks
from sottovoce.report.figures.training import draw_training
from sottovoce.report.figures.utility import draw_utility

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import StudyResult

__all__ = ["DRAWINGS", "drawn", "figure_bytes"]

PIXELS_PER_INCH = 150

DRAWINGS: Mapping[str, Callable[..., Sequence[Axes]]] = {
    "figure-1": draw_figure_1,
    "figure-2": draw_figure_2,
    "agreement": draw_agreement,
    "growth": draw_growth,
    "errata-smallest": draw_counterexamples,
    "errata-a": draw_neighbours,
    "errata-b": draw_observed_targets,
    "errata-c": draw_removed_noise,
    "errata-d": draw_vectors,
    "errata-e": draw_slips,
    "errata-f": draw_hidden_states,
    "errata-g": draw_constant_step,
    "utility": draw_utility,
    "training": draw_training,
    "equal-error": draw_equal_error,
    "surprises": draw_surprises,
    "shared-noise": draw_shared_noise,
    "encoders": draw_encoders,
}


def drawn(study: str, result: StudyResult) -> Figure:
    """The picture of a study's result."""
    with looks():
        figure = DRAWINGS[study](result)[0].figure
    assert isinstance(figure, Figure)
    return figure


def figure_bytes(figure: Figure, form: Literal["svg", "png"]) -> bytes:
    """A picture as a file's content; the same picture gives the same bytes."""
    buffer = io.BytesIO()
    figure.set_facecolor("white")
    find_fonts(figure)
    # `savefig` would draw everything once more, to lay it out: so does the drawing itself.
    canvas: Any
    with looks():
        if form == "svg":
            canvas = FigureCanvasSVG(figure)
            canvas.print_svg(buffer, metadata={"Date": None})
        else:
            usual, figure.dpi = figure.dpi, PIXELS_PER_INCH
            try:
                canvas = FigureCanvasAgg(figure)
                canvas.print_png(buffer)
            finally:
                figure.dpi = usual
    return buffer.getvalue()
