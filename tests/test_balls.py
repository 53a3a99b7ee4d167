# SPDX-License-Identifier: Apache-2.0
"""The verifier in balls: it is what the definition says, and floats accept nothing that it refutes."""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from hypothesis import given
from hypothesis import strategies as st
from tests import test_shift_certificates as training
from tests.interpreter import exact_view, knowing
from tests.profiles import examples
from tests.scenes import EVERY_PROTOCOL, PROTOCOLS, VIEWS
from tests.test_verification import CASES, certificate_for, claim, reference_form

from sottovoce import View, certify, gossip, verify
from sottovoce.certificates import Certificate, DenseProof, HorizonProof, StatedView, from_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.participation import Participation
from sottovoce.protocols import Draw, Program, Protocol, pairwise_noise
from sottovoce.protocols.rationals import float_above, float_below
from sottovoce.verification import Verification, balls
from sottovoce.verification.balls import averaging
from sottovoce.verification.balls.numbers import decided, fraction, largest_sum, positive, proved_below
from sottovoce.verification.balls.seen import seen
from sottovoce.verification.forms import ComputedForm, _toeplitz, dense_form, seen_blocks
from sottovoce.verification.hidden import HiddenNodes, hidden_nodes
from sottovoce.verification.meaning import program_question, question

RING = metropolis_weights("ring:n=5")
# Any other target of the same graph and view is checked by the same matrices.
ONE_TARGET = list({(case["graph"], case["threat"]): case for case in CASES}.values())


def both(certificate: Certificate, network: Any) -> tuple[Verification, Verification]:
    """What floats and balls say of a certificate; never do floats accept what balls refute."""
    floats, exact = (verify(certificate, network, arithmetic=arithmetic) for arithmetic in ("float", "balls"))
    # Of another graph nothing is sought at all.
    assert (floats.arithmetic, exact.arithmetic) == ("float", "balls" if exact.checks[0].holds else "float")
    assert exact.upper_holds >= floats.upper_holds
    assert exact.lower_holds >= floats.lower_holds
    assert [check.name for check in floats.checks] == [check.name for check in exact.checks]
    return floats, exact


# Balls themselves.


def test_positive_tells_the_three_cases_apart() -> None:
    assert positive(arb_mat([[2, 1], [1, 2]])) is True
    assert positive(arb_mat([[1, 2], [2, 1]])) is False
    assert positive(arb_mat([[1, 0, 0], [0, 0, 0], [0, 0, 3]])) is True
    assert positive(arb_mat([[0, 1], [1, 0]])) is None
    assert positive(arb_mat([[arb(1, 2), 0], [0, 1]])) is None
    assert positive(arb_mat([[arb("nan")]])) is None


def test_a_question_is_asked_at_higher_precision_until_it_is_decided() -> None:
    asked = []

    def above_a_third() -> bool | None:
        asked.append(ctx.prec)
        third, near = arb(1) / 3, arb(1) / 3 + arb(2) ** -300
        return True if near > third else False if near <= third else None

    before = ctx.prec
    assert decided(above_a_third) is True
    assert asked == [128, 256, 512]
    assert ctx.prec == before
    assert decided(lambda: None) is None


@pytest.mark.parametrize(
    "number", [Fraction(1, 3), Fraction(-2, 7), Fraction(10) ** 400, Fraction(1, 10**400), Fraction(1)]
)
def test_a_number_is_rounded_down_to_a_float(number: Fraction) -> None:
    quotient = proved_below(lambda: arb(number.numerator) / arb(number.denominator))
    assert quotient <= number
    assert quotient in {float_below(number), np.nextafter(float_below(number), -np.inf)}
    assert proved_below(lambda: arb("nan")) == -np.inf


