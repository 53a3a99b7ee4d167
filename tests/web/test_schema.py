# SPDX-License-Identifier: Apache-2.0
"""The described API is valid OpenAPI, and describes all that is served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sottovoce.web.schema import openapi
from sottovoce.web.work import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

# What these take is of the kinds that reports take, by one description: what is wrong with a field is tried there.
LIKE_REPORTS = ["/api/page", "/api/curve", "/api/account", "/api/sampled", "/api/calibrate"]


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
    import schemathesis

    schemathesis.openapi.from_dict(document).validate()
