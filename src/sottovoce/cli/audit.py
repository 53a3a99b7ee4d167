# SPDX-License-Identifier: Apache-2.0
"""`sottovoce audit`: attack a simulated view, and hold what is found against the certified ε."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    AS_TEXT,
    NO_MAPS,
    Course,
    Delta,
    NoiseMultiplier,
    Shown,
    Sight,
    Source,
    accounted,
    network,
    whole_number,
)
from sottovoce.cli.printing import complain, progress, result_page, rounded_down, rounded_up, write_result
from sottovoce.cli.reporting import check_report, files_of, report_answer
from sottovoce.errors import InputError, at_least, positive, probability

if TYPE_CHECKING:
    from sottovoce.auditing import Audit

__all__ = ["EXAMPLE", "USAGE", "audit"]

EXAMPLE = "sottovoce audit karate --rounds 20 --view secure-sum --noise-multiplier 4 --observer 3 --target 7 --seed 1"
USAGE = "sottovoce audit GRAPH --rounds INT --view VIEW --noise-multiplier FLOAT [OPTIONS]"


def audit(
    graph: Source,
    /,
    *,
    sight: Sight,
    course: Course,
    noise_multiplier: NoiseMultiplier,
    delta: Delta = 1e-5,
    claimed_epsilon: Annotated[
        float | None,
        Parameter(
            help="Audit this ε, which someone else claims at δ, instead of the certified one.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        Parameter(
            help="How many runs to simulate, half of them with the record; by default 2000 to 40000, by the "
            "size of the network.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    confidence: Annotated[
        float, Parameter(help="With which probability what the attack is said to show holds.")
    ] = 0.999,
    seed: Annotated[
        int | None,
        Parameter(
            help="Draw the noise from this seed, for the same numbers again; from system entropy if left out.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    shown: Shown = AS_TEXT,
) -> int:
    """Simulate the worst of the pairs that are asked for, attack it, and say whether the certified ε stands.

    Exit code 3 says that the attack did better than the number allows.
    """
    probability(confidence=confidence)
    if trials is not None:
        at_least(16, **{"--trials": trials})
    if seed is not None:
        at_least(0, **{"--seed": seed})
    if claimed_epsilon is not None:
        positive(**{"--claimed-epsilon": claimed_epsilon})
    if sight.doing.maps != NO_MAPS:
        raise InputError(
            "an audit simulates nodes that average and do not train (leave --updates and --step-smoothness out)"
        )
    check_report(shown.report)
    import numpy as np

    from sottovoce import auditing, documents

    chosen = network(graph, sight.doing.weights, sight.doing.protocol)
    table = accounted(course, sight, chosen, noise_multiplier=noise_multiplier, delta=delta)
    with progress("runs") as callback:
        found = auditing.audit(
            table.question(int(np.argmax(table.mu_upper))),
            noise_multiplier=noise_multiplier,
            delta=delta,
            claim=claimed_epsilon,
            trials=trials,
            confidence=confidence,
            rng=np.random.default_rng(seed),
            progress=callback,
        )
    document = documents.audit_document(found, chosen, seed=seed)
    if shown.json:
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.audit_tables import audit_text

        with result_page() as console:
            audit_text(console, found, chosen.graph, claimed=claimed_epsilon is not None, seed=seed)
    report_answer(
        shown.report, document, title=f"Audit of {Path(graph).name}", inputs=(graph, *files_of(sight.doing))
    )
    return _verdict(found)


def _verdict(found: Audit) -> int:
    """The exit code: 3 if the attack refutes the number, with a word on how."""
    if not found.refuted:
        return 0
    if found.empirical_epsilon_lower > found.claimed_epsilon:
        shown = (
            f"the attack shows ε ≥ {rounded_down(found.empirical_epsilon_lower)}, above the claimed "
            f"{rounded_up(found.claimed_epsilon)}"
        )
    else:
        shown = (
            f"the attack shows μ ≥ {rounded_down(found.empirical_mu_lower)}, above the claimed "
            f"{rounded_up(found.claimed_mu)}"
        )
    complain(
        f"refuted: {shown}, with confidence {found.confidence:g} (the number is too small, or the run is not the "
        "one that it speaks of)"
    )
    return 3
