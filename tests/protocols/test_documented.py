# SPDX-License-Identifier: Apache-2.0
"""The table of docs/protocols.md, computed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sottovoce import View, graphs, sensitivity
from sottovoce.protocols import (
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    repeated,
)

PAGE = (Path(__file__).parent.parent.parent / "docs" / "protocols.md").read_text(encoding="utf-8")
W = graphs.metropolis_weights("ring:n=12")
# In the order of the table.
PROTOCOLS = [
    gossip(W, rounds=10),
    repeated(W, rounds=10, steps=2),
    chebyshev(W, rounds=10, steps=3),
    momentum(W, rounds=10, beta="0.9"),
    momentum(W, rounds=10, beta="0.9", noise="message"),
    gradient_tracking(W, rounds=10),
    gradient_tracking(W, rounds=10, noise="messages"),
    exact_diffusion(W, rounds=10),
    exact_diffusion(W, rounds=10, noise="messages"),
    pairwise_noise(W, rounds=10, local=1, shared=2),
    clean_state(W, rounds=10, keep="0.5"),
    gossip(W, rounds=10, encoder=[1] * 10),
]
ROWS = re.findall(
    r"^\| .* \| ([\d.]+) \| ([\d.e-]+, [\d.e-]+, [\d.e-]+) \| ([\d.e-]+, .*) \|$", PAGE, re.MULTILINE
)


def test_every_row_has_its_protocol() -> None:
    assert len(ROWS) == len(PROTOCOLS)


@pytest.mark.parametrize(
    ("row", "protocol"), list(zip(ROWS, PROTOCOLS, strict=False)), ids=lambda x: getattr(x, "name", "")
)
def test_the_table_is_what_comes_out(row: tuple[str, str, str], protocol: Protocol) -> None:
    for shown, view in zip(row, (View.everyone, View.neighbourhood(0), View.secure_sum(0)), strict=True):
        found = sensitivity(protocol, view, [1, 3, 6]).squared_upper
        told = [float(each) for each in shown.split(", ")]
        assert found[: len(told)] == pytest.approx(told, rel=2e-2 if min(told) < 0.01 else 6e-3)
