# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from sottovoce.certificates import Certificate, HorizonModel, SparseRows, load, save
from sottovoce.errors import FileError, InputError
from sottovoce.graphs import metropolis_weights

WEIGHTS = metropolis_weights("path:n=4")


def _certificate(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "labels": WEIGHTS.labels,
        "weights": SparseRows.of(WEIGHTS.matrix),
        "weights_hash": WEIGHTS.hash,
        "rounds": 3,
        "view": "secure-sum",
        "observers": (0,),
        "own_noise": "known",
        "observation": SparseRows.of(WEIGHTS.matrix[[0]]),
        "known_noise": [0],
        "target": 1,
        "contribution": "vector",
        "participation": "full",
        "squared_lower": 0.1,
        "squared_upper": 1 / 3,
        "method": "absolute",
        "y": [0.1, 1e-300, 0.2],
        "witness": [[1.0, 0.0], [0.6, -0.8], [0.1, 2**-1074]],
    }
    return Certificate(**(values | changes))


def _horizon(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "transition": [[0.5, 0.1], [0.1, 0.5]],
        "rows": [[1.0, 0.0]],
        "source": [0.0, 1.0],
        "start": [0.3, 0.2],
        "rate": 0.1,
        "bound": [[1.0, 0.5], [0.5, 1.0]],
        "distortion": 1e-12,
        "residual": "none",
    }
    return HorizonModel(**(values | changes))


