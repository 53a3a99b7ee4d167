# SPDX-License-Identifier: Apache-2.0
"""The rounded values behind `sottovoce.gaussian`, for flat arrays of valid numbers; overflow may happen.

With the error bounds below, `…_above` never returns less than the truth and `…_below` never more, for every float
that the front door lets in. The mathematics is at the top of `sottovoce.gaussian`. What is done here is rounding:
log δ is carried as −u²/2, exact, plus a rest of moderate size with a known error, and every answer is moved by more
than that error to the safe side. SciPy's functions give starting points alone.

Source: docs/proofs/profile.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from sottovoce.gaussian._mills import gap as midpoint_gap
from sottovoce.gaussian._mills import mills
from sottovoce.gaussian.rounding import (
    GAP,
    LOGARITHM,
    PRODUCTS,
    RAISE,
    SLOPE,
    complement_error,
    profile_error,
    rate_error,
    tail_error,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

# Arguments are cut here, so that their squares stay finite; log δ = −5e299 is an upper bound beyond.
_FAR = 1e150
_NEWTON_STEPS = 40
# How far below an upper end of ε a lower one is looked for, in turn: as shares of ε and of μ·max(1, μ). Speed alone.
_STEPS_BELOW = (4e-12, 1e-9, 1e-6)
# Below this a product of floats may have lost digits.
_TINY = 1e-290
_SQRT_TWO_PI = math.sqrt(2 * math.pi)


class _Profile(NamedTuple):
    """log δ = square + rest: square is exact, rest is off by at most error; and two inverse slopes.

    `epsilon_per_log_delta` is −dε/d(log δ) = (R(u) − R(v))/R(v), `log_mu_per_log_delta` is d(log μ)/d(log δ) =
    (R(u) − R(v))/μ: what a Newton step multiplies by.
    """

    square: Array
    rest: Array
    error: Array
    epsilon_per_log_delta: Array
    log_mu_per_log_delta: Array

    @property
    def log_delta(self) -> Array:
        """Their sum, log δ.

        Guarantee: within `error` and the rounding of one sum.
        """
        return self.square + self.rest


def _profile(mu: Array, epsilon: Array) -> _Profile:
    """The privacy profile at finite mu > 0 and finite epsilon ≥ 0."""
    x, u, correction, square = _distance(mu, epsilon)
    h = mu / 2
    mills_v = mills(x + h)
    # δ > 0.19 where this holds, so that 1 − δ, a sum of positive terms, loses little when taken from 1.
    likely = (u < 0) & (mu >= 1)
    gap = np.ones_like(mu)
    close = h <= 0.1 * np.maximum(2, x)
    if close.any():
        gap[close] = midpoint_gap(x[close], h[close])
    direct = ~(close | likely)
    if direct.any():
        # R(u) is at most 8 times this difference.
        gap[direct] = (mills(u[direct]) - mills_v[direct]) / mu[direct]
    log_mu, log_gap = np.log(mu), np.log(gap / _SQRT_TWO_PI)
    rest = log_gap + log_mu + correction
    reach = np.abs(u) * np.minimum(x + h, _FAR)
    error = profile_error(np.abs(log_gap) + np.abs(log_mu) + np.abs(correction), reach)
    profile = _Profile(square, rest, error, gap * mu / mills_v, gap)
    if likely.any():
        density = np.exp(square[likely]) * (1 + correction[likely]) / _SQRT_TWO_PI
        complement = density * (mills(-u[likely]) + mills_v[likely])
        square[likely] = 0.0
        rest[likely] = np.log1p(-complement)
        error[likely] = complement_error(reach[likely]) * complement / (1 - complement)
        profile.epsilon_per_log_delta[likely] = (1 - complement) / (density * mills_v[likely])
        profile.log_mu_per_log_delta[likely] = (1 - complement) / (density * mu[likely])
    return profile


def _distance(mu: Array, epsilon: Array) -> tuple[Array, Array, Array, Array]:
    """The midpoint x = ε/μ, u = x − μ/2, and −u²/2 in two parts, the small one first."""
    # δ moves by the factor exp(−u du), so u and u² are carried to twice the working precision.
    mantissa, exponent = np.frexp(mu)
    scaled = np.ldexp(epsilon, -exponent)
    x = np.minimum(scaled / mantissa, _FAR)
    product, product_low = _two_product(x, mantissa)
    x_low = np.where(x < _FAR, ((scaled - product) - product_low) / mantissa, 0.0)
    total, total_low = _two_sum(x, -mu / 2)
    u, u_low = _two_sum(total, total_low + x_low)
    u_low = np.where(np.abs(u) < _FAR, u_low, 0.0)
    u = np.clip(u, -_FAR, _FAR)
    square, square_low = _two_product(u, u)
    return x, u, -(square_low / 2 + u * u_low), -square / 2


def delta_above(mu: Array, epsilon: Array) -> Array:
    """δ = exp(square)·exp(rest), kept apart so that the exact square costs no accuracy.

    Guarantee: upper bound, at most 1; relative error at most 1e-12 where δ ≥ 1e-300 and μ ≥ 1e-15.
    Source: Balle & Wang 2018, Theorem 8.
    """
    regular = (mu > 0) & np.isfinite(mu) & np.isfinite(epsilon)
    profile = _profile(np.where(regular, mu, 1.0), np.where(regular, epsilon, 1.0))
    log_rest = profile.rest + profile.error
    # Two halves, so that only the last product can be subnormal.
    half = np.exp(profile.square / 2)
    value = np.minimum(_up(half * (half * np.exp(np.minimum(log_rest, 1.0))), RAISE), 1.0)
    # Near 1 the float next above, which never passes a δ that 1 − δ says is met.
    likely = (profile.square == 0) & (profile.rest > -2)
    rounded, dropped = _two_sum(np.ones_like(mu), np.expm1(log_rest) * (1 - RAISE))
    value = np.where(likely, np.where(dropped > 0, np.nextafter(rounded, 2.0), rounded), value)
    return np.where(regular, value, _degenerate(mu, epsilon))


def delta_below(mu: Array, epsilon: Array) -> Array:
    """The same product as in `delta_above`, with the error taken off: exp(square)·exp(rest − error).

    Guarantee: lower bound, at least 0; 0 where δ is below 1e-290, as numbers lose digits there, and where the midpoint
    ε/μ was cut, as that makes δ larger.
    Source: Balle & Wang 2018, Theorem 8; docs/proofs/profile.md, "Lower ends".
    """
    regular = (mu > 0) & np.isfinite(mu) & np.isfinite(epsilon)
    profile = _profile(np.where(regular, mu, 1.0), np.where(regular, epsilon, 1.0))
    half = np.exp(profile.square / 2)
    value = half * (half * np.exp(profile.rest - profile.error)) * (1 - RAISE)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        proved = (value > _TINY) & (epsilon / mu < _FAR)
    return np.where(regular, np.where(proved, value, 0.0), _degenerate(mu, epsilon))


def log_delta_above(mu: Array, epsilon: Array) -> Array:
    """The sum of square and rest, plus the error of both.

    Guarantee: upper bound, at most 0; what is above −1e-100 is 0.
    Source: Balle & Wang 2018, Theorem 8.
    """
    regular = (mu > 0) & np.isfinite(mu) & np.isfinite(epsilon)
    profile = _profile(np.where(regular, mu, 1.0), np.where(regular, epsilon, 1.0))
    value = profile.log_delta
    value += profile.error - RAISE * value
    return np.where(regular, np.where(value > -1e-100, 0.0, value), np.log(_degenerate(mu, epsilon)))


def _degenerate(mu: Array, epsilon: Array) -> Array:
    """δ where mu = 0, mu = ∞ or ε = ∞; an infinite ε promises nothing and is met by all."""
    return np.where((mu > 0) & np.isfinite(epsilon), 1.0, 0.0)


def epsilon_above(mu: Array, delta: Array) -> Array:
    """Newton's method from the right on a log δ concave in ε; the last tangent carries the margin.

    A tangent of a concave function lies above it, so where the tangent has come down to log δ the function has too:
    each step ends on the safe side, at an ε that is large enough, from wherever it started.

    Guarantee: upper bound; an ε for which δ(ε) ≤ δ holds with three times the error of log δ to spare, or the
    ceiling.
    Source: Balle & Wang 2018, Theorem 8, inverted.
    """
    target = np.log(delta)
    # δ(ε) ≤ Φ(−u) puts the root left of this ceiling, which is all but exact for huge mu.
    ceiling = np.where(mu > 0, _up(np.maximum(mu * (_upper_quantile(delta) + mu / 2), 0.0)), 0.0)
    regular = (mu > 0) & (mu < _FAR)
    mu = np.where(regular, mu, 1.0)
    root = np.where(regular, ceiling, 1.0)
    # What has settled stays, so that a number does not depend on those it is asked with.
    settled = np.zeros(root.shape, dtype=bool)
    for _ in range(_NEWTON_STEPS):
        profile = _profile(mu, root)
        step = (profile.log_delta - target) * profile.epsilon_per_log_delta
        root, before = np.where(settled, root, np.clip(root + step, 0.0, ceiling)), root
        noise = profile.error * profile.epsilon_per_log_delta + 4 * np.spacing(root)
        settled |= np.abs(root - before) <= 1e-8 * np.minimum(root, mu) + noise
        if settled.all():
            break
    profile = _profile(mu, root)
    root = root + _excess(profile, target, 3) * profile.epsilon_per_log_delta
    root = np.where(delta >= delta_above(mu, np.zeros_like(mu)), 0.0, np.clip(_up(root), 0.0, ceiling))
    return np.where(regular, root, ceiling)


def epsilon_below(mu: Array, delta: Array) -> Array:
    """A number barely below `epsilon_above` at which log δ is seen to be still above its target.

    δ(ε) falls with ε, so an ε whose δ is too large is smaller than the root. The first of `_STEPS_BELOW` that is
    proved serves, and 0 if none is. The root grows with μ: a μ beyond `_FAR` may be replaced by a smaller one.

    Guarantee: lower bound; log δ at it, less the error of log δ and the rounding of both logarithms, is at least
    the target. 0 for μ below 1e-307, and ∞ at μ = ∞.
    Source: docs/proofs/profile.md, "Lower ends".
    """
    regular = mu >= 1e-307
    mu, limit = np.where(regular, np.minimum(mu, 0.1 * _FAR), 1.0), np.where(np.isinf(mu), np.inf, 0.0)
    target = np.log(delta)
    above = epsilon_above(mu, delta)
    found, proved = np.zeros_like(above), np.zeros(above.shape, dtype=bool)
    for step in _STEPS_BELOW:
        candidate = np.maximum(above * (1 - step) - step * mu * np.maximum(mu, 1), 0.0)
        profile = _profile(mu, candidate)
        least = profile.log_delta - profile.error + LOGARITHM * (profile.log_delta + target)
        found = np.where(~proved & (least >= target), candidate, found)
        proved |= least >= target
        if proved.all():
            break
    return np.where(regular, np.maximum(found, limit), limit)


def mu_below(epsilon: Array, delta: Array) -> Array:
    """Newton's method from the left on a log δ concave in log μ; the last tangent carries the margin.

    log δ rises with log μ, and its tangent lies above it: the tangent meets the target first, at a μ that is small
    enough.

    Guarantee: lower bound; a μ for which δ(μ) ≤ δ holds with six times the error of log δ to spare, or the floor.
    Twice the margin of `epsilon_above`, so that an ε that is asked for comes back no larger.
    Source: Balle & Wang 2018, Algorithm 1, by another root finder.
    """
    target = np.log(delta)
    # δ ≤ Φ(−u) puts the root right of this floor, u = ε/μ − μ/2 solved for μ; all but exact for huge ε.
    quantile = _upper_quantile(delta)
    leg = math.sqrt(2) * np.sqrt(epsilon)
    length = np.hypot(quantile, leg)
    floor = np.where(quantile > 0, leg * (leg / (length + quantile)), length - quantile) * (1 - RAISE)
    regular = epsilon < _FAR
    limit = np.where(np.isfinite(epsilon), floor, np.inf)
    epsilon, floor = np.where(regular, epsilon, 1.0), np.where(regular, floor, 0.0)
    # δ ≤ δ(0) = erf(μ/√8) gives the better start for small ε.
    root = np.maximum(floor, math.sqrt(8) * special.erfinv(delta))
    settled = np.zeros(root.shape, dtype=bool)
    for _ in range(_NEWTON_STEPS):
        profile = _profile(root, epsilon)
        step = (target - profile.log_delta) * profile.log_mu_per_log_delta
        root, before = np.where(settled, root, np.maximum(root * np.exp(step), floor)), root
        settled |= np.abs(root - before) <= 1e-8 * np.minimum(root, 1.0) + 4 * np.spacing(root)
        if settled.all():
            break
    profile = _profile(root, epsilon)
    root = root * np.exp(-_excess(profile, target, 6) * profile.log_mu_per_log_delta) * (1 - RAISE)
    return np.where(regular, np.maximum(np.nextafter(root, 0.0), floor), limit)


def _excess(profile: _Profile, target: Array, margin: int) -> Array:
    """How far log δ may lie above its target, with `margin` times its error, and what a slope may be off by."""
    value = profile.log_delta
    beside = value - target
    return beside + SLOPE * np.abs(beside) + margin * (profile.error - LOGARITHM * (value + target))


def _upper_quantile(delta: Array) -> Array:
    """Some z with Φ(−z) barely below δ: a tangent of log Φ(−z), which is concave, from a guess."""
    z = -special.ndtri(delta)
    square, square_low = _two_product(z, z)
    # Left of −1/2, Φ(−z) = 1 − φ(z)R(−z).
    left = z < -0.5
    ratio = mills(np.where(left, -z, z))
    log_ratio = np.log(ratio / _SQRT_TWO_PI)
    density = np.exp(-square / 2) / _SQRT_TWO_PI
    beyond = np.where(left, density * ratio, 0.0)
    value = np.where(left, np.log1p(-beyond), (log_ratio - square_low / 2) - square / 2)
    target = np.log(delta)
    error = np.where(left, GAP * beyond, tail_error(np.abs(log_ratio))) - LOGARITHM * (value + target)
    excess = value - target
    excess += SLOPE * np.abs(excess) + error
    moved = z + excess * np.where(left, (1 - beyond) / density, ratio)
    return np.asarray(np.nextafter(moved + PRODUCTS * np.abs(moved), np.inf))


def rdp_above(mu: Array, alpha: Array) -> Array:
    """The product α μ²/2, raised unless no rounding took place.

    Guarantee: upper bound; exact where both products are floats.
    Source: Mironov 2017, Corollary 3.
    """
    # In this order no factor underflows before the result does.
    first, first_low = _two_product(alpha, mu)
    product, product_low = _two_product(first, mu)
    exact = (first_low == 0) & (product_low == 0) & (product > 1e-280)
    return np.where(mu == 0, 0.0, np.where(exact, product / 2, _up(product / 2)))


def zcdp_above(mu: Array) -> Array:
    """μ²/2 is the Rényi divergence over its order.

    Guarantee: upper bound; that of `rdp_above`.
    Source: Bun & Steinke 2016, Proposition 1.6.
    """
    return rdp_above(mu, np.ones_like(mu))


def trade_off_below(mu: Array, fpr: Array) -> Array:
    """The false-negative rate, from whichever of the two rates is small.

    Guarantee: lower bound, at least 0.
    Source: Dong, Roth & Su 2022, Section 2.2.
    """
    hit, miss, error = _rates(mu, fpr)
    value = np.where(miss < 0.5, miss * (1 - error), 1 - hit * (1 + error))
    value = np.fmax(np.nextafter(value, -1.0), 0.0)
    return np.where((fpr == 0) & np.isfinite(mu), 1.0, value)


def true_positive_rate_above(mu: Array, fpr: Array) -> Array:
    """The true-positive rate, from whichever of the two rates is small.

    Guarantee: upper bound, never below `fpr`, which guessing attains.
    Source: Dong, Roth & Su 2022, Section 2.2.
    """
    hit, miss, error = _rates(mu, fpr)
    value = np.where(hit < 0.5, hit * (1 + error), 1 - miss * (1 - error))
    value = np.clip(np.where(np.isfinite(error), np.nextafter(value, 2.0), 1.0), fpr, 1.0)
    return np.where((mu == 0) | ((fpr == 0) & np.isfinite(mu)), fpr, value)


def true_positive_rate_below(mu: Array, fpr: Array) -> Array:
    """The same rate as in `true_positive_rate_above`, with the error taken off.

    Guarantee: lower bound, never below `fpr`, which guessing attains.
    Source: Dong, Roth & Su 2022, Section 2.2; docs/proofs/profile.md, "Rates".
    """
    hit, miss, error = _rates(mu, fpr)
    value = np.where(hit < 0.5, hit * (1 - error), 1 - miss * (1 + error))
    known = np.isfinite(error) & (value > _TINY) & ((fpr > 0) | np.isinf(mu))
    return np.where(known, np.clip(np.nextafter(value, 0.0), fpr, 1.0), fpr)


def _rates(mu: Array, fpr: Array) -> tuple[Array, Array, Array]:
    """Φ(w) and Φ(−w) at w = Φ⁻¹(fpr) + μ, and the relative error of the smaller."""
    tail = np.minimum(fpr, 1 - fpr)
    quantile = np.clip(special.ndtri(tail), -_FAR, 0.0)
    # One Newton step in doubled precision: the tail at `quantile` differs from `tail` by a factor near 1.
    square, square_low = _two_product(quantile, quantile)
    half = np.exp(-square / 4)
    ratio = mills(-quantile)
    factor = tail / half / half * _SQRT_TWO_PI / ratio * (1 + square_low / 2)
    excess = np.where(tail > 0, factor - 1, 0.0)
    sign = np.where(fpr <= 0.5, 1.0, -1.0)
    total, total_low = _two_sum(sign * quantile, np.minimum(mu, 2 * _FAR))
    w, w_low = _two_sum(total, total_low + sign * (excess * ratio))
    w = np.clip(w, -_FAR, _FAR)
    square, square_low = _two_product(w, w)
    half = np.exp(-square / 4)
    end = mills(np.abs(w))
    tail = half * (half * (end * (1 - np.minimum(square_low / 2 + w * w_low, 1.0)) / _SQRT_TWO_PI))
    error = rate_error(excess, ratio, end)
    return np.where(w < 0, tail, 1 - tail), np.where(w < 0, 1 - tail, tail), error


def advantage_above(mu: Array) -> Array:
    """The profile at ε = 0.

    Guarantee: upper bound, at most 1.
    Source: Dong, Roth & Su 2022, the profile at ε = 0.
    """
    return delta_above(mu, np.zeros_like(mu))


def _up(value: Array, room: float = PRODUCTS) -> Array:
    """A value that is not negative, raised by a share of itself."""
    raised: Array = np.nextafter(value * (1 + room), np.inf)
    return raised


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The float nearest a + b, and what its rounding drops (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The float nearest a·b, and what its rounding drops (Dekker)."""
    product = a * b
    a_high = a * 134217729.0
    a_high = a_high - (a_high - a)
    a_low = a - a_high
    b_high = b * 134217729.0
    b_high = b_high - (b_high - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
