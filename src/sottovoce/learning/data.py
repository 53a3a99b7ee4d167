# SPDX-License-Identifier: Apache-2.0
"""`Data`: records with labels, from a bundled set by name or from a file of the user's, checked before use."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sottovoce.arrays import read_npz
from sottovoce.errors import FileError, InputError, at_least, needs

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["DATA_NAMES", "DATA_SUFFIXES", "Data", "held_out", "load_data"]

DATA_NAMES = ("digits", "breast-cancer", "diabetes")
DATA_SUFFIXES = (".csv", ".npz")
# Smallest and largest value of each feature of Breast Cancer Wisconsin (diagnostic), from its description: scaling by
# them takes no look at the records.
BREAST_CANCER = (
    (6.981, 28.11),
    (9.71, 39.28),
    (43.79, 188.5),
    (143.5, 2501.0),
    (0.053, 0.163),
    (0.019, 0.345),
    (0.0, 0.427),
    (0.0, 0.201),
    (0.106, 0.304),
    (0.05, 0.097),
    (0.112, 2.873),
    (0.36, 4.885),
    (0.757, 21.98),
    (6.802, 542.2),
    (0.002, 0.031),
    (0.002, 0.135),
    (0.0, 0.396),
    (0.0, 0.053),
    (0.008, 0.079),
    (0.001, 0.03),
    (7.93, 36.04),
    (12.02, 49.54),
    (50.41, 251.2),
    (185.2, 4254.0),
    (0.071, 0.223),
    (0.027, 1.058),
    (0.0, 1.252),
    (0.0, 0.291),
    (0.156, 0.664),
    (0.055, 0.208),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Records (rows of `features`) and their labels: numbers, or classes 0..k−1 if `classes` is k and not 0.

    `published_records` says that the number of records is known to everybody, as it is for a bundled set; None
    where it is not, so that nothing may be derived from it. Where records come from `clients` of their own, as
    patients from hospitals, `owner` holds the place in `clients` of each record's.

    >>> Data(name="two", features=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1], classes=2).records
    2
    """

    name: str
    features: Array
    labels: Array | NDArray[np.int64]
    classes: int = 0
    published_records: int | None = None
    clients: tuple[str, ...] = ()
    owner: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Refuse records on which nothing can be learnt."""
        features = _numbers(self.name, "features", self.features, 2)
        labels: Array | NDArray[np.int64] = _numbers(self.name, "labels", self.labels, 1)
        if len(features) != len(labels):
            raise InputError(
                f"{self.name}: there must be one label for each record; got {len(features)} records and "
                f"{len(labels)} labels (mend the file)"
            )
        if features.size == 0:
            raise InputError(
                f"{self.name}: there must be at least one record with one feature; got shape {features.shape}"
            )
        if self.classes:
            labels = _class_numbers(self.name, labels, self.classes)
        if self.owner is not None and (
            np.shape(self.owner) != (len(features),)
            or not np.isin(self.owner, range(len(self.clients))).all()
        ):
            raise InputError(
                f"{self.name}: owner must hold, for each of {len(features)} records, the place of its client among "
                f"{len(self.clients)} (count from 0, in the order of clients)"
            )
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.features)

    def taken(self, rows: NDArray[np.int64]) -> Data:
        """Some of the records; how many of them are published goes with them."""
        published = None if self.published_records is None else len(rows)
        return replace(
            self,
            features=self.features[rows],
            labels=self.labels[rows],
            published_records=published,
            owner=None if self.owner is None else self.owner[rows],
        )

    def clients_at(self, nodes: Sequence[Hashable]) -> Data:
        """The same records with the clients in the order of the `nodes` that are called like them.

        Names are compared as text, so that a node 7 is the client "7"; each must be there once.
        """
        names = [str(node) for node in nodes]
        missing, unknown = sorted(set(self.clients) - set(names)), sorted(set(names) - set(self.clients))
        if missing or unknown or self.owner is None:
            raise InputError(
                f"{self.name}: there must be one node for each client, called like it; "
                f"{_listed(missing, 'client', 'no node')}{'; ' if missing and unknown else ''}"
                f"{_listed(unknown, 'node', 'no records')} (rename nodes or clients, or take nodes that are numbered)"
            )
        place = {name: k for k, name in enumerate(names)}
        moved = np.array([place[client] for client in self.clients], dtype=np.int64)
        return replace(self, clients=tuple(names), owner=moved[self.owner])


def load_data(
    source: str | os.PathLike[str],
    *,
    label: str | None = None,
    split_by: str | None = None,
    classification: bool = False,
) -> Data:
    """The data set of that name (digits, breast-cancer, diabetes), or in a .csv or .npz file.

    A CSV file has a header line; `label` names the column of the labels, the last one if None, and `split_by` one that
    says whose a record is, such as its school: its values, in order, are the clients, and no feature. An NPZ file holds
    arrays `features` and `labels`. With `classification` labels are classes: texts, or whole numbers.

    Bundled sets are scaled by ranges that their description publishes, never by statistics of the records.
    They need the extra `learn`.
    """
    text = str(source)
    path = Path(source)
    if split_by is not None and path.suffix.lower() != ".csv":
        raise InputError(
            f"split_by must name a column of a CSV file; got {split_by!r} with {text} "
            "(leave it out, or write a CSV file)"
        )
    if text in DATA_NAMES:
        return _bundled(text)
    if path.suffix.lower() not in DATA_SUFFIXES:
        raise InputError(
            f"the data must be one of {', '.join(DATA_NAMES)}, or a file that ends in "
            f"{' or '.join(DATA_SUFFIXES)}; got {text!r}"
        )
    if path.suffix.lower() == ".npz":
        return _from_npz(path, classification)
    return _from_csv(path, label, split_by, classification)


def held_out(data: Data, share: float, *, seed: int = 0) -> tuple[Data, Data | None]:
    """The records to learn from, and a random `share` of them held out to test on (None where the share is 0).

    Of clients the share of each is held out, but never its last record.
    """
    if not 0 <= share < 1:
        raise InputError(f"the share of records held out must lie in [0, 1); got {share!r}")
    at_least(0, seed=seed)
    count = round(share * data.records)
    if count == 0:
        return data, None
    if count == data.records:
        raise InputError(
            f"{data.name}: holding out {share!r} of {data.records} records leaves none to learn from"
        )
    order = np.random.default_rng([int(seed), 1]).permutation(data.records)
    if data.owner is not None:
        # Each client's records in the order of chance, those that are held out first.
        parts = [order[data.owner[order] == client] for client in range(len(data.clients))]
        kept = [min(round(share * len(part)), len(part) - 1) for part in parts]
        out = [part[:few] for part, few in zip(parts, kept, strict=True)]
        order = np.concatenate([*out, *(part[few:] for part, few in zip(parts, kept, strict=True))])
        count = sum(kept)
        if count == 0:
            return data, None
    return data.taken(np.sort(order[count:])), data.taken(np.sort(order[:count]))


def _bundled(name: str) -> Data:
    """One of scikit-learn's bundled sets."""
    try:
        from sklearn import datasets
    except ImportError:
        raise needs(f"the data set {name}", "scikit-learn", "learn") from None
    if name == "digits":
        found = datasets.load_digits()
        # Grey levels go from 0 to 16.
        return _published(name, found.data / 8 - 1, found.target, 10)
    if name == "breast-cancer":
        found = datasets.load_breast_cancer()
        low, high = np.array(BREAST_CANCER).T
        return _published(name, (2 * found.data - low - high) / (high - low), found.target, 2)
    found = datasets.load_diabetes()
    # Published: features lie within ±0.2, the measure of progression between 25 and 346.
    return _published(name, found.data / 0.2, (2 * found.target - 371) / 321, 0)


