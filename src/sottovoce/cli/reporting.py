# SPDX-License-Identifier: Apache-2.0
"""Reports of what commands answered: one way to write them, and a word on stderr that says so."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.cli.printing import progress, readable, typed_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sottovoce.accounting import AccountTable, CarriedProof
    from sottovoce.cli.options import Doing
    from sottovoce.documents import PageDocument, Result
    from sottovoce.graphs import WeightedGraph

__all__ = [
    "Carried",
    "check_report",
    "files_of",
    "proofs_of",
    "report_account",
    "report_answer",
    "say_written",
]


def check_report(path: Path | None) -> None:
    """Refuse a path that no report could be written to, before any work."""
    if path is not None:
        from sottovoce.report import check_report_path

        check_report_path(path)


def files_of(doing: Doing) -> tuple[str, ...]:
    """What may be files among the options that say what nodes do."""
    return (doing.weights, str(doing.damping or ""), doing.protocol)


def say_written(path: Path) -> None:
    """One line on stderr: stdout is the answer's."""
    print(f"sottovoce: wrote {readable(path)}", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a report carries beside its document: the page of all pairs with its proofs, or certificates alone."""

    account: PageDocument | None = None
    proofs: Sequence[CarriedProof] = ()
    certificates: Sequence[str] = ()


NOTHING = Carried()


def report_answer(
    path: Path | None,
    document: object,
    *,
    title: str,
    inputs: Iterable[str | Path] = (),
    max_epsilon: float | None = None,
    carried: Carried = NOTHING,
) -> None:
    """Write the report of a document that --json would print, if one was asked for."""
    if path is None:
        return
    from sottovoce.documents import Result, occasion
    from sottovoce.report import proof_section, result_html, save_report

    result: Result = Result(occasion=occasion(typed_command(), inputs, max_epsilon), document=document)  # type: ignore[arg-type]
    text = result_html(
        result,
        title=title,
        account=carried.account,
        proofs=[proof.texts for proof in carried.proofs] or list(carried.certificates),
        proof=proof_section(carried.proofs) if carried.proofs else None,
    )
    save_report(path, text)
    say_written(path)


def proofs_of(tables: Sequence[AccountTable]) -> list[CarriedProof]:
    """The certificates of the worst pairs of tables."""
    from sottovoce.accounting import carried_proofs

    with progress("certificates") as callback:
        return carried_proofs(tables, progress=callback)


def report_account(
    path: Path | None,
    tables: Sequence[AccountTable],
    chosen: WeightedGraph,
    *,
    title: str,
    inputs: Iterable[str | Path],
    max_epsilon: float | None,
) -> None:
    """Write the report of accounts, the view that leads first, if one was asked for."""
    if path is None:
        return
    from sottovoce.accounting import table_curves
    from sottovoce.documents import occasion, page_document
    from sottovoce.report import page_report, save_report

    with progress("curves") as callback:
        curves = table_curves(tables[0], progress=callback)
    said = occasion(typed_command(), inputs, max_epsilon)
    proofs = proofs_of(tables)
    first, *beside = (proof.table for proof in proofs)
    page = page_document(first, chosen, curves=curves, beside=beside, occasion=said)
    save_report(path, page_report(page, title=title, proofs=proofs))
    say_written(path)
