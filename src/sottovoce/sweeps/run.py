# SPDX-License-Identifier: Apache-2.0
"""`sweep`: compute the tiles that are missing and put them in the folder."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from sottovoce.errors import InputError, at_least
from sottovoce.scenarios import SweepWords, asked
from sottovoce.sweeps.extras import pyarrow
from sottovoce.sweeps.folder import Folder
from sottovoce.sweeps.manifest import Manifest, described, described_like
from sottovoce.sweeps.tiles import Work, default_tile, read_tile
from sottovoce.sweeps.workers import computed_tiles

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario

__all__ = ["SweepResult", "sweep"]


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """A finished sweep: which parts were computed now, which were there, and which were damaged.

    `set_aside` maps the new path of each damaged part to what was wrong with it; it was computed again.
    """

    folder: Path
    manifest: Manifest
    computed: tuple[int, ...]
    kept: tuple[int, ...]
    set_aside: dict[Path, str]

    @property
    def parts(self) -> list[Path]:
        """The files that hold the pairs, in order."""
        return [Folder(self.folder).part(tile) for tile in range(self.manifest.tiles)]

    def __len__(self) -> int:
        """How many pairs the folder holds."""
        return self.manifest.pairs


def sweep(
    question: Scenario | Protocol,
    view: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    tile: int | None = None,
    resume: bool = False,
    cluster: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[SweepWords],
) -> SweepResult:
    """How far each target can move the view of each observer in turn: Δ² of all pairs, in a folder of parts.

    Args:
        question: a `Scenario` of all pairs; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: "neighbourhood", "secure-sum" or "single-node".
        folder: where to put manifest.json and the parts; created where there is none.
        tile: how many observers share a part, which is what an interruption can cost; by default about
            100 000 pairs, or fewer so that there are 32 parts. With `resume`, that of the folder.
        resume: go on with the sweep in `folder`, computing the parts that are missing or damaged.
        cluster: "local" for a Dask cluster of `workers` processes on this machine, or the address of a Dask
            scheduler, "tcp://…".
        progress: called with (pairs done, pairs in all).
        words: as in `sottovoce.scenarios.SweepWords`: `own_noise`, `contribution`, `participation`, `engine`, `effort`,
            `tolerance` and `workers`. A relation is refused: it counts with the noise, in `summarise`.

    Guarantee: every interval holds as one of `sensitivity` does. The parts are the same, bit for bit, whatever
    the workers or the cluster and however often the sweep was stopped, if this process too runs BLAS on one
    thread (OMP_NUM_THREADS=1).

    >>> import tempfile
    >>> from sottovoce import gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     first = sweep(ring, "secure-sum", directory)
    ...     again = sweep(ring, "secure-sum", directory, resume=True)
    >>> len(first), len(first.computed), len(again.computed), len(again.kept)
    (30, 6, 0, 6)
    """
    pyarrow()
    if folder is None:
        raise InputError("folder must be given, as a sweep fills one; got none (name an empty or a new one)")
    scenario, effort = asked(question, view, words, SweepWords)
    if scenario.relation != "add-remove":
        raise InputError(
            f"a sweep holds Δ², which knows no relation; got relation {scenario.relation!r} (leave it out, "
            "and give it to summarise with the noise)"
        )
    work = Work(scenario=scenario, effort=effort)
    if tile is not None:
        at_least(1, tile=tile)
        tile = min(int(tile), scenario.protocol.n)
    if cluster is not None:
        from sottovoce.sweeps.clusters import check_cluster

        check_cluster(cluster, effort.workers)
    place = Folder(Path(folder))
    place.prepare()
    with place.claimed():
        manifest = _manifest(place, work, tile, resume=resume)
        kept, set_aside = _kept(place, manifest)
        missing = sorted(set(range(manifest.tiles)) - set(kept))
        _compute(place, work, manifest, missing, cluster=cluster, progress=progress)
    return SweepResult(
        folder=place.path,
        manifest=manifest,
        computed=tuple(missing),
        kept=tuple(kept),
        set_aside=set_aside,
    )


def _manifest(place: Folder, work: Work, tile: int | None, *, resume: bool) -> Manifest:
    """The manifest of a new sweep, or of the one to go on with, which must have the same settings."""
    if place.is_empty():
        return described(work, tile or default_tile(work.protocol.n))
    if not resume:
        place.check_new()
    found = place.read_manifest()
    wanted = described_like(found, work, tile)
    # What is most easily said first: another network or length makes another protocol, too.
    first = ("weights_hash", "rounds", "protocol_hash")
    for name in dict.fromkeys((*first, *wanted.settings, *found.settings)):
        value, there = getattr(wanted, name), getattr(found, name)
        if name == "protocol_hash" and value != there:
            raise InputError(
                f"{place.path}: a sweep is continued with the protocol it began with, {found.program_sentence!r}; "
                f"{wanted.program_sentence!r} was asked for (ask for the same, or choose another folder)"
            )
        if name == "weights_hash" and value != there:
            raise InputError(
                f"{place.path}: a sweep is continued on the network it began with, {_network(found)}; asked for was "
                f"{_network(wanted)} (name the same graph and --weights, or choose another folder)"
            )
        if value != there:
            raise InputError(
                f"{place.path}: a sweep is continued with the settings it began with; its {name} is {there!r}, "
                f"and {value!r} was asked for (ask for {there!r}, or choose another folder)"
            )
    return found


def _network(manifest: Manifest) -> str:
    """A network in words, with as much of its hash as tells it from another."""
    return (
        f"{manifest.nodes} nodes and {manifest.edges} edges with the weights {manifest.origin} (hash "
        f"{manifest.weights_hash[:12]}…)"
    )


def _kept(place: Folder, manifest: Manifest) -> tuple[list[int], dict[Path, str]]:
    """The tiles whose parts are sound; the others that are there are set aside."""
    kept, set_aside = [], {}
    for tile in place.present(manifest):
        fault = place.fault(tile, manifest)
        if fault is None:
            kept.append(tile)
        else:
            set_aside[place.set_aside(place.part(tile))] = fault
    return kept, set_aside


def _compute(
    place: Folder,
    work: Work,
    manifest: Manifest,
    missing: list[int],
    *,
    cluster: str | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Compute the missing tiles and write each part as soon as it is there."""
    done = furthest = manifest.pairs - sum(map(manifest.rows, missing))

    def heard(within: int) -> None:
        # What others have begun is not counted at every call, and what a lost worker had begun is lost.
        nonlocal furthest
        furthest = max(furthest, done + within)
        if progress is not None:
            progress(furthest, manifest.pairs)

    heard(0)
    if not missing:
        return
    workers = int(work.effort.workers)
    tiles = computed_tiles(work, manifest, missing, cluster=cluster, workers=workers, heard=heard)
    with contextlib.closing(tiles):
        for tile, content in tiles:
            # Only now, so that what fails before the first part leaves the folder empty.
            if not place.manifest_path.exists():
                place.write_manifest(manifest)
            place.write_part(tile, read_tile(content))
            done += manifest.rows(tile)
            heard(0)
