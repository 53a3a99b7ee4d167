# SPDX-License-Identifier: Apache-2.0
"""The described API: valid OpenAPI, and a server that keeps to it whatever it is sent (schemathesis)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error, positive_data_acceptance
from tests.profiles import examples
from tests.servers import Server, serving

from sottovoce.web.schema import openapi
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis.schemas import BaseSchema

# What these take is of the kinds that reports take, by one description: what is wrong with a field is tried there.
LIKE_REPORTS = ["/api/page", "/api/curve", "/api/account", "/api/sampled", "/api/calibrate"]


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


def test_fields_of_reports_are_of_every_kind() -> None:
    def kinds(path: str) -> set[tuple[Any, bool]]:
        fields = msgspec.structs.fields(KINDS[path.removeprefix("/api/")].request)
        return {(field.type, field.required) for field in fields}

    for path in LIKE_REPORTS:
        assert kinds(path) <= kinds("/api/report"), path


def test_every_kind_is_described() -> None:
    document = openapi(token=False)
    kinds = {f"/api/{kind}" for kind in KINDS}
    assert set(document["paths"]) == {"/api/about", "/api/status", "/api/jobs/{id}", *kinds}
    assert "security" not in document
    assert openapi(token=True)["security"] == [{"token": []}]


def test_every_reference_leads_somewhere() -> None:
    document = openapi(token=True)

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for part in value.values():
                yield from references(part)
        elif isinstance(value, list):
            for part in value:
                yield from references(part)

    found = set(references(document))
    assert len(found) > 10
    assert found <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    WHOLE.validate()
