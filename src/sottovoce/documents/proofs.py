# SPDX-License-Identifier: Apache-2.0
"""The JSON form of what was certified and of what a verification found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sottovoce.certificates import MechanismForm
from sottovoce.documents.accounts import HEAD, Document
from sottovoce.documents.files import check_path
from sottovoce.documents.pairs import BoundedEnds, EndsForm, Label, finite_or_null, plain_label
from sottovoce.forms import Form
from sottovoce.interval import Interval

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from sottovoce.certificates import Certificate
    from sottovoce.verification import AccountVerification, Verdict, Verification

__all__ = [
    "CertificateDocument",
    "Claim",
    "ReportVerificationDocument",
    "VerificationDocument",
    "ViewVerification",
    "certificate_document",
    "check_certificate_path",
    "report_verification_document",
    "verification_document",
]


class ClaimedGraph(Form, frozen=True, kw_only=True):
    """The weights that a certificate speaks of: `rule` is its word, `origin` that of whoever built them, if at hand."""

    hash: str
    rule: str
    origin: str | None


class Claim(Document, frozen=True, kw_only=True, tag="claim"):
    """What a certificate says, without what proves it; `proof` is the kind of that."""

    hash: str
    proof: str
    graph: ClaimedGraph
    program: str
    protocol_hash: str
    rounds: int
    view: str
    exchanges: tuple[int, ...] | None
    own_noise: str
    observer: tuple[Label, ...]
    target: Label
    contribution: str
    updates: str | None
    participation: str
    assumption: str
    sensitivity_squared: BoundedEnds
    mechanism: MechanismForm | None


class CertificateDocument(Claim, frozen=True, kw_only=True, tag="certificate"):
    """What was certified, and the file that holds the proof; null if it could not be written."""

    certificate: str | None


class CheckForm(Form, frozen=True, kw_only=True):
    """One check: what was looked at, whether it holds, and what was found."""

    name: str
    holds: bool
    detail: str


class VerificationDocument(CertificateDocument, frozen=True, kw_only=True, tag="verification"):
    """A claim, what became of each check, what is on trust, and what could be proved again."""

    verdict: str
    verified: bool
    upper_holds: bool
    lower_holds: bool
    proved: EndsForm
    epsilon: float | None
    arithmetic: str
    why_float: str | None
    checks: tuple[CheckForm, ...]
    trusted: tuple[str, ...]
    reason: str | None


class Shown(Form, frozen=True, kw_only=True):
    """The headline of a page."""

    epsilon: float | None
    sensitivity_squared: float | None


class CheckedPairs(Form, frozen=True, kw_only=True):
    """How many pairs a page holds, its view has, and are proved no worse than the headline."""

    held: int
    possible: int
    proved_no_worse: int


class ViewVerification(Form, frozen=True, kw_only=True):
    """What became of one view of a report."""

    view: str
    verdict: str
    verified: bool
    noise_multiplier: float | None
    delta: float | None
    relation: str
    shown: Shown
    proved: EndsForm | None
    epsilon: float | None
    pairs: CheckedPairs
    certificate: Claim | None
    checks: tuple[CheckForm, ...]
    trusted: tuple[str, ...]
    reason: str | None


class ReportVerificationDocument(Document, frozen=True, kw_only=True, tag="report-verification"):
    """What became of a report, view by view; `trusted` says what beside its pairs nothing in it can prove."""

    report: str
    verdict: str
    verified: bool
    views: tuple[ViewVerification, ...]
    trusted: tuple[str, ...]


def check_certificate_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a certificate can be put there."""
    return check_path(path, (".json",), "a certificate")


def certificate_document(
    certificate: Certificate, path: str | os.PathLike[str] | None, *, origin: str | None = None
) -> CertificateDocument:
    """What a certificate claims and which file holds its proof (None: none does)."""
    where = None if path is None else str(path)
    return CertificateDocument(**HEAD, certificate=where, **_claim(certificate, origin))


