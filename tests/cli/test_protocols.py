"""`--protocol`: programs on the command line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import Scenario, View, account, account_all, calibrate, graphs, rate, worst_coalition
from sottovoce.accounting import central_account, local_account
from sottovoce.errors import InputError
from sottovoce.interval import rounded_up
from sottovoce.protocols import clean_state, gossip, momentum, repeated

Run = Callable[..., Any]
RING = ("ring:n=6", "--rounds", "4", "--view", "secure-sum", "--observer", "0")
MOMENTUM = momentum(graphs.metropolis_weights("ring:n=6"), rounds=4, beta="0.9")


def test_accounts_say_the_program_and_its_hash(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--protocol", "momentum:beta=0.9")
    code, out, err = sottovoce(*words)
    assert (code, err) == (0, "")
    assert "protocol       momentum: v = 0.9·v + contribution + u; message = model + v;" in out
    assert f"protocol hash  {MOMENTUM.hash}" in out
    local, central = (
        rounded_up(compared(MOMENTUM, noise_multiplier=2.0, delta=1e-5).epsilon().upper)
        for compared in (local_account, central_account)
    )
    assert f"ε ≤ {local} with local DP, ε ≤ {central} with central aggregation" in " ".join(out.split())
    document = json.loads(sottovoce(*words, "--json").out)
    assert document["protocol"] == "momentum"
    assert document["protocol_hash"] == MOMENTUM.hash
    table = account(MOMENTUM, View.secure_sum(0), noise_multiplier=2.0, delta=1e-5)
    assert [pair["epsilon"]["upper"] for pair in document["pairs"]] == table.epsilon_upper.tolist()


def test_plain_gossip_is_named_as_any_other_protocol(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2")
    assert sottovoce(*words).out == sottovoce(*words, "--protocol", "gossip").out
    document = json.loads(sottovoce(*words, "--json").out)
    plain = gossip(MOMENTUM.weights, rounds=MOMENTUM.rounds)
    assert {name: document[name] for name in plain.terms} == plain.terms


OWN_GOSSIP = """keeps = ["x"]
draws = [{ name = "e" }]
instructions = [
  { combine = "m", terms = { contribution = 1, x = 1, e = 1 } },
  { exchange = "m", into = "x" },
]
model = "x"
"""
SIGHT = (*RING, "--noise-multiplier", "2")


@pytest.mark.parametrize(
    "words",
    [
        ("account", *SIGHT),
        ("calibrate", *RING, "--target-epsilon", "1"),
        ("rate", "ring:n=6", "--view", "secure-sum", "--observer", "0"),
        (
            "coalition",
            "ring:n=6",
            "--rounds",
            "4",
            "--target",
            "0",
            "--size",
            "1",
            "--view",
            "coalition-sums",
        ),
        ("audit", *SIGHT, "--target", "1", "--trials", "200", "--seed", "1"),
        (
            "compare",
            "ring:n=6",
            "ring:n=7",
            "--view",
            "secure-sum",
            "--rounds",
            "4",
            "--noise-multiplier",
            "2",
        ),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("spelled", ["gossip", "push-sum", "own.toml"])
def test_every_answer_names_its_protocol_and_its_hash(
    sottovoce: Run, tmp_path: Path, words: tuple[str, ...], spelled: str
) -> None:
    (tmp_path / "own.toml").write_text(OWN_GOSSIP)
    written = () if words[0] == "calibrate" else ("--report", "r.html")
    code, out, _ = sottovoce(*words, "--protocol", spelled, "--json", *written)
    assert code == 0
    document = json.loads(out)
    document = document.get("contenders", [document])[0]
    assert document["protocol"] == {"own.toml": "own", "push-sum": "push_sum"}.get(spelled, spelled)
    assert "exchange m" in document["program"]
    shown = " ".join(sottovoce(*words, "--protocol", spelled).out.split())
    told = ("push_sum: message =", "own: m = contribution + x + e;")
    assert any(each in shown for each in told) == (spelled != "gossip")
    report = (tmp_path / "r.html").read_text(encoding="utf-8") if written else ""
    if words[0] == "rate":
        # A limit has no number of rounds, and the hash of a protocol would be that of one.
        assert "protocol_hash" not in document
        said = " ".join([document["program"], shown, report])
        assert not re.search(r"protocol hash|\b[0-9]+ rounds?\b", said)
        return
    assert re.fullmatch(r"[0-9a-f]{64}", document["protocol_hash"])
    assert (document["protocol_hash"] in shown) == (spelled != "gossip")
    assert (document["protocol_hash"] in report) == (words[0] != "calibrate")


def test_a_summary_names_protocol_and_hash(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN_GOSSIP)
    for spelled, name in (("gossip", "gossip"), ("own.toml", "own")):
        swept = ("sweep", "ring:n=5", "--rounds", "3", "--view", "secure-sum", "--output", f"{name}.sweep")
        assert sottovoce(*swept, "--protocol", spelled).code == 0
        words = ("summary", f"{name}.sweep", "--noise-multiplier", "2")
        document = json.loads(sottovoce(*words, "--json").out)
        assert document["protocol"] == name
        assert document["program"].endswith("; 3 rounds")
        assert (document["protocol_hash"] in sottovoce(*words).out) == (name != "gossip")


def test_reports_and_plots_of_programs(sottovoce: Run, tmp_path: Path) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--protocol", "repeated:steps=2")
    code, _, err = sottovoce(*words, "--report", "r.html", "--plot", "p.svg", "--output", "p.csv")
    assert (code, err) == (0, "sottovoce: wrote p.svg\nsottovoce: wrote r.html\n")
    assert {path.name for path in tmp_path.iterdir()} >= {"r.html", "p.svg", "p.csv"}


def test_calibration(sottovoce: Run) -> None:
    words = ("calibrate", *RING, "--target-epsilon", "1", "--target-delta", "1e-5")
    document = json.loads(sottovoce(*words, "--protocol", "momentum:beta=0.9", "--json").out)
    noise = calibrate(MOMENTUM, View.secure_sum(0), target_epsilon=1.0, target_delta=1e-5)
    assert document["noise_multiplier"] == noise
    code, out, err = sottovoce(
        *("calibrate", "ring:n=6", "--rounds", "4", "--view", "everyone", "--target-epsilon", "1"),
        *("--protocol", "pairwise-noise:local=0,shared=1"),
    )
    assert (code, out) == (3, "")
    assert "no noise multiplier hides node 0 in the everyone view" in err


def test_energy(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--contribution", "energy", "--json")
    document = json.loads(sottovoce(*words).out)
    assert document["contribution"] == "energy"
    assert max(pair["sensitivity_squared"]["upper"] for pair in document["pairs"]) <= 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--protocol", "adam"), "--protocol must be one of gossip, repeated"),
        (("--protocol", "momentum"), "the protocol momentum needs beta"),
        (("--protocol", "none.toml"), "none.toml: cannot be read"),
        (("--protocol", "momentum:beta=1", "--damping", "0.5"), "damping must be left out with the protocol"),
    ],
)
def test_bad_protocols_are_refused(sottovoce: Run, words: tuple[str, ...], complaint: str) -> None:
    code, out, err = sottovoce("account", *RING, "--noise-multiplier", "2", *words)
    assert (code, out) == (2, "")
    assert complaint in err


PROGRAM = ("--protocol", "momentum:beta=0.9")


def test_every_command_says_the_protocol_and_its_hash(sottovoce: Run) -> None:
    for words in (
        (
            "coalition",
            "ring:n=6",
            "--rounds",
            "4",
            "--target",
            "1",
            "--size",
            "2",
            "--view",
            "coalition-sums",
        ),
        ("audit", *RING, "--noise-multiplier", "2", "--target", "1", "--trials", "400", "--seed", "1"),
        ("calibrate", *RING, "--target-epsilon", "1"),
    ):
        code, out, err = sottovoce(*words, *PROGRAM, "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert (document["protocol"], document["protocol_hash"]) == ("momentum", MOMENTUM.hash)
        assert document["program"] == MOMENTUM.sentence
        assert f"protocol hash {MOMENTUM.hash}" in " ".join(sottovoce(*words, *PROGRAM).out.split())


def test_a_sweep_of_a_program_is_continued_with_that_program_alone(sottovoce: Run, tmp_path: Path) -> None:
    words = (
        "sweep",
        "ring:n=6",
        "--rounds",
        "4",
        "--view",
        "secure-sum",
        "--output",
        str(tmp_path / "pairs"),
    )
    assert sottovoce(*words, *PROGRAM).code == 0
    assert sottovoce(*words, *PROGRAM, "--resume").code == 0
    code, _, err = sottovoce(*words, "--resume", "--protocol", "momentum:beta=0.8")
    assert code == 2
    assert "a sweep is continued with the protocol it began with, 'v = 0.9·v + contribution + u;" in err
    summary = ("summary", str(tmp_path / "pairs"), "--noise-multiplier", "2")
    document = json.loads(sottovoce(*summary, "--json").out)
    assert (document["protocol"], document["protocol_hash"]) == ("momentum", MOMENTUM.hash)
    out = " ".join(sottovoce(*summary).out.split())
    assert f"protocol momentum: {MOMENTUM.sentence}" in out
    assert "local DP" not in out


SILENT = """
keeps = ["model", "y", "g"]
instructions = [
  { combine = "fresh", terms = { contribution = 1 } },
  { exchange = "y", into = "y" },
  { combine = "y", terms = { y = 1, fresh = 1, g = -1 } },
  { combine = "g", terms = { fresh = 1 } },
  { combine = "message", terms = { model = 1, y = 1 } },
  { exchange = "message", into = "model" },
]
"""


@pytest.mark.parametrize(
    ("protocol", "rounds", "missing"),
    [
        ("clean-state:keep=0.5,noise_levels=0", "4", "the draw 'u' has level 0 at node 1"),
        ("tracking.toml", "4", "the program draws no noise"),
        ("once.toml", "1", "the program draws no noise"),
    ],
)
def test_an_infinite_sensitivity_is_said_and_which_noise_is_missing(
    sottovoce: Run, tmp_path: Path, protocol: str, rounds: str, missing: str
) -> None:
    (tmp_path / "tracking.toml").write_text(SILENT)
    (tmp_path / "once.toml").write_text(
        'keeps = ["model"]\ninstructions = [{ combine = "y", terms = { contribution = 1 } }, '
        '{ exchange = "y", into = "y" }, { exchange = "y", into = "model" }]\n'
    )
    words = ("account", "ring:n=6", "--rounds", rounds, "--view", "neighbourhood", "--observer", "0")
    asked = (*words, "--noise-multiplier", "2", "--protocol", protocol)
    code, out, err = sottovoce(*asked, "--output", "p.csv", "--report", "r.html")
    assert (code, err) == (0, "sottovoce: wrote r.html\n")
    text = " ".join(out.split())
    assert text.startswith(
        "An infinite ε at every δ: of the 5 pairs looked at, out of 30, node 0 can learn most"
    )
    assert "No noise hides some of what node 1 contributes: it is seen as it is." in text
    assert f"infinite Δ and ε: {missing}" in text
    assert "ε ≤ ∞ with local DP" in text
    document = json.loads(sottovoce(*asked, "--json").out)
    assert missing in document["infinite"]
    pair = document["pairs"][0]
    assert pair["sensitivity_squared"] == {"lower": None, "upper": None, "method": "infinite"}
    assert pair["epsilon"] == {"lower": None, "upper": None}
    line = (tmp_path / "p.csv").read_text().splitlines()[1].split(",")
    assert line[3:10] == ["inf", "inf", "infinite", "inf", "inf", "inf", "inf"]
    assert missing in (tmp_path / "r.html").read_text().replace("&#x27;", "'").replace("\\u0027", "'")


def test_rates_of_programs(sottovoce: Run) -> None:
    words = (
        "rate",
        "ring:n=6",
        "--view",
        "secure-sum",
        "--observer",
        "0",
        "--protocol",
        "clean-state:keep=0.5",
    )
    code, out, err = sottovoce(*words)
    assert (code, err) == (0, "")
    assert "protocol clean_state: message = model + u; exchange message → sum;" in " ".join(out.split())
    assert "average" not in out
    document = json.loads(sottovoce(*words, "--json").out)
    protocol = clean_state(graphs.metropolis_weights("ring:n=6"), rounds=1, keep="0.5")
    found = rate(protocol, View.secure_sum(0))
    assert (document["protocol"], document["program"]) == ("clean_state", protocol.each_round)
    assert [pair["rate"]["upper"] for pair in document["pairs"]] == found.upper.tolist()


def test_an_infinite_rate_is_said(sottovoce: Run, tmp_path: Path) -> None:
    words = ("rate", "ring:n=6", "--view", "everyone", "--protocol", "clean-state:keep=1")
    code, out, err = sottovoce(*words, "--output", "rates.csv")
    assert (code, err) == (0, "")
    assert "Δ² grows without bound a round, as it grows faster than the rounds" in out
    assert "constant ∞" in " ".join(out.split())
    document = json.loads(sottovoce(*words, "--json").out)
    assert "infinite" not in document
    assert document["pairs"][0]["rate"]["lower"] is None
    assert (tmp_path / "rates.csv").read_text().splitlines()[1].split(",")[3:5] == ["inf", "inf"]


MISSING = (
    "the draw 'u' has level 0 at node 0, so that some of what it contributes is seen beside no noise at all"
)
EVERY_VERB = {
    "rate ring:n=6 --view everyone": "Δ² grows without bound a round, as it is infinite:",
    "coalition ring:n=6 --rounds 6 --target 0 --size 2 --view coalition-messages": (
        "No coalition of 2 learns more about node 0 than the coalition 1, 5: Δ² ≤ ∞."
    ),
    "train synthetic --graph ring:n=6 --rounds 2 --noise-multiplier 3 --view everyone": "An infinite ε at every δ",
}


@pytest.mark.parametrize("words", EVERY_VERB, ids=lambda words: words.split()[0])
def test_every_verb_says_which_noise_is_missing(sottovoce: Run, words: str) -> None:
    spelled = (*words.split(), "--protocol", "pairwise-noise:local=0,shared=2")
    code, out, err = sottovoce(*spelled)
    assert (code, err) == (0, "")
    assert EVERY_VERB[words] in " ".join(out.split())
    assert f"infinite Δ and ε: {MISSING}" in " ".join(out.split())
    if not words.startswith("train"):
        assert json.loads(sottovoce(*spelled, "--json").out)["infinite"] == MISSING


def test_rates_that_are_not_certified_are_refused(sottovoce: Run) -> None:
    words = (
        "rate",
        "ring:n=6",
        "--view",
        "secure-sum",
        "--observer",
        "0",
        "--protocol",
        "clean-state:keep=2",
    )
    found = sottovoce(*words)
    assert (found.code, found.out) == (3, "")
    assert "no rate is certified" in found.err


def test_encoded_noise_has_a_rate(sottovoce: Run) -> None:
    words = ("rate", "ring:n=6", "--view", "everyone", "--protocol", "gossip:encoder=1+1", "--json")
    document = json.loads(sottovoce(*words).out)
    # Whoever sees all of Anti-PGD over two rounds sees |1 + e^{-iω}|² of a constant stream: 4 a round.
    assert document["pairs"][0]["rate"]["upper"] == pytest.approx(4, rel=1e-6)


def test_certificates_say_the_program_and_its_hash(sottovoce: Run) -> None:
    words = ("certify", *RING, "--target", "2", "--output", "claim.json")
    code, out, err = sottovoce(*words, "--protocol", "momentum:beta=0.9", "--contribution", "energy")
    assert (code, err) == (0, "")
    assert "program       v = 0.9·v + contribution + u; message = model + v;" in out
    assert MOMENTUM.hash in out
    assert max(map(len, out.splitlines())) <= 80
    for named in (("--protocol", "momentum:beta=0.9"), ()):
        code, out, err = sottovoce("verify", "claim.json", "--graph", "ring:n=6", *named)
        assert (code, err) == (0, "")
        assert MOMENTUM.hash in out
        assert ("that the nodes run the program in the file" in out) == (not named)
    document = json.loads(sottovoce("verify", "claim.json", "--graph", "ring:n=6", "--json").out)
    assert document["protocol_hash"] == MOMENTUM.hash
    assert document["program"] == MOMENTUM.sentence.replace("0.9", "9/10")


def test_a_certificate_of_another_protocol_is_refused(sottovoce: Run) -> None:
    words = ("certify", *RING, "--target", "2", "--output", "claim.json", "--protocol", "momentum:beta=0.9")
    assert sottovoce(*words).code == 0
    for other in ("gossip", "momentum:beta=0.5", "gradient-tracking"):
        code, out, err = sottovoce("verify", "claim.json", "--graph", "ring:n=6", "--protocol", other)
        assert code == 3
        assert "Not verified" in out
        assert err.startswith(
            "sottovoce: not verified: this certificate speaks of another protocol: v = 9/10·v"
        )
    assert sottovoce("verify", "claim.json", "--graph", "ring:n=7").code == 3
    code, out, err = sottovoce("verify", "claim.json", "--protocol", "gossip")
    assert (code, out) == (2, "")
    assert "--protocol gossip needs a graph to run on" in err


def test_an_infinite_sensitivity_is_not_certified(sottovoce: Run, tmp_path: Path) -> None:
    words = (
        "certify",
        "ring:n=6",
        "--rounds",
        "4",
        "--view",
        "everyone",
        "--target",
        "2",
        "--output",
        "c.json",
    )
    code, out, err = sottovoce(*words, "--protocol", "pairwise-noise:local=0,shared=1")
    assert (code, out) == (3, "")
    assert "Δ is infinite, so there is nothing to certify" in err
    assert f"as {MISSING.replace('node 0', 'node 2')} (add a draw of that node to what it sends" in err
    assert not (tmp_path / "c.json").exists()


def test_training_runs_the_program_that_it_accounts_for(sottovoce: Run) -> None:
    words = (
        "train",
        "synthetic",
        "--graph",
        "ring:n=6",
        "--rounds",
        "4",
        "--target-epsilon",
        "4",
        "--seed",
        "1",
    )
    code, out, err = sottovoce(*words, *PROGRAM, "--step", "0.05", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert (document["protocol"], document["protocol_hash"]) == ("momentum", MOMENTUM.hash)
    assert document["account"]["assumption"] == "none"
    text = " ".join(sottovoce(*words, *PROGRAM, "--step", "0.05").out.split())
    assert f"protocol hash {MOMENTUM.hash}" in text
    for more in ((*PROGRAM, "--view", "secure-sum"), ("--protocol", "pairwise-noise:local=1,shared=1")):
        code, out, err = sottovoce(*words, "--step", "0.05", *more, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["account"]["epsilon"]["upper"] <= 4
    for more, complaint in ((("--protocol", "clean-state:keep=0.5"), "its messages do not tell its models"),):
        code, out, err = sottovoce(*words, "--step", "0.05", *more)
        assert (code, out) == (2, "")
        assert complaint in err


REPEATED = repeated(graphs.metropolis_weights("ring:n=6"), rounds=3, steps=3)
TWICE = ("--protocol", "repeated:steps=3", "--exchanges", "1,3")
PART = ("ring:n=6", "--rounds", "3", "--view", "secure-sum", "--observer", "0")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("account", *PART, "--noise-multiplier", "2"), "worst"),
        (("calibrate", *PART, "--target-epsilon", "1"), "worst"),
        (("rate", "ring:n=6", "--view", "secure-sum", "--observer", "0"), None),
        (
            ("audit", *PART, "--noise-multiplier", "2", "--target", "1", "--trials", "200", "--seed", "1"),
            None,
        ),
        (("certify", *PART, "--target", "1", "--output", "c.json"), None),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_view_of_some_exchanges(sottovoce: Run, words: tuple[str, ...], key: str | None) -> None:
    code, out, err = sottovoce(*words, *TWICE, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["exchanges"] == [1, 3]
    if key is not None:
        view = View.secure_sum(0, exchanges=[1, 3])
        table = account(REPEATED, view, noise_multiplier=2.0, delta=1e-5)
        squared = table.worst().sensitivity_squared
        assert squared is not None
        assert document[key]["sensitivity_squared"]["upper"] == squared.upper
    assert "exchanges [1, 3] of a round alone" in " ".join(sottovoce(*words, *TWICE).out.split())


def test_a_sweep_of_some_exchanges(sottovoce: Run) -> None:
    words = ("sweep", "ring:n=6", "--rounds", "3", "--view", "secure-sum", "--output", "s", *TWICE)
    assert sottovoce(*words).code == 0
    shown = ("summary", "s", "--noise-multiplier", "2")
    document = json.loads(sottovoce(*shown, "--json").out)
    table = account_all(REPEATED, "secure-sum", noise_multiplier=2.0, delta=1e-5, exchanges=[1, 3])
    assert document["exchanges"] == [1, 3]
    assert document["worst"]["epsilon"]["upper"] == table.epsilon_upper.max()
    assert "exchanges [1, 3] of a round alone" in " ".join(sottovoce(*shown).out.split())
    code, _, err = sottovoce(*words[:-1], "1", "--resume")
    assert (code, "exchanges" in err) == (2, True)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("0", "--exchanges must list whole numbers from 1 on; got '0' (write 1,3, say)"),
        ("1,x", "--exchanges must list whole numbers from 1 on; got '1,x'"),
        ("4", "exchanges of a view must be exchanges of the program, 1 to 3 of a round; got 4"),
    ],
)
def test_exchanges_that_no_round_has_are_refused(sottovoce: Run, given: str, complaint: str) -> None:
    words = ("account", *PART, "--noise-multiplier", "2", "--protocol", "repeated:steps=3")
    code, out, err = sottovoce(*words, "--exchanges", given)
    assert (code, out) == (2, "")
    assert complaint in err


def test_a_search_of_coalitions_sees_every_exchange() -> None:
    asked = Scenario(protocol=REPEATED, view="coalition-sums", targets=[0], exchanges=[1])
    with pytest.raises(
        InputError, match=r"who see every exchange of a round; got exchanges \[1\] \(leave them out"
    ):
        worst_coalition(asked, size=1)


def test_the_report_of_some_exchanges_is_verified(sottovoce: Run) -> None:
    words = ("account", *PART[:-2], "--noise-multiplier", "2", *TWICE, "--report", "r.html")
    assert sottovoce(*words).code == 0
    assert sottovoce("verify", "r.html", "--graph", "ring:n=6").code == 0
