# SPDX-License-Identifier: Apache-2.0
"""The file of a certificate: one JSON object.

Floats are written so that they read back to the same bits, rationals as quotients, NaN and infinity have no place, and
`hash` is the SHA-256 of everything else in canonical form (sorted keys, no spaces). Limits on bytes, digits and depth
come before any work.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sottovoce.certificates.numbers import MOST_DIGITS, exact, written
from sottovoce.certificates.values import (
    MOST_LABEL_DEPTH,
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StoredWeights,
)
from sottovoce.errors import FileError, InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sottovoce.certificates.values import ExactRows

__all__ = [
    "canonical",
    "document_of",
    "from_text",
    "load",
    "matrix_document",
    "read_matrix",
    "read_rows",
    "rows_document",
    "save",
    "strict_json",
    "to_text",
]

MOST_BYTES = 64_000_000
_TOP = (
    "schema",
    "protocol",
    "view",
    "target",
    "contribution",
    "participation",
    "claim",
    "proof",
    "mechanism",
)


def to_text(certificate: Certificate) -> str:
    """The JSON text of a certificate, with its hash."""
    document = document_of(certificate)
    document["hash"] = hashlib.sha256(canonical(document).encode()).hexdigest()
    return json.dumps(document, allow_nan=False, ensure_ascii=False, sort_keys=True) + "\n"


def from_text(text: str) -> Certificate:
    """The certificate that a JSON text holds."""
    if len(text) > MOST_BYTES:
        raise InputError(f"a certificate has at most {MOST_BYTES} characters; this one has {len(text)}")
    return _from_document(strict_json(text, "a certificate"))


def strict_json(text: str, what: str) -> object:
    """The value of a JSON text in which no field stands twice and every number is finite and of a sane length."""
    try:
        return json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_distinct_pairs,
        )
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is a JSON file; this is not JSON ({error})") from None


def save(certificate: Certificate, path: str | os.PathLike[str]) -> Path:
    """Write `certificate` to `path`, whole or not at all, and return the path."""
    file = Path(path)
    text = to_text(certificate)
    draft: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".sottovoce-", delete=False) as stream:
            draft = Path(stream.name)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(0o644)
        draft.replace(file)
    except OSError as error:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink()
        reason = error.strerror or error
        raise FileError(
            f"{file}: the certificate cannot be written: {reason} (choose another place)"
        ) from None
    return file


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate back, bit for bit; a file that is not one, or was changed, is refused."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FileError(f"{file}: a certificate has at most {MOST_BYTES} bytes; this file has more")
        return from_text(content.decode())
    except OSError as error:
        raise FileError(f"{file}: the certificate cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileError(f"{file}: a certificate is UTF-8 text; this file is not") from None
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def canonical(document: dict[str, Any]) -> str:
    """The text that the hash of a document is taken of."""
    return json.dumps(document, allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def document_of(certificate: Certificate) -> dict[str, Any]:
    """The JSON object of a certificate, without its hash."""
    proof, mechanism = certificate.proof, certificate.mechanism
    hints: dict[str, Any] = {"kind": proof.kind}
    if isinstance(proof, DenseProof):
        hints |= {"y": _listed(proof.y), "witness": _listed(proof.witness)}
    else:
        hints |= {"start": _listed(proof.start), "rate": proof.rate}
    return {
        "schema": SCHEMA,
        "protocol": {
            "weights": {
                "hash": certificate.weights_hash,
                "rule": certificate.rule,
                "matrix": None if certificate.weights is None else matrix_document(certificate.weights),
            },
            "program": certificate.program,
            "rounds": certificate.rounds,
            "encoder": list(certificate.encoder),
        },
        "view": _view_document(certificate.view),
        "target": _written_label(certificate.target),
        "contribution": certificate.contribution,
        "participation": certificate.participation,
        "claim": {"lower": certificate.squared_lower, "upper": certificate.squared_upper},
        "proof": hints,
        "mechanism": None
        if mechanism is None
        else {
            "noise_multiplier": mechanism.noise_multiplier,
            "delta": mechanism.delta,
            "relation": mechanism.relation,
        },
    }


def matrix_document(weights: StoredWeights) -> dict[str, Any]:
    """The JSON object of stored weights."""
    labels = weights.labels
    return {
        "labels": {"first": labels.start, "count": len(labels)}
        if isinstance(labels, range)
        else [_written_label(label) for label in labels],
        "indptr": weights.indptr.tolist(),
        "indices": weights.indices.tolist(),
        "values": list(weights.values),
        "diagonal": _listed(weights.diagonal),
    }


def _view_document(view: StatedView) -> dict[str, Any]:
    if view.name == "custom":
        return {
            "name": "custom",
            "rows": rows_document(view.rows),
            "known_noise": [_written_label(a) for a in view.known_noise],
        }
    observers = [_written_label(label) for label in view.observers]
    return {"name": view.name, "observers": observers, "own_noise": view.own_noise}


def rows_document(rows: ExactRows) -> list[Any]:
    """The JSON form of exact rows."""
    return [[[j, written(number)] for j, number in row] for row in rows]


def _listed(array: np.ndarray | None) -> Any:  # noqa: ANN401
    return None if array is None else array.tolist()


def _written_label(label: object) -> object:
    """A node's name in the types of JSON; a tuple becomes a list."""
    return [_written_label(part) for part in label] if isinstance(label, tuple) else label


