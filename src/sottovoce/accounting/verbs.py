# SPDX-License-Identifier: Apache-2.0
"""`account`, `account_all` and `calibrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.accounting.table import AccountTable
from sottovoce.accounting.values import RELATIONS, Relation
from sottovoce.errors import InputError, ViewError, one_of, positive, probability
from sottovoce.protocols.updates import check_zero_out
from sottovoce.sensitivities import as_participation, sensitivity
from sottovoce.sensitivities.training import sharpened_views, solves_each
from sottovoce.views import ONE_OBSERVER, View, observe, rests_on, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sottovoce.filtering import Engine
    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.sensitivities import Effort, Sensitivities
    from sottovoce.views import OwnNoise

__all__ = [
    "Interrupted",
    "account",
    "account_all",
    "calibrate",
    "observer_views",
    "table_of",
]

_COALITIONS = {
    "coalition-sums": "View.coalition_sums([…])",
    "coalition-messages": "View.coalition_messages([…])",
}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while `account_all` goes through observers: `table` holds the pairs of those that were finished.

    `pairs` is how many were asked for.
    """

    def __init__(self, table: AccountTable, pairs: int) -> None:
        """Keep what there is."""
        super().__init__(f"interrupted after {len(table)} of {pairs} pairs")
        self.table = table
        self.pairs = pairs


