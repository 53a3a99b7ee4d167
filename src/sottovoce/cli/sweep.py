# SPDX-License-Identifier: Apache-2.0
"""`sottovoce sweep`: all pairs of a large network, into a folder of Parquet parts."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.options import (
    SURROUNDINGS,
    USUAL,
    Config,
    Horizon,
    Source,
    Spending,
    Surroundings,
    Workers,
    network,
    scenario_of,
    whole_number,
)
from sottovoce.cli.printing import complain, progress, readable, write_result
from sottovoce.errors import at_least

if TYPE_CHECKING:
    from sottovoce.sweeps import SweepResult

__all__ = ["EXAMPLE", "USAGE", "sweep"]

EXAMPLE = "sottovoce sweep karate --rounds 100 --view secure-sum --output karate-pairs"
USAGE = "sottovoce sweep GRAPH --rounds INT --view VIEW --output FOLDER [OPTIONS]"


def sweep(
    graph: Source,
    /,
    *,
    span: Horizon,
    output: Annotated[
        Path, Parameter(help="The folder for the parts, empty or not there yet; or of the sweep to resume.")
    ],
    view: Annotated[
        Literal["neighbourhood", "secure-sum", "single-node"],
        Parameter(
            help="What each observer sees: the messages of its neighbours, the weighted sum it receives, or "
            "its own messages."
        ),
    ],
    surroundings: Surroundings = SURROUNDINGS,
    spending: Spending = USUAL,
    tile: Annotated[
        int | None,
        Parameter(
            help="How many observers share a part, which is what an interruption can cost; by default about "
            "100000 pairs, in at least 32 parts.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    workers: Workers = 1,
    cluster: Annotated[
        str | None,
        Parameter(
            help="Compute on a Dask cluster: local, or the address of a scheduler (tcp://HOST:PORT).",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(help="Go on with the sweep in the folder: only missing or damaged parts are computed."),
    ] = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Compute Δ² for every observer and every target, into a folder that `summary` reads."""
    at_least(1, **{"--workers": workers})
    if tile is not None:
        at_least(1, **{"--tile": tile})
    from sottovoce.threads import pin_blas

    pin_blas()
    from sottovoce import sweeps

    chosen = network(graph, surroundings.doing.weights, surroundings.doing.protocol)
    asked = scenario_of(chosen, surroundings.seen(view), span.under())
    try:
        with progress("pairs") as callback:
            done = sweeps.sweep(
                asked,
                folder=output,
                effort=spending.effort_of(workers),
                tile=tile,
                resume=resume,
                cluster=cluster,
                progress=callback,
            )
    except KeyboardInterrupt:
        finished = sum(1 for _ in output.glob("part-*.parquet"))
        complain(
            f"interrupted: {finished} {'part is' if finished == 1 else 'parts are'} finished in {output} "
            "(continue with --resume)"
        )
        return 130
    _report(done)
    return 0


def _report(done: SweepResult) -> None:
    """Say where the pairs are and, on stderr, which parts were damaged."""
    for aside, fault in done.set_aside.items():
        complain(f"a damaged part was set aside as {aside} and computed again: {fault}")
    tiles = done.manifest.tiles
    earlier = f", {len(done.kept)} of them from before" if done.kept else ""
    write_result(
        f"{len(done)} pairs in {tiles} {'part' if tiles == 1 else 'parts'}{earlier}: "
        f"{readable(done.folder)} (sottovoce summary reads them)\n"
    )
