# SPDX-License-Identifier: Apache-2.0
"""What it takes to verify a certificate in floats and in balls, over nodes and rounds.

python -m benchmarks.verification
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip, momentum
from sottovoce.sensitivities import certify
from sottovoce.verification import verify
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.protocols import Protocol


def cases() -> list[tuple[str, Protocol, View]]:
    """Rings of some nodes and rounds, a denser view, another program, and training."""
    rings = {n: metropolis_weights(f"ring:n={n}") for n in (10, 20, 40)}
    sums, neighbours = View.secure_sum(0), View.neighbourhood(0)
    return [
        *((f"gossip, sums, n = {n}, T = {T}", gossip(rings[n], rounds=T), sums) for n, T in SIZES),
        ("gossip, neighbourhood, n = 10, T = 20", gossip(rings[10], rounds=20), neighbours),
        ("momentum, sums, n = 10, T = 20", momentum(rings[10], rounds=20, beta="9/10"), sums),
        ("training, sums, n = 10, T = 20", gossip(rings[10], rounds=20, updates=(0.5, 1)), sums),
        ("training, sums, n = 20, T = 200", gossip(rings[20], rounds=200, updates=(0.5, 1)), sums),
    ]


SIZES = ((10, 10), (10, 20), (10, 50), (20, 20), (40, 20))


def seconds(protocol: Protocol, view: View) -> dict[str, float]:
    """How long each arithmetic takes, the best of three."""
    certificate = certify(protocol, view, 1)
    taken = {"float": math.inf, "balls": math.inf}
    for arithmetic in ("float", "balls") * 3:
        begun = time.perf_counter()
        assert verify(certificate, protocol.weights, arithmetic=arithmetic).verified
        taken[arithmetic] = min(taken[arithmetic], time.perf_counter() - begun)
    return taken


def main() -> None:
    """Print a table."""
    print("| claim | floats, ms | balls, ms | ratio |\n|---|---|---|---|")
    for name, protocol, view in cases():
        taken = seconds(protocol, view)
        floats, balls = (1000 * taken[arithmetic] for arithmetic in ("float", "balls"))
        print(f"| {name} | {floats:.1f} | {balls:.0f} | {balls / floats:.0f} |", flush=True)


if __name__ == "__main__":
    main()
