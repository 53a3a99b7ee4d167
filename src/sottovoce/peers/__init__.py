# SPDX-License-Identifier: Apache-2.0
"""Real peers: nodes that run a protocol as processes of their own, and sums that hide their terms."""

from __future__ import annotations

__all__: list[str] = []
