# SPDX-License-Identifier: Apache-2.0
"""Leaves the modules that need PyTorch, and their tests, alone where it is not installed."""

from importlib.util import find_spec

collect_ignore_glob = (
    [] if find_spec("torch") else ["src/sottovoce/learning/sites/*", "tests/learning/sites/*"]
)
