# SPDX-License-Identifier: Apache-2.0
"""`sottovoce serve`: what it refuses before it listens."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--host", "0.0.0.0"), "host must be a loopback address unless public access is asked for"),
        (
            ("--host", "0.0.0.0", "--public"),
            "needs an access token (pass --token, or set SOTTOVOCE_SERVE_TOKEN)",
        ),
        (("--token", "short"), "token must have at least 16 printable ASCII characters; got 5 characters"),
        (("--port", "70000"), "port must be a whole number from 0 to 65535; got 70000"),
        (("--port", "8.5"), 'unable to convert "8.5" into a whole number'),
        (
            ("--proxy", "example.org"),
            "proxy must be the address that a proxy connects from; got 'example.org'",
        ),
        (("--max-answer", "0"), "answer must be a whole number of at least 1; got 0"),
        (("--max-nodes", "0"), "nodes must be a whole number of at least 1; got 0"),
        (("--max-pairs", "100001"), "pairs must be at most 100000"),
        (("--time-limit", "-1"), "seconds must be a finite number above 0; got -1.0"),
    ],
)
def test_what_cannot_be_served_is_refused(words: tuple[str, ...], message: str, sottovoce: Run) -> None:
    code, out, err = sottovoce("serve", *words)
    assert (code, out) == (2, "")
    assert message in err


def test_a_token_is_not_repeated(sottovoce: Run) -> None:
    assert "hunter2" not in sottovoce("serve", "--token", "hunter2").err


def test_a_missing_package_is_told(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else object())
    code, _, err = sottovoce("serve")
    assert code == 2
    assert (
        "serve needs the package uvicorn, which is not installed (in a clone of Sottovoce: pip install '.[web]')"
        in err
    )
