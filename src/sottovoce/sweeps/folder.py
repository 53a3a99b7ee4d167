# SPDX-License-Identifier: Apache-2.0
"""The folder of a sweep: a manifest and parts that appear whole or not at all, and the check of those there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sottovoce.errors import FileError
from sottovoce.folders import WorkFolder
from sottovoce.sweeps.extras import pyarrow
from sottovoce.sweeps.manifest import Manifest
from sottovoce.sweeps.tiles import arrow_schema, expected_pairs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Folder"]


@dataclass(frozen=True)
class Folder(WorkFolder):
    """Where the parts of one sweep lie; part k is `part(k)`."""

    WORK: ClassVar[str] = "sweep"

    def part(self, tile: int) -> Path:
        """The file of one tile."""
        return self.path / f"part-{tile:05d}.parquet"

    def read_manifest(self) -> Manifest:
        """The manifest that lies in the folder."""
        return Manifest.from_json(self.manifest_text(), str(self.manifest_path))

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest in place."""
        self.write(self.manifest_path, manifest.to_json().encode())

    def write_part(self, tile: int, table: Any) -> None:  # noqa: ANN401 - the package carries no types
        """Put an Arrow table in place as the part of one tile, with a checksum on each page."""
        pa = pyarrow()
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
        self.write(self.part(tile), memoryview(sink.getvalue()))

    def present(self, manifest: Manifest) -> list[int]:
        """The tiles whose parts are there, unchecked."""
        names = {entry.name for entry in self.path.iterdir()}
        return [tile for tile in range(manifest.tiles) if self.part(tile).name in names]

    def fault(self, tile: int, manifest: Manifest) -> str | None:
        """What is wrong with the part of a tile, or None: it is read whole and its checksums are verified."""
        pa = pyarrow()
        try:
            table = pa.parquet.ParquetFile(self.part(tile), page_checksum_verification=True).read()
        except PermissionError as error:
            raise FileError(f"{self.part(tile)}: cannot be read: {error.strerror} (give the right)") from None
        # A damaged file may make its reader fail in any way.
        except Exception as error:
            return f"it cannot be read: {' '.join(str(error).split())}"
        schema = arrow_schema(manifest.fingerprint)
        if not table.schema.equals(schema):
            return "its columns are not those of a part"
        if (table.schema.metadata or {}).get(b"sottovoce.sweep") != manifest.fingerprint.encode():
            return "it belongs to another sweep"
        if table.num_rows != manifest.rows(tile):
            return f"it has {table.num_rows} rows in place of {manifest.rows(tile)}"
        observers, targets = expected_pairs(manifest.span(tile), manifest.nodes, manifest.own_noise)
        if not (np.array_equal(table["observer"], observers) and np.array_equal(table["target"], targets)):
            return "its pairs are not those of this tile"
        lower, upper = table["squared_lower"].to_numpy(), table["squared_upper"].to_numpy()
        return None if ((lower >= 0) & (lower <= upper)).all() else "an interval in it is turned round"
