"""What a node spent in earlier runs counts in the next: squares of μ add up."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.peers.networks import complete, network
from tests.peers.test_runs import three
from tests.peers.wires import Wires

from sottovoce import gaussian
from sottovoce.errors import FileError
from sottovoce.peers import Budget, Earlier, Policy, known_after, read_earlier
from sottovoce.peers.earlier import EarlierRun, Known, open_earlier


def entry(**changes: Any) -> EarlierRun:
    keys = network(3).signing_keys(range(3))
    usual: dict[str, Any] = {"run": "00", "unit": "node", "relation": "add-remove", "sent": 3, "mu": 1.5}
    return EarlierRun(**{**usual, "nodes": keys, **changes})


def test_two_runs_spend_what_both_spend_and_a_policy_knows(tmp_path: Path) -> None:
    run, mus = three(), Budget.of(three(), "site-0", Policy()).mus
    spent = []
    for name in ("first", "second"):
        wires = Wires(run, tmp_path / name, spent=tmp_path)
        wires.all()
        assert {each.reason for each in wires.found.values()} == {"finished"}
        spent.append(wires.found[0].epsilon)
    assert spent[0] == pytest.approx(float(gaussian.epsilon(mus[3], 1e-5)), rel=1e-12)
    assert spent[1] == pytest.approx(float(gaussian.epsilon(math.sqrt(2) * mus[3], 1e-5)), rel=1e-12)
    assert spent[1] >= float(gaussian.epsilon(math.sqrt(2) * mus[3], 1e-5))
    earlier = read_earlier(tmp_path / "site-0.spent.jsonl", run)
    assert [each.sent for each in earlier.runs] == [3, 3]
    # In the clear a neighbour saw all that there was.
    assert earlier.squared(run.signing_keys((1,))) == pytest.approx(2 * mus[3] ** 2, rel=1e-12)
    checked = known_after(run, "site-0", earlier=earlier)
    third = float(gaussian.epsilon(math.sqrt(3) * mus[3], 1e-5))
    assert checked.everyone.epsilon == pytest.approx(third, rel=1e-9)
    assert all(third * (1 - 1e-9) <= seen.epsilon <= third * (1 + 1e-9) for seen in checked.nodes)
    # A policy that bears two runs and a round stops the third before its second round.
    most = float(gaussian.epsilon(math.sqrt(2 * mus[3] ** 2 + mus[1] ** 2), 1e-5)) * (1 + 1e-9)
    for policy in (Policy(everyone=most), Policy(node=most)):
        budget = Budget.of(run, "site-0", policy, earlier)
        assert budget.allows(0, deviated=False)
        assert not budget.allows(1, deviated=False)
        assert not budget.allows(1, deviated=True)


def test_an_old_folder_is_noticed_by_what_was_written_down(tmp_path: Path) -> None:
    run = three()
    wires = Wires(run, tmp_path / "runs", spent=tmp_path)
    wires.all()
    file = tmp_path / "site-0.spent.jsonl"
    (last,) = read_earlier(file, run).runs
    with open_earlier(file) as lines:
        lines.add([msgspec.json.encode(msgspec.structs.replace(last, sent=5))])
        with pytest.raises(FileError, match="another run of this node is going on"), open_earlier(file):
            pass
    wires.one(0)
    assert "5 rounds are written down as spent, and the state knows of 3" in str(wires.errors[0])


def test_who_was_not_there_saw_nothing_and_pools_bound_their_members() -> None:
    one, two, three_ = network(3).signing_keys(range(3))
    known = (Known(keys=(one,), mu=0.5), Known(keys=(one, two), mu=0.75))
    run = entry(known=known)
    assert [run.mu_of(frozenset(keys)) for keys in ([one], [two], [three_], [one, two], [one, three_])] == [
        0.5,
        0.75,
        1.5,
        0.75,
        1.5,
    ]
    assert run.mu_of(frozenset(["stranger"])) == 0.0
    assert run.mu_of(frozenset([one, "stranger"])) == 0.5
    assert Earlier(runs=(run, entry(run="01"))).squared([one]) >= 0.5**2 + 1.5**2


def test_runs_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    agreed, file = network(3, edges=complete(3), unit="node"), tmp_path / "spent.jsonl"
    assert read_earlier(file, agreed).runs == ()
    good = msgspec.json.encode(entry()) + b"\n"
    # Of a line that a crash cut off nothing was sent.
    file.write_bytes(good + b'{"run": "01", "sent"')
    assert [each.run for each in read_earlier(file, agreed).runs] == ["00"]
    for line, sentence in (
        (msgspec.json.encode(entry(unit="record")), "protects a record by add-remove, this one a node"),
        (msgspec.json.encode(entry(relation="replace-one")), "the two do not add up"),
        (b"{}", "line 2: a line lacks the field"),
        (msgspec.json.encode(entry(mu=-1.0)), "mu must be"),
    ):
        file.write_bytes(good + line + b"\n")
        with pytest.raises(FileError, match=sentence):
            read_earlier(file, agreed)
