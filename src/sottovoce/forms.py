# SPDX-License-Identifier: Apache-2.0
"""Forms: JSON as typed values, one struct for whoever writes, reads or describes a document.

What is read is a claim by whoever wrote it, so reading is strict: no field stands twice, is missing or unknown, every
number is finite and of a sane length, and every value is of its type. A sentence says where it is not.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

import msgspec
import numpy as np
from msgspec import inspect

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "MOST_DIGITS",
    "CountedLabels",
    "Form",
    "canonical",
    "json_text",
    "plain",
    "read_form",
    "strict_json",
]

Read = TypeVar("Read")
Carrier = Literal["file", "request"]

MOST_DIGITS = 400
_SHOWN = 60
_WORDS = {
    "object": "a JSON object",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "bytes": "bytes in base64",
}


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object of exactly these fields; one whose type lets it be unset may be left out."""


class CountedLabels(Form, frozen=True, kw_only=True):
    """Names of nodes that count up by one."""

    first: Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]
    count: Annotated[int, msgspec.Meta(ge=0, le=2**62)]


def plain(value: object) -> Any:  # noqa: ANN401
    """A form, or a dataclass of its shape, in the types of JSON: arrays as lists, a range as its first and its count.

    >>> plain({"labels": range(3, 5)})
    {'labels': {'first': 3, 'count': 2}}
    """
    return msgspec.to_builtins(value, enc_hook=_listed)


def _listed(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, range) and value.step == 1:
        return {"first": value.start, "count": len(value)}
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def json_text(
    value: object,
    *,
    indent: int | None = None,
    tight: bool = False,
    letters: bool = False,
    ordered: bool = False,
) -> str:
    """A value as strict JSON, forms and dataclasses in it too, of which `strict_json` reads the same again.

    `tight` leaves out all blanks, `letters` writes those beyond ASCII as they are, `ordered` puts fields in the order
    of their names. A number that is not finite is an error of whoever writes it.

    >>> json_text({"labels": range(3, 5)}, tight=True)
    '{"labels":{"first":3,"count":2}}'
    """
    try:
        return json.dumps(
            value,
            default=plain,
            allow_nan=False,
            indent=indent,
            separators=(",", ":") if tight else None,
            ensure_ascii=not letters,
            sort_keys=ordered,
        )
    except RecursionError:
        raise InputError(
            "JSON must not be nested so deeply that it cannot be written; this is (take the original file)"
        ) from None


def canonical(value: object, *, tight: bool = False) -> bytes:
    r"""The one spelling of a value that a hash of it is taken of; `tight` is that of certificates.

    >>> canonical({"b": 1, "a": "é"}), canonical({"b": 1, "a": "é"}, tight=True).decode()
    (b'{"a": "\\u00e9", "b": 1}', '{"a":"é","b":1}')
    """
    return json_text(value, tight=tight, letters=tight, ordered=True).encode()


def strict_json(text: str, what: str, carrier: Carrier = "file") -> object:
    """The value of a JSON text in which no field stands twice and every number is finite and of a sane length.

    What a file should hold instead is said with it; whoever reads a request adds that.

    >>> strict_json('{"a": 1, "a": 2}', "a certificate")
    Traceback (most recent call last):
    sottovoce.errors.InputError: a field stands twice in the same JSON object: 'a' (take the original file)
    """

    def refused(constant: str) -> NoReturn:
        raise InputError(f"{what} holds finite numbers only; this {carrier} holds {constant[:_SHOWN]}")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refused(digits)

    def whole(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise InputError(
                f"a number has at most {MOST_DIGITS} digits; one in this {carrier} has {len(digits)}"
            )
        return int(digits)

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) < len(pairs):
            seen: set[str] = set()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            said = f"a field stands twice in the same JSON object: {twice[:_SHOWN]!r}"
            raise InputError(said + _remedy("take the original file", carrier))
        return result

    try:
        return json.loads(
            text, parse_constant=refused, parse_float=finite, parse_int=whole, object_pairs_hook=distinct
        )
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is a JSON {carrier}; this is not JSON ({error})") from None


def read_form(value: object, kind: type[Read], what: str, carrier: Carrier = "file") -> Read:
    """The form in a value that `strict_json` read; `what` names the whole of it in a sentence about what is amiss.

    >>> class Claim(Form, frozen=True, kw_only=True):
    ...     lower: float
    >>> read_form({"lower": "0.5"}, Claim, "a claim")
    Traceback (most recent call last):
    sottovoce.errors.InputError: lower must be a number; got '0.5'
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(_sentence(str(error), value, kind, what, carrier)) from None


def _remedy(text: str, carrier: Carrier) -> str:
    return f" ({text})" if carrier == "file" else ""


def _sentence(said: str, value: object, kind: type, what: str, carrier: Carrier) -> str:
    """What msgspec says of a document, with the place, the rule, the value and the remedy."""
    said, _, place = said.partition(" - at `$")
    steps = re.findall(r"\.{3}|[^.\[\]`]+", place)
    named = place.strip(".`") or what
    if found := re.fullmatch(r"Object missing required field `(.*)`", said, re.DOTALL):
        return f"{named} lacks the field {found[1]}" + _remedy("is the file complete?", carrier)
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL):
        said = f"{named} has an unknown field {found[1][:_SHOWN]}"
        return said + _remedy("another program may have written it", carrier)
    got = _shown(value, steps)
    if "base64" in said:
        return f"{named} must be bytes in base64; got {got}"
    if said.startswith("Invalid "):
        allowed = ", ".join(_allowed(inspect.type_info(kind), steps))
        return f"{named} must be one of {allowed}; got {got}"
    if found := re.fullmatch(r"Expected `([^`]*)`(.*?)(, got .*)?", said):
        words = [word for word in found[1].split(" | ") if not (word == "int" and "float" in found[1])]
        *most, last = (_WORDS.get(word, word) for word in words)
        rule = f"{', '.join(most)} or {last}" if most else last
        bound = found[2].replace("of length", "of").replace("of >=", ">=").replace("of <=", "<=")
        bound = bound.replace(">=", "of at least").replace("<=", "of at most")
        bound = bound.replace(">", "above").replace("<", "below")
        return f"{named} must be {rule}{bound}; got {got}"
    if said.endswith("out of range"):
        return f"{named} must be a number within the range of floats; got {got}"
    # What a check of a form's own says.
    return f"{named}: {said}"


def _shown(value: Any, steps: list[str]) -> str:  # noqa: ANN401
    """What stands at a place, in few words."""
    for step in steps:
        if step == "...":
            return "something else in it"
        value = value[int(step)] if isinstance(value, list) else value[step]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "a JSON object" if isinstance(value, dict) else repr(value)[:_SHOWN]


def _allowed(info: Any, steps: list[str]) -> Iterator[str]:  # noqa: ANN401
    """The words that a type allows at a place."""
    match info:
        case inspect.UnionType():
            for part in info.types:
                yield from _allowed(part, steps)
        case inspect.LiteralType() if not steps:
            yield from map(str, info.values)
        case inspect.StructType() if steps:
            if steps == [info.tag_field]:
                yield str(info.tag)
            for field in info.fields:
                if field.encode_name == steps[0]:
                    yield from _allowed(field.type, steps[1:])
        case inspect.ListType() | inspect.VarTupleType() if steps:
            yield from _allowed(info.item_type, steps[1:])
        case inspect.DictType() if steps:
            yield from _allowed(info.value_type, steps[1:])
