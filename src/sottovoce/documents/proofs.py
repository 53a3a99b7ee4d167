# SPDX-License-Identifier: Apache-2.0
"""The JSON form of what was certified and of what a verification found."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.accounts import SCHEMA
from sottovoce.documents.files import check_path
from sottovoce.documents.pairs import ends_to_json, plain_label
from sottovoce.interval import Interval

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from sottovoce.certificates import Certificate
    from sottovoce.verification import Verification

__all__ = ["certificate_document", "check_certificate_path", "verification_document"]


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
        "checks": [
            {"name": check.name, "holds": check.holds, "detail": check.detail}
            for check in verification.checks
        ],
        "trusted": list(verification.trusted),
        "reason": verification.reason or None,
    }


def _claim(certificate: Certificate) -> dict[str, Any]:
    """What a certificate says, without what proves it."""
    ends = ends_to_json(Interval(certificate.squared_lower, certificate.squared_upper))
    mechanism = certificate.mechanism
    return {
        "hash": certificate.hash,
        "kind": certificate.proof.kind,
        "graph": {"hash": certificate.weights_hash, "rule": certificate.rule},
        "rounds": certificate.rounds,
        "view": certificate.view.name,
        "own_noise": certificate.view.own_noise,
        "observer": [plain_label(label) for label in certificate.view.observers],
        "target": plain_label(certificate.target),
        "contribution": certificate.contribution,
        "participation": certificate.participation,
        "assumption": certificate.assumption,
        "sensitivity_squared": {**ends, "method": certificate.proof.method},
        "mechanism": None if mechanism is None else asdict(mechanism),
    }
