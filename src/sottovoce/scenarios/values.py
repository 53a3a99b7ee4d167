# SPDX-License-Identifier: Apache-2.0
"""`Scenario`: who sees what of whom, of which protocol, and what counts as a neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

from sottovoce.errors import InputError, ViewError, one_of, several
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, check_zero_out
from sottovoce.scenarios.terms import scenario_sentences, scenario_terms
from sottovoce.views import (
    ONE_OBSERVER,
    VIEW_NAMES,
    View,
    checked_exchanges,
    observe,
    rests_on,
    target_indices,
)
from sottovoce.vocabulary import Contribution, Relation

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.views import Assumption, OwnNoise

__all__ = ["CONTRIBUTIONS", "RELATIONS", "Answer", "Relation", "Scenario"]

RELATIONS: dict[Relation, int] = {"add-remove": 1, "replace-one": 2, "zero-out": 1}
"""By how many clips a contribution can differ between neighbouring inputs."""

CONTRIBUTIONS: tuple[Contribution, ...] = get_args(Contribution)

_COALITIONS = {
    "coalition-sums": "View.coalition_sums([…])",
    "coalition-messages": "View.coalition_messages([…])",
}


@dataclass(frozen=True, kw_only=True, init=False)
class Scenario:
    """The question: what a view of a protocol shows of each target, and under which neighbouring relation.

    `view` is a `View`, or the name of one: then each of `observers` in turn has it (every node if None), or all of them
    together if they are a coalition, with their own noise known or hidden. `targets` are the nodes to protect, all if
    None. What each word means is said in `Words`. Names of nodes and the spelling of a participation are written out on
    the way in, and so is what a `View` says of its observers.

    >>> from sottovoce import gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> scenario = Scenario(protocol=ring, view="secure-sum", observers=[3, 4], targets=["3"], participation="every:2")
    >>> [(one.view, one.targets) for one in scenario.each()]
    [(View(secure-sum of 4, own noise known), (3,))]
    >>> scenario.participation.size, scenario.assumption
    (2, 'oblivious')
    """

    protocol: Protocol
    view: View | str
    observers: tuple[Hashable, ...] | None
    own_noise: OwnNoise
    exchanges: tuple[int, ...] | None
    targets: tuple[Hashable, ...] | None
    contribution: Contribution
    participation: Participation
    relation: Relation

    def __init__(
        self,
        *,
        protocol: Protocol,
        view: View | str,
        observers: Iterable[Hashable] | None = None,
        own_noise: OwnNoise | None = None,
        exchanges: Iterable[int] | None = None,
        targets: Iterable[Hashable] | None = None,
        contribution: Contribution = "vector",
        participation: Participation | str | None = None,
        relation: Relation = "add-remove",
    ) -> None:
        """Write out what is spelled, and refuse what does not fit; every error names value, rule and remedy."""
        if not isinstance(protocol, Protocol):
            raise InputError(
                f"protocol must be a Protocol, such as gossip(weights, rounds=100); got {protocol!r}"
            )
        one_of(CONTRIBUTIONS, contribution=contribution)
        one_of(RELATIONS, relation=relation)
        if isinstance(view, View):
            _check_agreement(view, observers, own_noise, exchanges)
            observers, own_noise, exchanges = view.observers, view.own_noise, view.exchanges
        elif isinstance(view, str):
            one_of(VIEW_NAMES, view=view)
            own_noise = "known" if own_noise is None else own_noise
            one_of(("known", "hidden"), own_noise=own_noise)
            observers = _labels(protocol, observers=observers)
            exchanges = checked_exchanges(protocol, exchanges)
            if view == "everyone":
                # The same whoever observes.
                observers, own_noise = None, "known"
        else:
            raise ViewError(f"a view must be a View, such as View.secure_sum(0); got {view!r}")
        chosen = _participation(participation)
        # What does not fit the rounds is refused before the work.
        chosen.largest_count(protocol.rounds)
        fields = {
            "protocol": protocol,
            "view": view,
            "observers": observers,
            "own_noise": own_noise,
            "exchanges": exchanges,
            "targets": _labels(protocol, targets=targets),
            "contribution": contribution,
            "participation": chosen,
            "relation": relation,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def view_name(self) -> str:
        """What the view is called."""
        return self.view.name if isinstance(self.view, View) else self.view

    @property
    def takes_turns(self) -> bool:
        """Whether the view is given by a name that belongs to one observer at a time."""
        return self.view in ONE_OBSERVER if isinstance(self.view, str) else False

    @cached_property
    def views(self) -> tuple[View, ...]:
        """The view of each observer in turn; a single one of a coalition, and where all observers see the same."""
        if isinstance(self.view, View):
            return (self.view,)
        if self.view == "everyone":
            seen = View.everyone
            return (seen if self.exchanges is None else replace(seen, exchanges=self.exchanges),)
        if self.takes_turns:
            labels = self.protocol.labels if self.observers is None else self.observers
            return tuple(
                View(name=self.view, observers=(label,), own_noise=self.own_noise, exchanges=self.exchanges)
                for label in labels
            )
        if self.observers is None:
            raise ViewError(
                f"view must belong to one observer at a time; got {self.view!r} "
                f"(name the coalition, as in account(protocol, {_COALITIONS[self.view]}, …))"
            )
        return (
            View(
                name=self.view, observers=self.observers, own_noise=self.own_noise, exchanges=self.exchanges
            ),
        )

    @property
    def one_view(self) -> View:
        """The view, where there is one alone; a name that every node has in turn is refused."""
        if (self.takes_turns and self.observers is None) or len(self.views) > 1:
            raise ViewError(
                f"a view must be a View, such as View.secure_sum(0); got {self.view!r} (name one observer, or ask "
                "account_all, which goes through all of them)"
            )
        return self.views[0]

    def each(self) -> list[Scenario]:
        """One question for each view that has targets; an observer in turn skips a target whose noise it knows."""
        if not self.takes_turns:
            return [self.of(self.views[0], self.targets)]
        known = self.own_noise == "known"
        found = []
        for view in self.views:
            kept = self.targets
            if kept is not None and known:
                kept = tuple(label for label in kept if label not in view.observers)
            if kept is None or kept:
                found.append(self.of(view, kept))
        if self.targets and not found:
            raise InputError(
                f"no target remains: the only observer is node {self.targets[0]!r} itself, which knows its own noise "
                "(choose another target or observer, or own_noise='hidden')"
            )
        return found

    def of(self, view: View, targets: Iterable[Hashable] | None = None) -> Scenario:
        """The same question about another view and its targets, all if None."""
        return replace(self, view=view, observers=None, own_noise=None, exchanges=None, targets=targets)  # type: ignore[arg-type]

    @property
    def pairs(self) -> int:
        """How many pairs of an observer and a target one view has: a target whose noise is known is none."""
        if self.targets is not None:
            return len(self.targets)
        view = self.one_view
        known = view.known_noise if view.name == "custom" else view.observers
        if view.own_noise == "hidden":
            known = ()
        return self.protocol.n - len({self.protocol.index(label) for label in known})

    @property
    def target_indices(self) -> NDArray[np.int64]:
        """The indices of the targets of one view in ascending order; one whose noise is known is refused."""
        view = self.one_view
        return target_indices(self.protocol, view, observe(self.protocol, view).known, self.targets)

    @property
    def one_target(self) -> Hashable:
        """The target, where there is one alone."""
        if self.targets is None or len(self.targets) != 1:
            raise InputError(
                f"targets must name one node here; got {'all' if self.targets is None else list(self.targets)} "
                "(ask about each target alone)"
            )
        return self.targets[0]

    @property
    def assumption(self) -> Assumption:
        """What a number about this scenario rests on at most; how it is proved may let it rest on less."""
        return rests_on(self.protocol, self.view)

    def terms(self) -> dict[str, Any]:
        """What is asked, by name and in one order, as values that JSON holds: every output states them."""
        return scenario_terms(self)

    def sentences(self) -> dict[str, str]:
        """The terms in words, a line for each."""
        return scenario_sentences(self)

    def check_relation(self) -> None:
        """Refuse a relation that the update maps of training do not allow for."""
        check_zero_out(self.protocol.updates, self.relation)


class Answer:
    """What every answer to a scenario knows of its question, by the words of the question."""

    scenario: Scenario

    @property
    def protocol(self) -> Protocol:
        """What the nodes do."""
        return self.scenario.protocol

    @property
    def own_noise(self) -> OwnNoise:
        """Whether observers know the noise that they drew."""
        return self.scenario.own_noise

    @property
    def relation(self) -> Relation:
        """How neighbouring inputs differ."""
        return self.scenario.relation

    @property
    def contribution(self) -> Contribution:
        """What a round's contribution is."""
        return self.scenario.contribution

    @property
    def participation(self) -> Participation:
        """The rounds in which a target contributes."""
        return self.scenario.participation


