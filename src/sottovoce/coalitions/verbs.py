# SPDX-License-Identifier: Apache-2.0
"""`worst_coalition` and `worst_observer`.

What is searched is Δ² of views of one target, by `sottovoce.sensitivity`; how is `search`, which knows nothing of it.
What lies between is here: which nodes can be members of a worst coalition, which of them are like each other, and
which bound may rule out many at once.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, Unpack

import numpy as np
from scipy.sparse import csgraph

from sottovoce.coalitions.common_prices import CommonPrices
from sottovoce.coalitions.heard_rows import responses
from sottovoce.coalitions.results import (
    COALITION_VIEWS,
    CoalitionSearch,
    CoalitionView,
    Improvement,
    ObserverView,
    Stopped,
)
from sottovoce.coalitions.search import Group, OutOfTime, Screen, Search
from sottovoce.errors import InputError, at_least, one_of
from sottovoce.interval import Interval
from sottovoce.scenarios import Scenario, StreamWords, asked
from sottovoce.sensitivities import sensitivity, solve_dual
from sottovoce.threads import one_blas_thread
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from scipy.sparse import csr_array

    from sottovoce.coalitions.heard_rows import Responses
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Effort

__all__ = ["worst_coalition", "worst_observer"]


# Speed alone: in larger networks neither symmetries nor who stands behind whom are looked for.
MOST_NODES = 2000
# Speed alone: how close prices of rounds are to the best, and the least of them as a share of their mean.
PRICED = 1e-3
LEAST_PRICE = 1e-3
# Speed alone: prices are scaled to so much below a level, as a share of it; that they are below it is looked at.
JUST_BELOW = 1e-12
# Speed alone: looking at one coalition takes as long as so many multiplications of a screen, of (p + 1)²T³ or so.
ONE_BY_ONE = 3_000_000
# Speed alone: so few coalitions are looked at sooner than tried again without the mean of all sums.
FEW_LEFT = 100

# Alone, with its own noise known, an observer sees what a coalition of one sees: in its neighbourhood only its own
# messages come on top, and those it can compute.
_OF_ONE = {
    "secure-sum": "coalition-sums",
    "neighbourhood": "coalition-messages",
}


@one_blas_thread()
def worst_coalition(
    question: Scenario | Protocol,
    target: Hashable = None,
    *,
    size: int,
    view: CoalitionView | None = None,
    candidates: Iterable[Hashable] | None = None,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[StreamWords],
) -> CoalitionSearch:
    """The `size` nodes that together learn most about `target`, and a bound on what any such coalition learns.

        max over A, |A| = size, target ∉ A, of Δ²(A),   with Δ²(A) ≤ Δ²(B) for every B ⊇ A.

    A greedy coalition and single swaps come first; then all coalitions are divided into groups, each of them within
    a set of nodes whose own Δ² bounds it, until no group can hold a better one. Coalitions that a relabelling of the
    network carries onto each other, the target onto itself, are looked at once; and where each message is seen, nobody
    who stands behind another candidate is looked at. Among equals by the upper end of Δ² the first that was found is
    kept.

    Args:
        question: a `Scenario` of one target and a coalition's view by name, whose observers are the candidates; or a
            protocol, such as `gossip(weights, rounds=100)`, with a target.
        target: name of the node to protect; it is never a member.
        size: how many nodes pool what they see and the noise they drew.
        view: whether a member sees the sum it receives ("coalition-sums", the default) or each message
            ("coalition-messages").
        candidates: names of the nodes that may be members; all but the target if None.
        time_limit: seconds after which the best found so far is returned with what is proved by then; no limit if
            None. At least one coalition is always looked at. An interrupt (Ctrl-C) ends the search in the same way.
        progress: called with (coalitions that are looked at or ruled out, coalitions in all).
        words: as in `sottovoce.scenarios.StreamWords`: `contribution`, `participation`, and what may be spent.

    Guarantee: `sensitivity` encloses Δ² of the found coalition, and `upper_bound` is an upper bound for every
    coalition of this size, whenever the search stops; `exact` only if nothing exceeds the found one's upper end.
    Source: seeing more never lowers Δ (data processing, as the larger coalition can compute what the smaller sees);
    docs/mathematics.md, section 2, for relabellings and for who stands behind whom.

    >>> from sottovoce import gossip, graphs
    >>> star = gossip(graphs.metropolis_weights("star:n=6"), rounds=10)
    >>> found = worst_coalition(star, 1, size=2)
    >>> found.coalition, found.exact
    ((0, 2), True)
    """
    scenario, effort = _asked(question, target, view, candidates, words, usual="coalition-sums")
    one_of(COALITION_VIEWS, view=scenario.view_name)
    return _searched(scenario, effort, size=size, time_limit=time_limit, progress=progress)


def _asked(
    question: Scenario | Protocol,
    target: Hashable,
    view: str | None,
    candidates: Iterable[Hashable] | None,
    words: StreamWords,
    *,
    usual: str,
) -> tuple[Scenario, Effort]:
    """What is searched for: one target, and as observers the candidates; `usual` is the view of a bare protocol."""
    seen = view if isinstance(question, Scenario) else view or usual
    named = None if target is None else [target]
    return asked(question, seen, words, StreamWords, targets=named, observers=candidates)


def _searched(
    scenario: Scenario,
    effort: Effort,
    *,
    size: int,
    time_limit: float | None,
    progress: Callable[[int, int], None] | None,
) -> CoalitionSearch:
    """The search of `worst_coalition`, of a view by a coalition's name or one that one observer has.

    The cap is the number of rounds in plain gossip, where a contribution stands beside noise of level 1, and else
    what all candidates see together.

    Guarantee: that of `worst_coalition`. Own noise must be known: with noise that a member does not know, a larger
    coalition would not see more, and no union would bound its parts.
    """
    if scenario.own_noise != "known":
        raise InputError(
            "own_noise must be known where coalitions are searched: a larger one would not see more otherwise; got "
            f"{scenario.own_noise!r} (leave it out)"
        )
    protocol, target = scenario.protocol, scenario.one_target
    at_least(1, size=size)
    if time_limit is not None and not time_limit >= 0:
        raise InputError(
            f"time_limit must be a number of seconds of at least 0; got {time_limit!r} (None for no limit)"
        )
    centre = protocol.index(target)
    nodes = _nearest_first(protocol, centre, scenario.observers)
    if len(nodes) < size:
        raise InputError(
            f"a coalition of {size} needs as many nodes besides the target; there are {len(nodes)} "
            "(take a smaller size)"
        )
    if scenario.exchanges is not None:
        raise InputError(
            f"the search for a coalition is worked out for members who see every exchange of a round; got exchanges "
            f"{list(scenario.exchanges)} (leave them out, or account for a coalition whose members are named)"
        )
    view = _OF_ONE.get(scenario.view_name, scenario.view_name)
    methods: dict[frozenset[int], str] = {}

    def measured(members: frozenset[int]) -> Interval:
        seen = View(name=view, observers=_labels(protocol, members))
        result = sensitivity(scenario.of(seen, [target]), effort=effort)
        methods[members] = str(result.method[0])
        return Interval(float(result.squared_lower[0]), float(result.squared_upper[0]))

    cap = float(scenario.participation.largest_count(protocol.rounds))
    if not protocol.plain or scenario.contribution == "energy":
        # All candidates together see whatever any coalition of them sees.
        cap = measured(frozenset(nodes)).upper
    kept = _undominated(protocol, centre, nodes, view, int(size))
    twins = protocol.symmetries.twins(kept) if protocol.n <= MOST_NODES else {}
    search = Search(
        candidates=kept,
        size=int(size),
        first=_alike(protocol, centre),
        twins=twins,
        coalitions=math.comb(len(nodes), int(size)),
        measure=measured,
        screen=_screen(scenario, centre, kept, view, twins),
        cap=cap,
        deadline=math.inf if time_limit is None else time.monotonic() + time_limit,
        progress=progress,
    )
    stopped = _run(search)
    best = search.trace[-1]
    return CoalitionSearch(
        scenario=scenario,
        size=int(size),
        coalition=_labels(protocol, best.members),
        sensitivity=best.squared,
        method=methods[best.members],
        upper_bound=search.upper_bound,
        coalitions=search.total,
        evaluated=search.evaluated,
        stopped=stopped,
        trace=tuple(
            Improvement(step.evaluated, _labels(protocol, step.members), step.squared)
            for step in search.trace
        ),
    )


@one_blas_thread()
def worst_observer(
    question: Scenario | Protocol,
    target: Hashable = None,
    *,
    view: ObserverView | None = None,
    candidates: Iterable[Hashable] | None = None,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[StreamWords],
) -> CoalitionSearch:
    """The node that learns most about `target` from its "secure-sum" or its "neighbourhood", its own noise known.

    It is the worst coalition of one, with the guarantee and the arguments of `worst_coalition`.

    Guarantee: that of `worst_coalition` at size 1: the interval of the found node, and an upper bound for every
    candidate.

    >>> from sottovoce import gossip, graphs
    >>> path = gossip(graphs.metropolis_weights("path:n=6"), rounds=10)
    >>> worst_observer(path, 0).coalition
    (1,)
    """
    scenario, effort = _asked(question, target, view, candidates, words, usual="secure-sum")
    one_of(_OF_ONE, view=scenario.view_name)
    return _searched(scenario, effort, size=1, time_limit=time_limit, progress=progress)


def _run(search: Search) -> Stopped:
    """Search until it is closed or stopped, and say which; an interrupt before the first coalition passes.

    Guarantee: whichever way it ended, `search.upper_bound` holds.
    """
    try:
        search.run()
    except OutOfTime:
        return "time limit"
    except KeyboardInterrupt:
        if not search.trace:
            raise
        return "interrupted"
    return "closed"


def _all_weights(protocol: Protocol) -> csr_array:
    """The sum of the matrices of a schedule: who ever sends to whom.

    Weights are not negative, so nothing cancels: an entry is 0 only if no round has that edge.
    """
    return sum((weights.matrix for weights in protocol.schedule[1:]), protocol.schedule[0].matrix)


def _nearest_first(protocol: Protocol, target: int, candidates: Iterable[Hashable] | None) -> tuple[int, ...]:
    """The candidates without the target: those it reaches first come first, by the share it has in what they receive.

    W_ij² / Σ_{k ≠ i} W_ik² is what candidate i learns of one fresh contribution of target j from one sum.

    An order, and nothing rests on it: what comes first is tried first.
    """
    named = range(protocol.n) if candidates is None else {protocol.index(label) for label in candidates}
    W = _all_weights(protocol)
    hops = csgraph.dijkstra(W.T, unweighted=True, indices=target)
    squares = W.power(2)
    direct = squares[:, [target]].toarray().ravel()
    received = np.asarray(squares.sum(axis=1)).ravel() - squares.diagonal()
    share = np.divide(direct, received, out=np.zeros_like(direct), where=received > 0)
    return tuple(sorted((i for i in named if i != target), key=lambda i: (hops[i], -share[i], i)))


def _undominated(
    protocol: Protocol, target: int, nodes: tuple[int, ...], view: str, size: int
) -> tuple[int, ...]:
    """The candidates among whose coalitions a worst one is: where messages are seen, none that stands behind another.

    A node stands behind a if every way from the target to it passes a.

    Guarantee: for plain gossip and programs, Δ² of no coalition of `size` candidates exceeds that of all those of the
    ones that are returned.
    Source: docs/mathematics.md, section 2.
    """
    if view != "coalition-messages" or protocol.updates is not None or protocol.n > MOST_NODES:
        return nodes
    W = _all_weights(protocol)
    behind: set[int] = set()
    for node in nodes:
        if node not in behind:
            others = np.delete(np.arange(protocol.n), node)
            parts = csgraph.connected_components(W[others][:, others], directed=False)[1]
            cut = others[parts != parts[np.searchsorted(others, target)]]
            behind.update(cut.tolist())
    front = tuple(node for node in nodes if node not in behind)
    if len(front) >= size:
        return front
    # All of them together see the most; who fills the places that are left does not matter.
    return (*front, *[node for node in nodes if node not in front][: size - len(front)])


def _screen(
    scenario: Scenario, target: int, candidates: tuple[int, ...], view: str, twins: Mapping[int, int]
) -> Screen | None:
    """Which coalitions may exceed a level, by prices of rounds that all others are proved to keep; for sums alone.

    Guarantee: Δ² of every coalition of candidates, of the size of the one that it begins with, is at most the level,
    or that of one that is named, with twins in the place of some members.
    Source: docs/proofs/coalitions.md.
    """
    protocol = scenario.protocol
    plain = protocol.plain and protocol.gossips
    if view != "coalition-sums" or not plain or scenario.contribution == "energy":
        return None
    heard = cache(partial(responses, protocol.weights, target, candidates, protocol.rounds))
    dear = (len(candidates) + 1) ** 2 * protocol.rounds**3
    kind = [twins.get(node, node) for node in candidates]

    def priced(
        found: Responses,
        best: list[int],
        level: float,
        tick: Callable[[], None],
        among: list[tuple[int, ...]] | None,
    ) -> list[tuple[int, ...]] | None:
        """Those `among` the coalitions, or all, that are not proved to stay below the level."""
        y = solve_dual(found.form(best), tolerance=PRICED).y
        if y is None or not y.any():
            return among
        y = np.maximum(y, LEAST_PRICE * y.mean())
        y *= level / scenario.participation.largest_sum(y) * (1 - JUST_BELOW)
        if not scenario.participation.largest_sum(y) <= level:
            return among
        return CommonPrices(found, y, len(best), tick).beyond(tick, among)

    def screen(best: frozenset[int], level: float, tick: Callable[[], None]) -> list[frozenset[int]] | None:
        count = _choices(Counter(kind).values(), len(best))
        if count <= FEW_LEFT or count * ONE_BY_ONE < dear:
            return None
        places, left = [candidates.index(node) for node in best], None
        for told in (True, False):
            found = heard(tick, told=told) if left is None or len(left) > FEW_LEFT else None
            tick()
            if found is not None:
                left = priced(found, places, level, tick, left)
            if left is not None:
                # One choice of twins stands for all.
                kinds = {tuple(sorted(kind[place] for place in each)): each for each in reversed(left)}
                left = sorted(kinds.values())
        return None if left is None else [frozenset(candidates[place] for place in each) for each in left]

    return screen


def _choices(classes: Iterable[int], size: int) -> int:
    """How many coalitions there are of which none is like another: so many members of each class of twins.

    >>> _choices([1, 1, 1], 2), _choices([30], 4), _choices([2, 3], 3)
    (3, 1, 3)
    """
    ways = [1] + [0] * size
    for twins in classes:
        ways = [sum(ways[k - some] for some in range(min(twins, k) + 1)) for k in range(size + 1)]
    return ways[size]


def _alike(protocol: Protocol, target: int) -> Callable[[Group], Group]:
    """For each group the first that was asked about and that a relabelling which keeps the target carries to it.

    Guarantee: both groups have the same Δ², coalition by coalition.
    Source: docs/mathematics.md, section 2.
    """
    if protocol.n > MOST_NODES or protocol.symmetries.tells_apart([[target]]):
        return tuple
    symmetries = protocol.symmetries
    known: dict[tuple[int, ...], list[Group]] = {}

    def first(group: Group) -> Group:
        blocks = [[target], *(block for block, _ in group)]
        counts = [members for _, members in group]
        others = known.setdefault((symmetries.look(blocks), *counts), [])
        for other in others:
            if symmetries.carrying_groups([[target], *(block for block, _ in other)], blocks) is not None:
                return other
        others.append(group)
        return group

    return first


def _labels(protocol: Protocol, members: frozenset[int]) -> tuple[Hashable, ...]:
    """The members' names, in index order."""
    return tuple(protocol.labels[i] for i in sorted(members))
