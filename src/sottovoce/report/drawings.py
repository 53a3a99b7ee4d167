# SPDX-License-Identifier: Apache-2.0
"""A drawing for each view, who sees what, and for each program, what a round is: SVG in the colours of its text."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from sottovoce.explanations import VIEW_QUESTIONS, either

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.protocols import Program

__all__ = ["DRAWN", "program_drawing", "view_drawing", "view_tree"]

_WIDTH, _HEIGHT = 300, 150
_HIDDEN = ((40, 30), (40, 75), (40, 120))
_OBSERVER = (235, 75)

DRAWN = {
    "everyone": "Every arrow between nodes is seen, by whoever listens.",
    "neighbourhood": "Arrows from neighbours to the observer are seen one by one; those between other nodes are not.",
    "secure-sum": "Arrows meet in a sum, and the observer sees what comes out of it.",
    "single-node": "The arrow that leaves one node is seen, and no other.",
    "coalition-sums": "Arrows meet in a sum for each of two observers, who pool what comes out.",
    "coalition-messages": "Arrows to each of two observers are seen one by one, and pooled.",
}
"""What each drawing shows, in words."""


_TREE_WIDTH, _STOREY, _BOX = 504, 78, 46


def view_tree() -> str:
    """Which view applies, as a drawing: questions from top to bottom, the view of a yes beside each.

    >>> view_tree().count("<rect") == 5 + 6
    True
    """
    parts, said = [], []
    for place, (asked, such, views) in enumerate(VIEW_QUESTIONS):
        y = 4 + _STOREY * place
        middle = y + _BOX / 2
        parts.append(_box(4, y, 270, _BOX))
        parts.append(_words(139, y + 19, asked, "bold") + _words(139, y + 36, such))
        parts.append(_way(274, middle, 334, middle) + _words(302, middle - 6, "yes"))
        # Of two views the one that shows more stands first.
        high = _BOX / len(views) - (0 if len(views) == 1 else 2)
        for k, view in enumerate(views):
            top = y + k * (high + 4)
            parts.append(_box(334, top, 166, high, seen=True) + _words(417, top + high / 2 + 4, view, "bold"))
        if place < len(VIEW_QUESTIONS) - 1:
            parts.append(_way(139, y + _BOX, 139, y + _STOREY) + _words(155, y + _BOX + 20, "no"))
        said.append(f"{asked} If yes, {either(views)}.")
    high = _STOREY * len(VIEW_QUESTIONS) - (_STOREY - _BOX) + 8
    told = html.escape(" If no: ".join(said))
    return (
        f'<svg class="drawing" viewBox="0 0 {_TREE_WIDTH} {high}" role="img" aria-label="{told}">'
        f'<g fill="none" stroke="currentColor" stroke-width="1.5">{"".join(parts)}</g></svg>'
    )


def _box(x: float, y: float, wide: float, high: float, *, seen: bool = False) -> str:
    kind = ' class="seen"' if seen else ""
    return f'<rect{kind} x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="7"/>'


def _words(x: float, y: float, words: str, weight: str = "normal") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="12" font-weight="{weight}" fill="currentColor" '
        f'stroke="none">{html.escape(words)}</text>'
    )


def _way(x: float, y: float, x2: float, y2: float) -> str:
    """A line with a head, to the right or down."""
    head = "m-6 -4l6 4l-6 4" if y == y2 else "m-4 -6l4 6l4 -6"
    return f'<path d="M{x:g} {y:g}L{x2:g} {y2:g}{head}"/>'


def view_drawing(view: str) -> str:
    """The drawing of a view as an SVG element; of a view without one, nothing.

    >>> view_drawing("secure-sum").startswith('<svg class="drawing" viewBox="0 0 300 150" role="img"')
    True
    """
    if view not in DRAWN:
        return ""
    drawn: dict[str, Callable[[], str]] = {
        "everyone": _everyone,
        "neighbourhood": lambda: _messages([_OBSERVER]),
        "secure-sum": lambda: _sums([_OBSERVER]),
        "single-node": _single,
        "coalition-sums": lambda: _sums([(235, 45), (235, 105)]),
        "coalition-messages": lambda: _messages([(235, 45), (235, 105)]),
    }
    return (
        f'<svg class="drawing" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{DRAWN[view]}">'
        f'<g fill="none" stroke="currentColor" stroke-width="1.5">{drawn[view]()}</g></svg>'
    )


def _node(place: tuple[int, int]) -> str:
    return f'<circle cx="{place[0]}" cy="{place[1]}" r="11"/>'


def _observer(place: tuple[int, int]) -> str:
    x, y = place
    return f'<path class="sees" d="M{x} {y - 14}L{x + 14} {y}L{x} {y + 14}L{x - 14} {y}Z"/>'


def _arrow(start: tuple[int, int], end: tuple[int, int], *, seen: bool) -> str:
    """An arrow between two places that leaves room for what stands there."""
    (x, y), (u, v) = start, end
    length = ((u - x) ** 2 + (v - y) ** 2) ** 0.5
    a, b = (u - x) / length, (v - y) / length
    x1, y1, x2, y2 = x + 15 * a, y + 15 * b, u - 19 * a, v - 19 * b
    head = (
        f"M{x2:.1f} {y2:.1f}L{x2 - 7 * a - 4 * b:.1f} {y2 - 7 * b + 4 * a:.1f}"
        f"M{x2:.1f} {y2:.1f}L{x2 - 7 * a + 4 * b:.1f} {y2 - 7 * b - 4 * a:.1f}"
    )
    line = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
    if seen:
        return f'<path class="seen" d="{line}{head}"/>'
    return f'<path stroke-dasharray="3 4" d="{line}"/><path d="{head}"/>'


def _between() -> str:
    """An arrow between two nodes that no observer is part of."""
    return _arrow(_HIDDEN[0], _HIDDEN[1], seen=False)


def _everyone() -> str:
    nodes = [*_HIDDEN, _OBSERVER]
    arrows = [_arrow(_HIDDEN[0], _HIDDEN[1], seen=True), _arrow(_HIDDEN[2], _HIDDEN[1], seen=True)]
    arrows += [_arrow(place, _OBSERVER, seen=True) for place in _HIDDEN]
    return "".join([*map(_node, nodes), *arrows])


def _messages(observers: list[tuple[int, int]]) -> str:
    arrows = [_arrow(place, observer, seen=True) for observer in observers for place in _HIDDEN]
    return "".join(
        [*map(_node, _HIDDEN), *map(_observer, observers), *arrows, _between(), _pooled(observers)]
    )


def _sums(observers: list[tuple[int, int]]) -> str:
    parts = [*map(_node, _HIDDEN), *map(_observer, observers), _between(), _pooled(observers)]
    for x, y in observers:
        middle = (150, y)
        parts += [
            f'<circle cx="150" cy="{y}" r="13"/>',
            f'<text x="150" y="{y + 5}" text-anchor="middle" font-size="15" fill="currentColor" stroke="none">Σ</text>',
            *(_arrow(place, middle, seen=False) for place in _HIDDEN),
            _arrow(middle, (x, y), seen=True),
        ]
    return "".join(parts)


def _single() -> str:
    out = (_OBSERVER[0] + 55, _OBSERVER[1])
    arrows = [_arrow(place, _OBSERVER, seen=False) for place in _HIDDEN]
    return "".join(
        [*map(_node, _HIDDEN), _observer(_OBSERVER), *arrows, _between(), _arrow(_OBSERVER, out, seen=True)]
    )


def _pooled(observers: list[tuple[int, int]]) -> str:
    """The line that joins observers who pool what they see."""
    if len(observers) < 2:
        return ""
    (x, y), (_, v) = observers
    return f'<path class="sees" d="M{x} {y + 14}V{v - 14}"/>'


def program_drawing(program: Program) -> str:
    """The drawing of a program as an SVG element: its instructions in their order, and then the next round.

    >>> from sottovoce import gossip, graphs
    >>> drawn = program_drawing(gossip(graphs.metropolis_weights("ring:n=3"), rounds=1).program)
    >>> "exchange message → model" in drawn
    True
    """
    # Levels of noise are in the words below it, not among what is done.
    steps = str(program).split("; ")[: len(program.instructions)]
    width, high, gap = 30 + max(7 * len(step) for step in steps), 28, 16
    parts = []
    for place, step in enumerate(steps):
        y = place * (high + gap) + 6
        sends = step.startswith("exchange")
        kind = ' class="seen"' if sends else ""
        parts.append(f'<rect{kind} x="6" y="{y}" width="{width}" height="{high}" rx="{14 if sends else 5}"/>')
        parts.append(
            f'<text x="{6 + width / 2:g}" y="{y + 18}" text-anchor="middle" font-size="12.5" fill="currentColor" '
            f'stroke="none">{html.escape(step)}</text>'
        )
        if place:
            parts.append(f'<path d="M{6 + width / 2:g} {y - gap}V{y}m-4 -6l4 6l4 -6"/>')
    bottom, right = len(steps) * (high + gap) - gap + 6, width + 6
    parts.append(f'<path stroke-dasharray="3 4" d="M{right} {bottom - 14}h22V20h-18"/>')
    parts.append(f'<path d="M{right + 8} 15l-6 5l6 5"/>')
    label = html.escape(f"A round: {program}; and then the next round.")
    return (
        f'<svg class="drawing" viewBox="0 0 {right + 30} {bottom + 6}" role="img" aria-label="{label}">'
        f'<g fill="none" stroke="currentColor" stroke-width="1.5">{"".join(parts)}</g></svg>'
    )
