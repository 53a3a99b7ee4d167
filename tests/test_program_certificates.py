# SPDX-License-Identifier: Apache-2.0
"""Certificates of programs: what `certify` writes, `verify` proves again by other code, and forgers do not pass."""

from __future__ import annotations

import itertools
import re
import time
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.interpreter import ExactView, exact_view, knowing, largest_over_signs
from tests.scenes import EVERY_PROTOCOL, PATH, PROTOCOLS, RING, STAR, TRAPPED, TRAPS, VIEWS, WEIGHTED

import sottovoce.verification.programs
from sottovoce import View, certify, gossip
from sottovoce.certificates import Certificate, DenseProof, HorizonProof, from_text, to_text
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import metropolis_weights
from sottovoce.participation import Participation
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    clean_state,
    exact_diffusion,
    gradient_tracking,
    momentum,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.verification import combined
from sottovoce.verification import verify as verify_in
from sottovoce.verification.backwards import MOST_WORK, Budget
from sottovoce.verification.definition import exact_chain, inverse_column
from sottovoce.verification.meaning import program_question
from sottovoce.verification.others import Limit, ProgramPair, no_worse_in_programs

# What is told here is told of floats; tests/test_balls.py holds them against balls.
verify = partial(verify_in, arithmetic="float")
MOMENTUM = momentum(RING, rounds=4, beta="9/10")
SUM, NEAR = View.secure_sum(0), View.neighbourhood(1)
PATTERNED = (
    momentum(PATH, rounds=4, beta="1/2", noise="message"),
    gradient_tracking(STAR, rounds=4),
)
BARE = pairwise_noise(metropolis_weights("path:n=6"), rounds=3, local=(0, 1, 1, 1, 1, 1), shared=1)


@cache
def exact_matrix(protocol: Protocol, view: View, target: int) -> np.ndarray:
    """M as floats, from the interpreter in rationals."""
    M = exact_view(protocol, view, target).form()
    assert M is not None
    return np.array(M, dtype=np.float64)


@EVERY_PROTOCOL
def test_every_protocol_in_every_view_is_certified_and_verified(protocol: Protocol) -> None:
    # Every protocol and every view meet each kind of contribution.
    kinds = itertools.cycle(["vector", "scalar", "energy"])
    contributions: Any = itertools.islice(kinds, PROTOCOLS.index(protocol), None)
    for (place, view), contribution in zip(enumerate(VIEWS), contributions, strict=False):
        targets = sorted(set(range(protocol.n)) - knowing(view))
        target = targets[place % len(targets)]
        certificate = from_text(to_text(certify(protocol, view, target, contribution=contribution)))
        assert certificate.protocol_hash == protocol.hash
        found = verify(certificate, protocol)
        assert found.verified, found.reason
        # The file itself is what a reader without the protocol has: one view of each protocol, and so each view.
        if place == PROTOCOLS.index(protocol) % len(VIEWS):
            assert verify(certificate).verdict == "consistent"
        M = exact_view(protocol, view, target).form()
        assert M is not None
        floats = np.array(M, dtype=np.float64)
        if contribution == "energy":
            least = most = float(np.linalg.eigvalsh(floats)[-1])
        else:
            signs = largest_over_signs(M)
            assert signs <= Fraction(certificate.squared_upper)
            least, most = float(signs), float(np.abs(floats).sum())
        assert found.squared.lower <= most * (1 + 1e-12)
        assert least <= found.squared.upper * (1 + 1e-12)
        # Close as well as true: the y for vectors costs scalars a little.
        assert found.squared.upper <= found.squared.lower * 1.05 + 1e-9
        if contribution == "energy":
            assert found.squared.upper <= most * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("participation", ["every:2", "at-most:2", "fixed:1,3", "separated:3", "epochs:2"])
