# SPDX-License-Identifier: Apache-2.0
"""`verify`: every step of a certificate's argument, done again from gossip weights and program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.certificates import DenseProof, HorizonProof, ShiftProof
from sottovoce.errors import InputError, NotCertified
from sottovoce.gaussian import epsilon as epsilon_of
from sottovoce.graphs import GossipWeights
from sottovoce.graphs.validation import uneven_row
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol
from sottovoce.protocols.rationals import spread
from sottovoce.verification.ends import Check, cap_end, lower_end, no_lower_end, upper_end
from sottovoce.verification.forms import dense_form
from sottovoce.verification.hidden import UNIT_ROUNDOFF, hidden_nodes
from sottovoce.verification.horizon import affordable, dominates, filtered
from sottovoce.verification.meaning import program_question, question
from sottovoce.verification.programs import verify_program
from sottovoce.verification.reduction import distortion, models
from sottovoce.verification.training import verify_training

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.certificates import Certificate
    from sottovoce.verification.hidden import HiddenNodes
    from sottovoce.verification.horizon import Filtered
    from sottovoce.verification.meaning import Question
    from sottovoce.verification.reduction import Model

__all__ = ["Check", "Verdict", "Verification", "verify"]

Verdict = Literal["verified", "consistent", "refused"]

MOST_ROUNDS = 4096
MOST_ROWS = 8000
MOST_NUMBERS = 40_000_000
MOST_START = 4096
MOST_PARTICIPATION = 100_000
# A model whose distortion is this small, relative to √rate, needs no more states.
_FINE = 1e-7
# What is proved with a smaller y is proved; more than this helps nothing and could overflow.
_LARGEST_Y = 1e9
# A model with a distortion or skew beyond this proves nothing.
_COARSE = 0.5
_CUSTOM = "that the rows and the known noise in the file are what the observer has"
_OBLIVIOUS = "that contributions do not depend on what the observer cannot see"
_QUADRATIC = (
    "that contributions depend on what the observer cannot see as quadratic losses of the stated factors make "
    "them, and in no other way"
)
_BALL = (
    "that each node updates what it received by a map with slopes in the ball, a ball that is public and not measured "
    "on data"
)
_NOISE = (
    "that the noise is fresh and Gaussian of the stated levels, and that the record moves a message by at most the "
    "clipping norm"
)
_TRUST = {"oblivious": _OBLIVIOUS, "quadratic": _QUADRATIC, "smooth": _BALL}
_GRAPH = "that the weights in the file are those of your network (name the graph to check it)"
_PROGRAM = "that the nodes run the program in the file (name the protocol to check it)"


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of a claim: `squared` is what could be proved again, `trusted` what was not looked into.

    The verdict is "verified" when everything that decides the claim was rebuilt from the graph at hand and holds,
    "consistent" when it holds for the weights in the file and no graph was at hand, and "refused" when a check failed;
    `reason` is then the first that did, in a sentence. `epsilon` follows from `squared` and the mechanism in the file.
    """

    verdict: Verdict
    upper_holds: bool
    lower_holds: bool
    squared: Interval
    epsilon: float | None
    checks: tuple[Check, ...]
    trusted: tuple[str, ...]
    reason: str

    @property
    def verified(self) -> bool:
        """Whether everything was decided from the graph at hand, and holds."""
        return self.verdict == "verified"


