# SPDX-License-Identifier: Apache-2.0
"""What a report says of each kind of answer: a first page to sign, and the parts that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sottovoce.documents import (
    AccountDocument,
    AuditDocument,
    CertificateDocument,
    CoalitionDocument,
    PairSummary,
    RateDocument,
    RateSummary,
    ReportVerificationDocument,
    RunDocument,
    Terms,
    VerificationDocument,
)
from sottovoce.interval import as_given, both_ends, in_short, rounded_down, rounded_up
from sottovoce.report.first_pages import Sheet, Size, Verdict, checks_of, kept, odds, origin_rows, to_verify
from sottovoce.report.html import Section
from sottovoce.scenarios import RELATION_SENTENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sottovoce.documents import (
        CheckForm,
        Claim,
        EndsForm,
        GraphFacts,
        Occasion,
        Pair,
        RatePairForm,
        Result,
        Sight,
    )

__all__ = ["AGAIN", "Answer", "answer", "ends", "facts", "nodes"]

_PAIRS = 20
AGAIN = "nothing here proves the numbers: run the command again"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The parts of a report: the first page, what leads, and what follows the page of all pairs."""

    sheet: Sheet
    lead: Sequence[Section] = ()
    sections: Sequence[Section] = ()


def answer(result: Result) -> Answer:
    """What a report says of a result."""
    told, document = result.occasion, result.document
    if isinstance(document, RunDocument):
        from sottovoce.report.runs import run_answer

        return run_answer(document, told)
    return _WRITTEN[type(document)](document, told)


def nodes(labels: Iterable[object]) -> str:
    """An observer or a coalition in words."""
    names = [str(label) for label in labels]
    if not names:
        return "whoever sees every message"
    return f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)} together"


def ends(interval: EndsForm) -> str:
    """Both ends, rounded outward; null stands for infinity."""
    return both_ends(interval.interval)


def facts(heading: str, rows: Iterable[tuple[str, object]]) -> Section:
    """A table of names and what they are."""
    return Section(heading=heading, columns=("", ""), rows=[row for row in rows if row[1] != ""])


def _network(graph: GraphFacts) -> str:
    return f"{graph.nodes} nodes and {graph.edges} edges ({graph.origin})"


def _does(document: Sight) -> str:
    """What nodes do each round."""
    return document.program + (
        f", damped by factors of hash {document.damping.hash}" if document.damping else ""
    )


def _run_words(document: Terms) -> str:
    return (
        f"Each round: {_does(document)}. Protected: "
        f"{RELATION_SENTENCES[document.relation].rstrip('.')}, participation {document.participation}."
    )


def _bound_to(graph: GraphFacts, document: Sight) -> dict[str, str]:
    hashed = f", hash {document.protocol_hash}" if isinstance(document, Terms) else ""
    return {"weights": f"{graph.rule}, hash {graph.hash}", "protocol": f"{document.protocol}{hashed}"}


def _coalition(document: CoalitionDocument, told: Occasion) -> Answer:
    """The worst coalition, and what holds for any."""
    graph, view, noise = document.graph, document.view, document.noise_multiplier
    found, target = nodes(document.coalition), document.target
    any_one = f"{view}: any coalition of {document.size} about node {target}"
    bound = "∞" if document.upper_bound is None else rounded_up(document.upper_bound)
    sizes = [Size(f"Δ² ≤ {bound}", f"assuming {document.assumption}", any_one)]
    meaning = "No noise was given, so that there is no ε (--noise-multiplier)."
    if noise is not None:
        sizes.insert(0, Size.epsilon(document.epsilon_upper_bound, document.assumption, any_one))
        meaning = odds(
            document.epsilon_upper_bound,
            document.delta,
            f"a record of node {target}",
            mu=document.mu_upper_bound,
            bare=isinstance(document.infinite, str),
        )
    proved = "No other learns more." if document.exact else "Whether another learns more is open."
    searched = f"{document.evaluated} views were computed for {document.coalitions} coalitions."
    return Answer(
        sheet=Sheet(
            asked=f"Which {document.size} of {_network(graph)} learn most about node {target}? {_run_words(document)}"
            + (
                ""
                if noise is None
                else f" Noise multiplier {in_short(noise)}, at δ = {as_given(document.delta)}."
            ),
            verdict=Verdict("", f"The worst of all that were looked at: {found}. {proved} {searched}"),
            sizes=sizes,
            meaning=meaning,
            checks=checks_of(view, document.assumption),
            views=[(view, view)],
            origin=origin_rows(told, _bound_to(graph, document), AGAIN),
        ),
        sections=[
            facts(
                "What was found",
                [
                    ("coalition", found),
                    (
                        "Δ² of it",
                        f"{ends(document.sensitivity_squared)} ({document.sensitivity_squared.method})",
                    ),
                    ("ε of it", "" if document.epsilon is None else ends(document.epsilon)),
                    ("Δ² of any other, at most", bound),
                    (
                        "gap, at most",
                        "∞" if document.gap is None else f"{rounded_up(100 * document.gap, 3)}%",
                    ),
                    ("proved", "yes" if document.exact else f"no: the search ended ({document.stopped})"),
                ],
            ),
            Section(
                heading="The search",
                text="Each line is a coalition that was the worst so far.",
                columns=("views computed", "coalition", "Δ²"),
                rows=[(s.evaluated, nodes(s.coalition), ends(s.sensitivity_squared)) for s in document.trace],
            ),
        ],
    )