@examples(80)
@given(
    st.sampled_from(
        [
            "full",
            "every:2",
            "every:3,offset=2",
            "fixed:1,3",
            "at-most:2",
            "at-most:9",
            "separated:2",
            "separated:3,at-most=2",
        ]
    ),
    st.lists(st.integers(0, 9), min_size=3, max_size=7),
)
def test_the_largest_sum_is_that_of_the_worst_pattern(spelled: str, values: list[int]) -> None:
    participation = Participation.parse(spelled)
    sums = (sum(values[t] for t in pattern) for pattern in participation.patterns(len(values)))
    assert largest_sum(participation, [Fraction(x) for x in values]) == max(sums)


# What is seen.


def asked_of(protocol: Protocol, view: View, target: int) -> Any:
    """The question of a certificate that proves nothing, about a protocol whose nodes have their indices as names."""
    certificate = certificate_for(RING, np.eye(5), [], 1, protocol.rounds)
    stated = StatedView(
        name=view.name,
        observers=tuple(view.observers),
        own_noise="known" if view.name == "everyone" else view.own_noise,
        exchanges=view.exchanges,
    )
    return program_question(replace(certificate, view=stated, target=target), protocol)


@EVERY_PROTOCOL
def test_m_holds_the_rationals_of_the_interpreter(protocol: Protocol) -> None:
    finite = 0
    for view in VIEWS:
        if view.exchanges is not None and max(view.exchanges) > max(
            len(p.exchanges) for p in protocol.programs
        ):
            continue
        target = next(k for k in (2, 3) if k not in knowing(view) or k == 3)
        if target in knowing(view):
            continue
        exact = exact_view(protocol, view, target).form()
        shown = seen(asked_of(protocol, view, target), range(protocol.rounds))
        assert bool(shown.bare) == (exact is None)
        if exact is None:
            continue
        finite += 1
        with ctx.workprec(128):
            M = averaging._form(shown)
            for s, t in itertools.product(range(protocol.rounds), repeat=2):
                low, high = (fraction(end.fmpq()) for end in (M[s, t].lower(), M[s, t].upper()))
                assert low <= exact[s][t] <= high
                assert high - low < Fraction(1, 10**20)
    assert finite


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0]])
def test_an_edge_is_there_as_soon_as_one_of_its_directions_is(order: list[int]) -> None:
    """A ring in which each node hears one other, whichever has the larger index; the noise of edges meets both ends."""
    W = (np.eye(4) + np.roll(np.eye(4), 1, axis=0))[np.ix_(order, order)] / 2
    protocol = pairwise_noise(W, rounds=3, local=1, shared=2)
    for view in (View.neighbourhood(0), View.everyone):
        exact = exact_view(protocol, view, 2).form()
        shown = seen(asked_of(protocol, view, 2), range(3))
        assert exact is not None
        M = shown.gain.transpose() * (shown.noise * shown.noise.transpose()).solve(shown.gain)
        assert [[fraction(x) for x in row] for row in M.tolist()] == exact
    assert all(found.verified for found in both(certify(protocol, View.neighbourhood(0), 2), protocol))


# The lists of the other tests.


@pytest.mark.parametrize("case", ONE_TARGET, ids=lambda c: f"{c['graph']}-{c['threat']}-{c['target']}")
def test_floats_and_balls_agree_on_the_reference_cases(case: Any) -> None:
    W, C, known, target, rounds = (case[name] for name in ("W", "observation", "known_noise", "target", "T"))
    M = reference_form(np.array(W), np.array(C), known, target, rounds)
    certificate = certificate_for(np.array(W), np.array(C), known, target, rounds)
    good = claim(certificate, M)
    weights = matrix_weights(np.array(W))
    assert all(found.verified for found in both(good, weights))
    lower = replace(good, squared_lower=min(good.squared_lower * (1 + 1e-6) + 1e-6, good.squared_upper))
    assert (
        not any(found.lower_holds for found in both(lower, weights))
        or lower.squared_lower == good.squared_upper
    )
    alive = np.diag(M) > 1e-12
    if alive.any():
        y = np.where(alive, good.proof.y, 0.0)
        scaled = M[np.ix_(alive, alive)] / np.sqrt(np.outer(y[alive], y[alive]))
        y *= 0.9 * float(np.linalg.eigvalsh(scaled)[-1])
        assert not any(found.upper_holds for found in both(claim(certificate, M, y=y), weights))


