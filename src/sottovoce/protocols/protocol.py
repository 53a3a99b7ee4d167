# SPDX-License-Identifier: Apache-2.0
"""`Protocol`: a program, the weights it runs on, and for how long.

The plainest one is gossip averaging,

    s_t = W s_{t−1} + x_t + u_t,   s_0 = 0,   u_t ~ N(0, σ² I),

s_t being the vector of messages, x_t the contributions and u_t the noise of round t. Where every node takes gradient
steps of size η on a quadratic loss of curvature h_k, what it received is damped before it goes on, and the loop stays
linear: s_t = D W s_{t−1} + x_t + u_t with D = diag(1 − ηh_k). A protocol of that form is `plain`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from sottovoce.errors import InputError, at_least, at_most
from sottovoce.forms import canonical
from sottovoce.graphs import GossipWeights, Symmetries, as_weights
from sottovoce.protocols.compiled import edges_of
from sottovoce.protocols.program import CONTRIBUTION, Combine, Exchange, Program, told_by, unsent_draws
from sottovoce.protocols.rationals import Number, PerNode, exact, plain_number, spread
from sottovoce.protocols.updates import Slopes, checked_updates
from sottovoce.vocabulary import Contribution

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from scipy.sparse import csr_array

__all__ = [
    "MOST_ROUNDS",
    "Contribution",
    "Protocol",
    "canonical_program",
    "code_of",
    "hash_of_damping",
    "hash_of_protocol",
    "sentence_of",
]


# Floats count so far without a gap: Δ² of so many rounds is still the number that is meant.
MOST_ROUNDS = 2**53
# Squares of levels beyond this, and of their inverses, leave the range of floats.
LEAST_LEVEL = Fraction(1, 10**100)
# What fits into one line of every output.
LONGEST_NAME = 200
# A row of weights that sums to no more than this averages; the plain bounds rest on it.
AVERAGING = 1 + 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Protocol:
    """`rounds` rounds of `program` on `weights`; a tuple of either is a public schedule that repeats.

    `encoder` is the first column of a lower-triangular Toeplitz matrix C: every draw over the rounds is C⁻¹ξ with
    fresh ξ. `name` is what people call it, and decides nothing.

    With `updates` every node contributes, besides, the step g(z) − z of its model z by a map g of its own, as training
    does: slopes of all such maps, or "any" if nothing is known of them. None for averaging. In gossip that is to pass
    what was received through g; with momentum the step enters the memory.
    """

    # A tuple of weights is left to `schedule`: what reads `weights` itself is worked out for one matrix.
    weights: GossipWeights | Any
    program: Program | tuple[Program, ...]
    rounds: int
    encoder: tuple[Number, ...] = (1,)
    name: str = "program"
    updates: Slopes | Literal["any"] | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        at_least(1, rounds=self.rounds)
        at_most(MOST_ROUNDS, rounds=self.rounds)
        object.__setattr__(self, "rounds", int(self.rounds))
        object.__setattr__(self, "weights", _checked_weights(self.weights))
        for program in self.programs:
            if not isinstance(program, Program):
                raise InputError(f"program must be a Program, or a tuple of them; got {program!r}")
            _check_lengths(program, self.n)
            if program.keeps != self.programs[0].keeps:
                raise InputError(
                    f"the programs of a schedule must keep the same registers; got {self.programs[0].keeps} and "
                    f"{program.keeps} (a register that a program does not set stays as it is)"
                )
        if not self.programs:
            raise InputError("program must hold at least one Program; got an empty schedule")
        for name in unsent_draws(self.programs):
            raise InputError(
                f"every draw must reach a message; {name!r} is added to registers that are never sent, and hides "
                "nothing (add it to what an exchange sends, or leave the draw out)"
            )
        object.__setattr__(self, "encoder", _checked_encoder(self.encoder))
        _check_name(self.name)
        if self.varies and self.encoded:
            self._check_streams()
        if self.updates is not None:
            object.__setattr__(self, "updates", checked_updates(self.updates, self.n))

    @property
    def schedule(self) -> tuple[GossipWeights, ...]:
        """The weights of rounds 1, 2, …, which repeat."""
        return self.weights if isinstance(self.weights, tuple) else (self.weights,)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of rounds 1, 2, …, which repeat."""
        return self.program if isinstance(self.program, tuple) else (self.program,)

    def round_of(self, t: int) -> tuple[GossipWeights, Program]:
        """Weights and program of the round with the 0-based index t."""
        return self.schedule[t % len(self.schedule)], self.programs[t % len(self.programs)]

    @property
    def period(self) -> int:
        """After how many rounds weights and programs repeat; all rounds if they do not."""
        return min(self.rounds, math.lcm(len(self.schedule), len(self.programs)))

    @property
    def varies(self) -> bool:
        """Whether rounds differ from each other."""
        return len(self.schedule) > 1 or len(self.programs) > 1

    @property
    def shows_model(self) -> bool:
        """Whether whoever sees all messages can tell every model at the end of every round."""
        told = told_by(self.programs)
        return all(program.model in told for program in self.programs)

    @cached_property
    def code(self) -> tuple[Fraction, ...]:
        """The encoder in rationals, cut to the rounds, without zeros at its end."""
        return code_of(self.encoder, self.rounds)

    @property
    def encoded(self) -> bool:
        """Whether draws are correlated over the rounds, or scaled, by the encoder."""
        return self.code != (Fraction(1),)

    @cached_property
    def plain(self) -> bool:
        """Whether this is s_t = D W s_{t−1} + x_t + u_t: one averaging W, noise of level 1, fresh in every round."""
        return self.updates is None and self._gossip_damping is not None

    def _check_streams(self) -> None:
        """Refuse an encoder for draws that do not go on from round to round."""
        made = [[(draw.name, draw.each) for draw in program.draws] for program in self.programs]
        for drawn in made:
            if drawn != made[0]:
                raise InputError(
                    "an encoder correlates each draw over the rounds: all programs of a schedule must make the same "
                    f"draws; got {made[0]} and {drawn} (a draw of level 0 adds nothing; or leave the encoder out)"
                )
        edges = {tuple(edges_of(weights)) for weights in self.schedule}
        if len(edges) > 1 and any(each == "edge" for _, each in made[0]):
            raise InputError(
                "an encoder correlates each draw over the rounds, and that of an edge breaks off where there is none; "
                f"got {len(edges)} different sets of edges (take draws of nodes, weights on the same edges, or no "
                "encoder)"
            )

    @cached_property
    def gossips(self) -> bool:
        """Whether nodes average once a round, undamped, with fresh noise: s_t = g(W s_{t−1}) + x_t + u_t."""
        return not self.encoded and self._damping_of(levels=None) == 1

    def require_gossip(self) -> None:
        """Refuse maps between rounds of a program for which the accountant has not worked them out."""
        if not self.gossips:
            raise InputError(
                f"updates are worked out for gossip that averages once a round, undamped, with fresh noise in each "
                f"round; got the protocol {self.name!r}: {self.programs[0]} (leave out updates, or the rest)"
            )

    @cached_property
    def _gossip_damping(self) -> PerNode | None:
        """The coefficients D of a plain protocol; None for any other."""
        return None if self.encoded else self._damping_of(levels={Fraction(1)})

    @cached_property
    def kernel(self) -> tuple[Protocol, Fraction] | None:
        """Plain gossip and ℓ, where this is s_t = D W s_{t−1} + x_t + ℓ(C⁻¹ξ)_t with one level ℓ ≠ 0; None elsewhere.

        So it is for levels whose squares floats do not hold.

        With M the form of that plain gossip, the form of this protocol is CᵀMC/ℓ²: C commutes with rounds that are
        all alike.
        """
        if self.updates is not None or self._damping_of(levels=None) is None:
            return None
        (draw,) = self.programs[0].draws
        if (
            len(levels := _values(draw.level)) > 1
            or not LEAST_LEVEL < (level := next(iter(levels))) < 1 / LEAST_LEVEL
        ):
            return None
        fresh = replace(self.programs[0], draws=(replace(draw, level=1),))
        return replace(self, program=fresh, encoder=(1,)), level

    def _damping_of(self, *, levels: set[Fraction] | None) -> PerNode | None:
        """D of s_t = D W s_{t−1} + x_t + u_t with noise of these levels, encoded or not; None for other programs."""
        if self.varies or len(self.programs[0].keeps) != 1:
            return None
        program, weights = self.programs[0], self.schedule[0]
        if len(program.draws) != 1 or len(program.instructions) != 2:
            return None
        (draw,), (kept,), (send, receive) = program.draws, program.keeps, program.instructions
        if not (isinstance(send, Combine) and receive == Exchange(send.into, kept)):
            return None
        terms = dict(send.terms)
        damping = terms.pop(kept, 0)
        fresh = {CONTRIBUTION: {Fraction(1)}, draw.name: {Fraction(1)}}
        if draw.each != "node" or {name: _values(value) for name, value in terms.items()} != fresh:
            return None
        factors = _values(damping)
        holds = all(abs(x) <= 1 and Fraction(float(x)) == x for x in factors)
        matrix = weights.matrix
        averages = (matrix.data >= 0).all() and float(matrix.sum(axis=1).max()) <= AVERAGING
        return damping if levels in (None, _values(draw.level)) and holds and averages else None

    def _plain_only(self) -> PerNode:
        """The coefficients D; an error that says what is missing for any other protocol."""
        if self._gossip_damping is None or self.updates is not None:
            raise InputError(
                f"this is worked out for plain gossip (one fixed W, noise of level 1 with each contribution); got the "
                f"protocol {self.name!r}: {self.sentence} (the verbs take every protocol)"
            )
        return self._gossip_damping

    @cached_property
    def damping(self) -> np.ndarray | None:
        """D of a plain protocol, one number a node; None where nothing is damped."""
        given = self._plain_only()
        values = np.array([float(x) for x in spread(given, self.n)]) if given != 1 else np.ones(self.n)
        if (values == 1).all():
            return None
        values.flags.writeable = False
        return values

    @cached_property
    def transition(self) -> csr_array:
        """A = D W of a plain protocol: how the messages of one round enter the next."""
        matrix = self.schedule[0].matrix
        if self.damping is None:
            return matrix
        damped = matrix.copy()
        damped.data *= np.repeat(self.damping, np.diff(damped.indptr))
        damped.eliminate_zeros()
        return sparse.csr_array(damped)

    def exact_row(self, i: int) -> dict[int, Fraction]:
        """Row i of A in rationals; a damping counts as the rational that its float is."""
        row = self.schedule[0].exact_row(i)
        if self.damping is None:
            return row
        factor = Fraction(float(self.damping[i]))
        return {j: factor * x for j, x in row.items() if factor}

    @property
    def symmetric(self) -> bool:
        """Whether A is symmetric to the last bit and has no negative entry."""
        even = self.damping is None or bool((self.damping == self.damping[0]).all() and self.damping[0] > 0)
        return self.schedule[0].symmetric and even

    @cached_property
    def damping_hash(self) -> str | None:
        """SHA-256 of the damping; None without one."""
        return None if self.damping is None else hash_of_damping(self.damping)

    @property
    def sentence(self) -> str:
        """The protocol in one sentence."""
        return sentence_of(self.programs, len(self.schedule), self.rounds, self.encoder, self.updates)

    @property
    def each_round(self) -> str:
        """What nodes do in each round, in one sentence that holds for any number of them."""
        return sentence_of(self.programs, len(self.schedule), None, self.encoder, self.updates)

    @property
    def terms(self) -> dict[str, str]:
        """What every output says of the protocol: its name, the program in one sentence, and its hash."""
        return {"protocol": self.name, "program": self.sentence, "protocol_hash": self.hash}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of weights, programs, rounds and encoder, in rationals and independent of spelling and platform."""
        return hash_of_protocol(
            [weights.hash for weights in self.schedule], self.programs, self.rounds, self.code, self.updates
        )

    @cached_property
    def symmetries(self) -> Symmetries:
        """The relabellings of the nodes that leave the protocol as it is: weights, levels, coefficients and slopes."""
        given = [value for program in self.programs for value in program.numbers if isinstance(value, tuple)]
        marks: list[Iterable[Hashable]] = [map(exact, value) for value in given]
        if isinstance(self.updates, Slopes):
            marks += [self.updates.lower.tolist(), self.updates.upper.tolist()]
        return Symmetries(self.schedule, zip(*marks, strict=True) if marks else None)

    @property
    def n(self) -> int:
        """How many nodes take part."""
        return self.schedule[0].n

    @property
    def labels(self) -> Sequence[Hashable]:
        """The nodes' names, in index order."""
        return self.schedule[0].labels

    def index(self, label: Hashable) -> int:
        """The index of the node called `label`."""
        return self.schedule[0].index(label)

    def names(self, indices: np.ndarray) -> np.ndarray:
        """The labels of the nodes at `indices`: an integer array where they fit one, an array of objects otherwise."""
        if isinstance(self.labels, range) and self.labels.stop < 2**63:
            return np.asarray(indices + self.labels.start)
        chosen = [self.labels[i] for i in indices]
        if all(type(label) is int and abs(label) < 2**63 for label in chosen):
            return np.array(chosen, dtype=np.int64)
        names = np.empty(len(chosen), dtype=object)
        names[:] = chosen
        return names


