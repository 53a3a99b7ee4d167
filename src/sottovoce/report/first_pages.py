# SPDX-License-Identifier: Apache-2.0
"""The first page of any report, which somebody signs: question, verdict, numbers, what to check, and where it is from.

It is a function of what the report carries as data, so that whoever verifies a report can write it again and compare.
"""

from __future__ import annotations

import html
import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from sottovoce.accounting import best_guess
from sottovoce.explanations import EXPLANATIONS
from sottovoce.interval import as_given, rounded_up
from sottovoce.report.drawings import view_drawing
from sottovoce.report.prose import prose
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sottovoce.documents import Occasion

__all__ = [
    "ALWAYS",
    "SHEET_END",
    "SHEET_START",
    "Sheet",
    "Size",
    "Verdict",
    "about_pairs",
    "checks_of",
    "first_page",
    "kept",
    "odds",
    "origin_rows",
    "to_verify",
]

SHEET_START, SHEET_END = '<section id="sheet" aria-label="To be signed">', "</section><!-- sheet -->"

ALWAYS = (
    "Every node adds fresh Gaussian noise of the stated multiplier (times a stated level) and tells nobody.",
    "What a record adds to a contribution is clipped to the norm that the multiplier refers to.",
    "Nodes mix by the weights whose hash stands below.",
)
_VIEWS = {
    "everyone": ("Nothing else: whoever listens may see every message.",),
    "neighbourhood": (
        "Messages between two nodes are read by nobody else: links are encrypted.",
        "No two nodes pool what they see; if they may, ask for a coalition.",
    ),
    "secure-sum": (
        "A node learns the sum that it receives and no single message: a secure aggregation, or a party that adds.",
        "No two nodes pool what they see; if they may, ask for a coalition.",
    ),
    "single-node": ("Of all messages, the observer sees those that it sends itself.",),
    "coalition-sums": ("Nobody but the members pools what is seen, and they see sums alone.",),
    "coalition-messages": ("Nobody but the members pools what is seen.",),
}


class Size(NamedTuple):
    """A certified number, what it rests on, and what it is about."""

    shown: str
    rests: str
    about: str

    @classmethod
    def epsilon(cls, upper: float | None, assumption: str, about: str) -> Size:
        """An ε at most; None stands for infinity."""
        rests = "without any assumption" if assumption == "none" else f"assuming {assumption}"
        return cls(f"ε ≤ {rounded_up(math.inf if upper is None else upper)}", rests, about)