@pytest.mark.parametrize("contribution", ["vector", "scalar", "energy"])
def test_patterns_of_participation(participation: str, contribution: Any) -> None:
    for protocol in PATTERNED:
        certificate = certify(protocol, NEAR, 2, contribution=contribution, participation=participation)
        assert verify(certificate, protocol).verified
        M = exact_matrix(protocol, NEAR, 2)
        rounds = [t - 1 for t in (1, 3)]
        part = M[np.ix_(rounds, rounds)]
        attained = np.linalg.eigvalsh(part)[-1] if contribution == "energy" else abs(part).sum()
        if participation != "separated:3":
            assert certificate.squared_upper >= attained * (1 - 1e-9) or participation == "at-most:2"
        if participation == "fixed:1,3":
            assert certificate.squared_upper <= attained * (1 + 1e-6)


def test_energy_of_plain_gossip_is_certified_too() -> None:
    protocol = gossip(RING, rounds=5)
    certificate = certify(protocol, SUM, 1, contribution="energy")
    top = float(np.linalg.eigvalsh(exact_matrix(protocol, SUM, 1))[-1])
    assert certificate.squared_lower <= top <= certificate.squared_upper <= top * (1 + 1e-5)
    assert verify(certificate, protocol.weights).verified
    witness = certificate.proof.witness  # type: ignore[union-attr]
    assert witness is not None
    stretched = replace(certificate, proof=DenseProof(y=certificate.proof.y, witness=witness * 1.5))  # type: ignore[union-attr]
    assert verify(stretched, protocol).reason.startswith(
        "the witness must stay within norm 1; over all rounds"
    )
    with pytest.raises(InputError, match="bounded energy needs a proof of kind dense"):
        replace(certificate, proof=HorizonProof(start=np.ones(2), rate=1.0))


@pytest.mark.parametrize(
    ("view", "squared"),
    [(View.everyone, 1.5118047219), (View.neighbourhood(1), 1.8984), (View.secure_sum(1), 0.96307)],
    ids=repr,
)
def test_who_knows_the_draws_of_its_edges_proves_more(view: View, squared: float) -> None:
    protocol = pairwise_noise(metropolis_weights("ring:n=8"), rounds=6, local=1, shared=2)
    found = verify(certify(protocol, view, 0, contribution="vector"), protocol)
    assert found.verified
    assert found.squared.lower <= squared * (1 + 1e-4)
    assert squared * (1 - 1e-4) <= found.squared.upper <= squared * (1 + 1e-3)


def test_a_certificate_of_another_protocol_or_graph_is_refused() -> None:
    certificate = certify(MOMENTUM, SUM, 1)
    others = (
        momentum(RING, rounds=4, beta="8/10"),
        replace(MOMENTUM, rounds=5),
        replace(MOMENTUM, encoder=(1, "1/2")),
        replace(MOMENTUM, program=MOMENTUM.programs * 2),
        gossip(RING, rounds=4),
    )
    for other in others:
        found = verify(certificate, other)
        assert found.verdict == "refused"
        assert found.reason.startswith(
            "this certificate speaks of another protocol: v = 9/10·v + contribution + u"
        )
    assert verify(certificate, metropolis_weights("ring:n=6")).reason.startswith(
        "this certificate speaks of another graph"
    )
    assert verify(certificate, [RING, RING]).reason.startswith("this certificate speaks of 1 matrices")
    turns = scheduled([np.eye(4), PATH], rounds=4)
    made = certify(turns, SUM, 1)
    assert verify(made, turns.schedule).verified
    assert not verify(made, turns.schedule[::-1]).verified
    same = verify(certificate, RING)
    assert same.verified
    assert "that the nodes run the program in the file (name the protocol to check it)" in same.trusted
    assert not any("run the program" in sentence for sentence in verify(certificate, MOMENTUM).trusted)


