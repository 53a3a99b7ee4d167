# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, NonPrivateDpEvent, NoOpDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from sottovoce import accounting, gaussian, graphs
from sottovoce.accounting import (
    ASSUMPTIONS,
    RELATIONS,
    Account,
    AccountTable,
    Assumption,
    Relation,
    account,
    account_all,
    best_guess,
    calibrate,
    central_account,
    local_account,
    sampled_account,
)
from sottovoce.cli.tables import meaning
from sottovoce.errors import GraphError, InputError, NotCertified, ViewError
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, gossip
from sottovoce.report.first_pages import odds
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.views import OwnNoise

DELTA = 1e-5


def ring(n: int = 5, rounds: int = 10) -> Protocol:
    return gossip(graphs.metropolis_weights(f"ring:n={n}"), rounds=rounds)


def random_graph() -> Protocol:
    return gossip(graphs.metropolis_weights(graphs.generate_graph("erdos-renyi:n=20,p=0.3,seed=1")), rounds=8)


@cache
def all_sums() -> AccountTable:
    return account_all(random_graph(), "secure-sum", noise_multiplier=2.0, delta=DELTA)


def pair_of(mu: float = 0.5, **changes: object) -> Account:
    plain = Account(mu=Interval.exactly(mu), relation="add-remove", method="exact", default_delta=DELTA)
    return replace(plain, **changes)  # type: ignore[arg-type]


def exact_epsilon(mu: float, delta: float) -> mpmath.mpf:
    """ε by bisection on the defining formula, in 60 digits."""
    with mpmath.workdps(60):
        m = mpmath.mpf(mu)

        def loss(eps: mpmath.mpf) -> mpmath.mpf:
            return mpmath.ncdf(-eps / m + m / 2) - mpmath.exp(eps) * mpmath.ncdf(-eps / m - m / 2) - delta

        low, high = mpmath.mpf(0), mpmath.mpf(1)
        if loss(low) <= 0:
            return low
        while loss(high) > 0:
            high *= 2
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) > 0 else (low, middle)
        return (low + high) / 2


def test_public_names_and_vocabularies_agree() -> None:
    assert set(accounting.__all__) <= set(dir(accounting))
    assert tuple(RELATIONS) == get_args(Relation)
    assert tuple(ASSUMPTIONS) == get_args(Assumption)


