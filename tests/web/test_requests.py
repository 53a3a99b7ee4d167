# SPDX-License-Identifier: Apache-2.0
"""Requests: what is read, what is refused, and what counts as the same."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from sottovoce.accounting import RELATIONS
from sottovoce.errors import InputError
from sottovoce.views import VIEW_NAMES
from sottovoce.vocabulary import Relation, ViewName
from sottovoce.web.requests import AccountRequest, GraphRequest, PageRequest, content_hash, read_request

RING = {"kind": "name", "name": "ring:n=4"}
RUN = {"graph": RING, "rounds": 3, "noise_multiplier": 2}


def read(kind: type, value: dict[str, Any]) -> Any:
    return read_request(json.dumps(value).encode(), kind)[0]


def test_choices_are_those_of_the_library() -> None:
    assert ViewName.__args__ == VIEW_NAMES  # type: ignore[attr-defined]
    assert Relation.__args__ == tuple(RELATIONS)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number; got 2.5"),
        ({"rounds": True}, "rounds must be a whole number; got True"),
        ({"noise_multiplier": 0}, "noise_multiplier must be a number above 0.0; got 0"),
        ({"delta": 1}, "delta must be a number below 1.0; got 1"),
        ({"view": "mine"}, "neighbourhood, secure-sum, single-node; got 'mine'"),
        ({"observers": []}, "observers must be a list of at least 1; got a list of 0"),
        ({"observers": "anna"}, "got 'anna'"),
        ({"speed": 3}, "the request has an unknown field speed"),
        ({"graph": "ring:n=4"}, "graph must be a JSON object; got 'ring:n=4'"),
        ({"graph": {"kind": "path", "name": "x"}}, "graph.kind must be one of name, text; got 'path'"),
        ({"graph": {"kind": "name", "name": ""}}, "graph.name must be text of at least 1; got ''"),
        ({"weights": "matrix.npy"}, "got 'matrix.npy'"),
        ({"weights": "laplacian:../../etc/passwd.npy"}, "got 'laplacian:../../etc/passwd.npy'"),
    ],
)
def test_what_is_not_described_is_refused(changes: dict[str, Any], message: str) -> None:
    read(AccountRequest, RUN)
    with pytest.raises(InputError) as caught:
        read(AccountRequest, {**RUN, **changes})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"rounds": 3, "rounds": 4}', "a field stands twice in the same JSON object: 'rounds'"),
        (
            b'{"graph": {"kind": "name", "name": "a", "name": "b"}}',
            "a field stands twice in the same JSON object: 'name'",
        ),
        (b'{"rounds": NaN}', "the body holds finite numbers only; this request holds NaN"),
        (b'{"rounds": 1e999}', "the body holds finite numbers only; this request holds 1e999"),
        (b'{"rounds": ' + b"1" * 401 + b"}", "a number has at most 400 digits; one in this request has 401"),
        (b'{"graph": {"kind": "name", "name": "\\ud800"}}', "the body is text in UTF-8"),
        (b'{"graph": "\xff"}', "the body is text in UTF-8"),
        (b'{"noise_multiplier": ' + b"9" * 400 + b"}", "noise_multiplier must be a number within the range"),
        (b'\xef\xbb\xbf{"rounds": 3}', "this is not JSON"),
        (b"", "this is not JSON"),
        (b"[" * 100_000, "this is not JSON"),
        (b"null", "the request must be a JSON object; got None"),
    ],
    ids=lambda value: value[:24].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_what_two_readers_could_take_for_two_things_is_refused(body: bytes, message: str) -> None:
    whole = json.dumps(RUN).encode()
    if body.startswith(b"{"):
        fields = {name: json.dumps(value) for name, value in RUN.items() if f'"{name}"'.encode() not in body}
        others = ", ".join(f'"{name}": {value}' for name, value in fields.items())
        body = body[:-1] + f", {others}}}".encode()
    read_request(whole, AccountRequest)
    with pytest.raises(InputError) as caught:
        read_request(body, AccountRequest)
    assert message in str(caught.value)


def test_a_body_of_many_fields_is_refused_within_a_moment() -> None:
    many = ", ".join(f'"{k}": 0' for k in range(150_000))
    begun = time.process_time()
    with pytest.raises(InputError, match="a field stands twice in the same JSON object: '149999'"):
        read_request(f'{{{many}, "149999": 0}}'.encode(), AccountRequest)
    assert time.process_time() - begun < 5


def test_a_request_is_passed_on_as_what_was_read() -> None:
    asked = {**RUN, "observers": [0, 10**24, "ä"], "delta": 1e-7}
    found, passed_on = read_request(json.dumps(asked).encode(), AccountRequest)
    assert msgspec.json.decode(passed_on, type=AccountRequest) == found
    # Whichever way the bytes of a client are written, what is kept is found again.
    assert found == msgspec.json.decode(json.dumps(asked, ensure_ascii=False, indent=1), type=AccountRequest)


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
