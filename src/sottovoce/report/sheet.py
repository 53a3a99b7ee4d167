# SPDX-License-Identifier: Apache-2.0
"""The first page of a report, which somebody signs: question, verdict, numbers, assumptions, and where they come from.

It is a function of what the report carries as data, so that whoever verifies a report can write it again and compare.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.accounting import Account, noise_enough
from sottovoce.documents import Occasion
from sottovoce.explanations import EXPLANATIONS
from sottovoce.interval import Interval, rounded_up
from sottovoce.report.budgets import noise_sentence
from sottovoce.report.drawings import view_drawing
from sottovoce.scenarios import RELATION_SENTENCES
from sottovoce.views import seen_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sottovoce.documents import PageDocument, PagePart

__all__ = ["SHEET_END", "SHEET_START", "sheet_html"]

SHEET_START, SHEET_END = '<section id="sheet" aria-label="To be signed">', "</section><!-- sheet -->"

_ALWAYS = (
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


class _Number(NamedTuple):
    """A certified ε, what it rests on, and whom it is about."""

    epsilon: float
    assumption: str
    about: str


def sheet_html(page: PageDocument) -> str:
    """The first page of the report that carries `page`; nothing where it does not say on which occasion it was written.

    Guarantee: every ε on it is the upper end of what `page` carries, rounded up.
    """
    if not isinstance(page.occasion, Occasion):
        return ""
    parts = (page, *page.beside)
    accounts = [_worst(part, page.graph.labels) for part in parts]
    unconditional = _unconditional(page)
    blocks = [
        _question(page),
        _verdict(page, unconditional),
        '<div class="claims">'
        + "".join(_figure(number) for number in _numbers(parts, accounts, unconditional))
        + "</div>",
        _meaning(page, accounts[0]),
        f"<p>{html.escape(noise_sentence(parts, [account for account, _, _ in accounts]))}</p>",
        '<div class="columns"><div>' + _checklist(page) + "</div><div>" + _seen(parts) + "</div></div>",
        _origin(page),
        _signature(),
    ]
    return f"{SHEET_START}{''.join(blocks)}{SHEET_END}"


def _worst(part: PagePart, labels: Sequence[object]) -> tuple[Account, str, str]:
    """The account of the worst pair of a view, its observer and its target."""
    ends = [math.inf if end is None else end for end in part.pairs.upper]
    place = max(range(len(ends)), key=ends.__getitem__)
    observers = part.observers[part.pairs.observer[place]]
    # What leads is what was certified of all pairs, those that are not shown included.
    account = _account(part, Interval(0.0, ends[place]), part.methods[part.pairs.method[place]])
    seen = ", ".join(str(labels[k]) for k in observers) or "whoever sees every message"
    return account, seen, str(labels[part.pairs.target[place]])


def _account(part: PagePart, squared: Interval, method: str) -> Account:
    relation: Any = part.relation
    return Account.of(
        squared,
        method=method,
        relation=relation,
        noise_multiplier=part.noise_multiplier,
        delta=part.delta,
    )


def _unconditional(page: PageDocument) -> float | None:
    """ε of local DP in plain gossip, which rests on nothing; None where the report has no such number."""
    if page.assumption == "none" or isinstance(page.protocol_hash, str) or page.local_squared is None:
        return None
    return _account(page, page.local_squared.interval, "local DP").epsilon().upper


def _numbers(
    parts: Sequence[PagePart], accounts: Sequence[tuple[Account, str, str]], unconditional: float | None
) -> list[_Number]:
    """What stands side by side: the number of each view, and what holds without any assumption."""
    shown = [
        _Number(
            math.inf if part.epsilon_upper is None else part.epsilon_upper,
            part.assumption,
            f"{_named(part)}: what {observer if ' ' in observer else f'node {observer}'} can learn about node {target}",
        )
        for part, (_, observer, target) in zip(parts, accounts, strict=True)
    ]
    if unconditional is not None:
        shown.append(_Number(unconditional, "none", "local DP: whoever sees whatever"))
    return shown


def _figure(number: _Number) -> str:
    rests = "without any assumption" if number.assumption == "none" else f"assuming {number.assumption}"
    return (
        f'<div class="claim"><p class="size">ε ≤ {rounded_up(number.epsilon)}</p>'
        f"<p>{html.escape(rests)}</p><p>{html.escape(number.about)}</p></div>"
    )


def _question(page: PageDocument) -> str:
    graph = page.graph
    # Of any protocol but gossip the sentence stands here that its certificate says, with slopes and levels of noise.
    protocol = page.program if isinstance(page.program, str) else f"gossip; {page.rounds} rounds"
    damped = f", damped by factors of hash {page.damping.hash}" if page.damping else ""
    return (
        "<h2>What was asked</h2>"
        f"<p>{graph.nodes} nodes and {graph.edges} edges ({html.escape(graph.origin)}). "
        f"Each round: {html.escape(protocol)}{damped}. Noise multiplier {page.noise_multiplier:g}. "
        f"Protected: {html.escape(_sentence(RELATION_SENTENCES[page.relation]))}, participation "
        f"{html.escape(page.participation)}, at δ = {page.delta:g}. "
        f"{page.pairs_computed} of {page.pairs_possible} pairs of observer and target were computed.</p>"
    )


def _sentence(text: str) -> str:
    return text.rstrip(".")


def _verdict(page: PageDocument, unconditional: float | None) -> str:
    """Pass or fail against the budget, or that there was none."""
    assert isinstance(page.occasion, Occasion)
    most = page.occasion.max_epsilon
    epsilon = math.inf if page.epsilon_upper is None else page.epsilon_upper
    noise = "" if math.isinf(epsilon) else f" {_enough(page, 1.0 if most is None else most)}"
    if most is None:
        return f'<p class="budget">No budget was set (--max-epsilon).{noise}</p>'
    under = "" if page.assumption == "none" else f" under the assumption {page.assumption}"
    partly = "" if page.pairs_computed >= page.pairs_possible else ", for the pairs that were computed"
    if epsilon > most:
        return f'<p class="budget fail"><strong>Fail</strong>: ε ≤ {most:g} is not certified{under}{partly}.{noise}</p>'
    without = ""
    if unconditional is not None:
        without = " Without it, too." if unconditional <= most else " Without it, it is not."
    return f'<p class="budget pass"><strong>Pass</strong>: the budget ε ≤ {most:g} is kept{under}{partly}.{without}</p>'


def _enough(page: PageDocument, target: float) -> str:
    """The noise that keeps every computed pair of the view that leads within a target: factor·Δ/μ(ε, δ)."""
    largest = max(math.inf if end is None else end for end in page.pairs.upper)
    if largest == 0:
        return ""
    noise = noise_enough(largest, target, page.delta, factor=page.factor)
    return f"A noise multiplier of {rounded_up(noise, 5)} gives ε ≤ {target:g}."


def _meaning(page: PageDocument, worst: tuple[Account, str, str]) -> str:
    """What the number means as odds."""
    account, _, target = worst
    if math.isinf(account.mu.upper):
        return "<p>No noise hides some of what is contributed: it is seen as it is.</p>"
    right = rounded_up(account.best_guess(), 3)
    odds = math.exp(min(account.epsilon().upper, 700.0))
    return (
        f"<p>Whoever believed that the odds of a record of node {html.escape(target)} being there were 1 to 1 may come "
        f"to believe {rounded_up(odds, 3)} to 1, or 1 to {rounded_up(odds, 3)}, and no more (but for a probability of "
        f"{page.delta:g}). The best guess is right at most {right}% of the time, where a coin is right 50%.</p>"
    )


def _checklist(page: PageDocument) -> str:
    """What must be true of the run for the numbers to hold, to be ticked."""
    items = [*_ALWAYS, *_VIEWS.get(page.view, ())]
    if page.assumption != "none":
        said = EXPLANATIONS[page.assumption].sentences
        items.append(f"{page.assumption}: {page.assumption_text}. {' '.join(said[1:])}")
    ticks = "".join(
        f'<li><span class="tickbox" aria-hidden="true"></span>{html.escape(item)}</li>' for item in items
    )
    return f'<h2>To be checked before signing</h2><ul class="checks">{ticks}</ul>'


def _named(part: PagePart) -> str:
    """The view, and the exchanges of a round that it is restricted to."""
    return f"{part.view}{seen_part(part.exchanges if isinstance(part.exchanges, tuple) else None)}"


def _seen(parts: Sequence[PagePart]) -> str:
    """A drawing of each view."""
    drawn = "".join(
        f"<figure>{view_drawing(part.view)}<figcaption>{html.escape(_named(part))}: "
        f"{html.escape(EXPLANATIONS[part.view].sentences[0])}</figcaption></figure>"
        for part in parts
        if part.view in EXPLANATIONS
    )
    return f"<h2>Who sees what</h2>{drawn}" if drawn else ""


def _origin(page: PageDocument) -> str:
    """Date, command, files, versions and hash."""
    assert isinstance(page.occasion, Occasion)
    told = page.occasion
    rows = {
        "date": told.date,
        "command": told.command,
        **{f"file {each.name}": f"SHA-256 {each.sha256}" for each in told.inputs},
        "weights": f"{page.graph.rule}, hash {page.graph.hash}",
        "versions": ", ".join(f"{name} {version}" for name, version in told.versions.items()),
        "to verify": "sottovoce verify THIS-FILE --graph GRAPH",
    }
    lines = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in rows.items()
    )
    return f"<h2>Where it comes from</h2><dl>{lines}</dl>"


def _signature() -> str:
    return '<div class="sign"><p>Name</p><p>Date</p><p>Signature</p></div>'