class TestAccount:
    @pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0, 30.0])
    @pytest.mark.parametrize("delta", [1e-50, 1e-8, 1e-5, 0.1])
    def test_epsilon_holds_the_exact_value(self, mu: float, delta: float) -> None:
        found = pair_of(mu).epsilon(delta)
        exact = exact_epsilon(mu, delta)
        assert found.lower <= exact <= found.upper
        assert found.width <= 2e-11 * max(found.upper, mu * max(mu, 1))

    @pytest.mark.parametrize("mu", [1e-3, 0.5, 3.0, 20.0])
    def test_every_other_number_holds_the_exact_value(self, mu: float) -> None:
        a = pair_of(mu)
        with mpmath.workdps(60):
            m = mpmath.mpf(mu)
            tail = mpmath.ncdf(-1 / m + m / 2) - mpmath.e * mpmath.ncdf(-1 / m - m / 2)
            quantile = -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(0.01))
            expected = [
                (a.rdp(8.0), 4 * m**2),
                (a.zcdp(), m**2 / 2),
                (a.advantage(), 2 * mpmath.ncdf(m / 2) - 1),
                (a.true_positive_rate(0.01), mpmath.ncdf(quantile + m)),
                (a.delta(1.0), tail),
            ]
        for found, exact in expected:
            assert found.lower <= exact <= found.upper
            assert found.width <= max(1e-11 * found.upper, 5e-324)

    def test_a_delta_that_underflows_keeps_both_ends_true(self) -> None:
        assert pair_of(0.1).delta(10.0) == Interval(0.0, 5e-324)

    def test_the_ends_come_from_the_ends_of_mu(self) -> None:
        found = replace(pair_of(), mu=Interval(0.5, 1.0)).epsilon()
        assert found.upper == gaussian.epsilon(1.0, DELTA)
        assert found.lower == pytest.approx(gaussian.epsilon(0.5, DELTA), rel=1e-10)
        assert found.lower < gaussian.epsilon(0.5, DELTA)

    def test_nothing_seen_is_nothing_lost(self) -> None:
        nothing = pair_of(0.0)
        zero = Interval.exactly(0.0)
        assert nothing.epsilon() == nothing.delta(1.0) == nothing.zcdp() == nothing.advantage() == zero
        assert nothing.true_positive_rate(0.25) == Interval.exactly(0.25)
        assert (nothing + nothing).mu == (3 * nothing).mu == zero

    def test_no_noise_is_no_privacy(self) -> None:
        assert pair_of(math.inf).epsilon() == Interval.exactly(math.inf)
        assert pair_of(math.inf).rdp(2.0) == Interval(0.0, math.inf)

    def test_it_is_frozen(self) -> None:
        with pytest.raises(FrozenInstanceError):
            pair_of().mu = Interval.exactly(0.0)  # type: ignore[misc]

    def test_composition_adds_squares(self) -> None:
        both = pair_of(3.0) + pair_of(4.0)
        assert both.mu.upper == pytest.approx(5.0, rel=1e-15)
        assert 5.0 in both.mu
        assert (9 * pair_of(0.5)).mu.upper == pytest.approx(1.5, rel=2e-15)
        assert 2 * pair_of(0.5) == pair_of(0.5) * 2 == np.int64(2) * pair_of(0.5)  # type: ignore[operator]
        assert sum([pair_of(3.0), pair_of(4.0)]) == both

    def test_composition_does_not_vanish_by_underflow(self) -> None:
        assert (pair_of(1e-200) + pair_of(1e-200)).mu.upper > 1.4e-200

    def test_composition_carries_what_it_rests_on(self) -> None:
        first = pair_of(view="secure-sum", observers=(1,), method="abs", noise_multiplier=2.0)
        first = replace(first, sensitivity_squared=Interval.exactly(1.0))
        second = replace(first, observers=(2, 1), method="cap", assumption="hidden-state")
        both = first + second
        assert both.observers == (1, 2)
        assert both.method == "abs+cap"
        assert both.view == "secure-sum"
        assert both.assumption == (second + first).assumption == "hidden-state"
        assert both.noise_multiplier == 2.0
        assert both.sensitivity_squared is not None
        assert 2.0 in both.sensitivity_squared
        assert (3 * first).sensitivity_squared == Interval.exactly(1.0).scaled(3)

    def test_composition_drops_what_differs(self) -> None:
        first = pair_of(noise_multiplier=2.0, sensitivity_squared=Interval.exactly(1.0))
        both = first + replace(first, noise_multiplier=3.0, default_delta=1e-6)
        assert both.noise_multiplier is None
        assert both.sensitivity_squared is None
        with pytest.raises(InputError, match=r"delta must be given, as this account has no default_delta"):
            both.epsilon()

    @pytest.mark.parametrize(
        ("name", "value", "sentence"),
        [
            (
                "relation",
                "replace-one",
                r"same relation to be added; got 'add-remove' and 'replace-one' \(make",
            ),
            ("target", 4, r"same target to be added; got None and 4 \(a composition is about one node"),
            ("contribution", "scalar", r"got 'vector' and 'scalar' \(make both with contribution='vector'"),
        ],
    )
    def test_unlike_accounts_are_refused(self, name: str, value: object, sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            pair_of() + pair_of(**{name: value})  # type: ignore[arg-type]

    @pytest.mark.parametrize("runs", [0, -1, 1.5, True, "two"])
    def test_the_number_of_runs_is_whole(self, runs: object) -> None:
        with pytest.raises(InputError, match="runs must be a whole number of at least 1; got"):
            pair_of() * runs  # type: ignore[operator]

    def test_only_accounts_add_up(self) -> None:
        with pytest.raises(TypeError, match="unsupported operand"):
            pair_of() + 1
        with pytest.raises(TypeError, match="unsupported operand"):
            1 + pair_of()

    @pytest.mark.parametrize(
        ("ask", "sentence"),
        [
            (lambda a: a.epsilon(0.0), "delta must lie strictly between 0 and 1; got 0.0"),
            (lambda a: a.epsilon(np.array([0.1])), "delta must lie strictly between 0 and 1"),
            (lambda a: a.delta(-1.0), "epsilon must be a number of at least 0; got -1.0"),
            (lambda a: a.delta([1.0]), r"epsilon must be a single number; got \[1.0\]"),
            (lambda a: a.rdp(1.0), "alpha must be a number above 1; got 1.0"),
            (lambda a: a.true_positive_rate(2.0), "fpr must be a number from 0 to 1; got 2.0"),
            (
                lambda a: replace(a, relation="swap"),
                "relation must be one of add-remove, replace-one, zero-out",
            ),
            (
                lambda a: replace(a, assumption="nothing"),
                "assumption must be one of none, smooth, oblivious, quadratic, hidden-state",
            ),
            (lambda a: replace(a, contribution="tensor"), "contribution must be one of vector, scalar"),
            (lambda a: replace(a, default_delta=1.0), "default_delta must lie strictly between 0 and 1"),
            (lambda a: replace(a, mu=Interval(-1.0, 1.0)), "mu must be an interval of numbers of at least 0"),
        ],
    )
    def test_bad_values_are_refused(self, ask: Callable[[Account], object], sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            ask(pair_of())


class TestDpEvents:
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_other_accountants_agree(self, relation: Relation) -> None:
        a = local_account(ring(rounds=9), noise_multiplier=6.0, delta=DELTA, relation=relation)
        event = a.to_dp_event()
        ours = a.epsilon().upper
        pld = PLDAccountant(neighboring_relation=a.dp_relation()).compose(event).get_epsilon(DELTA)
        assert ours * (1 - 1e-9) <= pld <= ours + 1e-3
        assert RdpAccountant(neighboring_relation=a.dp_relation()).compose(event).get_epsilon(DELTA) > ours

    def test_composing_events_is_composing_accounts(self) -> None:
        a = local_account(ring(rounds=4), noise_multiplier=8.0, delta=DELTA)
        accountant = PLDAccountant(neighboring_relation=a.dp_relation()).compose(a.to_dp_event(), 5)
        assert accountant.get_epsilon(DELTA) == pytest.approx((5 * a).epsilon().upper, abs=1e-3)

    def test_relations(self) -> None:
        found = [pair_of(relation=relation).dp_relation() for relation in RELATIONS]
        plain, special = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL
        assert found == [plain, plain, special]

    def test_extremes(self) -> None:
        assert pair_of(0.0).to_dp_event() == NoOpDpEvent()
        assert pair_of(math.inf).to_dp_event() == NonPrivateDpEvent()
        assert pair_of(0.5).to_dp_event() == GaussianDpEvent(math.nextafter(2.0, 0))

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "dp_accounting", None)
        with pytest.raises(InputError, match=r"pip install '\.\[events\]'"):
            pair_of().to_dp_event()


class TestAccountOfOneView:
    def test_everyone_is_local_privacy(self) -> None:
        protocol = ring(rounds=9)
        table = account(protocol, View.everyone, noise_multiplier=6.0, delta=DELTA)
        assert len(table) == 5
        np.testing.assert_array_equal(table.squared_upper, 9.0)
        assert table[3].mu == local_account(protocol, noise_multiplier=6.0, delta=DELTA).mu
        np.testing.assert_allclose(table.epsilon_upper, gaussian.epsilon(0.5, DELTA), rtol=1e-12)

    def test_rounds_count(self) -> None:
        few, many = (
            account(ring(rounds=t), View.everyone, noise_multiplier=3.0, delta=DELTA).worst() for t in (4, 16)
        )
        assert many.mu.upper == pytest.approx(2 * few.mu.upper, rel=1e-15)

    @pytest.mark.parametrize("view", [View.everyone, View.secure_sum(0)])
    def test_replace_one_doubles_mu(self, view: View) -> None:
        tables = {
            relation: account(ring(), view, noise_multiplier=3.7, delta=DELTA, relation=relation)
            for relation in RELATIONS
        }
        np.testing.assert_array_equal(tables["replace-one"].mu_upper, 2 * tables["add-remove"].mu_upper)
        np.testing.assert_array_equal(tables["replace-one"].mu_lower, 2 * tables["add-remove"].mu_lower)
        np.testing.assert_array_equal(tables["zero-out"].mu_upper, tables["add-remove"].mu_upper)

    def test_accounts_are_rows_of_the_arrays(self) -> None:
        table = account(random_graph(), View.neighbourhood(3), noise_multiplier=5.0, delta=1e-6)
        assert 3 not in table.targets
        for place, target in enumerate(table.targets):
            found = table[target]
            assert found.target == target
            assert found.observers == (3,)
            assert found.view == "neighbourhood"
            assert found.mu == Interval(table.mu_lower[place], table.mu_upper[place])
            assert found.epsilon().upper == pytest.approx(table.epsilon_upper[place], rel=1e-12)
            assert found.epsilon().lower == pytest.approx(table.epsilon_lower[place], rel=1e-12)
        assert (table.epsilon_lower <= table.epsilon_upper).all()

    def test_one_path_by_hand(self) -> None:
        # The middle of a path sees x_0 + x_2 and their noise: half of each round shows, Δ² = T/2.
        path = gossip(graphs.metropolis_weights("path:n=3"), rounds=8)
        table = account(path, View.secure_sum(1), noise_multiplier=2.0, delta=DELTA)
        assert 1.0 in table[0].mu
        assert table[0].mu.gap < 1e-9

    def test_a_target_out_of_reach_costs_nothing(self) -> None:
        table = account(
            ring(n=9, rounds=2), View.secure_sum(0), noise_multiplier=1.0, delta=DELTA, targets=[4]
        )
        assert table[4].epsilon() == Interval.exactly(0.0)
        assert table.worst().mu == Interval.exactly(0.0)

    def test_labels_are_kept(self) -> None:
        names = ["ann", "ben", "cy"]
        weights = graphs.matrix_weights(np.full((3, 3), 1 / 3), labels=names)
        table = account(gossip(weights, rounds=3), View.secure_sum("ben"), noise_multiplier=2.0, delta=DELTA)
        assert list(table.targets) == ["ann", "cy"]
        assert table["cy"].target == "cy"
        assert table["ben", "cy"].observers == ("ben",)
        shifted = graphs.matrix_weights(np.full((3, 3), 1 / 3), labels=[7, 8, 9])
        table = account(gossip(shifted, rounds=3), View.secure_sum(8), noise_multiplier=2.0, delta=DELTA)
        assert list(table.targets) == [7, 9]

    def test_labels_may_exceed_what_arrays_of_integers_hold(self) -> None:
        names = [2**70, 5, -(2**64)]
        weights = graphs.matrix_weights(np.full((3, 3), 1 / 3), labels=names)
        table = account_all(gossip(weights, rounds=3), "secure-sum", noise_multiplier=2.0, delta=DELTA)
        assert list(table.targets) == [5, -(2**64), 2**70, -(2**64), 2**70, 5]
        assert table[2**70, 5].observers == (2**70,)
        assert list(table.to_frame()["observer"])[:2] == [2**70, 2**70]

    def test_a_coalition_is_one_observer(self) -> None:
        table = account(ring(n=6), View.coalition_sums([4, 1]), noise_multiplier=5.0, delta=DELTA)
        assert table[(1, 4), 2] == table[[4, 1], 2] == table[2]
        assert list(table.to_frame()["observer"]) == [(4, 1)] * 4

    def test_progress_counts_targets(self) -> None:
        seen: list[tuple[int, int]] = []
        account(
            ring(), View.secure_sum(0), noise_multiplier=1.0, delta=DELTA, progress=lambda *x: seen.append(x)
        )
        assert seen[-1] == (4, 4)

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"noise_multiplier": 0.0}, "noise_multiplier must be a finite number above 0; got 0.0"),
            ({"noise_multiplier": math.inf}, "noise_multiplier must be a finite number above 0; got inf"),
            ({"delta": 0}, "delta must lie strictly between 0 and 1; got 0"),
            ({"delta": 1.0}, "delta must lie strictly between 0 and 1; got 1.0"),
            ({"relation": "swap"}, "relation must be one of add-remove, replace-one, zero-out; got 'swap'"),
            ({"contribution": "tensor"}, "contribution must be one of vector, scalar, energy; got 'tensor'"),
            (
                {"view": "secure-sum"},
                r"a view must be a View, such as View.secure_sum\(0\); got 'secure-sum'",
            ),
            ({"targets": [0]}, "node 0 cannot be a target of .*the observer knows its noise"),
            ({"targets": []}, "targets must name at least one node"),
            ({"participation": "often"}, "participation must be spelled like one of full, .*; got 'often'"),
            ({"participation": 5}, "participation must be a Participation or its spelling, .*; got 5"),
            ({"participation": "fixed:11"}, "fixed:11 names round 11, but there are 10 rounds"),
        ],
    )
    def test_bad_values_are_refused(self, changes: dict[str, object], sentence: str) -> None:
        settings: Any = {"view": View.secure_sum(0), "noise_multiplier": 1.0, "delta": DELTA, **changes}
        with pytest.raises(InputError, match=sentence):
            account(ring(), **settings)


