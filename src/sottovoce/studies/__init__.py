# SPDX-License-Identifier: Apache-2.0
"""The paper, claim by claim: each study is one file with a `Config`, a `Result` and `run`; nothing is drawn here."""

from sottovoce.studies import (
    agreement,
    constant_step,
    counterexamples,
    encoders,
    equal_error,
    figure_1,
    figure_2,
    growth,
    hidden_states,
    neighbours,
    observed_targets,
    removed_noise,
    shared_noise,
    slips,
    surprises,
    training,
    utility,
    vectors,
)
from sottovoce.studies.agreement import short
from sottovoce.studies.catalogue import PARTS, STUDIES, Study, studies_of
from sottovoce.studies.encoders import ENCODERS
from sottovoce.studies.pairs import NETWORKS, RELATIONS
from sottovoce.studies.results import Finding, StudyResult, Table, Verdict
from sottovoce.studies.shared_noise import OBSERVERS
from sottovoce.studies.surprises import SUMS, SURPRISES
from sottovoce.studies.utility import METHODS, RULES, TERMS, Row

__all__ = [
    "ENCODERS",
    "METHODS",
    "NETWORKS",
    "OBSERVERS",
    "PARTS",
    "RELATIONS",
    "RULES",
    "STUDIES",
    "SUMS",
    "SURPRISES",
    "TERMS",
    "Finding",
    "Row",
    "Study",
    "StudyResult",
    "Table",
    "Verdict",
    "agreement",
    "constant_step",
    "counterexamples",
    "encoders",
    "equal_error",
    "figure_1",
    "figure_2",
    "growth",
    "hidden_states",
    "neighbours",
    "observed_targets",
    "removed_noise",
    "shared_noise",
    "short",
    "slips",
    "studies_of",
    "surprises",
    "training",
    "utility",
    "vectors",
]
