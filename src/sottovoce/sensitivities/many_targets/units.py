# SPDX-License-Identifier: Apache-2.0
"""Units for the states of a filter in which all are seen about equally well.

Bounds of rounding errors by norms are tight there, and only there.
Source: docs/proofs/spectra.md and docs/proofs/peak.md, whose allowances are products of norms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["balanced"]

# Speed alone: units are powers of two between two to minus this and 1. Powers of two make scaling exact.
LARGEST_EXPONENT = 100


def balanced(response: FilteredResponse) -> tuple[FilteredResponse, np.ndarray]:
    """The response to inputs b/`units`, each state in a unit of its own, and these units.

    With x = diag(units)·x̃ a state is seen about as well as any other: unit i is next to 1/√G_ii, G the Gramian of
    the last gains, times a constant.

    Guarantee: the same F, exactly, whatever the units: they are powers of two. They make no difference to what is
    computed either, only to norms that bound its error: in two cliques that are joined by a link of 1e-6 the far
    one's states show 1e-11 of what near ones do, and 1e-11 of it is allowed for their rounding.
    """
    size = response.size
    closed = response.closed_loop(response.rounds)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        exponents = -np.log2(np.abs(np.diag(closed.raw_gramian(response.rounds)))) / 2
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
