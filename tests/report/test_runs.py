# SPDX-License-Identifier: Apache-2.0
"""The picture of a run shows its numbers."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from sottovoce import gossip, graphs, train
from sottovoce.documents.runs import read_run, write_run
from sottovoce.errors import InputError
from sottovoce.learning import History, Run, synthetic_task
from sottovoce.report.runs import draw_run


def made(view: str) -> Run:
    ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=6)
    return train(synthetic_task(5), ring, view=view, noise_multiplier=3.0, seed=1)


def test_a_saved_run_is_drawn_as_it_was(tmp_path: Path) -> None:
    run = read_run(write_run(made("secure-sum"), tmp_path / "run.npz"))
    axes = draw_run(run)
    assert axes[0].get_title() == "a simulation: noise by a seed"
    drawn = [np.asarray(place.lines[0].get_ydata()) for place in axes]
    assert np.array_equal(drawn[0], run.history.loss)
    assert np.array_equal(drawn[1], run.history.consensus_distance)
    assert np.array_equal(drawn[2], run.history.epsilon)
    assert np.array_equal(np.asarray(axes[2].lines[1].get_ydata()), run.history.unconditional)
    assert run.history.unconditional[-1] == run.unconditional.epsilon().upper
    words = [text.get_text() for text in axes[2].get_legend().get_texts()]
    assert words == ["secure-sum, assumption quadratic", "local DP, assumption none"]
    picture = io.BytesIO()
    axes[0].figure.savefig(picture, format="svg")
    assert picture.getvalue().startswith(b"<?xml")


def test_given_axes_are_used() -> None:
    figure = Figure()
    axes = figure.subplots(3, 1)
    assert draw_run(made("everyone"), axes) is axes
    assert len(axes[2].lines) == 1
    assert draw_run(replace(made("everyone"), seeded=False))[0].get_title() == ""


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="a run is drawn from its history; this one has none yet"):
        draw_run(replace(made("everyone"), history=History.empty()))
    with pytest.raises(InputError, match="a run needs three axes: loss, consensus distance and ε; got 2"):
        draw_run(made("everyone"), Figure().subplots(1, 2))
