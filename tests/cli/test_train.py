"""`sottovoce train`: results, files, interruption, and what is refused."""

import contextlib
import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from sottovoce import gossip, graphs, train
from sottovoce.documents import read_report
from sottovoce.documents.runs import read_run
from sottovoce.interval import Interval, rounded_up
from sottovoce.learning import load_data, step, task_from, training

Run = Callable[..., Any]
TRAIN = ("train", "breast-cancer", "--graph", "ring:n=5", "--rounds", "8", "--seed", "1")
NOISE = ("--noise-multiplier", "3")
# The same where sums are seen: every pair is bounded by itself, so there are few, of few rounds.
SUMS = (*TRAIN[:3], "ring:n=4", "--rounds", "3", "--seed", "1", "--view", "secure-sum")

# Says when a round is done and then waits, so that the interrupt comes in the middle of a run.
DRIVER = """
import signal, sys, time
import sottovoce.learning.training as training
from sottovoce.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
step = training.step

def step_and_wait(descent, state):
    found = step(descent, state)
    if found[0].round == 5:
        print("round 5", flush=True)
        time.sleep(60)
    return found

training.step = step_and_wait
sys.exit(main(sys.argv[1:]))
"""

# The same, with every message of the run on stdout, so that what was sent before and after a kill can be compared.
SENDER = """
import hashlib, sys, time
import sottovoce.learning.training as training
from sottovoce.cli import main

step, stop = training.step, int(sys.argv[1])

def step_and_send(descent, state):
    found = step(descent, state)
    print(found[0].round, hashlib.sha256(found[1].messages[0].tobytes()).hexdigest(), flush=True)
    if found[0].round == stop:
        print("waiting", flush=True)
        time.sleep(60)
    return found

training.step = step_and_send
sys.exit(main(sys.argv[2:]))
"""


def test_the_result_is_that_of_the_library(sottovoce: Run) -> None:
    code, out, err = sottovoce(*SUMS, "--target-epsilon", "4", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    run = train(
        task_from(load_data("breast-cancer"), 4),
        gossip(graphs.metropolis_weights("ring:n=4"), rounds=3),
        view="secure-sum",
        target_epsilon=4.0,
        seed=1,
    )
    for name in ("accuracy", "loss", "excess_risk", "consensus_distance", "noise_multiplier"):
        assert document[name] == getattr(run, name)
    assert document["account"]["epsilon"]["upper"] == 4 >= run.account.epsilon().upper
    assert document["account"]["assumption"] == "smooth"
    assert document["updates"]["losses"] == "convex"
    assert document["updates"]["smoothness"] == 0.25
    assert document["updates"]["slopes"] == run.settings["slopes"]
    assert document["averaging"] is None
    assert document["unconditional"]["epsilon"]["upper"] == run.unconditional.epsilon().upper > 4


def test_an_infinite_epsilon_is_said_as_in_accounts(sottovoce: Run) -> None:
    words = ("train", "breast-cancer", "--graph", "ring:n=5", "--rounds", "1", "--noise-multiplier", "4")
    code, out, _ = sottovoce(*words, "--protocol", "pairwise-noise:local=0,shared=1", "--view", "everyone")
    assert code == 0
    assert "after 1 round on 5 nodes" in out
    assert "An infinite ε at every δ for one record of any node" in " ".join(out.split())


def test_both_numbers_and_the_assumption_are_shown(sottovoce: Run) -> None:
    code, out, err = sottovoce(*SUMS, *NOISE)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("Accuracy ")
    assert "assuming smooth (secure-sum view), ε ≤ " in text
    assert "assuming nothing (local DP), both at δ = 1e-05." in text
    assert "The first is the most that any observer of the secure-sum view learns" in text
    assert "It holds whatever other nodes' gradients carry on" in text
    assert "assumption smooth: every node updates what it received" in text
    assert "smoothness 0.25, convex" in text
    assert "veraging" not in text
    assert "hidden-state" not in text
    assert "measured without noise, and therefore not private" in text
    assert max(map(len, out.splitlines())) <= 80
    everyone = " ".join(sottovoce(*TRAIN, *NOISE).out.split())
    assert "whoever sees whatever" in everyone
    assert "assuming nothing" not in everyone
    assert "so nothing is assumed about how contributions arise" in everyone


def test_the_number_of_averaging_is_shown_on_request_and_called_what_it_is(
    sottovoce: Run, tmp_path: Path
) -> None:
    words = (*SUMS, *NOISE, "--averaging")
    code, out, err = sottovoce(*words, "--output", "run.npz", "--report", str(tmp_path / "run.html"))
    assert (code, err) == (0, f"sottovoce: wrote {tmp_path / 'run.html'}\n")
    text = " ".join(out.split())
    document = json.loads(sottovoce(*words, "--json").out)
    bounds = {name: document[name]["epsilon"]["upper"] for name in ("averaging", "account", "unconditional")}
    assert bounds["averaging"] < bounds["account"] < bounds["unconditional"]
    assert document["averaging"]["assumption"] == "hidden-state"
    averaging = rounded_up(bounds["averaging"])
    assert (
        f"Averaging would give ε ≤ {averaging} (assumption hidden-state). That is no guarantee here" in text
    )
    assert text.index("assuming smooth") < text.index("local DP") < text.index("Averaging")
    names = list(document)
    assert names.index("account") < names.index("unconditional") < names.index("averaging")
    kept = read_run(tmp_path / "run.npz").averaging
    assert kept is not None
    assert kept.epsilon().upper == bounds["averaging"]
    table = (tmp_path / "run.html").read_text().partition("What the run gives away")[2]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table)[:18]
    assert [cells[6 * k + 1].partition(":")[0] for k in range(3)] == ["smooth", "none", "hidden-state"]


