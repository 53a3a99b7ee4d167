# SPDX-License-Identifier: Apache-2.0
"""All studies, in the order in which they are run and shown. A new study is one more entry here and a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.errors import one_of
from sottovoce.studies import (
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
    from collections.abc import Callable

    from sottovoce.studies.results import Progress, StudyResult

__all__ = ["PARTS", "STUDIES", "Study", "studies_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """A name, the part that it belongs to, its configurations in full and in quick size, and what runs it."""

    name: str
    part: str
    title: str
    full: Any
    quick: Any
    run: Callable[[Any, Progress | None], StudyResult]


STUDIES = (
    Study(
        name="figure-1",
        part="figure-1",
        title="Figure 1: Δ²/T against T for random pairs",
        full=figure_1.Config(),
        quick=figure_1.Config(seeds=(1, 2, 3), rounds=(10, 50, 200, 500, 2000)),
        run=figure_1.run,
    ),
    Study(
        name="figure-2",
        part="figure-2",
        title="Figure 2: the spectral bound and the certified interval",
        full=figure_2.Config(),
        quick=figure_2.Config(seeds=(1, 2), rounds=(20, 100, 500)),
        run=figure_2.run,
    ),
    Study(
        name="agreement",
        part="strengths",
        title="Where Theorem 13 is right: constant contributions, well-mixing graphs, far targets",
        full=agreement.Config(),
        quick=agreement.Config(observers=1),
        run=agreement.run,
    ),
    Study(
        name="growth",
        part="strengths",
        title="The improvement over T²: ε against T for five analyses",
        full=growth.Config(),
        quick=growth.Config(rounds=(1, 2, 5, 10, 20, 50, 100)),
        run=growth.run,
    ),
    Study(
        name="errata-smallest",
        part="errata",
        title="Smallest counterexamples to Theorems 13, 15 and 16",
        full=counterexamples.Config(),
        quick=counterexamples.Config(),
        run=counterexamples.run,
    ),
    Study(
        name="errata-a",
        part="errata",
        title="(a) Theorem 13 for neighbours, over long horizons",
        full=neighbours.Config(),
        quick=neighbours.Config(observers=3, rounds=(10, 100, 2000)),
        run=neighbours.run,
    ),
    Study(
        name="errata-b",
        part="errata",
        title="(b) Theorem 15 for a target inside the observed set",
        full=observed_targets.Config(),
        quick=observed_targets.Config(rounds=60, outside=3, small_rounds=(1, 10, 50, 100, 150, 200)),
        run=observed_targets.run,
    ),
    Study(
        name="errata-c",
        part="errata",
        title="(c) Theorem 16 with the observer's noise removed",
        full=removed_noise.Config(),
        quick=removed_noise.Config(observers=1, strangers=2),
        run=removed_noise.run,
    ),
    Study(
        name="errata-d",
        part="errata",
        title="(d) Vectors against signs",
        full=vectors.Config(),
        quick=vectors.Config(most_rounds=12),
        run=vectors.run,
    ),
    Study(
        name="errata-e",
        part="errata",
        title="(e) Δ printed for Δ², p = 1 − γ² and other slips",
        full=slips.Config(),
        quick=slips.Config(),
        run=slips.run,
    ),
    Study(
        name="errata-f",
        part="errata",
        title="(f) Contributions that depend on hidden states",
        full=hidden_states.Config(),
        quick=hidden_states.Config(
            rounds=(1, 2, 5, 20, 100),
            leaves=(2, 4, 16, 64),
            simulations=100_000,
            epsilons=(0.0, 0.5, 1.0, 2.0, 3.0),
            grid=241,
            nodes=7,
        ),
        run=hidden_states.run,
    ),
    Study(
        name="errata-g",
        part="errata",
        title="(g) Theorem 17 with the constant step 1/L",
        full=constant_step.Config(),
        quick=constant_step.Config(rounds=(30, 100, 1000, 10_000), simulated_rounds=(100,), runs=200),
        run=constant_step.run,
    ),
    Study(
        name="utility",
        part="utility",
        title="Theorem 17 measured: excess risk at one (ε, δ), over T, n and topology",
        full=utility.Config(),
        quick=utility.Config.quick(),
        run=utility.run,
    ),
    Study(
        name="training",
        part="training",
        title="Training with hidden states: certified, attacked, assumed",
        full=training.Config(),
        quick=training.Config(
            networks=("star:n=9", "ring:n=12", "complete:n=12"),
            balls=((1.0, 1.0), (0.9, 1.0), (0.0, 1.0)),
            simulations=100_000,
            grid=241,
            nodes=7,
        ),
        run=training.run,
    ),
    Study(
        name="equal-error",
        part="protocols",
        title="Protocols that average equally well: what each tells about near and far nodes",
        full=equal_error.Config(),
        quick=equal_error.Config(nodes=8, rounds=8),
        run=equal_error.run,
    ),
    Study(
        name="surprises",
        part="protocols",
        title="Six surprises, each in a small network",
        full=surprises.Config(),
        quick=surprises.Config(rounds=(1, 2, 5, 10), averaged=8, steps=(1, 2, 3, 4, 8)),
        run=surprises.run,
    ),
    Study(
        name="shared-noise",
        part="protocols",
        title="Noise that cancels between neighbours (DECOR) on a ring",
        full=shared_noise.Config(),
        quick=shared_noise.Config(nodes=8, rounds=6, shared=(0.0, 0.5, 2.0, 8.0), local=(0.125, 0.5, 2.0)),
        run=shared_noise.run,
    ),
    Study(
        name="encoders",
        part="protocols",
        title="Noise correlated over the rounds: ε by distance, at one ε of everyone's view",
        full=encoders.Config(),
        quick=encoders.Config(sizes=((100, 10, "full", 4), (100, 10, "at-most:1", 4)), sums=()),
        run=encoders.run,
    ),
)
PARTS = tuple(dict.fromkeys(study.part for study in STUDIES))


def studies_of(part: str) -> tuple[Study, ...]:
    """The studies of one part, or of all."""
    one_of((*PARTS, "all"), part=part)
    return tuple(study for study in STUDIES if part in {"all", study.part})
