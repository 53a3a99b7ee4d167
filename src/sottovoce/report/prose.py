# SPDX-License-Identifier: Apache-2.0
"""Text as markup in which no number or option is broken in two: browsers break lines after the hyphen of 1e-5."""

from __future__ import annotations

import html
import re

__all__ = ["prose"]

# A number after its symbol, one with an exponent or a date, a negative one, one with a unit, and the name of an option;
# `dom.say` of the page has the same.
_WHOLE = re.compile(
    r"(?:Δ²|[εδμσ]) [=≤≥] [-−]?\d[\d.]*(?:e[-+]?\d+)?"
    r"|(?<![\w.])[-−]?\d[\d.]*(?:e?[-+]\d+){1,2}"
    r"|(?<![\w.)])[-−]\d[\d.]*"
    r"|(?<![\w.])\d[\d.]* (?:%|ms|s|MB|GB)(?!\w)"
    r"|(?<![\w-])--[a-z][a-z-]*"
)


def prose(text: str) -> str:
    """Text with everything escaped, and each number that a line could break kept whole.

    >>> prose("at δ = 1e-5 & after 12 rounds")
    'at <span class="whole">δ = 1e-5</span> &amp; after 12 rounds'
    """
    return _WHOLE.sub(r'<span class="whole">\g<0></span>', html.escape(text))