def code_of(encoder: Sequence[Number], rounds: int | None) -> tuple[Fraction, ...]:
    """An encoder in rationals, cut to the rounds if their number is given, without zeros at its end."""
    column = [exact(value) for value in encoder[:rounds]]
    while not column[-1]:
        column.pop()
    return tuple(column)


def sentence_of(
    programs: Sequence[Program],
    matrices: int,
    rounds: int | None,
    encoder: Sequence[Number],
    updates: Slopes | Literal["any"] | None = None,
) -> str:
    """A protocol in one sentence: programs, how many weight matrices take turns, rounds, encoder, maps of training.

    Without `rounds` nothing is said of their number, and the encoder is not cut to it.
    """
    lasting = "" if rounds is None else "; 1 round" if rounds == 1 else f"; {rounds} rounds"
    scheduled = f", {matrices} weight matrices in turn" if matrices > 1 else ""
    several = f", the first of {len(programs)} programs in turn" if len(programs) > 1 else ""
    code = "" if code_of(encoder, rounds) == (Fraction(1),) else f"; noise encoded by {_listed(encoder)}"
    known = "of any kind" if isinstance(updates, str) else f"with slopes in {updates}"
    updated = (
        "" if updates is None else f"; each node also contributes the step of its model by a map {known}"
    )
    return f"{programs[0]}{several}{lasting}{scheduled}{code}{updated}"


