# SPDX-License-Identifier: Apache-2.0
"""The list of statements names what exists, agrees with the docstrings, and is what docs/paper.md shows."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from sottovoce import theory
from sottovoce.studies import STUDIES

PAPER = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells
    for line in PAPER.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("| ").split(" | ")]) == 5
}
FUNCTIONS = [name for name in theory.__all__ if inspect.isfunction(getattr(theory, name))]


def named(path: str) -> Any:
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"sottovoce.{part}")
    return found


@pytest.mark.parametrize("statement", theory.STATEMENTS, ids=lambda statement: statement.number)
def test_every_statement_is_computed_and_on_the_map(statement: theory.Statement) -> None:
    docstrings = [inspect.getdoc(named(path)) or "" for path in statement.functions]
    assert all(docstrings)
    row = ROWS[statement.number]
    assert row[2].startswith(statement.status)
    assert set(re.findall(r"`(sottovoce[\w.]*)`", row[3])) == set(statement.functions)
    assert re.search(r"`tests/[\w/]+\.py(::\w+)?`", row[4])
    assert bool(statement.erratum) == ("erratum" in row[2]), row[2]
    if statement.status == "does not hold":
        assert any(re.search(r"Status:[^.]*does not hold", text, re.DOTALL) for text in docstrings)
    if statement.erratum:
        letters = statement.erratum.split(", ")
        assert {f"errata-{letter}" for letter in letters} <= {study.name for study in STUDIES}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_closed_form_says_number_status_and_guarantee(name: str) -> None:
    text = inspect.getdoc(getattr(theory, name)) or ""
    for heading in ("Guarantee:", "Status:", "Source:", ">>> "):
        assert heading in text
    assert f"sottovoce.theory.{name}" in PAPER


def test_numbers_are_unique_and_the_map_has_no_others() -> None:
    numbers = [statement.number for statement in theory.STATEMENTS]
    assert len(numbers) == len(set(numbers))
    assert set(ROWS) - {"statement", "---"} == set(numbers)
