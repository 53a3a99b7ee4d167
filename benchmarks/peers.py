# SPDX-License-Identifier: Apache-2.0
"""What a round of real peers on loopback costs, against message size and degree: masked, in the clear, bare links.

    python -m benchmarks.peers [--quick] [--sizes 1000 100000 1250000] [--degrees 2 4 8] [--rounds 20]

Messages of 1000, 100 000 and 1 250 000 numbers have 8 kB, 0.8 MB and 10 MB.

All nodes are threads of one process, with links of their own. Rounds are counted for each second of the processor, of
all nodes and links together, so that other work on the machine does not count. `Zenoh` and `asyncio` send a message of
that size to each neighbour and wait for theirs, without letters, disk or program: over the links of peers, and over
asyncio with mutual TLS in the same run; a second column of these counts seconds of the clock. `clear` and `masked` are
whole nodes, from their start to their certificate. `masks` is the share of a masked run that goes into masks, keys,
shares and signatures of sums.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.serialization import Encoding

from benchmarks.sums import timed
from sottovoce.peers import Deadlines, Identity, Network, Settings, Site, TaskFacts, create_identity
from sottovoce.peers.local import free_ports
from sottovoce.peers.running import run_peer
from sottovoce.peers.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

LEAST_NODES = 6


class Idle:
    """Contributes nothing, so that what is measured is the exchange."""

    def __init__(self, width: int) -> None:
        """Zeros of this width."""
        self._zeros = np.zeros((1, width))

    def contribution(self, round_: int, model: NDArray[np.float64]) -> NDArray[np.float64]:
        """Zeros."""
        assert round_ >= 0
        assert model.shape == self._zeros.shape
        return self._zeros


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_250_000])
    parser.add_argument("--degrees", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rounds", type=int, default=20)
    asked = parser.parse_args(words)
    sizes, degrees, rounds = ([1_000], [2], 5) if asked.quick else (asked.sizes, asked.degrees, asked.rounds)
    print(
        f"{LEAST_NODES} nodes, two more than the degree where that is not enough; rounds a second of the processor"
    )
    names = ("numbers", "degree", "Zenoh", "(clock)", "asyncio", "(clock)", "clear", "masked", "masks")
    print(" ".join(f"{name:>8}" for name in names))
    for size in sizes:
        for degree in degrees:
            print(row(size, degree, rounds))


def row(size: int, degree: int, rounds: int) -> str:
    """One line of the table."""
    clear, keys = network(size, degree, rounds, "plain")
    bare = [rounds / each for each in seconds(lambda: over_zenoh(clear, keys, size, rounds))]
    tls = [rounds / each for each in seconds(lambda: asyncio.run(over_asyncio(clear, keys, size, rounds)))]
    plain = rounds / seconds(lambda: peers(clear, keys, size))[0]
    masked, keys = network(size, degree, rounds, "masked")
    found: dict[str, float] = {}
    hidden = rounds / seconds(lambda: found.update(timed(lambda: peers(masked, keys, size))))[0]
    share = sum(found[part] for part in found if part != "all") / found["all"]
    numbers = " ".join(f"{each:8.3g}" for each in (*bare, *tls, plain, hidden))
    return f"{size:8} {degree:8} {numbers} {share:8.0%}"


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the processor that a run takes, in all threads, and seconds of the clock."""
    began, clock = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - began, time.perf_counter() - clock


