# SPDX-License-Identifier: Apache-2.0
"""Line charts as SVG elements in the colours of the page: no font, style or script of their own."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Line", "line_chart"]

Kind = Literal["run", "central", "noiseless", "local"]
# Colour is never alone: each kind has dashes of its own.
_DASHES: dict[Kind, str] = {"run": "", "central": "7 3", "noiseless": "2 3", "local": "10 3 2 3"}
_WIDTH, _LEFT, _RIGHT, _TOP, _HIGH = 360, 50, 12, 26, 150
_TICKS = 5


class Line(NamedTuple):
    """Values after some rounds; where there is none, the line has a gap."""

    name: str
    kind: Kind
    rounds: Sequence[float]
    values: Sequence[float | None]
    steps: bool = False


def line_chart(title: str, lines: Sequence[Line], *, shown: str) -> str:
    """Lines against rounds, with a legend in words; `shown` says what they show to whoever cannot see them.

    A line of `steps` stands at its value for all rounds since the one before it, so that a number which grows is never
    drawn below what it is.
    """
    values = [value for line in lines for value in line.values if value is not None]
    if not values:
        return ""
    ends = _ticks(min(0.0, *values), max(values))
    last = max(round_ for line in lines for round_ in line.rounds)
    wide = _WIDTH - _LEFT - _RIGHT

    def across(round_: float) -> str:
        return f"{_LEFT + wide * round_ / last:.1f}"

    def down(value: float) -> str:
        return f"{_TOP + _HIGH * (1 - (value - ends[0]) / (ends[-1] - ends[0])):.1f}"

    parts = [f'<text class="name" x="0" y="12">{html.escape(title)}</text>']
    for tick in ends:
        parts.append(f'<path class="grid" d="M{_LEFT} {down(tick)}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{float(down(tick)) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    bottom = _TOP + _HIGH + 16
    parts += [
        f'<text x="{across(tick)}" y="{bottom}" text-anchor="middle">{tick:g}</text>'
        for tick in _ticks(0, last)
        if tick <= last and tick == int(tick)
    ]
    parts.append(f'<text x="{_LEFT + wide / 2:g}" y="{bottom + 15}" text-anchor="middle">rounds</text>')
    for place, line in enumerate(lines):
        dashes = f' stroke-dasharray="{_DASHES[line.kind]}"' if _DASHES[line.kind] else ""
        drawn = f'<path class="line {line.kind}" fill="none" stroke-width="2"{dashes} d='
        parts.append(f'{drawn}"{_path(line, across, down)}"/>')
        y = bottom + 34 + 16 * place
        parts.append(
            f'{drawn}"M{_LEFT} {y - 4}h28"/><text x="{_LEFT + 34}" y="{y}">{html.escape(line.name)}</text>'
        )
    high = bottom + 42 + 16 * (len(lines) - 1)
    return (
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {high}" role="img" aria-label="{html.escape(f"{title}: {shown}")}">'
        f"{''.join(parts)}</svg>"
    )


def _path(line: Line, across: Callable[[float], str], down: Callable[[float], str]) -> str:
    """The line as a path, by where rounds and values stand."""
    parts, joined = [], False
    for round_, value in zip(line.rounds, line.values, strict=True):
        if value is None:
            joined = False
            continue
        x, y = across(round_), down(value)
        if line.steps:
            parts.append(f"V{y}H{x}" if joined else f"M{across(0)} {y}H{x}")
        else:
            parts.append(f"{'L' if joined else 'M'}{x} {y}")
        joined = True
    return "".join(parts)


def _ticks(least: float, most: float) -> list[float]:
    """Round numbers that begin at or below `least` and end at or above `most`.

    >>> _ticks(0, 3.7)
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    span = most - least or 1.0
    power = 10.0 ** math.floor(math.log10(span / _TICKS))
    size = next(factor * power for factor in (1, 2, 5, 10) if factor * power * _TICKS >= span * 0.999)
    first, last = math.floor(least / size + 1e-9), math.ceil(most / size - 1e-9)
    return [float(f"{place * size:.12g}") for place in range(first, max(last, first + 1) + 1)]
