# SPDX-License-Identifier: Apache-2.0
"""Check a certificate from its file alone, by code that shares nothing with what found it."""

from sottovoce.verification.checking import Check, Verification, verify

__all__ = ["Check", "Verification", "verify"]
