# SPDX-License-Identifier: Apache-2.0
"""Both ends of Δ² in a few small scenarios, to the last bit; `python -m tests.bits` writes tests/golden/bits.json.

They say nothing about what is right, as the other golden values do, but whether a change that should change no number
has changed one. Whoever means to change numbers writes the file anew, in the same commit. It holds the bits of several
machines: those of another are added, and where numbers of this one have changed, those of others are out of date and
go. `OPENBLAS_CORETYPE=SkylakeX python -m tests.bits` adds those of another kind of processor, if this one can stand for
it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from tests.scenes import PROTOCOLS, RING
from threadpoolctl import threadpool_info

from sottovoce import View, gossip, graphs, sensitivity, worst_coalition

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE = Path(__file__).parent / "golden" / "bits.json"


def machine() -> dict[str, Any]:
    """What decides how sums are rounded: versions, the BLAS and its kernels, and what NumPy uses of the processor."""
    known: Any = np.show_config(mode="dicts")
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted({f"{each['version']} {each.get('architecture')}" for each in threadpool_info()}),
        "vectors": sorted(known["SIMD Extensions"].get("found", [])),
    }


def scenarios() -> dict[str, dict[str, Any]]:
    """Plain gossip under every kind of view, of numbers and of vectors, and one of every builder of programs."""
    karate = gossip(graphs.metropolis_weights("karate"), rounds=12)
    ring = gossip(RING, rounds=30)
    plain: dict[str, dict[str, Any]] = {
        "karate, a sum": {"question": karate, "view": View.secure_sum(0), "targets": [1, 9, 33]},
        "karate, messages": {"question": karate, "view": View.neighbourhood(2), "targets": [0, 13]},
        "karate, two who pool sums": {
            "question": karate,
            "view": View.coalition_sums([0, 33]),
            "targets": [2, 8],
        },
        "ring, a node": {"question": ring, "view": View.single_node(0), "targets": [1, 2]},
        "ring, everything": {"question": ring, "view": View.everyone, "targets": [1]},
        "ring, at most five": {
            "question": ring,
            "view": View.secure_sum(0),
            "targets": [1, 2],
            "participation": "at-most:5",
        },
        "ring, numbers": {
            "question": ring,
            "view": View.secure_sum(0),
            "targets": [1, 2],
            "contribution": "scalar",
        },
        "ring, energy": {
            "question": ring,
            "view": View.secure_sum(0),
            "targets": [1, 2],
            "contribution": "energy",
        },
        "regular, many targets": {
            "question": gossip(graphs.metropolis_weights("random-regular:n=80,d=4,seed=1"), rounds=40),
            "view": View.neighbourhood(0),
            "targets": [1, 20, 79],
            "effort": "bulk",
        },
        "ring, long": {"question": replace(ring, rounds=2100), "view": View.secure_sum(0), "targets": [1, 2]},
    }
    programs = {
        f"{number}: {protocol.name}": {"question": protocol, "view": View.secure_sum(0), "targets": [2]}
        for number, protocol in enumerate(PROTOCOLS)
    }
    return plain | programs


def ends() -> dict[str, list[list[str]]]:
    """Both ends of each target of each scenario, as hexadecimal floats."""
    found = {}
    for name, words in scenarios().items():
        asked = dict(words)
        answer = sensitivity(asked.pop("question"), asked.pop("view"), asked.pop("targets"), **asked)
        found[name] = _written(zip(answer.squared_lower, answer.squared_upper, strict=True))
    searched = worst_coalition(gossip(RING, rounds=6), 0, size=2)
    found["ring, the worst two"] = _written([(searched.sensitivity.lower, searched.sensitivity.upper)])
    return found


def _written(pairs: Iterable[tuple[float, float]]) -> list[list[str]]:
    """Pairs of ends as hexadecimal floats."""
    return [[float(end).hex() for end in both] for both in pairs]


def stored() -> list[dict[str, Any]]:
    """What is stored: a machine and its ends, one after the other."""
    if not FILE.exists():
        return []
    found: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["machines"]
    return found


def main() -> None:
    """Add what this machine finds; where it once found something else, the others go."""
    about = (
        "Both ends of Δ² as this package computed them on some machines; python -m tests.bits writes them."
    )
    here: dict[str, Any] = {"machine": machine(), "ends": ends()}
    others = [each for each in stored() if each["machine"] != here["machine"]]
    if any(each["machine"] == here["machine"] and each != here for each in stored()):
        others = []
    document = {"about": about, "machines": [*others, here]}
    FILE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
