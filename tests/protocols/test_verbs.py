# SPDX-License-Identifier: Apache-2.0
"""Every verb over the one list of protocols, held against the interpreter in rationals."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.interpreter import exact_view, largest_over_signs
from tests.scenes import EVERY_PROTOCOL, PATH, PROTOCOLS, STAR

from sottovoce import View, account, account_all, graphs, sensitivity, worst_coalition, worst_observer
from sottovoce.accounting import central_account, comparisons, local_account
from sottovoce.errors import FileError, InputError, NotCertified
from sottovoce.interval import Interval
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    clean_state,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    scheduled,
)
from sottovoce.sweeps import read_sweep, summarise, sweep

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS: dict[str, Any] = {"noise_multiplier": 2.0, "delta": 1e-5}
BARE = clean_state(PATH, rounds=3, keep="1/2", noise_levels=(1, 0, 1, 1))


def exact(protocol: Protocol, view: View, target: int) -> Fraction | float:
    """Δ² over streams of signs, in rationals; infinite where no noise hides the target."""
    M = exact_view(protocol, view, target).form()
    return math.inf if M is None else largest_over_signs(M)


def holds(interval: Interval | None, value: Fraction | float, *, tight: float = 1e-8) -> None:
    """The interval holds the value, and not much else."""
    assert interval is not None
    assert interval.lower <= value <= interval.upper
    assert math.isinf(value) or interval.width <= tight * float(value) + 1e-12


@EVERY_PROTOCOL
def test_local_dp_is_what_whoever_sees_all_messages_learns(protocol: Protocol) -> None:
    found = local_account(protocol, **SETTINGS, contribution="scalar")
    holds(
        found.sensitivity_squared,
        max(exact(protocol, View.everyone, target) for target in range(protocol.n)),
    )
    assert found.assumption == ("oblivious" if not protocol.plain else "none")


@EVERY_PROTOCOL
def test_local_dp_agrees_with_the_everyone_view(protocol: Protocol) -> None:
    # Every two of protocols, contributions and participations meet.
    turned = PROTOCOLS.index(protocol) % 2
    for place, contribution in enumerate(("vector", "energy")):
        words: dict[str, Any] = {
            "contribution": contribution,
            "participation": ("full", "at-most:1")[place ^ turned],
        }
        found = local_account(protocol, **SETTINGS, **words).sensitivity_squared
        seen = sensitivity(protocol, View.everyone, **words)
        assert found is not None, words
        assert found.upper == pytest.approx(seen.squared_upper.max(), rel=1e-9), words
        assert found.lower <= seen.squared_upper.max(), words
        assert seen.squared_lower.max() <= found.upper, words


TOTALS: list[tuple[Protocol, Fraction]] = [
    (gossip(PATH, rounds=4, noise_levels=("1/2", 2, 1, "1/3")), 4 / Fraction(193, 36)),
    (gossip(STAR, rounds=3, encoder=(1, "1/2", "3/8")), Fraction(433, 64) / 4),
    (momentum(PATH, rounds=4, beta="9/10"), Fraction(1)),
    (pairwise_noise(STAR, rounds=3, local=("1/2", 0, 1, 1), shared=1), 3 / Fraction(9, 4)),
    (scheduled([np.eye(4), PATH], rounds=5), Fraction(5, 4)),
]


@pytest.mark.parametrize(("protocol", "total"), TOTALS, ids=lambda value: getattr(value, "name", ""))
def test_central_aggregation_adds_up_contributions_and_their_noise(
    protocol: Protocol, total: Fraction
) -> None:
    holds(central_account(protocol, **SETTINGS, contribution="scalar").sensitivity_squared, total)


def test_a_round_without_noise_counts_where_the_target_may_contribute() -> None:
    loud, silent = (gossip(PATH, rounds=1, noise_levels=level).programs[0] for level in (1, 0))
    turns = replace(gossip(PATH, rounds=4), program=(loud, silent), name="turns")
    for compared in (local_account, central_account):
        assert compared(turns, **SETTINGS).mu == Interval.exactly(math.inf)
        part = compared(turns, **SETTINGS, participation="fixed:1,3").sensitivity_squared
        holds(part, Fraction(2) if compared is local_account else Fraction(1, 2))


@pytest.mark.parametrize("name", ["clean_state", "momentum"])
def test_noise_elsewhere_has_no_central_aggregation(name: str) -> None:
    late = BARE if name == "clean_state" else momentum(PATH, rounds=3, beta="1/2", noise="message")
    with pytest.raises(InputError, match=f"the protocol '{name}' adds the draw 'u' elsewhere"):
        central_account(late, **SETTINGS)


@EVERY_PROTOCOL
@pytest.mark.parametrize("view", ["coalition-sums", "coalition-messages"])
def test_the_worst_coalition_is_that_of_a_full_enumeration(protocol: Protocol, view: Any) -> None:
    found = worst_coalition(protocol, 0, size=2, view=view, contribution="scalar")
    assert found.exact
    largest = max(
        exact(protocol, View(name=view, observers=members), 0)
        for members in itertools.combinations(range(1, protocol.n), 2)
    )
    holds(found.largest, largest)
    assert found.account(**SETTINGS).assumption == "oblivious" or protocol.damping is not None


def test_the_worst_observer_of_a_program_knows_the_draws_of_its_edges() -> None:
    decor = next(protocol for protocol in PROTOCOLS if protocol.name == "pairwise_noise")
    found = worst_observer(decor, 0, view="neighbourhood", contribution="scalar")
    alone = {other: exact(decor, View.neighbourhood(other), 0) for other in range(1, decor.n)}
    holds(found.largest, max(alone.values()))
    (worst,) = found.coalition
    hidden = exact(decor, View.neighbourhood(worst, own_noise="hidden"), 0)
    assert found.sensitivity.lower > hidden


def test_a_coalition_that_sees_a_contribution_bare_ends_the_search() -> None:
    silent = clean_state(PATH, rounds=3, keep="1/2", noise_levels=0)
    found = worst_coalition(silent, 1, size=1, view="coalition-messages", time_limit=0)
    assert found.sensitivity == Interval.exactly(math.inf)
    assert found.upper_bound == math.inf
    assert found.exact
    assert found.method == "infinite"


@EVERY_PROTOCOL
def test_a_sweep_holds_what_an_account_does_and_its_program(protocol: Protocol, tmp_path: Path) -> None:
    done = sweep(protocol, "secure-sum", tmp_path / "all", contribution="scalar")
    table = account_all(protocol, "secure-sum", **SETTINGS, contribution="scalar")
    assert read_sweep(done.folder).to_arrow()["squared_upper"].to_pylist() == table.squared_upper.tolist()
    facts = json.loads((done.folder / "manifest.json").read_text())
    assert facts["protocol_hash"] == protocol.hash
    assert facts["protocol"]["program"] == protocol.sentence
    assert facts["protocol"]["programs"] == [program.to_json() for program in protocol.programs]
    assert facts["protocol"]["plain"] == protocol.plain
    assert (summarise(done.folder, **SETTINGS).local is None) == (not protocol.plain)


def test_a_sweep_is_not_continued_with_another_program(tmp_path: Path) -> None:
    began, other = (momentum(PATH, rounds=3, beta=beta) for beta in ("1/2", "1/3"))
    sweep(began, "secure-sum", tmp_path)
    assert not sweep(momentum(PATH, rounds=3, beta=0.5), "secure-sum", tmp_path, resume=True).computed
    for wrong in (other, gossip(PATH, rounds=3)):
        with pytest.raises(InputError, match=r"with the protocol it began with, 'v = 1/2·v .* was asked for"):
            sweep(wrong, "secure-sum", tmp_path, resume=True)
    assert not sweep(began, "secure-sum", tmp_path, resume=True).computed


FACTS: dict[str, Any] = {
    "protocol": "x",
    "plain": False,
    "program": "x",
    "programs": [],
    "encoder": ["1"],
    "weights": ["x"],
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"protocol_hash": None}, "protocol_hash must be text; got None"),
        ({"assumption": "none"}, "its assumption must be 'oblivious'"),
        (
            {"protocol": {"protocol": "x", "plain": False, "program": "x"}},
            "protocol lacks the field programs",
        ),
        ({"protocol": FACTS | {"programs": [3]}}, r"protocol.programs\[0\] must be a JSON object; got 3"),
        ({"protocol": FACTS | {"programs": [{"keeps": []}]}}, "a program needs 'instructions'"),
    ],
)
def test_a_manifest_whose_program_makes_no_sense_is_refused(
    tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    sweep(momentum(PATH, rounds=2, beta="1/2"), "secure-sum", tmp_path)
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(FileError, match=complaint):
        read_sweep(tmp_path)


def test_an_infinite_account_says_which_noise_is_missing() -> None:
    table = account(BARE, View.everyone, **SETTINGS)
    assert table[1].mu == Interval.exactly(math.inf)
    assert table.bare == (
        "the draw 'u' has level 0 at node 1, so that some of what it contributes is seen beside no noise at all"
    )
    assert account(BARE, View.everyone, **SETTINGS, targets=[0, 2]).bare is None


@EVERY_PROTOCOL
def test_what_terms_tell_of_noise_is_what_compiled_rounds_tell(protocol: Protocol) -> None:
    for program in protocol.programs:
        told = comparisons._as_written(program, protocol.n)
        one = replace(protocol, program=program, weights=protocol.schedule[0], encoder=(1,), rounds=1)
        if told is not None:
            assert told == comparisons._entering(comparisons._rounds_of(one)[0], one)


SOME, FEW = (1, 0, 1, 1, 1), (1, 0, 0, 0, 0)
ALL_ENTER = Combine("s", {"m": 1, "contribution": 1, "u": 1})


def entering(some: tuple[int, ...]) -> Combine:
    """Contribution and draw of some nodes alone."""
    return Combine("s", {"m": 1, "contribution": some, "u": some})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([ALL_ENTER], Fraction(3, 5)),
        ([entering(SOME)], Fraction(3, 4)),
        ([entering(FEW)], Fraction(3)),
        ([ALL_ENTER, entering(FEW)], Fraction(3)),
        ([ALL_ENTER, Combine("s", {"m": 1}), entering(FEW)], Fraction(3)),
    ],
)
def test_noise_that_does_not_enter_hides_nothing_in_a_sum(steps: list[Combine], expected: Fraction) -> None:
    program = Program(keeps=("m",), draws=(Draw("u"),), instructions=(*steps, Exchange("s", "m")), model="m")
    protocol = Protocol(weights=graphs.metropolis_weights("ring:n=5"), program=program, rounds=3)
    found = central_account(protocol, noise_multiplier=1.0, delta=1e-5)
    assert found.mu.lower**2 <= expected * (1 + 1e-12)
    assert float(expected) <= found.mu.upper**2 * (1 + 1e-15)
    assert found.mu.upper**2 == pytest.approx(float(expected), rel=1e-9)


def test_edges_that_draw_nothing_leave_local_dp_to_its_formula() -> None:
    quiet = pairwise_noise(graphs.metropolis_weights("ring:n=5"), rounds=3, local=1, shared=0)
    assert comparisons._as_written(quiet.programs[0], 5) == comparisons._entering(
        comparisons._rounds_of(quiet)[0], quiet
    )


def test_a_comparison_that_does_not_fit_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_DRAWS", 3)
    large = gradient_tracking(graphs.metropolis_weights("ring:n=5"), rounds=2, noise="messages")
    for verb, name in ((local_account, "local DP"), (central_account, "central aggregation")):
        with pytest.raises(NotCertified, match=f"the comparison with {name} takes at most 3 draws a round"):
            verb(large, noise_multiplier=1.0, delta=1e-5)


def test_comparisons_of_one_kind_of_node_cost_one_node() -> None:
    alike = pairwise_noise(graphs.metropolis_weights("complete:n=7"), rounds=3, local=1, shared=2)
    assert comparisons._unlike(alike) == [0]
    found = local_account(alike, noise_multiplier=1.0, delta=1e-5).sensitivity_squared
    every = sensitivity(alike, View.everyone)
    assert found is not None
    assert found.lower <= every.squared_upper.min() <= every.squared_upper.max() <= found.upper * (1 + 1e-9)


def test_comparisons_that_do_not_fit_are_left_out_with_the_reason() -> None:
    large = pairwise_noise(graphs.metropolis_weights("complete:n=700"), rounds=3, local=1, shared=2)
    with pytest.raises(
        NotCertified, match=r"local DP takes at most 200000 draws a round; .* makes 245700 \("
    ):
        local_account(large, noise_multiplier=1.0, delta=1e-5)
    assert central_account(large, noise_multiplier=1.0, delta=1e-5).sensitivity_squared is not None
