# SPDX-License-Identifier: Apache-2.0
"""The certificate: a claim on Δ² with everything a reviewer needs to check it, and its file form.

The file is one JSON object. Floats are written so that they read back to the same bits, NaN and infinity
have no place, and `hash` is the SHA-256 of everything else in canonical form (sorted keys, no spaces).
Nothing is proved here: `sottovoce.verification` does that.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce._version import __version__
from sottovoce.errors import FileError, InputError, at_least, one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

__all__ = ["SCHEMA", "Certificate", "HorizonModel", "SparseRows", "load", "save"]

SCHEMA = 1
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_Value = TypeVar("_Value")


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseRows:
    """A matrix in compressed rows, with columns ascending in each row."""

    columns: int
    indptr: Integers
    indices: Integers
    data: Floats

    def __post_init__(self) -> None:
        """Refuse arrays that do not describe a matrix."""
        at_least(1, **{"the number of columns": self.columns})
        _freeze(self, indptr=_integers("indptr", self.indptr), indices=_integers("indices", self.indices))
        _freeze(self, data=_floats("data", self.data, 1))
        if not self.indptr.size or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise InputError("indptr must start at 0 and never fall (take it from a csr_array)")
        stored = int(self.indptr[-1])
        for name, array in (("indices", self.indices), ("data", self.data)):
            if array.size != stored:
                raise InputError(f"{name} must have {stored} entries, as indptr says; it has {array.size}")
        if stored and not 0 <= self.indices.min() <= self.indices.max() < self.columns:
            raise InputError(f"indices must lie between 0 and {self.columns - 1}")
        starts = np.zeros(stored, dtype=bool)
        starts[self.indptr[:-1][self.indptr[:-1] < stored]] = True
        if stored and not (starts[1:] | (np.diff(self.indices) > 0)).all():
            raise InputError("indices must ascend within each row (call sort_indices on the csr_array)")

    @classmethod
    def of(cls, matrix: Any) -> SparseRows:  # noqa: ANN401
        """The stored form of a csr_array with sorted indices."""
        return cls(
            columns=int(matrix.shape[1]),
            indptr=np.array(matrix.indptr, dtype=np.int64),
            indices=np.array(matrix.indices, dtype=np.int64),
            data=np.array(matrix.data, dtype=np.float64),
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.indptr.size) - 1

    def row(self, i: int) -> dict[int, float]:
        """Row i as a mapping from column to number."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return dict(zip(self.indices[span].tolist(), self.data[span].tolist(), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class HorizonModel:
    """What a claim for a very long horizon rests on: a small state-space model and a bound for its bulk.

    x_t = transition x_{t−1} + source c_t + noise of covariance I, seen through `rows`. `start` is y_1..y_τ,
    `rate` the constant y of every later round and `bound` the matrix V that proves it; `distortion` says
    how far the model may be from the graph, and `residual` in words where that number comes from.
    """

    transition: Floats
    rows: Floats
    source: Floats
    start: Floats
    rate: float
    bound: Floats
    distortion: float
    residual: str

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together."""
        for name, dimension in (("transition", 2), ("rows", 2), ("source", 1), ("start", 1), ("bound", 2)):
            _freeze(self, **{name: _floats(name, getattr(self, name), dimension)})
        r = self.source.size
        for name, array in (("transition", self.transition), ("bound", self.bound)):
            if array.shape != (r, r):
                raise InputError(f"{name} must be {r} x {r}, as source has {r} entries; got {_shape(array)}")
        if self.rows.shape[1] != r or not self.rows.shape[0]:
            raise InputError(f"rows must have {r} columns and at least one row; got {_shape(self.rows)}")
        if not np.array_equal(self.bound, self.bound.T):
            raise InputError(
                "bound must be a symmetric matrix; this one is not (average it with its transpose)"
            )
        if (self.start < 0).any():
            raise InputError("start must hold no negative number")
        for name in ("rate", "distortion"):
            _freeze(self, **{name: _number(name, getattr(self, name))})
        if not 0 <= self.distortion < 1:
            raise InputError(f"distortion must be at least 0 and below 1; got {self.distortion!r}")
        if not isinstance(self.residual, str):
            raise InputError(f"residual must be text; got {self.residual!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """A claim on the squared sensitivity Δ² of one target towards one observer, and what proves it.

    The claim is squared_lower ≤ Δ² ≤ squared_upper in units in which a contribution moves by at most 1 in
    each round that `participation` allows. `y` holds one number a round with diag(y) ⪰ M (None: the upper
    end is the number of rounds), `witness` one row a round that attains the lower end (None: it is 0). The
    gossip matrix, the observation rows and the indices in `known_noise` and `target` follow the order of
    `labels`.

    `damping` holds one number a node where the loop is closed by quadratic losses: s_t = D W s_{t−1} + x_t + u_t. The
    file has that field only then.

    `fractions` says that a rule made the weights, so that the stored floats stand for the fractions they were rounded
    from; else the floats themselves are meant. What an observer learns can depend on it.

    A certificate of kind "horizon" carries a `horizon` model in place of y and witness.
    """

    labels: Sequence[Hashable]
    weights: SparseRows | None
    weights_hash: str
    rounds: int
    view: str
    observers: Sequence[Hashable]
    own_noise: str
    observation: SparseRows
    known_noise: Integers
    target: int
    contribution: Literal["vector", "scalar"]
    participation: str
    squared_lower: float
    squared_upper: float
    method: str
    relation: str = "add-remove"
    assumption: str = "oblivious"
    fractions: bool = False
    damping: Floats | None = None
    y: Floats | None = None
    witness: Floats | None = None
    horizon: HorizonModel | None = None
    kind: Literal["dense", "horizon"] = "dense"
    version: str = __version__
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Refuse a certificate that contradicts itself."""
        if self.schema != SCHEMA or isinstance(self.schema, bool):
            raise InputError(
                f"schema must be {SCHEMA}; got {self.schema!r} (another version of sottovoce wrote it)"
            )
        one_of(("dense", "horizon"), kind=self.kind)
        one_of(("vector", "scalar"), contribution=self.contribution)
        for name in (
            "weights_hash",
            "view",
            "own_noise",
            "participation",
            "method",
            "relation",
            "assumption",
            "version",
        ):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} must be text; got {getattr(self, name)!r}")
        at_least(1, rounds=self.rounds)
        self._check_nodes()
        self._check_claim()
        if (self.kind == "horizon") != (self.horizon is not None):
            raise InputError("horizon must be present in a certificate of kind horizon, and in no other")
        if self.kind == "horizon" and not (self.y is None and self.witness is None):
            raise InputError("y and witness must be absent (null) from a certificate of kind horizon")
        if self.kind == "dense" and self.weights is None:
            raise InputError("weights must be present in a certificate of kind dense (SparseRows.of(W))")

    def _check_nodes(self) -> None:
        """Refuse node indices and matrices that do not fit the labels."""
        n = len(self.labels)
        _freeze(self, observers=tuple(self.observers), known_noise=_integers("known_noise", self.known_noise))
        for label in (*self.observers, *([] if isinstance(self.labels, range) else self.labels)):
            _written_label(label)
        if self.weights is not None and (self.weights.rows, self.weights.columns) != (n, n):
            shape = f"{self.weights.rows} x {self.weights.columns}"
            raise InputError(f"weights must be {n} x {n}, as there are {n} labels; got {shape}")
        if self.damping is not None:
            _freeze(self, damping=_floats("damping", self.damping, 1))
            if self.damping.size != n:
                raise InputError(f"damping must have {n} entries, one a label; it has {self.damping.size}")
        if self.observation.columns != n:
            raise InputError(
                f"observation must have {n} columns, one a label; got {self.observation.columns}"
            )
        nodes = self.known_noise
        if nodes.size and not (nodes.min() >= 0 and nodes.max() < n and (np.diff(nodes) > 0).all()):
            raise InputError(f"known_noise must be ascending node indices below {n}; got {nodes.tolist()}")
        if isinstance(self.target, bool) or not isinstance(self.target, int) or not 0 <= self.target < n:
            raise InputError(f"target must be a node index between 0 and {n - 1}; got {self.target!r}")
        if self.target in nodes.tolist():
            raise InputError(
                f"target {self.target} is in known_noise: a target whose noise is known has no claim"
            )

    def _check_claim(self) -> None:
        """Refuse numbers that are no claim, and arrays that are not one entry a round."""
        for name in ("squared_lower", "squared_upper"):
            _freeze(self, **{name: _number(name, getattr(self, name))})
        if not 0 <= self.squared_lower <= self.squared_upper:
            raise InputError(
                "the claim needs 0 ≤ squared_lower ≤ squared_upper; "
                f"got {self.squared_lower!r} and {self.squared_upper!r}"
            )
        if self.y is not None:
            _freeze(self, y=_floats("y", self.y, 1))
        if self.witness is not None:
            given = _array("witness", self.witness)
            _freeze(self, witness=_floats("witness", given[:, None] if given.ndim == 1 else given, 2))
        for name in ("y", "witness"):
            array = getattr(self, name)
            if array is not None and array.shape[0] != self.rounds:
                raise InputError(
                    f"{name} must have one entry for each of the {self.rounds} rounds; it has {len(array)}"
                )

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form: what the file carries as its `hash`."""
        return _digest(_document(self))


def save(certificate: Certificate, path: str | os.PathLike[str]) -> Path:
    """Write `certificate` to `path`, whole or not at all, and return the path."""
    file = Path(path)
    document = _document(certificate)
    document["hash"] = _digest(document)
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, sort_keys=True) + "\n"
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
        text = file.read_bytes().decode()
    except OSError as error:
        raise FileError(f"{file}: the certificate cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileError(f"{file}: a certificate is UTF-8 text; this file is not") from None
    try:
        document = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct_pairs
        )
    except InputError as error:
        raise FileError(f"{file}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{file}: a certificate is a JSON file; this is not JSON ({error})") from None
    try:
        return _from_document(document)
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def _document(certificate: Certificate) -> dict[str, Any]:
    """The JSON object of a certificate, without its hash."""
    document = {
        field.name: _written(field.name, getattr(certificate, field.name)) for field in fields(Certificate)
    }
    if certificate.damping is None:
        del document["damping"]
    return document


def _written(name: str, value: object) -> object:
    """One field in the types of JSON."""
    match value:
        case np.ndarray():
            return value.tolist()
        case SparseRows() | HorizonModel():
            return {part.name: _written(part.name, getattr(value, part.name)) for part in fields(value)}
        case range() if name == "labels":
            return {"first": value.start, "count": len(value)}
        case _ if name in {"labels", "observers"}:
            return [_written_label(label) for label in value]  # type: ignore[attr-defined]
        case _:
            return value


def _written_label(label: object) -> object:
    """A node's name in the types of JSON; a tuple becomes a list."""
    if isinstance(label, tuple):
        return [_written_label(part) for part in label]
    if (
        label is None
        or isinstance(label, bool | int | str)
        or (isinstance(label, float) and np.isfinite(label))
    ):
        return label
    raise InputError(
        f"a node's name in a certificate must be text, a number or a tuple of such; got {label!r} "
        "(rename the nodes)"
    )


