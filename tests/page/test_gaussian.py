# SPDX-License-Identifier: Apache-2.0
"""ε in the browser: never below the truth, hardly above it, and shown rounded up."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpmath as mp
import numpy as np
import pytest

from sottovoce import gaussian
from sottovoce.accounting import calibrate
from sottovoce.cli.printing import rounded_down, rounded_up
from sottovoce.graphs import metropolis_weights
from sottovoce.page import FOLDER
from sottovoce.protocols import gossip

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser

    Evaluate = Callable[[str, Any], Any]

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gaussian.json").read_text())
TIGHT = 1e-9


@pytest.fixture(scope="module")
def evaluate(browser: Browser) -> Any:
    """Call a function of the script with one value."""
    page = browser.new_page()
    page.add_script_tag(content=FOLDER.joinpath("tools/gaussian.js").read_text(encoding="utf-8"))

    def call(function: str, value: Any) -> Any:
        return page.evaluate(f"(value) => ({function})(value, sottovoce.gaussian)", value)

    yield call
    page.close()


def ends(evaluate: Evaluate, pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    found = evaluate("(pairs, g) => pairs.map(([mu, delta]) => g.ends(mu, delta))", pairs)
    return [(each["lower"], each["upper"]) for each in found]


def test_golden_values_lie_between_the_ends(evaluate: Evaluate) -> None:
    rows = GOLDEN["eps_from_mu_delta"]
    assert len(rows) > 100
    for row, (lower, upper) in zip(rows, ends(evaluate, [(r["mu"], r["delta"]) for r in rows]), strict=True):
        with mp.workdps(60):
            exact = mp.mpf(row["eps"])
            assert lower <= exact <= upper, row
            assert upper - exact <= TIGHT * max(exact, row["mu"]), row
            assert exact - lower <= TIGHT * max(exact, row["mu"]), row


def test_delta_of_the_upper_end_is_met(evaluate: Evaluate) -> None:
    rows = [row for row in GOLDEN["delta_from_mu_eps"] if 0 < mp.mpf(row["delta"]) < 1 and row["eps"] > 0]
    pairs = [(row["mu"], float(mp.mpf(row["delta"]))) for row in rows]
    kept = [k for k, (_, delta) in enumerate(pairs) if 1e-300 < delta < 0.999]
    assert len(kept) > 50
    for k, (lower, upper) in zip(kept, ends(evaluate, [pairs[k] for k in kept]), strict=True):
        # δ was rounded to a float, which moves ε by a little.
        slack = 1e-14 * max(1, rows[k]["mu"]) ** 2 * max(1, rows[k]["eps"])
        assert lower <= rows[k]["eps"] + slack, rows[k]
        assert upper >= rows[k]["eps"] - slack, rows[k]


def test_many_values_against_the_library(evaluate: Evaluate) -> None:
    rng = np.random.default_rng(7)
    mu = 10 ** rng.uniform(-8, 4, 4000)
    delta = np.where(
        rng.random(4000) < 0.8, 10 ** rng.uniform(-300, -0.01, 4000), rng.uniform(0.01, 0.999, 4000)
    )
    exact = gaussian.epsilon(mu, delta)
    found = np.array(ends(evaluate, list(zip(mu.tolist(), delta.tolist(), strict=True))))
    # The library's own upper end is within 1e-12, far inside the margin of the script.
    assert np.all(found[:, 1] >= exact)
    assert np.all(found[:, 0] <= exact)
    room = TIGHT * np.maximum(exact, mu * np.maximum(1, mu))
    assert np.all(found[:, 1] - exact <= room)
    assert np.all(exact - found[:, 0] <= room)


@pytest.mark.parametrize(
    ("mu", "delta"),
    [
        (1e-300, 1e-5),
        (1e-12, 1e-12),
        (1e6, 1e-5),
        (1e9, 1e-5),
        (1e160, 1e-5),
        (1.0, 5e-324),
        (50.0, 5e-324),
        (3.0, 1 - 1e-12),
    ],
)
def test_extremes_stay_on_the_safe_side(mu: float, delta: float, evaluate: Evaluate) -> None:
    [(lower, upper)] = ends(evaluate, [(mu, delta)])
    exact = gaussian.epsilon(mu, delta)
    assert lower <= exact * (1 + 1e-12)
    assert upper >= exact * (1 - 1e-12)
    assert upper <= max(mu * (math.sqrt(-2 * math.log(delta)) + mu / 2) * (1 + 1e-9), 1e-290)


def test_what_makes_no_sense_promises_nothing(evaluate: Evaluate) -> None:
    found = evaluate(
        "(pairs, g) => pairs.map(([m, d]) => g.ends(m, d).upper === Infinity)",
        [[-1, 0.1], [1, 0], [1, 1], [None, 2]],
    )
    assert found == [True, True, True, True]
    assert ends(evaluate, [(0.0, 1e-5), (0.001, 0.1)]) == [(0, 0), (0, 0)]


def test_numbers_are_rounded_as_the_command_line_does(evaluate: Evaluate) -> None:
    rng = np.random.default_rng(3)
    values = [
        *(10 ** rng.uniform(-9, 9, 500)).tolist(),
        9.9999,
        0.99999,
        1.0,
        2.5,
        1234.0,
        0.1,
        1e-4,
        9999999.0,
        99995.0,
    ]
    found = evaluate("(values, g) => values.map((v) => [g.roundUp(v), g.roundDown(v)])", values)
    for value, (up, down) in zip(values, found, strict=True):
        assert float(up) == float(rounded_up(value)), value
        assert float(down) == float(rounded_down(value)), value
        assert float(down) <= value <= float(up)


def test_noise_is_enough_and_hardly_more(evaluate: Evaluate) -> None:
    protocol = gossip(metropolis_weights("ring:n=5"), rounds=9)
    for target, delta in ((1.0, 1e-5), (0.01, 1e-8), (30.0, 1e-3)):
        exact = calibrate(protocol, "everyone", target_epsilon=target, target_delta=delta)
        found = evaluate("([e, d], g) => g.noiseFor(9, 1, e, d)", [target, delta])
        assert exact <= found <= exact * (1 + 2e-5)
        assert gaussian.epsilon(3 / found, delta) <= target


def test_the_best_guess_is_bounded(evaluate: Evaluate) -> None:
    mus = [0.0, 1e-6, 0.3, 1.0, 5.0, 40.0]
    for mu, found in zip(mus, evaluate("(mus, g) => mus.map(g.guessing)", mus), strict=True):
        exact = 50 * (1 + float(mp.erf(mp.mpf(mu) / mp.sqrt(8))))
        assert exact <= found <= min(100.0, exact * (1 + 1e-9))
