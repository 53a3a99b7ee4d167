# SPDX-License-Identifier: Apache-2.0
"""What the observer of a program knows is left out of the state, exactly; what is not known stays."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreter import ExactView, exact_view
from tests.laws.test_program_laws import programs
from tests.scenes import SHARES, TRAPPED, TRAPS, WEIGHTED

from sottovoce import sensitivity
from sottovoce.errors import NotCertified
from sottovoce.filtering import engines, program_response, residues, restriction
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.innovations import innovations
from sottovoce.filtering.program_forms import ProgramResponse
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip, momentum
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.filtering.decorrelation import SeenView
    from sottovoce.filtering.restriction import Restriction


@pytest.mark.parametrize("protocol", TRAPS, ids=lambda protocol: protocol.name)
def test_ends_are_close_where_nothing_excites_a_mode_that_runs_away(protocol: Protocol) -> None:
    found = sensitivity(protocol, TRAPPED, [2])
    lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
    witness = found[2].witness.reshape(protocol.rounds, -1)
    values = exact_values(
        exact_view(protocol, TRAPPED, 2),
        ((-1) ** np.arange(protocol.rounds), np.ones(protocol.rounds), *witness.T),
    )
    assert max(values[:2]) <= Fraction(upper)
    assert Fraction(lower) <= sum(values[2:], Fraction(0))
    assert upper <= 1.001 * lower


def exact_values(view: ExactView, streams: Iterable[np.ndarray]) -> list[Fraction]:
    """cᵀMc of each of the streams, in rationals, by one solution for all of them."""
    C = fmpq_mat([[fmpq(*float(x).as_integer_ratio()) for x in stream] for stream in streams]).transpose()
    form = ExactView((fmpq_mat(view.G) * C).tolist(), view.N).form()
    assert form is not None
    return [form[k][k] for k in range(len(form))]


@pytest.mark.parametrize("protocol", TRAPS[3:5], ids=lambda protocol: protocol.name)
def test_a_filter_over_all_that_is_kept_would_not_do(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "restrictions", lambda *_: iter(()))
    try:
        found = sensitivity(protocol, TRAPPED, [2], contribution="scalar")
    except NotCertified:
        return
    assert found.squared_upper[0] > 2 * found.squared_lower[0]


def restricted(seen: SeenView, nodes: Any = ()) -> Restriction | None:
    """All that can be left out."""
    found = None
    for found in restriction.restrictions(seen, nodes):  # noqa: B007
        pass
    return found


def holds(protocol: Protocol, view: View, left: Restriction, targets: list[int]) -> None:
    """Check forms of a restricted filter against rationals."""
    steps = innovations(left.stages(), period=protocol.period)
    reached = np.ones(protocol.n, dtype=bool)
    response = ProgramResponse(protocol=protocol, steps=steps, bare=frozenset(), reached=reached)
    for form in response.forms(np.array(targets)):
        streams = (np.ones(protocol.rounds), (-1.0) ** np.arange(protocol.rounds))
        values = exact_values(exact_view(protocol, view, form.target), streams)
        for stream, value in zip(streams, values, strict=True):
            computed = float(stream @ form.matrix @ stream)
            high = (math.sqrt(computed + form.rounding) + form.shift) ** 2 / (1 - form.unwhite)
            low = max(0.0, math.sqrt(max(0.0, computed - form.rounding)) - form.shift) ** 2 / (
                1 + form.unwhite
            )
            assert Fraction(low * (1 - 1e-14)) <= value <= Fraction(high * (1 + 1e-14))
            assert high - low <= 1e-6 * float(value) + 1e-9


@st.composite
def views(draw: Any, nodes: int, exchanges: int) -> View:
    """Any rows of small numbers, any draws known, some exchanges alone."""
    numbers = st.sampled_from([0, 0, 1, 2, -1, 0.5])
    rows = draw(st.lists(st.lists(numbers, min_size=nodes, max_size=nodes), min_size=1, max_size=2))
    known = draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 1))
    one = draw(st.sampled_from([None, *((k + 1,) for k in range(exchanges))]))
    return View(observation=np.array(rows, dtype=float), known_noise=sorted(known), exchanges=one)


NETWORKS = [metropolis_weights("path:n=3"), metropolis_weights("star:n=4"), WEIGHTED]


@st.composite
def questions(draw: Any, most: int) -> tuple[Protocol, View, int]:
    """A program on a small network over at most so many rounds, a view of one's own, and somebody it does not know."""
    weights, program = draw(st.sampled_from(NETWORKS)), draw(programs())
    protocol = Protocol(weights=weights, program=program, rounds=draw(st.integers(2, most)))
    view = draw(views(protocol.n, len(program.exchanges)))
    known = {int(str(node)) for node in view.known_noise}
    return protocol, view, draw(st.sampled_from(sorted(set(range(protocol.n)) - known)))