def network(size: int, degree: int, rounds: int, sums: str) -> tuple[Network, list[Identity]]:
    """A ring in which every node is linked with `degree` others, with messages of so many numbers."""
    count = max(LEAST_NODES, degree + 2)
    keys = [create_identity(f"n{k}", f"127.0.0.1:{port}") for k, port in enumerate(free_ports(count))]
    pairs = {
        tuple(sorted((k, (k + step) % count))) for k in range(count) for step in range(1, degree // 2 + 1)
    }
    settings = Settings(
        name="benchmark",
        rounds=rounds,
        noise_multiplier=4.0,
        task=TaskFacts(loss="quadratic", features=size, shard_size=10),
        nodes=tuple(each.card for each in keys),
        edges=tuple((f"n{a}", f"n{b}") for a, b in sorted(pairs)),
        weights="uniform",
        sums="masked" if sums == "masked" else "plain",
        deadlines=Deadlines(join=60.0, round=60.0, lost=5.0),
    )
    return Network.of(settings), keys


def together(count: int, run: Callable[[int], None]) -> None:
    """Run so many nodes at once."""
    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def peers(run: Network, keys: Sequence[Identity], size: int) -> None:
    """Whole nodes, with letters, disk and noise."""
    with tempfile.TemporaryDirectory() as folder:

        def one(k: int) -> None:
            with Transport(run, keys[k]) as links:
                site = Site(identity=keys[k], contributor=Idle(size), folder=Path(folder) / str(k))
                end = run_peer(run, site, links)
                assert (end.reason, end.deviated) == ("finished", False), end

        together(run.n, one)


def over_zenoh(run: Network, keys: Sequence[Identity], size: int, rounds: int) -> None:
    """Bare messages over the links of peers."""

    def one(k: int) -> None:
        neighbours, content = run.neighbours(k), bytes(8 * size)
        with Transport(run, keys[k]) as links:
            found, arrived = 0, 0
            while found < len(neighbours):
                happening = links.next(60.0)
                assert happening is not None
                found, arrived = found + (happening.what == "found"), arrived + (happening.what == "wire")
            for t in range(rounds):
                for other in neighbours:
                    links.send(other, content)
                while arrived < len(neighbours) * (t + 1):
                    happening = links.next(60.0)
                    assert happening is not None
                    arrived += happening.what == "wire"
            # The last to arrive may still be under way to others.
            time.sleep(0.05)

    together(run.n, one)


async def over_asyncio(run: Network, keys: Sequence[Identity], size: int, rounds: int) -> None:
    """The same over streams of asyncio with mutual TLS, and the same certificates."""
    content, trusted = bytes(8 * size), "".join(_pem(each) for each in keys)
    with tempfile.TemporaryDirectory() as folder:
        inbox = [asyncio.Queue[bytes]() for _ in keys]
        writers: list[dict[int, asyncio.StreamWriter]] = [{} for _ in keys]

        async def listen(k: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            other = int.from_bytes(await reader.readexactly(4), "big")
            writers[k][other] = writer
            await pump(k, reader)

        async def pump(k: int, reader: asyncio.StreamReader) -> None:
            while True:
                try:
                    await inbox[k].put(await reader.readexactly(len(content)))
                except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
                    return

        servers = []
        for k, each in enumerate(keys):
            host, port = each.card.address.split(":")
            context = _context(ssl.PROTOCOL_TLS_SERVER, each, trusted, Path(folder))
            servers.append(
                await asyncio.start_server(lambda r, w, k=k: listen(k, r, w), host, int(port), ssl=context)  # type: ignore[misc]
            )
        pumps = []
        for k, each in enumerate(keys):
            for other in (j for j in run.neighbours(k) if j < k):
                host, port = keys[other].card.address.split(":")
                context = _context(ssl.PROTOCOL_TLS_CLIENT, each, trusted, Path(folder))
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                writer.write(k.to_bytes(4, "big"))
                writers[k][other] = writer
                pumps.append(asyncio.create_task(pump(k, reader)))
        while any(len(writers[k]) < len(run.neighbours(k)) for k in range(run.n)):
            await asyncio.sleep(0.001)

        async def one(k: int) -> None:
            for _ in range(rounds):
                for writer in writers[k].values():
                    writer.write(content)
                await asyncio.gather(*(writer.drain() for writer in writers[k].values()))
                for _ in run.neighbours(k):
                    await inbox[k].get()

        await asyncio.gather(*(one(k) for k in range(run.n)))
        for held in writers:
            for writer in held.values():
                writer.close()
        for server in servers:
            server.close()
        for each_pump in pumps:
            each_pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


def _context(kind: int, identity: Identity, trusted: str, folder: Path) -> ssl.SSLContext:
    """Mutual TLS with the certificates of the network alone."""
    file = folder / f"{identity.name}.pem"
    file.write_text(identity.signing_pem.decode() + _pem(identity))
    context = ssl.SSLContext(kind)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _pem(identity: Identity) -> str:
    return identity.card.x509.public_bytes(Encoding.PEM).decode()


if __name__ == "__main__":
    main()
