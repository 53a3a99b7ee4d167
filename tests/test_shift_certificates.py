# SPDX-License-Identifier: Apache-2.0
"""Certificates of kind shift: what is written is verified, what was changed is refused, both ends are what they say."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import View, certify, gaussian, gossip, graphs, sensitivity
from sottovoce.certificates import Certificate, LoopAttack, Mechanism, ShiftProof, from_text, to_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.participation import Participation
from sottovoce.protocols import check_zero_out
from sottovoce.verification import attacks, checking
from sottovoce.verification import verify as verify_in
from sottovoce.verification.asked import training_question
from sottovoce.verification.meaning import question

if TYPE_CHECKING:
    from sottovoce.verification.asked import TrainingQuestion

# What is told here is told of floats; tests/test_balls.py holds them against balls.
verify = functools.partial(verify_in, arithmetic="float")
RING = graphs.metropolis_weights("ring:n=7")
COMPLETE = graphs.metropolis_weights("complete:n=4")
# All but complete: node 0 weighs two of the others a last bit apart.
BENT = graphs.matrix_weights(
    np.vstack([[0.25, np.nextafter(0.25, 1), np.nextafter(0.25, 0), 0.25], np.full((3, 4), 0.25)])
)
LEVELS = [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 1.0]
NOISE = Mechanism(noise_multiplier=4.0, delta=1e-5)


def certified(
    weights: Any = RING,
    *,
    rounds: int,
    updates: Any,
    view: View | None = None,
    target: Any = 1,
    **options: Any,
) -> Certificate:
    levels = options.pop("noise_levels", None)
    protocol = gossip(weights, rounds=rounds, updates=updates, noise_levels=levels)
    return certify(protocol, view or View.secure_sum(0), target, **options)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "shift, round by round": (
        RING,
        {"rounds": 4, "updates": (0.5, 1), "noise_levels": LEVELS, "mechanism": NOISE},
    ),
    "shift, layered": (RING, {"rounds": 400, "updates": (0.9, 1)}),
    "shift, periodic": (RING, {"rounds": 90, "updates": (0, 1), "participation": "every:3"}),
    "shift, at most": (
        RING,
        {"rounds": 30, "updates": (0, 1), "participation": "at-most:4", "view": View.single_node(0)},
    ),
    "memory-one": (BENT, {"rounds": 3, "updates": (0.5, 1), "target": 3}),
    "twins": (COMPLETE, {"rounds": 9, "updates": "any"}),
    "cap": (RING, {"rounds": 9, "updates": "any", "view": View.everyone, "target": 3}),
}


@functools.cache
def case(name: str) -> Certificate:
    """The certificate of a case, made once."""
    weights, options = CASES[name]
    return certified(weights, **options)


def short() -> Certificate:
    return case("shift, round by round")


def long() -> Certificate:
    return case("shift, layered")


def asked_of(certificate: Certificate) -> TrainingQuestion:
    family = Participation.parse(certificate.participation)
    return training_question(certificate, question(certificate, RING), family)


def shift_of(certificate: Certificate) -> ShiftProof:
    assert isinstance(certificate.proof, ShiftProof)
    return certificate.proof


@pytest.mark.parametrize("name", CASES)
def test_what_is_certified_is_verified_from_its_text_alone(name: str) -> None:
    weights, certificate = CASES[name][0], case(name)
    again = from_text(to_text(certificate))
    assert to_text(again) == to_text(certificate)
    found = verify(again, weights)
    assert (found.verdict, found.upper_holds, found.lower_holds) == ("verified", True, True)
    assert (found.squared.lower, found.squared.upper) == (
        certificate.squared_lower,
        certificate.squared_upper,
    )
    assert verify(again).verdict == "consistent"
    other = verify(again, graphs.metropolis_weights("path:n=7"))
    assert (other.verdict, other.reason[:45]) == ("refused", "this certificate speaks of another graph: the")
    smooth = certificate.proof.method in {"shift", "memory-one"}
    assert certificate.assumption == ("smooth" if smooth else "none")
    assert any("slopes in the ball" in sentence for sentence in found.trusted) == smooth
    assert any("noise is fresh" in sentence for sentence in found.trusted)


def test_methods_are_what_their_names_say() -> None:
    for name in CASES:
        assert name.startswith(case(name).proof.method)
    few, many = shift_of(short()), shift_of(long())
    assert (len(few.start), len(few.recurring), len(few.end)) == (0, 0, 4)
    assert len(many.start) == len(many.end) > 0
    assert len(shift_of(case("shift, periodic")).recurring) == 3


@pytest.mark.parametrize("name", ["shift, round by round", "shift, periodic", "twins"])
def test_the_ends_are_those_of_sensitivity(name: str) -> None:
    weights, certificate = CASES[name][0], case(name)
    updates: Any = certificate.updates
    noise: Any = LEVELS if certificate is short() else None
    protocol = gossip(weights, rounds=certificate.rounds, updates=updates, noise_levels=noise)
    found = sensitivity(protocol, View.secure_sum(0), targets=[1], participation=certificate.participation)
    assert certificate.squared_upper == pytest.approx(float(found.squared_upper[0]), rel=1e-9)
    assert certificate.squared_lower == pytest.approx(float(found.squared_lower[0]), rel=1e-8)


def test_the_epsilon_follows_from_the_mechanism() -> None:
    found = verify(short(), RING)
    assert found.epsilon == pytest.approx(
        gaussian.epsilon(math.sqrt(found.squared.upper) / 4, 1e-5), rel=1e-9
    )


def test_zeroing_out_needs_the_identity_in_the_ball_of_the_target() -> None:
    """Without its data a node sends on what it received: for slopes below 1 that is no map of the ball."""
    zero = Mechanism(noise_multiplier=4.0, delta=1e-5, relation="zero-out")
    assert verify(replace(long(), mechanism=zero), RING).verdict == "verified"
    steep = certified(rounds=4, updates=(0.2, 0.9))
    found = verify(replace(steep, mechanism=zero), RING)
    assert found.verdict == "refused"
    assert "slopes [0.2, 0.9] of the target do not hold 1" in found.reason


def test_a_refusal_for_its_slopes_shows_the_digits_in_which_they_differ() -> None:
    """Slopes are rounded for reading: 1 and the float below it would look alike."""
    almost = math.nextafter(1.0, 0.0)
    zero = Mechanism(noise_multiplier=4.0, delta=1e-5, relation="zero-out")
    near = certified(rounds=4, updates=(0.2, almost))
    found = verify(replace(near, mechanism=zero), RING)
    assert "slopes [0.2, 0.9999999999999999] of the target do not hold 1" in found.reason
    with pytest.raises(InputError, match=r"slopes in \[0\.2, 0\.9999999999999999\] do not hold 1"):
        check_zero_out(near.updates, "zero-out")
    other = verify(near, gossip(RING, rounds=4, updates=(0.2, 1)))
    assert other.verdict == "refused"
    assert other.reason.endswith(
        "; slopes of node 0: [0.2, 0.9999999999999999] certified, [0.2, 1.0] at hand"
    )


def test_ends_that_contradict_each_other_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = short()
    monkeypatch.setattr(checking, "ends_in_floats", lambda *_: (2.5, 1.25, []))
    found = verify(certificate, RING)
    assert found.verdict == "refused"
    assert found.reason == (
        "what was proved contradicts itself, Δ² ≥ 2.5 and Δ² ≤ 1.25: one of the two is wrong"
    )
    assert (found.squared.lower, found.squared.upper, found.epsilon) == (0.0, math.inf, None)
    assert not found.upper_holds
    assert not found.lower_holds


# Changed files.


def forged(certificate: Certificate, *place: Any, value: Any) -> Any:
    """The text of a certificate in which one place was changed, hashed again as a forger would."""
    document = json.loads(to_text(certificate))
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    key = place[-1]
    holder[key] = value(holder[key]) if callable(value) else value
    body = {name: part for name, part in document.items() if name != "hash"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps({**body, "hash": hashlib.sha256(text.encode()).hexdigest()})


def scaled(factor: float) -> Any:
    """A value with every number in it multiplied."""

    def apply(value: Any) -> Any:
        return [apply(part) for part in value] if isinstance(value, list) else value * factor

    return apply


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("claim", "upper"), scaled(1 - 1e-9)),
        (("claim", "lower"), scaled(1 + 1e-9)),
        (("proof", "end", 1, "kappa"), scaled(1.0001)),
        (("proof", "end", 1, "factor"), scaled(1.03)),
        (("proof", "end", 1, "factor"), scaled(0.97)),
        (("proof", "end", 1, "factor", 2, 0), scaled(1.5)),
        (("proof", "end", 1, "multipliers"), scaled(1.1)),
        (("proof", "end", 1, "multipliers"), scaled(0.9)),
        (("proof", "end", 3, "multipliers"), scaled(0.0)),
        (("proof", "end", 3, "multipliers"), scaled(1e-320)),
        (("proof", "end"), lambda steps: [steps[1], steps[0], *steps[2:]]),
        (("proof", "end"), lambda steps: steps[1:]),
        (("proof", "method"), "memory-one"),
        (("proof", "method"), "twins"),
        (("proof", "method"), "cap"),
        (("proof", "support"), [1, 2, 3, 4, 5]),
        (("proof", "attack", "slopes"), scaled(1.01)),
        (("proof", "attack", "slopes", 1, 0), 0.49),
        (("proof", "attack", "contributions"), scaled(2.0)),
        (("proof", "attack", "contributions"), scaled(0.5)),
        (("proof", "attack", "statistic"), scaled(0.0)),
        (("proof", "attack", "statistic", 0, 0, 0), scaled(1.5)),
        (("proof", "attack"), None),
        (("protocol", "rounds"), 5),
        (("protocol", "rounds"), 3),
        (("protocol", "updates", "lower"), scaled(0.9)),
        (("protocol", "updates", "upper"), scaled(1.01)),
        (("protocol", "updates"), "any"),
        (("protocol", "programs", 0, "draws", 0, "level"), lambda levels: [levels[0], "19/10", *levels[2:]]),
        (("protocol", "programs", 0, "draws", 0, "level"), "1"),
        (("protocol", "weights", 0, "matrix", "values", 0), 0.3),
        (("target",), 3),
        (("view", "observers"), [2]),
        (("view", "name"), "neighbourhood"),
        (("view", "own_noise"), "hidden"),
        (("participation",), "fixed:1"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_forged_field_is_not_verified(place: tuple[Any, ...], value: Any) -> None:
    text = forged(short(), *place, value=value)
    assert text != to_text(short())
    try:
        found = verify(from_text(text), RING)
    except (InputError, NotCertified):
        return
    if place == ("participation",):
        # One round of four costs less: the upper end still holds, and the attack takes part when it must not.
        assert (found.upper_holds, found.lower_holds) == (True, False)
    assert found.verdict == "refused"
    assert found.reason


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("proof", "end", 0, "kappa"), -1.0, "kappa must be a finite number of at least 0"),
        (("proof", "end", 0, "multipliers"), [-1.0] * 7, "multipliers must not be negative"),
        (
            ("proof", "end", 0, "multipliers"),
            [1.0] * 6,
            "multipliers must have an entry for each of the 7 nodes",
        ),
        (("proof", "end", 0, "factor"), [[1.0]], "a row for each of the 6 nodes"),
        (("proof", "end", 0, "factor", 0), [0.0] * 77, "factor must"),
        (("proof", "end", 0, "last"), True, "the step of the last round has no factor"),
        (("proof", "end", 0, "more"), 1, r"proof.end\[0\] has an unknown field more"),
        (("proof", "support"), [0, 1, 2, 3, 4, 5], "support must hold hidden nodes only"),
        (("proof", "support"), [1, 2, 3, 4, 5, 7], "support must hold hidden nodes only"),
        (("proof", "start"), 3, "proof.start must be a list; got 3"),
        (("proof", "attack", "angle"), 0.5, "an attack that turns has one row"),
        (("proof", "attack", "statistic"), [[[1.0, 0.0]]], "a row of slopes, of the statistic"),
        (("protocol", "updates"), "some", "protocol.updates must be one of any; got 'some'"),
        (("protocol", "updates"), None, "a proof of kind shift speaks of training"),
        (("protocol", "updates", "lower"), [0.5] * 6, "as many lower as upper slopes"),
        (("protocol", "updates", "upper"), [0.4] * 7, "lower ≤ upper"),
        (("protocol", "programs", 0, "draws", 0, "level"), ["0"] * 7, "noise levels must be above 0"),
        (("protocol", "programs", 0, "draws", 0, "level"), ["1"] * 6, "one level for each of the 7 nodes"),
        (("contribution",), "scalar", "contributions to training are vectors"),
    ],
)
def test_a_file_that_contradicts_itself_is_an_error(place: Any, value: Any, sentence: str) -> None:
    text = forged(short(), *place, value=value)
    with pytest.raises(InputError, match=sentence):
        verify(from_text(text), RING)


def test_programs_that_are_no_gossip_are_not_checked() -> None:
    draw = {"name": "u", "level": "1", "each": "node"}
    for place, value in (
        (("protocol", "encoder"), ["1", "1"]),
        (("protocol", "programs", 0, "draws", 0), {**draw, "each": "edge"}),
        (("protocol", "programs", 0, "instructions", 0, "terms", "model"), "1/2"),
        (("protocol", "programs"), lambda programs: programs * 2),
    ):
        with pytest.raises(NotCertified, match="is not checked here"):
            verify(from_text(forged(short(), *place, value=value)), RING)


def test_work_without_end_is_refused_beforehand() -> None:
    forever = from_text(forged(long(), "protocol", "rounds", value=2**53))
    assert verify(replace(forever, squared_lower=0.0, squared_upper=2.0**53), RING).verdict == "verified"
    rarely = replace(forever, participation="at-most:3", squared_lower=0.0, squared_upper=3.0)
    with pytest.raises(NotCertified, match="is not sought here"):
        verify(rarely, RING)
    step = replace(shift_of(short()).end[0], factor=np.zeros((6, 60_000)))
    wide = replace(short(), proof=replace(shift_of(short()), end=(step, *shift_of(short()).end[1:])))
    with pytest.raises(NotCertified, match="multiplications"):
        verify(wide, RING)


# The lower end.


def exact_value(certificate: Certificate, asked: TrainingQuestion) -> Fraction:
    """(Re Σ conj(δ) λ_j)² / Σ λ* Q λ in rationals, for an attack of a ring with one observed row."""
    attack = shift_of(certificate).attack
    assert attack is not None
    U = asked.loop.unknown.tolist()
    A = [[RING.exact_row(i).get(j, Fraction(0)) for j in U] for i in U]
    row = asked.loop.rows[0]
    pivot = row[int(asked.seen.pivots[0])]
    C = [row.get(k, Fraction(0)) / pivot for k in range(len(U))]
    levels = [Fraction(float(asked.levels[k])) for k in U]
    rounds = asked.charged if attack.angle is not None else len(attack.slopes)
    state = [[Fraction(0), Fraction(0)] for _ in U]
    signal = variance = Fraction(0)
    for t in range(rounds - 1, -1, -1):
        here = 0 if attack.angle is not None else t
        w = [Fraction(x) for x in attack.statistic[here, 0].tolist()]
        state = [[C[k] * w[p] + state[k][p] for p in (0, 1)] for k in range(len(U))]
        delta = [Fraction(x) for x in attack.contributions[here].tolist()]
        signal += sum(delta[p] * state[U.index(1)][p] for p in (0, 1))
        variance += sum(levels[k] * (state[k][0] ** 2 + state[k][1] ** 2) for k in range(len(U)))
        bent = [[Fraction(float(attack.slopes[here, k])) * x for x in state[k]] for k in range(len(U))]
        state = [
            [sum((A[k][i] * bent[k][p] for k in range(len(U))), Fraction(0)) for p in (0, 1)]
            for i in range(len(U))
        ]
    return signal**2 / variance


@pytest.mark.parametrize("name", ["short", "lasting"])
def test_an_attack_is_evaluated_from_below_and_closely(name: str) -> None:
    certificate = short()
    if name == "lasting":
        attack = shift_of(long()).attack
        assert attack is not None
        turning = replace(attack, angle=0.0)
        certificate = replace(long(), rounds=40, proof=replace(shift_of(long()), attack=turning))
    asked = asked_of(certificate)
    attack = shift_of(certificate).attack
    assert attack is not None
    assert (attack.angle is None) == (name == "short")
    value, exact = attacks.attained(attack, asked), exact_value(certificate, asked)
    longest = max(Fraction(float(x)) ** 2 + Fraction(float(y)) ** 2 for x, y in attack.contributions)
    exact /= max(Fraction(1), longest)
    assert Fraction(value) <= exact
    assert value >= float(exact) * (1 - 1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.7, math.pi])
def test_all_rounds_of_a_lasting_attack_count_once_it_has_settled(angle: float, monkeypatch: Any) -> None:
    """The drift bound for the rounds that are not gone through, against going through all of them."""
    attack = shift_of(long()).attack
    assert attack is not None
    turning = replace(attack, angle=angle)
    asked = asked_of(replace(long(), rounds=4000))
    whole = attacks.attained(turning, asked)
    monkeypatch.setattr(attacks, "MOST_ROUNDS", 300)
    shortened = attacks.attained(turning, asked)
    assert whole * (1 - 1e-6) <= shortened <= whole * (1 + 1e-9)


def test_a_loop_that_grows_is_believed_for_the_rounds_that_were_gone_through() -> None:
    certificate = certified(rounds=50_000, updates=(0.9, 1.2))
    growing = LoopAttack(
        slopes=np.full((1, 6), 1.2),
        statistic=np.ones((1, 1, 2)),
        contributions=np.array([[1.0, 0.0]]),
        angle=0.0,
    )
    assert attacks.attack_failure(growing, asked_of(certificate)) == ""
    assert 0 <= attacks.attained(growing, asked_of(certificate)) <= certificate.squared_upper


def test_an_attack_must_not_use_what_the_view_does_not_show() -> None:
    """An observer who knows the noise of node 0 and sees node 3 alone: what flows into 0 is a gift of the proof."""
    rows = np.zeros((1, 7))
    rows[0, 3] = 1.0
    view = View(observation=rows, known_noise=[0])
    certificate = certified(rounds=4, updates=(0.5, 1), view=view, target=2)
    assert shift_of(certificate).attack is None
    assert certificate.squared_lower == 0
    assert verify(certificate, RING).verdict == "verified"
    borrowed = shift_of(short()).attack
    assert borrowed is not None
    two = replace(borrowed, statistic=np.repeat(borrowed.statistic, 2, axis=1))
    found = verify(replace(certificate, proof=replace(shift_of(certificate), attack=two)), RING)
    assert (found.verdict, found.upper_holds) == ("refused", True)
    assert "inflow the view does not show" in found.reason


def test_a_network_of_a_thousand_is_proved_in_a_small_matrix() -> None:
    """q columns whatever n: the file holds the hash and the matrix, and the check takes a moment."""
    weights = graphs.metropolis_weights("random-regular:n=1000,d=6,seed=1")
    target = next(int(j) for j in weights.exact_row(0) if j != 0)
    certificate = certified(weights, rounds=1000, updates=(0.9, 1), target=target)
    assert certificate.proof.method == "shift"
    assert certificate.squared_upper == pytest.approx(173.2, abs=0.4)
    found = verify(from_text(to_text(certificate)), weights)
    assert found.verdict == "verified"
    assert 0 < found.squared.lower <= found.squared.upper