class TestAccountOfAllObservers:
    @pytest.mark.parametrize("view", ["neighbourhood", "secure-sum", "single-node"])
    @pytest.mark.parametrize("own_noise", ["known", "hidden"])
    def test_it_is_one_account_after_the_other(self, view: str, own_noise: OwnNoise) -> None:
        # No two of these nodes are alike, so that none is given what was found of another.
        uneven = [[0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 0], [0, 0.25, 0.5, 0.25], [0, 0, 0.25, 0.75]]
        protocol = gossip(graphs.matrix_weights(uneven), rounds=3)
        settings: Any = {"noise_multiplier": 2.0, "delta": DELTA}
        table = account_all(protocol, view, own_noise=own_noise, **settings)
        assert len(table) == (12 if own_noise == "known" else 16)
        assert table.own_noise == own_noise
        make = {"neighbourhood": View.neighbourhood, "secure-sum": View.secure_sum}.get(
            view, View.single_node
        )
        for observer in range(4):
            alone = account(protocol, make(observer, own_noise=own_noise), **settings)
            for target in alone.targets:
                assert table[observer, target] == alone[target]

    def test_everyone_is_one_view(self) -> None:
        done: list[tuple[int, int]] = []
        table = account_all(
            ring(), "everyone", noise_multiplier=2.0, delta=DELTA, progress=lambda *x: done.append(x)
        )
        assert len(table) == 5
        assert done == [(5, 5)]
        assert table[0, 3] == table[4, 3] == table[3]
        assert list(table.to_frame()["observer"]) == ["everyone"] * 5

    def test_a_target_is_judged_by_its_worst_observer(self) -> None:
        table = all_sums()
        for target in (0, 7, 19):
            theirs = table.mu_upper[table.target_indices == target]
            assert table[target].mu.upper == theirs.max()
            assert table[target].target == target

    def test_observers_and_targets_can_be_chosen(self) -> None:
        done: list[tuple[int, int]] = []
        table = account_all(
            ring(),
            "secure-sum",
            noise_multiplier=2.0,
            delta=DELTA,
            targets=["1", 3],
            observers=[3, 0, 0],
            progress=lambda *x: done.append(x),
        )
        assert table.observers == ((3,), (0,))
        assert list(table.observer_of) == [0, 1, 1]
        assert list(table.targets) == [1, 1, 3]
        assert done == sorted(done)
        assert {(1, 3), (3, 3)} <= set(done)

    def test_an_observer_without_a_target_is_left_out(self) -> None:
        table = account_all(ring(), "secure-sum", noise_multiplier=2.0, delta=DELTA, targets=[2])
        assert table.observers == ((0,), (1,), (3,), (4,))
        assert set(table.targets) == {2}

    @pytest.mark.parametrize(
        ("changes", "error", "sentence"),
        [
            ({"view": "coalition-sums"}, ViewError, r"account\(protocol, View.coalition_sums\(\[…\]\), …\)"),
            ({"view": "coalition-messages"}, ViewError, r"got 'coalition-messages' \(name the coalition"),
            (
                {"view": "custom"},
                InputError,
                "view must be one of everyone, neighbourhood, secure-sum, single",
            ),
            ({"own_noise": "maybe"}, InputError, "own_noise must be one of known, hidden; got 'maybe'"),
            ({"observers": []}, InputError, "observers must name at least one node"),
            ({"observers": [9]}, GraphError, "no node is called 9"),
            ({"targets": []}, InputError, "targets must name at least one node"),
            (
                {"targets": [1], "observers": [1]},
                InputError,
                r"no target remains: the only observer is node 1 itself, which knows its own noise \(choose",
            ),
            (
                {"noise_multiplier": -1},
                InputError,
                "noise_multiplier must be a finite number above 0; got -1",
            ),
            ({"delta": 2}, InputError, "delta must lie strictly between 0 and 1; got 2"),
        ],
    )
    def test_bad_values_are_refused(
        self, changes: dict[str, object], error: type[Exception], sentence: str
    ) -> None:
        settings: Any = {"view": "secure-sum", "noise_multiplier": 1.0, "delta": DELTA, **changes}
        with pytest.raises(error, match=sentence):
            account_all(ring(), **settings)


