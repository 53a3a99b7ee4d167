# SPDX-License-Identifier: Apache-2.0
"""The question as one value, `Scenario`, and as another, `Effort`, what may be spent on its answer.

Every verb takes both: `account(scenario, noise_multiplier=2, delta=1e-5, effort=Effort(depth="bulk"))`. The short
forms `account(protocol, view, noise_multiplier=2, delta=1e-5, effort="bulk")` are words out of which `asked` makes the
same two values; what each word means is said once, in `Words`.
"""

from sottovoce.scenarios.efforts import ENGINES, Depth, Effort, Engine
from sottovoce.scenarios.terms import (
    RELATION_SENTENCES,
    participation_sentence,
    protocol_sentences,
    protocol_terms,
)
from sottovoce.scenarios.values import CONTRIBUTIONS, RELATIONS, Answer, Relation, Scenario
from sottovoce.scenarios.words import (
    EffortWords,
    RelationWords,
    StreamWords,
    SweepWords,
    WidthWords,
    Words,
    asked,
)

__all__ = [
    "CONTRIBUTIONS",
    "ENGINES",
    "RELATIONS",
    "RELATION_SENTENCES",
    "Answer",
    "Depth",
    "Effort",
    "EffortWords",
    "Engine",
    "Relation",
    "RelationWords",
    "Scenario",
    "StreamWords",
    "SweepWords",
    "WidthWords",
    "Words",
    "asked",
    "participation_sentence",
    "protocol_sentences",
    "protocol_terms",
]
