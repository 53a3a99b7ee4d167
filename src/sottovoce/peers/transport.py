# SPDX-License-Identifier: Apache-2.0
"""Letters over Zenoh with mutual TLS: each node listens at its own address and is linked with its neighbours alone.

The trust list is the certificates of the network. Nothing is discovered: no multicast, no gossip of locators. A node
listens on loopback unless it is told another address. Links that break are made again; that a peer is dead is told by
its liveliness token.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import queue
import secrets
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import zenoh
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import InputError
from sottovoce.forms import json_text
from sottovoce.peers.identity import host_and_port
from sottovoce.peers.letters import most_bytes

if TYPE_CHECKING:
    from types import TracebackType

    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network

__all__ = ["Happening", "Transport", "Waiting", "configuration", "listening_at"]

# Microseconds that a full link may hold up a sender before the link counts as broken.
_BLOCKED = 2_000_000
# What may wait in the name of a neighbour: letters, signs of life besides, and letters of the largest size, or bytes.
_LINES, _SIGNS, _LETTERS, _LEAST = 4096, 64, 8, 2**20


class Happening(NamedTuple):
    """What came over the network: a letter, not yet opened, or a sign of life that appeared or went."""

    what: Literal["wire", "found", "lost"]
    peer: int
    wire: bytes = b""


class Waiting:
    """What came and was not looked at yet: of each neighbour no more than a fixed count and a fixed number of bytes.

    Guarantee: whatever neighbours send, in whose name ever, memory stays bounded. What is beyond the bound
    is let go of, as if the link had lost it: letters that matter are sent again, and every wait has an end.
    """

    def __init__(self, longest: int) -> None:
        """`longest` is the most bytes of a letter."""
        self._most = max(_LEAST, _LETTERS * longest)
        self._queue: queue.SimpleQueue[Happening] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._held: dict[int, tuple[int, int]] = {}

    def put(self, happening: Happening) -> None:
        """Take what came, unless it is beyond the bound of its neighbour."""
        size = len(happening.wire)
        with self._lock:
            count, total = self._held.get(happening.peer, (0, 0))
            # A flood of letters leaves room for the sign that who sent them is gone.
            room = _LINES if happening.what == "wire" else _LINES + _SIGNS
            if count >= room or total + size > self._most:
                return
            self._held[happening.peer] = count + 1, total + size
        self._queue.put(happening)

    def get(self, timeout: float) -> Happening | None:
        """What came first; None if nothing does in time."""
        try:
            found = self._queue.get(timeout=timeout) if timeout > 0 else self._queue.get_nowait()
        except queue.Empty:
            return None
        with self._lock:
            count, total = self._held[found.peer]
            self._held[found.peer] = count - 1, total - len(found.wire)
        return found


class Transport:
    """The links of one node; `next` waits for what comes, and never longer than it is told."""

    def __init__(self, network: Network, identity: Identity, *, listen: str | None = None) -> None:
        """Open the links; neighbours that are not there yet are tried again and again."""
        self.me = network.index(identity.name)
        self._root = f"sottovoce/{network.hash.hex()}"
        self._waiting = Waiting(most_bytes(network))
        self._neighbours = set(network.neighbours(self.me))
        self._lives: dict[int, str] = {}
        # RUST_LOG=info shows what Zenoh does.
        zenoh.init_log_from_env_or("off")
        try:
            self._session = zenoh.open(configuration(network, identity, listen=listen))
        except zenoh.ZError as error:
            raise InputError(
                f"{identity.name} cannot listen at {listening_at(network, identity.name, listen)}: {_reason(error)} "
                "(is another node running there? choose another port)"
            ) from None
        declared = self._session.declare_subscriber(f"{self._root}/to/{self.me}/*", self._came)
        alive = self._session.liveliness().declare_subscriber(
            f"{self._root}/alive/*/*", self._changed, history=True
        )
        # Each process has a life of its own: one that is back before it was missed is told from the one before.
        life = secrets.token_hex(8)
        token = self._session.liveliness().declare_token(f"{self._root}/alive/{life}/{self.me}")
        self._held = (declared, alive, token)

    def send(self, receiver: int, wire: bytes) -> None:
        """Hand a letter to the link; whether it arrives, a receipt says."""
        with contextlib.suppress(zenoh.ZError):
            self._session.put(
                f"{self._root}/to/{receiver}/{self.me}",
                wire,
                congestion_control=zenoh.CongestionControl.BLOCK,
            )

    def next(self, timeout: float) -> Happening | None:
        """What came next; None if nothing does in time."""
        return self._waiting.get(timeout)

    def close(self) -> None:
        """Close all links."""
        with contextlib.suppress(zenoh.ZError):
            self._session.close()  # type: ignore[no-untyped-call]

    def __enter__(self) -> Transport:
        """Open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all links."""
        self.close()

    def _came(self, sample: zenoh.Sample) -> None:
        peer = _last(sample.key_expr)
        if peer in self._neighbours:
            self._waiting.put(Happening("wire", peer, sample.payload.to_bytes()))

    def _changed(self, sample: zenoh.Sample) -> None:
        peer = _last(sample.key_expr)
        if peer not in self._neighbours:
            return
        life, known = str(sample.key_expr).split("/")[-2], self._lives.get(peer)
        if sample.kind == zenoh.SampleKind.PUT:
            if known not in {None, life}:
                self._waiting.put(Happening("lost", peer))
            self._lives[peer] = life
            self._waiting.put(Happening("found", peer))
        elif life == known:
            del self._lives[peer]
            self._waiting.put(Happening("lost", peer))


def configuration(network: Network, identity: Identity, *, listen: str | None = None) -> zenoh.Config:
    """The whole configuration of a node's links; what is not in it is off."""
    me = network.index(identity.name)
    cards = network.settings.nodes
    trusted = b"".join(card.x509.public_bytes(Encoding.PEM) for card in cards)
    own = identity.card.x509.public_bytes(Encoding.PEM)
    # One end of each link connects, the one that comes later in the file.
    endpoints = [f"tls/{cards[j].address}" for j in network.neighbours(me) if j < me]
    tls = {
        "root_ca_certificate_base64": _text(trusted),
        "listen_private_key_base64": _text(identity.signing_pem),
        "listen_certificate_base64": _text(own),
        "connect_private_key_base64": _text(identity.signing_pem),
        "connect_certificate_base64": _text(own),
        "enable_mtls": True,
        "verify_name_on_connect": True,
    }
    settings: dict[str, Any] = {
        "mode": "peer",
        "listen": {
            "endpoints": [f"tls/{listening_at(network, identity.name, listen)}"],
            "exit_on_failure": True,
        },
        "connect": {
            "endpoints": endpoints,
            "timeout_ms": -1,
            "exit_on_failure": False,
            "retry": {"period_init_ms": 100, "period_max_ms": 1000, "period_increase_factor": 2},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "adminspace": {"enabled": False},
        "transport": {
            "link": {
                "protocols": ["tls"],
                "tls": tls,
                "tx": {"queue": {"congestion_control": {"block": {"wait_before_close": _BLOCKED}}}},
            },
            "shared_memory": {"enabled": False},
        },
    }
    return zenoh.Config.from_json5(json_text(settings))


def listening_at(network: Network, me: str, listen: str | None) -> str:
    """Where a node listens: at its address if that is loopback, and else where it is told to and nowhere by default."""
    address = network.settings.nodes[network.index(me)].address
    chosen = address if listen is None else listen
    host, _ = host_and_port(chosen)
    if listen is None and not _is_loopback(host):
        raise InputError(
            f"a node listens on loopback unless it is told to; the address of {me} is {address} (say --listen "
            f"{address} if others are to reach it there)"
        )
    return chosen


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _last(key: zenoh.KeyExpr) -> int:
    """The number at the end of a key expression; −1 if there is none."""
    word = str(key).rpartition("/")[2]
    return int(word) if word.isdecimal() and len(word) < 8 else -1


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _reason(error: Exception) -> str:
    """The last words of an error of Zenoh, without the places in its sources."""
    return str(error).partition(" at ")[0].strip()
