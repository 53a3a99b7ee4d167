# SPDX-License-Identifier: Apache-2.0
"""Draw docs/picture.svg: what one node of a real network can learn about each of the others.

Run `python docs/draw_picture.py` to write the file again.
"""

from __future__ import annotations

import math
from pathlib import Path

import networkx as nx

from sottovoce import View, account, gossip, graphs

GRAPH, OBSERVER = "florentine", "Medici"
ROUNDS, NOISE_MULTIPLIER, DELTA = 20, 4, 1e-5
WIDTH, HEIGHT = 760, 560
LEFT, TOP, RIGHT, BOTTOM = 80, 104, 600, 512
LOWEST, HIGHEST = 0.5, 2.5
# Cividis in six steps, light to dark: one hue less than a rainbow, and the same order to every eye.
SCALE = ("#fee838", "#d2c060", "#a59c74", "#7d7c78", "#575d6d", "#00326e")
INK, PALE, EDGE, PAPER, MARK = "#1b1f24", "#57606a", "#b6bcc4", "#ffffff", "#c4410c"


def picture() -> str:
    """The whole SVG file."""
    protocol = gossip(graphs.metropolis_weights(GRAPH), rounds=ROUNDS)
    table = account(protocol, View.secure_sum(OBSERVER), noise_multiplier=NOISE_MULTIPLIER, delta=DELTA)
    network = nx.florentine_families_graph()
    places = _places(network)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title about" font-family="Helvetica, Arial, sans-serif">',
        f'<title id="title">What the {OBSERVER} can learn about each family</title>',
        f'<desc id="about">The marriages of fifteen Florentine families as a network. Each family is coloured '
        f"by the certified epsilon at delta {DELTA:g} of what the {OBSERVER} can learn about it from secure "
        f"sums in {ROUNDS} rounds of gossip with noise multiplier {NOISE_MULTIPLIER}.</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}"/>',
        _text(36, 44, f"What the {OBSERVER} can learn about each family", size=22, weight="bold", at="start"),
        _text(
            36,
            70,
            f"certified ε at δ = 1e-5 · {ROUNDS} rounds · noise multiplier {NOISE_MULTIPLIER} · "
            "secure sums, own noise known",
            size=14,
            colour=PALE,
            at="start",
        ),
    ]
    for u, v in network.edges:
        (x1, y1), (x2, y2) = places[u], places[v]
        parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{EDGE}" stroke-width="2"/>')
    for name, (x, y) in places.items():
        parts += (
            _observer(name, x, y) if name == OBSERVER else _family(name, x, y, table[name].epsilon().upper)
        )
    parts += _legend()
    return "\n".join([*parts, "</svg>", ""])


def _places(network: nx.Graph) -> dict[str, tuple[float, float]]:
    """Kamada and Kawai's layout, which starts from a circle and not from chance, stretched to the frame."""
    found = nx.kamada_kawai_layout(network)
    columns, rows = zip(*found.values(), strict=True)
    return {
        name: (
            LEFT + (RIGHT - LEFT) * (x - min(columns)) / (max(columns) - min(columns)),
            TOP + (BOTTOM - TOP) * (y - min(rows)) / (max(rows) - min(rows)),
        )
        for name, (x, y) in found.items()
    }


def _family(name: str, x: float, y: float, epsilon: float) -> list[str]:
    """A disc with its ε inside, rounded up as every bound is, and its name below."""
    fill, ink = _colour(epsilon)
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="19" fill="{fill}" stroke="{INK}" stroke-width="1.2"/>',
        _text(x, y + 4.5, f"{math.ceil(100 * epsilon) / 100:.2f}", size=13, colour=ink),
        _label(x, y + 34, name),
    ]


def _observer(name: str, x: float, y: float) -> list[str]:
    """The one who looks: a square, so that colour is not all that marks it."""
    return [
        f'<rect x="{x - 20:.1f}" y="{y - 20:.1f}" width="40" height="40" rx="5" fill="{PAPER}" '
        f'stroke="{MARK}" stroke-width="4"/>',
        _text(x, y + 4.5, "sees", size=13, colour=MARK, weight="bold"),
        _label(x, y + 38, name, weight="bold"),
    ]


def _legend() -> list[str]:
    """The scale of ε, and the observer's mark."""
    x, top, height = 668, 150, 250
    stops = "".join(
        f'<stop offset="{k / (len(SCALE) - 1):g}" stop-color="{colour}"/>'
        for k, colour in enumerate(reversed(SCALE))
    )
    parts = [
        f'<linearGradient id="scale" x1="0" y1="0" x2="0" y2="1">{stops}</linearGradient>',
        _text(x + 11, top - 14, "ε", size=16, weight="bold"),
        f'<rect x="{x}" y="{top}" width="22" height="{height}" fill="url(#scale)" stroke="{INK}"/>',
    ]
    for step in range(5):
        value = LOWEST + (HIGHEST - LOWEST) * step / 4
        y = top + height * (1 - step / 4)
        parts.append(f'<path d="M{x + 22} {y:.1f}h6" stroke="{INK}"/>')
        parts.append(_text(x + 33, y + 4.5, f"{value:.1f}", size=13, at="start"))
    parts.append(_text(x + 11, top + height + 28, "more is learnt", size=12, colour=PALE))
    parts.append(_text(x + 11, top + height + 43, "where it is darker", size=12, colour=PALE))
    return parts


def _colour(epsilon: float) -> tuple[str, str]:
    """The fill of the scale at this ε, and an ink that can be read on it."""
    place = min(max((epsilon - LOWEST) / (HIGHEST - LOWEST), 0.0), 1.0) * (len(SCALE) - 1)
    k = min(int(place), len(SCALE) - 2)
    first, second = (bytes.fromhex(SCALE[k + step][1:]) for step in (0, 1))
    mixed = [round(a + (b - a) * (place - k)) for a, b in zip(first, second, strict=True)]
    return "#" + bytes(mixed).hex(), INK if place < 2.4 else PAPER


def _label(x: float, y: float, name: str, weight: str = "normal") -> str:
    """A name with a paper-coloured rim, so that edges do not cross it."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="13" font-weight="{weight}" text-anchor="middle" fill="{INK}" '
        f'stroke="{PAPER}" stroke-width="4" stroke-linejoin="round" paint-order="stroke">{name}</text>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    *,
    size: int,
    colour: str = INK,
    weight: str = "normal",
    at: str = "middle",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{at}" '
        f'fill="{colour}">{words}</text>'
    )


if __name__ == "__main__":
    Path(__file__).with_name("picture.svg").write_text(picture(), encoding="utf-8")
