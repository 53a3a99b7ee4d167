# SPDX-License-Identifier: Apache-2.0
"""The error tree, and the validators that fill its messages.

    SottovoceError
    ├── InputError        a value breaks a rule (also a ValueError; exit code 2)
    │   ├── GraphError    a graph or its gossip weights
    │   ├── ViewError     what an observer is said to see
    │   └── FileError     a file that cannot be read or written
    └── NotCertified      the claim asked for could not be proved (exit code 3)

Every message names the value and the rule it breaks, and the remedy where the rule does not say it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FileError",
    "GraphError",
    "InputError",
    "NotCertified",
    "SottovoceError",
    "ViewError",
    "at_least",
    "at_most",
    "needs",
    "one_of",
    "positive",
    "probability",
    "several",
]


class SottovoceError(Exception):
    """Everything that Sottovoce raises on purpose."""


class InputError(SottovoceError, ValueError):
    """A value breaks a rule; the message names value, rule and remedy."""


class GraphError(InputError):
    """A graph or a gossip matrix on which the mathematics does not stand."""


class ViewError(InputError):
    """A view that does not fit its protocol."""


class FileError(InputError):
    """A file that cannot be read or written."""


class NotCertified(SottovoceError):  # noqa: N818 - a verdict, not a mistake
    """A claim that could not be proved; nothing is guessed in its place."""


def positive(**values: float) -> None:
    """Refuse any of the named values that is not a finite number above 0."""
    for name, value in values.items():
        if not (_is_number(value) and math.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a finite number above 0; got {value!r}")


def at_least(minimum: int, **values: int) -> None:
    """Refuse any of the named values that is not a whole number of at least `minimum`."""
    for name, value in values.items():
        if not (_is_number(value) and float(value).is_integer() and value >= minimum):
            raise InputError(f"{name} must be a whole number of at least {minimum}; got {value!r}")


def at_most(maximum: int, **values: float) -> None:
    """Refuse any of the named values that exceeds `maximum`."""
    for name, value in values.items():
        if value > maximum:
            raise InputError(f"{name} must be at most {maximum}; got {value!r}")


def probability(**values: float) -> None:
    """Refuse any of the named values that does not lie strictly between 0 and 1."""
    for name, value in values.items():
        if not (_is_number(value) and 0 < value < 1):
            raise InputError(f"{name} must lie strictly between 0 and 1; got {value!r}")


def one_of(choices: Iterable[str], **values: object) -> None:
    """Refuse any of the named values that is not among `choices`."""
    allowed = tuple(choices)
    for name, value in values.items():
        if value not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def several(**values: object) -> None:
    """Refuse any of the named values that is not a collection of names; a text is one name, not many."""
    for name, value in values.items():
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise InputError(f"{name} must be a list of node names; got {value!r} (write [{value!r}])")


def needs(what: str, package: str, extra: str) -> InputError:
    """The error that something needs a package which an extra brings, with what installs it from a clone.

    >>> str(needs("a sweep", "pyarrow", "parquet"))
    "a sweep needs the package pyarrow, which is not installed (in a clone of Sottovoce: pip install '.[parquet]')"
    """
    return InputError(
        f"{what} needs the package {package}, which is not installed (in a clone of Sottovoce: "
        f"pip install '.[{extra}]')"
    )


def _is_number(value: object) -> bool:
    """Whether `value` is a number within the range of floats; text and truth values are not."""
    if isinstance(value, bool | str | bytes):
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True
