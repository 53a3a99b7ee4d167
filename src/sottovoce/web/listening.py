# SPDX-License-Identifier: Apache-2.0
"""Where the server may listen, and how."""

from __future__ import annotations

import functools
import ipaddress
import socket
from typing import TYPE_CHECKING, cast

import uvicorn

from sottovoce.errors import InputError
from sottovoce.web.connections import KEPT_ALIVE, Connection, Door
from sottovoce.web.server import LOCAL, application

if TYPE_CHECKING:
    import asyncio

    from sottovoce.web.limits import Limits

__all__ = ["bound_socket", "check_access", "is_loopback", "listen", "server"]

_SHORTEST_TOKEN = 16


def is_loopback(host: str) -> bool:
    """Whether a server that listens at `host` can be reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    address = host.strip("[]")
    return host == "localhost" or (_is_address(address) and ipaddress.ip_address(address).is_loopback)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_access(host: str, *, public: bool, token: str | None, proxy: str | None = None) -> None:
    """Refuse to listen where others can ask, unless that is meant and a token keeps strangers out."""
    if proxy is not None and not _is_address(proxy):
        raise InputError(
            f"proxy must be the address that a proxy connects from; got {proxy!r} (as in 127.0.0.1)"
        )
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(
            f"token must have at least {_SHORTEST_TOKEN} printable ASCII characters; got {len(token)} characters "
            "(python -c 'import secrets; print(secrets.token_urlsafe())' makes one)"
        )
    if is_loopback(host):
        return
    if not public:
        raise InputError(
            f"host must be a loopback address unless public access is asked for; got {host!r} "
            "(pass --public and --token, or --host 127.0.0.1)"
        )
    if token is None:
        raise InputError(
            f"a server at {host!r} can be reached by others and needs an access token (pass --token, or set "
            "SOTTOVOCE_SERVE_TOKEN)"
        )


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at `host` and `port`; 0 takes any free port."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port must be a whole number from 0 to 65535; got {port} (0 takes any free one)")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"cannot listen at {host}:{port}: {reason} (choose another --port or --host)"
        ) from None


def server(limits: Limits, *, host: str, token: str | None, proxy: str | None = None) -> uvicorn.Server:
    """The server for an address; `proxy` is the address of one that is trusted to name its clients."""
    # Who listens everywhere cannot know by which names it is called; the token keeps strangers out.
    hosts = (*LOCAL, host.strip("[]")) if is_loopback(host) else ()
    config = uvicorn.Config(
        application(limits, hosts=hosts, token=token),
        http=cast("type[asyncio.Protocol]", functools.partial(Connection, door=Door(limits, proxy=proxy))),
        # What clients send that is no HTTP is no error of the server.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy,
        timeout_keep_alive=KEPT_ALIVE,
        timeout_graceful_shutdown=3,
        lifespan="on",
        ws="none",
    )
    return uvicorn.Server(config)


def listen(
    listener: socket.socket, limits: Limits, *, host: str, token: str | None, proxy: str | None = None
) -> None:
    """Serve until interrupted."""
    server(limits, host=host, token=token, proxy=proxy).run(sockets=[listener])
