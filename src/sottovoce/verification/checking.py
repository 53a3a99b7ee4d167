# SPDX-License-Identifier: Apache-2.0
"""`verify`: every step of a certificate's argument, done again from its file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from sottovoce.errors import NotCertified
from sottovoce.graphs import GossipWeights
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.verification.forms import Form, dense_form, dominating, witness_value
from sottovoce.verification.hidden import RationalWeights, hidden_nodes, rational_weights
from sottovoce.verification.horizon import check_horizon
from sottovoce.verification.meaning import LARGEST_REBUILT, model_mismatch, view_mismatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate, HorizonModel

__all__ = ["Check", "Verification", "verify"]

MOST_ROWS = 8000
MOST_STATES = 1_000_000
MOST_NUMBERS = 100_000_000
ROW_SUM_TOLERANCE = 1e-9
_CUSTOM = "that the rows and the known noise in the file are what the observer has"
_OBLIVIOUS = "that contributions do not depend on what the observer cannot see"
_QUADRATIC = (
    "that contributions depend on what the observer cannot see as quadratic losses of the stored damping make "
    "them, and in no other way"
)
NORM_TOLERANCE = 1e-12
LOWER_TOLERANCE = 1e-12
MODEL_TOLERANCE = 1e-9
_LONGEST_PATTERN = 1_000_000


class Check(NamedTuple):
    """One step: its name, whether it holds, and what was found."""

    name: str
    holds: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What became of a claim: `squared` is what could be proved again, `trusted` what was not looked into.

    `verified` says that every check holds; `reason` is the first that does not, in a sentence (empty if
    none).
    """

    verified: bool
    upper_holds: bool
    lower_holds: bool
    squared: Interval
    checks: tuple[Check, ...]
    trusted: tuple[str, ...]
    reason: str


def verify(certificate: Certificate, graph_weights: GossipWeights | None = None) -> Verification:
    """Check a certificate from the definition, independently of how it was found.

    The rows of a named view are rebuilt from the stored gossip matrix. For kind "dense" the form M is, too;
    diag(y) ⪰ M is proved by Cholesky with margins for all rounding, y is summed over the worst pattern, and
    the witness is evaluated. For kind "horizon" the first responses of the stored model are compared with
    the graph's, the filter is run again on it and its bounded-real inequalities are checked.

    With `graph_weights` the certificate must also speak of that very gossip matrix and those labels, and mean
    fractions where these do.

    Guarantee: if `upper_holds`, Δ² ≤ squared_upper for every dimension of contributions, given what `trusted`
    names; if `lower_holds`, some pair of neighbouring streams attains squared_lower (to a relative 1e-12).

    Raises NotCertified where the problem is too large or too close to singular to be checked here.
    """
    checks = [
        *_check_weights(certificate, graph_weights),
        *_check_damping(certificate),
        _check_view(certificate),
    ]
    if not all(check.holds for check in checks):
        return _conclude(checks, None, None, ())
    participation = Participation.parse(certificate.participation)
    if certificate.horizon is not None:
        return _verify_horizon(certificate, certificate.horizon, participation, checks)
    return _verify_dense(certificate, participation, checks)


def _check_weights(certificate: Certificate, graph_weights: GossipWeights | None) -> list[Check]:
    """The gossip matrix is one, is the one that the hash names, and is the one that the caller means."""
    checks = []
    if graph_weights is not None:
        same = graph_weights.hash == certificate.weights_hash
        checks.append(
            Check(
                "graph",
                same,
                f"the graph at hand has the hash {graph_weights.hash}, as certified"
                if same
                else f"this certificate speaks of another graph: its weights have the hash "
                f"{certificate.weights_hash}, the graph at hand has {graph_weights.hash}",
            )
        )
    if graph_weights is not None and certificate.fractions != (graph_weights.unit is not None):
        meant, found = ("fractions", "floats") if certificate.fractions else ("floats", "fractions")
        detail = f"the certificate means weights that are {meant}, those of the graph at hand are {found}"
        checks.append(Check("fractions", False, detail))
    stored = certificate.weights
    if stored is None:
        return checks
    n = stored.rows
    matrix = sparse.csr_array((stored.data, stored.indices, stored.indptr), shape=(n, n))
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    worst = int(np.argmax(np.abs(sums - 1)))
    balanced = bool(abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE) and bool((stored.data >= 0).all())
    found = GossipWeights(matrix=matrix, labels=certificate.labels, rule="certificate", symmetric=False).hash
    same = found == certificate.weights_hash
    checks.append(
        Check(
            "weights",
            balanced,
            "the weights are at least 0 and every row sums to 1"
            if balanced
            else "the weights must be at least 0 and sum to 1 in every row; row "
            f"{certificate.labels[worst]!r} sums to {sums[worst]:.12g}",
        )
    )
    checks.append(
        Check(
            "weights hash",
            same,
            "the stored weights have the hash that is claimed"
            if same
            else f"the stored weights have the hash {found}, not the claimed {certificate.weights_hash}",
        )
    )
    return checks


