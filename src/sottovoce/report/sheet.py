# SPDX-License-Identifier: Apache-2.0
"""The first page of an account's report, from what its page carries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.accounting import Account
from sottovoce.documents import Occasion
from sottovoce.interval import Interval, as_given, in_short
from sottovoce.report.budgets import noise_sentence
from sottovoce.report.first_pages import (
    Sheet,
    Size,
    Verdict,
    about_pairs,
    checks_of,
    first_page,
    kept,
    odds,
    origin_rows,
    to_verify,
)
from sottovoce.scenarios import RELATION_SENTENCES
from sottovoce.views import seen_part

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sottovoce.documents import PageDocument, PagePart

__all__ = ["sheet_html"]


def sheet_html(page: PageDocument) -> str:
    """The first page of the report that carries `page`; nothing where it does not say on which occasion it was written.

    Guarantee: every ε on it is the upper end of what `page` carries, rounded up.
    """
    told = page.occasion
    if not isinstance(told, Occasion):
        return ""
    parts = (page, *page.beside)
    accounts = [_worst(part, page.graph.labels) for part in parts]
    unconditional = _unconditional(page)
    target = 1.0 if told.max_epsilon is None else told.max_epsilon
    noise = noise_sentence(parts, [account for account, _, _ in accounts], target)
    bound = {
        "weights": f"{page.graph.rule}, hash {page.graph.hash}",
        "protocol": f"{page.protocol}, hash {page.protocol_hash}",
    }
    return first_page(
        Sheet(
            asked=_question(page),
            verdict=_verdict(page, told, unconditional, noise),
            sizes=_sizes(parts, accounts, unconditional),
            meaning=_meaning(page, accounts[0]),
            checks=checks_of(page.view, page.assumption),
            views=[(part.view, _named(part)) for part in parts],
            origin=origin_rows(told, bound, to_verify(page.graph.origin)),
        )
    )


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
    if page.assumption == "none" or not page.gossips or page.local_squared is None:
        return None
    return _account(page, page.local_squared.interval, "local DP").epsilon().upper


def _sizes(
    parts: Sequence[PagePart], accounts: Sequence[tuple[Account, str, str]], unconditional: float | None
) -> list[Size]:
    """What stands side by side: the number of each view, and what holds without any assumption."""
    shown = [
        Size.epsilon(
            part.epsilon_upper,
            part.assumption,
            f"{_named(part)}: what {observer if ' ' in observer else f'node {observer}'} can learn about node {target}",
        )
        for part, (_, observer, target) in zip(parts, accounts, strict=True)
    ]
    if unconditional is not None:
        shown.append(Size.epsilon(unconditional, "none", "local DP: whoever sees whatever"))
    return shown


def _question(page: PageDocument) -> str:
    graph = page.graph
    # The sentence stands here that its certificate says, with slopes and levels of noise.
    damped = f", damped by factors of hash {page.damping.hash}" if page.damping else ""
    return (
        f"{graph.nodes} nodes and {graph.edges} edges ({graph.origin}). "
        f"Each round: {page.program}{damped}. Noise multiplier {in_short(page.noise_multiplier)}. "
        f"Protected: {RELATION_SENTENCES[page.relation].rstrip('.')}, participation "
        f"{page.participation}, at δ = {as_given(page.delta)}. "
        f"{page.pairs_computed} of {page.pairs_possible} pairs of observer and target were computed."
    )


def _verdict(page: PageDocument, told: Occasion, unconditional: float | None, noise: str) -> Verdict:
    """Pass or fail against the budget, or that there was none; and `noise`, which says how much would keep it."""
    partly = about_pairs(page.view, page.pairs_computed, page.pairs_possible)
    found = kept(page.epsilon_upper, page.assumption, told.max_epsilon, partly=partly, without=unconditional)
    return found._replace(words=f"{found.words} {noise}".strip())


def _meaning(page: PageDocument, worst: tuple[Account, str, str]) -> str:
    """What the number means as odds."""
    account, _, target = worst
    epsilon, whose = account.epsilon().upper, f"a record of node {target}"
    return odds(epsilon, page.delta, whose, mu=account.mu.upper, bare=account.method == "infinite")


def _named(part: PagePart) -> str:
    """The view, and the exchanges of a round that it is restricted to."""
    return f"{part.view}{seen_part(part.exchanges if isinstance(part.exchanges, tuple) else None)}"
