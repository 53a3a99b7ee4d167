# SPDX-License-Identifier: Apache-2.0
"""Leaves what schemathesis tries alone where its plugin is left out: it costs every test half a millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file is left alone, where that is known."""
    without = not config.pluginmanager.hasplugin("schemathesis")
    return True if without and collection_path.name == "test_described.py" else None
