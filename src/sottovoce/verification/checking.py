# SPDX-License-Identifier: Apache-2.0
"""`verify`: every step of a certificate's argument, done again from gossip weights and program.

This module decides nothing about numbers. It makes sure that the claim speaks of the network and protocol at hand,
by hash; has both ends proved by `floats` or `balls`; and turns the list of checks into a verdict. A check that
fails never stops at a warning: the verdict is then "refused".

The last step goes from Δ² to ε. With noise of standard deviation σ, clipping norm C and noise multiplier σ/C,

    μ = factor·√Δ²/noise_multiplier,   factor 2 for replace-one, else 1,

and ε(δ) is that of a Gaussian mechanism with parameter μ. No ε stands in the file, so none can be forged.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import InputError, NotCertified, needs, one_of
from sottovoce.gaussian import epsilon as epsilon_of
from sottovoce.graphs import GossipWeights
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, Slopes, exact_span
from sottovoce.threads import one_blas_thread
from sottovoce.verification.ends import Check
from sottovoce.verification.floats import ends_in_floats
from sottovoce.verification.rounding import roundings
from sottovoce.views import seen_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.certificates import Certificate

__all__ = ["Arithmetic", "Check", "Verdict", "Verification", "verify"]

Verdict = Literal["verified", "consistent", "refused"]
Arithmetic = Literal["float", "balls"]

# Characters of a spelled pattern. Longer ones are made to keep the parser busy.
MOST_PARTICIPATION = 100_000
# What no check of this room can see. Each sentence is one hypothesis of the theorem behind the upper end.
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
    "consistent" when it holds for the weights in the file and no graph was at hand, and "refused" when a check
    failed; `reason` is then the first that did, in a sentence. `epsilon` follows from `squared` and the mechanism
    in the file. `arithmetic` is what both ends were sought in; where floats serve in place of balls `why_float`
    says why.

    `upper_holds` and `lower_holds` say whether the claimed ends were reached. `squared` may prove more than is
    claimed, and is infinite above where nothing was proved. `checks` are in the order in which they were made.

    Guarantee: Δ² ≤ squared.upper given `trusted`, whatever the verdict. squared.lower is attained where it stands
    below squared.upper; were a witness ever to attain more than the proved upper end, it is cut to that end.
    """

    verdict: Verdict
    upper_holds: bool
    lower_holds: bool
    squared: Interval
    epsilon: float | None
    checks: tuple[Check, ...]
    trusted: tuple[str, ...]
    reason: str
    arithmetic: Arithmetic = "float"
    why_float: str = ""

    @property
    def verified(self) -> bool:
        """Whether everything was decided from the graph at hand, and holds.

        Guarantee: if so, the claim is true given `trusted`.
        """
        return self.verdict == "verified"


@one_blas_thread()
def verify(
    certificate: Certificate,
    network: GossipWeights | Sequence[GossipWeights] | Protocol | None = None,
    *,
    arithmetic: Arithmetic | Literal["auto"] = "auto",
) -> Verification:
    """Check a certificate from the definition on the gossip weights at hand, independently of how it was found.

    `network` is the gossip matrix, the matrices of a schedule, or the whole protocol that the certificate is meant
    to speak of; it must have the hash that the certificate names. Rows, known noise and what is hidden are rebuilt
    from its rationals and from the program; the numbers of the file are hints. For kind "dense" M is built too,
    diag(y) ⪰ M is proved by Cholesky with margins for all rounding, y is summed over the worst pattern, and the
    witness is evaluated. For kind "horizon" a small model is made from the graph, what it leaves out is bounded,
    and bounded-real inequalities are proved on it. For kind "shift", about training, the hidden loop is rebuilt,
    each step of the proof is shown not to stretch, and the attack is evaluated. For kind "moves", about training with
    memory, the differences of the program are written down and the inequality of each move is proved; training with a
    proof of kind "dense" is proved as if the observer heard every message.

    Without `network` the weights in the file are taken, and the verdict is at best "consistent".

    `arithmetic` says what proves it: "float", with margins for all rounding, or "balls", from the definitions in
    rationals and ball arithmetic, which needs python-flint and takes longer. "auto" takes balls where they are at
    hand and the claim is small, and floats otherwise; the result names what it was.

    Guarantee: if `upper_holds`, Δ² ≤ squared_upper for every dimension of contributions, given what `trusted`
    names; if `lower_holds`, some pair of neighbouring streams attains squared_lower. No number of the file sets a
    tolerance.
    Source: weak duality, docs/certificates.md ("What verify checks"); for training Theorem 1 of docs/training.md.

    Raises NotCertified where the problem is too large or too close to singular to be checked here.
    """
    one_of(("auto", "float", "balls"), arithmetic=arithmetic)
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
    view = certificate.view
    checks.append(Check("view", True, f"{view.name}{seen_part(view.exchanges)}: {told}"))
    used, why = _arithmetic(arithmetic, certificate, schedule)
    if used == "balls":
        from sottovoce.verification.balls import ends_in_balls as ends
    else:
        ends = ends_in_floats
    found = ends(certificate, schedule, participation, checks)
    return replace(_conclude(certificate, checks, *found, network), arithmetic=used, why_float=why)


