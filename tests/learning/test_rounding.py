# SPDX-License-Identifier: Apache-2.0
"""What floats make of a record is no longer than its clip, in fractions, and the room for that is not far too large."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.learning import GradientLoss, LinearLoss, clipped_rows, clipping, rounding, shards_of
from sottovoce.learning.descent import clipped_gradients
from sottovoce.learning.losses import huber, quadratic, softmax
from sottovoce.learning.rounding import ball_limit, clip_limit, is_reached, sum_stretch
from sottovoce.learning.shards import in_ball
from sottovoce.learning.tasks import Task
from sottovoce.rounding import gamma

UNIT = Fraction(UNIT_ROUNDOFF)
BITS = 1 << 300


def squared(row: Any) -> Fraction:
    """|row|², exactly."""
    return sum((Fraction(float(x)) ** 2 for x in np.ravel(row)), Fraction(0))


def root(value: Fraction) -> Fraction:
    """√value to 300 bits, rounded down."""
    return Fraction(math.isqrt(math.floor(value * BITS * BITS)), BITS)


def hard_rows(count: int) -> list[np.ndarray]:
    """Rows that are longer than a clip of 1, of 2 to 40 numbers of all sizes."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(2, 40, count)
    return [rng.standard_normal(d) * 10.0 ** rng.uniform(1, 3) * rng.choice([1, 1e-3], d) for d in sizes]


def test_rows_cut_to_the_clip_itself_go_over_it_and_rows_cut_to_the_limit_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = hard_rows(400)
    assert all(squared(clipped_rows(row[None], 1.0).values) <= 1 for row in rows)
    # Without the cap, which is much more than so few numbers need.
    monkeypatch.setattr(rounding, "LEAST_CUT", 0.0)
    assert all(squared(clipped_rows(row[None], 1.0).values) <= 1 for row in rows)
    monkeypatch.setattr(clipping, "clip_limit", lambda clip, *_: clip)
    over = [(root(squared(clipped_rows(row[None], 1.0).values)) - 1, len(row)) for row in rows]
    assert sum(above > 0 for above, _ in over) > len(rows) / 5
    shares = [above / Fraction(gamma(size + rounding.OF_A_TERM)) for above, size in over]
    assert Fraction(1, 100) < max(shares) <= 1


@pytest.mark.parametrize("power", [26, 30, 36])
def test_a_fixed_cut_is_too_small_for_very_many_numbers_and_the_limit_is_not(power: int) -> None:
    """One entry is 1, all others 2⁻²⁷: added one by one their squares are lost, and the norm as computed is 1."""
    assert 1.0 + 2.0**-54 == 1.0
    count = 2**power
    norm_squared = 1 + (count - 1) * Fraction(1, 2**54)
    fixed = 1 - Fraction(1, 2**30)
    assert fixed**2 * norm_squared > 1
    limit = Fraction(clip_limit(1.0, count))
    assert limit**2 * norm_squared <= 1
    # Half of γ is what a root makes of it, and a half square is what these lose.
    assert (1 - limit) < 5 * (root(norm_squared) - 1)


@pytest.mark.parametrize("terms", [1, 10, 10**6, 10**8, 10**12])
@pytest.mark.parametrize("records", [1, 100, 10**4, 10**7])
def test_limits_leave_room_for_every_rounding_that_the_page_counts(terms: int, records: int) -> None:
    def most(count: int) -> Fraction:
        return count * UNIT / (1 - count * UNIT)

    for clip in (1.0, 0.7, 3e-5, 1e120):
        made = Fraction(clip_limit(clip, terms, records)) * (1 + most(terms + 12))
        assert made * (1 + (2 * records - 1) * most(records + 11)) <= Fraction(clip)
        kept = Fraction(ball_limit(clip, terms, records)) * (1 + most(4 * terms + records + 96))
        assert kept * (1 + 12 * UNIT) <= Fraction(clip_limit(clip, terms, records))
        # No more than the cap, or a few times what is counted.
        lost = 1 - Fraction(clip_limit(clip, terms, records)) / Fraction(clip)
        counted = most(terms + 12) + (2 * records - 1) * most(records + 11)
        assert lost < max(Fraction(11, 10) / 2**30, Fraction(23, 10) * counted)


def test_nothing_is_left_of_a_clip_that_underflows() -> None:
    tiny = 5e-324
    assert clip_limit(tiny, 10) == ball_limit(tiny, 10) == 0.0
    assert not clipped_rows(np.full((2, 10), 1e-320), tiny).values.any()
    for clip in (1e-290, 1e-250):
        found = clipped_rows(np.array([[3.0, 4.0], [1e-200, 1e200]]), clip).values
        assert all(squared(row) <= Fraction(clip) ** 2 for row in found)
        assert squared(found[0]) > Fraction(clip) ** 2 / 2