def _weakened(program: Program, level: Any = "1/2", contribution: Any = 1) -> Program:
    """The program with less noise, or a larger contribution."""
    instructions = tuple(
        Combine(step.into, {k: contribution if k == "contribution" else x for k, x in step.terms.items()})
        if isinstance(step, Combine)
        else step
        for step in program.instructions
    )
    return replace(
        program, draws=tuple(Draw(d.name, level=level) for d in program.draws), instructions=instructions
    )


@pytest.mark.parametrize(
    "protocol", [MOMENTUM, clean_state(PATH, rounds=4, keep="1/2"), exact_diffusion(STAR, rounds=3)]
)
def test_a_proof_does_not_pass_for_a_protocol_that_leaks_more(protocol: Protocol) -> None:
    certificate = certify(protocol, View.neighbourhood(1), 2)
    assert isinstance(protocol.program, Program)
    forgeries: list[Certificate] = [
        replace(certificate, program=_weakened(protocol.program)),
        replace(certificate, program=_weakened(protocol.program, level=1, contribution="11/10")),
        replace(certificate, encoder=(1, 1)),
        replace(certificate, squared_lower=0.0, squared_upper=certificate.squared_upper * 0.999),
        replace(certificate, proof=DenseProof(y=np.asarray(certificate.proof.y) * 0.99)),  # type: ignore[union-attr]
        replace(certificate, proof=DenseProof(y=None, witness=None), squared_lower=0.0),
        replace(
            certificate, squared_lower=certificate.squared_upper, squared_upper=certificate.squared_upper * 2
        ),
    ]
    for forged in forgeries:
        found = verify(from_text(to_text(forged)), protocol.weights)
        assert found.verdict == "refused"
    # The claim stays proved as far as it is true.
    assert verify(forgeries[3], protocol.weights).squared == verify(certificate, protocol).squared


def test_exchanges_that_are_seen_are_those_of_the_file() -> None:
    protocol = repeated(PATH, rounds=3, steps=2)
    part = certify(protocol, View.secure_sum(0, exchanges=[1]), 2)
    whole = certify(protocol, View.secure_sum(0), 2)
    assert part.squared_upper < whole.squared_lower
    forged = replace(part, view=replace(part.view, exchanges=None), squared_lower=0.0)
    found = verify(forged, protocol)
    assert not found.upper_holds
    assert found.squared.upper >= whole.squared_lower
    with pytest.raises(InputError, match=r"must see exchanges of the program, 1 to 2 of a round; got 3"):
        verify(replace(part, view=replace(part.view, exchanges=(1, 3))), protocol)
    plain = certify(gossip(PATH, rounds=3), SUM, 3)
    with pytest.raises(InputError, match="gossip has one a round"):
        verify(replace(plain, view=replace(plain.view, exchanges=(2,))), PATH)


def test_an_infinite_sensitivity_is_not_certified_and_not_believed() -> None:
    with pytest.raises(
        NotCertified, match=r"Δ is infinite, so there is nothing to certify: .* of what 0 contributes"
    ):
        certify(BARE, View.neighbourhood(1), 0)
    honest = certify(BARE, View.neighbourhood(1), 3)
    assert verify(honest, BARE).verified
    forged = replace(honest, target=0, squared_lower=0.0, squared_upper=1e300)
    found = verify(forged, BARE)
    assert found.verdict == "refused"
    assert found.reason == (
        "Δ is infinite: what 0 contributes in round 1 is seen beside no noise that the observer does not know"
    )
    assert found.squared.upper == np.inf
    assert found.epsilon is None


def test_a_target_that_is_bare_in_other_rounds_alone_is_certified() -> None:
    noisy = pairwise_noise(BARE.weights, rounds=1, local=1, shared=1)
    sometimes = replace(BARE, program=noisy.programs + BARE.programs)
    with pytest.raises(NotCertified, match="Δ is infinite"):
        certify(sometimes, View.neighbourhood(1), 0)
    certificate = certify(sometimes, View.neighbourhood(1), 0, participation="fixed:1,3")
    assert 0 < certificate.squared_lower <= certificate.squared_upper < 3
    found = verify(replace(certificate, participation="fixed:1,2", squared_lower=0.0), sometimes)
    assert "contributes in round 2 is seen beside no noise" in found.reason


