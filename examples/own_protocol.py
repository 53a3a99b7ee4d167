# SPDX-License-Identifier: Apache-2.0
"""A protocol of one's own, in Python and in TOML: noise that is taken off again in the round after.

Run it: python examples/own_protocol.py
"""

# ruff: noqa: T201 - an example prints

from __future__ import annotations

from pathlib import Path

from sottovoce import Combine, Draw, Exchange, Program, Protocol, View, account, gossip, graphs
from sottovoce.protocols import read_program

ROUNDS, NOISE, DELTA = 10, 4.0, 1e-5
TAKES_BACK = Program(
    keeps=("model", "last"),
    draws=(Draw("u"),),
    instructions=(
        Combine("message", {"model": 1, "contribution": 1, "u": 1, "last": "-1/2"}),
        Combine("last", {"u": 1}),
        Exchange("message", "model"),
    ),
)


def main() -> None:
    """Read the same program from a file, and say what it costs beside plain gossip and beside an encoder."""
    weights = graphs.metropolis_weights("ring:n=12")
    mine = Protocol(weights=weights, program=TAKES_BACK, rounds=ROUNDS, name="takes-back")
    program, more = read_program(Path(__file__).with_suffix(".toml"))
    read = Protocol(weights=weights, program=program, rounds=ROUNDS, **more)
    print(read.sentence)
    print(f"the file says the same: {read.hash == mine.hash}")
    # C⁻¹ takes off half of the draw before, so that C has 1, 1/2, 1/4, …: the same noise, told in another way.
    encoded = gossip(weights, rounds=ROUNDS, encoder=[0.5**k for k in range(ROUNDS)])
    for name, protocol in (
        ("gossip", gossip(weights, rounds=ROUNDS)),
        ("takes-back", mine),
        ("encoder", encoded),
    ):
        table = account(protocol, View.neighbourhood(0), noise_multiplier=NOISE, delta=DELTA)
        near, far = (table[node].epsilon().upper for node in (1, 6))
        print(f"{name}: ε ≤ {near:.3f} about a neighbour, ε ≤ {far:.4f} about the node across")


if __name__ == "__main__":
    main()
