# SPDX-License-Identifier: Apache-2.0
"""`rate`: the limit of Δ²/T for one view and all its targets, each as a certified interval.

The form M of T rounds is, but for its first rounds, the Toeplitz matrix of φ. Its largest value over streams whose
entries have norm 1 grows like T·sup φ: a vector that turns by ω in each round attains T·φ(ω) up to what its first
and last rounds differ by, and diag(y) ⪰ M with y_t → sup φ bounds every stream (docs/mathematics.md, section 8).

This module is policy: it decides which way is taken (closed form, steady filter, lags of a program, training),
hands targets on in batches, and puts the two sides together where the observer had to be given more than it sees.
The ends are proved in `supremum`, `sign_streams` and `programs`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.errors import InputError, one_of
from sottovoce.feedback import training_rates
from sottovoce.filtering import HiddenSystem, hidden_system
from sottovoce.protocols import Protocol, gossip
from sottovoce.rates.programs import program_rates, program_spectrum
from sottovoce.rates.results import RateEnds, Rates
from sottovoce.rates.sign_streams import sign_limits
from sottovoce.rates.steady_filter import steady_state
from sottovoce.rates.supremum import suprema
from sottovoce.rates.taylor_pieces import rows_at, taylor_cover
from sottovoce.scenarios import Scenario, WidthWords, asked
from sottovoce.threads import one_blas_thread
from sottovoce.views import View, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from scipy.sparse import csr_array

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Contribution
    from sottovoce.rates.steady_filter import SteadyState
    from sottovoce.views import Observation

__all__ = ["rate", "response_spectrum"]

# Speed alone: targets are searched together while their polynomials take no more than this.
BATCH_BYTES = 64 * 2**20
# Speed alone: the relative width of an interval that the search stops at, if none is asked for. Both ends are
# proved wherever it stops.
TOLERANCE = 1e-6


@one_blas_thread()
def rate(
    question: Scenario | Protocol | GossipWeights | np.ndarray | csr_array,
    view: View | None = None,
    targets: Iterable[Hashable] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[WidthWords],
) -> Rates:
    """What each target gives away in the long run: the limit of Δ²/T as the number T of rounds grows.

    With f_ℓ the whitened response of the view, ℓ rounds after a contribution,

        φ_j(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖² ∈ [0, 1],   lim Δ²/T = sup_ω φ_j(ω)   (vectors);

    for numbers (`contribution="scalar"`) the limit lies between Σ_ν |ĉ_ν|² φ_j(ω_ν), the value of any
    periodic stream of signs with Fourier coefficients ĉ_ν, and the same supremum.

    Args:
        question: a `Scenario` of one view; or a protocol (its number of rounds plays no role here), or gossip
            weights. With `updates` the rate holds for all maps in their ball.
        view: what the observer sees and whose noise it knows.
        targets: names of the nodes to protect; all whose noise the observer does not know if None.
        progress: called with (targets done, targets in all).
        words: as in `sottovoce.scenarios.WidthWords`: `contribution`, "vector" or "scalar", and of what may be
            spent the `tolerance`, a relative width.

    Guarantee: lower ≤ limit ≤ upper, rounding and reduction included; no grid is trusted between its points. What
    rounding may do on slow or huge networks can leave an interval wider than `tolerance`. The limit is asymptotic:
    at a finite T, Δ²/T can be larger. Of protocols other than plain gossip φ need not lie below 1, and the limit is
    infinite where a contribution is seen beside no noise, or Δ² is proved to grow faster than T. An encoder
    multiplies φ by |Σ_k c_k e^{−ikω}|²; schedules are refused.
    Source: Theorem 13 of Koskela & Kulkarni, corrected (the limit is 1/n for constant contributions only);
    Grenander & Szegő, *Toeplitz Forms and Their Applications*, Section 5.2.

    >>> from sottovoce.graphs import metropolis_weights
    >>> found = rate(metropolis_weights("path:n=3"), View.secure_sum(0))
    >>> round(found[1].limit.upper, 8), round(25 / 26, 8)
    (0.96153846, 0.96153846)
    >>> round(found[1].constant, 8)
    0.5
    """
    known = question if isinstance(question, Scenario) else _in_the_long_run(question)
    scenario, effort = asked(known, view, words, WidthWords, targets=targets)
    contribution, view = scenario.contribution, scenario.one_view
    _check_contribution(contribution)
    if scenario.participation.kind != "full":
        raise InputError(
            f"a rate is about targets that contribute in every round; got participation {scenario.participation} "
            "(leave it out)"
        )
    tolerance = TOLERANCE if effort.tolerance is None else effort.tolerance
    chosen = _in_the_long_run(scenario.protocol)
    observation = observe(chosen, view)
    indices = target_indices(chosen, view, observation.known, scenario.targets)
    if chosen.updates is not None:
        ends = _of_training(chosen, view, indices, contribution, progress)
    elif not chosen.plain:
        ends = program_rates(
            chosen, view, indices, contribution=contribution, tolerance=tolerance, progress=progress
        )
    elif view.name == "everyone":
        ends = _exactly(1.0, len(indices), "closed form")
    else:
        ends = _of_gossip(chosen, observation, indices, contribution, tolerance, progress)
    return Rates(
        scenario=replace(scenario, protocol=chosen),
        targets=chosen.names(indices),
        indices=indices,
        ends=ends,
    )


def _check_contribution(contribution: str) -> None:
    """Refuse contributions of bounded energy: their Δ² is the largest eigenvalue of M, and stays bounded.

    That eigenvalue grows with the rounds to the supremum of φ, so that Δ²/T goes to 0.
    """
    if contribution == "energy":
        raise InputError(
            "a rate is about contributions that are bounded in every round, vector or scalar; got contribution "
            "'energy', bounded over all rounds together: where the supremum of φ(ω) is finite, its Δ² stays below "
            "that however long nodes gossip, and its rate is 0 (look at φ by response_spectrum, or ask sensitivity for "
            "some rounds)"
        )
    one_of(("vector", "scalar"), contribution=contribution)


def _in_the_long_run(protocol: Protocol | GossipWeights | np.ndarray | csr_array) -> Protocol:
    """The protocol with its encoder in full, however few rounds it was given.

    The number of rounds plays no role for a rate, but an encoder is cut to it.
    """
    chosen = protocol if isinstance(protocol, Protocol) else gossip(protocol, rounds=1)
    short = chosen.rounds < len(chosen.encoder)
    return replace(chosen, rounds=len(chosen.encoder)) if short else chosen


def _of_gossip(
    protocol: Protocol,
    observation: Observation,
    indices: np.ndarray,
    contribution: Contribution,
    tolerance: float,
    progress: Callable[[int, int], None] | None,
) -> RateEnds:
    """The rates of plain gossip of which not everything is seen.

    Guarantee: that of `rate`. The upper end may be that of an observer who was given an inflow; the lower one is then
    that of an observer who does not know that node's noise (`hidden_system`). The truth lies between.
    """
    upper_side = _assess(hidden_system(protocol, observation), indices, contribution, tolerance, progress)
    lower_side = upper_side
    if upper_side.over_informed:
        told = hidden_system(protocol, observation, complete=False)
        lower_side = _assess(told, indices, contribution, tolerance, None)
    lower, upper = np.minimum(lower_side.lower, upper_side.upper), upper_side.upper
    return replace(lower_side, lower=lower, upper=upper, method=upper_side.method)


def _of_training(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    contribution: Contribution,
    progress: Callable[[int, int], None] | None,
) -> RateEnds:
    """The rates of a protocol with updates, for every map in its ball.

    Guarantee: that of `training_rates`, for vectors; numbers are vectors of one dimension, so that the upper end
    would hold for them, but the lower one would not.
    """
    if contribution != "vector":
        raise InputError(
            f"contribution must be vector for training, whose bounds hold for numbers too; got {contribution!r}"
        )
    found = training_rates(protocol, view, indices, progress=progress)
    return RateEnds(
        method="+".join(np.unique(found.method).tolist()),
        lower=found.lower,
        upper=found.upper,
        frequency=found.angle,
        constant=found.constant,
    )


@one_blas_thread()
def response_spectrum(
    protocol: Protocol | GossipWeights | np.ndarray | csr_array,
    view: View,
    target: Hashable,
    frequencies: np.ndarray,
) -> np.ndarray:
    """φ_j(ω) at the given frequencies (radians a round), for plots.

        φ_j(ω) = ‖D(I − e^{−iω}B)⁻¹b_j‖².

    It exists for every protocol whose rounds are all alike; an encoder multiplies it by |Σ_k c_k e^{−ikω}|².

    Guarantee: exact up to rounding and what `steady_state` reduces; `rate` gives certified ends.
    Source: Theorem 13 of Koskela & Kulkarni, corrected; `program_spectrum` for programs.

    >>> from sottovoce.graphs import metropolis_weights
    >>> alone = View.single_node(0, own_noise="hidden")
    >>> response_spectrum(metropolis_weights("path:n=2"), alone, 0, np.array([0.0, np.pi])).round(6).tolist()
    [0.5, 0.9]
    """
    chosen = _in_the_long_run(protocol)
    asked = np.asarray(frequencies, dtype=np.float64)
    observation = observe(chosen, view)
    (index,) = target_indices(chosen, view, observation.known, [target])
    if not chosen.plain:
        return program_spectrum(chosen, view, int(index), asked)
    if view.name == "everyone":
        return np.ones(asked.shape)
    system = hidden_system(chosen, observation)
    if system.rows.shape[0] == 0:
        return np.zeros(asked.shape)
    state = steady_state(system)
    source = _columns(state, np.searchsorted(system.unknown, [index]))[:, 0]
    values = [state.closed.value(float(frequency), source) for frequency in asked.ravel()]
    return np.array(values).reshape(asked.shape)


def _exactly(value: float, count: int, method: str, *, over_informed: bool = False) -> RateEnds:
    """The same known number for every target, at every frequency.

    Guarantee: exact, for the callers' reasons: where every message is seen a round shows 1 at any frequency, and
    where nothing is seen it shows 0.
    """
    same = np.full(count, value)
    return RateEnds(
        lower=same,
        upper=same.copy(),
        frequency=np.zeros(count),
        constant=same.copy(),
        method=method,
        over_informed=over_informed,
    )


def _assess(
    system: HiddenSystem,
    indices: np.ndarray,
    contribution: Contribution,
    tolerance: float,
    progress: Callable[[int, int], None] | None,
) -> RateEnds:
    """Suprema for every target, batch by batch; targets that the view never hears of have rate 0.

    Guarantee: lower ≤ limit ≤ upper for the system as given. Reach is decided on exact patterns
    (`HiddenSystem.hops`), so a 0 is a 0. `constant` is φ̂(0), cut off at the upper end.
    """
    result = _exactly(0.0, len(indices), "nothing is seen", over_informed=system.over_informed)
    positions = np.searchsorted(system.unknown, indices)
    reached = np.flatnonzero(np.isfinite(system.hops())[positions])
    if system.rows.shape[0] == 0 or reached.size == 0:
        return result
    state = steady_state(system)
    found = taylor_cover(state)
    # G(0) is real, as B and D are: what a contribution that never changes shows in every round.
    still = rows_at(found, np.zeros(1))[0][0].real
    per_target = 16 * (len(found) + 40 * found[0].rows.shape[0] * system.rows.shape[0] + state.size)
    batch = max(1, BATCH_BYTES // per_target)
    for begin in range(0, len(reached), batch):
        places = reached[begin : begin + batch]
        inputs = _columns(state, positions[places])
        ends = suprema(found, inputs, tolerance)
        lower, frequency = ends.lower, ends.frequency
        if contribution == "scalar":
            lower, frequency = sign_limits(found, inputs, ends)
        result.lower[places], result.upper[places], result.frequency[places] = lower, ends.upper, frequency
        result.constant[places] = np.minimum(((still @ inputs) ** 2).sum(axis=0), ends.upper)
        if progress is not None:
            progress(begin + len(places), len(reached))
    return replace(result, method=state.method)


def _columns(state: SteadyState, positions: np.ndarray) -> np.ndarray:
    """The inputs b of the targets at `positions`, dense, (states, targets): of norm 1 at most but for rounding."""
    columns = state.inputs[:, positions]
    return columns if isinstance(columns, np.ndarray) else columns.toarray()
