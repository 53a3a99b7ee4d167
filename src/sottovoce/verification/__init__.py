# SPDX-License-Identifier: Apache-2.0
"""Check a certificate on the graph it speaks of, by code that shares nothing with what found it."""

from sottovoce.verification.accounts import AccountVerification, StatedAccount, reached, verify_account
from sottovoce.verification.checking import Check, Verdict, Verification, verify

__all__ = [
    "AccountVerification",
    "Check",
    "StatedAccount",
    "Verdict",
    "Verification",
    "reached",
    "verify",
    "verify_account",
]
