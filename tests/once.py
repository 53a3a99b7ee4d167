# SPDX-License-Identifier: Apache-2.0
"""What several workers of one run of the tests need, and the first of them makes."""

from __future__ import annotations

import fcntl
import pickle
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["meet", "once"]

Made = TypeVar("Made")
_place: list[Path] = []


def meet(folder: Path) -> None:
    """Say where the workers of this run find what one of them made."""
    _place[:] = [folder]


def once(name: str, make: Callable[[], Made]) -> Made:
    """What `make` makes, by whichever worker comes first; the others wait for it. It is nobody's to change."""
    if not _place:
        return make()
    with (_place[0] / f"once-{name}.pickle").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        kept = file.read()
        if kept:
            found: Made = pickle.loads(kept)
            return found
        made = make()
        file.write(pickle.dumps(made))
        return made
