"""Edge lists: what is understood, and the sentence for each kind of mistake."""

from typing import Any

import numpy as np
import pytest

from sottovoce.errors import FileError
from sottovoce.graphs import edgelists
from sottovoce.graphs.edgelists import parse_edges

UNDERSTOOD = [
    ("0 1\n1 2\n", None, range(3), [(0, 1, 1), (1, 2, 1)], False),
    ("# a comment\n\n% another\n  5 6\n6\t7\n", None, range(5, 8), [(0, 1, 1), (1, 2, 1)], False),
    ("10 2\n2 7\n", None, (2, 7, 10), [(0, 2, 1), (0, 1, 1)], False),
    ("b a\na c\n", None, ("b", "a", "c"), [(0, 1, 1), (1, 2, 1)], False),
    # A letter far beyond the tables by which numpy knows digits.
    ("\U000a8177 b\n", None, ("\U000a8177", "b"), [(0, 1, 1)], False),
    ("1 x\nx 2\n", None, ("1", "x", "2"), [(0, 1, 1), (1, 2, 1)], False),
    ("0 1 0.5\n1 2 2e1\n", None, range(3), [(0, 1, 0.5), (1, 2, 20)], True),
    ("a b 0.5\nb c 2\n", None, ("a", "b", "c"), [(0, 1, 0.5), (1, 2, 2)], True),
    ("0 1 {}\n1 2 {}\n", None, range(3), [(0, 1, 1), (1, 2, 1)], False),
    ("0 1 {'weight': 2.0, 'x': 1}\n1 2 {'weight': 3}\n", None, range(3), [(0, 1, 2), (1, 2, 3)], True),
    ("0 1\n1 0\n0 1\n", None, range(2), [(0, 1, 1)], False),
    ("0 1 3\n1 0 3\n", None, range(2), [(0, 1, 3)], True),
    ("0 1 3\n1 2 0\n", None, range(3), [(0, 1, 3)], True),
    ("0 0\n0 1\n", None, range(2), [(0, 0, 1), (0, 1, 1)], False),
    ("99999999999999999999 1\n", None, (1, 99999999999999999999), [(0, 1, 1)], False),
    ("1.5 2\n", None, ("1.5", "2"), [(0, 1, 1)], False),
    ("source target\na b\n", None, ("a", "b"), [(0, 1, 1)], False),
    ("Source,Target,Weight\n0,1,2.5\n", ",", range(2), [(0, 1, 2.5)], True),
    ("weight,target,source\n2,b,a\n", ",", ("a", "b"), [(0, 1, 2)], True),
    ("source,target,year\n0,1,1999\n", ",", range(2), [(0, 1, 1)], False),
    ('"New York", "Bo, ston"\n', ",", ("New York", "Bo, ston"), [(0, 1, 1)], False),
    ("New York\tBoston\t2\n", "\t", ("New York", "Boston"), [(0, 1, 2)], True),
]


@pytest.mark.parametrize(("text", "delimiter", "labels", "entries", "weighted"), UNDERSTOOD)
def test_what_is_understood(
    text: str, delimiter: str | None, labels: Any, entries: Any, weighted: bool
) -> None:
    graph = parse_edges(text, "g.txt", delimiter)
    expected = np.zeros((len(labels),) * 2)
    for i, j, weight in entries:
        expected[i, j] = expected[j, i] = weight
    assert graph.labels == labels
    assert np.array_equal(graph.adjacency.toarray(), expected)
    assert (graph.directed, graph.weighted) == (False, weighted)


@pytest.mark.parametrize("text", ["0 1 2\n1 0 3\n", "0 1 2\n1 0 3\n# x\n"])
def test_directed_edges_go_from_first_to_second(text: str) -> None:
    graph = parse_edges(text, "g.txt", directed=True)
    assert graph.directed
    assert graph.adjacency.toarray().tolist() == [[0, 3], [2, 0]]


