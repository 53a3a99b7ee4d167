"""`sottovoce rate`: what a person sees, what JSON and CSV hold."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import __version__, graphs, rates
from sottovoce.cli.printing import rounded_up
from sottovoce.documents.csv_tables import RATE_COLUMNS
from sottovoce.views import VIEW_NAMES, View

Run = Callable[..., Any]
LOOSE = ("rate", "ring:n=5")
RING = (*LOOSE, "--view", "secure-sum")


def test_what_a_person_sees(sottovoce: Run) -> None:
    code, out, err = sottovoce(*RING)
    found = rates.rate(graphs.metropolis_weights("ring:n=5"), View.secure_sum(0))
    assert (code, err) == (0, "")
    worst = rounded_up(float(found.upper.max()))
    assert out.startswith(f"In the long run Δ² grows by at most {worst} a round: of 20 pairs, node ")
    assert max(map(len, out.splitlines())) <= 80
    for phrase in (
        "worst",
        "median",
        "best",
        "frequency   3.142",
        "constant    0.25",
        "average     1/4 ≈ 0.25",
        "a finite T can give more",
        "secure-sum, own noise known; 20 pairs",
        "oblivious: contributions are fixed in advance",
    ):
        assert phrase in out


def test_one_pair_and_a_file(sottovoce: Run, tmp_path: Path) -> None:
    pair = ("--view", "secure-sum", "--observer", "Medici", "--target", "Pazzi")
    words = ("rate", "florentine", *pair, "--output", "rates.csv")
    code, out, _ = sottovoce(*words)
    assert code == 0
    assert "that is what node Medici learns about node Pazzi." in " ".join(out.split())
    assert "median" not in out
    assert "written       rates.csv (every pair, all digits)" in out
    found = rates.rate(graphs.metropolis_weights("florentine"), View.secure_sum("Medici"), ["Pazzi"])
    with (tmp_path / "rates.csv").open(newline="", encoding="utf-8") as stream:
        header, row = csv.reader(stream)
    assert tuple(header) == RATE_COLUMNS
    assert row[:3] == ["secure-sum", "Medici", "Pazzi"]
    assert row[-1] == "metropolis rule on the graph of florentine"
    assert [float(row[3]), float(row[4])] == [found.lower[0], found.upper[0]]


def test_json_holds_exactly_the_schema(sottovoce: Run) -> None:
    code, out, err = sottovoce(*RING, "--json", "--observer", "0", "--target", "1")
    weights = graphs.metropolis_weights("ring:n=5")
    found = rates.rate(weights, View.secure_sum(0), [1])
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "kind": "rate",
        "schema": 2,
        "version": __version__,
        "graph": {
            "nodes": 5,
            "edges": 5,
            "gap": graphs.spectrum(weights).gap,
            "hash": weights.hash,
            "rule": "metropolis",
            "origin": "metropolis rule on the graph of ring:n=5",
        },
        "view": "secure-sum",
        "own_noise": "known",
        "contribution": "vector",
        "assumption": "oblivious",
        "protocol": "gossip",
        "program": "message = model + contribution + u; exchange message → model",
        "pairs_computed": 1,
        "pairs_possible": 20,
        "pairs": [
            {
                "observer": [0],
                "target": 1,
                "rate": {"lower": found.lower[0], "upper": found.upper[0], "method": found.method},
                "frequency": found.frequency[0],
                "constant": found.constant[0],
            }
        ],
    }


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_every_view(view: str, sottovoce: Run) -> None:
    chosen = ("--observer", "0", "--observer", "2") if view != "everyone" else ()
    for words in ((), ("--json",)):
        code, out, _ = sottovoce(*LOOSE, "--view", view, *chosen, *words)
        assert code == 0
    document = json.loads(out)
    assert document["view"] == view
    observers = {tuple(pair["observer"]) for pair in document["pairs"]}
    if view == "everyone":
        assert observers == {()}
        assert {pair["rate"]["upper"] for pair in document["pairs"]} == {1.0}
    elif view.startswith("coalition"):
        assert observers == {(0, 2)}
        assert [pair["target"] for pair in document["pairs"]] == [1, 3, 4]
    else:
        assert observers == {(0,), (2,)}


def test_an_observer_skips_itself_where_several_observe(sottovoce: Run) -> None:
    words = ("--json", "--target", "2")
    pairs = json.loads(sottovoce(*RING, *words).out)["pairs"]
    assert [pair["observer"] for pair in pairs] == [[0], [1], [3], [4]]
    hidden = json.loads(sottovoce(*RING, *words, "--own-noise", "hidden").out)
    assert hidden["own_noise"] == "hidden"
    assert len(hidden["pairs"]) == 5


def test_options_reach_the_rates(sottovoce: Run) -> None:
    words = ("--observer", "1", "--weights", "lazy", "--own-noise", "hidden", "--contribution", "scalar")
    document = json.loads(sottovoce("rate", "path:n=4", "--view", "single-node", "--json", *words).out)
    view = View.single_node(1, own_noise="hidden")
    found = rates.rate(graphs.lazy_weights("path:n=4"), view, contribution="scalar")
    assert document["contribution"] == "scalar"
    assert [pair["rate"]["lower"] for pair in document["pairs"]] == list(found.lower)
    assert [pair["rate"]["upper"] for pair in document["pairs"]] == list(found.upper)


@pytest.mark.parametrize("output", [None, "rest.csv"])
def test_too_many_pairs_for_json_go_to_a_file(
    output: str | None, sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sottovoce.documents.accounts.PAIRS_IN_JSON", 7)
    code, out, err = sottovoce(*RING, "--json", *(("--output", output) if output else ()))
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert "pairs" not in document
    assert set(document["summary"]) == {"worst", "median", "best", "most_exposed"}
    assert len(document["summary"]["most_exposed"]) == 5
    name = document["pairs_file"]
    assert name == output or (name.startswith("sottovoce-rates-") and len(name) == 16 + 12 + 4)
    assert len((tmp_path / name).read_text(encoding="utf-8").splitlines()) == 21


def test_a_file_that_fails_late_does_not_lose_the_result(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = sottovoce(*RING, "--output", "rates.csv")
    assert code == 2
    assert out.startswith("In the long run ")
    assert "No space left on device" in err
