# SPDX-License-Identifier: Apache-2.0
"""All nodes of a network as processes on this machine, and a small network to try it with."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import os
import signal
import socket
import threading
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import FileError, InputError, SottovoceError, at_least, positive
from sottovoce.files import put_whole
from sottovoce.learning import load_data
from sottovoce.peers.contributing import Local
from sottovoce.peers.identity import create_identity, read_identity, write_identity
from sottovoce.peers.network import read_network
from sottovoce.peers.outcomes import Outcome, Whereabouts
from sottovoce.peers.policy import read_policy
from sottovoce.peers.running import ended_before, run_peer
from sottovoce.peers.sites import Site
from sottovoce.peers.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from sottovoce.learning import Data
    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network

__all__ = [
    "Place",
    "free_ports",
    "own_identity",
    "places_beside",
    "read_records",
    "run_all",
    "run_here",
    "run_linked",
    "spent_beside",
    "write_example",
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a node finds what is its own: keys, records, policy, and the folder that it keeps."""

    network: Path
    name: str
    keys: Path
    data: Path
    folder: Path
    policy: Path | None = None
    spent: Path | None = None
    label: str | None = None
    listen: str | None = None


def run_here(place: Place, progress: Callable[[Whereabouts], None] | None = None) -> Outcome:
    """Run one node in this process, with all that it finds in its place."""
    network, site, own = _found(place)
    return own.measured(run_linked(network, site, listen=place.listen, progress=progress))


def _found(place: Place) -> tuple[Network, Site, Local]:
    """What lies in a place, checked: the network, the site that the node is there, and what it contributes."""
    network = read_network(place.network)
    own = Local(network, network.local_task(read_records(network, place.data, place.label)))
    site = Site(
        identity=own_identity(network, place.name, place.keys),
        contributor=own,
        folder=place.folder,
        policy=None if place.policy is None else read_policy(place.policy),
        spent=place.spent or spent_beside(place.keys),
    )
    return network, site, own


def own_identity(network: Network, name: str, keys: Path) -> Identity:
    """The identity in a file of keys, which must be that of the node of this name."""
    identity = read_identity(keys)
    _ = network.index(name)
    if identity.name != name:
        raise InputError(
            f"{keys}: holds the keys of {identity.name!r}, not of {name!r} (give the keys of {name})"
        )
    try:
        _ = network.holder(identity.card)
    except InputError as error:
        raise InputError(f"{keys}: {error}") from None
    return identity


def run_linked(
    network: Network, site: Site, *, listen: str | None, progress: Callable[[Whereabouts], None] | None
) -> Outcome:
    """Open the links of a node, and run it over them, unless its run is over already.

    What lies in its folder is checked before anything is opened.

    Guarantee: that of `run_peer`.
    """
    before = ended_before(network, site)
    if before is not None:
        return before
    with Transport(network, site.identity, listen=listen) as links:
        return run_peer(network, site, links, progress)


def spent_beside(keys: Path) -> Path:
    """Where a node writes down what it spent in its runs, unless it is told another file: beside its keys."""
    return keys.with_suffix(".spent.jsonl")


def read_records(network: Network, path: Path, label: str | None = None) -> Data:
    """The records of a node, with the labels that the task asks for."""
    return load_data(path, label=label, classification=network.settings.task.classes > 0)


def places_beside(path: Path) -> list[Place]:
    """The places of all nodes of a network whose files lie beside it."""
    folder, places = path.parent, []
    for name in read_network(path).names:
        found = [
            folder / f"{name}{ending}" for ending in (".csv", ".npz") if (folder / f"{name}{ending}").exists()
        ]
        if not found:
            raise FileError(
                f"{folder / name}.csv: there are no records of {name} (put them there, or run it alone)"
            )
        policy = folder / f"{name}.policy.toml"
        places.append(
            Place(
                network=path,
                name=name,
                keys=folder / f"{name}.keys",
                data=found[0],
                folder=folder / f"{name}.run",
                policy=policy if policy.exists() else None,
            )
        )
    return places


def run_all(
    places: list[Place], progress: Callable[[dict[str, Whereabouts]], None] | None = None
) -> dict[str, Outcome | str]:
    """Run all places at once, each in a process of its own; for each node its outcome, or what went wrong.

    What lies in all places is checked before any process starts, and none does if the run is over for all of them.
    Ctrl-C ends all of them, and so does the end of this process, whatever it was; started again, they go on.
    """
    before = _over(places)
    if before is not None:
        return before
    context = process_context()
    processes: dict[Connection, tuple[str, BaseProcess]] = {}
    found: dict[str, Outcome | str] = {}
    moments: dict[str, Whereabouts] = {}
    try:
        for place in places:
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(place, theirs), daemon=True)
            process.start()
            theirs.close()
            processes[mine] = place.name, process
        while processes:
            wait(list(processes), timeout=0.2)
            for pipe in [pipe for pipe in processes if pipe.poll()]:
                _hear(pipe, *processes[pipe], found, moments)
                if processes[pipe][0] in found:
                    processes.pop(pipe)[1].join(10)
            if progress is not None:
                progress(moments)
    finally:
        for _, left in processes.values():
            left.terminate()
        for _, left in processes.values():
            left.join(10)
    return found


