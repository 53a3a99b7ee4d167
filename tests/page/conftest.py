"""A real browser, and pages in it that may neither complain nor ask for anything outside."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright
from tests.page.acts import opened
from tests.servers import serving

from sottovoce.accounting import account_all
from sottovoce.accounting.curves import table_curves
from sottovoce.documents import occasion, page_document
from sottovoce.graphs import as_graph, spectrum, weights_by_rule
from sottovoce.protocols import gossip
from sottovoce.report import Section, sheet_html, write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, ConsoleMessage, Page
    from tests.servers import Server

    from sottovoce.accounting import AccountTable

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window; for one module, since its event loop would stand in the way of others."""
    path = shutil.which("chromium")
    assert path is not None, "the tests of the page need chromium on the PATH (make browser installs it)"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open an address in a window of its own; in the end nothing was complained about and nothing fetched elsewhere.

    `expected` are words that a complaint may contain, such as the status of an answer that the test provokes.
    """
    with ExitStack() as stack:
        complaints: list[str] = []

        def open_page(address: str, *, expected: tuple[str, ...] = (), **settings: Any) -> Page:
            context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(15_000)
            home = urlsplit(address).netloc

            def complain(text: str) -> None:
                if not any(word in text for word in expected):
                    complaints.append(text)

            def watch(url: str) -> None:
                parts = urlsplit(url)
                if parts.scheme not in {"data", "blob"} and (parts.scheme, parts.netloc) != (
                    urlsplit(address).scheme,
                    home,
                ):
                    complaints.append(f"request to {url}")

            def listen(message: ConsoleMessage) -> None:
                if message.type == "error":
                    complain(message.text)

            page.on("console", listen)
            page.on("pageerror", lambda error: complain(str(error)))
            page.on("request", lambda request: watch(request.url))
            page.goto(address)
            return page

        yield open_page
        assert complaints == []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with the limits that it has by itself."""
    with serving() as found:
        yield found


@pytest.fixture
def page(visit: Callable[..., Page], server: Server) -> Page:
    """The served page with its first network, in a window of its own."""
    return opened(visit, server.address)


@pytest.fixture(scope="session")
def families() -> AccountTable:
    """What every one of the Florentine families learns about every other."""
    weights = weights_by_rule("florentine", "metropolis")
    return account_all(gossip(weights, rounds=20), "secure-sum", noise_multiplier=4.0, delta=1e-5)


@pytest.fixture(scope="session")
def families_report(families: AccountTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of these accounts."""
    graph = as_graph("florentine")
    document = page_document(
        families,
        graph,
        spectrum(families.protocol.weights),
        curves=table_curves(families, most_pairs=300),
        occasion=occasion("sottovoce account florentine", [], 5.0),
    )
    sections = [
        Section(heading="Summary", text="ε ≤ 4.934 <b>bold</b>", columns=("a", "b"), rows=[(1, "</script>")])
    ]
    path = tmp_path_factory.mktemp("report") / "families.html"
    return write_report(
        path,
        title="Families & friends",
        account=document,
        first_page=sheet_html(document),
        sections=sections,
    )
