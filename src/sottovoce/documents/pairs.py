# SPDX-License-Identifier: Apache-2.0
"""`Pair`: what one observer can learn about one target, as files hold it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.errors import InputError
from sottovoce.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from sottovoce.accounting import Account, AccountTable

__all__ = [
    "Label",
    "Pair",
    "account_pair",
    "ends_to_json",
    "finite_or_null",
    "interval_from_json",
    "join_labels",
    "pair_from_json",
    "pair_to_json",
    "plain_label",
    "read_label",
    "split_labels",
    "table_pairs",
    "write_label",
]

Label = int | str
_BLOCK = 50_000
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One observer (or coalition) and one target, with the intervals of Δ², μ and ε."""

    observer: tuple[Label, ...]
    target: Label
    sensitivity_squared: Interval
    method: str
    mu: Interval
    epsilon: Interval


def plain_label(label: Hashable) -> Label:
    """A node's name as files hold it: whole numbers as such, anything else as text."""
    if isinstance(label, bool):
        return str(label)
    if isinstance(label, int):
        return label
    if hasattr(label, "item"):
        return plain_label(label.item())
    return str(label)


def account_pair(account: Account, delta: float) -> Pair:
    """The pair that an account of a table describes, at one δ."""
    if account.sensitivity_squared is None:
        raise InputError("a pair has one Δ²; this account has none (take an account of one run)")
    return Pair(
        observer=tuple(plain_label(label) for label in account.observers),
        target=plain_label(account.target),
        sensitivity_squared=account.sensitivity_squared,
        method=account.method,
        mu=account.mu,
        epsilon=account.epsilon(delta),
    )


def table_pairs(table: AccountTable) -> Iterator[Pair]:
    """Every pair of a table in its order, converted block by block."""
    names = [tuple(plain_label(label) for label in observer) for observer in table.observers]
    for start in range(0, len(table), _BLOCK):
        part = slice(start, start + _BLOCK)
        for who, target, method, low2, high2, low, high, least, most in zip(
            table.observer_of[part].tolist(),
            table.targets[part].tolist(),
            table.method[part].tolist(),
            table.squared_lower[part].tolist(),
            table.squared_upper[part].tolist(),
            table.mu_lower[part].tolist(),
            table.mu_upper[part].tolist(),
            table.epsilon_lower[part].tolist(),
            table.epsilon_upper[part].tolist(),
            strict=True,
        ):
            yield Pair(
                observer=names[who],
                target=plain_label(target),
                sensitivity_squared=Interval(low2, high2),
                method=method,
                mu=Interval(low, high),
                epsilon=Interval(least, most),
            )


def pair_to_json(pair: Pair) -> dict[str, Any]:
    """A pair as a JSON object; an infinite upper end is null, since JSON has no infinity."""
    return {
        "observer": list(pair.observer),
        "target": pair.target,
        "sensitivity_squared": {**ends_to_json(pair.sensitivity_squared), "method": pair.method},
        "mu": ends_to_json(pair.mu),
        "epsilon": ends_to_json(pair.epsilon),
    }


def pair_from_json(value: dict[str, Any]) -> Pair:
    """The pair in a JSON object."""
    return Pair(
        observer=tuple(value["observer"]),
        target=value["target"],
        sensitivity_squared=interval_from_json(value["sensitivity_squared"]),
        method=value["sensitivity_squared"]["method"],
        mu=interval_from_json(value["mu"]),
        epsilon=interval_from_json(value["epsilon"]),
    )


def join_labels(labels: Sequence[Label]) -> str:
    r"""Names in one field, separated by semicolons; a semicolon or backslash inside a name gets a backslash.

    >>> join_labels((3, "a;b"))
    '3;a\\;b'
    """
    return ";".join(re.sub(r"([;\\])", r"\\\1", write_label(label)) for label in labels)


def split_labels(field: str) -> tuple[Label, ...]:
    r"""The names in a field that `join_labels` wrote.

    >>> split_labels("3;a\\;b")
    (3, 'a;b')
    """
    if not field:
        return ()
    parts = re.findall(r"(?:\\.|[^;\\])+", field)
    return tuple(read_label(re.sub(r"\\(.)", r"\1", part)) for part in parts)


def write_label(label: Label) -> str:
    """A name as a CSV field: one that a spreadsheet would run as a formula gets an apostrophe in front.

    These are names that begin with =, +, -, @, a tab or a line break; and those that look as if they had the apostrophe
    already, so that `read_label` can take it away again. Whole numbers stay as they are.

    >>> write_label("=1+1"), write_label("'=1+1"), write_label(-3), write_label("d'Este")
    ("'=1+1", "''=1+1", '-3', "d'Este")
    """
    text = str(label)
    return f"'{text}" if isinstance(label, str) and _FORMULA.match(text) else text


def read_label(text: str) -> Label:
    """A name from a CSV field that `write_label` wrote; what spells a whole number in its usual form is one."""
    if text.startswith("'") and _FORMULA.match(text):
        return text[1:]
    return int(text) if re.fullmatch(r"0|-?[1-9][0-9]*", text) else text


def ends_to_json(interval: Interval) -> dict[str, float | None]:
    """Both ends of an interval as a JSON object, null in place of an infinite one."""
    lower, upper = interval.lower, interval.upper
    return {"lower": finite_or_null(lower), "upper": finite_or_null(upper)}


def finite_or_null(value: float | None) -> float | None:
    """A number for JSON, which has neither infinity nor NaN: null stands for them, and for what is not defined."""
    return None if value is None or not math.isfinite(value) else float(value)


def interval_from_json(value: dict[str, Any]) -> Interval:
    """The interval in a JSON object, where null stands for infinity."""
    ends = [math.inf if value[end] is None else value[end] for end in ("lower", "upper")]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        raise InputError(f"the ends of an interval must be numbers or null; got {value!r}")
    return Interval(float(ends[0]), float(ends[1]))
