# SPDX-License-Identifier: Apache-2.0
"""The page of results: one self-contained HTML file with pictures, findings and tables."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from sottovoce._version import __version__
from sottovoce.documents.studies import read_study_table
from sottovoce.report.prose import prose
from sottovoce.report.themes import themed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sottovoce.documents.studies import StudyRecord
    from sottovoce.studies import Finding, Table

__all__ = ["MARKS", "PAPER", "results_page"]

# Longer tables are linked and not shown.
MOST_ROWS = 40
MARKS = {"holds": "✓", "holds in part": "◐", "does not hold": "✗"}
STYLE = """
:root { color-scheme: light dark; --panel: #fff; --text: #1a1a1a; --quiet: #555; --line: #ddd; --link: #0b5394;
  --line-local: #6b6672; --line-worst: #b3352f; --line-median: #0b5fa5; --line-best: #00604a; --line-central: #7a4b00;
  --line-sky: #2f86bd; --line-purple: #a8447b; }
@media screen and (prefers-color-scheme: dark) { :root { --panel: #1e1a26; --text: #ece8f2; --quiet: #aaa3b6;
  --line: #383143; --link: #7cc4ff; --line-local: #a9a3b3; --line-worst: #ff8f7d; --line-median: #7cc4ff;
  --line-best: #5fd3ad; --line-central: #e0b354; --line-sky: #b9e2ff; --line-purple: #eba6d0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--panel); margin: 0 auto;
  padding: 1.5rem; max-width: 68rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 3rem; }
a { color: var(--link); }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); }
th { border-bottom: 2px solid var(--quiet); }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
.whole { white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: var(--line-best); } .in-part { color: var(--line-central); } .not { color: var(--line-worst); }
.scroll { overflow-x: auto; } .scroll table { min-width: 44rem; }
.size { color: var(--quiet); font-weight: normal; font-size: .9rem; }
details { margin: .6rem 0; } summary { cursor: pointer; }
footer { margin-top: 3rem; color: var(--quiet); font-size: .85rem; }
@media print { details { display: none; } h2 { break-before: page; } }
"""
# fmt: off
PAPER = (
    "Koskela and Kulkarni, Differential Privacy Analysis of Decentralized Gossip Averaging under Varying "
    "Threat Models"
)
# fmt: on
"""The paper whose claims are looked at."""
ABOUT = f"""<p class="paper">{PAPER}</p>
<p>Claims of the paper, with what was measured about each. Statement numbers are those of the compiled
paper. Δ² is the squared sensitivity over T rounds, W the gossip matrix, n the number of nodes, φ the response of a
view at one frequency. Lower ends are attained by streams that are at hand, upper ends are proved; both are rounded
outward. Seeds are fixed: the same command writes the same numbers. Studies of other protocols name
their sources.</p>"""


def results_page(records: Sequence[StudyRecord], folder: Path) -> str:
    """The HTML of the studies in `records`, whose pictures and tables lie in `folder`."""
    contents = "".join(
        f'<tr><td><a href="#{record.study}">{html.escape(record.title)}</a></td>'
        f"<td>{_counted(record.findings)}</td></tr>"
        for record in records
    )
    sections = "".join(_section(record, folder) for record in records)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>The paper, reproduced and corrected</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>The paper, reproduced and corrected</h1>\n{ABOUT}\n"
        f'<table><thead><tr><th scope="col">study</th><th scope="col">findings</th></tr></thead>'
        f"<tbody>{contents}</tbody></table>\n{sections}"
        f"<footer>Written by Sottovoce {html.escape(__version__)}, <code>sottovoce reproduce</code>.</footer>\n"
        "</body>\n</html>\n"
    )


def _section(record: StudyRecord, folder: Path) -> str:
    """One study: picture, findings, table, settings."""
    svg = (folder / f"{record.study}.svg").read_text(encoding="utf-8")
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in record.files)
    rows = "".join(_finding_row(finding) for finding in record.findings)
    settings = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(_listed(value))}</td></tr>"
        for name, value in record.settings.items()
    )
    return (
        f'<section>\n<h2 id="{record.study}">{html.escape(record.title)}{_size(record)}</h2>\n'
        f"<figure>{themed(svg, record.study, record.title)}</figure>\n"
        '<div class="scroll"><table><thead><tr><th scope="col">statement</th><th scope="col">claim</th>'
        '<th scope="col">measured</th><th scope="col">verdict</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
        f"{_table(read_study_table(folder / f'{record.study}.csv'))}"
        f"<details><summary>settings</summary><table>{settings}</table></details>\n"
        f"<p>Files: {links}</p>\n</section>\n"
    )


def _size(record: StudyRecord) -> str:
    return ' <span class="size">(quick size)</span>' if record.quick else ""


def _finding_row(finding: Finding) -> str:
    cells = "".join(f"<td>{prose(x)}</td>" for x in (finding.statement, finding.claim, finding.measured))
    return f"<tr>{cells}<td>{_verdict(finding.verdict)}</td></tr>"


def _verdict(verdict: str) -> str:
    """A verdict in words, with a mark and a colour beside them."""
    kind = {"holds": "holds", "holds in part": "in-part"}.get(verdict, "not")
    return f'<span class="verdict {kind}">{MARKS[verdict]} {verdict}</span>'


def _counted(findings: Sequence[Finding]) -> str:
    """How many findings have which verdict."""
    verdicts = [finding.verdict for finding in findings]
    counted = [(verdict, verdicts.count(verdict)) for verdict in MARKS if verdict in verdicts]
    return ", ".join(
        _verdict(verdict) + (f" ({count})" if len(findings) > 1 else "") for verdict, count in counted
    )


def _table(table: Table) -> str:
    """The table of a study, folded; long ones are in their file alone."""
    if len(table.rows) > MOST_ROWS:
        return ""
    head = "".join(f'<th scope="col">{html.escape(name.replace("_", " "))}</th>' for name in table.columns)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    return (
        f'<details><summary>table</summary><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></details>\n"
    )


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return f"<td>{html.escape(value)}</td>"
    return f'<td class="number">{value:.6g}</td>'


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
