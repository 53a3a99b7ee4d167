# SPDX-License-Identifier: Apache-2.0
"""A round of a program read backwards, in floats: Aᵀ, Bᵀ and B_xᵀ without ever forming them.

With s_t = (what is kept before round t, its draws, its contributions) a round keeps A_s s_t, and every message is a
row of s_t. A row that reads what is kept after a round is carried back through the instructions, last one first,
and comes out as a row that reads s_t: one pass gives all three products. Rounds of a schedule that repeats after p
rounds are read as one round of p slots, so that powers of one map serve every schedule.

    Combine  into = Σ_k a_k · source_k :   read(source_k) += a_k · read(into),   read(into) = 0 before;
    Exchange into = W · message        :   read(message) += Wᵀ · read(into),     read(into) = 0 before.

The products are in floats; `units` bounds how far, and `sottovoce.krylov.measured_defect` counts it.

Source: docs/mathematics.md, section 6; reading a program backwards is reverse differentiation of a linear map.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce.filtering.lines import entries, size_sums
from sottovoce.filtering.rational_rows import near_float
from sottovoce.protocols import CONTRIBUTION, GIVEN, STATE, Combine, edges_of, exact, spread
from sottovoce.rounding import roundings, slightly_above

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sottovoce.filtering.decorrelation import SeenView
    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import PerNode, Program, Protocol

__all__ = ["Backward", "BackwardRound", "backward", "reached_nodes"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BackwardRound:
    """One round, as seen by an observer that knows the draws and contributions of the nodes `known`.

    s has `kept` numbers (register by register, n each), then `drawn` numbers, then n contributions. `known` holds
    node indices.
    """

    weights: GossipWeights
    program: Program
    known: np.ndarray

    @property
    def kept(self) -> int:
        """How many numbers are kept."""
        return self.weights.n * len(self.program.keeps)

    @cached_property
    def draws(self) -> dict[str, csr_array]:
        """What each draw adds at the nodes, one column a number drawn; those of known nodes are left at 0.

        A draw of a node is its level on the diagonal. One of an edge is added at its first end and taken off at the
        other, and is known if either end is.
        """
        n, hidden = self.weights.n, np.ones(self.weights.n)
        hidden[self.known] = 0.0
        added = {}
        for draw in self.program.draws:
            level = _floats(draw.level, n)
            if draw.each == "node":
                added[draw.name] = _diagonal(level * hidden)
            else:
                ends, count = self._ends, len(self._ends)
                sizes = level[0] * hidden[ends[:, 0]] * hidden[ends[:, 1]]
                places = (ends.T.ravel(), np.tile(np.arange(count), 2))
                added[draw.name] = sparse.csr_array(
                    (np.concatenate([sizes, -sizes]), places), shape=(n, count)
                )
        return added

    @cached_property
    def _ends(self) -> np.ndarray:
        """The two ends of every edge."""
        return np.array(edges_of(self.weights), dtype=np.int64).reshape(-1, 2)

    @cached_property
    def drawn(self) -> int:
        """How many numbers are drawn."""
        return sum(matrix.shape[1] for matrix in self.draws.values())

    @property
    def size(self) -> int:
        """The length of s."""
        return self.kept + self.drawn + self.weights.n

    def place(self, key: int) -> int:
        """Where a column of an exact row stands in s; contributions are those of the round itself."""
        if key < STATE:
            return self.kept + key
        return key - STATE if key < GIVEN else self.kept + self.drawn + key - GIVEN

    @cached_property
    def _steps(self) -> list[tuple[str, str | dict[str, np.ndarray]]]:
        """(into, message) of every exchange and (into, coefficients) of every combination, last one first.

        Backwards an exchange x = W y reads Wᵀ of what is read of x, and a combination hands on what is read of its
        result to each of its terms, so that the last instruction comes first. Coefficients are floats of shape (n,
        1), rounded once.
        """
        n = self.weights.n
        return [
            (step.into, {name: _floats(value, n)[:, None] for name, value in step.terms.items()})
            if isinstance(step, Combine)
            else (step.into, step.message)
            for step in reversed(self.program.instructions)
        ]

    @cached_property
    def _mixing(self) -> csr_array:
        """Wᵀ."""
        matrix = self.weights.matrix
        return matrix if self.weights.symmetric else sparse.csr_array(matrix.T)

    @cached_property
    def _heard(self) -> csr_array:
        """Where Wᵀ is not 0."""
        return self._mixing != 0

    def touched(self, kept: np.ndarray) -> np.ndarray:
        """Which entries of s reach one of the `kept` numbers after the round, by the pattern of the program.

        Guarantee: none is missed, however small: coefficients and levels are compared with 0 as rationals, and nothing
        is multiplied. Some may be named that cancel in exact numbers.
        """
        n = self.weights.n
        hidden = np.ones(n, dtype=bool)
        hidden[self.known] = False
        read = {name: kept[r * n : (r + 1) * n] for r, name in enumerate(self.program.keeps)}
        for step in reversed(self.program.instructions):
            given = read.pop(step.into, None)
            if given is None:
                continue
            sources = (
                {name: _present(value, n) & given for name, value in step.terms.items()}
                if isinstance(step, Combine)
                else {step.message: self._heard @ given}
            )
            for name, reached in sources.items():
                read[name] = read.get(name, False) | reached
        nothing = np.zeros(n, dtype=bool)
        parts = [read.get(name, nothing) for name in self.program.keeps]
        for draw in self.program.draws:
            at = read.get(draw.name, nothing) & _present(draw.level, n)
            if draw.each == "node":
                parts.append(at & hidden)
            else:
                first, second = self._ends.T
                parts.append((at[first] | at[second]) & hidden[first] & hidden[second])
        return np.concatenate([*parts, read.get(CONTRIBUTION, nothing) & hidden])

    def before(self, block: np.ndarray) -> np.ndarray:
        """Columns that read what is kept after the round, as columns that read s.

        Guarantee: within `units` units of roundoff of A_sᵀ times the column, in norm.
        """
        n = self.weights.n
        read = {name: block[r * n : (r + 1) * n] for r, name in enumerate(self.program.keeps)}
        for into, source in self._steps:
            # An instruction sets `into` anew, so that nothing before it is read through that name.
            given = read.pop(into, None)
            if given is None:
                continue
            if isinstance(source, str):
                _add(read, source, np.asarray(self._mixing @ given))
                continue
            for name, factors in source.items():
                _add(read, name, factors * given)
        nothing = np.zeros((n, block.shape[1]))
        parts = [read.get(name, nothing) for name in self.program.keeps]
        for name, added in self.draws.items():
            parts.append(np.asarray(added.T @ read.get(name, nothing)))
        given = np.array(read.get(CONTRIBUTION, nothing))
        given[self.known] = 0.0
        return np.vstack([*parts, given])

    def source_norms(self, order: float) -> list[float]:
        """Bounds of the norms of what a kept register, a draw or a contribution puts at the nodes.

        Guarantee: upper bounds, in the norm of this order.
        """
        draws = [_norm(matrix, order) for matrix in self.draws.values()]
        return [1.0] * len(self.program.keeps) + draws + [1.0]

    def norms(self, mixing: float, order: float) -> np.ndarray:
        """Bounds of the norms of the blocks of A_s: kept registers by (kept registers, draws, contribution).

        `mixing` is that of W in the same norm, `order` 1, 2 or infinity. Products and sums of blocks have at most
        the products and sums of their norms.

        Guarantee: upper bounds up to the rounding of a few products.
        """
        return np.asarray(self.symbols(np.array([mixing]), order, sizes=True)[0])

    def symbols(self, points: np.ndarray, order: float, *, sizes: bool = False) -> np.ndarray:
        """The blocks of A_s with numbers for W, (points, kept registers, sources), draws with their norms.

        A coefficient that differs between nodes counts with its largest size, and so do all with `sizes`. A is Σ_k
        A_k ⊗ Wᵏ where none differs; at an eigenvalue λ of W the block is Σ_k A_k λᵏ, and `points` are such λ.
        """
        names = [*self.program.keeps, *self.draws, CONTRIBUTION]
        units = np.diag(self.source_norms(order))
        held = {name: np.tile(unit, (len(points), 1)) for name, unit in zip(names, units, strict=True)}
        for step in self.program.instructions:
            if isinstance(step, Combine):
                total = np.zeros((len(points), len(names)))
                for name, value in step.terms.items():
                    factors = _floats(value, self.weights.n)
                    plain = not sizes and (factors == factors[0]).all()
                    total = total + (factors[0] if plain else np.abs(factors).max()) * held[name]
                held[step.into] = total
            else:
                held[step.into] = points[:, None] * held[step.message]
        return np.stack([held[name] for name in self.program.keeps], axis=1)

    @cached_property
    def units(self) -> float:
        """How many units of roundoff `before` errs by at most, in norm, for a column of norm 1.

        Every instruction rounds in proportion to what it adds up in size, so that the sum of their terms times the
        norm of the map with absolute values bounds all of them. Weights count twice: as floats of the exact ones,
        too.

        Guarantee: upper bound, to first order in u.
        Source: Higham, *Accuracy and Stability*, Section 3.5, instruction by instruction.
        """
        row = int(np.diff(self._mixing.indptr).max(initial=1))
        column = int(np.diff(self.weights.matrix.indptr).max(initial=1))
        terms = 8 + sum(
            3 + (len(source) if isinstance(source, dict) else row + column + 2) for _, source in self._steps
        )
        edges = max(
            (int(np.bincount(each.indices).max(initial=1)) for each in self.draws.values()), default=1
        )
        return (terms + edges) * self._size

    @property
    def stored_units(self) -> float:
        """The part of `units` that is there before anything is rounded: weights, levels and coefficients as floats.

        Guarantee: upper bound, to first order in u: each instruction has one such factor, and so has a draw.
        """
        return (len(self._steps) + 2) * self._size

    @cached_property
    def _size(self) -> float:
        """A bound of the norm of the map with absolute values, at least 1."""
        mixing = float(np.sqrt(_norm(self._mixing, 1) * _norm(self._mixing, np.inf)))
        return max(1.0, float(np.linalg.norm(self.norms(max(1.0, mixing), 2))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Backward:
    """A_sᵀ of a schedule, one slot for each of the rounds after which it repeats: what `krylov` multiplies with.

    A column has one part a slot; a product moves the part of slot k + 1 into slot k. So the powers of this one map
    on a row of slot k are the products of the rounds before it, in their order. What is kept before a round without
    being part of its state is `left_out`, indices for each slot.
    """

    rounds: tuple[BackwardRound, ...]
    left_out: tuple[np.ndarray, ...] | None = None

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each slot begins; the last entry is the size of all."""
        return np.cumsum([0, *(each.size for each in self.rounds)])

    @property
    def slots(self) -> list[slice]:
        """Where each slot is."""
        return [slice(int(a), int(b)) for a, b in pairwise(self.starts)]

    def slot(self, round_index: int) -> tuple[BackwardRound, int]:
        """The round with this 0-based index, and where its slot begins."""
        place = round_index % len(self.rounds)
        return self.rounds[place], int(self.starts[place])

    @property
    def units(self) -> float:
        """How many units of roundoff a product errs by at most, in norm, for a column of norm 1.

        Guarantee: an upper bound.
        """
        return max(each.units for each in self.rounds)

    def __matmul__(self, block: np.ndarray) -> np.ndarray:
        """A_sᵀ times columns: what is read of the next round's kept numbers, in the slot before it.

        The vector has a slot for each kind of round, one after the other; multiplying by A_sᵀ moves what stands in
        the slot of the next kind into that of this one. What is left out stays 0 in both.

        Shapes: (sum of the slots' sizes, columns), in and out.
        """
        parts = []
        for k, each in enumerate(self.rounds):
            later = (k + 1) % len(self.rounds)
            begin = int(self.starts[later])
            part = block[begin : begin + each.kept]
            if self.left_out is None:
                parts.append(each.before(part))
                continue
            part = part.copy()
            part[self.left_out[later]] = 0.0
            parts.append(each.before(part))
            parts[-1][self.left_out[k]] = 0.0
        return np.vstack(parts)


