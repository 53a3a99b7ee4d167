# SPDX-License-Identifier: Apache-2.0
"""What tests of the served page do on it and read off it, and what the library says to the same."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from sottovoce.accounting import AccountTable, account_all
from sottovoce.cli.printing import rounded_down, rounded_up
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from sottovoce.accounting import Account

    Visit = Callable[..., Page]


def shown(page: Page) -> tuple[str, str]:
    return page.inner_text("#headline-epsilon"), page.inner_text("#headline-least")


def words(account: Account) -> tuple[str, str]:
    ends = account.epsilon()
    return f"ε ≤ {rounded_up(ends.upper)}", f"at least {rounded_down(ends.lower)}"


def idle(page: Page) -> None:
    """Wait until nothing is computed in the foreground and everything is drawn."""
    page.wait_for_timeout(30)
    page.wait_for_selector("#work", state="hidden", timeout=60_000)
    page.wait_for_selector("body[data-settled=yes]")


def until(page: Page, expression: str, seconds: float = 60.0) -> None:
    """Wait for an expression to hold; the policy of the page forbids it to wait by itself."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def opened(visit: Visit, address: str, **settings: Any) -> Page:
    page = visit(address, **settings)
    until(page, "sottovoce.model.document !== null")
    idle(page)
    return page


@cache
def everyone(
    graph: str = "florentine", rounds: int = 20, view: str = "neighbourhood", **settings: Any
) -> AccountTable:
    protocol = gossip(metropolis_weights(graph), rounds=rounds)
    return account_all(protocol, view, noise_multiplier=4.0, delta=1e-5, **settings)


def looked(page: Page) -> str:
    """The second line: the chosen observer."""
    return page.inner_text("#headline-observer")


def press_node(page: Page, name: str, **settings: Any) -> None:
    place = page.evaluate(
        "(name) => sottovoce.network.positionOf(sottovoce.model.labels.indexOf(name))", name
    )
    page.click("#network", position=place, **settings)


def choose(page: Page, group: str, text: str) -> None:
    page.click(f"#{group} label:has-text('{text}')")


def drop(page: Page, name: str, text: str) -> None:
    """Drag a file over the page and let it go."""
    transfer = page.evaluate_handle(
        "([name, text]) => { const t = new DataTransfer(); t.items.add(new File([text], name)); return t; }",
        [name, text],
    )
    page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
    assert page.is_visible("#drop")
    page.dispatch_event("body", "dragover", {"dataTransfer": transfer})
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    assert page.is_hidden("#drop")


def load(page: Page, spec: str, count: int) -> None:
    """Ask for a network of so many nodes by its name, and wait until it is shown."""
    page.fill("#graph", spec)
    page.click("#load-graph")
    until(page, f"sottovoce.model.labels.length === {count}")
    idle(page)
