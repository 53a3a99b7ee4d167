"""A real browser, and pages in it that may neither complain nor ask for anything outside."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Error, sync_playwright
from tests.page.acts import begun, opened
from tests.servers import serving

from sottovoce.accounting import account_all
from sottovoce.accounting.curves import table_curves
from sottovoce.documents import occasion, page_document
from sottovoce.graphs import WeightedGraph, as_graph, weights_by_rule
from sottovoce.protocols import gossip
from sottovoce.report import Section, sheet_html, write_report

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize
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
    "--disable-site-isolation-trials",
)
# Everything that a reader may see or set, what is set out of sight, and where the network lies.
LOOK = """() => {
  const fields = [...document.querySelectorAll("input, select, textarea, button")];
  const usual = (each) => each === each.closest("fieldset, div").querySelector("input");
  const moved = (each) => (each.type === "radio" ? each.checked && !usual(each) : each.checked !== each.defaultChecked);
  return JSON.stringify([
    location.hash, document.title, document.body.className, { ...document.documentElement.dataset },
    document.body.innerText,
    fields.filter((each) => each.checkVisibility()).map((each) =>
      [each.id, each.value, each.checked, each.disabled, each.ariaInvalid === "true", each.ariaSelected]),
    fields.filter((each) => !each.checkVisibility() && moved(each)).map(({ id, name, value }) => [id, name, value]),
    [...document.querySelectorAll("details")].map((each) => each.open),
    [scrollX, scrollY, innerWidth, innerHeight, document.activeElement.id],
    sottovoce.network.positionOf(0) ?? null,
  ]);
}"""
# The controls that the address does not speak of, and then the address itself.
BACK = """([link, fields]) => {
  for (const [id, value] of Object.entries(fields)) {
    const field = document.getElementById(id);
    if (field.value === value && field.ariaInvalid !== "true") continue;
    field.value = value;
    for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  }
  for (const each of document.querySelectorAll("details")) each.open = false;
  for (const id of ["exposed-scope", "ranking-scope", "heat-order", "compare-at", "compare-by"]) {
    const first = document.querySelector(`#${id} input`);
    if (first !== null && !first.checked) first.click();
  }
  const budget = document.getElementById("report-budget");
  if (budget.checked) budget.click();
  sottovoce.messages.quiet();
  sessionStorage.clear();
  document.activeElement.blur();
  scrollTo(0, 0);
  document.body.dataset.settled = "no";
  // The address is read again, even if it is the present one.
  if (location.hash === `#${link}`) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = link;
}"""
FIELDS = ("target-epsilon", "find-scope", "noise", "delta")
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


def watched(page: Page, address: str, complaints: list[str], expected: tuple[str, ...] = ()) -> Page:
    """Write down what a page complains about, and what it asks of another place than its own."""
    page.set_default_timeout(15_000)
    home = urlsplit(address)[:2]

    def complain(text: str) -> None:
        if not any(word in text for word in expected):
            complaints.append(text)

    def watch(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"data", "blob"} and parts[:2] != home:
            complaints.append(f"request to {url}")

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            complain(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: complain(str(error)))
    page.on("request", lambda request: watch(request.url))
    return page


class Standing:
    """A page that tests take turns at: each finds it as it was when it was loaded.

    It is led back by its address and its controls. Where that does not bring back all that can be seen, it is loaded.
    """

    def __init__(self, page: Page, address: str, ready: Callable[[Page], None]) -> None:
        self.complaints: list[str] = []
        self.page, self.address, self.ready = watched(page, address, self.complaints), address, ready
        self.link = self.first = ""
        self.fields: dict[str, str] = {}

    def _load(self) -> None:
        self.page.goto("about:blank")
        self.page.goto(self.address)
        self.ready(self.page)
        self.link = urlsplit(self.page.url).fragment
        self.fields = {name: self.page.input_value(f"#{name}") for name in FIELDS}
        self.first = self.page.evaluate(LOOK)

    def again(self) -> Page:
        """The page for another test."""
        if not self.first:
            self._load()
            return self.page
        if self.page.viewport_size != VIEWPORT:
            self.page.set_viewport_size(VIEWPORT)
        self.page.unroute_all()
        self.page.emulate_media(media="null", color_scheme="light")
        self.page.mouse.move(0, 0)
        try:
            self.page.evaluate(BACK, [self.link, self.fields])
            self.ready(self.page)
            led = self.page.evaluate(LOOK) == self.first
        except (Error, AssertionError):
            # A test that failed may leave it anywhere.
            led = False
        if not led:
            self._load()
        return self.page


class Windows:
    """Windows that tests take turns in: each has a tab of its own, and finds nothing that one before it kept.

    What a test opens first, second and so on stands in different windows, which know nothing of each other.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.kept: dict[tuple[int, str], tuple[BrowserContext, Page]] = {}
        self.used: list[tuple[BrowserContext, Page, str]] = []
        self.standing: dict[str, Standing] = {}

    def _window(self, address: str, settings: dict[str, Any]) -> tuple[BrowserContext, Page]:
        key = len(self.used), repr(sorted(settings.items()))
        if key not in self.kept:
            opened = self.browser.new_context(viewport=VIEWPORT, **settings)
            # A tab that stays keeps the process of its window.
            self.kept[key] = opened, opened.new_page()
        parts = urlsplit(address)
        self.used.append((*self.kept[key], f"{parts.scheme}://{parts.netloc}"))
        return self.kept[key]

    def tab(self, address: str, settings: dict[str, Any]) -> Page:
        """An empty tab for an address."""
        return self._window(address, settings)[0].new_page()

    def turn(self, address: str, ready: Callable[[Page], None]) -> Iterator[Page]:
        """The page of an address that stays from test to test; in the end it did not complain either."""
        _, first = self._window(address, {})
        if address not in self.standing:
            self.standing[address] = Standing(first, address, ready)
        standing = self.standing[address]
        try:
            yield standing.again()
        finally:
            self.close()
            complaints = standing.complaints.copy()
            standing.complaints.clear()
        assert complaints == []

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


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, AbstractEventLoop]]:
    """Chromium without a window, and the event loop that speaks to it."""
    path = shutil.which("chromium")
    assert path is not None, "the tests of the page need chromium on the PATH (make browser installs it)"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        loop = asyncio.get_running_loop()
        yield launched, loop
        asyncio._set_running_loop(loop)
        launched.close()


@pytest.fixture(scope="module")
def browser(chromium: tuple[Browser, AbstractEventLoop]) -> Iterator[Browser]:
    """The browser for one module; between them its loop does not count as running, so that tests may run their own."""
    launched, loop = chromium
    asyncio._set_running_loop(loop)
    yield launched
    for context in launched.contexts:
        context.close()
    asyncio._set_running_loop(None)


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
        page = watched(windows.tab(address, settings), address, complaints, expected)
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
def page(windows: Windows, server: Server) -> Iterator[Page]:
    """The served page with its first network, which is led back to it for every test."""
    yield from windows.turn(server.address, begun)


@pytest.fixture
def alone(visit: Callable[..., Page], server: Server) -> Page:
    """The same in a window of its own: for tests that stop requests, load the page again or leave something behind."""
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
        WeightedGraph(graph=graph, weights=families.protocol.weights),
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