def verify(
    certificate: Certificate, network: GossipWeights | Sequence[GossipWeights] | Protocol | None = None
) -> Verification:
    """Check a certificate from the definition on the gossip weights at hand, independently of how it was found.

    `network` is the gossip matrix, the matrices of a schedule, or the whole protocol that the certificate is meant to
    speak of; it must have the hash that the certificate names. Rows, known noise and what is hidden are rebuilt from
    its rationals and from the program; the numbers of the file are hints. For kind "dense" M is built too,
    diag(y) ⪰ M is proved by Cholesky with margins for all rounding, y is summed over the worst pattern, and the witness
    is evaluated. For kind "horizon" a small model is made from the graph, what it leaves out is bounded, and
    bounded-real inequalities are proved on it. For kind "shift", about training, the hidden loop is rebuilt, each step
    of the proof is shown not to stretch, and the attack is evaluated.

    Without `network` the weights in the file are taken, and the verdict is at best "consistent".

    Guarantee: if `upper_holds`, Δ² ≤ squared_upper for every dimension of contributions, given what `trusted` names; if
    `lower_holds`, some pair of neighbouring streams attains squared_lower. No number of the file sets a tolerance.

    Raises NotCertified where the problem is too large or too close to singular to be checked here.
    """
    participation = _participation(certificate)
    schedule = _schedule(certificate, network)
    checks = [_same_weights(certificate, schedule, named=network is not None)]
    if checks[0].holds:
        checks.append(_same_program(certificate, network))
    if not all(check.holds for check in checks):
        return _conclude(certificate, checks, None, None, [], network)
    told = (
        "the rows are taken as they stand" if certificate.view.name == "custom" else "the rows were rebuilt"
    )
    checks.append(Check("view", True, f"{certificate.view.name}: {told}"))
    if isinstance(certificate.proof, ShiftProof):
        asked = question(certificate, schedule[0])
        lower, upper, steps = verify_training(certificate, certificate.proof, asked, participation)
        checks += [Check(*step) for step in steps]
        if certificate.proof.attack is None:
            checks.append(no_lower_end(certificate))
        found: tuple[float, float, list[str]] = (lower, upper, [_NOISE])
    elif _is_gossip(certificate, schedule):
        asked = question(certificate, schedule[0])
        found = _verify_gossip(certificate, asked, participation, checks)
    else:
        protocol = Protocol(
            weights=schedule,
            program=certificate.program,
            rounds=certificate.rounds,
            encoder=certificate.encoder,
        )
        found = verify_program(certificate, program_question(certificate, protocol), participation, checks)
    return _conclude(certificate, checks, *found, network)


def _schedule(
    certificate: Certificate, network: GossipWeights | Sequence[GossipWeights] | Protocol | None
) -> tuple[GossipWeights, ...]:
    """The weights at hand, round by round; those of the file if none are."""
    if network is None:
        return stored_weights(certificate)
    if isinstance(network, Protocol):
        return network.schedule
    return (network,) if isinstance(network, GossipWeights) else tuple(network)


def _same_weights(certificate: Certificate, schedule: tuple[GossipWeights, ...], *, named: bool) -> Check:
    """Whether the weights of every round are those that the certificate names."""
    whose = "the graph at hand has" if named else "the weights in the file have"
    stated = certificate.schedule
    if len(schedule) != len(stated):
        found = f"this certificate speaks of {len(stated)} matrices that take turns; got {len(schedule)}"
        return Check("weights", False, found)
    for weights, each in zip(schedule, stated, strict=True):
        if weights.hash != each.hash:
            found = (
                f"this certificate speaks of another graph: {whose} the hash {weights.hash}, it names {each.hash} "
                f"(weights said to be {each.rule})"
            )
            return Check("weights", False, found)
    rest = f", and so have the other {len(schedule) - 1}" if len(schedule) > 1 else ""
    return Check("weights", True, f"{whose} the hash {schedule[0].hash}, as certified{rest}")


def _same_program(certificate: Certificate, network: object) -> Check:
    """What every node is said to do; whether that is the protocol at hand, if one is."""
    if isinstance(network, Protocol) and network.hash != certificate.protocol_hash:
        found = (
            f"this certificate speaks of another protocol: {certificate.sentence[:200]}; at hand is "
            f"{network.sentence[:200]}"
        )
        return Check("program", False, found)
    return Check("program", True, certificate.sentence[:500])


