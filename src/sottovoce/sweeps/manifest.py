# SPDX-License-Identifier: Apache-2.0
"""`Manifest`: what a folder holds the sweep of, as the JSON file beside the parts says it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce._version import __version__
from sottovoce.errors import FileError, one_of
from sottovoce.graphs import spectrum
from sottovoce.protocols import Program, Slopes
from sottovoce.protocols.rationals import spread
from sottovoce.scenarios import CONTRIBUTIONS
from sottovoce.views import assumption_of, training_assumption

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.sweeps.tiles import Work
    from sottovoce.views import Assumption

__all__ = ["SCHEMA", "Manifest", "described", "described_like"]

SCHEMA = 2
# What describes the network for a reader and follows from the weights.
DESCRIPTION = ("labels", "rule", "origin", "edges", "gap", "gap_converged", "protocol")

# What a sweep says of its scenario, by the names of its terms.
TERMS = ("view", "own_noise", "contribution", "participation", "assumption")
# What only some sweeps have.
OPTIONAL = ("damping_hash", "protocol", "protocol_hash", "updates")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What was swept and how it was cut; node k is called `labels[k]`, and tile k holds `span(k)`."""

    schema: int
    version: str
    weights_hash: str
    nodes: int
    rounds: int
    view: str
    own_noise: str
    contribution: Contribution
    participation: str
    engine: str
    effort: str
    assumption: Assumption
    tile: int
    tiles: int
    pairs: int
    rule: str
    origin: str
    edges: int
    gap: float
    gap_converged: bool
    labels: Sequence[Hashable]
    damping_hash: str | None = None
    protocol: dict[str, Any] | None = None
    protocol_hash: str | None = None
    updates: dict[str, Any] | None = None

    def span(self, tile: int) -> range:
        """The indices of the observers of one tile."""
        return range(tile * self.tile, min((tile + 1) * self.tile, self.nodes))

    def rows(self, tile: int) -> int:
        """How many pairs one tile holds."""
        return len(self.span(tile)) * self.targets

    @property
    def targets(self) -> int:
        """How many targets each observer has."""
        return self.nodes - (self.own_noise == "known")

    @property
    def program_sentence(self) -> str:
        """The protocol in one sentence."""
        return "gossip" if self.protocol is None else str(self.protocol["program"])

    @property
    def settings(self) -> dict[str, Any]:
        """What must agree for parts to belong together."""
        return {name: getattr(self, name) for name in self._present() if name not in DESCRIPTION}

    @property
    def fingerprint(self) -> str:
        """A short hash of the settings, which each part carries."""
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The text of manifest.json."""
        facts = {name: getattr(self, name) for name in self._present()}
        counted = isinstance(self.labels, range)
        facts["labels"] = (
            {"start": self.labels.start, "stop": self.labels.stop}
            if isinstance(self.labels, range)
            else [_plain(label) for label in self.labels]
        )
        return json.dumps(facts, indent=2 if counted or self.nodes <= 1000 else None) + "\n"

    def _present(self) -> list[str]:
        """The fields that say something; a sweep of gossip without damping says nothing of damping or programs."""
        return [name for name in _names() if name not in OPTIONAL or getattr(self, name) is not None]

    def rests_on(self, methods: Iterable[str] | None = None) -> Assumption:
        """What numbers proved by `methods` rest on; without them, what any number of the sweep may rest on."""
        if self.updates is None:
            return "oblivious" if self.protocol else assumption_of(self.view, self.damping_hash)
        return training_assumption(methods, known=self.updates["lower"] is not None)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """The manifest in `text`; `where` names its file in an error."""
        try:
            facts = json.loads(text)
            if facts["schema"] != SCHEMA:
                raise FileError(
                    f"{where}: a sweep of schema {SCHEMA} was expected; got {facts['schema']!r} "
                    "(read it with the version that wrote it)"
                )
            named = facts["labels"]
            facts["labels"] = (
                range(named["start"], named["stop"]) if isinstance(named, dict) else tuple(named)
            )
            found = cls(**facts)
            whole = len(found.labels) == found.nodes and found.tiles == -(-found.nodes // found.tile)
            if not whole or found.pairs != found.nodes * found.targets:
                raise FileError(f"{where}: the numbers of nodes, tiles and pairs do not fit (sweep anew)")
            one_of(CONTRIBUTIONS, contribution=found.contribution)
            rests_on = found.rests_on()
            if found.assumption != rests_on:
                raise FileError(
                    f"{where}: its assumption must be {rests_on!r}, which follows from its view and "
                    f"{'protocol' if found.protocol else 'damping'}; got {found.assumption!r} (sweep anew)"
                )
            _check_program(found, where)
        except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{where}: not the manifest of a sweep: {error} (sweep anew)") from None
        return found


def described(work: Work, tile: int) -> Manifest:
    """The manifest of a sweep that is about to begin."""
    found = spectrum(work.protocol.schedule[0])
    return _described(work, tile, gap=float(found.gap), converged=bool(found.converged))


def described_like(earlier: Manifest, work: Work, tile: int | None) -> Manifest:
    """The manifest of `work`, cut as an earlier one unless `tile` says otherwise, its gap taken from there."""
    return _described(work, tile or earlier.tile, gap=earlier.gap, converged=earlier.gap_converged)


def _described(work: Work, tile: int, *, gap: float, converged: bool) -> Manifest:
    protocol, weights = work.protocol, work.protocol.schedule[0]
    n, asked = protocol.n, work.scenario.terms()
    return Manifest(
        schema=SCHEMA,
        version=__version__,
        weights_hash=weights.hash,
        nodes=n,
        rounds=protocol.rounds,
        **{name: asked[name] for name in TERMS},
        engine=work.effort.engine,
        effort=work.effort.depth,
        tile=tile,
        tiles=-(-n // tile),
        pairs=n * (n - (work.scenario.own_noise == "known")),
        rule=weights.rule,
        origin=weights.origin,
        edges=_edges(protocol),
        gap=gap,
        gap_converged=converged,
        labels=weights.labels,
        damping_hash=protocol.damping_hash if protocol.plain else None,
        protocol=None if protocol.plain else _program_facts(protocol),
        protocol_hash=None if protocol.plain else protocol.hash,
        updates=_updates(protocol),
    )


def _program_facts(protocol: Protocol) -> dict[str, Any]:
    """A protocol as a manifest holds it: its name, its program in a sentence, and all that its hash is made of."""
    return {
        "protocol": protocol.name,
        "program": protocol.sentence,
        "programs": [program.to_json() for program in protocol.programs],
        "encoder": [str(value) for value in protocol.code],
        "weights": [weights.hash for weights in protocol.schedule],
    }


def _check_program(found: Manifest, where: str) -> None:
    """Refuse a manifest that names a protocol without its hash, or a program that cannot run."""
    if (found.protocol is None) != (found.protocol_hash is None):
        raise FileError(f"{where}: a protocol and its hash stand together (sweep anew)")
    if found.protocol is not None:
        for program in found.protocol["programs"]:
            Program.from_json(program)


def _updates(protocol: Protocol) -> dict[str, Any] | None:
    """The slopes of training, and the least and the total variance of its noise; its hash is that of the protocol."""
    if protocol.updates is None:
        return None
    slopes = protocol.updates if isinstance(protocol.updates, Slopes) else None
    levels = [level * level for level in spread(protocol.programs[0].draws[0].level, protocol.n)]
    return {
        "lower": None if slopes is None else float(slopes.lower.min()),
        "upper": None if slopes is None else float(slopes.upper.max()),
        "step_smoothness": None if slopes is None else slopes.step_smoothness,
        "losses": None if slopes is None else slopes.losses,
        "hold_identity": slopes is None or slopes.hold_identity,
        "least_noise": str(min(levels)),
        "total_noise": str(sum(levels)),
    }


def _names() -> list[str]:
    return [field.name for field in fields(Manifest)]


def _plain(label: Hashable) -> int | str:
    """A node's name as JSON holds it: whole numbers as such, anything else as text."""
    return label if isinstance(label, int) and not isinstance(label, bool) else str(label)


def _edges(protocol: Protocol) -> int:
    """How many edges carry weight: those that do so in both directions count once if all do."""
    matrix = protocol.schedule[0].matrix
    rows = np.repeat(np.arange(protocol.n), np.diff(matrix.indptr))
    apart = rows != matrix.indices
    ahead = rows[apart] * protocol.n + matrix.indices[apart]
    back = matrix.indices[apart].astype(np.int64) * protocol.n + rows[apart]
    both = np.array_equal(np.sort(ahead), np.sort(back))
    return len(ahead) // 2 if both else len(ahead)
