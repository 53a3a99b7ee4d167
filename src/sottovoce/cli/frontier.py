# SPDX-License-Identifier: Apache-2.0
"""`sottovoce frontier`: the price of privacy, accuracy against ε."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    Config,
    Json,
    Label,
    Regularisation,
    RelationName,
    ReportOption,
    Rounds,
    ShardSize,
    Skew,
    TestShare,
    Weights,
    Workers,
    network,
    whole_number,
)
from sottovoce.cli.printing import complain, progress, readable, result_page, write_result
from sottovoce.cli.reporting import check_report, say_written
from sottovoce.errors import InputError
from sottovoce.spellings import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.frontiers import Frontier
    from sottovoce.learning import Data

__all__ = ["EXAMPLE", "USAGE", "frontier"]

EXAMPLE = (
    "sottovoce frontier digits --graph ring:n=10 complete:n=10 --rounds 100 --epsilons 0.5,1,2,4,8 "
    "--views everyone,secure-sum --output price.svg --folder price"
)
USAGE = "sottovoce frontier DATA --graph GRAPH... --rounds INT --epsilons FLOAT,FLOAT... [OPTIONS]"


def frontier(
    data: Annotated[
        str,
        Parameter(
            help="digits or breast-cancer (bundled with scikit-learn), or a .csv or .npz file whose labels are classes."
        ),
    ],
    /,
    *,
    graph: Annotated[
        tuple[str, ...],
        Parameter(
            name=("--graph", "--graphs"),
            help="The networks to compare, files or names as everywhere (ring:n=10 complete:n=10); each holds the "
            "records on nodes of its own.",
            consume_multiple=True,
            negative_iterable=(),
        ),
    ],
    rounds: Rounds,
    epsilons: Annotated[
        str,
        Parameter(
            help="The ε that noise is chosen for, each in the view of its line, with commas between them."
        ),
    ],
    views: Annotated[
        str,
        Parameter(
            help="What is seen, with commas between them: everyone, neighbourhood, secure-sum, single-node; every "
            "observer in turn."
        ),
    ] = "everyone,secure-sum",
    protocols: Annotated[
        tuple[str, ...],
        Parameter(
            help="What nodes do each round, as --protocol of train: gossip momentum:beta=0.9, say.",
            consume_multiple=True,
            negative_iterable=(),
        ),
    ] = ("gossip",),
    delta: Annotated[float, Parameter(help="The δ at which every ε is meant.")] = 1e-5,
    repeats: Annotated[
        int,
        Parameter(
            help="How many runs a point has; each deals the records anew, and draws noise of its own.",
            converter=whole_number,
        ),
    ] = 5,
    step: Annotated[
        str | None,
        Parameter(
            help="One step size for all: 0.5, 0.5/sqrt(t) or 0.5/(1+t/20). Without it a step is chosen for each point, "
            "on data that are not protected.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        str,
        Parameter(
            help="The steps to choose from, in units of 1/L with L the public smoothness of the loss, with commas."
        ),
    ] = "0.25,0.5,1,2,4",
    tune_on: Annotated[
        str | None,
        Parameter(
            help="Public data to choose steps on, as DATA is named; by default synthetic records of the same shape. "
            "DATA itself is refused.",
            show_default=False,
        ),
    ] = None,
    relation: RelationName = "add-remove",
    weights: Weights = "auto",
    label: Label = None,
    l2: Regularisation = 1e-3,
    shard_size: ShardSize = None,
    skew: Skew = None,
    test_share: TestShare = 0.2,
    clip: Annotated[float, Parameter(help="The norm that gradients are clipped to.")] = 1.0,
    folder: Annotated[
        Path | None,
        Parameter(
            help="Keep finished parts in this folder, empty or not there yet; or of the frontier to resume.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool,
        Parameter(help="Go on with the frontier in the folder: only missing or damaged parts are computed."),
    ] = False,
    workers: Workers = 1,
    output: Annotated[
        Path | None, Parameter(help="Draw the frontier to this .svg file.", show_default=False)
    ] = None,
    report: ReportOption = None,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Draw the price of privacy: accuracy against ε for views, topologies and protocols.

    Beside them stand a trusted server at the same ε and the same gossip without noise. Steps are chosen on synthetic or
    public data, never on DATA. Ctrl-C keeps the parts that are finished in --folder, with exit code 130.
    """
    _check_files(output, report)
    if resume and folder is None:
        raise InputError(
            "--resume goes on with the frontier in a folder; none was named (name it with --folder)"
        )
    from sottovoce.threads import pin_blas

    pin_blas()
    from sottovoce import frontiers

    asked = frontiers.Question(
        data=_records(data, label),
        networks={source: network(source, weights, _reading(protocols)).weights for source in graph},
        rounds=rounds,
        epsilons=_numbers("--epsilons", epsilons),
        views=listed(views),
        protocols=protocols,
        delta=delta,
        repeats=repeats,
        relation=relation,
        step=step,
        steps=_numbers("--steps", steps),
        tune_on=None if tune_on is None else _records(tune_on, None),
        l2=l2,
        nominal=shard_size,
        skew=skew,
        test_share=test_share,
        clip=clip,
    )
    try:
        with progress("parts") as callback:
            found = frontiers.frontier(
                asked, folder=folder, resume=resume, workers=workers, progress=callback
            )
    except KeyboardInterrupt:
        complain(_interrupted(folder, len(asked.parts)))
        return 130
    _show(found, output, report, json=json)
    return 0