def _check_damping(certificate: Certificate) -> list[Check]:
    """The damping, if there is one, keeps the loop from running away, as every bound of rounding here assumes."""
    if certificate.damping is None:
        return []
    largest = float(np.abs(certificate.damping).max())
    if largest <= 1:
        return [Check("damping", True, "the damping of every node lies between -1 and 1")]
    return [Check("damping", False, f"the damping must lie between -1 and 1; one has size {largest:.12g}")]


def _assumed(certificate: Certificate) -> str:
    """What is taken on trust about how contributions arise."""
    return _OBLIVIOUS if certificate.damping is None else _QUADRATIC


def _check_view(certificate: Certificate) -> Check:
    """The rows and the known noise are those that the named view means on the stored weights."""
    wrong = view_mismatch(certificate)
    if wrong:
        return Check("view", False, wrong)
    if certificate.view == "custom" or certificate.weights is None:
        return Check("view", True, "the rows are taken as they stand")
    return Check("view", True, f"the rows and the known noise are those of the {certificate.view} view")


def _check_model(certificate: Certificate, model: HorizonModel) -> Check | None:
    """The stored model answers as the graph does, as far as the file allows to look; None if it does not."""
    if certificate.weights is None or len(certificate.labels) > LARGEST_REBUILT:
        return None
    away, count = model_mismatch(certificate, model)
    return Check(
        "model",
        away <= max(MODEL_TOLERANCE, 4 * model.distortion),
        f"the stored model and the graph differ by at most {away:.1e} in their first {count} responses",
    )


def _verify_dense(
    certificate: Certificate, participation: Participation, checks: list[Check]
) -> Verification:
    """Kind "dense": M from the definition, then y and the witness against it."""
    assert certificate.weights is not None
    cap = participation.largest_count(certificate.rounds)
    if certificate.y is None and certificate.witness is None:
        # Each contribution stands at best beside its own noise alone, whatever the graph: nothing to rebuild.
        checks += [_cap_end(certificate, cap), _no_lower_end(certificate)]
        return _conclude(checks, 0.0, float(cap), (_assumed(certificate),))
    m, n, rounds = certificate.observation.rows, len(certificate.labels), certificate.rounds
    if m * rounds > MOST_ROWS or n * rounds > MOST_STATES or m * n * rounds > MOST_NUMBERS:
        raise NotCertified(
            f"this claim is too large to be rebuilt densely: {m} rows x {rounds} rounds x {n} nodes "
            f"(at most {MOST_ROWS} rows x rounds, {MOST_STATES} nodes x rounds and {MOST_NUMBERS} of all "
            "three; use a certificate of kind horizon, or fewer rounds)"
        )
    weights = rational_weights(certificate.weights, fractions=certificate.fractions)
    checks.append(
        Check(
            "rationals",
            True,
            "ranks are decided with the fractions that the weights are within one unit in the last place of"
            if weights.recovered is not None
            else "ranks are decided with the stored floats, taken as exact",
        )
    )
    form, given = _form(certificate, weights, complete=True)
    upper, check = _upper_end(certificate, participation, form, cap)
    checks.append(check)
    if given and certificate.witness is not None:
        form, _ = _form(certificate, weights, complete=False)
    lower, check = _lower_end(certificate, participation, form)
    checks.append(check)
    trusted = [_assumed(certificate)]
    if weights.recovered is not None:
        trusted.append("that the weights are the fractions that the stored floats were rounded from")
    if certificate.view == "custom":
        trusted.append(_CUSTOM)
    if given:
        names = ", ".join(str(certificate.labels[node]) for node in given)
        trusted.append(f"nothing about {names}: the observer was given what flows into it, beyond its view")
    return _conclude(checks, lower, upper, tuple(trusted))


def _form(
    certificate: Certificate, weights: RationalWeights, *, complete: bool
) -> tuple[Form, tuple[int, ...]]:
    """M with its margin, and the nodes whose inflow the observer was given."""
    hidden = hidden_nodes(certificate, weights, complete=complete)
    position = int(np.searchsorted(hidden.unknown, certificate.target))
    return dense_form(hidden, position, certificate.rounds), hidden.completed


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
    certificate: Certificate, participation: Participation, form: Form, cap: int
) -> tuple[float, Check]:
    """The upper end that y proves (or the number of rounds), and whether it reaches the claim."""
    claim = certificate.squared_upper
    if certificate.y is None:
        return float(cap), _cap_end(certificate, cap)
    y = certificate.y
    if (y < 0).any():
        t = int(np.argmax(y < 0))
        return float(cap), Check(
            "upper end", False, f"y must not be negative; in round {t + 1} it is {float(y[t])!r}"
        )
    raised = np.array(y)
    least = math.inf
    for rounds in _joint_rounds(participation, certificate.rounds):
        proved, eigenvalue = dominating(form, np.asarray(y), rounds)
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


