# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a frontier: accuracy against ε, and who had a say in what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.documents.accounts import HEAD, Document
from sottovoce.frontiers import Arm  # noqa: TC001 - the form reads its annotations

if TYPE_CHECKING:
    from sottovoce.frontiers import Frontier

__all__ = ["FrontierDocument", "frontier_document"]

_NOT_PRIVATE = ("accuracy", "deviation", "node_accuracy", "accuracies")
_SEEDED = "noise by seeds, for simulations: whoever knows them can take the noise away"


class FrontierDocument(Document, frozen=True, kw_only=True, tag="frontier"):
    """A frontier; `tuning` says in a sentence how steps were chosen, `not_private` what was measured without noise."""

    data: str
    networks: tuple[str, ...]
    protocols: tuple[str, ...]
    views: tuple[str, ...]
    epsilons: tuple[float, ...]
    delta: float
    relation: str
    rounds: int
    repeats: int
    tuning: str
    noise: str
    arms: tuple[Arm, ...]
    central: tuple[Arm, ...]
    no_noise: tuple[Arm, ...]
    not_private: tuple[str, ...]
    settings: dict[str, Any]


def frontier_document(found: Frontier) -> FrontierDocument:
    """The document of a frontier."""
    asked = found.settings
    facts: dict[str, Any] = {name: asked[name] for name in ("data", "delta", "relation", "rounds", "repeats")}
    facts |= {name: tuple(asked[name]) for name in ("networks", "protocols", "views", "epsilons")}
    return FrontierDocument(
        **HEAD,
        **facts,
        tuning=found.tuning,
        noise=_SEEDED,
        arms=found.arms,
        central=found.central,
        no_noise=found.no_noise,
        not_private=_NOT_PRIVATE,
        settings=asked,
    )
