# SPDX-License-Identifier: Apache-2.0
"""Where the server refuses to listen."""

from __future__ import annotations

import pytest

from sottovoce.errors import InputError
from sottovoce.web.listening import bound_socket, check_access, is_loopback


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.2", False),
        ("example.org", False),
        ("localhost.example.org", False),
    ],
)
def test_what_is_this_machine_alone(host: str, own: bool) -> None:
    assert is_loopback(host) is own


@pytest.mark.parametrize(
    ("host", "public", "token", "message"),
    [
        (
            "0.0.0.0",
            False,
            None,
            "host must be a loopback address unless public access is asked for; got '0.0.0.0'",
        ),
        ("0.0.0.0", False, "x" * 20, "host must be a loopback address"),
        ("0.0.0.0", True, None, "needs an access token (pass --token, or set SOTTOVOCE_SERVE_TOKEN)"),
        ("0.0.0.0", True, "short", "token must have at least 16 printable ASCII characters; got 5"),
        ("127.0.0.1", False, "short", "token must have at least 16"),
        ("127.0.0.1", False, "ü" * 20, "printable ASCII"),
    ],
)
def test_strangers_are_kept_out(host: str, public: bool, token: str | None, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_access(host, public=public, token=token)
    assert message in str(caught.value)


def test_what_is_meant_and_guarded_is_allowed() -> None:
    check_access("127.0.0.1", public=False, token=None)
    check_access("0.0.0.0", public=True, token="x" * 16)


def test_a_port_that_is_taken_is_told() -> None:
    with bound_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"cannot listen at 127\.0\.0\.1:{port}: .*choose another --port"
        ):
            bound_socket("127.0.0.1", port)
    with pytest.raises(InputError, match="port must be a whole number from 0 to 65535; got 70000"):
        bound_socket("127.0.0.1", 70_000)
