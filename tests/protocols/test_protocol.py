# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.errors import GraphError, InputError
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import gossip


def test_gossip_moves_by_its_weights() -> None:
    weights = metropolis_weights("ring:n=5")
    protocol = gossip(weights, rounds=7)
    assert protocol.weights is weights
    assert protocol.n == 5
    assert protocol.rounds == 7
    assert (protocol.transition.toarray() == weights.matrix.toarray()).all()


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_array])
def test_a_matrix_serves_as_weights(convert: Any) -> None:
    W = np.array([[0.75, 0.25], [0.5, 0.5]])
    protocol = gossip(convert(W), rounds=3)
    assert (protocol.transition.toarray() == W).all()
    assert not protocol.weights.symmetric


@pytest.mark.parametrize("rounds", [0, -1, 2.5, None, True])
def test_rounds_are_whole_and_at_least_1(rounds: Any) -> None:
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1; got"):
        gossip(np.full((2, 2), 0.5), rounds=rounds)


def test_rounds_become_a_plain_integer() -> None:
    assert type(gossip(np.full((2, 2), 0.5), rounds=np.int64(4)).rounds) is int  # type: ignore[arg-type]


def test_a_graph_is_no_gossip_matrix() -> None:
    with pytest.raises(GraphError, match=r"choose a rule, as in metropolis_weights\(graph\)"):
        gossip("ring:n=5", rounds=3)


def test_rows_that_do_not_sum_to_1_are_refused() -> None:
    with pytest.raises(GraphError, match=r"rows that sum to 1; row 1 sums to 0\.9"):
        gossip(np.array([[0.5, 0.5], [0.5, 0.4]]), rounds=3)


def test_labels_are_kept() -> None:
    weights = matrix_weights([[0.5, 0.5], [0.5, 0.5]], labels=["anna", "ben"])
    protocol = gossip(weights, rounds=2)
    assert list(protocol.labels) == ["anna", "ben"]
    assert protocol.index("ben") == 1
    with pytest.raises(GraphError, match="no node is called 'carl'"):
        protocol.index("carl")


@pytest.mark.parametrize(
    ("labels", "chosen", "kind"),
    [
        (None, [0, 2], "i"),
        ([10, 11, 12], [10, 12], "i"),
        ([5, 9, 2], [5, 2], "i"),
        (["a", "b", "c"], ["a", "c"], "O"),
        ([("x", 1), ("x", 2), ("y", 1)], [("x", 1), ("y", 1)], "O"),
        ([1, "b", 2**70], [1, 2**70], "O"),
    ],
)
def test_names_are_integers_where_they_fit(labels: Any, chosen: list[Any], kind: str) -> None:
    weights = matrix_weights(np.full((3, 3), 1 / 3), labels=labels)
    names = gossip(weights, rounds=1).names(np.array([0, 2]))
    assert names.tolist() == chosen
    assert names.dtype.kind == kind


def test_a_protocol_cannot_be_changed() -> None:
    protocol = gossip(np.full((2, 2), 0.5), rounds=3)
    with pytest.raises(AttributeError):
        protocol.rounds = 4  # type: ignore[misc]


STAR = metropolis_weights("star:n=3")


def test_damping_multiplies_the_rows_of_the_weights() -> None:
    protocol = gossip(STAR, rounds=2, damping=[1, 0.5, 0])
    W = STAR.matrix.toarray()
    assert (protocol.transition.toarray() == np.diag([1, 0.5, 0]) @ W).all()
    assert protocol.transition.nnz == 5
    assert (protocol.weights.matrix.toarray() == W).all()
    assert protocol.exact_row(1) == {0: Fraction(1, 6), 1: Fraction(1, 3)}
    assert protocol.exact_row(2) == {}
    assert not protocol.symmetric


def test_one_number_damps_every_node_alike() -> None:
    protocol = gossip(STAR, rounds=2, damping=0.5)
    assert protocol.damping is not None
    assert protocol.damping.tolist() == [0.5] * 3
    assert protocol.symmetric
    assert not gossip(STAR, rounds=2, damping=-0.5).symmetric
    assert protocol.damping_hash != gossip(STAR, rounds=2, damping=0.25).damping_hash


@pytest.mark.parametrize("damping", [None, 1, 1.0, [1, 1, 1]])
def test_a_damping_of_1_is_the_open_loop(damping: Any) -> None:
    protocol = gossip(STAR, rounds=2, damping=damping)
    assert protocol.damping is None
    assert protocol.damping_hash is None
    assert protocol.transition is STAR.matrix


@pytest.mark.parametrize(
    ("damping", "complaint"),
    [
        ([1, 0.5], r"one number for all nodes or one for each of the 3 nodes; got shape \(2,\)"),
        (1.5, r"between -1 and 1; node 0 has 1\.5 \(1 - step \* curvature leaves that range"),
        ([1, 1, -1.01], r"node 2 has -1\.01"),
        (float("nan"), "node 0 has nan"),
        ("much", "a number, or one number a node; got 'much'"),
    ],
)
def test_a_damping_that_makes_no_sense_is_refused(damping: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        gossip(STAR, rounds=2, damping=damping)


def test_a_damping_is_out_of_reach_of_later_changes() -> None:
    given = np.array([1.0, 0.5, 0.0])
    protocol = gossip(STAR, rounds=2, damping=given)
    given[1] = 0.9
    assert protocol.damping is not None
    assert protocol.damping[1] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        protocol.damping[1] = 0.9
