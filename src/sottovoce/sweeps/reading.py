# SPDX-License-Identifier: Apache-2.0
"""`read_sweep`: a finished sweep as a value whose pairs are read part by part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.errors import FileError
from sottovoce.sweeps.extras import pyarrow
from sottovoce.sweeps.folder import Folder

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from sottovoce.sweeps.manifest import Manifest

__all__ = ["SweepTable", "read_sweep"]

BATCH_ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class SweepTable:
    """All pairs of a finished sweep; `manifest.labels[k]` is the name of the node with index k."""

    folder: Path
    manifest: Manifest

    def __len__(self) -> int:
        """How many pairs there are."""
        return self.manifest.pairs

    @property
    def parts(self) -> list[Path]:
        """The Parquet files that hold the pairs, in order."""
        return [Folder(self.folder).part(tile) for tile in range(self.manifest.tiles)]

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The pairs as Arrow record batches of bounded size, in the order of observers and targets."""
        pa = pyarrow()
        for part in self.parts:
            try:
                with pa.parquet.ParquetFile(part, page_checksum_verification=True) as file:
                    yield from file.iter_batches(BATCH_ROWS, columns=columns)
            except (OSError, pa.ArrowException) as error:
                reason = " ".join(str(error).split())
                raise FileError(
                    f"{part}: the part cannot be read: {reason} (compute it again with resume=True)"
                ) from None

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:  # noqa: ANN401 - the package carries no types
        """All pairs as one Arrow table in memory; `.to_pandas()` makes a pandas DataFrame of it."""
        return pyarrow().Table.from_batches(self.batches(columns))


def read_sweep(folder: str | os.PathLike[str]) -> SweepTable:
    """The sweep in `folder`, which must be finished: a part that is missing might hold the worst pair.

    Guarantee: ends are those that were computed, bit for bit, as Parquet keeps floats.

    >>> import tempfile
    >>> from sottovoce import gossip, graphs
    >>> from sottovoce.sweeps import sweep
    >>> path = gossip(graphs.metropolis_weights("path:n=3"), rounds=2)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     done = sweep(path, "secure-sum", directory)
    ...     read_sweep(directory).to_arrow(["squared_upper"])["squared_upper"].to_numpy().round(3)
    array([1.9, 0.1, 1. , 1. , 0.1, 1.9])
    """
    pa = pyarrow()
    place = Folder(Path(folder))
    manifest = place.read_manifest()
    for tile in range(manifest.tiles):
        part = place.part(tile)
        try:
            rows = pa.parquet.read_metadata(part).num_rows
        except FileNotFoundError:
            there = len(place.present(manifest))
            raise FileError(
                f"{place.path}: the sweep is not finished; {there} of its {manifest.tiles} parts are there "
                "(finish it with resume=True)"
            ) from None
        except (OSError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            raise FileError(
                f"{part}: the part cannot be read: {reason} (compute it again with resume=True)"
            ) from None
        if rows != manifest.rows(tile):
            raise FileError(
                f"{part}: the part must have {manifest.rows(tile)} rows; it has {rows} "
                "(compute it again with resume=True)"
            )
    return SweepTable(folder=place.path, manifest=manifest)
