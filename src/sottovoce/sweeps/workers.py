# SPDX-License-Identifier: Apache-2.0
"""Who computes the tiles: this process, a pool of processes, or a Dask cluster; the answer is the same."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from sottovoce.errors import InputError
from sottovoce.sweeps.tiles import Work, tile_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from sottovoce.sweeps.manifest import Manifest

    Finished = Generator[tuple[int, bytes], None, None]
    Running = dict[concurrent.futures.Future[bytes], int]

__all__ = ["PINNED", "RESTARTS", "Lost", "computed_tiles", "driven", "pinned_environment"]

PINNED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RESTARTS = 3

TICK_SECONDS = 0.5

_work: Work | None = None
_slots: Any = None


class Lost(Exception):  # noqa: N818 - an event, not a mistake
    """The workers are gone; what they had not finished is waiting again."""


def computed_tiles(
    work: Work,
    manifest: Manifest,
    missing: list[int],
    *,
    cluster: str | None,
    workers: int,
    heard: Callable[[int], None],
) -> Finished:
    """Each missing tile with its content, as they are finished; `heard` is told how far the current one is.

    Closing the generator ends the workers.
    """
    if cluster is not None:
        from sottovoce.sweeps.clusters import cluster_tiles

        return cluster_tiles(work, manifest, missing, cluster=cluster, workers=workers)
    if workers == 1:
        return _own_tiles(work, manifest, missing, heard)
    return _pool_tiles(work, manifest, missing, min(workers, len(missing)), heard)


def driven(
    waiting: deque[int],
    submit: Callable[[int], concurrent.futures.Future[bytes]],
    room: Callable[[], int],
    lost: tuple[type[BaseException], ...],
    tick: Callable[[Iterable[int]], None] | None = None,
) -> Finished:
    """Keep at most `room()` tiles with the workers and yield each that is finished.

    Now and then `tick` hears which are under way. Where a tile fails with one of the errors in
    `lost`, all that is unfinished goes back to `waiting`, and `Lost` is raised.
    """
    running: Running = {}
    try:
        while waiting or running:
            while waiting and len(running) < max(room(), 1):
                future = submit(waiting[0])
                running[future] = waiting.popleft()
            done, _ = concurrent.futures.wait(
                running,
                timeout=None if tick is None else TICK_SECONDS,
                return_when=concurrent.futures.FIRST_COMPLETED,
            )
            if tick is not None:
                tick(running.values())
            gone = [future for future in done if future.cancelled() or isinstance(future.exception(), lost)]
            for future in done.difference(gone):
                content = future.result()
                yield running.pop(future), content
            if gone:
                raise Lost from gone[0].exception() if not gone[0].cancelled() else None
    except lost as error:
        # Submitting fails too once the workers are gone.
        raise Lost from error
    finally:
        waiting.extendleft(sorted(running.values(), reverse=True))
        for future in running:
            future.cancel()


@contextlib.contextmanager
def pinned_environment() -> Iterator[None]:
    """Let processes that start meanwhile run BLAS on one thread, so that their bits do not depend on timing."""
    before = {name: os.environ.get(name) for name in PINNED}
    os.environ.update(dict.fromkeys(PINNED, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _own_tiles(work: Work, manifest: Manifest, missing: list[int], heard: Callable[[int], None]) -> Finished:
    """The tiles one after the other, in this process."""
    for tile in missing:
        yield (
            tile,
            tile_bytes(work, manifest.span(tile), manifest.fingerprint, lambda done, _: heard(done)),
        )


def _pool_tiles(
    work: Work, manifest: Manifest, missing: list[int], workers: int, heard: Callable[[int], None]
) -> Finished:
    """The tiles from a pool of processes, which is built again if one of them is killed."""
    waiting = deque(missing)
    for _ in range(RESTARTS + 1):
        with _pool(work, manifest.tiles, workers) as (pool, slots):

            def submit(tile: int, pool: Any = pool) -> concurrent.futures.Future[bytes]:  # noqa: ANN401
                done: concurrent.futures.Future[bytes] = pool.submit(
                    _worker_tile, tile, manifest.span(tile), manifest.fingerprint
                )
                return done

            def tick(tiles: Iterable[int], slots: Any = slots) -> None:  # noqa: ANN401
                heard(sum(slots[tile] for tile in tiles))

            try:
                yield from driven(waiting, submit, lambda: 2 * workers, (BrokenProcessPool,), tick)
            except Lost:
                continue
            return
    raise InputError(
        f"the workers must stay alive; one ended {RESTARTS + 1} times, {len(waiting)} tiles before the end "
        "(probably memory ran out: take fewer workers or a smaller tile; a script must keep its own work under "
        'if __name__ == "__main__": when it asks for workers; continue with resume=True)'
    )


@contextlib.contextmanager
def _pool(
    work: Work, tiles: int, workers: int
) -> Iterator[tuple[concurrent.futures.ProcessPoolExecutor, Any]]:
    """Processes that hold `work`, and how many pairs of each tile they have; they end with this block at once."""
    before = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    # Without a lock, which a process that is killed could keep for ever.
    slots = context.RawArray("q", tiles)
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(work, slots)
    )
    # Processes start as tiles come in, so the environment is theirs as long as the pool lives.
    with pinned_environment():
        try:
            yield pool, slots
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(work: Work, slots: Any) -> None:  # noqa: ANN401 - shared memory has no public type
    """Prepare a process of the pool: it keeps the work, leaves Ctrl-C to its parent and dies with it."""
    global _work, _slots
    _work, _slots = work, slots
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _worker_tile(tile: int, span: range, fingerprint: str) -> bytes:
    """One tile, in a process of the pool."""
    assert _work is not None

    def count(done: int, _: int) -> None:
        _slots[tile] = done

    return tile_bytes(_work, span, fingerprint, count)
