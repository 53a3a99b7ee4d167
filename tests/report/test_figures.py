# SPDX-License-Identifier: Apache-2.0
"""Every drawing: labelled, readable, without overlaps, and the same bytes for the same numbers."""

from __future__ import annotations

import itertools
import re
import struct
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tests.studies.small import pictured, tiny

from sottovoce.report.figures import DRAWINGS, drawn, figure_bytes
from sottovoce.report.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, looks
from sottovoce.studies import STUDIES

EVERY_STUDY = pytest.mark.parametrize("name", [study.name for study in STUDIES])


@cache
def rendered(name: str) -> tuple[Figure, Any]:
    """The drawing of a study, laid out once for all who measure it, and what measures it."""
    figure, _ = pictured(name)
    # Words stand where they were put for a file of points.
    figure.dpi = 72
    with looks():
        canvas: Any = FigureCanvasAgg(figure)
    return figure, canvas.get_renderer()


def boxes(artists: Any, renderer: Any) -> list[Any]:
    """The places of all words that are shown."""
    shown = [artist for artist in artists if artist.get_visible() and artist.get_text()]
    return [artist.get_window_extent(renderer) for artist in shown]


def test_every_study_has_a_drawing() -> None:
    assert set(DRAWINGS) == {study.name for study in STUDIES}


@EVERY_STUDY
def test_words_are_there_and_do_not_overlap(name: str) -> None:
    figure, renderer = rendered(name)
    frame = figure.bbox
    legends = 0
    for ax in figure.axes:
        assert ax.get_ylabel() or any(label.get_text() for label in ax.get_yticklabels())
        assert ax.get_xlabel() or any(label.get_text() for label in ax.get_xticklabels())
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            words = boxes([tick.label1 for tick in ticks if low <= tick.get_loc() <= high], renderer)
            for one, other in itertools.combinations(words, 2):
                assert not one.shrunk(0.98, 0.98).overlaps(other), f"{name}: tick labels overlap"
        for box in boxes([ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label], renderer):  # type: ignore[attr-defined]
            assert frame.x0 <= box.x0
            assert box.x1 <= frame.x1
            assert frame.y0 <= box.y0
            assert box.y1 <= frame.y1
        for box in boxes([ax.title, ax._left_title], renderer):  # type: ignore[attr-defined]
            assert box.y0 >= ax.bbox.y1, f"{name}: a title lies across the curves"
        legends += ax.get_legend() is not None
    assert legends + len(figure.legends) >= 1


@EVERY_STUDY
def test_legends_cover_no_point(name: str) -> None:
    figure, renderer = rendered(name)
    for ax in figure.axes:
        legend = ax.get_legend()
        if legend is None:
            continue
        covered = legend.get_window_extent(renderer)
        for line in ax.lines:
            points = np.asarray(line.get_xydata())
            if line.get_marker() in {"", "None", None} or points.size == 0:
                continue
            places = ax.transData.transform(points)
            places = places[np.isfinite(places).all(axis=1)]
            inside = [covered.contains(x, y) for x, y in places if ax.bbox.contains(x, y)]
            assert not any(inside), f"{name}: the legend hides a point of {line.get_label()}"


def test_figure_1_keeps_its_legend_off_the_bands() -> None:
    figure, renderer = rendered("figure-1")
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 3
    assert all(ax.get_legend() is None for ax in figure.axes)
    panels: list[Any] = [ax.get_tightbbox(renderer) for ax in figure.axes]
    assert legend.get_window_extent(renderer).y1 <= min(panel.y0 for panel in panels)


@EVERY_STUDY
def test_the_same_result_gives_the_same_bytes(name: str) -> None:
    before = dict(mpl.rcParams)
    first, second = pictured(name)[1], figure_bytes(drawn(name, tiny(name)), "svg")
    assert first == second
    assert first.startswith(b"<?xml")
    assert dict(mpl.rcParams) == before


def test_a_drawing_can_be_made_of_pixels() -> None:
    figure, _ = rendered("figure-1")
    usual, (width, height) = figure.dpi, figure.get_size_inches()
    found = figure_bytes(figure, "png")
    assert found.startswith(b"\x89PNG")
    assert struct.unpack(">2I", found[16:24]) == (int(150 * width), int(150 * height))
    assert figure.dpi == usual


def test_a_figure_keeps_its_resolution_when_it_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure(dpi=80)

    def fails(_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(figure, "draw", fails)
    with pytest.raises(MemoryError):
        figure_bytes(figure, "png")
    assert figure.dpi == 80


def test_drawings_go_on_axes_that_are_given() -> None:
    figure = Figure()
    axes = list(figure.subplots(1, 2))
    assert DRAWINGS["figure-1"](tiny("figure-1"), axes) == axes
    assert len(axes[0].lines) == 3


def test_colours_differ_without_hue() -> None:
    """Neighbouring shades of grey are what some readers see; markers and dashes tell apart what is close."""
    assert len({BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY}) == 8
    assert all(re.fullmatch(r"#[0-9A-Fa-f]{6}", colour) for colour in (BLACK, BLUE, GREEN, GREY, ORANGE, RED))
    for name in DRAWINGS:
        for ax in rendered(name)[0].axes:
            looked = [
                (line.get_color(), line.get_marker(), str(line.get_linestyle()), line.get_label())
                for line in ax.lines
                if not str(line.get_label()).startswith("_")
            ]
            assert len({(*entry[1:3], entry[0]) for entry in looked}) == len(looked), name
