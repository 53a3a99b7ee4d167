# SPDX-License-Identifier: Apache-2.0
"""What a report carries for whoever checks it: its data and its certificates, read back from the HTML file.

Both stand in elements that Sottovoce writes in one way, to the letter, and that hold no `<`. So they are found by their
first tag, which must stand in the file once; no markup is interpreted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import UNSET, Meta

from sottovoce.certificates import MOST_BYTES, from_text
from sottovoce.documents.accounts import AccountDocument
from sottovoce.documents.audits import AuditDocument
from sottovoce.documents.claimed import check_certified, check_run
from sottovoce.documents.coalitions import CoalitionDocument
from sottovoce.documents.occasions import Occasion
from sottovoce.documents.pages import PageDocument
from sottovoce.documents.proofs import CertificateDocument, ReportVerificationDocument, VerificationDocument
from sottovoce.documents.rates import RateDocument
from sottovoce.documents.runs import RunDocument
from sottovoce.errors import FileError, InputError
from sottovoce.files import read_bounded
from sottovoce.forms import Form, read_form, strict_json
from sottovoce.participation import Participation
from sottovoce.protocols import Slopes
from sottovoce.verification import StatedAccount
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    import os

    from sottovoce.certificates import Certificate
    from sottovoce.documents.pages import NetworkDocument, PagePart

__all__ = [
    "CERTIFICATES",
    "DATA",
    "RESULT",
    "Carried",
    "ReadReport",
    "Result",
    "is_report",
    "json_element",
    "read_report",
    "read_result",
]

DATA, CERTIFICATES, RESULT = "data", "certificates", "result"
# Curves and pairs may be bounded with different effort.
CURVED = 0.5
TITLE = "its title, the origin of its graph, date, command, hashes of files, and names of data"
BESIDE = "Δ² of fewer rounds in curves and of a server that all trust, and the names of bounds"
_END = "</script>"
# What the sentence of a protocol says where nodes train.
_TRAINED = "each node also contributes the step of its model"

Texts = list[str | Annotated[list[str], Meta(min_length=1)] | None]
"""What a report carries for each view: a certificate, several of training with the worst pair's first, or nothing."""


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


class Result(Form, frozen=True, kw_only=True):
    """What a command answered, as its JSON says it, and on which occasion."""

    occasion: Occasion
    document: (
        RunDocument
        | CoalitionDocument
        | AuditDocument
        | CertificateDocument
        | VerificationDocument
        | ReportVerificationDocument
        | RateDocument
        | AccountDocument
    )


def read_result(text: str) -> Result:
    """A result from JSON text."""
    return read_form(strict_json(text, "what a report answers"), Result, "what a report answers")


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadReport:
    """A report: its views, the one that leads first, the data they were read from, and all of its text.

    `page` is what its map of pairs shows and `result` what its command answered; a comparison, a frontier and a
    reproduction have neither, and nothing to check. `alone` are certificates that stand for no view of a page.
    `trusted` says what beside the pairs nothing in it can prove, and `proved` whether every bound of its answer follows
    from pairs or certificates once these are verified.
    """

    views: tuple[Carried, ...]
    page: PageDocument | None
    result: Result | None
    alone: tuple[Certificate, ...]
    trusted: tuple[str, ...]
    proved: bool
    text: str