def backward(
    protocol: Protocol, known: np.ndarray, left_out: tuple[np.ndarray, ...] | None = None
) -> Backward:
    """The rounds of a protocol read backwards, by an observer that knows what the nodes `known` draw.

    Guarantee: in plain floats; that what it makes is close to the true loop is measured by whoever builds a space on
    it.
    """
    made = [protocol.round_of(t) for t in range(protocol.period)]
    return Backward(
        rounds=tuple(
            BackwardRound(weights=weights, program=program, known=known) for weights, program in made
        ),
        left_out=left_out,
    )


def reached_nodes(protocol: Protocol, view: SeenView) -> np.ndarray:
    """Which nodes' contributions touch a row at all, decided on the pattern of the program; M of others is 0.

    The pattern runs backwards from the rows: what a row reads, what that is made of, and so on to contributions.

    Guarantee: False is a proof that M of the node is 0; True may stand for numbers that cancel.
    """
    maps = backward(protocol, np.array(sorted(view.rounds[0].known), dtype=np.int64))
    hit = np.zeros(protocol.n, dtype=bool)
    period, reads = protocol.period, list[np.ndarray]()
    patterns: dict[int, np.ndarray] = {}
    for t in range(len(view.rounds) - 1, -1, -1):
        seen, (each, _) = view.rounds[t], maps.slot(t)
        if id(seen) not in patterns:
            patterns[id(seen)] = np.zeros(each.size, dtype=bool)
            for form in seen.rows:
                for key in form:
                    # What is contributed a rounds later is column a·n + j.
                    place = key if key < GIVEN else GIVEN + (key - GIVEN) % protocol.n
                    patterns[id(seen)][each.place(place)] = True
        reads.append(patterns[id(seen)] | (each.touched(reads[-1][: each.kept]) if reads else False))
        hit |= reads[-1][each.kept + each.drawn :]
        recurs = len(reads) > period and np.array_equal(reads[-1], reads[-1 - period])
        if recurs and t and view.rounds[t - 1] is view.rounds[t - 1 + period]:
            # From here on nothing new is read but in the first round, which shows what others do.
            break
    return hit


