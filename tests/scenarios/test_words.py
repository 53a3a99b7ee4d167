# SPDX-License-Identifier: Apache-2.0
"""The short forms of every verb mean what a `Scenario` and an `Effort` say, and say so when they do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from sottovoce import (
    Effort,
    Participation,
    Scenario,
    View,
    account,
    account_all,
    audit,
    calibrate,
    certify,
    gossip,
    graphs,
    rate,
    sensitivity,
    verify,
    worst_coalition,
    worst_observer,
)
from sottovoce.accounting import central_account, local_account
from sottovoce.certificates import Mechanism, to_text
from sottovoce.errors import InputError
from sottovoce.protocols import repeated
from sottovoce.scenarios import (
    ENGINES,
    Depth,
    Engine,
    StreamWords,
    SweepWords,
    WidthWords,
    Words,
    asked,
)
from sottovoce.scenarios.efforts import DEPTHS
from sottovoce.sweeps import sweep

RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=8)
VIEW = View.secure_sum(0)
MECHANISM: Any = {"noise_multiplier": 2.0, "delta": 1e-5}
HALF = Scenario(protocol=RING, view=VIEW, targets=[1, 2], participation="every:2", relation="replace-one")
ONE = replace(HALF, targets=(1,))
ALL = Scenario(protocol=RING, view="secure-sum", own_noise="hidden", contribution="scalar")
COALITION = Scenario(protocol=RING, view="coalition-messages", targets=[1], participation="at-most:3")
HALVED: Any = {"participation": "every:2", "relation": "replace-one"}


def columns(table: Any) -> list[object]:
    found = [table.squared_lower.tolist(), table.squared_upper.tolist(), table.method.tolist()]
    return [*found, table.mu_upper.tolist() if hasattr(table, "mu_upper") else None]


def searched(found: Any) -> list[object]:
    return [found.coalition, found.largest, found.view, found.target, found.participation, found.exact]


@pytest.mark.parametrize(
    ("long", "short", "seen"),
    [
        (
            lambda: sensitivity(HALF, effort=Effort(engine="filter", tolerance=1e-3)),
            lambda: sensitivity(RING, VIEW, [1, 2], participation="every:2", engine="filter", tolerance=1e-3),
            columns,
        ),
        (
            lambda: account(HALF, effort=Effort(depth="fine"), **MECHANISM),
            lambda: account(RING, VIEW, targets=[1, 2], effort="fine", **HALVED, **MECHANISM),
            columns,
        ),
        (
            lambda: account_all(ALL, **MECHANISM),
            lambda: account_all(RING, "secure-sum", own_noise="hidden", contribution="scalar", **MECHANISM),
            columns,
        ),
        (
            lambda: calibrate(ALL, target_epsilon=1.0, target_delta=1e-5),
            lambda: calibrate(
                RING,
                "secure-sum",
                own_noise="hidden",
                contribution="scalar",
                target_epsilon=1.0,
                target_delta=1e-5,
            ),
            lambda noise: noise,
        ),
        (
            lambda: certify(ONE, effort=Effort(tolerance=1e-3)),
            lambda: certify(RING, VIEW, 1, participation="every:2", tolerance=1e-3),
            to_text,
        ),
        (
            lambda: audit(ONE, trials=64, rng=np.random.default_rng(1), **MECHANISM),
            lambda: audit(RING, VIEW, 1, trials=64, rng=np.random.default_rng(1), **HALVED, **MECHANISM),
            lambda found: (found.found, found.account, found.attack_mu, found.target),
        ),
        (
            lambda: worst_coalition(COALITION, size=2),
            lambda: worst_coalition(RING, 1, size=2, view="coalition-messages", participation="at-most:3"),
            searched,
        ),
        (
            lambda: worst_observer(replace(COALITION, view="neighbourhood", observers=(2, 3))),
            lambda: worst_observer(
                RING, 1, view="neighbourhood", participation="at-most:3", candidates=[2, 3]
            ),
            searched,
        ),
        (
            lambda: rate(replace(HALF, participation=Participation.full()), effort=Effort(tolerance=1e-3)),
            lambda: rate(RING, VIEW, [1, 2], tolerance=1e-3),
            lambda found: (found.lower.tolist(), found.upper.tolist(), found.targets.tolist()),
        ),
        (
            lambda: local_account(HALF, **MECHANISM),
            lambda: local_account(RING, **HALVED, **MECHANISM),
            lambda account: account,
        ),
        (
            lambda: central_account(HALF, **MECHANISM),
            lambda: central_account(RING, **HALVED, **MECHANISM),
            lambda account: account,
        ),
    ],
    ids=lambda each: "" if callable(each) else str(each),
)
def test_both_forms_give_the_same(
    long: Callable[[], Any], short: Callable[[], Any], seen: Callable[[Any], Any]
) -> None:
    assert seen(long()) == seen(short())


def test_both_forms_sweep_the_same(tmp_path: Path) -> None:
    first = sweep(RING, "secure-sum", tmp_path / "a", own_noise="hidden", contribution="scalar", tile=5)
    again = sweep(ALL, folder=tmp_path / "b", tile=5)
    assert first.manifest == again.manifest
    assert [part.read_bytes() for part in first.parts] == [part.read_bytes() for part in again.parts]
    with pytest.raises(InputError, match=r"folder must be given, as a sweep fills one; got none"):
        sweep(ALL)
    with pytest.raises(InputError, match=r"targets must be left out of a sweep, .* got \[1\]"):
        sweep(RING, "secure-sum", tmp_path / "c", targets=[1])
    assert not (tmp_path / "c").exists()
    wide = sweep(RING, "secure-sum", tmp_path / "d", effort=Effort(tolerance=0.1), tile=5)
    assert (wide.manifest.tolerance, first.manifest.tolerance) == (0.1, None)
    with pytest.raises(InputError, match=r"its tolerance is 0.1, and 0.2 was asked for"):
        sweep(RING, "secure-sum", tmp_path / "d", tolerance=0.2, resume=True)


def test_unknown_words_are_named() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'engin' .*contribution, .*tolerance"):
        account(RING, VIEW, engin="auto", **MECHANISM)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'relation'"):
        sensitivity(RING, VIEW, relation="zero-out")  # type: ignore[call-arg]


def test_words_beside_a_value_are_refused() -> None:
    with pytest.raises(InputError, match=r"a Scenario says all that is asked; got view, relation beside it"):
        account(HALF, VIEW, relation="zero-out", **MECHANISM)
    with pytest.raises(InputError, match=r"a Scenario says all that is asked; got targets beside it"):
        sensitivity(HALF, targets=[1])
    with pytest.raises(InputError, match=r"a Scenario says all that is asked; got view beside it"):
        worst_coalition(COALITION, size=2, view="coalition-sums")
    with pytest.raises(InputError, match=r"an Effort says all that may be spent; got engine beside it"):
        sensitivity(HALF, effort=Effort(), engine="filter")
    with pytest.raises(
        InputError, match=r"view must be given beside a protocol, .* \(or ask with a Scenario"
    ):
        account(RING, **MECHANISM)


def test_a_rate_is_of_every_round() -> None:
    with pytest.raises(InputError, match=r"contribute in every round; got participation every:2 \(leave it"):
        rate(HALF)


def test_a_table_knows_the_question_of_each_pair() -> None:
    # Nodes of a ring would share one answer; these are all unlike.
    path = gossip(graphs.metropolis_weights("path:n=5"), rounds=8, damping=[1, 0.75, 0.5, 0.25, 0])
    table = account_all(path, "secure-sum", observers=[3, 0], targets=[1, 4], **HALVED, **MECHANISM)
    for place, (observer, target) in enumerate(((3, 1), (3, 4), (0, 1), (0, 4))):
        one = table.question(place)
        assert (one.one_view.observers, one.one_target) == ((observer,), target)
        assert (one.relation, one.participation) == (HALF.relation, HALF.participation)
        assert account(one, **MECHANISM)[target] == table[observer, target]
    gateway = View(observation=[[0, 0, 1, 1, 0]], known_noise=[])
    assert account(RING, gateway, **MECHANISM).question(0).one_view is gateway


def test_searches_need_one_target_and_known_noise() -> None:
    with pytest.raises(InputError, match="targets must name one node here; got all"):
        worst_coalition(RING, size=2)
    with pytest.raises(InputError, match="own_noise must be known where coalitions are searched"):
        worst_coalition(replace(COALITION, own_noise="hidden"), size=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"engine": "steam"}, "engine must be one of auto, filter, reduced; got 'steam'"),
        ({"depth": "deep"}, "effort must be one of auto, fine, bulk; got 'deep'"),
        ({"tolerance": 0}, "tolerance must be a finite number above 0; got 0"),
        ({"workers": 0}, "workers must be a whole number of at least 1; got 0"),
    ],
)
def test_an_effort_refuses_what_is_none(words: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Effort(**words)


def test_vocabularies_agree() -> None:
    assert get_args(Engine) == ENGINES
    assert get_args(Depth) == DEPTHS
    fields = {*Scenario.__dataclass_fields__, "effort", *Effort.__dataclass_fields__}
    assert set(SweepWords.__annotations__) == fields - {"protocol", "view", "depth"}
    assert set(Words.__annotations__) == set(SweepWords.__annotations__) - {"workers"}
    assert set(WidthWords.__annotations__) < set(StreamWords.__annotations__) < set(Words.__annotations__)
    scenario, effort = asked(RING, "secure-sum", {"effort": Effort(workers=2)}, SweepWords)
    assert (scenario.view, effort.workers) == ("secure-sum", 2)


@pytest.mark.parametrize(
    ("known", "words", "sentence"),
    [
        (
            Words,
            {"workers": 8},
            "workers must be left out here; got 8 (processes share a sweep alone: sweep(",
        ),
        (
            Words,
            {"effort": Effort(workers=8)},
            "workers must be left out here; got 8 (processes share a sweep",
        ),
        (
            WidthWords,
            {"engine": "filter"},
            "engine must be left out here; got 'filter' (this verb has one way",
        ),
        (
            WidthWords,
            {"effort": Effort(depth="bulk")},
            "effort must be left out here; got 'bulk' (this verb solves",
        ),
    ],
)
def test_what_a_verb_does_not_spend_is_refused(known: type, words: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(RING, "secure-sum", words, known)
    assert sentence in str(caught.value)


def test_no_verb_but_a_sweep_takes_workers() -> None:
    many = Effort(workers=8)
    for ask in (
        lambda: account(HALF, effort=many, **MECHANISM),
        lambda: account_all(ALL, effort=many, **MECHANISM),
        lambda: rate(RING, VIEW, effort=many),
        lambda: certify(RING, VIEW, 1, effort=many),
        lambda: local_account(HALF, effort=many, **MECHANISM),
    ):
        with pytest.raises(InputError, match="workers must be left out here; got 8"):
            ask()


def test_a_relation_is_never_dropped() -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=6)
    twice = Scenario(protocol=ring, view=View.secure_sum(0), targets=[1], relation="replace-one")
    with pytest.raises(
        InputError, match="the relation of the scenario is 'replace-one' and that of the mechanism"
    ):
        certify(twice, mechanism=Mechanism(noise_multiplier=2.0, delta=1e-5))
    same = Mechanism(noise_multiplier=2.0, delta=1e-5, relation="replace-one")
    epsilon = verify(certify(twice, mechanism=same), ring).epsilon
    assert epsilon == pytest.approx(
        account(twice, noise_multiplier=2, delta=1e-5).worst().epsilon().upper, rel=1e-3
    )
    with pytest.raises(
        InputError, match="a sweep holds Δ², which knows no relation; got relation 'replace-one'"
    ):
        sweep(Scenario(protocol=ring, view="secure-sum", relation="replace-one"), folder="nowhere")


def test_a_part_of_a_view_is_said() -> None:
    both = repeated(graphs.metropolis_weights("path:n=4"), rounds=3, steps=2)
    some = Scenario(protocol=both, view=View.secure_sum(0, exchanges=[1]), targets=[1])
    assert some.terms()["exchanges"] == [1]
    assert some.sentences()["view"] == "secure-sum, exchanges [1] of a round alone, own noise known"
    assert "exchanges" not in Scenario(protocol=both, view=View.secure_sum(0)).terms()
    checked = verify(certify(some), both)
    assert "secure-sum, exchanges [1] of a round alone: the rows were rebuilt" in [
        each.detail for each in checked.checks
    ]
