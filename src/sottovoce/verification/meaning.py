# SPDX-License-Identifier: Apache-2.0
"""What the words of a certificate mean on gossip weights: program, rows, known noise and target, in rationals.

A view is two sets: the rows C that are seen of each message s_t, and the nodes whose draws the observer knows.
Named views are rebuilt from the gossip matrix, whatever else the file says:

| view | rows | known noise |
|---|---|---|
| everyone | every message | none, or that of the named observers |
| neighbourhood of i | messages of i and of whoever sends to i | i |
| secure-sum at i | row i of W: the sum that i receives | i |
| single-node i | the message of i | i |
| coalition-sums | rows of W of all members | all members |
| coalition-messages | messages of whoever sends to a member, but members | all members |

with `own_noise` "unknown" nobody's noise is known. A custom view holds rows and known nodes itself, and the verdict
says that they were taken on trust. Every number is a `Fraction`, so all that comes after starts without an error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import CONTRIBUTION, Combine, Protocol, spread
from sottovoce.verification.backwards import Round

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sottovoce.certificates import Certificate, StatedView
    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Program

__all__ = [
    "AveragingQuestion",
    "ExactRow",
    "ProgramQuestion",
    "certified_protocol",
    "closes_loop",
    "pair_of",
    "program_question",
    "question",
]

ExactRow = dict[int, Fraction]

# A program is followed round by round, each back to the first: work grows with the square of the rounds.
MOST_ROUNDS = 4096
# Numbers that are held at once, rows × draws or rounds × nodes: as floats 200 MB.
MOST_NUMBERS = 25_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragingQuestion:
    """One target and what is seen of it: s_t = D W s_{t−1} + x_t + u_t over all nodes, `rows` of s_t in every round.

    `damping` is D, one rational a node, or None for D = I. `known` are the nodes whose noise the observer knows.
    `observers` and `target` are node indices, and so are the columns of `rows`. `rounds` is T.
    """

    weights: GossipWeights
    damping: tuple[Fraction, ...] | None
    rows: tuple[ExactRow, ...]
    known: frozenset[int]
    observers: tuple[int, ...]
    target: int
    rounds: int

    def moved_row(self, node: int) -> ExactRow:
        """Row `node` of A = D W.

        Guarantee: exact, without zeros.
        """
        row = self.weights.exact_row(node)
        if self.damping is None:
            return row
        factor = self.damping[node]
        return {j: factor * x for j, x in row.items()} if factor else {}


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramQuestion:
    """One target of a program and what is seen of it.

    `rounds` are the rounds until the schedule repeats, `count` is how many there are in all, and `seen` has for
    each of `rounds` the exchanges that are seen, counted from 0, with the rows of each. `code` is the first column
    of the encoder C in rationals, (1,) where noise is fresh.
    """

    rounds: tuple[Round, ...]
    seen: tuple[tuple[tuple[int, tuple[ExactRow, ...]], ...], ...]
    code: tuple[Fraction, ...]
    count: int

    @property
    def widest(self) -> int:
        """How many numbers what is seen of one round holds of what was kept before it."""
        rows = max(sum(len(rows) for _, rows in seen) for seen in self.seen)
        return rows * self.rounds[0].n * len(self.rounds[0].program.keeps)

    @property
    def rows(self) -> int:
        """How many rows are seen in all rounds."""
        each = [sum(len(rows) for _, rows in seen) for seen in self.seen]
        return sum(each[t % len(each)] for t in range(self.count))

    @property
    def draws(self) -> int:
        """How many draws of all rounds the observer does not know."""
        each = [part.draws for part in self.rounds]
        return sum(each[t % len(each)] for t in range(self.count))


def question(certificate: Certificate, weights: GossipWeights) -> AveragingQuestion:
    """What a certificate of plain gossip asks on `weights`.

    Guarantee: exact; every number is a rational of the weights or of the file.
    Source: the table above; docs/mathematics.md for what each view is meant to say.

    Raises InputError where the file contradicts the weights or itself, NotCertified for another program.
    """
    # What the maps of training do to the model is a ball of slopes, and no factor.
    factor = certificate.damping if certificate.updates is None else Fraction(1)
    if factor is None:
        raise NotCertified(f"this is checked of plain gossip alone; got {certificate.sentence[:200]}")
    rows, known, observers, target = _seen_of(certificate, weights)
    if max(certificate.view.exchanges or (1,)) > 1:
        raise InputError("the view must see exchanges of the program; gossip has one a round")
    damping = tuple(spread(factor, weights.n))
    if len(damping) != weights.n:
        raise InputError(f"the model needs one factor for each of the {weights.n} nodes; got {len(damping)}")
    return AveragingQuestion(
        weights=weights,
        damping=None if all(number == 1 for number in damping) else damping,
        rows=rows,
        known=known,
        observers=observers,
        target=target,
        rounds=certificate.rounds,
    )


def certified_protocol(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> Protocol:
    """The protocol of a certificate on the weights of its schedule, without what training does to the model.

    Guarantee: exact: program, rounds and encoder are those of the file, and weights those at hand, whose hashes
    `checking` has compared.
    """
    return Protocol(
        weights=schedule,
        program=certificate.program,
        rounds=certificate.rounds,
        encoder=certificate.encoder,
    )


def closes_loop(program: Program, n: int) -> bool:
    """Whether contributions come with −q times the model before the round, as gradients of quadratic losses do.

    Its first step keeps the model, and wherever a contribution is added, what was kept is too, −q times as often with
    one q in (0, 1] for each of the n nodes.

    Guarantee: if so, contributions that are fixed in advance make this the loop of such losses, whatever the rest is.
    """
    kept, *rest = program.instructions
    if not isinstance(kept, Combine) or set(kept.terms) != {program.model}:
        return False
    added = [step.terms for step in rest if isinstance(step, Combine) and CONTRIBUTION in step.terms]
    pulls = set()
    for terms in added:
        moved, pulled = spread(terms[CONTRIBUTION], n), spread(terms.get(kept.into, 0), n)
        if 0 in moved or not len(moved) == len(pulled) == n:
            return False
        pulls.add(tuple(a / b for a, b in zip(pulled, moved, strict=True)))
    return (
        set(spread(kept.terms[program.model], n)) == {1}
        and kept.into not in {step.into for step in rest}
        and len(pulls) == 1
        and all(-1 <= pull < 0 for pull in next(iter(pulls)))
    )


def program_question(certificate: Certificate, protocol: Protocol) -> ProgramQuestion:
    """What a certificate asks of its protocol, whatever the program; each round is seen on its own weights.

    Rows and known nodes are built anew for each matrix of the schedule: who sends to an observer may change from
    round to round. The schedule repeats after the least common multiple of the numbers of matrices and of programs.

    Guarantee: exact; every number is a rational of the weights or of the file.
    """
    if protocol.rounds > MOST_ROUNDS or protocol.rounds * protocol.n > MOST_NUMBERS:
        raise NotCertified(
            f"this claim is too large to be rebuilt densely: {protocol.rounds} rounds of {protocol.n} nodes (at most "
            f"{MOST_ROUNDS} rounds, and {MOST_NUMBERS} of both multiplied)"
        )
    period = math.lcm(len(protocol.schedule), len(protocol.programs))
    wanted = certificate.view.exchanges
    most = max(len(program.exchanges) for program in protocol.programs)
    if max(wanted or (1,)) > most:
        raise InputError(
            f"the view must see exchanges of the program, 1 to {most} of a round; got {max(wanted or ())}"
        )
    rounds, seen = [], []
    for t in range(min(period, protocol.rounds)):
        weights, program = protocol.round_of(t)
        rows, known, _, target = _seen_of(certificate, weights)
        rounds.append(Round(weights=weights, program=program, known=known, target=target))
        numbers = range(1, len(program.exchanges) + 1)
        seen.append(tuple((k - 1, rows) for k in numbers if wanted is None or k in wanted))
    return ProgramQuestion(rounds=tuple(rounds), seen=tuple(seen), code=protocol.code, count=protocol.rounds)


def pair_of(certificate: Certificate, weights: GossipWeights) -> tuple[tuple[int, ...], int]:
    """The observers of a certificate, ascending, and its target, as indices on `weights`.

    Guarantee: exact; a name that is no node of the graph is an error and not a guess.
    """
    _, _, observers, target = _seen_of(certificate, weights)
    return tuple(sorted(observers)), target


class _Places:
    """The index of a node by its name, to the letter: 1, "1" and true are three names.

    To a Python dictionary 1, 1.0 and True are one key. Two readers of a file could then mean two nodes, so what was
    found must also look like what was asked for.
    """

    def __init__(self, labels: Sequence[Hashable]) -> None:
        self.labels = labels
        self.table = None if isinstance(labels, range) else {label: k for k, label in enumerate(labels)}

    def __call__(self, label: Hashable, what: str) -> int:
        """Where a node stands; `what` names its part in the message where there is none of that name.

        A label must be the node's own in type as well: 1, 1.0 and True are equal in Python, and are not one node in a
        file.
        """
        place = None
        if self.table is not None:
            place = self.table.get(label)
        elif type(label) is int and label in self.labels:
            place = self.labels.index(label)
        if place is None or repr(self.labels[place]) != repr(label):
            raise InputError(f"the {what} {label!r} is not a node of the graph")
        return place


def _seen_of(
    certificate: Certificate, weights: GossipWeights
) -> tuple[tuple[ExactRow, ...], frozenset[int], tuple[int, ...], int]:
    """The rows that are seen of an exchange, the nodes whose draws are known, the observers and the target.

    A target whose draws are known has nothing of its own to hide behind, and such a file makes no claim that could
    be checked: an error, not a refusal.
    """
    place = _Places(weights.labels)
    target = place(certificate.target, "target")
    rows, known = _seen(certificate.view, weights, place)
    if target in known:
        raise InputError(
            f"the target {certificate.target!r} has noise that the observer knows: there is no claim"
        )
    if len(known) == weights.n:
        raise InputError("the observer knows the noise of every node, so nothing is hidden")
    observers = tuple(place(label, "observer") for label in certificate.view.observers)
    return rows, frozenset(known), observers, target


def _seen(view: StatedView, weights: GossipWeights, place: _Places) -> tuple[tuple[ExactRow, ...], set[int]]:
    """The rows that a view sees of each round's messages, and the nodes whose noise it knows.

    Neighbours are in-neighbours: j sends to i where W_ij ≠ 0, by the exact weights.
    """
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
