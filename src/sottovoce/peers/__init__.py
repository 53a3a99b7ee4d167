# SPDX-License-Identifier: Apache-2.0
"""Real peers: every node a process of its own, links that are encrypted, and what a run gives away known beforehand.

A node interprets the program that the accountant reads. It needs the extra `peers`.
"""

from sottovoce.peers.identity import (
    Card,
    Identity,
    create_identity,
    read_identity,
    write_identity,
)
from sottovoce.peers.network import Deadlines, Network, Problem, Settings, read_network
from sottovoce.peers.policy import Budget, Knowledge, Policy, Seen, known_after, read_policy

__all__ = [
    "Budget",
    "Card",
    "Deadlines",
    "Identity",
    "Knowledge",
    "Network",
    "Policy",
    "Problem",
    "Seen",
    "Settings",
    "create_identity",
    "known_after",
    "read_identity",
    "read_network",
    "read_policy",
    "write_identity",
]
