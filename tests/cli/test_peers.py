"""`peers identity` and `peers check`: files, tables, exit codes."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.application import commands
from sottovoce.cli.printing import rounded_up

Run = Callable[..., Any]
TOP = """
name = "three"
rounds = 9
noise_multiplier = 4.0
weights = "uniform"
edges = [["a", "b"], ["b", "c"]]
task = { loss = "logistic", features = 3, classes = 2, shard_size = 20 }
"""


@pytest.fixture
def network(sottovoce: Run, tmp_path: Path) -> Path:
    for k, name in enumerate("abc"):
        assert sottovoce("peers", "identity", name, "--address", f"127.0.0.1:{7450 + k}").code == 0
    text = TOP + "".join((tmp_path / f"{name}.public.toml").read_text() for name in "abc")
    (tmp_path / "network.toml").write_text(text)
    return tmp_path / "network.toml"


def test_an_identity_is_two_files(sottovoce: Run, tmp_path: Path) -> None:
    code, out, err = sottovoce("peers", "identity", "ward-3", "--json")
    assert (code, err) == (0, "")
    assert stat.S_IMODE((tmp_path / "ward-3.keys").stat().st_mode) == 0o600
    assert json.loads(out)["public"]["signing"] in (tmp_path / "ward-3.public.toml").read_text()
    again = sottovoce("peers", "identity", "ward-3")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_a_check_needs_no_connection_and_says_who_is_above_the_policy(sottovoce: Run, network: Path) -> None:
    code, out, err = sottovoce("peers", "check", "network.toml", "--me", "a", "--json")
    found = json.loads(out)
    assert (code, err, found["within_policy"], found["rounds"]) == (0, "", True, 9)
    assert [row["who"] for row in found["known"]] == [["b"], ["c"], ["b", "c"], []]
    (network.parent / "policy.toml").write_text(f"everyone = {found['known'][-1]['epsilon'] * 0.999}\n")
    code, out, err = sottovoce("peers", "check", "network.toml", "--me", "a", "--policy", "policy.toml")
    assert code == 3
    assert "policy exceeded: whoever reads every message may know ε = " in err
    assert "b (neighbour)" in out


def test_errors_name_value_rule_and_remedy(sottovoce: Run, network: Path) -> None:
    code, _, err = sottovoce("peers", "check", "network.toml", "--me", "d")
    assert (code, "no node of the network is called 'd' (it has a, b, c)" in err) == (2, True)
    network.write_text(network.read_text().replace("rounds = 9", "rounds = 0"))
    code, _, err = sottovoce("peers", "check", "network.toml", "--me", "a")
    assert (code, "network.toml: rounds must be a whole number of at least 1; got 0" in err) == (2, True)
    assert "Did you mean --me?" in sottovoce("peers", "check", "network.toml", "--mee", "a").err


def test_a_file_of_defaults_reaches_commands_of_commands(sottovoce: Run, network: Path) -> None:
    (network.parent / "sottovoce.toml").write_text('[peers.check]\nme = "b"\n')
    assert json.loads(sottovoce("peers", "check", "network.toml", "--json").out)["me"] == "b"
    (network.parent / "sottovoce.toml").write_text('[peers.check]\nmee = "b"\n')
    assert (
        "[peers.check] has no key 'mee' (did you mean me?)" in sottovoce("peers", "check", "network.toml").err
    )


def test_an_example_runs_on_this_machine_and_is_gone_through_once(sottovoce: Run, tmp_path: Path) -> None:
    assert sottovoce("peers", "example", "swarm", "--nodes", "3", "--rounds", "4").code == 0
    again = sottovoce("peers", "example", "swarm")
    assert (again.code, "swarm: cannot be created: File exists" in again.err) == (2, True)
    (tmp_path / "swarm" / "site-1.policy.toml").write_text("everyone = 5.4\n")
    code, out, err = sottovoce("peers", "local", "swarm/network.toml", "--json")
    nodes = json.loads(out)["nodes"]
    assert code == 3
    assert {name: node["reason"] for name, node in nodes.items()} == {
        "site-0": "finished",
        "site-1": "policy",
        "site-2": "finished",
    }
    assert "site-1 stopped before a round that its policy does not allow" in err
    assert nodes["site-1"]["epsilon"] <= 5.4 < nodes["site-0"]["epsilon"]
    assert (nodes["site-1"]["sent"], nodes["site-0"]["sent"]) == (3, 4)
    (tmp_path / "swarm" / "site-1.csv").unlink()
    code, _, err = sottovoce("peers", "local", "swarm/network.toml")
    assert (code, "there are no records of site-1" in err) == (2, True)
    words = ("peers", "run", "swarm/network.toml", "--me", "site-0", "--data", "swarm/site-0.csv")
    code, _, err = sottovoce(*words, "--keys", "swarm/site-2.keys")
    assert (code, "holds the keys of 'site-2', not of 'site-0'" in err) == (2, True)


def test_a_run_that_is_over_is_not_run_again_and_one_agreed_on_otherwise_is_refused(
    sottovoce: Run, tmp_path: Path
) -> None:
    assert sottovoce("peers", "example", "swarm", "--nodes", "4", "--rounds", "3").code == 0
    file, spent = tmp_path / "swarm" / "network.toml", tmp_path / "swarm" / "site-0.spent.jsonl"
    file.write_text(file.read_text().replace("round = 10", "round = 2"))
    code, out, err = sottovoce("peers", "local", "swarm/network.toml")
    assert (code, err, "nothing ran" in out) == (0, "", False)
    written = spent.read_bytes()
    code, out, _ = sottovoce("peers", "local", "swarm/network.toml")
    assert (code, "nothing ran  all rounds were over already" in out) == (0, True)
    found = json.loads(sottovoce("peers", "local", "swarm/network.toml", "--json").out)["nodes"]
    # What sums are for: a neighbour knows less than whoever reads all; and what was learnt.
    for node in found.values():
        assert (node["had_finished"], node["earlier_runs"]) == (True, 0)
        assert node["epsilon_of_one"] == max(
            each["epsilon"] for each in node["known"] if len(each["observers"]) == 1
        )
        assert node["epsilon_of_one"] < node["epsilon"]
        assert 0 <= node["accuracy"] <= 1
        assert f"{node['accuracy']:.3f}" in out
        assert rounded_up(node["epsilon_of_one"]) in out
        assert rounded_up(node["epsilon"]) in out
    known = json.loads((tmp_path / "swarm" / "site-0.run" / "certificate.json").read_text())["known"]
    assert [each["epsilon"] for each in known if each["observers"]] == [
        each["epsilon"] for each in found["site-0"]["known"]
    ]
    assert spent.read_bytes() == written
    checked = sottovoce("peers", "check", "swarm/network.toml", "--me", "site-0").out
    assert "What others know of site-0 after 3 rounds more and 1 earlier run, at δ" in checked
    text = file.read_text()
    run = ("peers", "run", "swarm/network.toml", "--me", "site-0", "--data", "swarm/site-0.csv")
    for changed, sentence in (
        (
            text.replace("noise_multiplier = 1.5", "noise_multiplier = 2.5"),
            "noise_multiplier is 2.5 and was 1.5",
        ),
        (text.replace("rounds = 3", "rounds = 4"), "rounds is 4 and was 3"),
        (text.replace('["site-0", "site-1"], ', ""), "edges lacks"),
    ):
        assert changed != text
        file.write_text(changed)
        for words in (("peers", "local", "swarm/network.toml"), run):
            code, out, err = sottovoce(*words)
            assert (code, out) == (2, "")
            assert "site-0.run: holds a run of a network that was agreed on otherwise: " in err
            assert sentence in err
    file.write_text(text)
    assert sottovoce(*run).code == 0
    assert spent.read_bytes() == written


@pytest.mark.parametrize("words", [words for words, _ in commands() if words[0] == "peers"])
def test_every_command_has_help_with_an_example(words: tuple[str, ...], sottovoce: Run) -> None:
    code, out, _ = sottovoce(*words, "--help")
    assert code == 0
    assert out.startswith(f"Usage: sottovoce {' '.join(words)} ")
    assert f"Example:\n  sottovoce {' '.join(words)} " in out
    assert max(map(len, out.splitlines())) <= 80
    for argument in dict(commands())[words].assemble_argument_collection():
        assert argument.parameter.help or argument.children