def hash_of_protocol(
    weights: Sequence[str],
    programs: Sequence[Program],
    rounds: int,
    code: Sequence[Fraction],
    updates: Slopes | Literal["any"] | None = None,
) -> str:
    """SHA-256 of a protocol, its weights given by their hashes."""
    form: dict[str, object] = {
        "weights": list(weights),
        "programs": [canonical_program(program) for program in programs],
        "rounds": rounds,
        "encoder": [str(value) for value in code],
    }
    if isinstance(updates, Slopes):
        ends = (updates.lower, updates.upper)
        form["updates"] = [[str(Fraction(float(slope))) for slope in end] for end in ends]
    elif updates is not None:
        form["updates"] = updates
    return hashlib.sha256(canonical(form)).hexdigest()


def hash_of_damping(damping: np.ndarray) -> str:
    """SHA-256 of a damping in a platform-independent form."""
    return hashlib.sha256(damping.astype("<f8").tobytes()).hexdigest()


def _values(value: PerNode) -> set[Fraction]:
    """The different rationals among one number or one a node."""
    return {exact(each) for each in (value if isinstance(value, tuple) else (value,))}


def _listed(encoder: Sequence[Number]) -> str:
    """The first few numbers of an encoder."""
    shown = ", ".join(str(value) for value in encoder[:4])
    return f"{shown}, …" if len(encoder) > 4 else shown


