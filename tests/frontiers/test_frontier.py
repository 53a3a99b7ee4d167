"""Frontiers: the noise and the runs are those of training, steps look at no record, and work goes on where it was."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce import graphs
from sottovoce.errors import InputError
from sottovoce.frontiers import Frontier, Question, frontier, stand_in
from sottovoce.learning import Data, plan, train

RING = graphs.metropolis_weights("ring:n=4")


def asked(**changes: Any) -> Question:
    settings: dict[str, Any] = {
        "data": stand_in(records=120, features=5, classes=2, seed=3),
        "networks": {"ring:n=4": RING},
        "rounds": 10,
        "epsilons": (1.0, 8.0),
        "repeats": 2,
        "steps": (0.5, 2.0),
    }
    return Question(**{**settings, **changes})


@pytest.fixture(scope="module")
def question() -> Question:
    return asked()


@pytest.fixture(scope="module")
def found(question: Question) -> Frontier:
    return frontier(question)


def same(one: Frontier, other: Frontier) -> bool:
    return replace(one, computed=0, kept=0) == replace(other, computed=0, kept=0)


def test_noise_and_runs_are_those_of_training(question: Question, found: Frontier) -> None:
    assert [(arm.network, arm.protocol, arm.view) for arm in found.arms] == [
        ("ring:n=4", "gossip", "everyone"),
        ("ring:n=4", "gossip", "secure-sum"),
    ]
    ring = question.protocol("ring:n=4", "gossip")
    for arm in found.arms:
        assert [point.epsilon for point in arm.points] == [1.0, 8.0]
        for point in arm.points:
            chosen = plan(
                question.task("ring:n=4", 0),
                ring,
                view=str(arm.view),
                target_epsilon=point.epsilon,
                step=point.step,
            )
            assert point.noise_multiplier == chosen.noise_multiplier
            assert point.assumption == chosen.account.assumption
            assert point.local_epsilon == chosen.unconditional.epsilon().upper
            runs = [
                train(
                    question.task("ring:n=4", repeat),
                    ring,
                    noise_multiplier=point.noise_multiplier,
                    step=point.step,
                    seed=repeat,
                )
                for repeat in range(2)
            ]
            assert list(point.accuracies) == [run.accuracy for run in runs]
            assert point.accuracy == pytest.approx(np.mean(point.accuracies))
            assert point.deviation == pytest.approx(np.std(point.accuracies, ddof=1))
            assert point.node_accuracy == pytest.approx(
                np.mean([run.node_accuracies[1] for run in runs if run.node_accuracies])
            )


def test_less_is_known_with_secure_sums_so_less_noise_is_needed(found: Frontier) -> None:
    everyone, sums = (arm.points for arm in found.arms)
    for seen, summed in zip(everyone, sums, strict=True):
        assert (summed.noise_multiplier or 0) < (seen.noise_multiplier or 0)
        assert seen.assumption == "none"
        assert summed.assumption == "smooth"
        # What the view is spared, local DP pays.
        assert (summed.local_epsilon or 0) > (seen.local_epsilon or 0)


def test_no_record_has_a_say_in_a_step(question: Question, found: Frontier) -> None:
    given = question.data
    shuffled = np.random.default_rng(5).permutation(given.labels)
    others = Data(
        name=given.name,
        features=1 - 2 * given.features,
        labels=shuffled,
        classes=2,
        published_records=given.records,
    )
    other = frontier(asked(data=others))
    for one, two in zip(
        (*found.arms, *found.central, *found.no_noise),
        (*other.arms, *other.central, *other.no_noise),
        strict=True,
    ):
        assert [(p.step, p.scores) for p in one.points] == [(p.step, p.scores) for p in two.points]
    assert [arm.points for arm in found.arms] != [arm.points for arm in other.arms]
    assert "synthetic records of the same shape" in found.tuning


def test_a_step_that_is_given_is_taken_and_public_data_are_named() -> None:
    given = asked(step="1/sqrt(t)", views=("everyone",), epsilons=(4.0,))
    assert {point.step for arm in frontier(given).arms for point in arm.points} == {"1/sqrt(t)"}
    assert given.tuning == "The step 1/sqrt(t) was given, and not chosen by the records."
    public = replace(stand_in(records=80, features=3, classes=3, seed=9), name="open.csv")
    assert "on open.csv, public records" in asked(tune_on=public).tuning
    chosen = frontier(asked(tune_on=public, views=("everyone",), epsilons=(4.0,)))
    assert len(chosen.arms[0].points[0].scores) == 2


class Stopped(Exception):  # noqa: N818 - an event, not a mistake
    """In place of an interrupt."""


def stopping(after: int) -> Any:
    def heard(done: int, _: int) -> None:
        if done >= after:
            raise Stopped

    return heard


@pytest.mark.parametrize("after", [1, 6])
def test_work_that_was_stopped_goes_on(
    after: int, question: Question, found: Frontier, tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        frontier(question, folder=tmp_path, progress=stopping(after))
    there = {file.name: file.read_bytes() for file in tmp_path.glob("part-*.json")}
    assert len(there) == after
    heard: list[tuple[int, int]] = []
    done = frontier(
        question, folder=tmp_path, resume=True, progress=lambda *counts: heard.append((counts[0], counts[1]))
    )
    assert (done.kept, done.computed) == (after, len(question.parts) - after)
    assert same(done, found)
    assert all((tmp_path / name).read_bytes() == content for name, content in there.items())
    assert heard[0][1] == len(question.parts)
    assert heard[-1] == (len(question.parts), len(question.parts))


def test_damaged_parts_are_set_aside_and_other_questions_refused(
    question: Question, found: Frontier, tmp_path: Path
) -> None:
    frontier(question, folder=tmp_path)
    part = tmp_path / "part-00007.json"
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    strange = json.loads((tmp_path / "part-00008.json").read_text())
    (tmp_path / "part-00008.json").write_text(json.dumps({**strange, "fingerprint": "0" * 16}))
    done = frontier(question, folder=tmp_path, resume=True)
    assert done.computed == 2
    assert same(done, found)
    assert part.read_bytes() == whole
    assert sorted(file.name for file in tmp_path.glob("*.broken")) == [
        "part-00007.json.broken",
        "part-00008.json.broken",
    ]
    with pytest.raises(InputError, match=r"its repeats is 2, and 3 was asked for \(ask for 2, or choose"):
        frontier(asked(repeats=3), folder=tmp_path, resume=True)
    moved = replace(question.data, features=question.data.features + 1)
    with pytest.raises(
        InputError, match=r"with the records it began with, and others were given \(give the same data"
    ):
        frontier(asked(data=moved), folder=tmp_path, resume=True)
    with pytest.raises(InputError, match="folder of a new frontier must be empty"):
        frontier(question, folder=tmp_path)


@pytest.mark.load
def test_several_workers_find_the_same(tmp_path: Path) -> None:
    small = asked(views=("everyone",), step="1", repeats=1)
    one, two = frontier(small, folder=tmp_path / "one"), frontier(small, folder=tmp_path / "two", workers=2)
    assert same(one, two)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"epsilons": (1.0, 1.0)}, r"epsilons must name at least one, each of them once; got \[1.0, 1.0\]"),
        ({"views": ()}, "views must name at least one"),
        ({"epsilons": (-1.0,)}, "epsilons must be a finite number above 0; got -1.0"),
        ({"views": ("all",)}, "views must be one of everyone, .*; got 'all'"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1; got 0"),
        ({"protocols": ("clean-state:keep=0.5",)}, "its messages do not tell its models"),
        ({"test_share": 0.0}, r"test_share must lie in \(0, 1\) where accuracy is measured"),
        ({"delta": 2.0}, "delta must lie strictly between 0 and 1"),
        (
            {"tune_on": stand_in(records=120, features=5, classes=2, seed=3)},
            "tune_on must be other records than those to be protected",
        ),
        (
            {"tune_on": stand_in(records=30, features=5, classes=2), "step": "1"},
            "step and tune_on say two things about the step",
        ),
        (
            {"data": Data(name="lengths", features=np.ones((40, 2)), labels=np.arange(40.0))},
            "lengths: a frontier shows accuracy, so labels must be classes",
        ),
    ],
)
def test_what_makes_no_frontier_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        asked(**changes)
    with pytest.raises(InputError, match="resume goes on with the frontier in a folder"):
        frontier(asked(), resume=True)