@EVERY_PROTOCOL
def test_floats_and_balls_agree_on_programs(protocol: Protocol) -> None:
    place = PROTOCOLS.index(protocol)
    contributions: Any = itertools.islice(itertools.cycle(["vector", "scalar", "energy"]), place, None)
    families = ["full", "every:2", "fixed:2", "at-most:2", "separated:2"]
    for view, family, contribution in zip(VIEWS[1:6], families, contributions, strict=False):
        if 3 in knowing(view) or (protocol.rounds == 1 and family != "full"):
            continue
        try:
            made = certify(protocol, view, 3, contribution=contribution, participation=family)
        except NotCertified:
            continue
        assert all(found.verified for found in both(made, protocol))
        for bolder in (
            replace(made, squared_upper=made.squared_upper * 0.999, squared_lower=0.0),
            replace(made, squared_lower=made.squared_lower * 1.001, squared_upper=made.squared_upper * 2),
        ):
            if made.squared_lower:
                assert not any(found.verified for found in both(bolder, protocol))


@pytest.mark.parametrize("name", training.CASES)
def test_floats_and_balls_agree_on_training(name: str) -> None:
    weights, certificate = training.CASES[name][0], training.case(name)
    floats, exact = both(certificate, weights)
    assert floats.verified
    assert exact.verified
    # Nothing is lost to rounding, so both ends are closer to the truth.
    assert floats.squared.lower <= exact.squared.lower * (1 + 1e-15)
    assert exact.squared.upper <= floats.squared.upper
    lower, upper = exact.squared.lower, exact.squared.upper
    for bolder in (
        replace(certificate, squared_upper=upper * (1 - 1e-12), squared_lower=0.0),
        replace(certificate, squared_lower=lower * (1 + 1e-12), squared_upper=1e6),
    ):
        if lower:
            assert not any(found.verified for found in both(bolder, weights))


FORGED = next(
    mark.args[1]
    for mark in training.test_a_forged_field_is_not_verified.pytestmark
    if mark.name == "parametrize"
)


