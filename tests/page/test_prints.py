# SPDX-License-Identifier: Apache-2.0
"""Reports of each kind on paper, on a phone and to whoever cannot see them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.page.conftest import VIEWPORT, watched
from tests.page.test_accessibility import violations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.page.conftest import Windows

SIGNED = ("account", "calibrate", "coalition", "audit", "certify", "verify", "rate", "summary", "train")
KINDS = (*SIGNED, "compare", "frontier", "reproduce")
MARGIN = 14 / 25.4 * 72
# Numbers that stand on two lines, each with the words around it.
BROKEN = r"""() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (["SCRIPT", "STYLE"].includes(node.parentElement.tagName)) continue;
    for (const number of node.data.matchAll(/(?<![\w.])\d[\d.]*(?:e[-+]?\d+|(?:-\d+){2})(?!\w)/g)) {
      const range = document.createRange();
      range.setStart(node, number.index);
      range.setEnd(node, number.index + number[0].length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) found.push(`${number[0]} in ${node.data.slice(0, 60)}`);
    }
  }
  return found;
}"""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def settle(page: Page) -> None:
    page.wait_for_timeout(150)
    page.wait_for_selector("body[data-settled=yes], body.no-account")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of report; what is asked of one is asked while it is open."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def opened(kind: str, windows: Windows, reports: dict[str, Path]) -> Iterator[Page]:
    """The report of a kind, which complains about nothing."""
    complaints: list[str] = []
    address = reports[kind].as_uri()
    page = watched(windows.tab(address, {}), address, complaints)
    page.goto(address)
    yield page
    windows.close()
    assert complaints == []


@pytest.fixture
def page(opened: Page) -> Page:
    """The same as at first: in a wide window, in light."""
    opened.set_viewport_size(VIEWPORT)
    opened.emulate_media(color_scheme="light", media="null")
    settle(opened)
    return opened


def test_a_report_is_accessible_in_both_themes_and_fits_a_phone(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert violations(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for width in range(320, 391, 5):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate(BROKEN) == [], f"numbers that {width} pixels break in two"
    empty = page.evaluate(
        "[...document.querySelectorAll('.empty')].filter((e) => e.checkVisibility()).length"
    )
    assert empty == 0, "a panel says that it holds nothing"


def printed(pdf: Path) -> list[str]:
    """What stands on each sheet."""
    tool = shutil.which("pdftotext")
    assert tool is not None, "the tests of prints need pdftotext (make browser installs it)"
    run = subprocess.run([tool, "-layout", str(pdf), "-"], check=True, capture_output=True, text=True)
    return run.stdout.split("\f")[:-1]


def edges(pdf: Path) -> list[tuple[float, float, float, str]]:
    """Each word with its left and right end, and how wide its sheet is."""
    tool = shutil.which("pdftotext")
    assert tool is not None
    text = subprocess.run([tool, "-bbox", str(pdf), "-"], check=True, capture_output=True, text=True).stdout
    found, width = [], 0.0
    for line in text.splitlines():
        if sheet := re.search(r'<page width="([\d.]+)"', line):
            width = float(sheet[1])
        elif word := re.search(r'<word xMin="([\d.-]+)".*xMax="([\d.-]+)"[^>]*>(.*)</word>', line):
            found.append((float(word[1]), float(word[2]), width, word[3]))
    return found


def test_a_print_holds_every_number_of_the_page_and_nothing_is_cut(
    kind: str, page: Page, tmp_path: Path
) -> None:
    pdf = tmp_path / f"{kind}.pdf"
    page.pdf(path=pdf, prefer_css_page_size=True)
    page.emulate_media(media="print")
    shown = page.evaluate(
        "[...document.querySelectorAll('#sheet, .lead, main, #sections')].filter((e) => e.checkVisibility())"
        ".map((e) => e.innerText).join(' ') + [...document.querySelectorAll('.chart text')]"
        ".map((e) => ' ' + e.textContent).join('')"
    )
    headings = page.evaluate(
        "[...document.querySelectorAll('h2')].filter((e) => e.checkVisibility()).map((e) => e.textContent)"
    )
    sheets = printed(pdf)
    assert 1 <= len(sheets) <= 12
    on_paper = "".join("".join(sheets).split())
    numbers = set(NUMBER.findall(shown))
    assert len(numbers) > 10
    # A hash may go on in the next line; so lines are joined before it is looked for.
    missing = [number for number in numbers if number not in on_paper]
    assert missing == []
    assert ("Signature" in sheets[0]) == (kind in SIGNED), "the first page is one sheet"
    for left, right, width, word in edges(pdf):
        assert left >= MARGIN - 2, word
        assert right <= width - MARGIN + 2, word
    for sheet in sheets:
        last = next((line.strip() for line in reversed(sheet.splitlines()) if line.strip()), "")
        assert last not in headings, "a heading stands alone at the end of a sheet"
