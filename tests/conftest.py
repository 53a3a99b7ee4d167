# SPDX-License-Identifier: Apache-2.0
"""Lets every test import what tests share as `tests.…`, however pytest was started, and tries laws as they say."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
importlib.import_module("tests.profiles")
