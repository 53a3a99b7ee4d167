# SPDX-License-Identifier: Apache-2.0
"""The worst coalition against all coalitions one by one, and what holds when the search is cut short."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest
from tests.pairings import each_pair

from sottovoce import graphs
from sottovoce.accounting import account, account_all
from sottovoce.coalitions import COALITION_VIEWS, CoalitionSearch, worst_coalition, worst_observer
from sottovoce.coalitions import verbs as room
from sottovoce.errors import GraphError, InputError
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.scenarios import StreamWords, asked
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from sottovoce.coalitions import CoalitionView
    from sottovoce.protocols import Protocol

EITHER_VIEW = pytest.mark.parametrize("view", COALITION_VIEWS)
SMALL = [
    ("ring:n=7", 5, 0),
    ("path:n=6", 6, 1),
    ("star:n=6", 4, 2),
    ("complete:n=5", 4, 0),
    ("grid:rows=2,cols=4", 7, 1),
    ("erdos-renyi:n=8,p=0.4,seed=3", 8, 0),
    ("preferential:n=8,core=3,links=2,seed=1", 3, 7),
]


FOUND: dict[Any, Any] = {}


def measured(question: Any, view: View | None = None, targets: Any = None, **words: Any) -> Any:
    """`sensitivity`; what an enumeration and a search ask alike is computed once."""
    scenario, effort = asked(question, view, words, StreamWords, targets=targets)
    seen = scenario.one_view
    said = (scenario.protocol, seen.name, seen.observers, seen.own_noise, scenario.targets)
    key = (*said, scenario.contribution, scenario.participation, effort)
    if key not in FOUND:
        FOUND[key] = sensitivity(scenario, effort=effort)
    return FOUND[key]


@pytest.fixture(scope="module", autouse=True)
def shared() -> Iterator[None]:
    """Let searches of this file take what enumerations of it have found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "sensitivity", measured)
        yield
    FOUND.clear()


@cache
def protocol_of(source: str, rounds: int) -> Protocol:
    return gossip(graphs.metropolis_weights(source), rounds=rounds)


def every_one(protocol: Protocol, target: int, size: int, view: str, **options: Any) -> dict[Any, Interval]:
    """Δ² of each coalition of that size, without any search."""
    others = [label for label in protocol.labels if label != target]
    found = {}
    for members in itertools.combinations(others, size):
        result = measured(protocol, View(name=view, observers=members), targets=[target], **options)
        found[members] = Interval(float(result.squared_lower[0]), float(result.squared_upper[0]))
    return found


@cache
def plainly(source: str, rounds: int, target: int, size: int, view: str) -> dict[Any, Interval]:
    """Δ² of each coalition of one of the small networks."""
    return every_one(protocol_of(source, rounds), target, size, view)


def agrees(search: CoalitionSearch, table: dict[Any, Interval]) -> None:
    """The claims of a search, against the table of all coalitions."""
    assert search.sensitivity == table[search.coalition]
    assert search.upper_bound >= max(squared.lower for squared in table.values())
    assert search.upper_bound >= search.sensitivity.upper
    assert search.target not in search.coalition
    assert (len(search.coalition), search.coalitions) == (search.size, len(table))
    assert search.exact == (search.upper_bound == search.sensitivity.upper)
    assert search.trace[-1].coalition == search.coalition
    assert search.trace[-1].squared == search.sensitivity
    assert [step.squared.upper for step in search.trace] == sorted(
        {step.squared.upper for step in search.trace}
    )
    assert search.trace[-1].evaluated <= search.evaluated


@pytest.mark.parametrize(("case", "size", "view"), each_pair(SMALL, (1, 2, 3), COALITION_VIEWS))
def test_the_search_finds_what_enumeration_finds(
    case: tuple[str, int, int], size: int, view: CoalitionView
) -> None:
    source, rounds, target = case
    protocol = protocol_of(source, rounds)
    table = plainly(source, rounds, target, size, view)
    search = worst_coalition(protocol, target, size=size, view=view)
    agrees(search, table)
    assert search.exact
    assert search.stopped == "closed"
    assert search.sensitivity.upper >= max(squared.lower for squared in table.values())
    assert search.gap < 1e-3