def canonical_program(program: Program) -> dict[str, Any]:
    """A program as plain data in which every number is a rational written out."""

    def numbers(value: PerNode) -> object:
        return [str(exact(each)) for each in value] if isinstance(value, tuple) else str(exact(value))

    form = program.to_json()
    form["draws"] = [
        {**entry, "level": numbers(draw.level)}
        for entry, draw in zip(form["draws"], program.draws, strict=True)
    ]
    form["instructions"] = [
        {**entry, "terms": {name: numbers(value) for name, value in step.terms.items()}}
        if isinstance(step, Combine)
        else entry
        for entry, step in zip(form["instructions"], program.instructions, strict=True)
    ]
    return form


def _checked_weights(weights: object) -> GossipWeights | tuple[GossipWeights, ...]:
    """Gossip weights, or a tuple of them on the same nodes."""
    if not isinstance(weights, tuple | list):
        return as_weights(weights)
    schedule = tuple(map(as_weights, weights))
    if not schedule:
        raise InputError("weights must hold at least one matrix; got an empty schedule")
    for later in schedule:
        if list(later.labels) != list(schedule[0].labels):
            raise InputError(
                f"the weights of a schedule must be on the same nodes; got {schedule[0].n} nodes and {later.n} "
                "(give every round the same nodes in the same order; a node that is away keeps its own value)"
            )
    return schedule if len(schedule) > 1 else schedule[0]


