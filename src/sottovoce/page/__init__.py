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
    "tools/gaussian.js",
    "tools/dom.js",
    "tools/scale.js",
    "tools/chart.js",
    "tools/strips.js",
    "tools/frames.js",
    "state/state.js",
    "state/rules.js",
    "state/model.js",
    "panels/messages.js",
    "panels/layout.js",
    "panels/labels.js",
    "panels/clusters.js",
    "panels/legend.js",
    "panels/tabs.js",
    "panels/network.js",
    "panels/heatmap.js",
    "panels/ranking.js",
    "panels/curves.js",
    "panels/tables.js",
    "jobs/server.js",
    "jobs/jobs.js",
    "state/kept.js",
    "jobs/asking.js",
    "panels/verdict.js",
    "panels/compare.js",
    "panels/files.js",
    "jobs/report.js",
    "jobs/find.js",
    "state/link.js",
    "state/still.js",
    "panels/protocol.js",
    "panels/training.js",
    "jobs/coins.js",
    "panels/controls.js",
    "main.js",
)
"""The scripts, in the order in which they run: tools, what is asked and known, what the server does, panels."""