def _published(name: str, features: Array, labels: Array, classes: int) -> Data:
    """A set whose size everybody knows."""
    return Data(name=name, features=features, labels=labels, classes=classes, published_records=len(features))


def _from_npz(path: Path, classification: bool) -> Data:
    """The arrays `features` and `labels` of an .npz file."""
    arrays = read_npz(path, str(path), "write it again with numpy.savez(file, features=…, labels=…)")
    missing = {"features", "labels"} - arrays.keys()
    if missing:
        raise FileError(
            f"{path}: an .npz file of data holds arrays called features and labels; it has "
            f"{', '.join(sorted(arrays)) or 'none'} (save them under these names)"
        )
    return _as_data(path, arrays["features"], arrays["labels"], classification)


def _from_csv(path: Path, label: str | None, split_by: str | None, classification: bool) -> Data:
    """The rows of a CSV file with a header line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: cannot be read as CSV: {reason} (check the file and its path)") from None
    if len(rows) < 2:
        raise FileError(f"{path}: a CSV file of data has a header line and records; got {len(rows)} lines")
    header, *records = rows
    for name in (label, split_by):
        if name is not None and name not in header:
            raise FileError(f"{path}: no column is called {name!r} (its columns: {', '.join(header)})")
    others = [k for k, name in enumerate(header) if name != split_by]
    if label == split_by is not None or not others:
        raise FileError(
            f"{path}: a column cannot hold labels and clients; got {split_by!r} (name another label)"
        )
    place = others[-1] if label is None else header.index(label)
    used = [k for k in others if k != place]
    features = np.empty((len(records), len(used)))
    labels: list[Any] = []
    for line, row in enumerate(records, start=2):
        if len(row) != len(header):
            raise FileError(
                f"{path}, line {line}: {len(header)} values were expected, one for each column of the header; got "
                f"{len(row)} (fill in what is missing, and put values that hold commas in quotes)"
            )
        features[line - 2] = [_number(path, line, header[column], row[column]) for column in used]
        labels.append(row[place] if classification else _number(path, line, header[place], row[place]))
    data = _as_data(path, features, np.array(labels), classification)
    if split_by is None:
        return data
    whose = [row[header.index(split_by)].strip() for row in records]
    if "" in whose:
        line = 2 + whose.index("")
        raise FileError(
            f"{path}, line {line}: the column {split_by!r} says whose a record is; it is empty (leave the record out)"
        )
    numbered = all(name.isdecimal() for name in whose)
    clients = sorted(set(whose), key=(lambda name: (int(name), name)) if numbered else None)
    at = {name: k for k, name in enumerate(clients)}
    return replace(data, clients=tuple(clients), owner=np.array([at[name] for name in whose]))


def _listed(names: list[str], what: str, lacks: str) -> str:
    """Which clients or nodes lack something, the first few by name."""
    if not names:
        return ""
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{len(names)} {what}{'s' if len(names) > 1 else ''} with {lacks}: {shown}"


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise FileError(
            f"{path}, line {line}: a number was expected in the column {column!r}; got {cell!r} (write numbers there, "
            "or leave the column out; one that says whose a record is can be named with split_by of train)"
        ) from None
    if not math.isfinite(value):
        raise FileError(
            f"{path}, line {line}: a finite number was expected in the column {column!r}; got {cell!r} "
            "(leave the record out)"
        )
    return value


def _as_data(path: Path, features: NDArray[Any], labels: NDArray[Any], classification: bool) -> Data:
    """Data of a user's file; the names of classes become numbers in their order."""
    if not classification:
        return Data(name=path.name, features=features, labels=labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iufUSb":
        raise InputError(
            f"{path.name}: labels must be one text or number for each record; got shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InputError(f"{path.name}: labels must be finite; got NaN or infinity (leave the record out)")
    names, numbers = np.unique(labels, return_inverse=True)
    return Data(name=path.name, features=features, labels=numbers, classes=len(names))


def _numbers(name: str, what: str, values: ArrayLike, axes: int) -> Array:
    """An array of finite floats with so many axes."""
    try:
        given = np.asarray(values)
        # Times would count as numbers, and complex numbers lose a part.
        array = np.array("" if given.dtype.kind in "cmM" else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: {what} must be numbers; got something else (mend the file)") from None
    if array.ndim != axes:
        shape = "one row a record" if axes == 2 else "one number a record"
        raise InputError(f"{name}: {what} must have {shape}; got shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InputError(
            f"{name}: {what} must be finite numbers; record {row} holds NaN or infinity (leave it out)"
        )
    return array


def _class_numbers(name: str, labels: Array | NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Labels as whole numbers below `classes`."""
    numbers = labels.astype(np.int64)
    if (numbers != labels).any() or (numbers < 0).any() or (numbers >= classes).any():
        raise InputError(f"{name}: labels of {classes} classes must be whole numbers from 0 to {classes - 1}")
    return numbers
