# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a sweep's summary: that of an account too large for its pairs, which stay in the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.documents.accounts import (
    HEAD,
    AccountDocument,
    Baselines,
    DampingFacts,
    GraphFacts,
    PairSummary,
    part_seen,
    updates_facts,
)
from sottovoce.documents.pairs import EndsForm, account_pair

if TYPE_CHECKING:
    import os

    from sottovoce import sweeps
    from sottovoce.sweeps import Manifest

__all__ = ["summary_document"]


def summary_document(summary: sweeps.Summary, folder: str | os.PathLike[str]) -> AccountDocument:
    """The account of a summary; `pairs_file` is the folder of the parts."""
    manifest, delta = summary.manifest, summary.delta
    worst = account_pair(summary.worst, delta)
    return AccountDocument(
        **HEAD,
        graph=GraphFacts(
            nodes=manifest.nodes,
            edges=manifest.edges,
            gap=manifest.gap,
            hash=manifest.weights_hash,
            rule=manifest.rule,
            origin=manifest.origin,
        ),
        rounds=manifest.rounds,
        noise_multiplier=float(summary.noise_multiplier),
        delta=float(delta),
        relation=summary.relation,
        view=manifest.view,
        own_noise=manifest.own_noise,
        exchanges=part_seen(manifest.exchanges),
        contribution=manifest.contribution,
        participation=manifest.participation,
        assumption=manifest.assumption,
        **_protocol_facts(manifest),
        worst=worst,
        baselines=Baselines(
            local=None if summary.local is None else EndsForm.of(summary.local.epsilon(delta)),
            central=None if summary.central is None else EndsForm.of(summary.central.epsilon(delta)),
        ),
        summary=PairSummary(
            worst=worst,
            median=account_pair(summary.median, delta),
            best=account_pair(summary.best, delta),
            most_exposed=tuple(account_pair(account, delta) for account in summary.most_exposed),
        ),
        # A sweep is finished when it holds every pair.
        pairs_computed=len(summary),
        pairs_possible=len(summary),
        pairs_file=str(folder),
    )


def _protocol_facts(manifest: Manifest) -> dict[str, Any]:
    """What is said of a protocol, of its damping and of training."""
    facts: dict[str, Any] = {
        "protocol": manifest.protocol.protocol,
        "program": manifest.protocol.program,
        "protocol_hash": manifest.protocol_hash,
    }
    if manifest.damping_hash is not None:
        facts["damping"] = DampingFacts(hash=manifest.damping_hash)
    if manifest.updates is not None:
        facts["updates"] = updates_facts(
            manifest.updates.lower,
            manifest.updates.upper,
            manifest.updates.step_smoothness,
            manifest.updates.losses,
        )
    return facts
