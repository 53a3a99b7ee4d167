# SPDX-License-Identifier: Apache-2.0
"""Answers are of the types that describe them: a field too many or too few is noticed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sottovoce.web.limits import Limits
from sottovoce.web.work import KINDS, perform

RUN = {"graph": {"kind": "name", "name": "path:n=3"}, "rounds": 2, "observers": [1]}
MORE = {
    "graph": {},
    "page": RUN,
    "curve": RUN,
    "account": {**RUN, "noise_multiplier": 2.0},
    "calibrate": {**RUN, "target_epsilon": 1.0},
    "sampled": {**RUN, "noise_multiplier": 2.0, "participation": "poisson:0.5"},
    "report": {**RUN, "noise_multiplier": 2.0},
}


# Of very many pairs an account holds a summary.
OPTIONAL = {
    "graph": set(),
    "page": {"kind"},
    "curve": set(),
    "account": {"kind", "pairs"},
    "calibrate": {"kind"},
    "sampled": {"kind", "observers"},
    "report": set(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_of_its_type_and_nothing_else_is(kind: str) -> None:
    value = MORE[kind] or {"graph": RUN["graph"]}
    request: Any = msgspec.convert(value, KINDS[kind].request)
    document = json.loads(perform(kind, request, Limits(), lambda *_: None))
    msgspec.convert(document, KINDS[kind].result)
    with pytest.raises(msgspec.ValidationError, match="unknown field `more`"):
        msgspec.convert({**document, "more": 1}, KINDS[kind].result)
    required = {field.encode_name for field in msgspec.structs.fields(KINDS[kind].result) if field.required}
    assert set(document) - required == OPTIONAL[kind]
    for name in required:
        fewer = {key: part for key, part in document.items() if key != name}
        with pytest.raises(msgspec.ValidationError, match=f"missing required field `{name}`"):
            msgspec.convert(fewer, KINDS[kind].result)