class TestParticipation:
    @pytest.mark.parametrize(
        ("given", "count"),
        [
            (None, 10),
            ("full", 10),
            ("every:4", 3),
            ("at-most:2", 2),
            ("fixed:1,10", 2),
            ("separated:3,at-most=2", 2),
            (Participation.separated(5), 2),
        ],
    )
    def test_what_everyone_sees_is_the_rounds_that_count(
        self, given: Participation | str | None, count: int
    ) -> None:
        settings: Any = {"noise_multiplier": 3.0, "delta": DELTA, "participation": given}
        protocol = ring(n=5, rounds=10)
        table = account(protocol, View.everyone, **settings)
        np.testing.assert_array_equal(table.squared_upper, count)
        assert str(table.participation) == str(given or "full")
        assert table.worst().participation == str(given or "full")
        local, central = local_account(protocol, **settings), central_account(protocol, **settings)
        assert local.sensitivity_squared == Interval.exactly(float(count))
        assert central.sensitivity_squared is not None
        assert count / 5 in central.sensitivity_squared
        assert local.participation == central.participation == str(given or "full")
        assert local.mu == table[0].mu

    @pytest.mark.parametrize("view", ["secure-sum", "neighbourhood", "single-node"])
    def test_fewer_rounds_lower_every_epsilon(self, view: str) -> None:
        settings: Any = {"noise_multiplier": 2.0, "delta": DELTA}
        full = account_all(ring(), view, **settings)
        some = account_all(ring(), view, participation="at-most:4", **settings)
        fixed = account_all(ring(), view, participation="fixed:2,4,6,8", **settings)
        assert (some.epsilon_upper < full.epsilon_upper).all()
        # One pattern of a family never leaks more than its worst.
        assert (fixed.squared_lower <= some.squared_upper).all()
        assert (some.squared_upper <= 4).all()

    def test_calibration_asks_for_less_noise(self) -> None:
        target: Any = {"target_epsilon": 1.0, "target_delta": DELTA}
        for view in ("secure-sum", View.secure_sum(0)):
            full = calibrate(ring(), view, **target)
            some = calibrate(ring(), view, participation=Participation.at_most(3), **target)
            assert some < full
            again = account_all(
                ring(), "secure-sum", noise_multiplier=some, delta=DELTA, participation="at-most:3"
            )
            assert again[0, 1].epsilon().upper <= 1.0

    def test_rounds_in_which_nothing_is_seen_need_no_noise(self) -> None:
        table = account(ring(), View.everyone, noise_multiplier=1.0, delta=DELTA, participation="fixed:3")
        with pytest.raises(InputError, match=r"within 10 rounds \(participation fixed:3\), so no noise"):
            everyone_at(table, np.zeros(2)).calibrated_noise(1.0, DELTA)

    def test_composition_keeps_or_joins_it(self) -> None:
        once = pair_of(participation="every:4")
        assert (once + once).participation == (3 * once).participation == "every:4"
        mixed = pair_of() + once
        assert mixed.participation == "full + every:4"
        assert (mixed + once).participation == "full + every:4"

    def test_a_table_has_it_in_full_unless_it_is_said(self) -> None:
        assert all_sums().participation == Participation.full()
        assert account(ring(), View.everyone, noise_multiplier=1.0, delta=DELTA)[0].participation == "full"


