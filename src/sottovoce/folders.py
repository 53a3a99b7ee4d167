# SPDX-License-Identifier: Apache-2.0
"""`WorkFolder`: where long work leaves what is finished, file by file, each whole or not there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sottovoce.errors import FileError, InputError
from sottovoce.files import public_rights, put_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["WorkFolder"]

MANIFEST = "manifest.json"
DRAFT = ".draft-"


@dataclass(frozen=True)
class WorkFolder:
    """A folder with a manifest, which says what the work is of, and the parts of it that are finished.

    `WORK` is what the work is called in an error.
    """

    WORK: ClassVar[str] = "work"

    path: Path

    @property
    def manifest_path(self) -> Path:
        """The file that says what the work is of."""
        return self.path / MANIFEST

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
        """Whether nothing lies there but drafts that were left behind when work was ended."""
        return all(entry.name.startswith(DRAFT) for entry in self.path.iterdir())

    def check_new(self) -> None:
        """Refuse to begin where something lies."""
        if not self.is_empty():
            raise InputError(
                f"{self.path}: the folder of a new {self.WORK} must be empty; something lies there "
                f"(continue a {self.WORK} with resume=True, or choose another folder)"
            )

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep others out, and clear drafts of earlier work that was ended in the middle of writing.

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
                    f"{self.path}: another {self.WORK} is writing there (wait until it ends, or choose another folder)"
                ) from None
            except (ImportError, OSError):
                pass
            for draft in self.path.glob(f"{DRAFT}*"):
                with contextlib.suppress(OSError):
                    draft.unlink()
            yield

    def manifest_text(self) -> str:
        """The text of the manifest that lies in the folder."""
        try:
            return self.manifest_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileError(
                f"{self.path}: there is no {self.WORK}, as {MANIFEST} is missing (name the folder that a {self.WORK} "
                "wrote)"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(
                f"{self.manifest_path}: cannot be read: {reason} (check the file and its rights)"
            ) from None

    def write(self, file: Path, content: bytes | memoryview) -> None:
        """Write a file under another name, see it safely on the disk, and only then give it its own."""
        try:
            put_whole([content], self.path, lambda: file.name, rights=public_rights(), draft=DRAFT)
            self._settle()
        except OSError as error:
            raise FileError(
                f"{file}: cannot be written: {error.strerror or error} (make room, then continue with "
                "resume=True; finished parts are kept)"
            ) from None

    def set_aside(self, file: Path) -> Path:
        """Rename a damaged file to .broken, without losing one that was set aside before."""
        aside, number = file.with_name(f"{file.name}.broken"), 1
        while aside.exists():
            number += 1
            aside = file.with_name(f"{file.name}.{number}.broken")
        try:
            file.rename(aside)
        except OSError as error:
            raise FileError(
                f"{file}: the damaged part cannot be renamed: {error.strerror or error} (remove it)"
            ) from None
        return aside

    def _settle(self) -> None:
        """See the new name safely on the disk, where the system lets a folder be opened."""
        with contextlib.suppress(PermissionError):
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
