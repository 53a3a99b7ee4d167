# SPDX-License-Identifier: Apache-2.0
"""The whitened response F of a view to its targets, and what is read off it: M = FᵀF, without ever forming H_T.

    z_t = A x_{t−1} + b c_t;   (Fc)_t = L_t⁻¹C z_t;   x_t = Φ_t z_t,   Φ_t = I − K_t C.

One run of the filter serves all targets, because F is linear in b. On a Krylov space A, C and b are QᵀAQ, CQ and a
row of Q. Everything that this differs by from the true response is brought to one form, a noise map N(I + D) in the
place of N with ‖D‖ ≤ `distortion`, and added up: weights and rows as floats (`_given_error`), gains
(`Gains.distortion`), what the space cuts (`_cut`) and how far its relations are off (`Defect`).

Soundness: these four, `SECOND_ORDER` for their products, and `recursion_error` for following rows in floats. Speed:
which engine is taken, how far a basis is grown, and when gains are frozen, since what each costs is counted.

Source: docs/mathematics.md, sections 5 and 6; docs/proofs/filter.md and docs/proofs/cut.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import one_of
from sottovoce.filtering.closed_loop import ClosedLoop
from sottovoce.filtering.gram import forms_of
from sottovoce.filtering.kalman import Gains, Settling, as_products_are_fast, filter_gains
from sottovoce.filtering.krylov_space import krylov_space
from sottovoce.filtering.rounding import SECOND_ORDER, Step, built_up, power_sum, spread
from sottovoce.krylov import KrylovBasis, krylov_bases, power_error, proved_power_error
from sottovoce.rounding import above, gamma, roundings
from sottovoce.scenarios import ENGINES, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_array

    from sottovoce.filtering.elimination import HiddenSystem

__all__ = [
    "BATCH_BYTES",
    "ENGINES",
    "EXPLICIT_ROUNDS",
    "Engine",
    "FilteredResponse",
    "QuadraticForms",
    "whitened_response",
]

# Speed alone: what the Krylov reduction may cost, as a distortion of the noise, before the basis has to grow.
REDUCTION_GOAL, REDUCTION_GOAL_PER_ROUND = 1e-11, 1e-13
# Speed alone: the same for a response behind bounds of a per cent or so.
COARSE_GOAL, COARSE_GOAL_PER_ROUND = 1e-7, 1e-11
# Speed alone: forms are made together while they take no more memory than this.
BATCH_BYTES = 256 * 2**20
# Speed alone: the filter on all unknown nodes works on n × n numbers, the Krylov basis on n × r.
LARGEST_FILTER = 6000
BASIS_BYTES = 3 * 2**30
# Speed alone: up to here M is formed; beyond, a horizon is too long for T × T numbers.
EXPLICIT_ROUNDS = 2048


@dataclass(frozen=True, kw_only=True, eq=False)
class QuadraticForms:
    """M̂ for some targets (their positions among the unknown nodes), and how far it may be from M.

    For streams with ‖c_t‖ ≤ 1, `rounding` bounds what rounding moves cᵀM̂c by, and with Δ̂² = cᵀM̂c ± rounding

        √(1 − missing)·(Δ̂ − d√T)/(1 + d) ≤ ‖Fc‖ ≤ (Δ̂ + d√T)/(1 − d),   d = `distortion`.

    `matrices` is (targets, T, T) and `rounding` has one number a target.
    """

    positions: np.ndarray
    matrices: np.ndarray
    rounding: np.ndarray
    distortion: float
    missing: float


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredResponse:
    """The whitened response as a state-space model: z_t = A x_{t−1} + b c_t, (Fc)_t = L_t⁻¹C z_t, x_t = Φ_t z_t.

    Column j of `inputs` is b for the unknown node at position j. The true norm ‖F c‖ obeys

        √(1 − missing)·(‖F̂c‖ − d‖c‖)/(1 + d) ≤ ‖Fc‖ ≤ (‖F̂c‖ + d‖c‖)/(1 − d),   d = `distortion`,

    where F̂ is the response of this model in exact arithmetic: rounding and Krylov truncation replace the noise map
    N by N(I + D) with ‖D‖ ≤ d, and freezing the gains takes at most the share `missing` off the noise.

    With r states, m rows and n unknown nodes `transition` is A, (r, r), `rows` C, (m, r), and `inputs` (r, n).
    `engine` is the way that was taken: "filter" on all unknown nodes, "reduced" on a Krylov space.
    """

    transition: np.ndarray | csr_array
    rows: np.ndarray
    inputs: np.ndarray | csr_array
    gains: Gains
    rounds: int
    distortion: float
    engine: str

    @property
    def size(self) -> int:
        """The dimension r of the state."""
        return int(self.transition.shape[0])

    @cached_property
    def _adjoint(self) -> np.ndarray | csr_array:
        """Aᵀ, which a sparse matrix would make anew at every use; dense where that is faster.

        Speed alone: a product with a zero adds none to an error.
        """
        moving = as_products_are_fast(self.transition)
        return moving.T if isinstance(moving, np.ndarray) else moving.T.tocsr()

    @cached_property
    def _seen(self) -> int:
        """How many leading states the rows read: in a Krylov space the first few."""
        return int(np.flatnonzero(self.rows.any(axis=0)).max(initial=-1)) + 1

    @cached_property
    def _picked(self) -> np.ndarray | None:
        """Which state each row of C is, if each is a single one with the weight 1; else None.

        Speed alone: products with 0 and 1 are exact.
        """
        places = np.flatnonzero(self.rows)
        single = len(places) == len(self.rows) and (self.rows.flat[places] == 1).all()
        picked = places % max(1, self.size)
        return picked if single and len(np.unique(picked)) == len(self.rows) else None

    def respond(self, position: int, stream: np.ndarray) -> np.ndarray:
        """F c for one target and a stream c of shape (T,) or (T, d): the whitened shift of the view by rounds.

        Guarantee: none of its own; states are followed in plain floats.
        """
        streams = stream.reshape(self.rounds, -1)
        source = self.columns(np.array([position]))
        state = np.zeros((self.transition.shape[0], streams.shape[1]))
        shifts = []
        for t in range(self.rounds):
            state = self.transition @ state + source * streams[t]
            if t < self.rounds - 1:
                k = self.gains.at(t)
                shifts.append(self.gains.whitener[k] @ state)
                state -= self.gains.gain[k] @ (self.rows @ state)
        return np.concatenate([*shifts, self.gains.last_whitener @ state])

    @property
    def _target_bytes(self) -> int:
        """What M and F of one target take."""
        start, m = self.alike_from, len(self.rows)
        late = self.rounds - start
        return 8 * (2 * self.rounds**2 + start * (start * m + 2 * self.size) + late * (self.size + 2 * m))

    def forms_bytes(self, batch: float = 0.0) -> float:
        """About how many bytes `forms` takes at once, from above: rows of all rounds, and a batch with its transforms.

        Measured: rows are held five times while they are carried back, a batch six times while it is multiplied. A
        batch of 0 bytes is one target.
        """
        rows = 8.0 * (self.rounds * len(self.rows) + self.size) * self.size
        return 5 * rows + 6 * max(batch, self._target_bytes)

    def forms(self, positions: np.ndarray, batch_bytes: float = BATCH_BYTES) -> Iterator[QuadraticForms]:
        """M = FᵀF for each of the targets at `positions`, in batches of so many bytes.

        Guarantee: that of `QuadraticForms`, what is rounded while the rows of F are followed included.
        """
        batch = max(1, int(batch_bytes // self._target_bytes))
        for begin in range(0, len(positions), batch):
            chosen = positions[begin : begin + batch]
            matrices, rounding = forms_of(self, chosen)
            yield QuadraticForms(
                positions=chosen,
                matrices=matrices,
                rounding=rounding,
                distortion=self.distortion + self.forms_error,
                missing=self.gains.missing,
            )

    @property
    def alike_from(self) -> int:
        """The 0-based round from which on rounds are alike, if what they show is worth no more than a state.

        Speed alone: rows that are fewer than the states are followed one by one.

        Guarantee: gains from this round on are those that are used for all later ones, as `gains.settled_from` says;
        none of the ends rests on which round it is.
        """
        start, rows = self.gains.settled_from(self.rounds), len(self.rows)
        shown = (self.rounds - 1 - start) * rows + len(self.gains.last_whitener)
        return start if shown > self.size else self.rounds - 1

    def read(self, columns: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Rows that stand as columns (r, k) times the inputs of targets, (targets, k); no copy if each state is one."""
        if self.engine == "filter":
            whole = np.array_equal(positions, np.arange(self.size))
            return columns if whole else np.take(columns, positions, axis=0)
        return np.asarray(self.columns(positions).T @ columns)

    def recursion_error(self, rounds: int, step: float = 0.0) -> float:
        """The distortion from rounding in the rows of F, followed over `rounds` rounds.

        A step puts the adjoint rows X of a round off by κ‖X‖ (see `Step`), or by `step`‖X‖ if that is more. They are
        those of all later rounds, and ‖X‖_F ≤ √r, because what a state shows is at most its own square: noise of
        covariance I covers it. The error meets a state that a stream c has built up to a norm of at most √‖P‖·‖c‖, P
        being what noise builds up. So κT√(r‖P‖) for T steps, and γ_r√(rT) for the products with an input of norm at
        most 1.

        Guarantee: upper bound, to be added to `distortion`.
        Source: docs/mathematics.md, section 11; `Step` for κ.
        """
        error, size = max(step, self._step.error), self.size
        followed = error * rounds * (size * self.gains.covariance_norm) ** 0.5
        return float(above(followed + gamma(size) * (size * rounds) ** 0.5))

    @cached_property
    def _step(self) -> Step:
        """What a step of the filter errs by."""
        return Step.of(self.transition, self.rows, self.gains.gain)

    @cached_property
    def settled_loop(self) -> ClosedLoop:
        """The closed loop of the rounds from `alike_from` on."""
        return self.closed_loop(self.alike_from)

    @property
    def shows(self) -> float:
        """The most that a state of norm 1 shows in all rounds after it, in the model as stored.

        Guarantee: upper bound.
        Source: docs/proofs/streams.md, Claim 1.
        """
        return float((1 + self.distortion) / (1 - self.gains.missing) ** 0.5 + self.distortion)

    @property
    def forms_error(self) -> float:
        """The distortion from rounding in what `forms` follows: rows of F, and the states of the first c rounds.

        A row of what makes a state of round c of one before is at most √‖P‖ long, where one of F is at most 1.

        Guarantee: upper bound, to be added to `distortion`.
        Source: docs/proofs/gram.md, "What is followed".
        """
        if (start := self.alike_from) == self.rounds - 1:
            return self.recursion_error(self.rounds)
        built = built_up(self.gains)
        found = self.recursion_error(self.rounds, self.settled_loop.step_error)
        return float(found + above(self.shows) * built * self.recursion_error(start))

    def before(self, rows: np.ndarray, round_index: int) -> np.ndarray:
        """Rows · A Φ_t: what rows that read the state of the next round read in the one with this 0-based index.

        Guarantee: within `Step.error` of the truth, in proportion to the rows' norm.
        """
        # X A Φ = X A − ((X A) K) C, where C reads the first few states alone, or has one 1 in each of its rows.
        moved = (
            rows @ self._adjoint.T if isinstance(self._adjoint, np.ndarray) else (self._adjoint @ rows.T).T
        )
        told, seen = moved @ self.gains.gain[self.gains.at(round_index)], self._seen
        if self._picked is not None:
            moved[:, self._picked] -= told
        else:
            moved[:, :seen] -= told @ self.rows[:, :seen]
        return np.asarray(moved)

    def before_columns(self, columns: np.ndarray, round_index: int, out: np.ndarray) -> None:
        """The same of rows that stand as columns (r, k), written to `out`.

        Guarantee: that of `before`.
        """
        if isinstance(self._adjoint, np.ndarray):
            np.matmul(self._adjoint, columns, out=out)
        else:
            out[:] = self._adjoint @ columns
        told, seen = self.gains.gain[self.gains.at(round_index)].T @ out, self._seen
        if self._picked is not None:
            out[self._picked] -= told
        else:
            out[:seen] -= self.rows[:, :seen].T @ told

    def after(self, states: np.ndarray, round_index: int) -> np.ndarray:
        """A Φ_t · states: what is left of states of the round with this 0-based index when the next one begins.

        Guarantee: that of `before`.
        """
        shown = self.rows[:, : self._seen] @ states[: self._seen]
        gain = self.gains.gain[self.gains.at(round_index)]
        # Speed alone: with one row to a product every entry is one number times another.
        told = gain * shown if len(shown) == 1 else gain @ shown
        return np.asarray(self.transition @ np.subtract(states, told, out=told))

    def closed_loop(self, round_index: int) -> ClosedLoop:
        """B = AΦ and D = L⁻¹C with the gains of a 0-based round, kept for ever.

        I − KC errs by at most γ_{m+1}(I + |K||C|) entry by entry, and a product with A by γ_k|A||Φ| more, k being
        the entries of its longest row: by γ_{k+m+1}|A|(I + |K||C|) in all.

        Guarantee: the true B is within `off` of the loop stored.
        Source: Higham, *Accuracy and Stability*, Section 3.5.
        """
        k = self.gains.at(round_index)
        gain, rows = np.abs(self.gains.gain[k]), np.abs(self.rows)
        sizes = abs(self.transition) @ (np.eye(self.size) + gain @ rows)
        size = min(float(np.linalg.norm(sizes)), above(spread(sizes)))
        transition = self.transition
        terms = (
            self.size
            if isinstance(transition, np.ndarray)
            else int(np.diff(transition.indptr).max(initial=1))
        )
        return ClosedLoop(
            loop=self.after(np.eye(self.size), k),
            whitener=self.gains.whitener[k],
            off=gamma(terms + len(rows) + 2) * size,
        )

    def whitener(self, round_index: int) -> np.ndarray:
        """L_t⁻¹C for the round with this 0-based index."""
        if round_index == self.rounds - 1:
            return self.gains.last_whitener
        return np.asarray(self.gains.whitener[self.gains.at(round_index)])

    def shortened(self, rounds: int, *, frozen_at: int | None = None) -> FilteredResponse:
        """The same response over the first `rounds` rounds, all of them seen in full.

        With `frozen_at` the gains of that 0-based round are kept from there on.

        Guarantee: M of the shorter horizon; with `frozen_at` an upper bound of it, as gains that are frozen are
        optimal for less noise (`filter_gains`), and `missing` no longer says by how much.
        """
        kept = rounds if frozen_at is None else frozen_at + 1
        gain, whitener = self.gains.gain[:kept], self.gains.whitener[:kept]
        frozen = self.gains.frozen or frozen_at is not None
        gains = replace(self.gains, gain=gain, whitener=whitener, last_whitener=whitener[-1], frozen=frozen)
        return replace(self, rounds=rounds, gains=gains)

    def source(self, position: int) -> np.ndarray:
        """The input b of the target at `position`."""
        return self.columns(np.array([position]))[:, 0]

    def columns(self, positions: np.ndarray) -> np.ndarray:
        """The inputs b of the targets at `positions`, dense."""
        columns = self.inputs[:, positions]
        return columns if isinstance(columns, np.ndarray) else columns.toarray()


