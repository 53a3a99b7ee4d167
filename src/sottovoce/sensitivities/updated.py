# SPDX-License-Identifier: Apache-2.0
"""Δ² of training: a view of a protocol whose nodes update what they received by maps of known slopes, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError
from sottovoce.feedback import training_sensitivities
from sottovoce.sensitivities.bulk import METHOD_NAMES
from sottovoce.sensitivities.results import Sensitivities

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.views import View

__all__ = ["updated_sensitivity"]


def updated_sensitivity(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    *,
    engine: str,
    effort: str,
    contribution: Contribution,
    participation: Participation,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivities:
    """Δ² of a view of training for each target.

    Guarantee: Δ² is at most the upper end for every family of update maps in the ball, vectors of any dimension and
    observers who send what they like; the lower end is what a linear loop in the ball attains.
    Source: `feedback.training_sensitivity`.
    """
    if engine != "auto":
        raise InputError(f"engine must be auto for training, which has one engine of its own; got {engine!r}")
    if contribution != "vector":
        raise InputError(
            f"contributions to training are vectors, whose bounds hold for numbers too; got {contribution!r} "
            "(leave contribution out)"
        )
    found = training_sensitivities(
        protocol,
        view,
        indices,
        participation=participation,
        effort={"auto": "auto", "fine": "fine", "bulk": "quick"}[effort],  # type: ignore[arg-type]
        progress=progress,
    )
    return Sensitivities(
        protocol=protocol,
        view=view,
        contribution=contribution,
        participation=participation,
        engine="shift",
        targets=protocol.names(indices),
        indices=indices,
        squared_lower=np.array([one.squared.lower for one in found]),
        squared_upper=np.array([one.squared.upper for one in found]),
        method=np.array([one.method for one in found], dtype=METHOD_NAMES),
        witness_of=lambda place: found[place].attack.stream(protocol.rounds),
    )
