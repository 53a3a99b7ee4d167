# SPDX-License-Identifier: Apache-2.0
"""What rounding does to the Gaussian profile, from above: every allowance that a proof of this room needs.

docs/proofs/profile.md derives each. u = 2⁻⁵³ is the unit roundoff. One thing is assumed and not proved: NumPy's exp,
expm1, log, log1p and hypot err by at most `ELEMENTARY`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.interval import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = [
    "ELEMENTARY",
    "GAP",
    "LOGARITHM",
    "MILLS",
    "PRODUCTS",
    "RAISE",
    "SLOPE",
    "complement_error",
    "profile_error",
    "rate_error",
    "tail_error",
]

# Relative errors, as units of roundoff: of NumPy's elementary functions (4 units in the last place are what NumPy
# promises), of R(x) and of (R(u) − R(v))/μ.
ELEMENTARY, MILLS, GAP = 8 * UNIT_ROUNDOFF, 4 * UNIT_ROUNDOFF, 96 * UNIT_ROUNDOFF
# A logarithm and two sums; a handful of products; three exponentials and as many products; a slope of the profile.
LOGARITHM, PRODUCTS, RAISE, SLOPE = (
    ELEMENTARY + 2 * UNIT_ROUNDOFF,
    8 * UNIT_ROUNDOFF,
    32 * UNIT_ROUNDOFF,
    256 * UNIT_ROUNDOFF,
)


def profile_error(logarithms: Array, reach: Array) -> Array:
    """How far the sum log(gap/√(2π)) + log μ + rest may be off; `logarithms` is the sum of the sizes of its terms.

    GAP and two units for √(2π) make the first logarithm's argument; ELEMENTARY and two units are what logarithms and
    sums take off each; u is known to 2⁻¹⁰⁴v, v = ε/μ + μ/2, and enters squared: `reach` is |u|v.

    Guarantee: upper bound.
    Source: docs/proofs/profile.md, "The profile".
    """
    return GAP + 16 * UNIT_ROUNDOFF + LOGARITHM * logarithms + 2.0**-103 * reach


def complement_error(reach: Array) -> Array:
    """The relative error of 1 − δ = φ(u)(R(−u) + R(v)), and of its logarithm.

    Guarantee: upper bound.
    Source: docs/proofs/profile.md, "The profile".
    """
    return 32 * UNIT_ROUNDOFF + 2.0**-103 * reach


def tail_error(logarithms: Array) -> Array:
    """How far log(R(z)/√(2π)) may be off; `logarithms` is its size.

    Guarantee: upper bound.
    Source: docs/proofs/profile.md, "Quantiles".
    """
    return MILLS + 8 * UNIT_ROUNDOFF + LOGARITHM * logarithms


def rate_error(excess: Array, start: Array, end: Array) -> Array:
    """The relative error of Φ(−|w|), w = q + low + μ, after one step of Newton's method from q.

    `excess` is p/Φ(q) − 1 as computed, `start` is R(|q|) and `end` R(|w|). The step is off by 32u·R(|q|) and by
    2·excess²·R(|q|); a move of w by d moves the logarithm by d/R(|w|).

    Guarantee: upper bound; infinite where q was no quantile to three digits.
    Source: docs/proofs/profile.md, "Rates".
    """
    error = 40 * UNIT_ROUNDOFF + (36 * UNIT_ROUNDOFF + 2 * np.square(excess)) * start / end
    return np.where(np.abs(excess) < 1e-3, error, np.inf)