def verification_document(
    certificate: Certificate, verification: Verification, path: str | os.PathLike[str]
) -> VerificationDocument:
    """The claim, every check, and what could be proved again."""
    return VerificationDocument(
        **HEAD,
        certificate=str(path),
        **_claim(certificate),
        verdict=verification.verdict,
        verified=verification.verified,
        upper_holds=verification.upper_holds,
        lower_holds=verification.lower_holds,
        proved=EndsForm.of(verification.squared),
        epsilon=verification.epsilon,
        arithmetic=verification.arithmetic,
        why_float=verification.why_float or None,
        checks=_checks(verification),
        trusted=tuple(verification.trusted),
        reason=verification.reason or None,
    )


def report_verification_document(
    views: Sequence[tuple[Certificate | None, AccountVerification]],
    path: str | os.PathLike[str],
    *,
    trusted: Sequence[str] = (),
    proved: bool = True,
) -> ReportVerificationDocument:
    """Each view's headline, checks, pairs and certificate; not verified unless all else is `proved` too."""
    verdicts = [found.verdict for _, found in views]
    order: tuple[Verdict, ...] = ("refused", "consistent", "verified")
    return ReportVerificationDocument(
        **HEAD,
        report=str(path),
        verdict=next((verdict for verdict in order if verdict in verdicts), "refused"),
        verified=proved and bool(views) and all(found.verified for _, found in views),
        trusted=tuple(trusted),
        views=tuple(_view_verification(certificate, found) for certificate, found in views),
    )


def _view_verification(certificate: Certificate | None, found: AccountVerification) -> ViewVerification:
    """What became of one view of a report."""
    stated, worst = found.stated, found.worst
    return ViewVerification(
        view=stated.view,
        verdict=found.verdict,
        verified=found.verified,
        noise_multiplier=finite_or_null(stated.noise_multiplier),
        delta=finite_or_null(stated.delta),
        relation=stated.relation,
        shown=Shown(
            epsilon=finite_or_null(stated.epsilon_upper), sensitivity_squared=finite_or_null(stated.squared)
        ),
        proved=None if worst is None else EndsForm.of(worst.squared),
        epsilon=None if worst is None else worst.epsilon,
        pairs=CheckedPairs(
            held=found.held_pairs, possible=stated.pairs_possible, proved_no_worse=found.proved_pairs
        ),
        certificate=None if certificate is None else Claim(**HEAD, **_claim(certificate)),
        checks=_checks(found),
        trusted=tuple(found.trusted),
        reason=found.reason or None,
    )


def _checks(found: Verification | AccountVerification) -> tuple[CheckForm, ...]:
    return tuple(CheckForm(name=each.name, holds=each.holds, detail=each.detail) for each in found.checks)


def _claim(certificate: Certificate, origin: str | None = None) -> dict[str, Any]:
    """What a certificate says, without what proves it."""
    squared = Interval(certificate.squared_lower, certificate.squared_upper)
    mechanism = certificate.mechanism
    return {
        "hash": certificate.hash,
        "proof": certificate.proof.kind,
        "graph": ClaimedGraph(hash=certificate.weights_hash, rule=certificate.rule, origin=origin),
        "program": certificate.sentence,
        "protocol_hash": certificate.protocol_hash,
        "rounds": certificate.rounds,
        "view": certificate.view.name,
        "exchanges": certificate.view.exchanges,
        "own_noise": certificate.view.own_noise,
        "observer": tuple(map(plain_label, certificate.view.observers)),
        "target": plain_label(certificate.target),
        "contribution": certificate.contribution,
        "updates": None if certificate.updates is None else str(certificate.updates),
        "participation": certificate.participation,
        "assumption": certificate.assumption,
        "sensitivity_squared": BoundedEnds.by(certificate.proof.method, squared),
        "mechanism": None if mechanism is None else MechanismForm(**asdict(mechanism)),
    }
