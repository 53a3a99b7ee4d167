# SPDX-License-Identifier: Apache-2.0
"""What most tests of peers need: few matrices, whose rounds cost the same in every run and for every test."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.certificates import to_text
from sottovoce.peers import Network, messages, policy, proofs, spending
from sottovoce.sensitivities import certify
from sottovoce.verification import verify

if TYPE_CHECKING:
    from collections.abc import Iterator


made: dict[Any, Any] = {}
checked: dict[Any, Any] = {}
plans: dict[Any, Any] = {}
mus: dict[Any, Any] = {}


@pytest.fixture(scope="module", autouse=True)
def certified_once() -> Iterator[None]:
    """Let a claim about the same rounds be proved once, and verified once as long as nobody changed it; and let what
    training gives away, and whoever reads all messages knows, be found once: nodes of a swarm, and swarms, share most.
    What one node signed all others check, here for each other.
    """
    found, planned = policy._mus, Network.plan

    def kept(protocol: Any, view: Any, target: Any) -> Any:
        claim = protocol.hash, *said(view), target
        if claim not in made:
            made[claim] = certify(protocol, view, target)
        return made[claim]

    def believed(certificate: Any, protocol: Any) -> Any:
        claim = to_text(certificate), protocol.hash
        if claim not in checked:
            checked[claim] = verify(certificate, protocol)
        return checked[claim]

    def plan(network: Any, view: Any, *, rounds: Any = None, delta: Any = None) -> Any:
        claim = network.hash, *([view] if isinstance(view, str) else said(view)), rounds, delta
        if claim not in plans:
            plans[claim] = planned(network, view, rounds=rounds, delta=delta)
        return plans[claim]

    def whole(network: Any) -> Any:
        if network.hash not in mus:
            mus[network.hash] = tuple(found(network))
        return mus[network.hash]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spending, "certify", kept)
        patch.setattr(proofs, "verify", believed)
        patch.setattr(Network, "plan", plan)
        patch.setattr(policy, "_mus", whole)
        patch.setattr(messages, "is_signed", cache(messages.is_signed))
        yield


def said(view: Any) -> tuple[Any, ...]:
    """All that a view by name says: two of them that say the same are no less two."""
    assert view.observation is None
    return view.name, tuple(view.observers), view.own_noise, view.exchanges
