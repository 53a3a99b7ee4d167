# SPDX-License-Identifier: Apache-2.0
"""`sottovoce verify report.html`: an honest report is proved, and each way to forge one is found out by name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import certificates, gossip
from sottovoce.accounting import reached
from sottovoce.cli import main
from sottovoce.documents.carried import read_report
from sottovoce.errors import FileError
from sottovoce.report.html import Section, report_html
from sottovoce.verification import others

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., Any]

GRAPH = "path:n=5"
ACCOUNT = ("account", GRAPH, "--rounds", "4", "--noise-multiplier", "4", "--report", "r.html")
SUMS = (*ACCOUNT, "--view", "secure-sum")
VERIFY = ("verify", "r.html", "--graph", GRAPH)


def opening(name: str) -> str:
    return f'<script type="application/json" id="{name}">'


def element(text: str, name: str) -> tuple[int, int]:
    """Where the content of an element begins and ends."""
    start = text.index(opening(name)) + len(opening(name))
    return start, text.index("</script>", start)


def held(file: Path, name: str) -> Any:
    text = file.read_text(encoding="utf-8")
    start, end = element(text, name)
    return json.loads(text[start:end])


def put(file: Path, name: str, value: Any) -> None:
    """Write an element again with other content."""
    text = file.read_text(encoding="utf-8")
    start, end = element(text, name)
    file.write_text(text[:start] + json.dumps(value).replace("<", "\\u003c") + text[end:], encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of one view, with every pair, drawn once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("page"))
        assert main(SUMS) == 0
        return Path("r.html").read_text(encoding="utf-8")


@pytest.fixture
def report(page: str, tmp_path: Path) -> Path:
    """The report in the folder of the test, which may forge it."""
    (tmp_path / "r.html").write_text(page, encoding="utf-8")
    return tmp_path / "r.html"


def swapped(report: Path, **changes: Any) -> None:
    """Put another certificate, whose hash is right, in the place of the report's."""
    (text,) = held(report, "certificates")
    other = replace(certificates.from_text(text), **changes)
    put(report, "certificates", [certificates.to_text(other)])


def refused(sottovoce: Run, sentence: str) -> None:
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Not verified: ")
    assert err.startswith("sottovoce: not verified: ")
    assert sentence in err
    document = json.loads(sottovoce(*VERIFY, "--json").out)
    assert (document["verdict"], document["verified"]) == ("refused", False)
    assert sentence in document["views"][0]["reason"]


def test_both_views_of_an_honest_report_are_verified(sottovoce: Run, tmp_path: Path) -> None:
    assert sottovoce(*ACCOUNT).code == 0
    code, out, err = sottovoce(*VERIFY)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for view in ("secure-sum", "neighbourhood"):
        assert f"Verified: {view}: the page shows ε ≤ " in out
    assert " ".join(out.split()).count("20 of 20 pairs are proved no worse.") == 2
    document = json.loads(sottovoce(*VERIFY, "--json").out)
    assert (document["verdict"], document["verified"]) == ("verified", True)
    data = held(tmp_path / "r.html", "data")
    for part, view in zip([data, *data["beside"]], document["views"], strict=True):
        assert view["view"] == part["view"]
        assert view["shown"]["epsilon"] == part["epsilon_upper"]
        assert view["epsilon"] == pytest.approx(part["epsilon_upper"], rel=1e-5)
        assert view["pairs"] == {"held": 20, "possible": 20, "proved_no_worse": 20}
        assert view["reason"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("--view", "everyone"),
        ("--view", "coalition-sums", "--observer", "0", "--observer", "2"),
        ("--view", "single-node", "--own-noise", "hidden"),
        ("--view", "neighbourhood", "--relation", "replace-one", "--participation", "every:2"),
    ],
)
def test_every_view_carries_a_proof(words: tuple[str, ...], sottovoce: Run) -> None:
    assert sottovoce(*ACCOUNT, *words).code == 0
    code, _, err = sottovoce(*VERIFY)
    assert (code, err) == (0, "")


