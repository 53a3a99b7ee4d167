# SPDX-License-Identifier: Apache-2.0
"""Messages as whole multiples of a power of two, and what that costs: proved in docs/proofs/grid.md.

A node that received the sum Y of weighted messages holds q = round(Y/d) and sends q + round(x(q)) + u, in units, with
noise u from `noise.rounded_gaussian`: each term is put on the grid before they are added, so that noise shifts by whole
numbers. An observer of whole sums then learns no more than one of a Gaussian view whose sensitivity is larger by
`grid_excess`. Noise that is rounded together with what it hides has no such proof.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, NotCertified, at_least, positive
from sottovoce.peers.noise import MOST_DEVIATION, rounded_gaussian
from sottovoce.peers.rounding import few_above, summed_above
from sottovoce.peers.whole import program_reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sottovoce.protocols import Program

__all__ = [
    "Grid",
    "Messages",
    "RoundSight",
    "chosen_grid",
    "covering_radius",
    "grid_excess",
    "largest_value",
    "mixed",
    "schedule_excess",
    "view_excess",
]

# A noise beyond this many standard deviations is counted as overflow: its probability is below 2^-1150.
_TAIL = 40


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Multiples of 2^-exponent.

    >>> grid = Grid(exponent=3)
    >>> grid.whole(np.array([0.3, -1.0])).tolist(), grid.unit
    ([2, -8], 0.125)
    """

    exponent: int

    @property
    def unit(self) -> float:
        """What one step of the grid is worth."""
        return math.ldexp(1.0, -self.exponent)

    def whole(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Values in units of the grid, each rounded to the nearest; scaling by a power of two is exact."""
        scaled = np.rint(np.ldexp(values, self.exponent))
        if not bool(np.all(np.abs(scaled) < 2.0**62)):
            raise InputError(
                f"values must be finite and below 2^62 units of 2^-{self.exponent} (use a coarser grid)"
            )
        return scaled.astype(np.int64)

    def real(self, whole: NDArray[np.int64], denominator: int = 1) -> NDArray[np.float64]:
        """What units of the grid, over a denominator, are worth."""
        return np.ldexp(whole / denominator, -self.exponent)

    def units(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Values that lie on the grid, in its units; one that does not is refused, for then noise was not whole."""
        found = self.whole(values)
        if not np.array_equal(np.ldexp(found.astype(np.float64), -self.exponent), values):
            raise InputError(
                f"values must be multiples of 2^-{self.exponent} (put contributions and noise on the grid, each for "
                "itself, before they are added)"
            )
        return found

    def noise(self, count: int, *, noise_std: float) -> NDArray[np.float64]:
        """Fresh Gaussian noise that lies on the grid, with this standard deviation rounded up to a unit."""
        drawn = rounded_gaussian(count, deviation=self.deviation(noise_std))
        return np.ldexp(drawn.astype(np.float64), -self.exponent)

    def deviation(self, noise_std: float) -> int:
        """The standard deviation of noise in units of the grid: rounded up, so that there is never less of it."""
        positive(noise_std=noise_std)
        found = math.ceil(Fraction(noise_std) * Fraction(2) ** self.exponent)
        if found > MOST_DEVIATION:
            raise InputError(
                f"noise must be at most 2^48 units of the grid; {noise_std} is {found} of 2^-{self.exponent} (use a "
                "coarser grid)"
            )
        return found


def mixed(total: NDArray[np.int64], denominator: int) -> NDArray[np.int64]:
    """A sum over the weights' denominator, rounded to the nearest whole number; halves go up. Exact.

    >>> mixed(np.array([7, 8, -7, -8, 6]), 4).tolist()
    [2, 2, -2, -2, 2]
    """
    at_least(1, denominator=denominator)
    whole, rest = np.divmod(total, np.int64(denominator))
    return whole + (rest >= denominator - rest)


def covering_radius(rows: Sequence[Sequence[int]], *, nodes: int) -> float:
    """How far a real vector that rows do not see can be from a whole one that they do not see either, at most.

        ρ ≤ ½ √(Σ‖b_i‖²),   b_1, b_2, … independent whole vectors that span the kernel of the rows

    **Guarantee**: upper bound of the covering radius of {e ∈ Zⁿ : rows · e = 0} within its span. **Source**: Babai 1986
    (the nearest plane misses by at most ½ of each Gram–Schmidt length).

    >>> covering_radius([[1, 1, 1, 0]], nodes=4) < 1.12, covering_radius([[1, 0], [0, 1]], nodes=2)
    (True, 0.0)
    """
    if any(len(row) != nodes for row in rows):
        raise InputError(f"a row must have one whole number a node, {nodes} in all")
    columns = list(zip(*rows, strict=True)) if rows else [()] * nodes
    kinds = sorted(set(columns))
    # Nodes that are seen alike: their differences are unseen, of squared length 2; who is not seen at all moves alone.
    squares = sum(2 * (columns.count(kind) - 1) if any(kind) else columns.count(kind) for kind in kinds)
    kinds = [kind for kind in kinds if any(kind)]
    basis = _kernel([[kind[row] for kind in kinds] for row in range(len(rows))], len(kinds))
    squares += sum(int(vector @ vector) for vector in basis)
    return few_above(math.sqrt(squares) / 2)


def _kernel(rows: Sequence[Sequence[int]], size: int) -> list[NDArray[np.object_]]:
    """A basis of the whole vectors that rows do not see: Euclid's algorithm on what a row sees of the basis so far."""
    basis = list(np.eye(size, dtype=object))
    for row in rows:
        seen = [int(np.dot(row, vector)) for vector in basis]
        while np.count_nonzero(seen) > 1:
            most, second = sorted(range(len(seen)), key=lambda index: -abs(seen[index]))[:2]
            times = round(Fraction(seen[most], seen[second]))
            basis[most] = basis[most] - times * basis[second]
            seen[most] -= times * seen[second]
        basis = [vector for vector, value in zip(basis, seen, strict=True) if not value]
    return _reduced(basis)


def _reduced(vectors: list[NDArray[np.object_]]) -> list[NDArray[np.object_]]:
    """Shorter vectors of the same lattice: each is freed of whole multiples of the others while that shortens it."""
    shorter = True
    while shorter:
        shorter = False
        for index in range(len(vectors)):
            for other in (*vectors[:index], *vectors[index + 1 :]):
                vector = vectors[index]
                moved = vector - round(Fraction(int(vector @ other), int(other @ other))) * other
                if moved @ moved < vector @ vector:
                    vectors[index], shorter = moved, True
    return vectors


def grid_excess(
    radii: Sequence[float], *, hidden: int, dimension: int, gain: float = 1.0, lipschitz: float = 1.0
) -> float:
    """By how much a run on whole numbers is more sensitive than a real one, in units of the grid.

        √dimension · √Σ_t (ρ_t + lipschitz·(gain·ρ_{t−1} + √hidden) + √hidden)²,   ρ_0 = 0

    with ρ_t the covering radius of what the view of round t leaves unseen, `hidden` the number of nodes whose input or
    message may be rounded otherwise, `gain` a bound of the norm of the weights among hidden nodes (1 if they are doubly
    stochastic) and `lipschitz` one of how messages stretch differences of what was received (1 for averaging; 0, with
    hidden = 1, where nobody's input moves).

    **Guarantee**: with Δ·clip for the real view, the view on the grid is μ-GDP with
    μ = (Δ·clip + unit·excess)/noise_std. **Source**: docs/proofs/grid.md.

    >>> round(grid_excess([1.0] * 100, hidden=7, dimension=1000), 1)
    2302.8
    """
    at_least(1, hidden=hidden, dimension=dimension)
    slack = math.sqrt(hidden)
    before = [0.0, *radii[:-1]]
    pairs = zip(radii, before, strict=True)
    total = sum((now + lipschitz * (gain * last + slack) + slack) ** 2 for now, last in pairs)
    return summed_above(math.sqrt(dimension * total), len(radii))


def view_excess(
    rows: Sequence[Sequence[int]],
    *,
    mixing: Sequence[Sequence[int]],
    denominator: int,
    rounds: int,
    dimension: int,
    lipschitz: float | None = 1.0,
) -> float:
    """`grid_excess` of a view of gossip or training with the same weights in every round.

    `rows` are what observers see of the hidden nodes and `mixing` what these see of each other, as whole numbers over
    `denominator`. A hidden node's message, its noise left out, is a function of what it received: `lipschitz` bounds
    how it stretches differences (1 for averaging and for convex losses with steps up to 2/L); None if nothing is known,
    where only hidden nodes whose messages are received alike hide each other.

    **Guarantee**: holds for every Δ that is proved for averaging, by `smooth`, `memory-one` or `twins`, or by local
    noise alone, as long as `lipschitz` is a bound. **Source**: docs/proofs/grid.md.

    >>> row = [[1, 1, 1]]
    >>> round(view_excess(row, mixing=row * 3, denominator=4, rounds=25, dimension=100), 1)
    259.3
    """
    nodes = len(mixing)
    at_least(1, denominator=denominator, rounds=rounds, nodes=nodes)
    unmoved = covering_radius([*rows, *mixing], nodes=nodes)
    found = grid_excess([unmoved] * rounds, hidden=1, dimension=dimension, lipschitz=0.0)
    if lipschitz is None:
        return found
    positive(lipschitz=lipschitz)
    stretch = _stretch(tuple(map(tuple, mixing)), denominator)
    radius = covering_radius(rows, nodes=nodes)
    moved = grid_excess(
        [radius] * rounds, hidden=nodes, dimension=dimension, gain=stretch, lipschitz=lipschitz
    )
    return max(found, moved)


@dataclass(frozen=True, kw_only=True)
class RoundSight:
    """A round of a schedule: `rows` that observers see of the hidden nodes, `mixing` that these see of each other.

    `lipschitz` is that of messages, None if nothing is known; `idle` says that some hidden node drew no noise, and
    `denominator` is what `mixing` is divided by at least, where that is not what was agreed on.
    """

    rows: tuple[tuple[int, ...], ...]
    mixing: tuple[tuple[int, ...], ...]
    lipschitz: float | None = 1.0
    idle: bool = False
    denominator: int | None = None


def schedule_excess(rounds: Sequence[RoundSight | None], *, denominator: int, dimension: int) -> float:
    """`grid_excess` of rounds that differ from each other; None is a round of which every message counts as seen.

    Where nothing is known of messages, nobody's input moves, and a round leaves nothing to the next. A hidden node
    that draws no noise holds what it held, so that its part of a difference stays as whole as it was:
    ρ_t + gain·ρ_{t−1} + √hidden stands for ρ_t.

    **Guarantee**: as for `grid_excess`, with what each round really saw. **Source**: docs/proofs/grid.md.

    >>> even = RoundSight(rows=((1, 1, 1),), mixing=((1, 1, 1),) * 3)
    >>> round(schedule_excess([even] * 25, denominator=4, dimension=100), 1)
    259.3
    >>> schedule_excess([None] * 25, denominator=4, dimension=100) < 50.001
    True
    """
    at_least(1, denominator=denominator, dimension=dimension)
    total = last = gain = 0.0
    for sight in rounds:
        if sight is None:
            total, last = total + 1, 0.0
            continue
        nodes = len(sight.mixing)
        unmoved = _radius((*sight.rows, *sight.mixing), nodes) + 1
        if sight.lipschitz is None:
            total, last = total + unmoved**2, 0.0
            continue
        slack = math.sqrt(nodes)
        radius = _radius(sight.rows, nodes) + (gain * last + slack if sight.idle else 0.0)
        moved = radius + sight.lipschitz * (gain * last + slack) + slack
        total, last = total + max(unmoved, moved) ** 2, radius
        gain = _stretch(sight.mixing, sight.denominator or denominator)
    return summed_above(math.sqrt(dimension * total), len(rounds), carried=3)


@functools.lru_cache(maxsize=4096)
def _radius(rows: tuple[tuple[int, ...], ...], nodes: int) -> float:
    return covering_radius(rows, nodes=nodes)


@functools.lru_cache(maxsize=4096)
def _stretch(mixing: tuple[tuple[int, ...], ...], denominator: int) -> float:
    """A bound of the norm of the weights among hidden nodes."""
    sizes = np.abs(np.array(mixing, dtype=object))
    return few_above(math.sqrt(int(sizes.sum(axis=0).max()) * int(sizes.sum(axis=1).max())) / denominator)


@dataclass(frozen=True, kw_only=True)
class Messages:
    """What the messages of a run are made of: contributions up to `clip` and noise, both as they are sent, in `rounds`.

    Of a `program` other than gossip, to whose contributions a penalty adds up to `pull` times the model.
    """

    rounds: int
    clip: float
    noise_std: float
    program: Program | None = None
    pull: Fraction = Fraction(0)


def largest_value(messages: Messages, grid: Grid) -> int:
    """A bound on all messages in units of the grid, for weights that are not negative with rows of sum at most 1.

        T · (clip/unit + 2 + 40·deviation)

    for gossip, and `program_reach` for other programs.

    **Guarantee**: exceeded only if a noise is beyond 40 standard deviations, of probability below 2^-1150 each.
    """
    rounds, program = messages.rounds, messages.program
    at_least(1, rounds=rounds)
    clipped = math.ceil(Fraction(messages.clip) * Fraction(2) ** grid.exponent)
    fresh = clipped + 2 + _TAIL * grid.deviation(messages.noise_std)
    if program is None:
        return rounds * fresh
    return program_reach(program, rounds=rounds, fresh=fresh, pull=messages.pull)


def chosen_grid(
    messages: Messages, *, sensitivity: float, excess: float, weight_total: int, cost: float = 0.01
) -> Grid:
    """The finest grid that a run fits on: sums into 64 bits, and messages into the 53 that floats hold exactly.

    Words are sent whole, so finer costs nothing. `sensitivity` is Δ, in clips, and `weight_total` the largest sum of a
    receiver's whole weights, its own among them. A grid on which `excess` asks for a larger share of the noise than
    `cost` is refused. Terms of a program other than gossip are multiplied in floats, and have two bits less, so that
    none is off by a unit.

    **Guarantee**: none but that messages fit, as `largest_value` has it: what a grid costs, `grid_excess` bounds for
    any of them.

    >>> run = Messages(rounds=100, clip=1.0, noise_std=5.0)
    >>> chosen_grid(run, sensitivity=3.0, excess=2302.8, weight_total=8).exponent
    38
    """
    clip, noise_std, rounds = messages.clip, messages.noise_std, messages.rounds
    positive(sensitivity=sensitivity, clip=clip, excess=excess, noise_std=noise_std, cost=cost)
    at_least(1, rounds=rounds, weight_total=weight_total)

    def fits(grid: Grid) -> bool:
        if Fraction(noise_std) > MOST_DEVIATION * Fraction(2) ** -grid.exponent:
            return False
        largest = largest_value(messages, grid)
        return largest < (2**53 if messages.program is None else 2**51) and weight_total * largest < 2**63

    # Noise of one unit is the least there is, and of 2^53 the most.
    top = 54 - math.frexp(noise_std)[1]
    grid = next((grid for grid in map(_grid, range(top, top - 55, -1)) if fits(grid)), None)
    if grid is None or grid.unit * excess > cost * sensitivity * clip:
        found = (
            "no grid holds it"
            if grid is None
            else f"a grid of 2^{-grid.exponent} costs more than {cost:.2g} of noise"
        )
        raise NotCertified(
            f"a run of {rounds} rounds with weights of {weight_total} in all must fit into words of 64 bits; {found} "
            "(take fewer rounds, weights with a smaller denominator, or a program that amplifies less)"
        )
    return grid


def _grid(exponent: int) -> Grid:
    return Grid(exponent=exponent)