@given(st.data())
def test_what_is_left_out_of_any_program_is_known(data: Any) -> None:
    """Forms of restricted states are those of the definition, for every target that they serve, and close."""
    weights = data.draw(st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2))
    weights = tuple(each for each in weights if each.n == weights[0].n)
    program = data.draw(programs())
    protocol = Protocol(weights=weights, program=program, rounds=data.draw(st.integers(2, 5)))
    view = data.draw(views(protocol.n, len(program.exchanges)))
    seen = seen_view(protocol, view)
    bare = {node for _, node in seen.bare}
    left = restricted(seen)
    if left is None:
        return
    open_to = [node for node in range(protocol.n) if node not in seen.rounds[0].known and node not in bare]
    holds(protocol, view, left, [node for node in open_to if node not in left.excited])
    if left.excited and (other := restricted(seen, left.excited)) is not None:
        assert other.excited.isdisjoint(left.excited)
        holds(protocol, view, other, open_to)


@given(questions(6))
def test_no_interval_of_a_small_view_of_any_program_is_wide(asked: tuple[Protocol, View, int]) -> None:
    protocol, view, target = asked
    found = sensitivity(protocol, view, [target], contribution="scalar")
    lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
    told = exact_view(protocol, view, target)
    if told.form() is None:
        assert lower == upper == math.inf
        return
    exact = told.value(found[target].witness.ravel().tolist())
    assert exact is not None
    assert Fraction(lower) <= exact <= Fraction(upper) * (1 + Fraction(1, 10**12))
    assert upper - lower <= 1e-2 * upper + 1e-9


@given(questions(5))
def test_a_smaller_space_of_what_is_not_known_holds_the_exact_value(
    asked: tuple[Protocol, View, int],
) -> None:
    """Every filter counts as running away here, so that all that known nodes keep is left out where it is known."""
    protocol, view, target = asked
    exact = exact_view(protocol, view, target)
    if exact.form() is None:
        return
    with mock.patch.object(engines, "RUNS_AWAY", -1.0):
        found = sensitivity(protocol, view, [target], contribution="scalar", engine="reduced")
    lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
    *values, attained = exact_values(
        exact, (np.ones(protocol.rounds), (-1.0) ** np.arange(protocol.rounds), found[target].witness.ravel())
    )
    assert math.isinf(upper) or max(values) <= Fraction(upper)
    assert Fraction(lower) <= attained


def test_a_large_network_is_served_by_a_krylov_space_of_what_is_not_known() -> None:
    """The four nodes of the trap at the rim of a larger network: one that a filter over all nodes serves as well."""
    n, rounds = 83, 24
    rest = metropolis_weights(f"erdos-renyi:n={n - 3},p=0.15,seed=1").matrix.toarray()
    W = np.zeros((n, n))
    W[3:, 3:] = 0.75 * rest
    W[:4, :4] += SHARES / 20
    np.fill_diagonal(W, 0)
    np.fill_diagonal(W, 1 - W.sum(axis=1))
    protocol = momentum(matrix_weights(W), rounds=rounds, beta="1/2")
    view = View(observation=W[[0]], known_noise=[0, 1])
    found = sensitivity(protocol, view, [2, 3, 20])
    whole = sensitivity(protocol, view, [2, 3, 20], engine="filter")
    assert (found.engine, whole.engine) == ("reduced", "filter")
    assert (found.squared_upper <= 1.001 * found.squared_lower + 1e-9).all()
    assert (found.squared_lower <= whole.squared_upper).all()
    assert (whole.squared_lower <= found.squared_upper).all()


