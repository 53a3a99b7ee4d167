# SPDX-License-Identifier: Apache-2.0
"""Both ends of a claim in floats with margins for all rounding, by the kind of proof.

This is the switchboard of the float path: it finds out which argument a claim needs, refuses what is too large
before any work, and hands rationals to the module that knows the argument.

* kind dense, plain gossip: M from its definition (`forms`), y and the witness against it (`ends`);
* kind dense, any other program: `programs`;
* kind horizon, plain gossip of very many rounds: a model of few states (`reduction`), its filter and bounded-real
  inequalities (`horizon`), then the sum over the worst pattern, here;
* kind shift: `training`; kind moves, and training as if every message were heard: `memory`.

Plain gossip is s_t = D W s_{t−1} + x_t + u_t. Fresh noise enters at the node at which the contribution does, so the
contribution c_t is never better seen than beside u_t alone: M ⪯ I. That is the cap, Δ² ≤ the number of rounds in
which the target may contribute, and 1 for streams of energy 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.certificates import DenseProof, HorizonProof, MovesProof, ShiftProof
from sottovoce.errors import NotCertified
from sottovoce.graphs import uneven_row
from sottovoce.protocols import spread
from sottovoce.verification.ends import Check, cap_end, lower_end, no_lower_end, upper_end
from sottovoce.verification.forms import dense_form
from sottovoce.verification.hidden import hidden_nodes
from sottovoce.verification.horizon import affordable, dominates, filtered
from sottovoce.verification.meaning import certified_protocol, program_question, question
from sottovoce.verification.memory import as_if_heard, verify_memory
from sottovoce.verification.programs import verify_program
from sottovoce.verification.reduction import distortion, models
from sottovoce.verification.rounding import raised, slightly_raised
from sottovoce.verification.training import verify_training

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.participation import Participation
    from sottovoce.verification.hidden import HiddenNodes
    from sottovoce.verification.horizon import Filtered
    from sottovoce.verification.meaning import AveragingQuestion
    from sottovoce.verification.reduction import Model

__all__ = ["ends_in_floats", "is_gossip"]

# M is T × T and is factorised in T³ operations: 4096 rounds take 134 MB a copy.
MOST_ROUNDS = 4096
# K = N Nᵀ has as many rows and columns as rows × rounds are seen: 8000 take 512 MB.
MOST_ROWS = 8000
# Floats of C Aᵏ over all rounds, or of a witness of d columns over all nodes: 320 MB.
MOST_NUMBERS = 40_000_000
# Rounds of a start-up recursion, each of which is stored with two r × r matrices.
MOST_START = 4096
# A model whose distortion is this small, relative to √rate, needs no more states.
_FINE = 1e-7
# What is proved with a smaller y is proved; more than this helps nothing and could overflow.
_LARGEST_Y = 1e9
# A model with a distortion or skew beyond this proves nothing.
_COARSE = 0.5


def ends_in_floats(
    certificate: Certificate,
    schedule: tuple[GossipWeights, ...],
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """What a proof proves of Δ² from below and from above, and what was taken on trust; `checks` takes each step.

    Guarantee: both ends are proved, rounding included; an infinite upper end proves nothing.
    Source: docs/certificates.md, "What verify checks", steps 3 to 8 of each kind.
    """
    if isinstance(certificate.proof, ShiftProof):
        asked = question(certificate, schedule[0])
        return *verify_training(certificate, asked, participation, checks), []
    if isinstance(certificate.proof, MovesProof):
        return *verify_memory(certificate, certificate.proof, schedule, participation, checks), []
    if certificate.as_heard:
        certificate = as_if_heard(certificate, schedule)
    if is_gossip(certificate, schedule):
        return _verify_gossip(certificate, question(certificate, schedule[0]), participation, checks)
    program = program_question(certificate, certified_protocol(certificate, schedule))
    return verify_program(certificate, program, participation, checks)


def is_gossip(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> bool:
    """Whether this is s_t = D W s_{t−1} + x_t + u_t with rows of W that sum to 1 and |D| ≤ 1, as `hidden` takes it.

    `damping` is None where noise is encoded, has levels, or weights or programs take turns; all that goes to
    `programs`, which proves what it returns of every program, gossip too.

    Guarantee: True only if the certificate's program is, instruction by instruction and number by number, message =
    D·model + contribution + u with fresh u of deviation 1, then exchange; so contributions stand beside noise of their
    own node, M ⪯ I, and `hidden` has the loop D W. |D| ≤ 1 and the sums of rows, which floats say to 10⁻⁹, only keep
    powers small: no bound takes them for granted.
    """
    damping = certificate.damping
    if damping is None or uneven_row(schedule[0].matrix) is not None:
        return False
    return all(abs(number) <= 1 for number in spread(damping, 1))


def _verify_gossip(
    certificate: Certificate, asked: AveragingQuestion, participation: Participation, checks: list[Check]
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
    asked: AveragingQuestion,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """Kind "dense": M from the definition, then y and the witness against it.

    A known node whose inflow the view does not determine is handled twice. For the upper end the observer is
    *given* that inflow (`complete`), for the lower end the node counts as hidden. The first sees more than the
    view, the second less, so each end errs to its own safe side, and the verdict says so.

    Guarantee: lower ≤ Δ² ≤ upper, rounding included.
    Source: docs/certificates.md, steps 5 to 8; mathematics of `forms.dense_form` and `forms.dominating`.
    """
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
    asked: AveragingQuestion,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """Kind "horizon": a model made from the graph, its inequalities, then the sum over all rounds.

    `start` and `rate` are y_1..y_τ and every later y. Large ones are cut to 10⁹, far above the cap of 1 a round, so
    that no square overflows. For streams of bounded energy the same end holds, since ‖c_t‖ ≤ 1 follows from Σ‖c_t‖²
    ≤ 1.

    Guarantee: Δ² ≤ upper, rounding included; no lower end is proved.
    Source: `reduction` for what the model leaves out, `horizon` for what is proved of the model.
    """
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
            failure or "the start-up recursion and the inequality of later rounds hold",
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

    The rate of the file says only where more work is worth nothing: d enters Δ as d·√count beside √(rate·count), so
    10⁻⁷ of √rate moves Δ² by 2·10⁻⁷ of itself. Whatever is returned is widened by its own distortion.
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
    """The largest ‖P e_j c‖² over a pattern, by the inequality of `sottovoce.verification.reduction`, rounded up.

        ‖P e_j c‖ ≤ (√(Σ_{t ∈ π} y_t · (1 + excess)) + d·√count) / √(1 − η),   ‖c‖ ≤ √count.

    `excess` is what frozen gains cost (`horizon.filtered`), `lost` is d and `skew` is η.

    Guarantee: an upper bound. Two products and a sum are covered by 10⁻¹⁵ = 9u, and two roots, three products, a
    sum, a difference and a quotient, squared, by 10⁻¹⁴ = 90u.
    """
    count = participation.largest_count(rounds)
    total = slightly_raised(count * proof.rate + _above_rate(proof, participation))
    learnt = math.sqrt(total * (1 + found.excess)) + lost * math.sqrt(count)
    return raised(learnt * learnt / (1 - found.model.skew))


def _above_rate(proof: HorizonProof, participation: Participation) -> float:
    """What a pattern may add to rate times its number of rounds: the largest sum of (start − rate)₊ over it.

    A pattern cut to the first τ rounds is again a pattern, of τ rounds, so the family need not know the horizon;
    fixed rounds beyond τ add nothing. Rounds in which start is below rate count as rate: that is never too little.

    Guarantee: an upper bound; `fsum` rounds once, and the difference by u, which 10⁻¹⁵ = 9u cover.
    """
    above = np.maximum(proof.start - proof.rate, 0.0)
    if not above.size:
        return 0.0
    if participation.kind == "fixed":
        return slightly_raised(math.fsum(above[t - 1] for t in participation.rounds if t <= above.size))
    return participation.largest_sum(above)
