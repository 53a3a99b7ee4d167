# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from tests.reference import dyadic_weights, exact_weights, seen_and_known, views

from sottovoce.errors import GraphError, InputError, ViewError
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import Protocol, gossip
from sottovoce.views import ASSUMPTIONS, VIEW_NAMES, View, assumption_of, observe, target_indices


def path4() -> Protocol:
    return gossip(metropolis_weights("path:n=4"), rounds=3)


@given(st.data())
def test_every_view_shows_what_its_definition_says(data: Any) -> None:
    weights = data.draw(dyadic_weights())
    view = data.draw(views(weights.n))
    observation = observe(gossip(weights, rounds=2), view)
    rows, known = seen_and_known(view, exact_weights(weights))
    exact = [[observation.exact(k).get(j, Fraction(0)) for j in range(weights.n)] for k in range(len(rows))]
    assert observation.rows.shape == (len(rows), weights.n)
    assert sorted(exact) == sorted(rows)
    assert observation.known.tolist() == sorted(known)
    for k, row in enumerate(exact):
        assert observation.rows.toarray()[k].tolist() == [float(x) for x in row]


def test_rows_of_a_rule_are_exact_and_not_the_floats_next_to_them() -> None:
    observation = observe(path4(), View.secure_sum(1))
    assert observation.exact(0) == dict.fromkeys((0, 1, 2), Fraction(1, 3))