class Verdict(NamedTuple):
    """Pass or fail and why, or neither."""

    kind: Literal["pass", "fail", ""]
    words: str


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What stands on a first page; `views` are drawn, each with what it is called."""

    asked: str
    verdict: Verdict
    sizes: Sequence[Size]
    meaning: str
    checks: Sequence[str]
    views: Sequence[tuple[str, str]]
    origin: Mapping[str, str]


def first_page(sheet: Sheet) -> str:
    """The first page as markup, everything on it escaped."""
    kind, words = sheet.verdict
    stated = f"<strong>{kind.capitalize()}</strong>: " if kind else ""
    sizes = "".join(
        f'<div class="claim"><p class="size">{html.escape(each.shown)}</p>'
        f"<p>{prose(each.rests)}</p><p>{prose(each.about)}</p></div>"
        for each in sheet.sizes
    )
    ticks = "".join(
        f'<li><span class="tickbox" aria-hidden="true"></span>{prose(item)}</li>' for item in sheet.checks
    )
    drawn = "".join(
        f"<figure>{view_drawing(view)}<figcaption>{html.escape(named)}: "
        f"{html.escape(EXPLANATIONS[view].sentences[0])}</figcaption></figure>"
        for view, named in sheet.views
        if view in EXPLANATIONS
    )
    lines = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{prose(value)}</dd>" for name, value in sheet.origin.items()
    )
    blocks = [
        f"<h2>What was asked</h2><p>{prose(sheet.asked)}</p>",
        f'<p class="budget{f" {kind}" if kind else ""}">{stated}{prose(words)}</p>',
        f'<div class="claims">{sizes}</div>' if sizes else "",
        f"<p>{prose(sheet.meaning)}</p>" if sheet.meaning else "",
        f'<div class="columns"><div><h2>To be checked before signing</h2><ul class="checks">{ticks}</ul></div><div>'
        + (f"<h2>Who sees what</h2>{drawn}" if drawn else "")
        + "</div></div>",
        f"<h2>Where it comes from</h2><dl>{lines}</dl>",
        '<div class="sign"><p>Name</p><p>Date</p><p>Signature</p></div>',
    ]
    return f"{SHEET_START}{''.join(blocks)}{SHEET_END}"


def checks_of(view: str, assumption: str, always: Sequence[str] = ALWAYS) -> list[str]:
    """What must be true of a run for its numbers to hold, to be ticked."""
    items = [*always, *_VIEWS.get(view, ())]
    if assumption != "none" and assumption in EXPLANATIONS:
        said = EXPLANATIONS[assumption].sentences
        items.append(f"{assumption}: {ASSUMPTIONS[assumption]}. {' '.join(said[1:])}")  # type: ignore[index]
    return items


def kept(
    epsilon: float | None,
    assumption: str,
    most: float | None,
    *,
    partly: str = "",
    without: float | None = None,
) -> Verdict:
    """Whether an ε, of which None stands for infinity, keeps the budget `most`, if there was one.

    `partly` says of which pairs; `without` is the ε that rests on nothing, where there is one besides.
    """
    if most is None:
        return Verdict("", "No budget was set (--max-epsilon).")
    under = "" if assumption == "none" else f" under the assumption {assumption}"
    if epsilon is None or epsilon > most:
        return Verdict("fail", f"ε ≤ {as_given(most)} is not certified{under}{partly}.")
    words = f"the budget ε ≤ {as_given(most)} is kept{under}{partly}."
    if without is not None:
        words += " Without it, too." if without <= most else " Without it, it is not."
    return Verdict("pass", words)


def about_pairs(view: str, computed: object, possible: object) -> str:
    """Of which pairs a verdict is, where it is not of all pairs of all nodes."""
    if isinstance(computed, int) and isinstance(possible, int) and computed < possible:
        return f", for the {computed} pairs that were computed, out of {possible}"
    return ", for this coalition" if view.startswith("coalition") else ""


def odds(epsilon: float | None, delta: float, whose: str, *, mu: float | None, bare: bool = False) -> str:
    """What an (ε, δ) means as odds, and how often the best guess is right: by μ where a Gaussian mechanism is known.

    None stands for infinity: some of what is learnt is `bare` of noise, or nothing is proved. An (ε, δ)-private view
    tells no more than a hint that with probability δ says everything, and else moves odds by e^ε at most.

    Source: Kairouz, Oh & Viswanath 2015, Theorem 2.1.
    """
    if epsilon is None or math.isinf(epsilon):
        if bare:
            return "No noise hides some of what is contributed: it is seen as it is."
        return "No bound on what is learnt is proved: what is contributed may be seen as it is."
    ratio = rounded_up(math.nextafter(math.exp(min(epsilon, 700.0)), math.inf), 3)
    right = rounded_up(best_guess(mu, epsilon=epsilon, delta=delta), 3)
    return (
        f"Whoever believed that the odds of {whose} being there were 1 to 1 learns no more than from a hint after "
        f"which they are {ratio} to 1, or 1 to {ratio}, and which with a probability of {as_given(delta)} says it "
        f"outright. The best guess is right at most {right}% of the time, where a coin is right 50%."
    )


def to_verify(origin: str) -> str:
    """The command that checks a report: with the graph by its name, where its weights need no other word.

    >>> to_verify("metropolis rule on the graph of ring:n=5"), to_verify("lazy metropolis rule on the graph of karate")
    ('sottovoce verify THIS-FILE --graph ring:n=5', 'sottovoce verify THIS-FILE --graph GRAPH')
    """
    usual = "metropolis rule on the graph of "
    named = origin.startswith(usual) and len(origin) > len(usual)
    return (
        f"sottovoce verify THIS-FILE --graph {shlex.quote(origin.removeprefix(usual)) if named else 'GRAPH'}"
    )


def origin_rows(occasion: Occasion, facts: Mapping[str, str], verify: str) -> dict[str, str]:
    """Date, command, files, what the numbers are bound to, and versions."""
    return {
        "date": occasion.date,
        "command": occasion.command,
        **{f"file {each.name}": f"SHA-256 {each.sha256}" for each in occasion.inputs},
        **facts,
        "versions": ", ".join(f"{name} {version}" for name, version in occasion.versions.items()),
        "to verify": verify,
    }
