# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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
