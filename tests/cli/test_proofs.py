"""`sottovoce certify` and `sottovoce verify`: a claim, its file, and what becomes of a false one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import __version__, certificates, graphs
from sottovoce.certificates import DenseProof
from sottovoce.cli import main
from sottovoce.protocols import Slopes, gossip
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


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A certificate as it is written."""
    file = tmp_path_factory.mktemp("certified") / "claim.json"
    assert main((*CERTIFY[:-1], str(file))) == 0
    return file.read_bytes()


@pytest.fixture
def claim(certified: bytes, tmp_path: Path) -> Path:
    """The certificate in the folder of the test, which may change it."""
    (tmp_path / "claim.json").write_bytes(certified)
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


def test_a_certificate_of_training(sottovoce: Run, tmp_path: Path) -> None:
    """Kind shift: what is certified, verified and, with a bolder ball, refused."""
    code, out, err = sottovoce(*CERTIFY, "--updates", "0.5,1", "--noise-multiplier", "4")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for line in ("updates       slopes in [0.5, 1] (training)", "bound         shift", "kind          shift"):
        assert line in out.splitlines()
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert (code, err) == (0, "")
    assert out.startswith("Verified: ")
    assert "a map with slopes in the ball" in " ".join(out.split())
    assert sottovoce(*VERIFY).code == 3
    stored = certificates.load(tmp_path / "claim.json")
    assert isinstance(stored.updates, Slopes)
    wider = Slopes(lower=stored.updates.lower - 0.1, upper=stored.updates.upper)
    changed(tmp_path / "claim.json", updates=wider)
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5", "--json")
    assert (code, json.loads(out)["verdict"]) == (3, "refused")
    assert "the proof does not hold" in err


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--updates", "some"), "--updates must be spelled LOWER,UPPER (0.9,1, say), or any; got 'some'"),
        (("--updates", "1,0.9"), "slopes must be finite with lower ≤ upper"),
        (("--updates", "0.9,1", "--damping", "0.9"), "damping and updates say the same thing twice"),
        (("--updates", "0.9,1", "--contribution", "scalar"), "contributions to training are vectors"),
    ],
)
def test_updates_that_are_none(sottovoce: Run, tmp_path: Path, given: tuple[str, ...], sentence: str) -> None:
    code, out, err = sottovoce(*CERTIFY, *given)
    assert (code, out) == (2, "")
    assert sentence in " ".join(err.split())
    assert not (tmp_path / "claim.json").exists()


def test_maps_of_any_kind(sottovoce: Run) -> None:
    settings = ("certify", "complete:n=5", *CERTIFY[2:], "--updates", "any", "--json")
    code, out, _ = sottovoce(*settings)
    document = json.loads(out)
    assert (code, document["assumption"], document["updates"]) == (0, "none", "any")
    assert document["sensitivity_squared"]["method"] == "twins"
    assert document["sensitivity_squared"]["upper"] == pytest.approx(6 / 4, rel=1e-9)


