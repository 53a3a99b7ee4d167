# SPDX-License-Identifier: Apache-2.0
"""M put together from what contributions show, against F written out from the same model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest
from tests.scenes import EVERY_ENGINE

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.filtering.gram import gram_matrices
from sottovoce.filtering.impulses import Impulses, impulses_of
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.scenarios import Engine

VIEWS = {"sum": View.secure_sum(0), "node": View.single_node(0), "neighbours": View.neighbourhood(0)}


def settled(graph: str, view: str, rounds: int, start: int, engine: Engine = "filter") -> FilteredResponse:
    """A response whose gains are kept from round `start` on, over so many rounds."""
    protocol = gossip(metropolis_weights(graph), rounds=60)
    response = whitened_response(hidden_system(protocol, observe(protocol, VIEWS[view])), engine=engine)
    return replace(response.shortened(rounds, frozen_at=start), engine=engine)


def forms_of(response: FilteredResponse, positions: np.ndarray) -> tuple[Impulses, np.ndarray, np.ndarray]:
    """What is shown, M and the rounding that is stated."""
    parts = impulses_of(response, positions)
    return parts, *gram_matrices(parts)


def written_out(response: FilteredResponse, parts: Impulses, target: int) -> np.ndarray:
    """F in as many bits as are at work: `early`, `states`, `settled` and `last` as stored, what follows exactly."""
    exact = np.vectorize(mpmath.mpf, otypes=[object])
    rounds, start, m = response.rounds, parts.early.shape[1], len(response.rows)
    columns = np.full(((rounds - 1) * m + parts.last.shape[2], rounds), mpmath.mpf(0), dtype=object)
    if parts.early.size:
        columns[: parts.early.shape[2], :start] = exact(parts.early[target].T)
    for s in range(start, rounds):
        for u in range(s, rounds - 1):
            columns[u * m : (u + 1) * m, s] = exact(parts.settled[target, u - s])
        if parts.last.size:
            columns[(rounds - 1) * m :, s] = exact(parts.last[target, rounds - 1 - s])
    if parts.late is None:
        return columns
    matrix = response.transition
    dense = exact(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())
    gains, rows = response.gains, exact(response.rows)
    k = gains.at(start)
    gain, whitener, last = (exact(each) for each in (gains.gain[k], gains.whitener[k], gains.last_whitener))
    for s in range(start):
        state = exact(parts.states[target, s])
        for u in range(start, rounds):
            shown = slice(u * m, (u + 1) * m) if u < rounds - 1 else slice((rounds - 1) * m, None)
            columns[shown, s] = (whitener if u < rounds - 1 else last) @ state
            state = dense @ (state - gain @ (rows @ state))
    return columns


def shares(response: FilteredResponse, positions: np.ndarray) -> list[float]:
    """Σ|M̂ − FᵀF| of each target in 256 bits, as a share of the rounding that is stated."""
    parts, matrices, rounding = forms_of(response, positions)
    assert parts.rounds == response.rounds
    found = []
    with mpmath.workprec(256):
        for target in range(len(positions)):
            F = written_out(response, parts, target)
            found.append(float(np.abs(matrices[target] - F.T @ F).sum() / rounding[target]))
    return found


@pytest.mark.parametrize(
    ("alike", "cases"),
    [
        (
            True,
            [
                ("path:n=3", "sum", 9, 3),
                ("path:n=3", "node", 12, 0),
                ("complete:n=4", "sum", 7, 2),
                ("path:n=4", "neighbours", 12, 4),
            ],
        ),
        (
            False,
            [
                ("path:n=3", "neighbours", 9, 8),
                ("path:n=4", "sum", 5, 3),
                ("path:n=3", "sum", 1, 0),
                ("path:n=3", "sum", 2, 0),
                ("path:n=3", "neighbours", 2, 1),
            ],
        ),
    ],
)
def test_the_rounding_of_a_form_is_covered_in_256_bits_and_not_a_thousand_times_too_large(
    alike: bool, cases: list[tuple[str, str, int, int]]
) -> None:
    found = []
    for graph, view, rounds, start in cases:
        response = settled(graph, view, rounds, start)
        assert (response.alike_from < rounds - 1) is alike
        found += shares(response, np.arange(response.inputs.shape[1]))
    assert max(found) <= 1
    assert max(found) >= 1e-3


@EVERY_ENGINE
@pytest.mark.parametrize("view", list(VIEWS))
def test_forms_are_those_of_responses_round_by_round(view: str, engine: Engine) -> None:
    response = settled("erdos-renyi:n=12,p=0.4,seed=3", view, 40, 9, engine)
    positions = np.array([1, 4, 7])
    (forms,) = response.forms(positions)
    for place, position in enumerate(positions):
        F = np.column_stack([response.respond(int(position), unit)[:, 0] for unit in np.eye(40)])
        assert np.abs(forms.matrices[place] - F.T @ F).max() < 1e-12
    assert (forms.rounding < 1e-9).all()
    # Rounds that are taken one by one give the same, which a response with more states than rows asks for.
    whole = replace(response, gains=replace(response.gains, frozen=False))
    assert whole.alike_from == 39
    (other,) = whole.forms(positions)
    assert np.abs(other.matrices - forms.matrices).max() < 1e-12


def test_fewer_rows_in_the_last_round_are_shown_apart() -> None:
    response = settled("path:n=4", "neighbours", 15, 3)
    fewer = replace(response, gains=replace(response.gains, last_whitener=response.gains.last_whitener[:1]))
    none = replace(response, gains=replace(response.gains, last_whitener=response.gains.last_whitener[:0]))
    for each in (fewer, none):
        assert each.alike_from == 3
        assert 1e-4 < max(shares(each, np.arange(3))) <= 1


def test_rows_of_rounds_that_are_alike_err_by_no_more_than_is_said() -> None:
    response = settled("path:n=4", "neighbours", 30, 5)
    late = impulses_of(response, np.array([0])).late
    assert late is not None
    exact = np.vectorize(mpmath.mpf, otypes=[object])
    k = response.gains.at(5)
    with mpmath.workprec(256):
        gain, rows = exact(response.gains.gain[k]), exact(response.rows)
        loop = exact(response.transition.toarray()) @ (exact(np.eye(3)) - gain @ rows)  # type: ignore[union-attr]
        power, off = exact(response.gains.whitener[k]), mpmath.mpf(0)
        for stored in late.settled[:-1]:
            off += ((stored - power) ** 2).sum()
            power = power @ loop
        assert 1e-3 * late.off < mpmath.sqrt(off) <= late.off
    tall = np.concatenate([late.settled[:-1].reshape(-1, 3), late.last[-1]])
    assert np.abs(late.root.T @ late.root - tall.T @ tall).max() < 1e-14
