# SPDX-License-Identifier: Apache-2.0
"""Lets every test import what tests share as `tests.…`, however pytest was started, and tries laws as they say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
importlib.import_module("tests.profiles")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs in a browser, however it comes by it."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