@EITHER_VIEW
@pytest.mark.parametrize("options", [{"contribution": "scalar"}, {"participation": "at-most:2"}])
def test_numbers_and_participation_are_searched_as_well(view: CoalitionView, options: dict[str, Any]) -> None:
    protocol = protocol_of("erdos-renyi:n=7,p=0.4,seed=2", 6)
    search = worst_coalition(protocol, 3, size=2, view=view, **options)
    agrees(search, every_one(protocol, 3, 2, view, **options))
    assert search.exact
    assert search.upper_bound <= (2 if "participation" in options else 6)


@EITHER_VIEW
@pytest.mark.parametrize(("source", "rounds", "target"), SMALL)
def test_without_time_there_is_still_a_coalition_and_a_bound(
    source: str, rounds: int, target: int, view: CoalitionView
) -> None:
    protocol = protocol_of(source, rounds)
    search = worst_coalition(protocol, target, size=2, view=view, time_limit=0)
    agrees(search, plainly(source, rounds, target, 2, view))
    assert search.evaluated == len(search.trace) == 1
    assert search.upper_bound <= rounds
    assert search.stopped == ("closed" if search.exact else "time limit")


def test_most_coalitions_are_ruled_out_together() -> None:
    protocol = protocol_of("erdos-renyi:n=16,p=0.3,seed=2", 8)
    search = worst_coalition(protocol, 0, size=3)
    assert search.exact
    assert search.coalitions == math.comb(15, 3)
    assert search.evaluated < 0.7 * search.coalitions


def test_coalitions_that_a_relabelling_carries_onto_each_other_are_looked_at_once() -> None:
    """Of C(24, 2) pairs on a torus, and of C(29, 4) coalitions of a complete graph."""
    torus = worst_coalition(protocol_of("torus:rows=5,cols=5", 6), 7, size=2)
    assert (torus.exact, torus.coalitions) == (True, 276)
    assert torus.evaluated < 100
    whole = worst_coalition(protocol_of("complete:n=30", 4), 3, size=4)
    assert (whole.exact, whole.coalitions) == (True, 23751)
    # All nodes are twins: one set of each size up to four.
    assert whole.evaluated == 4


@EITHER_VIEW
@pytest.mark.parametrize(("target", "size"), [(5, 3), (0, 2)])
def test_one_choice_of_twins_stands_for_all(view: CoalitionView, target: int, size: int) -> None:
    """Two leaves at one node, three at the next, and three that all know each other: three kinds of twins."""
    edges = [
        (0, 1),
        (1, 2),
        (0, 3),
        (0, 4),
        (1, 5),
        (1, 6),
        (1, 7),
        (2, 8),
        (2, 9),
        (2, 10),
        (8, 9),
        (9, 10),
        (8, 10),
    ]
    protocol = gossip(graphs.metropolis_weights(nx.Graph(edges)), rounds=4)
    search = worst_coalition(protocol, target, size=size, view=view)
    table = every_one(protocol, target, size, view)
    agrees(search, table)
    assert search.exact
    assert search.evaluated < len(table) / 2


def test_a_coalition_on_a_long_ring_is_proved_the_worst() -> None:
    search = worst_coalition(protocol_of("ring:n=30", 12), 15, size=2)
    assert search.exact
    assert search.coalitions == 406
    assert set(search.coalition) in ({13, 14}, {16, 17})
    assert search.evaluated < 150


TREES = [
    ([(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (2, 6)], 0),
    ([(0, 1), (1, 2), (2, 3), (2, 4), (4, 5), (4, 6), (6, 7)], 2),
    ([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)], 0),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("edges", "target"), TREES)
def test_who_stands_behind_another_member_is_not_needed(edges: Any, target: int, size: int) -> None:
    protocol = gossip(graphs.metropolis_weights(nx.Graph(edges)), rounds=5)
    view: CoalitionView = "coalition-messages"
    table = every_one(protocol, target, size, view)
    search = worst_coalition(protocol, target, size=size, view=view)
    agrees(search, table)
    assert search.exact
    assert search.sensitivity.upper >= max(squared.lower for squared in table.values())
    # Named candidates stand behind those alone that are named.
    far = [node for node in protocol.labels if node != target and target not in nx.Graph(edges)[node]]
    if len(far) >= size:
        named = worst_coalition(protocol, target, size=size, view=view, candidates=far)
        theirs = {members: ends for members, ends in table.items() if set(members) <= set(far)}
        assert named.exact
        assert named.sensitivity.upper >= max(squared.lower for squared in theirs.values())
        assert set(named.coalition) <= set(far)


