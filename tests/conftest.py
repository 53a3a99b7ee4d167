# SPDX-License-Identifier: Apache-2.0
"""Lets every test import the shared definitions as `tests.reference`, however pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
