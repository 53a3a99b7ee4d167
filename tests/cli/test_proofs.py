"""`sottovoce certify` and `sottovoce verify`: a claim, its file, and what becomes of a false one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import certificates, graphs
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View

Run = Callable[..., Any]
CERTIFY = (
    "certify",
    "ring:n=5",
    "--rounds",
    "6",
    "--view",
    "secure-sum",
    "--observer",
    "0",
    "--target",
    "1",
    "--output",
    "claim.json",
)
VERIFY = ("verify", "claim.json")


@pytest.fixture
def claim(sottovoce: Run, tmp_path: Path) -> Path:
    """A certificate in a file."""
    assert sottovoce(*CERTIFY).code == 0
    return tmp_path / "claim.json"


def changed(file: Path, **changes: Any) -> None:
    """Write the certificate again with other content, whose hash is right."""
    certificates.save(replace(certificates.load(file), **changes), file)


def test_a_certificate_in_words(sottovoce: Run) -> None:
    code, out, err = sottovoce(*CERTIFY)
    assert (code, err) == (0, "")
    first = out.splitlines()[0]
    assert "≤ Δ² ≤" in first
    assert first.endswith(" is certified.")
    assert max(map(len, out.splitlines())) <= 80
    for line in (
        "observer      0",
        "target        1",
        "view          secure-sum, own noise known",
        "run           6 rounds, participation full",
        "bound         dual",
        "kind          dense",
        "written       claim.json (sottovoce verify checks it)",
    ):
        assert line in out.splitlines()


def test_a_certificate_in_json_agrees_with_the_sensitivity(sottovoce: Run, tmp_path: Path) -> None:
    settings = ("--participation", "at-most:3", "--contribution", "scalar", "--relation", "replace-one")
    code, out, err = sottovoce(*CERTIFY, *settings, "--weights", "lazy", "--tolerance", "1e-5", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    ends = document.pop("sensitivity_squared")
    stored = certificates.load(tmp_path / "claim.json")
    weights = graphs.lazy_weights("ring:n=5")
    assert document == {
        "schema": 1,
        "version": stored.version,
        "certificate": "claim.json",
        "hash": stored.hash,
        "kind": "dense",
        "graph": {"nodes": 5, "hash": weights.hash, "rule": weights.rule, "origin": weights.origin},
        "rounds": 6,
        "view": "secure-sum",
        "own_noise": "known",
        "observer": [0],
        "target": 1,
        "contribution": "scalar",
        "participation": "at-most:3",
        "relation": "replace-one",
        "assumption": "oblivious",
    }
    assert ends == {"lower": stored.squared_lower, "upper": stored.squared_upper, "method": stored.method}
    found = sensitivity(
        gossip(weights, rounds=6),
        View.secure_sum(0),
        [1],
        contribution="scalar",
        participation="at-most:3",
    )
    assert ends["lower"] <= found.squared_upper[0]
    assert found.squared_lower[0] <= ends["upper"] <= 3


@pytest.mark.parametrize(
    "words",
    [
        ("--view", "everyone", "--target", "1"),
        ("--view", "coalition-sums", "--observer", "0", "--observer", "2", "--target", "1"),
        ("--view", "coalition-messages", "--observer", "0", "--observer", "2", "--target", "3"),
        ("--view", "neighbourhood", "--observer", "3", "--target", "1"),
        ("--view", "single-node", "--observer", "3", "--target", "3", "--own-noise", "hidden"),
    ],
)
def test_every_view_can_be_certified_and_verified(words: tuple[str, ...], sottovoce: Run) -> None:
    made = sottovoce("certify", "ring:n=5", "--rounds", "5", *words, "--output", "claim.json")
    assert (made.code, made.err) == (0, "")
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80


def test_a_certificate_that_cannot_be_written_does_not_lose_the_result(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = sottovoce(*CERTIFY, "--json")
    assert code == 2
    assert json.loads(out)["certificate"] is None
    assert "the certificate cannot be written: No space left on device" in err
    assert "is certified" in sottovoce(*CERTIFY).out
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_pointing_to_its_file(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "claim.json").symlink_to(tmp_path / "real" / "there.json")
    assert sottovoce(*CERTIFY).code == 0
    assert (tmp_path / "claim.json").is_symlink()
    assert certificates.load(tmp_path / "real" / "there.json").rounds == 6


@pytest.mark.usefixtures("claim")
def test_a_true_claim_is_verified(sottovoce: Run) -> None:
    code, out, err = sottovoce(*VERIFY)
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first.startswith("Verified: ")
    assert first.endswith(" is proved.")
    assert any(line.startswith("upper end     holds  diag(y) ⪰ M is proved") for line in lines)
    assert any(line.startswith("lower end     holds  the witness attains") for line in lines)
    assert "Taken on trust:" in lines
    assert "-  that the weights in the file are those of your network (--graph checks it)" in lines
    out = sottovoce(*VERIFY, "--graph", "ring:n=5").out
    assert "graph         holds  the graph at hand has the hash" in out
    assert "(--graph checks it)" not in out


def test_a_verification_in_json(sottovoce: Run, claim: Path) -> None:
    document = json.loads(sottovoce(*VERIFY, "--json", "--graph", "ring:n=5").out)
    stored = certificates.load(claim)
    assert document["verified"] is document["upper_holds"] is document["lower_holds"] is True
    assert document["reason"] is None
    assert document["hash"] == stored.hash
    assert document["sensitivity_squared"]["upper"] == stored.squared_upper
    assert document["proved"]["upper"] <= stored.squared_upper
    assert [check["name"] for check in document["checks"]][-2:] == ["upper end", "lower end"]
    assert all(set(check) == {"name", "holds", "detail"} for check in document["checks"])
    assert document["trusted"]


def test_a_tampered_file_is_refused(sottovoce: Run, claim: Path) -> None:
    text = claim.read_text(encoding="utf-8")
    claim.write_text(text.replace('"rounds": 6', '"rounds": 5'), encoding="utf-8")
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: error: claim.json: the file was changed after it was written")
    claim.write_text(text[:100], encoding="utf-8")
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (2, "")
    assert "claim.json: a certificate is a JSON file; this is not JSON" in err


@pytest.mark.parametrize("words", [("--graph", "path:n=5"), ("--graph", "ring:n=5", "--weights", "lazy")])
@pytest.mark.usefixtures("claim")
def test_another_graph_is_not_the_one_certified(words: tuple[str, ...], sottovoce: Run) -> None:
    code, out, err = sottovoce(*VERIFY, *words, "--json")
    assert code == 3
    assert err.startswith("sottovoce: not verified: this certificate speaks of another graph: ")
    assert err.count("\n") == 1
    document = json.loads(out)
    assert document["verified"] is False
    assert document["proved"] == {"lower": 0.0, "upper": None}
    out = sottovoce(*VERIFY, *words).out
    assert out.startswith("Not verified: ")
    assert "is claimed, nothing is proved." in " ".join(out.split())


def test_a_y_that_proves_nothing_is_found_out(sottovoce: Run, claim: Path) -> None:
    stored = certificates.load(claim)
    assert stored.y is not None
    changed(claim, y=stored.y / 2, squared_upper=stored.squared_upper / 2, squared_lower=0.0, witness=None)
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Not verified: ")
    assert "upper end     fails" in out
    assert "lower end     holds" in out
    assert err.startswith("sottovoce: not verified: diag(y) − M is not proved positive semidefinite")


def test_a_witness_that_attains_less_is_found_out(sottovoce: Run, claim: Path) -> None:
    changed(claim, witness=np.zeros((6, 1)))
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert "lower end     fails" in out
    assert "the witness attains at least 0.0" in err


def test_a_participation_that_nobody_spells_is_the_fault_of_the_file(sottovoce: Run, claim: Path) -> None:
    changed(claim, participation="often")
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: error: claim.json: participation must be spelled like one of")


def test_a_claim_that_is_too_large_to_check_is_not_certified(sottovoce: Run, claim: Path) -> None:
    changed(claim, rounds=10_000, y=np.full(10_000, 0.5), witness=None, squared_lower=0.0)
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (3, "")
    assert err.startswith("sottovoce: not certified: this claim is too large to be rebuilt densely")


def test_text_from_a_file_cannot_steer_the_terminal(sottovoce: Run, claim: Path) -> None:
    changed(claim, method="\x1b[31mred\r", relation="\x07")
    code, out, _ = sottovoce(*VERIFY)
    assert code == 0
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\\x1b[31mred\\r" in out
