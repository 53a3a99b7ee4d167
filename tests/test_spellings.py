# SPDX-License-Identifier: Apache-2.0
"""One reader of NAME:KEY=VALUE for graphs, protocols, participation and synthetic data."""

from collections.abc import Callable

import pytest

from sottovoce import Participation, graphs
from sottovoce.errors import GraphError, InputError
from sottovoce.learning import parse_synthetic
from sottovoce.protocols import parse_protocol
from sottovoce.spellings import Spelling, spelled, unfinished

WEIGHTS = graphs.metropolis_weights("ring:n=5")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("karate", Spelling("karate", (), {})),
        (" ring : n = 5 ,", Spelling("ring", (), {"n": "5"})),
        ("fixed:1,5", Spelling("fixed", ("1", "5"), {})),
        ("laplacian:1/3", Spelling("laplacian", ("1/3",), {})),
        ("every:4,offset=2", Spelling("every", ("4",), {"offset": "2"})),
        ("file:///a=b", Spelling("file", (), {"///a": "b"})),
        ("", Spelling("", (), {})),
    ],
)
def test_parts_are_told_apart(text: str, found: Spelling) -> None:
    assert spelled(text) == found


@pytest.mark.parametrize(
    ("text", "done", "last"),
    [
        ("ri", Spelling("ri", (), {}), ""),
        ("cliques:base=ring:n", Spelling("cliques", (), {}), "base=ring:n"),
        ("every:4,offset=2,", Spelling("every", ("4",), {"offset": "2"}), ""),
    ],
)
def test_what_is_still_typed_stands_apart(text: str, done: Spelling, last: str) -> None:
    assert unfinished(text) == (done, last)


@pytest.mark.parametrize(
    ("read", "error", "sentence"),
    [
        (
            lambda: graphs.generate_graph("ring:n=5,n=6"),
            GraphError,
            r"^ring: the parameter n is given twice; got 'ring:n=5,n=6' \(write it once\)$",
        ),
        (
            lambda: parse_protocol("momentum:beta=0.5,beta=0.9", WEIGHTS, rounds=2),
            InputError,
            "momentum: the parameter beta is given twice",
        ),
        (
            lambda: parse_synthetic("synthetic:records=2,records=3", 4),
            InputError,
            "synthetic: the parameter records is given twice",
        ),
        (
            lambda: Participation.parse("every:4,offset=2,offset=3"),
            InputError,
            "every: the parameter offset is given twice",
        ),
    ],
)
def test_what_stands_twice_is_refused(
    read: Callable[[], object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        read()
