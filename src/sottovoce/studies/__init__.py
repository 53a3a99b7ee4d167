# SPDX-License-Identifier: Apache-2.0
"""The paper, claim by claim: each study is one file with a `Config`, a `Result` and `run`; nothing is drawn here."""

from sottovoce.studies.catalogue import PARTS, STUDIES, Study, studies_of
from sottovoce.studies.results import Finding, StudyResult, Table, Verdict

__all__ = ["PARTS", "STUDIES", "Finding", "Study", "StudyResult", "Table", "Verdict", "studies_of"]
