# SPDX-License-Identifier: Apache-2.0
"""What the words of a certificate mean on a gossip matrix: damping, rows, known noise and target, in rationals."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sottovoce.certificates.numbers import exact
from sottovoce.certificates.values import PLAIN_GOSSIP
from sottovoce.errors import InputError, NotCertified

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sottovoce.certificates import Certificate, StatedView
    from sottovoce.graphs import GossipWeights

__all__ = ["ExactRow", "Question", "question"]

ExactRow = dict[int, Fraction]


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """One target and what is seen of it: s_t = D W s_{t−1} + x_t + u_t over all nodes, `rows` of s_t in every round.

    `damping` is D, one rational a node, or None for D = I. `known` are the nodes whose noise the observer knows.
    """

    weights: GossipWeights
    damping: tuple[Fraction, ...] | None
    rows: tuple[ExactRow, ...]
    known: frozenset[int]
    observers: tuple[int, ...]
    target: int
    rounds: int

    def moved_row(self, node: int) -> ExactRow:
        """Row `node` of A = D W."""
        row = self.weights.exact_row(node)
        if self.damping is None:
            return row
        factor = self.damping[node]
        return {j: factor * x for j, x in row.items()} if factor else {}


def question(certificate: Certificate, weights: GossipWeights) -> Question:
    """What a certificate asks on `weights`, compiled from its program and its view.

    Guarantee: exact; every number is a rational of the weights or of the file.

    Raises InputError where the file contradicts the weights or itself, NotCertified for a program that is not checked
    here.
    """
    damping = _damping(certificate, weights.n)
    place = _Places(weights.labels)
    target = place(certificate.target, "target")
    rows, known = _seen(certificate.view, weights, place)
    if target in known:
        raise InputError(
            f"the target {certificate.target!r} has noise that the observer knows: there is no claim"
        )
    if len(known) == weights.n:
        raise InputError("the observer knows the noise of every node, so nothing is hidden")
    return Question(
        weights=weights,
        damping=damping,
        rows=rows,
        known=frozenset(known),
        observers=tuple(place(label, "observer") for label in certificate.view.observers),
        target=target,
        rounds=certificate.rounds,
    )


def _damping(certificate: Certificate, n: int) -> tuple[Fraction, ...] | None:
    """D of a gossip program, one number a node; any other program is refused."""
    if list(certificate.encoder) != [1] or type(certificate.encoder[0]) not in {int, float}:
        raise NotCertified(
            f"the encoder {str(list(certificate.encoder))[:60]} is not checked here (only [1]: fresh noise each round)"
        )
    plain = copy.deepcopy(dict(certificate.program))
    try:
        terms = plain["instructions"][0]["terms"]
        factor, terms["model"] = terms["model"], 1
    except (KeyError, IndexError, TypeError):
        factor, plain = None, {}
    if not _same(plain, PLAIN_GOSSIP):
        raise NotCertified(
            "the program is not checked here: only gossip, message = model + contribution + u and exchange → model, "
            "with a number a node on the model, is"
        )
    if not isinstance(factor, list):
        factor = [factor] * n
    if len(factor) != n:
        raise InputError(f"the model needs one factor for each of the {n} nodes; got {len(factor)}")
    numbers = tuple(exact("the factor of the model", number) for number in factor)
    if any(abs(number) > 1 for number in numbers):
        raise InputError("the factor of the model must lie between -1 and 1; beyond, the loop runs away")
    return None if all(number == 1 for number in numbers) else numbers


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Whether two JSON values are equal, and true is not taken for 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


class _Places:
    """The index of a node by its name, to the letter: 1, "1" and true are three names."""

    def __init__(self, labels: Sequence[Hashable]) -> None:
        self.labels = labels
        self.table = None if isinstance(labels, range) else {label: k for k, label in enumerate(labels)}

    def __call__(self, label: Hashable, what: str) -> int:
        place = None
        if self.table is not None:
            place = self.table.get(label)
        elif type(label) is int and label in self.labels:
            place = self.labels.index(label)
        if place is None or repr(self.labels[place]) != repr(label):
            raise InputError(f"the {what} {label!r} is not a node of the graph")
        return place


def _seen(view: StatedView, weights: GossipWeights, place: _Places) -> tuple[tuple[ExactRow, ...], set[int]]:
    """The rows that a view sees of each round's messages, and the nodes whose noise it knows."""
    if view.name == "custom":
        known = {place(label, "node of known noise") for label in view.known_noise}
        if len(known) < len(view.known_noise):
            raise InputError("the nodes of known noise must differ from each other")
        if any(j >= weights.n for row in view.rows for j, _ in row):
            raise InputError(f"the rows of the view must name node indices below {weights.n}")
        return tuple({j: x for j, x in row if x} for row in view.rows), known
    observers = sorted({place(label, "observer") for label in view.observers})
    if len(observers) < len(view.observers) or (view.name != "everyone" and not observers):
        raise InputError(f"the {view.name} view needs observers that differ from each other")
    if view.name in {"neighbourhood", "secure-sum", "single-node"} and len(observers) > 1:
        raise InputError(f"the {view.name} view has one observer; got {len(observers)}")
    known = set(observers) if view.own_noise == "known" else set()
    if view.name in {"secure-sum", "coalition-sums"}:
        return tuple(weights.exact_row(i) for i in observers), known
    senders = {j for i in observers for j in weights.exact_row(i) if j != i}
    seen: set[int] = {
        "everyone": set(range(weights.n)),
        "neighbourhood": {*observers, *senders},
        "single-node": {*observers},
        "coalition-messages": senders - set(observers),
    }[view.name]
    return tuple({i: Fraction(1)} for i in sorted(seen)), known
