# SPDX-License-Identifier: Apache-2.0
"""Published ranges of features, so that scaling needs no look at the records."""

from __future__ import annotations

__all__ = ["BREAST_CANCER"]

BREAST_CANCER = (
    (6.981, 28.11),
    (9.71, 39.28),
    (43.79, 188.5),
    (143.5, 2501.0),
    (0.053, 0.163),
    (0.019, 0.345),
    (0.0, 0.427),
    (0.0, 0.201),
    (0.106, 0.304),
    (0.05, 0.097),
    (0.112, 2.873),
    (0.36, 4.885),
    (0.757, 21.98),
    (6.802, 542.2),
    (0.002, 0.031),
    (0.002, 0.135),
    (0.0, 0.396),
    (0.0, 0.053),
    (0.008, 0.079),
    (0.001, 0.03),
    (7.93, 36.04),
    (12.02, 49.54),
    (50.41, 251.2),
    (185.2, 4254.0),
    (0.071, 0.223),
    (0.027, 1.058),
    (0.0, 1.252),
    (0.0, 0.291),
    (0.156, 0.664),
    (0.055, 0.208),
)
"""Smallest and largest value of each feature of Breast Cancer Wisconsin (diagnostic), from its description."""
