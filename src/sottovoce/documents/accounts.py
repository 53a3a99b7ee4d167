# SPDX-License-Identifier: Apache-2.0
"""The JSON form of an account, a calibration and a graph."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.pairs import (
    Pair,
    account_pair,
    pair_from_json,
    pair_to_json,
    plain_label,
    table_pairs,
)
from sottovoce.errors import FileError, InputError
from sottovoce.protocols import hash_of_damping
from sottovoce.protocols.updates import CLIPPING, RECORDS, Slopes
from sottovoce.views import ONE_OBSERVER

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sized

    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, Graph, Spectrum
    from sottovoce.protocols import Protocol

__all__ = [
    "MOST_EXPOSED",
    "PAIRS_IN_JSON",
    "SCHEMA",
    "AccountDocument",
    "account_document",
    "as_json",
    "calibration_document",
    "damping_facts",
    "fits_json",
    "graph_document",
    "graph_facts",
    "pairs_possible",
    "protocol_facts",
    "read_account_json",
    "terms",
    "updates_facts",
]

SCHEMA = 1
PAIRS_IN_JSON = 100_000
MOST_EXPOSED = 10
SHOWN_LABELS = 10


@dataclass(frozen=True, kw_only=True)
class AccountDocument:
    """An account read back from JSON: `facts` of the run, and its pairs (or a summary and their file).

    `other_views` are the accounts of the same run in views that show less.
    """

    facts: Mapping[str, Any]
    pairs: tuple[Pair, ...] = ()
    summary: Mapping[str, Pair | tuple[Pair, ...]] | None = None
    pairs_file: str | None = None
    other_views: tuple[AccountDocument, ...] = ()


def account_document(
    table: AccountTable, graph: Graph, spectrum: Spectrum, *, pairs_file: str | None = None
) -> dict[str, Any]:
    """The JSON object of `table`: every pair, or above `PAIRS_IN_JSON` a summary and `pairs_file`."""
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(table.protocol.schedule[0], graph, spectrum),
        "rounds": table.protocol.rounds,
        "noise_multiplier": float(table.noise_multiplier),
        "delta": float(table.delta),
        **terms(table),
    }
    if fits_json(table):
        document["pairs"] = [pair_to_json(pair) for pair in table_pairs(table)]
    else:
        document["summary"] = _summary(table)
        document["pairs_file"] = pairs_file
    return document


def fits_json(table: Sized) -> bool:
    """Whether a JSON object holds every pair of a table, and not a summary."""
    return len(table) <= PAIRS_IN_JSON


def calibration_document(
    table: AccountTable, graph: Graph, spectrum: Spectrum, *, target_epsilon: float, target_delta: float
) -> dict[str, Any]:
    """The JSON object of a calibration: `table` holds the accounts at the calibrated noise."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(table.protocol.schedule[0], graph, spectrum),
        "rounds": table.protocol.rounds,
        "target_epsilon": target_epsilon,
        "target_delta": target_delta,
        "noise_multiplier": float(table.noise_multiplier),
        **terms(table),
        "worst": pair_to_json(account_pair(table.worst(), target_delta)),
    }