class TestProgress:
    def test_one_large_observer_is_counted_by_its_targets(self) -> None:
        seen: list[tuple[int, int]] = []
        account_all(
            gossip(graphs.metropolis_weights("ring:n=40"), rounds=100),
            "secure-sum",
            noise_multiplier=1.0,
            delta=DELTA,
            observers=[0, 20],
            progress=lambda *x: seen.append(x),
        )
        assert seen == sorted(seen)
        assert seen[-1] == (78, 78)
        assert {total for _, total in seen} == {78}


class TestTable:
    def test_extremes_and_middle(self) -> None:
        table = all_sums()
        ordered = np.sort(table.mu_upper)
        assert table.worst().mu.upper == ordered[-1]
        assert table.best().mu.upper == ordered[0]
        assert table.median().mu.upper == ordered[(len(table) - 1) // 2]
        assert table.median().default_delta == DELTA

    def test_most_exposed(self) -> None:
        table = all_sums()
        found = table.most_exposed(5)
        assert [target for target, _ in found] == [a.target for _, a in found]
        assert len({target for target, _ in found}) == 5
        assert found[0][1] == table.worst()
        uppers = [a.mu.upper for _, a in found]
        assert uppers == sorted(uppers, reverse=True)
        for target, a in found:
            assert a == table[target]
        assert len(table.most_exposed(1000)) == 20
        with pytest.raises(InputError, match="count must be a whole number of at least 1; got 0"):
            table.most_exposed(0)

    def test_with_noise(self) -> None:
        table = all_sums()
        louder = table.with_noise(4.0)
        np.testing.assert_array_equal(louder.mu_upper, table.mu_upper / 2)
        assert (louder.epsilon_upper < table.epsilon_upper).all()
        assert louder.worst().noise_multiplier == 4.0

    def test_to_frame(self) -> None:
        table = all_sums()
        frame = table.to_frame()
        assert list(frame.columns) == [
            "observer",
            "target",
            "sensitivity_squared_lower",
            "sensitivity_squared_upper",
            "method",
            "mu_lower",
            "mu_upper",
            "epsilon_lower",
            "epsilon_upper",
        ]
        assert len(frame) == len(table) == 20 * 19
        row = frame.iloc[33]
        found = table[row["observer"], row["target"]]
        assert found.mu == Interval(row["mu_lower"], row["mu_upper"])
        assert found.method == row["method"]

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError, match=r"pip install '\.\[frames\]'"):
            all_sums().to_frame()

    def test_nodes_named_by_pairs(self) -> None:
        names = [(0, 0), (0, 1), (1, 0)]
        weights = graphs.matrix_weights(np.full((3, 3), 1 / 3), labels=names)
        table = account_all(gossip(weights, rounds=3), "secure-sum", noise_multiplier=2.0, delta=DELTA)
        assert table[0, 1] == table[(0, 1)] == table.about((0, 1))
        assert table[(0, 0), (0, 1)] == table.pair((0, 0), (0, 1))
        assert list(table.to_frame()["target"])[:2] == [(0, 1), (1, 0)]

    def test_a_hundred_thousand_pairs(self) -> None:
        everyone = account(ring(), View.everyone, noise_multiplier=2.0, delta=DELTA)
        table = everyone_at(everyone, np.linspace(0.0, 10.0, 100_001))
        assert table.worst().sensitivity_squared == Interval.exactly(10.0)
        assert table.median().sensitivity_squared == Interval.exactly(5.0)
        assert table.epsilon_upper[0] == 0.0
        assert (np.diff(table.mu_upper) > 0).all()

    def test_it_says_what_it_is(self) -> None:
        assert repr(all_sums()) == "AccountTable(secure-sum, 380 pairs, noise multiplier 2.0)"

    @pytest.mark.parametrize(
        ("key", "sentence"),
        [
            (5, "no node is called 5"),
            ((5, 1), "no node is called 5"),
            (0, r"node 0 is not among the targets of this table \(its noise is known"),
            ((1, 2), r"1 is not among the observers of this table \(it has 1, such as \(0,\)\)"),
            ((0, 0), r"node 0 is not among the targets of the observer 0 \(its noise is known"),
        ],
    )
    def test_what_is_not_there_is_refused(self, key: object, sentence: str) -> None:
        table = account(ring(), View.secure_sum(0), noise_multiplier=2.0, delta=DELTA)
        with pytest.raises(InputError, match=sentence):
            table[key]

    def test_an_empty_table_is_refused(self) -> None:
        table = account(ring(), View.everyone, noise_multiplier=2.0, delta=DELTA)
        with pytest.raises(InputError, match=r"must hold at least one pair; got none \(name a target"):
            everyone_at(table, np.zeros(0))

    def test_columns_of_unlike_length_are_refused(self) -> None:
        table = account(ring(), View.secure_sum(0), noise_multiplier=2.0, delta=DELTA)
        with pytest.raises(InputError, match="must have the same length; got lengths 4, 4, 2, 4, 4"):
            replace(table, squared_lower=np.zeros(2))


