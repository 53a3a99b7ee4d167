# SPDX-License-Identifier: Apache-2.0
"""Questions as people spell them: the words of a command line or of a request become one `Scenario`, by the same rules.

`Spelled` holds every word that a question can have, and whoever reads words fills it in: what can be asked in one place
can be asked in the other, and what makes no sense is refused in one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Literal

from sottovoce.documents import parse_damping, read_damping
from sottovoce.errors import InputError
from sottovoce.feedback import gradient_steps
from sottovoce.protocols import (
    Protocol,
    checked_updates,
    gossip,
    parse_program,
    parse_protocol,
    parse_updates,
    running,
    weight_sums,
)
from sottovoce.scenarios import Scenario

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Contribution, Losses, Slopes
    from sottovoce.scenarios import Relation
    from sottovoce.views import OwnNoise

__all__ = ["Spelled", "SpelledProtocol", "spelled_protocol", "spelled_scenario", "weight_sums"]


@dataclass(frozen=True, kw_only=True)
class SpelledProtocol:
    """What nodes do, in words: `program` is the text of one's own, `damping` a number or a file of numbers."""

    rounds: int
    protocol: str = "gossip"
    program: str | None = None
    damping: str | None = None
    updates: str | None = None
    step_smoothness: float | None = None
    losses: Losses | None = None
    files: bool = False
    """Whether a damping or a protocol that is no such word names a file; a request holds the text of one."""


@dataclass(frozen=True, kw_only=True)
class Spelled(SpelledProtocol):
    """Every word of a question; where no observer or no target is named, all nodes are meant."""

    view: str
    observers: Sequence[str | int] | None = None
    own_noise: OwnNoise = "known"
    exchanges: Sequence[int] | None = None
    targets: Sequence[str | int] | None = None
    contribution: Contribution = "vector"
    participation: str = "full"
    relation: Relation = "add-remove"


def spelled_scenario(weights: GossipWeights, words: Spelled, *, searched: bool = False) -> Scenario:
    """The question that words ask about a network; where coalitions are `searched`, none has to be named.

    >>> from sottovoce.graphs import metropolis_weights
    >>> words = Spelled(rounds=3, view="secure-sum", observers=["1"], participation="at-most:2")
    >>> spelled_scenario(metropolis_weights("ring:n=5"), words).one_view
    View(secure-sum of 1, own noise known)
    """
    if words.view.startswith("coalition") and not words.observers and not searched:
        raise InputError(f"the view {words.view} needs the members of the coalition (name each in observers)")
    if words.view == "everyone" and words.observers:
        raise InputError(
            f"observers must be left out, as the view everyone takes no observer; got {words.observers[0]}"
        )
    return Scenario(
        protocol=spelled_protocol(weights, words),
        view=words.view,
        observers=_named(weights, words.observers),
        own_noise=words.own_noise,
        exchanges=words.exchanges,
        targets=_named(weights, words.targets),
        contribution=words.contribution,
        participation=words.participation,
        relation=words.relation,
    )


def spelled_protocol(weights: GossipWeights, words: SpelledProtocol) -> Protocol:
    """The protocol that words describe on a network.

    >>> from sottovoce.graphs import metropolis_weights
    >>> words = SpelledProtocol(rounds=3, step_smoothness=0.5)
    >>> str(spelled_protocol(metropolis_weights("ring:n=5"), words).updates)
    '[0.5, 1]'
    """
    updates = _updates(words, weights.n)
    own = words.program is not None
    if words.damping is not None and (own or words.protocol != "gossip"):
        beside = "a program of one's own" if own else f"the protocol {words.protocol!r}"
        raise InputError(
            f"damping must be left out with {beside}; got {shortened(words.damping)} (write the coefficients into a "
            "program)"
        )
    if words.program is not None:
        if words.protocol != "gossip":
            raise InputError(
                f"protocol must be left out beside a program of one's own; got {words.protocol!r} and the program"
            )
        read = parse_program(words.program, "the program")
        return running(read, "the program", weights, rounds=words.rounds, updates=updates)
    if words.protocol == "gossip":
        damping = None if words.damping is None else _damping(words.damping, weights, files=words.files)
        return gossip(weights, rounds=words.rounds, damping=damping, updates=updates)
    if not words.files and words.protocol.lower().endswith(".toml"):
        raise InputError(
            f"protocol must be spelled out; got the file {words.protocol!r} (send its text as program)"
        )
    parsed = parse_protocol(words.protocol, weights, rounds=words.rounds)
    return parsed if updates is None else replace(parsed, updates=updates)


def _updates(words: SpelledProtocol, n: int) -> Slopes | Literal["any"] | None:
    """The slopes that words describe, with where they come from; None where they say nothing."""
    if words.step_smoothness is None:
        if words.losses is not None:
            raise InputError(
                f"losses must be those that steps are on, and their size is missing; got {words.losses!r} alone (add "
                "step_smoothness)"
            )
        return None if words.updates is None else checked_updates(parse_updates(words.updates), n)
    if words.updates is not None:
        raise InputError(
            f"updates must be left out beside step_smoothness; {words.updates!r} and {words.step_smoothness!r} say the "
            "same thing twice"
        )
    return gradient_steps(words.step_smoothness, words.losses, n)


def _damping(text: str, weights: GossipWeights, *, files: bool) -> float | NDArray[np.float64]:
    """One number for all nodes, or that of each from a file of them."""
    try:
        return float(text)
    except ValueError:
        return read_damping(text, weights) if files else parse_damping(text, "the damping", weights)


def _named(weights: GossipWeights, names: Sequence[str | int] | None) -> list[Hashable] | None:
    """The labels that are written like `names`, each once; None where all nodes are meant."""
    return list(dict.fromkeys(map(weights.written, names or ()))) or None
