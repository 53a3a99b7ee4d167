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
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from sottovoce.certificates.numbers import MOST_DIGITS, exact, written
from sottovoce.certificates.shifts import (
    ShiftProof,
    plain,
    read_shift_proof,
    read_updates,
    updates_document,
)
from sottovoce.certificates.values import (
    MOST_LABEL_DEPTH,
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StatedWeights,
    StoredWeights,
)
from sottovoce.errors import FileError, InputError
from sottovoce.protocols import Combine, Draw, Exchange, Program
from sottovoce.protocols.protocol import canonical_program

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sottovoce.certificates.values import ExactRows
    from sottovoce.protocols import PerNode

Read = TypeVar("Read")

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
# What a certificate may hold of programs: far more than people write, and not enough to keep a reader busy.
MOST_INSTRUCTIONS, MOST_REGISTERS = 1000, 100
_OLD = {
    1: "whose rounded weights decide no rank and whose model cannot be checked",
    2: "which holds one matrix of weights and one program of gossip, and no protocol beyond",
}
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
    # In the order in which people read it: the terms of an instruction keep theirs.
    return json.dumps(document, allow_nan=False, ensure_ascii=False) + "\n"


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
    if isinstance(proof, ShiftProof):
        hints = plain(proof)
    elif isinstance(proof, DenseProof):
        hints |= {"y": _listed(proof.y), "witness": _listed(proof.witness)}
    else:
        hints |= {"start": _listed(proof.start), "rate": proof.rate}
    return {
        "schema": SCHEMA,
        "protocol": {
            "weights": [
                {
                    "hash": each.hash,
                    "rule": each.rule,
                    "matrix": None if each.matrix is None else matrix_document(each.matrix),
                }
                for each in certificate.schedule
            ],
            "programs": [canonical_program(program) for program in certificate.programs],
            "rounds": certificate.rounds,
            "encoder": [str(Fraction(number)) for number in certificate.encoder],
            "updates": updates_document(certificate.updates),
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
    exchanges = None if view.exchanges is None else list(view.exchanges)
    if view.name == "custom":
        return {
            "name": "custom",
            "rows": rows_document(view.rows),
            "known_noise": [_written_label(a) for a in view.known_noise],
            "exchanges": exchanges,
        }
    observers = [_written_label(label) for label in view.observers]
    return {
        "name": view.name,
        "observers": observers,
        "own_noise": view.own_noise,
        "exchanges": exchanges,
    }


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
        if type(document.get("schema")) is int and document["schema"] in _OLD:
            raise InputError(
                f"this certificate has the form of schema {document['schema']}, {_OLD[document['schema']]}; schema "
                f"{SCHEMA} is read (certify again)"
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
    protocol = _fields(whole["protocol"], "protocol", "weights", "programs", "rounds", "encoder", "updates")
    first, *further = _some("weights", protocol["weights"], _read_weights)
    programs = _some("programs", protocol["programs"], _read_program)
    claim = _fields(whole["claim"], "claim", "lower", "upper")
    return Certificate(
        weights_hash=first.hash,
        rule=first.rule,
        weights=first.matrix,
        further=tuple(further),
        program=tuple(programs) if len(programs) > 1 else programs[0],
        rounds=protocol["rounds"],
        encoder=tuple(_some("encoder", protocol["encoder"], lambda value: exact("the encoder", value))),
        updates=read_updates(protocol["updates"]),
        view=_read_view(whole["view"]),
        target=_read_label(whole["target"]),
        contribution=whole["contribution"],
        participation=whole["participation"],
        squared_lower=claim["lower"],
        squared_upper=claim["upper"],
        proof=_read_proof(whole["proof"]),
        mechanism=_read_mechanism(whole["mechanism"]),
    )


def _some(name: str, value: object, read: Callable[[object], Read]) -> list[Read]:
    """The entries of a list that holds at least one."""
    entries = _list(name, value)
    if not entries:
        raise InputError(f"{name} must hold at least one entry; it is empty (is the file complete?)")
    return [read(entry) for entry in entries]


def _read_weights(value: object) -> StatedWeights:
    parts = _fields(value, "weights", "hash", "rule", "matrix")
    matrix = None if parts["matrix"] is None else read_matrix(parts["matrix"])
    return StatedWeights(hash=parts["hash"], rule=parts["rule"], matrix=matrix)


def _read_program(value: object) -> Program:
    """A program from its canonical form: every field in its place, every number a rational of a sane length."""
    parts = _fields(value, "a program", "keeps", "draws", "instructions", "model")
    for name, most in (
        ("keeps", MOST_REGISTERS),
        ("draws", MOST_REGISTERS),
        ("instructions", MOST_INSTRUCTIONS),
    ):
        if len(_list(name, parts[name])) > most:
            raise InputError(f"{name} of a program must have at most {most} entries; got {len(parts[name])}")
    draws = [_fields(entry, "a draw", "name", "level", "each") for entry in parts["draws"]]
    instructions: list[Combine | Exchange] = []
    for entry in parts["instructions"]:
        if isinstance(entry, dict) and "exchange" in entry:
            step = _fields(entry, "an exchange", "exchange", "into")
            instructions.append(Exchange(step["exchange"], step["into"]))
        else:
            step = _fields(entry, "an instruction", "combine", "terms")
            terms = _fields(
                step["terms"], "terms", *(step["terms"] if isinstance(step["terms"], dict) else ())
            )
            instructions.append(
                Combine(
                    step["combine"], {name: _read_numbers(name, number) for name, number in terms.items()}
                )
            )
    return Program(
        keeps=tuple(parts["keeps"]),
        draws=tuple(Draw(**{**draw, "level": _read_numbers("level", draw["level"])}) for draw in draws),
        instructions=tuple(instructions),
        model=parts["model"],
    )


def _read_numbers(name: str, value: object) -> PerNode:
    """One rational for all nodes, or one a node."""
    what = f"a number of {name}"
    return tuple(exact(what, each) for each in value) if isinstance(value, list) else exact(what, value)


def read_matrix(value: object) -> StoredWeights:
    """The stored weights of a JSON object."""
    parts = _fields(value, "matrix", "labels", "indptr", "indices", "values", "diagonal")
    labels = _read_labels(parts["labels"], len(_list("indptr", parts["indptr"])) - 1)
    return StoredWeights(**{**parts, "labels": labels, "values": _list("values", parts["values"])})


def _read_view(value: object) -> StatedView:
    if isinstance(value, dict) and value.get("name") == "custom":
        parts = _fields(value, "view", "name", "rows", "known_noise", "exchanges")
        known = tuple(_read_label(label) for label in _list("known_noise", parts["known_noise"]))
        return StatedView(
            name="custom",
            rows=read_rows(parts["rows"]),
            known_noise=known,
            exchanges=_read_exchanges(parts["exchanges"]),
        )
    parts = _fields(value, "view", "name", "observers", "own_noise", "exchanges")
    observers = tuple(_read_label(label) for label in _list("observers", parts["observers"]))
    return StatedView(
        name=parts["name"],
        observers=observers,
        own_noise=parts["own_noise"],
        exchanges=_read_exchanges(parts["exchanges"]),
    )


def _read_exchanges(value: object) -> tuple[int, ...] | None:
    return None if value is None else tuple(_list("exchanges", value))


def read_rows(value: object) -> ExactRows:
    """Exact rows from their JSON form: lists of pairs of a node index and a number."""
    rows = []
    for row in _list("rows", value):
        pairs = [_list("an entry of a row", entry) for entry in _list("a row", row)]
        if not all(len(pair) == 2 for pair in pairs):
            raise InputError("an entry of a row must be a pair of a node index and a number")
        rows.append(tuple((pair[0], exact("an entry of a row", pair[1])) for pair in pairs))
    return tuple(rows)


def _read_proof(value: object) -> DenseProof | HorizonProof | ShiftProof:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "shift":
        return read_shift_proof(value)
    if kind == "dense":
        parts = _fields(value, "proof", "kind", "y", "witness")
        return DenseProof(y=parts["y"], witness=parts["witness"])
    if kind == "horizon":
        parts = _fields(value, "proof", "kind", "start", "rate")
        return HorizonProof(start=parts["start"], rate=parts["rate"])
    raise InputError(f"proof must be of kind dense, horizon or shift; got {kind!r}")


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