def test_a_certificate_in_json_agrees_with_the_sensitivity(sottovoce: Run, tmp_path: Path) -> None:
    settings = (
        *("--participation", "at-most:3", "--contribution", "scalar"),
        *("--noise-multiplier", "4", "--relation", "replace-one", "--delta", "1e-6"),
    )
    code, out, err = sottovoce(*CERTIFY, *settings, "--weights", "lazy", "--tolerance", "1e-5", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    ends = document.pop("sensitivity_squared")
    stored = certificates.load(tmp_path / "claim.json")
    weights = graphs.lazy_weights("ring:n=5")
    assert document == {
        "kind": "certificate",
        "schema": 2,
        "version": __version__,
        "certificate": "claim.json",
        "hash": stored.hash,
        "proof": "dense",
        "graph": {"hash": weights.hash, "rule": weights.rule, "origin": weights.origin},
        "program": "message = model + contribution + u; exchange message → model; 6 rounds",
        "protocol_hash": gossip(weights, rounds=6).hash,
        "rounds": 6,
        "view": "secure-sum",
        "exchanges": None,
        "own_noise": "known",
        "observer": [0],
        "target": 1,
        "contribution": "scalar",
        "updates": None,
        "participation": "at-most:3",
        "assumption": "oblivious",
        "mechanism": {"noise_multiplier": 4.0, "delta": 1e-6, "relation": "replace-one"},
    }
    assert ends == {
        "lower": stored.squared_lower,
        "upper": stored.squared_upper,
        "method": stored.proof.method,
    }
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
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert (code, err) == (0, "")
    first, *lines = out.splitlines()
    assert first.startswith("Verified: ")
    assert first.endswith(" is proved.")
    assert any(line.startswith("weights    holds  the graph at hand has the hash") for line in lines)
    assert any(line.startswith("upper end  holds  diag(y) ⪰ M is proved") for line in lines)
    assert any(line.startswith("lower end  holds  the witness attains") for line in lines)
    assert "Taken on trust:" in lines
    assert "ε ≤" not in out
    assert "name the graph" not in out


@pytest.mark.usefixtures("claim")
def test_without_a_graph_the_verdict_has_another_name_and_code(sottovoce: Run) -> None:
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Consistent, not verified: ")
    assert "-  that the weights in the file are those of your network" in out
    assert err == (
        "sottovoce: not verified: the claim is consistent with the weights in the file, but no graph was named "
        "(--graph)\n"
    )
    document = json.loads(sottovoce(*VERIFY, "--json").out)
    assert (document["verdict"], document["verified"]) == ("consistent", False)


def test_epsilon_follows_from_the_noise_in_the_file(sottovoce: Run) -> None:
    assert sottovoce(*CERTIFY, "--noise-multiplier", "4").code == 0
    code, out, _ = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert code == 0
    said = next(line for line in out.splitlines() if line.startswith("ε ≤ "))
    assert "at δ = 1e-05 follows, with noise multiplier 4, add-remove." in said
    document = json.loads(sottovoce(*VERIFY, "--graph", "ring:n=5", "--json").out)
    words = ("--noise-multiplier", "4", "--observer", "0", "--target", "1", "--view", "secure-sum", "--json")
    account = json.loads(sottovoce("account", "ring:n=5", "--rounds", "6", *words).out)
    assert document["epsilon"] == pytest.approx(account["pairs"][0]["epsilon"]["upper"], rel=1e-5)
    code, _, err = sottovoce(*CERTIFY, "--relation", "replace-one")
    assert code == 2
    assert "--relation replace-one changes what follows for ε, and no noise is given" in err


def test_a_verification_in_json(sottovoce: Run, claim: Path) -> None:
    document = json.loads(sottovoce(*VERIFY, "--json", "--graph", "ring:n=5").out)
    stored = certificates.load(claim)
    assert document["verified"] is document["upper_holds"] is document["lower_holds"] is True
    assert document["verdict"] == "verified"
    assert document["epsilon"] is None
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
    assert isinstance(stored.proof, DenseProof)
    assert stored.proof.y is not None
    half = DenseProof(y=stored.proof.y / 2)
    changed(claim, proof=half, squared_upper=stored.squared_upper / 2, squared_lower=0.0)
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert out.startswith("Not verified: ")
    assert "upper end  fails" in out
    assert "lower end  holds" in out
    assert err.startswith("sottovoce: not verified: diag(y) − M is not proved positive semidefinite")


def test_a_witness_that_attains_less_is_found_out(sottovoce: Run, claim: Path) -> None:
    stored = certificates.load(claim)
    assert isinstance(stored.proof, DenseProof)
    changed(claim, proof=DenseProof(y=stored.proof.y, witness=np.zeros((6, 1))))
    code, out, err = sottovoce(*VERIFY)
    assert code == 3
    assert "lower end  fails" in out
    assert "the witness attains 0.0" in err


def test_a_file_of_the_old_form_is_refused_with_the_reason(sottovoce: Run, claim: Path) -> None:
    claim.write_text(json.dumps({"schema": 1, "weights": None}), encoding="utf-8")
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert (code, out) == (2, "")
    assert "has the form of schema 1, whose rounded weights decide no rank" in err


def test_a_participation_that_nobody_spells_is_the_fault_of_the_file(sottovoce: Run, claim: Path) -> None:
    changed(claim, participation="often")
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: error: claim.json: participation must be spelled like one of")


def test_a_claim_that_is_too_large_to_check_is_not_certified(sottovoce: Run, claim: Path) -> None:
    changed(claim, rounds=10_000, proof=DenseProof(y=np.full(10_000, 0.5)), squared_lower=0.0)
    code, out, err = sottovoce(*VERIFY)
    assert (code, out) == (3, "")
    assert err.startswith("sottovoce: not certified: this claim is too large to be rebuilt densely")


def test_a_file_that_holds_hashes_alone_is_verified_on_the_graph_that_is_named(sottovoce: Run) -> None:
    large = "ring:n=20001"
    words = ("--rounds", "2", "--view", "everyone", "--target", "1", "--output", "large.json")
    assert sottovoce("certify", large, *words).code == 0
    code, out, err = sottovoce("verify", "large.json", "--graph", large)
    assert (code, err) == (0, "")
    assert out.startswith("Verified: ")
    code, _, err = sottovoce("verify", "large.json")
    assert (code, "the file holds the hash of the weights alone" in err) == (3, True)


def test_text_from_a_file_cannot_steer_the_terminal(sottovoce: Run, claim: Path) -> None:
    changed(claim, rule="\x1b[31mred\r\x07")
    code, out, _ = sottovoce(*VERIFY, "--graph", "ring:n=5")
    assert code == 0
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\\x1b[31mred\\r\\x07" in out


@pytest.mark.usefixtures("claim")
@pytest.mark.parametrize(
    ("arithmetic", "sentence"), [("balls", "balls, from the definition"), ("float", "floats with margins")]
)
def test_the_arithmetic_is_chosen_and_named(sottovoce: Run, arithmetic: str, sentence: str) -> None:
    code, out, err = sottovoce(*VERIFY, "--graph", "ring:n=5", "--arithmetic", arithmetic)
    assert (code, err) == (0, "")
    assert sentence in " ".join(out.split())
    found = json.loads(sottovoce(*VERIFY, "--graph", "ring:n=5", "--arithmetic", arithmetic, "--json").out)
    assert (found["verdict"], found["arithmetic"], found["why_float"]) == ("verified", arithmetic, None)