PROGRAMS = (
    "momentum:beta=0.5",
    "repeated:steps=2",
    "pairwise-noise:local=1,shared=2",
    "gossip:encoder=1+1/2",
    "gradient-tracking:noise=messages",
)


@pytest.mark.parametrize("protocol", PROGRAMS)
def test_reports_of_programs_carry_proofs_too(protocol: str, sottovoce: Run, tmp_path: Path) -> None:
    run = ("path:n=3", "--rounds", "3", *ACCOUNT[4:])
    assert sottovoce("account", *run, "--protocol", protocol).code == 0
    code, out, err = sottovoce(*VERIFY[:-1], "path:n=3")
    assert (code, err) == (0, "")
    assert " ".join(out.split()).count("6 of 6 pairs are proved no worse.") == 2
    texts = held(tmp_path / "r.html", "certificates")
    assert [certificates.from_text(text).rounds for text in texts] == [3, 3]


def lower_to(pairs: dict[str, list[float]], end: float) -> None:
    """Both ends of all pairs that are above one."""
    for column in ("lower", "upper"):
        pairs[column] = [min(each, end) for each in pairs[column]]


def test_forged_reports_of_programs_are_found_out(sottovoce: Run, tmp_path: Path) -> None:
    report, asked = tmp_path / "r.html", ("--protocol", "momentum:beta=0.5")
    assert sottovoce(*SUMS, *asked).code == 0
    honest = report.read_text(encoding="utf-8")
    # Another program, and the plain one, whose numbers are smaller here or the same.
    (text,) = held(report, "certificates")
    mine = certificates.from_text(text)
    swapped(report, program=gossip(np.full((2, 2), 0.5), rounds=1).program)
    refused(sottovoce, "the protocol of the page has the hash")
    swapped(report, encoder=(1, 1))
    refused(sottovoce, "the protocol of the page has the hash")
    put(report, "certificates", [text])
    data = held(report, "data")
    data["protocol_hash"] = "0" * 64
    put(report, "data", data)
    refused(
        sottovoce,
        f"the protocol of the page has the hash {'0' * 64}, that of its certificate {mine.protocol_hash}",
    )
    report.write_text(honest, encoding="utf-8")
    data = held(report, "data")
    worst = max(data["pairs"]["upper"])
    lesser = max(end for end in data["pairs"]["upper"] if end < 0.95 * worst)
    place = data["pairs"]["upper"].index(lesser)
    observer = data["observers"][data["pairs"]["observer"][place]][0]
    words = (
        "--rounds",
        "4",
        "--view",
        "secure-sum",
        "--noise-multiplier",
        "4",
        "--output",
        "other.json",
        *asked,
    )
    pair = ("--observer", str(observer), "--target", str(data["pairs"]["target"][place]))
    assert sottovoce("certify", GRAPH, *words, *pair).code == 0
    claimed = certificates.load(tmp_path / "other.json").squared_upper
    data["pairs"]["upper"][place] = claimed
    lower_to(data["pairs"], claimed)
    put(report, "data", data)
    put(report, "certificates", [(tmp_path / "other.json").read_text(encoding="utf-8")])
    refused(sottovoce, "as its largest; Δ² of ")


def test_a_certificate_of_a_part_of_the_view_proves_no_report(sottovoce: Run, tmp_path: Path) -> None:
    report = tmp_path / "r.html"
    assert sottovoce(*SUMS, "--protocol", "repeated:steps=2").code == 0
    (text,) = held(report, "certificates")
    swapped(report, view=replace(certificates.from_text(text).view, exchanges=(1,)))
    refused(sottovoce, "the list of exchanges of the page is all, that of its certificate (1,)")