def test_nothing_is_claimed_of_what_is_not_seen() -> None:
    protocol = momentum(metropolis_weights("path:n=6"), rounds=2, beta="1/2")
    certificate = certify(protocol, SUM, 5)
    assert (certificate.squared_lower, certificate.squared_upper) == (0.0, 0.0)
    assert verify(certificate, protocol).verified
    assert verify(replace(certificate, target=1), protocol).verdict == "refused"


@pytest.mark.parametrize("rounds", [4, 7, 30])
def test_a_mode_that_nothing_excites_is_followed_exactly(rounds: int) -> None:
    """A view that knows a node's noise but not what flows into it: factorisations of floats fall short here."""
    protocol = gossip(WEIGHTED, rounds=rounds, noise_levels=2)
    signs = np.array((-1.0) ** np.arange(rounds), dtype=np.float64)
    certificate = certify(protocol, TRAPPED, 2)
    found = verify(replace(certificate, proof=DenseProof(y=np.full(rounds, 0.2), witness=signs)), protocol)
    value = exact_view(protocol, TRAPPED, 2).value(signs.tolist())
    assert value is not None
    assert Fraction(found.squared.lower) <= value <= Fraction(found.squared.upper)
    assert found.squared.lower >= float(value) * (1 - 1e-6)


@pytest.mark.parametrize("encoder", [(1,), (1, "1/3")], ids=["plain", "encoded"])
def test_rounds_that_share_a_chain_hold_each_its_own_without_a_remainder(
    encoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, compared = combined._whole, []

    def checked(rounds: Any, rows: Any, code: Any, budget: Budget) -> Any:
        noise, gain = whole(rounds, rows, code, budget)
        starts = np.cumsum([0, *(rounds[t % len(rounds)].draws for t in range(len(rows)))])
        places = np.cumsum([0, *(len(each.drawn) for each in rows)])
        inverse = inverse_column(code, len(rows), budget)
        for t, each in enumerate(rows):
            here = slice(places[t], places[t + 1])
            chain = exact_chain(rounds, each, t, inverse, budget)
            below = chain[-1].given_below
            for back, part in enumerate(chain):
                drawn = noise[here, starts[t - back] : starts[t - back + 1]]
                assert (drawn * part.drawn_below == part.drawn * below).all()
                assert (gain[here, t - back] * part.given_below == part.given * below).all()
                compared.append(t)
        return noise, gain

    monkeypatch.setattr(combined, "_whole", checked)
    protocol = replace(TRAPS[0], rounds=20, encoder=encoder)
    assert verify(certify(protocol, TRAPPED, 2), protocol).verified
    assert compared


@pytest.mark.parametrize("trap", TRAPS, ids=lambda protocol: protocol.name)
def test_rows_that_floats_cannot_tell_apart_are_combined_until_they_can(
    trap: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Twenty rounds are as many as need it.
    protocol, combinations = replace(trap, rounds=min(trap.rounds, 20)), []

    def counted(*given: Any) -> Any:
        combinations.append(combined.combined_noise(*given))
        return combinations[-1]

    monkeypatch.setattr(sottovoce.verification.programs, "combined_noise", counted)
    certificate = certify(protocol, TRAPPED, 2)
    assert len(combinations) == 1
    assert certificate.squared_upper <= 1.002 * certificate.squared_lower
    assert isinstance(certificate.proof, DenseProof)
    assert verify(certificate, protocol).verified
    exact = exact_view(protocol, TRAPPED, 2)
    for sign in (-1.0, 1.0):
        signs = np.array([sign**t for t in range(protocol.rounds)])
        value = exact.value(signs.tolist())
        assert value is not None
        assert value <= Fraction(certificate.squared_upper)
        witness = DenseProof(y=certificate.proof.y, witness=signs)
        found = verify(replace(certificate, proof=witness, squared_lower=0.0), protocol)
        assert float(value) * (1 - 1e-9) <= found.squared.lower
        assert Fraction(found.squared.lower) <= value
    # Whoever asks whether this pair is worse than another of a report gets the same ends.
    asked = program_question(certificate, protocol)
    pair = ProgramPair(observers=(0,), target=2, question=asked)
    limit = Limit(participation=Participation.full(), squared=1.01 * certificate.squared_upper, attained=True)
    others = no_worse_in_programs(certificate, [pair], limit)
    assert (others.proved, others.open) == (1, 0)
    # A forger who claims a per cent less, by a y that is as much smaller, or more than is attained, does not pass.
    assert certificate.proof.y is not None
    less = replace(certificate.proof, y=0.99 * certificate.proof.y)
    for forged in (
        replace(certificate, squared_upper=0.99 * certificate.squared_lower, squared_lower=0.0),
        replace(certificate, squared_upper=0.99 * certificate.squared_lower, squared_lower=0.0, proof=less),
    ):
        assert not verify(forged, protocol).upper_holds
    above = replace(
        certificate,
        squared_lower=1.01 * certificate.squared_upper,
        squared_upper=2 * certificate.squared_upper,
    )
    assert not verify(above, protocol).verified


@EVERY_PROTOCOL
def test_combining_rows_changes_nothing(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved is the same where rows are combined though they need not be."""
    before = {}
    for view in (View.neighbourhood(1), View.coalition_sums([0, 2])):
        certificate = certify(protocol, view, 3)
        before[view] = certificate, verify(certificate, protocol).squared

    def refuse(*_: object) -> None:
        raise NotCertified("floats do not serve")

    monkeypatch.setattr(sottovoce.verification.programs, "seen_noise", refuse)
    monkeypatch.setattr(combined, "_ENOUGH", 0.1)
    for view, (certificate, squared) in before.items():
        found = verify(certificate, protocol)
        assert found.verified, view
        assert found.squared.upper == pytest.approx(squared.upper, rel=1e-9)
        assert found.squared.lower == pytest.approx(squared.lower, rel=1e-9, abs=1e-9)


def test_proofs_that_are_for_gossip_alone_are_refused_for_programs() -> None:
    certificate = certify(MOMENTUM, SUM, 1)
    long = replace(certificate, proof=HorizonProof(start=np.ones(2), rate=1.0), squared_lower=0.0)
    with pytest.raises(NotCertified, match="a proof of kind horizon is checked for plain gossip alone"):
        verify(long, MOMENTUM)
    other = replace(MOMENTUM.programs[0], draws=(Draw("u", each="edge"),))
    with pytest.raises(InputError, match="all programs of a schedule must make the same draws"):
        verify(replace(certificate, program=(MOMENTUM.programs[0], other), encoder=(1, 1)), RING)
    with pytest.raises(InputError, match="the programs of a schedule must keep the same registers"):
        verify(replace(certificate, program=MOMENTUM.programs + gossip(RING, rounds=1).programs), RING)


def test_what_is_too_large_is_refused_before_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("work was done")

    monkeypatch.setitem(certify.__globals__, "program_solution", never)
    large = clean_state(metropolis_weights("ring:n=400"), rounds=100, keep="1/2")
    with pytest.raises(NotCertified, match=r"too large to be rebuilt densely: 40000 rows in 100 rounds"):
        certify(large, View.everyone, 1)
    with pytest.raises(NotCertified, match="5000 rounds of 400 nodes"):
        certify(replace(large, rounds=5000), View.everyone, 1)
    certificate = certify(replace(large, program=MOMENTUM.program), View.everyone, 1)
    assert (certificate.squared_lower, certificate.squared_upper) == (0.0, 100.0)
    assert certificate.proof.method == "cap"


@EVERY_PROTOCOL
def test_what_own_noise_guarantees_is_above_the_truth_in_every_view(protocol: Protocol) -> None:
    for contribution in ("vector", "energy"):
        made = certify(protocol, View.everyone, 2, contribution=contribution)
        bare = replace(made, proof=DenseProof(), squared_lower=0.0, squared_upper=1e6)
        found = verify(bare, protocol)
        if not found.verified:
            assert found.squared.upper == np.inf
            assert found.reason == "no y is there to prove the claimed 1000000.0"
            continue
        assert found.squared.upper >= made.squared_upper * (1 - 1e-6)
        assert not verify(replace(bare, squared_upper=found.squared.upper * 0.999), protocol).verified


def test_noise_that_does_not_enter_with_contributions_guarantees_nothing_alone() -> None:
    def alone(protocol: Protocol, **changes: Any) -> float:
        made = certify(protocol, SUM, 2)
        bare = replace(made, proof=DenseProof(), squared_lower=0.0, squared_upper=1e6, **changes)
        return verify(bare, protocol.weights).squared.upper

    assert alone(MOMENTUM) == 4.0
    assert alone(MOMENTUM, participation="at-most:2") == 2.0
    assert alone(MOMENTUM, contribution="energy") == 1.0
    assert alone(gossip(PATH, rounds=4, noise_levels=("1/2", 2, "1/3", 1))) == 36.0
    assert alone(MOMENTUM, encoder=(1, "1/2")) == np.inf
    assert alone(momentum(RING, rounds=4, beta="1/2", noise="message")) == np.inf
    assert alone(clean_state(PATH, rounds=4, keep="1/2")) == np.inf
    assert alone(gradient_tracking(STAR, rounds=4, noise="messages")) == np.inf
    assert alone(pairwise_noise(RING, rounds=3, local=1, shared=2)) == 3.0


@pytest.mark.parametrize("size", [10**200, Fraction(1, 10**200), 10**60])
def test_an_encoder_of_any_size_is_followed_or_refused(size: Any) -> None:
    protocol = gossip(RING, rounds=3, encoder=(size, size))
    unit = certify(gossip(RING, rounds=3, encoder=(1, 1)), SUM, 2)
    claim = replace(unit, encoder=protocol.encoder, squared_upper=1e300, squared_lower=0.0)
    try:
        found = verify(claim, protocol)
    except NotCertified:
        return
    exact = largest_over_signs(exact_view(protocol, SUM, 2).form() or [])
    assert Fraction(found.squared.lower) <= exact <= Fraction(found.squared.upper)


@pytest.mark.parametrize("encoder", [(2,), (2, 1), ("1/2", 1)])
def test_an_encoder_scales_the_noise_that_hides_a_later_contribution_too(encoder: Any) -> None:
    # What is contributed is sent at once, and the noise that hides it was drawn at the end of the round before.
    late = Program(
        keeps=("model",),
        draws=(Draw(name="u"),),
        instructions=(
            Combine(into="message", terms={"model": 1, "contribution": 1}),
            Exchange(message="message", into="model"),
            Combine(into="model", terms={"model": 1, "u": 1}),
        ),
    )
    protocol = Protocol(weights=RING, program=late, rounds=3, encoder=encoder, name="late")
    whole = exact_view(protocol, View.everyone, 1)
    M = ExactView([row[1:] for row in whole.G], whole.N).form()
    truth = float(np.linalg.eigvalsh(np.array(M, dtype=np.float64))[-1])

    def claimed(squared: float) -> Certificate:
        return replace(
            certify(gossip(RING, rounds=3), View.everyone, 1, contribution="energy"),
            program=late,
            encoder=encoder,
            participation="fixed:2,3",
            squared_lower=0.0,
            squared_upper=squared,
            proof=DenseProof(y=np.full(3, squared), witness=None),
        )

    assert verify(claimed(truth * (1 + 1e-9)), protocol).verified
    forged = verify(claimed(truth * 0.999), protocol)
    assert not forged.upper_holds
    assert forged.squared.upper >= truth


def test_the_verifier_does_not_read_the_maps_of_the_accountant() -> None:
    folder = Path(sottovoce.verification.__file__).parent
    for module in folder.rglob("*.py"):
        assert not re.search(r"protocols\.(compiled|execution)|edges_of", module.read_text())


def _long(protocol: Protocol, **changes: Any) -> Certificate:
    """A certificate with as many y as rounds."""
    certificate = certify(protocol, SUM, 1)
    rounds = changes.get("rounds", certificate.rounds)
    proof = DenseProof(y=np.ones(rounds))
    return replace(certificate, proof=proof, squared_lower=0.0, squared_upper=1e9, **changes)


@pytest.mark.parametrize("case", ["numbers", "encoder", "steps", "rounds", "turns", "weights"])
def test_files_made_to_keep_a_verifier_busy_are_refused_in_time(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A part of the work that is allowed ends in that part of the time: 80 seconds for all of it.
    monkeypatch.setattr(sottovoce.verification.programs, "Budget", lambda: Budget(MOST_WORK // 32))
    digits = "7" * 399
    assert isinstance(MOMENTUM.program, Program)
    match case:
        case "numbers":
            _, *rest = MOMENTUM.program.instructions
            slow = Combine("v", {"v": f"1/{digits}", "contribution": f"{digits}/3", "u": f"5/{digits}"})
            forged = _long(
                MOMENTUM, program=replace(MOMENTUM.program, instructions=(slow, *rest)), rounds=1500
            )
        case "encoder":
            forged = _long(
                gossip(RING, rounds=4, noise_levels=2), encoder=(f"{digits}/3",) * 1500, rounds=1500
            )
        case "steps":
            mixing = (Combine("y", {"y": f"1/{digits}", "z": 1}), Exchange("y", "z")) * 400
            steps = (Combine("y", {"model": 1, "contribution": 1, "u": 1}), Combine("z", {"y": 1}), *mixing)
            program = Program(
                keeps=("model",), draws=(Draw("u"),), instructions=(*steps, Exchange("y", "model"))
            )
            forged = _long(MOMENTUM, program=program)
        case "turns":
            # Schedules whose lengths have no common divisor repeat after a very long time.
            certificate = certify(MOMENTUM, SUM, 1)
            forged = replace(
                certificate,
                further=certificate.schedule * 96,
                program=MOMENTUM.programs * 101,
                rounds=2**53,
                proof=DenseProof(),
            )
            begun = time.process_time()
            with pytest.raises(
                NotCertified, match="too large to be rebuilt densely: 9007199254740992 rounds"
            ):
                verify(from_text(to_text(forged)), (RING,) * 97)
            assert time.process_time() - begun < 2.5
            return
        case "weights":
            many = metropolis_weights("ring:n=60")
            protocol = momentum(many, rounds=3, beta="1/2")
            levels = tuple(Fraction(1, 10**398 + 2 * k + 1) for k in range(60))
            assert isinstance(protocol.program, Program)
            forged = _long(protocol, program=replace(protocol.program, draws=(Draw("u", level=levels),)))
            with pytest.raises(NotCertified, match="common denominator of more than 20000 binary digits"):
                verify(from_text(to_text(forged)), many)
            return
        case _:
            forged = _long(MOMENTUM, rounds=4000)
    begun = time.process_time()
    with pytest.raises(NotCertified):
        verify(from_text(to_text(forged)), RING)
    assert time.process_time() - begun < 2.5


def test_columns_that_sum_to_one_are_stored_and_read() -> None:
    protocol = push_sum(np.array([[0.5, 0, 0.25], [0.5, 0.5, 0], [0, 0.5, 0.75]]), rounds=4)
    certificate = from_text(to_text(certify(protocol, SUM, 1)))
    assert verify(certificate).verdict == "consistent"
    assert verify(certificate, protocol).verified
