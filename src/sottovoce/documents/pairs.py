# SPDX-License-Identifier: Apache-2.0
"""`Pair`: what one observer can learn about one target, as files hold it, and the names of nodes in files."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from sottovoce.errors import InputError
from sottovoce.forms import Form
from sottovoce.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from sottovoce.accounting import Account, AccountTable

__all__ = [
    "BoundedEnds",
    "Count",
    "EndsForm",
    "Label",
    "Pair",
    "account_pair",
    "finite_or_null",
    "join_labels",
    "plain_label",
    "read_label",
    "split_labels",
    "table_pairs",
    "write_label",
]

Label = int | str
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""How many, or which one; floats count so far without a gap."""

_BLOCK = 50_000
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


class EndsForm(Form, frozen=True, kw_only=True):
    """An interval; null stands for infinity, since JSON has none."""

    lower: float | None
    upper: float | None

    def __post_init__(self) -> None:
        """Refuse ends in the wrong order."""
        _ = self.interval

    @classmethod
    def of(cls, interval: Interval) -> EndsForm:
        """The ends of an interval."""
        return cls(lower=finite_or_null(interval.lower), upper=finite_or_null(interval.upper))

    @property
    def interval(self) -> Interval:
        """The interval itself."""
        return Interval(
            math.inf if self.lower is None else self.lower, math.inf if self.upper is None else self.upper
        )


class BoundedEnds(EndsForm, frozen=True, kw_only=True):
    """The interval of Δ², and the bound that proves its upper end."""

    method: str

    @classmethod
    def by(cls, method: str, interval: Interval) -> BoundedEnds:
        """The ends of an interval whose upper one `method` proves."""
        return cls(lower=finite_or_null(interval.lower), upper=finite_or_null(interval.upper), method=method)


class Pair(Form, frozen=True, kw_only=True):
    """What one observer (or coalition) can learn about one target."""

    observer: tuple[Label, ...]
    target: Label
    sensitivity_squared: BoundedEnds
    mu: EndsForm
    epsilon: EndsForm


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
        sensitivity_squared=BoundedEnds.by(account.method, account.sensitivity_squared),
        mu=EndsForm.of(account.mu),
        epsilon=EndsForm.of(account.epsilon(delta)),
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
                sensitivity_squared=BoundedEnds.by(method, Interval(low2, high2)),
                mu=EndsForm.of(Interval(low, high)),
                epsilon=EndsForm.of(Interval(least, most)),
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


def finite_or_null(value: float | None) -> float | None:
    """A number for JSON, which has neither infinity nor NaN: null stands for them, and for what is not defined."""
    return None if value is None or not math.isfinite(value) else float(value)
