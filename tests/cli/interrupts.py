# SPDX-License-Identifier: Apache-2.0
"""Commands that are interrupted in the middle of their work, as Ctrl+C does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Says when a function was called for the first time, and then waits to be interrupted.
DRIVER = """
import importlib, signal, sys, time
from sottovoce.cli import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, _, path = sys.argv[1].partition(":")
    *parents, name = path.split(".")
    holder = importlib.import_module(module)
    for parent in parents:
        holder = getattr(holder, parent)
    work = getattr(holder, name)

    def work_and_wait(*settings):
        work(*settings)
        print("done", flush=True)
        time.sleep(60)

    setattr(holder, name, work_and_wait)
    sys.exit(main(sys.argv[2:]))
"""


def interrupted_after(function: str, *words: str, folder: Path) -> tuple[int, str]:
    """Exit code and complaint of a command that is interrupted after `function` ("module:name") ran once.

    The interrupt goes to the program and to its workers, as a terminal sends it.
    """
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, function, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    return process.returncode, err
