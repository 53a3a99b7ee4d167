"""Certificates of training on programs with memory, and as if every message were heard: what is true, nothing more."""

import contextlib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import View, account_all, certify, graphs, verify
from sottovoce.certificates import Certificate, DenseProof, Mechanism, MovesProof, from_text, to_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import Combine, Exchange, Program, Protocol, chebyshev, momentum, repeated, scheduled
from sottovoce.verification import AlikePairs, price_of, worked_out

RING = graphs.metropolis_weights("ring:n=5")
NOISE = Mechanism(noise_multiplier=4.0, delta=1e-5)


def trained(protocol: Protocol, updates: Any = (0.5, 1.0)) -> Protocol:
    return replace(protocol, updates=updates)


HEAVY = trained(momentum(RING, rounds=8, beta="1/2"))


@pytest.fixture(scope="module")
def heavy() -> Certificate:
    return certify(HEAVY, View.secure_sum(0), 1, mechanism=NOISE)


def proof_of(certificate: Certificate) -> MovesProof:
    assert isinstance(certificate.proof, MovesProof)
    return certificate.proof


@pytest.mark.parametrize("arithmetic", ["float", "balls"])
def test_a_proof_of_moves_survives_its_file_in_both_arithmetics(heavy: Certificate, arithmetic: Any) -> None:
    again = from_text(to_text(heavy))
    found = verify(again, HEAVY, arithmetic=arithmetic)
    assert (found.verdict, found.arithmetic, again.assumption) == ("verified", arithmetic, "smooth")
    assert found.squared.upper == heavy.squared_upper < 8
    assert any("slopes in the ball" in said for said in found.trusted)


@pytest.mark.parametrize(("slope", "beta"), [(0.7, 0.5), (-1.0, 0.2)])
def test_what_a_certificate_of_momentum_says_is_what_it_proves(slope: float, beta: float) -> None:
    """Steps are contributed, and so enter the memory; maps beside the memory would tell the observer more."""
    protocol, rounds = trained(momentum(RING, rounds=10, beta=beta), (slope, slope)), 10
    W, seen, told = RING.matrix.toarray(), np.eye(5)[0], []
    for inside in (True, False):
        memory, sent, shown = np.zeros((5, 50)), np.zeros((5, 50)), []
        for t in range(rounds):
            model = W @ sent
            step = (slope - 1) * model
            memory = beta * memory + np.eye(50)[5 * t : 5 * t + 5] + inside * step
            sent = model + memory + (not inside) * step
            shown.append(seen @ W @ sent)
        H = np.array(shown)
        noise = H[:, [k for k in range(50) if k % 5]]
        form = np.linalg.pinv(noise, rcond=1e-10) @ H[:, 2::5]
        signs = np.array(list(itertools.product((-1, 1), repeat=rounds)))
        told.append(float(((signs @ form.T) ** 2).sum(axis=1).max()))
    found = certify(protocol, View.secure_sum(0), 2)
    assert told[0] <= found.squared_upper < told[1]
    assert "each node also contributes the step of its model by a map with slopes" in found.sentence


@pytest.mark.parametrize("view", ["everyone", "secure-sum", "neighbourhood"])
def test_training_that_is_not_worked_out_is_refused_by_tables(view: Any) -> None:
    for protocol in (scheduled([RING, RING], rounds=4), HEAVY, chebyshev(RING, rounds=3, steps=2)):
        with pytest.raises(InputError, match="updates are worked out for gossip"):
            account_all(trained(protocol), view, noise_multiplier=4.0, delta=1e-5)


def test_a_file_cannot_make_the_verifier_multiply_rationals_without_end() -> None:
    wide = graphs.metropolis_weights("random-regular:n=40,d=6,seed=1")
    assert worked_out(trained(repeated(wide, rounds=3, steps=12))) is not None
    assert worked_out(trained(repeated(wide, rounds=3, steps=13))) is None
    found = certify(trained(repeated(RING, rounds=3, steps=2)), View.secure_sum(0), 1)
    long = trained(repeated(wide, rounds=3, steps=32))
    forged = replace(found, program=long.program, updates=long.updates, weights_hash=wide.hash, weights=None)
    with pytest.raises(
        NotCertified, match="several exchanges a round are worked out, of at most 512 exchanges"
    ):
        verify(forged, long)


def test_two_exchanges_a_round_are_certified_too() -> None:
    twice = trained(repeated(RING, rounds=8, steps=2))
    found = certify(twice, View.secure_sum(0), 1)
    assert found.proof.kind == "moves"
    assert verify(found, twice).verified


