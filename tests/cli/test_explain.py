# SPDX-License-Identifier: Apache-2.0
"""`sottovoce explain`: every word that answers use, in three sentences."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.explanations import ALIASES, EXPLANATIONS, KINDS
from sottovoce.graphs import as_graph
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
    assert found <= known("method")
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| method |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)`", table, re.MULTILINE)) == known("method")
    assert set(ALIASES.values()) <= {*EXPLANATIONS, *KINDS}
    assert not ALIASES.keys() & EXPLANATIONS.keys()


SHORT = ("--rounds", "4", "--noise-multiplier", "3")
ANSWERS = (
    ("account", "florentine", *SHORT),
    ("account", "florentine", *SHORT, "--view", "everyone"),
    ("account", "florentine", *SHORT, "--view", "secure-sum", "--output", "a.csv"),
    ("account", "florentine", *SHORT, "--view", "secure-sum", "--protocol", "momentum:beta=0.9"),
    ("account", "florentine", *SHORT, "--view", "secure-sum", "--updates", "0.9,1"),
    ("account", "florentine", *SHORT, "--view", "secure-sum", "--damping", "0.9"),
    ("account", "florentine", *SHORT, "--view", "secure-sum", "--participation", "poisson:0.5"),
    ("calibrate", "florentine", "--rounds", "4", "--view", "secure-sum", "--target-epsilon", "1"),
    ("coalition", "florentine", *SHORT, "--target", "Medici", "--size", "2", "--view", "coalition-sums"),
    ("rate", "florentine", "--view", "secure-sum", "--observer", "Medici"),
    ("train", "synthetic", "--graph", "ring:n=4", *SHORT, "--view", "secure-sum", "--output", "r.npz"),
    ("train", "digits", "--graph", "ring:n=4", *SHORT, "--batch-fraction", "0.5"),
    ("train", "digits", "--graph", "ring:n=4", *SHORT, "--batches", "2", "--local-steps", "2"),
)


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_every_row_and_bound_of_an_answer_can_be_asked(
    words: tuple[str, ...], sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    code, out, err = sottovoce(*words)
    assert code == 0, err
    nodes = {"everyone", *map(str, as_graph("florentine").labels), *map(str, range(10))}
    rows = [re.split(r"\s{2,}", line) for line in out.splitlines() if re.search(r"\S\s{2,}\S", line)]
    asked = {row[0] for row in rows} - nodes - {""}
    for row in rows:
        if row[0] in {"target", "bound"}:
            # Names of bounds, or the heading of a table whose columns are called like rows.
            asked |= {word for word in row[1:] if word not in nodes}
        if row[0] == "" and row[1:2] == ["worst"]:
            asked |= set(row[1:])
    assert len(asked) > 8
    for word in sorted(asked):
        assert sottovoce("explain", word.removeprefix("--")).code == 0, word


@pytest.mark.parametrize("word", ["ε", "δ", "μ", "Δ²", "gap", "central", "witness", "exact", "infinite"])
def test_symbols_and_words_of_answers_can_be_asked(word: str, sottovoce: Run) -> None:
    code, out, _ = sottovoce("explain", word)
    assert (code, len(out.splitlines()) > 2) == (0, True)


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
    assert "WORD must be one that answers use; got 'dul' (did you mean dual" in err
