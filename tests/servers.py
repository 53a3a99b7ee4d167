# SPDX-License-Identifier: Apache-2.0
"""A server of its own for a test, as `sottovoce serve` starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server:
    """A running `sottovoce serve`: its address, and its process to end."""

    def __init__(self, *options: str, port: int = 0, **settings: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SOTTOVOCE")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", "serve", "--port", str(port), *options],
            stdout=subprocess.PIPE,
            env={**kept, **settings, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            encoding="utf-8",
            # A shell starts what runs in the background with interrupts ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Sottovoce is at http://"), line
        self.address = line.split()[3]
        self.port = int(self.address.rstrip("/").rpartition(":")[2])

    def end(self) -> int:
        """Interrupt the server, as Ctrl+C does; its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """End the server at once."""
        self.process.kill()
        self.process.wait(timeout=20)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def serving(*options: str, port: int = 0, **settings: str) -> Iterator[Server]:
    """A server that is gone in the end."""
    server = Server(*options, port=port, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end()