def _audit(document: AuditDocument, told: Occasion) -> Answer:
    """What an attack achieved beside what is certified."""
    claimed = "∞" if document.claimed_epsilon is None else rounded_up(document.claimed_epsilon)
    shown = rounded_down(document.empirical_epsilon_lower)
    pair = f"what {nodes(document.observer)} can learn about node {document.target}"
    verdict = Verdict(
        "pass", f"the attack shows no more than ε ≥ {shown}, and the number audited, {claimed}, stands."
    )
    if document.refuted:
        verdict = Verdict("fail", f"the attack shows more than the number audited, ε ≤ {claimed}, allows.")
    counted = [("ε", document.rates.epsilon), ("μ", document.rates.mu)]
    return Answer(
        sheet=Sheet(
            asked=f"Does the number stand against the best attack on {_network(document.graph)}? "
            f"{_run_words(document)} Noise multiplier {in_short(document.noise_multiplier)}, at δ = "
            f"{as_given(document.delta)}. {document.trials} runs were simulated, with confidence "
            f"{document.confidence:g}"
            + (f", by the seed {document.seed}." if document.seed is not None else "."),
            verdict=verdict,
            sizes=[
                Size.epsilon(document.certified_epsilon_upper, document.assumption, f"certified: {pair}"),
                Size(f"ε ≥ {shown}", f"with confidence {document.confidence:g}", f"by the attack: {pair}"),
            ],
            meaning="An attack proves a number too small, and never that it is right: a pass says that nothing was "
            "found. "
            + odds(
                document.certified_epsilon_upper,
                document.delta,
                f"a record of node {document.target}",
                mu=document.certified_mu_upper,
            ),
            checks=checks_of(document.view, document.assumption),
            views=[(document.view, document.view)],
            origin=origin_rows(told, _bound_to(document.graph, document), AGAIN),
        ),
        sections=[
            facts(
                "Certified, claimed and found",
                [
                    ("ε that was audited, at most", claimed),
                    ("ε that the worst stream attains", rounded_down(document.witness_epsilon)),
                    ("ε that the attack shows, at least", shown),
                    (
                        "ε that it shows if its score is Gaussian, at least",
                        rounded_down(document.gaussian_epsilon_lower),
                    ),
                    ("μ that the attack shows, at least", rounded_down(document.empirical_mu_lower)),
                    ("numbers that the observer sees", document.dimension),
                    ("bound", document.method),
                ],
            ),
            Section(
                heading="What was counted",
                columns=(
                    "for",
                    "threshold",
                    "runs",
                    "false alarms",
                    "hits",
                    "false alarm rate ≤",
                    "hit rate ≥",
                ),
                rows=[
                    (
                        name,
                        f"{rates.threshold:.6g}",
                        rates.runs,
                        rates.false_alarms,
                        rates.hits,
                        rounded_up(rates.false_alarm_upper),
                        rounded_down(rates.hit_lower),
                    )
                    for name, rates in counted
                ],
            ),
        ],
    )


def _claim_rows(claim: Claim) -> list[tuple[str, object]]:
    """What a certificate is about."""
    mechanism = claim.mechanism
    return [
        ("Δ²", f"{ends(claim.sensitivity_squared)} ({claim.sensitivity_squared.method})"),
        ("observer", nodes(claim.observer)),
        ("target", f"node {claim.target}"),
        ("view", f"{claim.view}, own noise {claim.own_noise}"),
        ("run", f"{claim.rounds} rounds, participation {claim.participation}"),
        ("program", claim.program),
        ("updates", claim.updates or ""),
        ("contribution", claim.contribution),
        (
            "mechanism",
            ""
            if mechanism is None
            else f"noise multiplier {in_short(mechanism.noise_multiplier)}, δ = {as_given(mechanism.delta)}, "
            f"{mechanism.relation}",
        ),
        ("weights", f"{claim.graph.origin or claim.graph.rule}, hash {claim.graph.hash}"),
        ("protocol", f"hash {claim.protocol_hash}"),
        ("certificate", f"hash {claim.hash}, proof by {claim.proof}"),
    ]


