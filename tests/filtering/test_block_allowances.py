# SPDX-License-Identifier: Apache-2.0
"""Every allowance of forms in blocks beside the error that it is for, in 256 bits; and what all of them come to."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import ctx
from tests.ball_matrices import balls, floats
from tests.filtering.exact_blocks import (
    BITS,
    ExactRound,
    exact_responses,
    exact_rounds,
    stored_responses,
    unwhite,
)
from tests.filtering.test_blocks import exact_defect, in_blocks
from tests.filtering.test_innovations import PROTOCOLS, SCHEDULES, VIEWS, targets_of

from sottovoce.filtering import block_rounding, blocks, engines, plain_steps
from sottovoce.filtering.block_forms import _respond, _turned
from sottovoce.filtering.block_rounding import Measured
from sottovoce.filtering.blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering import BlockResponse
    from sottovoce.filtering.blocks import Block
    from sottovoce.filtering.innovations import Filtered
    from sottovoce.filtering.stages import Stage
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

# Of several rounds, and of each what was allowed and what rounding did.
Measures = defaultdict[str, list[tuple[float, float]]]
SCENES = [(protocol, view) for protocol in [*PROTOCOLS, *SCHEDULES[:2]] for view in VIEWS]
every_scene = pytest.mark.parametrize(
    ("protocol", "view"), SCENES, ids=[f"{protocol.name}, {view.name}" for protocol, view in SCENES]
)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three rounds or so, of small networks too; gains that are kept are a matter of their own."""
    monkeypatch.setattr(engines, "SMALLEST_QUICKLY", 0)
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 2.0**-49)
    monkeypatch.setattr(blocks, "ROWS", 1)
    monkeypatch.setattr(blocks, "FEWEST", 3)