def _add(read: dict[str, np.ndarray], name: str, block: np.ndarray) -> None:
    """Add to what is read of a name."""
    read[name] = read[name] + block if name in read else block


def _floats(value: PerNode, n: int) -> np.ndarray:
    """One float for each node."""
    if isinstance(value, tuple):
        return np.array([near_float(*x.as_integer_ratio()) for x in spread(value, n)])
    return np.full(n, near_float(*exact(value).as_integer_ratio()))


def _diagonal(values: np.ndarray) -> csr_array:
    """These values on the diagonal, of which zeros are not stored."""
    held, n = np.flatnonzero(values), len(values)
    return sparse.csr_array((values[held], held, np.searchsorted(held, np.arange(n + 1))), shape=(n, n))


def _present(value: PerNode, n: int) -> np.ndarray:
    """Where a number of the nodes is not 0, decided exactly."""
    return np.array([x != 0 for x in spread(value, n)])


def _norm(matrix: csr_array, order: float) -> float:
    """‖·‖₁, ‖·‖_∞, or for 2 the root of their product, of a sparse matrix, rounded up.

    Guarantee: upper bounds: a sum of k sizes rounds by at most γ_k of itself, and twice that is added, or more.
    """
    if order == 2:
        return float(np.sqrt(_norm(matrix, 1) * _norm(matrix, np.inf)))
    if matrix.nnz == 0:
        return 0.0
    axis = 0 if order == 1 else 1
    largest, terms = float(size_sums(matrix, axis).max()), int(entries(matrix, axis).max())
    return max(slightly_above(largest), largest * (1 + roundings(2 * (terms + 4))))
