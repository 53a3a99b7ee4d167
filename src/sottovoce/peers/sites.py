# SPDX-License-Identifier: Apache-2.0
"""`Site`: what a node brings to a run, all of it its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.peers.policy import Policy

if TYPE_CHECKING:
    from pathlib import Path

    from sottovoce.peers.contributing import Contributor
    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network

__all__ = ["Site"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Site:
    """Who a node is, what it contributes, what it allows others to know, and where it keeps what it did.

    `folder` holds its state, for its owner's eyes alone, its transcript, ledger and certificate; `spent` is the file of
    what it spent in its runs, which counts earlier ones: without it none do. Without a `policy` anything is allowed.
    """

    identity: Identity
    contributor: Contributor
    folder: Path
    policy: Policy | None = None
    spent: Path | None = None

    def policy_in(self, network: Network) -> Policy:
        """The policy of the node in a network: without one of its own, ε is told at the δ that was agreed on."""
        return self.policy or Policy(delta=network.settings.delta)