def _same(a: Any, b: Any) -> Any:
    """Equality to the last bit, through all fields."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, Certificate | SparseRows | HorizonModel):
        return type(a) is type(b) and all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize(
    "certificate",
    [
        _certificate(),
        _certificate(y=None, witness=None, squared_lower=0.0, squared_upper=3),
        _certificate(witness=[1.0, -1.0, 0.5], contribution="scalar"),
        _certificate(labels=("Anna", "Ünal", (1, ("x", None)), 2.5), observers=("Anna",)),
        _certificate(kind="horizon", y=None, witness=None, horizon=_horizon()),
        _certificate(kind="horizon", y=None, witness=None, horizon=_horizon(), weights=None),
    ],
    ids=["vector", "cap", "scalar", "labels", "horizon", "no weights"],
)
def test_a_file_reads_back_to_the_same_bits(certificate: Any, tmp_path: Any) -> None:
    file = save(certificate, tmp_path / "claim.json")
    again = load(file)
    assert _same(certificate, again)
    assert again.hash == certificate.hash == json.loads(file.read_text())["hash"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["claim.json"]
    first = file.read_bytes()
    save(again, file)
    assert file.read_bytes() == first


def test_arrays_are_out_of_reach() -> None:
    certificate = _certificate()
    with pytest.raises(ValueError, match="read-only"):
        certificate.y[0] = 0.0


def test_a_changed_file_is_refused(tmp_path: Any) -> None:
    file = save(_certificate(), tmp_path / "claim.json")
    document = json.loads(file.read_text())
    document["squared_upper"] = 0.25
    file.write_text(json.dumps(document))
    with pytest.raises(
        FileError, match=r"claim.json: the file was changed after it was written: its hash is"
    ):
        load(file)


def _rewritten(path: Any, **changes: Any) -> Any:
    """A file with a correct hash around changed fields."""
    document = json.loads(save(_certificate(), path).read_text())
    del document["hash"]
    for name, value in changes.items():
        if value is ...:
            del document[name]
        else:
            document[name] = value
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    document["hash"] = hashlib.sha256(canonical.encode()).hexdigest()
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"target": ...}, "a certificate lacks the field target"),
        ({"extra": 1}, "a certificate has an unknown field extra"),
        ({"schema": 2}, r"schema must be 1; got 2 \(another version of sottovoce wrote it\)"),
        ({"schema": True}, "schema must be 1; got True"),
        ({"kind": "sketch"}, "kind must be one of dense, horizon; got 'sketch'"),
        ({"contribution": "tensor"}, "contribution must be one of vector, scalar"),
        ({"rounds": 4}, "y must have one entry for each of the 4 rounds; it has 3"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"y": [0.1, "a", 0.2]}, "y must be an array of numbers; it holds something else"),
        ({"y": [[0.1], [0.2], [0.3]]}, "y must have 1 dimension"),
        ({"witness": [[1.0], [1.0, 2.0], [1.0]]}, "witness must be an array of numbers"),
        ({"witness": [[1.0], [1.0]]}, "witness must have one entry for each of the 3 rounds; it has 2"),
        ({"squared_upper": "1"}, "squared_upper must be a finite number; got '1'"),
        ({"squared_lower": 0.5}, "the claim needs 0 ≤ squared_lower ≤ squared_upper; got 0.5"),
        ({"target": 4}, "target must be a node index between 0 and 3; got 4"),
        ({"target": 0}, "target 0 is in known_noise"),
        ({"known_noise": [7]}, "known_noise must be ascending node indices below 4"),
        ({"known_noise": [0.5]}, "known_noise must be a list of whole numbers"),
        ({"method": 3}, "method must be text; got 3"),
        ({"labels": [1, 2, 3]}, "weights must be 3 x 3, as there are 3 labels; got 4 x 4"),
        ({"labels": 4}, "labels must be a list, or first and count; got 4"),
        ({"labels": {"first": 0, "count": "4"}}, "labels must give first and count as whole numbers"),
        ({"observers": "anna"}, "observers must be a list of labels"),
        ({"weights": None}, "weights must be present in a certificate of kind dense"),
        ({"weights": [1]}, "weights: weights must be a JSON object; got list"),
        ({"observation": {"columns": 4}}, "observation: observation lacks the field indptr"),
        ({"kind": "horizon"}, "horizon must be present in a certificate of kind horizon"),
    ],
)
def test_a_file_that_says_something_else_is_refused(changes: Any, sentence: Any, tmp_path: Any) -> None:
    file = _rewritten(tmp_path / "claim.json", **changes)
    with pytest.raises(FileError, match=sentence) as caught:
        load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"gossip", "a certificate is a JSON file; this is not JSON"),
        (b"[1, 2]", "a certificate must be a JSON object; got list"),
        (b"\xff\xfe", "a certificate is UTF-8 text; this file is not"),
        (b'{"y": [NaN]}', "a certificate holds finite numbers only; this file holds NaN"),
        (b'{"y": 1, "y": 2}', "a field stands twice in the same JSON object"),
        (b"[" * 100_000, "this is not JSON"),
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
        ({"y": [np.nan, 0, 0]}, "y must hold finite numbers only"),
        ({"squared_upper": np.inf}, "squared_upper must be a finite number; got inf"),
        ({"labels": (0, 1, 2, object())}, "a node's name in a certificate must be text"),
        (
            {"horizon": _horizon()},
            "horizon must be present in a certificate of kind horizon, and in no other",
        ),
        ({"kind": "horizon", "horizon": _horizon()}, "y and witness must be absent"),
    ],
)
def test_a_certificate_that_contradicts_itself_is_refused(changes: Any, sentence: Any) -> None:
    with pytest.raises(InputError, match=sentence):
        _certificate(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"transition": np.eye(3)}, "transition must be 2 x 2, as source has 2 entries; got 3 x 3"),
        ({"rows": [[1.0]]}, "rows must have 2 columns and at least one row; got 1 x 1"),
        ({"bound": [[1.0, 0.0], [0.5, 1.0]]}, "bound must be a symmetric matrix"),
        ({"start": [-1.0]}, "start must hold no negative number"),
        ({"distortion": 1.0}, "distortion must be at least 0 and below 1; got 1.0"),
        ({"rate": True}, "rate must be a finite number; got True"),
        ({"residual": 0}, "residual must be text; got 0"),
    ],
)
def test_a_model_that_does_not_fit_together_is_refused(changes: Any, sentence: Any) -> None:
    with pytest.raises(InputError, match=sentence):
        _horizon(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"indptr": [1, 2]}, "indptr must start at 0 and never fall"),
        ({"data": [1.0]}, "data must have 2 entries, as indptr says; it has 1"),
        ({"indices": [0, 9]}, "indices must lie between 0 and 3"),
        ({"indices": [1, 0]}, "indices must ascend within each row"),
        ({"columns": 0}, "the number of columns must be a whole number of at least 1"),
    ],
)
def test_rows_that_are_no_matrix_are_refused(changes: Any, sentence: Any) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(SparseRows.of(WEIGHTS.matrix[[0]]), **changes)