def growing(rounds: int) -> Protocol:
    """What node 1 contributes grows in a register that no noise enters; others contribute beside noise."""
    program = Program(
        keeps=("model", "extra"),
        draws=(Draw("u"),),
        instructions=(
            Combine("extra", {"extra": -3, "contribution": (0, 1, 0, 0)}),
            Combine("message", {"model": 1, "extra": "1/8", "contribution": (1, 0, 1, 1), "u": 1}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=WEIGHTED, program=program, rounds=rounds)


def test_contributions_that_enter_what_is_known_have_a_filter_of_their_own() -> None:
    protocol = growing(14)
    left = next(iter(restriction.restrictions(seen_view(protocol, View.everyone))))
    assert left.excited == {1}
    found = sensitivity(protocol, View.everyone, contribution="scalar")
    for node in range(4):
        exact = exact_view(protocol, View.everyone, node).value(found[node].witness.ravel().tolist())
        assert exact is not None
        lower, upper = float(found.squared_lower[node]), float(found.squared_upper[node])
        assert Fraction(lower) <= exact <= Fraction(upper)
        assert upper <= lower * (1 + 1e-6)


def test_what_nobody_contributes_to_stays_infinite() -> None:
    bare = replace(TRAPS[0], program=replace(TRAPS[0].programs[0], draws=(Draw("u", level=(1, 1, 0, 1)),)))
    everyone = View(observation=np.eye(4), known_noise=[0, 1])
    found = sensitivity(bare, everyone, [2])
    assert found.method.tolist() == ["infinite"]


def test_a_false_guess_is_not_believed() -> None:
    seen = seen_view(TRAPS[3], TRAPPED)
    pairs = restriction._pairs(seen)
    names = {id(each) for each in seen.rounds}
    size, n = seen.rounds[0].compiled.size, 4
    # Nodes 2 and 3 are not known, and node 1 is not node 0.
    guess: Any = {name: {i: {} for i in range(size)} for name in names}
    kept, excited = restriction._checked(pairs, guess, ())
    assert {i % n for each in kept.values() for i in each} >= {0, 1}
    assert all(i % n in {0, 1} for later in seen.rounds[1:] for i in kept[id(later)])
    assert not excited
    wrong: Any = {name: {1: {2: Fraction(1)}, 0: {}} for name in names}
    kept, _ = restriction._checked(pairs, wrong, ())
    assert all(1 not in kept[id(later)] for later in seen.rounds[1:])


def test_spaces_come_out_of_remainders() -> None:
    space = np.array([[1, 0, 3, 0], [0, 1, -7, 0]])
    thirds = [Fraction(1, 3), Fraction(-22, 7)]
    known = residues.Remainders()
    for prime in islice(residues.primes(), 3):
        added = space.astype(np.int64) % prime
        for k, x in enumerate(thirds):
            added[k, 3] = x.numerator * pow(x.denominator, -1, prime) % prime
        move = residues.Moved(before=0, after=0, transition=np.eye(4, dtype=np.int64), added=added)
        known.join(residues.reached_spaces([move], 4, prime))
    assert known.codimension == 2
    assert known.guessed() == {0: {2: {0: 3, 1: -7}, 3: {0: thirds[0], 1: thirds[1]}}}


def test_a_prime_that_makes_spaces_smaller_is_left_out() -> None:
    known = residues.Remainders()
    for prime in (97, 101, 103):
        added = np.array([[1, 101]], dtype=np.int64) % prime, np.array([[0, 202]], dtype=np.int64) % prime
        move = residues.Moved(before=0, after=0, transition=None, added=np.vstack(added))
        known.join(residues.reached_spaces([move], 2, prime))
    assert known.codimension == 0


def test_primes_are_primes() -> None:
    found = list(islice(residues.primes(), 40))
    assert found[:4] == [2**31 - 1, 2**31 - 19, 2**31 - 61, 2**31 - 69]
    assert all(all(p % q for q in range(3, 2000, 2)) for p in found)


def test_balanced_spaces_are_the_same_spaces() -> None:
    rng = np.random.default_rng(3)
    rows = {i: {s: Fraction(int(rng.integers(-50, 50)), 7) for s in (0, 1, 2)} for i in (3, 4)}
    balanced = restriction._balanced(rows)
    assert max(abs(x) for row in balanced.values() for x in row.values()) <= restriction.LARGE
    for point in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        whole = dict(enumerate(map(Fraction, point)))
        whole |= {i: sum((x * whole[s] for s, x in row.items()), Fraction(0)) for i, row in rows.items()}
        for i, row in balanced.items():
            assert whole[i] == sum((x * whole[s] for s, x in row.items()), Fraction(0))


def hostile(registers: int, factor: Any, n: int, rounds: int) -> Protocol:
    """A chain of registers, each a mix of all before it."""
    names = ("model", *(f"r{k}" for k in range(registers - 1)))
    steps: list[Combine | Exchange] = [
        Combine("m", {**dict.fromkeys(names, factor), "contribution": 1, "u": 1})
    ]
    for name in names:
        steps += [Exchange("m", name), Combine("m", {"m": "1/2", name: factor})]
    weights = metropolis_weights(f"erdos-renyi:n={n},p=0.4,seed=2")
    return Protocol(
        weights=weights,
        program=Program(keeps=names, draws=(Draw("u"),), instructions=tuple(steps)),
        rounds=rounds,
    )


@pytest.mark.parametrize(
    ("registers", "factor", "n"),
    [(5, "1/7", 30), (2, Fraction(10**1500 + 7, 10**1500 + 9), 6), (3, "123456789/1234567", 12)],
)
def test_hostile_programs_end_soon(registers: int, factor: Any, n: int) -> None:
    protocol = hostile(registers, factor, n, 12)
    rows = np.zeros((1, n))
    rows[0, :3] = 1, 2, 3
    began = time.process_time()
    try:
        found = sensitivity(protocol, View(observation=rows, known_noise=[0, 1]), [2, 3])
    except NotCertified:
        pass
    else:
        assert (found.squared_lower <= found.squared_upper).all()
    assert time.process_time() - began < 60


def test_where_too_much_work_would_be_needed_the_interval_stays_wide_and_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    W = np.array(WEIGHTED.matrix.toarray())
    # Node 1 has no draw, and no draw of it is known: that it is known is not guessed without primes.
    silent = gossip(matrix_weights(W), rounds=30, noise_levels=(1, 0, 1, 1))
    view = View(observation=W[[0]], known_noise=[0])
    close = sensitivity(silent, view, [2], contribution="scalar")
    assert close.squared_upper[0] <= 1.001 * close.squared_lower[0]
    monkeypatch.setattr(restriction, "MOST_WORK", 0)
    wide = sensitivity(silent, view, [2], contribution="scalar")
    assert wide.squared_lower[0] <= close.squared_upper[0]
    assert wide.squared_upper[0] >= close.squared_lower[0]


def test_views_that_hear_what_known_nodes_receive_are_filtered_as_before() -> None:
    protocol = momentum(metropolis_weights("ring:n=8"), rounds=20, beta="1/2")
    for view in (View.neighbourhood(0), View.secure_sum(0)):
        assert program_response(protocol, view).steps[0].stage.size == 16
