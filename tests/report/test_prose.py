# SPDX-License-Identifier: Apache-2.0
"""What a line must not break is the same in reports and on the page."""

from __future__ import annotations

import re
from importlib.resources import files

from sottovoce.report import prose


def test_reports_and_page_keep_the_same_numbers_whole() -> None:
    script = (files("sottovoce.page") / "tools/dom.js").read_text(encoding="utf-8")
    (theirs,) = re.findall(r"const WHOLE = /\((.*)\)/u;", script)
    # Scripts have no class for letters of all alphabets.
    ours = prose._WHOLE.pattern.replace(r"[\w", r"[\p{L}\p{N}_").replace(r"(?!\w)", r"(?![\p{L}\p{N}_])")
    assert ours == theirs
