# SPDX-License-Identifier: Apache-2.0
"""Signs of forms that are bands: values in fractions, and searches against all signs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sottovoce.sensitivities.long_horizons.banded_signs import _improved, best_banded_signs, signs_value
from sottovoce.sensitivities.one_form.witnesses import enumerated_signs, value_of


def band_and_form(seed: int, rounds: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A random band and the same form written out."""
    rng = np.random.default_rng(seed)
    band, form = np.zeros((width + 1, rounds)), np.zeros((rounds, rounds))
    for lag in range(width + 1):
        line = rng.standard_normal(rounds - lag) + (2.0 * width if lag == 0 else 0.0)
        band[lag, : rounds - lag] = line
        form += np.diag(line, lag) + (np.diag(line, -lag) if lag else 0.0)
    return band, form


def test_what_signs_attain_is_below_the_truth_by_less_than_a_thousand_times_its_rounding() -> None:
    shares = []
    for seed in range(12):
        band, form = band_and_form(seed, 9, 3)
        signs = np.where(np.random.default_rng(seed).standard_normal(9) < 0, -1.0, 1.0)
        exact = sum(
            Fraction(float(form[s, t])) * int(signs[s] * signs[t]) for s in range(9) for t in range(9)
        )
        sizes = float(np.abs(form).sum())
        found = signs_value(band, signs, sizes)
        assert Fraction(found) <= exact
        allowed = value_of(form, signs) - found
        shares.append(abs(float(Fraction(value_of(form, signs)) - exact)) / allowed)
    assert 1e-3 < max(shares) <= 1


@pytest.mark.parametrize("seed", range(6))
def test_flips_never_lower_a_value_and_the_search_comes_close_to_all_signs(seed: int) -> None:
    band, form = band_and_form(seed, 14, 2)
    start = np.where(np.random.default_rng(seed).standard_normal(14) < 0, -1.0, 1.0)
    improved = _improved(band, start)
    assert value_of(form, improved) >= value_of(form, start)
    vectors = np.linalg.eigh(form)[1][:, -3:]
    found = best_banded_signs(band, vectors, 2.0)
    most = value_of(form, enumerated_signs(form))
    assert set(np.unique(found)) <= {-1.0, 1.0}
    assert 0.9 * most <= value_of(form, found) <= most * (1 + 1e-12)


def test_equal_gains_next_to_each_other_are_not_flipped_together() -> None:
    band = np.array([[1.0, 1.0, 1.0, 1.0], [-5.0, -5.0, -5.0, 0.0]])
    found = _improved(band, np.ones(4))
    assert float(found @ found) == 4
    assert (found[:-1] != found[1:]).all()
