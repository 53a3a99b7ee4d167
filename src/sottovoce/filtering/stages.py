# SPDX-License-Identifier: Apache-2.0
"""The rounds of a view of a program as float matrices, each entry rounded once from its exact value.

    z_{t+1} = A z_t + B u_t + B_x x_t,      y_t = C z_t + D u_t + Σ_a D_a x_{t+a},

z_t being what was kept before round t, u_t the draws the observer does not know, x_t the contributions. D has full
rank: it is [I | ·] up to the order of its columns, or has rows that are clearly independent as they are.

What floats leave out of A and C is kept beside them (`lows`), so that a product in doubled precision is one with
the exact matrices. B and D enter through their covariances alone, in doubled precision too.

Source: docs/proofs/programs.md; `decorrelation` for the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dtrtrs

from sottovoce.filtering.doubled import Doubled, Parts, from_left, from_right, product
from sottovoce.filtering.lines import entries
from sottovoce.filtering.rational_rows import rational_matrix
from sottovoce.filtering.rounding import fine_gamma
from sottovoce.filtering.slabs import Slabs, columns_of, slabs_of
from sottovoce.filtering.windows import windowed_noise
from sottovoce.protocols import GIVEN, STATE
from sottovoce.rounding import above, barely_above

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sottovoce.filtering.decorrelation import SeenRound, SeenView
    from sottovoce.filtering.doubled import Matrix
    from sottovoce.protocols import Form

__all__ = ["Noise", "Stage", "stage_of", "stages_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """B Bᵀ, B Dᵀ and D Dᵀ of a round in floats.

    More closely, [B; D][B; D]ᵀ is `drawn`. Where B = A G and D = C G, as on a Krylov space, G Gᵀ is `injected`
    instead.

    With r states and m rows `process` is (r, r), `shared` (r, m), `seen` (m, m), `drawn` (r + m, r + m) and
    `injected` (r, r). The filter uses the first three; its defects are measured with the others, one of which is
    None.
    """

    process: np.ndarray
    shared: np.ndarray
    seen: np.ndarray
    drawn: Doubled | None = None
    injected: Doubled | None = None

    @cached_property
    def whole(self) -> np.ndarray | None:
        """[B; D][B; D]ᵀ, each entry rounded once; None where noise is injected."""
        return None if self.drawn is None else np.asarray(self.drawn.rounded())


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """One round in floats; `lows` is what they leave out of A and C.

    `entering[a]` is [B_x; D_0] for a = 0 and [0; D_a] after that, with a column for each node. On a Krylov space
    there is one, [A; C] G, and `given` is G; `factor` is the f through which the next state gets what the space
    leaves out.

    With r states, m rows and n nodes: `transition` is A, (r, r), `rows` C, (m, r), each of `entering` (r + m, n),
    and `given` (r, n). Contributions of a rounds later count in the round that shows them.
    """

    transition: Matrix
    rows: Matrix
    noise: Noise
    lows: tuple[Matrix, Matrix] | None = None
    entering: tuple[Doubled, ...] = ()
    given: np.ndarray | None = None
    factor: np.ndarray | None = None

    @property
    def size(self) -> int:
        """The dimension of the state."""
        return int(self.transition.shape[0])

    @property
    def count(self) -> int:
        """How many rows are seen."""
        return int(self.rows.shape[0])

    @cached_property
    def sizes(self) -> tuple[Matrix, Matrix]:
        """A and C with absolute values for entries."""
        return abs(self.transition), abs(self.rows)

    @cached_property
    def terms(self) -> tuple[int, int]:
        """How many products an entry sums at most in a product with A, and with C: k of γ_k.

        Guarantee: exact for the matrices as stored.
        """
        return _longest(self.transition), _longest(self.rows)

    @cached_property
    def both(self) -> Parts:
        """[A; C] as a left factor."""
        highs = self.transition, self.rows
        return from_left(Doubled(high=_stack(highs), low=self.lows and _stack(self.lows)), self.size)

    @cached_property
    def dense_both(self) -> np.ndarray:
        """[A; C] with all its zeros, as floats have it."""
        return np.ascontiguousarray(_dense(self.both.whole))

    @cached_property
    def dense_sizes(self) -> np.ndarray:
        """The same with absolute values for entries."""
        return np.asarray(np.abs(self.dense_both))

    @cached_property
    def row_units(self) -> np.ndarray:
        """k_i + 4 with k_i the entries of row i of [A; C]; [A; C] Z [A; C]ᵀ errs by (k_i + k_j + 8)u in floats.

        Guarantee: exact counts for the matrices as stored; terms that are 0 round nothing.
        """
        return np.asarray(np.count_nonzero(self.dense_both, axis=1) + 4.0)

    @cached_property
    def largest_noise(self) -> float:
        """The largest entry of B Bᵀ.

        Guarantee: none: of the floats as stored, for a question of speed (`settled_or`).
        """
        return float(self.noise.process.max(initial=0.0))

    @cached_property
    def loop_terms(self) -> np.ndarray:
        """How many entries a column of A − K C has at most, whatever K is.

        A column that C does not read is that of A; one that it reads may be full, whatever the gain.

        Guarantee: an upper bound; shape (states,).
        """
        sizes = self.dense_sizes
        read = sizes[self.size :].any(axis=0)
        return np.asarray(np.where(read, self.size, np.count_nonzero(sizes[: self.size], axis=0)))

    @cached_property
    def loop_units(self) -> np.ndarray:
        """k_i + 4, k_i being how many entries row i of A − K C has at most, whatever K is.

        Guarantee: upper bounds; shape (states,).
        """
        sizes = self.dense_sizes
        used = (sizes[: self.size] != 0) | sizes[self.size :].any(axis=0)
        return np.asarray(np.count_nonzero(used, axis=1) + 4.0)

    @cached_property
    def column_units(self) -> np.ndarray:
        """Roundings of an entry of K C, and of C: c + 1, c being the entries of a column of C.

        Guarantee: upper bounds, whatever K is; shape (states,).
        """
        return np.asarray(np.count_nonzero(self.dense_both[self.size :], axis=0) + 1.0)

    @cached_property
    def read_width(self) -> int:
        """The column from which on C is 0."""
        return 1 + int(np.flatnonzero(self.dense_sizes[self.size :].any(axis=0)).max(initial=-1))

    @cached_property
    def loop_slabs(self) -> Slabs:
        """Where the rows of A − K C end, whatever K is."""
        seen = np.abs(self.dense_both[self.size :]).sum(axis=0)
        return slabs_of(self.dense_sizes[: self.size] + seen)

    @cached_property
    def loop_columns(self) -> Slabs:
        """Where the columns of A − K C begin."""
        return columns_of(self.loop_slabs, self.size)

    @cached_property
    def row_lengths(self) -> np.ndarray:
        """The norms of the rows of [A; C], from above.

        Guarantee: upper bounds.
        """
        return np.asarray(barely_above(np.sqrt((self.dense_both**2).sum(axis=1)), self.size + 4))

    @property
    def inputs_given(self) -> np.ndarray:
        """G of a stage on a Krylov space: what contributions put into the state."""
        if self.given is None:
            raise TypeError("states of a Krylov space say what is put into them")
        return self.given

    @property
    def injected(self) -> Doubled:
        """G Gᵀ of a stage on a Krylov space."""
        if self.noise.injected is None:
            raise TypeError("noise is injected into the state on a Krylov space alone")
        return self.noise.injected

    @cached_property
    def unknown(self) -> tuple[float, np.ndarray]:
        """(e, v): the covariances of the noise as stored are off by at most e v vᵀ in Y, entry by entry.

        Guarantee: an upper bound, entry by entry.
        """
        noise = self.noise.injected or self.noise.drawn
        if noise is None or noise.error is None:
            return 0.0, self.row_lengths
        if self.noise.injected is not None:
            return float(np.linalg.norm(noise.error)), self.row_lengths
        return float(noise.error.max(initial=0.0)), np.ones(self.size + self.count)

    @cached_property
    def windowed(self) -> tuple[int, float, np.ndarray | None]:
        """How many rounds like this one put noise into every direction of the state, and how much (`windows`)."""
        return windowed_noise(self)

    @property
    def widest(self) -> int:
        """How many products an entry sums at most where rows meet A, K or C: r or m, whichever is larger."""
        return max(self.size, self.count)

    @cached_property
    def readers(self) -> tuple[Parts, Parts]:
        """A and C as right factors, cut for `widest` terms: more rows may be seen than states are kept."""
        low = self.lows or (None, None)
        return (
            from_right(Doubled(high=self.transition, low=low[0]), self.widest),
            from_right(Doubled(high=self.rows, low=low[1]), self.widest),
        )

    def contributions(self, targets: np.ndarray) -> tuple[Doubled, ...]:
        """What contributions of the targets (node indices) put in, and show at once: columns of `entering`.

        Guarantee: columns as stored on all that is kept; on a Krylov space a product in doubled precision with its
        error.
        """
        if self.given is None:
            return tuple(_dense_columns(each, targets) for each in self.entering)
        given = from_right(Doubled(high=self.given[:, targets]), self.size)
        return (product(self.both, given, self.size),)

    def plain_contributions(self, targets: np.ndarray) -> np.ndarray:
        """The first of `contributions` in plain floats.

        Guarantee: within (r + 2)u of `input_sizes`, entry by entry; of entries as stored each is rounded once.
        """
        if self.given is None:
            return _dense(self.entering[0].high[:, targets])
        return np.asarray(self.dense_both @ self.given[:, targets])

    @cached_property
    def input_sizes(self) -> np.ndarray:
        """The sizes of what each node puts in, |B_x| or |A||G|, and below of what it shows at once: a column a node.

        Guarantee: upper bounds; `plain_contributions` err by (r + 2)u of these.
        """
        sizes = np.abs(self.all_given) if self.given is None else self.dense_sizes @ np.abs(self.given)
        return np.asarray(above(sizes))

    @cached_property
    def largest_inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """For each entry the largest of `input_sizes`, and for each row the largest that is shown.

        Guarantee: upper bounds.
        """
        largest = self.input_sizes.max(axis=1, initial=0.0)
        return largest[: self.size], largest[self.size :]

    @cached_property
    def all_given(self) -> np.ndarray:
        """`plain_contributions` of all nodes."""
        return self.plain_contributions(np.arange(self.inputs))

    @cached_property
    def all_contributions(self) -> tuple[np.ndarray, float, float]:
        """Σ_j v_j v_jᵀ over the columns of `all_given`, and norms of sizes of their two parts.

        Guarantee: the sum in plain floats; the norms are upper bounds of (Σ_j ‖·‖²)^½ for sizes of what the nodes put
        in, and of what they show.
        """
        given = self.all_given
        into, seen = (math.sqrt(self.inputs) * float(np.linalg.norm(each)) for each in self.largest_inputs)
        return given @ given.T, into, seen

    @cached_property
    def hidden(self) -> tuple[np.ndarray, float]:
        """κ_j² and τ with v_j v_jᵀ ⪯ κ_j²(N + τ I): what contributions of each node are in units of the noise.

        v_j is what node j puts in, into states and rows, and N = [B; D][B; D]ᵀ; or on a Krylov space a column of G and
        G Gᵀ. With Y Yᵀ = N + τI/2 but for rounding κ_j = ‖Y⁻¹v_j‖.

        Guarantee: upper bounds; infinite where noise is not proved to hide a node.
        Source: docs/proofs/blocks.md, "States".
        """
        noise = self.noise.drawn if self.noise.injected is None else self.noise.injected
        if noise is None:
            return np.full(self.inputs, np.inf), np.inf
        covariance = np.array(noise.rounded())
        given = self.all_given if self.given is None else self.given
        trace, count = float(np.trace(covariance)), len(covariance)
        missed = 0.0 if noise.error is None else float(np.linalg.norm(noise.error))
        half = fine_gamma(64 * (count + 2)) * trace + 2 * missed
        covariance.flat[:: count + 1] += half
        root, failed = dpotrf(covariance, lower=1)
        if failed or not np.isfinite(half):
            return np.full(self.inputs, np.inf), np.inf
        turned, _ = dtrtrs(root, given, lower=1)
        return np.asarray(above((turned**2).sum(axis=0))), 2 * half

    @cached_property
    def contributed(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """For each of `entering`, Σ_j v_j v_jᵀ over its columns v_j; the same of sizes.

        Σ_j v_j v_jᵀ ⪰ v_j v_jᵀ for each j, so that one bound of the states serves every target.

        Guarantee: products in plain floats; the second of each pair is what their rounding is counted with, γ_k of it
        entry by entry.
        """
        if self.given is not None:
            outer, sizes = np.abs(_dense(self.both.whole)), np.abs(self.given)
            whole = _dense(self.both.whole)
            gram = whole @ (self.given @ self.given.T) @ whole.T
            return ((gram, outer @ (sizes @ sizes.T) @ outer.T),)
        return tuple(
            (_dense(each.high @ each.high.T), _dense(abs(each.high) @ abs(each.high).T))
            for each in self.entering
        )

    @cached_property
    def largest_given(self) -> np.ndarray:
        """The largest size of what a contribution of 1 of any node puts into each state of a Krylov space.

        Guarantee: exact for G as stored; 0 where there is no such space.
        """
        if self.given is None:
            return np.zeros(self.size)
        return np.asarray(np.abs(self.given).max(axis=1, initial=0.0))

    @property
    def inputs(self) -> int:
        """How many nodes may contribute."""
        return int((self.entering[0].high if self.given is None else self.given).shape[1])


def stages_of(view: SeenView) -> list[Stage]:
    """The rounds in floats; those that are alike are one and the same value.

    Guarantee: every entry of A, B, C, D, B_x and D_a errs by at most half a unit in its last place; numbers that
    floats do not hold well are refused.
    """
    made: dict[int, Stage] = {}
    kinds: list[SeenRound] = []
    for seen in view.rounds:
        if id(seen) in made:
            continue
        # The first round is a value of its own, and others may show the same rows.
        same = next((kind for kind in kinds if _are_alike(kind, seen)), None)
        made[id(seen)] = _stage(seen) if same is None else made[id(same)]
        kinds.append(seen)
    return [made[id(seen)] for seen in view.rounds]


def _are_alike(one: SeenRound, other: SeenRound) -> bool:
    """Whether two rounds show the same."""
    return (
        one.compiled is other.compiled
        and one.known == other.known
        and one.pivots == other.pivots
        and one.rows == other.rows
    )


def _stage(seen: SeenRound) -> Stage:
    """One round in floats, on all that is kept."""
    compiled = seen.compiled
    kept = [(form, compiled.state.denominator) for form in compiled.state.forms]
    rows = [(form, form[pivot]) for form, pivot in zip(seen.rows, seen.pivots, strict=True)]
    return stage_of(seen, kept, rows, range(compiled.size))


def stage_of(
    seen: SeenRound,
    kept: Sequence[tuple[Form, int]],
    rows: Sequence[tuple[Form, int]],
    places: Mapping[int, int] | range,
) -> Stage:
    """A round in floats: columns of forms are sorted into states, draws and contributions of each later round.

    `kept` are the states after the round and `rows` what is seen, as forms over scales; `places` says where each
    coordinate of what was kept before stands in the state.

    Guarantee: that of `stages_of`.
    """
    n, size = seen.compiled.n, len(kept)
    draws = [k for k, owners in enumerate(seen.compiled.owners) if seen.known.isdisjoint(owners)]
    column = {k: place for place, k in enumerate(draws)}
    reach = 1 + max(((key - GIVEN) // n for form in seen.rows for key in form if key >= GIVEN), default=0)
    nothing: list[tuple[Form, int]] = [({}, 1)] * size

    def stands(key: int) -> int | None:
        return places[key - STATE] if STATE <= key < GIVEN else None

    transition, read = (rational_matrix(forms, size, stands) for forms in (kept, rows))
    drawn = rational_matrix([*kept, *rows], len(draws), lambda key: column.get(key) if key < STATE else None)
    lows = [each.low for each in (transition, read) if each.low is not None]
    return Stage(
        transition=transition.high,
        rows=read.high,
        lows=(lows[0], lows[1]),
        noise=_noise(drawn, size),
        entering=tuple(
            rational_matrix([*(nothing if a else kept), *rows], n, _contributed_later(a, n))
            for a in range(reach)
        ),
    )


def _contributed_later(rounds: int, n: int) -> Callable[[int], int | None]:
    """The node of a column, if it is what a node contributes so many rounds later."""
    return lambda key: (key - GIVEN) % n if key >= GIVEN and (key - GIVEN) // n == rounds else None


def _noise(drawn: Doubled, size: int) -> Noise:
    """The covariances of B u and D u: [B; D][B; D]ᵀ in doubled precision, and its blocks rounded once.

    Guarantee: the product carries its error; blocks that are rounded once are for plain floats.
    """
    count = _longest(drawn.high)
    factor = from_left(drawn, count)
    found = product(factor, factor.T, count)
    whole = np.asarray(found.rounded())
    return Noise(
        process=whole[:size, :size], shared=whole[:size, size:], seen=whole[size:, size:], drawn=found
    )


def _stack(parts: tuple[Matrix, Matrix]) -> Matrix:
    """One above the other, dense if the first is."""
    if isinstance(parts[0], np.ndarray):
        return np.vstack([parts[0], _dense(parts[1])])
    return sparse.csr_array(sparse.vstack(parts))


def _dense_columns(matrix: Doubled, chosen: np.ndarray) -> Doubled:
    """Some columns, dense."""
    low = None if matrix.low is None else _dense(matrix.low[:, chosen])
    return Doubled(high=_dense(matrix.high[:, chosen]), low=low)


def _dense(matrix: Matrix) -> np.ndarray:
    """A matrix with all its zeros."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _longest(matrix: Matrix) -> int:
    """The largest number of entries other than 0 of a row or a column: adding a 0 rounds nothing."""
    return int(max(entries(matrix, axis).max(initial=0) for axis in (0, 1)))