@pytest.mark.parametrize(
    ("place", "value"),
    FORGED,
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_balls_refuse_what_was_forged_about_training(place: tuple[Any, ...], value: Any) -> None:
    text = training.forged(training.short(), *place, value=value)
    try:
        floats, exact = both(from_text(text), training.RING)
    except (InputError, NotCertified):
        return
    assert floats.verdict == exact.verdict


# The edge.


def edge(graph: str, rounds: int) -> tuple[Certificate, Fraction]:
    """A certificate without an end, and the exact Δ² of a target whose M has no negative entry."""
    protocol = gossip(metropolis_weights(graph), rounds=rounds)
    certificate = certify(protocol, View.secure_sum(0), 1)
    M = exact_view(protocol, View.secure_sum(0), 1).form()
    assert M is not None
    assert all(x >= 0 for row in M for x in row)
    y = [float_above(sum(row, Fraction(0))) for row in M]
    total = sum((x for row in M for x in row), Fraction(0))
    proof = DenseProof(y=np.array(y), witness=np.ones((rounds, 1)))
    return replace(certificate, proof=proof), total


@pytest.mark.parametrize(("graph", "rounds"), [("complete:n=4", 1), ("complete:n=8", 3), ("star:n=6", 1)])
def test_balls_accept_what_is_true_by_a_hair_and_refuse_what_is_false_by_one(graph: str, rounds: int) -> None:
    certificate, truth = edge(graph, rounds)
    weights = metropolis_weights(graph)
    high = float_above(sum((Fraction(x) for x in certificate.proof.y), Fraction(0)))  # type: ignore[union-attr]
    assert high - truth < Fraction(1, 10**14)
    low = np.nextafter(float_below(truth), 0)
    tight = replace(certificate, squared_lower=float(low), squared_upper=high)
    floats, exact = both(tight, weights)
    # The margins of floats cannot tell such a claim from a false one.
    assert not floats.upper_holds
    assert exact.verified, exact.reason
    for step in (1e-12, 1e-15):
        below = replace(tight, squared_lower=0.0, squared_upper=float(truth) * (1 - step))
        y = np.array(certificate.proof.y) * (1 - 2 * step)  # type: ignore[union-attr]
        assert isinstance(tight.proof, DenseProof)
        found = verify(replace(below, proof=replace(tight.proof, y=y)), weights, arithmetic="balls")
        assert not found.upper_holds
        assert "balls refute it" in found.reason
        above = replace(tight, squared_lower=float(truth) * (1 + step), squared_upper=float(rounds))
        assert not verify(above, weights, arithmetic="balls").lower_holds


def test_what_no_precision_decides_is_refused() -> None:
    """A sum of two equal draws hides one of them by half, exactly: y = 1/2 leaves a 0 that balls only surround."""
    weights = metropolis_weights("complete:n=3")
    certificate = certify(gossip(weights, rounds=1), View.secure_sum(0), 1)
    half = replace(certificate, proof=DenseProof(y=np.array([0.5])), squared_lower=0.0, squared_upper=0.5)
    found = verify(half, weights, arithmetic="balls")
    assert found.verdict == "refused"
    assert found.reason.endswith("balls of 512 bits do not decide it")
    more = replace(half, squared_upper=float(np.nextafter(0.5, 1)))
    assert verify(more, weights, arithmetic="balls").verified


@examples(60)
@given(
    st.sampled_from(PROTOCOLS[:12]),
    st.sampled_from(VIEWS[1:6]),
    st.sampled_from(["vector", "scalar", "energy"]),
    st.floats(-1e-3, 1e-3),
    st.integers(0, 12),
)
def test_floats_never_accept_what_balls_refute(
    protocol: Protocol, view: View, contribution: Any, room: float, power: int
) -> None:
    if 3 in knowing(view):
        return
    try:
        made = certify(protocol, view, 3, contribution=contribution)
    except NotCertified:
        return
    factor = 1 + room * 10.0**-power
    assert isinstance(made.proof, DenseProof)
    y = None if made.proof.y is None else made.proof.y * factor
    squeezed = replace(
        made,
        proof=replace(made.proof, y=y),
        squared_upper=made.squared_upper * factor,
        squared_lower=min(made.squared_lower / factor, made.squared_upper * factor),
    )
    both(squeezed, protocol)


# Which arithmetic it is.


def test_auto_takes_balls_where_the_claim_is_small() -> None:
    small = certify(gossip(RING, rounds=4), View.secure_sum(0), 1)
    found = verify(small, RING)
    assert (found.arithmetic, found.why_float) == ("balls", "")
    many = metropolis_weights("karate")
    large = certify(gossip(many, rounds=40), View.secure_sum(0), 7)
    found = verify(large, many)
    assert found.verified
    assert found.arithmetic == "float"
    assert "in balls this claim takes about" in found.why_float
    assert verify(small, RING, arithmetic="float").why_float == ""


def test_what_is_too_large_for_balls_is_refused_before_work() -> None:
    certificate = certificate_for(RING, np.eye(5)[[0]], [0], 1, 100_000, squared_upper=1e5)
    for proof in (DenseProof(), HorizonProof(start=np.ones(3), rate=1.0)):
        with pytest.raises(NotCertified, match="in balls this claim takes about inf operations"):
            verify(replace(certificate, proof=proof), RING, arithmetic="balls")
    long = replace(training.long(), rounds=2**40, squared_lower=0.0, squared_upper=2.0**40)
    with pytest.raises(NotCertified, match="or arithmetic float"):
        verify(long, training.RING, arithmetic="balls")


def test_without_python_flint_floats_serve_or_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = certify(gossip(RING, rounds=4), View.secure_sum(0), 1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs the package python-flint.*pip install '\.\[verify\]'"):
        verify(certificate, RING, arithmetic="balls")
    found = verify(certificate, RING)
    assert found.verified
    assert found.arithmetic == "float"
    assert "python-flint, which brings balls, is not installed" in found.why_float


def test_another_arithmetic_is_refused() -> None:
    certificate = certify(gossip(RING, rounds=4), View.secure_sum(0), 1)
    with pytest.raises(InputError, match="arithmetic must be one of auto, float, balls; got 'exact'"):
        verify(certificate, RING, arithmetic="exact")  # type: ignore[arg-type]


def test_work_counts_the_length_of_numbers() -> None:
    certificate = certify(gossip(RING, rounds=4), View.secure_sum(0), 1)
    plain = balls.work(certificate, (RING,))
    assert plain < balls.SMALL < balls.MOST_WORK
    level = tuple(Fraction(1, 10**398 + 2 * k + 1) for k in range(5))
    assert isinstance(certificate.program, Program)
    long = replace(certificate, program=replace(certificate.program, draws=(Draw("u", level=level),)))
    assert balls.work(long, (RING,)) > 50 * plain


def test_long_weights_count_whichever_node_has_them() -> None:
    weights = np.array([[2.0, 2, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1], [0, 0, 2, 2]]) / 4
    weights[3, 2:] = 2.0**-30, 1 - 2.0**-30
    last, first = (
        averaging._bits(asked_of(gossip(weights[np.ix_(order, order)], rounds=3), View.everyone, 2))
        for order in ([0, 1, 2, 3], [3, 2, 1, 0])
    )
    assert first == last > 3 * 30


def test_what_is_too_long_for_balls_is_left_to_floats() -> None:
    ring = gossip(metropolis_weights("ring:n=5"), rounds=5000)
    found = verify(certify(ring, View.secure_sum(0), 1), ring)
    assert (found.verdict, found.arithmetic) == ("verified", "float")


def one_rounding_each(hidden: HiddenNodes, form: ComputedForm, rounds: int) -> float:
    """How far D⁻¹ M D⁻¹ moves, to first order, when every number is rounded once, each the way that does most.

    With x = D⁻¹v, w = K⁻¹ G x and h = L⁻¹ G x the value is f = ‖h‖² for a direction v, an eigenvector of M. One unit u
    for each entry of C, A and the products A·Aᵏ⁻¹ makes 2k + 1 for block k of N; K, L, F = L⁻¹G and M are rounded
    once; x_j stands at the columns of the target:

        u (2|w|ᵀ (2k + 1)|N| |x_j − Nᵀw| + |w|ᵀ(|K| + |L||L|ᵀ)|w| + 2|h|ᵀ|F||x| + |x|ᵀ|M||x|).
    """
    found = seen_blocks(hidden, rounds)
    L, G = found.factor, _toeplitz([each[:, hidden.target] for each in found.responses])[: found.kept]
    F = np.linalg.solve(L, G)
    rounded = [(2 * k + 1) * np.abs(each) for k, each in enumerate(found.responses)]
    nodes = range(hidden.rows.shape[1])
    N, sizes = (
        np.stack([_toeplitz([each[:, k] for each in blocks])[: found.kept] for k in nodes])
        for blocks in (found.responses, rounded)
    )
    scaled = (form.matrix / np.outer(form.scale, form.scale))[np.ix_(form.alive, form.alive)]
    moved = []
    for v in np.linalg.eigh(scaled)[1].T:
        x = np.zeros(rounds)
        x[form.alive] = v / form.scale[form.alive]
        h = F @ x
        w = np.linalg.solve(L.T, h)
        slopes = -np.einsum("kai,a->ki", N, w)
        slopes[hidden.target] += x
        X, W = np.abs(x), np.abs(w)
        moved.append(
            2 * np.einsum("a,kai,ki->", W, sizes, np.abs(slopes))
            + W @ (np.abs(found.gram) + np.abs(L) @ np.abs(L).T) @ W
            + 2 * np.abs(h) @ np.abs(F) @ X
            + X @ np.abs(form.matrix) @ X
        )
    return float(max(moved)) * UNIT_ROUNDOFF


@pytest.mark.parametrize(
    ("graph", "view", "rounds"),
    [
        ("ring:n=8", View.secure_sum(0), 12),
        ("erdos-renyi:n=12,p=0.4,seed=1", View.neighbourhood(0), 8),
        ("star:n=6", View.secure_sum(0), 20),
        ("karate", View.coalition_sums([0, 7]), 5),
    ],
)
def test_the_margin_of_floats_covers_the_form_in_balls(graph: str, view: View, rounds: int) -> None:
    """M_true ⪯ M + margin·D² against 256 bits, with no room but the margin, which is not a thousand times too large.

    The second is held against what one rounding of each number may do, not against what those of this run happened to.
    """
    weights = metropolis_weights(graph)
    protocol = gossip(weights, rounds=rounds)
    certificate = certify(protocol, view, weights.labels[2])
    hidden = hidden_nodes(question(certificate, weights), complete=True)
    form = dense_form(hidden, rounds)
    before, ctx.prec = ctx.prec, 256
    exact = averaging._form(seen(program_question(certificate, protocol), range(rounds)))
    off = np.array(
        [
            [float((exact[s, t] - arb(float(form.matrix[s, t]))).mid()) for t in range(rounds)]
            for s in range(rounds)
        ]
    )
    ctx.prec = before
    scaled = (off / np.outer(form.scale, form.scale))[np.ix_(form.alive, form.alive)]
    errors = np.linalg.eigvalsh((scaled + scaled.T) / 2)
    assert errors[-1] <= form.margin < 1e-12
    assert form.margin <= 1000 * one_rounding_each(hidden, form, rounds)


# What floats lose on their way is seen all the same.


@pytest.mark.parametrize(
    ("W", "rows", "known"),
    [
        # Two rows whose basis in floats has 0 where the first node stands.
        ([[0.5, 0.5, 0], [0.25, 0.5, 0.25], [0, 0.5, 0.5]], [[1e-90, 0, 1], [1e-90, -1e-30, 1]], []),
        # A row beside the inflow of a known node, which hears of another by very little.
        (
            [[0.5, 1e-90, 0.25, 0.25], [0.25, 0.75, 0, 0], [0, 0.25, 0.25, 0.5], [0.25, 1e-90, 0, 0.75]],
            [[1, 0, 0.1, 1 / 3]],
            [3],
        ),
        ([[0.5, 1e-90, 0.5], [0.25, 0.75, 0], [0.5, 0, 0.5]], [[1, 0, 0.1], [0.3, 0, 0.5]], []),
    ],
)
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("target", [0, 1])
def test_no_contribution_is_so_weak_that_floats_take_it_for_unseen(
    W: Any, rows: Any, known: Any, rounds: int, target: int
) -> None:
    weights, C = matrix_weights(np.array(W, dtype=float)), np.array(rows, dtype=float)
    M = exact_view(gossip(weights, rounds=rounds), View(observation=C, known_noise=known), target).form()
    assert M is not None
    certificate = certificate_for(weights, C, known, target, rounds)
    for y in (np.zeros(rounds), np.array([float(M[t][t]) for t in range(rounds)])):
        found = verify(replace(certificate, proof=DenseProof(y=y)), weights, arithmetic="float")
        assert Fraction(found.squared.upper) >= max(M[t][t] for t in range(rounds))
        assert Fraction(found.squared.upper) >= sum(sum(row) for row in M)
        assert found.squared.upper <= rounds


def test_weights_and_factors_that_could_underflow_are_refused_in_floats() -> None:
    W = np.array([[1.0, 1e-120], [0.5, 0.5]])
    for weights, damping in ((matrix_weights(W), None), (matrix_weights(np.full((2, 2), 0.5)), [1, 1e-120])):
        protocol = gossip(weights, rounds=2, damping=damping)
        certificate = certificate_for(weights, np.eye(2)[:1], [], 1, 2, program=protocol.program)
        hint = replace(certificate, proof=DenseProof(y=np.ones(2)))
        with pytest.raises(NotCertified, match="must be 0 or at least 1e-100"):
            verify(hint, protocol, arithmetic="float")
        assert verify(hint, protocol, arithmetic="balls").upper_holds
