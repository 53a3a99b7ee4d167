# SPDX-License-Identifier: Apache-2.0
"""`sottovoce train`: private decentralised learning, with what it gives away."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.options import (
    USUAL,
    Config,
    Course,
    Doing,
    Json,
    Label,
    Observers,
    OwnNoise,
    ProtocolName,
    Regularisation,
    RelationName,
    ReportOption,
    Rounds,
    ShardSize,
    Sight,
    Skew,
    Source,
    Spending,
    TestShare,
    ViewOption,
    Weights,
    network,
    scenario_of,
    whole_number,
)
from sottovoce.cli.printing import complain, result_page, rounded_up, write_result
from sottovoce.cli.reporting import Carried, check_report, proofs_of, report_answer
from sottovoce.errors import InputError
from sottovoce.spellings import name_and_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.documents import RunDocument
    from sottovoce.graphs import WeightedGraph
    from sottovoce.learning import Baseline, Data, Moment, Run, Task
    from sottovoce.protocols import Protocol

__all__ = ["EXAMPLE", "USAGE", "train"]

EXAMPLE = "sottovoce train digits --graph ring:n=10 --rounds 50 --target-epsilon 4 --view secure-sum"
USAGE = "sottovoce train DATA --graph GRAPH --rounds INT --target-epsilon FLOAT [OPTIONS]"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Learning:
    """What is learnt from which records, and how."""

    loss: Annotated[
        Literal["auto", "ridge", "huber", "logistic", "softmax", "quadratic"],
        Parameter(help="What to minimise; auto, for bundled data, takes what fits the labels."),
    ] = "auto"
    label: Label = None
    split_by: Annotated[
        str | None,
        Parameter(
            help="The column of a CSV file that says whose a record is, such as its school. Each of its values is a "
            "node: of that name where the graph has names, else in order; ring, complete and the like need no n.",
            show_default=False,
        ),
    ] = None
    l2: Regularisation = 1e-3
    shard_size: ShardSize = None
    skew: Skew = None
    test_share: TestShare = 0.2
    split_seed: Annotated[int, Parameter(help="Seed of holding out and dealing.", converter=whole_number)] = 0
    step: Annotated[
        str | None,
        Parameter(
            help="Step size: 0.5, 0.5/sqrt(t) or 0.5/(1+t/20); by default 1 over twice a bound of the smoothness "
            "that needs no data.",
            show_default=False,
        ),
    ] = None
    clip: Annotated[
        float,
        Parameter(
            help="The norm that gradients are clipped to; records are scaled so that it acts on ridge and quadratic "
            "alone."
        ),
    ] = 1.0
    unit: Annotated[
        Literal["record", "node"], Parameter(help="Whether one record or all data of a node is protected.")
    ] = "record"
    batch_fraction: Annotated[
        float,
        Parameter(help="With which probability a record takes part in a round, by a secret coin of its own."),
    ] = 1.0
    batches: Annotated[
        int,
        Parameter(
            help="How many rounds make an epoch, in which every record takes part once, in a secret order. One epoch "
            "costs one participation."
        ),
    ] = 1
    local_steps: Annotated[
        int,
        Parameter(
            help="How many steps a node takes on its own records between two messages; noise is added once, to what "
            "they make together, and scaled for what a record can change in all of them.",
            converter=whole_number,
        ),
    ] = 1


ANY_LEARNING = Learning()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Heard:
    """Who hears what of a training, which data are neighbours, and how nodes exchange their models."""

    view: ViewOption = "everyone"
    observer: Observers = ()
    own_noise: OwnNoise = "known"
    relation: RelationName = "add-remove"
    weights: Weights = "auto"
    protocol: ProtocolName = "gossip"

    @property
    def sight(self) -> Sight:
        """The same as other commands ask it."""
        doing = Doing(weights=self.weights, protocol=self.protocol)
        return Sight(view=self.view, observer=self.observer, own_noise=self.own_noise, doing=doing)


BY_EVERYONE = Heard()


def train(
    data: Annotated[
        str,
        Parameter(
            help="digits, breast-cancer or diabetes (bundled with scikit-learn), a .csv or .npz file, or a problem of "
            "known optimum: synthetic, synthetic:dimension=10,smoothness=4,heterogeneity=0.5."
        ),
    ],
    /,
    *,
    graph: Source,
    rounds: Rounds,
    target_epsilon: Annotated[
        float | None,
        Parameter(
            help="The ε that the noise is chosen for, in the view; or give --noise-multiplier.",
            show_default=False,
        ),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        Parameter(
            help="Standard deviation of each node's noise, in units of what one record can move its gradient by.",
            show_default=False,
        ),
    ] = None,
    target_delta: Annotated[float, Parameter(help="The δ at which ε is meant.")] = 1e-5,
    heard: Heard = BY_EVERYONE,
    learning: Learning = ANY_LEARNING,
    spending: Spending = USUAL,
    averaging: Annotated[
        bool,
        Parameter(
            help="Also show what averaging would give away, if no gradient depended on a model. It is no guarantee for "
            "training.",
            negative=(),
        ),
    ] = False,
    max_epsilon: Annotated[
        float | None,
        Parameter(
            help="With a noise multiplier: stop before the round that would exceed this ε.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Parameter(
            help="Seed of noise, coins and orders, for simulations that can be repeated; by default keys from the "
            "system's cryptographic generator, and noise that no other message gets.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            help="Keep the run in this .npz file, and checkpoints on the way; only you can read it.",
            show_default=False,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        Parameter(
            help="How many rounds lie between two checkpoints; a tenth of the run by default.",
            show_default=False,
            converter=whole_number,
        ),
    ] = None,
    resume: Annotated[
        bool, Parameter(help="Go on with the unfinished run in the output file, bit for bit.")
    ] = False,
    overwrite: Annotated[
        bool, Parameter(help="Let the run take the place of a finished one in the output file.", negative=())
    ] = False,
    report: ReportOption = None,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Train a model on the nodes of a network, and say what that gives away."""
    from functools import partial

    from sottovoce import learning as room
    from sottovoce.documents import as_json, run_document, runs

    if output is not None:
        runs.check_run_path(output, fresh=not resume, overwrite=overwrite)
    if overwrite and (resume or output is None):
        raise InputError(
            "--overwrite is for a new run that goes to a file (name it with --output, or leave it out)"
        )
    if resume and output is None:
        raise InputError("--resume goes on with the run in a file (name it with --output)")
    check_report(report)
    loaded = _loaded(data, learning)
    chosen = _joined(graph, heard.weights, heard.protocol, loaded)
    scenario = scenario_of(chosen, heard.sight, Course(rounds=rounds, relation=heard.relation))
    asked = scenario.protocol
    task = _task(data, loaded, learning, chosen)
    try:
        with _watched() as (accounts, rounds_done):
            done = room.train(
                task,
                scenario,
                recipe=room.Recipe(
                    noise_multiplier=noise_multiplier,
                    target_epsilon=target_epsilon,
                    target_delta=target_delta,
                    step=learning.step,
                    clip=learning.clip,
                    unit=learning.unit,
                    batch_fraction=learning.batch_fraction,
                    batches=learning.batches,
                    local_steps=learning.local_steps,
                    max_epsilon=max_epsilon,
                    averaging=averaging,
                ),
                effort=spending.effort_of(),
                seed=seed,
                resume=runs.read_run(output) if resume and output is not None else None,
                checkpoint=None if output is None else partial(_keep, output),
                checkpoint_every=checkpoint_every,
                progress=rounds_done,
                account_progress=accounts,
            )
    except KeyboardInterrupt:
        _say_interrupted(output)
        return 130
    if output is not None:
        runs.write_run(done, output)
    cost = room.step_cost(task, asked, done)
    compared = [] if report is None else _compared(done, task, asked)

    def told(run: room.Run) -> RunDocument:
        return run_document(run, task, asked, chosen, cost, compared)

    if json:
        write_result(as_json(told(done)))
    else:
        from sottovoce.cli.run_tables import run_text

        with result_page() as console:
            run_text(console, done, task, chosen, cost, output)
    if report is not None:
        _report(report, done, told, chosen, (data, graph, heard.weights, heard.protocol))
    return 0