def _lower_end(certificate: Certificate, participation: Participation, form: Form) -> tuple[float, Check]:
    """The lower end that the witness proves, and whether it reaches the claim."""
    claim = certificate.squared_lower
    if certificate.witness is None:
        return 0.0, _no_lower_end(certificate)
    witness = certificate.witness
    norms = np.sqrt(np.square(witness).sum(axis=1))
    longest = float(norms.max())
    if longest > 1 + NORM_TOLERANCE:
        t = int(np.argmax(norms))
        return 0.0, Check(
            "lower end", False, f"the witness must stay within norm 1; in round {t + 1} it has {longest!r}"
        )
    if certificate.contribution == "scalar" and witness.shape[1] != 1:
        return 0.0, Check(
            "lower end", False, f"a scalar witness has one column; this one has {witness.shape[1]}"
        )
    if not participation.allows(np.flatnonzero(norms), certificate.rounds):
        return 0.0, Check(
            "lower end", False, f"the witness contributes in rounds that {participation} does not allow"
        )
    # Shrunk to norm 1 it is a witness for certain.
    value = max(0.0, witness_value(form, witness) / max(1.0, longest) ** 2 * (1 - 4e-16))
    holds = value >= claim * (1 - LOWER_TOLERANCE)
    return value, Check("lower end", holds, f"the witness attains at least {value!r}; claimed {claim!r}")


def _verify_horizon(
    certificate: Certificate, model: HorizonModel, participation: Participation, checks: list[Check]
) -> Verification:
    """Kind "horizon": the stored model's inequalities, then the sum over all rounds."""
    rounds, start = certificate.rounds, model.start.size
    cap = participation.largest_count(rounds)
    if start >= rounds:
        raise NotCertified(
            f"the start profile of {start} rounds must be shorter than the horizon of {rounds} "
            "(use a certificate of kind dense)"
        )
    rebuilt = _check_model(certificate, model)
    if rebuilt is not None:
        checks.append(rebuilt)
    proof = check_horizon(model)
    detail = "the start-up recursion and the bulk inequality hold" if proof.holds else proof.failure
    checks.append(Check("bounded-real inequalities", proof.holds, detail))
    upper = float(cap)
    if proof.holds:
        total = _horizon_sum(model, participation, rounds) * (1 + proof.noise_excess)
        root = (math.sqrt(total) + model.distortion * math.sqrt(rounds)) / (1 - model.distortion)
        upper = min(root * root * (1 + 1e-14), float(cap))
    holds = upper <= certificate.squared_upper
    checks.append(Check("upper end", holds, f"proved Δ² ≤ {upper!r}; claimed {certificate.squared_upper!r}"))
    checks.append(_no_lower_end(certificate))
    seen = "" if rebuilt is None else ", of which its first responses were compared"
    trusted = [
        f"that the stored state-space model is the graph's up to its distortion of {model.distortion!r}{seen} "
        f"({model.residual})",
        _assumed(certificate),
    ]
    if certificate.view == "custom":
        trusted.append(_CUSTOM)
    return _conclude(checks, 0.0, upper, tuple(trusted))


def _horizon_sum(model: HorizonModel, participation: Participation, rounds: int) -> float:
    """The sum of y = (start, rate, rate, …) over the worst pattern, rounded up."""
    if participation.kind == "full":
        later = (rounds - model.start.size) * model.rate
        return math.fsum([*model.start.tolist(), later]) * (1 + 1e-15)
    if rounds > _LONGEST_PATTERN:
        raise NotCertified(
            f"{participation} over {rounds} rounds is not checked here (at most {_LONGEST_PATTERN}; "
            "full participation has no limit)"
        )
    return participation.largest_sum(
        np.concatenate([model.start, np.full(rounds - model.start.size, model.rate)])
    )


def _conclude(
    checks: list[Check],
    lower: float | None,
    upper: float | None,
    trusted: tuple[str, ...],
) -> Verification:
    """The verdict of all checks."""
    named = {check.name: check.holds for check in checks}
    failed = [check for check in checks if not check.holds]
    top = math.inf if upper is None else upper
    return Verification(
        verified=not failed,
        upper_holds=named.get("upper end", False),
        lower_holds=named.get("lower end", False),
        squared=Interval(min(lower or 0.0, top), top),
        checks=tuple(checks),
        trusted=trusted,
        reason=failed[0].detail if failed else "",
    )
