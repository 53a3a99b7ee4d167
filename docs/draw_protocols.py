# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/protocols.md, and print its table.

Run `python docs/draw_protocols.py` to write the files again; it runs three studies of `sottovoce reproduce protocols`,
the one of encoders without its largest networks.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.report.figures import drawn, figure_bytes
from sottovoce.studies import encoders, equal_error, surprises
from sottovoce.studies.results import above, near

if TYPE_CHECKING:
    from sottovoce.studies import StudyResult

PICTURES = ("equal-error", "surprises", "encoders")


@cache
def results() -> dict[str, StudyResult]:
    """What is drawn, by the name of its study."""
    return {
        "equal-error": equal_error.run(equal_error.Config()),
        "surprises": surprises.run(surprises.Config()),
        "encoders": encoders.run(encoders.Config(sizes=encoders.Config().sizes[:2], sums=())),
    }


def picture(name: str) -> bytes:
    """The whole SVG file of one study."""
    return figure_bytes(drawn(name, results()[name]), "svg")


def table() -> list[str]:
    """The protocols at equal averaging error as lines of Markdown; each ε is rounded up, as every bound is."""
    result = results()["equal-error"]
    assert isinstance(result, equal_error.Result)
    return [
        f"| {row.name} | {row.exchanges} | {near(row.noise, 3)} | "
        + " | ".join(above(float(row.epsilon[k]), 3) for k in range(4))
        + " |"
        for row in result.rows
    ]


if __name__ == "__main__":
    for study in PICTURES:
        Path(__file__).with_name(f"{study}.svg").write_bytes(picture(study))
    sys.stdout.write("\n".join([*table(), ""]))
