# SPDX-License-Identifier: Apache-2.0
"""What a Gaussian mechanism gives away, as a function of mu = sensitivity / noise standard deviation alone.

With u = ε/μ − μ/2, v = ε/μ + μ/2, the normal density φ and Mills' ratio R(x) = Φ(−x)/φ(x),

    δ(ε) = Φ(−u) − e^ε Φ(−v) = φ(u)·(R(u) − R(v)),        ∂δ/∂ε = −φ(u)·R(v),        ∂δ/∂μ = φ(u).

R is the Laplace transform of exp(−t²/2), hence log-convex with derivatives of alternating sign. Therefore
log δ is concave in ε and in log μ: a tangent never meets its target on the unsafe side of the root, and
Newton's method needs no bracket.

Every answer is rounded towards more privacy loss, by more than the error of its own evaluation: bounds on the
loss up, the admissible mu and the trade-off curve down. What is called `…_lower` is rounded the other way. The
roundings nest, so that a re-check agrees: in floats, delta(mu, epsilon(mu, δ)) ≤ δ, delta(mu(ε, δ), ε) ≤ δ and
epsilon(mu(ε, δ), δ) ≤ ε for δ ≥ 1e-300. The sides hold for every input; the errors stated hold for mu between
1e-15 and 1e15 and grow to 2e-11 at mu = 1e-300.

All functions broadcast; numbers in, a float out; arrays in, an array out.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from sottovoce.errors import InputError
from sottovoce.gaussian import _bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = [
    "advantage",
    "delta",
    "delta_lower",
    "epsilon",
    "epsilon_lower",
    "log_delta",
    "mu",
    "rdp",
    "trade_off",
    "true_positive_rate",
    "true_positive_rate_lower",
    "zcdp",
]

# Few enough numbers that all intermediate arrays stay in the cache.
_BLOCK = 1 << 14


@overload
def delta(mu: float, epsilon: float) -> float: ...
@overload
def delta(mu: ArrayLike, epsilon: ArrayLike) -> Array: ...
def delta(mu: ArrayLike, epsilon: ArrayLike) -> float | Array:
    """The smallest δ for which the mechanism is (ε, δ)-private.

    δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)

    Args:
        mu: sensitivity / noise standard deviation, at least 0; infinity stands for no noise.
        epsilon: ε, at least 0.

    **Guarantee:** upper bound, relative error at most 1e-12 down to δ = 1e-300; below, it ends at 5e-324 and
    is 0 only for mu = 0 or ε = ∞.

    **Source:** Balle & Wang 2018, Theorem 8.

    >>> round(delta(1.0, 1.0), 9)
    0.126936738
    >>> delta(0.1, 10.0)
    5e-324
    """
    return _elementwise(_bounds.delta_above, mu=_loss_parameter(mu), epsilon=_privacy_budget(epsilon))


@overload
def log_delta(mu: float, epsilon: float) -> float: ...
@overload
def log_delta(mu: ArrayLike, epsilon: ArrayLike) -> Array: ...
def log_delta(mu: ArrayLike, epsilon: ArrayLike) -> float | Array:
    """The natural logarithm of the smallest δ, also where δ itself underflows.

    log δ(ε) = −u²/2 + log((R(u) − R(v))/√(2π)),   u, v = ε/μ ∓ μ/2,   R(x) = Φ(−x)/φ(x)

    Args:
        mu: sensitivity / noise standard deviation, at least 0.
        epsilon: ε, at least 0.

    **Guarantee:** upper bound, relative error at most 1e-12 between −1e299 and −1e-100; above, it is 0.

    **Source:** Balle & Wang 2018, Theorem 8.

    >>> round(log_delta(0.1, 10.0), 6)
    -5007.433414
    """
    return _elementwise(_bounds.log_delta_above, mu=_loss_parameter(mu), epsilon=_privacy_budget(epsilon))


@overload
def epsilon(mu: float, delta: float) -> float: ...
@overload
def epsilon(mu: ArrayLike, delta: ArrayLike) -> Array: ...
def epsilon(mu: ArrayLike, delta: ArrayLike) -> float | Array:
    """The smallest ε ≥ 0 for which the mechanism is (ε, δ)-private.

    δ(ε) = δ, solved for ε; 0 if δ ≥ δ(0) = 2Φ(μ/2) − 1

    Args:
        mu: sensitivity / noise standard deviation, at least 0.
        delta: δ, strictly between 0 and 1.

    **Guarantee:** upper bound. The relative error is at most 1e-12 for ε ≥ mu/2; as δ approaches δ(0) the
    root is ill-conditioned, and the absolute error stays below 3e-13·mu·max(1, mu).

    **Source:** Balle & Wang 2018, Theorem 8, inverted.

    >>> round(epsilon(1.0, 1e-5), 6)
    4.377178
    >>> epsilon(0.001, 0.1)
    0.0
    """
    return _elementwise(_bounds.epsilon_above, mu=_loss_parameter(mu), delta=_failure_probability(delta))


@overload
def mu(epsilon: float, delta: float) -> float: ...
@overload
def mu(epsilon: ArrayLike, delta: ArrayLike) -> Array: ...
def mu(epsilon: ArrayLike, delta: ArrayLike) -> float | Array:
    """The largest mu that is (ε, δ)-private; sensitivity / mu is the smallest noise standard deviation.

    δ(μ, ε) = δ, solved for μ

    Args:
        epsilon: ε, at least 0.
        delta: δ, strictly between 0 and 1.

    **Guarantee:** lower bound, relative error at most 1e-12.

    **Source:** Balle & Wang 2018, Algorithm 1 (the analytic Gaussian mechanism).

    >>> round(1 / mu(1.0, 1e-5), 6)
    3.730632
    """
    return _elementwise(_bounds.mu_below, epsilon=_privacy_budget(epsilon), delta=_failure_probability(delta))


@overload
def rdp(mu: float, alpha: float) -> float: ...
@overload
def rdp(mu: ArrayLike, alpha: ArrayLike) -> Array: ...
def rdp(mu: ArrayLike, alpha: ArrayLike) -> float | Array:
    """The Rényi divergence of order alpha.

    α μ²/2

    Args:
        mu: sensitivity / noise standard deviation, at least 0.
        alpha: the order α, above 1.

    **Guarantee:** upper bound, within 2e-15 of the truth; exact where the products are floats.

    **Source:** Mironov 2017, Corollary 3.

    >>> rdp(0.5, [2, 8])
    array([0.25, 1.  ])
    """
    orders = _numbers("alpha", alpha, lambda a: a > 1, "a number above 1", "2 is the smallest whole order")
    return _elementwise(_bounds.rdp_above, mu=_loss_parameter(mu), alpha=orders)


@overload
def zcdp(mu: float) -> float: ...
@overload
def zcdp(mu: ArrayLike) -> Array: ...
def zcdp(mu: ArrayLike) -> float | Array:
    """The parameter ρ of zero-concentrated differential privacy.

    ρ = μ²/2

    Args:
        mu: sensitivity / noise standard deviation, at least 0.

    **Guarantee:** upper bound, within 2e-15 of the truth; exact where the products are floats.

    **Source:** Bun & Steinke 2016, Proposition 1.6.

    >>> zcdp(0.5)
    0.125
    """
    return _elementwise(_bounds.zcdp_above, mu=_loss_parameter(mu))


@overload
def trade_off(mu: float, fpr: float) -> float: ...
@overload
def trade_off(mu: ArrayLike, fpr: ArrayLike) -> Array: ...
def trade_off(mu: ArrayLike, fpr: ArrayLike) -> float | Array:
    """The least false-negative rate of any attack with false-positive rate `fpr`.

    β(α) = Φ(Φ⁻¹(1 − α) − μ)

    Args:
        mu: sensitivity / noise standard deviation, at least 0.
        fpr: the false-positive rate α, between 0 and 1.

    **Guarantee:** lower bound, relative error at most 1e-12 down to β = 1e-300.

    **Source:** Dong, Roth & Su 2022, Section 2.2 (Gaussian differential privacy).

    >>> round(trade_off(1.0, 0.05), 9)
    0.740488977
    """
    return _elementwise(_bounds.trade_off_below, mu=_loss_parameter(mu), fpr=_rate(fpr))


@overload
def true_positive_rate(mu: float, fpr: float) -> float: ...
@overload
def true_positive_rate(mu: ArrayLike, fpr: ArrayLike) -> Array: ...
def true_positive_rate(mu: ArrayLike, fpr: ArrayLike) -> float | Array:
    """The greatest true-positive rate of any attack with false-positive rate `fpr`.

    1 − β(α) = Φ(Φ⁻¹(α) + μ)

    Args:
        mu: sensitivity / noise standard deviation, at least 0.
        fpr: the false-positive rate α, between 0 and 1.

    **Guarantee:** upper bound, relative error at most 1e-12 down to a rate of 1e-300.

    **Source:** Dong, Roth & Su 2022, Section 2.2 (Gaussian differential privacy).

    >>> round(true_positive_rate(1.0, 0.05), 9)
    0.259511023
    """
    return _elementwise(_bounds.true_positive_rate_above, mu=_loss_parameter(mu), fpr=_rate(fpr))


@overload
def advantage(mu: float) -> float: ...
@overload
def advantage(mu: ArrayLike) -> Array: ...
def advantage(mu: ArrayLike) -> float | Array:
    """The greatest true-positive minus false-positive rate of a membership attack, which is δ(0).

    2Φ(μ/2) − 1 = erf(μ/√8)

    Args:
        mu: sensitivity / noise standard deviation, at least 0.

    **Guarantee:** upper bound, relative error at most 1e-12.

    **Source:** Dong, Roth & Su 2022, the profile of Gaussian differential privacy at ε = 0.

    >>> round(advantage(1.0), 9)
    0.382924923
    """
    return _elementwise(_bounds.advantage_above, mu=_loss_parameter(mu))


@overload
def delta_lower(mu: float, epsilon: float) -> float: ...
@overload
def delta_lower(mu: ArrayLike, epsilon: ArrayLike) -> Array: ...
def delta_lower(mu: ArrayLike, epsilon: ArrayLike) -> float | Array:
    """A number that the smallest δ at ε is not below: what a mechanism does give away.

    δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)

    Args:
        mu: sensitivity / noise standard deviation, at least 0; infinity stands for no noise.
        epsilon: ε, at least 0.

    **Guarantee:** lower bound, relative error at most 1e-12 for δ ≥ 1e-290; 0 for smaller δ.

    **Source:** Balle & Wang 2018, Theorem 8.

    >>> round(delta_lower(1.0, 1.0), 9)
    0.126936738
    """
    return _elementwise(_bounds.delta_below, mu=_loss_parameter(mu), epsilon=_privacy_budget(epsilon))


@overload
def epsilon_lower(mu: float, delta: float) -> float: ...
@overload
def epsilon_lower(mu: ArrayLike, delta: ArrayLike) -> Array: ...
def epsilon_lower(mu: ArrayLike, delta: ArrayLike) -> float | Array:
    """A number that the smallest ε at δ is not below: what a mechanism does give away.

    δ(ε) = δ, solved for ε

    Args:
        mu: sensitivity / noise standard deviation, at least 0; infinity stands for no noise.
        delta: δ, strictly between 0 and 1.

    **Guarantee:** lower bound: δ(ε) at this ε is proved to be at least δ. About 4e-12·(ε + mu·max(1, mu)) below
    `epsilon` for mu between 1e-200 and 1e15; beyond it may be further below.

    **Source:** Balle & Wang 2018, Theorem 8, inverted.

    >>> round(epsilon_lower(1.0, 1e-5), 6)
    4.377178
    """
    return _elementwise(_bounds.epsilon_below, mu=_loss_parameter(mu), delta=_failure_probability(delta))


@overload
def true_positive_rate_lower(mu: float, fpr: float) -> float: ...
@overload
def true_positive_rate_lower(mu: ArrayLike, fpr: ArrayLike) -> Array: ...
def true_positive_rate_lower(mu: ArrayLike, fpr: ArrayLike) -> float | Array:
    """A true-positive rate that the best attack with false-positive rate `fpr` reaches.

    1 − β(α) = Φ(Φ⁻¹(α) + μ)

    Args:
        mu: sensitivity / noise standard deviation, at least 0; infinity stands for no noise.
        fpr: the false-positive rate α, between 0 and 1.

    **Guarantee:** lower bound, never below `fpr`; relative error at most 1e-12 down to a rate of 1e-290.

    **Source:** Dong, Roth & Su 2022, Section 2.2 (Gaussian differential privacy).

    >>> round(true_positive_rate_lower(1.0, 0.05), 9)
    0.259511023
    """
    return _elementwise(_bounds.true_positive_rate_below, mu=_loss_parameter(mu), fpr=_rate(fpr))


def _elementwise(function: Callable[..., Array], **operands: Array) -> float | Array:
    """Apply `function` to the broadcast operands, in blocks that stay in the cache."""
    try:
        shape = np.broadcast_shapes(*(operand.shape for operand in operands.values()))
    except ValueError:
        shapes = " and ".join(str(operand.shape) for operand in operands.values())
        raise InputError(
            f"{' and '.join(operands)} must have shapes that broadcast; got {shapes} "
            "(add an axis to one of them with [:, None])"
        ) from None
    if not shape:
        return _number(function, *map(float, operands.values()))
    flat = [np.broadcast_to(operand, shape).ravel() for operand in operands.values()]
    values = np.empty(math.prod(shape))
    # Overflow and underflow are answered by the formulas, infinities included.
    with np.errstate(all="ignore"):
        for start in range(0, values.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            values[block] = function(*(operand[block] for operand in flat))
    return values.reshape(shape)


@lru_cache(maxsize=1 << 12)
def _number(function: Callable[..., Array], *operands: float) -> float:
    """One value; an account, its table and its report ask for the same ones again and again. Speed alone."""
    with np.errstate(all="ignore"):
        return float(function(*(np.array([operand]) for operand in operands))[0])


def _loss_parameter(mu: ArrayLike) -> Array:
    return _numbers(
        "mu", mu, lambda m: m >= 0, "a number of at least 0", "it is sensitivity / noise standard deviation"
    )


def _privacy_budget(epsilon: ArrayLike) -> Array:
    return _numbers(
        "epsilon", epsilon, lambda e: e >= 0, "a number of at least 0", "0 is the strictest budget"
    )


def _failure_probability(delta: ArrayLike) -> Array:
    rule, remedy = (
        "a number strictly between 0 and 1",
        "1e-5 is a common choice; Gaussian noise has no finite ε at 0",
    )
    return _numbers("delta", delta, lambda d: (d > 0) & (d < 1), rule, remedy)


def _rate(fpr: ArrayLike) -> Array:
    return _numbers(
        "fpr", fpr, lambda f: (f >= 0) & (f <= 1), "a number from 0 to 1", "it is a false-positive rate"
    )


def _numbers(
    name: str, value: ArrayLike, valid: Callable[[Array], NDArray[np.bool_]], rule: str, remedy: str
) -> Array:
    """`value` as floats, refused with its first entry that breaks the rule."""
    try:
        given = np.asarray(value)
        array = given.astype(np.float64) if given.dtype.kind in "iufO" else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InputError(f"{name} must be {rule}; got {value!r} ({remedy})")
    broken = ~valid(array)
    if broken.any():
        where = tuple(int(i) for i in np.argwhere(broken)[0])
        place = f" at index {', '.join(map(str, where))}" if where else ""
        raise InputError(f"{name} must be {rule}; got {float(array[where])!r}{place} ({remedy})")
    return array