def read_report(path: str | os.PathLike[str]) -> ReadReport:
    """What a report carries; a file that is no report of an account is refused."""
    file = Path(path)
    text = read_bounded(file, "report", MOST_BYTES)
    try:
        answered = _opening(RESULT) in text
        data = strict_json(_element(text, DATA), "what a report holds")
        page = None if data is None else read_form(data, PageDocument, "what a report holds")
        held: object = []
        if page is not None or _opening(CERTIFICATES) in text:
            held = strict_json(_element(text, CERTIFICATES), "what a report carries")
        alone = read_form(held, list[str], "what a report carries") if page is None else []
        certificates = tuple(map(from_text, alone))
        result = read_result(_element(text, RESULT)) if answered else None
        views = () if page is None else _views(page, held)
        trusted, proved = _answered(result, page, views, certificates)
        return ReadReport(
            views=views,
            page=page,
            result=result,
            alone=certificates,
            trusted=(*trusted, TITLE) if page is None else (*trusted, TITLE, BESIDE),
            proved=proved,
            text=text,
        )
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def _answered(
    result: Result | None,
    page: PageDocument | None,
    views: tuple[Carried, ...],
    alone: tuple[Certificate, ...],
) -> tuple[tuple[str, ...], bool]:
    """What of an answer is on trust, and whether all of its bounds follow from what the report carries."""
    if result is None and page is not None:
        return (), True
    document = None if result is None else result.document
    if isinstance(document, RunDocument) and page is not None:
        lead = views[0]
        held = () if lead.certificate is None else (lead.certificate, *lead.further)
        trusted, proved = check_run(document, page, held)
        return tuple(trusted), proved
    if type(document) is CertificateDocument and len(alone) == 1 and page is None:
        check_certified(document, alone[0])
        return (), True
    if page is not None or alone:
        raise InputError("pairs and certificates must be those of its answer; this one has none")
    return ("every number: it carries no certificate (ask again what it asks, and compare)",), False


def _opening(name: str) -> str:
    return f'<script type="application/json" id="{name}">'


def _element(text: str, name: str) -> str:
    """The text of the one element of this name."""
    opening = _opening(name)
    count = text.count(opening)
    if count != 1:
        found = "has none" if not count else f"has {count}"
        raise InputError(
            f"a report has one element {opening}; this file {found} (write the report again with --report)"
        )
    start = text.index(opening) + len(opening)
    end = text.find("<", start)
    if end < 0 or not text.startswith(_END, end):
        raise InputError(f"the element {opening} must hold JSON alone, up to {_END}")
    return text[start:end]


def _views(page: PageDocument, held: object) -> tuple[Carried, ...]:
    """Each view of a page's data with its certificate."""
    texts = read_form(held, Texts, "what a report carries")
    parts = (page, *page.beside)
    _check_shown(page)
    if len(texts) != len(parts):
        raise InputError(
            f"a report carries one certificate (or null) a view; got {len(texts)} for {len(parts)}"
        )
    views = []
    for part, held_here in zip(parts, texts, strict=True):
        several = held_here if isinstance(held_here, list) else [held_here] if held_here is not None else []
        read = [from_text(text) for text in several]
        _check_words(part, read[0] if read else None)
        views.append(
            Carried(
                stated=_stated(part, page.graph),
                certificate=read[0] if read else None,
                further=tuple(read[1:]),
            )
        )
    return tuple(views)


def _check_shown(page: PageDocument) -> None:
    """Refuse counts of nodes and edges, lower ends and curves that contradict the rest of a page."""
    graph = page.graph
    counts, told = (len(graph.labels), len(graph.links)), (graph.nodes, graph.edges)
    if told != counts:
        raise InputError(f"its graph must have as many nodes and edges as it draws, {counts}; got {told}")
    for part in (page, *page.beside):
        if len(part.pairs.lower) != len(part.pairs.upper):
            raise InputError(
                "the columns of its pairs must have the same length; lower and upper ends do not"
            )
        both = zip(part.pairs.lower, part.pairs.upper, strict=True)
        if any(upper is not None and (lower is None or lower > upper) for lower, upper in both):
            raise InputError("a lower end of Δ² must not be above the upper end; got one that is")
        if part.infinite is not UNSET and part.epsilon_upper is not None:
            raise InputError(
                f"words on what is infinite must not stand beside a finite ε; got {part.infinite!r}"
            )
    for curve in page.curves:
        places = {k for k, names in enumerate(page.observers) if names == list(curve.observers)}
        pairs = zip(page.pairs.observer, page.pairs.upper, strict=False)
        shown = max(
            (math.inf if upper is None else upper for who, upper in pairs if who in places), default=0.0
        )
        ends = zip(curve.rounds, curve.worst, strict=False)
        for last in (worst.interval.upper for rounds, worst in ends if rounds == page.rounds):
            if last < CURVED * shown:
                raise InputError(f"a curve must end near Δ² of its observer, {shown!r}; got {last!r}")


