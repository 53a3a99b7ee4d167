# SPDX-License-Identifier: Apache-2.0
"""On how many examples laws are tried: the same ones in every run, or twenty times as many new ones.

`HYPOTHESIS_PROFILE=thorough` asks for the latter.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["examples", "seeds"]

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "everyday")
FACTOR = 20 if PROFILE == "thorough" else 1

settings.register_profile(
    "everyday",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    # A draw may build a protocol; on a busy machine that is slow, which is no fault of the law.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", settings.get_profile("everyday"), max_examples=50 * FACTOR, derandomize=False
)
settings.load_profile(PROFILE)


def examples(count: int) -> settings:
    """A law with so many examples in place of the profile's 50: fewer where one costs much, more where it is cheap."""
    return settings(max_examples=count * FACTOR)


def seeds(count: int) -> range:
    """So many seeds of cases that are drawn without hypothesis."""
    return range(count * FACTOR)
