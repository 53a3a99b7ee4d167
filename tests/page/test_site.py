# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built without a warning, found by searching, readable for everyone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page
from tests.once import once

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
AXE = ROOT / "tests" / "vendor" / "axe.min.js"

# One page of each kind is read whole and in both themes: prose, code, tables and drawings, a proof, the reference.
KINDS = {"index", "learning", "protocols", "cut", "reference"}
WHOLE = "axe.run({preload: false, resultTypes: ['violations']})"
# The frame is the same on every page, and entries of the reference are all drawn as its first.
CONTENT = "axe.run({include: ['.md-content', '.md-sidebar--secondary']}, {preload: false, resultTypes: ['violations']})"
# Between the themes colours differ and nothing else.
COLOURS = "axe.run({preload: false, runOnly: ['color-contrast'], resultTypes: ['violations']})"
# Axe walks what it is told to leave out, so the other entries are taken out and put back. Words of code that are marked
# alike look alike: of those under one parent's marks the first stays marked, and the others stand as text meanwhile.
APART = """(() => {
  const seen = new Set();
  const again = (each) => {
    const marks = `${each.parentElement.className}/${each.className}`;
    return seen.size === seen.add(marks).size;
  };
  const words = [...document.querySelectorAll('.highlight code span[class]:not(:has(*))')].filter(again);
  const entries = [...document.querySelectorAll('.doc-object ~ .doc-object')];
  const swap = (each, place) => (each.replaceWith(place), () => place.replaceWith(each));
  globalThis.apart = [
    ...entries.map((each) => swap(each, document.createComment(''))),
    ...words.map((each) => swap(each, document.createTextNode(each.textContent))),
  ];
})()"""


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, whose links and anchors all lead somewhere: else building it fails.

    Tests that run side by side share one: building it again would take it from under the other.
    """
    return once("site", build)


def build() -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.site", "--without-pictures"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return SITE


def test_every_document_is_a_page_of_the_site(site: Path) -> None:
    pages = {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")}
    documents = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    assert documents <= pages
    entry = (site / "index.html").read_text(encoding="utf-8")
    for door in ("Researcher", "Engineer", "Reviewer", "Contributor"):
        assert door in entry


def test_the_reference_shows_what_the_library_promises(site: Path) -> None:
    text = (site / "docs" / "reference.html").read_text(encoding="utf-8")
    for name in ("account_all", "calibrate", "Scenario", "verify"):
        assert f'id="sottovoce.{name}"' in text
    assert "Guarantee" in text


def test_it_asks_nothing_of_a_network_and_can_be_searched(site: Path, visit: Callable[..., Page]) -> None:
    page = visit((site / "docs" / "index.html").as_uri())
    page.wait_for_function("window.__search || document.readyState === 'complete'")
    page.keyboard.press("/")
    page.keyboard.type("coalition")
    page.wait_for_selector(".md-search-result__item", timeout=60_000)
    assert "coalition" in page.inner_text(".md-search-result__list").lower()


def test_every_page_is_for_everyone(site: Path, visit: Callable[..., Page]) -> None:
    """Axe finds nothing, and on a phone nothing is wider than the screen."""
    page = visit((site / "index.html").as_uri(), color_scheme="light")
    pages = sorted(site.rglob("*.html"))
    assert {path.stem for path in pages} >= KINDS
    for path in pages:
        page.goto(path.as_uri())
        assert _found(page, WHOLE if path.stem in KINDS - {"reference"} else CONTENT) == [], path.name
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path.name
        page.set_viewport_size({"width": 1280, "height": 900})


def test_every_kind_of_page_is_for_everyone_in_the_dark(site: Path, visit: Callable[..., Page]) -> None:
    page = visit((site / "index.html").as_uri(), color_scheme="dark")
    for path in (each for each in site.rglob("*.html") if each.stem in KINDS):
        page.goto(path.as_uri())
        assert page.evaluate("document.body.dataset.mdColorScheme") == "slate"
        assert _found(page, COLOURS) == [], path.name


def _found(page: Page, question: str) -> list[tuple[str, str]]:
    """What axe finds, each with where."""
    page.add_script_tag(url=AXE.as_uri())
    page.evaluate(APART)
    found = page.evaluate(f"{question}.then(({{ violations }}) => violations)")
    page.evaluate("apart.forEach((back) => back())")
    return [(each["id"], each["nodes"][0]["html"]) for each in found]
