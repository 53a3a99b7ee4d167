# SPDX-License-Identifier: Apache-2.0
"""Forms of a state that are carried back through the rounds, what rounding adds to them, and units that make it little.

A step that errs by R, read by the states z_v and z_{v+1} before and after it, moves a form by at most ‖R‖(‖z_v‖² +
‖z_{v+1}‖²)/2: all that rounding does is a small multiple of the form W of Σ ‖z_v‖². Such bounds by norms are tight
where all states are seen about equally well, and states can be given units in which they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import GAMMA, ROOM
from sottovoce.sensitivities.lags import closed_loop, raw_gramian

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.filtering.rounding import Step

__all__ = ["balanced", "congruence", "weights_before"]

# Units are powers of two between two to minus this and 1.
LARGEST_EXPONENT = 100


def balanced(response: FilteredResponse) -> tuple[FilteredResponse, np.ndarray]:
    """The response to inputs b/`units`, each state in a unit of its own, and these units.

    With x = diag(units)·x̃ a state is seen about as well as any other: unit i is next to 1/√G_ii, G the Gramian of the
    last gains, times a constant.

    Guarantee: the same F, exactly, whatever the units: they are powers of two. They make no difference to what is
    computed either, only to norms that bound its error: in two cliques that are joined by a link of 1e-6 the far one's
    states show 1e-11 of what near ones do, and 1e-11 of it is allowed for their rounding.
    """
    size = response.size
    loop, whitener = closed_loop(response, response.rounds)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        exponents = -np.log2(np.abs(np.diag(raw_gramian(loop, whitener, response.rounds)))) / 2
    # A loop that grows, or a state that is never seen, has no unit of its own.
    exponents = np.where(np.isfinite(exponents), exponents, 0.0)
    units = 2.0 ** np.maximum(np.round(exponents - exponents.max(initial=0)), -LARGEST_EXPONENT)
    transition, gains = response.transition, response.gains
    if isinstance(transition, np.ndarray):
        scaled = transition * units / units[:, None]
    else:
        scaled = transition.copy()
        scaled.data *= units[scaled.indices] / np.repeat(units, np.diff(scaled.indptr))
    moved = replace(
        gains,
        gain=gains.gain / units[:, None],
        whitener=gains.whitener * units,
        last_whitener=gains.last_whitener * units,
        covariance_norm=np.inf,
    )
    rows, inputs = response.rows * units, np.zeros((size, 0))
    return replace(response, transition=scaled, rows=rows, inputs=inputs, gains=moved), units


def congruence(response: FilteredResponse, form: np.ndarray, t: int) -> tuple[np.ndarray, float]:
    """(AΦ_t)ᵀ X (AΦ_t) for the form of X; one half errs by κ‖X‖, the other by κ times the norm that is returned."""
    half = response.before(form, t)
    return response.before(half.T, t), float(np.linalg.norm(half))


def weights_before(response: FilteredResponse, step: Step, weights: np.ndarray, t: int) -> np.ndarray:
    """W_t = I + (AΦ_t)ᵀ W_{t+1} (AΦ_t), rounded up: zᵀW_t z is what a state z of round t and those after it weigh.

    Guarantee: an upper bound if `weights` is one; what the step errs by, and the sum with I, is added to the diagonal.
    """
    before, half = congruence(response, weights, t)
    raised = ROOM * step.error * (half + step.stretch * float(np.linalg.norm(weights)))
    raised += 2 * GAMMA * (float(np.linalg.norm(before)) + 2)
    before.flat[:: len(before) + 1] += 1 + raised
    return before