def _check_agreement(
    view: View,
    observers: Iterable[Hashable] | None,
    own_noise: OwnNoise | None,
    exchanges: Iterable[int] | None,
) -> None:
    """Refuse words beside a `View` that say otherwise than it does."""
    if own_noise not in {None, view.own_noise}:
        raise InputError(
            f"own_noise must agree with the view; got {own_noise!r} and {view!r} (say it in the view alone)"
        )
    if exchanges is not None and tuple(exchanges) != view.exchanges:
        raise InputError(
            f"exchanges must agree with the view; got {exchanges!r} and {view!r} (say it in the view alone)"
        )
    if observers is not None and tuple(observers) != view.observers:
        raise InputError(
            f"observers must agree with the view; got {observers!r} and {view!r} (say it in the view alone)"
        )


def _labels(protocol: Protocol, **named: Iterable[Hashable] | None) -> tuple[Hashable, ...] | None:
    """The nodes that are named, as the protocol calls them and each once; None where all are meant."""
    ((word, names),) = named.items()
    if names is None:
        return None
    several(**{word: names})
    found = tuple(dict.fromkeys(protocol.labels[protocol.index(name)] for name in names))
    if not found:
        raise InputError(f"{word} must name at least one node; got none (leave it out for all nodes)")
    return found


def _participation(participation: Participation | str | None) -> Participation:
    """A participation given as such, by its spelling, or (None) full."""
    if isinstance(participation, str):
        return Participation.parse(participation)
    if participation is None:
        return Participation.full()
    if not isinstance(participation, Participation):
        raise InputError(
            f"participation must be a Participation or its spelling, such as 'at-most:5'; got {participation!r}"
        )
    return participation