def _digest(document: dict[str, Any]) -> str:
    """SHA-256 over the canonical form of a document."""
    canonical = json.dumps(
        document, allow_nan=False, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def _from_document(document: object) -> Certificate:
    """The certificate of a JSON object; fields first, then the hash, then what they say."""
    if isinstance(document, dict) and document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(
            f"schema must be {SCHEMA}; got {document['schema']!r} (another version of sottovoce wrote it)"
        )
    damped = isinstance(document, dict) and "damping" in document
    names = [field.name for field in fields(Certificate) if damped or field.name != "damping"]
    whole = _exact_fields(document, "a certificate", [*names, "hash"])
    written = whole.pop("hash")
    if written != _digest(whole):
        raise InputError(
            f"the file was changed after it was written: its hash is {written!r}, its content gives "
            f"{_digest(whole)!r} (take the original file)"
        )
    whole["labels"] = _read_labels(whole["labels"])
    if not isinstance(whole["observers"], list):
        raise InputError(f"observers must be a list of labels; got {whole['observers']!r}")
    whole["observers"] = tuple(_read_label(label) for label in whole["observers"])
    whole["observation"] = _part(SparseRows, "observation", whole["observation"])
    for name, kind in (("weights", SparseRows), ("horizon", HorizonModel)):
        if whole[name] is not None:
            whole[name] = _part(kind, name, whole[name])
    return Certificate(**whole)


def _part(kind: Callable[..., _Value], name: str, value: object) -> _Value:
    """A value nested in the certificate; errors name it."""
    try:
        return kind(**_exact_fields(value, name, [field.name for field in fields(kind)]))  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _exact_fields(value: object, what: str, names: list[str]) -> dict[str, Any]:
    """A JSON object that has exactly the fields `names`."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must be a JSON object; got {type(value).__name__}")
    if missing := [name for name in names if name not in value]:
        raise InputError(f"{what} lacks the field {missing[0]} (is the file complete?)")
    if unknown := [name for name in value if name not in names]:
        raise InputError(f"{what} has an unknown field {unknown[0]} (another program may have written it)")
    return dict(value)


def _read_labels(value: object) -> Sequence[Hashable]:
    """The labels of a file: a list, or first and count where they count up by one."""
    if isinstance(value, dict):
        span = _exact_fields(value, "labels", ["first", "count"])
        if not all(type(part) is int for part in span.values()) or span["count"] < 0:
            raise InputError(f"labels must give first and count as whole numbers; got {value!r}")
        return range(span["first"], span["first"] + span["count"])
    if not isinstance(value, list):
        raise InputError(f"labels must be a list, or first and count; got {value!r}")
    return tuple(_read_label(label) for label in value)


def _read_label(value: object) -> Hashable:
    """A node's name as it was before it was written."""
    return tuple(_read_label(part) for part in value) if isinstance(value, list) else value


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
    return value if np.isfinite(value) else _no_constant(text)


def _number(name: str, value: object) -> float:
    """A finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number; got {value!r}")
    return float(value)


def _floats(name: str, value: object, dimension: int) -> Floats:
    """A finite float array of the given dimension, out of reach of later changes."""
    array = _array(name, value)
    if array.ndim != dimension:
        raise InputError(f"{name} must have {dimension} dimension(s); it has {array.ndim}")
    result = np.array(array, dtype=np.float64)
    if not np.isfinite(result).all():
        raise InputError(f"{name} must hold finite numbers only; it holds NaN or infinity")
    result.flags.writeable = False
    return result


def _array(name: str, value: object) -> NDArray[Any]:
    """An array of numbers, of whatever dimension."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} must be an array of numbers with rows of equal length") from None
    if array.size and array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be an array of numbers; it holds something else")
    return array


def _integers(name: str, value: object) -> Integers:
    """A one-dimensional array of whole numbers, out of reach of later changes."""
    array = np.asarray(value)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a list of whole numbers")
    result = np.array(array, dtype=np.int64)
    result.flags.writeable = False
    return result


def _freeze(value: object, **parts: object) -> None:
    """Set fields of a frozen value while it is being built."""
    for name, part in parts.items():
        object.__setattr__(value, name, part)


def _shape(array: Floats) -> str:
    """The shape in words."""
    return " x ".join(map(str, array.shape))
