# SPDX-License-Identifier: Apache-2.0
"""Who computes the tiles: this process, a pool of processes, or a Dask cluster; the answer is the same."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

from sottovoce.crews import by_crew
from sottovoce.sweeps.tiles import tile_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sottovoce.sweeps.manifest import Manifest
    from sottovoce.sweeps.tiles import Work

    Finished = Generator[tuple[int, bytes], None, None]

__all__ = ["computed_tiles"]

_held: tuple[Work, Manifest, Any] | None = None


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
    """The tiles from a pool of processes."""
    # Without a lock, which a process that is killed could keep for ever.
    slots = multiprocessing.get_context("spawn").RawArray("q", manifest.tiles)
    return by_crew(
        missing,
        workers,
        _worker_tile,
        _begin,
        work,
        manifest,
        slots,
        tick=lambda tiles: heard(sum(slots[tile] for tile in tiles)),
    )


def _begin(work: Work, manifest: Manifest, slots: Any) -> None:  # noqa: ANN401 - shared memory has no public type
    """What a process of the pool keeps; it tells in `slots` how many pairs of each tile it has."""
    global _held
    _held = work, manifest, slots


def _worker_tile(tile: int) -> bytes:
    """One tile, in a process of the pool."""
    assert _held is not None
    work, manifest, slots = _held

    def count(done: int, _: int) -> None:
        slots[tile] = done

    return tile_bytes(work, manifest.span(tile), manifest.fingerprint, count)
