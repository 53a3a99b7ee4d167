# SPDX-License-Identifier: Apache-2.0
"""Families of patterns on a core of rounds: against all patterns, and against forms that are written out."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.pairings import each_pair
from tests.sensitivities.long_horizons.test_insertion import RANDOM, problem_of, response_of

from sottovoce.graphs import metropolis_weights
from sottovoce.participation import Participation
from sottovoce.protocols import gossip
from sottovoce.sensitivities import assessment, sensitivity
from sottovoce.sensitivities.long_horizons.inserted_patterns import Core, core_of
from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion, insertion_of
from sottovoce.sensitivities.one_form.patterns import sizes_within
from sottovoce.views import View

FAMILIES = ["at-most:3", "separated:4", "separated:40", "separated:7,at-most=3", "epochs:8", "epochs:5"]


def short_form(plan: Insertion, seed: int = 3) -> np.ndarray:
    """Some M⁰ ⪰ 0 that is a band."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((plan.short, plan.short))
    root *= np.abs(np.subtract.outer(np.arange(plan.short), np.arange(plan.short))) <= plan.width // 2
    return np.asarray(root.T @ root)


def test_a_core_that_holds_all_patterns_has_their_maximum() -> None:
    plan = Insertion(start=3, width=4, rest=2, rounds=120)
    form, problem = short_form(plan), problem_of(120, "scalar", Participation.at_most(2))
    core = core_of(plan, problem.participation)
    assert core is not None
    assert core.holds_all
    assert plan.short + core.inserted < 60
    M = plan.whole(form, plan.inserted)
    most = max(M[s, s] + M[t, t] + 2 * abs(M[s, t]) for s, t in combinations(range(120), 2))
    found, pattern = core.ends(form, problem)
    assert found.attained <= most * (1 + 1e-12)
    assert most <= found.bound * (1 + 1e-12)
    # The stream stands where it attains this of all rounds.
    assert problem.participation.allows(pattern, 120)
    value = float(found.witness @ M[np.ix_(pattern, pattern)] @ found.witness)
    assert found.attained <= value <= found.attained + 1e-9 * value
    # A core that is too short for the claim may hold less: rounds of both ends come too close.
    assert replace(core, inserted=plan.width).left > core.left


@pytest.mark.parametrize(
    ("family", "rounds", "contribution"), each_pair(FAMILIES, [397, 400], ["vector", "scalar"])
)
def test_no_pattern_of_all_rounds_exceeds_the_bound_and_the_witness_attains_its_value(
    family: str, rounds: int, contribution: str
) -> None:
    response = response_of(RANDOM, View.secure_sum(0), rounds)
    plan = insertion_of(response, 2e-4)
    assert plan is not None
    participation = Participation.parse(family)
    problem = problem_of(rounds, contribution, participation)  # type: ignore[arg-type]
    core = core_of(plan, participation) or Core(
        plan=plan, inserted=plan.inserted - 90, period=1, holds_all=False
    )
    # Each family meets both targets: one near the observer, and one that it hears of through others.
    (forms,) = replace(response, rounds=plan.short).forms(np.array([2 if rounds % 2 else 11]))
    rng = np.random.default_rng(rounds)
    others = [some_pattern(participation, rounds, rng) for _ in range(40)]
    for form in forms.matrices:
        M = plan.whole(form, plan.inserted)
        found, pattern = core.ends(form, problem)
        assert participation.allows(pattern, rounds)
        stream = found.witness.reshape(len(pattern), -1)
        assert np.linalg.norm(stream, axis=1).max() <= 1 + 1e-12
        value = float(np.sum(stream * (M[np.ix_(pattern, pattern)] @ stream)))
        assert found.attained <= value * (1 + 1e-12)
        assert found.attained >= value * (1 - 1e-9)
        for other in others:
            inner = M[np.ix_(other, other)]
            for signs in (np.ones(len(other)), rng.choice([-1.0, 1.0], len(other))):
                assert float(signs @ inner @ signs) <= found.bound


def some_pattern(participation: Participation, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """A random pattern that is as full as it can be, from a random round on."""
    chosen: list[int] = []
    step = 1 if participation.kind == "at-most" else participation.size
    for t in range(int(rng.integers(0, rounds // 2)), rounds, step):
        moved = t + int(rng.integers(0, step)) if participation.kind == "epochs" else t
        if participation.allows([*chosen, moved], rounds):
            chosen.append(moved)
    return np.array(chosen)


@pytest.mark.parametrize("family", ["separated:4", "separated:11", "epochs:8", "epochs:3"])
def test_rows_of_the_core_continued_are_the_rows_of_all_rounds(family: str) -> None:
    plan = Insertion(start=5, width=12, rest=6, rounds=250)
    participation = Participation.parse(family)
    core = core_of(plan, participation)
    assert core is not None
    assert not core.holds_all
    form = short_form(plan)
    inner = sizes_within(plan.whole(form, core.inserted), participation)
    whole = sizes_within(plan.whole(form, plan.inserted), participation)
    assert np.allclose(core.continued(inner), whole, rtol=1e-12)
    assert (whole >= sizes_by_rows(plan.whole(form, plan.inserted), participation) * (1 - 1e-12)).all()


def sizes_by_rows(form: np.ndarray, participation: Participation) -> np.ndarray:
    """The largest sum of every row of sizes, one by one."""
    return np.array([participation.largest_sum(row) for row in np.abs(form)])


@pytest.mark.parametrize("family", ["at-most:2", "separated:4", "epochs:8"])
def test_ends_of_families_meet_those_of_forms_that_are_written_out(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, targets = gossip(metropolis_weights(RANDOM), rounds=360), [3, 20]
    found = sensitivity(protocol, View.secure_sum(0), targets, participation=family, effort="fine")
    stream = found.witness_of(1)
    assert Participation.parse(family).allows(
        np.flatnonzero(np.abs(stream.reshape(360, -1)).max(axis=1)), 360
    )
    monkeypatch.setattr(assessment, "_insertion", lambda *_: None)
    whole = sensitivity(protocol, View.secure_sum(0), targets, participation=family, effort="fine")
    assert (found.squared_lower <= whole.squared_upper).all()
    assert (whole.squared_lower <= found.squared_upper).all()
    assert (
        found.squared_upper / found.squared_lower <= 1.02 * whole.squared_upper / whole.squared_lower
    ).all()


def test_families_of_few_patterns_and_sets_of_many_rounds_are_written_out() -> None:
    plan = Insertion(start=5, width=12, rest=6, rounds=400)
    for family in ("at-most:40", "separated:200", "epochs:300"):
        assert core_of(plan, Participation.parse(family)) is None
