# SPDX-License-Identifier: Apache-2.0
"""Lets every test import what tests share as `tests.…`, however pytest was started, and tries laws as they say."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

sys.path.insert(0, str(Path(__file__).parent.parent))
importlib.import_module("tests.profiles")


@pytest.fixture(scope="session", autouse=True)
def together(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let workers of one run make once what several of them need."""
    from tests.once import meet

    if "PYTEST_XDIST_WORKER" in os.environ:
        meet(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report of each kind, by the command that wrote it."""
    from tests.once import once

    return once("reports", lambda: written(tmp_path_factory.mktemp("reports")))


def written(folder: Path) -> dict[str, Path]:
    from sottovoce.cli import main

    view, ring = ["--view", "secure-sum"], ["ring:n=5", "--rounds", "6"]
    pair = ["--observer", "0", "--target", "2", "--noise-multiplier", "4"]
    file, pairs = str(folder / "certificate.json"), str(folder / "pairs")
    assert main(["sweep", *ring, *view, "--output", pairs]) == 0
    train = [
        "breast-cancer",
        "--graph",
        "ring:n=5",
        "--rounds",
        "8",
        *view,
        "--target-epsilon",
        "4",
        "--seed",
        "1",
    ]
    words = {
        "account": [*ring, "--noise-multiplier", "4", "--max-epsilon", "3"],
        "calibrate": [*ring, *view, "--target-epsilon", "1"],
        "coalition": [
            *ring,
            "--view",
            "coalition-sums",
            "--target",
            "2",
            "--size",
            "2",
            "--noise-multiplier",
            "4",
        ],
        "audit": [*ring, *view, *pair, "--trials", "200", "--seed", "1"],
        "certify": [*ring, *view, *pair, "--output", file],
        "verify": [file, "--graph", "ring:n=5"],
        "rate": ["ring:n=5", *view],
        "summary": [pairs, "--noise-multiplier", "4", "--max-epsilon", "0.5"],
        "train": train,
        "compare": ["ring:n=5", "star:n=6", "--rounds", "6", *view, "--noise-multiplier", "4"],
        "frontier": [
            "breast-cancer",
            "--graph",
            "star:n=3",
            "--rounds",
            "3",
            "--epsilons",
            "1,8",
            "--step",
            "1",
            "--repeats",
            "1",
        ],
    }
    codes = {"summary": 3}
    for command, rest in words.items():
        report = str(folder / f"{command}.html")
        assert main([command, *rest, "--report", report]) == codes.get(command, 0), command
    from sottovoce.studies import catalogue

    paper = folder / "paper"
    with pytest.MonkeyPatch.context() as patch:
        few = tuple(study for study in catalogue.STUDIES if study.name == "errata-g")
        patch.setattr(catalogue, "STUDIES", few)
        report = str(folder / "reproduce.html")
        assert main(["reproduce", "errata", "--quick", "--output", str(paper), "--report", report]) == 0
    return {command: folder / f"{command}.html" for command in (*words, "reproduce")}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctests in tests."""
    return [each for each in (yield) if type(each) is pytest.Module]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs in a browser, however it comes by it."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
