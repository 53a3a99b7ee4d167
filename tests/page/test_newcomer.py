# SPDX-License-Identifier: Apache-2.0
"""The report that `make demo` ends in, as a newcomer meets it: five answers on the first two screens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.cli import main
from sottovoce.cli.printing import rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from playwright.sync_api import Page

SCREENS = 2
HEIGHT = 800


def demo() -> list[str]:
    """The words of the command that `make demo` runs."""
    recipe = (Path(__file__).parent.parent.parent / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^demo:.*\n\t\$\(BIN\)/sottovoce (.*)$", recipe, re.MULTILINE)
    assert found is not None
    return shlex.split(found[1])


def test_the_demo_answers_within_two_screens(
    visit: Callable[..., Page],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = demo()
    assert words[-2:] == ["--report", "demo.html"]
    assert main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    page = visit((tmp_path / "demo.html").as_uri())
    page.set_viewport_size({"width": 1280, "height": HEIGHT})
    page.wait_for_selector("body[data-settled=yes]")
    seen = page.evaluate(
        """(bottom) => [...document.querySelectorAll("#sheet p, #sheet li")]
            .filter((each) => each.checkVisibility() && each.getBoundingClientRect().bottom + scrollY <= bottom)
            .map((each) => each.innerText).join("\\n")""",
        SCREENS * HEIGHT,
    )
    # How private the worst node is, against whom, and what secure sums would change: as the command line says it.
    worst = re.search(
        r"(ε ≤ [\d.]+) at .*? node (\w+) can learn most, about node (\w+)\. Secure sums would", told
    )
    assert worst is not None
    assert worst[1] in seen
    assert f"neighbourhood: what node {worst[2]} can learn about node {worst[3]}" in seen
    sums = re.search(r"Secure sums would give (ε ≤ [\d.]+[0-9])", told)
    assert sums is not None
    assert sums[1] in seen
    assert "secure-sum: what node " in seen
    # Under which assumption, and what there is without one.
    assert "assuming oblivious" in seen
    assert "without any assumption" in seen
    # How much noise keeps ε at 1: as calibrate says it.
    noise = []
    for view in ("neighbourhood", "secure-sum"):
        assert (
            main(["calibrate", words[1], *words[2:4], "--view", view, "--target-epsilon", "1", "--json"]) == 0
        )
        enough = re.search(r'"noise_multiplier": ([\d.]+)', capsys.readouterr().out)
        assert enough is not None
        noise.append(f"{rounded_up(float(enough[1]), 5)} in the view {view}")
    assert f"For ε ≤ 1 it takes a noise multiplier of {'; '.join(noise)}." in seen
