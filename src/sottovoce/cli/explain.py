# SPDX-License-Identifier: Apache-2.0
"""`sottovoce explain`: what a word in an answer means."""

from __future__ import annotations

import difflib
from typing import Annotated

from cyclopts import Parameter

from sottovoce.cli.options import Json  # noqa: TC001 - the parser reads the annotations
from sottovoce.cli.printing import result_page, write_result
from sottovoce.errors import InputError
from sottovoce.explanations import ALIASES, EXPLANATIONS, KINDS, VIEW_QUESTIONS, either

__all__ = ["EXAMPLE", "USAGE", "explain"]

EXAMPLE = "sottovoce explain secure-sum"
USAGE = "sottovoce explain [WORD] [OPTIONS]"


def explain(
    word: Annotated[
        str | None,
        Parameter(
            help="A view, an assumption, a method, a number or a row of a table, as answers name them (two words in "
            "quotes); or one of view, assumption, method, number and row for all of its kind. Without it, everything "
            "that can be asked.",
            show_default=False,
        ),
    ] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Explain a view, an assumption, a method, a number or a row in three sentences, and say where to read on."""
    from sottovoce.documents import as_json

    word = ALIASES.get(word or "", word)
    if word is not None and word not in {*KINDS, *EXPLANATIONS}:
        near = difflib.get_close_matches(word, [*KINDS, *EXPLANATIONS], n=3)
        raise InputError(
            f"WORD must be one that answers use; got {word!r} ("
            + (f"did you mean {' or '.join(near)}? " if near else "")
            + "sottovoce explain lists them)"
        )
    chosen = {name: each for name, each in EXPLANATIONS.items() if word is None or word in {name, each.kind}}
    if json:
        write_result(
            as_json(
                {
                    name: {
                        "kind": each.kind,
                        "explanation": " ".join(each.sentences),
                        "read_on": each.read_on,
                    }
                    for name, each in chosen.items()
                }
            )
        )
        return 0
    from sottovoce.cli.layout import facts, paragraph

    with result_page() as console:
        if word is None:
            paragraph(console, "sottovoce explain WORD says what these words mean:", style="bold")
            of_kind = {kind: [name for name, each in chosen.items() if each.kind == kind] for kind in KINDS}
            console.print(facts((kind, f"{', '.join(of_kind[kind])} ({KINDS[kind]})") for kind in KINDS))
            return 0
        if word == "view":
            paragraph(console, "Which view applies? Ask from the top: the first yes decides.", style="bold")
            console.print(
                facts(
                    (f"{place}.", f"{asked} ({such})\n→ {either(views)}")
                    for place, (asked, such, views) in enumerate(VIEW_QUESTIONS, start=1)
                )
            )
        for place, (name, each) in enumerate(chosen.items()):
            if place or word == "view":
                console.print()
            paragraph(console, f"{name}: {KINDS[each.kind]}", style="bold")
            paragraph(console, " ".join(each.sentences))
            paragraph(console, f"Read on: {each.read_on}", style="dim")
    return 0
