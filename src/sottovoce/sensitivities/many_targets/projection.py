# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once that is close to exact where the response is smooth in time.

Far targets reach an observer through many averages, so that F hardly changes from one round to the next. The rounds
are cut into blocks, Π projects each block of a stream onto polynomials of low degree, and with F̂ = ΠFΠ

    ‖Fc‖² ≤ (1 + η)(‖F̂c‖² + ‖(I − Π)FΠc‖²) + (1 + 1/η)‖F(I − Π)c‖².

F̂ is small, and what it leaves out is counted by Frobenius norms, which are quadratic forms of the target's input:
r basis responses serve every target. So they do for rounding: a step that errs, errs in proportion to what it
multiplies, and its error is then read by the state z_v of its round v. With ω² = Σ ‖z_vs‖² over all rounds v and
all rounds s ≤ v of an impulse, one more form, every table is off by a small multiple of ω or ω².
Source: docs/mathematics.md, section 7, All targets at once; the allowances are proved in the docstrings here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import Step, product_error, square
from sottovoce.rounding import TINY, above, gamma, gamma_above
from sottovoce.sensitivities.many_targets.block_dual import constant_in_blocks, dominating
from sottovoce.sensitivities.many_targets.details import detail_bound
from sottovoce.sensitivities.many_targets.polynomials import (
    BLOCKS,
    DEGREE,
    ROWS_DEGREE,
    block_edges,
    polynomials,
    skew,
)
from sottovoce.sensitivities.rounding import congruence, root_less, weights_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import FilteredResponse
    from sottovoce.sensitivities.many_targets.details import DetailTables

__all__ = [
    "CloserEnds",
    "ProjectionTables",
    "closer_ends",
    "projection_bound",
    "projection_tables",
    "rest_shown",
]

# Speed alone, all of these: any shares give a bound. Those of the bound that the smooth part may grow by to make room
# for the rest; the best one is taken.
SHARES = np.geomspace(1e-5, 1, 41)
# Shares that the bound of later blocks may grow by to make room for the first.
STARTS = (0.05, 0.2, 1.0)
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class ProjectionTables:
    """What the bound needs of a response, for any input b.

    `coarse[p, q]·b` is the entry of P̌ᵀFP̂ from basis stream q to basis row p, `DEGREE` streams a block and
    `ROWS_DEGREE` rows; block I has the rounds `edges[I]` to `edges[I + 1]`. bᵀ`total`b is the squared Frobenius norm
    of F, bᵀ`kept`b that of FP̂, bᵀ`first`b what of their difference is the first block's, and bᵀ`states`b ≥ ω². The
    columns of P̂ are a basis of the range of Π with ‖P̂ᵀP̂ − I‖ ≤ `skew`, those of P̌ of a range that holds it.

    As computed, `coarse`·b is off by at most `rows_error`·ω in Frobenius norm, bᵀ`total`b by at
    most d = `forms_error`·ω² + `sums_error`·‖b‖², and bᵀ`kept`b by d from the square of a number
    within `rows_error`·ω of ‖FP̂‖; the parts of `first` likewise.
    """

    edges: np.ndarray
    coarse: np.ndarray
    total: np.ndarray
    kept: np.ndarray
    first: np.ndarray
    states: np.ndarray
    skew: float
    rows_error: float
    forms_error: float
    sums_error: float
    apart: float


