"""Dealing records to nodes."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.learning import Data, Shards, load_data, shards_of, split
from sottovoce.learning.losses import huber, quadratic


def numbered(records: int, classes: int = 0, published: bool = True) -> Data:
    labels = np.arange(records) % classes if classes else np.linspace(0, 1, records)
    return Data(
        name="own",
        features=np.arange(records, dtype=np.float64)[:, None],
        labels=labels,
        classes=classes,
        published_records=records if published else None,
    )


@pytest.mark.parametrize("skew", [None, 100.0, 0.5])
@pytest.mark.parametrize("classes", [0, 3])
def test_every_record_goes_to_one_node(skew: float | None, classes: int) -> None:
    data = numbered(60, classes)
    shards = split(data, 5, skew=skew)
    features, labels = shards.pooled
    assert sorted(features[:, 0]) == list(range(60))
    assert np.array_equal(labels, data.labels[features[:, 0].astype(int)])
    assert shards.counts.sum() == 60
    assert shards.nominal == 12


def test_even_shards_differ_by_one_record_at_most() -> None:
    assert np.ptp(split(numbered(62), 5).counts) == 1


def test_a_small_parameter_skews_the_classes() -> None:
    data = load_data("digits")

    def mean_share(skew: float | None) -> float:
        shards = split(data, 10, skew=skew)
        shares = [
            np.bincount(shards.labels[i][shards.present[i]], minlength=10) / shards.counts[i]
            for i in range(10)
        ]
        return float(np.mean([share.max() for share in shares]))

    assert mean_share(None) < 0.2
    assert mean_share(0.3) > 2 * mean_share(100.0)


def test_seeds_repeat() -> None:
    data = numbered(40)
    assert split(data, 4, seed=1).fingerprint == split(data, 4, seed=1).fingerprint
    assert split(data, 4, seed=1).fingerprint != split(data, 4, seed=2).fingerprint
    assert split(data, 4, nominal=9).fingerprint != split(data, 4).fingerprint


def test_a_size_that_is_not_public_is_not_used() -> None:
    data = numbered(40, published=False)
    with pytest.raises(
        InputError, match=r"^nominal must be given, a public shard size to divide by; how many records"
    ):
        split(data, 4)
    assert split(data, 4, nominal=7).nominal == 7


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="there are 3 for 4 nodes"):
        split(numbered(3), 4)
    with pytest.raises(InputError, match="skew must be a finite number above 0"):
        split(numbered(40), 4, skew=0)
    with pytest.raises(InputError, match="leaves some of the 30 nodes without records"):
        split(numbered(40, classes=2), 30, skew=0.01)
    with pytest.raises(InputError, match="node 1 has none"):
        shards_of([np.ones((2, 1)), np.ones((0, 1))], [np.ones(2), np.ones(0)], nominal=2)
    with pytest.raises(InputError, match="nominal must be a whole number of at least 1"):
        shards_of([np.ones((2, 1))], [np.ones(2)], nominal=0)
    with pytest.raises(InputError, match="labels and present must have shape"):
        Shards(features=np.ones((2, 3, 1)), labels=np.ones((2, 2)), present=np.ones((2, 3), bool), nominal=1)


def test_norms_are_those_of_the_records() -> None:
    shards = split(load_data("diabetes"), 3)
    assert np.allclose(shards.norms, np.linalg.norm(shards.features, axis=2))


@pytest.mark.parametrize("kind", [huber, quadratic])
def test_records_of_fewer_bits_are_clipped_as_any_others(kind: Any) -> None:
    records = (10 * np.random.default_rng(1).normal(size=(3, 1, 50))).astype(np.float32)
    shards = Shards(
        features=records,  # type: ignore[arg-type]
        labels=np.full((3, 1), 1e6),
        present=np.ones((3, 1), dtype=np.bool_),
        nominal=1,
    )
    found = kind(50).clipped_sums(np.zeros((3, 50)), shards, np.ones((3, 1)), 1.0)
    assert found.clipped == 1
    assert all(sum(Fraction(float(x)) ** 2 for x in row) <= 1 for row in found.values)
