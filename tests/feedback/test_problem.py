# SPDX-License-Identifier: Apache-2.0
"""Equal questions about training are answered once; questions that differ in anything are not taken for each other."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce import View, gossip, graphs
from sottovoce.feedback import candidates, problem, training_sensitivity
from sottovoce.feedback.attacks import best_attack
from sottovoce.feedback.candidates import best_proved
from sottovoce.feedback.problem import training, training_of
from sottovoce.graphs import matrix_weights
from sottovoce.participation import Participation

WEIGHTS = graphs.metropolis_weights("ring:n=5")
SUM = View.secure_sum(0)
MATRIX = WEIGHTS.matrix.toarray()


def asked(weights: Any = WEIGHTS, view: View = SUM, **options: Any) -> problem.TrainingView:
    return training(weights, view, **{"rounds": 7, "updates": (0.5, 1), **options})


def test_an_equal_question_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "_KEPT", {})
    first = training_sensitivity(WEIGHTS, SUM, 2, rounds=7, updates=(0.5, 1))
    monkeypatch.setattr(candidates, "_candidates", None)
    same = graphs.metropolis_weights("ring:n=5")
    again = training_sensitivity(same, View.secure_sum(0), 2, rounds=7, updates=(0.5, 1))
    assert again.proof is first.proof
    protocol = gossip(same, rounds=7, updates=(0.5, 1))
    case = training_of(protocol, View.secure_sum(0), Participation.full())
    assert best_proved(case, case.loop.position(2), "auto").proof is first.proof


OTHERS: dict[str, dict[str, Any]] = {
    "rounds": {"rounds": 8},
    "slopes": {"updates": (0.5, 1.25)},
    "one slope": {"updates": ([0.5, 0.5, 0.5, 0.5, 0.25], 1)},
    "nothing known": {"updates": "any"},
    "noise": {"noise_levels": [1, 1, 1, 1, 2]},
    "participation": {"participation": "at-most:2"},
    "observer": {"view": View.secure_sum(1)},
    "view": {"view": View.neighbourhood(0)},
    "own noise": {"view": View.secure_sum(0, own_noise="hidden")},
    "rows of one's own": {"view": View(observation=MATRIX[[0]], known_noise=[0])},
    "more known": {"view": View(observation=MATRIX[[0]], known_noise=[0, 1])},
    "rule": {"weights": graphs.lazy_weights("ring:n=5")},
    "floats": {"weights": matrix_weights(MATRIX)},
    "names": {"weights": matrix_weights(MATRIX, labels="abcde"), "view": View.secure_sum("a")},
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_question_is_another(what: str) -> None:
    assert asked() is asked()
    assert asked(**OTHERS[what]) is not asked()
    assert asked(**OTHERS[what]) is asked(**OTHERS[what])


def test_what_is_kept_cannot_be_changed() -> None:
    attack = best_attack(asked(), 1)
    assert best_attack(asked(), 1) is attack
    for part in (attack.slopes, attack.statistic, attack.contributions):
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0
    for step in best_proved(asked(), 1, "auto").proof.steps:
        with pytest.raises(ValueError, match="read-only"):
            step.multipliers[...] = 0


def test_few_questions_are_kept_and_none_about_large_networks() -> None:
    for rounds in range(1, problem.MOST_KEPT + 10):
        asked(rounds=rounds)
    assert len(problem._KEPT) == problem.MOST_KEPT
    large = graphs.metropolis_weights(f"ring:n={problem.LARGEST_KEPT + 1}")
    assert asked(large) is not asked(large)
    assert not asked(large).is_kept