def test_no_changed_number_proves_less_than_the_truth(heavy: Certificate) -> None:
    proof, claimed = proof_of(heavy), heavy.squared_upper
    (factor,), (beta,) = proof.factors, proof.multipliers
    wrong = [
        replace(heavy, proof=replace(proof, kappas=proof.kappas * 1.01), squared_upper=claimed / 1.01),
        replace(heavy, proof=replace(proof, factors=(factor * 1.1,))),
        replace(heavy, proof=replace(proof, multipliers=(beta * 1.2,))),
        replace(heavy, proof=replace(proof, multipliers=(-beta,))),
        replace(heavy, squared_upper=claimed * 0.999),
        replace(heavy, rounds=9),
        replace(heavy, updates=trained(HEAVY, (-0.5, 1.0)).updates),
        replace(heavy, program=momentum(RING, rounds=8, beta="3/5").program),
        replace(heavy, view=replace(heavy.view, own_noise="hidden")),
    ]
    for forged in wrong:
        with contextlib.suppress(InputError):
            assert not verify(forged, RING, arithmetic="float").verified


@pytest.mark.parametrize("size", [1e154, 1e160, 1e307])
def test_numbers_that_no_float_holds_prove_nothing(heavy: Certificate, size: float) -> None:
    proof = proof_of(heavy)
    for forged in (
        replace(proof, factors=tuple(size * factor for factor in proof.factors)),
        replace(proof, multipliers=tuple(size * beta for beta in proof.multipliers)),
        replace(proof, kappas=size * proof.kappas),
    ):
        assert not verify(replace(heavy, proof=forged), RING, arithmetic="float").upper_holds


def test_a_proof_has_no_place_that_nothing_reads(heavy: Certificate) -> None:
    proof = proof_of(heavy)
    scribbled = proof.factors[0].copy()
    scribbled[0] += 1.0
    wide = np.hstack([proof.factors[0], np.zeros((8, 5))])
    for changed, told in (
        (replace(proof, factors=(scribbled,)), "0 at the pivots"),
        (replace(proof, factors=(wide,)), "no more columns"),
        (replace(proof, factors=()), "needs factors"),
        (replace(proof, kappas=np.ones(2)), "multipliers"),
    ):
        with pytest.raises(InputError, match=told):
            verify(replace(heavy, proof=changed), RING, arithmetic="float")
    with pytest.raises(InputError, match="speaks of training"):
        replace(heavy, updates=None)


def test_other_programs_are_proved_as_if_every_message_were_heard() -> None:
    mixed = trained(chebyshev(RING, rounds=4, steps=2), "any")
    found = certify(mixed, View.secure_sum(0), 1)
    assert (found.proof.kind, found.assumption) == ("dense", "none")
    assert verify(found, mixed).verified
    # What streams that are fixed in advance tell the sum's observer is less, and no bound for training.
    averaging = certify(replace(mixed, updates=None), View.secure_sum(0), 1)
    assert averaging.squared_upper < found.squared_upper
    assert isinstance(averaging.proof, DenseProof)
    borrowed = replace(found, proof=DenseProof(y=averaging.proof.y), squared_upper=averaging.squared_upper)
    assert not verify(borrowed, mixed, arithmetic="float").verified
    with pytest.raises(InputError, match="without a witness"):
        replace(found, proof=averaging.proof)


def test_hearing_all_bounds_nothing_where_messages_do_not_tell_the_models() -> None:
    program = Program(
        keeps=("model", "hidden"),
        draws=momentum(RING, rounds=1, beta="1/2").programs[0].draws,
        instructions=(
            Combine("hidden", {"hidden": 1, "contribution": 1, "u": 1}),
            Combine("message", {"model": 1}),
            Exchange("message", "model"),
            Combine("model", {"model": 1, "hidden": 1}),
        ),
    )
    secret = Protocol(weights=RING, program=program, rounds=3, updates="any")
    assert not secret.shows_model
    with pytest.raises(NotCertified, match="do not tell its models"):
        certify(secret, View.everyone, 1)


def test_alike_are_pairs_that_a_relabelling_carries_over_and_no_others(heavy: Certificate) -> None:
    alike = AlikePairs(heavy, RING)
    assert alike.holds(((2,), 3), [((0,), 1)])
    assert not alike.holds(((2,), 4), [((0,), 1)])
    uneven = replace(heavy, updates=trained(HEAVY, ([0.5, 0.5, 0.5, 0.5, 0.4], np.ones(5))).updates)
    assert not AlikePairs(uneven, RING).holds(((2,), 3), [((0,), 1)])


def test_fewer_rounds_cost_their_share(heavy: Certificate) -> None:
    from sottovoce.participation import Participation

    full = Participation.full()
    assert price_of(heavy, 8, full) == heavy.squared_upper
    assert heavy.squared_upper / 2 <= price_of(heavy, 4, full) < heavy.squared_upper / 2 * (1 + 1e-12)
    short = certify(replace(HEAVY, rounds=4), View.secure_sum(0), 1)
    assert short.squared_upper <= price_of(heavy, 4, full) * (1 + 1e-12)
    assert price_of(replace(heavy, updates="any", proof=DenseProof(y=np.ones(8))), 4, full) == np.inf