def projection_tables(response: FilteredResponse, *, blocks: int = BLOCKS) -> ProjectionTables:
    """The tables of a response over at least `ROWS_DEGREE` rounds, in T steps of small matrix products.

    Guarantee: the errors stated in `ProjectionTables`, for the model as stored. All norms are Frobenius
    norms; Z_v maps a stream to the state of round v, so that Σ_v ‖Z_v‖² = ω² ≥ T‖b‖²; ℓ is the length of
    a block and κ that of `Step`.

    * A step multiplies rows X̂ by AΦ_v but for an R_v with ‖R_v‖ ≤ κ‖X̂‖, and what is read in the end is off by R_v
      Z_v on its account. In a block X̂ is the block's rows of F, whose squares over all steps sum to φ², and the
      passage to its end, with ψ², which later rows N then multiply. By Cauchy and Schwarz all steps together
      account for at most κτω, τ² = Σ (φ² + ‖N‖²ψ²) over the blocks.
    * Sums over a block err by γ_ℓ‖P̂‖ ≤ 2γ_ℓ of the same norms, products with a passage by γ_r. Where they make
      rows that read a state, it is one Z_v for each block that reads the error: at most (2γ_ℓ + γ_r)τω.
    * Where they are taken over the block's own streams, the input does. There `shown` and `ends` are off by 2γ_ℓ,
      `inner` by 4γ_ℓ more, products with `ends` by 2γ_r: at most (7γ_ℓ + 2γ_r)τ‖b‖, and ‖b‖ ≤ ω/√T.
    * A state that is off by e shows at most √g·e of it, g ≥ ‖G_v‖: with g for ‖N‖² all this bounds the error of
      ‖FP̂‖.
    * Gramians are off by `_Energies.error`·ω² where exact states meet them; computed ones have ω(1 + √w·e) for ω,
      with e as above for the passages alone and w ≥ ‖W_v‖.
    * Sums and products of forms err by γ_k times the norms behind them, in proportion to ‖b‖².

    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    rounds, size, m = response.rounds, response.size, response.rows.shape[0]
    edges = block_edges(rounds, blocks)
    count, longest = len(edges) - 1, int(np.diff(edges).max())
    step = Step.of(response.transition, response.rows, response.gains.gain)
    energies = _column_energies(response, edges, step)
    pieces = [_block(response, edges[i], edges[i + 1]) for i in range(count)]
    shares, behind = [], 0.0
    for piece, gram in zip(pieces, energies.later, strict=True):
        behind += float(np.trace(piece.kept))
        for ended in piece.ends if gram.any() else ():
            piece.kept[:] += ended.T @ gram @ ended
            behind += float(np.linalg.norm(ended) ** 2 * np.linalg.norm(gram))
        shares.append(piece.kept)
    kept = np.sum(shares, axis=0)
    coarse, spread = _coarse(pieces, energies.gram_norm)
    passed = float(sum(piece.passage_energy for piece in pieces)) ** 0.5
    terms = 2 * longest + size + (7 * longest + 2 * size) / rounds**0.5
    rows_error = (step.error + gamma(terms)) * spread
    rows_error += gamma(size) * float(np.linalg.norm(coarse)) / rounds**0.5
    states_error = energies.states_norm**0.5 * passed * (step.error + gamma(2) * longest)
    summed = (longest + count) * energies.gram_norms + (DEGREE * longest * m + 2 * size + 4 * count) * behind
    summed += (2 * size + 2) * float(np.linalg.norm(energies.total) + np.linalg.norm(kept))
    return ProjectionTables(
        edges=edges,
        coarse=coarse,
        total=energies.total,
        kept=kept,
        first=energies.first - shares[0],
        states=energies.states,
        skew=max(skew(length, d) for length in np.unique(np.diff(edges)) for d in (DEGREE, ROWS_DEGREE)),
        rows_error=above(rows_error) + TINY,
        forms_error=above(energies.error) * (1 + states_error) ** 2 + TINY,
        sums_error=gamma_above(summed) + TINY,
        apart=(2**0.5 - 1) * response.distortion * rounds**0.5,
    )


def projection_bound(
    tables: ProjectionTables, sources: np.ndarray, sizes: np.ndarray | None = None
) -> np.ndarray:
    """An upper bound of Δ² for each column b of `sources`, over streams whose norms are at most `sizes`, or 1.

        Δ² ≤ Σ_I max((1 + η)(Σ_J N_IJ + ζ² h_I), (1 + 1/η) σ² h_I),

    N_IJ = √(h_I h_J)·‖(F̂ᵀF̂)_IJ‖, ζ = ‖(I − Π)FΠ‖, σ = ‖F(I − Π)‖, all Frobenius norms, h_I the length of block I,
    or the sum of the squares of the sizes in it, for the best of several η.

    Guarantee: an upper bound for vectors of every dimension. A stream puts a share a_I² ≤ 1 of the norm √h_I of its
    block I into Π, and then Σ N_IJ a_I a_J ≤ Σ a_I² Σ_J N_IJ; a sum linear in a_I² is largest at 0 or 1. What the
    tables are off by is in ζ and σ (see `_Parts`).
    Source: docs/mathematics.md, section 7; docs/proofs/details.md.
    """
    lengths = np.diff(tables.edges).astype(np.float64)
    if sizes is not None:
        # A sum of that many squares errs by less than twice as many units.
        lengths = np.add.reduceat(sizes**2, tables.edges[:-1]) * (1 + gamma(4) * (lengths + 2))
    bounds = np.empty(sources.shape[1])
    for part, found in _parts(tables, sources, DEGREE):
        level = _norm_sums(found.form, lengths) + np.outer(found.aside, lengths)
        bounds[part] = _best(level, np.outer(found.rest, lengths))
    return bounds


@dataclass(frozen=True, kw_only=True, eq=False)
class CloserEnds:
    """attained ≤ Δ² ≤ bound, and the unit `vectors` (targets, blocks, d) that the streams behind `attained` keep to."""

    attained: np.ndarray
    bound: np.ndarray
    vectors: np.ndarray


def closer_ends(
    tables: ProjectionTables, details: DetailTables, sources: np.ndarray, *, streams: int
) -> CloserEnds:
    """Closer and dearer ends of Δ², for each column b of `sources`.

        Δ² ≤ Σ_I h_I max((1 + η)(y_I + ζ²), (1 + 1/η) ρ_I),   ρ_0 = (1 + 1/θ)σ_0²,   ρ_I = (1 + θ)ρ,

    for the best of several η and θ: y with diag(y_I) ⪰ F̂ᵀF̂ (`block_dual.dominating`) if sums of norms are larger, and
    the norm ρ of all later blocks (`details.detail_bound`) in place of a Frobenius norm over all rounds; σ_0 is that
    of the first block. Below stand unit vectors in so many dimensions, `streams`, that change from block to block.

    Guarantee: bounds for vectors of every dimension; with `streams` = 1 signs attain what is attained. Two filters
    stand behind the upper end, each within the distortion of the response for its part of a stream, and the norms of
    the two parts sum to √2 times that of the stream at most: what that is more is in it. The lower end holds for the
    model as stored: ‖Fc‖ ≥ ‖PᵀFc‖ for an orthonormal basis, of which Ĉ and the stream are off as `_Parts` says.
    Source: the docstring of `_Parts`.
    """
    lengths = np.diff(tables.edges).astype(np.float64)
    count, blocks = sources.shape[1], len(lengths)
    attained, bounds, vectors = np.empty(count), np.empty(count), np.empty((count, blocks, streams))
    later = detail_bound(details, sources)
    for part, found in _parts(tables, sources, ROWS_DEGREE):
        level, sums = dominating(found.form, lengths) * lengths, _norm_sums(found.form, lengths)
        level = np.where((sums.sum(axis=1) < level.sum(axis=1))[:, None], sums, level)
        level += np.outer(found.aside, lengths)
        best = np.full(len(level), np.inf)
        for share in STARTS:
            rest = np.repeat((1 + share) * later[part, None], blocks, axis=1)
            rest[:, 0] = (1 + 1 / share) * found.first
            best = np.minimum(best, _best(level, rest * lengths))
        bounds[part] = best
        means = found.form[:, ::DEGREE, ::DEGREE] * np.sqrt(np.outer(lengths, lengths))
        vectors[part], shown = constant_in_blocks(means, streams)
        lost = found.off * np.sqrt(lengths.sum())
        attained[part] = root_less(shown - found.slip * lengths.sum(), lost) ** 2
    bounds = (np.sqrt(bounds) + tables.apart) ** 2 * (1 + gamma(8))
    return CloserEnds(attained=attained * (1 - gamma(16)), bound=np.asarray(bounds), vectors=vectors)


def _norm_sums(forms: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Σ_J N_IJ of `projection_bound` for each form and block I."""
    count = len(lengths)
    within = np.repeat(np.eye(count), DEGREE, axis=0)
    squares = ((forms**2).reshape(-1, len(within)) @ within).reshape(-1, count, DEGREE, count).sum(axis=2)
    return np.asarray((np.sqrt(squares) * np.sqrt(np.outer(lengths, lengths))).sum(axis=2))


