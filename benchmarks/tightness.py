# SPDX-License-Identifier: Apache-2.0
"""How close the certified interval is, and how far the usual bounds are, for every graph family and view.

For a neighbour of the observer and a far node: the interval [lower, upper] of Δ²/T, its gap, and Σ|M| (`abs`),
T·λ_max(M) (`spectral`), constant signs and the 1/n-type closed form as multiples of the certified upper end.

    python -m benchmarks.tightness [--quick] [--rounds 50 200 1000] [--json FILE] [GRAPH …]

With --observers the targets of so many observers of each graph are bounded together, secure sums, as a sweep does: the
percentiles of the gap, of all pairs and of neighbours, and processor seconds an observer. One observer is drawn at
random from each of as many classes by degree.

    python -m benchmarks.tightness facebook_combined.txt --observers 40 --rounds 1000
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
# Which shares of all pairs have a gap of at most what is printed.
LEVELS = {"half": 0.5, "3 in 4": 0.75, "9 in 10": 0.9, "19 in 20": 0.95, "99 in 100": 0.99, "all": 1.0}


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


def sampled(graph: str, rounds: int, count: int, seed: int = 1) -> dict[str, Any]:
    """Quantiles of the gap over all targets of `count` observers, and over their neighbours, and processor seconds."""
    weights = graphs.metropolis_weights(graph)
    protocol, degrees = gossip(weights, rounds=rounds), np.diff(weights.matrix.indptr)
    rng = np.random.default_rng(seed)
    classes = np.array_split(np.argsort(degrees, kind="stable"), count)
    near, gaps, seconds = [], [], 0.0
    for observer in (int(rng.choice(each)) for each in classes):
        begin = time.process_time()
        found = sensitivity(protocol, View.secure_sum(protocol.labels[observer]), effort="bulk")
        seconds += time.process_time() - begin
        apart = found.squared_upper - found.squared_lower
        gap = np.divide(apart, found.squared_lower, out=np.where(apart > 0, np.inf, 0.0), where=apart > 0)
        gaps.append(gap)
        linked = weights.matrix.indices[weights.matrix.indptr[observer] : weights.matrix.indptr[observer + 1]]
        near.append(gap[np.isin(found.indices, linked)])
    row: dict[str, Any] = {"graph": graph, "rounds": rounds, "observers": count, "seconds": seconds / count}
    for kind, some in (("all pairs", np.concatenate(gaps)), ("neighbours", np.concatenate(near))):
        row[kind] = {"pairs": len(some), "above 5 %": int((some > 0.05).sum())}
        row[kind] |= {name: float(np.quantile(some, level)) for name, level in LEVELS.items()}
    return row


def print_sample(row: dict[str, Any]) -> None:
    """The quantiles of one sample, a line for all pairs and one for neighbours."""
    print(
        f"{row['graph']}, T = {row['rounds']}: {row['observers']} observers, {row['seconds']:.2f} seconds each"
    )
    for kind in ("all pairs", "neighbours"):
        quantiles = "  ".join(f"{name} {row[kind][name]:.2%}" for name in LEVELS)
        print(f"  {kind} ({row[kind]['pairs']}): {quantiles}  above 5 %: {row[kind]['above 5 %']}")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", default=list(FAMILIES), metavar="GRAPH")
    parser.add_argument("--rounds", nargs="+", type=int, default=[50, 200, 1000])
    parser.add_argument("--quick", action="store_true", help="50 rounds only")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--observers", type=int, help="bound all targets of so many observers together")
    chosen = parser.parse_args(arguments)
    if chosen.observers is not None:
        samples = []
        for graph in chosen.graphs:
            for rounds in chosen.rounds:
                samples.append(sampled(graph, rounds, chosen.observers))
                print_sample(samples[-1])
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
        return
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
