# SPDX-License-Identifier: Apache-2.0
"""Synthetic records to choose steps on: their shape is public, and nothing else of them is anybody's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.frontiers.questions import TUNING_SHARE
from sottovoce.learning import Data

if TYPE_CHECKING:
    from sottovoce.frontiers.questions import Question

__all__ = ["stand_in", "tuning_data"]

# Half the distance of two classes, in deviations of a record along the line between them.
_APART = 3.0
_SEED = 20_011


def stand_in(*, records: int, features: int, classes: int, seed: int = _SEED) -> Data:
    """Synthetic records of a shape: Gaussian clouds, one a class, that overlap, with deviations that fall as 1/√k.

    Measured features depend on each other, so that most of what tells classes apart lies in a few directions: with
    clouds that are round any small step would do, and what is chosen on them would be too small.

    Guarantee: a function of the shape and the seed alone.

    >>> made = stand_in(records=60, features=5, classes=3)
    >>> made.features.shape, made.classes
    ((60, 5), 3)
    """
    rng = np.random.default_rng(seed)
    centres = _APART * math.sqrt(2 / features) * rng.standard_normal((classes, features))
    labels = np.arange(records) % classes
    scale = 1 / np.sqrt(np.arange(1, features + 1))
    common = rng.standard_normal(features)
    return Data(
        name="synthetic records",
        features=(common + centres[labels] + rng.standard_normal((records, features))) * scale,
        labels=labels,
        classes=classes,
        published_records=records,
    )


def tuning_data(question: Question, network: str) -> Data:
    """The records that steps are chosen on: public ones that were given, or as many synthetic ones as there may be.

    How many that is follows from the public shard size, which is all that is asked of the data beside their shape.
    """
    if question.tune_on is not None:
        return question.tune_on
    shards = question.task(network, 0).shards
    return stand_in(
        records=max(round(shards.nodes * shards.nominal / (1 - TUNING_SHARE)), 2 * question.data.classes),
        features=question.data.features.shape[1],
        classes=question.data.classes,
    )
