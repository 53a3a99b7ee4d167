# SPDX-License-Identifier: Apache-2.0
"""The described API: valid OpenAPI, and a server that keeps to it whatever it is sent (schemathesis)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error, positive_data_acceptance
from tests.profiles import examples
from tests.servers import Server, serving

from sottovoce.web.schema import openapi
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = schemathesis.openapi.from_dict(openapi(token=False))
SCHEMA.config.output.sanitization.enabled = False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(
        "--max-nodes", "20", "--max-rounds", "20", "--time-limit", "2", "--max-body", "20000"
    ) as found:
        yield found


@SCHEMA.parametrize()
@settings(
    examples(10),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_server_keeps_to_the_description(case: schemathesis.Case[Any], server: Server) -> None:
    # A graph that does not exist, or an observer that it does not have, fits the types and is still refused.
    excluded = [positive_data_acceptance]
    answer = case.call(base_url=server.address, timeout=30)
    if answer.status_code == 503:
        # Jobs that nobody waits for pile up on a slow machine; being busy is described, other errors are none of it.
        assert answer.json()["error"]["kind"] == "busy"
        excluded.append(not_a_server_error)
    case.validate_response(answer, excluded_checks=excluded)


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
    SCHEMA.validate()