def test_sums_move_by_no_more_than_the_clip_with_the_rounding_of_all_others() -> None:
    """Rows that are summed one by one, so that a record away rounds all others the other way."""
    rng = np.random.default_rng(8)
    shares = []
    for count in (2, 10, 100, 1000):
        rows = np.full(count, 1.0) / 3
        most = Fraction(float(rows[0]))
        allowed = (Fraction(sum_stretch(count)) - 1) * most
        for _ in range(20):
            away = int(rng.integers(count))
            whole, without = (float(np.cumsum(part)[-1]) for part in (rows, np.delete(rows, away)))
            moved = abs(Fraction(whole) - Fraction(without))
            assert moved <= most + allowed
            shares.append((moved - most) / allowed)
    assert max(shares) > Fraction(1, 1000)


@pytest.mark.parametrize("name", ["huber", "softmax", "quadratic", "own"])
@pytest.mark.parametrize("nominal", [3, 40, 3000])
def test_a_record_moves_what_a_node_sends_by_no_more_than_its_share(name: str, nominal: int) -> None:
    """The sums as they are divided, in fractions, for records of all sizes."""
    rng = np.random.default_rng(9)
    count, width, clip = min(nominal, 40), 5, 0.3
    made: dict[str, Any] = {
        "huber": huber(width),
        "softmax": softmax(width, 3),
        "quadratic": quadratic(width),
        "own": GradientLoss(gradients=lambda _, features, __: features, dimension=width),
    }
    loss = made[name]
    features = rng.standard_normal((count, width)) * 10.0 ** rng.uniform(-2, 4, (count, 1))
    labels: np.ndarray = rng.integers(0, 3, count) if name == "softmax" else 100 * rng.standard_normal(count)
    task = Task(name=name, loss=loss, shards=shards_of([features], [labels], nominal=nominal))
    models, most = rng.standard_normal((1, loss.dimension)), Fraction(clip) / nominal
    whole = np.ones((1, count))
    found = clipped_gradients(task, models, whole, clip=clip, unit="record").values[0]
    moves = []
    for away in range(count):
        without = whole.copy()
        without[0, away] = 0
        other = clipped_gradients(task, models, without, clip=clip, unit="record").values[0]
        moves.append(sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(found, other, strict=True)))
    assert max(moves) <= most**2
    assert max(moves) > most**2 * (1 - Fraction(1, 10**7))


@pytest.mark.parametrize("kind", ["huber", "softmax"])
@pytest.mark.parametrize("records", [2, 40, 5000])
def test_gradients_of_records_in_a_ball_are_never_cut(kind: str, records: int) -> None:
    rng = np.random.default_rng(10)
    width, outputs, clip = 6, 3 if kind == "softmax" else 1, 0.7
    radius = clip / math.sqrt(2) if kind == "softmax" else clip
    loss = softmax(width, outputs, radius=radius) if kind == "softmax" else huber(width, radius=radius)
    assert isinstance(loss, LinearLoss)
    assert loss.shape(clip, whole=True) == "convex"
    assert loss.shape(clip * (1 - 1e-9), whole=True) == "clipped"
    # All of them at the edge and alike, with the steepest residual there is.
    features = np.tile(rng.standard_normal(width), (min(records, 300), 1))
    labels = np.ones(len(features)) if kind == "softmax" else np.full(len(features), -1e9)
    shards = shards_of([features], [labels.astype(np.int64)], nominal=records)
    models = np.zeros((width, outputs))
    models[:, 0] = 1e6 * features[0]
    task = Task(name=kind, loss=loss, shards=shards)
    weights = shards.present.astype(float)
    cut = clipped_gradients(task, models.reshape(1, -1), weights, clip=clip, unit="record").values[0]
    free = loss.clipped_sums(models.reshape(1, -1), shards, weights, None).values[0] / records
    assert np.array_equal(cut, free)
    whole = clipped_gradients(task, models.reshape(1, -1), weights, clip=clip, unit="node").values[0]
    assert np.array_equal(whole, free)
    # And they are as steep as said.
    one = np.zeros_like(weights)
    one[0, 0] = 1
    norm = np.linalg.norm(loss.clipped_sums(models.reshape(1, -1), shards, one, clip).values)
    assert clip * (1 - 1e-7) < norm <= clip


def test_records_lie_in_their_ball_in_exact_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = hard_rows(300)
    assert all(squared(in_ball(row, 0.9)) <= Fraction(0.9) ** 2 for row in rows)
    monkeypatch.setattr("sottovoce.learning.shards.ball_limit", lambda radius, *_: radius)
    assert any(squared(in_ball(row, 0.9)) > Fraction(0.9) ** 2 for row in rows)


def test_a_clip_is_reached_by_what_is_longer_alone() -> None:
    for clip in np.random.default_rng(11).uniform(0.1, 10, 300).tolist():
        assert not is_reached(clip, math.sqrt(2) * (clip / math.sqrt(2)))
        assert is_reached(clip, clip * (1 + 2e-15))


def test_rows_of_other_types_are_clipped_as_float64() -> None:
    rows: Any = np.full((1, 4001), 1.1, dtype=np.float32)
    found = clipped_rows(rows, 1.0)
    assert found.values.dtype == np.float64
    assert squared(found.values) <= 1
    assert squared(clipped_rows(np.full((1, 3), 7), 1.0).values) <= 1
