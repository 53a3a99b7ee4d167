# SPDX-License-Identifier: Apache-2.0
"""The folder of a sweep: a manifest and parts that appear whole or not at all, and the check of those there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import FileError, InputError
from sottovoce.files import public_rights, put_whole
from sottovoce.sweeps.extras import pyarrow
from sottovoce.sweeps.manifest import Manifest
from sottovoce.sweeps.tiles import arrow_schema, expected_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Folder"]

MANIFEST = "manifest.json"
DRAFT = ".draft-"


@dataclass(frozen=True)
class Folder:
    """Where the parts of one sweep lie; part k is `part(k)`."""

    path: Path

    @property
    def manifest_path(self) -> Path:
        """The file that says what the sweep is of."""
        return self.path / MANIFEST

    def part(self, tile: int) -> Path:
        """The file of one tile."""
        return self.path / f"part-{tile:05d}.parquet"

    def prepare(self) -> None:
        """Create the folder where there is none."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"{self.path}: the folder cannot be created: {error.strerror or error} (choose another)"
            ) from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise FileError(f"{self.path}: the folder cannot be written to (choose another)")

    def is_empty(self) -> bool:
        """Whether nothing lies there but drafts that a sweep left behind when it was ended."""
        return all(entry.name.startswith(DRAFT) for entry in self.path.iterdir())

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other sweeps out, and clear drafts of an earlier one that was ended in the middle of writing.

        The claim belongs to the process and ends with it, however it ends. Where the system or the file
        system knows no such claims, none is made.
        """
        with contextlib.ExitStack() as stack:
            try:
                import fcntl

                handle = os.open(self.path, os.O_RDONLY)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another sweep is writing there (wait until it ends, or choose another folder)"
                ) from None
            except (ImportError, OSError):
                pass
            for draft in self.path.glob(f"{DRAFT}*"):
                with contextlib.suppress(OSError):
                    draft.unlink()
            yield

    def read_manifest(self) -> Manifest:
        """The manifest that lies in the folder."""
        try:
            text = self.manifest_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileError(
                f"{self.path}: there is no sweep, as {MANIFEST} is missing (name the folder that a sweep wrote)"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(
                f"{self.manifest_path}: cannot be read: {reason} (check the file and its rights)"
            ) from None
        return Manifest.from_json(text, str(self.manifest_path))

    def write_manifest(self, manifest: Manifest) -> None:
        """Put the manifest in place."""
        self._write(self.manifest_path, manifest.to_json().encode())

    def write_part(self, tile: int, table: Any) -> None:  # noqa: ANN401 - the package carries no types
        """Put an Arrow table in place as the part of one tile, with a checksum on each page."""
        pa = pyarrow()
        sink = pa.BufferOutputStream()
        pa.parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
        self._write(self.part(tile), memoryview(sink.getvalue()))

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

    def set_aside(self, tile: int) -> Path:
        """Rename the part of a tile to .broken, without losing one that was set aside before."""
        part = self.part(tile)
        aside, number = part.with_name(f"{part.name}.broken"), 1
        while aside.exists():
            number += 1
            aside = part.with_name(f"{part.name}.{number}.broken")
        try:
            part.rename(aside)
        except OSError as error:
            raise FileError(
                f"{part}: the damaged part cannot be renamed: {error.strerror or error} (remove it)"
            ) from None
        return aside

    def _write(self, file: Path, content: bytes | memoryview) -> None:
        """Write a file under another name, see it safely on the disk, and only then give it its own."""
        try:
            put_whole([content], self.path, lambda: file.name, rights=public_rights(), draft=DRAFT)
            self._settle()
        except OSError as error:
            raise FileError(
                f"{file}: cannot be written: {error.strerror or error} (make room, then continue with "
                "resume=True; finished parts are kept)"
            ) from None

    def _settle(self) -> None:
        """See the new name safely on the disk, where the system lets a folder be opened."""
        with contextlib.suppress(PermissionError):
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