def test_pairs_of_programs_beyond_the_work_are_the_reports_word(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sottovoce(*SUMS, "--protocol", "gradient-tracking:noise=messages").code == 0
    monkeypatch.setattr(others, "_PER_PAIR", 10**12)
    code, _, err = sottovoce(*VERIFY)
    assert code == 3
    assert "1 of 20 pairs are proved no worse than the headline" in err


def test_the_name_of_the_file_does_not_matter(sottovoce: Run, report: Path) -> None:
    report.rename(report.with_name("claim.json"))
    code, _, err = sottovoce("verify", "claim.json", "--graph", GRAPH)
    assert (code, err) == (0, "")


@pytest.mark.usefixtures("report")
def test_without_a_graph_a_report_is_consistent_at_best(sottovoce: Run) -> None:
    code, out, err = sottovoce("verify", "r.html")
    assert code == 3
    assert out.startswith("Consistent, not verified: ")
    assert "consistent with the weights in the report, but no graph was named" in err


def test_a_report_of_some_observers_says_what_it_does_not_know(sottovoce: Run) -> None:
    assert sottovoce(*SUMS, "--observer", "2").code == 0
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Consistent, not verified: ")
    assert "the page holds 4 of the 20 pairs of this view; the worst may be higher" in err


def test_the_first_certificate_there_is_says_how_the_graph_is_read(sottovoce: Run, tmp_path: Path) -> None:
    """Columns of push-sum sum to 1: the view that comes first may carry no certificate that shows it."""
    np.save(tmp_path / "P.npy", np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.5], [0.0, 0.25, 0.5]]))
    run = ("--rounds", "3", "--noise-multiplier", "2", "--protocol", "push-sum", "--report", "r.html")
    assert sottovoce("account", "P.npy", *run).code == 0
    first, second = held(tmp_path / "r.html", "certificates")
    put(tmp_path / "r.html", "certificates", [None, second])
    code, out, err = sottovoce("verify", "r.html", "--graph", "P.npy", "--json")
    assert (code, [view["verified"] for view in json.loads(out)["views"]]) == (3, [False, True])
    assert first is not None
    assert "carries no certificate" in err


@pytest.mark.usefixtures("report")
def test_what_is_not_affordable_is_the_reports_word(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "_MOST_ROWS", 0)
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Consistent, not verified: ")
    assert (
        "1 of 20 pairs are proved no worse than the headline; that the others are not is the report's word"
        in err
    )


def test_a_lowered_headline_is_refused(sottovoce: Run, report: Path) -> None:
    data = held(report, "data")
    whole = dict(data)
    data["epsilon_upper"] *= 0.99
    put(report, "data", data)
    refused(sottovoce, "; from its Δ² follows ε ≤ ")
    pairs = dict(
        whole["pairs"], **{end: [0.9 * each for each in whole["pairs"][end]] for end in ("lower", "upper")}
    )
    put(report, "data", whole | {"pairs": pairs, "epsilon_upper": 0.5})
    refused(sottovoce, "for its worst pair; proved is Δ² ≤ ")


def test_a_worse_pair_that_is_lowered_is_found(sottovoce: Run, report: Path, tmp_path: Path) -> None:
    data = held(report, "data")
    worst = max(data["pairs"]["upper"])
    lesser = max(end for end in data["pairs"]["upper"] if end < 0.95 * worst)
    place = data["pairs"]["upper"].index(lesser)
    names = [data["graph"]["labels"][node] for node in data["observers"][data["pairs"]["observer"][place]]]
    words = ("--rounds", "4", "--view", "secure-sum", "--noise-multiplier", "4", "--output", "other.json")
    target = str(data["graph"]["labels"][data["pairs"]["target"][place]])
    assert sottovoce("certify", GRAPH, *words, "--observer", str(names[0]), "--target", target).code == 0
    # Whoever lowers the worst pairs to the next one has an honest certificate for that one.
    claimed = certificates.load(tmp_path / "other.json").squared_upper
    data["pairs"]["upper"][place] = claimed
    lower_to(data["pairs"], claimed)
    put(report, "data", data)
    put(report, "certificates", [(tmp_path / "other.json").read_text(encoding="utf-8")])
    refused(sottovoce, "as its largest; Δ² of ")