def _is_gossip(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> bool:
    """Whether this is s_t = D W s_{t−1} + x_t + u_t with rows of W that sum to 1 and |D| ≤ 1, as `hidden` takes it."""
    damping = certificate.damping
    if damping is None or uneven_row(schedule[0].matrix) is not None:
        return False
    return all(abs(number) <= 1 for number in spread(damping, 1))


def _participation(certificate: Certificate) -> Participation:
    """The pattern that is spelled, if its numbers are within reason."""
    text = certificate.participation
    if len(text) > MOST_PARTICIPATION or any(len(part) > 16 for part in _digits(text)):
        raise InputError(
            f"participation must be spelled with numbers of at most 16 digits; got {text[:60]!r}"
        )
    parsed = Participation.parse(text)
    if parsed.kind == "fixed" and parsed.rounds[-1] > certificate.rounds:
        raise InputError(
            f"{text[:60]} names round {parsed.rounds[-1]}, but there are {certificate.rounds} rounds"
        )
    return parsed


def _digits(text: str) -> list[str]:
    return "".join(letter if letter.isdigit() else " " for letter in text).split()


def stored_weights(certificate: Certificate) -> tuple[GossipWeights, ...]:
    """The weights that the file itself holds, those of each round of a schedule."""
    held = []
    for each in certificate.schedule:
        if each.matrix is None:
            raise NotCertified(
                "the file holds the hash of the weights alone, so nothing can be rebuilt (name the graph; its weights "
                f"are said to be {each.rule})"
            )
        held.append(each.matrix.gossip_weights(each.rule))
    return tuple(held)


def _verify_gossip(
    certificate: Certificate, asked: Question, participation: Participation, checks: list[Check]
) -> tuple[float, float, list[str]]:
    """Plain gossip, by the kind of proof."""
    proof = certificate.proof
    if isinstance(proof, HorizonProof):
        return _verify_horizon(certificate, proof, asked, participation, checks)
    assert isinstance(proof, DenseProof)
    return _verify_dense(certificate, proof, asked, participation, checks)


def _verify_dense(
    certificate: Certificate,
    proof: DenseProof,
    asked: Question,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """Kind "dense": M from the definition, then y and the witness against it."""
    cap = float(participation.largest_count(certificate.rounds))
    if certificate.contribution == "energy":
        cap = min(cap, 1.0)
    if proof.y is None and proof.witness is None:
        # Each contribution stands at best beside its own noise alone, whatever the graph: nothing to rebuild.
        checks += [cap_end(certificate, cap), no_lower_end(certificate)]
        return 0.0, cap, []
    m, n, rounds = len(asked.rows), asked.weights.n, certificate.rounds
    d = 1 if proof.witness is None else proof.witness.shape[1]
    if rounds > MOST_ROUNDS or m * rounds > MOST_ROWS or max(m * rounds, d) * n > MOST_NUMBERS:
        raise NotCertified(
            f"this claim is too large to be rebuilt densely: {m} rows x {rounds} rounds x {n} nodes "
            f"(at most {MOST_ROUNDS} rounds, {MOST_ROWS} rows x rounds and {MOST_NUMBERS} of all three; use a "
            "certificate of kind horizon, fewer rounds, or a witness of fewer columns)"
        )
    hidden = hidden_nodes(asked, complete=True)
    form = dense_form(hidden, rounds)
    checks.append(
        Check("rationals", True, f"{hidden.rows.shape[0]} of {m} rows are independent, decided exactly")
    )
    upper, check = upper_end(certificate, proof, participation, form, cap)
    checks.append(check)
    if hidden.completed and proof.witness is not None:
        form = dense_form(hidden_nodes(asked, complete=False), rounds)
    lower, check = lower_end(certificate, proof, participation, form)
    checks.append(check)
    if not hidden.completed:
        return lower, upper, []
    names = ", ".join(str(asked.weights.labels[node]) for node in hidden.completed)
    return (
        lower,
        upper,
        [f"nothing about {names}: the observer was given what flows into it, beyond its view"],
    )


def _verify_horizon(
    certificate: Certificate,
    proof: HorizonProof,
    asked: Question,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """Kind "horizon": a model made from the graph, its inequalities, then the sum over all rounds."""
    rounds, start = certificate.rounds, proof.start.size
    proof = HorizonProof(start=np.minimum(proof.start, _LARGEST_Y), rate=min(proof.rate, _LARGEST_Y))
    cap = participation.largest_count(rounds)
    if start > MOST_START:
        raise NotCertified(f"a start of {start} rounds is longer than is checked here (at most {MOST_START})")
    if len(asked.rows) * asked.weights.n > MOST_NUMBERS:
        raise NotCertified(
            f"a view of {len(asked.rows)} rows over {asked.weights.n} nodes is too large to be reduced here"
        )
    hidden = hidden_nodes(asked, complete=True)
    if not hidden.rows.shape[0]:
        raise NotCertified(
            "the view shows nothing of the hidden nodes, so Δ² = 0 (claim the cap, or nothing)"
        )
    model, lost = _fine_model(hidden, rounds, start, proof.rate)
    checks.append(
        Check(
            "model",
            max(lost, model.skew) < _COARSE,
            f"{model.source.size} states stand for {hidden.unknown.size} hidden nodes, with a distortion of at most "
            f"{lost:.1e}",
        )
    )
    found = filtered(model, start)
    failure = dominates(found, proof)
    checks.append(
        Check(
            "bounded-real inequalities",
            not failure,
            failure or "the start-up recursion and the bulk inequality hold",
        )
    )
    upper = float(cap)
    if not failure and checks[-2].holds:
        upper = min(upper, _horizon_end(found, lost, proof, participation, rounds))
    holds = upper <= certificate.squared_upper
    checks.append(Check("upper end", holds, f"proved Δ² ≤ {upper!r}; claimed {certificate.squared_upper!r}"))
    checks.append(no_lower_end(certificate))
    return 0.0, upper, []


def _fine_model(hidden: HiddenNodes, rounds: int, start: int, rate: float) -> tuple[Model, float]:
    """The smallest model of a negligible distortion, or the best that is affordable, and its distortion.

    The rate of the file says only where more work is worth nothing.
    """
    best, least = None, math.inf
    for model in models(hidden, rounds):
        if not affordable(model.source.size, start):
            break
        lost = distortion(model)
        if best is None or lost < least:
            best, least = model, lost
        if least <= _FINE * math.sqrt(rate):
            break
    if best is None:
        raise NotCertified(
            f"{hidden.rows.shape[0]} rows and a start of {start} rounds take more work than is done here (take a "
            "smaller view, or at most 2048 rounds)"
        )
    return best, least


def _horizon_end(
    found: Filtered, lost: float, proof: HorizonProof, participation: Participation, rounds: int
) -> float:
    """The largest ‖P e_j c‖² over a pattern, by the inequality of `sottovoce.verification.reduction`, rounded up."""
    count = participation.largest_count(rounds)
    total = (count * proof.rate + _above_rate(proof, participation)) * (1 + 1e-15)
    learnt = math.sqrt(total * (1 + found.excess)) + lost * math.sqrt(count)
    return learnt * learnt / (1 - found.model.skew) * (1 + 1e-14)


def _above_rate(proof: HorizonProof, participation: Participation) -> float:
    """What a pattern may add to rate times its number of rounds: the largest sum of (start − rate)₊ over it."""
    above = np.maximum(proof.start - proof.rate, 0.0)
    if not above.size:
        return 0.0
    if participation.kind == "fixed":
        return math.fsum(above[t - 1] for t in participation.rounds if t <= above.size) * (1 + 1e-15)
    return participation.largest_sum(above)


def _conclude(
    certificate: Certificate,
    checks: list[Check],
    lower: float | None,
    upper: float | None,
    trusted: list[str],
    network: object,
) -> Verification:
    """The verdict of all checks."""
    named = {check.name: check.holds for check in checks}
    failed = [check for check in checks if not check.holds]
    top = math.inf if upper is None else upper
    if upper is not None:
        if certificate.assumption != "none":
            trusted = [_TRUST[certificate.assumption], *trusted]
        if certificate.view.name == "custom":
            trusted = [*trusted, _CUSTOM]
        if network is None:
            trusted = [*trusted, _GRAPH]
        elif certificate.damping is None and not isinstance(network, Protocol):
            trusted = [*trusted, _PROGRAM]
    return Verification(
        verdict="refused" if failed else "verified" if network is not None else "consistent",
        upper_holds=named.get("upper end", False),
        lower_holds=named.get("lower end", False),
        squared=Interval(min(lower or 0.0, top), top),
        epsilon=_epsilon(certificate, top),
        checks=tuple(checks),
        trusted=tuple(trusted),
        reason=failed[0].detail if failed else "",
    )


def _epsilon(certificate: Certificate, squared_upper: float) -> float | None:
    """The ε that follows from a proved Δ² and the mechanism in the file; None where one is missing or ε has no end."""
    mechanism = certificate.mechanism
    if mechanism is None or math.isinf(squared_upper):
        return None
    factor = 2 if mechanism.relation == "replace-one" else 1
    mu = factor * math.sqrt(squared_upper) / mechanism.noise_multiplier
    epsilon = float(epsilon_of(mu * (1 + 4 * UNIT_ROUNDOFF), mechanism.delta))
    return epsilon if math.isfinite(epsilon) else None
