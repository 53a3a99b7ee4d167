# SPDX-License-Identifier: Apache-2.0
"""Check a certificate on the graph it speaks of, by code that shares nothing with what found it."""

from sottovoce.verification.accounts import (
    MOST_FURTHER,
    AccountVerification,
    StatedAccount,
    reached,
    verify_account,
)
from sottovoce.verification.asked import TrainingQuestion, squares_below, training_question
from sottovoce.verification.checking import Check, Verdict, Verification, verify
from sottovoce.verification.loops import ExactRow, HiddenLoop, hidden_loop, kernel
from sottovoce.verification.meaning import program_question, question
from sottovoce.verification.moves import Exact, Move, MovesProof, Recursion, exact_array, proved_cost
from sottovoce.verification.programs import require_affordable
from sottovoce.verification.shift import check_shift, stored_form
from sottovoce.verification.training import simple_bound

__all__ = [
    "MOST_FURTHER",
    "AccountVerification",
    "Check",
    "Exact",
    "ExactRow",
    "HiddenLoop",
    "Move",
    "MovesProof",
    "Recursion",
    "StatedAccount",
    "TrainingQuestion",
    "Verdict",
    "Verification",
    "check_shift",
    "exact_array",
    "hidden_loop",
    "kernel",
    "program_question",
    "proved_cost",
    "question",
    "reached",
    "require_affordable",
    "simple_bound",
    "squares_below",
    "stored_form",
    "training_question",
    "verify",
    "verify_account",
]
