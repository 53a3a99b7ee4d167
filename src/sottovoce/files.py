# SPDX-License-Identifier: Apache-2.0
"""The one writer of files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["public_rights", "put_whole"]


def put_whole(
    chunks: Iterable[bytes | memoryview],
    directory: Path,
    named: Callable[[], str],
    *,
    rights: int,
    draft: str = ".sottovoce-",
) -> Path:
    """Write a draft, which its owner alone can read, and only when it is safely on the disk give it rights and name.

    `named` is asked last, so that a name may depend on what was written; what has that name is replaced at once. The
    name of a draft begins with `draft`. On failure, an OSError among others, nothing new is left and nothing old lost.
    """
    kept: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=draft, delete=False) as stream:
            kept = Path(stream.name)
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        kept.chmod(rights)
        placed = kept.replace(directory / named())
        kept = None
    finally:
        if kept is not None:
            with contextlib.suppress(OSError):
                kept.unlink()
    return placed


def public_rights() -> int:
    """The rights that a new file of this process has."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