def whitened_response(
    system: HiddenSystem, *, engine: Engine = "auto", coarse: bool = False, tolerance: float = 0.0
) -> FilteredResponse:
    """The whitened response of a view, by the engine asked for or the cheapest one.

    `filter` runs the Kalman filter on all unknown nodes, `reduced` runs it on a Krylov space that is grown until
    what it cuts is at rounding level. `auto` reduces, and filters where the Krylov space would be as large as the
    network. A `coarse` response is off by up to a tenth of a per cent, and says so in `distortion` and `missing`; with
    a `tolerance`, by which ends may stay apart, gains are frozen once they leave a four hundredth of it open.

    Guarantee: that of `FilteredResponse`, whatever engine and effort were chosen.
    Source: docs/mathematics.md, sections 5 and 6; docs/proofs/filter.md and docs/proofs/cut.md.
    """
    one_of(ENGINES, engine=engine)
    if engine != "filter":
        once, each = (
            (COARSE_GOAL, COARSE_GOAL_PER_ROUND) if coarse else (REDUCTION_GOAL, REDUCTION_GOAL_PER_ROUND)
        )
        basis = _reduction(system, max(once, each * system.rounds), forced=engine == "reduced")
        if basis is not None:
            return _reduced(system, basis, _settling(system, coarse, tolerance))
    settling = _settling(system, coarse, tolerance)
    gains = filter_gains(system.transition, system.rows, system.last_rows, system.rounds, settling)
    return FilteredResponse(
        transition=system.transition,
        rows=system.rows,
        inputs=_identity(system.unknown.size),
        gains=gains,
        rounds=system.rounds,
        distortion=SECOND_ORDER * (gains.distortion + _given_error(system)),
        engine="filter",
    )


