# SPDX-License-Identifier: Apache-2.0
"""What most tests of peers need: few matrices, whose rounds cost the same in every run and for every test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.peers import policy, spending
from sottovoce.sensitivities import certify

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def certified_once() -> Iterator[None]:
    """Let a claim about the same rounds be proved once, and what whoever reads all messages of a network knows be found
    once: nodes of a swarm, and swarms, share most of theirs.
    """
    made: dict[Any, Any] = {}
    mus: dict[Any, Any] = {}
    found = policy._mus

    def kept(protocol: Any, view: Any, target: Any) -> Any:
        claim = protocol.hash, view, target
        if claim not in made:
            made[claim] = certify(protocol, view, target)
        return made[claim]

    def whole(network: Any) -> Any:
        if network not in mus:
            mus[network] = tuple(found(network))
        return mus[network]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spending, "certify", kept)
        patch.setattr(policy, "_mus", whole)
        yield