def test_directed_neighbours_are_those_who_send_to_the_observer() -> None:
    # Node 0 hears from 2 and node 1 from 0.
    ring = matrix_weights([[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])
    protocol = gossip(ring, rounds=2)
    assert observe(protocol, View.neighbourhood(0)).rows.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert observe(protocol, View.coalition_messages([0])).rows.toarray().tolist() == [[0, 0, 1]]
    assert observe(protocol, View.coalition_messages([0, 2])).rows.toarray().tolist() == [[0, 1, 0]]


def test_everyone_sees_all_messages_and_knows_no_noise() -> None:
    assert observe(path4(), View.everyone).rows.toarray().tolist() == np.eye(4).tolist()
    assert observe(path4(), View.everyone).known.size == 0


def test_own_noise_is_known_unless_said_otherwise() -> None:
    assert observe(path4(), View.secure_sum(2)).known.tolist() == [2]
    assert observe(path4(), View.secure_sum(2, own_noise="hidden")).known.size == 0


def test_observers_are_named_by_label() -> None:
    weights = matrix_weights([[0.5, 0.5], [0.5, 0.5]], labels=["anna", "ben"])
    assert observe(gossip(weights, rounds=2), View.single_node("ben")).known.tolist() == [1]
    with pytest.raises(GraphError, match="no node is called 'carl'"):
        observe(gossip(weights, rounds=2), View.single_node("carl"))


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_array, list])
def test_an_observation_may_be_dense_or_sparse(convert: Any) -> None:
    observation = observe(path4(), View(observation=convert([[0.0, 0.5, 0.0, 2.0]]), known_noise=[3, 0, 3]))
    assert observation.exact(0) == {1: Fraction(1, 2), 3: Fraction(2)}
    assert observation.known.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[1.0, 0.0, 0.0]], r"one column for each of the 4 nodes; got shape \(1, 3\)"),
        ([1.0, 0.0, 0.0, 0.0], r"one column for each of the 4 nodes; got shape \(4,\)"),
        ([[1.0, np.nan, 0.0, 0.0]], "must hold finite numbers; got NaN or infinity"),
        ([[1.0, np.inf, 0.0, 0.0]], "must hold finite numbers; got NaN or infinity"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(matrix: Any, sentence: str) -> None:
    with pytest.raises(ViewError, match=sentence):
        observe(path4(), View(observation=matrix))


def test_a_custom_view_needs_rows() -> None:
    with pytest.raises(ViewError, match="a custom view needs observation=C"):
        View()


@pytest.mark.parametrize("name", [name for name in VIEW_NAMES if name != "everyone"])
def test_a_named_view_needs_an_observer(name: str) -> None:
    with pytest.raises(ViewError, match=f"the {name} view needs at least one observer; got none"):
        View(name=name)


def test_an_empty_coalition_is_refused() -> None:
    with pytest.raises(ViewError, match="needs at least one observer"):
        View.coalition_sums([])


def test_words_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(InputError, match="view must be one of custom, everyone"):
        View(name="eavesdropper", observers=(0,))
    with pytest.raises(InputError, match="own_noise must be one of known, hidden; got 'none'"):
        View.secure_sum(0, own_noise="none")  # type: ignore[arg-type]


def test_observers_must_differ() -> None:
    with pytest.raises(ViewError, match=r"must differ from each other; got \[1, 1\]"):
        observe(path4(), View.coalition_sums([1, 1]))


def test_something_else_is_no_view() -> None:
    with pytest.raises(ViewError, match=r"must be a View, such as View.secure_sum\(0\); got 'secure-sum'"):
        observe(path4(), "secure-sum")  # type: ignore[arg-type]


def test_a_view_introduces_itself() -> None:
    assert repr(View.everyone) == "View(everyone)"
    assert repr(View.coalition_sums([2, 0])) == "View(coalition-sums of 2, 0, own noise known)"
    assert repr(View(observation=np.eye(3)[:2], known_noise=[1])) == "View(custom, known noise [1])"


def test_targets_are_all_whose_noise_is_hidden() -> None:
    protocol, view = path4(), View.secure_sum(1)
    assert target_indices(protocol, view, observe(protocol, view).known, None).tolist() == [0, 2, 3]
    assert target_indices(protocol, view, np.zeros(0, dtype=np.int64), None).tolist() == [0, 1, 2, 3]


def test_targets_come_in_index_order_and_once() -> None:
    protocol, view = path4(), View.secure_sum(1)
    assert target_indices(protocol, view, np.array([1]), [3, 0, 3]).tolist() == [0, 3]


def test_targets_that_cannot_be_answered_are_refused() -> None:
    protocol, view = path4(), View.secure_sum(1)
    with pytest.raises(InputError, match="targets must name at least one node; got none"):
        target_indices(protocol, view, np.array([1]), [])
    with pytest.raises(
        InputError, match=r"node 1 cannot be a target of View\(secure-sum of 1.*knows its noise"
    ):
        target_indices(protocol, view, np.array([1]), [0, 1])
    with pytest.raises(GraphError, match="no node is called 9; the nodes are called 0 to 3"):
        target_indices(protocol, view, np.array([1]), [9])


def test_repeated_entries_of_a_sparse_observation_add_up() -> None:
    protocol = gossip(metropolis_weights("path:n=2"), rounds=1)
    repeated = sparse.csr_array(
        (np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2)
    )
    seen = observe(protocol, View(observation=repeated))
    assert seen.rows.toarray().tolist() == [[1.0, 1.0]]
    assert seen.exact(0) == {0: 1, 1: 1}
    assert repeated.nnz == 3


@pytest.mark.parametrize("name", ["neighbourhood", "secure-sum", "single-node"])
def test_several_observers_are_a_coalition(name: str) -> None:
    with pytest.raises(ViewError, match=rf"^the {name} view has one observer; got \[0, 1\] \(several"):
        View(name=name, observers=(0, 1))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            lambda: View(observation=np.eye(3), observers=(0,)),
            r"^a custom view names whose noise is known, not observers; got \[0\] \(use known_noise=",
        ),
        (
            lambda: View(name="secure-sum", observers=(0,), known_noise=[2]),
            r"^the secure-sum view has its own rows and known noise; got observation or known_noise as well",
        ),
        (
            lambda: View(name="everyone", observation=np.eye(3)),
            r"^the everyone view has its own rows and known noise",
        ),
        (
            lambda: View.coalition_sums("12"),
            r"^nodes must be a list of node names; got '12' \(write \['12'\]\)$",
        ),
        (
            lambda: View.coalition_messages(cast("Any", 3)),
            r"^nodes must be a list of node names; got 3 \(write \[3\]\)$",
        ),
    ],
)
def test_what_contradicts_itself_is_no_view(made: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        made()


def test_a_text_is_one_name_and_not_many() -> None:
    protocol = gossip(metropolis_weights("ring:n=20"), rounds=2)
    with pytest.raises(
        InputError, match=r"^targets must be a list of node names; got '12' \(write \['12'\]\)$"
    ):
        target_indices(protocol, View.secure_sum(0), np.array([0]), "12")
    with pytest.raises(InputError, match=r"^known_noise must be a list of node names; got '12'"):
        observe(protocol, View(observation=np.ones((1, 20)), known_noise="12"))


@pytest.mark.parametrize("name", [*VIEW_NAMES, "custom"])
def test_only_whoever_sees_all_messages_needs_no_assumption(name: str) -> None:
    for damping, loop in ((None, "oblivious"), (np.array([0.5, 1.0]), "quadratic")):
        found = assumption_of(name, damping)
        assert found == ("none" if name == "everyone" else loop)
        assert found in ASSUMPTIONS
    assert assumption_of(View.everyone, None) == "none"
    assert assumption_of(View(observation=np.eye(2)), None) == "oblivious"