def _claim_sheet(
    claim: Claim, told: Occasion, asked: str, verdict: Verdict, sizes: Sequence[Size], verify: str
) -> Sheet:
    bound = {"weights": f"hash {claim.graph.hash}", "certificate": f"hash {claim.hash}"}
    return Sheet(
        asked=f"{asked} {nodes(claim.observer).capitalize()} observes node {claim.target} ({claim.view}); each round: "
        f"{claim.program}.",
        verdict=verdict,
        sizes=sizes,
        meaning="",
        checks=checks_of(claim.view, claim.assumption),
        views=[(claim.view, claim.view)],
        origin=origin_rows(told, bound, verify),
    )


def _claimed(claim: Claim, about: str) -> Size:
    upper = claim.sensitivity_squared.interval.upper
    return Size(f"Δ² ≤ {rounded_up(upper)}", f"assuming {claim.assumption}", about)


def _certificate(document: CertificateDocument, told: Occasion) -> Answer:
    """What was certified; the certificate is inside."""
    verdict = Verdict(
        "", "A claim with its proof inside this file: it counts once it is verified, on a graph you name."
    )
    size = _claimed(document, f"what {nodes(document.observer)} can learn about node {document.target}")
    verify = to_verify(document.graph.origin or "")
    return Answer(
        sheet=_claim_sheet(document, told, "What can one pair give away?", verdict, [size], verify),
        sections=[facts("What is certified", _claim_rows(document))],
    )


def _checked(heading: str, checks: Sequence[CheckForm], trusted: Sequence[str]) -> list[Section]:
    """Each check, and what is taken on trust."""
    found = [
        Section(
            heading=heading,
            columns=("check", "verdict", "found"),
            rows=[(each.name, "holds" if each.holds else "fails", each.detail) for each in checks],
        )
    ]
    return [*found, *_trusted(trusted)]


def _trusted(trusted: Sequence[str]) -> list[Section]:
    rows = [(each,) for each in trusted]
    return [Section(heading="Taken on trust", columns=("what",), rows=rows)] if rows else []


def _verification(document: VerificationDocument, told: Occasion) -> Answer:
    """What became of a certificate."""
    words = document.reason or "every check holds, by code that shares none with what made the claim."
    verdict = Verdict("pass" if document.verified else "fail", words)
    pair = f"what {nodes(document.observer)} can learn about node {document.target}"
    sizes = [_claimed(document, f"claimed: {pair}")]
    mechanism = document.mechanism
    if document.epsilon is not None and mechanism is not None:
        sizes.append(
            Size.epsilon(
                document.epsilon, document.assumption, f"proved at δ = {as_given(mechanism.delta)}: {pair}"
            )
        )
    again = f"sottovoce verify {document.certificate} --graph GRAPH (this file only tells of it)"
    return Answer(
        sheet=_claim_sheet(document, told, "Does a certificate prove what it claims?", verdict, sizes, again),
        sections=[
            *_checked("Checks", document.checks, document.trusted),
            facts("What was claimed", _claim_rows(document)),
        ],
    )


def _report_verification(document: ReportVerificationDocument, told: Occasion) -> Answer:
    """What became of a report, view by view."""
    parts: list[Section] = []
    for view in document.views:
        parts += _checked(f"Checks: {view.view}", view.checks, view.trusted)
    reasons = " ".join(f"{view.view}: {view.reason}." for view in document.views if view.reason)
    return Answer(
        sheet=Sheet(
            asked=f"Does the report {document.report} prove what it shows?",
            verdict=Verdict("pass", "every check holds.")
            if document.verified
            else Verdict("fail", reasons or "nothing is proved."),
            sizes=[
                Size(
                    "nothing" if view.epsilon is None else f"ε ≤ {rounded_up(view.epsilon)}",
                    "is proved",
                    f"{view.view}: {view.pairs.proved_no_worse} of {view.pairs.held} pairs are proved no worse",
                )
                for view in document.views
            ],
            meaning="",
            checks=checks_of("", "none"),
            views=[(view.view, view.view) for view in document.views],
            origin=origin_rows(told, {}, f"sottovoce verify {document.report} (this file only tells of it)"),
        ),
        sections=[*parts, *_trusted(document.trusted)],
    )


