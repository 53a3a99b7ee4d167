# SPDX-License-Identifier: Apache-2.0
"""A server keeps to the API as it is described, whatever it is sent (schemathesis, through its plugin for pytest)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, positive_data_acceptance
from tests.profiles import examples
from tests.servers import Server, serving
from tests.web.test_schema import LIKE_REPORTS

from sottovoce.web.schema import openapi

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis.schemas import BaseSchema


def schema_of(modes: list[GenerationMode]) -> BaseSchema:
    """The description, from which each value of a field is tried that is described, or also those that are not."""
    schema = schemathesis.openapi.from_dict(openapi(token=False))
    schema.config.output.sanitization.enabled = False
    schema.config.phases.coverage.generation.update(modes=modes)
    return schema


WHOLE = schema_of([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]).exclude(path=LIKE_REPORTS)
VALID = schema_of([GenerationMode.POSITIVE]).include(path=LIKE_REPORTS)
TRIED = settings(
    examples(10), phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(
        "--max-nodes", "20", "--max-rounds", "20", "--time-limit", "2", "--max-body", "20000"
    ) as found:
        yield found


@pytest.mark.load
@WHOLE.parametrize()
@TRIED
def test_the_server_keeps_to_the_description(case: schemathesis.Case[Any], server: Server) -> None:
    keeps_to_the_description(case, server)


@pytest.mark.load
@VALID.parametrize()
@TRIED
def test_the_server_keeps_to_what_is_described_like_reports(
    case: schemathesis.Case[Any], server: Server
) -> None:
    keeps_to_the_description(case, server)


def keeps_to_the_description(case: schemathesis.Case[Any], server: Server) -> None:
    # A graph that does not exist, or an observer that it does not have, fits the types and is still refused.
    excluded = [positive_data_acceptance]
    answer = case.call(base_url=server.address, timeout=30)
    if answer.status_code == 503:
        # Jobs that nobody waits for pile up on a slow machine; being busy is described, other errors are none of it.
        assert answer.json()["error"]["kind"] == "busy"
        excluded.append(not_a_server_error)
    case.validate_response(answer, excluded_checks=excluded)