def steps_of(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> tuple[BlockResponse, dict[int, tuple[Filtered, np.ndarray, np.ndarray]]]:
    """The response in blocks, and of each step of its filter the covariances before and after it."""
    found: dict[int, tuple[Filtered, np.ndarray, np.ndarray]] = {}
    step: Callable[..., tuple[Filtered, np.ndarray]] = plain_steps._filtered

    def kept(stage: Stage, P: np.ndarray, *words: Any) -> tuple[Filtered, np.ndarray]:
        filtered, following = step(stage, P, *words)
        found[id(filtered)] = filtered, P, following
        return filtered, following

    monkeypatch.setattr(plain_steps, "_filtered", kept)
    return in_blocks(protocol, view, "filter"), found


def norm(*parts: np.ndarray) -> float:
    """Of all that the parts hold."""
    return math.hypot(*(float(np.linalg.norm(part)) for part in parts))


@every_scene
def test_each_allowance_is_not_a_thousand_times_the_error_that_it_is_for(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing is measured but bounded before it is known: in each round, and in all of them together."""
    monkeypatch.setattr(block_rounding, "SHORT", 0)
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    response, steps = steps_of(protocol, view, monkeypatch)
    rounds = exact_rounds(response.run)
    found: Measures = defaultdict(list)
    counted = Measured(response.states)
    with ctx.workprec(BITS):
        for block in blocks_of(response.run, response.edges):
            for k, each in reversed(list(enumerate(block.filtered))):
                compare_rows(counted, block, k, rounds[block.begin + k], found)
                if each.unsure is not None:
                    compare_defects(*steps[id(each)], lengths_after(block, k), found)
            compare_turns(counted, block, found)
            compare_products(response, counted, block, targets_of(protocol, view), found)
    expected = {"rows, states", "rows, disturbed", "inputs", "Q R", "drift", "crossed", "white", "norm"}
    assert expected <= set(found)
    for name, measured in found.items():
        assert all(true <= allowed for allowed, true in measured), name
        allowed, true = (sum(column) for column in zip(*measured, strict=True))
        # Halves of halves round nothing.
        assert allowed < 1000 * true or true == 0, (name, allowed / max(true, 1e-300))


def lengths_after(block: Block, k: int) -> np.ndarray:
    """Norms of the columns of what a state after the k-th round of a block shows."""
    return np.asarray(np.sqrt((block.shown[k] ** 2).sum(axis=0) + (block.tails[k] ** 2).sum(axis=0)))


def compare_rows(counted: Measured, block: Block, k: int, exact: ExactRound, found: Measures) -> None:
    """What rows of one round and products with what is put in are off by."""
    each, states = block.filtered[k], counted._states
    shown, later = block.shown[k], block.tails[k]
    before = (block.shown[k - 1], block.tails[k - 1]) if k else np.vsplit(block.stack, [block.height])
    count, lengths, held = each.stage.count, lengths_after(block, k), states.held(each)
    off = [
        np.abs(floats(balls(stored) - balls(rows) * exact.loop))
        for stored, rows in ((before[0][count:], shown), (before[1], later))
        if len(rows)
    ]
    fresh = np.abs(floats(balls(before[0][:count]) - exact.shown))
    of_states, disturbed = counted._reading(each, shown, later, lengths)
    found["rows, states"].append((of_states, norm(*(rows @ held for rows in off)) + norm(fresh @ held)))
    found["rows, disturbed"].append((disturbed, norm(*off, fresh) * states.reach))
    so_far = counted._inputs
    counted._enter(each, lengths)
    given = each.stage.all_given
    put = given[: each.stage.size] - each.gain @ given[each.stage.size :]
    errors = [floats(balls(each.whitener @ given[each.stage.size :]) - exact.at_once)]
    errors += [floats(balls(rows @ put) - balls(rows) * exact.into) for rows in (shown, later) if len(rows)]
    largest = float(np.sqrt(sum((error**2).sum(axis=0) for error in errors)).max())
    found["inputs"].append((math.sqrt(counted._inputs - so_far), largest))


def compare_defects(
    filtered: Filtered, P: np.ndarray, following: np.ndarray, lengths: np.ndarray, found: Measures
) -> None:
    """What one step of the filter falls short of."""
    size, unsure = filtered.stage.size, filtered.unsure
    assert unsure is not None
    true = exact_defect(filtered, P, following)
    drift, crossed = unsure.drift(lengths)
    found["drift"].append((drift, float(lengths @ true[:size, :size] @ lengths)))
    found["crossed"].append((crossed, norm(lengths @ true[:size, size:])))
    found["white"].append((unsure.white, float(true[size:, size:].sum(axis=1).max())))
    found["norm"].append((unsure.norm, float(true[:size, :size].sum(axis=1).max())))


def compare_turns(counted: Measured, block: Block, found: Measures) -> None:
    """What Q R of a block is off from its rows by."""
    before = counted._rows.copy()
    counted._turn(block)
    off = np.abs(floats(balls(block.base) * balls(block.root) - balls(block.stack)))
    held = counted._held(block.filtered[0])
    for name, allowed, true in zip(
        ("Q R", "Q R, disturbed"), counted._rows - before, np.linalg.norm(off @ held, axis=0), strict=True
    ):
        found[name].append((float(allowed), float(true)))


def compare_products(
    response: BlockResponse, counted: Measured, block: Block, targets: np.ndarray, found: Measures
) -> None:
    """What inner products of responses and their coordinates are off by."""
    length, height = response._largest
    answers = _respond(block, response._entering(targets), np.empty(length * len(targets) * height))
    told = np.empty((len(answers), len(targets), len(block.root)))
    _turned(block, answers, told)
    sizes = np.linalg.norm(answers, axis=2)
    # Bases that are not quite orthonormal are another matter.
    within = counted.accuracy((0.0, 0.0)).within - counted._skew.most
    for j in range(len(targets)):
        own = answers[:, j]
        off = floats(balls(own @ own.T) - balls(own) * balls(own.T))
        found["inner products"].append((within * float(sizes[:, j].sum()) ** 2, float(np.abs(off).sum())))
        off = floats(balls(told[:, j]) - balls(own) * balls(block.base))
        allowed = counted._formed * float(sizes[:, j].sum())
        found["coordinates"].append((allowed, float(np.linalg.norm(off, axis=1).sum())))


KEPT = [(protocol, view) for protocol, view in SCENES if protocol.name in {"gossip", "clean_state"}]


@pytest.mark.parametrize(
    ("protocol", "view"), KEPT, ids=[f"{protocol.name}, {view.name}" for protocol, view in KEPT]
)
def test_what_states_show_and_what_is_let_in_is_as_long_as_is_said(protocol: Protocol, view: View) -> None:
    """‖𝒪‖ and ‖𝒪fᵀ‖ from G = DᵀD + ΦᵀGΦ, which the rounds of a filter make from the last one backwards."""
    response = in_blocks(protocol, view, "reduced")
    counted = Measured(response.states)
    for block in blocks_of(response.run, response.edges):
        counted.add(block)
    gram, shown, let_in = np.zeros((response.run[-1].stage.size,) * 2), 0.0, 0.0
    for each in reversed(response.run):
        shown += float(np.trace(gram))
        if each.stage.factor is not None:
            let_in += float(np.trace(each.stage.factor @ gram @ each.stage.factor.T))
        A, C = (floats(balls(matrix)) for matrix in (each.stage.transition, each.stage.rows))
        loop, rows = A - each.gain @ C, each.whitener @ C
        gram = rows.T @ rows + loop.T @ gram @ loop
    assert math.sqrt(shown) <= counted.norm <= 1.03 * math.sqrt(shown)
    assert math.sqrt(let_in) <= counted.leak <= 1.03 * math.sqrt(let_in)
    assert (let_in > 0) == (protocol.name == "clean_state")


# Rows and defects are measured in small networks, rows are bounded in blocks of more than 128, and defects too of
# filters of more than 48 states.
REGIMES = {"measured": (128, 48), "rows are bounded": (0, 48), "defects too": (0, 0)}
# How many times the errors allowances of several registers come to at most: those of all rounds are added up as if they
# had one sign, and what one node and one target make is bounded by what all of them do.
TOGETHER = {
    ("rows are bounded", 3): {"shift": 3000},
    ("defects too", 1): {"unwhite": 2500},
    ("defects too", 2): {"unwhite": 2500},
    ("defects too", 3): {"unwhite": 12_000, "shift": 3000},
}


def responses_of(protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch) -> dict[int, BlockResponse]:
    """The response with defects measured and bounded, whose filters are the same."""
    found = {}
    for small in sorted({small for _, small in REGIMES.values()}):
        monkeypatch.setattr(plain_steps, "SMALL", small)
        found[small] = in_blocks(protocol, view, "filter")
    for one, other in zip(*(response.run for response in found.values()), strict=True):
        assert np.array_equal(one.gain, other.gain)
        assert np.array_equal(one.whitener, other.whitener)
    return found


@every_scene
def test_what_allowances_of_all_rounds_come_to(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, targets = responses_of(protocol, view, monkeypatch), targets_of(protocol, view)
    response = responses[0]
    rounds = exact_rounds(response.run)
    true_unwhite = unwhite(rounds)
    exact, stored = exact_responses(rounds, targets), stored_responses(response, targets)
    formed = response._formed(response._entering(targets), len(targets))
    with ctx.workprec(BITS):
        apart = [floats(one - other) for one, other in zip(stored, exact, strict=True)]
        off = [
            floats(balls(form) - one.transpose() * one)
            for form, one in zip(formed.matrices, stored, strict=True)
        ]
    errors = {
        energy: {
            "shift": [largest(each, energy=energy) for each in apart],
            "rounding": [largest_form((each + each.T) / 2, energy=energy) for each in off],
        }
        for energy in (False, True)
    }
    # How allowances are found makes no difference to the filter.
    for regime, (short, small) in REGIMES.items():
        monkeypatch.setattr(block_rounding, "SHORT", short)
        fresh = replace(responses[small])
        entering = fresh._entering(targets)
        assert true_unwhite <= fresh.accuracy.unwhite, regime
        times = {"unwhite": [fresh.accuracy.unwhite / true_unwhite], "shift": [], "rounding": []}
        for energy in (False, True):
            rounding, shift = fresh.accuracy.allowances(
                formed, fresh.states.hidden[targets], fresh._norms(entering), energy=energy
            )
            for name, allowances in (("shift", shift), ("rounding", rounding)):
                for target, allowed, true in zip(targets, allowances, errors[energy][name], strict=True):
                    assert true <= allowed, (regime, name, energy, target)
                    times[name].append(allowed / true)
        together = TOGETHER.get((regime, len(protocol.programs[0].keeps)), {})
        for name, found in times.items():
            assert min(found) < together.get(name, 1000), (regime, name)


def streams(vectors: np.ndarray, *, energy: bool) -> np.ndarray:
    """Streams that errors with these vectors would like, a column each."""
    return vectors if energy else np.where(vectors < 0, -1.0, 1.0)


def largest(apart: np.ndarray, *, energy: bool) -> float:
    """What responses that are apart by this differ by in norm, for streams that would like that."""
    liked = streams(np.linalg.svd(apart, full_matrices=False)[2].T, energy=energy)
    return float(np.linalg.norm(apart @ liked, axis=0).max())


def largest_form(off: np.ndarray, *, energy: bool) -> float:
    """What a form that is off by this differs by, for streams that would like that."""
    liked = streams(np.linalg.eigh(off)[1], energy=energy)
    return float(np.abs(np.einsum("tk,ts,sk->k", liked, off, liked)).max())