def _rate(document: RateDocument, told: Occasion) -> Answer:
    """What every target gives away a round, in the long run."""
    pairs: Sequence[RatePairForm] = document.pairs if isinstance(document.pairs, tuple) else ()
    if isinstance(document.summary, RateSummary):
        pairs = document.summary.most_exposed
    worst = sorted(pairs, key=lambda pair: -pair.rate.interval.upper)
    most = worst[0]
    rate = rounded_up(most.rate.interval.upper)
    return Answer(
        sheet=Sheet(
            asked=f"By how much does Δ² grow in each round, in the long run, on {_network(document.graph)}? "
            f"Each round: {_does(document)}. {document.pairs_computed} of {document.pairs_possible} pairs were "
            "computed.",
            verdict=Verdict(
                "", "A limit: a finite number of rounds can give more. An ε takes sottovoce account."
            ),
            sizes=[
                Size(
                    f"{rate} a round",
                    f"assuming {document.assumption}",
                    f"{document.view}: what {nodes(most.observer)} learns about node {most.target}",
                )
            ],
            meaning="A round adds that much, divided by the square of the noise multiplier, to μ² (four times as much "
            "under replace-one).",
            checks=checks_of(document.view, document.assumption),
            views=[(document.view, document.view)],
            origin=origin_rows(told, _bound_to(document.graph, document), AGAIN),
        ),
        sections=[
            Section(
                heading="Pairs that give away most" if len(worst) > _PAIRS else "Every pair",
                text=""
                if len(worst) <= _PAIRS
                else f"The first {_PAIRS} of {len(worst)} pairs; --json has all.",
                columns=("observer", "target", "Δ² a round", "frequency", "constant contributions", "bound"),
                rows=[
                    (
                        nodes(pair.observer),
                        pair.target,
                        ends(pair.rate),
                        f"{pair.frequency:.4g}",
                        "∞" if pair.constant is None else f"{pair.constant:.4g}",
                        pair.rate.method,
                    )
                    for pair in worst[:_PAIRS]
                ],
            )
        ],
    )


def _summary(document: AccountDocument, told: Occasion) -> Answer:
    """The telling pairs of a sweep."""
    graph, worst = document.graph, document.worst
    epsilon = worst.epsilon.upper
    pairs = document.summary.most_exposed if isinstance(document.summary, PairSummary) else ()
    local, central = document.baselines.local, document.baselines.central
    beside = []
    if local is not None:
        beside.append(Size.epsilon(local.upper, "none", "local DP: whoever sees whatever, the same noise"))
    if central is not None:
        shown = Size.epsilon(central.upper, "none", "central aggregation, the same noise")
        beside.append(shown._replace(rests="with a server that all trust"))
    return Answer(
        sheet=Sheet(
            asked=f"What can the observers of a sweep learn, on {_network(graph)}? {_run_words(document)} Noise "
            f"multiplier {in_short(document.noise_multiplier)}, at δ = {as_given(document.delta)}. "
            f"{document.pairs_computed} of {document.pairs_possible} pairs were computed.",
            verdict=kept(epsilon, document.assumption, told.max_epsilon),
            sizes=[
                Size.epsilon(
                    epsilon,
                    document.assumption,
                    f"{document.view}: what {nodes(worst.observer)} can learn about node {worst.target}",
                ),
                *beside,
            ],
            meaning=odds(
                epsilon,
                document.delta,
                f"a record of node {worst.target}",
                mu=worst.mu.upper,
                bare=worst.sensitivity_squared.method == "infinite",
            ),
            checks=checks_of(document.view, document.assumption),
            views=[(document.view, document.view)],
            origin=origin_rows(told, _bound_to(graph, document), AGAIN),
        ),
        sections=[
            Section(
                heading="Most exposed nodes",
                text="Each with the observer that learns most about it.",
                columns=("target", "observer", "ε", "Δ²", "bound"),
                rows=[_pair(pair) for pair in pairs],
            )
        ],
    )


def _pair(pair: Pair) -> tuple[object, ...]:
    squared = pair.sensitivity_squared
    return (pair.target, nodes(pair.observer), ends(pair.epsilon), ends(squared), squared.method)


_WRITTEN: dict[type, Callable[[Any, Occasion], Answer]] = {
    CoalitionDocument: _coalition,
    AuditDocument: _audit,
    VerificationDocument: _verification,
    ReportVerificationDocument: _report_verification,
    CertificateDocument: _certificate,
    RateDocument: _rate,
    AccountDocument: _summary,
}
