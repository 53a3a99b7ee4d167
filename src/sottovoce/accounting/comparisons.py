# SPDX-License-Identifier: Apache-2.0
"""`local_account` and `central_account`: what the same noise gives where all is seen, and where only sums are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.accounting.values import Account, Facts
from sottovoce.errors import InputError, NotCertified
from sottovoce.interval import Interval
from sottovoce.protocols import CONTRIBUTION, GIVEN, STATE, Exchange, compiled_rounds, exact, gossip, spread
from sottovoce.rounding import roundings
from sottovoce.scenarios import RelationWords, Scenario, asked
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View, assumption_of, rests_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from sottovoce.accounting.table import AccountTable
    from sottovoce.protocols import CompiledRound, PerNode, Program, Protocol
    from sottovoce.views import Assumption

    Columns = dict[int, dict[tuple[int, int], Fraction]]

__all__ = ["central_account", "compared", "local_account"]

# So many draws of a round are compiled in a minute or two and a gigabyte; above, a comparison is left out.
MOST_DRAWS = 200_000
# Looking for nodes that are alike must not cost more than it saves.
MOST_ALIKE = 2000


def compared(table: AccountTable) -> dict[str, Account | InputError | NotCertified]:
    """Local DP and central aggregation at the noise of a table: accounts, or the reasons why there are none.

    Guarantee: those of `local_account` and `central_account`. A reason is an error's sentence, to be shown in a
    number's place.
    """
    found: dict[str, Account | InputError | NotCertified] = {}
    for name, compare in (("local", local_account), ("central", central_account)):
        try:
            found[name] = compare(table.scenario, noise_multiplier=table.noise_multiplier, delta=table.delta)
        except (InputError, NotCertified) as error:
            found[name] = error
    return found


def local_account(
    question: Scenario | Protocol, *, noise_multiplier: float, delta: float, **words: Unpack[RelationWords]
) -> Account:
    """Local DP at the same noise, for comparison: every message is seen, and the worst target counts.

    `question` is a `Scenario`, whose view does not count, or a protocol with words as in
    `sottovoce.scenarios.RelationWords`. In plain gossip Δ² = T for any target, or the most rounds that `participation`
    allows; of any other protocol it is what the everyone view gives, which may be infinite.

    Guarantee: exact in plain gossip, also for training whose contributions depend on the messages; else an interval
    that holds under the assumption it names.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip, gradient_tracking
    >>> W = graphs.metropolis_weights("ring:n=5")
    >>> round(local_account(gossip(W, rounds=16), noise_multiplier=4.0, delta=1e-5).mu.upper, 12)
    1.0
    >>> late = gradient_tracking(W, rounds=7, noise="messages")
    >>> round(local_account(late, noise_multiplier=5.0, delta=1e-5).mu.upper ** 2, 8)
    1.0
    """
    scenario = _scenario(question, words)
    protocol = scenario.protocol
    return Account.of(
        Interval.exactly(_rounds(scenario)) if replace(protocol, updates=None).plain else _everyone(scenario),
        method="local DP",
        relation=scenario.relation,
        noise_multiplier=noise_multiplier,
        delta=delta,
        **_facts(scenario, "everyone", rests_on(protocol, "everyone", ["cap"])),
    )


def central_account(
    question: Scenario | Protocol, *, noise_multiplier: float, delta: float, **words: Unpack[RelationWords]
) -> Account:
    """Central aggregation with the same total noise, for comparison: only sums of contributions and noise are seen.

    In plain gossip Δ² = T/n, T being the most rounds that `participation` allows. Where node j adds noise of level ℓ_j
    to what it contributes, the sum of round t has Σ_j ℓ_j², and draws of edges cancel in it; an encoder C makes M
    CᵀC/Σ_j ℓ_j². Noise that a program adds elsewhere has no place in a sum of contributions: that is refused.

    Guarantee: exact (with an encoder an interval) for a trusted server that releases each round's sum of all
    contributions and all noise.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> W = graphs.metropolis_weights("ring:n=4")
    >>> round(central_account(gossip(W, rounds=16), noise_multiplier=4.0, delta=1e-5).mu.upper, 12)
    0.5
    >>> loud = gossip(W, rounds=16, noise_levels=(1, 1, 1, 3))
    >>> round(central_account(loud, noise_multiplier=4.0, delta=1e-5).mu.upper ** 2 * 12, 12)
    1.0
    """
    scenario = _scenario(question, words)
    protocol = scenario.protocol
    if protocol.plain:
        squared = Interval.exactly(_rounds(scenario)).mapped(lambda count: count / protocol.n)
    else:
        squared = _summed(scenario)
    return Account.of(
        squared,
        method="central aggregation",
        relation=scenario.relation,
        noise_multiplier=noise_multiplier,
        delta=delta,
        **_facts(scenario, "central", assumption_of("central", None)),
    )


def _facts(scenario: Scenario, view: str, assumption: Assumption) -> Facts:
    """What an account says of the scenario it answers, where somebody else sees what than was asked."""
    return Facts(
        view=view,
        assumption=assumption,
        contribution=scenario.contribution,
        participation=str(scenario.participation),
    )


def _scenario(question: Scenario | Protocol, words: RelationWords) -> Scenario:
    """What is asked; who sees what is not part of a comparison."""
    view = None if isinstance(question, Scenario) else View.everyone
    return asked(question, view, words, RelationWords)[0]


def _rounds(scenario: Scenario) -> float:
    """Δ² where each round shows one contribution beside noise of level 1; one of energy 1 shows 1 in all."""
    most = float(scenario.participation.largest_count(scenario.protocol.rounds))
    return 1.0 if scenario.contribution == "energy" else most


@dataclass(frozen=True, kw_only=True)
class _Entering:
    """Noise that enters a round as contributions do: its variance at every node beside a contribution of size 1.

    `shared` says that draws of edges come on top, `seen` that the first exchange sends every contribution.
    """

    variances: tuple[Fraction, ...]
    shared: bool
    seen: bool


def _everyone(scenario: Scenario) -> Interval:
    """Δ² of the worst target where every message is seen.

    Where each node's own noise enters as its contributions do, and is sent at once, whoever sees all messages knows
    x_t + u_t of every node and nothing else.

    Guarantee: holds the largest Δ² of a target: from the shares of noise where contributions are sent at once beside
    their own draw, else from the certified intervals of all targets.
    """
    protocol = scenario.protocol
    try:
        rounds = _entering_rounds(protocol, "local DP")
    except InputError:
        rounds = []
    if rounds and all(each.seen and not each.shared for each in rounds):
        worst = {tuple(_shares(protocol, [each.variances[j] for each in rounds])) for j in range(protocol.n)}
        if not protocol.encoded or all(len(set(shares)) == 1 for shares in worst):
            return _largest(scenario, worst)
    _check_size(protocol, "local DP")
    found = sensitivity(
        protocol,
        View.everyone,
        _unlike(protocol),
        contribution=scenario.contribution,
        participation=scenario.participation,
    )
    return Interval(float(found.squared_lower.max()), float(found.squared_upper.max()))


def _summed(scenario: Scenario) -> Interval:
    """Δ² of the sums of all contributions and all noise, round by round; draws of edges cancel in them.

    Guarantee: holds Δ² of whoever is given the sums alone.
    """
    rounds = _entering_rounds(scenario.protocol, "central aggregation")
    shares = _shares(scenario.protocol, [sum(each.variances, Fraction(0)) for each in rounds])
    return _largest(scenario, {tuple(shares)})


def _entering_rounds(protocol: Protocol, compared_with: str) -> list[_Entering]:
    """How noise enters the rounds that differ: read off the programs if their terms tell, else from compiled rounds.

    Refused is noise that enters elsewhere than contributions do, and what is too large to be compiled.
    """
    told = [_as_written(program, protocol.n) for program in protocol.programs]
    if all(each is not None for each in told):
        return [told[t % len(told)] for t in range(protocol.period)]  # type: ignore[misc]
    _check_size(protocol, compared_with)
    return [_entering(each, protocol) for each in _rounds_of(protocol)]


def _as_written(program: Program, n: int) -> _Entering | None:
    """How noise enters a round, if every instruction adds the same multiple of contribution and draws; None elsewhere.

    Then contribution and draws enter as one, contribution + Σ draws, whatever the weights are. Until the first exchange
    nodes are on their own, so that the multiple of the contribution in what it sends follows from the terms. Where that
    is 0 at some node, terms alone do not tell whether its draws enter at all.

    Guarantee: exact.
    """
    drawn = [draw.name for draw in program.draws]
    reach: dict[str, list[Fraction]] = {}
    sent: list[Fraction] | None = None
    for step in program.instructions:
        if isinstance(step, Exchange):
            sent = reach.get(step.message, [Fraction(0)]) if sent is None else sent
            reach[step.into] = [Fraction(0)]
            continue
        given = step.terms.get(CONTRIBUTION, 0)
        if any(step.terms.get(name, 0) != given for name in drawn):
            return None
        if sent is None:
            reach[step.into] = _added(
                (_each(value), reach.get(name, [Fraction(name == CONTRIBUTION)]))
                for name, value in step.terms.items()
                if name not in drawn
            )
    if sent is None or not all(sent):
        return None
    variances = [Fraction(0)] * n
    for draw in program.draws:
        if draw.each == "node":
            levels = spread(draw.level, n)
            variances = [total + level * level for total, level in zip(variances, levels, strict=True)]
    return _Entering(
        variances=tuple(variances),
        shared=any(draw.each == "edge" and any(_each(draw.level)) for draw in program.draws),
        seen=True,
    )


def _each(value: PerNode) -> list[Fraction]:
    """A coefficient as a list of one number for all nodes, or of one a node."""
    return [exact(each) for each in value] if isinstance(value, tuple) else [exact(value)]


def _added(products: Iterable[tuple[list[Fraction], list[Fraction]]]) -> list[Fraction]:
    """Σ of products of lists, of which one of length 1 stands for all nodes."""
    total = [Fraction(0)]
    for left, right in products:
        size = max(len(total), len(left), len(right))
        total = [total[k % len(total)] + left[k % len(left)] * right[k % len(right)] for k in range(size)]
    return total


def _unlike(protocol: Protocol) -> list[Hashable] | None:
    """One node of each kind that relabellings carry onto each other; all nodes (None) of a large network.

    Whoever sees every message sees the same of nodes of one kind.
    """
    if protocol.n > MOST_ALIKE:
        return None
    orbits = protocol.symmetries.orbits(range(protocol.n))
    return [protocol.labels[k] for k in sorted({orbits.first(j) for j in range(protocol.n)})]


def _check_size(protocol: Protocol, compared_with: str) -> None:
    """Refuse a comparison of more draws than fit, before any of them is made."""
    per_round = max(
        sum(protocol.n if draw.each == "node" else weights.matrix.nnz // 2 for draw in program.draws)
        for weights in protocol.schedule
        for program in protocol.programs
    )
    if per_round > MOST_DRAWS:
        raise NotCertified(
            f"the comparison with {compared_with} takes at most {MOST_DRAWS} draws a round; the protocol "
            f"{protocol.name!r} makes {per_round} (compare on a smaller network)"
        )


def _rounds_of(protocol: Protocol) -> tuple[CompiledRound, ...]:
    """The rounds that differ, compiled, in their order."""
    return compiled_rounds(replace(protocol, rounds=protocol.period))


def _shares(protocol: Protocol, variances: list[Fraction]) -> list[Fraction | None]:
    """1/variance of the rounds that differ; None where there is no noise."""
    return [1 / variance if variance else None for variance in variances[: protocol.rounds]]


def _largest(scenario: Scenario, several: set[tuple[Fraction | None, ...]]) -> Interval:
    """The largest Δ² over some lists of 1/variance, which repeat: M is one of them as a diagonal, or CᵀC times one.

    Guarantee: holds the largest Δ². Without an encoder M is diagonal, so that Δ² is a sum of entries over one
    pattern; entries and sums are rounded at most `rounds` + 4 times, and four times that is allowed for. With one,
    the everyone view of two nodes that gossip has M = CᵀC, whose interval is scaled.
    """
    protocol, participation, contribution = scenario.protocol, scenario.participation, scenario.contribution
    rounds = protocol.rounds
    if protocol.encoded:
        alone = {share for shares in several for share in shares}
        if any(len(set(shares)) > 1 for shares in several):
            raise InputError(
                "the comparison with central aggregation takes noise of one level under an encoder; the levels of "
                f"{protocol.name!r} change from round to round (compare with local DP)"
            )
        if None in alone:
            return Interval.exactly(math.inf)
        # Whoever sees all of gossip with this encoder sees x_t + (C⁻¹ξ)_t of every node.
        coded = gossip(np.full((2, 2), 0.5), rounds=rounds, encoder=protocol.encoder)
        found = sensitivity(coded, View.everyone, [0], contribution=contribution, participation=participation)
        most = float(max(share for share in alone if share is not None))
        return _around(float(found.squared_lower[0]) * most, float(found.squared_upper[0]) * most, 4)
    best = 0.0
    for shares in several:
        values = np.resize([math.inf if share is None else float(share) for share in shares], rounds)
        bare = np.isinf(values)
        if bare.any() and participation.largest_sum(bare.astype(float)) > 0:
            return Interval.exactly(math.inf)
        values[bare] = 0.0
        best = max(best, values.max() if contribution == "energy" else participation.largest_sum(values))
    return _around(best, best, 4 * (rounds + 4))


def _around(lower: float, upper: float, times: int) -> Interval:
    """An interval whose ends were rounded so many times, each by half a unit in the last place.

    Guarantee: holds what was rounded, to first order; `times` is twice the number that take place or more.
    """
    slack = roundings(times)
    return Interval(lower * (1 - slack), upper * (1 + slack))


def _entering(compiled: CompiledRound, protocol: Protocol) -> _Entering:
    """The noise of a round, if all of it enters as contributions do: a draw of an edge as the difference of two."""
    columns = _columns(compiled)
    variances = [Fraction(0)] * compiled.n
    shared = False
    for k, owners in enumerate(compiled.owners):
        drawn = columns.get(k, {})
        if not drawn:
            continue
        given = dict(columns.get(GIVEN + owners[0], {}))
        for other in owners[1:]:
            for place, value in columns.get(GIVEN + other, {}).items():
                given[place] = given.get(place, Fraction(0)) - value
        given = {place: value for place, value in given.items() if value}
        first = next(iter(drawn))
        level = drawn[first] / given[first] if first in given else Fraction(0)
        if given.keys() != drawn.keys() or any(drawn[place] != level * given[place] for place in drawn):
            raise InputError(
                f"the comparison with central aggregation adds up contributions and the noise that is added to them; "
                f"the protocol {protocol.name!r} adds the draw {compiled.names[k]!r} elsewhere (compare with local DP)"
            )
        if len(owners) == 1:
            variances[owners[0]] += level * level
        shared = shared or len(owners) > 1
    sent = compiled.messages[0].forms
    return _Entering(
        variances=tuple(variances), shared=shared, seen=all(GIVEN + j in sent[j] for j in range(compiled.n))
    )


def _columns(compiled: CompiledRound) -> Columns:
    """What each draw and each contribution does to every row of a round: key → {(register or message, row): factor}."""
    columns: Columns = {}
    for place, rows in enumerate((compiled.state, *compiled.messages)):
        for i, form in enumerate(rows.forms):
            for key, value in form.items():
                if key < STATE or key >= GIVEN:
                    columns.setdefault(key, {})[place, i] = Fraction(value, rows.denominator)
    return columns
