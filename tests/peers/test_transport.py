"""Real links on loopback: who is let in, that a dead peer is noticed, and runs between sockets."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zenoh
from tests.peers.networks import complete, identities, network

from sottovoce.errors import FileError, InputError
from sottovoce.learning import Data
from sottovoce.peers import Local, Network, Outcome, Site, create_identity
from sottovoce.peers.letters import PostOffice
from sottovoce.peers.local import free_ports
from sottovoce.peers.notes import Closed, Receipt
from sottovoce.peers.running import run_peer
from sottovoce.peers.transcript import read_transcript
from sottovoce.peers.transport import Happening, Transport, Waiting, configuration, listening_at


@pytest.fixture(scope="module")
def port() -> int:
    """The first of eight ports in a row that nobody listens at, below those that connections are given."""
    for first in range(20_000 + os.getpid() % 1000 * 8, 32_000, 8):
        with contextlib.ExitStack() as stack:
            try:
                for each in range(first, first + 8):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            except OSError:
                continue
            return first
    raise AssertionError("no eight ports in a row are free")


def happened(links: Transport, what: str, peer: int | None = None, seconds: float = 10.0) -> Happening:
    """The next happening of a kind, of a peer."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = links.next(0.1)
        if found is not None and found.what == what and peer in {None, found.peer}:
            return found
    raise AssertionError(f"no {what!r} within {seconds} s")


@pytest.fixture(scope="module")
def two(port: int) -> Iterator[tuple[Network, Transport, Transport]]:
    run = network(3, port, edges=complete(3))
    keys = identities(3, port)
    with Transport(run, keys[0]) as one, Transport(run, keys[1]) as other:
        yield run, one, other


def test_letters_go_over_and_signs_of_life_come_and_go(
    two: tuple[Network, Transport, Transport], port: int
) -> None:
    run, one, other = two
    assert happened(one, "found").peer == 1
    assert happened(other, "found").peer == 0
    other.send(0, b"x" * 100_000)
    assert happened(one, "wire") == Happening("wire", 1, b"x" * 100_000)
    third = Transport(run, identities(3, port)[2])
    assert happened(one, "found").peer == 2
    began = time.monotonic()
    third.close()
    assert happened(one, "lost").peer == 2
    assert time.monotonic() - began < 2.0


def test_a_node_that_is_back_before_it_was_missed_is_told_as_gone_and_back(
    two: tuple[Network, Transport, Transport], port: int
) -> None:
    run, one, _ = two
    key = identities(3, port)[2]
    before = Transport(run, key)
    happened(one, "found", 2)
    # The old links are still there when the new ones are.
    with Transport(run, key, listen=f"127.0.0.1:{free_ports(1)[0]}"):
        happened(one, "lost", 2)
        happened(one, "found", 2)
        before.close()
        assert one.next(1.0) is None
    happened(one, "lost", 2)


def test_a_stranger_is_not_let_in(two: tuple[Network, Transport, Transport], port: int) -> None:
    run, one, _ = two
    stranger = create_identity("site-2", f"127.0.0.1:{port + 2}")
    came: list[Happening | None] = []
    # It trusts whom it likes, but nobody trusts it.
    with zenoh.open(configuration(run, stranger)) as session:
        alive = session.liveliness().declare_token(f"sottovoce/{run.hash.hex()}/alive/0/2")
        for _ in range(10):
            session.put(f"sottovoce/{run.hash.hex()}/to/0/2", b"hello")
            assert list(session.info.peers_zid()) == []
            came.append(one.next(0.1))
        alive.undeclare()  # type: ignore[no-untyped-call]
    # On a busy machine links of the others may come and go meanwhile.
    assert [each for each in came if each is not None and each.peer == 2] == []


