# SPDX-License-Identifier: Apache-2.0
"""The page: static files that the report carries inside and the server hands out. No logic here."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["FOLDER", "INDEX", "SCRIPTS", "STYLE"]

FOLDER: Traversable = files("sottovoce.page")
"""Where the files are."""

INDEX = "index.html"
STYLE = "page.css"
SCRIPTS = (
    "vendor/cytoscape.min.js",
    "gaussian.js",
    "dom.js",
    "scale.js",
    "state.js",
    "model.js",
    "messages.js",
    "layout.js",
    "network.js",
    "heatmap.js",
    "curves.js",
    "tables.js",
    "server.js",
    "jobs.js",
    "kept.js",
    "asking.js",
    "verdict.js",
    "files.js",
    "find.js",
    "link.js",
    "still.js",
    "protocol.js",
    "controls.js",
    "main.js",
)
"""The scripts, in the order in which they run."""
