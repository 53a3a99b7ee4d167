# SPDX-License-Identifier: Apache-2.0
"""The filter of a view of a program after infinitely many rounds, and what rounding may have done to it.

    z_{t+1} = A z_t + B u_t + B_x x_t,      y_t = C z_t + D u_t + Σ_a D_a x_{t+a},      D Dᵀ ⪰ I.

Whatever floats K, X and P are, ν_t = X(y_t − C ẑ_t) with ẑ_{t+1} = A ẑ_t + K(y_t − C ẑ_t) is an invertible map of
what is seen. With Φ = A − K C stable and O_k = X C Φ^{k−1} its noise has a covariance I + E,

    ‖E‖ ≤ ‖X R Xᵀ − I‖ + 2‖𝒪‖‖Γ‖‖X‖ + ‖𝒪‖²‖Δ‖,   ‖𝒪‖ ≤ Σ_k ‖O_k‖,

R = C P Cᵀ + D Dᵀ, Γ = A P Cᵀ + B Dᵀ − K R and Δ = A P Aᵀ + B Bᵀ − K R Kᵀ − Γ Kᵀ − K Γᵀ − P being 0 but for
rounding. The filter that starts from what is known, P₁ = 0, comes to this one only if noise excites every mode that
does not fade: that is proved by a feedback L for which A_s + N L is stable, A_s = A − B D⁺ C and N = B(I − D⁺D)
being what is left of A and B once y is known.

Soundness is in η ≥ ‖E‖ (`Whitener.unwhite`), in the bounds of Σ‖Φᵏ‖ (`settling`) and Σ‖X C Φᵏ‖ (`memory`), and in
the proof that every lasting mode is excited. P, K and X themselves are candidates. Norms of products are bounded by
products of Frobenius norms (`_size`), and what a product rounds by `System.slips` of these.

Source: docs/proofs/programs.md ("How white the innovations are", with all rounds alike); Anderson & Moore, *Optimal
Filtering*, Chapter 4, for where P goes; Chu, Fan, Lin & Wang (2004) for the doubling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.filtering import doublings, fine_gamma, float_row, power_sum, seen_view
from sottovoce.protocols import GIVEN, STATE
from sottovoce.rounding import barely_above, finely_above

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.filtering import SeenRound
    from sottovoce.protocols import Form, Protocol
    from sottovoce.rates.modes import ExactRound
    from sottovoce.views import View

__all__ = ["System", "Whitener", "reaches", "stationary_round", "system_of", "whitener_of"]

# Speed alone: more kept numbers than this take hours; recursions are doubled so often, and lags followed so far.
LARGEST, DOUBLINGS, LAGS = 600, 40, 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """The matrices in floats, each entry rounded once; `direct[a]` is D_a, with a column for each node.

    With q kept numbers, p unknown draws, m rows and n nodes: A (q, q), B (q, p), C (m, q), D (m, p), `entering` =
    B_x (q, n), and each D_a (m, n).
    """

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    entering: np.ndarray
    direct: tuple[np.ndarray, ...]

    @property
    def slips(self) -> float:
        """What the rounding of a product of two of the matrices and a vector is at most, as a share of their norms.

        Guarantee: upper bound, γ_k for the sum of all lengths k that such a product sums over, and the rounding of
        the entries themselves.
        """
        return fine_gamma(float(2 * sum(self.A.shape) + self.B.shape[1] + self.C.shape[0] + 16))


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitener:
    """A stationary filter: (1 + η)⁻¹ φ̃ ≤ φ ≤ (1 − η)⁻¹ φ̃ for the response φ̃ of ν, η being `unwhite`.

    `settling` bounds Σ_k ‖Φᵏ‖ over k ≥ 0, and `memory` Σ_k ‖X C Φᵏ‖. `gain` is K (q, m) and `root` X (m, m), a
    factor of R⁻¹: X R Xᵀ ≈ I.
    """

    system: System
    gain: np.ndarray
    root: np.ndarray
    settling: float
    memory: float
    unwhite: float

    @cached_property
    def loop(self) -> float:
        """‖A‖ + ‖K‖‖C‖, in proportion to which one step z ↦ A z − K(C z) of the closed loop rounds.

        Guarantee: upper bound.
        """
        return _size(self.system.A) + _size(self.gain) * _size(self.system.C)


def stationary_round(protocol: Protocol, view: View) -> tuple[SeenRound, frozenset[int]]:
    """What a view is left with of a round in the middle of a long run, and the nodes that no noise hides.

    Taken from the last round backwards, what is known of later rounds grows until it stays the same. Two rounds in
    a row that are one and the same value have the same rows carried into them, and so have all before them.

    Guarantee: exact; a view for which this has not happened in more than 2·(kept numbers) + 8 rounds is refused.
    Source: `seen_view`.
    """
    size = protocol.n * len(protocol.programs[0].keeps)
    if size > LARGEST:
        raise NotCertified(
            f"a rate of the protocol {protocol.name!r} is worked out for at most {LARGEST} kept numbers; its nodes "
            f"keep {size} (take a smaller network, or sensitivity over the rounds you need)"
        )
    rounds = 8
    while True:
        seen = seen_view(replace(protocol, rounds=rounds), view)
        if seen.rounds[1] is seen.rounds[2]:
            return seen.rounds[1], frozenset(node for _, node in seen.bare)
        if rounds > 2 * size + 8:
            raise NotCertified(
                f"what {view!r} knows of a round of the protocol {protocol.name!r} depends on how many rounds follow, "
                "so that it has no rate (ask for sensitivity over the rounds you need)"
            )
        rounds *= 2


def system_of(exact: ExactRound) -> System:
    """The matrices of a round in floats.

    Guarantee: every entry is the nearest float of its exact value, none beyond 1e-100 or 1e100 (`float_row`).
    """
    n = exact.n
    reach = 1 + max(((key - GIVEN) // n for form, _ in exact.rows for key in form if key >= GIVEN), default=0)
    states = {STATE + i: place for place, i in enumerate(exact.kept)}
    column = {k: place for place, k in enumerate(exact.draws)}
    given = [{GIVEN + a * n + j: j for j in range(n)} for a in range(reach)]
    return System(
        A=_matrix(exact.state, states),
        B=_matrix(exact.state, column),
        C=_matrix(exact.rows, states),
        D=_matrix(exact.rows, column),
        entering=_matrix(exact.state, given[0]),
        direct=tuple(_matrix(exact.rows, each) for each in given),
    )


def reaches(exact: ExactRound) -> np.ndarray:
    """Which nodes' contributions touch a row at all, decided on the pattern of the exact forms.

    Guarantee: a node that is said not to reach has φ = 0; one that is said to may still have, by cancellation. An
    entry that is too small for a float counts like any other.
    """
    n = exact.n
    hit = np.zeros(n, dtype=bool)
    # Backwards: kept numbers that are read, now or through others, and the contributions beside them.
    reads, looked_at = {key for form, _ in exact.rows for key, x in form.items() if x}, set[int]()
    following = {STATE + i: form for i, (form, _) in zip(exact.kept, exact.state, strict=True)}
    while reads:
        key = reads.pop()
        looked_at.add(key)
        if key >= GIVEN:
            hit[(key - GIVEN) % n] = True
        else:
            reads |= {other for other, x in following.get(key, {}).items() if x} - looked_at
    return hit


def whitener_of(system: System) -> Whitener:
    """The stationary filter, and how far it is from white; an error where none is certified.

    Guarantee: the bounds of the `Whitener` hold for the exact matrices behind the floats, rounding included, and
    the filter from P₁ = 0 comes to this one. Whether η is small enough is for the caller to say.
    Source: the module.
    """
    # What overflows is not finite, and is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        return _whitener(system)


def _whitener(system: System) -> Whitener:
    """The stationary filter where the numbers stay finite.

        P = A_s P(I + Cᵀ(D Dᵀ)⁻¹C P)⁻¹A_sᵀ + N Nᵀ,   found by doubling, then refined by steps of the recursion itself

    Guarantee: none of its own: whatever P comes out, what it is off by is measured afterwards. A system that is not
    proved to be excited, or whose numbers do not settle, is refused with NotCertified.
    """
    A, B, C, D = system.A, system.B, system.C, system.D
    R0 = D @ D.T
    try:
        # D⁺ = Dᵀ(D Dᵀ)⁻¹ is undoneᵀ; A_s = A − B D⁺ C and N = B(I − D⁺D).
        undone = np.linalg.solve(R0, D)
        left, free = A - B @ undone.T @ C, B - B @ undone.T @ D
        # What is computed of A_s and N is off by so much; D Dᵀ ⪰ I, so that its condition is at most its norm.
        solved = 4 * _size(B) * _size(undone) * (1 + _size(R0)) * (_size(C) + _size(D) + 1)
        off = system.slips * (solved + _size(A) + _size(B))
        _prove_excited(left, free, off)
        # Without correlation: P' = A_s P(I + Cᵀ(D Dᵀ)⁻¹C P)⁻¹A_sᵀ + N Nᵀ.
        seen = C.T @ np.linalg.solve(R0, C)
        P = _doubled(left.T, seen, free @ free.T)
        P, K, X = _refined(system, P)
    except (np.linalg.LinAlgError, ValueError):
        raise _unsettled() from None
    slips = system.slips
    settling = _settling(A - K @ C, slips * (_size(A) + _size(K) * _size(C)))
    memory = _memory(system, K, X, settling)
    return Whitener(
        system=system,
        gain=K,
        root=X,
        settling=settling,
        memory=memory,
        unwhite=_unwhite(system, P, K, X, memory),
    )


def _matrix(rows: Iterable[tuple[Form, int]], columns: dict[int, int]) -> np.ndarray:
    """Some columns of exact rows as floats; entries that floats cannot tell from 0 are refused.

    Guarantee: every entry within half a unit in its last place of the rational one.
    """
    listed = list(rows)
    matrix = np.zeros((len(listed), len(columns)))
    for place, (form, scale) in enumerate(listed):
        for key, value in float_row(form, scale).items():
            if key in columns:
                matrix[place, columns[key]] = value
    return matrix


def _size(matrix: np.ndarray) -> float:
    """The Frobenius norm, from above: a bound of ‖X‖₂ and of ‖|X|‖₂.

    Guarantee: upper bound, however many numbers there are.
    """
    return barely_above(float(np.linalg.norm(matrix)), matrix.size + 4)


def _doubled(step: np.ndarray, seen: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Where P goes from P₁ = 0, by `doublings`.

    Guarantee: none; a candidate.
    """
    for found, added in doublings(step, seen, covariance, most=DOUBLINGS):
        if not np.isfinite(found).all():
            raise _unsettled()
        if np.linalg.norm(added) <= fine_gamma(1) * np.linalg.norm(found):
            break
    return found


