# SPDX-License-Identifier: Apache-2.0
"""`verify_account`: whether a published account of many pairs has the worst one right, from its certificate.

A report says of one view: the largest Δ² over all pairs (observers, target) is this, at this pair, and from it
follows this ε. `StatedAccount` is what it says, without a word believed. The checks, in order; each stops those
after it:

1. run: rounds, view, contribution, participation, noise, δ and relation of page and certificate are the same.
2. network: hash and names of the nodes are those of the graph at hand (or of the weights in the certificate).
3. protocol: program, or noise and slopes of training, by hash.
4. pair: the certificate is of a pair that has the largest Δ² of the page.
5. pairs: the page holds pairs of this view, each once, and as many as it says.
6. the certificate itself, by `checking.verify`, in floats.
7. headline: what is proved is no more than what is shown, and ε is not below what follows.
8. worst: no other pair is worse, as far as the work lasts (`others`, `training`).

Only then is it "verified". Where step 8 leaves pairs open, or no graph was at hand, it is "consistent".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.certificates import DenseProof, MovesProof, ShiftProof
from sottovoce.errors import InputError
from sottovoce.gaussian import delta, epsilon
from sottovoce.participation import Participation
from sottovoce.protocols import Slopes, hash_of_damping, spread
from sottovoce.threads import one_blas_thread
from sottovoce.verification.checking import Check, stored_weights, verify
from sottovoce.verification.floats import is_gossip
from sottovoce.verification.meaning import (
    certified_protocol,
    closes_loop,
    pair_of,
    program_question,
    question,
)
from sottovoce.verification.memory import AlikePairs, as_if_heard
from sottovoce.verification.others import (
    MOST_WORK,
    Limit,
    Others,
    ProgramPair,
    no_worse,
    no_worse_in_programs,
)
from sottovoce.verification.training import no_worse_in_training
from sottovoce.views import ONE_OBSERVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol
    from sottovoce.verification.checking import Verdict, Verification
    from sottovoce.verification.stated import StatedAccount

__all__ = ["AccountVerification", "verify_account"]

# Certificates of further pairs that are checked, each of which may take as long as the first.
MOST_FURTHER = 64
_SHOWN = (
    "that the page shows its data, and that what it says of pairs below the worst is true: neither is checked"
)


@dataclass(frozen=True, kw_only=True)
class AccountVerification:
    """What became of the headline of an account.

    "verified": its worst pair is proved, and every other pair is proved not to be worse; "consistent": nothing
    contradicts it, and `reason` says what is the account's word; "refused": `reason` is the first check that
    failed. `proved_pairs` of `held_pairs` were proved to stay within the headline. `worst` is what its certificate
    proves.
    """

    verdict: Verdict
    stated: StatedAccount
    worst: Verification | None
    held_pairs: int
    proved_pairs: int
    checks: tuple[Check, ...]
    trusted: tuple[str, ...]
    reason: str

    @property
    def verified(self) -> bool:
        """Whether the whole headline was proved from the graph at hand."""
        return self.verdict == "verified"


@one_blas_thread()
def verify_account(
    stated: StatedAccount,
    certificate: Certificate | None,
    weights: GossipWeights | None = None,
    *,
    further: Sequence[Certificate] = (),
    progress: Callable[[int, int], None] | None = None,
) -> AccountVerification:
    """Check the headline of an account: its worst pair by `certificate`, and that no other pair is worse.

    In training `further` certificates may prove other pairs.

    Guarantee: if the verdict is "verified", every pair of the view on the network at hand has Δ² at most
    `stated.squared`, given what `trusted` names.
    Source: docs/certificates.md, on reports.

    Raises NotCertified where the worst pair's certificate is too large to be checked here.
    """
    if certificate is None:
        carries = (
            "the report carries no certificate of this view, so nothing is proved (its text may say why)"
        )
        return _concluded(stated, [Check("certificate", False, carries)], None, Others(proved=0, open=0), "")
    checks = _same_run(stated, certificate)
    at_hand = weights if weights is not None else stored_weights(certificate)[0]
    checks.append(_same_network(stated, at_hand))
    worst = None
    others = Others(proved=0, open=stated.targets.size)
    missing = ""
    if checks[-1].holds:
        checks += _same_protocol(stated, certificate)
        checks.append(_same_pair(stated, certificate, at_hand))
        listed, missing = _all_pairs(stated)
        checks.append(listed)
    if all(check.holds for check in checks):
        worst = verify(certificate, weights, arithmetic="float")
        checks += worst.checks
        checks.append(_headline(stated, worst))
    if worst is not None and all(check.holds for check in checks):
        others = _others(stated, certificate, at_hand, further, progress)
        checks.append(_worst(stated, others))
    if worst is not None and worst.verdict == "consistent":
        missing = missing or (
            "the headline is consistent with the weights in the report, but no graph was named (--graph)"
        )
    return _concluded(stated, checks, worst, others, missing)


def _same_run(stated: StatedAccount, certificate: Certificate) -> list[Check]:
    """Whether the certificate speaks of the run, the view and the mechanism that the account shows.

    Values are compared as they are, floats to the bit: both come from files that store them so. A certificate
    without a mechanism matches no page, since every page shows a noise multiplier.
    """
    mechanism = certificate.mechanism
    said: dict[str, tuple[Any, Any]] = {
        "rounds": (stated.rounds, certificate.rounds),
        "view": (stated.view, certificate.view.name),
        "own noise": (stated.own_noise, certificate.view.own_noise),
        "list of exchanges": (stated.exchanges or "all", certificate.view.exchanges or "all"),
        "contribution": (stated.contribution, certificate.contribution),
        "participation": (stated.participation, certificate.participation),
        "assumption": (stated.assumption, _assumption(stated, certificate)),
        "damping": (stated.damping_hash, _damping_hash(certificate, len(stated.labels))),
        "noise multiplier": (stated.noise_multiplier, mechanism and mechanism.noise_multiplier),
        "δ": (stated.delta, mechanism and mechanism.delta),
        "relation": (stated.relation, mechanism and mechanism.relation),
        "factor of the relation": (stated.factor, 2 if stated.relation == "replace-one" else 1),
    }
    for name, (shown, proved) in said.items():
        if shown != proved:
            found = f"the {name} of the page is {str(shown)[:60]}, that of its certificate {str(proved)[:60]}"
            return [Check("run", False, found)]
    return [Check("run", True, "the certificate speaks of the run that the page shows")]


def _assumption(stated: StatedAccount, certificate: Certificate) -> str:
    """What the certificate rests on; in training it may prove its pair without what the account needs for others.

    An account that assumes more than its worst pair's proof is the weaker statement, and that proof serves it. A
    program that holds the pull of quadratic losses speaks of these where the account says so.
    """
    rests, n = certificate.assumption, len(stated.labels)
    weaker = certificate.updates is not None and (rests, stated.assumption) == ("none", "smooth")
    closed = (rests, stated.assumption) == ("oblivious", "quadratic") and all(
        closes_loop(program, n) for program in certificate.programs
    )
    return stated.assumption if weaker or closed else rests


def _damping_hash(certificate: Certificate, n: int) -> str | None:
    """The hash of the factors on the model of n nodes, as accounts name it; None where it has no such factors."""
    if certificate.updates is not None or certificate.damping is None:
        return None
    factors = np.array([float(number) for number in spread(certificate.damping, n)])
    return None if (factors == 1).all() else hash_of_damping(factors)


def _same_network(stated: StatedAccount, weights: GossipWeights) -> Check:
    """Whether the account is of this network, each node under its name.

    Names are compared as text, because a page has no other; the hash has compared them as they are.
    """
    if stated.weights_hash != weights.hash:
        found = (
            f"the page speaks of another graph: its hash is {stated.weights_hash[:80]}, here {weights.hash}"
        )
        return Check("network", False, found)
    if list(map(str, stated.labels)) != list(map(str, weights.labels)):
        return Check("network", False, "the page names the nodes otherwise than the graph does")
    return Check("network", True, f"{weights.n} nodes, hash and names as on the page")


def _same_protocol(stated: StatedAccount, certificate: Certificate) -> list[Check]:
    """Whether a program, or training with its noise and slopes, is that of the account, by the hash of the protocol."""
    slopes = certificate.updates if stated.relation == "zero-out" and stated.assumption != "none" else None
    if isinstance(slopes, Slopes) and not slopes.hold_identity:
        # A node without its data sends on what it received. `verify` asks this of one target, and here are many.
        needed = f"zero-out needs slopes that hold 1 at every node; got {slopes.without_identity}"
        return [Check("relation", False, needed)]
    if certificate.protocol_hash == stated.protocol_hash:
        told = "program" if certificate.updates is None else "noise and slopes"
        return [Check("protocol", True, f"{told} as on the page")]
    named = f"the protocol of the page has the hash {stated.protocol_hash[:80]}"
    return [Check("protocol", False, f"{named}, that of its certificate {certificate.protocol_hash}")]


def _same_pair(stated: StatedAccount, certificate: Certificate, weights: GossipWeights) -> Check:
    """Whether the certificate is that of a pair with the largest Δ² of the account.

    Several pairs may share the largest number, by symmetry of the graph; any of them will do.
    """
    pair = pair_of(certificate, weights)
    largest = np.flatnonzero(stated.squared_upper == stated.squared).tolist()
    words = _named(stated, *pair)
    if pair in map(stated.pair, largest):
        return Check("pair", True, f"the certificate is that of the worst pair of the page: {words}")
    first = _named(stated, *stated.pair(largest[0]))
    return Check("pair", False, f"the worst pair of the page is {first}; its certificate is of {words}")


def _all_pairs(stated: StatedAccount) -> tuple[Check, str]:
    """Whether the pairs are those that the account says it holds; and what is missing to all pairs, in a sentence.

    How many pairs the view has is counted here from nodes and view, and compared with what the page says. A page
    that lists fewer is at best "consistent": what it leaves out may be worse.
    """
    held = [stated.pair(place) for place in range(stated.targets.size)]
    possible = _possible(stated)
    strange = [pair for pair in held if not _is_pair(stated, *pair)]
    failure = ""
    if strange:
        failure = f"the page holds {_named(stated, *strange[0])}, which is no pair of this view"
    elif len(set(held)) < len(held):
        failure = "a pair stands twice in the page"
    elif stated.pairs_possible != possible:
        failure = f"the view has {possible} pairs; the page says {stated.pairs_possible}"
    elif len(held) > stated.pairs_computed or (
        len(held) < stated.pairs_computed and not stated.observers_left_out
    ):
        failure = f"the page says that it holds {stated.pairs_computed} pairs; it holds {len(held)}"
    if failure:
        return Check("pairs", False, failure), ""
    found = f"the page holds {len(held)} of the {possible} pairs of this view"
    missing = f"{found}; the worst may be higher" if len(held) < possible else ""
    return Check("pairs", True, found), missing


def _is_pair(stated: StatedAccount, observers: tuple[int, ...], target: int) -> bool:
    """Whether the view has such a pair: as many observers as it takes, and a target whose noise they do not know.

    Guarantee: exact; a report that states a pair which its view does not have is refused.
    """
    if stated.view in ONE_OBSERVER:
        fits = len(observers) == 1
    else:
        fits = bool(observers) == (stated.view != "everyone") and len(set(observers)) == len(observers)
    return fits and not (stated.own_noise == "known" and target in observers)


def _possible(stated: StatedAccount) -> int:
    """How many pairs the view has: those of each node, or of the coalitions that the account names.

    Guarantee: exact; a report that leaves pairs out cannot be verified as one of all pairs.
    """
    n, own = len(stated.labels), stated.own_noise == "known"
    if stated.view in ONE_OBSERVER:
        return n * (n - own)
    groups = {tuple(sorted(each)) for each in stated.observers}
    return sum(n - own * len(group) for group in groups)


def _headline(stated: StatedAccount, worst: Verification) -> Check:
    """Whether what is proved of the worst pair is no more than what is shown of it.

    The ε of the page must then be met by the μ that follows from the Δ² that it shows, rounded up: δ(μ, ε) is at most
    δ, or ε not below ε(μ, δ), no digit less.
    """
    shown, proved = stated.squared, worst.squared.upper
    if proved > shown:
        found = f"the page shows Δ² ≤ {_just(shown, proved)} for its worst pair; proved is Δ² ≤ {_just(proved, shown)}"
        return Check("headline", False, found)
    above = stated.factor * math.nextafter(math.sqrt(shown), math.inf) / stated.noise_multiplier
    mu, least = math.nextafter(above, math.inf) if shown else 0.0, stated.epsilon_upper
    follows = float(epsilon(mu, stated.delta))
    if least < follows and (least < 0 or delta(mu, least) > stated.delta):
        found = f"the page shows ε ≤ {least:.6g}; from its Δ² follows ε ≤ {follows:.6g}"
        return Check("headline", False, found)
    return Check("headline", True, f"Δ² ≤ {shown:.6g} is shown, Δ² ≤ {proved:.6g} is proved")


def _just(value: float, other: float) -> str:
    """A number in a few digits, or in all where these do not tell it from the other one."""
    short = f"{value:.6g}"
    return short if short != f"{other:.6g}" else repr(value)


def _others(
    stated: StatedAccount,
    certificate: Certificate,
    weights: GossipWeights,
    further: Sequence[Certificate],
    progress: Callable[[int, int], None] | None,
) -> Others:
    """The pairs of the account, the worst observers first; that of the certificate is proved already.

    Pairs are grouped by observer, since what is seen is shared by its targets. View, noise and program are those of
    the certificate, with observers and target of the pair put in; so nothing of the page enters but which pair is
    meant.

    Guarantee: `proved` counts pairs with Δ² ≤ `stated.squared`, that of the certificate among them.
    """
    if certificate.updates is not None and stated.assumption == "none":
        # What the page says of all pairs must not need the slopes for any.
        certificate = replace(certificate, updates="any")
    certified = pair_of(certificate, weights)
    limit = stated.squared
    targets: dict[int, list[int]] = {}
    for place in np.argsort(-stated.squared_upper, kind="stable").tolist():
        if stated.pair(place) != certified:
            targets.setdefault(int(stated.observer_of[place]), []).append(int(stated.targets[place]))
    participation = Participation.parse(stated.participation)
    within = Limit(participation=participation, squared=limit, attained=stated.contribution == "vector")
    claims = []
    for row, about in targets.items():
        watching = tuple(weights.labels[node] for node in stated.observers[row])
        claims.append((replace(certificate, view=replace(certificate.view, observers=watching)), about))
    proved = _proved_further(certificate, weights, further, limit)
    if certificate.updates is not None and not isinstance(certificate.proof, ShiftProof):
        return _others_heard(stated, certificate, weights, {certified, *proved}, limit, progress)
    if certificate.updates is None and not is_gossip(certificate, (weights,)):
        several = stored_weights(certificate) if certificate.further else (weights,)
        protocol = certified_protocol(certificate, several)
        pairs = [
            _program_pair(replace(claim, target=weights.labels[target]), protocol)
            for claim, about in claims
            for target in about
        ]
        rest = no_worse_in_programs(certificate, pairs, within, progress=progress)
        return replace(rest, proved=rest.proved + 1)
    asked = [
        (question(replace(claim, target=weights.labels[about[0]]), weights), about) for claim, about in claims
    ]
    if certificate.updates is not None:
        count = no_worse_in_training(certificate, asked, proved, participation, limit, progress=progress)
        return Others(proved=count + 1, open=stated.targets.size - count - 1)
    found = no_worse(asked, within, progress=progress)
    return replace(found, proved=found.proved + 1)


def _others_heard(
    stated: StatedAccount,
    certificate: Certificate,
    weights: GossipWeights,
    proved: set[tuple[tuple[int, ...], int]],
    limit: float,
    progress: Callable[[int, int], None] | None,
) -> Others:
    """The pairs of training on another program than gossip: proved, like a proved one, or as if all were heard.

    Guarantee: as for `_others`.
    """
    alike = AlikePairs(certificate, weights)
    held = [stated.pair(place) for place in np.argsort(-stated.squared_upper, kind="stable").tolist()]
    rest = [pair for pair in held if pair not in proved and not alike.holds(pair, proved)]
    several = stored_weights(certificate) if certificate.further else (weights,)
    pairs = []
    for observers, target in rest:
        view = replace(certificate.view, observers=tuple(weights.labels[node] for node in observers))
        claim = replace(certificate, view=view, target=weights.labels[target], proof=DenseProof())
        averaging = as_if_heard(claim, several)
        asked = program_question(averaging, certified_protocol(averaging, several))
        pairs.append(ProgramPair(observers=observers, target=target, question=asked))
    found = no_worse_in_programs(
        certificate,
        pairs,
        Limit(participation=Participation.parse(stated.participation), squared=limit, attained=False),
        # Beside moves, whose rounds cost alike, only caps count, whose do too: a report's line of ε rests on that.
        most_work=0.0 if isinstance(certificate.proof, MovesProof) else MOST_WORK,
        progress=progress,
    )
    return replace(found, proved=found.proved + len(held) - len(rest))


def _program_pair(claim: Certificate, protocol: Protocol) -> ProgramPair:
    """What a claim about a pair of a program asks."""
    observers, target = pair_of(claim, protocol.schedule[0])
    return ProgramPair(observers=observers, target=target, question=program_question(claim, protocol))


def _proved_further(
    certificate: Certificate, weights: GossipWeights, further: Sequence[Certificate], limit: float
) -> set[tuple[tuple[int, ...], int]]:
    """The pairs of which a certificate of the same run proves that they stay within the limit.

    Its own claim does not matter: what `verify` proves of it does, and that is infinite where nothing was proved.
    """
    if len(further) > MOST_FURTHER:
        raise InputError(f"a report carries at most {MOST_FURTHER} certificates of further pairs a view")
    pairs = set()
    for one in further:
        # Everything but the pair and what proves it is taken from the worst pair's certificate.
        same = replace(certificate, view=one.view, target=one.target, proof=one.proof)
        view = replace(certificate.view, observers=one.view.observers)
        if one.view == view and verify(same, weights, arithmetic="float").squared.upper <= limit:
            asked = question(same, weights)
            pairs.add((tuple(sorted(asked.observers)), asked.target))
    return pairs


def _worst(stated: StatedAccount, others: Others) -> Check:
    """Whether any pair was found to be worse, and how many are proved not to be.

    Guarantee: it fails only where a pair is proved to be worse; what is neither proved nor refuted is said in its
    detail.
    """
    if others.worse is not None:
        pair = _named(stated, others.worse.observers, others.worse.target)
        attains = f"Δ² of {pair} is at least {others.worse.squared:.6g}"
        return Check("worst", False, f"the page shows Δ² ≤ {stated.squared:.6g} as its largest; {attains}")
    count = stated.targets.size
    rest = "" if not others.open else "; the others are the report's word"
    return Check("worst", True, f"{others.proved} of {count} pairs proved no worse{rest}")


def _concluded(
    stated: StatedAccount, checks: list[Check], worst: Verification | None, others: Others, missing: str
) -> AccountVerification:
    """The verdict of all checks.

    Guarantee: "verified" only if every check holds, a certificate proves the worst pair, and every other pair is
    proved to be no worse; "consistent" says that nothing was found wrong and something rests on the report's word.
    """
    failed = [check for check in checks if not check.holds]
    held = stated.targets.size
    if not failed and others.proved < held:
        missing = missing or (
            f"{others.proved} of {held} pairs are proved no worse than the headline; that the others are not is the "
            "report's word"
        )
    return AccountVerification(
        verdict="refused" if failed else "consistent" if missing else "verified",
        stated=stated,
        worst=worst,
        held_pairs=held,
        proved_pairs=others.proved,
        checks=tuple(checks),
        trusted=() if failed or worst is None else (*worst.trusted, _SHOWN),
        reason=failed[0].detail if failed else missing,
    )


def _named(stated: StatedAccount, observers: tuple[int, ...], target: int) -> str:
    """A pair in words."""
    who = " and ".join(str(stated.labels[node])[:60] for node in observers) or "everyone"
    return f"{who} about {str(stated.labels[target])[:60]}"
