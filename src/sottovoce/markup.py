# SPDX-License-Identifier: Apache-2.0
"""Values as notebooks show them: one table each, escaped, in the colours of whatever shows it."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["MOST_ROWS", "shown"]

MOST_ROWS = 10
"""How many rows a table has in a notebook; a note says how many there are."""


def shown(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()
) -> str:
    """A table with a sentence above it and notes below; whatever is in them is text and no markup.

    >>> shown("Most", ["target", "ε"], [("<b>", 1)])
    '<div><p><strong>Most</strong></p><table><thead><tr><th scope="col">target</th><th scope="col">ε</th></tr></thead>\
<tbody><tr><td>&lt;b&gt;</td><td>1</td></tr></tbody></table></div>'
    """

    def line(cells: Iterable[object], tag: str) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return f"<tr>{''.join(f'<{tag}{scope}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    said = "".join(f"<p>{_text(note)}</p>" for note in notes)
    return (
        f"<div><p><strong>{_text(caption)}</strong></p><table><thead>{line(columns, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>{said}</div>"
    )


def _text(value: object) -> str:
    return html.escape(str(value))