def _refined(system: System, P: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, K and X of the steadiest of a few plain steps.

    R = C P Cᵀ + D Dᵀ;   X R Xᵀ = I;   K = (A P Cᵀ + B Dᵀ) Xᵀ X;   P' = A P Aᵀ + B Bᵀ − K R Kᵀ.
    """
    A, B, C, D = system.A, system.B, system.C, system.D
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] | None = None
    for _ in range(6):
        R = C @ P @ C.T + D @ D.T
        X = linalg.solve_triangular(np.linalg.cholesky((R + R.T) / 2), np.eye(len(R)), lower=True)
        K = (A @ P @ C.T + B @ D.T) @ X.T @ X
        following = A @ P @ A.T + B @ B.T - K @ R @ K.T
        following = (following + following.T) / 2
        moved = float(np.linalg.norm(following - P))
        if best is None or moved < best[0]:
            best = (moved, P, K, X)
        P = following
    assert best is not None
    return best[1:]


def _settling(loop: np.ndarray, off: float) -> float:
    """A bound of Σ_k ‖Φᵏ‖ for every Φ within `off` of `loop`; an error where the powers do not fade.

    Guarantee: upper bound, and a proof that Φ is stable (`power_sum`).
    """
    found = power_sum(loop, off)
    if not math.isfinite(found):
        raise _unsettled()
    return found


def _prove_excited(left: np.ndarray, free: np.ndarray, off: float) -> None:
    """Prove that some feedback L makes A_s + N L stable, so that no mode that stays is beyond the reach of noise.

    L = −(I + NᵀVN)⁻¹NᵀVA_s with V from the dual Riccati equation is a candidate. That the loop is stable is proved
    for all matrices within `off` of A_s and N: they move A_s + N L by (1 + ‖L‖)·`off` at most.
    """
    cost = _doubled(left, free @ free.T, np.eye(len(left)))
    inner = np.eye(free.shape[1]) + free.T @ cost @ free
    feedback = -np.linalg.solve(inner, free.T @ cost @ left)
    try:
        _settling(
            left + free @ feedback, (1 + _size(feedback)) * (off + fine_gamma(sum(free.shape)) * _size(free))
        )
    except NotCertified:
        raise _unexcited() from None


def _memory(system: System, K: np.ndarray, X: np.ndarray, settling: float) -> float:
    """A bound of Σ_k ‖X C Φᵏ‖.

    Rows are followed, ρ ↦ ρA − (ρK)C, until what is left can be counted as ‖ρ‖·Σ‖Φᵏ‖. A slip in round k goes on
    with Σ‖Φᵏ‖ at most.

    Guarantee: upper bound, rounding included.
    """
    loop = system.slips * (_size(system.A) + _size(K) * _size(system.C))
    rows = X @ system.C
    total = lost = system.slips * _size(X) * _size(system.C) * settling
    for _ in range(LAGS):
        size = float(np.linalg.norm(rows))
        if size * settling <= 1e-3 * total:
            break
        total += size
        lost += loop * size * settling
        rows = rows @ system.A - (rows @ K) @ system.C
    return finely_above(total + lost + float(np.linalg.norm(rows)) * settling)


def _unwhite(system: System, P: np.ndarray, K: np.ndarray, X: np.ndarray, memory: float) -> float:
    """η ≥ ‖E‖: the defects as computed, and what rounding may hide of them.

    `white`, `gamma` and `drift` are ‖X R Xᵀ − I‖, ‖Γ‖ and ‖Δ‖ of the module; those with `in_` are what floats may
    miss.

    Guarantee: upper bound, ‖𝒪‖ ≤ `memory`.
    Source: docs/proofs/programs.md, "How white the innovations are".
    """
    A, B, C, D = system.A, system.B, system.C, system.D
    a, b, c, d, p, k, x = map(_size, (A, B, C, D, P, K, X))
    slips = 3 * system.slips
    R = C @ P @ C.T + D @ D.T
    in_R = slips * (c * c * p + d * d)
    white = _size(X @ R @ X.T - np.eye(len(R))) + x * x * (in_R + slips * _size(R))
    cross = A @ P @ C.T + B @ D.T - K @ R
    in_cross = slips * (a * p * c + b * d + k * _size(R)) + k * in_R
    gamma = _size(cross) + in_cross
    drift = A @ P @ A.T + B @ B.T - K @ R @ K.T - cross @ K.T - K @ cross.T - P
    in_drift = (
        slips * (a * a * p + b * b + k * k * _size(R) + 2 * gamma * k + p) + k * k * in_R + 2 * in_cross * k
    )
    return finely_above(white + 2 * memory * gamma * x + memory * memory * (_size(drift) + in_drift))


def _unsettled() -> NotCertified:
    """The error for a filter that does not settle."""
    return NotCertified(
        "no rate is certified: the filter of this view does not settle, as something that never fades is not seen well "
        "enough (ask for sensitivity over the rounds you need)"
    )


def _unexcited() -> NotCertified:
    """The error for a mode that stays and that noise does not reach."""
    return NotCertified(
        "no rate is certified: something that the program keeps for ever is not proved to be reached by noise that the "
        "observer does not know, and Δ² may grow faster than the rounds (ask for sensitivity over the rounds you need)"
    )