def test_a_hub_of_a_tree_is_searched_among_its_neighbours_alone() -> None:
    tree = nx.balanced_tree(4, 3)
    protocol = gossip(graphs.metropolis_weights(tree), rounds=6)
    search = worst_coalition(protocol, 0, size=3, view="coalition-messages")
    assert search.exact
    assert search.coalitions == math.comb(84, 3)
    assert set(search.coalition) <= {1, 2, 3, 4}
    assert search.evaluated <= 4


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets Ctrl-C arrive while the view after so many is computed."""

    def after(count: float) -> None:
        calls = itertools.count()

        def stopped(question: Any, **options: Any) -> Any:
            if next(calls) == count:
                raise KeyboardInterrupt
            return measured(question, **options)

        monkeypatch.setattr(room, "sensitivity", stopped)

    return after


@pytest.mark.parametrize("counts", [(1, 5, 40), (1, 20, 100)], ids=["screened", "unscreened"])
def test_an_interrupted_search_keeps_what_it_has(
    interrupted: Any, counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if 100 in counts:
        monkeypatch.setattr(room, "_screen", lambda *_: None)
    protocol = protocol_of("erdos-renyi:n=12,p=0.3,seed=2", 4)
    interrupted(math.inf)
    whole = worst_coalition(protocol, 0, size=3)
    assert whole.evaluated > counts[-1]
    for count in counts:
        interrupted(count)
        part = worst_coalition(protocol, 0, size=3)
        assert (part.stopped, part.evaluated) == ("interrupted", count)
        assert part.sensitivity.lower <= whole.sensitivity.upper
        assert part.upper_bound >= whole.sensitivity.lower
        assert part.largest == Interval(part.sensitivity.lower, part.upper_bound)


def test_an_interrupt_before_the_first_coalition_passes(interrupted: Any) -> None:
    interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        worst_coalition(protocol_of("ring:n=5", 3), 0, size=1)


def test_a_leaf_of_a_star_is_seen_by_its_centre() -> None:
    star = protocol_of("star:n=7", 6)
    for view in COALITION_VIEWS:
        for size in (1, 2, 3):
            assert 0 in worst_coalition(star, 4, size=size, view=view).coalition
    # Two leaves on either side of the centre are alike, and the one that is looked at first is named.
    assert worst_coalition(star, 4, size=2).coalition == (0, 1)


def test_all_coalitions_of_a_complete_graph_are_alike() -> None:
    search = worst_coalition(protocol_of("complete:n=6", 5), 0, size=2)
    assert search.exact
    assert search.sensitivity.lower <= 1.25 <= search.sensitivity.upper
    assert search.sensitivity.width < 1e-3


def test_both_neighbours_on_a_ring_see_everything_in_messages() -> None:
    ring = protocol_of("ring:n=9", 7)
    search = worst_coalition(ring, 4, size=2, view="coalition-messages")
    assert search.exact
    assert search.sensitivity.upper == 7
    assert search.sensitivity.lower == pytest.approx(7)
    assert worst_observer(ring, 4).coalition[0] in {3, 5}


@pytest.mark.parametrize("view", ["secure-sum", "neighbourhood"])
@pytest.mark.parametrize("target", ["Medici", "Pazzi", "Strozzi"])
def test_the_worst_observer_is_that_of_all_accounts(view: Any, target: str) -> None:
    protocol = protocol_of("florentine", 6)
    search = worst_observer(protocol, target, view=view)
    table = account_all(protocol, view, noise_multiplier=1.0, delta=1e-5, targets=[target])
    assert search.exact
    worst = table.worst()
    assert worst.sensitivity_squared is not None
    assert search.sensitivity.upper == pytest.approx(worst.sensitivity_squared.upper, rel=1e-3)
    assert search.upper_bound >= float(table.squared_lower.max())


def test_candidates_limit_who_may_be_a_member() -> None:
    ring = protocol_of("ring:n=8", 6)
    search = worst_coalition(ring, 0, size=2, candidates=[0, 2, 3, 4, 3])
    assert search.coalition == (2, 3)
    assert search.coalitions == 3
    free = worst_coalition(ring, 0, size=2)
    assert free.sensitivity.lower > search.sensitivity.upper


def test_members_that_the_target_does_not_reach_learn_nothing() -> None:
    search = worst_coalition(protocol_of("path:n=9", 3), 0, size=2, candidates=[6, 7, 8])
    assert search.sensitivity == Interval(0.0, 0.0)
    assert (search.upper_bound, search.gap, search.exact, search.method) == (0.0, 0.0, True, "unreached")


def test_a_gap_above_nothing_is_infinite() -> None:
    search = worst_coalition(
        protocol_of("path:n=9", 3), 0, size=2, candidates=[1, 7, 8], time_limit=0, view="coalition-sums"
    )
    assert search.gap == search.upper_bound / search.sensitivity.lower - 1
    nothing = worst_coalition(protocol_of("path:n=9", 3), 0, size=2, candidates=[6, 7, 8], time_limit=0)
    assert math.isinf(nothing.gap)


def test_all_others_together_are_one_coalition() -> None:
    search = worst_coalition(protocol_of("ring:n=5", 4), 2, size=4)
    assert search.coalition == (0, 1, 3, 4)
    assert (search.coalitions, search.evaluated, search.exact) == (1, 1, True)


def test_progress_never_goes_back_and_ends_at_all() -> None:
    steps: list[tuple[int, int]] = []
    protocol = protocol_of("erdos-renyi:n=10,p=0.4,seed=2", 5)
    search = worst_coalition(protocol, 0, size=3, progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert {total for _, total in steps} == {search.coalitions}
    assert steps[-1] == (search.coalitions, search.coalitions)


def test_accounts_of_the_found_coalition_and_of_any() -> None:
    protocol = protocol_of("florentine", 8)
    search = worst_coalition(protocol, "Ridolfi", size=2, time_limit=0)
    settings: dict[str, Any] = {"noise_multiplier": 3.0, "delta": 1e-6, "relation": "replace-one"}
    found, anyone = search.account(**settings), search.guarantee(**settings)
    table = account(protocol, View.coalition_sums(search.coalition), targets=["Ridolfi"], **settings)
    assert found == table.worst()
    assert anyone.epsilon().upper > found.epsilon().upper
    assert anyone.epsilon().lower == found.epsilon().lower
    assert anyone.method == "search"
    with pytest.raises(InputError, match="noise_multiplier must be a finite number above 0; got 0"):
        search.account(noise_multiplier=0, delta=1e-5)
    with pytest.raises(InputError, match="delta must lie strictly between 0 and 1; got 2"):
        search.guarantee(noise_multiplier=1.0, delta=2)


def test_accounts_of_a_damped_search_name_its_assumption() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=4, damping=0.5)
    search = worst_coalition(protocol, 0, size=1)
    found = [each(noise_multiplier=1.0, delta=1e-5) for each in (search.account, search.guarantee)]
    assert {each.assumption for each in found} == {"quadratic"}


@pytest.mark.parametrize(
    ("target", "options", "kind", "sentence"),
    [
        (9, {"size": 1}, GraphError, r"no node is called 9; the nodes are called 0 to 4"),
        (0, {"size": 0}, InputError, r"size must be a whole number of at least 1; got 0"),
        (0, {"size": 1.5}, InputError, r"size must be a whole number of at least 1; got 1.5"),
        (
            0,
            {"size": 5},
            InputError,
            r"a coalition of 5 needs as many nodes besides the target; there are 4 \(take a smaller size\)",
        ),
        (0, {"size": 2, "candidates": [0, 1]}, InputError, r"there are 1 \(take a smaller size\)"),
        (0, {"size": 1, "candidates": [7]}, GraphError, r"no node is called 7"),
        (
            0,
            {"size": 1, "view": "secure-sum"},
            InputError,
            r"view must be one of coalition-sums, coalition-messages; got 'secure-sum'",
        ),
        (0, {"size": 1, "contribution": "matrix"}, InputError, r"contribution must be one of vector, scalar"),
        (
            0,
            {"size": 1, "time_limit": -1},
            InputError,
            r"time_limit must be a number of seconds of at least 0; got -1 \(None for no limit\)",
        ),
        (0, {"size": 1, "participation": "often"}, InputError, r"participation must be spelled like"),
    ],
)
def test_what_does_not_fit_is_refused(
    target: Hashable, options: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        worst_coalition(protocol_of("ring:n=5", 3), target, **options)


def test_an_observer_has_the_view_of_one() -> None:
    with pytest.raises(InputError, match="view must be one of secure-sum, neighbourhood; got 'everyone'"):
        worst_observer(protocol_of("ring:n=5", 3), 0, view="everyone")  # type: ignore[arg-type]


def test_the_worst_observer_is_told_by_the_view_that_was_asked_for() -> None:
    path = gossip(graphs.metropolis_weights("path:n=5"), rounds=4)
    assert worst_observer(path, 0, view="neighbourhood").view == "neighbourhood"
    assert worst_observer(path, 0).view == "secure-sum"