def everyone_at(table: AccountTable, squared: np.ndarray) -> AccountTable:
    """The table with other sensitivities, all of the first view."""
    return replace(
        table,
        observer_of=np.zeros(len(squared), dtype=np.int64),
        target_indices=np.arange(len(squared)) % table.protocol.n,
        squared_lower=squared,
        squared_upper=squared,
        method=np.full(len(squared), "exact"),
    )


class TestCalibrate:
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (20.0, 1e-8), (0.01, 1e-50), (300.0, 1e-50)])
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_noise_meets_its_target_and_no_less_does(
        self, epsilon: float, delta: float, relation: Relation
    ) -> None:
        protocol = ring(rounds=6)
        for view in ("everyone", "secure-sum"):
            noise = calibrate(protocol, view, target_epsilon=epsilon, target_delta=delta, relation=relation)
            table = account_all(protocol, view, noise_multiplier=noise, delta=delta, relation=relation)
            assert table.epsilon_upper.max() <= epsilon
            assert table.worst().epsilon().upper <= epsilon
            assert table.with_noise(0.999 * noise).epsilon_upper.max() > epsilon

    def test_the_noise_is_checked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = account(ring(), View.everyone, noise_multiplier=1.0, delta=DELTA)
        honest = table.calibrated_noise(1.0, DELTA)
        too_large = gaussian.mu(1.0, DELTA) * (1 + 1e-9)
        monkeypatch.setattr(gaussian, "mu", lambda *_: too_large)
        found = table.calibrated_noise(1.0, DELTA)
        assert table.with_noise(found).epsilon_upper.max() <= 1.0
        assert found == pytest.approx(honest, rel=1e-8)

    def test_one_view(self) -> None:
        target: Any = {"target_epsilon": 2.0, "target_delta": DELTA}
        sums = calibrate(ring(), View.secure_sum(0), **target)
        assert sums < calibrate(ring(), View.everyone, **target)
        far = calibrate(ring(), View.secure_sum(0), targets=[2], **target)
        assert far < sums
        assert calibrate(ring(), "secure-sum", **target) == pytest.approx(sums, rel=1e-3)

    def test_replace_one_needs_twice_the_noise(self) -> None:
        target: Any = {"target_epsilon": 2.0, "target_delta": DELTA}
        plain = calibrate(ring(), "everyone", **target)
        doubled = calibrate(ring(), "everyone", relation="replace-one", **target)
        assert doubled == pytest.approx(2 * plain, rel=1e-12)

    def test_own_noise_reaches_the_views(self) -> None:
        target: Any = {"target_epsilon": 2.0, "target_delta": DELTA}
        known = calibrate(ring(), "single-node", **target)
        hidden = calibrate(ring(), "single-node", own_noise="hidden", targets=[0], **target)
        assert known != hidden
        view = View.single_node(0, own_noise="hidden")
        assert calibrate(ring(), view, own_noise="hidden", **target) > 0
        with pytest.raises(InputError, match="own_noise must agree with the view; got 'known' and View"):
            calibrate(ring(), view, own_noise="known", **target)

    def test_nothing_seen_needs_no_noise(self) -> None:
        with pytest.raises(
            InputError,
            match=r"no target reaches the secure-sum view within 2 rounds \(participation full\), so no",
        ):
            calibrate(ring(9, 2), View.secure_sum(0), targets=[4], target_epsilon=1.0, target_delta=DELTA)

    def test_an_infinite_bound_is_not_certified(self) -> None:
        table = account(ring(), View.everyone, noise_multiplier=2.0, delta=DELTA)
        unbounded = everyone_at(table, np.array([1.0, math.inf]))
        assert unbounded.worst().epsilon().upper == math.inf
        with pytest.raises(
            NotCertified, match=r"no finite noise is certified to reach epsilon 1\.0 at delta 1e-05"
        ):
            unbounded.calibrated_noise(1.0, DELTA)

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"target_epsilon": 0.0}, "target_epsilon must be a finite number above 0; got 0.0"),
            ({"target_delta": 0.0}, "target_delta must lie strictly between 0 and 1; got 0.0"),
            ({"relation": "swap"}, "relation must be one of add-remove"),
            ({"view": "coalition-sums"}, "name the coalition"),
        ],
    )
    def test_bad_values_are_refused(self, changes: dict[str, object], sentence: str) -> None:
        settings: Any = {"view": "secure-sum", "target_epsilon": 1.0, "target_delta": DELTA, **changes}
        with pytest.raises(InputError, match=sentence):
            calibrate(ring(), **settings)


