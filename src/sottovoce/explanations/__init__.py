# SPDX-License-Identifier: Apache-2.0
"""The words that answers use, each in three sentences, and where to read on."""

from __future__ import annotations

from sottovoce.explanations.rows import ROWS
from sottovoce.explanations.words import KINDS, VIEW_QUESTIONS, WORDS, Explanation, either

__all__ = ["ALIASES", "EXPLANATIONS", "KINDS", "VIEW_QUESTIONS", "Explanation", "either"]

EXPLANATIONS: dict[str, Explanation] = {**WORDS, **ROWS}

ALIASES = {
    "ε": "epsilon",
    "δ": "delta",
    "μ": "mu",
    "Δ²": "sensitivity",
    "Δ": "sensitivity",
    "γ": "gap",
    "gap γ": "gap",
    "noise multiplier": "noise-multiplier",
    "median ε": "median",
    "local DP": "same noise",
    "central": "same noise",
    "central aggregation": "same noise",
    "lower": "interval",
    "upper": "interval",
    "Δ² a round": "rate",
    "exchanges": "view",
}
"""How answers write a word that is explained under another."""
