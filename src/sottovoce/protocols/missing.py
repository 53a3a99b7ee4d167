# SPDX-License-Identifier: Apache-2.0
"""Which noise is missing where a contribution is seen beside none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.protocols.rationals import spread

if TYPE_CHECKING:
    from sottovoce.protocols.protocol import Protocol

__all__ = ["missing_noise"]


def missing_noise(protocol: Protocol, node: int) -> str:
    """Why no noise hides a node whose sensitivity is infinite, and what would, in one sentence.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import clean_state
    >>> bare = clean_state(graphs.metropolis_weights("path:n=3"), rounds=2, keep="1/2", noise_levels=(1, 0, 1))
    >>> missing_noise(bare, 1)
    "the draw 'u' has level 0 at node 1, so that some of what it contributes is seen beside no noise at all"
    """
    label = protocol.labels[node]
    draws = [draw for program in protocol.programs for draw in program.draws]
    # An edge's draw has one level for all edges.
    silent = dict.fromkeys(
        draw.name
        for draw in draws
        if not (spread(draw.level, protocol.n)[node] if draw.each == "node" else spread(draw.level, 1)[0])
    )
    if not draws:
        why = "the program draws no noise"
    elif silent:
        names = " and ".join(map(repr, silent))
        why = f"the {'draw' if len(silent) == 1 else 'draws'} {names} {'has' if len(silent) == 1 else 'have'} level 0"
        why += f" at node {label}"
    else:
        names = " and ".join(repr(name) for name in dict.fromkeys(draw.name for draw in draws))
        why = f"what the observer knows of {names} takes all noise off what node {label} contributes"
        return f"{why}, or the program shows a contribution before it adds noise"
    return f"{why}, so that some of what {'a node' if not draws else 'it'} contributes is seen beside no noise at all"
