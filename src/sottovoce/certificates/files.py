# SPDX-License-Identifier: Apache-2.0
"""The file of a certificate: one JSON object, which `sottovoce.certificates.forms` describes.

Floats are written so that they read back to the same bits, rationals as quotients, NaN and infinity have no place, and
`hash` is the SHA-256 of everything else in canonical form (sorted keys, no spaces). Limits on bytes, digits and depth
come before any work.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from sottovoce.certificates.forms import (
    CertificateForm,
    CustomViewForm,
    DenseForm,
    MovesForm,
    NamedViewForm,
    ShiftForm,
)
from sottovoce.certificates.numbers import exact, written
from sottovoce.certificates.shifts import LoopAttack, MovesProof, ShiftProof, ShiftStep
from sottovoce.certificates.values import (
    MOST_LABEL_DEPTH,
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    Proof,
    StatedView,
    StatedWeights,
    StoredWeights,
)
from sottovoce.errors import FileError, InputError
from sottovoce.files import put_whole, read_bounded
from sottovoce.forms import CountedLabels, canonical, json_text, plain, read_form, strict_json
from sottovoce.protocols import Program, Slopes, canonical_program

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Sequence

    from sottovoce.certificates.forms import (
        HorizonForm,
        Label,
        MatrixForm,
        Numbers,
        RoundForm,
        UpdatesForm,
        WeightsForm,
    )
    from sottovoce.protocols import PerNode

__all__ = ["document_of", "from_document", "from_text", "hash_of", "load", "save", "to_document", "to_text"]

MOST_BYTES = 64_000_000
_OLD = {
    1: "whose rounded weights decide no rank and whose model cannot be checked",
    2: "which holds one matrix of weights and one program of gossip, and no protocol beyond",
}


def to_text(certificate: Certificate) -> str:
    """The JSON text of a certificate, with its hash."""
    # In the order in which people read it: the terms of an instruction keep theirs.
    return json_text(to_document(certificate), letters=True) + "\n"


def to_document(certificate: Certificate) -> dict[str, Any]:
    """The JSON object of a certificate, with its hash."""
    return {**document_of(certificate), "hash": certificate.hash}


def from_text(text: str) -> Certificate:
    """The certificate that a JSON text holds."""
    if len(text) > MOST_BYTES:
        raise InputError(f"a certificate has at most {MOST_BYTES} characters; this one has {len(text)}")
    return from_document(strict_json(text, "a certificate"))


def save(certificate: Certificate, path: str | os.PathLike[str]) -> Path:
    """Write `certificate` to `path`, whole or not at all, and return the path."""
    file = Path(path)
    text = to_text(certificate)
    try:
        return put_whole([text.encode()], file.parent, lambda: file.name, rights=0o644)
    except OSError as error:
        reason = error.strerror or error
        raise FileError(
            f"{file}: the certificate cannot be written: {reason} (choose another place)"
        ) from None


def load(path: str | os.PathLike[str]) -> Certificate:
    """Read a certificate back, bit for bit; a file that is not one, or was changed, is refused."""
    file = Path(path)
    text = read_bounded(file, "certificate", MOST_BYTES)
    try:
        return from_text(text)
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def hash_of(document: dict[str, Any]) -> str:
    """The SHA-256 of a document in canonical form."""
    return hashlib.sha256(canonical(document, tight=True)).hexdigest()


def document_of(certificate: Certificate) -> dict[str, Any]:
    """The JSON object of a certificate, without its hash."""
    updates = certificate.updates
    return {
        "schema": SCHEMA,
        "protocol": {
            "weights": [plain(each) for each in certificate.schedule],
            "programs": [canonical_program(program) for program in certificate.programs],
            "rounds": certificate.rounds,
            "encoder": [str(Fraction(number)) for number in certificate.encoder],
            "updates": plain({"lower": updates.lower, "upper": updates.upper})
            if isinstance(updates, Slopes)
            else updates,
        },
        "view": _view_document(certificate.view),
        "target": plain(certificate.target),
        "contribution": certificate.contribution,
        "participation": certificate.participation,
        "claim": {"lower": certificate.squared_lower, "upper": certificate.squared_upper},
        "proof": _proof_document(certificate.proof),
        "mechanism": plain(certificate.mechanism),
    }


def _view_document(view: StatedView) -> Any:  # noqa: ANN401
    own: dict[str, object] = {"observers": view.observers, "own_noise": view.own_noise}
    if view.name == "custom":
        rows = [[(j, written(number)) for j, number in row] for row in view.rows]
        own = {"rows": rows, "known_noise": view.known_noise}
    return plain({"name": view.name, **own, "exchanges": view.exchanges})


def _proof_document(proof: Proof) -> dict[str, Any]:
    """The hints; in files the steps that recur have had the name `bulk` from the first."""
    return {"bulk" if name == "recurring" else name: part for name, part in plain(proof).items()}


def from_document(document: object) -> Certificate:
    """The certificate of a JSON object that `strict_json` read: its form first, then its hash, then what it says."""
    schema = document.get("schema") if isinstance(document, dict) else SCHEMA
    if type(schema) is int and schema in _OLD:
        raise InputError(
            f"this certificate has the form of schema {schema}, {_OLD[schema]}; schema {SCHEMA} is read (certify again)"
        )
    if type(schema) is not int or schema != SCHEMA:
        raise InputError(f"schema must be {SCHEMA}; got {schema!r} (another version of sottovoce wrote it)")
    form = read_form(document, CertificateForm, "a certificate")
    assert isinstance(document, dict)
    found = hash_of({name: value for name, value in document.items() if name != "hash"})
    if form.hash != found:
        raise InputError(
            f"the file was changed after it was written: its hash is {form.hash!r}, its content gives {found!r} "
            "(take the original file)"
        )
    first, *further = map(_weights, form.protocol.weights)
    programs = tuple(map(_program, form.protocol.programs))
    return Certificate(
        weights_hash=first.hash,
        rule=first.rule,
        weights=first.matrix,
        further=tuple(further),
        program=programs if len(programs) > 1 else programs[0],
        rounds=form.protocol.rounds,
        encoder=tuple(exact("the encoder", value) for value in form.protocol.encoder),
        updates=_updates(form.protocol.updates),
        view=_view(form.view),
        target=_label(form.target),
        contribution=form.contribution,  # type: ignore[arg-type] # the certificate refuses what is none
        participation=form.participation,
        squared_lower=form.claim.lower,
        squared_upper=form.claim.upper,
        proof=_proof(form.proof),
        mechanism=None if form.mechanism is None else Mechanism(**asdict(form.mechanism)),
    )


def _weights(form: WeightsForm) -> StatedWeights:
    matrix = None if form.matrix is None else _stored(form.matrix)
    return StatedWeights(hash=form.hash, rule=form.rule, matrix=matrix)


def _stored(form: MatrixForm) -> StoredWeights:
    """Stored weights, whose labels are a list, or first and count where they count up by one."""
    n, labels = len(form.indptr) - 1, form.labels
    named: Sequence[Hashable]
    if isinstance(labels, CountedLabels):
        if labels.count != n:
            raise InputError(f"labels must give first and count of {n} nodes; got {labels.count}")
        named = range(labels.first, labels.first + n)
    else:
        named = tuple(map(_label, labels))
        if len(set(named)) != len(named):
            raise InputError("labels must differ from each other; one stands twice")
    return StoredWeights(**{**asdict(form), "labels": named})


def _program(form: RoundForm) -> Program:
    """The program, whose numbers are written as those of certificates are."""
    data = plain(form)
    for draw in data["draws"]:
        draw["level"] = _numbers("level", draw["level"])
    for step in data["instructions"]:
        if "terms" in step:
            step["terms"] = {name: _numbers(name, number) for name, number in step["terms"].items()}
    return Program.from_json(data)


def _numbers(name: str, value: Numbers) -> PerNode:
    """One rational for all nodes, or one a node."""
    what = f"a number of {name}"
    return tuple(exact(what, each) for each in value) if isinstance(value, list) else exact(what, value)


def _updates(form: UpdatesForm | str | None) -> Slopes | Any:  # noqa: ANN401
    """The ball of slopes, one pair a node; "any" and None stand for themselves."""
    if form is None or isinstance(form, str):
        return form
    if len(form.lower) != len(form.upper):
        raise InputError("updates need as many lower as upper slopes")
    return Slopes.of((form.lower, form.upper), len(form.lower))


def _view(document: dict[str, Any]) -> StatedView:
    if document.get("name") != "custom":
        named = read_form(document, NamedViewForm, "view")
        return StatedView(
            name=named.name,
            observers=tuple(map(_label, named.observers)),
            own_noise=named.own_noise,
            exchanges=None if named.exchanges is None else tuple(named.exchanges),
        )
    form = read_form(document, CustomViewForm, "view")
    return StatedView(
        name="custom",
        rows=tuple(tuple((j, exact("an entry of a row", x)) for j, x in row) for row in form.rows),
        known_noise=tuple(map(_label, form.known_noise)),
        exchanges=None if form.exchanges is None else tuple(form.exchanges),
    )


def _proof(form: DenseForm | HorizonForm | ShiftForm | MovesForm) -> Proof:
    if isinstance(form, MovesForm):
        return MovesProof(**asdict(form))
    if isinstance(form, ShiftForm):
        steps = {
            name: tuple(ShiftStep(**asdict(step)) for step in getattr(form, name))
            for name in ("start", "recurring", "end")
        }
        attack = None if form.attack is None else LoopAttack(**asdict(form.attack))
        return ShiftProof(**{**asdict(form), **steps, "attack": attack})
    return DenseProof(**asdict(form)) if isinstance(form, DenseForm) else HorizonProof(**asdict(form))


def _label(value: Label, depth: int = 0) -> Hashable:
    """A node's name as it was before it was written."""
    if isinstance(value, list):
        if depth >= MOST_LABEL_DEPTH:
            raise InputError(
                f"a node's name must be at most {MOST_LABEL_DEPTH} lists deep; this one is deeper"
            )
        return tuple(_label(part, depth + 1) for part in value)
    if isinstance(value, dict):
        raise InputError("a node's name must be text, a number or a list of such; got a JSON object")
    return value
