# SPDX-License-Identifier: Apache-2.0
"""The catalogue of studies, and what all of them have in common."""

from __future__ import annotations

import dataclasses
import json

import pytest
from tests.studies.small import TINY, tiny

from sottovoce.errors import InputError
from sottovoce.studies import PARTS, STUDIES, Study, studies_of

EVERY_STUDY = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)


def test_parts() -> None:
    assert PARTS == ("figure-1", "figure-2", "strengths", "errata", "utility", "training", "protocols")
    assert studies_of("all") == STUDIES
    assert [study.name for study in studies_of("figure-2")] == ["figure-2"]
    assert len(studies_of("errata")) == 8
    with pytest.raises(
        InputError,
        match="part must be one of figure-1, figure-2, strengths, errata, utility, training, protocols, all; got 'x'",
    ):
        studies_of("x")


@EVERY_STUDY
def test_sizes_are_of_one_kind_and_survive_json(study: Study) -> None:
    assert type(study.quick) is type(study.full) is type(TINY[study.name])
    for config in (study.quick, study.full):
        settings = dataclasses.asdict(config)
        assert json.loads(json.dumps(settings)).keys() == settings.keys()


@EVERY_STUDY
def test_a_table_is_whole_and_findings_are_words(study: Study) -> None:
    result = tiny(study.name)
    assert result.table.rows
    assert all(len(row) == len(result.table.columns) for row in result.table.rows)
    assert all(type(cell) in {str, int, float} for row in result.table.rows for cell in row)
    assert len(set(result.table.columns)) == len(result.table.columns)
    assert result.findings
    for finding in result.findings:
        assert finding.verdict in {"holds", "holds in part", "does not hold"}
        assert all((finding.statement, finding.claim, finding.measured))
        assert "nan" not in finding.measured


@EVERY_STUDY
def test_progress_ends_where_it_should_and_seeds_are_fixed(study: Study) -> None:
    heard: list[tuple[int, int]] = []
    again = study.run(TINY[study.name], lambda done, total: heard.append((done, total)))
    assert heard == [(k + 1, heard[-1][1]) for k in range(heard[-1][1])]
    assert again.table == tiny(study.name).table
