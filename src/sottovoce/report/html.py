# SPDX-License-Identifier: Apache-2.0
"""The self-contained report: the page with its data, styles and scripts inside one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.documents import CERTIFICATES, DATA, check_path, json_element, write_whole
from sottovoce.errors import InputError
from sottovoce.forms import plain
from sottovoce.page import FOLDER, INDEX, SCRIPTS, STYLE
from sottovoce.report.sheet import sheet_html

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from sottovoce.documents import PageDocument

__all__ = ["Section", "check_report_path", "report_html", "says_what_it_carries", "write_report"]

_SECTIONS = '<div id="sections">'
_PROOF = '<section class="panel" aria-label="Proof"><h2>Proof</h2>(?:<p>[^<]*</p>)*</section>'


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report below the page: prose, text as it was printed, a figure as SVG, a table, or several."""

    heading: str
    text: str = ""
    printed: str = ""
    figure: str = ""
    figure_text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()

    def __post_init__(self) -> None:
        """Refuse a figure that nobody who cannot see it could understand, and rows that do not fit."""
        if self.figure and not self.figure_text:
            raise InputError(
                f"a figure needs figure_text, which says what it shows; section {self.heading!r} has none "
                "(describe the figure in a sentence)"
            )
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"a row must have as many entries as there are columns; section {self.heading!r} has "
                    f"{len(self.columns)} columns and a row of {len(row)} (complete the row)"
                )


def check_report_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a report can be put there."""
    return check_path(path, (".html",), "a report")


def write_report(
    path: str | os.PathLike[str],
    *,
    title: str,
    account: PageDocument | None = None,
    first_page: str = "",
    sections: Sequence[Section] = (),
    proofs: Sequence[str | list[str] | None] = (),
) -> Path:
    """Write a report to `path`, whole or not at all; it opens from disk and asks nothing of a network.

    `account` is what `sottovoce.documents.page_document` returns; without one the report holds its sections alone.
    `first_page` is what `sottovoce.report.sheet_html` makes of it, for whoever signs.
    `proofs` are the certificates of its views as text, in their order, which `sottovoce verify` checks.
    """
    file = check_report_path(path).resolve()
    write_whole(
        [report_html(title=title, account=account, first_page=first_page, sections=sections, proofs=proofs)],
        file.parent,
        lambda _: file.name,
    )
    return Path(path)


def report_html(
    *,
    title: str,
    account: PageDocument | None = None,
    first_page: str = "",
    sections: Sequence[Section] = (),
    proofs: Sequence[str | list[str] | None] = (),
) -> str:
    """The report as text: the page with everything it needs inside, and a policy that lets nothing else in."""
    carried = _data(account)
    if proofs:
        carried += json_element(CERTIFICATES, json.dumps(proofs))
    return _page(title, first_page, "".join(map(_section, sections)), carried)


def says_what_it_carries(text: str, page: PageDocument) -> bool:
    """Whether a report is, to the letter, what this version writes of the data and the certificates that it carries.

    The words on the proof may be any, as they say why a certificate is missing. Everything else that a reader sees
    follows from the data; a report with sections of its own, or of another version, is not what is written here.
    """
    title = re.search("<title>([^<]*)</title>", text)
    start, end = text.find(_SECTIONS), text.find('</div>\n<div class="drop"')
    certificates = re.search(rf'<script type="application/json" id="{CERTIFICATES}">[^<]*</script>\n', text)
    if title is None or certificates is None or not 0 <= start < end:
        return False
    sections = text[start + len(_SECTIONS) : end]
    if not re.fullmatch(_PROOF, sections):
        return False
    carried = _data(page) + certificates[0]
    return text == _page(html.unescape(title[1]), sheet_html(page), sections, carried)


def _data(account: PageDocument | None) -> str:
    return json_element(DATA, json.dumps(plain(account), allow_nan=False, separators=(",", ":")))


def _page(title: str, first_page: str, sections: str, carried: str) -> str:
    """The page with its parts in place."""
    page = _file(INDEX)
    style, scripts = _file(STYLE), [_file(name) for name in SCRIPTS]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    inline = "".join(f"<script>{script}</script>\n" for script in scripts)
    policed = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    parts = {
        r'<meta charset="utf-8">': policed,
        r"<title>.*?</title>": f"<title>{html.escape(title)}</title>",
        r'<link id="\w+" rel="stylesheet"[^>]*>': f'<style id="__________cytoscape_stylesheet">{style}</style>',
        r'<h1 id="title">.*?</h1>': f'<h1 id="title">{html.escape(title)}</h1>',
        r'<div id="first-page"></div>': first_page,
        r'<div id="sections"></div>': f"{_SECTIONS}{sections}</div>",
        r"<!-- scripts -->\n": carried + inline,
    }
    for pattern, replacement in parts.items():
        found = re.search(pattern, page)
        assert found is not None, pattern
        page = page[: found.start()] + replacement + page[found.end() :]
    return page


def _file(name: str) -> str:
    """A file of the page, which as an inline script may not contain its own end."""
    text = FOLDER.joinpath(name).read_text(encoding="utf-8")
    assert name == INDEX or not re.search(r"</(script|style)", text, re.IGNORECASE), name
    return text


def _hash(text: str) -> str:
    """What a content security policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _section(section: Section) -> str:
    """One section as markup, everything in it escaped."""
    parts = [f"<h2>{html.escape(section.heading)}</h2>"]
    parts += [f"<p>{html.escape(part)}</p>" for part in section.text.split("\n\n") if part]
    if section.printed:
        parts.append(f'<pre tabindex="0">{html.escape(section.printed)}</pre>')
    if section.figure:
        # As an image a figure can neither run scripts nor need styles of its own to be let through.
        content = base64.b64encode(section.figure.encode()).decode()
        alt = html.escape(section.figure_text)
        parts.append(f'<img src="data:image/svg+xml;base64,{content}" alt="{alt}">')
    if section.columns:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in section.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(str(entry))}</td>' for entry in row)}</tr>"
            for row in section.rows
        )
        label = html.escape(f"{section.heading}: table")
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        parts.append(f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{table}</div>')
    name = html.escape(section.heading)
    return f'<section class="panel" aria-label="{name}">{"".join(parts)}</section>'
