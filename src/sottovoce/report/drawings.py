# SPDX-License-Identifier: Apache-2.0
"""A drawing for each view: who sees what, as SVG whose colours are those of the text around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DRAWN", "view_drawing"]

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
