# SPDX-License-Identifier: Apache-2.0
"""`sottovoce explain`: every word that answers use, in three sentences."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sottovoce.explanations import EXPLANATIONS, KINDS
from sottovoce.views import ASSUMPTIONS, VIEW_NAMES

Run = Callable[..., Any]
ROOT = Path(__file__).parents[2]


def methods_in_the_sources() -> set[str]:
    """The words that sources give to something called `method`."""
    rooms = ("sensitivities", "feedback", "rates", "accounting")
    found = set()
    for path in (path for room in rooms for path in (ROOT / "src" / "sottovoce" / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given: list[ast.expr] = []
            if (isinstance(node, ast.keyword) and node.arg == "method") or (
                isinstance(node, ast.Assign) and "method" in ast.unparse(node.targets[0]).split("[")
            ):
                given = [node.value]
            found |= {
                word.value
                for value in given
                for word in ast.walk(value)
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            }
    return {word for word in found if re.fullmatch("[a-z-]{3,}", word)}


def test_every_view_assumption_and_bound_is_explained() -> None:
    def known(kind: str) -> set[str]:
        return {name for name, each in EXPLANATIONS.items() if each.kind == kind}

    assert known("view") == set(VIEW_NAMES)
    assert known("assumption") == set(ASSUMPTIONS)
    found = methods_in_the_sources()
    assert {"cap", "abs", "peak", "shift", "unreached"} <= found
    assert found - {"infinite"} <= known("method")


def test_an_explanation_is_three_sentences_and_leads_on() -> None:
    for name, each in EXPLANATIONS.items():
        assert all(sentence.endswith(".") for sentence in each.sentences), name
        file, anchor = each.read_on.split("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, name


def test_a_word_a_kind_or_everything_can_be_asked(sottovoce: Run) -> None:
    out = sottovoce("explain", "smooth").out
    assert out.startswith("smooth: what a guarantee rests on\nEvery node updates what it received")
    of_kind = sottovoce("explain", "view").out
    assert all(f"{name}: what an observer sees" in of_kind for name in VIEW_NAMES)
    tree = of_kind.partition("\n\n")[0]
    assert all(name in tree for name in VIEW_NAMES if name != "custom")
    asked = re.findall(r"^\d\. (.*\?)", tree.replace(".  ", ". "), re.MULTILINE)
    words = (ROOT / "docs" / "views.md").read_text(encoding="utf-8")
    assert [each.removesuffix("?") in words for each in asked] == [True] * 5
    assert "Which view applies?" not in out
    everything = sottovoce("explain").out
    assert all(name in everything for name in (*KINDS, *EXPLANATIONS))
    document = json.loads(sottovoce("explain", "--json").out)
    assert list(document) == list(EXPLANATIONS)
    code, _, err = sottovoce("explain", "dul")
    assert code == 2
    assert "dual" in err
