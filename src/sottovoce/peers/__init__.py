# SPDX-License-Identifier: Apache-2.0
"""Real peers: every node a process of its own, links that are encrypted, and what a run gives away known beforehand.

A node interprets the program that the accountant reads. It needs the extra `peers`.
"""

from sottovoce.peers.contributing import Contributor, Local
from sottovoce.peers.earlier import Earlier, read_earlier
from sottovoce.peers.identity import (
    Card,
    Identity,
    create_identity,
    read_identity,
    write_identity,
)
from sottovoce.peers.local import Place, places_beside, run_all, run_here, spent_beside, write_example
from sottovoce.peers.modules import Peer, Trained, module_facts
from sottovoce.peers.network import Deadlines, Network, Settings, TaskFacts, read_network
from sottovoce.peers.outcomes import Outcome, Whereabouts
from sottovoce.peers.policy import Budget, Knowledge, Policy, Seen, known_after, read_policy
from sottovoce.peers.proofs import (
    Checked,
    RunCertificate,
    authors_of,
    certify_run,
    read_run,
    verify_run,
    write_run,
)
from sottovoce.peers.running import run_peer
from sottovoce.peers.sites import Site
from sottovoce.peers.transcript import read_transcript
from sottovoce.peers.transport import Transport

__all__ = [
    "Budget",
    "Card",
    "Checked",
    "Contributor",
    "Deadlines",
    "Earlier",
    "Identity",
    "Knowledge",
    "Local",
    "Network",
    "Outcome",
    "Peer",
    "Place",
    "Policy",
    "RunCertificate",
    "Seen",
    "Settings",
    "Site",
    "TaskFacts",
    "Trained",
    "Transport",
    "Whereabouts",
    "authors_of",
    "certify_run",
    "create_identity",
    "known_after",
    "module_facts",
    "places_beside",
    "read_earlier",
    "read_identity",
    "read_network",
    "read_policy",
    "read_run",
    "read_transcript",
    "run_all",
    "run_here",
    "run_peer",
    "spent_beside",
    "verify_run",
    "write_example",
    "write_identity",
    "write_run",
]
