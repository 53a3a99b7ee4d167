# SPDX-License-Identifier: Apache-2.0
"""The command line: parse, call one function, print. Nothing else in the package prints."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sottovoce.threads import PINNED

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (from `sys.argv` if None) and return its exit code.

    0 done, 1 internal error, 2 bad input, 3 budget exceeded, not certified or refuted, 130 interrupted.
    """
    # The matrices are small: one thread each is fastest, and gives the same bits on every machine.
    for name in PINNED:
        os.environ.setdefault(name, "1")
    try:
        # Loaded here, so that an interrupt while the program starts is as quiet as a later one.
        from sottovoce.cli.application import run
    except KeyboardInterrupt:
        return 130
    return run(arguments)
