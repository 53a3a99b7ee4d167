# SPDX-License-Identifier: Apache-2.0
"""Sums over lags and their bounds, against more bits than they were computed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import pytest
from flint import arb_mat, ctx
from tests.ball_matrices import balls
from tests.sensitivities.many_targets.test_projection import response_of

from sottovoce.filtering import ClosedLoop
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.sensitivities.many_targets.lag_forms import LagForms, lag_forms
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse


def exactly(response: FilteredResponse, rounds: int, first: int) -> tuple[Any, Any]:
    """Σ (DB^ℓ)ᵀDB^ℓ over the lags below `rounds`, and from `first` on, of the model as stored, in 256 bits."""
    with ctx.workprec(320):
        A, C, K, D = (
            balls(part)
            for part in (
                dense_transition(response),
                response.rows,
                response.gains.gain[-1],
                response.gains.whitener[-1],
            )
        )
        loop, row = A - A * K * C, D
        gram = later = arb_mat(response.size, response.size)
        for lag in range(rounds):
            energy = row.transpose() * row
            gram = gram + energy
            if lag >= first:
                later = later + energy
            row = row * loop
    return in_256_bits(gram), in_256_bits(later)


def in_256_bits(balls: arb_mat) -> Any:
    """The middles of balls that are smaller than the last of so many bits of the largest."""
    least = 2.0**-256 * max(abs(float(each)) for each in balls.entries())
    assert all(float(each.rad()) <= least for each in balls.entries())
    numbers = [tuple(map(int, each.mid().man_exp())) for each in balls.entries()]
    entries = [mpmath.ldexp(mantissa, exponent) for mantissa, exponent in numbers]
    return mpmath.matrix(np.array(entries, dtype=object).reshape(balls.nrows(), balls.ncols()).tolist())


@pytest.mark.parametrize("graph", ["ring:n=12", "erdos-renyi:n=20,p=0.3,seed=2", "star:n=9"])
@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1)])
def test_sums_over_lags_hold_in_256_bits_and_are_not_a_thousand_times_too_large(
    graph: str, view: View
) -> None:
    # 64 and 128 lags: powers of two, so that no block is longer than what is asked for.
    _, response = response_of(graph, view, rounds=200)
    closed = response.closed_loop(199)
    with mpmath.workprec(256):
        exact, later = exactly(response, 128, 64)
        found = mpmath.matrix(closed.gramian(128).tolist())
        room = found - exact
        # The stated bound is positive semidefinite above the truth, by no more than a thousand units.
        assert min(mpmath.eigsy((room + room.T) / 2, eigvals_only=True)) >= 0
        assert mpmath.mnorm(room, "f") <= 1000 * response.size * mpmath.mpf(2) ** -53 * mpmath.mnorm(
            exact, "f"
        )
        forms = lag_forms(closed, 64, 128)
        assert forms.lengths.tolist() == [64]
        sources = response.columns(np.arange(response.inputs.shape[1]))
        for bound, source in zip(forms.energies(sources)[0], sources.T, strict=True):
            b = mpmath.matrix(source.tolist())
            truth = (b.T * later * b)[0]
            assert (
                truth
                <= bound
                <= truth + 1000 * response.size * mpmath.mpf(2) ** -53 * mpmath.mnorm(exact, "f")
            )


def test_a_loop_that_grows_shows_no_end_of_energy() -> None:
    closed = ClosedLoop(loop=np.array([[4.0]]), whitener=np.array([[1.0]]))
    assert lag_forms(closed, 1, 4096).energies(np.ones((1, 1)))[-1, 0] == np.inf
    assert not np.isfinite(closed.gramian(4096)).all()


def test_a_loop_that_is_known_less_well_shows_more() -> None:
    loop, whitener = np.array([[0.5, 0.1], [0.0, 0.4]]), np.array([[1.0, 1.0]])
    near, far = (ClosedLoop(loop=loop, whitener=whitener, off=off).gramian(64) for off in (0.0, 1e-3))
    wider = ClosedLoop(loop=loop + 1e-3 / 2 * np.eye(2), whitener=whitener).gramian(64)
    assert np.linalg.eigvalsh(far - near)[0] > 1e-4
    assert np.linalg.eigvalsh(far - wider)[0] > 0


def test_lags_are_counted_in_blocks_that_double() -> None:
    _, response = response_of("ring:n=9", View.secure_sum(0), rounds=300)
    closed = response.closed_loop(299)
    source = response.columns(np.array([2]))
    norms = np.linalg.norm(closed.taps(512) @ source, axis=1)[:, 0]
    forms = lag_forms(closed, 64, 300)
    assert forms.lengths.tolist() == [64, 128, 256]
    expected = sum((end / 2 * (norms[end // 2 : end] ** 2).sum()) ** 0.5 for end in (128, 256, 512))
    assert norms[64:512].sum() <= forms.norm_sum(source)[0]
    assert forms.norm_sum(source)[0] == pytest.approx(expected, abs=1e-6)
    shown = float(source[:, 0] @ closed.gramian(300) @ source[:, 0])
    assert shown == pytest.approx(float((norms**2).sum()), rel=1e-6)


def test_fewer_rows_are_upper_bounds_in_256_bits_and_add_no_more_than_the_longest_that_is_left_out() -> None:
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    values = 10.0 ** -np.arange(12)
    form = basis * values @ basis.T
    whole = LagForms.of([form], np.array([5]), np.zeros(1))
    short = whole.fewer(3e-5)
    assert len(short.roots) == 5 < len(whole.roots)
    assert short.left_out[0] == pytest.approx(1e-5, rel=1e-9)
    # Inputs along what is left out are those that it has to cover.
    inputs = np.column_stack([basis, rng.standard_normal((12, 40))])
    found = short.energies(inputs)[0]
    with mpmath.workprec(256):
        X = mpmath.matrix(form.tolist())
        for bound, b in zip(found, inputs.T, strict=True):
            column = mpmath.matrix(b.tolist())
            truth = (column.T * X * column)[0]
            assert truth <= bound <= float(truth) * (1 + 1e-9) + 1.02e-5 * float(b @ b)
    upper, least = short.norm_sums(inputs)
    assert upper == pytest.approx(np.sqrt(5 * found), rel=1e-12)
    assert (least <= whole.norm_sum(inputs) * (1 + 1e-9)).all()
    assert whole.norm_sums(inputs)[1] == pytest.approx(whole.norm_sum(inputs), rel=1e-12)
