"""`sottovoce account`: what a person sees, what JSON and CSV hold, and the exit code."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from sottovoce import __version__, accounting, documents, graphs, vocabulary
from sottovoce.accounting import account, account_all, central_account, local_account
from sottovoce.cli.printing import rounded_up
from sottovoce.cli.wording import SEEN_IN_WORDS
from sottovoce.protocols import gossip
from sottovoce.views import VIEW_NAMES, View

Run = Callable[..., Any]
RING = ("account", "ring:n=5", "--rounds", "4", "--noise-multiplier", "3")
SUMS = (*RING, "--view", "secure-sum")


def ring_table(**settings: Any) -> accounting.AccountTable:
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=4)
    return account_all(protocol, "secure-sum", noise_multiplier=3.0, delta=1e-5, **settings)


def test_choices_are_those_of_the_library() -> None:
    assert get_args(vocabulary.ViewName) == VIEW_NAMES == tuple(SEEN_IN_WORDS)
    assert get_args(vocabulary.Relation) == tuple(accounting.RELATIONS)


def test_what_a_person_sees(sottovoce: Run) -> None:
    code, out, err = sottovoce(*SUMS)
    table = ring_table()
    worst = rounded_up(float(table.epsilon_upper.max()))
    assert (code, err) == (0, "")
    assert out.startswith(f"ε ≤ {worst} at δ = 1e-05: of 20 pairs, node ")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    for phrase in (
        "worst",
        "median",
        "best",
        "Most exposed nodes",
        "is right at",
        "weights        metropolis rule on the graph of ring:n=5\n",
        "gap γ          0.4607",
        "with local DP",
        "with central aggregation",
        "secure-sum, own noise known; 20 pairs",
        "add-remove: a record is there or is not",
        "contribution   vector",
        "participation  full: a target may contribute in every round",
        "δ              1e-05",
        "oblivious: contributions are fixed in advance",
    ):
        assert phrase in out


def test_long_names_stay_within_80_columns_and_no_number_is_cut(sottovoce: Run, tmp_path: Path) -> None:
    names = [f"a-node-with-quite-a-long-name-that-never-ends-{k}" for k in range(3)]
    Path(tmp_path / "long.edgelist").write_text(f"{names[0]} {names[1]}\n{names[1]} {names[2]}\n")
    code, out, _ = sottovoce("account", "long.edgelist", "--rounds", "4", "--noise-multiplier", "3")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_json_holds_exactly_the_schema(sottovoce: Run) -> None:
    code, out, err = sottovoce(*SUMS, "--json", "--observer", "0", "--target", "1")
    document = json.loads(out)
    table = ring_table(observers=[0], targets=[1])
    weights = table.protocol.weights
    assert (code, err) == (0, "")
    pair = {
        "observer": [0],
        "target": 1,
        "sensitivity_squared": {
            "lower": table.squared_lower[0],
            "upper": table.squared_upper[0],
            "method": str(table.method[0]),
        },
        "mu": {"lower": table.mu_lower[0], "upper": table.mu_upper[0]},
        "epsilon": {"lower": table.epsilon_lower[0], "upper": table.epsilon_upper[0]},
    }
    settings: Any = {"noise_multiplier": 3.0, "delta": 1e-5}
    local = local_account(table.protocol, **settings).epsilon()
    central = central_account(table.protocol, **settings).epsilon()
    assert document == {
        "kind": "account",
        "schema": 2,
        "version": __version__,
        "command": shlex.join(["sottovoce", *SUMS, "--json", "--observer", "0", "--target", "1"]),
        "graph": {
            "nodes": 5,
            "edges": 5,
            "gap": graphs.spectrum(weights).gap,
            "hash": weights.hash,
            "rule": "metropolis",
            "origin": "metropolis rule on the graph of ring:n=5",
        },
        "protocol": "gossip",
        "program": table.protocol.sentence,
        "protocol_hash": table.protocol.hash,
        "rounds": 4,
        "noise_multiplier": 3.0,
        "delta": 1e-5,
        "relation": "add-remove",
        "view": "secure-sum",
        "own_noise": "known",
        "contribution": "vector",
        "participation": "full",
        "assumption": "oblivious",
        "pairs_computed": 1,
        "pairs_possible": 20,
        "worst": pair,
        "baselines": {
            "local": {"lower": local.lower, "upper": local.upper},
            "central": {"lower": central.lower, "upper": central.upper},
        },
        "pairs": [pair],
    }


def test_names_that_are_words_are_text_in_json(sottovoce: Run) -> None:
    words = ("account", "florentine", "--rounds", "3", "--noise-multiplier", "2", "--json")
    out = sottovoce(*words, "--observer", "Medici", "--target", "Pazzi").out
    (pair,) = json.loads(out)["pairs"]
    assert (pair["observer"], pair["target"]) == (["Medici"], "Pazzi")


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_every_view(view: str, sottovoce: Run) -> None:
    members = ("--observer", "0", "--observer", "2")
    chosen = members if view != "everyone" else ()
    code, out, _ = sottovoce(*RING, "--view", view, "--json", *chosen)
    pairs = json.loads(out)["pairs"]
    observers = {tuple(pair["observer"]) for pair in pairs}
    assert code == 0
    assert json.loads(out)["view"] == view
    if view == "everyone":
        assert observers == {()}
    elif view.startswith("coalition"):
        assert observers == {(0, 2)}
        assert [pair["target"] for pair in pairs] == [1, 3, 4]
    else:
        assert observers == {(0,), (2,)}


def test_options_reach_the_accountant(sottovoce: Run) -> None:
    chosen = ("--own-noise", "hidden", "--contribution", "scalar", "--relation", "replace-one")
    settings = (*chosen, "--engine", "filter", "--weights", "lazy", "--delta", "1e-7")
    out = sottovoce(*RING, "--view", "single-node", "--json", "--observer", "0", *settings).out
    protocol = gossip(graphs.lazy_weights("ring:n=5"), rounds=4)
    table = account(
        protocol,
        View.single_node(0, own_noise="hidden"),
        noise_multiplier=3.0,
        delta=1e-7,
        relation="replace-one",
        contribution="scalar",
        engine="filter",
    )
    assert [pair["epsilon"]["upper"] for pair in json.loads(out)["pairs"]] == list(table.epsilon_upper)


def test_participation_lowers_epsilon(sottovoce: Run) -> None:
    full = json.loads(sottovoce(*SUMS, "--json").out)
    some = json.loads(sottovoce(*SUMS, "--json", "--participation", "at-most:2").out)
    assert some["participation"] == "at-most:2"
    for one, other in zip(some["pairs"], full["pairs"], strict=True):
        assert one["epsilon"]["upper"] < other["epsilon"]["upper"]
    table = ring_table(participation="at-most:2")
    assert [pair["epsilon"]["upper"] for pair in some["pairs"]] == list(table.epsilon_upper)
    out = sottovoce(*SUMS, "--participation", "fixed:2").out
    assert "participation  fixed:2: a target contributes in at most 1 round\n" in out
    local = accounting.local_account(
        table.protocol, noise_multiplier=3.0, delta=1e-5, participation="fixed:2"
    )
    assert f"ε ≤ {rounded_up(local.epsilon().upper)} with local DP" in out


def test_names_beyond_64_bits(sottovoce: Run, tmp_path: Path) -> None:
    huge = 2**70
    (tmp_path / "huge.edgelist").write_text(f"{huge} 1\n1 7\n")
    words = ("account", "huge.edgelist", "--rounds", "3", "--noise-multiplier", "2")
    pairs = json.loads(sottovoce(*words, "--json", "--observer", str(huge)).out)["pairs"]
    assert {tuple(pair["observer"]) for pair in pairs} == {(huge,)}
    assert f"about node {huge}" in sottovoce(*words, "--target", str(huge), "--observer", "7").out


def test_the_csv_file_holds_every_pair(sottovoce: Run, tmp_path: Path) -> None:
    code, out, _ = sottovoce(*SUMS, "--output", "pairs.csv")
    assert code == 0
    assert "written        pairs.csv (every pair, all digits)" in out
    pairs = documents.read_account_csv(tmp_path / "pairs.csv")["secure-sum"]
    assert [pair.epsilon.upper for pair in pairs] == list(ring_table().epsilon_upper)


def test_a_budget_that_is_kept_and_one_that_is_not(sottovoce: Run) -> None:
    worst = float(ring_table().epsilon_upper.max())
    assert sottovoce(*SUMS, "--max-epsilon", repr(worst)).code == 0
    code, out, err = sottovoce(*SUMS, "--max-epsilon", repr(worst * 0.999), "--json")
    assert code == 3
    assert len(json.loads(out)["pairs"]) == 20
    assert err.startswith(
        f"sottovoce: budget exceeded: the certified ε goes up to {rounded_up(worst)}, above"
    )
    assert err.count("\n") == 1


@pytest.fixture
def _few_pairs_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.documents.accounts.PAIRS_IN_JSON", 7)


@pytest.mark.usefixtures("_few_pairs_in_json")
@pytest.mark.parametrize("output", [None, "rest.csv"])
def test_too_many_pairs_for_json_go_to_a_file(output: str | None, sottovoce: Run, tmp_path: Path) -> None:
    code, out, err = sottovoce(*SUMS, "--json", *(("--output", output) if output else ()))
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert "pairs" not in document
    assert set(document["summary"]) == {"worst", "median", "best", "most_exposed"}
    name = document["pairs_file"]
    assert name == output or (name.startswith("sottovoce-pairs-") and len(name) == 16 + 12 + 4)
    assert len(documents.read_account_csv(tmp_path / name)["secure-sum"]) == 20


@pytest.mark.usefixtures("_few_pairs_in_json")
def test_a_file_that_fails_late_does_not_lose_the_result(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = sottovoce(*SUMS, "--json")
    assert code == 2
    assert json.loads(out)["summary"]["worst"]
    assert json.loads(out)["pairs_file"] is None
    assert "cannot be written there: No space left on device" in err
    code, out, err = sottovoce(*SUMS, "--output", "pairs.csv")
    assert code == 2
    assert out.startswith("ε ≤ ")
    assert list(tmp_path.iterdir()) == []


def test_negative_names_are_names(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "below.edgelist").write_text("-1 0\n0 1\n")
    words = ("account", "below.edgelist", "--rounds", "3", "--noise-multiplier", "2", "--json")
    for observer in (("--observer", "-1"), ("--observer=-1",)):
        pairs = json.loads(sottovoce(*words, *observer).out)["pairs"]
        assert {tuple(pair["observer"]) for pair in pairs} == {(-1,)}


def test_no_positive_number_is_shown_as_0(sottovoce: Run) -> None:
    quiet = (*RING[:-1], "1e300", "--view", "secure-sum", "--observer", "0", "--target", "1")
    table = ring_table(observers=[0], targets=[1]).with_noise(1e300)
    least = table.worst().delta(0.0).upper
    assert 0 < least < 1e-299
    out = " ".join(sottovoce(*quiet).out.split())
    # (0, δ)-privacy is true at δ = 1e-5, and at a far smaller δ too.
    assert out.startswith(
        f"ε ≤ 0 at δ = 1e-05, and already at δ = {rounded_up(least)} is what node 0 can learn"
    )
    assert "is right at most 50.1% of the time" in out
    for delta in (1e-301, 1e-305):
        code, out, _ = sottovoce(*quiet, "--delta", repr(delta), "--json")
        (pair,) = json.loads(out)["pairs"]
        assert code == 0
        assert pair["epsilon"]["upper"] > 0
        assert pair["mu"]["lower"] > 0
        assert not sottovoce(*quiet, "--delta", repr(delta)).out.startswith("ε ≤ 0 ")


def test_what_is_not_reached_is_0(sottovoce: Run) -> None:
    out = sottovoce(
        "account", "path:n=9", *RING[2:], "--view", "secure-sum", "--observer", "0", "--target", "8"
    ).out
    assert out.startswith("ε ≤ 0 at δ = 1e-05 is what node 0 can learn about node 8.")
    assert "right at most 50% of the" in " ".join(out.split())