def _over(places: list[Place]) -> dict[str, Outcome | str] | None:
    """How the run ended in all places, if it was over; None if there is something left to do, and all is well."""
    found: dict[str, Outcome | str] = {}
    for place in places:
        network, site, own = _found(place)
        outcome = ended_before(network, site, alone=True)
        if outcome is not None:
            found[place.name] = own.measured(outcome)
    return found if len(found) == len(places) else None


def process_context() -> ForkServerContext:
    """How nodes become processes: forked from one that has loaded all that they need and has no links or threads."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _hear(
    pipe: Connection,
    name: str,
    process: BaseProcess,
    found: dict[str, Outcome | str],
    moments: dict[str, Whereabouts],
) -> None:
    """Take what a node says of itself; one that says no more has died."""
    try:
        said = pipe.recv()
    except (EOFError, OSError):
        process.join(10)
        found[name] = _last_words(process.exitcode)
        return
    if isinstance(said, Whereabouts):
        moments[name] = said
    else:
        found[name] = said


def _last_words(code: int | None) -> str:
    """What is said of a node that ended without a word."""
    if code is not None and code < 0:
        return f"was ended by signal {-code} (start it again, and it goes on)"
    return f"ended by an error of the program, which stands above, with exit code {code} (please report it)"


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone, as that one ends it after Ctrl-C.

    It may be in the middle of anything: what was sent is on the disk before it is sent.
    """
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _child(place: Place, pipe: Connection) -> None:
    """One node in a process of its own, which tells how it goes."""
    # The parent hears Ctrl-C too, and ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    last = [0]

    def tell(moment: Whereabouts) -> None:
        key = hash((moment.round, moment.phase, moment.late))
        if key != last[0]:
            last[0] = key
            with contextlib.suppress(OSError):
                pipe.send(moment)

    end: Outcome | str
    try:
        end = run_here(place, tell)
    except SottovoceError as error:
        end = str(error)
    # Who has nobody to tell is about to end.
    with contextlib.suppress(OSError):
        pipe.send(end)
    pipe.close()


def write_example(
    folder: Path,
    *,
    nodes: int = 8,
    rounds: int = 60,
    records: int = 40,
    noise_multiplier: float = 1.5,
    masked: bool = True,
) -> Path:
    """A network of so many sites on this machine, with keys, records and a policy for each: something to try.

    The records are drawn at random: two clouds of points that the sites are to tell apart.
    """
    at_least(3, nodes=nodes)
    at_least(1, rounds=rounds)
    at_least(2, records=records)
    positive(noise_multiplier=noise_multiplier)
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be created: {error.strerror or error} (choose another name)"
        ) from None
    names = [f"site-{k}" for k in range(nodes)]
    made = [
        create_identity(name, f"127.0.0.1:{port}")
        for name, port in zip(names, free_ports(nodes), strict=True)
    ]
    rng = np.random.default_rng()
    for identity in made:
        write_identity(identity, folder)
        _write(folder / f"{identity.name}.csv", _clouds(rng, records))
        _write(folder / f"{identity.name}.policy.toml", "everyone = 60.0\n")
    edges = ", ".join(f'["{one}", "{other}"]' for one, other in itertools.combinations(names, 2))
    text = f"""name = "example"
rounds = {rounds}
noise_multiplier = {float(noise_multiplier)!r}
unit = "node"
sums = "{"masked" if masked else "plain"}"
weights = "uniform"
edges = [{edges}]
task = {{ loss = "logistic", features = 2, classes = 2, shard_size = {records} }}
deadlines = {{ join = 60, round = 10, lost = 1 }}
"""
    return _write(folder / "network.toml", text + "".join("\n" + each.public_text for each in made))


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at right now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _clouds(rng: np.random.Generator, records: int) -> str:
    """Points of two classes as CSV."""
    labels = np.arange(records) % 2
    points = rng.normal(size=(records, 2)) + np.where(labels, 1.0, -1.0)[:, None]
    page = io.StringIO()
    rows = csv.writer(page)
    rows.writerow(["x", "y", "class"])
    rows.writerows(
        [f"{x:.6f}", f"{y:.6f}", "ab"[label]] for (x, y), label in zip(points, labels, strict=True)
    )
    return page.getvalue()


def _write(path: Path, text: str) -> Path:
    return put_whole([text.encode()], path.parent, lambda: path.name, rights=0o600)
