# SPDX-License-Identifier: Apache-2.0
"""Long-run rates of programs: closed forms, plain gossip in other words, growth over explicit rounds, and refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreter import knowing
from tests.laws.test_program_laws import programs
from tests.profiles import examples
from tests.scenes import PATH, PROTOCOLS, RING, STAR

from sottovoce import View, rate, sensitivity
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Contribution,
    Protocol,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    repeated,
)
from sottovoce.rates import response_spectrum
from sottovoce.rates.modes import exact_round, unhidden, without_known
from sottovoce.rates.stationary import stationary_round, system_of, whitener_of

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights

VIEWS = [
    View.neighbourhood(1),
    View.secure_sum(0),
    View.secure_sum(2, own_noise="hidden"),
    View.single_node(1),
]
ALIKE = [protocol for protocol in PROTOCOLS if not (protocol.plain or protocol.varies or protocol.encoded)]
TRAP = np.array([[0.35, 0.6, 0.05, 0.0], [0.6, 0.0, 0.4, 0.0], [0.05, 0.4, 0.35, 0.2], [0.0, 0.0, 0.2, 0.8]])


@pytest.mark.parametrize(
    ("protocol", "limit"),
    [
        (momentum(PATH, rounds=1, beta="1/2", noise="message"), Fraction(4)),
        (momentum(PATH, rounds=1, beta="9/10", noise="message"), Fraction(100)),
        (gradient_tracking(STAR, rounds=1, noise="messages"), Fraction(4)),
        (exact_diffusion(STAR, rounds=1, noise="messages"), Fraction(4)),
        (clean_state(PATH, rounds=1, keep="2/3"), Fraction(9)),
        (pairwise_noise(RING, rounds=1, local=1, shared=2), Fraction(29, 101)),
        (gossip(PATH, rounds=1, noise_levels="1/3"), Fraction(9)),
        (repeated(STAR, rounds=1, steps=3), Fraction(1)),
        (once(PATH, steps=2), Fraction(1)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_closed_forms_of_whoever_sees_all(protocol: Protocol, limit: Fraction) -> None:
    found = rate(protocol, View.everyone)
    for lower, upper in zip(found.lower, found.upper, strict=True):
        assert Fraction(float(lower)) <= limit <= Fraction(float(upper))
        assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("weights", [PATH, RING, STAR], ids=lambda weights: weights.origin)
def test_levels_that_are_all_the_same_divide_the_rate_of_plain_gossip(
    weights: GossipWeights, view: View, contribution: Any
) -> None:
    plain = rate(weights, view, contribution=contribution)
    found = rate(gossip(weights, rounds=1, noise_levels=2), view, contribution=contribution)
    assert (4 * found.lower <= plain.upper).all()
    assert (4 * found.upper >= plain.lower).all()
    assert 4 * found.upper == pytest.approx(plain.upper, rel=2e-6)
    assert 4 * found.lower == pytest.approx(plain.lower, rel=2e-6 if contribution == "vector" else 1e-3)
    assert 4 * found.constant == pytest.approx(plain.constant, rel=1e-5)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", ALIKE, ids=lambda protocol: f"{protocol.name}-{protocol.n}")
def test_the_rate_is_how_explicit_rounds_grow(protocol: Protocol, view: View) -> None:
    target = [protocol.n - 1]
    found = rate(protocol, view, target)
    short, long = (
        sensitivity(replace(protocol, rounds=rounds), view, target, engine="reduced") for rounds in (60, 66)
    )
    slope = (long.squared_upper - short.squared_upper) / 6
    assert found.upper[0] - found.lower[0] <= 1e-6 * found.upper[0] + 1e-12
    assert found.upper == pytest.approx(slope, rel=4e-3, abs=1e-9)


def test_a_mode_that_nothing_excites_is_not_followed() -> None:
    view = View(observation=TRAP[[0]], known_noise=[0, 1])
    plain = rate(TRAP, view, [2])
    try:
        found = rate(gossip(TRAP, rounds=1, noise_levels=2), view, [2])
    except NotCertified:
        return
    assert 4 * found.upper[0] >= plain.lower[0]
    assert 4 * found.lower[0] <= plain.upper[0]


def test_what_a_program_conserves_is_taken_out() -> None:
    """The sums of y and of g stay equal in gradient tracking: a mode of λ = 1 that neither noise nor nodes reach."""
    seen, bare = stationary_round(gradient_tracking(PATH, rounds=1), View.secure_sum(0))
    whole = exact_round(seen)
    assert not bare
    with pytest.raises(NotCertified, match="is not proved to be reached by noise"):
        whitener_of(system_of(whole))
    left = without_known(whole)
    assert len(left.kept) < len(whole.kept)
    assert whitener_of(system_of(left)).unwhite < 1e-8
    assert not unhidden(whole)


@pytest.mark.parametrize(
    "protocol",
    [
        clean_state(PATH, rounds=1, keep=1),
        momentum(PATH, rounds=1, beta=1, noise="message"),
        momentum(PATH, rounds=1, beta=-1, noise="message"),
        clean_state(PATH, rounds=1, keep="1/2", noise_levels=0),
    ],
    ids=["clean_state", "momentum", "alternating", "bare"],
)
def test_what_grows_faster_than_the_rounds_has_an_infinite_rate(protocol: Protocol) -> None:
    found = rate(protocol, View.everyone)
    assert np.isinf(found.lower).all()
    assert np.isinf(found.upper).all()
    if protocol.programs[0].draws[0].level != 0:
        per_round = [
            sensitivity(replace(protocol, rounds=rounds), View.everyone, [0]).squared_lower[0] / rounds
            for rounds in (20, 40, 80)
        ]
        assert per_round[1] > 3 * per_round[0]
        assert per_round[2] > 3 * per_round[1]


def test_others_of_a_view_with_an_infinite_rate_keep_theirs() -> None:
    alone = clean_state(PATH, rounds=1, keep=1)
    found = rate(alone, View.neighbourhood(0))
    assert np.isinf(found[1].limit.lower)
    assert found[3].limit.upper == 0


def test_numbers_have_a_rate_between_that_of_some_signs_and_that_of_vectors() -> None:
    protocol = clean_state(PATH, rounds=1, keep="1/2")
    kinds: tuple[Contribution, ...] = ("vector", "scalar")
    vectors, numbers = (rate(protocol, View.secure_sum(0), contribution=each) for each in kinds)
    assert (numbers.upper == vectors.upper).all()
    assert (numbers.lower <= vectors.lower).all()
    assert (numbers.lower >= 8 / np.pi**2 * vectors.lower * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("protocol", "kind", "reason"),
    [
        (next(each for each in PROTOCOLS if each.varies), InputError, "'scheduled' differ by a schedule"),
        (
            momentum(metropolis_weights("ring:n=400"), rounds=1, beta="1/2"),
            NotCertified,
            "for at most 600 kept numbers; its nodes keep 800",
        ),
        (clean_state(PATH, rounds=1, keep=2), NotCertified, "no rate is certified"),
    ],
    ids=["schedule", "large", "growing"],
)
def test_what_has_no_certified_rate_is_refused_with_the_reason(
    protocol: Protocol, kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        rate(protocol, View.secure_sum(0))


ENCODED = gossip(PATH, rounds=2, encoder=(1, "1/2", "-1/4"))


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_an_encoder_multiplies_the_spectrum_by_that_of_its_code(view: View) -> None:
    angles = np.linspace(0, np.pi, 4001)
    # Of all these the coded one is looked at, for its peak.
    some = angles[::20]
    code = np.abs(1 + np.exp(-1j * some) / 2 - np.exp(-2j * some) / 4) ** 2
    for target in sorted(set(range(4)) - knowing(view)):
        plain = response_spectrum(gossip(PATH, rounds=1), view, target, some)
        coded = response_spectrum(ENCODED, view, target, angles)
        assert coded[::20] == pytest.approx(code * plain, rel=1e-6, abs=1e-9)
        found = rate(ENCODED, view, [target])
        assert found.lower[0] <= found.upper[0] <= found.lower[0] * (1 + 1e-5) + 1e-12
        assert found.lower[0] * (1 - 1e-6) <= coded.max() * (1 + 1e-5)
        assert coded.max() <= found.upper[0] * (1 + 1e-9) + 1e-12


def test_a_rate_of_encoded_noise_is_what_long_horizons_come_to() -> None:
    view, rounds = View.secure_sum(0), 400
    long = sensitivity(replace(ENCODED, rounds=rounds), view, [1])
    limit = rate(ENCODED, view, [1])
    assert long.squared_upper[0] / rounds == pytest.approx(limit.upper[0], rel=0.02)


@pytest.mark.parametrize(
    "protocol", ALIKE, ids=lambda protocol: f"{protocol.name}-{protocol.n}-{protocol.rounds}"
)
def test_the_spectrum_of_a_program_peaks_at_its_rate(protocol: Protocol) -> None:
    view, angles = View.secure_sum(0), np.linspace(0, np.pi, 501)
    for target in range(1, protocol.n):
        try:
            found = rate(protocol, view, [target])
        except NotCertified:
            with pytest.raises(NotCertified):
                response_spectrum(protocol, view, target, angles)
            continue
        values = response_spectrum(protocol, view, target, angles)
        assert values.shape == angles.shape
        if np.isinf(found.lower[0]):
            assert np.isinf(values).all()
            continue
        assert values.max() <= found.upper[0] * (1 + 1e-6) + 1e-12
        assert values.max() >= found.lower[0] * (1 - 1e-3) - 1e-12


def test_no_spectrum_is_drawn_of_a_schedule_or_of_maps() -> None:
    with pytest.raises(InputError, match=r"those of the protocol 'scheduled' differ by a schedule \(ask for"):
        response_spectrum(next(each for each in PROTOCOLS if each.varies), View.secure_sum(0), 1, np.zeros(1))
    with pytest.raises(InputError, match="update maps may be any in their ball"):
        response_spectrum(gossip(PATH, rounds=1, updates=(0, 1)), View.secure_sum(0), 1, np.zeros(1))


@examples(30)
@given(st.data())
def test_the_rate_of_any_program_is_how_explicit_rounds_grow_or_is_refused(data: Any) -> None:
    weights = metropolis_weights(data.draw(st.sampled_from(["path:n=3", "star:n=4", "ring:n=4"])))
    protocol = Protocol(weights=weights, program=data.draw(programs()), rounds=1)
    view = data.draw(st.sampled_from([View.everyone, *VIEWS]))
    target = [data.draw(st.sampled_from(sorted(set(range(protocol.n)) - knowing(view))))]
    try:
        found = rate(protocol, view, target)
        short, long = (sensitivity(replace(protocol, rounds=rounds), view, target) for rounds in (40, 60))
    except NotCertified:
        return
    if np.isinf(found.lower[0]):
        grown = (
            long.squared_upper[0] / short.squared_upper[0] if np.isfinite(short.squared_lower[0]) else np.inf
        )
        assert np.isinf(long.squared_lower[0]) or grown > 2
    elif np.isfinite(long.squared_upper[0]):
        least, most = (
            (long.squared_lower - short.squared_upper) / 20,
            (long.squared_upper - short.squared_lower) / 20,
        )
        assert least[0] <= found.upper[0] * 1.02 + 1e-6
        assert most[0] >= found.lower[0] * 0.98 - 1e-6
    else:
        assert np.isfinite(long.squared_lower[0])