def _check_words(part: PagePart, certificate: Certificate | None) -> None:
    """Refuse words about protocol and assumption that are not those of the certificate."""
    if part.assumption_text != ASSUMPTIONS.get(part.assumption):  # type: ignore[call-overload]
        raise InputError(f"its words on the assumption {part.assumption!r} must be those of this version")
    if (part.updates is not UNSET) != (_TRAINED in part.program):
        raise InputError(
            f"slopes stand beside a program that trains, and beside no other; got the program {part.program!r}"
        )
    if certificate is None or certificate.protocol_hash != part.protocol_hash:
        # There is nothing to hold it against, or `verify` refuses the page for its hash.
        return
    if _spelled(part.program) != _spelled(certificate.sentence):
        raise InputError(
            f"its program must be that of its certificate, {certificate.sentence!r}; got {part.program!r}"
        )
    slopes = certificate.updates
    ends = (
        (float(slopes.lower.min()), float(slopes.upper.max())) if isinstance(slopes, Slopes) else (None, None)
    )
    said = None if part.updates is UNSET else (part.updates.lower, part.updates.upper)
    if said != (None if slopes is None else ends):
        raise InputError(f"its slopes must be those of its certificate; got {said}")


def _spelled(sentence: str) -> list[str | float]:
    """A sentence with its numbers as numbers, as 1/2 and 0.5 are the same."""
    parts = re.split(r"(\d+(?:/\d+|(?:\.\d+)?(?:e[+-]?\d+)?))", sentence)
    return [_value(each) if each[:1].isdigit() else each for each in parts]


def _value(number: str) -> str | float:
    """A number or a fraction as a float, whatever a file holds; text where it is none."""
    above, _, below = number.partition("/")
    return float(above) / float(below or 1) if float(below or 1) else number


def _check_local(part: PagePart) -> None:
    """Refuse a page that shows less for local DP than plain gossip gives to whoever sees every message."""
    shown = part.local_squared
    if shown is None or not part.gossips:
        return
    count = Participation.parse(part.participation).largest_count(part.rounds)
    least = 1 if part.contribution == "energy" else count
    if shown.interval.upper < least:
        raise InputError(
            f"its Δ² of local DP must be at least {least}, as each round in which a target contributes adds 1; got "
            f"{shown.interval.upper!r} (write the report again with sottovoce account --report)"
        )


def _stated(part: PagePart, graph: NetworkDocument) -> StatedAccount:
    """What a page says of one view; null stands for infinity."""
    _check_local(part)
    alike = ("view", "own_noise", "contribution", "participation", "assumption", "relation")
    counts = ("rounds", "pairs_computed", "pairs_possible", "observers_left_out")
    numbers = ("factor", "noise_multiplier", "delta")
    pairs = part.pairs
    return StatedAccount(
        **{name: getattr(part, name) for name in (*alike, *counts, *numbers)},
        weights_hash=graph.hash,
        labels=graph.labels,
        exchanges=None if part.exchanges is UNSET else part.exchanges,
        protocol_hash=part.protocol_hash,
        damping_hash=None if part.damping is UNSET else part.damping.hash,
        epsilon_upper=np.inf if part.epsilon_upper is None else part.epsilon_upper,
        observers=[tuple(each) for each in part.observers],
        observer_of=np.array(pairs.observer, dtype=np.int64),
        targets=np.array(pairs.target, dtype=np.int64),
        squared_upper=np.array([np.inf if end is None else end for end in pairs.upper]),
    )
