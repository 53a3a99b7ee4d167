from __future__ import annotations

import importlib
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights
from sottovoce.participation import Participation
from sottovoce.protocols import gossip
from sottovoce.sensitivities.one_form import patterns
from sottovoce.sensitivities.one_form.dual import is_dominated
from sottovoce.sensitivities.one_form.patterns import earliest_pattern, solve_largest, solve_participation
from sottovoce.sensitivities.one_form.solution import solve_form
from sottovoce.sensitivities.one_form.witnesses import value_of
from sottovoce.views import View, observe

ROUNDS = 10
FAMILIES = [
    "fixed:1,4,5,9",
    "every:3",
    "every:4,offset=2",
    "at-most:3",
    "at-most:6",
    "separated:3",
    "epochs:3",
    "separated:2,at-most=3",
]


def some_forms() -> list[np.ndarray]:
    protocol = gossip(metropolis_weights("karate"), rounds=ROUNDS)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(3)))
    (forms,) = whitened_response(system).forms(np.array([0, 5, 7]))
    return list(forms.matrices)


@pytest.mark.parametrize("spelling", FAMILIES)
@pytest.mark.parametrize("form", some_forms())
def test_ends_hold_every_pattern(form: np.ndarray, spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = Participation.parse(spelling)
    # All patterns, the largest and the smaller ones, each solved to a tenth of the tolerance.
    best = max(
        solve_form(form[np.ix_(pattern, pattern)], contribution="vector", tolerance=2e-5).attained
        for pattern in family.patterns(ROUNDS)
    )
    for enumerable in (10**6, 0):
        monkeypatch.setattr(patterns, "ENUMERABLE_PATTERNS", enumerable)
        found = solve_participation(form, family, contribution="vector", tolerance=2e-4)
        assert found.attained <= best * (1 + 3e-5), enumerable
        assert found.bound >= best * (1 - 1e-12), enumerable
        exact = enumerable or family.kind in {"fixed", "every"}
        assert found.bound / found.attained - 1 <= (2.1e-4 if exact else 0.15), enumerable
        used = np.flatnonzero(np.linalg.norm(found.witness.reshape(ROUNDS, -1), axis=1))
        assert family.allows(used, ROUNDS), enumerable
        assert value_of(form, found.witness) == pytest.approx(found.attained, rel=1e-9), enumerable


@pytest.mark.parametrize("spelling", FAMILIES)
def test_the_earliest_pattern_is_allowed_and_cannot_grow(spelling: str) -> None:
    family = Participation.parse(spelling)
    mask = earliest_pattern(family, ROUNDS)
    pattern = np.flatnonzero(mask)
    assert family.allows(pattern, ROUNDS)
    assert not any(family.allows(np.append(pattern, t), ROUNDS) for t in np.flatnonzero(~mask))


def test_full_participation_is_the_plain_form() -> None:
    (form, *_) = some_forms()
    whole = solve_participation(form, Participation.full(), contribution="scalar", tolerance=2e-4)
    assert whole.attained == solve_form(form, contribution="scalar", tolerance=2e-4).attained


def exhausted(form: np.ndarray, count: int) -> float:
    """The largest bound of any pattern of `count` rounds, each pattern solved by itself where it could be the worst."""
    patterns = np.array(list(itertools.combinations(range(len(form)), count)))
    inner = form[patterns[:, :, None], patterns[:, None, :]]
    sums = np.abs(inner).sum(axis=(1, 2))
    worst = 0.0
    for k in np.argsort(-sums):
        if sums[k] <= worst:
            break
        worst = max(worst, solve_form(inner[k], contribution="vector", tolerance=1e-4).bound)
    return worst


@pytest.mark.parametrize(
    ("graph", "view", "target", "rounds", "count"),
    [
        ("ring:n=6", View.secure_sum(0), 2, 12, 5),
        ("ring:n=9", View.secure_sum(0), 1, 15, 4),
        ("path:n=7", View.single_node(0, own_noise="hidden"), 3, 14, 7),
        ("path:n=5", View.secure_sum(2), 4, 13, 6),
        ("erdos-renyi:n=9,p=0.5,seed=4", View.secure_sum(0), 5, 12, 6),
        ("erdos-renyi:n=12,p=0.4,seed=2", View.neighbourhood(0), 7, 13, 5),
    ],
)
def test_at_most_so_many_rounds_need_no_more_than_the_worst_pattern(
    graph: str, view: View, target: int, rounds: int, count: int
) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=rounds)
    system = hidden_system(protocol, observe(protocol, view))
    (forms,) = whitened_response(system).forms(np.searchsorted(system.unknown, [target]))
    form, family = forms.matrices[0], Participation.at_most(count)
    assert family.pattern_count(rounds) > patterns.ENUMERABLE_PATTERNS
    found = solve_participation(form, family, contribution="vector", tolerance=2e-4)
    worst = exhausted(form, count)
    assert found.attained <= worst
    assert worst * (1 - 2e-4) <= found.bound <= 1.01 * worst


def test_the_least_sum_of_the_largest_is_that_of_a_general_solver() -> None:
    cvxpy: Any = importlib.import_module("cvxpy")
    rng = np.random.default_rng(4)
    for rounds, count in ((8, 3), (12, 5), (12, 11)):
        root = rng.standard_normal((rounds, rounds)) / rounds
        form = root @ root.T
        y = cvxpy.Variable(rounds)
        least = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_largest(y, count)), [cvxpy.diag(y) - form >> 0])
        least.solve(solver=cvxpy.CLARABEL)
        (found,) = solve_largest(form, count, tolerance=1e-4)
        assert is_dominated(form, found)
        assert least.value * (1 - 1e-6) <= np.sort(found)[-count:].sum() <= least.value * (1 + 2e-3)


def test_one_y_for_all_patterns_is_raised_by_what_its_sums_round() -> None:
    rng = np.random.default_rng(0)
    family = Participation.at_most(12)
    for _ in range(60):
        form = np.zeros((40, 40))
        half = rng.random((12, 12))
        form[:12, :12] = half + half.T
        # All of it lies in one pattern, so Σ M_st is attained.
        exact = sum(map(Fraction, form.ravel().tolist()), Fraction(0))
        assert Fraction(family.largest_sum(patterns.covering(form, family, tolerance=1e-3))) >= exact
        assert (
            Fraction(solve_participation(form, family, contribution="vector", tolerance=1e-3).bound) >= exact
        )