def account(
    protocol: Protocol,
    view: View,
    *,
    noise_multiplier: float,
    delta: float,
    relation: Relation = "add-remove",
    targets: Sequence[Hashable] | None = None,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    engine: Engine = "auto",
    effort: Effort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> AccountTable:
    """What one view gives away about each target, over all rounds of the protocol.

        μ = factor·Δ/noise_multiplier,   factor 1 (add-remove, zero-out) or 2 (replace-one).

    Args:
        protocol: what the nodes do, such as `gossip(weights, rounds=100)`.
        view: what the observer sees and whose noise it knows, such as `View.secure_sum(3)`.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
        targets: names of the nodes to protect; all whose noise the observer does not know if None.
        contribution: whether a round's contribution is a "vector" or a number ("scalar").
        participation: the rounds in which a target may contribute, such as `Participation.at_most(5)` or its
            spelling "at-most:5"; every round if None.
        engine: how to compute: "auto", "filter" or "reduced".
        effort: "fine" solves for each target, "bulk" bounds all together within a few per cent, "auto" is fine while
            that takes minutes.
        progress: called with (targets done, targets in all).

    Guarantee: the ends of every interval hold, rounding included, for contributions that are fixed in advance
    or depend only on what the observer has seen; with a protocol that damps, also on hidden states as quadratic
    losses make them.
    Source: Theorem 12 of Koskela & Kulkarni for Δ; Dong, Roth & Su 2022 for μ.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    >>> table = account(ring, View.secure_sum(0), noise_multiplier=2.0, delta=1e-5)
    >>> table.epsilon_upper.round(2)
    array([2.42, 0.65, 0.24, 0.65, 2.42])
    """
    _check_settings(noise_multiplier, delta, relation)
    check_zero_out(protocol.updates, relation)
    found = sensitivity(
        protocol,
        view,
        targets,
        contribution=contribution,
        participation=_participation(participation, protocol),
        engine=engine,
        effort=effort,
        progress=progress,
    )
    return table_of([found], noise_multiplier=noise_multiplier, delta=delta, relation=relation)


def account_all(
    protocol: Protocol,
    view: str,
    *,
    noise_multiplier: float,
    delta: float,
    relation: Relation = "add-remove",
    own_noise: OwnNoise = "known",
    targets: Sequence[Hashable] | None = None,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    engine: Engine = "auto",
    effort: Effort = "auto",
    observers: Sequence[Hashable] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AccountTable:
    """What each observer in turn learns about each target, all with the view of one name.

    Args:
        protocol: what the nodes do, such as `gossip(weights, rounds=100)`.
        view: "neighbourhood", "secure-sum", "single-node", or "everyone", which is the same whoever observes.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
        own_noise: whether an observer knows the noise it drew ("known") or not ("hidden").
        targets: names of the nodes to protect; all if None. An observer who knows a target's noise skips it.
        contribution: whether a round's contribution is a "vector" or a number ("scalar").
        participation: the rounds in which a target may contribute, such as `Participation.at_most(5)` or its
            spelling "at-most:5"; every round if None.
        engine: how to compute: "auto", "filter" or "reduced".
        effort: "fine" solves for each target, "bulk" bounds all together within a few per cent, "auto" is fine while
            that takes minutes.
        observers: names of the observers; all nodes if None.
        progress: called with (pairs done, pairs in all).

    Guarantee: as for `account`. Ctrl-C raises `Interrupted`, which holds the pairs of all observers that were finished.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> path = gossip(graphs.metropolis_weights("path:n=3"), rounds=2)
    >>> table = account_all(path, "secure-sum", noise_multiplier=5.0, delta=1e-5, observers=[0, 1])
    >>> table.mu_upper.round(3)
    array([0.276, 0.063, 0.2  , 0.2  ])
    """
    _check_settings(noise_multiplier, delta, relation)
    check_zero_out(protocol.updates, relation)
    chosen = _participation(participation, protocol)
    views = observer_views(protocol, view, own_noise, observers)
    asked = _asked(protocol, views, targets)
    total = sum(size for _, _, size in asked)
    if protocol.updates is not None and view != "everyone" and not solves_each(effort, total):
        work = sharpened_views(
            protocol,
            [(each, _indices(protocol, each, names)) for each, names, _ in asked],
            engine=engine,
            effort=effort,
            contribution=contribution,
            participation=chosen,
        )
        try:
            work.pairs.run(progress)
        except KeyboardInterrupt:
            if not work.pairs.begun:
                raise
            kept = table_of(work.found(), noise_multiplier=noise_multiplier, delta=delta, relation=relation)
            raise Interrupted(kept, total) from None
        return table_of(work.found(), noise_multiplier=noise_multiplier, delta=delta, relation=relation)
    found: list[Sensitivities] = []
    done = 0
    try:
        for each, names, size in asked:
            found.append(
                sensitivity(
                    protocol,
                    each,
                    names,
                    contribution=contribution,
                    participation=chosen,
                    engine=engine,
                    effort=effort,
                    progress=_portion(progress, done, size, total),
                )
            )
            done += size
            if progress is not None:
                progress(done, total)
    except KeyboardInterrupt:
        if not found:
            raise
        kept = table_of(found, noise_multiplier=noise_multiplier, delta=delta, relation=relation)
        raise Interrupted(kept, total) from None
    return table_of(found, noise_multiplier=noise_multiplier, delta=delta, relation=relation)


def observer_views(
    protocol: Protocol, view: str, own_noise: OwnNoise, observers: Sequence[Hashable] | None
) -> list[View]:
    """The view of each observer in turn; a single one where all observers see the same."""
    if view in _COALITIONS:
        raise ViewError(
            f"view must belong to one observer at a time; got {view!r} "
            f"(name the coalition, as in account(protocol, {_COALITIONS[view]}, …))"
        )
    one_of(("everyone", *ONE_OBSERVER), view=view)
    one_of(("known", "hidden"), own_noise=own_noise)
    labels = protocol.labels
    chosen = labels if observers is None else [labels[protocol.index(label)] for label in observers]
    if not chosen:
        raise InputError("observers must name at least one node (leave it out for all nodes)")
    if view == "everyone":
        return [View.everyone]
    return [View(name=view, observers=(label,), own_noise=own_noise) for label in dict.fromkeys(chosen)]


def table_of(
    found: Sequence[Sensitivities], *, noise_multiplier: float, delta: float, relation: Relation
) -> AccountTable:
    """The sensitivities of one or many views of one protocol as a table."""
    first = found[0]
    return AccountTable(
        protocol=first.protocol,
        view=first.view.name,
        own_noise=first.view.own_noise,
        relation=relation,
        contribution=first.contribution,
        noise_multiplier=noise_multiplier,
        delta=delta,
        observers=tuple(each.view.observers for each in found),
        observer_of=np.repeat(np.arange(len(found)), [len(each) for each in found]),
        target_indices=np.concatenate([each.indices for each in found]),
        squared_lower=np.concatenate([each.squared_lower for each in found]),
        squared_upper=np.concatenate([each.squared_upper for each in found]),
        method=np.concatenate([each.method for each in found]),
        assumption=rests_on(
            first.protocol, first.view, set(np.concatenate([each.method for each in found]).tolist())
        ),
        participation=first.participation,
    )


def _indices(protocol: Protocol, view: View, names: list[Hashable] | None) -> np.ndarray:
    """The indices of a view's targets."""
    return target_indices(protocol, view, observe(protocol, view).known, names)


def calibrate(
    protocol: Protocol,
    view: View | str,
    *,
    target_epsilon: float,
    target_delta: float,
    relation: Relation = "add-remove",
    own_noise: OwnNoise | None = None,
    targets: Sequence[Hashable] | None = None,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    engine: Engine = "auto",
    effort: Effort = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> float:
    """The smallest noise multiplier at which the worst pair is (target_epsilon, target_delta)-private.

        noise_multiplier = factor·Δ/μ(ε, δ),   Δ the largest upper end over the pairs.

    Args:
        protocol: what the nodes do, such as `gossip(weights, rounds=100)`.
        view: one View, or a name that stands for every observer in turn, as in `account_all`.
        target_epsilon: the ε to reach, over all rounds.
        target_delta: the δ at which to reach it.
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
        own_noise: with a name, whether an observer knows the noise it drew ("known" if None); a View says so
            itself.
        targets: names of the nodes to protect; all if None.
        contribution: whether a round's contribution is a "vector" or a number ("scalar").
        participation: the rounds in which a target may contribute, such as `Participation.at_most(5)` or its
            spelling "at-most:5"; every round if None.
        engine: how to compute: "auto", "filter" or "reduced".
        effort: "fine" solves for each target, "bulk" bounds all together within a few per cent, "auto" is fine while
            that takes minutes.
        progress: called with (done, in all): targets for one View, pairs for a name.

    Guarantee: rounded up and re-checked; the account at this noise has every upper end of ε at most
    `target_epsilon`.
    Source: Balle & Wang 2018, Algorithm 1 (the analytic Gaussian mechanism).

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=100)
    >>> round(calibrate(ring, "everyone", target_epsilon=1.0, target_delta=1e-5), 4)
    37.3063
    """
    positive(target_epsilon=target_epsilon)
    probability(target_delta=target_delta)
    if not isinstance(view, View):
        table = account_all(
            protocol,
            view,
            noise_multiplier=1.0,
            delta=target_delta,
            relation=relation,
            own_noise="known" if own_noise is None else own_noise,
            targets=targets,
            contribution=contribution,
            participation=participation,
            engine=engine,
            effort=effort,
            progress=progress,
        )
        return table.calibrated_noise(target_epsilon, target_delta)
    if own_noise not in {None, view.own_noise}:
        raise InputError(
            f"own_noise must agree with the view; got {own_noise!r} and {view!r} (say it in the view alone)"
        )
    table = account(
        protocol,
        view,
        noise_multiplier=1.0,
        delta=target_delta,
        relation=relation,
        targets=targets,
        contribution=contribution,
        participation=participation,
        engine=engine,
        effort=effort,
        progress=progress,
    )
    return table.calibrated_noise(target_epsilon, target_delta)


def _check_settings(noise_multiplier: float, delta: float, relation: str) -> None:
    """Refuse bad settings before the work that they would spoil."""
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta)
    one_of(RELATIONS, relation=relation)


def _participation(given: Participation | str | None, protocol: Protocol) -> Participation:
    """The participation that is meant; one that does not fit the rounds is refused before the work."""
    chosen = as_participation(given)
    chosen.largest_count(protocol.rounds)
    return chosen


def _asked(
    protocol: Protocol, views: Sequence[View], targets: Sequence[Hashable] | None
) -> list[tuple[View, list[Hashable] | None, int]]:
    """Each view that has targets, with their names (None for all) and their number."""
    labels = protocol.labels
    wanted = None if targets is None else [labels[protocol.index(label)] for label in targets]
    asked: list[tuple[View, list[Hashable] | None, int]] = []
    for view in views:
        known = set(view.observers) if view.own_noise == "known" else set()
        if wanted is None:
            asked.append((view, None, protocol.n - len(known)))
            continue
        names = [label for label in wanted if label not in known]
        # An empty list that the caller gave is for `sensitivity` to refuse.
        if names or not wanted:
            asked.append((view, names, len(names)))
    if wanted and not asked:
        raise InputError(
            f"no target remains: the only observer is node {wanted[0]!r} itself, which knows its own noise "
            "(choose another target or observer, or own_noise='hidden')"
        )
    return asked


def _portion(
    progress: Callable[[int, int], None] | None, done: int, size: int, total: int
) -> Callable[[int, int], None] | None:
    """The callback of one view of `size` pairs, which counts on from the `done` pairs of the views before it."""
    if progress is None:
        return None
    return lambda part, whole: progress(done + size * part // whole, total)