def test_a_pair_that_is_taken_out_is_missed(sottovoce: Run, report: Path) -> None:
    data = held(report, "data")
    place = data["pairs"]["upper"].index(min(data["pairs"]["upper"]))
    for column in data["pairs"].values():
        del column[place]
    put(report, "data", data)
    refused(sottovoce, "the page says that it holds 20 pairs; it holds 19")
    put(report, "data", data | {"pairs_computed": 19, "pairs_possible": 19})
    refused(sottovoce, "the view has 20 pairs; the page says 19")
    put(report, "data", data | {"pairs_computed": 19})
    code, _, err = sottovoce(*VERIFY)
    assert code == 3
    assert "the page holds 19 of the 20 pairs of this view; the worst may be higher" in err
    for column in data["pairs"].values():
        column.append(column[0])
    put(report, "data", data)
    refused(sottovoce, "a pair stands twice in the page")


def test_a_certificate_of_something_else_is_refused(sottovoce: Run, report: Path) -> None:
    (text,) = held(report, "certificates")
    mine = certificates.from_text(text)
    assert mine.mechanism is not None
    swapped(report, mechanism=replace(mine.mechanism, noise_multiplier=8.0))
    refused(sottovoce, "the noise multiplier of the page is 4.0, that of its certificate 8.0")
    swapped(report, mechanism=replace(mine.mechanism, delta=1e-3))
    refused(sottovoce, "the δ of the page is 1e-05, that of its certificate 0.001")
    swapped(report, mechanism=None)
    refused(sottovoce, "the noise multiplier of the page is 4.0, that of its certificate None")
    another = next(node for node in range(5) if node not in {*mine.view.observers, mine.target})
    swapped(report, mechanism=mine.mechanism, target=another)
    refused(sottovoce, "the worst pair of the page is ")
    put(report, "certificates", [None])
    refused(sottovoce, "the report carries no certificate of this view, so nothing is proved")


def test_another_graph_is_not_that_of_the_report(sottovoce: Run, report: Path) -> None:
    code, _, err = sottovoce("verify", "r.html", "--graph", "ring:n=5")
    assert code == 3
    assert "the page speaks of another graph" in err
    data = held(report, "data")
    data["graph"]["labels"].reverse()
    put(report, "data", data)
    refused(sottovoce, "the page names the nodes otherwise than the graph does")


@pytest.mark.parametrize(
    ("forged", "sentence"),
    [
        (
            lambda text: text.replace(opening("data"), opening("data") + "null</script>" + opening("data")),
            "has 2",
        ),
        (lambda text: text.replace(opening("data"), opening("data") + "<script>"), "must hold JSON alone"),
        (
            lambda text: text.replace(opening("certificates"), opening("else")),
            'id="certificates">; this file has none',
        ),
        (lambda text: text.replace(opening("data"), opening("data") + "["), "is not JSON"),
        (lambda text: text.replace(opening("data"), opening("data") + "[" * 100_000), "is not JSON"),
        (lambda text: text[: element(text, "data")[1]], "must hold JSON alone"),
        (
            lambda text: text.replace('"rounds":4', '"rounds":4,"rounds":7'),
            "stands twice in the same JSON object",
        ),
        (lambda text: text.replace('"upper":[', '"upper":[NaN,'), "finite numbers only"),
        (lambda text: text.replace('"upper":[', '"upper":[-1,'), "must have the same length"),
        (
            lambda text: text.replace('"target":[', '"target":["0",'),
            "pairs.target[0] must be a whole number; got '0'",
        ),
        (lambda text: text.replace('"target":[', f'"target":[{2**70},'), "pairs.target[0] must be"),
        (
            lambda text: text.replace(opening("certificates") + "[", opening("certificates") + "[null,"),
            "one certificate (or null) a view; got 2 for 1",
        ),
        (lambda text: text.replace('"beside":[]', '"beside":[{}]'), "beside[0] lacks the field schema"),
        (lambda text: text.replace('"factor":', '"colour":1,"factor":'), "has an unknown field colour"),
        (
            lambda text: text.replace(opening("certificates") + "[", opening("certificates") + "[[],"),
            "must be a list of at least 1; got a list of 0",
        ),
        (lambda _: "<html></html>", "this file has none"),
        (lambda text: text + " " * 64_000_000, "a report has at most 64000000 bytes"),
    ],
)
def test_tricks_with_the_markup_are_errors(
    forged: Callable[[str], str], sentence: str, sottovoce: Run, report: Path
) -> None:
    report.write_text(forged(report.read_text(encoding="utf-8")), encoding="utf-8")
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: error: r.html: ")
    assert sentence in err
    with pytest.raises(FileError):
        read_report(report)