def _settling(system: HiddenSystem, coarse: bool, tolerance: float) -> Settling:
    """When to freeze the gains: once next to no noise is lost while M is formed, a little in long horizons."""
    # Speed alone: what frozen gains leave out is counted in `Gains.missing`.
    soon = 1e-4 if coarse else min(max(1e-8, tolerance / 400), 1e-4)
    if system.rounds <= EXPLICIT_ROUNDS:
        return Settling(within=soon)
    earliest = EXPLICIT_ROUNDS // 4
    return (
        Settling(within=2e-4, earliest=earliest)
        if coarse
        else Settling(within=5e-5, earliest=earliest, before=soon)
    )


def _identity(size: int) -> csr_array:
    """Sparse columns e_j, one input for each unknown node."""
    from scipy import sparse

    return sparse.csr_array((np.ones(size), np.arange(size), np.arange(size + 1)), shape=(size, size))


def _reach(system: HiddenSystem) -> float:
    """A bound of ‖(I − ZA)⁻¹‖ over T rounds, Z being the shift by a round: Σ_{k<T} ‖Aᵏ‖.

    Guarantee: upper bound.
    """
    return system.rounds * system.power_norm


def _given_error(system: HiddenSystem) -> float:
    """The distortion from rounding in the weights and in the orthonormal rows, as σ_min(N) ≥ 1/(1 + ‖A‖).

    Guarantee: upper bound, to first order; `SECOND_ORDER` has the rest.
    Source: docs/proofs/filter.md, "Exact weights and rows".
    """
    return _reach(system) * (roundings(2) * system.power_norm + (1 + system.power_norm) * system.rows_error)