def test_a_flood_of_letters_fills_no_memory_and_hides_no_sign_of_life() -> None:
    waiting = Waiting(longest=1000)
    for size in (0, 1000, 2**19):
        for _ in range(10_000):
            waiting.put(Happening("wire", 1, bytes(size)))
        waiting.put(Happening("wire", 2, b"of another"))
        waiting.put(Happening("lost", 1))
        for _ in range(10_000):
            waiting.put(Happening("found", 1))
        came = list(iter(lambda: waiting.get(0.0), None))
        letters = [each for each in came if each.what == "wire" and each.peer == 1]
        assert 0 < len(letters) <= 4096
        assert sum(len(each.wire) for each in letters) <= 2**20
        assert Happening("wire", 2, b"of another") in came
        assert Happening("lost", 1) in came
        assert len(came) <= 4096 + 65
    # What was taken makes room again, and letters of the largest size always find some.
    large = Waiting(longest=10**7)
    for _ in range(100):
        large.put(Happening("wire", 1, bytes(10**7)))
        found = large.get(0.0)
        assert found is not None
        assert len(found.wire) == 10**7


def test_an_address_that_is_taken_is_named(two: tuple[Network, Transport, Transport], port: int) -> None:
    run, _, _ = two
    with pytest.raises(InputError, match=f"site-0 cannot listen at 127.0.0.1:{port}"):
        Transport(run, identities(3, port)[0])


def test_nothing_listens_elsewhere_without_being_told() -> None:
    away = create_identity("site-0", "192.0.2.7:7447")
    run = network(4, nodes=(away.card, *(each.card for each in identities(4)[1:])))
    with pytest.raises(
        InputError, match=r"listens on loopback unless it is told to.*--listen 192.0.2.7:7447"
    ):
        listening_at(run, "site-0", None)
    assert listening_at(run, "site-0", "192.0.2.7:7447") == "192.0.2.7:7447"


def records(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    labels = np.arange(10) % 2
    return Data(name="mine", features=rng.normal(size=(10, 3)) + labels[:, None], labels=labels, classes=2)


@pytest.mark.parametrize("sums", ["plain", "masked"])
def test_three_nodes_end_with_the_same_model(port: int, sums: str, tmp_path: Path) -> None:
    keys = identities(3, port + 3)
    run = network(3, port + 3, edges=complete(3), sums=sums, unit="node", rounds=4)
    found: dict[str, Outcome] = {}

    def one(k: int) -> None:
        with Transport(run, keys[k]) as links:
            own = Local(run, run.local_task(records(k)))
            site = Site(identity=keys[k], contributor=own, folder=tmp_path / keys[k].name)
            found[keys[k].name] = run_peer(run, site, links)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert {name: each.reason for name, each in found.items()} == dict.fromkeys(run.names, "finished")
    models = np.array([each.model for each in found.values()])
    # Uniform weights on a complete graph: all nodes hold the same average, on the grid to the last bit.
    assert np.ptp(models, axis=0).max() <= (0 if sums == "masked" else 1e-13 * np.abs(models).max())
    assert np.abs(models).max() > 0
    lines = read_transcript(tmp_path / "site-1" / "transcript.jsonl", keys[1].card.signing_key)
    closed = [line for line in lines if isinstance(line, Closed)]
    assert [line.survivors for line in closed] == [("site-0", "site-2")] * 4
    assert {line.peer for line in lines if isinstance(line, Receipt)} <= {"site-0", "site-2"}
    rows = (tmp_path / "site-1" / "ledger.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * 3
    assert float(rows[-1].split(",")[3]) == found["site-1"].epsilon


def test_a_folder_is_for_one_process_and_a_lost_state_is_said(tmp_path: Path) -> None:
    run, keys = network(3, edges=complete(3)), identities(3)

    class Silence:
        def send(self, receiver: int, wire: bytes) -> None:
            assert PostOffice(run, keys[receiver]).opened(0, wire).header.kind == "hello"

        def next(self, timeout: float) -> None:
            assert timeout > 0
            with pytest.raises(FileError, match="another process runs this node"):
                run_peer(run, site, self)
            raise KeyboardInterrupt

    own = Local(run, run.local_task(records(0)))
    site = Site(identity=keys[0], contributor=own, folder=tmp_path)
    assert run_peer(run, site, Silence()).reason == "interrupted"
    (tmp_path / "state").write_bytes(b"no state")
    with pytest.raises(FileError, match=r"state: cannot be read.*agree on a new run"):
        run_peer(run, site, Silence())
