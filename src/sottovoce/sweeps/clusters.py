# SPDX-License-Identifier: Apache-2.0
"""Tiles from a Dask cluster: the work travels there once, and each tile comes back as bytes."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections import deque
from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.crews import RESTARTS, Lost, driven
from sottovoce.errors import InputError
from sottovoce.sweeps.extras import distributed
from sottovoce.sweeps.tiles import tile_bytes
from sottovoce.threads import pinned_environment

if TYPE_CHECKING:
    import concurrent.futures
    from collections.abc import Iterator

    from sottovoce.sweeps.manifest import Manifest
    from sottovoce.sweeps.tiles import Work
    from sottovoce.sweeps.workers import Finished

__all__ = ["check_cluster", "cluster_tiles"]

ANSWER_SECONDS = 30


def cluster_tiles(
    work: Work, manifest: Manifest, missing: list[int], *, cluster: str, workers: int
) -> Finished:
    """The missing tiles, each with its content, as the workers of the cluster finish them.

    A tile whose worker dies is computed by another. Workers need no disk in common with this process.
    """
    killed = distributed().KilledWorker
    waiting = deque(missing)
    with _client(cluster, workers) as client:
        for _ in range(RESTARTS + 1):
            try:
                yield from _round(client, work, manifest, waiting)
            except Lost as error:
                if isinstance(error.__cause__, killed):
                    break
                continue
            return
    raise InputError(
        f"the cluster {cluster!r} must keep its workers; they were lost again and again, {len(waiting)} tiles "
        "before the end (probably memory ran out: give each more, or take a smaller tile; continue with "
        "resume=True)"
    )


def _round(client: Any, work: Work, manifest: Manifest, waiting: deque[int]) -> Finished:  # noqa: ANN401
    """Send the work and go through the tiles that wait; the work is sent again if all who had it are gone."""
    sent = client.scatter(work, broadcast=True, hash=False)
    executor = client.get_executor(pure=False, retries=RESTARTS)

    def submit(tile: int) -> concurrent.futures.Future[bytes]:
        span, fingerprint = manifest.span(tile), manifest.fingerprint
        done: concurrent.futures.Future[bytes] = executor.submit(tile_bytes, sent, span, fingerprint)
        return done

    def room() -> int:
        threads: dict[str, int] = client.nthreads()
        return 2 * sum(threads.values())

    yield from driven(waiting, submit, room, (distributed().KilledWorker,))


@contextlib.contextmanager
def _client(cluster: str, workers: int) -> Iterator[Any]:
    """A client of a local cluster, which ends with this block, or of the scheduler at an address."""
    package = distributed()
    with contextlib.ExitStack() as stack:
        if cluster == "local":
            stack.enter_context(pinned_environment())
            address = stack.enter_context(
                package.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    # None would take a port that is always the same, and warn where another cluster has it.
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
        else:
            address = cluster
        try:
            client = stack.enter_context(package.Client(address, timeout=ANSWER_SECONDS))
            client.wait_for_workers(1, timeout=ANSWER_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"the cluster {cluster!r} must have a scheduler and workers; within {ANSWER_SECONDS} s none "
                f"answered: {error} (start them with dask scheduler and dask worker, or take the cluster 'local')"
            ) from None
        _check_versions(client, cluster)
        if cluster == "local":
            client.run(_leave_interrupts)
        yield client


def check_cluster(cluster: str, workers: int) -> None:
    """Refuse what names no cluster, and a number of workers for one that has its own, before anything is begun."""
    distributed()
    if cluster == "local":
        return
    scheme, sign, _ = cluster.partition("://")
    if not (sign and scheme in {"tcp", "tls", "ucx"}):
        raise InputError(
            f"the cluster must be 'local' or an address such as tcp://host:8786; got {cluster!r}"
        )
    if workers != 1:
        raise InputError(
            f"the workers of a cluster at an address are its own, and none are started; got {workers} "
            "(leave the number out, or take the cluster 'local')"
        )


def _check_versions(client: Any, cluster: str) -> None:  # noqa: ANN401 - the package carries no types
    """Refuse workers that would compute something else."""
    try:
        found = set(client.run(_version).values())
    except ImportError:
        found = {"none"}
    if found - {__version__}:
        raise InputError(
            f"the workers of the cluster {cluster!r} must have sottovoce {__version__}; found "
            f"{', '.join(sorted(found))} (install it there, in a clone of Sottovoce: pip install '.[cluster]')"
        )


def _version() -> str:
    """The version that a worker has."""
    return __version__


def _leave_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to every process, to the one that started the cluster."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
