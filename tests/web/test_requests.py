# SPDX-License-Identifier: Apache-2.0
"""Requests: what is read, what is refused, and what counts as the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sottovoce.accounting import RELATIONS
from sottovoce.views import VIEW_NAMES
from sottovoce.vocabulary import Relation, ViewName
from sottovoce.web.requests import AccountRequest, GraphRequest, PageRequest, content_hash

RING = {"kind": "name", "name": "ring:n=4"}
RUN = {"graph": RING, "rounds": 3, "noise_multiplier": 2}


def read(kind: type, value: dict[str, Any]) -> Any:
    return msgspec.json.decode(json.dumps(value), type=kind)


def test_choices_are_those_of_the_library() -> None:
    assert ViewName.__args__ == VIEW_NAMES  # type: ignore[attr-defined]
    assert Relation.__args__ == tuple(RELATIONS)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "Expected `int` >= 1"),
        ({"rounds": 2.5}, "Expected `int`, got `float`"),
        ({"rounds": True}, "Expected `int`, got `bool`"),
        ({"noise_multiplier": 0}, "Expected `float` > 0.0"),
        ({"delta": 1}, "Expected `float` < 1.0"),
        ({"view": "mine"}, "Invalid enum value 'mine'"),
        ({"observers": []}, "Expected `array` of length >= 1"),
        ({"observers": "anna"}, "got `str`"),
        ({"speed": 3}, "unknown field `speed`"),
        ({"graph": "ring:n=4"}, "Expected `object`, got `str`"),
        ({"graph": {"kind": "path", "name": "x"}}, "Invalid value 'path'"),
        ({"graph": {"kind": "name", "name": ""}}, "length >= 1"),
        ({"weights": "matrix.npy"}, "matching regex"),
        ({"weights": "laplacian:../../etc/passwd.npy"}, "matching regex"),
    ],
)
def test_what_is_not_described_is_refused(changes: dict[str, Any], message: str) -> None:
    read(AccountRequest, RUN)
    with pytest.raises(msgspec.ValidationError) as caught:
        read(AccountRequest, {**RUN, **changes})
    assert message in str(caught.value)


def test_equal_content_has_one_hash_and_other_content_another() -> None:
    base = {"graph": RING, "rounds": 3}
    first = content_hash("page", read(PageRequest, base))
    assert (
        content_hash("page", read(PageRequest, {"rounds": 3, "view": "neighbourhood", "graph": RING}))
        == first
    )
    others = [
        content_hash("curve", read(PageRequest, base)),
        content_hash("graph", read(GraphRequest, {"graph": RING})),
        *(
            content_hash("page", read(PageRequest, {**base, **change}))
            for change in (
                {"rounds": 4},
                {"view": "secure-sum"},
                {"observers": [0]},
                {"observers": ["0"]},
                {"targets": [0]},
                {"weights": "lazy"},
                {"graph": {"kind": "text", "text": "ring:n=4"}},
            )
        ),
    ]
    assert len({first, *others}) == len(others) + 1
