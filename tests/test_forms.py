# SPDX-License-Identifier: Apache-2.0
"""Forms: what is amiss in a document is said with its place, the rule and what was found."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from msgspec import Meta

from sottovoce.errors import InputError
from sottovoce.forms import Form, canonical, json_text, plain, read_form, strict_json


class Dense(Form, frozen=True, kw_only=True, tag_field="kind", tag="dense"):
    y: list[float] | None


class Cap(Form, frozen=True, kw_only=True, tag_field="kind", tag="cap"):
    """Nothing to prove."""


class Claim(Form, frozen=True, kw_only=True):
    rounds: Annotated[int, Meta(ge=1)]
    ends: tuple[float, float]
    proofs: Annotated[list[Dense | Cap], Meta(min_length=1, max_length=2)]
    terms: dict[str, Literal["known", "hidden"]]
    seal: bytes = b""


GOOD: dict[str, Any] = {
    "rounds": 3,
    "ends": [0, 1.5],
    "proofs": [{"kind": "dense", "y": None}, {"kind": "cap"}],
    "terms": {"a": "known"},
}


def test_a_form_reads_back_what_it_writes() -> None:
    claim = read_form(GOOD, Claim, "a claim")
    assert claim == Claim(rounds=3, ends=(0.0, 1.5), proofs=[Dense(y=None), Cap()], terms={"a": "known"})
    assert json.loads(json.dumps(plain(claim))) == GOOD | {"seal": ""}
    assert strict_json(json_text(claim), "a claim") == GOOD | {"seal": ""}
    assert plain({"y": np.array([[1.0, 2.0]]), "labels": range(2, 5)}) == {
        "y": [[1.0, 2.0]],
        "labels": {"first": 2, "count": 3},
    }
    with pytest.raises(TypeError, match="JSON has no form for object"):
        plain(object())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"rounds": "3"}, "rounds must be a whole number; got '3'"),
        ({"ends": [0]}, "ends must be a list of 2; got a list of 1"),
        ({"ends": [0, 10**350]}, r"ends\[1\] must be a number within the range of floats; got 1000"),
        ({"proofs": []}, "proofs must be a list of at least 1; got a list of 0"),
        ({"proofs": [{"kind": "cap"}] * 3}, "proofs must be a list of at most 2; got a list of 3"),
        ({"proofs": [{"kind": "cup"}]}, r"proofs\[0\].kind must be one of dense, cap; got 'cup'"),
        ({"proofs": [{"kind": 1}]}, r"proofs\[0\].kind must be text; got 1"),
        ({"proofs": [{"kind": "dense"}]}, r"proofs\[0\] lacks the field y \(is the file complete\?\)"),
        ({"proofs": [{"kind": "cap", "y": 1}]}, r"proofs\[0\] has an unknown field y \(another program"),
        ({"terms": {"a": "seen"}}, "must be one of hidden, known; got something else in it"),
        ({"terms": []}, "terms must be a JSON object; got a list of 0"),
        ({"seal": 1}, "^seal must be bytes in base64; got 1$"),
        ({"seal": "A"}, "^seal must be bytes in base64; got 'A'$"),
        ({"more": 1}, "^a claim has an unknown field more"),
    ],
)
def test_what_is_amiss_is_said_with_its_place(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_form({**GOOD, **changes}, Claim, "a claim")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "a claim is a JSON file; this is not JSON"),
        ("[Infinity]", "a claim holds finite numbers only; this file holds Infinity"),
        ("[-1e400]", "a claim holds finite numbers only; this file holds -1e400"),
        ('[{"a": {"b": 1, "b": 1}}]', "a field stands twice in the same JSON object"),
        ("9" * 401, "a number has at most 400 digits; one in this file has 401"),
    ],
)
def test_json_that_others_read_in_two_ways_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        strict_json(text, "a claim")


def test_json_is_written_in_one_way() -> None:
    value = {"é": range(2, 4), "a": [Cap(), np.float64(0.1)]}
    assert json_text(value) == '{"\\u00e9": {"first": 2, "count": 2}, "a": [{"kind": "cap"}, 0.1]}'
    assert json_text(value, tight=True, letters=True, ordered=True) == canonical(value, tight=True).decode()
    assert canonical(value) == json.dumps(plain(value), sort_keys=True).encode()
    for beyond in (float("nan"), [float("inf")]):
        with pytest.raises(ValueError, match="Out of range float values"):
            json_text(beyond)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InputError, match="JSON must not be nested so deeply"):
        canonical(deep)
