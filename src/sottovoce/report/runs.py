# SPDX-License-Identifier: Apache-2.0
"""The report of a training run, and its picture: accuracy, loss, consensus distance and ε over the rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sottovoce.documents import EndsForm
from sottovoce.errors import InputError
from sottovoce.interval import as_given, in_short, rounded_up
from sottovoce.report.answers import Answer, ends, facts, nodes
from sottovoce.report.charts import Line, line_chart
from sottovoce.report.first_pages import (
    Sheet,
    Size,
    Verdict,
    about_pairs,
    checks_of,
    kept,
    odds,
    origin_rows,
    to_verify,
)
from sottovoce.report.html import Section
from sottovoce.scenarios import RELATION_SENTENCES
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.documents import AccountForm, Occasion, RunDocument
    from sottovoce.learning import Run
    from sottovoce.report.charts import Kind

__all__ = ["draw_run", "run_answer"]

_ROWS = 12


def draw_run(run: Run, ax: Sequence[Any] | None = None) -> Sequence[Any]:
    """Draw what was measured after each round on three axes, made anew if `ax` is None; returns them.

    The first shows the loss of the mean model, the second the distance of models from it, the third ε of the view under
    the assumption of its account and, where that is not the view of everyone, ε of local DP.
    """
    if len(run.history.rounds) == 0:
        raise InputError("a run is drawn from its history; this one has none yet (let it run a round)")
    axes = _axes() if ax is None else ax
    if len(axes) != 3:
        raise InputError(f"a run needs three axes: loss, consensus distance and ε; got {len(axes)}")
    history = run.history
    for place, values, label in (
        (axes[0], history.loss, "loss of the mean model"),
        (axes[1], history.consensus_distance, "consensus distance"),
    ):
        place.plot(history.rounds, values)
        place.set_ylabel(label)
    if not run.one_number:
        name = f"{run.account.view}, assumption {run.account.assumption}"
        axes[2].plot(history.rounds, history.epsilon, drawstyle="steps-post", label=name)
    axes[2].plot(
        history.rounds,
        history.unconditional,
        drawstyle="steps-post",
        color="black",
        linestyle="--",
        label="local DP, assumption none",
    )
    axes[2].set_ylabel(f"ε at δ = {run.settings['target_delta']:g}")
    axes[2].set_ylim(bottom=0)
    axes[2].legend(loc="lower right")
    if run.seeded:
        axes[0].set_title("a simulation: noise by a seed")
    for place in axes:
        place.set_xlabel("round")
    return axes


def run_answer(document: RunDocument, told: Occasion) -> Answer:
    """The report of a run: a first page to sign, the curves first of all, and what it gives away and rests on."""
    return Answer(
        sheet=_sheet(document, told),
        lead=[_curves(document)],
        sections=[_given_away(document), _numbers(document), _settings(document)],
    )


def _accounts(document: RunDocument) -> list[AccountForm]:
    """The account of the view and local DP, or one where the view is given no less."""
    view, local = document.account, document.unconditional
    return [local] if _is_local(document) else [view, local]


def _is_local(document: RunDocument) -> bool:
    """Whether what is certified of the view is no less than local DP, as it is shown."""
    view, local = document.account, document.unconditional
    alone = view.epsilon == local.epsilon and view.view == "everyone"
    return alone or (view.assumption == "none" and _shown(view) == _shown(local))


def _shown(account: AccountForm) -> str:
    """The upper end of ε as a reader sees it."""
    upper = _bound(account)
    return rounded_up(math.inf if upper is None else upper)


def _bound(account: AccountForm) -> float | None:
    """The upper end of ε that is shown; None stands for infinity."""
    return account.epsilon.upper if isinstance(account.epsilon, EndsForm) else None


def _sheet(document: RunDocument, told: Occasion) -> Sheet:
    """The first page."""
    graph, data, view = document.graph, document.data, document.account
    sizes = [
        Size.epsilon(
            _bound(each),
            each.assumption,
            "local DP: whoever sees whatever" + _no_less(document)
            if each is document.unconditional
            else f"{each.view}: what {nodes(each.observers)} can learn about "
            + ("any node" if each.target is None else f"node {each.target}"),
        )
        for each in _accounts(document)
    ]
    whose = "a record" if document.unit == "record" else "a node's data"
    checks = [
        "Every node adds fresh Gaussian noise of the stated multiplier and tells nobody.",
        f"Gradients are clipped to norm {as_given(document.clip)} and divided by the public number {data.shard_size}, "
        "and no node holds more records than that.",
        "Nodes mix by the weights whose hash stands below.",
    ]
    if document.seeded:
        checks.insert(
            0, "Nobody who sees messages knows the seed: it tells the noise. This run is a simulation."
        )
    return Sheet(
        asked=f"What does training on {data.name} give away? {document.objective} loss, {document.dimension} "
        f"parameters, {graph.nodes} nodes and {graph.edges} edges ({graph.origin}). Each round: {document.program}; "
        f"{document.rounds} rounds"
        + (", where the budget ended the run" if document.stopped_by_budget else "")
        + f". Noise multiplier {in_short(document.noise_multiplier)}. Protected: one {document.unit}, "
        f"{RELATION_SENTENCES[document.relation].rstrip('.')}, participation {view.participation}, at δ = "
        f"{as_given(document.delta)}."
        + (
            f" {document.pairs_computed} of {document.pairs_possible} pairs of observer and target were computed."
            if isinstance(document.pairs_computed, int)
            else ""
        ),
        verdict=_verdict(document, told),
        sizes=sizes,
        meaning=odds(_bound(view), document.delta, whose, mu=view.mu.upper),
        checks=checks_of(document.view, view.assumption, checks),
        views=[(document.view, document.view)],
        origin=origin_rows(
            told,
            {
                "weights": f"{graph.rule}, hash {graph.hash}",
                "protocol": f"hash {document.protocol_hash}",
                "data": f"{data.name}, fingerprint {data.fingerprint}",
            },
            to_verify(graph.origin),
        ),
    )


def _no_less(document: RunDocument) -> str:
    """That the view is given no less, where it is another one than that of local DP."""
    view = document.account.view
    return (
        "" if view == "everyone" else f"; in the view {view} no less is proved" if _is_local(document) else ""
    )


def _verdict(document: RunDocument, told: Occasion) -> Verdict:
    """Pass or fail against the ε that was asked for, and whether that needs the assumption."""
    assumption, local = document.account.assumption, _bound(document.unconditional)
    without = None if assumption == "none" else math.inf if local is None else local
    partly = about_pairs(document.view, document.pairs_computed, document.pairs_possible)
    return kept(_bound(document.account), assumption, told.max_epsilon, partly=partly, without=without)


def _curves(document: RunDocument) -> Section:
    """Accuracy, loss, consensus and ε over the rounds, each beside what it is compared with."""
    history, rounds = document.history, [each or 0.0 for each in document.history["rounds"]]
    beside = document.compared if isinstance(document.compared, tuple) else ()
    names: dict[str, tuple[str, Kind]] = {
        "central": ("trusted server, same ε and δ", "central"),
        "no noise": ("no noise: not private", "noiseless"),
    }

    def chart(title: str, column: str) -> str:
        lines = [Line("this run", "run", rounds, history[column])]
        lines += [
            Line(*names[each.name], each.rounds, getattr(each, column))
            for each in beside
            if any(value is not None for value in getattr(each, column))
        ]
        if all(value is None for value in history[column]):
            return ""
        last = ", ".join(
            f"{line.name} ends at {line.values[-1]:.4g}" for line in lines if line.values[-1] is not None
        )
        return line_chart(title, lines, shown=last)

    spent = [Line("local DP, without any assumption", "local", rounds, history["unconditional"], True)]
    if len(_accounts(document)) > 1:
        name = f"{document.view}, assuming {document.account.assumption}"
        spent.insert(0, Line(name, "run", rounds, history["epsilon"], True))
    last = ", ".join(
        f"{line.name} ends at {rounded_up(math.inf if line.values[-1] is None else line.values[-1])}"
        for line in spent
    )
    charts = [
        chart("Accuracy on held-out records", "accuracy"),
        chart("Loss of the mean model", "loss"),
        chart("Distance of models from their mean", "consensus_distance"),
        line_chart(f"ε at most, at δ = {as_given(document.delta)}", spent, shown=last),
    ]
    every = "every round" if len(rounds) == document.rounds else f"{len(rounds)} of {document.rounds} rounds"
    return Section(
        heading="Over the rounds",
        text=f"Measured after {every}. Accuracy, loss and distance are measured without noise: they are not private, "
        "and whoever gets this report learns them. Lines of ε never lie below what is certified: each step is the "
        "bound for all rounds since the one before."
        + (
            " The runs to compare with use every record in every round, the same steps and the same clipping."
            if beside
            else ""
        ),
        charts=[each for each in charts if each],
    )


def _given_away(document: RunDocument) -> Section:
    """The accounts beside each other."""
    accounts = _accounts(document)
    if document.averaging is not None:
        accounts.append(document.averaging)
    return Section(
        heading="What the run gives away",
        text="The last line is no guarantee for training: it takes it that no gradient depends on a model."
        if document.averaging is not None
        else "",
        columns=("ε at most", "assumption", "view", "δ", "Δ²", "bound"),
        rows=[
            (
                rounded_up(math.inf if (upper := _bound(each)) is None else upper),
                f"{each.assumption}: {ASSUMPTIONS[each.assumption]}",
                each.view,
                f"{as_given(document.delta)}",
                "" if each.sensitivity_squared is None else ends(each.sensitivity_squared),
                each.method,
            )
            for each in accounts
        ],
    )


def _numbers(document: RunDocument) -> Section:
    """The numbers behind the curves, at a dozen rounds."""
    history = document.history
    count = len(history["rounds"])
    places = sorted(
        {round(place * (count - 1) / (_ROWS - 1)) for place in range(_ROWS)}
        if count > _ROWS
        else range(count)
    )
    columns = {
        "rounds": "{:g}",
        "accuracy": "{:.4f}",
        "loss": "{:.5g}",
        "consensus_distance": "{:.4g}",
        "epsilon": "",
        "unconditional": "",
    }
    shown = [name for name in columns if any(value is not None for value in history[name])]

    def entry(name: str, place: int) -> str:
        value = history[name][place]
        if columns[name]:
            return "" if value is None else columns[name].format(value)
        return rounded_up(math.inf if value is None else value)

    headings = {
        "consensus_distance": "distance from the mean",
        "epsilon": f"ε at most, {document.view}",
        "unconditional": "ε at most, local DP",
    }
    return Section(
        heading="Numbers behind the curves",
        columns=[headings.get(name, name) for name in shown],
        rows=[[entry(name, place) for name in shown] for place in places],
    )


def _settings(document: RunDocument) -> Section:
    """What was trained on what, and what came of it."""
    data, nodes_ = document.data, document.node_accuracy
    smooth = document.updates.smoothness
    return facts(
        "What was trained",
        [
            ("data", f"{data.name}; {data.features} features, {data.test_records} records held out"),
            ("shard size", f"{data.shard_size}, the public number that sums are divided by"),
            ("loss", f"{document.objective}, l2 {document.l2:g}"),
            ("step", document.step),
            ("clip", f"{as_given(document.clip)}"),
            ("batches", "" if document.batches == 1 else f"{document.batches} an epoch"),
            ("batch fraction", "" if document.batch_fraction == 1 else f"{document.batch_fraction:g}"),
            ("local steps", "" if document.local_steps == 1 else str(document.local_steps)),
            ("smoothness", "nothing is known" if smooth is None else f"{smooth:.4g}"),
            ("noise", f"deviation {document.noise_std:.4g} a coordinate; by {document.randomness}"),
            ("accuracy", "" if document.accuracy is None else f"{document.accuracy:.4f} of the mean model"),
            (
                "accuracy of nodes",
                "" if nodes_ is None else f"{nodes_.min:.4f} worst, {nodes_.mean:.4f} mean",
            ),
            ("final loss", "" if document.loss is None else f"{document.loss:.5g}"),
            ("excess risk", "" if document.excess_risk is None else f"{document.excess_risk:.4g}"),
        ],
    )


def _axes() -> Sequence[Any]:
    """Three axes beside each other, on a figure of their own that no window waits for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.5), layout="constrained")
    axes: Sequence[Any] = figure.subplots(1, 3)
    return axes