class TestComparisons:
    def test_central_stands_n_times_below_local(self) -> None:
        protocol = ring(n=7, rounds=10)
        settings: Any = {"noise_multiplier": 3.0, "delta": DELTA}
        local, central = local_account(protocol, **settings), central_account(protocol, **settings)
        assert local.sensitivity_squared == Interval.exactly(10.0)
        assert central.sensitivity_squared is not None
        assert 10 / 7 in central.sensitivity_squared
        assert central.mu.upper == pytest.approx(local.mu.upper / math.sqrt(7), rel=1e-14)
        assert (local.method, central.method) == ("local DP", "central aggregation")

    def test_network_views_lie_between(self) -> None:
        protocol = ring(n=7, rounds=10)
        settings: Any = {"noise_multiplier": 3.0, "delta": DELTA}
        worst = account_all(protocol, "secure-sum", **settings).worst()
        assert central_account(protocol, **settings).mu.upper < worst.mu.upper
        assert worst.mu.upper < local_account(protocol, **settings).mu.upper

    @pytest.mark.parametrize("compared", [local_account, central_account])
    def test_bad_values_are_refused(self, compared: Callable[..., Account]) -> None:
        with pytest.raises(InputError, match="noise_multiplier must be a finite number above 0; got nan"):
            compared(ring(), noise_multiplier=math.nan, delta=DELTA)
        with pytest.raises(InputError, match="delta must lie strictly between 0 and 1; got 0"):
            compared(ring(), noise_multiplier=1.0, delta=0)