def test_steps_that_cost_privacy_are_said_with_those_that_do_not(sottovoce: Run) -> None:
    words = (*SUMS, *NOISE, "--l2", "0", "--step")
    # L is 1/4, so steps of 32 have slopes down to -7.
    text = " ".join(sottovoce(*words, "32").out.split())
    cost = json.loads(sottovoce(*words, "32", "--json").out)["step_cost"]
    assert cost["least"] < 0.55 < 0.75 < cost["share"] <= 1
    assert 0.1 < cost["largest_step"] < 8
    said = f"Steps up to {cost['largest_step']:g} keep 90% of that gain."
    assert "Steps of 32 make hidden nodes react" in text
    assert said in text
    small = json.loads(sottovoce(*words, str(cost["largest_step"]), "--json").out)["step_cost"]
    assert small["largest_step"] is None
    assert 1 - small["share"] >= 0.9 * (1 - cost["least"])
    assert "keep 90%" not in sottovoce(*words, str(cost["largest_step"])).out


def test_a_file_of_ones_own(sottovoce: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 2)) / 3
    lines = [f"{a},{b},{'up' if a + b > 0 else 'down'}" for a, b in rows]
    (tmp_path / "own.csv").write_text("a,b,way\n" + "\n".join(lines) + "\n")
    words = ("train", "own.csv", "--graph", "ring:n=3", "--rounds", "5", *NOISE)
    code, out, err = sottovoce(*words)
    assert (code, out) == (2, "")
    assert "--loss must be given for a file, as only you know what its labels mean" in err
    code, out, err = sottovoce(*words, "--loss", "logistic")
    assert code == 2
    assert err.startswith("sottovoce: error: --shard-size must be given, a public shard size to divide by")
    code, out, err = sottovoce(*words, "--loss", "logistic", "--shard-size", "15", "--label", "way", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["data"]["shard_size"] == 15


CLINICS = "dose,clinic,effect\n" + "".join(
    f"{k / 10},{clinic},{'yes' if k > 4 else 'no'}\n"
    for clinic in ("Oslo", "Rome", "Bern")
    for k in range(1, 9)
)


def test_a_table_splits_by_a_column_and_nodes_are_called_like_its_clients(
    sottovoce: Run, tmp_path: Path
) -> None:
    (tmp_path / "clinics.csv").write_text(CLINICS)
    (tmp_path / "lines.csv").write_text("source,target\nRome,Bern\nBern,Oslo\n")
    words = ("train", "clinics.csv", "--split-by", "clinic", "--rounds", "4", *NOISE, "--loss", "logistic")
    sums = ("--shard-size", "8", "--view", "secure-sum", "--observer", "Oslo", "--seed", "1", "--json")
    code, out, err = sottovoce(*words, *sums, "--graph", "complete")
    assert (code, err) == (0, "")
    assert json.loads(out)["graph"]["nodes"] == 3
    # Two hidden twins.
    assert json.loads(out)["account"]["sensitivity_squared"]["upper"] == pytest.approx(2, rel=1e-3)
    by_file = sottovoce(*words, *sums, "--graph", "lines.csv")
    assert (by_file.code, by_file.err) == (0, "")
    for graph, complaint in (
        (
            "ring:n=4",
            "there must be one node for each client; got 4 nodes and 3 clients (take a graph of 3 nodes)",
        ),
        ("towns.csv", "2 clients with no node: Bern, Rome; 2 nodes with no records: Graz, Turku (rename"),
    ):
        (tmp_path / "towns.csv").write_text("source,target\nOslo,Graz\nGraz,Turku\n")
        code, out, err = sottovoce(*words, "--shard-size", "8", "--graph", graph)
        assert (code, out) == (2, "")
        assert complaint in err
    code, _, err = sottovoce(*words, "--shard-size", "3", "--graph", "complete")
    assert code == 2
    assert "no node may hold more records than the public shard size, 3; " in err


def test_a_budget_ends_the_run_early(sottovoce: Run) -> None:
    code, out, err = sottovoce(*TRAIN, *NOISE, "--max-epsilon", "3")
    assert (code, err) == (0, "")
    assert "The budget ended the run after 4 of 8 rounds, as was known beforehand." in out
    document = json.loads(sottovoce(*TRAIN, *NOISE, "--max-epsilon", "3", "--json").out)
    assert document["stopped_by_budget"] is True
    assert document["rounds"] == 4
    assert document["account"]["epsilon"]["upper"] <= 3
    code, out, err = sottovoce(*TRAIN, *NOISE, "--max-epsilon", "0.01")
    assert (code, out) == (3, "")
    assert err.startswith("sottovoce: not certified: not a single round stays within")


def test_a_run_is_kept_where_only_its_owner_reads_it(sottovoce: Run, tmp_path: Path) -> None:
    code, out, _ = sottovoce(*TRAIN, *NOISE, "--output", "run.npz")
    assert code == 0
    assert "run.npz (readable by you alone)" in out
    file = tmp_path / "run.npz"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_run(file).finished
    code, _, err = sottovoce(*TRAIN, *NOISE, "--output", "run.npz", "--resume")
    assert code == 2
    assert "the run is finished: all of its 8 rounds are done" in err


@pytest.mark.load
def test_an_interrupted_run_is_kept_and_goes_on_bit_for_bit(sottovoce: Run, tmp_path: Path) -> None:
    asked = ("--target-epsilon", "4", "--batch-fraction", "0.5", "--view", "secure-sum")
    words = (*TRAIN[:3], "path:n=3", *TRAIN[4:], *asked)
    assert sottovoce(*words, "--output", "whole.npz").code == 0
    command = [sys.executable, "-c", DRIVER, *words, "--output", "run.npz", "--checkpoint-every", "3"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "round 5\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "sottovoce: interrupted: 4 of 8 rounds are done in run.npz (continue with --resume)\n"
    assert stat.S_IMODE((tmp_path / "run.npz").stat().st_mode) == 0o600
    code, _, err = sottovoce(*words, "--output", "run.npz")
    assert code == 2
    assert (
        "an unfinished run lies there, 4 of 8 rounds done (continue with --resume, or choose another" in err
    )
    # Another seed asked for is not needed any more: the keys are in the file.
    assert sottovoce(*words, "--output", "run.npz", "--resume").code == 0
    whole, resumed = read_run(tmp_path / "whole.npz"), read_run(tmp_path / "run.npz")
    assert np.array_equal(whole.state.models, resumed.state.models)
    assert np.array_equal(whole.history.loss, resumed.history.loss)
    assert resumed.keys is None
    code, _, err = sottovoce(*words, "--clip", "2", "--output", "run.npz", "--resume")
    assert code == 2
    assert "its clip is 1.0, and 2.0 was asked for" in err


def test_progress_shows_loss_distance_and_epsilon_on_a_terminal(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pty = pytest.importorskip("pty")
    above, below = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ThreadPoolExecutor(1) as reader, os.fdopen(below, "w", encoding="utf-8") as terminal:
        # A terminal holds little that nobody has read, so it is read while the command runs.
        reading = reader.submit(said, above)
        with terminal, contextlib.redirect_stderr(terminal):
            code = sottovoce(*SUMS, *NOISE).code
        text = reading.result()
    os.close(above)
    assert code == 0
    assert "loss " in text
    assert "consensus distance " in text
    assert "ε ≤ " in text


def said(terminal: int) -> str:
    """All that is shown on a terminal until nobody holds it any more, which it says with an error."""
    shown = b""
    with contextlib.suppress(OSError):
        while part := os.read(terminal, 4096):
            shown += part
    return shown.decode()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (TRAIN, "--noise-multiplier must be given, or else a target ε"),
        ((*TRAIN, *NOISE, "--step", "fast"), "--step must be spelled like 0.5, 0.5/sqrt(t) or 0.5/(1+t/20)"),
        ((*TRAIN, *NOISE, "--clip", "0"), "--clip must be a finite number above 0"),
        ((*TRAIN, *NOISE, "--skew", "-1"), "--skew must be a finite number above 0"),
        ((*TRAIN, *NOISE, "--l2", "-1"), "--l2 must be a finite number of at least 0"),
        ((*TRAIN, *NOISE, "--batch-fraction", "2"), "--batch-fraction must lie in (0, 1]"),
        ((*TRAIN, *NOISE, "--resume"), "--resume goes on with the run in a file (name it with --output)"),
        ((*TRAIN, *NOISE, "--output", "run.json"), "a run is written to a file that ends in .npz"),
        ((*TRAIN, *NOISE, "--output", "none.npz", "--resume"), "none.npz: there is no such file"),
        ((*TRAIN, *NOISE, "--loss", "ridge"), "the loss ridge does not fit labels that are 2 classes"),
        ((*TRAIN, *NOISE, "--view", "coalition-sums"), "needs the members of the coalition"),
        ((*TRAIN, *NOISE, "--observer", "0"), "the view everyone takes no observer"),
        ((*TRAIN[:2], "--graph", "ring:n=600", "--rounds", "2", *NOISE), "there are 455 for 600 nodes"),
        (
            (*TRAIN, *NOISE, "--split-by", "site"),
            "--split-by must name a column of a CSV file; got 'site' with breast",
        ),
        (
            ("train", "synthetic", *TRAIN[2:], *NOISE, "--split-by", "site"),
            "--split-by must name a column of a CSV",
        ),
        (("train", "mnist", *TRAIN[2:], *NOISE, "--loss", "ridge"), "the data must be one of digits"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], complaint: str, sottovoce: Run) -> None:
    code, out, err = sottovoce(*words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_a_synthetic_problem(sottovoce: Run) -> None:
    words = (
        "train",
        "synthetic:dimension=4,heterogeneity=0.5",
        "--graph",
        "ring:n=5",
        "--rounds",
        "6",
        *NOISE,
    )
    document = json.loads(sottovoce(*words, "--view", "secure-sum", "--clip", "3", "--json").out)
    assert document["objective"] == "quadratic"
    assert document["account"]["assumption"] == "quadratic"
    assert document["excess_risk"] > 0
    text = " ".join(sottovoce(*words, "--view", "secure-sum", "--clip", "3").out.split())
    assert "Losses are quadratic, so the loop that they close is linear and computed as it is." in text
    assert "assuming quadratic (secure-sum view), ε ≤ " in text
    assert document["seeded"] is False
    assert "by a seed, for simulations: whoever knows it can take the noise away" in " ".join(
        sottovoce(*TRAIN, *NOISE).out.split()
    )
    assert "by a seed" not in sottovoce(*words).out


def test_push_sum_reads_weights_by_columns_as_everywhere(sottovoce: Run, tmp_path: Path) -> None:
    nx.write_graphml(nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")]), tmp_path / "around.graphml")
    np.save(tmp_path / "P.npy", np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.5], [0.0, 0.25, 0.5]]))
    (tmp_path / "clinics.csv").write_text(CLINICS, encoding="utf-8")
    divided = ("--rounds", "2", "--protocol", "push-sum", *NOISE, "--json")
    own: tuple[str, ...] = ("clinics.csv", "--loss", "logistic", "--split-by", "clinic", "--shard-size", "8")
    for data in (("synthetic",), ("breast-cancer",)):
        code, out, _ = sottovoce("train", *data, "--graph", "around.graphml", *divided)
        assert code == 0, data
        assert json.loads(out)["graph"]["origin"] == "uniform columns rule on the graph of around.graphml"
    # Averages need rows that sum to 1, too; that is said of the weights as they were read.
    for words in (("synthetic",), own):
        code, _, err = sottovoce("train", *words, "--graph", "P.npy", *divided)
        assert code == 2, words
        assert "the rows of its weights do not sum to 1, so that models are no averages" in err, words


def test_divergence_is_said(sottovoce: Run) -> None:
    words = ("train", "diabetes", "--graph", "ring:n=5", "--rounds", "60", "--seed", "1", "--l2", "0")
    code, out, err = sottovoce(*words, "--noise-multiplier", "0.001", "--clip", "1e9", "--step", "8")
    assert (code, out) == (2, "")
    assert "training diverged in round" in err


def test_observers_can_be_named(sottovoce: Run) -> None:
    words = (*TRAIN[:3], "ring:n=4", "--rounds", "2", "--seed", "1", *NOISE, "--json")
    one = json.loads(sottovoce(*words, "--view", "secure-sum", "--observer", "2").out)
    assert one["account"]["observers"] == [2]
    both = json.loads(sottovoce(*words, "--view", "coalition-sums", "--observer", "2", "--observer", "3").out)
    assert both["account"]["observers"] == [2, 3]


def test_a_report_is_drawn_without_matplotlib(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert sottovoce(*TRAIN, *NOISE, "--report", str(tmp_path / "run.html")).code == 0
    assert '<svg class="chart"' in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_a_report_holds_the_pairs_and_the_run(sottovoce: Run, tmp_path: Path) -> None:
    report = tmp_path / "run.html"
    code, _, err = sottovoce(*SUMS, *NOISE, "--report", str(report))
    page = report.read_text(encoding="utf-8")
    assert (code, err) == (0, f"sottovoce: wrote {report}\n")
    assert all(words in page for words in ("What the run gives away", "smooth: ", "Over the rounds"))
    code, _, err = sottovoce(*TRAIN, *NOISE, "--report", "run.txt")
    assert code == 2
    assert ".html" in err


def test_a_name_that_is_neither_data_nor_a_file_is_refused_as_such(sottovoce: Run) -> None:
    code, _, err = sottovoce("train", "digit", "--graph", "ring:n=5", "--rounds", "3", *NOISE)
    assert code == 2
    assert "the data must be one of digits, breast-cancer, diabetes, or a file" in err


def killed(words: tuple[str, ...], where: Path, at: int) -> dict[int, str]:
    """Run a command until a round is done, kill it as nothing can be killed more, and say what it had sent."""
    command = [sys.executable, "-c", SENDER, str(at), *words]
    sent = {}
    with subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "waiting\n":
                break
            done, _, digest = line.strip().partition(" ")
            sent[int(done)] = digest
        process.kill()
    assert process.returncode == -signal.SIGKILL
    return sent


@pytest.mark.load
@pytest.mark.parametrize(
    ("at", "protocol"),
    [(1, "gossip"), (5, "gossip"), (5, "pairwise-noise:local=1,shared=2"), (5, "gossip:encoder=1+1/2+3/8")],
)
def test_a_killed_run_sends_again_what_it_sent_bit_for_bit(
    at: int, protocol: str, sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a seed: rounds after the checkpoint are lost, and come again with the same noise on the same message."""
    sampled = ("train", "synthetic", *TRAIN[2:-2], *NOISE, "--batch-fraction", "0.5", "--protocol", protocol)
    words = (*sampled, "--output", "run.npz", "--checkpoint-every", "3")
    sent = killed(words, tmp_path, at)
    assert list(sent) == list(range(1, at + 1))
    kept = read_run(tmp_path / "run.npz")
    assert kept.state.round == 3 * (at // 3)
    assert not kept.seeded
    heard: dict[int, str] = {}

    def step_and_hear(*settings: Any) -> Any:
        found = step(*settings)
        heard[found[0].round] = hashlib.sha256(found[1].messages[0].tobytes()).hexdigest()
        return found

    monkeypatch.setattr(training, "step", step_and_hear)
    assert sottovoce(*words, "--resume").code == 0
    repeated = dict(heard)
    assert set(repeated) == set(range(max(kept.state.round, 1), 9))
    for done in set(repeated) & set(sent):
        assert repeated[done] == sent[done]
    assert read_run(tmp_path / "run.npz").finished
    # Another run, of the same words, sends something else.
    (tmp_path / "run.npz").unlink()
    assert sottovoce(*words).code == 0
    assert set(heard) == set(range(1, 9))
    assert not set(heard.values()) & set(sent.values())


@pytest.mark.parametrize("view", ["everyone", "secure-sum"])
def test_a_run_calibrated_to_4_shows_4_in_every_output(view: str, sottovoce: Run, tmp_path: Path) -> None:
    words = (*SUMS[:-1], view, "--target-epsilon", "4")
    code, out, err = sottovoce(*words, "--report", str(tmp_path / "run.html"), "--output", "run.npz")
    assert (code, err) == (0, f"sottovoce: wrote {tmp_path / 'run.html'}\n")
    text = " ".join(out.split())
    document = json.loads(sottovoce(*words, "--json").out)
    run = read_run(tmp_path / "run.npz")
    assert document["account"]["epsilon"]["upper"] == document["history"]["epsilon"][-1] == 4
    assert run.epsilon.upper == 4
    report = (tmp_path / "run.html").read_text()
    everyone = rounded_up(document["unconditional"]["epsilon"]["upper"])
    assert document["unconditional"]["assumption"] == "none"
    if view == "everyone":
        assert "ε ≤ 4 at δ = 1e-05 for one record of any node, whoever sees whatever" in text
        assert everyone == "4"
        rows = [("4", "none")]
    else:
        assert f"ε ≤ 4 assuming smooth (secure-sum view), ε ≤ {everyone} assuming nothing (local DP)" in text
        assert document["account"]["assumption"] == "smooth"
        assert float(everyone) > 4
        rows = [("4", "smooth"), (everyone, "none")]
    table = report[report.index("What the run gives away") :]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table)
    found = [(cells[6 * k], cells[6 * k + 1].partition(":")[0]) for k in range(len(rows))]
    assert found == rows
    assert "3.999" not in out + re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL)


def test_what_was_not_finite_is_told_to_nobody(sottovoce: Run, tmp_path: Path) -> None:
    words = (*TRAIN, *NOISE, "--report", str(tmp_path / "run.html"))
    assert "zeroed" not in sottovoce(*words).out + sottovoce(*words, "--json").out
    assert "zeroed" not in (tmp_path / "run.html").read_text()


def test_a_run_that_looks_at_one_observer_says_so(sottovoce: Run, tmp_path: Path) -> None:
    words = ("train", "synthetic", *SUMS[2:], *NOISE, "--observer", "3")
    text = " ".join(sottovoce(*words, "--report", "r.html").out.split())
    assert "any observer" not in text
    document = json.loads(sottovoce(*words, "--json").out)
    computed, possible = document["pairs_computed"], document["pairs_possible"]
    assert computed < possible == (computed + 1) * computed
    assert (
        f"at most in the {computed} pairs looked at, out of {possible} of the secure-sum view: node 3" in text
    )
    page = (tmp_path / "r.html").read_text("utf-8")
    assert f"{computed} of {possible} pairs of observer and target were computed." in page
    budget = ("--target-epsilon", "3", "--observer", "3", "--report", "b.html")
    assert sottovoce("train", "synthetic", *SUMS[2:], *budget).code == 0
    page = (tmp_path / "b.html").read_text("utf-8")
    assert f"quadratic, for the {computed} pairs that were computed, out of {possible}." in page


def test_a_view_that_is_given_no_less_than_local_dp_has_one_number(sottovoce: Run, tmp_path: Path) -> None:
    words = (
        "breast-cancer",
        "--graph",
        "path:n=4",
        "--rounds",
        "6",
        "--view",
        "neighbourhood",
        "--seed",
        "1",
    )
    text = " ".join(sottovoce("train", *words, "--target-epsilon", "4", "--report", "r.html").out.split())
    assert (
        "ε ≤ 4 at δ = 1e-05 assuming nothing (local DP); in the neighbourhood view no less is proved." in text
    )
    assert text.count("ε ≤ 4") == 1
    read = read_report(tmp_path / "r.html")
    assert read.page is not None
    assert read.page.local_squared is not None
    # To the last digit, so that no reader is shown two numbers for one.
    assert read.page.local_squared.interval == Interval.exactly(6.0)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert page.count('<p class="size">ε ≤ 4</p>') == page.count('<p class="size">') == 1
    assert "in the view neighbourhood no less is proved" in page
    assert sottovoce("verify", "r.html", "--graph", "path:n=4").code == 0


def test_every_output_leads_with_what_is_certified_and_has_local_dp_beside_it(sottovoce: Run) -> None:
    for data, assumption in (("breast-cancer", "smooth"), ("synthetic", "quadratic")):
        words = ("train", data, *SUMS[2:], *NOISE)
        document = json.loads(sottovoce(*words, "--json").out)
        assert document["account"]["assumption"] == assumption
        bounds = [document[name]["epsilon"]["upper"] for name in ("account", "unconditional")]
        assert bounds[0] < bounds[1]
        said = " ".join(sottovoce(*words).out.split())
        first = f"ε ≤ {rounded_up(bounds[0])} assuming {assumption}"
        second = f"ε ≤ {rounded_up(bounds[1])} assuming nothing (local DP)"
        assert said.index(first) < said.index(second)
        assert said.index(first) == said.index("ε ≤ ")
        names = list(document)
        assert names.index("account") + 1 == names.index("unconditional")


def test_coins_are_named_in_every_output(sottovoce: Run, tmp_path: Path) -> None:
    files = ("--output", "run.npz", "--report", "run.html")
    text = " ".join(sottovoce(*TRAIN, *NOISE, "--batch-fraction", "0.25", *files).out.split())
    assert "whoever sees whatever but the coins: nothing is assumed" in text
    assert "0.25 of the records, each by a coin of its own, which the seed tells; bound: amplified" in text
    assert "by a seed, for simulations: whoever knows it can take the noise away" in text
    shown = re.search(r"told ε ≤ ([\d.]+): .* amplified ε ≤ ([\d.]+): .* full ε ≤ ([\d.]+): ", text)
    assert shown is not None
    told, amplified, full = map(float, shown.groups())
    assert amplified < told < full
    document = json.loads(sottovoce(*TRAIN, *NOISE, "--batch-fraction", "0.25", "--json").out)
    assert (document["seeded"], document["randomness"][:6]) == (True, "a seed")
    account = document["account"]
    assert (account["method"], account["participation"]) == ("amplified", "poisson:0.25")
    assert [rounded_up(account["coins"][name]) for name in ("told", "amplified", "full")] == list(
        shown.groups()
    )
    assert "counts" not in account["coins"]
    kept = read_run(tmp_path / "run.npz")
    assert kept.account.epsilon().upper == kept.unconditional.epsilon().upper == account["epsilon"]["upper"]
    assert kept.account.epsilon(1e-6).upper > kept.account.epsilon().upper
    assert kept.seeded
    page = (tmp_path / "run.html").read_text("utf-8")
    assert "for simulations" in page
    assert "amplified" in page


def test_without_a_seed_outputs_name_the_systems_generator(sottovoce: Run) -> None:
    secret = (*TRAIN[:-2], *NOISE)
    dealt = " ".join(sottovoce(*secret, "--batches", "4").out.split())
    assert "4 an epoch, each record in one of them, in a secret order" in dealt
    assert "by the system's cryptographic generator, which gives each node a key of its own" in dealt
    tossed = " ".join(sottovoce(*secret, "--batch-fraction", "0.5", "--unit", "node").out.split())
    assert (
        "0.5 of the records, each by a secret coin of its own; accounted for as all, as nodes are protected"
        in tossed
    )
    document = json.loads(sottovoce(*secret, "--json").out)
    assert document["randomness"].startswith("the system's cryptographic generator")


def test_less_noise_is_enough_for_batches(sottovoce: Run) -> None:
    words = (*TRAIN, "--target-epsilon", "2", "--json")
    found = [
        json.loads(sottovoce(*words, *more).out)["noise_multiplier"]
        for more in ((), ("--batches", "8"), ("--batch-fraction", "0.1"))
    ]
    assert found == sorted(found, reverse=True)
    assert found[2] < found[0] / 3
