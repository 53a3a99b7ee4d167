# SPDX-License-Identifier: Apache-2.0
"""How close the certified interval is, and how far the usual bounds are, for every graph family and view.

For a neighbour of the observer and a far node: the interval [lower, upper] of Δ²/T, its gap, and Σ|M| (`abs`),
T·λ_max(M) (`spectral`), constant signs and the 1/n-type closed form as multiples of the certified upper end.

    python -m benchmarks.tightness [--quick] [--rounds 50 200 1000] [--json FILE] [GRAPH …]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.filtering import HiddenSystem, hidden_system, whitened_response
from sottovoce.sensitivities import absolute_bound, spectral_bound
from sottovoce.views import observe

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILIES = (
    "erdos-renyi:n=100,p=0.15,seed=1",
    "preferential:n=100,core=5,links=3,seed=1",
    "torus:rows=10,cols=10",
    "ring:n=100",
    "star:n=50",
    "complete:n=20",
    "small-world:n=100,k=6,p=0.1,seed=1",
    "karate",
)
VIEWS: dict[str, Callable[[int], View]] = {
    "secure-sum": View.secure_sum,
    "single-node, hidden": lambda i: View.single_node(i, own_noise="hidden"),
    "neighbourhood": View.neighbourhood,
    "coalition-sums of 2": lambda i: View.coalition_sums([i, i + 1]),
}


def measured(graph: str, rounds: int) -> list[dict[str, Any]]:
    """One row for each view and target: the interval, and the other bounds as multiples of its upper end."""
    protocol = gossip(graphs.metropolis_weights(graph), rounds=rounds)
    observer = 0 if graph.startswith("star") else 3
    rows = []
    for name, view_of in VIEWS.items():
        view = view_of(observer)
        observation = observe(protocol, view)
        system = hidden_system(protocol, observation)
        near, far = _near_and_far(system, [observer, observer + 1], rounds)
        begin = time.perf_counter()
        response = whitened_response(system)
        for kind, position in (("near", near), ("far", far)):
            target = protocol.labels[int(system.unknown[position])]
            found = sensitivity(protocol, view, targets=[target])[target]
            (forms,) = response.forms(np.array([position]))
            upper = found.squared.upper
            rows.append(
                {
                    "graph": graph,
                    "rounds": rounds,
                    "view": name,
                    "target": kind,
                    "lower": found.squared.lower / rounds,
                    "upper": upper / rounds,
                    "gap": found.squared.gap,
                    "method": found.method,
                    "abs": float(absolute_bound(forms.matrices[0])) / upper,
                    "spectral": float(spectral_bound(forms.matrices[0])) / upper,
                    "constant": float(forms.matrices[0].sum()) / upper,
                    "closed form": rounds * observation.rows.shape[0] / system.unknown.size / upper,
                    "seconds": time.perf_counter() - begin,
                }
            )
            begin = time.perf_counter()
    return rows


def _near_and_far(system: HiddenSystem, observers: list[int], rounds: int) -> tuple[int, int]:
    """Positions of a closest and a farthest target, observers apart, that the signal can reach in half the rounds.

    Nodes farther out are seen so faintly (Δ² far below 1e-9) that only the upper end says anything about them.
    """
    others = np.flatnonzero(~np.isin(system.unknown, observers))
    hops = system.hops()[others]
    reached = np.where(hops <= min(rounds // 4, 12), hops, -1)
    return int(others[np.argmin(hops)]), int(others[np.argmax(reached)])


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=list(FAMILIES), metavar="GRAPH")
    parser.add_argument("--rounds", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--quick", action="store_true", help="50 rounds only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    columns = ("lower", "upper", "gap", "abs", "spectral", "constant", "closed form")
    print(f"{'graph':26} {'T':>5} {'view':20} {'target':6} {'method':7}", *(f"{c:>11}" for c in columns))
    rows = []
    for graph in chosen.graphs:
        for rounds in [50] if chosen.quick else chosen.rounds:
            for row in measured(graph, rounds):
                rows.append(row)
                head = f"{graph[:26]:26} {rounds:5} {row['view']:20} {row['target']:6} {row['method']:7}"
                print(head, *(f"{row[c]:11.4g}" for c in columns))
    worst = max(rows, key=lambda row: row["gap"])
    print(f"largest gap {worst['gap']:.2e} ({worst['graph']}, T = {worst['rounds']}, {worst['view']})")
    print(f"abs overstates by up to {max(row['abs'] for row in rows):.3f}x", end=", ")
    print(f"spectral by up to {max(row['spectral'] for row in rows):.3f}x", end=", ")
    print(f"constant signs understate by up to {max(1 / row['constant'] for row in rows):.1f}x")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
