# SPDX-License-Identifier: Apache-2.0
"""What tests of the served page do on it and read off it, and what the library says to the same."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Error

from sottovoce.accounting import AccountTable, account_all
from sottovoce.cli.printing import rounded_down, rounded_up
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import JSHandle, Page

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
    until(
        page, "document.body.dataset.settled === 'yes' && !document.getElementById('work').checkVisibility()"
    )


def noticed(page: Page) -> None:
    """Wait until the page tells something, and what it speaks of is drawn: that comes with the next frame."""
    until(page, "!document.getElementById('notice').hidden")
    idle(page)


def until(page: Page, expression: str, seconds: float = 60.0) -> None:
    """Wait for an expression to hold.

    The policy of the page forbids it to wait for words; so it is asked with the expression written out, and asked
    again where it was left for another page in between.
    """
    end = time.monotonic() + seconds
    held = f"""async (wait) => {{
      const end = performance.now() + wait;
      while (!(await ({expression}))) {{
        if (performance.now() > end) return false;
        await new Promise((again) => setTimeout(again, 20));
      }}
      return true;
    }}"""
    while True:
        try:
            if page.evaluate(held, 1000):
                return
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
        assert time.monotonic() < end, expression


def opened(visit: Visit, address: str, **settings: Any) -> Page:
    page = visit(address, **settings)
    begun(page)
    return page


def begun(page: Page) -> None:
    """Wait until the page shows its first answer."""
    until(page, "sottovoce.model.document !== null")
    idle(page)


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


def drop(page: Page, name: str, text: str | JSHandle) -> None:
    """Drag a file over the page and let it go; its text may stand in the page already."""
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
