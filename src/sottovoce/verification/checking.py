# SPDX-License-Identifier: Apache-2.0
"""`verify`: every step of a certificate's argument, done again from the gossip matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sottovoce.certificates import DenseProof, HorizonProof
from sottovoce.errors import InputError, NotCertified
from sottovoce.gaussian import epsilon as epsilon_of
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.verification.forms import dense_form, dominating, witness_value
from sottovoce.verification.hidden import UNIT_ROUNDOFF, hidden_nodes
from sottovoce.verification.horizon import affordable, dominates, filtered
from sottovoce.verification.meaning import question
from sottovoce.verification.reduction import distortion, models

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.verification.forms import Form
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
_GRAPH = "that the weights in the file are those of your network (name the graph to check it)"


class Check(NamedTuple):
    """One step: its name, whether it holds, and what was found."""

    name: str
    holds: bool
    detail: str


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


def verify(certificate: Certificate, weights: GossipWeights | None = None) -> Verification:
    """Check a certificate from the definition on the gossip matrix `weights`, independently of how it was found.

    The matrix must have the hash that the certificate names. Rows, known noise and the hidden system are rebuilt from
    its rationals; the numbers of the file are hints. For kind "dense" M is built too, diag(y) ⪰ M is proved by Cholesky
    with margins for all rounding, y is summed over the worst pattern, and the witness is evaluated. For kind "horizon"
    a small model is made from the graph, what it leaves out is bounded, and bounded-real inequalities are proved on it.

    Without `weights` those in the file are taken, and the verdict is at best "consistent".

    Guarantee: if `upper_holds`, Δ² ≤ squared_upper for every dimension of contributions, given what `trusted` names; if
    `lower_holds`, some pair of neighbouring streams attains squared_lower. No number of the file sets a tolerance.

    Raises NotCertified where the problem is too large or too close to singular to be checked here.
    """
    checks: list[Check] = []
    participation = _participation(certificate)
    at_hand = weights if weights is not None else stored_weights(certificate)
    same = at_hand.hash == certificate.weights_hash
    whose = "the graph at hand has" if weights is not None else "the weights in the file have"
    checks.append(
        Check(
            "weights",
            same,
            f"{whose} the hash {at_hand.hash}, as certified"
            if same
            else f"this certificate speaks of another graph: {whose} the hash {at_hand.hash}, it names "
            f"{certificate.weights_hash} (weights said to be {certificate.rule})",
        )
    )
    if not same:
        return _conclude(certificate, checks, None, None, [], weights is not None)
    asked = question(certificate, at_hand)
    damped = asked.damping is not None
    checks.append(Check("program", True, "gossip, its model damped" if damped else "gossip"))
    told = (
        "the rows are taken as they stand" if certificate.view.name == "custom" else "the rows were rebuilt"
    )
    checks.append(Check("view", True, f"{certificate.view.name}: {told}"))
    if isinstance(certificate.proof, HorizonProof):
        lower, upper, trusted = _verify_horizon(certificate, certificate.proof, asked, participation, checks)
    else:
        lower, upper, trusted = _verify_dense(certificate, certificate.proof, asked, participation, checks)
    return _conclude(certificate, checks, lower, upper, trusted, weights is not None)


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


def stored_weights(certificate: Certificate) -> GossipWeights:
    """The weights that the file itself holds."""
    if certificate.weights is None:
        raise NotCertified(
            "the file holds the hash of the weights alone, so nothing can be rebuilt (name the graph; its weights are "
            f"said to be {certificate.rule})"
        )
    return certificate.weights.gossip_weights(certificate.rule)


def _verify_dense(
    certificate: Certificate,
    proof: DenseProof,
    asked: Question,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """Kind "dense": M from the definition, then y and the witness against it."""
    cap = participation.largest_count(certificate.rounds)
    if proof.y is None and proof.witness is None:
        # Each contribution stands at best beside its own noise alone, whatever the graph: nothing to rebuild.
        checks += [_cap_end(certificate, cap), _no_lower_end(certificate)]
        return 0.0, float(cap), []
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
    upper, check = _upper_end(certificate, proof, participation, form, cap)
    checks.append(check)
    if hidden.completed and proof.witness is not None:
        form = dense_form(hidden_nodes(asked, complete=False), rounds)
    lower, check = _lower_end(certificate, proof, participation, form)
    checks.append(check)
    if not hidden.completed:
        return lower, upper, []
    names = ", ".join(str(asked.weights.labels[node]) for node in hidden.completed)
    return (
        lower,
        upper,
        [f"nothing about {names}: the observer was given what flows into it, beyond its view"],
    )


def _cap_end(certificate: Certificate, cap: int) -> Check:
    """Without y, the upper end is the number of rounds a target may contribute in."""
    claim = certificate.squared_upper
    return Check("upper end", cap <= claim, f"without y, Δ² ≤ {cap} rounds; claimed {claim!r}")


def _no_lower_end(certificate: Certificate) -> Check:
    """Without a witness, nothing above 0 may be claimed."""
    claim = certificate.squared_lower
    if claim <= 0:
        return Check("lower end", True, "without a witness, Δ² ≥ 0")
    return Check("lower end", False, f"no witness is there to prove the claimed {claim!r}")


def _upper_end(
    certificate: Certificate, proof: DenseProof, participation: Participation, form: Form, cap: int
) -> tuple[float, Check]:
    """The upper end that y proves (or the number of rounds), and whether it reaches the claim."""
    claim = certificate.squared_upper
    if proof.y is None:
        return float(cap), _cap_end(certificate, cap)
    if (proof.y < 0).any():
        t = int(np.argmax(proof.y < 0))
        return float(cap), Check(
            "upper end", False, f"y must not be negative; in round {t + 1} it is {float(proof.y[t])!r}"
        )
    y = np.minimum(proof.y, _LARGEST_Y)
    raised = np.array(y)
    least = math.inf
    for rounds in _joint_rounds(participation, certificate.rounds):
        proved, eigenvalue = dominating(form, y, rounds)
        raised = np.maximum(raised, proved)
        least = min(least, eigenvalue)
    plain, proved_sum = participation.largest_sum(y), participation.largest_sum(raised)
    upper = min(proved_sum, float(cap))
    holds = upper <= claim
    scaled = f"least eigenvalue {least:.3e} at unit diagonal, margin {form.margin:.1e}"
    if holds:
        detail = f"diag(y) ⪰ M is proved and y sums to at most {upper!r} over a pattern ({scaled})"
    elif plain > claim:
        detail = f"y sums to {plain!r} over the worst pattern, above the claimed {claim!r}"
    else:
        detail = f"diag(y) − M is not proved positive semidefinite ({scaled}); proved Δ² ≤ {upper!r}"
    return upper, Check("upper end", holds, detail)


def _joint_rounds(participation: Participation, rounds: int) -> list[NDArray[np.int64]]:
    """The sets of rounds on which y must dominate M: each known pattern, or all rounds for a large family."""
    if participation.kind in {"at-most", "separated"}:
        return [np.arange(rounds)]
    return list(participation.patterns(rounds))


def _lower_end(
    certificate: Certificate, proof: DenseProof, participation: Participation, form: Form
) -> tuple[float, Check]:
    """The lower end that the witness proves, and whether it reaches the claim."""
    claim, witness = certificate.squared_lower, proof.witness
    if witness is None:
        return 0.0, _no_lower_end(certificate)
    # Divided by its largest entry first, so that no square over- or underflows; by its longest row, it has norm 1.
    largest = float(np.abs(witness).max(initial=0.0))
    scaled = witness / largest if largest > 0 else witness
    norms = np.sqrt(np.square(scaled).sum(axis=1))
    longest = float(norms.max(initial=0.0)) * (1 + (witness.shape[1] + 8) * UNIT_ROUNDOFF)
    if largest * longest > 1 + 1e-9:
        t = int(np.argmax(norms))
        return 0.0, Check(
            "lower end",
            False,
            f"the witness must stay within norm 1; in round {t + 1} it has {largest * longest!r}",
        )
    if certificate.contribution == "scalar" and witness.shape[1] != 1:
        return 0.0, Check(
            "lower end", False, f"a scalar witness has one column; this one has {witness.shape[1]}"
        )
    if not participation.allows(np.flatnonzero(witness.any(axis=1)), certificate.rounds):
        return 0.0, Check(
            "lower end", False, f"the witness contributes in rounds that {participation} does not allow"
        )
    if largest == 0:
        return 0.0, Check("lower end", claim <= 0, f"the witness attains 0.0; claimed {claim!r}")
    value = max(0.0, witness_value(form, scaled) / longest**2 * (1 - 8 * UNIT_ROUNDOFF))
    return value, Check(
        "lower end", value >= claim, f"the witness attains at least {value!r}; claimed {claim!r}"
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
    checks.append(_no_lower_end(certificate))
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
    at_hand: bool,
) -> Verification:
    """The verdict of all checks."""
    named = {check.name: check.holds for check in checks}
    failed = [check for check in checks if not check.holds]
    top = math.inf if upper is None else upper
    if upper is not None:
        if certificate.assumption != "none":
            trusted = [_OBLIVIOUS if certificate.assumption == "oblivious" else _QUADRATIC, *trusted]
        if certificate.view.name == "custom":
            trusted = [*trusted, _CUSTOM]
        if not at_hand:
            trusted = [*trusted, _GRAPH]
    return Verification(
        verdict="refused" if failed else "verified" if at_hand else "consistent",
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