def _from_document(document: object) -> Certificate:
    """The certificate of a JSON object: its form first, then its hash, then what it says."""
    if isinstance(document, dict) and (document.get("schema") != SCHEMA or document["schema"] is True):
        if document.get("schema") == 1:
            raise InputError(
                "this certificate has the form of schema 1, whose rounded weights decide no rank and whose model "
                f"cannot be checked; schema {SCHEMA} is read (certify again)"
            )
        raise InputError(
            f"schema must be {SCHEMA}; got {document.get('schema')!r} (another version of sottovoce wrote it)"
        )
    whole = _fields(document, "a certificate", *_TOP, "hash")
    stated = whole.pop("hash")
    found = hashlib.sha256(canonical(whole).encode()).hexdigest()
    if stated != found:
        raise InputError(
            f"the file was changed after it was written: its hash is {stated!r}, its content gives {found!r} "
            "(take the original file)"
        )
    protocol = _fields(whole["protocol"], "protocol", "weights", "program", "rounds", "encoder")
    weights = _fields(protocol["weights"], "weights", "hash", "rule", "matrix")
    claim = _fields(whole["claim"], "claim", "lower", "upper")
    return Certificate(
        weights_hash=weights["hash"],
        rule=weights["rule"],
        weights=None if weights["matrix"] is None else read_matrix(weights["matrix"]),
        program=protocol["program"],
        rounds=protocol["rounds"],
        encoder=protocol["encoder"],
        view=_read_view(whole["view"]),
        target=_read_label(whole["target"]),
        contribution=whole["contribution"],
        participation=whole["participation"],
        squared_lower=claim["lower"],
        squared_upper=claim["upper"],
        proof=_read_proof(whole["proof"]),
        mechanism=_read_mechanism(whole["mechanism"]),
    )


def read_matrix(value: object) -> StoredWeights:
    """The stored weights of a JSON object."""
    parts = _fields(value, "matrix", "labels", "indptr", "indices", "values", "diagonal")
    labels = _read_labels(parts["labels"], len(_list("indptr", parts["indptr"])) - 1)
    return StoredWeights(**{**parts, "labels": labels, "values": _list("values", parts["values"])})