EDGE = r"an edge is written as source, target and perhaps a weight; found "
MISTAKES = [
    ("# nothing\n", None, r"^g.txt: the file holds no edges \(write one edge per line, as in: a b\)"),
    ("source,target\n", ",", r"^g.txt: the file holds a header and no edges"),
    ("0 1\n\n2\n", None, rf"^g.txt, line 3: {EDGE}'2' \(correct the line, or start it with #"),
    ("0,1\n2,\n", ",", rf"^g.txt, line 2: {EDGE}'2,'"),
    ("0,1,2,3\n", ",", rf"^g.txt, line 1: {EDGE}'0,1,2,3'"),
    ("a " + "b" * 99 + "\nc\n" + "d" * 99, None, r"line 2.*'c'"),
    ("a b\n" + "d" * 99, None, r"line 2.*'d{57}\.\.\.'"),
    (
        "0 1 2\n1 2\n",
        None,
        r"^g.txt, line 2: all lines must have a weight or none; found '1 2' after lines with one \(complete",
    ),
    ("0 1\n1 2 2\n", None, r"^g.txt, line 2: .*; found '1 2 2' after lines without one"),
    (
        "0 1 2\n1 2 two\n",
        None,
        r"^g.txt, line 2: a weight must be a number; found 'two' \(correct it, or remove",
    ),
    ("0 1 2 3\n", None, r"^g.txt, line 1: a weight must be a number; found '2 3'"),
    ("0 1 {bad\n", None, r"^g.txt, line 1: a weight must be a number; found '{bad'"),
    (
        "#\n0 1 2\n1 2 nan\n",
        None,
        r"^g.txt, line 3: .* a finite number of at least 0; found nan \(correct it, or",
    ),
    ("a b 2\nb c inf\n", None, r"^g.txt, line 2: .* found inf"),
    ("0 1 2\n#\n1 2 -3\n", None, r"^g.txt, line 3: .* found -3"),
    (
        "source,target,weight\n0,1\n",
        ",",
        r"^g.txt, line 2: the header promises 3 columns or more; found '0,1' \(",
    ),
    (
        "a b 2\nb a 3\n",
        None,
        r"^g.txt: an edge must have one weight; 'a' and 'b' have 2 and 3 \(keep one of them, or read the "
        r"file with directed=True\)",
    ),
]


@pytest.mark.parametrize(("text", "delimiter", "sentence"), MISTAKES)
def test_mistakes_are_named_with_file_and_line(text: str, delimiter: str | None, sentence: str) -> None:
    with pytest.raises(FileError, match=sentence):
        parse_edges(text, "g.txt", delimiter)


def test_a_directed_edge_may_not_have_two_weights_either() -> None:
    with pytest.raises(FileError, match=r"'a' and 'b' have 2 and 3 \(keep one of them\)"):
        parse_edges("a b 2\na b 3\n", "g.txt", directed=True)


@pytest.mark.parametrize("columns", [2, 3])
def test_the_vectorised_and_the_patient_reader_agree(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    pairs = np.random.default_rng(0).integers(50, size=(400, 2)).tolist()
    text = "\n".join(
        f"{u} {v} {u * v + u + v}"[: None if columns == 3 else len(f"{u} {v}")] for u, v in pairs
    )
    fast = parse_edges(text, "g.txt")
    monkeypatch.setattr(edgelists, "_whole_number_table", lambda *_: None)
    slow = parse_edges(text, "g.txt")
    assert fast.labels == slow.labels
    assert fast.weighted == slow.weighted == (columns == 3)
    assert (fast.adjacency != slow.adjacency).nnz == 0
    if columns == 2:
        assert fast.edges == len({frozenset(pair) for pair in pairs if pair[0] != pair[1]})


def test_a_name_of_very_many_digits_stays_a_name() -> None:
    name = "9" * 5000
    assert parse_edges(f"{name} 1\n", "long.edges").labels == (name, "1")
