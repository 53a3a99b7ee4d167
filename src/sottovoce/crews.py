# SPDX-License-Identifier: Apache-2.0
"""Processes that compute parts of long work on one BLAS thread; they leave Ctrl-C to their parent and die with it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from sottovoce.errors import InputError
from sottovoce.threads import pinned_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    Finished = Generator[tuple[int, bytes], None, None]
    Running = dict[concurrent.futures.Future[bytes], int]

__all__ = ["RESTARTS", "Lost", "by_crew", "driven"]

RESTARTS = 3

TICK_SECONDS = 0.5


def by_crew(
    parts: Iterable[int],
    workers: int,
    job: Callable[[int], bytes],
    begin: Callable[..., None],
    *arguments: object,
    tick: Callable[[Iterable[int]], None] | None = None,
) -> Finished:
    """Each part with what `job` makes of it, from processes that call `begin` with the arguments first.

    The processes are started again if one of them is killed. Closing the generator ends them.
    """
    waiting = deque(parts)
    for _ in range(RESTARTS + 1):
        with _crew(workers, begin, *arguments) as pool:

            def submit(
                part: int, pool: concurrent.futures.Executor = pool
            ) -> concurrent.futures.Future[bytes]:
                return pool.submit(job, part)

            try:
                yield from driven(waiting, submit, lambda: 2 * workers, (BrokenProcessPool,), tick)
            except Lost:
                continue
            return
    raise InputError(
        f"the workers must stay alive; one ended {RESTARTS + 1} times, {len(waiting)} parts before the end "
        "(probably memory ran out: take fewer workers or smaller parts; a script must keep its own work under "
        'if __name__ == "__main__": when it asks for workers; continue with resume=True)'
    )


class Lost(Exception):  # noqa: N818 - an event, not a mistake
    """The workers are gone; what they had not finished is waiting again."""


def driven(
    waiting: deque[int],
    submit: Callable[[int], concurrent.futures.Future[bytes]],
    room: Callable[[], int],
    lost: tuple[type[BaseException], ...],
    tick: Callable[[Iterable[int]], None] | None = None,
) -> Finished:
    """Keep at most `room()` parts with the workers and yield each that is finished.

    Now and then `tick` hears which are under way. Where a part fails with one of the errors in
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
def _crew(
    workers: int, begin: Callable[..., None], *arguments: object
) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """So many processes, each of which calls `begin` with the arguments first; they end with this block at once."""
    before = set(multiprocessing.active_children())
    pool = concurrent.futures.ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begun,
        initargs=(begin, arguments),
    )
    # Processes start as work comes in, so the environment is theirs as long as the pool lives.
    with pinned_environment():
        try:
            yield pool
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begun(begin: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """Prepare a process of the pool."""
    begin(*arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
