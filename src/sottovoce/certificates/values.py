# SPDX-License-Identifier: Apache-2.0
"""What a certificate says: the protocol, the view, the claim, and the hints that prove it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from sottovoce.certificates.numbers import exact, float_array, freeze, whole_array, written
from sottovoce.certificates.shifts import MovesProof, ShiftProof
from sottovoce.errors import InputError, one_of, positive, probability
from sottovoce.graphs import GossipWeights, check_entries, is_symmetric, quotients, row_indices, uneven_row
from sottovoce.protocols import (
    CONTRIBUTION,
    Combine,
    Draw,
    Exchange,
    Program,
    code_of,
    hash_of_protocol,
    plain_number,
    sentence_of,
)
from sottovoce.views import VIEW_NAMES, assumption_of, training_assumption

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from sottovoce.certificates.numbers import Floats
    from sottovoce.protocols import Contribution, Number, PerNode, Slopes
    from sottovoce.views import Assumption

__all__ = [
    "SCHEMA",
    "Certificate",
    "DenseProof",
    "HorizonProof",
    "Mechanism",
    "Proof",
    "StatedView",
    "StatedWeights",
    "StoredWeights",
]

ExactRows = tuple[tuple[tuple[int, Fraction], ...], ...]

SCHEMA = 3
# Floats count so far without a gap.
MOST_ROUNDS = 2**53
MOST_LABEL_DEPTH = 8
RELATIONS = ("add-remove", "replace-one", "zero-out")


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredWeights:
    """A gossip matrix of exact rationals in compressed rows: what stands off the diagonal, and the diagonal.

    `values` are numbers of a file (see `sottovoce.certificates.numbers`); `diagonal` holds one float a node, or is None
    where each row's is what is left to 1.
    """

    labels: Sequence[Hashable]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    values: Sequence[int | float | str]
    diagonal: Floats | None

    def __post_init__(self) -> None:
        """Refuse arrays that do not describe a matrix without its diagonal."""
        if len(self.labels) < 2:
            raise InputError(f"gossip needs at least 2 nodes; got {len(self.labels)}")
        for label in () if isinstance(self.labels, range) else self.labels:
            check_label(label)
        n = len(self.labels)
        # Out of reach of later changes, as what is read from them is kept.
        labels = self.labels if isinstance(self.labels, range) else tuple(self.labels)
        freeze(self, labels=labels, values=tuple(self.values))
        freeze(self, indptr=whole_array("indptr", self.indptr), indices=whole_array("indices", self.indices))
        if self.indptr.size != n + 1 or self.indptr[0] != 0 or (np.diff(self.indptr) < 0).any():
            raise InputError(f"indptr must have {n + 1} entries for {n} labels, start at 0 and never fall")
        stored = int(self.indptr[-1])
        for name, array in (("indices", self.indices), ("values", self.values)):
            if len(array) != stored:
                raise InputError(f"{name} must have {stored} entries, as indptr says; it has {len(array)}")
        if stored and not 0 <= self.indices.min() <= self.indices.max() < n:
            raise InputError(f"indices must lie between 0 and {n - 1}")
        owners = np.repeat(np.arange(n), np.diff(self.indptr))
        if (owners == self.indices).any():
            raise InputError("indices must leave out the diagonal, which has a field of its own")
        if stored and not ((np.diff(owners) > 0) | (np.diff(self.indices) > 0)).all():
            raise InputError("indices must ascend within each row")
        if self.diagonal is not None:
            freeze(self, diagonal=float_array("diagonal", self.diagonal, 1))
            if self.diagonal.size != n:
                raise InputError(f"diagonal must have {n} entries, one a label; it has {self.diagonal.size}")
            if not all(type(value) is float for value in self.values):
                raise InputError("weights with a diagonal of floats must be floats off it, too")

    @classmethod
    def of(cls, weights: GossipWeights) -> StoredWeights:
        """The stored form of gossip weights."""
        matrix = weights.matrix
        off = row_indices(matrix) != matrix.indices
        values: list[Any] = matrix.data[off].tolist()
        if weights.quotients is not None:
            values = [written(value) for value in weights.quotients.fractions()]
        return cls(
            labels=weights.labels,
            indptr=np.concatenate([[0], np.cumsum(off)])[matrix.indptr],
            indices=matrix.indices[off].astype(np.int64),
            values=values,
            diagonal=None if weights.quotients is not None else matrix.diagonal(),
        )

    def gossip_weights(self, rule: str) -> GossipWeights:
        """The weights themselves, read once; rows or columns must sum to 1, as in a round of gossip or of push-sum."""
        if rule not in self._read:
            self._read[rule] = self._gossip_weights(rule)
        return self._read[rule]

    @cached_property
    def _read(self) -> dict[str, GossipWeights]:
        """The weights that were asked for, by their rule: a proof asks several times, and for their hash."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """What a copy is made from: it reads its weights itself, since arrays that are copied can be changed."""
        return {name: part for name, part in self.__dict__.items() if name != "_read"}

    def _gossip_weights(self, rule: str) -> GossipWeights:
        """The same, worked out."""
        n = len(self.labels)
        numbers = [exact("a weight", value) for value in self.values]
        if not all(0 < number <= 1 for number in numbers):
            raise InputError(
                "weights off the diagonal must lie above 0 and not above 1 (leave out what is 0)"
            )
        parts = (number.numerator for number in numbers), (number.denominator for number in numbers)
        held = quotients(*(np.array(list(part), dtype=object) for part in parts))
        off = sparse.csr_array((held.rounded(), self.indices, self.indptr), shape=(n, n))
        if self.diagonal is None:
            spans = itertools.pairwise(self.indptr.tolist())
            kept = np.array([float(1 - sum(numbers[a:b])) for a, b in spans])
        else:
            kept = np.asarray(self.diagonal)
        matrix = sparse.csr_array(off + sparse.dia_array((kept[np.newaxis], [0]), shape=(n, n)).tocsr())
        matrix.eliminate_zeros()
        check_entries(matrix, self.labels, "gossip weights")
        uneven = uneven_row(matrix)
        if uneven is not None and uneven_row(sparse.csr_array(matrix.T)) is not None:
            raise InputError(
                f"gossip weights must have rows, or columns, that sum to 1; row {self.labels[uneven[0]]!r} sums to "
                f"{uneven[1]:.12g}"
            )
        for part in (matrix.data, matrix.indices, matrix.indptr):
            part.flags.writeable = False
        return GossipWeights(
            matrix=matrix,
            labels=self.labels,
            rule=rule,
            symmetric=is_symmetric(matrix),
            quotients=None if self.diagonal is not None else held,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class StatedWeights:
    """The weights of a round: their hash, which decides; how they are said to have been built; and themselves, or None.

    `matrix` is None where the network is large.
    """

    hash: str
    rule: str
    matrix: StoredWeights | None

    def __post_init__(self) -> None:
        """Refuse words that are none."""
        for name in ("hash", "rule"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"the {name} of weights must be text; got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class StatedView:
    """A view by name, with its observers; or, for a custom one, its rows in rationals and the nodes of known noise.

    A row is a tuple of pairs (index of a node, number). `exchanges` are those of a round that are seen, counted from 1;
    None says all.
    """

    name: str
    observers: tuple[Hashable, ...] = ()
    own_noise: str = "known"
    rows: ExactRows = ()
    known_noise: tuple[Hashable, ...] = ()
    exchanges: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a name that is none, and fields that belong to another kind of view."""
        if self.exchanges is not None and (
            not self.exchanges
            or not all(type(number) is int and number > 0 for number in self.exchanges)
            or sorted(set(self.exchanges)) != list(self.exchanges)
        ):
            raise InputError(
                f"exchanges of a view must be ascending whole numbers from 1 on, or null for all; got "
                f"{str(list(self.exchanges))[:60]}"
            )
        one_of(("custom", *VIEW_NAMES), view=self.name)
        one_of(("known", "hidden"), own_noise=self.own_noise)
        for label in (*self.observers, *self.known_noise):
            check_label(label)
        if self.name == "everyone" and (self.observers or self.own_noise != "known"):
            raise InputError("the everyone view has no observers and no noise of its own")
        check_rows(self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseProof:
    """Hints for a claim that is rebuilt whole: y with diag(y) ⪰ M, and a witness with one row a round.

    Without y the upper end is the number of rounds, without a witness the lower end is 0.
    """

    y: Floats | None = None
    witness: Floats | None = None
    kind: Literal["dense"] = "dense"

    def __post_init__(self) -> None:
        """Bring the arrays into form."""
        if self.y is not None:
            freeze(self, y=float_array("y", self.y, 1))
        if self.witness is not None:
            given = np.asarray(self.witness) if isinstance(self.witness, np.ndarray) else self.witness
            flat = isinstance(given, np.ndarray) and given.ndim == 1
            freeze(self, witness=float_array("witness", given[:, None] if flat else given, 2))

    @property
    def method(self) -> str:
        """The name of what the upper end rests on."""
        return "cap" if self.y is None else "dual"


@dataclass(frozen=True, kw_only=True, eq=False)
class HorizonProof:
    """Hints for a claim on very many rounds: y_1..y_τ as `start`, and the constant `rate` of every later round."""

    start: Floats
    rate: float
    kind: Literal["horizon"] = "horizon"

    def __post_init__(self) -> None:
        """Bring the numbers into form."""
        freeze(self, start=float_array("start", self.start, 1), rate=_number("rate", self.rate))
        if (self.start < 0).any():
            raise InputError("start must hold no negative number")
        positive(rate=self.rate)

    @property
    def method(self) -> str:
        """The name of what the upper end rests on."""
        return "horizon"


Proof = DenseProof | HorizonProof | ShiftProof | MovesProof
"""What proves a claim, by its kind."""


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """What turns a sensitivity into an (ε, δ): noise in units of the clipping norm, δ, neighbouring relation."""

    noise_multiplier: float
    delta: float
    relation: str = "add-remove"

    def __post_init__(self) -> None:
        """Refuse numbers on which no guarantee stands."""
        freeze(self, noise_multiplier=_number("noise_multiplier", self.noise_multiplier))
        positive(noise_multiplier=self.noise_multiplier)
        probability(delta=self.delta)
        one_of(RELATIONS, relation=self.relation)


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """A claim on the squared sensitivity Δ² of one target towards one observer, and the hints that prove it.

    The claim is squared_lower ≤ Δ² ≤ squared_upper in units in which a contribution moves by at most 1 in each round
    that `participation` allows, or by at most 1 in energy over all of them. The protocol is its weights (their hash,
    and the rationals themselves unless the network is large), its `program`, `rounds` and `encoder`. `rule` is how the
    weights are said to have been built, for whoever has to build them again: the hash decides. In a schedule these are
    the weights of the first round, and `further` those of the next ones until it repeats; a tuple of programs takes
    turns, too. `mechanism` is there if an (ε, δ) is asked for. With `updates` it is training: the slopes of every
    node's map, or "any", and a proof of kind shift or moves; one of kind dense is then about an observer that hears
    every message.
    """

    weights_hash: str
    rule: str
    weights: StoredWeights | None
    further: tuple[StatedWeights, ...] = ()
    program: Program | tuple[Program, ...]
    rounds: int
    encoder: tuple[Number, ...] = (1,)
    view: StatedView
    target: Hashable
    contribution: Contribution
    participation: str
    squared_lower: float
    squared_upper: float
    proof: Proof
    mechanism: Mechanism | None = None
    updates: Slopes | Literal["any"] | None = None

    def __post_init__(self) -> None:
        """Refuse a certificate that contradicts itself."""
        one_of(("vector", "scalar", "energy"), contribution=self.contribution)
        for name in ("weights_hash", "participation", "rule"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} must be text; got {getattr(self, name)!r}")
        if type(self.rounds) is not int or not 1 <= self.rounds <= MOST_ROUNDS:
            raise InputError(f"rounds must be a whole number from 1 to {MOST_ROUNDS}; got {self.rounds!r}")
        if not self.programs or not all(isinstance(program, Program) for program in self.programs):
            raise InputError(f"program must be a Program, or a tuple of them; got {str(self.program)[:60]}")
        # Out of reach of later changes, as what follows from the protocol is kept.
        freeze(self, further=tuple(self.further))
        encoder = tuple(plain_number(number, "each number of the encoder") for number in self.encoder)
        if not encoder or not Fraction(encoder[0]):
            raise InputError("encoder must begin with a number other than 0")
        freeze(self, encoder=encoder)
        check_label(self.target)
        for name in ("squared_lower", "squared_upper"):
            freeze(self, **{name: _number(name, getattr(self, name))})
        if not 0 <= self.squared_lower <= self.squared_upper:
            raise InputError(
                f"the claim needs 0 ≤ lower ≤ upper; got {self.squared_lower!r} and {self.squared_upper!r}"
            )
        if isinstance(self.proof, ShiftProof | MovesProof) and self.updates is None:
            raise InputError(
                f"a proof of kind {self.proof.kind} speaks of training, with updates; there are none"
            )
        if self.updates is not None and not self._about_training:
            raise InputError(
                "training, with updates, needs a proof of kind shift or moves, or one of kind dense without a witness, "
                f"as if every message were heard; got kind {self.proof.kind}"
            )
        if self.updates is not None and self.contribution != "vector":
            raise InputError(f"contributions to training are vectors; got {self.contribution!r}")
        if self.contribution == "energy" and not isinstance(self.proof, DenseProof):
            raise InputError("a claim about contributions of bounded energy needs a proof of kind dense")
        if isinstance(self.proof, DenseProof):
            for name in ("y", "witness"):
                array = getattr(self.proof, name)
                if array is not None and array.shape[0] != self.rounds:
                    raise InputError(
                        f"{name} must have one entry for each of the {self.rounds} rounds; it has {len(array)}"
                    )
        elif isinstance(self.proof, HorizonProof) and self.proof.start.size >= self.rounds:
            raise InputError(
                f"the start of {self.proof.start.size} rounds must be shorter than the horizon of {self.rounds}"
            )

    @property
    def _about_training(self) -> bool:
        """Whether the proof is one that speaks of training."""
        return isinstance(self.proof, ShiftProof | MovesProof) or (
            isinstance(self.proof, DenseProof) and self.proof.witness is None
        )

    @property
    def as_heard(self) -> bool:
        """Whether this is about training and proved as if the observer heard every message, whatever the maps."""
        return self.updates is not None and isinstance(self.proof, DenseProof)

    @property
    def schedule(self) -> tuple[StatedWeights, ...]:
        """The weights of rounds 1, 2, …, which repeat."""
        first = StatedWeights(hash=self.weights_hash, rule=self.rule, matrix=self.weights)
        return first, *self.further

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of rounds 1, 2, …, which repeat."""
        return self.program if isinstance(self.program, tuple) else (self.program,)

    @cached_property
    def damping(self) -> PerNode | None:
        """D of s_t = D W s_{t−1} + x_t + u_t where the protocol is plain gossip; None of any other."""
        alike = not self.further and code_of(self.encoder, self.rounds) == (Fraction(1),)
        return _gossip_damping(self.programs) if alike else None

    @property
    def noise(self) -> PerNode | None:
        """The level of the noise where the program is undamped gossip, whatever that level; None of any other."""
        program = self.programs[0]
        if len(program.draws) != 1 or len(self.programs) > 1:
            return None
        even = replace(program, draws=(replace(program.draws[0], level=1),))
        factor = replace(self, program=even).damping
        plain = factor is not None and not isinstance(factor, tuple) and Fraction(factor) == 1
        return program.draws[0].level if plain else None

    @property
    def sentence(self) -> str:
        """The protocol in one sentence."""
        return sentence_of(self.programs, len(self.schedule), self.rounds, self.encoder, self.updates)

    @property
    def protocol_hash(self) -> str:
        """The hash of the protocol, as accounts name it."""
        code = code_of(self.encoder, self.rounds)
        weights = [each.hash for each in self.schedule]
        return hash_of_protocol(weights, self.programs, self.rounds, code, self.updates)

    @property
    def assumption(self) -> Assumption:
        """What a claim of this kind rests on: nothing where all messages are seen, else how contributions arise."""
        if self.updates is not None:
            return "none" if self.as_heard else training_assumption([self.proof.method])
        damping = self.damping
        if damping is None:
            return "oblivious"
        several = damping if isinstance(damping, tuple) else (damping,)
        return assumption_of(self.view.name, None if all(Fraction(x) == 1 for x in several) else damping)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form: what the file carries as its `hash`."""
        from sottovoce.certificates.files import document_of, hash_of

        return hash_of(document_of(self))


def _gossip_damping(programs: tuple[Program, ...]) -> PerNode | None:
    """The factor on the model of the one program of gossip, message = D·model + contribution + u; None of any other."""
    program = programs[0]
    if len(programs) > 1 or len(program.keeps) != 1 or len(program.draws) != 1:
        return None
    send, (kept,), (draw,) = program.instructions[0], program.keeps, program.draws
    if not isinstance(send, Combine) or kept not in send.terms:
        return None
    damping = send.terms[kept]
    gossip = Program(
        keeps=(kept,),
        draws=(Draw(draw.name),),
        instructions=(
            Combine(send.into, {kept: damping, CONTRIBUTION: 1, draw.name: 1}),
            Exchange(send.into, kept),
        ),
        model=program.model,
    )
    return damping if program == gossip else None


def check_rows(rows: ExactRows) -> None:
    """Refuse rows that do not name ascending node indices."""
    for row in rows:
        columns = [j for j, _ in row]
        if not all(type(j) is int and j >= 0 for j in columns) or sorted(set(columns)) != columns:
            raise InputError(f"the rows of a view must name ascending node indices; got {columns[:20]}")


def check_label(label: object, depth: int = 0) -> None:
    """Refuse a node's name that a file cannot hold."""
    if isinstance(label, tuple) and depth < MOST_LABEL_DEPTH:
        for part in label:
            check_label(part, depth + 1)
        return
    if not (
        label is None
        or isinstance(label, bool | int | str)
        or (isinstance(label, float) and bool(np.isfinite(label)))
    ):
        raise InputError(
            "a node's name in a certificate must be text, a number or a tuple of such, at most "
            f"{MOST_LABEL_DEPTH} deep; got {repr(label)[:60]} (rename the nodes)"
        )


def _number(name: str, value: object) -> float:
    """A finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError(f"{name} must be a finite number; got {value!r}")
    try:
        result = float(value)
    except OverflowError:
        result = np.inf
    if not np.isfinite(result):
        raise InputError(f"{name} must be a finite number; got {value!r}")
    return result
