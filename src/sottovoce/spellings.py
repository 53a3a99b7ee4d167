# SPDX-License-Identifier: Apache-2.0
"""How values are spelled on a command line and in files: NAME, NAME:VALUE or NAME:KEY=VALUE,KEY=VALUE."""

from __future__ import annotations

from typing import NamedTuple

from sottovoce.errors import InputError

__all__ = ["Spelling", "listed", "name_and_rest", "spelled", "unfinished"]


class Spelling(NamedTuple):
    """A name, the values that stand after it alone, and those that have a key, all as they are written."""

    name: str
    plain: tuple[str, ...]
    keyed: dict[str, str]


def listed(text: str) -> tuple[str, ...]:
    """The items of a list with commas, without the blanks around them; one that is empty stands in it too.

    >>> listed("0.5, 1,"), listed("everyone")
    (('0.5', '1', ''), ('everyone',))
    """
    return tuple(item.strip() for item in text.split(","))


def name_and_rest(text: str) -> tuple[str, str]:
    """The name of a spelling, and all that stands after it as one piece, without the blanks around them.

    >>> name_and_rest("laplacian:1/3")
    ('laplacian', '1/3')
    """
    name, _, rest = text.partition(":")
    return name.strip(), rest.strip()


def spelled(text: str, error: type[InputError] = InputError) -> Spelling:
    """The parts of a spelling, without the blanks around them; a key that stands twice is an `error`.

    >>> spelled("erdos-renyi:n=100, p=0.1")
    Spelling(name='erdos-renyi', plain=(), keyed={'n': '100', 'p': '0.1'})
    >>> spelled("separated:3,at-most=5")
    Spelling(name='separated', plain=('3',), keyed={'at-most': '5'})
    """
    name, rest = name_and_rest(text)
    plain: list[str] = []
    keyed: dict[str, str] = {}
    for item in filter(None, listed(rest)):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            plain.append(item)
        elif key in keyed:
            raise error(f"{name}: the parameter {key} is given twice; got {text!r} (write it once)")
        else:
            keyed[key] = value
    return Spelling(name, tuple(plain), keyed)


def unfinished(text: str) -> tuple[Spelling, str]:
    """A spelling that is still being typed: what stands in it for good, and the item at its end that may go on.

    >>> unfinished("every:4,off")
    (Spelling(name='every', plain=('4',), keyed={}), 'off')
    >>> unfinished("ring:")
    (Spelling(name='ring', plain=(), keyed={}), '')
    """
    name, colon, rest = text.partition(":")
    done, _, last = rest.rpartition(",")
    return spelled(f"{name}{colon}{done}"), last
