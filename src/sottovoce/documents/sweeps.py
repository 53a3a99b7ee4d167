# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a sweep's summary: that of an account too large for its pairs, which stay in the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.accounts import SCHEMA
from sottovoce.documents.pairs import account_pair, pair_to_json

if TYPE_CHECKING:
    import os

    from sottovoce.accounting import Account
    from sottovoce.sweeps import Summary
    from sottovoce.sweeps.manifest import Manifest

__all__ = ["summary_document"]


def summary_document(summary: Summary, folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object of a summary, which `read_account_json` reads; `pairs_file` is the folder of the parts."""
    manifest = summary.manifest
    return {
        "schema": SCHEMA,
        "version": __version__,
        "graph": {
            "nodes": manifest.nodes,
            "edges": manifest.edges,
            "gap": manifest.gap,
            "hash": manifest.weights_hash,
            "rule": manifest.rule,
            "origin": manifest.origin,
        },
        "rounds": manifest.rounds,
        "noise_multiplier": float(summary.noise_multiplier),
        "delta": float(summary.delta),
        "relation": summary.relation,
        "view": manifest.view,
        "own_noise": manifest.own_noise,
        "contribution": manifest.contribution,
        "participation": manifest.participation,
        "assumption": manifest.assumption,
        **({} if manifest.damping_hash is None else {"damping": {"hash": manifest.damping_hash}}),
        **_program(manifest),
        **({} if manifest.updates is None else {"updates": manifest.updates}),
        "summary": {
            "worst": _pair(summary.worst, summary.delta),
            "median": _pair(summary.median, summary.delta),
            "best": _pair(summary.best, summary.delta),
            "most_exposed": [_pair(account, summary.delta) for account in summary.most_exposed],
        },
        # A sweep is finished when it holds every pair.
        "pairs_computed": len(summary),
        "pairs_possible": len(summary),
        "pairs_file": str(folder),
    }


def _program(manifest: Manifest) -> dict[str, Any]:
    """What is said of a protocol that is not plain gossip."""
    if manifest.protocol is None:
        return {}
    said = {name: manifest.protocol[name] for name in ("protocol", "program")}
    return {**said, "protocol_hash": manifest.protocol_hash}


def _pair(account: Account, delta: float) -> dict[str, Any]:
    return pair_to_json(account_pair(account, delta))
