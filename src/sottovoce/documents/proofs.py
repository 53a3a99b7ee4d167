# SPDX-License-Identifier: Apache-2.0
"""The JSON form of what was certified and of what a verification found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.accounts import SCHEMA
from sottovoce.documents.files import check_path
from sottovoce.documents.pairs import ends_to_json, finite_or_null, plain_label
from sottovoce.interval import Interval

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from sottovoce.certificates import Certificate
    from sottovoce.verification import AccountVerification, Verdict, Verification

__all__ = [
    "certificate_document",
    "check_certificate_path",
    "report_verification_document",
    "verification_document",
]


def check_certificate_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a certificate can be put there."""
    return check_path(path, (".json",), "a certificate")


def certificate_document(certificate: Certificate, path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """The JSON object that says what a certificate claims and which file holds its proof (None: none does)."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "certificate": None if path is None else str(path),
        **_claim(certificate),
    }


def verification_document(
    certificate: Certificate, verification: Verification, path: str | os.PathLike[str]
) -> dict[str, Any]:
    """The JSON object of a verification: the claim, every check, and what could be proved again."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "certificate": str(path),
        **_claim(certificate),
        "verdict": verification.verdict,
        "verified": verification.verified,
        "upper_holds": verification.upper_holds,
        "lower_holds": verification.lower_holds,
        "proved": ends_to_json(verification.squared),
        "epsilon": verification.epsilon,
        "arithmetic": verification.arithmetic,
        "why_float": verification.why_float or None,
        "checks": [
            {"name": check.name, "holds": check.holds, "detail": check.detail}
            for check in verification.checks
        ],
        "trusted": list(verification.trusted),
        "reason": verification.reason or None,
    }


def report_verification_document(
    views: Sequence[tuple[Certificate | None, AccountVerification]], path: str | os.PathLike[str]
) -> dict[str, Any]:
    """The JSON object of a report's verification: each view's headline, checks, pairs and certificate."""
    verdicts = [found.verdict for _, found in views]
    order: tuple[Verdict, ...] = ("refused", "consistent", "verified")
    return {
        "schema": SCHEMA,
        "version": __version__,
        "report": str(path),
        "verdict": next(verdict for verdict in order if verdict in verdicts),
        "verified": all(found.verified for _, found in views),
        "views": [_view_verification(certificate, found) for certificate, found in views],
    }


def _view_verification(certificate: Certificate | None, found: AccountVerification) -> dict[str, Any]:
    """What became of one view of a report."""
    stated, worst = found.stated, found.worst
    return {
        "view": stated.view,
        "verdict": found.verdict,
        "verified": found.verified,
        "noise_multiplier": finite_or_null(stated.noise_multiplier),
        "delta": finite_or_null(stated.delta),
        "relation": stated.relation,
        "shown": {
            "epsilon": finite_or_null(stated.epsilon_upper),
            "sensitivity_squared": finite_or_null(stated.squared),
        },
        "proved": None if worst is None else ends_to_json(worst.squared),
        "epsilon": None if worst is None else worst.epsilon,
        "pairs": {
            "held": found.held_pairs,
            "possible": stated.pairs_possible,
            "proved_no_worse": found.proved_pairs,
        },
        "certificate": None if certificate is None else _claim(certificate),
        "checks": [
            {"name": check.name, "holds": check.holds, "detail": check.detail} for check in found.checks
        ],
        "trusted": list(found.trusted),
        "reason": found.reason or None,
    }


def _claim(certificate: Certificate) -> dict[str, Any]:
    """What a certificate says, without what proves it."""
    ends = ends_to_json(Interval(certificate.squared_lower, certificate.squared_upper))
    mechanism = certificate.mechanism
    return {
        "hash": certificate.hash,
        "kind": certificate.proof.kind,
        "graph": {"hash": certificate.weights_hash, "rule": certificate.rule},
        "program": certificate.sentence,
        "protocol_hash": certificate.protocol_hash,
        "rounds": certificate.rounds,
        "view": certificate.view.name,
        "own_noise": certificate.view.own_noise,
        "observer": [plain_label(label) for label in certificate.view.observers],
        "target": plain_label(certificate.target),
        "contribution": certificate.contribution,
        "updates": None if certificate.updates is None else str(certificate.updates),
        "participation": certificate.participation,
        "assumption": certificate.assumption,
        "sensitivity_squared": {**ends, "method": certificate.proof.method},
        "mechanism": None if mechanism is None else asdict(mechanism),
    }
