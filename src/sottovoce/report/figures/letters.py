# SPDX-License-Identifier: Apache-2.0
"""Room for what stands at a figure: fonts that have its letters, and width for its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["find_fonts", "widened"]

# So many inches are left for what is drawn, however long names are.
_AXES = 3.0
# It has a box for every letter there is, and a shape for none.
_NO_FONT = "Last Resort"


def find_fonts(figure: Figure) -> None:
    """Give texts with letters that their font lacks the fonts of this machine that have them, as far as there are any.

    A figure whose letters are all there is left as it is.
    """
    for text in figure.findobj(Text):
        words = text.get_text() if isinstance(text, Text) else ""
        if words.isascii():
            continue
        family = text.get_fontfamily()
        lacking = _lacking(words, findfont(FontProperties(family=family)))
        if lacking:
            text.set_fontfamily([*family, *_fonts_with(lacking)])


def widened(figure: Figure, ax: Axes) -> None:
    """Make a figure wide enough for the words below and above its axes, which long names at the side push out."""
    width, height = figure.get_size_inches()
    beside = max(name.get_window_extent().width for name in ax.get_yticklabels()) / figure.dpi
    figure.set_size_inches(max(width, beside + _AXES), height)
    for _ in range(3):
        figure.draw_without_rendering()
        sheet = figure.bbox
        spans = [words.get_window_extent() for words in (ax.xaxis.label, ax.title)]
        over = max(max(span.x1 - sheet.x1, sheet.x0 - span.x0) for span in spans)
        if over <= 0:
            return
        # Words are centred: what is added to the axes moves their middle by half of it.
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + 2 * over / figure.dpi + 0.1, height)


def _lacking(words: str, font: str) -> set[str]:
    """The letters that a font file does not have."""
    held = get_font(font)
    return {letter for letter in words if not letter.isspace() and not held.get_char_index(ord(letter))}


def _fonts_with(letters: set[str]) -> Iterator[str]:
    """Names of upright fonts that have the letters between them, each as many as no other."""
    files = {
        entry.name: entry.fname
        for entry in fontManager.ttflist
        if entry.style == "normal" and not entry.name.startswith(_NO_FONT)
    }
    left = set(letters)
    while left:
        lacking: dict[str, set[str]] = {}
        for name, file in files.items():
            try:
                lacking[name] = _lacking("".join(sorted(left)), file)
            except (OSError, RuntimeError):
                # A font that has gone, or cannot be read, has no letters.
                continue
        best = min(lacking, key=lambda name: len(lacking[name]), default=None)
        if best is None or lacking[best] == left:
            return
        yield best
        left = lacking[best]