def graph_document(graph: Graph, weights: GossipWeights, spectrum: Spectrum) -> dict[str, Any]:
    """The JSON object that describes a graph and its gossip weights."""
    degrees = sorted(graph.degrees.tolist())
    middle = (degrees[(graph.n - 1) // 2] + degrees[graph.n // 2]) / 2
    return {
        "schema": SCHEMA,
        "version": __version__,
        "graph": {
            **graph_facts(weights, graph, spectrum),
            "directed": graph.directed,
            "degrees": {"min": degrees[0], "median": middle, "max": degrees[-1]},
            "labels": [plain_label(label) for label in graph.labels[:SHOWN_LABELS]],
        },
        "weights": {
            "rule": weights.rule,
            "symmetric": weights.symmetric,
            "second_eigenvalue": spectrum.second,
            "smallest_eigenvalue": spectrum.smallest,
            "rho": spectrum.rho,
            "converged": spectrum.converged,
        },
    }


def as_json(document: Mapping[str, Any]) -> str:
    """A document as strict JSON text in ASCII, ended by a new line."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def read_account_json(source: str | os.PathLike[str]) -> AccountDocument:
    """The account in a JSON file, or in JSON text itself."""
    text, name = _text(source)
    try:
        facts = json.loads(text)
        if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
            raise FileError(
                f"{name}: an account of schema {SCHEMA} was expected (give what account --json wrote)"
            )
        return _document(facts)
    except FileError:
        raise
    except (json.JSONDecodeError, KeyError, TypeError, InputError) as error:
        raise FileError(f"{name}: not an account in JSON: {error} (write the file again)") from None


def _document(facts: dict[str, Any]) -> AccountDocument:
    """An account in a JSON object, with those of other views that it holds."""
    return AccountDocument(
        pairs=tuple(pair_from_json(value) for value in facts.pop("pairs", ())),
        summary=_read_summary(facts.pop("summary", None)),
        pairs_file=facts.pop("pairs_file", None),
        other_views=tuple(_document(other) for other in facts.pop("other_views", ())),
        facts=facts,
    )


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    """JSON text and what to call it: `source` itself if it opens with a brace, else the file of that name."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source, "JSON text"
    try:
        return Path(source).read_text(encoding="utf-8"), Path(source).name
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{source}: cannot be read: {error} (check the path and the file)") from None


def graph_facts(weights: GossipWeights, graph: Graph, spectrum: Spectrum) -> dict[str, Any]:
    """Size, spectral gap and hash of a graph with its weights, their rule, and in words where they come from."""
    return {
        "nodes": graph.n,
        "edges": graph.edges,
        "gap": spectrum.gap,
        "hash": weights.hash,
        "rule": weights.rule,
        "origin": weights.origin,
    }


def damping_facts(damping: NDArray[np.float64] | None) -> dict[str, Any]:
    """The range and the hash of a damping; nothing where nothing is damped."""
    if damping is None:
        return {}
    ends = {"min": float(damping.min()), "max": float(damping.max())}
    return {"damping": {**ends, "hash": hash_of_damping(damping)}}


def protocol_facts(protocol: Protocol) -> dict[str, Any]:
    """What is said of a protocol: the damping of plain gossip; name, program and hash of any other, and its updates."""
    if protocol.plain:
        return damping_facts(protocol.damping)
    return {**protocol.terms, **updates_facts(protocol.updates)}


def updates_facts(updates: Slopes | str | None) -> dict[str, Any]:
    """The slopes of the update maps, null where nothing is known of them, and what they ask for; {} without maps."""
    if updates is None:
        return {}
    if not isinstance(updates, Slopes):
        return {"updates": {"lower": None, "upper": None}}
    return {
        "updates": {
            "lower": float(updates.lower.min()),
            "upper": float(updates.upper.max()),
            "step_smoothness": updates.step_smoothness,
            "losses": updates.losses,
            "clipping": CLIPPING[updates.losses],
            "records": RECORDS,
        }
    }


def terms(table: AccountTable) -> dict[str, Any]:
    """What every number of the table rests on, and of how many pairs the table holds how many."""
    return {
        "relation": table.relation,
        "view": table.view,
        "own_noise": table.own_noise,
        "contribution": table.contribution,
        "participation": str(table.participation),
        "assumption": table.assumption,
        **protocol_facts(table.protocol),
        **({} if table.bare is None else {"infinite": table.bare}),
        "pairs_computed": len(table),
        "pairs_possible": pairs_possible(table),
    }


def pairs_possible(table: AccountTable) -> int:
    """How many pairs there are in the view of a table, whoever of its network observes and is observed."""
    n = table.protocol.n
    if table.view in ONE_OBSERVER:
        return n * (n - 1 if table.own_noise == "known" else n)
    if table.view.startswith("coalition"):
        return sum(n - (len(members) if table.own_noise == "known" else 0) for members in table.observers)
    return n if table.view == "everyone" else len(table)


def _summary(table: AccountTable) -> dict[str, Any]:
    """The worst, the median and the best pair, and the worst pair of each of the most exposed nodes."""
    chosen = {"worst": table.worst(), "median": table.median(), "best": table.best()}
    return {
        **{name: pair_to_json(account_pair(account, table.delta)) for name, account in chosen.items()},
        "most_exposed": [
            pair_to_json(account_pair(account, table.delta))
            for _, account in table.most_exposed(MOST_EXPOSED)
        ],
    }


def _read_summary(value: dict[str, Any] | None) -> dict[str, Pair | tuple[Pair, ...]] | None:
    """The pairs of a summary: one under each of its names, several under most_exposed."""
    if value is None:
        return None
    return {
        name: tuple(map(pair_from_json, part)) if isinstance(part, list) else pair_from_json(part)
        for name, part in value.items()
    }
