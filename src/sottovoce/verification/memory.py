# SPDX-License-Identifier: Apache-2.0
"""Certificates of training on any program: of kind moves, and of kind dense as if every message were heard.

Kind moves is Theorem 2 of docs/training.md. The program of the file is recognised by what it does
(`recursions.worked_out`), its differences are written down from graph, view and slopes, and the inequality of each
move is proved with the Π, β and κ of the file (`moves.proved_cost`). A run in which the record takes part k times then
has Δ² ≤ k/κ.

Kind dense with updates is Theorem 5: where messages tell every model, the Δ² that streams which are fixed in advance
have for whoever hears every message holds for training, whatever the maps. The observer of the claim hears no more.

Pairs that a relabelling of the network carries onto a proved one have the same Δ² (`AlikePairs`).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.certificates import MovesProof, ShiftProof, StatedView
from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import Slopes, float_above
from sottovoce.verification.asked import training_question
from sottovoce.verification.backwards import Round
from sottovoce.verification.ends import Check, no_lower_end
from sottovoce.verification.meaning import certified_protocol, question
from sottovoce.verification.moves import proved_cost, stored_moves
from sottovoce.verification.ports import port
from sottovoce.verification.recursions import MOST_EXCHANGES, worked_out
from sottovoce.verification.training import relation_checks
from sottovoce.views import ONE_OBSERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.participation import Participation
    from sottovoce.verification.asked import TrainingQuestion
    from sottovoce.verification.moves import Exact, Recursion

__all__ = ["AlikePairs", "as_if_heard", "memory_recursion", "own_price", "price_of", "verify_memory"]

Pair = tuple[tuple[int, ...], int]

# Products of rationals grow with the third power of a state: beyond, a check takes more than minutes.
MOST_NUMBERS = 128
# Speed alone: nodes of a network whose relabellings are searched for.
MOST_RELABELLED = 64


def memory_recursion(
    certificate: Certificate, schedule: tuple[GossipWeights, ...], participation: Participation
) -> tuple[Recursion, TrainingQuestion]:
    """The differences that a claim of kind moves is about, and its question, from graph, program, view and slopes.

    Guarantee: exact; nothing of the proof is read.
    Source: `recursions`.

    Raises NotCertified for a program whose differences are not worked out, and for a view that they do not fit.
    """
    slopes, weights = certificate.updates, schedule[0]
    if not isinstance(slopes, Slopes) or slopes.lower.size != weights.n:
        raise InputError(f"a proof of kind moves needs a pair of slopes for each of the {weights.n} nodes")
    made = worked_out(certified_protocol(certificate, schedule))
    if made is None:
        raise NotCertified(
            "of training with memory only momentum with its noise inside and several exchanges a round are worked out, "
            f"of at most {MOST_EXCHANGES} exchanges of all nodes in a round; got {certificate.sentence[:200]}"
        )
    asked = question(certificate, weights)
    claim = training_question(certificate, asked, participation, levels=np.ones(weights.n))
    if 2 * claim.loop.unknown.size > MOST_NUMBERS:
        raise NotCertified(
            f"training with memory is checked for at most {MOST_NUMBERS // 2} hidden nodes; got "
            f"{claim.loop.unknown.size}"
        )
    try:
        return made(claim, claim.loop.position(asked.target)), claim
    except InputError as error:
        raise NotCertified(str(error)) from None


def verify_memory(
    certificate: Certificate,
    proof: MovesProof,
    schedule: tuple[GossipWeights, ...],
    participation: Participation,
    checks: list[Check],
    *,
    positive: Callable[[Exact], bool] | None = None,
) -> tuple[float, float]:
    """What a proof of kind moves proves of Δ²; `checks` takes each step, and nothing is proved from below.

    Guarantee: Δ² ≤ the second number, whatever maps in the ball the nodes apply; infinite where nothing is proved.
    Source: Theorem 2 of docs/training.md.
    """
    recursion, claim = memory_recursion(certificate, schedule, participation)
    _check_fit(proof, recursion)
    checks += relation_checks(certificate, claim)
    size, hidden = recursion.sizes[0], claim.loop.unknown.size
    found = f"differences of {hidden} hidden nodes are {size} numbers, written down from program and graph"
    checks.append(Check("rationals", True, found))
    cost, count = proved_cost(recursion, proof, positive=positive), participation.largest_count(claim.rounds)
    upper, claimed = (
        float_above(Fraction(cost) * count) if np.isfinite(cost) else np.inf,
        certificate.squared_upper,
    )
    told = f"{count} contributions cost at most {cost!r} each, so Δ² ≤ {upper!r}; claimed {claimed!r}"
    failed = "the proof does not hold: the matrix inequality of a move is not positive"
    checks.append(Check("upper end", upper <= claimed, told if np.isfinite(cost) else failed))
    checks.append(no_lower_end(certificate))
    return 0.0, upper


def _check_fit(proof: MovesProof, recursion: Recursion) -> None:
    """Refuse a proof of other sizes, and numbers that no inequality would read.

    Without this a proof could carry numbers that no inequality reads, and two files could prove the same thing.
    """
    bends = [move.bends.shape[1] for move in recursion.moves]
    if len(proof.factors) != len(recursion.sizes) or any(
        factor.shape[0] != size or factor.shape[1] > size
        for factor, size in zip(proof.factors, recursion.sizes, strict=False)
    ):
        raise InputError(
            f"a proof of kind moves needs factors of {list(recursion.sizes)} rows, and no more columns; got shapes "
            f"{[factor.shape for factor in proof.factors]}"
        )
    if [each.size for each in proof.multipliers] != bends or proof.kappas.size != len(recursion.counts):
        raise InputError(
            f"a proof of kind moves needs {bends} multipliers and {len(recursion.counts)} of kappa; got "
            f"{[each.size for each in proof.multipliers]} and {proof.kappas.size}"
        )
    kept = stored_moves(recursion, proof).factors
    if not all(map(np.array_equal, kept, proof.factors)):
        raise InputError(
            "a factor must be 0 at the pivots of what is seen: what it has there follows from the rest"
        )


def as_if_heard(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> Certificate:
    """The claim about averaging from which one about training follows: the observer hears every message.

    It knows the draws that the observer of the claim knows. Where every message is seen anyway it is that view.

    Guarantee: a bound of the result is one of the claim, whatever the maps, if messages tell every model.
    Source: Theorem 5 of docs/training.md.

    Raises NotCertified for a program whose messages do not tell its models.
    """
    if not certified_protocol(certificate, schedule).shows_model:
        raise NotCertified(
            "messages of this program do not tell its models, so that not even hearing all of them bounds what "
            f"training tells; got {certificate.sentence[:200]}"
        )
    view = certificate.view
    if view.name == "custom":
        raise NotCertified("training as if every message were heard is checked for views that have a name")
    heard = StatedView(name="everyone")
    if view.name != "everyone":
        rows = tuple(((node, Fraction(1)),) for node in range(schedule[0].n))
        known = view.observers if view.own_noise == "known" else ()
        heard = StatedView(name="custom", rows=rows, known_noise=known)
    return replace(certificate, updates=None, view=heard)


class AlikePairs:
    """Which pairs have the Δ² of another: a relabelling that keeps the protocol carries one onto the other.

    The view must have one observer, or none: members of a coalition have no order that a relabelling would keep.
    """

    def __init__(self, certificate: Certificate, weights: GossipWeights) -> None:
        single = certificate.view.name in {*ONE_OBSERVER, "everyone"} and len(certificate.schedule) == 1
        self._symmetries = None
        if single and weights.n <= MOST_RELABELLED:
            protocol = certified_protocol(certificate, (weights,))
            self._symmetries = replace(protocol, updates=certificate.updates).symmetries

    def holds(self, pair: Pair, proved: Iterable[Pair]) -> bool:
        """Whether one of the proved pairs is carried onto this one.

        Guarantee: True is certain, and the pair then has the same Δ²: weights were compared in rationals.
        """
        found = self._symmetries
        observers, target = pair
        return found is not None and any(
            len(others) == len(observers) and found.carries((*others, other), (*observers, target))
            for others, other in proved
        )


def own_price(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> float:
    """What a contribution of any node costs at most whoever sees whatever: κ² of its own noise; infinite if unknown.

    Guarantee: a run in which a record takes part k times has Δ² ≤ k times this in every view, whatever the maps.
    Source: Theorem 5 of docs/training.md with the cap of `ports.port`, which holds for all messages and registers.
    """
    protocol = certified_protocol(certificate, schedule)
    if protocol.encoded or not protocol.shows_model or protocol.n > MOST_RELABELLED:
        return np.inf
    found = [
        port(Round(weights=weights, program=program, known=frozenset(), target=node))
        for weights, program in (protocol.round_of(t) for t in range(protocol.period))
        for node in range(protocol.n)
    ]
    if any(each is None for each in found):
        return np.inf
    return max(float_above(each * each) for each in found if each is not None)


def price_of(certificate: Certificate, rounds: int, participation: Participation) -> float:
    """Δ² of the first rounds of a certificate that holds for all of them; infinite where its proof does not tell.

    A record that takes part in the first rounds alone takes part in as many as these allow, and what is seen of them is
    a part of what is seen of all.

    Guarantee: if the certificate is verified, Δ² of the first `rounds` rounds is at most this.
    Source: Theorems 1 and 2 of docs/training.md: the prices of rounds that take part add up.
    """
    proof, whole = certificate.proof, participation.largest_count(certificate.rounds)
    even = isinstance(proof, MovesProof) or (
        isinstance(proof, ShiftProof)
        and (proof.method != "shift" or len(proof.steps) == len(proof.recurring) == 1)
    )
    if even:
        share = Fraction(participation.largest_count(rounds), whole)
        return float_above(Fraction(certificate.squared_upper) * share)
    if (
        not isinstance(proof, ShiftProof)
        or participation.kind != "full"
        or not all(step.kappa for step in proof.steps)
    ):
        return np.inf
    prices = [1 / Fraction(step.kappa) for step in proof.steps]
    try:
        # The last round costs nothing where it shows nothing; of the two ways to count, the larger sum is taken.
        orders = [proof.order(max(1, certificate.rounds - quiet))[:rounds].tolist() for quiet in (0, 1)]
    except InputError:
        return np.inf
    return max(float_above(sum((prices[k] for k in order), Fraction(0))) for order in orders)