def _arithmetic(
    wanted: Arithmetic | Literal["auto"], certificate: Certificate, schedule: tuple[GossipWeights, ...]
) -> tuple[Arithmetic, str]:
    """What to prove a claim in, and, where floats serve although balls were not refused, why.

    The choice rests on the size of the claim alone, counted before any work. It can change how long a check takes
    and how tight it is, never what is true.
    """
    if wanted == "float":
        return "float", ""
    if importlib.util.find_spec("flint") is None:
        if wanted == "balls":
            raise needs("verification in balls", "python-flint", "verify")
        return "float", "the package python-flint, which brings balls, is not installed"
    from sottovoce.verification.balls import MOST_WORK, SMALL, work

    most = MOST_WORK if wanted == "balls" else SMALL
    if (takes := work(certificate, schedule)) <= most:
        return "balls", ""
    large = f"in balls this claim takes about {takes:.0e} operations, and {most:.0e} are done"
    if wanted == "balls":
        raise NotCertified(f"{large} (take fewer rounds or a smaller view or network, or arithmetic float)")
    return "float", large


def _schedule(
    certificate: Certificate, network: GossipWeights | Sequence[GossipWeights] | Protocol | None
) -> tuple[GossipWeights, ...]:
    """The weights at hand, round by round; those of the file if none are.

    They are used only after `_same_weights` has compared their hashes, which cover rationals and names of nodes.
    """
    if network is None:
        return stored_weights(certificate)
    if isinstance(network, Protocol):
        return network.schedule
    return (network,) if isinstance(network, GossipWeights) else tuple(network)


def _same_weights(certificate: Certificate, schedule: tuple[GossipWeights, ...], *, named: bool) -> Check:
    """Whether the weights of every round are those that the certificate names.

    Two things are compared with the stated hash: what is at hand, and the matrix in the file where there is one. So
    a file cannot show a reader one matrix and be checked on another.
    """
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
        if named and each.matrix is not None and each.matrix.gossip_weights(each.rule).hash != each.hash:
            found = f"the weights in the file do not have the hash {each.hash} that it names"
            return Check("weights", False, found)
    rest = f", and so have the other {len(schedule) - 1}" if len(schedule) > 1 else ""
    return Check("weights", True, f"{whose} the hash {schedule[0].hash}, as certified{rest}")


def _same_program(certificate: Certificate, network: object) -> Check:
    """What every node is said to do; whether that is the protocol at hand, if one is.

    The hash covers weights, programs, rounds, encoder and slopes. Without a protocol at hand the program of the
    file is shown in words and named in `trusted`.
    """
    if isinstance(network, Protocol) and network.hash != certificate.protocol_hash:
        found = (
            f"this certificate speaks of another protocol: {certificate.sentence[:200]}; at hand is "
            f"{network.sentence[:200]}{_other_slopes(certificate, network)}"
        )
        return Check("program", False, found)
    return Check("program", True, certificate.sentence[:500])


