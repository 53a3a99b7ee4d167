# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import hashlib
import json
import pickle
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.reference import gossip_program

from sottovoce.certificates import (
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StatedWeights,
    StoredWeights,
    from_text,
    load,
    save,
    to_text,
)
from sottovoce.errors import FileError, InputError
from sottovoce.graphs import laplacian_weights, matrix_weights, metropolis_weights
from sottovoce.protocols import Protocol, gossip, momentum, scheduled

WEIGHTS = metropolis_weights("path:n=4")
THIRDS = ((0, Fraction(2, 3)), (1, Fraction(1, 3)))


def _certificate(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "weights_hash": WEIGHTS.hash,
        "rule": "metropolis",
        "weights": StoredWeights.of(WEIGHTS),
        "program": gossip_program(),
        "rounds": 3,
        "view": StatedView(name="secure-sum", observers=(0,)),
        "target": 1,
        "contribution": "vector",
        "participation": "full",
        "squared_lower": 0.1,
        "squared_upper": 1 / 3,
        "proof": DenseProof(y=[0.1, 1e-300, 0.2], witness=[[1.0, 0.0], [0.6, -0.8], [0.1, 2**-1074]]),  # type: ignore[arg-type]
    }
    return Certificate(**(values | changes))


def _same(a: Any, b: Any) -> Any:
    """Equality to the last bit, through all fields."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if is_dataclass(a):
        return type(a) is type(b) and all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and a == b


HORIZON = HorizonProof(start=np.array([0.3, 0.2]), rate=0.1)


@pytest.mark.parametrize(
    "certificate",
    [
        _certificate(),
        _certificate(proof=DenseProof(), squared_lower=0.0, squared_upper=3),
        _certificate(proof=DenseProof(witness=np.array([1.0, -1.0, 0.5])), contribution="scalar"),
        _certificate(target=(1, ("x", None)), view=StatedView(name="secure-sum", observers=("Ünal", 2.5))),
        _certificate(proof=HORIZON),
        _certificate(proof=HORIZON, weights=None),
        _certificate(program=gossip_program([1.0, 0.1, -0.5, 0.0])),
        _certificate(view=StatedView(name="custom", rows=(THIRDS, ()), known_noise=(3,))),
        _certificate(mechanism=Mechanism(noise_multiplier=4.0, delta=1e-5, relation="replace-one")),
        _certificate(weights=StoredWeights.of(matrix_weights(np.full((2, 2), 0.5), labels=["a", "b"]))),
        _certificate(view=StatedView(name="everyone", exchanges=(1, 3)), contribution="energy"),
        _certificate(
            further=(StatedWeights(hash="x", rule="y", matrix=None),),
            program=(gossip_program(), momentum(WEIGHTS, rounds=3, beta="1/3").program),
            encoder=(1, "-1/2", 0.1),
        ),
    ],
    ids=[
        "vector",
        "cap",
        "scalar",
        "labels",
        "horizon",
        "hash",
        "damped",
        "custom",
        "mechanism",
        "floats",
        "exchanges",
        "schedule",
    ],
)
def test_a_file_reads_back_to_the_same_bits(certificate: Any, tmp_path: Any) -> None:
    file = save(certificate, tmp_path / "claim.json")
    again = load(file)
    assert to_text(certificate) == to_text(again) == file.read_text()
    assert _same(certificate.proof, again.proof)
    assert _same(certificate.view, again.view)
    assert again.hash == certificate.hash == json.loads(file.read_text())["hash"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["claim.json"]


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        metropolis_weights("karate"),
        laplacian_weights("ring:n=5", 0.3333333333333333),
        laplacian_weights("ring:n=5", Fraction(10**30, 3 * 10**30 + 1)),
        matrix_weights([[3.0, 0.1], [1.0, 0.7]], normalise=True, labels=["anna", ("b", 2)]),
        matrix_weights(metropolis_weights("star:n=4").matrix),
    ],
    ids=["thirds", "karate", "float step", "long step", "shares", "floats"],
)
def test_stored_weights_are_the_same_rationals(weights: Any) -> None:
    stored = from_text(to_text(_certificate(weights=StoredWeights.of(weights)))).weights
    assert stored is not None
    again = stored.gossip_weights("again")
    assert again is stored.gossip_weights("again")
    assert again.hash == weights.hash
    assert again.labels == weights.labels
    assert again.symmetric == weights.symmetric
    for i in range(weights.n):
        assert again.exact_row(i) == weights.exact_row(i)


def test_weights_whose_denominators_alone_are_long_are_read_and_told_from_their_floats() -> None:
    def read(value: Any) -> Any:
        stored = StoredWeights(
            labels=range(2),
            indptr=np.array([0, 1, 2]),
            indices=np.array([1, 0]),
            values=[value, 0.5],
            diagonal=None,
        )
        return stored.gossip_weights("x")

    # The nearest float of 3/2¹⁰⁷⁵ is 2⁻¹⁰⁷³.
    exact, rounded = read(f"3/{2**1075}"), read(2.0**-1073)
    assert (exact.matrix != rounded.matrix).nnz == 0
    assert exact.exact_row(0)[1] == Fraction(3, 2**1075)
    assert exact.hash != rounded.hash


def test_stored_weights_stay_what_they_were_read_from() -> None:
    stored = StoredWeights.of(WEIGHTS)
    values, labels = list(stored.values), list(stored.labels)
    held = replace(stored, values=values, labels=labels)
    values[0], labels[0] = "1/7", "other"
    assert held.gossip_weights("x").hash == WEIGHTS.hash
    with pytest.raises(ValueError, match="read-only"):
        held.gossip_weights("x").matrix.data[0] = 0.25
    assert replace(held, values=values).gossip_weights("x").hash != WEIGHTS.hash
    # Weights that were read under one rule are not said to be built by another.
    assert [held.gossip_weights(rule).rule for rule in ("x", "y", "x")] == ["x", "y", "x"]


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_nothing_that_a_certificate_keeps_can_be_changed_not_even_in_a_copy(part: str) -> None:
    stored = StoredWeights.of(WEIGHTS)
    stored.gossip_weights("x")
    for held in (stored, copy.deepcopy(stored), pickle.loads(pickle.dumps(stored))):
        kept = held.gossip_weights("x")
        with pytest.raises(ValueError, match="read-only"):
            getattr(kept.matrix, part)[0] = 0
        assert kept.quotients is not None
        with pytest.raises(ValueError, match="read-only"):
            kept.quotients.denominators[0] = 7
        assert kept.hash == WEIGHTS.hash


def test_arrays_that_were_given_may_change_afterwards() -> None:
    stored = StoredWeights.of(matrix_weights(WEIGHTS.matrix))
    given: dict[str, Any] = {
        name: np.array(getattr(stored, name)) for name in ("indptr", "indices", "diagonal")
    }
    held = replace(stored, **given)
    for array in given.values():
        array[:] = 0
    assert held.gossip_weights("x").hash == stored.gossip_weights("x").hash


def test_a_schedule_that_grows_after_it_was_given_is_none() -> None:
    further: list[StatedWeights] = []
    certificate = _certificate(further=further)
    assert certificate.damping is not None
    further.append(StatedWeights(hash=WEIGHTS.hash, rule="x", matrix=StoredWeights.of(WEIGHTS)))
    assert len(certificate.schedule) == 1
    assert certificate.hash == _certificate().hash


def test_programs_are_written_in_exact_rationals() -> None:
    protocol = momentum(WEIGHTS, rounds=3, beta=0.1)
    document = json.loads(to_text(_certificate(program=protocol.program, encoder=(1, "0.5"))))["protocol"]
    assert document["encoder"] == ["1", "1/2"]
    (program,) = document["programs"]
    assert program["instructions"][0] == {
        "combine": "v",
        "terms": {"v": str(Fraction(0.1)), "contribution": "1", "u": "1"},
    }
    assert program["draws"] == [{"name": "u", "level": "1", "each": "node"}]


def test_a_certificate_says_its_protocol_and_its_hash() -> None:
    for protocol in (
        momentum(WEIGHTS, rounds=3, beta="9/10"),
        gossip(WEIGHTS, rounds=3, encoder=(1, "1/2", 0, 0)),
        scheduled([np.eye(4), WEIGHTS], rounds=3),
        Protocol(weights=WEIGHTS, program=(gossip_program(), gossip_program([0, 1, 1, 1])), rounds=3),
    ):
        first, *further = (
            StatedWeights(hash=each.hash, rule=each.rule, matrix=StoredWeights.of(each))
            for each in protocol.schedule
        )
        certificate = _certificate(
            weights_hash=first.hash,
            weights=first.matrix,
            further=tuple(further),
            program=protocol.program,
            encoder=protocol.encoder,
        )
        again = from_text(to_text(certificate))
        assert again.protocol_hash == certificate.protocol_hash == protocol.hash
        assert certificate.sentence == protocol.sentence
        assert len(again.schedule) == len(protocol.schedule)
        assert again.damping is None
    assert _certificate().damping == 1


def test_arrays_are_out_of_reach() -> None:
    certificate = _certificate()
    with pytest.raises(ValueError, match="read-only"):
        certificate.proof.y[0] = 0.0


def test_a_changed_file_is_refused(tmp_path: Any) -> None:
    file = save(_certificate(), tmp_path / "claim.json")
    document = json.loads(file.read_text())
    document["claim"]["upper"] = 0.25
    file.write_text(json.dumps(document))
    with pytest.raises(
        FileError, match=r"claim.json: the file was changed after it was written: its hash is"
    ):
        load(file)


def rehashed(document: dict[str, Any]) -> str:
    """The text of a document with the hash that belongs to it."""
    document = {name: value for name, value in document.items() if name != "hash"}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**document, "hash": hashlib.sha256(canonical.encode()).hexdigest()})


def _rewritten(path: Any, place: str, value: Any) -> Any:
    """A file with a correct hash around one changed field, whose place is spelled with dots."""
    document = json.loads(to_text(_certificate()))
    *above, last = place.split(".")
    holder = document
    for name in above:
        holder = holder[int(name) if isinstance(holder, list) else name]
    where: Any = int(last) if isinstance(holder, list) else last
    if value is ...:
        del holder[where]
    else:
        holder[where] = value
    path.write_text(rehashed(document))
    return path


CUSTOM: dict[str, Any] = {"name": "custom", "known_noise": [], "exchanges": None}
NESTED: Any = "x"
for _ in range(900):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("target", ..., "a certificate lacks the field target"),
        ("extra", 1, "a certificate has an unknown field extra"),
        ("schema", 1, r"has the form of schema 1, whose rounded weights decide no rank .* \(certify again\)"),
        (
            "schema",
            2,
            r"has the form of schema 2, which holds one matrix .* no protocol beyond; .* \(certify again\)",
        ),
        ("schema", 4, r"schema must be 3; got 4 \(another version of sottovoce wrote it\)"),
        ("schema", True, "schema must be 3; got True"),
        ("proof.kind", "sketch", "proof.kind must be one of dense, horizon, shift, moves; got 'sketch'"),
        ("proof", None, "proof must be a JSON object; got None"),
        ("proof.kind", ..., "proof lacks the field kind"),
        ("contribution", "tensor", "contribution must be one of vector, scalar"),
        ("protocol.rounds", 4, "y must have one entry for each of the 4 rounds; it has 3"),
        ("protocol.rounds", 0, "rounds must be a whole number from 1 to 9007199254740992; got 0"),
        ("protocol.rounds", 3.0, "protocol.rounds must be a whole number; got 3.0"),
        ("protocol.rounds", True, "protocol.rounds must be a whole number; got True"),
        ("protocol.rounds", 10**350, "rounds must be a whole number from 1"),
        ("protocol.programs", {}, "protocol.programs must be a list; got a JSON object"),
        ("protocol.programs", [], "protocol.programs must be a list of at least 1; got a list of 0"),
        ("protocol.programs", [[]], r"protocol.programs\[0\] must be a JSON object; got a list"),
        ("protocol.programs.0.keeps", "model", r"programs\[0\].keeps must be a list; got 'model'"),
        ("protocol.programs.0.keeps", [["model"]], r"keeps\[0\] must be text; got a list of 1"),
        (
            "protocol.programs.0.keeps",
            [f"r{k}" for k in range(101)],
            "keeps must be a list of at most 100; got a list of 101",
        ),
        ("protocol.programs.0.draws", [{"name": "u"}], r"programs\[0\].draws\[0\] lacks the field level"),
        ("protocol.programs.0.draws.0.level", "1e999999999", "must be a quotient such as '1/3'"),
        ("protocol.programs.0.draws.0.level", "-1", "level of the draw 'u' must be at least 0"),
        ("protocol.programs.0.draws.0.level", True, "level must be a number, text or a list; got True"),
        ("protocol.programs.0.draws.0.each", "link", "each of the draw 'u' must be one of node, edge"),
        ("protocol.programs.0.draws.0.each", ["edge"], "each must be text; got a list of 1"),
        ("protocol.programs.0.instructions.0.terms", [1], "terms must be a JSON object; got a list of 1"),
        (
            "protocol.programs.0.instructions.0.terms.u",
            [["1"]],
            "must be a number or text; got something else",
        ),
        (
            "protocol.programs.0.instructions.0.terms.w",
            "1",
            "'w' is read for 'message' and nothing has set it",
        ),
        (
            "protocol.programs.0.instructions.1.message",
            "x",
            r"instructions\[1\] has an unknown field message",
        ),
        ("protocol.programs.0.instructions.1.into", ..., "an exchange needs 'into'"),
        ("protocol.programs.0.instructions.1.combine", "x", "an exchange has no 'combine'"),
        ("protocol.programs.0.instructions.0.terms", ..., "an instruction needs 'terms'"),
        (
            "protocol.programs.0.instructions",
            [{"combine": "x", "terms": {}}] * 1001,
            "instructions must be a list of at most 1000; got a list of 1001",
        ),
        ("protocol.programs.0.instructions.1", ..., "a program must exchange something"),
        ("protocol.programs.0.model", 7, "model must be text; got 7"),
        ("protocol.programs.0.model", "x", "model must name a register of the program; got 'x'"),
        ("protocol.encoder", 1, "protocol.encoder must be a list; got 1"),
        ("protocol.encoder", [], "protocol.encoder must be a list of at least 1"),
        ("protocol.encoder", ["0", "1"], "encoder must begin with a number other than 0"),
        ("protocol.encoder", ["1", None], r"encoder\[1\] must be a number or text; got None"),
        ("protocol.weights", [], "protocol.weights must be a list of at least 1"),
        ("view.exchanges", [], "exchanges of a view must be ascending whole numbers from 1 on"),
        ("view.exchanges", [2, 1], "exchanges of a view must be ascending whole numbers from 1 on"),
        ("view.exchanges", [True], r"exchanges\[0\] must be a whole number; got True"),
        ("view.exchanges", 1, "exchanges must be a list or null; got 1"),
        ("proof.y", [0.1, "a", 0.2], r"proof.y\[1\] must be a number; got 'a'"),
        ("proof.y", [0.1, True, 0.2], r"proof.y\[1\] must be a number; got True"),
        ("proof.y", [[0.1], [0.2], [0.3]], r"proof.y\[0\] must be a number; got a list of 1"),
        ("proof.witness", [[1.0], [1.0, 2.0], [1.0]], "witness must be an array of numbers"),
        ("proof.witness", [[1.0], [1.0]], "witness must have one entry for each of the 3 rounds; it has 2"),
        ("claim.upper", "1", "claim.upper must be a number; got '1'"),
        ("claim.upper", 10**350, "claim.upper must be a number within the range of floats; got 1000"),
        ("claim.lower", 0.5, "the claim needs 0 ≤ lower ≤ upper; got 0.5"),
        ("claim.lower", -0.0001, "the claim needs 0 ≤ lower ≤ upper"),
        (
            "target",
            {"a": 1},
            "target must be true or false, a number, text, a list or null; got a JSON object",
        ),
        ("target", [{"a": 1}], "a node's name must be text, a number or a list of such; got a JSON object"),
        ("target", NESTED, "a node's name must be at most 8 lists deep"),
        ("protocol.weights.0.rule", 3, r"protocol.weights\[0\].rule must be text; got 3"),
        ("protocol.weights.0.matrix.labels", [1, 2, 3], "indptr must have 4 entries for 3 labels"),
        ("protocol.weights.0.matrix.labels", [1, 1, 2, 3], "labels must differ from each other"),
        ("protocol.weights.0.matrix.labels", 4, "matrix.labels must be a JSON object or a list; got 4"),
        (
            "protocol.weights.0.matrix.labels",
            {"first": 0, "count": 10**12},
            "labels must give first and count",
        ),
        (
            "protocol.weights.0.matrix.indptr",
            [0, 1, 3, 5, 2**63],
            "indptr must be a list of whole numbers below",
        ),
        ("protocol.weights.0.matrix.indices", [0, 0, 2, 1, 3, 2], "indices must leave out the diagonal"),
        ("protocol.weights.0.matrix.indices", [1, 2, 0, 1, 3, 2], "indices must ascend within each row"),
        ("protocol.weights.0.matrix.indices", [9, 0, 2, 1, 3, 2], "indices must lie between 0 and 3"),
        ("protocol.weights.0.matrix.values", ["1/3"], "values must have 6 entries, as indptr says; it has 1"),
        ("protocol.weights.0.matrix.diagonal", [1.0], "diagonal must have 4 entries, one a label; it has 1"),
        ("protocol.weights.0.matrix.diagonal", [0.5] * 4, "with a diagonal of floats must be floats off it"),
        ("view.observers", "anna", "observers must be a list"),
        ("view.name", "peeking", "view must be one of custom, everyone"),
        ("view.name", "custom", "view has an unknown field observers"),
        ("view", {**CUSTOM}, "view lacks the field rows"),
        (
            "view",
            {"name": "custom", "rows": [[[0]]], "known_noise": [], "exchanges": None},
            r"rows\[0\]\[0\] must be a list of 2; got a list of 1",
        ),
        (
            "view",
            {"name": "custom", "rows": [[[0, "x"]]], "known_noise": [], "exchanges": None},
            "must be a quotient such as",
        ),
        (
            "view",
            {"name": "custom", "rows": [[["0", 1]]], "known_noise": [], "exchanges": None},
            r"rows\[0\]\[0\]\[0\] must be a whole number; got '0'",
        ),
        (
            "view",
            {"name": "custom", "rows": [[[1, 1], [0, 1]]], "known_noise": [], "exchanges": None},
            "ascending node indices",
        ),
        ("proof", {"kind": "horizon", "start": [0.1], "rate": 0}, "rate must be a finite number above 0"),
        ("proof", {"kind": "horizon", "start": [-0.1], "rate": 1}, "start must hold no negative number"),
        (
            "proof",
            {"kind": "horizon", "start": [1, 1, 1], "rate": 1},
            "must be shorter than the horizon of 3",
        ),
        (
            "mechanism",
            {"noise_multiplier": 0, "delta": 1e-5, "relation": "zero-out"},
            "noise_multiplier must be",
        ),
        ("mechanism", {"noise_multiplier": 1, "delta": 1, "relation": "zero-out"}, "delta must lie strictly"),
        ("mechanism", {"noise_multiplier": 1, "delta": 0.1, "relation": "swap"}, "relation must be one of"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    place: str, value: Any, sentence: str, tmp_path: Any
) -> None:
    file = _rewritten(tmp_path / "claim.json", place, value)
    with pytest.raises(FileError, match=sentence) as caught:
        load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["2/6", "1/3", "1/3", "1/3", "1/3", "1/3"], None),
        (["-1/3", "1/3", "1/3", "1/3", "1/3", "1/3"], "weights off the diagonal must lie above 0"),
        ([0, "1/3", "1/3", "1/3", "1/3", "1/3"], "weights off the diagonal must lie above 0"),
        (["1/0", "1/3", "1/3", "1/3", "1/3", "1/3"], "must not be divided by 0"),
        (
            ["1/" + "3" * 399, "1/3", "1/3", "1/3", "1/3", "1/3"],
            "the quotients of gossip weights must round to the entries",
        ),
        (["1/" + "3" * 900, "1/3", "1/3", "1/3", "1/3", "1/3"], "at most 400 digits on each side"),
        ([None, "1/3", "1/3", "1/3", "1/3", "1/3"], "a weight must be a number, or a quotient"),
        (["1/3", "2/3", "2/3", "1/3", "1/3", "1/3"], "gossip weights must be at least 0"),
    ],
)
def test_weights_that_are_none_are_refused(values: Any, sentence: str | None) -> None:
    stored = replace(StoredWeights.of(WEIGHTS), values=values)
    if sentence is None:
        assert stored.gossip_weights("x").hash == WEIGHTS.hash
        return
    with pytest.raises(InputError, match=sentence):
        stored.gossip_weights("x")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"gossip", "a certificate is a JSON file; this is not JSON"),
        (b"[1, 2]", "a certificate must be a JSON object; got a list of 2"),
        (b"\xff\xfe", "a certificate is UTF-8 text; this file is not"),
        (b'{"y": [NaN]}', "a certificate holds finite numbers only; this file holds NaN"),
        (b'{"y": 1, "y": 2}', "a field stands twice in the same JSON object"),
        (b"[" * 100_000, "this is not JSON"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "a number has at most 400 digits; one in this file has 5000"),
        (b" " * 64_000_001, "a certificate has at most 64000000 bytes; this file has more"),
    ],
)
def test_a_file_that_is_no_certificate_is_refused(content: Any, sentence: Any, tmp_path: Any) -> None:
    file = tmp_path / "claim.json"
    file.write_bytes(content)
    with pytest.raises(FileError, match=sentence):
        load(file)


def test_infinity_written_as_a_large_number_is_refused(tmp_path: Any) -> None:
    file = save(_certificate(), tmp_path / "claim.json")
    file.write_text(file.read_text().replace("1e-300", "1e999"))
    with pytest.raises(FileError, match="finite numbers only; this file holds 1e999"):
        load(file)


def test_places_that_cannot_be_read_or_written_are_named(tmp_path: Any) -> None:
    with pytest.raises(FileError, match=r"claim.json: the certificate cannot be read: No such file"):
        load(tmp_path / "claim.json")
    with pytest.raises(FileError, match=r"the certificate cannot be written: No such file"):
        save(_certificate(), tmp_path / "nowhere" / "claim.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match=r"the certificate cannot be written: Is a directory"):
        save(_certificate(), tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"squared_upper": np.inf}, "squared_upper must be a finite number; got inf"),
        ({"target": object()}, "a node's name in a certificate must be text"),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused(changes: Any, sentence: Any) -> None:
    with pytest.raises(InputError, match=sentence):
        _certificate(**changes)
    with pytest.raises(InputError, match="y must hold finite numbers only"):
        DenseProof(y=np.array([np.nan]))
