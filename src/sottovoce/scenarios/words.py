# SPDX-License-Identifier: Apache-2.0
"""The short forms of the verbs: keyword arguments out of which `asked` makes a `Scenario` and an `Effort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from sottovoce.errors import InputError
from sottovoce.scenarios.efforts import Effort
from sottovoce.scenarios.values import Scenario

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.scenarios.efforts import Depth, Engine
    from sottovoce.scenarios.values import Relation
    from sottovoce.views import OwnNoise, View

__all__ = ["EffortWords", "RelationWords", "StreamWords", "SweepWords", "WidthWords", "Words", "asked"]


class EffortWords(TypedDict, total=False):
    """What may be spent; none of these words changes what a number guarantees.

    Args:
        engine: how to compute: "auto", "filter" or "reduced".
        effort: "fine" solves for each target, "bulk" bounds all together, within a few per cent for those the observer
            hears directly and for far ones, at a cost that hardly depends on their number; "auto" is fine while that
            takes minutes. An `Effort` instead says all four words at once.
        tolerance: the relative gap between the two ends of an interval at which a search stops.
    """

    engine: Engine
    effort: Effort | Depth
    tolerance: float


class WidthWords(TypedDict, total=False):
    """What a target contributes, for verbs that have one way to compute: of what may be spent, the width alone counts.

    Args:
        contribution: as in `StreamWords`.
        participation: as in `StreamWords`.
        effort: an `Effort` of its tolerance alone.
        tolerance: as in `EffortWords`.
    """

    contribution: Contribution
    participation: Participation | str | None
    effort: Effort
    tolerance: float


class StreamWords(EffortWords, total=False):
    """What a target contributes, and the words of `EffortWords`.

    Args:
        contribution: whether a round's contribution is a "vector" or a number ("scalar"), or whether the vectors of
            all rounds together have norm 1 ("energy").
        participation: the rounds in which a target may contribute, such as `Participation.at_most(5)` or its spelling
            "at-most:5"; every round if None.
    """

    contribution: Contribution
    participation: Participation | str | None


class RelationWords(StreamWords, total=False):
    """What counts as a neighbour, and the words of `StreamWords`.

    Args:
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
    """

    relation: Relation


class Words(RelationWords, total=False):
    """Every word of a question besides its protocol and its view, those of `RelationWords` among them.

    Args:
        targets: names of the nodes to protect; all whose noise the observer does not know if None. Where observers
            take turns, one who knows a target's noise skips it.
        observers: with a view that is given by name, the nodes that have it, each in turn, or the members of a
            coalition; all nodes in turn if None.
        own_noise: with a view that is given by name, whether an observer knows the noise it drew ("known", also if
            None) or not ("hidden"); a `View` says so itself.
        exchanges: with a view that is given by name, which exchanges of a round it shows, counted from 1; all of them
            if None.
    """

    targets: Iterable[Hashable] | None
    observers: Iterable[Hashable] | None
    own_noise: OwnNoise | None
    exchanges: Iterable[int] | None


class SweepWords(Words, total=False):
    """The words of `Words`, and how many share the work.

    Args:
        workers: how many processes of this machine share a sweep, each with BLAS on one thread. As they start afresh,
            a script that asks for more than one must keep its own work under `if __name__ == "__main__":`.
    """

    workers: int


# What each part of an `Effort` is called among the words; a verb without a choice of engines has none of depths.
_SPENT = {"engine": "engine", "depth": "engine", "tolerance": "tolerance", "workers": "workers"}
_REMEDIES = {
    "engine": "this verb has one way to compute",
    "depth": "this verb solves for each target",
    "tolerance": "this verb searches for nothing",
    "workers": "processes share a sweep alone: sweep(…, workers=8)",
}
_EFFORT_WORDS = (*EffortWords.__annotations__, "workers")


def asked(
    question: Scenario | Protocol,
    view: View | str | None,
    words: Mapping[str, Any],
    known: type = Words,
    *,
    coins: bool = False,
    **more: Any,  # noqa: ANN401 - fields of a scenario
) -> tuple[Scenario, Effort]:
    """The scenario and the effort that the arguments of a verb mean: a `Scenario`, or a protocol, a view and words.

    `known` is the TypedDict of the words that the verb knows, and `more` are words that it takes as arguments of their
    own, None where they were not given. A participation by coins is refused unless `coins` says that the verb counts
    them: every pattern of rounds can happen, so that Δ² knows nothing of how rare it is.

    >>> from sottovoce import View, gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> scenario, effort = asked(ring, View.secure_sum(0), {"participation": "at-most:3", "effort": "bulk"})
    >>> scenario.participation.size, effort.depth
    (3, 'bulk')
    """
    for name in words:
        if name not in known.__annotations__ and name not in _EFFORT_WORDS:
            allowed = ", ".join(sorted(known.__annotations__))
            raise TypeError(
                f"unexpected keyword argument {name!r} (the words of this question are {allowed})"
            )
    effort = _effort({name: words[name] for name in _EFFORT_WORDS if name in words}, known)
    rest = {name: value for name, value in words.items() if name not in _EFFORT_WORDS}
    rest |= {name: value for name, value in more.items() if value is not None}
    if isinstance(question, Scenario):
        said = [*(["view"] if view is not None else []), *rest]
        if said:
            raise InputError(
                f"a Scenario says all that is asked; got {', '.join(said)} beside it (write them into the scenario, as "
                "dataclasses.replace does)"
            )
        return _uncoined(question, coins=coins), effort
    if view is None:
        raise InputError(
            "view must be given beside a protocol, such as View.secure_sum(0); got none (or ask with a Scenario)"
        )
    return _uncoined(Scenario(protocol=question, view=view, **rest), coins=coins), effort


def _uncoined(scenario: Scenario, *, coins: bool) -> Scenario:
    """The scenario; refused if records take part by coins and the verb cannot count those."""
    if scenario.participation.kind == "poisson" and not coins:
        raise InputError(
            f"participation {scenario.participation} is by coins, and Δ² has none: every pattern of rounds can happen, "
            "and only ε knows how rarely (ask sampled_account, or the commands account and calibrate; or take "
            "participation full)"
        )
    return scenario


def _effort(words: dict[str, Any], known: type) -> Effort:
    """The effort that its words mean; one that is given as such says all of them. What is not used is refused."""
    given = words.pop("effort", "auto")
    if not isinstance(given, Effort):
        given = Effort(depth=given, **words)
    elif words:
        raise InputError(
            f"an Effort says all that may be spent; got {', '.join(words)} beside it (write them into the Effort)"
        )
    usual = Effort()
    for name, word in _SPENT.items():
        value = getattr(given, name)
        if word not in known.__annotations__ and value != getattr(usual, name):
            said = "effort" if name == "depth" else name
            raise InputError(f"{said} must be left out here; got {value!r} ({_REMEDIES[name]})")
    return given
