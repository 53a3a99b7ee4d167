# SPDX-License-Identifier: Apache-2.0
"""The self-contained report: the page with its data, styles and scripts inside one HTML file."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from sottovoce.documents import CERTIFICATES, DATA, RESULT, check_path, json_element, read_result, write_whole
from sottovoce.errors import InputError
from sottovoce.forms import json_text
from sottovoce.page import FOLDER, INDEX, SCRIPTS, STYLE
from sottovoce.report.first_pages import first_page as to_be_signed
from sottovoce.report.prose import prose
from sottovoce.report.sheet import sheet_html
from sottovoce.report.themes import themed

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from sottovoce.documents import PageDocument, ReadReport, Result

__all__ = [
    "Judged",
    "Linked",
    "Section",
    "check_report_path",
    "report_html",
    "result_html",
    "save_report",
    "says_what_it_carries",
    "write_report",
]

# Where there is no page of pairs, sections are what a reader came for.
_SECTIONS = {False: '<div id="sections">', True: '<div id="sections" role="main">'}
# Any words, as `prose` writes them.
_WORDS = '(?:[^<]|<span class="whole">|</span>)*'
HOW = (
    "This file carries a certificate of the worst pair of each view it shows. sottovoce verify FILE --graph GRAPH "
    "checks it by other code, and proves as many of the other pairs no worse as it can."
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a report beside the page: prose, charts, a figure as SVG, a table, or several.

    `charts` are SVG elements that `line_chart` made, which stand in the page as they are and take its colours. A table
    whose columns have no names is one of facts: what stands first in a row names it. `anchor` is what links lead to.
    """

    heading: str
    text: str = ""
    charts: Sequence[str] = ()
    figure: str = ""
    figure_text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    anchor: str = ""

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
    return save_report(
        path,
        report_html(title=title, account=account, first_page=first_page, sections=sections, proofs=proofs),
    )


def save_report(path: str | os.PathLike[str], text: str) -> Path:
    """Write the text of a report to `path`, whole or not at all."""
    file = check_report_path(path).resolve()
    write_whole([text], file.parent, lambda _: file.name)
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
        carried += json_element(CERTIFICATES, json_text(proofs))
    return _page(title, first_page, "".join(map(_section, sections)), carried, bare=account is None)


def result_html(
    result: Result,
    *,
    title: str,
    account: PageDocument | None = None,
    proofs: Sequence[str | list[str] | None] = (),
    proof: Section | None = None,
) -> str:
    """The report of what a command answered: a first page to sign, curves, the page of all pairs, tables, and proofs.

    Everything that a reader sees is a function of what the report carries; `proof` says why a certificate is missing.
    """
    text = json_text(result, tight=True)
    carried = _data(account) + json_element(RESULT, text)
    if proofs:
        carried += json_element(CERTIFICATES, json_text(proofs))
    # Drawn from what a reader of the file gets, so that it comes out to the letter when it is verified.
    lead, below = _result_parts(read_result(text))
    return _page(
        title, lead, below + ("" if proof is None else _section(proof)), carried, bare=account is None
    )


def _result_parts(result: Result) -> tuple[str, str]:
    """What stands before the page of all pairs, and what below it."""
    from sottovoce.report.answers import answer

    told = answer(result)
    curves = "".join(map(_section, told.lead))
    lead = to_be_signed(told.sheet) + (f'<div class="lead">{curves}</div>' if curves else "")
    return lead, "".join(map(_section, told.sections))


def says_what_it_carries(report: ReadReport) -> bool:
    """Whether a report is, to the letter, what this version writes of the data and the certificates that it carries.

    Why a certificate is missing may be said in any words, as such a view is not verified. Everything else that a reader
    sees but the title follows from the data; a report with sections of its own, or of another version, is not what is
    written here.
    """
    text, page = report.text, report.page
    title = re.search("<title>([^<]*)</title>", text)
    opening = _SECTIONS[page is None]
    start, end = text.find(opening), text.find('</div>\n<div class="drop"')
    if title is None or not 0 <= start < end:
        return False
    lead, below = ("", "") if report.result is None else _result_parts(report.result)
    if report.result is None and page is not None:
        lead = sheet_html(page)
    sections = text[start + len(opening) : end]
    if not re.fullmatch(f"{re.escape(below)}(?:{_proof_pattern(report)})?", sections):
        return False
    carried = _data(page)
    for name in (RESULT, CERTIFICATES):
        # As it stands there: what was read of it is what is shown.
        element = re.search(rf'<script type="application/json" id="{name}">[^<]*</script>\n', text)
        carried += "" if element is None else element[0]
    return text == _page(html.unescape(title[1]), lead, sections, carried, bare=page is None)


def _proof_pattern(report: ReadReport) -> str:
    """What the section on proofs may be: how to check them, and a reason for each view without a certificate."""
    lacking = [each.stated.view for each in report.views if each.certificate is None]
    said = f"<p>{re.escape(prose(HOW))}</p>" if len(lacking) < len(report.views) else ""
    said += "".join(
        f"<p>No certificate is carried for the view {re.escape(html.escape(view))}: {_WORDS}</p>"
        for view in lacking
    )
    return f'<section class="panel" aria-label="Proof"><h2>Proof</h2>{said}</section>'


def _data(account: PageDocument | None) -> str:
    return json_element(DATA, json_text(account, tight=True))


def _page(title: str, first_page: str, sections: str, carried: str, *, bare: bool) -> str:
    """The page with its parts in place; `bare` if it has no pairs to show."""
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
        r'<div id="sections"></div>': f"{_SECTIONS[bare]}{sections}</div>",
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
    parts += [f"<p>{prose(part)}</p>" for part in section.text.split("\n\n") if part]
    if section.charts:
        parts.append(f'<div class="charts">{"".join(section.charts)}</div>')
    if section.figure:
        name = section.anchor or re.sub(r"\W+", "-", section.heading.lower())
        parts.append(f'<div class="plots">{themed(section.figure, name, section.figure_text)}</div>')
    if section.columns:
        label = html.escape(f"{section.heading}: table")
        parts.append(
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{_table(section)}</div>'
        )
    name = html.escape(section.heading)
    anchor = f' id="{html.escape(section.anchor)}"' if section.anchor else ""
    return f'<section class="panel"{anchor} aria-label="{name}">{"".join(parts)}</section>'


class Linked(NamedTuple):
    """An entry of a table that leads to a section."""

    text: str
    anchor: str


class Judged(NamedTuple):
    """An entry of a table in the colour of a verdict, which it also says in words."""

    text: str
    kind: Literal["holds", "in-part", "fails"]


def _table(section: Section) -> str:
    """The table of a section."""
    named = any(section.columns)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in section.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{_entry(entry)}</th>'
            if not named and not place
            else f"<td>{_entry(entry)}</td>"
            for place, entry in enumerate(row)
        )
        + "</tr>"
        for row in section.rows
    )
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if named else ''}<tbody>{body}</tbody></table>"


def _entry(entry: object) -> str:
    if isinstance(entry, Linked):
        return f'<a href="#{html.escape(entry.anchor)}">{html.escape(entry.text)}</a>'
    if isinstance(entry, Judged):
        return f'<span class="{entry.kind}">{prose(entry.text)}</span>'
    if isinstance(entry, list):
        return ", ".join(map(_entry, entry))
    return prose(str(entry))
