# SPDX-License-Identifier: Apache-2.0
"""What stands at figures is there to the last letter: within the picture, and in a font that has it."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from sottovoce.accounting import compare
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.report.comparisons import _figure
from sottovoce.report.figures.letters import find_fonts
from sottovoce.scenarios import Scenario


def lacks(font: str, letter: str) -> bool:
    return not get_font(font).get_char_index(ord(letter))


@pytest.mark.parametrize("length", [4, 60, 140, 400])
@pytest.mark.parametrize("target", [None, 1.0])
def test_words_of_a_comparison_lie_within_the_picture(length: int, target: float | None) -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=3)
    asked = {
        f"{'n' * length} {view}": Scenario(protocol=protocol, view=view)
        for view in ("neighbourhood", "secure-sum")
    }
    noise = 4.0 if target is None else None
    figure = _figure(compare(asked, noise_multiplier=noise, target_epsilon=target), target)
    figure.draw_without_rendering()
    ax = figure.axes[0]
    for words in (ax.xaxis.label, ax.title, *ax.get_yticklabels()):
        span = words.get_window_extent()
        assert figure.bbox.x0 - 1 <= span.x0 < span.x1 <= figure.bbox.x1 + 1, words
    assert ax.get_window_extent().width > 2 * figure.dpi


def test_letters_are_taken_from_a_font_that_has_them() -> None:
    usual = findfont(FontProperties(family="DejaVu Sans"))
    others = [entry for entry in fontManager.ttflist if "STIX" in entry.name and entry.style == "normal"]
    rare = next(
        chr(code)
        for entry in others
        for code in get_font(entry.fname).get_charmap()
        if lacks(usual, chr(code)) and chr(code).isprintable()
    )
    figure = Figure()
    text, plain = figure.text(0, 0, f"x{rare}"), figure.text(0, 0, "Übersee Δ²")
    before = plain.get_fontfamily()
    find_fonts(figure)
    assert plain.get_fontfamily() == before
    first, other = text.get_fontfamily()
    assert first in {"sans-serif", "DejaVu Sans"}
    assert not lacks(findfont(FontProperties(family=other)), rare)


def test_a_letter_that_no_font_has_changes_nothing() -> None:
    figure = Figure()
    text = figure.text(0, 0, "\U0010fffd")
    before = text.get_fontfamily()
    find_fonts(figure)
    assert text.get_fontfamily() == before
