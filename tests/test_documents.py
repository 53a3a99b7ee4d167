"""The JSON and CSV forms: what is written is read back as the same numbers, and files appear whole or not."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from sottovoce import documents, graphs, rates
from sottovoce.accounting import AccountTable, account, account_all
from sottovoce.documents import files
from sottovoce.documents.pairs import join_labels, plain_label, split_labels, table_pairs
from sottovoce.errors import FileError, InputError
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.views import View


def table_of(source: str, view: str = "secure-sum") -> AccountTable:
    protocol = gossip(graphs.metropolis_weights(source), rounds=4)
    return account_all(protocol, view, noise_multiplier=3.0, delta=1e-5)


def coalition_table() -> AccountTable:
    protocol = gossip(graphs.metropolis_weights("florentine"), rounds=4)
    view = View.coalition_sums(["Medici", "Pazzi"])
    return account(protocol, view, noise_multiplier=3.0, delta=1e-5)


TABLES = [
    lambda: table_of("ring:n=5"),
    lambda: table_of("florentine", "neighbourhood"),
    lambda: table_of("ring:n=5", "everyone"),
    coalition_table,
]


def json_of(table: AccountTable, source: str = "ring:n=5", pairs_file: str | None = None) -> str:
    graph = graphs.as_graph(source)
    network = graphs.WeightedGraph(graph=graph, weights=graphs.metropolis_weights(graph))
    return documents.as_json(documents.account_document(table, network, pairs_file=pairs_file))


@pytest.mark.parametrize("make", TABLES)
def test_csv_is_read_back_as_the_same_numbers(make: Any, tmp_path: Path) -> None:
    table = make()
    path = documents.write_account_csv([table], tmp_path / "pairs.csv")
    assert documents.read_account_csv(path) == {table.view: list(table_pairs(table))}
    header, first, *_ = path.read_text(encoding="utf-8").splitlines()
    assert header == ",".join(documents.COLUMNS)
    assert repr(float(table.epsilon_upper[0])) == first.split(",")[-2]
    assert first.endswith(f",{table.protocol.weights.origin}")


@pytest.mark.parametrize("make", TABLES)
def test_json_is_read_back_as_the_same_numbers(make: Any, tmp_path: Path) -> None:
    table = make()
    text = json_of(table)
    path = tmp_path / "account.json"
    path.write_text(text, encoding="utf-8")
    for source in (text, path, str(path)):
        document = documents.read_account_json(source)
        assert document.pairs == tuple(table_pairs(table))
        assert document.rounds == 4
        assert document.summary is UNSET
        assert document.worst.epsilon.upper == table.epsilon_upper.max()


def test_a_summary_is_read_back_with_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.documents.accounts.PAIRS_IN_JSON", 3)
    table = table_of("ring:n=5")
    document = documents.read_account_json(json_of(table, pairs_file="rest.csv"))
    assert document.pairs is UNSET
    assert document.pairs_file == "rest.csv"
    assert document.summary is not UNSET
    assert document.summary.worst == document.worst
    assert document.worst.epsilon.upper == table.epsilon_upper.max()
    assert len(document.summary.most_exposed) == 5


def test_infinite_ends_are_null_in_json_and_inf_in_csv(tmp_path: Path) -> None:
    few = table_of("ring:n=5")
    table = replace(
        few,
        observers=[(0,)],
        observer_of=np.array([0]),
        target_indices=np.array([1]),
        squared_lower=np.array([0.0]),
        squared_upper=np.array([math.inf]),
        method=np.array(["none"]),
    )
    text = json_of(table)
    assert "Infinity" not in text
    assert "NaN" not in text
    (pair,) = json.loads(text)["pairs"]
    assert pair["epsilon"] == {"lower": 0.0, "upper": None}
    assert documents.read_account_json(text).worst.epsilon.interval == Interval(0.0, math.inf)
    path = documents.write_account_csv([table], tmp_path / "pairs.csv")
    assert documents.read_account_csv(path)[table.view][0].mu.interval == Interval(0.0, math.inf)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        documents.as_json({"gap": math.nan})


@pytest.mark.parametrize(
    ("label", "plain"),
    [(3, 3), (np.int64(3), 3), ("a", "a"), (1.5, "1.5"), ((0, 1), "(0, 1)"), (True, "True"), (None, "None")],
)
def test_names_are_whole_numbers_or_text(label: Any, plain: int | str) -> None:
    assert plain_label(label) == plain
    assert type(plain_label(label)) is type(plain)


@pytest.mark.parametrize(
    "labels", [(), (3,), ("a", "b"), ("a;b", "c"), ("back\\slash", ";"), (-7, "007", "+1", 0), ("ä, ö",)]
)
def test_names_survive_in_one_field(labels: tuple[int | str, ...]) -> None:
    assert split_labels(join_labels(labels)) == labels


FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "-x",
    "@SUM(A1)",
    "\tcmd",
    "\r=1",
    "'=1+1",
    "''+x",
    "d'Este",
    "'quoted'",
    "-",
    "a;=b",
)


def test_no_cell_is_a_formula_and_names_come_back(tmp_path: Path) -> None:
    ring = graphs.as_graph(f"ring:n={len(FORMULAS)}")
    named = graphs.Graph(
        adjacency=ring.adjacency, labels=FORMULAS, directed=False, weighted=False, name="=cmd.csv"
    )
    protocol = gossip(graphs.metropolis_weights(named), rounds=2)
    table = account_all(protocol, "secure-sum", noise_multiplier=2.0, delta=1e-5)
    path = documents.write_account_csv([table], tmp_path / "pairs.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        cells = {cell for row in csv.reader(stream) for cell in row}
    assert not {cell for cell in cells if cell[0] in "=+-@\t\r"}
    assert {"'=1+1", "'-1", "''=1+1", "d'Este", r"a\;=b"} <= cells
    found = documents.read_account_csv(path)["secure-sum"]
    assert [(pair.observer, pair.target) for pair in found] == [
        (pair.observer, pair.target) for pair in table_pairs(table)
    ]


def test_whole_numbers_below_0_stay_numbers() -> None:
    assert join_labels((-3, -4)) == "-3;-4"
    assert split_labels("-3;'-4") == (-3, "-4")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the first line must be view,observer,target,"),
        ("a,b\n1,2\n", "the first line must be view,observer,target,"),
        (",".join(documents.COLUMNS) + "\n1,2,3\n", "line 2: expected 11 fields"),
        (
            ",".join(documents.COLUMNS) + "\neveryone,0,1,2,1,abs,0,1,0,1,as given\n",
            "an interval needs lower ≤ upper",
        ),
        (
            ",".join(documents.COLUMNS) + "\neveryone,0,1,x,1,abs,0,1,0,1,as given\n",
            "could not convert string to float",
        ),
    ],
)
def test_a_csv_file_of_another_kind_is_refused(content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileError, match=sentence):
        documents.read_account_csv(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "an account is a JSON file; this is not JSON"),
        ("{}", "an account of schema 2 was expected"),
        ('{"kind": "account", "schema": 1}', "an account of schema 2 was expected"),
        ('{"kind": "rate", "schema": 2}', "an account of schema 2 was expected"),
        ('{"kind": "account", "schema": 2}', "an account lacks the field version"),
    ],
)
def test_json_of_another_kind_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(FileError, match=sentence):
        documents.read_account_json(text)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("pairs", 3, "pairs must be a list; got 3"),
        ("pairs", [{}], r"pairs\[0\] lacks the field observer"),
        ("worst", {}, "worst lacks the field observer"),
        ("delta", "1e-5", "delta must be a number; got '1e-5'"),
        ("more", 1, "an account has an unknown field more"),
        ("mu", {"lower": 2.0, "upper": 1.0}, r"worst.mu: an interval needs lower ≤ upper; got \[2.0, 1.0\]"),
        ("mu", {"lower": None, "upper": 1.0}, r"worst.mu: an interval needs lower ≤ upper; got \[inf, 1.0\]"),
        ("mu", {"lower": 0.0, "upper": "1"}, "worst.mu.upper must be a number or null; got '1'"),
        ("mu", {"lower": True, "upper": 1}, "worst.mu.lower must be a number or null; got True"),
    ],
)
def test_what_is_amiss_in_an_account_is_said(place: str, value: Any, sentence: str) -> None:
    whole = json.loads(json_of(table_of("ring:n=5")))
    (whole["worst"] if place == "mu" else whole)[place] = value
    with pytest.raises(FileError, match=f"JSON text: {sentence}"):
        documents.read_account_json(json.dumps(whole))


def test_a_table_of_rates_finds_its_telling_pairs() -> None:
    weights = graphs.metropolis_weights("path:n=4")
    found = [rates.rate(weights, View.secure_sum(node)) for node in (2, 0)]
    table = rates.RateTable(found=found)
    pairs = list(table)
    uppers = [pair.rate.upper for pair in pairs]
    assert len(table) == len(pairs) == 6
    assert [pair.observer for pair in pairs] == [(2,)] * 3 + [(0,)] * 3
    assert [pair.target for pair in pairs] == [0, 1, 3, 1, 2, 3]
    assert [table[place] for place in range(6)] == pairs
    assert table.worst() == pairs[uppers.index(max(uppers))]
    assert table.best() == pairs[uppers.index(min(uppers))]
    assert table.median().rate.upper == sorted(uppers)[2]
    exposed = table.most_exposed(3)
    assert exposed[0] == table.worst()
    assert len({pair.target for pair in exposed}) == 3
    for pair in exposed:
        assert pair.rate.upper == max(each.rate.upper for each in pairs if each.target == pair.target)
    with pytest.raises(InputError, match="a table of rates must hold at least one pair; got none"):
        rates.RateTable(found=[])


def test_participation_is_written_and_read_back() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=4)
    settings: Any = {"noise_multiplier": 3.0, "delta": 1e-5}
    table = account(protocol, View.secure_sum(0), participation="separated:2,at-most=2", **settings)
    document = documents.read_account_json(json_of(table))
    assert document.participation == "separated:2,at-most=2"
    assert documents.read_account_json(json_of(table_of("ring:n=5"))).participation == "full"


@pytest.mark.parametrize("read", [documents.read_account_csv, documents.read_account_json])
def test_a_file_that_is_not_there_is_refused(read: Any, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        read(tmp_path / "nowhere")


def test_a_pair_needs_its_sensitivity() -> None:
    ring = table_of("ring:n=5").worst()
    sum_of_unlike = ring + AccountTable.with_noise(table_of("ring:n=5"), 5.0).worst()
    with pytest.raises(InputError, match="this account has none"):
        documents.pairs.account_pair(sum_of_unlike, 1e-5)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("old", encoding="utf-8")

    def chunks() -> Any:
        yield "new"
        raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match="cannot be written there: No space left on device"):
        files.write_whole(chunks(), tmp_path, lambda _: "pairs.csv")
    assert path.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["pairs.csv"]


def test_an_interrupted_write_leaves_no_draft(tmp_path: Path) -> None:
    def chunks() -> Any:
        yield "new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_whole(chunks(), tmp_path, lambda _: "pairs.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "pairs.csv"
    link.symlink_to(tmp_path / "real" / "there.csv")
    documents.write_account_csv([table_of("ring:n=5")], link)
    assert link.is_symlink()
    assert len(documents.read_account_csv(tmp_path / "real" / "there.csv")["secure-sum"]) == 20


def test_a_file_named_by_its_content_is_the_same_each_time(tmp_path: Path) -> None:
    first = documents.write_named_account_csv([table_of("ring:n=5")], tmp_path)
    again = documents.write_named_account_csv([table_of("ring:n=5")], tmp_path)
    other = documents.write_named_account_csv([table_of("ring:n=6")], tmp_path)
    assert first == again != other
    assert len(first.stem.removeprefix("sottovoce-pairs-")) == 12


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("pairs.txt", "ends in .csv"),
        ("missing/pairs.csv", "there is no directory"),
        ("folder.csv", "not a file"),
    ],
)
def test_a_place_for_no_file_is_refused_before_the_work(name: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match=sentence):
        documents.check_csv_path(tmp_path / name)


@pytest.mark.parametrize("name", ["graph.edgelist", "graph.graphml"])
@pytest.mark.parametrize("source", ["karate", "florentine", "grid:rows=2,cols=3"])
def test_a_written_graph_is_read_back_as_the_same(source: str, name: str, tmp_path: Path) -> None:
    graph = graphs.as_graph(source)
    again = graphs.as_graph(documents.write_graph(graph, tmp_path / name))
    order = [again.index(str(label)) for label in graph.labels]
    assert (again.adjacency[order][:, order] != graph.adjacency).nnz == 0
    assert not again.directed


def test_directions_need_graphml(tmp_path: Path) -> None:
    graph = graphs.as_graph(np.array([[0, 0, 1.0], [2.0, 0, 0], [0, 1.0, 0]]))
    assert graph.directed
    with pytest.raises(FileError, match="holds plain undirected edges, not directions or weights"):
        documents.write_graph(graph, tmp_path / "graph.edgelist")
    again = graphs.as_graph(documents.write_graph(graph, tmp_path / "graph.graphml"))
    assert again.directed
    assert (again.adjacency != graph.adjacency).nnz == 0


def test_names_with_blanks_need_graphml(tmp_path: Path) -> None:
    graph = graphs.Graph(
        adjacency=np.array([[0, 1], [1, 0]]), labels=["New York", "Rome"], directed=False, weighted=False
    )
    with pytest.raises(FileError, match="not the name 'New York'"):
        documents.write_graph(graph, tmp_path / "graph.edgelist")


def test_any_name_and_any_weight_survives_in_graphml(tmp_path: Path) -> None:
    names = ['"A" & <B>', "it's", "ünal\tof Rome", "4"]
    matrix = np.zeros((4, 4))
    matrix[1, 0], matrix[2, 1], matrix[3, 2], matrix[0, 3] = 1 / 3, 1e-300, 2.0, 0.1
    graph = graphs.Graph(adjacency=matrix, labels=names, directed=True, weighted=True)
    again = graphs.as_graph(documents.write_graph(graph, tmp_path / "graph.graphml"))
    order = [again.index(name) for name in names]
    assert again.weighted
    assert (again.adjacency.toarray()[np.ix_(order, order)] == matrix).all()
