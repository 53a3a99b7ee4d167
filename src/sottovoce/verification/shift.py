# SPDX-License-Identifier: Apache-2.0
"""Check a bound for training: each step of the proof is a matrix that must not stretch, rounding counted.

A step lets differences e = X η of the hidden nodes' messages pass that the observer does not see (C X = 0), and
shifts the noise against all the rest. With D = diag(q − β, β) on the pairs (x, s), it is paid for if

    B₂B₂ᵀ ⪯ B₁B₁ᵀ + D,     B₁ = [X; 0],   B₂ = [c A Y, √κ b; r A Y, 0],    Y the factor of the round before,

and this holds as soon as some Z makes

    V = [Z; D^{-½}(B₂ − B₁Z)]   a contraction: VᵀV ⪯ I,

because then B₂ = [B₁, D^½] V. Any Z will do, so it is computed in floats and nothing about it needs proof. V has as
many columns as B₂, whatever the number of nodes. docs/training.md ("Rounding in the check") bounds every error that
is made on the way; E1 to E7 in the comments are the names that it gives them.

Names in code: U hidden nodes; q their noise variances (`levels`), β the `multipliers`, κ `kappa`; c and r `centre`
and `radius` of the slopes; X from the step's `factor`, Y = A X of the step before. `centred` and `below` are the
upper and lower rows of B₂, `rest` is B₂ − B₁Z on the upper rows, and a name with `_off` bounds what its matrix is
off by, entry by entry. A step costs 1/κ in each round in which the target contributes; a proof is a sequence of
steps, and every pair of steps that follow each other is checked once.

Three simpler proofs need no contraction: `cap` (the target's own noise, 1/q_j a round), `memory-one` (one vector x
that is not seen, paid back in the next round) and `twins` (an x that nobody receives, so that maps do not matter).
Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, NotCertified
from sottovoce.participation import Participation
from sottovoce.verification.loops import HiddenLoop, Kernel, kernel
from sottovoce.verification.rounding import (
    SCALAR,
    SCALED_UP,
    above,
    contraction_room,
    roundings,
    scaled_error,
)
from sottovoce.verification.spectra import factors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import ShiftProof, ShiftStep
    from sottovoce.verification.asked import TrainingQuestion

    Floats = NDArray[np.float64]

__all__ = ["ShiftCheck", "check_shift", "stored_form", "unseen_of"]

# Where q − β is below this part of q, β − q/2 becomes a column of B₂ and q/2 stays in D.
_THIN = 1e-3
# Columns of V: VᵀV of 1500 takes 18 MB, and is factorised for each pair of steps.
_MOST_COLUMNS = 1500
# Multiplications, for all steps together; this many take about a minute.
MOST_WORK = 1e11
# Rounds that are gone through one by one where they do not all count alike.
MOST_ROUNDS = 2_000_000
# Numbers outside this range prove nothing: within it, underflow stays far below every margin (E7).
_LARGEST = 1e100


@dataclass(frozen=True, kw_only=True)
class ShiftCheck:
    """Whether a proof holds, the bound on Δ² that it proves (infinite if not), and where it fails.

    `failure` is a sentence, empty if it holds. The bound is for noise of variance q_k in units of σ².
    """

    holds: bool
    squared_upper: float
    failure: str


def check_shift(proof: ShiftProof, asked: TrainingQuestion) -> ShiftCheck:
    """Whether a proof proves a bound on Δ², and which.

    Guarantee: if it holds, the view is μ-GDP for this target with μ = √squared_upper/σ, in both orders, for all
    update maps in the ball, whatever the observer sends. On trust: that the maps lie in the ball, that the noise
    has the given levels, and that a contribution moves a message by at most 1 in a round that takes part.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.

    Raises NotCertified where the check would take too much work.
    """
    rounds = asked.charged
    if not asked.loop.rows or not rounds:
        return ShiftCheck(holds=True, squared_upper=0.0, failure="")
    if failure := _out_of_range(proof, asked):
        return _refused(failure)
    match proof.method:
        case "cap":
            charge, failure = math.nextafter(1 / float(asked.levels[asked.target]), math.inf), ""
        case "memory-one":
            charge, failure = _memory_one(proof, asked)
        case "twins":
            charge, failure = _twins(proof, asked)
        case _:
            return _check_steps(proof, asked, rounds)
    if failure:
        return _refused(failure)
    return _proved(charge * asked.count)


def _out_of_range(proof: ShiftProof, asked: TrainingQuestion) -> str:
    """What is too large or too small for the error analysis; empty if nothing is.

    E7: within 10^±100 squares and quotients stay in the normal range of floats, so rounding is relative.
    """
    positive = [asked.levels, np.array([step.kappa for step in proof.steps if step.kappa])]
    positive += [step.multipliers[step.multipliers != 0] for step in proof.steps]
    sizes = [step.factor for step in proof.steps] + [step.multipliers for step in proof.steps]
    if asked.slopes is not None:
        sizes += [asked.slopes.lower, asked.slopes.upper]
    if any(part.size and part.min() < 1 / _LARGEST for part in positive) or any(
        part.size and np.abs(part).max() > _LARGEST for part in (*positive, *sizes)
    ):
        return (
            f"its numbers must stay below {_LARGEST:g}, and noise and κ above {1 / _LARGEST:g}, as must multipliers "
            "that are not 0"
        )
    return ""


def _check_steps(proof: ShiftProof, asked: TrainingQuestion, rounds: int) -> ShiftCheck:
    """Every pair of steps that follow each other, and the sum of what the rounds cost.

    Steps are `start`, then `recurring` over and over, then `end`. Their order over T rounds is cut to two turns of
    those that recur and what is left over, which shows the same pairs; the first step stands after none (Y = 0:
    both runs start alike).

    Where the target takes part every k-th round from an unknown one, the pattern from round 1 is the worst: loop,
    noise and rows are the same in all rounds, so a later phase is that pattern on fewer rounds, and what it shows
    is part of what the longer run shows.
    """
    if asked.slopes is None:
        return _refused("a proof by steps needs lower and upper slopes")
    family = asked.participation
    # Before the first round that takes part there is no difference, so that round counts as the first.
    first = (family.offset or 1) - 1 if family.kind == "every" else 0
    if first >= rounds:
        return _proved(0.0)
    try:
        middle = proof.middle(rounds - first)
    except InputError as error:
        return _refused(str(error))
    steps, period = proof.steps, max(1, len(proof.recurring))
    # Two turns and what is left over show every pair of steps that follow each other.
    order = proof.order(rounds - first - middle + min(middle, 2 * period + middle % period))
    if any(steps[k].last for k in order[:-1]):
        return _refused("a step of the last round stands before the last round")
    pairs = {(-1, int(order[0])), *itertools.pairwise(order.tolist())}
    _affordable(proof, asked, pairs)
    unseen = unseen_of(proof, asked.loop)
    for before, now in sorted(pairs):
        previous = None if before < 0 else steps[before]
        if failure := _unproved(proof, asked, unseen, previous, steps[now]):
            return _refused(f"step {now + 1} after step {before + 1}: {failure}")
    return _summed(proof, family, rounds, first)


def _affordable(proof: ShiftProof, asked: TrainingQuestion, pairs: set[tuple[int, int]]) -> None:
    """Refuse work without end: VᵀV of a pair takes about 2m rows times the square of its columns, m hidden nodes.

    Guarantee: none of privacy: a refusal is no verdict about the claim, but about the time that it would take.
    """
    columns = [asked.seen_last.pivots.size if step.last else step.factor.shape[1] for step in proof.steps] + [
        0
    ]
    m = asked.loop.unknown.size
    work = sum(4.0 * m * (columns[now] + columns[before] + 1) ** 2 for before, now in pairs)
    if work > MOST_WORK:
        raise NotCertified(
            f"checking these steps takes {work:.1e} multiplications, and {MOST_WORK:.0e} are done here (take fewer "
            "columns, or fewer steps)"
        )


def _summed(proof: ShiftProof, family: Participation, rounds: int, first: int) -> ShiftCheck:
    """What the rounds of the worst pattern cost together: Σ 1/κ, rounded up.

    Guarantee: not below max_π Σ_{t ∈ π} 1/κ_t. 1/κ is rounded up by one float; for full participation the sum is
    one of rationals, rounded once, and `_proved` goes one float up; `largest_sum` rounds up by itself.
    """
    charges = [math.nextafter(1 / step.kappa, math.inf) if step.kappa else math.inf for step in proof.steps]
    if rounds > MOST_ROUNDS and family.kind != "full":
        raise NotCertified(
            f"the worst of {rounds} rounds with participation {family} is not sought here (at most {MOST_ROUNDS})"
        )
    if family.kind == "full":
        whole, rest = divmod(proof.middle(rounds), max(1, len(proof.recurring)))
        start, recurring = len(proof.start), len(proof.recurring)
        often = [1] * start + [whole + (k < rest) for k in range(recurring)] + [1] * len(proof.end)
        used = [(count, charge) for count, charge in zip(often, charges, strict=True) if count]
        if any(charge == math.inf for _, charge in used):
            return _refused("a round in which the target may contribute has κ = 0")
        return _proved(float(sum(count * Fraction(charge) for count, charge in used)))
    costs = np.array(charges)[proof.order(rounds - first)]
    if family.kind == "every":
        costs, family = costs[:: family.size], Participation.full()
    elif family.kind == "fixed":
        costs, family = costs[[k - 1 for k in family.rounds if k <= rounds]], Participation.full()
    if not np.isfinite(costs).all():
        return _refused("a round in which the target may contribute has κ = 0")
    return _proved(family.largest_sum(costs) if costs.size else 0.0)


def _unproved(
    proof: ShiftProof, asked: TrainingQuestion, unseen: Kernel, previous: ShiftStep | None, step: ShiftStep
) -> str:
    """Why a step after another is not proved; empty if it is.

    Overflow and NaN are silenced on the way, because they end in a matrix that is not finite, which proves nothing.
    """
    try:
        with np.errstate(all="ignore"):
            V, error = _matrix(proof, asked, unseen, previous, step)
    except _Hopeless as reason:
        return str(reason)
    except np.linalg.LinAlgError:
        return "its matrices are singular"
    return _contraction(V, error)


class _Hopeless(Exception):  # noqa: N818 - a verdict, not a mistake
    """A step of which it can be said beforehand that it will not be proved."""


def _matrix(
    proof: ShiftProof, asked: TrainingQuestion, unseen: Kernel, previous: ShiftStep | None, step: ShiftStep
) -> tuple[Floats, float]:
    """V in floats, and a bound of the Frobenius norm of what it is off by.

        V = [Z; D^{-½}(B₂ − B₁Z)],   upper rows: c A Y, √κ b, √(β − q/2) at thin nodes;   lower rows: r A Y over
        β^{-½}.

    Where β comes close to q (`thin`) D = q − β would be divided by next to nothing. There q/2 stays in D, and β −
    q/2 goes to the other side of the inequality as one more column of B₂; the same matrix inequality in other
    words.

    Guarantee: the exact V, for the rationals behind A, C and X, is within the second value in Frobenius norm, or
    has smaller norm: D is rounded down and √κ, √(β − q/2) and D^{-½} up, which only lengthens rows or columns.
    Source: E1 to E5 of docs/training.md.
    """
    assert asked.slopes is not None
    loop, U = asked.loop, asked.loop.unknown
    target = loop.position(asked.target)
    lower, upper = asked.slopes.lower[U], asked.slopes.upper[U]
    centre, radius = (lower + upper) / 2, (upper - lower) / 2
    q, beta = asked.levels[U], step.multipliers[U]
    Y, off = np.zeros((2, U.size, 0))
    if previous is not None:
        # E1 and E2.
        Y, off = loop.moved(*_spread(proof, loop, unseen, previous.factor))
    # E3: centre and radius are within a unit of what the ends say.
    centred, below = centre[:, None] * Y, radius[:, None] * Y
    centred_off = np.abs(centre)[:, None] * off + roundings(SCALAR) * np.abs(centred)
    below_off = radius[:, None] * off + roundings(SCALAR) * np.abs(below)
    X, X_off = np.zeros((2, U.size, 0)) if step.last else _spread(proof, loop, unseen, step.factor)
    shown = asked.seen_last.rows() if step.last else np.zeros((0, U.size))

    # Rows of V outside `used` are 0 whatever stands in D, as long as β ≤ q.
    used = _nonzero(X, X_off) | _nonzero(centred, centred_off) | np.any(shown != 0, axis=0)
    used[target] = True
    thin = np.flatnonzero((beta > q) | (used & (q - beta < _THIN * q)))
    columns = Y.shape[1] + 1 + thin.size
    if columns > _MOST_COLUMNS or 2.0 * U.size * columns**2 > MOST_WORK:
        raise _Hopeless(f"{thin.size} multipliers reach the noise level, too many to be checked")
    extra = np.zeros((U.size, 1 + thin.size))
    extra[target, 0] = math.sqrt(step.kappa) * SCALED_UP
    extra[thin, 1 + np.arange(thin.size)] = np.sqrt(beta[thin] - q[thin] / 2) * SCALED_UP
    D = np.where(used, (q - beta) * (1 - roundings(2)), q)
    D[thin] = q[thin] / 2

    centred, centred_off = np.hstack([centred, extra]), np.hstack([centred_off, np.zeros_like(extra)])
    below, below_off = (np.hstack([part, np.zeros_like(extra)]) for part in (below, below_off))
    if step.last:
        Z, rest, rest_off = _last_rest(asked.seen_last, shown, D, centred, centred_off)
    else:
        Z, rest, rest_off = _rest(X, X_off, D, centred, centred_off)
    bent = _nonzero(below, below_off)
    if (beta[bent] <= 0).any():
        raise _Hopeless("a multiplier is 0 at a node whose map bends")
    # E5: larger scales only stretch V.
    scale, scale_bent = SCALED_UP / np.sqrt(D)[:, None], SCALED_UP / np.sqrt(beta[bent])[:, None]
    V = np.vstack([Z, scale * rest, scale_bent * below[bent]])
    parts = scale * rest_off, scale_bent * below_off[bent]
    error = math.sqrt(sum(float(np.einsum("ij,ij->", part, part)) for part in parts))
    return V, scaled_error(error, float(np.linalg.norm(V)))


def _nonzero(matrix: Floats, off: Floats) -> NDArray[np.bool_]:
    """The rows of which it is not certain that they are 0: a computed 0 with no error bound is a true 0."""
    return np.asarray(np.any((matrix != 0) | (off != 0), axis=1))


def unseen_of(proof: ShiftProof, loop: HiddenLoop) -> Kernel:
    """What is not seen of the support of a proof; for twins, by nobody who receives it either.

    For twins the rows of A that touch the support join the rows that are seen, so that A x = 0 as well as C x = 0.

    Guarantee: exact.
    """
    places = np.searchsorted(loop.unknown, proof.support)
    if proof.method != "twins":
        return kernel(loop.rows, places)
    touched = np.union1d(loop.transition[:, places].tocoo().coords[0], places)
    return kernel(itertools.chain(loop.rows, loop.inflow(loop.unknown[touched].tolist())), places)


def stored_form(proof: ShiftProof, loop: HiddenLoop) -> ShiftProof:
    """A proof whose factors are 0 at the pivots of what is seen, where they are not read: as a certificate holds it.

    Numbers that no check reads could be anything, so a file with other numbers there is refused.

    Guarantee: proves what `proof` proves; the same object where nothing had to change.
    """
    if not any(step.factor.size for step in proof.steps):
        return proof
    pivots = unseen_of(proof, loop).pivots
    if not any(step.factor.size and step.factor[pivots].any() for step in proof.steps):
        return proof

    def emptied(step: ShiftStep) -> ShiftStep:
        factor = np.array(step.factor)
        if factor.size:
            factor[pivots] = 0.0
        return replace(step, factor=factor)

    start, recurring, end = (
        tuple(map(emptied, steps)) for steps in (proof.start, proof.recurring, proof.end)
    )
    return replace(proof, start=start, recurring=recurring, end=end)


def _spread(proof: ShiftProof, loop: HiddenLoop, unseen: Kernel, factor: Floats) -> tuple[Floats, Floats]:
    """A factor over all hidden nodes with its exact pivots, and a bound of the rounding in it."""
    places = np.searchsorted(loop.unknown, proof.support)
    values, off = unseen.lifted(factor)
    X, E = np.zeros((2, loop.unknown.size, factor.shape[1]))
    X[places], E[places] = values, off
    return X, E


def _rest(X: Floats, X_off: Floats, D: Floats, centred: Floats, off: Floats) -> tuple[Floats, Floats, Floats]:
    """Some Z, and B₂ − B₁Z on the upper rows with its rounding.

    Z = (I + XᵀD⁻¹X)⁻¹XᵀD⁻¹B₂ makes V shortest in the Frobenius norm. Any Z would be valid: it stands in V itself.

    Guarantee: |rest − (B₂ − B₁Z)| ≤ rest_off: errors of B₂ and of X|Z|, and (q + 3)u for a sum of q products, a
    difference and one to spare, q the columns of X.
    """
    weighted = X / D[:, None]
    Z: Floats = np.linalg.solve(np.eye(X.shape[1]) + X.T @ weighted, weighted.T @ centred).astype(np.float64)
    # E4.
    units = above(roundings(X.shape[1] + 3))
    rest_off = off + X_off @ np.abs(Z) + units * (np.abs(X) @ np.abs(Z) + np.abs(centred))
    return Z, centred - X @ Z, rest_off


def _last_rest(
    unseen: Kernel, shown: Floats, D: Floats, centred: Floats, off: Floats
) -> tuple[Floats, Floats, Floats]:
    """What the last round shows of B₂: B₂ less something that is not seen, chosen to leave little in the norm of D.

    After the last round nothing follows, so any difference in the kernel of what it shows may pass at no cost.
    `passed` is brought into that kernel by its pivots; `kept` only says which one to take.
    """
    kept = np.linalg.solve((shown * D) @ shown.T, shown @ centred)
    passed, passed_off = unseen.lifted(centred - D[:, None] * (shown.T @ kept))
    rest_off = off + passed_off + roundings(2) * (np.abs(centred) + np.abs(passed))
    return np.zeros((0, centred.shape[1])), centred - passed, rest_off


def _contraction(V: Floats, error: float) -> str:
    """Why ‖V + E‖ ≤ 1 is not proved for every E of Frobenius norm `error`; empty if it is.

    ‖V‖ ≤ 1 − error is enough, that is VᵀV ⪯ (1 − error)² I.

    Guarantee: proved by a factorisation of (1 − error)² I − VᵀV less `margin`: (rows + 2)u‖V‖²_F for the product
    VᵀV, and 2(columns + 10)u(columns + ‖V‖²_F) for the factorisation, which needs (columns + 1)u of the trace.
    Source: E6 of docs/training.md; Rump (2006).
    """
    size, columns = float(np.einsum("ij,ij->", V, V)), V.shape[1]
    # E6.
    margin = contraction_room(V.shape[0], columns, size)
    room = (1 - error) ** 2 - margin if error < 1 else -1.0
    stretched = V.T @ V
    if not np.isfinite(stretched).all() or not np.isfinite(room):
        return "it is not finite"
    if factors(room * np.eye(columns) - stretched):
        return ""
    largest = float(np.linalg.eigvalsh(stretched)[-1])
    return f"it stretches by {largest:.12g} where {room:.12g} is allowed"


def _vector(proof: ShiftProof, asked: TrainingQuestion, unseen: Kernel) -> tuple[Floats, Floats, str]:
    """The one vector that a proof without steps holds, its rounding, and what is wrong with it.

    Guarantee: what is wrong is empty only if the proof has one vector, or the support none, which stands for 0.
    """
    nothing = np.zeros((asked.loop.unknown.size, 1))
    step = proof.steps[0] if len(proof.steps) == 1 else None
    if step is None or step.last or (proof.support.size and step.factor.shape[1] != 1):
        return nothing, nothing, f"a proof by {proof.method} holds one vector"
    if not proof.support.size:
        return nothing, nothing, ""
    return *_spread(proof, asked.loop, unseen, step.factor), ""


def _memory_one(proof: ShiftProof, asked: TrainingQuestion) -> tuple[float, str]:
    """Σ (|b − x| + ℓ|A x|)²/q, rounded up, for the stored x; and what is wrong with it.

    x is let pass in the round of the contribution; what the maps make of A x, at most ℓ = max(|lower|, |upper|)
    times as long, is shifted away in the next round together with that round's own b − x.

    Guarantee: an upper bound of what a round costs. Source: Corollary 2 of docs/training.md.
    """
    if asked.slopes is None:
        return math.inf, "a proof by one round of memory needs lower and upper slopes"
    x, off, failure = _vector(proof, asked, unseen_of(proof, asked.loop))
    if failure:
        return math.inf, failure
    moved, moved_off = asked.loop.moved(x, off)
    reach = asked.slopes.reach[asked.loop.unknown]
    return _energy(asked, x[:, 0], off[:, 0], reach * (np.abs(moved) + moved_off)[:, 0]), ""


def _twins(proof: ShiftProof, asked: TrainingQuestion) -> tuple[float, str]:
    """Σ (b − x)²/q, rounded up, for an x that nobody's input shows; and what is wrong with it.

    Guarantee: an upper bound of what a round costs, for maps of any kind. Source: Corollary 3 of docs/training.md.
    """
    x, off, failure = _vector(proof, asked, unseen_of(proof, asked.loop))
    if failure:
        return math.inf, failure
    return _energy(asked, x[:, 0], off[:, 0], np.zeros(asked.loop.unknown.size)), ""


def _energy(asked: TrainingQuestion, x: Floats, off: Floats, more: Floats) -> float:
    """Σ (|b − x| + off + more)²/q, rounded up.

    Guarantee: an upper bound: 4u cover the difference 1 − x_j, 4u two sums, and (m + 8)u a square, a quotient by q
    and a sum of m terms, none of which is negative. q is rounded down, which is up here.
    """
    left = -x
    left[asked.loop.position(asked.target)] += 1
    sizes = (np.abs(left) * SCALED_UP + off + more) * SCALED_UP
    levels = asked.levels[asked.loop.unknown]
    return float((sizes**2 / levels).sum()) * (1 + above(roundings(x.size + 8)))


def _proved(upper: float) -> ShiftCheck:
    """A proof that holds, its bound one float up for the last rounding of who computed it."""
    if not math.isfinite(upper):
        return _refused("what it proves is not finite")
    return ShiftCheck(holds=True, squared_upper=math.nextafter(upper, math.inf) if upper else 0.0, failure="")


def _refused(failure: str) -> ShiftCheck:
    """A proof that proves nothing."""
    return ShiftCheck(holds=False, squared_upper=math.inf, failure=failure)