def test_a_report_without_its_data_proves_nothing(sottovoce: Run, report: Path) -> None:
    put(report, "data", None)
    code, _, err = sottovoce(*VERIFY)
    assert (code, "certificates must be those of its answer" in err) == (2, True)
    put(report, "certificates", [])
    code, out, err = sottovoce(*VERIFY)
    assert (code, out.splitlines()[0]) == (3, "Nothing in this report can be checked.")
    assert "on trust are every number" in err


def test_a_report_says_how_to_check_it_or_why_not(sottovoce: Run, report: Path) -> None:
    said = re.sub('<span class="whole">|</span>', "", report.read_text(encoding="utf-8"))
    assert "sottovoce verify FILE --graph GRAPH checks it by other code" in said
    # Patterns are gone through one by one here, which no certificate holds.
    assert sottovoce(*SUMS, "--participation", "at-most:2").code == 0
    text = report.read_text(encoding="utf-8")
    assert held(report, "certificates") == [None]
    words = re.sub('<span class="whole">|</span>', "", text)
    assert "No certificate is carried for the view secure-sum: what can be certified is Δ² ≤ " in words
    assert "sottovoce verify FILE" not in text
    refused(sottovoce, "the report carries no certificate of this view")


def test_names_cannot_forge_an_element() -> None:
    evil = f"{opening('data')}null</script>"
    section = Section(heading=evil, text=evil)
    page: Any = {"name": evil}
    text = report_html(title=evil, account=page, sections=[section], proofs=[evil])
    assert text.count(opening("data")) == text.count(opening("certificates")) == 1


@pytest.mark.parametrize("protocol", ["gossip", "momentum:beta=0.5", "repeated:steps=2"])
def test_what_is_called_verified_is_proved_to_the_last_digit(
    sottovoce: Run, tmp_path: Path, protocol: str
) -> None:
    report = tmp_path / "r.html"
    words = ("--rounds", "6", "--view", "secure-sum", "--target-epsilon", "1", "--protocol", protocol)
    assert sottovoce("calibrate", GRAPH, *words, "--report", "r.html").code == 0
    assert "the budget ε ≤ 1 is kept" in re.sub("<[^>]*>", "", report.read_text(encoding="utf-8"))
    code, out, err = sottovoce("verify", "r.html", "--graph", GRAPH, "--json")
    (view,) = json.loads(out)["views"]
    assert (code, err, view["verdict"]) == (0, "", "verified")
    assert view["epsilon"] <= view["shown"]["epsilon"] <= 1
    assert view["proved"]["upper"] <= view["shown"]["sensitivity_squared"]
    # A hair less than what is proved is not what is proved.
    data = held(report, "data")
    less = view["proved"]["upper"] * (1 - 1e-12)
    data["pairs"]["upper"] = [min(end, less) for end in data["pairs"]["upper"]]
    put(report, "data", data)
    code, out, _ = sottovoce("verify", "r.html", "--graph", GRAPH, "--json")
    (view,) = json.loads(out)["views"]
    assert code == 3
    # Not only for its letters, which are others now as well.
    assert view["verdict"] != "verified"
    assert {check["name"]: check["holds"] for check in view["checks"]}["headline"] is False


@pytest.mark.parametrize(("rounds", "room"), [(20, 1e-6), (500, 1e-4), (10_000, 1e-3)])
def test_the_room_of_a_claim_grows_with_the_rounds_and_ends(rounds: int, room: float) -> None:
    assert reached(4 * (1 + 0.99 * room), 4, rounds)
    assert not reached(4 * (1 + 1.01 * room), 4, rounds)
