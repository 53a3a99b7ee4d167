# SPDX-License-Identifier: Apache-2.0
"""axe-core finds nothing to complain about, in either theme and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

AXE = (Path(__file__).parents[1] / "vendor" / "axe.min.js").read_text(encoding="utf-8")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def violations(page: Page) -> list[str]:
    """What axe-core finds, in words."""
    if not page.evaluate("'axe' in globalThis"):
        page.evaluate(AXE)
    found = page.evaluate(
        "axe.run(document, { preload: false, resultTypes: ['violations'] }).then(({ violations }) => violations)"
    )
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes'][:4]]}" for each in found]


def test_the_report_is_accessible_and_nothing_runs_off_a_phone(
    visit: Callable[..., Page], families_report: Path
) -> None:
    page = visit(families_report.as_uri())
    page.click("#curves summary")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(200)
            page.wait_for_selector("body[data-settled=yes]")
            assert violations(page) == [], (width, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_does_find_faults(visit: Callable[..., Page], families_report: Path) -> None:
    page = visit(families_report.as_uri())
    page.evaluate("document.body.append(document.createElement('button'))")
    assert any(each.startswith("button-name") for each in violations(page))