def _reduction(system: HiddenSystem, goal: float, *, forced: bool) -> KrylovBasis | None:
    """A Krylov basis whose truncation costs no more than the goal, or None where none is clearly smaller than n.

    Networks too large for the whole filter are reduced as far as memory goes; what is cut then widens the interval.
    """
    n = system.unknown.size
    whole_is_possible = n <= LARGEST_FILTER
    largest = n if forced else max(1, 3 * n // 4)
    largest = min(largest, max(system.rows.shape[0], BASIS_BYTES // (8 * n)))
    if system.rows.shape[0] > largest:
        return None
    check_at = 1.0
    basis = None
    for basis in krylov_bases(system.adjoint, system.rows.T, largest=largest, symmetric=system.symmetric):
        if basis.residual.shape[0] == 0:
            return basis
        # A check costs up to T small products, so it is made at sizes that grow by a tenth.
        if basis.size >= check_at:
            check_at = 1.1 * basis.size
            if _estimated_cut(system, basis, goal) <= goal:
                return basis
    return basis if forced or not whole_is_possible else None


def _cut(system: HiddenSystem, basis: KrylovBasis) -> float:
    """The distortion from Krylov truncation: the error of the powers over σ_min(N) ≥ 1/(1 + ‖A‖).

    Guarantee: upper bound, rounding in the small system included; 0 where the space is closed.
    Source: docs/proofs/cut.md, "Over T rounds".
    """
    if basis.residual.shape[0] == 0:
        return 0.0
    stretch = power_sum(basis.projected, 0.0, system.rounds)
    return (1 + system.power_norm) * system.power_norm * proved_power_error(basis, system.rounds, stretch)


def _estimated_cut(system: HiddenSystem, basis: KrylovBasis, enough: float) -> float:
    """The same as floats have it, to know when a basis need not grow.

    Guarantee: none; `_cut` proves what the basis that is kept leaves out.
    """
    factor = (1 + system.power_norm) * system.power_norm
    return power_error(basis, system.rounds, enough=enough / factor) * factor


def _reduced(system: HiddenSystem, basis: KrylovBasis, settling: Settling) -> FilteredResponse:
    """The filter on the Krylov space.

    Powers of A on the rows are those of QᵀAQ on CQ as far as X Q = Q H + Q₊ f holds; how far Q is from orthonormal
    changes nothing but the covariance of the noise, in every round by the same share.

    Guarantee: `distortion` is the sum of gains, weights and rows, cut, relations and skew, each an upper bound.
    """
    space = krylov_space(system, basis, system.rows.T)
    defect = space.defect
    last_rows = space.rows if system.last_rows is system.rows else system.last_rows @ space.basis.vectors
    gains = filter_gains(space.transition, space.rows, last_rows, system.rounds, settling)
    return FilteredResponse(
        transition=space.transition,
        rows=space.rows,
        inputs=space.inputs,
        gains=gains,
        rounds=system.rounds,
        distortion=SECOND_ORDER
        * (
            gains.distortion
            + _given_error(system)
            + _cut(system, space.basis)
            + _reach(system) * (defect.relation + (1 + system.power_norm) * defect.start)
            + defect.skew
        ),
        engine="reduced",
    )