@pytest.mark.parametrize("mu", [8.0, 12.0, 50.0, math.inf])
def test_no_guess_is_right_more_often_than_always(mu: float) -> None:
    account = Account(mu=Interval.exactly(mu), relation="add-remove", method="exact", target=1)
    assert 99.9 < account.best_guess() <= 100.0
    assert "101%" not in meaning(account, "add-remove")
    assert "101%" not in odds(3.0, 1e-5, "a record", mu=mu)
    open_end = Account(mu=Interval(1.0, math.inf), relation="add-remove", method="cap", target=1)
    assert meaning(open_end, "add-remove").startswith("No bound on what is learnt about node 1 is proved")


@pytest.mark.parametrize("mu", [1e-9, 0.1, 0.7, 2.5, 6.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_a_gaussian_gives_guesses_less_than_its_own_epsilon_and_delta_do(mu: float, delta: float) -> None:
    epsilon = gaussian.epsilon(mu, delta)
    both, bare = best_guess(mu, epsilon=epsilon, delta=delta), best_guess(epsilon=epsilon, delta=delta)
    with mpmath.workdps(40):
        assert both >= 100 * mpmath.ncdf(mpmath.mpf(mu) / 2)
        ratio = mpmath.exp(mpmath.mpf(float(epsilon)))
        assert bare >= 100 * (ratio + mpmath.mpf(delta)) / (ratio + 1)
    assert both == best_guess(mu) <= bare
    # Without any ε the sharper one of the two is δ at ε = 0.
    assert math.isclose(best_guess(epsilon=0.0, delta=gaussian.delta(mu, 0.0)), best_guess(mu))


def test_coins_make_a_guess_less_often_right() -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=20)
    found = sampled_account(
        ring, "secure-sum", noise_multiplier=2.0, delta=1e-5, participation="poisson:0.1"
    ).account()
    assert found.best_guess() < found.always.best_guess()
    assert found.best_guess() >= best_guess(epsilon=0.0, delta=found.delta(0.0).upper)


def test_energies_over_many_rounds_are_refused_by_their_name() -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=100_000)
    with pytest.raises(
        NotCertified, match="bounded energy are accounted for over at most 2048 rounds; got 100000"
    ):
        account(ring, View.secure_sum(0), noise_multiplier=1.0, delta=1e-5, contribution="energy")


def test_the_best_guess_is_never_shown_below_what_it_is() -> None:
    """At this μ the sum and the product both round down, by more than one unit together."""
    mu = 3.6175130604308294e-15
    truth = 50 * (1 + Fraction(gaussian.delta_lower(mu, 0.0)))
    assert truth > Fraction(math.nextafter(50 * (1 + gaussian.advantage(mu)), math.inf))
    shown = Account(mu=Interval.exactly(mu), relation="add-remove", method="exact").best_guess()
    assert truth <= Fraction(shown) < truth * (1 + Fraction(1, 10**15))
