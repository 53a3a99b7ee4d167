# SPDX-License-Identifier: Apache-2.0
"""A training run drawn: loss, consensus distance and ε over the rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.errors import InputError
from sottovoce.interval import rounded_up
from sottovoce.report.html import Section
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.learning import Run

__all__ = ["draw_run", "run_sections"]


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


def run_sections(run: Run, printed: str) -> list[Section]:
    """The parts of a run's report: what was printed, the curves, and the accounts beside each other."""
    from sottovoce.report.figures import figure_bytes

    accounts = [(run.unconditional, run.unconditional_epsilon)]
    if not run.one_number:
        accounts.insert(0, (run.account, run.epsilon))
    if run.averaging is not None:
        accounts.append((run.averaging, run.averaging.epsilon()))
    return [
        Section(heading="Summary", printed=printed),
        Section(
            heading="Over the rounds",
            figure=figure_bytes(draw_run(run)[0].figure, "svg").decode(),
            figure_text="Loss of the mean model, distance of the models from it, and ε, after each round.",
        ),
        Section(
            heading="What the run gives away",
            columns=("ε at most", "assumption", "view", "δ", "Δ² at most", "method"),
            rows=[
                (
                    rounded_up(epsilon.upper),
                    f"{each.assumption}: {ASSUMPTIONS[each.assumption]}",
                    each.view,
                    f"{run.settings['target_delta']:g}",
                    "" if each.sensitivity_squared is None else rounded_up(each.sensitivity_squared.upper),
                    each.method,
                )
                for each, epsilon in accounts
            ],
        ),
    ]


def _axes() -> Sequence[Any]:
    """Three axes beside each other, on a figure of their own that no window waits for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.5), layout="constrained")
    axes: Sequence[Any] = figure.subplots(1, 3)
    return axes
