# SPDX-License-Identifier: Apache-2.0
"""What the proofs of this room allow for rounding: every such number is made here, and none is made for speed.

A step that errs by R, read by the states z_v and z_{v+1} before and after it, moves a form by at most ‖R‖(‖z_v‖² +
‖z_{v+1}‖²)/2: all that rounding does to a form that is carried back through the rounds is a small multiple of the form
W of Σ ‖z_v‖².
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import GAMMA, ROOM

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.filtering.rounding import Step

__all__ = ["congruence", "weights_before", "widened"]


def widened(
    attained: np.ndarray, bound: np.ndarray, *, distortion: float, missing: float, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Δ² that hold for the true form, streams being of norm at most √rounds.

    √(1 − missing)·(√attained − d√rounds)/(1 + d) and (√bound + d√rounds)/(1 − d), squared.
    """
    if distortion >= 0.5:
        return np.zeros_like(attained), np.full_like(bound, np.inf)
    # What overflowed says nothing.
    attained = np.where(np.isfinite(attained), attained, 0.0)
    bound = np.where(np.isfinite(bound), bound, np.inf)
    shift = distortion * np.sqrt(rounds)
    low = np.maximum(np.sqrt(np.maximum(attained, 0)) - shift, 0) / (1 + distortion)
    high = (np.sqrt(bound) + shift) / (1 - distortion)
    return (1 - missing) * low**2, high**2


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
