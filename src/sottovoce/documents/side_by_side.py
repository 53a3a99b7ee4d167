# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from sottovoce.documents.accounts import HEAD, Baselines, Document, Terms, baselines, terms
from sottovoce.documents.pairs import Count, EndsForm, Pair, account_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import Contender

__all__ = ["ComparisonDocument", "ContenderDocument", "comparison_document"]


class ContenderDocument(Terms, frozen=True, kw_only=True, tag="contender"):
    """One question of a comparison with its worst pair and the ε of its median pair.

    `refused` says why no noise gives the ε that was asked for; the numbers are then those of noise multiplier 1.
    """

    name: str
    weights_hash: str
    noise_multiplier: float
    delta: float
    infinite: str | UnsetType = UNSET
    refused: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    worst: Pair
    median_epsilon: EndsForm
    baselines: Baselines


class ComparisonDocument(Document, frozen=True, kw_only=True, tag="comparison"):
    """Several questions at the same noise, or each at the noise that keeps it within `target_epsilon`."""

    delta: float
    target_epsilon: float | UnsetType = UNSET
    contenders: tuple[ContenderDocument, ...]
    command: str | UnsetType = UNSET


def comparison_document(
    found: Sequence[Contender], *, target_epsilon: float | None = None, command: str | None = None
) -> ComparisonDocument:
    """The document of a comparison."""
    return ComparisonDocument(
        **HEAD,
        delta=found[0].table.delta,
        target_epsilon=UNSET if target_epsilon is None else target_epsilon,
        contenders=tuple(_contender(each) for each in found),
        command=command or UNSET,
    )


def _contender(one: Contender) -> ContenderDocument:
    table = one.table
    return ContenderDocument(
        **HEAD,
        **terms(table),
        name=one.name,
        weights_hash=table.protocol.schedule[0].hash,
        noise_multiplier=float(table.noise_multiplier),
        delta=float(table.delta),
        refused=one.refused or UNSET,
        worst=account_pair(table.worst(), table.delta),
        median_epsilon=EndsForm.of(table.median().epsilon(table.delta)),
        baselines=baselines(table),
    )