def _check_lengths(program: Program, n: int) -> None:
    """Refuse levels and coefficients whose number is not that of the nodes."""
    given = [(f"the level of the draw {draw.name!r}", draw.level) for draw in program.draws]
    for step in program.instructions:
        if isinstance(step, Combine):
            given += [
                (f"the coefficient of {name!r} in {step.into!r}", value) for name, value in step.terms.items()
            ]
    for name, value in given:
        if isinstance(value, tuple) and len(value) != n:
            raise InputError(
                f"{name} must be one number for all nodes or one for each of the {n} nodes; got {len(value)} "
                "(give one a node, in index order)"
            )


def _check_name(name: object) -> None:
    """Refuse a name that cannot be shown: outputs of every kind print it."""
    if not (isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= LONGEST_NAME):
        shown = name[:LONGEST_NAME] if isinstance(name, str) else name
        raise InputError(
            f"the name of a protocol must be text of 1 to {LONGEST_NAME} printable characters; got {shown!r} "
            '(as in name="mine")'
        )


def _checked_encoder(encoder: object) -> tuple[Number, ...]:
    """The first column of an invertible Toeplitz matrix."""
    if isinstance(encoder, str | Set | Mapping) or not hasattr(encoder, "__iter__"):
        raise InputError(
            f"encoder must be a tuple of numbers, the first column of C in order; got {encoder!r} (write (1, 0.5))"
        )
    column = tuple(plain_number(value, "each number of the encoder") for value in encoder)
    if not column or not exact(column[0]):
        raise InputError(
            f"the encoder must begin with a number other than 0, or C has no inverse; got {column!r} "
            "((1,) leaves the noise as it is drawn)"
        )
    return column
