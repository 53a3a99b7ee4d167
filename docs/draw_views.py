# SPDX-License-Identifier: Apache-2.0
"""Draw docs/views/ and docs/programs/: who sees what in each view, and what a round of each protocol is.

Run `python docs/draw_views.py` to write the files again.
"""

from __future__ import annotations

import re
from pathlib import Path

from sottovoce import graphs, protocols
from sottovoce.report import DRAWN, program_drawing, view_drawing, view_tree

INK, MARK = "#6b6672", "#0b78c2"
WEIGHTS = graphs.metropolis_weights("ring:n=6")
PROTOCOLS = (
    "gossip",
    "repeated:steps=2",
    "chebyshev:steps=2,gamma=0.5",
    "momentum:beta=0.9",
    "gradient-tracking",
    "exact-diffusion",
    "pairwise-noise:local=1,shared=2",
    "once:steps=2",
    "clean-state:keep=0.5",
    "push-sum",
)


def pictures() -> dict[str, str]:
    """Every file of the two folders, by its name below docs."""
    views = {f"views/{view}.svg": view_drawing(view) for view in DRAWN}
    views["views/tree.svg"] = view_tree()
    programs = {f"programs/{spelling.partition(':')[0]}.svg": _program(spelling) for spelling in PROTOCOLS}
    return {name: _file(drawn) for name, drawn in (views | programs).items()}


def _program(spelling: str) -> str:
    rounds = 1 if spelling.startswith("once") else 2
    return program_drawing(protocols.parse_protocol(spelling, WEIGHTS, rounds=rounds).program)


def _file(drawn: str) -> str:
    """A drawing as a file of its own: with a name space, and with colours that show on light and dark."""
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn)
    assert found is not None
    size = f'width="{found[1]}" height="{found[2]}"'
    whole = drawn.replace(
        "<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" {size} ', 1
    )
    for name in ("seen", "sees"):
        whole = whole.replace(f'class="{name}"', f'stroke="{MARK}"')
    return whole.replace("currentColor", INK) + "\n"


if __name__ == "__main__":
    for file, text in pictures().items():
        path = Path(__file__).parent / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
