# SPDX-License-Identifier: Apache-2.0
"""`Manifest`: what a folder holds the sweep of, as the JSON file beside the parts says it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, field

from sottovoce._version import __version__
from sottovoce.errors import FileError
from sottovoce.forms import CountedLabels, Form, canonical, json_text, plain, read_form, strict_json
from sottovoce.graphs import spectrum
from sottovoce.protocols import Contribution, Losses, Program, Slopes, spread
from sottovoce.views import Assumption, assumption_of, training_assumption

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from sottovoce.protocols import Protocol
    from sottovoce.sweeps.tiles import Work

__all__ = ["SCHEMA", "Manifest", "described", "described_like"]

SCHEMA: Literal[4] = 4
# What every manifest says, or what describes the network for a reader and follows from the weights.
DESCRIPTION = ("kind", "labels", "rule", "origin", "edges", "gap", "gap_converged", "protocol")

# What a sweep says of its scenario, by the names of its terms: it goes through all pairs, and knows no relation.
TERMS = ("view", "own_noise", "contribution", "participation", "assumption")


class ProgramFacts(Form, frozen=True, kw_only=True):
    """A protocol: its name, its program in a sentence, all that its hash is made of, and whether it is plain gossip."""

    protocol: str
    plain: bool
    program: str
    programs: tuple[dict[str, Any], ...]
    encoder: tuple[str, ...]
    weights: tuple[str, ...]


class TrainingFacts(Form, frozen=True, kw_only=True):
    """The slopes of training, and the least and the total variance of its noise; its hash is that of the protocol."""

    lower: float | None
    upper: float | None
    step_smoothness: float | None
    losses: Losses | None
    hold_identity: bool
    least_noise: str
    total_noise: str


class Manifest(Form, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="sweep"):
    """What was swept and how it was cut; node k is called `labels[k]`, and tile k holds `span(k)`.

    What only some sweeps have is left out of the file of others.
    """

    schema: Literal[4]
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
    tile: Annotated[int, Meta(ge=1)]
    tiles: int
    pairs: int
    rule: str
    origin: str
    edges: int
    gap: float
    gap_converged: bool
    names: CountedLabels | tuple[int | str, ...] = field(name="labels")
    protocol: ProgramFacts
    protocol_hash: str
    exchanges: tuple[int, ...] | None = None
    damping_hash: str | None = None
    updates: TrainingFacts | None = None
    tolerance: float | None = None

    @property
    def labels(self) -> Sequence[int | str]:
        """The nodes' names, in index order."""
        if isinstance(self.names, tuple):
            return self.names
        return range(self.names.first, self.names.first + self.names.count)

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
        return self.protocol.program

    @property
    def settings(self) -> dict[str, Any]:
        """What must agree for parts to belong together."""
        return {name: value for name, value in plain(self).items() if name not in DESCRIPTION}

    @property
    def fingerprint(self) -> str:
        """A short hash of the settings, which each part carries."""
        return hashlib.sha256(canonical(self.settings)).hexdigest()[:16]

    def to_json(self) -> str:
        """The text of manifest.json."""
        short = isinstance(self.names, CountedLabels) or self.nodes <= 1000
        return json_text(self, indent=2 if short else None) + "\n"

    def rests_on(self, methods: Iterable[str] | None = None) -> Assumption:
        """What numbers proved by `methods` rest on; without them, what any number of the sweep may rest on."""
        if self.updates is None:
            return assumption_of(self.view, self.damping_hash) if self.protocol.plain else "oblivious"
        return training_assumption(methods, known=self.updates.lower is not None)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """The manifest in `text`; `where` names its file in an error."""
        try:
            value = strict_json(text, "the manifest of a sweep")
            if isinstance(value, dict) and value.get("schema") != SCHEMA:
                raise FileError(
                    f"{where}: a sweep of schema {SCHEMA} was expected; got {value.get('schema')!r} "
                    "(read it with the version that wrote it)"
                )
            found = read_form(value, cls, "the manifest of a sweep")
            whole = len(found.labels) == found.nodes and found.tiles == -(-found.nodes // found.tile)
            if not whole or found.pairs != found.nodes * found.targets:
                raise FileError(f"{where}: the numbers of nodes, tiles and pairs do not fit (sweep anew)")
            rests_on = found.rests_on()
            if found.assumption != rests_on:
                raise FileError(
                    f"{where}: its assumption must be {rests_on!r}, which follows from its view and "
                    f"{'damping' if found.protocol.plain else 'protocol'}; got {found.assumption!r} (sweep anew)"
                )
            for program in found.protocol.programs:
                Program.from_json(program)
        except FileError:
            raise
        except (ValueError, KeyError, TypeError) as error:
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
        tolerance=work.effort.tolerance,
        tile=tile,
        tiles=-(-n // tile),
        pairs=n * (n - (work.scenario.own_noise == "known")),
        rule=weights.rule,
        origin=weights.origin,
        edges=_edges(protocol),
        gap=gap,
        gap_converged=converged,
        names=_names(weights.labels),
        exchanges=work.scenario.exchanges,
        damping_hash=protocol.damping_hash if protocol.plain else None,
        protocol=_program_facts(protocol),
        protocol_hash=protocol.hash,
        updates=_updates(protocol),
    )


def _program_facts(protocol: Protocol) -> ProgramFacts:
    return ProgramFacts(
        protocol=protocol.name,
        plain=protocol.plain,
        program=protocol.sentence,
        programs=tuple(program.to_json() for program in protocol.programs),
        encoder=tuple(str(value) for value in protocol.code),
        weights=tuple(weights.hash for weights in protocol.schedule),
    )


def _updates(protocol: Protocol) -> TrainingFacts | None:
    if protocol.updates is None:
        return None
    slopes = protocol.updates if isinstance(protocol.updates, Slopes) else None
    levels = [level * level for level in spread(protocol.programs[0].draws[0].level, protocol.n)]
    return TrainingFacts(
        lower=None if slopes is None else float(slopes.lower.min()),
        upper=None if slopes is None else float(slopes.upper.max()),
        step_smoothness=None if slopes is None else slopes.step_smoothness,
        losses=None if slopes is None else slopes.losses,
        hold_identity=slopes is None or slopes.hold_identity,
        least_noise=str(min(levels)),
        total_noise=str(sum(levels)),
    )


def _names(labels: Sequence[Hashable]) -> CountedLabels | tuple[int | str, ...]:
    """Nodes' names as JSON holds them: whole numbers as such, anything else as text."""
    if isinstance(labels, range):
        return CountedLabels(first=labels.start, count=len(labels))
    return tuple(
        label if isinstance(label, int) and not isinstance(label, bool) else str(label) for label in labels
    )


def _edges(protocol: Protocol) -> int:
    """How many edges carry weight: those that do so in both directions count once if all do."""
    matrix = protocol.schedule[0].matrix
    rows = np.repeat(np.arange(protocol.n), np.diff(matrix.indptr))
    apart = rows != matrix.indices
    ahead = rows[apart] * protocol.n + matrix.indices[apart]
    back = matrix.indices[apart].astype(np.int64) * protocol.n + rows[apart]
    both = np.array_equal(np.sort(ahead), np.sort(back))
    return len(ahead) // 2 if both else len(ahead)
