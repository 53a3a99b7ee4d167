# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: built without a warning, found by searching, readable for everyone."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
AXE = ROOT / "tests" / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, whose links and anchors all lead somewhere: else building it fails."""
    built = subprocess.run(
        [sys.executable, "-m", "scripts.site", "--without-pictures"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, site: Path, visit: Callable[..., Page]) -> None:
    for name in ("views", "for-managers"):
        page = visit((site / "docs" / f"{name}.html").as_uri(), color_scheme=scheme)
        page.add_script_tag(path=AXE)
        # What the theme brings along is left to it; what is written here is read.
        found = page.evaluate("axe.run('.md-content', {preload: false})")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
