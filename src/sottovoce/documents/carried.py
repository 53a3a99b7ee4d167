# SPDX-License-Identifier: Apache-2.0
"""What a report carries for whoever checks it: its data and its certificates, read back from the HTML file.

Both stand in elements that Sottovoce writes in one way, to the letter, and that hold no `<`. So they are found by their
first tag, which must stand in the file once; no markup is interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.certificates.files import MOST_BYTES, from_text
from sottovoce.errors import FileError, InputError
from sottovoce.forms import strict_json
from sottovoce.verification import StatedAccount

if TYPE_CHECKING:
    import os

    from sottovoce.certificates import Certificate

__all__ = ["CERTIFICATES", "DATA", "Carried", "is_report", "json_element", "read_report"]

DATA, CERTIFICATES = "data", "certificates"
_END = "</script>"


@dataclass(frozen=True, kw_only=True, eq=False)
class Carried:
    """One view of a report: what it says, the certificate of its worst pair, if there is one, and those of others."""

    stated: StatedAccount
    certificate: Certificate | None
    further: tuple[Certificate, ...] = ()


def json_element(name: str, text: str) -> str:
    """JSON text as an element of a page: data to a browser, not a script, and without a bracket that could end it."""
    return f"{_opening(name)}{text.replace('<', chr(92) + 'u003c')}{_END}\n"


def is_report(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as HTML does; one that cannot be read is none."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(1000).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    except OSError:
        return False


def read_report(path: str | os.PathLike[str]) -> tuple[Carried, ...]:
    """The views of a report, the one that leads first; a file that is no report of an account is refused."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise FileError(f"{file}: a report is checked up to {MOST_BYTES} bytes; this file has more")
        text = content.decode()
        data = strict_json(_element(text, DATA), "what a report holds")
        held = strict_json(_element(text, CERTIFICATES), "what a report carries")
        return _views(data, held)
    except OSError as error:
        raise FileError(f"{file}: the report cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise FileError(f"{file}: a report is UTF-8 text; this file is not") from None
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def _opening(name: str) -> str:
    return f'<script type="application/json" id="{name}">'


def _element(text: str, name: str) -> str:
    """The text of the one element of this name."""
    opening = _opening(name)
    count = text.count(opening)
    if count != 1:
        found = "has none" if not count else f"has {count}"
        raise InputError(
            f"a report of an account has one element {opening}; this file {found} (write the report again with "
            "sottovoce account --report)"
        )
    start = text.index(opening) + len(opening)
    end = text.find("<", start)
    if end < 0 or not text.startswith(_END, end):
        raise InputError(f"the element {opening} must hold JSON alone, up to {_END}")
    return text[start:end]


def _views(data: object, held: object) -> tuple[Carried, ...]:
    """Each view of a page's data with its certificate."""
    whole = _object(data, "its data")
    graph = _object(whole.get("graph"), "its graph")
    parts = [whole, *_list(whole.get("beside"), "beside")]
    texts = _list(held, "its certificates")
    if len(texts) != len(parts):
        raise InputError(
            f"a report carries one certificate (or null) a view; got {len(texts)} for {len(parts)}"
        )
    views = []
    for part, held_here in zip(parts, texts, strict=True):
        several = held_here if isinstance(held_here, list) and held_here else [held_here]
        read = [None if text is None else from_text(_text(text, "a certificate")) for text in several]
        further = tuple(each for each in read[1:] if each is not None)
        stated = _stated(_object(part, "a view"), graph)
        views.append(Carried(stated=stated, certificate=read[0], further=further))
    return tuple(views)


def _stated(part: dict[str, Any], graph: dict[str, Any]) -> StatedAccount:
    """What a page says of one view."""
    pairs = _object(part.get("pairs"), "pairs")
    damping = part.get("damping")
    words = ("view", "own_noise", "contribution", "participation", "assumption", "relation")
    counts = ("rounds", "pairs_computed", "pairs_possible", "observers_left_out")
    numbers = ("factor", "noise_multiplier", "delta")
    said: dict[str, Any] = {
        **{name: _text(part.get(name), name) for name in words},
        **{name: _count(part.get(name), name) for name in counts},
        **{name: _end(part.get(name), name) for name in numbers},
    }
    observers = [_nodes(each, "an observer") for each in _list(part.get("observers"), "observers")]
    return StatedAccount(
        weights_hash=_text(graph.get("hash"), "hash"),
        labels=_list(graph.get("labels"), "labels"),
        protocol_hash=_text(part.get("protocol_hash"), "protocol_hash") if "protocol" in part else None,
        damping_hash=None if damping is None else _text(_object(damping, "damping").get("hash"), "hash"),
        epsilon_upper=_end(part.get("epsilon_upper"), "epsilon_upper"),
        observers=[tuple(each.tolist()) for each in observers],
        observer_of=_nodes(pairs.get("observer"), "observer"),
        targets=_nodes(pairs.get("target"), "target"),
        squared_upper=np.array([_end(end, "upper") for end in _list(pairs.get("upper"), "upper")]),
        **said,
    )


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f"{what} must be a JSON object; got {type(value).__name__} (is it a report of an account?)"
        )
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{what} must be a list; got {type(value).__name__} (is it a report of an account?)")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} must be text; got {type(value).__name__}")
    return value


def _count(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise InputError(f"{what} must be a whole number of at least 0; got {str(value)[:60]}")
    return value


def _end(value: object, what: str) -> float:
    """A number, where null stands for infinity."""
    if value is None:
        return np.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{what} must be a number; got {str(value)[:60]}")
    return float(value)


def _nodes(value: object, what: str) -> np.ndarray:
    """Positions, each a whole number."""
    return np.array([_count(each, what) for each in _list(value, what)], dtype=np.int64)
