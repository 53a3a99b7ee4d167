# SPDX-License-Identifier: Apache-2.0
"""The CSV form: one pair a line under one header line, numbers with every digit."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.documents.files import check_path, write_whole
from sottovoce.documents.pairs import (
    BoundedEnds,
    EndsForm,
    Pair,
    join_labels,
    plain_label,
    read_label,
    split_labels,
    table_pairs,
    write_label,
)
from sottovoce.errors import FileError, InputError
from sottovoce.interval import Interval

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from sottovoce.accounting import AccountTable
    from sottovoce.rates import RatePair, RateTable

    Row = tuple[str | int | float, ...]

__all__ = [
    "COLUMNS",
    "RATE_COLUMNS",
    "check_csv_path",
    "read_account_csv",
    "write_account_csv",
    "write_named_account_csv",
    "write_named_rate_csv",
    "write_rate_csv",
]

COLUMNS = (
    "view",
    "observer",
    "target",
    "sensitivity_squared_lower",
    "sensitivity_squared_upper",
    "method",
    "mu_lower",
    "mu_upper",
    "epsilon_lower",
    "epsilon_upper",
    "weights",
)
RATE_COLUMNS = (
    "view",
    "observer",
    "target",
    "rate_lower",
    "rate_upper",
    "method",
    "frequency",
    "constant",
    "weights",
)
_LINES = 10_000


def check_csv_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a CSV file can be put there."""
    return check_path(path, (".csv",), "the table of pairs")


def write_account_csv(tables: Iterable[AccountTable], path: str | os.PathLike[str]) -> Path:
    """Write every pair of `tables`, one for each view, to the file `path`, whole or not at all."""
    return _write(_account_chunks(tables), path)


def write_named_account_csv(tables: Iterable[AccountTable], directory: str | os.PathLike[str] = ".") -> Path:
    """Write every pair of `tables` to sottovoce-pairs-….csv in `directory`, named by its content."""
    return write_whole(
        _account_chunks(tables), Path(directory), lambda digest: f"sottovoce-pairs-{digest}.csv"
    )


def write_rate_csv(table: RateTable, path: str | os.PathLike[str]) -> Path:
    """Write every pair of a table of rates to the file `path`, whole or not at all."""
    return _write(_rate_chunks(table), path)


def write_named_rate_csv(table: RateTable, directory: str | os.PathLike[str] = ".") -> Path:
    """Write every pair of a table of rates to sottovoce-rates-….csv in `directory`, named by its content."""
    return write_whole(_rate_chunks(table), Path(directory), lambda digest: f"sottovoce-rates-{digest}.csv")


def read_account_csv(path: str | os.PathLike[str]) -> dict[str, list[Pair]]:
    """The pairs in a CSV file by their view, in its order; names that spell whole numbers are read as such."""
    file = Path(path)
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            rows = csv.reader(stream)
            if tuple(next(rows, ())) != COLUMNS:
                raise FileError(
                    f"{file.name}: the first line must be {','.join(COLUMNS)} (give a file that "
                    "`sottovoce account --output` wrote)"
                )
            found: dict[str, list[Pair]] = {}
            for row in rows:
                view, pair = _read_row(row, f"{file.name}, line {rows.line_num}")
                found.setdefault(view, []).append(pair)
            return found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{file}: cannot be read: {error} (check the path and the file)") from None


def _write(chunks: Iterable[str], path: str | os.PathLike[str]) -> Path:
    """Write the text to a CSV file that has a name already."""
    # A link keeps pointing to its file: what it points to is replaced, not the link.
    file = check_csv_path(path).resolve()
    write_whole(chunks, file.parent, lambda _: file.name)
    return Path(path)


def _account_chunks(tables: Iterable[AccountTable]) -> Iterator[str]:
    rows = (
        (table.view, *_row(pair), write_label(table.protocol.schedule[0].origin))
        for table in tables
        for pair in table_pairs(table)
    )
    return _chunks(COLUMNS, rows)


def _rate_chunks(table: RateTable) -> Iterator[str]:
    first = table.found[0]
    origin = write_label(first.protocol.schedule[0].origin)
    return _chunks(RATE_COLUMNS, ((first.view.name, *_rate_row(pair), origin) for pair in table))


def _chunks(columns: tuple[str, ...], rows: Iterator[Row]) -> Iterator[str]:
    """The header and the rows as text, some thousand lines at a time."""
    yield ",".join(columns) + "\n"
    while block := list(itertools.islice(rows, _LINES)):
        yield "".join(",".join(map(_cell, row)) + "\n" for row in block)


def _cell(value: str | float) -> str:
    """A value as a cell, in quotes where a reader would part it, be it one that takes semicolons for commas."""
    text = str(value)
    # csv.writer would leave a lone carriage return, which its reader takes for the end of a line.
    return '"{}"'.format(text.replace('"', '""')) if re.search(r'[",;\r\n]', text) else text


def _row(pair: Pair) -> Row:
    squared, mu, epsilon = (each.interval for each in (pair.sensitivity_squared, pair.mu, pair.epsilon))
    return (
        join_labels(pair.observer),
        write_label(pair.target),
        squared.lower,
        squared.upper,
        pair.sensitivity_squared.method,
        mu.lower,
        mu.upper,
        epsilon.lower,
        epsilon.upper,
    )


def _rate_row(pair: RatePair) -> Row:
    return (
        join_labels(tuple(map(plain_label, pair.observer))),
        write_label(plain_label(pair.target)),
        pair.rate.lower,
        pair.rate.upper,
        pair.method,
        pair.frequency,
        pair.constant,
    )


def _read_row(row: list[str], where: str) -> tuple[str, Pair]:
    """The view and the pair of one line."""
    try:
        view, observer, target, low2, high2, method, low, high, least, most, _weights = row
        return view, Pair(
            observer=split_labels(observer),
            target=read_label(target),
            sensitivity_squared=BoundedEnds.by(method, Interval(float(low2), float(high2))),
            mu=EndsForm.of(Interval(float(low), float(high))),
            epsilon=EndsForm.of(Interval(float(least), float(most))),
        )
    except (ValueError, InputError) as error:
        raise FileError(
            f"{where}: expected {len(COLUMNS)} fields with numbers in lower ≤ upper order: {error} "
            "(write the file again)"
        ) from None
