# SPDX-License-Identifier: Apache-2.0
"""The JSON form that the page reads: every pair in its place, and the worst one always there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from sottovoce.accounting import AccountTable, account, account_all
from sottovoce.accounting.curves import Curve
from sottovoce.documents import curve_document, network_document
from sottovoce.documents import page_document as typed_page
from sottovoce.documents.pages import PageDocument
from sottovoce.forms import plain, read_form
from sottovoce.graphs import WeightedGraph, as_graph, as_weights, weights_by_rule
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.views import View

GRAPH = as_graph("florentine")
WEIGHTS = weights_by_rule(GRAPH, "metropolis")
NETWORK = WeightedGraph(graph=GRAPH, weights=WEIGHTS)


def page_document(*inputs: Any, **options: Any) -> Any:
    """The JSON of a page, which reads back as what it was written from."""
    made = typed_page(*inputs, **options)
    value = json.loads(json.dumps(plain(made), allow_nan=False))
    assert read_form(value, PageDocument, "a page") == made
    return value


@pytest.fixture(scope="module")
def table() -> AccountTable:
    return account_all(
        gossip(WEIGHTS, rounds=5), "secure-sum", noise_multiplier=2.0, delta=1e-6, relation="replace-one"
    )


def test_every_pair_is_in_its_place(table: AccountTable) -> None:
    document = page_document(table, NETWORK)
    pairs, labels = document["pairs"], document["graph"]["labels"]
    assert len(pairs["target"]) == len(table) == 210
    for k in range(0, 210, 13):
        (observer,) = document["observers"][pairs["observer"][k]]
        account = table.pair(labels[observer], labels[pairs["target"][k]])
        assert account.sensitivity_squared == Interval(pairs["lower"][k], pairs["upper"][k])
        assert document["methods"][pairs["method"][k]] == account.method
    assert document["factor"] == 2
    assert document["observers_left_out"] == 0
    assert (document["pairs_computed"], document["pairs_possible"]) == (210, 210)
    assert document["epsilon_upper"] == table.epsilon_upper.max()
    assert document["assumption_text"].startswith("contributions are fixed in advance")


def test_the_network_has_each_edge_once() -> None:
    document = network_document(NETWORK, WEIGHTS)
    assert len(document.links) == GRAPH.edges == document.edges
    assert len({frozenset(link) for link in document.links}) == GRAPH.edges
    for a, b in document.links:
        assert GRAPH.adjacency[b, a] == 1
    matrix = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])
    directed = network_document(
        WeightedGraph(graph=as_graph(matrix), weights=as_weights(matrix)), as_weights(matrix)
    )
    assert directed.directed is True
    assert sorted(directed.links) == [(0, 2), (1, 0), (2, 1)]


@pytest.mark.parametrize("most", [1, 14, 30, 209])
def test_a_smaller_document_keeps_the_observers_that_learn_most(most: int, table: AccountTable) -> None:
    document = page_document(table, NETWORK, most_pairs=most)
    kept = max(1, most // 14)
    assert len(document["observers"]) == kept
    assert document["observers_left_out"] == 15 - kept
    assert len(document["pairs"]["upper"]) == 14 * kept
    assert max(document["pairs"]["upper"]) == table.squared_upper.max()
    left = set(range(15)) - {row for (row,) in document["observers"]}
    peaks = {row: max(table.squared_upper[table.observer_of == row]) for row in range(15)}
    assert all(peaks[out] <= min(peaks[row] for (row,) in document["observers"]) for out in left)


@pytest.mark.parametrize(
    ("view", "own_noise", "observers", "targets", "computed", "possible"),
    [
        ("secure-sum", "known", None, None, 210, 210),
        ("secure-sum", "hidden", None, None, 225, 225),
        ("secure-sum", "known", ["Medici"], None, 14, 210),
        ("neighbourhood", "known", ["Medici", "Pazzi"], ["Strozzi"], 2, 210),
        ("neighbourhood", "hidden", ["Medici"], None, 15, 225),
        ("everyone", "known", None, None, 15, 15),
        ("everyone", "known", None, ["Pazzi"], 1, 15),
    ],
)
def test_a_part_of_the_network_is_told_from_the_whole(
    view: str, own_noise: Any, observers: Any, targets: Any, computed: int, possible: int
) -> None:
    found = account_all(
        gossip(WEIGHTS, rounds=2),
        view,
        noise_multiplier=2.0,
        delta=1e-6,
        own_noise=own_noise,
        observers=observers,
        targets=targets,
    )
    document = page_document(found, NETWORK)
    assert (document["pairs_computed"], document["pairs_possible"]) == (computed, possible)


def test_a_coalition_has_the_pairs_of_those_outside() -> None:
    protocol = gossip(WEIGHTS, rounds=2)
    for own_noise, pairs in (("known", 13), ("hidden", 15)):
        view = View(name="coalition-sums", observers=("Medici", "Pazzi"), own_noise=own_noise)  # type: ignore[arg-type]
        found = account(protocol, view, noise_multiplier=2.0, delta=1e-6)
        document = page_document(found, NETWORK)
        assert (document["pairs_computed"], document["pairs_possible"]) == (pairs, pairs)


def test_other_views_of_a_run_stand_beside_it(table: AccountTable) -> None:
    other = account_all(table.protocol, "neighbourhood", noise_multiplier=2.0, delta=1e-6)
    document = page_document(table, NETWORK, beside=[other])
    (beside,) = document["beside"]
    assert beside["view"] == "neighbourhood"
    assert max(beside["pairs"]["upper"]) == other.squared_upper.max()
    assert set(document) - set(beside) == {"graph", "beside"}


def test_a_view_without_observers_has_one_row() -> None:
    found = account(gossip(WEIGHTS, rounds=5), View.everyone, noise_multiplier=2.0, delta=1e-6)
    document = page_document(found, NETWORK)
    assert document["observers"] == [[]]
    assert set(document["pairs"]["upper"]) == {5.0}
    assert document["methods"] == ["exact"]


def test_a_curve_is_written_by_name() -> None:
    point = (Interval(1.0, 2.0),)
    curve = Curve(observers=(3,), rounds=(7,), counts=(6,), worst=point, median=point, best=point)
    ends = [{"lower": 1.0, "upper": 2.0}]
    assert json.loads(json.dumps(plain(curve_document(curve)))) == {
        "observers": [3],
        "rounds": [7],
        "counts": [6],
        "worst": ends,
        "median": ends,
        "best": ends,
    }
