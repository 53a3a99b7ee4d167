# SPDX-License-Identifier: Apache-2.0
"""Requests for reports and for coins from somebody who means harm: refused in a sentence, or answered without it."""

from __future__ import annotations

import builtins
import io
import json
import os
import time
from typing import Any

import msgspec
import pytest

from sottovoce.errors import SottovoceError
from sottovoce.web.limits import Limits
from sottovoce.web.work import KINDS, perform

RING = {"kind": "name", "name": "ring:n=4"}
ASKED = {"graph": RING, "rounds": 3, "noise_multiplier": 3, "view": "secure-sum"}


def answered(kind: str, text: str) -> Any:
    request: Any = msgspec.json.decode(text, type=KINDS[kind].request)
    return json.loads(perform(kind, request, Limits(), lambda *_: None))


@pytest.mark.parametrize("kind", ["report", "sampled"])
@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 10**12},
        {"rounds": 10**400},
        {"rounds": True},
        {"rounds": "3"},
        {"noise_multiplier": 1e308},
        {"noise_multiplier": -1},
        {"noise_multiplier": float("nan")},
        {"noise_multiplier": float("inf")},
        {"delta": 0},
        {"delta": 1},
        {"graph": {"kind": "name", "name": "complete:n=100000000"}},
        {"graph": {"kind": "name", "name": "../../../etc/passwd"}},
        {"graph": {"kind": "name", "name": "x" * 201}},
        {"graph": {"kind": "file", "name": "/etc/passwd"}},
        {"graph": {"kind": "text", "text": "a b\n" * 3 + "\x00\n", "format": "graphml"}},
        {
            "graph": {
                "kind": "text",
                "text": "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml>&a;</graphml>",
                "format": "graphml",
            }
        },
        {"protocol": "/etc/passwd"},
        {"protocol": "repeated:steps=1000000000"},
        {"protocol": "momentum:beta=nan"},
        {"program": "x" * 10_001},
        {"damping": "/etc/passwd"},
        {"damping": "nan"},
        {"updates": "nan,inf"},
        {"participation": "poisson:nan"},
        {"participation": "poisson:1e-400"},
        {"participation": "poisson:2"},
        {"observers": [10**30]},
        {"observers": []},
        {"targets": [None]},
        {"max_epsilon": float("nan")},
        {"surprise": 1},
        {"view": "custom"},
    ],
    ids=lambda changes: f"{next(iter(changes))}={str(next(iter(changes.values())))[:24]}",
)
def test_what_makes_no_sense_or_is_too_much_is_refused_before_any_work(
    kind: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {
        **ASKED,
        **({"participation": "poisson:0.5", "view": "everyone"} if kind == "sampled" else {}),
        **changes,
    }
    opened: list[object] = []

    def refuse(file: object, *_: object, **__: object) -> Any:
        opened.append(file)
        raise AssertionError(f"{file} was opened")

    text = json.dumps(whole)
    begun = time.process_time()
    with monkeypatch.context() as patched:
        for where, name in ((builtins, "open"), (io, "open"), (os, "open")):
            patched.setattr(where, name, refuse)
        with pytest.raises((SottovoceError, msgspec.MsgspecError)):
            answered(kind, text)
    assert not [file for file in opened if "passwd" in str(file)]
    assert time.process_time() - begun < 5


def test_names_of_nodes_stay_names_in_a_report_of_the_server() -> None:
    evil = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{7*7}}"]
    rows = "\n".join(f'"{one}","{other}"' for one, other in zip(evil, [*evil[1:], evil[0]], strict=True))
    source = {"kind": "text", "text": f"source,target\n{rows}\n", "format": "csv", "name": "x\r\nX-Evil: 1"}
    found = answered("report", json.dumps({**ASKED, "graph": source}))
    assert found["name"] == "sottovoce-report.html"
    page = found["html"]
    assert "<img src=x" not in page
    assert page.count("<script>alert(1)") == 0
