# SPDX-License-Identifier: Apache-2.0
"""What proofs allow for rounding: above the truth in 256 bits, not far above it, and too little at a hundredth of it.

The cases are as small as they can be, because there an allowance that grows with the number of terms is close to what
rounding does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import pytest

from sottovoce.filtering import ClosedLoop, FilteredResponse, Step, hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import absolute_bound, rounding, sensitivity
from sottovoce.sensitivities.encoded import _Code, rescaled
from sottovoce.sensitivities.long_horizons import bounded_real
from sottovoce.sensitivities.long_horizons.bounded_real import backward_step
from sottovoce.sensitivities.long_horizons.model import TargetModel, dense_transition, whole_model
from sottovoce.sensitivities.long_horizons.round_by_round import _Run
from sottovoce.sensitivities.one_form import dual
from sottovoce.sensitivities.one_form.dual import is_dominated
from sottovoce.sensitivities.one_form.witnesses import value_of
from sottovoce.sensitivities.rounding import (
    congruence,
    definiteness_margin,
    followed_error,
    length_above,
    matrix_power,
    power_norms,
    root_less,
    settled_residual,
    signed_share,
    summed,
    summed_again,
    tap_errors,
    value_error,
    whitened_above,
    whitened_below,
)
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MUTANT = 0.01


@pytest.fixture(autouse=True)
def _bits() -> Iterator[None]:
    with mpmath.workprec(256):
        yield


def check(shares: list[Any]) -> None:
    """What rounding did, as shares of what was allowed: never more, and somewhere more than a hundredth."""
    assert max(shares) <= 1
    assert max(shares) > MUTANT, f"at most {float(max(shares)):.2g} of the allowance is needed"


def barely_indefinite(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Forms M of two rounds and y with diag(y) − M singular, but for what y was rounded by, downwards."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        a, b = rng.uniform(0.5, 2.0, 2)
        d = -np.sqrt(a * b)
        # diag(a, b) + [[0, d], [d, 0]] with M = −[[0, d], [d, 0]] and y = (a, b), then b is lowered to where det < 0.
        while Fraction(a) * Fraction(b) >= Fraction(d) ** 2:
            b = np.nextafter(b, 0)
        yield np.array([[0.0, -d], [-d, 0.0]]), np.array([a, b])


def test_nothing_indefinite_is_taken_for_dominated_and_a_hundredth_of_the_margin_is_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = list(barely_indefinite(4000))
    assert not any(is_dominated(form, y) for form, y in cases)
    # What is proved lies close above: the margin is 20 units of the trace.
    assert all(is_dominated(form, y + 50 * 2.0**-53 * y.sum()) for form, y in cases)
    monkeypatch.setattr(dual, "definiteness_margin", lambda *given: MUTANT * definiteness_margin(*given))
    assert any(is_dominated(form, y) for form, y in cases)


def small_model(rng: np.random.Generator, size: int) -> TargetModel:
    """A filter of a few states, of a size as those of networks have."""
    rows = np.zeros((1, size))
    rows[0, 0] = rng.uniform(0.5, 1)
    return TargetModel(
        transition=rng.uniform(-1, 1, (size, size)) / size,
        rows=rows,
        source=rng.uniform(-1, 1, size),
        gains=rng.uniform(-1, 1, (1, size, 1)),
        whiteners=rng.uniform(-1, 1, (1, 1, size)),
        rounds=10,
    )


def exact(array: np.ndarray) -> Any:
    """An array as a matrix of 256 bits."""
    return mpmath.matrix(np.asarray(array).tolist())


def most(matrix: Any) -> Any:
    """The largest eigenvalue."""
    return mpmath.eigsy(matrix, eigvals_only=True)[matrix.rows - 1]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_part_of_a_backward_step_allows_for_what_rounding_did(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: dict[str, tuple[list[np.ndarray], float]] = {}

    def watched(name: str) -> Callable[..., float]:
        whole: Callable[..., float] = getattr(rounding, name)

        def watch(*given: Any) -> float:
            allowed[name] = (
                [np.array(part) for part in given[:4] if isinstance(part, np.ndarray)],
                whole(*given),
            )
            return allowed[name][1]

        return watch

    for name in ("weight_error", "slack_error", "form_error"):
        monkeypatch.setattr(bounded_real, name, watched(name))
    rng = np.random.default_rng(size)
    shares: dict[str, list[Any]] = {"N": [], "s": [], "f(V)": []}
    for _ in range(60):
        model = small_model(rng, size)
        root = rng.uniform(-1, 1, (size, size))
        value = (root @ root.T + (root @ root.T).T) / 2
        A, C, K, D, V = (
            exact(p) for p in (model.transition, model.rows, model.gains[0], model.whiteners[0], value)
        )
        b, turn = exact(model.source), mpmath.eye(size) - K * C
        N = D.T * D + turn.T * V * turn
        y = 1.5 * float((b.T * N * b)[0])
        above, gap = backward_step(model, value, 0, y)
        (_, _, weight, _), error = allowed["weight_error"]
        shares["N"].append(most(N - exact(weight)) / error)
        # From here on what is stored counts: N as raised, and the slack.
        (raised,), error = allowed["slack_error"]
        shares["s"].append(1 + (mpmath.mpf(gap) - (mpmath.mpf(y) - (b.T * exact(raised) * b)[0])) / error)
        (raised, _, _, before), error = allowed["form_error"]
        seen = A.T * exact(raised) * b
        formed = A.T * exact(raised) * A + seen * seen.T / mpmath.mpf(gap)
        shares["f(V)"].append(most(formed - exact(before)) / error)
        # All of it together: the matrix that is returned is above the truth, and the slack below.
        slack = mpmath.mpf(y) - (b.T * N * b)[0]
        pulled = A.T * N * b
        assert most(A.T * N * A + pulled * pulled.T / slack - exact(above)) <= 0
        assert gap <= slack
    for part in shares.values():
        check(part)


def test_values_of_streams_and_sums_of_sizes_are_within_what_is_allowed() -> None:
    rng = np.random.default_rng(3)
    values, sums = [], []
    for _ in range(200):
        form = rng.uniform(-1, 1, (2, 2))
        stream = rng.uniform(-1, 1, (2, 1)) / 1.01
        true = sum(
            Fraction(form[s, t]) * Fraction(stream[s, 0]) * Fraction(stream[t, 0])
            for s in range(2)
            for t in range(2)
        )
        values.append(
            abs(Fraction(value_of(form, stream)) - true) / Fraction(value_error(form, np.abs(form).sum()))
        )
        true = sum(abs(Fraction(entry)) for entry in form.ravel().tolist())
        raised = Fraction(float(absolute_bound(form)))
        assert raised >= true
        sums.append(1 - (raised - true) / (true * Fraction(summed(4) - 1)))
    check(values)
    check(sums)


def loop_of(rng: np.random.Generator, size: int) -> ClosedLoop:
    return ClosedLoop(loop=rng.uniform(-1, 1, (size, size)) / size, whitener=rng.uniform(-1, 1, (1, size)))


@pytest.mark.parametrize("size", [1, 2])
def test_lags_and_powers_of_a_loop_are_within_what_is_allowed(size: int) -> None:
    rng = np.random.default_rng(size)
    taps_off, powers_off = [], []
    for _ in range(40):
        closed = loop_of(rng, size)
        taps = closed.taps(6)
        errors = tap_errors(closed, taps)
        true = exact(closed.whitener)
        for lag in range(6):
            off = mpmath.norm(exact(taps[lag]) - true, 2)
            assert off <= errors[lag]
            taps_off += [off / errors[lag]] if lag else []
            true = true * exact(closed.loop)
        power, off = matrix_power(closed, 5)
        powers_off.append(mpmath.norm(exact(power) - exact(closed.loop) ** 5, 2) / off)
    check(taps_off)
    check(powers_off)


@pytest.mark.parametrize("graph", ["path:n=3", "ring:n=3"])
def test_states_that_are_followed_are_within_what_is_allowed(graph: str) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=6)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    run, model = _Run.of(response, 0), whole_model(response, 0)
    A, C, b = exact(dense_transition(response)), exact(response.rows), exact(response.source(0))
    rng, shares = np.random.default_rng(1), []
    for _ in range(60):
        stream = rng.uniform(-1, 1, 6)
        sizes: list[float] = []
        shown = run.shown(stream[:, None], sizes)
        state, off = mpmath.zeros(response.size, 1), []
        for t in range(6):
            state = A * state + b * mpmath.mpf(stream[t])
            off += list(exact(response.whitener(t)) * state - exact(shown[t]))
            state = state - exact(response.gains.gain[response.gains.at(t)]) * (C * state)
        shares.append(mpmath.norm(mpmath.matrix(off), 2) / followed_error(model, 6, sum(sizes)))
    check(shares)


def test_settled_states_and_their_lengths_are_within_what_is_allowed() -> None:
    rng = np.random.default_rng(9)
    residuals, lengths = [], []
    for _ in range(60):
        closed, source = loop_of(rng, 2), rng.uniform(-1, 1, (2, 1))
        steady = np.linalg.solve(np.eye(2) - closed.loop, source)
        true = mpmath.norm(exact(steady) - exact(closed.loop) * exact(steady) - exact(source), 2)
        residuals.append(true / settled_residual(closed, steady, 1.0, source)[0])
        # A form that nearly vanishes on the state: its own rounding is all that is left.
        root = rng.uniform(0.5, 1, 2)
        gram, state = np.outer(root, root), np.array([[root[1]], [-root[0]]])
        form = (exact(state).T * exact(gram) * exact(state))[0]
        assert mpmath.sqrt(abs(form)) <= length_above(state, gram)[0]
        lengths.append(abs(form) / mpmath.mpf(length_above(state, gram)[0]) ** 2)
    check(residuals)
    check(lengths)


def test_a_lower_end_that_all_but_cancels_is_below_the_formula() -> None:
    rng = np.random.default_rng(5)
    cases = [(3.6934337890984936e-05, 0.0009983765787513902, 37)]
    for _ in range(200):
        rounds, distortion = int(rng.integers(2, 200)), float(10 ** rng.uniform(-12, -2))
        # Just above what the shift takes away.
        cases.append((distortion**2 * rounds * (1 + float(10 ** rng.uniform(-13, -2))), distortion, rounds))
    with mpmath.workprec(256):
        for attained, distortion, rounds in cases:
            low, _ = rounding.widened(
                np.array([attained]), np.array([1.0]), distortion=distortion, missing=0.0, rounds=rounds
            )
            d = mpmath.mpf(distortion)
            exact = max(mpmath.sqrt(attained) - d * mpmath.sqrt(rounds), 0) / (1 + d)
            assert mpmath.mpf(float(low[0])) <= exact**2


def test_signs_of_turning_vectors_attain_their_share_and_little_more() -> None:
    rounds, frequency = 300, 1.0
    time = np.arange(rounds)
    form = np.cos(frequency * np.subtract.outer(time, time))
    turning = np.column_stack([np.cos(frequency * time), np.sin(frequency * time)])
    phases = np.linspace(0, np.pi, 64, endpoint=False)
    signs = np.where(np.cos(frequency * time[:, None] + phases) < 0, -1.0, 1.0)
    best = max(value_of(form, stream) for stream in signs.T) / value_of(form, turning)
    (share, *others) = signed_share(np.array([frequency, 0.0, np.pi]))
    assert share <= best <= 1.01 * share
    assert others == [1.0, 1.0]
    assert Fraction(float(share)) < Fraction(8) / Fraction(str(mpmath.pi)) ** 2


def random_code(rng: np.random.Generator, rounds: int) -> tuple[_Code, Any]:
    """A code of random rationals in floats, and C itself."""
    column = [
        Fraction(int(x), int(y)) for x, y in rng.integers(1, 1000, (rounds, 2)) * (rng.choice([-1, 1]), 1)
    ]
    C = mpmath.matrix(rounds, rounds)
    for t in range(rounds):
        for s in range(t + 1):
            C[t, s] = mpmath.mpf(column[t - s].numerator) / column[t - s].denominator
    return _Code.of(gossip(metropolis_weights("ring:n=3"), rounds=rounds, encoder=tuple(column))), C


def test_sizes_of_codes_are_above_the_truth() -> None:
    rng, shares = np.random.default_rng(5), dict[str, list[Any]](w=[], cap=[])
    for rounds in (1, 2, 3) * 40:
        code, C = random_code(rng, rounds)
        plain = np.abs(code.matrix).sum(axis=1)
        truth = [mpmath.fsum(abs(C[t, s]) for s in range(rounds)) for t in range(rounds)]
        shares["w"] += [
            (w - p) / (mpmath.mpf(r) - p) for w, p, r in zip(truth, plain, code.sizes, strict=True)
        ]
        whole, near = mpmath.fsum(w * w for w in truth), float((plain**2).sum())
        shares["cap"].append((whole - near) / (code.cap - near))
    for each in shares.values():
        check(each)


def test_coded_forms_and_streams_are_off_by_no_more_than_is_said() -> None:
    rng, shares = np.random.default_rng(6), dict[str, list[Any]](form=[], stream=[])
    for rounds in (1, 2, 3) * 40:
        code, C = random_code(rng, rounds)
        root = rng.uniform(-1, 1, (rounds, rounds))
        form = root.T @ root
        form = (form + form.T) / 2
        coded, off = code.form(form)
        error = exact(coded) - C.T * exact(form) * C
        shares["form"].append(mpmath.fsum(abs(x) for x in error) / off)
        stream = rng.integers(0, 2, rounds) + (np.arange(rounds) == 0.0)
        sent, slip = code.sent(stream)
        shares["stream"].append(mpmath.norm(exact(sent) - C * exact(stream)) / slip)
    for each in shares.values():
        check(each)


@pytest.mark.parametrize("level", ["1/3", "3/7", "1e-90", "7e90"])
def test_other_levels_move_ends_outwards_by_a_few_units(level: str) -> None:
    found = sensitivity(gossip(metropolis_weights("ring:n=5"), rounds=4), View.neighbourhood(0))
    moved, share = rescaled(found, found.scenario, Fraction(level)), 1 / Fraction(level) ** 2
    for before, after, sign in (
        (found.squared_lower, moved.squared_lower, -1),
        (found.squared_upper, moved.squared_upper, 1),
    ):
        off = [
            sign * (Fraction(b) - Fraction(a) * share) / Fraction(b)
            for a, b in zip(before, after, strict=True)
        ]
        assert min(off) >= 0
        assert max(off) <= 8 * Fraction(2) ** -53


def test_forms_carried_back_a_step_are_within_what_is_allowed() -> None:
    protocol = gossip(metropolis_weights("path:n=3"), rounds=4)
    response = whitened_response(hidden_system(protocol, observe(protocol, View.secure_sum(0))))
    assert isinstance(response, FilteredResponse)
    step = Step.of(dense_transition(response), response.rows, response.gains.gain)
    rng, shares = np.random.default_rng(3), []
    for t in [1, 2, 3] * 10:
        root = rng.uniform(-1, 1, (response.size, response.size))
        form = (root @ root.T + (root @ root.T).T) / 2
        found, half = congruence(response, form, t)
        A, C = exact(dense_transition(response)), exact(response.rows)
        moved = A * (mpmath.eye(response.size) - exact(response.gains.gain[response.gains.at(t)]) * C)
        allowed = step.error * (half + step.stretch * float(np.linalg.norm(form)))
        shares.append(mpmath.norm(moved.T * exact(form) * moved - exact(found), 2) / allowed)
    check(shares)


def test_norms_of_powers_are_above_the_true_ones() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        closed = loop_of(rng, 3)
        norms = power_norms(closed, 9)
        for k in range(9):
            true = mpmath.sqrt(most((exact(closed.loop) ** k).T * exact(closed.loop) ** k))
            assert true <= 1.01 * norms[k]
            # One factor for each binary digit.
            assert norms[k] <= 1.001 * mpmath.sqrt(most(exact(closed.loop).T * exact(closed.loop))) ** k


def test_a_root_less_a_shift_is_below_the_truth_and_next_to_it() -> None:
    rng = np.random.default_rng(2)
    squared, shift = rng.uniform(1, 4, 200), rng.uniform(0.1, 0.9, 200)
    for low, a, s in zip(root_less(squared, shift), squared, shift, strict=True):
        true = mpmath.sqrt(mpmath.mpf(a)) - mpmath.mpf(s)
        assert true * (1 - mpmath.mpf(2) ** -48) <= low <= true


def test_ends_of_a_form_that_is_not_quite_white_are_on_both_sides_of_the_formula() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        squared, shift, unwhite = rng.uniform(1, 4), rng.uniform(0, 1e-3), rng.uniform(0, 1e-6)
        root, s, eta = mpmath.sqrt(mpmath.mpf(squared)), mpmath.mpf(shift), mpmath.mpf(unwhite)
        above = float(whitened_above(np.array(squared), shift, unwhite))
        below = float(whitened_below(np.array(squared), shift, unwhite))
        high, low = (root + s) ** 2 / (1 - eta), (root - s) ** 2 / (1 + eta)
        assert high <= above <= high * (1 + mpmath.mpf(2) ** -47)
        assert low * (1 - mpmath.mpf(2) ** -47) <= below <= low
    assert whitened_above(np.array(1.0), 0.0, 0.5) == np.inf
    assert whitened_below(np.array(1.0), np.inf, 0.0) == 0


def test_a_sum_in_another_order_stays_below_what_is_said_again() -> None:
    y = np.random.default_rng(6).uniform(0, 1, 440)
    assert sum(y.tolist()) <= summed_again(float(y[::-1].sum())) <= (1 + 1e-12) * float(y.sum())


def test_norms_hold_where_squares_underflow() -> None:
    assert 1.5e-162 * 1.5e-162 == 0
    for size in (1.5e-162, 1e-160, 1e-155, 1e-150, 1.0):
        entries = np.full((2, 3), size)
        whole = Fraction(size) ** 2 * 6
        assert whole <= Fraction(rounding.squared(entries)) * Fraction(1.01)
        assert whole <= (Fraction(rounding.norm(entries)) * Fraction(1.01)) ** 2
        assert rounding.norm(entries) <= 1.001 * 6**0.5 * size + 2e-150