def _read_view(value: object) -> StatedView:
    if isinstance(value, dict) and value.get("name") == "custom":
        parts = _fields(value, "view", "name", "rows", "known_noise")
        known = tuple(_read_label(label) for label in _list("known_noise", parts["known_noise"]))
        return StatedView(name="custom", rows=read_rows(parts["rows"]), known_noise=known)
    parts = _fields(value, "view", "name", "observers", "own_noise")
    observers = tuple(_read_label(label) for label in _list("observers", parts["observers"]))
    return StatedView(name=parts["name"], observers=observers, own_noise=parts["own_noise"])


def read_rows(value: object) -> ExactRows:
    """Exact rows from their JSON form: lists of pairs of a node index and a number."""
    rows = []
    for row in _list("rows", value):
        pairs = [_list("an entry of a row", entry) for entry in _list("a row", row)]
        if not all(len(pair) == 2 for pair in pairs):
            raise InputError("an entry of a row must be a pair of a node index and a number")
        rows.append(tuple((pair[0], exact("an entry of a row", pair[1])) for pair in pairs))
    return tuple(rows)


def _read_proof(value: object) -> DenseProof | HorizonProof:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "dense":
        parts = _fields(value, "proof", "kind", "y", "witness")
        return DenseProof(y=parts["y"], witness=parts["witness"])
    if kind == "horizon":
        parts = _fields(value, "proof", "kind", "start", "rate")
        return HorizonProof(start=parts["start"], rate=parts["rate"])
    raise InputError(f"proof must be of kind dense or horizon; got {kind!r}")


def _read_mechanism(value: object) -> Mechanism | None:
    if value is None:
        return None
    return Mechanism(**_fields(value, "mechanism", "noise_multiplier", "delta", "relation"))


def _fields(value: object, what: str, *names: str) -> dict[str, Any]:
    """A JSON object that has exactly the fields `names`."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must be a JSON object; got {type(value).__name__}")
    if missing := [name for name in names if name not in value]:
        raise InputError(f"{what} lacks the field {missing[0]} (is the file complete?)")
    if unknown := [name for name in value if name not in names]:
        raise InputError(
            f"{what} has an unknown field {unknown[0][:60]} (another program may have written it)"
        )
    return dict(value)


def _list(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list; got {type(value).__name__}")
    return value


def _read_labels(value: object, n: int) -> Sequence[Hashable]:
    """The labels of a file: a list, or first and count where they count up by one."""
    if isinstance(value, dict):
        span = _fields(value, "labels", "first", "count")
        if not all(type(part) is int for part in span.values()) or span["count"] != n:
            raise InputError(
                f"labels must give first and count as whole numbers, of {n} nodes; got {value!r}"
            )
        return range(span["first"], span["first"] + n)
    labels = tuple(_read_label(label) for label in _list("labels", value))
    if len(set(labels)) != len(labels):
        raise InputError("labels must differ from each other; one stands twice")
    return labels


def _read_label(value: object, depth: int = 0) -> Hashable:
    """A node's name as it was before it was written."""
    if isinstance(value, list):
        if depth >= MOST_LABEL_DEPTH:
            raise InputError(
                f"a node's name must be at most {MOST_LABEL_DEPTH} lists deep; this one is deeper"
            )
        return tuple(_read_label(part, depth + 1) for part in value)
    if isinstance(value, dict):
        raise InputError("a node's name must be text, a number or a list of such; got a JSON object")
    return value


def _distinct_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object in which no field stands twice."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise InputError("a field stands twice in the same JSON object (take the original file)")
    return result


def _no_constant(text: str) -> NoReturn:
    """Refuse the NaN and Infinity that Python would read."""
    raise InputError(f"a certificate holds finite numbers only; this file holds {text}")


def _finite(text: str) -> float:
    """A float that is not beyond the range of floats."""
    value = float(text)
    return value if np.isfinite(value) else _no_constant(text[:60])


def _whole(text: str) -> int:
    """A whole number of no more digits than the limit."""
    if len(text) > MOST_DIGITS:
        raise InputError(f"a number has at most {MOST_DIGITS} digits; one in this file has {len(text)}")
    return int(text)
