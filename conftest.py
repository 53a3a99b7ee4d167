# SPDX-License-Identifier: Apache-2.0
"""Leaves the modules that need PyTorch, and their tests, alone where it is not installed.

What is imported and collected stays until the end, and is much: memory is not searched for garbage meanwhile, and
afterwards only what tests make is, and less often than it would be. Tests start many processes: compiled modules are
kept for the next one, whatever the environment says.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.util import find_spec

import pytest

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/sottovoce/learning/sites/*", "tests/learning/sites/*"]
)
gc.disable()
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Leave alone what is there, and search the rest from now on."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