def _check_files(output: Path | None, report: Path | None) -> None:
    """Refuse files that cannot be written, before any work is done."""
    if output is not None:
        from sottovoce.documents import check_path

        check_path(output, (".svg",), "the picture of a frontier")
    check_report(report)
    if output is not None or report is not None:
        from sottovoce.report import needs_matplotlib

        needs_matplotlib()


def _records(source: str, label: str | None) -> Data:
    """The records of that name or in that file, labels being classes."""
    from sottovoce.learning import load_data

    return load_data(source, label=label, classification=True)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    try:
        return tuple(map(float, listed(text)))
    except ValueError:
        raise InputError(
            f"{option} must be numbers with commas between them; got {text!r} (write 0.5,1,2)"
        ) from None


def _interrupted(folder: Path | None, parts: int) -> str:
    """What is left after an interrupt."""
    if folder is None:
        return "interrupted: nothing is kept (name a folder with --folder to go on another time)"
    finished = sum(1 for _ in folder.glob("part-*.json"))
    return f"interrupted: {finished} of {parts} parts are finished in {folder} (continue with --resume)"


def _reading(protocols: tuple[str, ...]) -> str:
    """A protocol that reads weights as all of them do; those that read them differently share weights of gossip."""
    from sottovoce.protocols import weight_sums

    return protocols[0] if len(set(map(weight_sums, protocols))) == 1 else "gossip"


def _show(found: Frontier, output: Path | None, report: Path | None, *, json: bool) -> None:
    """The answer as text or JSON, and as files."""
    from sottovoce.cli.frontier_tables import frontier_text

    if output is not None:
        from sottovoce.documents import write_bytes
        from sottovoce.report import frontier_picture

        write_bytes(frontier_picture(found).encode(), output, "the picture")
    if report is not None:
        from sottovoce.report import frontier_sections, write_report

        title = f"The price of privacy on {found.settings['data']}"
        write_report(report, title=title, sections=frontier_sections(found))
        if json:
            # The text names its files itself.
            say_written(report)
    if json:
        from sottovoce.documents import as_json
        from sottovoce.documents.frontiers import frontier_document

        write_result(as_json(frontier_document(found)))
        return
    written: Sequence[str] = [readable(path) for path in (output, report) if path is not None]
    with result_page() as console:
        frontier_text(console, found, written)
