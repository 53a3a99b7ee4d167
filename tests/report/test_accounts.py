# SPDX-License-Identifier: Apache-2.0
"""Figures of accounts: they show the numbers of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.figure import Figure

from sottovoce.accounting import AccountTable, account, account_all, central_account, local_account
from sottovoce.errors import FileError, InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.report.accounts import check_plot_path, draw_pairs, draw_targets, plot_account
from sottovoce.views import View

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOL = gossip(metropolis_weights("florentine"), rounds=8)


@pytest.fixture(scope="module")
def medici() -> AccountTable:
    return account(PROTOCOL, View.secure_sum("Medici"), noise_multiplier=4.0, delta=1e-5)


@pytest.fixture(scope="module")
def everybody() -> AccountTable:
    return account_all(PROTOCOL, "secure-sum", noise_multiplier=4.0, delta=1e-5)


def test_targets_are_drawn_at_their_upper_end(medici: AccountTable) -> None:
    ax = Figure().subplots()
    assert draw_targets(medici, ax) is ax
    dots = next(line for line in ax.lines if line.get_marker() == "o")
    expected = [each.epsilon().upper for _, each in medici.most_exposed(40)]
    assert list(np.asarray(dots.get_xdata(), dtype=float)) == expected
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [target for target, _ in medici.most_exposed(40)]
    others = {float(np.asarray(line.get_xdata())[0]) for line in ax.lines if line is not dots}
    assert others == {
        compared(PROTOCOL, noise_multiplier=4.0, delta=1e-5).epsilon().upper
        for compared in (local_account, central_account)
    }


def test_pairs_are_drawn_in_their_place(everybody: AccountTable) -> None:
    ax = draw_pairs(everybody, Figure().subplots())
    shown = ax.images[0].get_array()
    assert shown is not None
    assert shown.shape == (15, 15)
    assert np.array_equal(np.ma.getmaskarray(shown), np.eye(15, dtype=bool))
    for place in range(0, len(everybody), 17):
        cell = shown[everybody.observer_of[place], everybody.target_indices[place]]
        assert cell == everybody.epsilon_upper[place]


def test_axes_are_made_where_none_are_given(medici: AccountTable) -> None:
    import matplotlib.pyplot as plt

    ax = draw_targets(medici, count=3)
    assert len(ax.get_yticks()) == 3
    plt.close(ax.figure)  # type: ignore[arg-type]


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_a_figure_is_written_and_the_same_each_time(
    suffix: str, start: bytes, medici: AccountTable, tmp_path: Path
) -> None:
    first = plot_account(medici, tmp_path / f"a.{suffix}").read_bytes()
    assert first.startswith(start)
    assert plot_account(medici, tmp_path / f"b.{suffix}").read_bytes() == first


def test_many_observers_become_a_map(everybody: AccountTable, tmp_path: Path) -> None:
    text = plot_account(everybody, tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "<image" in text


def test_paths_are_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        FileError, match=r"a figure is written to a file that ends in \.svg or \.png or \.pdf"
    ):
        check_plot_path(tmp_path / "x.jpg")
    monkeypatch.setattr("sottovoce.report.accounts.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"drawing needs the package matplotlib.*pip install '\.\[plot\]'"):
        check_plot_path(tmp_path / "x.svg")