def _compared(done: Run, task: Task, asked: Protocol) -> list[Baseline]:
    """What curves are drawn beside those of a run: no noise, and a trusted server at the same (ε, δ)."""
    from sottovoce.learning import central_descent, noiseless_descent

    settings, watched = done.settings, done.history.rounds.tolist()
    rounds = replace(asked, rounds=done.rounds) if done.rounds != asked.rounds else asked
    shared = {"step": settings["step"], "clip": settings["clip"], "watched": watched}
    found = [noiseless_descent(task, rounds, **shared)]
    if settings["unit"] == "record" and math.isfinite(done.epsilon.upper):
        central = central_descent(
            task,
            rounds=done.rounds,
            target_epsilon=done.epsilon.upper,
            target_delta=settings["target_delta"],
            relation=settings["relation"],
            **shared,
        )
        found.insert(0, central)
    return found


def _report(
    path: Path, done: Run, told: Callable[[Run], RunDocument], chosen: WeightedGraph, inputs: tuple[str, ...]
) -> None:
    """The run with its curves, and the page of all pairs with proofs; coins bound all pairs at once, and have none.

    What is shown is what the certificates claim, where that is more than the account of the run says.
    """
    from sottovoce.documents import page_document

    carried = Carried()
    if done.table is not None and done.account.coins is None:
        proofs = proofs_of([done.table])
        pairs = proofs[0].table
        done = done.as_proved(pairs)
        carried = Carried(account=page_document(pairs, chosen), proofs=proofs)
    document, settings = told(done), done.settings
    report_answer(
        path,
        document,
        title=f"Training on {document.data.name}",
        inputs=inputs,
        max_epsilon=settings["target_epsilon"]
        if settings["max_epsilon"] is None
        else settings["max_epsilon"],
        carried=carried,
    )


