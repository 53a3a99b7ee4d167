"""`calibrate`, `graph`, the help texts and the reference."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cyclopts import Token

from sottovoce import __version__, documents, graphs
from sottovoce.accounting import calibrate
from sottovoce.cli.application import app
from sottovoce.cli.reference import reference, write_reference
from sottovoce.protocols import gossip

Run = Callable[..., Any]
COMMANDS = (
    "account",
    "calibrate",
    "compare",
    "rate",
    "certify",
    "verify",
    "audit",
    "coalition",
    "sweep",
    "summary",
    "train",
    "reproduce",
    "explain",
    "graph",
    "serve",
    "completion",
)
RUN = ("ring:n=5", "--rounds", "4", "--view", "secure-sum")
CALIBRATE = ("calibrate", *RUN, "--target-epsilon", "1", "--target-delta", "1e-6")


def test_calibrated_noise_is_that_of_the_library(sottovoce: Run) -> None:
    code, out, err = sottovoce(*CALIBRATE, "--json")
    document = json.loads(out)
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=4)
    noise = calibrate(protocol, "secure-sum", target_epsilon=1.0, target_delta=1e-6)
    assert (code, err) == (0, "")
    assert list(document) == [
        "kind",
        "schema",
        "version",
        "view",
        "own_noise",
        "contribution",
        "assumption",
        "protocol",
        "program",
        "protocol_hash",
        "rounds",
        "relation",
        "participation",
        "graph",
        "target_epsilon",
        "target_delta",
        "noise_multiplier",
        "pairs_computed",
        "pairs_possible",
        "worst",
        "baselines",
        "command",
    ]
    assert document["noise_multiplier"] == noise
    assert document["worst"]["epsilon"]["upper"] <= 1.0


def test_participation_asks_for_less_noise(sottovoce: Run) -> None:
    full = json.loads(sottovoce(*CALIBRATE, "--json").out)
    some = json.loads(sottovoce(*CALIBRATE, "--json", "--participation", "separated:2,at-most=2").out)
    assert some["participation"] == "separated:2,at-most=2"
    assert some["noise_multiplier"] < full["noise_multiplier"]


def test_the_noise_that_is_shown_is_enough(sottovoce: Run, tmp_path: Path) -> None:
    code, out, _ = sottovoce(*CALIBRATE, "--output", "pairs.csv")
    assert code == 0
    shown = out.removeprefix("A noise multiplier of ").split()[0]
    words = ("account", *RUN, "--noise-multiplier", shown, "--delta", "1e-6")
    assert sottovoce(*words, "--max-epsilon", "1").code == 0
    less = repr(float(shown) * 0.999)
    fewer = [less if word == shown else word for word in words]
    assert sottovoce(*fewer, "--max-epsilon", "1").code == 3
    assert len(documents.read_account_csv(tmp_path / "pairs.csv")["secure-sum"]) == 20


def test_a_calibration_in_json_says_what_was_typed_and_what_to_compare_with(sottovoce: Run) -> None:
    found = json.loads(sottovoce(*CALIBRATE, "--json").out)
    assert found["command"] == f"sottovoce {' '.join(CALIBRATE)} --json"
    assert found["graph"]["rule"] == "metropolis"
    noise, delta = found["noise_multiplier"], found["target_delta"]
    local = json.loads(
        sottovoce(
            "account",
            *RUN[:-2],
            "--view",
            "everyone",
            "--noise-multiplier",
            repr(noise),
            f"--delta={delta}",
            "--json",
        ).out
    )
    assert found["baselines"]["local"] == local["worst"]["epsilon"]


def test_a_calibrated_table_that_cannot_be_written_does_not_lose_the_noise(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = sottovoce(*CALIBRATE, "--output", "pairs.csv")
    assert code == 2
    assert out.startswith("A noise multiplier of ")
    assert "No space left on device" in err


def test_a_graph_in_words_and_in_json(sottovoce: Run) -> None:
    code, out, err = sottovoce("graph", "karate")
    assert (code, err) == (0, "")
    for line in ("nodes    34", "edges    78, undirected", "degrees  1 to 17, median 3", "gap γ    0.03124"):
        assert line in out.splitlines()
    weights = graphs.metropolis_weights("karate")
    document = json.loads(sottovoce("graph", "karate", "--json").out)
    assert list(document) == ["kind", "schema", "version", "graph", "weights", "twins"]
    assert document["graph"]["hash"] == weights.hash
    assert document["graph"]["labels"] == list(range(10))
    assert document["weights"]["rule"] == "metropolis"
    assert document["weights"]["symmetric"] is True
    assert document["graph"]["gap"] == pytest.approx(1 - document["weights"]["rho"])


def test_a_graph_says_which_nodes_have_twins_and_what_that_buys(sottovoce: Run) -> None:
    code, out, err = sottovoce("graph", "cliques:base=ring,n=20,size=5")
    assert (code, err) == (0, "")
    words = " ".join(out.split())
    assert "twins 100 of 100 nodes, in 20 groups of 5: 0, 1, 2, 3, 4; 5, 6, 7, 8, 9; " in words
    assert "at most 1/5 of Δ² of local DP about a node of a group of 5, and its twins at most 1/4" in words
    groups = json.loads(sottovoce("graph", "cliques:base=ring,n=20,size=5", "--json").out)["twins"]
    assert [group["nodes"] for group in groups] == [list(range(k, k + 5)) for k in range(0, 100, 5)]
    assert {(group["outside"], group["inside"]) for group in groups} == {
        (0.20000000000000004, 0.25000000000000006)
    }
    words = " ".join(sottovoce("graph", "complete:n=2").out.split())
    assert "twins 2 of 2 nodes, in a group of 2: 0, 1 hidden" in words
    assert "its twins at most all of it" in words
    assert "twins    none: no two nodes are weighed alike by all" in sottovoce("graph", "ring:n=9").out


def test_a_graph_can_be_written(sottovoce: Run, tmp_path: Path) -> None:
    code, out, _ = sottovoce("graph", "ring:n=5", "--output", "ring.edgelist")
    assert code == 0
    assert "written  ring.edgelist" in out
    assert (
        graphs.metropolis_weights(tmp_path / "ring.edgelist").hash
        == graphs.metropolis_weights("ring:n=5").hash
    )


def test_version_and_help(sottovoce: Run) -> None:
    assert sottovoce("--version") == (0, f"{__version__}\n", "")
    code, out, err = sottovoce("--help")
    assert (code, err) == (0, "")
    assert sottovoce().out == out
    assert all(command in out for command in COMMANDS)


@functools.cache
def whole_reference() -> str:
    return reference()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, sottovoce: Run) -> None:
    code, out, _ = sottovoce(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: sottovoce {command} ")
    assert f"Example:\n  sottovoce {command} " in out
    assert max(map(len, out.splitlines())) <= 80
    assert command in whole_reference()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_described(command: str) -> None:
    for argument in app[command].assemble_argument_collection():
        assert argument.parameter.help or argument.children


def test_a_command_that_is_read_once_keeps_no_values() -> None:
    for _ in range(2):
        arguments = app["account"].assemble_argument_collection()
        assert not any(each.tokens for each in arguments)
        arguments["--rounds"].tokens.append(Token(value="3"))
        # Whoever holds options together holds the same ones.
        assert [each.name for each in arguments if each.has_tokens] == ["*", "--rounds"]


def test_the_examples_run_one_after_the_other(sottovoce: Run) -> None:
    documents = (Path(__file__).resolve().parents[2] / "docs").glob("*.md")
    typed = {line for path in documents for line in path.read_text(encoding="utf-8").splitlines()}
    for command in COMMANDS[:-2]:
        words = str(app[command].help_epilogue).split()[2:]
        if f"$ sottovoce {' '.join(words)}" in typed:
            # The test of that document runs it.
            continue
        # Fewer rounds show as well that it runs.
        few = [
            "5" if before == "--rounds" else word for before, word in zip(["", *words], words, strict=False)
        ]
        assert sottovoce(*few).code == 0, command


def test_the_reference_is_up_to_date(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    write_reference(tmp_path / "docs" / "cli.md")
    fresh = (tmp_path / "docs" / "cli.md").read_text(encoding="utf-8")
    assert (root / "docs" / "cli.md").read_text(encoding="utf-8") == fresh, "run `make docs`"