def _other_slopes(certificate: Certificate, network: Protocol) -> str:
    """Where two protocols have balls of slopes that differ, the first pair of them to the last digit.

    A sentence rounds slopes, so that two balls may read alike in it.
    """
    stated, ours = certificate.updates, network.updates
    if not (isinstance(stated, Slopes) and isinstance(ours, Slopes) and stated.lower.size == ours.lower.size):
        return ""
    other = np.flatnonzero((stated.lower != ours.lower) | (stated.upper != ours.upper))
    if not other.size:
        return ""
    spans = (exact_span(float(each.lower[other[0]]), float(each.upper[other[0]])) for each in (stated, ours))
    return "; slopes of node {!r}: {} certified, {} at hand".format(network.labels[int(other[0])], *spans)


def _participation(certificate: Certificate) -> Participation:
    """The pattern that is spelled, if its numbers are within reason.

    Python turns long digits into integers in quadratic time, so their length is limited before they are parsed. A
    fixed pattern that names rounds beyond the horizon is a contradiction in the file, and an error.
    """
    text = certificate.participation
    if len(text) > MOST_PARTICIPATION or any(len(part) > 16 for part in _digits(text)):
        raise InputError(
            f"participation must be spelled with numbers of at most 16 digits; got {text[:60]!r}"
        )
    parsed = Participation.parse(text)
    if parsed.kind == "poisson":
        raise InputError(
            f"participation of a certificate must say which rounds count; got {text[:60]!r}, and Δ² knows nothing of "
            "coins (certify participation full)"
        )
    if parsed.kind == "fixed" and parsed.rounds[-1] > certificate.rounds:
        raise InputError(
            f"{text[:60]} names round {parsed.rounds[-1]}, but there are {certificate.rounds} rounds"
        )
    return parsed


def _digits(text: str) -> list[str]:
    """The runs of digits in a text."""
    return "".join(letter if letter.isdigit() else " " for letter in text).split()


def stored_weights(certificate: Certificate) -> tuple[GossipWeights, ...]:
    """The weights that the file itself holds, those of each round of a schedule.

    Above 20 000 nodes a file holds hashes alone. Then there is nothing to check on, which is an error and no
    verdict.
    """
    held = []
    for each in certificate.schedule:
        if each.matrix is None:
            raise NotCertified(
                "the file holds the hash of the weights alone, so nothing can be rebuilt (name the graph; its weights "
                f"are said to be {each.rule})"
            )
        held.append(each.matrix.gossip_weights(each.rule))
    return tuple(held)


def _conclude(
    certificate: Certificate,
    checks: list[Check],
    lower: float | None,
    upper: float | None,
    trusted: list[str],
    network: object,
) -> Verification:
    """The verdict of all checks.

    "verified" needs every check and a network at hand. Trust is named only where something was proved: a claim that
    was refused before any proof rests on nothing. Ends that contradict each other prove nothing.
    """
    if lower is not None and upper is not None and lower > upper:
        found = (
            f"what was proved contradicts itself, Δ² ≥ {lower!r} and Δ² ≤ {upper!r}: one of the two is wrong"
        )
        checks = [check for check in checks if check.name not in {"upper end", "lower end"}]
        checks.append(Check("ends", False, found))
        lower = upper = None
    named = {check.name: check.holds for check in checks}
    failed = [check for check in checks if not check.holds]
    top = math.inf if upper is None else upper
    if upper is not None:
        if certificate.updates is not None:
            trusted = [*trusted, _NOISE]
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
    """The ε that follows from a proved Δ² and the mechanism in the file; None where one is missing or ε has no end.

    Guarantee: not below ε(μ, δ) of the proved Δ², as far as `sottovoce.gaussian.epsilon` is. √ and quotient round
    by u each and the product with 1 or 2 not at all, so 4u on μ cover them; ε grows with μ.
    Source: Dong, Roth and Su, Gaussian Differential Privacy (2022); Balle and Wang (2018), Theorem 8.
    """
    mechanism = certificate.mechanism
    if mechanism is None or math.isinf(squared_upper):
        return None
    factor = 2 if mechanism.relation == "replace-one" else 1
    mu = factor * math.sqrt(squared_upper) / mechanism.noise_multiplier
    epsilon = float(epsilon_of(mu * (1 + roundings(4)), mechanism.delta))
    return epsilon if math.isfinite(epsilon) else None