def _loaded(data: str, learning: Learning) -> Data | None:
    """The records that DATA names; None for a synthetic problem."""
    from sottovoce.learning import DATA_NAMES, load_data

    if name_and_rest(data)[0] == "synthetic":
        if learning.split_by is not None:
            raise InputError(
                f"--split-by must name a column of a CSV file; got {learning.split_by!r} with {data} (leave it out)"
            )
        return None
    if learning.loss == "auto" and data not in DATA_NAMES and Path(data).exists():
        raise InputError(
            "--loss must be given for a file, as only you know what its labels mean "
            "(ridge, huber, logistic, softmax or quadratic)"
        )
    return load_data(
        data,
        label=learning.label,
        split_by=learning.split_by,
        classification=learning.loss in {"logistic", "softmax"},
    )


def _joined(source: str, rule: str, protocol: str, loaded: Data | None) -> WeightedGraph:
    """The network, with a node for each client: a family that lacks n gets it, and numbered nodes get their names."""
    from sottovoce.graphs import FAMILIES, as_graph

    if loaded is None or not loaded.clients:
        return network(source, rule, protocol)
    family = FAMILIES.get(source.strip())
    if family is not None and set(family.parameters) == {"n"}:
        source = f"{source.strip()}:n={len(loaded.clients)}"
    graph = as_graph(source)
    numbered = isinstance(graph.labels, range) and set(map(str, graph.labels)) != set(loaded.clients)
    if numbered and graph.n == len(loaded.clients):
        graph = replace(graph, labels=loaded.clients)
    return network(graph, rule, protocol)


def _task(data: str, loaded: Data | None, learning: Learning, chosen: WeightedGraph) -> Task:
    """The task that the options describe."""
    from sottovoce.learning import parse_synthetic, task_from

    nodes = chosen.graph.n
    if loaded is None:
        return parse_synthetic(data, nodes)
    if loaded.clients and len(loaded.clients) == nodes:
        loaded = loaded.clients_at(chosen.graph.labels)
    return task_from(
        loaded,
        nodes,
        loss=learning.loss,
        l2=learning.l2,
        nominal=learning.shard_size,
        skew=learning.skew,
        test_share=learning.test_share,
        split_seed=learning.split_seed,
        clip=learning.clip,
    )


def _keep(output: Path, run: Run) -> None:
    """Write a checkpoint."""
    from sottovoce.documents import runs

    runs.write_run(run, output)


def _say_interrupted(output: Path | None) -> None:
    """One line about what is left after an interrupt."""
    from sottovoce.documents import runs
    from sottovoce.errors import FileError

    with contextlib.suppress(FileError):
        if output is not None:
            kept = runs.read_run(output)
            if not kept.finished:
                complain(
                    f"interrupted: {kept.state.round} of {kept.rounds} rounds are done in {output} "
                    "(continue with --resume)"
                )
                return
    complain("interrupted")


@contextlib.contextmanager
def _watched() -> Iterator[tuple[Callable[[int, int], None] | None, Callable[[Moment], None] | None]]:
    """Callbacks that show pairs accounted for and then rounds, loss, consensus distance and ε; None unwatched."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None, None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        pairs = bar.add_task("pairs", total=None, now="")
        rounds = bar.add_task("rounds", total=None, now="", visible=False)

        def moved(moment: Moment) -> None:
            now = (
                f"loss {moment.loss:.4g}, consensus distance {moment.consensus_distance:.3g}, "
                f"ε ≤ {rounded_up(moment.epsilon, 3)} in the view ({rounded_up(moment.unconditional, 3)} local DP)"
            )
            bar.update(pairs, visible=False)
            bar.update(rounds, completed=moment.round, total=moment.rounds, now=now, visible=True)

        yield lambda done, total: bar.update(pairs, completed=done, total=total), moved
