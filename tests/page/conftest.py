"""A real browser, and pages in it that may neither complain nor ask for anything outside."""

from __future__ import annotations

import shutil
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

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
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
    # Tabs of one window share a process, which has its fonts and scripts read already.
    "--renderer-process-limit=1",
)


class Windows:
    """Windows that tests take turns in: each has a tab of its own, and finds nothing that one before it kept.

    What a test opens first, second and so on stands in different windows, which know nothing of each other.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.kept: dict[tuple[int, str], tuple[BrowserContext, Page]] = {}
        self.used: list[tuple[BrowserContext, Page, str]] = []

    def tab(self, address: str, settings: dict[str, Any]) -> Page:
        """An empty tab for an address."""
        key = len(self.used), repr(sorted(settings.items()))
        if key not in self.kept:
            opened = self.browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
            # A tab that stays keeps the process of its window.
            self.kept[key] = opened, opened.new_page()
        context, first = self.kept[key]
        parts = urlsplit(address)
        self.used.append((context, first, f"{parts.scheme}://{parts.netloc}"))
        return context.new_page()

    def close(self) -> None:
        """Close the tabs of a test and forget what they kept."""
        for context, first, origin in self.used:
            for page in context.pages:
                if page is not first:
                    page.close()
            session = context.new_cdp_session(first)
            session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
            session.detach()
            context.clear_cookies()
        self.used.clear()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window; for one module, since its event loop would stand in the way of others."""
    path = shutil.which("chromium")
    assert path is not None, "the tests of the page need chromium on the PATH (make browser installs it)"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Windows:
    """The windows of a module."""
    return Windows(browser)


@pytest.fixture
def visit(windows: Windows) -> Iterator[Callable[..., Page]]:
    """Open an address in a window of its own; in the end nothing was complained about and nothing fetched elsewhere.

    `expected` are words that a complaint may contain, such as the status of an answer that the test provokes.
    """
    complaints: list[str] = []

    def open_page(address: str, *, expected: tuple[str, ...] = (), **settings: Any) -> Page:
        page = windows.tab(address, settings)
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

    try:
        yield open_page
    finally:
        windows.close()
    assert complaints == []


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server with the limits that it has by itself; what one module asked, another finds answered."""
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