def _best(level: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Σ_I max((1 + η)`level`_I, (1 + 1/η)`rest`_I) for the best η, from above, for each row."""
    best = np.full(len(level), np.inf)
    for share in SHARES:
        best = np.minimum(best, np.maximum((1 + share) * level, (1 + 1 / share) * rest).sum(axis=1))
    return np.asarray(best * (1 + gamma(4 * (level.shape[1] + 8))))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """What bounds need of a batch of targets.

    `form` is ĈᵀĈ, off by `slip` in norm. From above: `aside` is ζ², `rest` σ², `first` that of the first block, and
    `off` what streams that keep to a vector in each block show less than Ĉ says, in proportion to their norm.

    With P = P̂(P̂ᵀP̂)^{−1/2} an orthonormal basis, P̌ made so likewise, θ = `skew` and k² = ‖FΠ‖²: PᵀFP is within e =
    e₀ + θ(‖Ĉ‖ + e₀) of Ĉ, e₀ = `rows_error`·ω, and ‖FP̂‖² within θk² of k². With d of `ProjectionTables` and k̂² the
    form `kept` as computed,

        |k² − k̂²| ≤ d + 2√(k̂² + d)·e₀ + e₀² + θk̂²,   ‖PᵀFPx‖² ≤ ‖Ĉx‖² + (2‖Ĉ‖e + e²)‖x‖²,

    the first up to a factor 1/(1 − θ). Products and sums over Ĉ err by γ_k‖Ĉ‖² more, `slip`: all that is in `aside`.
    A stream that keeps to a vector in each block is within θ of Π's range in proportion to its norm, so that `off` is
    e + θ‖F‖.
    """

    form: np.ndarray
    aside: np.ndarray
    rest: np.ndarray
    first: np.ndarray
    off: np.ndarray
    slip: np.ndarray


def _parts(tables: ProjectionTables, sources: np.ndarray, degree: int) -> Iterator[tuple[slice, _Parts]]:
    """The parts of all targets, in batches, with the first `degree` of the `ROWS_DEGREE` rows of a block.

    Shapes: `sources` is states × targets; a part has targets × height × width numbers. Rows that are 0 for every
    state are left out of the product and stay 0. Batches bound memory alone.
    """
    count, (_, width, size) = len(tables.edges) - 1, tables.coarse.shape
    flat = tables.coarse.reshape(count, ROWS_DEGREE, -1, size)[:, :degree].reshape(-1, size)
    height = len(flat) // width
    reached = np.flatnonzero(flat.any(axis=1))
    readers = np.ascontiguousarray(flat[reached].T)
    batch = max(1, BATCH_BYTES // (8 * height * width))
    for begin in range(0, sources.shape[1], batch):
        part = slice(begin, begin + batch)
        chosen = sources[:, part]
        response = np.zeros((chosen.shape[1], height * width))
        response[:, reached] = chosen.T @ readers
        yield part, _parts_of(tables, response.reshape(-1, height, width), chosen)


def _parts_of(tables: ProjectionTables, response: np.ndarray, sources: np.ndarray) -> _Parts:
    """The parts of targets whose coarse responses Ĉ are given.

    With Ĉ = P̌ᵀFP̂c for each target: ‖Ĉ‖² is what streams of low degree show in rows of low degree, `kept` what these
    streams show in all rows, so that kept − ‖Ĉ‖² is shown aside; `total` is what all streams show.

    Guarantee: each part is an upper bound of its share, with `unsure` and `off` for what rounding hides of the
    tables.
    Source: the docstring of `_Parts`.
    """
    total, kept, first, states = (
        np.maximum(np.einsum("rj,rj->j", sources, form @ sources), 0)
        for form in (tables.total, tables.kept, tables.first, tables.states)
    )
    inner = (response**2).sum(axis=(1, 2))
    height, width = response.shape[1:]
    carried = tables.rows_error * np.sqrt(states)
    formed = tables.forms_error * states + tables.sums_error * (sources**2).sum(axis=0)
    off = above(carried + tables.skew * np.sqrt(inner))
    unsure = formed + 2 * np.sqrt(kept + formed) * carried + carried**2 + tables.skew * kept
    unsure = above(unsure) + TINY * sources.any(axis=0)
    aside = np.maximum(kept - inner, 0) + unsure + above(4 * np.sqrt(inner) * off + off**2)
    slip = gamma(height * width + height) * inner
    return _Parts(
        form=response.transpose(0, 2, 1) @ response,
        aside=aside + slip,
        rest=np.maximum(total - kept, 0) + formed + unsure,
        first=first + formed + unsure,
        off=off + above(tables.skew) * np.sqrt(total + formed),
        slip=above(slip),
    )


def rest_shown(tables: ProjectionTables, sources: np.ndarray) -> np.ndarray:
    """T·σ² for each column b of `sources`, an estimate: how much the slow streams leave out at most."""
    rest = np.einsum("rj,rj->j", sources, (tables.total - tables.kept) @ sources)
    return np.asarray(float(tables.edges[-1]) * rest)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Energies:
    """Forms of the columns of F, all and those of the `first` block, of their states, and Gramians after each block.

    The form of a Gramian of round t is off by at most `error`·zᵀW_t z, where W_t is the form of all later states;
    the norms are the largest, `gram_norms` sums those of the Gramians.
    """

    total: np.ndarray
    first: np.ndarray
    later: np.ndarray
    states: np.ndarray
    error: float
    gram_norm: float
    gram_norms: float
    states_norm: float


def _column_energies(response: FilteredResponse, edges: np.ndarray, step: Step) -> _Energies:
    """Σ over all rounds s of the Gram matrix of column s of F and of its states.

        G_t = D_tᵀD_t + (AΦ_t)ᵀ G_{t+1} (AΦ_t),   W_t = I + (AΦ_t)ᵀ W_{t+1} (AΦ_t),

    backwards: zᵀG_t z is what a state z of round t still shows, zᵀW_t z what it and the states after it weigh.

    Guarantee: |zᵀ(Ĝ_t − G_t)z| ≤ ρ zᵀW_t z. With z_v the state that z has become in round v, a step adds ⟨z_v, R
    z_v⟩ and, for the half that is multiplied once more, ⟨R' z_v, z_{v+1}⟩ to the form: at most ‖R‖ and ‖R'‖ times
    ‖z_v‖² and (‖z_v‖² + ‖z_{v+1}‖²)/2, which sum to zᵀW_t z. So ρ = max ‖R‖ + max ‖R'‖. W itself is rounded up:
    what its step errs by is added to its diagonal.
    """
    rounds, size, count = response.rounds, response.size, len(edges) - 1
    # Speed alone: columns stand together, as in what `before` returns.
    total, states, inside, gram = (np.zeros((size, size), order="F") for _ in range(4))
    weight, later = np.eye(size), np.zeros((count, size, size))
    error, grams, weights = 0.0, [0.0], [0.0]
    for i in range(count - 1, -1, -1):
        later[i], inside = gram, np.zeros((size, size), order="F")
        for t in range(edges[i + 1] - 1, edges[i] - 1, -1):
            # G_t = D_tᵀD_t + (AΦ_t)ᵀG_{t+1}(AΦ_t),   W_t = I + (AΦ_t)ᵀW_{t+1}(AΦ_t)
            off = 0.0
            if t < rounds - 1:
                gram, off = congruence(response, gram, t)
                weight = weights_before(response, step, weight, t)
            whitener = response.whitener(t)
            gram += square(whitener).T
            inside += gram
            states += weight
            grams.append(float(np.linalg.norm(gram)))
            weights.append(float(np.linalg.norm(weight)))
            added = product_error(len(whitener), whitener, whitener) + gamma(1) * grams[-1]
            error = max(error, step.error * off + added)
        total += inside
    error = above(error + step.error * max(grams))
    room = gamma(1) * (rounds * sum(weights) + 2 * (size + 1) * float(np.linalg.norm(states)))
    states.flat[:: size + 1] += above(room)
    return _Energies(
        total=total,
        first=inside,
        later=later,
        states=states,
        error=error,
        gram_norm=above(max(grams) + error * max(weights)),
        gram_norms=sum(grams),
        states_norm=above(max(weights)),
    )


def _coarse(pieces: list[_Block], gram_norm: float) -> tuple[np.ndarray, float]:
    """The entries of P̌ᵀFP̂ for each state, and τ of `projection_tables`.

        readers ← [readers of this block; readers of later blocks · passage of this block]

    from the last block to the first: a later row reads a contribution through the state at the end of its own block.

    Guarantee: entries are those of plain products, whose errors `projection_tables` counts with τ² = Σ (φ² + ‖N‖²ψ²).
    """
    count, (step, size) = len(pieces), pieces[0].readers.shape
    coarse = np.zeros((count * step, count * DEGREE, size))
    readers, spread = np.zeros((0, size)), 0.0
    for i in range(count - 1, -1, -1):
        piece = pieces[i]
        for q, ended in enumerate(piece.ends):
            coarse[(i + 1) * step :, DEGREE * i + q] = readers @ ended
        coarse[i * step : (i + 1) * step, DEGREE * i : DEGREE * (i + 1)] = piece.inner
        weight = max(gram_norm, float(np.linalg.norm(readers)) ** 2)
        spread += piece.rows_energy + weight * piece.passage_energy
        # Rows of later blocks read a state at the start of this one through its passage.
        readers = np.vstack([piece.readers, readers @ piece.passage])
    return coarse, spread**0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class _Block:
    """One block of rounds: basis streams to states at its end, states at its start to basis rows, and both inside.

    `kept` is the Gram matrix of the block's basis streams in its own rounds. `rows_energy` and `passage_energy` sum the
    squares of all that was multiplied to get there, φ² and ψ².
    """

    kept: np.ndarray
    ends: np.ndarray
    passage: np.ndarray
    readers: np.ndarray
    inner: np.ndarray
    rows_energy: float
    passage_energy: float


def _block(response: FilteredResponse, begin: int, end: int) -> _Block:
    """Run back through the rounds of one block.

        X_t ← X_{t+1} A_t,  with the rows of round t put below;   passage ← passage A_t

    backwards in time, so that every row is followed through the block once for all states.
    """
    size, m, length = response.size, response.rows.shape[0], end - begin
    basis, readers = polynomials(length, DEGREE), polynomials(length, ROWS_DEGREE)
    # What rows of the block's rounds read in round s, and what is left at its end of a state of round s.
    # Speed alone: columns stand together, as in what `before` returns.
    adjoint, passage = np.zeros((length * m, size), order="F"), np.eye(size)
    shown, ends = (np.zeros((DEGREE, size, k)).transpose(0, 2, 1) for k in (length * m, size))
    rows_energy, passage_energy = 0.0, float(size)
    for t in range(end - 1, begin - 1, -1):
        place = (t - begin) * m
        if t < response.rounds - 1:
            adjoint[place + m :] = response.before(adjoint[place + m :], t)
            passage = response.before(passage, t)
        whitener = response.whitener(t)
        adjoint[place : place + len(whitener)] = whitener
        rows_energy += float(np.linalg.norm(adjoint[place:])) ** 2
        passage_energy += float(np.linalg.norm(passage)) ** 2
        weights = basis[t - begin][:, None, None]
        shown[:, place:] += weights * adjoint[place:]
        ends += weights * passage
    rows = shown.reshape(-1, size)
    over_rounds = (ROWS_DEGREE * m, size)
    return _Block(
        kept=rows.T @ rows,
        ends=ends,
        passage=passage,
        readers=np.tensordot(readers, adjoint.reshape(length, -1), axes=(0, 0)).reshape(over_rounds),
        inner=np.stack(
            [
                np.tensordot(readers, each.reshape(length, -1), axes=(0, 0)).reshape(over_rounds)
                for each in shown
            ],
            axis=1,
        ),
        rows_energy=rows_energy,
        passage_energy=passage_energy,
    )
