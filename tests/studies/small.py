# SPDX-License-Identifier: Apache-2.0
"""Every study in its quick size, run once a process, and in a size that is only there to be drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.once import once

from sottovoce.report.figures import drawn, figure_bytes
from sottovoce.studies import (
    STUDIES,
    Study,
    agreement,
    constant_step,
    counterexamples,
    encoders,
    equal_error,
    figure_1,
    figure_2,
    growth,
    hidden_states,
    neighbours,
    observed_targets,
    removed_noise,
    shared_noise,
    slips,
    surprises,
    training,
    utility,
    vectors,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BY_NAME: dict[str, Study] = {study.name: study for study in STUDIES}
TINY: dict[str, Any] = {
    "figure-1": figure_1.Config(nodes=60, seeds=(1, 2), rounds=(5, 20, 60)),
    "figure-2": figure_2.Config(nodes=60, seeds=(1,), rounds=(20, 60)),
    "agreement": agreement.Config(networks=("complete:n=6", "ring:n=12"), well_mixing=1, observers=1),
    "growth": growth.Config(nodes=60, rounds=(1, 4, 16, 32)),
    "errata-smallest": counterexamples.Config(),
    "errata-a": neighbours.Config(networks=("ring:n=12", "star:n=6"), observers=2, rounds=(10, 40)),
    "errata-b": observed_targets.Config(networks=("ring:n=12",), rounds=20, outside=2, small_rounds=(1, 60)),
    "errata-c": removed_noise.Config(
        networks=("ring:n=12", "star:n=6"), observers=1, strangers=1, coalition=2
    ),
    "errata-d": vectors.Config(pairs=(("path:n=4", 1, 0),), most_rounds=7),
    "errata-e": slips.Config(rounds=50),
    "errata-f": hidden_states.Config(
        rounds=(1, 2, 8), leaves=(2, 4), simulations=2000, epsilons=(0.0, 1.0), grid=61, nodes=3
    ),
    "errata-g": constant_step.Config(rounds=(30, 100), simulated_rounds=(30,), runs=20),
    "utility": utility.Config(graphs=("complete:n=4", "ring:n=6"), rounds=(4, 16), dimension=2, runs=3),
    "training": training.Config(
        networks=("star:n=3",),
        balls=((1.0, 1.0), (0.0, 1.0)),
        epsilons=(0.0, 1.0),
        simulations=2000,
        grid=61,
        nodes=3,
    ),
    "equal-error": equal_error.Config(nodes=4, rounds=2),
    "surprises": surprises.Config(
        accelerated_rounds=3, peer_rounds=3, rounds=(1, 2, 4), averaged=8, steps=(1, 2, 4, 6)
    ),
    "shared-noise": shared_noise.Config(nodes=6, rounds=3, shared=(0.0, 1.0, 2.0), local=(0.5, 1.0)),
    "encoders": encoders.Config(
        sizes=((40, 4, "full", 2), (40, 4, "at-most:1", 2)), sums=((40, 4, "full", 2),)
    ),
}


@cache
def quick(name: str, **fewer: Any) -> Any:
    """The result of a study in its quick size, or with still fewer of what it has several of."""
    study = BY_NAME[name]
    config = replace(study.quick, **fewer)
    return tiny(name) if config == TINY[name] else study.run(config, None)


@cache
def tiny(name: str) -> Any:
    """The result of a study in the smallest size that still has all its parts."""
    return once(f"tiny-{name}", lambda: BY_NAME[name].run(TINY[name], None))


@cache
def pictured(name: str) -> tuple[Figure, bytes]:
    """The drawing of a study in that size, laid out, and its file."""
    figure = drawn(name, tiny(name))
    return figure, figure_bytes(figure, "svg")
