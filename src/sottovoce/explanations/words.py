# SPDX-License-Identifier: Apache-2.0
"""Views, assumptions, methods and numbers, each in three sentences."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["KINDS", "VIEW_QUESTIONS", "WORDS", "Explanation", "either", "explained"]

Kind = Literal["view", "assumption", "method", "number", "row"]
KINDS: dict[Kind, str] = {
    "view": "what an observer sees",
    "assumption": "what a guarantee rests on",
    "method": "what proved an upper end",
    "number": "what a number means",
    "row": "what a row or a column of an answer says",
}


VIEW_QUESTIONS = (
    ("May somebody see every message?", "a wire, a provider, a log", ("everyone",)),
    (
        "May nodes pool what they see?",
        "one owner, a break-in, friends",
        ("coalition-messages", "coalition-sums"),
    ),
    ("Do nodes learn single messages?", "unless something adds up first", ("neighbourhood",)),
    ("Do nodes learn sums alone?", "secure aggregation, or a party adds", ("secure-sum",)),
    ("Is it the paper's figures?", "to compare with them", ("single-node",)),
)
"""Which view applies: questions in order, what is meant, and the views that a yes leads to; the first yes decides."""


def either(views: tuple[str, ...]) -> str:
    """The views that a yes leads to, in words: of two, the one that shows more stands first."""
    return " where messages are in the clear, or else ".join(views)


class Explanation(NamedTuple):
    """Three sentences about one word, and the section of the documentation that says more."""

    kind: Kind
    sentences: tuple[str, str, str]
    read_on: str


def _view(*sentences: str) -> Explanation:
    return explained("view", sentences, "docs/guide.md#choosing-a-view")


def _assumption(read_on: str, *sentences: str) -> Explanation:
    return explained("assumption", sentences, read_on)


def _method(read_on: str, *sentences: str) -> Explanation:
    return explained("method", sentences, read_on)


def _number(read_on: str, *sentences: str) -> Explanation:
    return explained("number", sentences, read_on)


def explained(kind: Kind, sentences: tuple[str, ...], read_on: str) -> Explanation:
    """Three sentences of a kind, and where to read on."""
    first, second, third = sentences
    return Explanation(kind=kind, sentences=(first, second, third), read_on=read_on)


_SENSITIVITY = "docs/mathematics.md#3-sensitivity"
_HORIZONS = "docs/mathematics.md#7-long-horizons"
_THEOREM = "docs/training.md#the-theorem"
_ASSUMES = "docs/mathematics.md#10-what-it-assumes"
_EPSILON = "docs/mathematics.md#9-from-δ-to-ε-δ"

WORDS: dict[str, Explanation] = {
    "everyone": _view(
        "Every message of every round is seen.",
        "This is local DP: it protects from anyone, wire-tappers and all other nodes together included.",
        "It needs the most noise, and it is the only view for which training asks for no assumption on any graph.",
    ),
    "neighbourhood": _view(
        "One node sees its own messages and, one by one, those of every node that sends to it.",
        "It is what plain gossip shows a curious node, pairwise network DP in the literature.",
        "Choose it when messages travel without a secure aggregation and nodes do not pool what they see.",
    ),
    "secure-sum": _view(
        "One node sees the weighted sum that it receives in each round, and no single message.",
        "It asks for a secure aggregation, or for a party that adds up and tells no more.",
        "A sum of two hides nothing from one of the two, which the account knows.",
    ),
    "single-node": _view(
        "The messages that one node sends itself are all that is seen.",
        "With its own noise known this says what its sums of all rounds but the last say.",
        "It is the view of the paper's figures, which take the node's own noise as hidden.",
    ),
    "coalition-sums": _view(
        "Several nodes pool the weighted sums that they receive, and the noise they drew.",
        "Differences of sums can uncover single messages, so a coalition may learn far more than its members do.",
        "The command coalition looks for the members that learn most about a target.",
    ),
    "coalition-messages": _view(
        "Several nodes pool all messages that reach any of them from outside, and the noise they drew.",
        "It is what colluding nodes learn where messages travel in the clear.",
        "It shows at least what the sums of the same members show.",
    ),
    "none": _assumption(
        _ASSUMES,
        "Nothing is assumed about how contributions arise.",
        "Either every message is seen, or the bound holds for update maps of any kind, as that of hidden twins does.",
        "You may rely on it for any model, any loss and any data, given that nodes add the noise they should.",
    ),
    "smooth": _assumption(
        "docs/training.md#what-smooth-asks-of-you",
        "Every node updates what it received by a map whose slopes lie between two public numbers.",
        "Gradient steps on losses of public smoothness are such maps, and train scales records so that they are.",
        "You may assume it if every honest node runs that training code with the public step, clip and loss.",
    ),
    "oblivious": _assumption(
        _ASSUMES,
        "Contributions are fixed in advance, or depend on nothing that the observer has not seen.",
        "You may assume it for averaging: measurements, counts, votes, models that were trained before.",
        "Training does not satisfy it, because gradients carry on what hidden nodes said.",
    ),
    "quadratic": _assumption(
        "docs/guide.md#quadratic-losses",
        "Contributions depend on hidden states exactly as gradient steps on quadratic losses of the given damping do.",
        "What is clipped, and the gradient of the record that differs, must not depend on the state.",
        "You may assume it for consensus with a pull, or for least squares of one public curvature.",
    ),
    "hidden-state": _assumption(
        "docs/learning.md#what-is-certified-and-what-it-assumes",
        "Gradients of other nodes are taken to carry nothing of the protected record on.",
        "In training they do, so this is what the literature reports and no guarantee.",
        "Sign the number that rests on smooth, or that of the view everyone.",
    ),
    "cap": _method(
        _SENSITIVITY,
        "Each round in which the target contributes adds at most 1 to Δ².",
        "No view shows more than every message, so this holds for all of them.",
        "Where it leads, the view hides nothing that could be proved.",
    ),
    "dual": _method(
        _SENSITIVITY,
        "A weight for each round, whose diagonal matrix dominates the form M, was found and checked.",
        "The sum of the weights bounds Δ² for contributions of any dimension.",
        "It is tight for vectors but for rounding, and a certificate can carry the weights.",
    ),
    "abs": _method(
        _SENSITIVITY,
        "The sum of the absolute values of the form M over the rounds that count.",
        "It is exact where no entry is negative, as then all contributions may point one way.",
        "Elsewhere a dual bound is at most as large.",
    ),
    "spectral": _method(
        _SENSITIVITY,
        "The largest eigenvalue of the form M, times the number of rounds in which a target contributes.",
        "For contributions bounded in energy over all rounds it is exact without that factor.",
        "The eigenvalue is proved by a factorisation, not taken from a solver.",
    ),
    "enumeration": _method(
        _SENSITIVITY,
        "All patterns of signs were tried, for contributions that are numbers.",
        "The largest value is Δ² itself but for rounding.",
        "It is done up to 20 rounds.",
    ),
    "exact": _method(
        _SENSITIVITY,
        "A closed form: every message is seen, so Δ² is the number of rounds in which a target contributes.",
        "Both ends of Δ² are that number.",
        "It is local DP, which no topology improves.",
    ),
    "infinite": _method(
        "docs/protocols.md#infinite",
        "Something that a target contributes is seen beside no noise that the observer does not know.",
        "No noise multiplier helps, and ε is infinite at every δ.",
        "Another protocol, another view or hidden own noise may cover it; the answer says which noise is missing.",
    ),
    "blocks": _method(
        "docs/protocols.md#how-it-is-computed",
        "Rounds were grouped into blocks, and the form M was bounded block by block.",
        "What is left out between blocks is added with its norm.",
        "It bounds all targets of a program together where solving for each would take too long.",
    ),
    "peak": _method(
        _HORIZONS,
        "The largest gain of the settled filter over all frequencies, for each round.",
        "It holds for any number of rounds, with the gain between two frequencies bounded by its slope.",
        "It is close where contributions may point the same way, or alternate, for long.",
    ),
    "lags": _method(
        _HORIZONS,
        "Absolute values of the settled form, summed lag by lag.",
        "The tail beyond the last lag that is computed is bounded by the decay of the loop.",
        "It serves many targets of one observer at once.",
    ),
    "projection": _method(
        _HORIZONS,
        "What the observer can see of a target at all, whatever the rounds say in what order.",
        "The part of the target's direction that hidden noise covers is projected away.",
        "It serves targets that are far from the observer.",
    ),
    "bounded": _method(
        _HORIZONS,
        "The gain of the settled filter from a target's contributions to what is seen, by the bounded-real lemma.",
        "A matrix inequality proves it for every number of rounds.",
        "It takes the place of the form M where T rounds would not fit.",
    ),
    "horizon": _method(
        _HORIZONS,
        "The first rounds are treated as they are, the rest by a bound for each round that no longer changes.",
        "The cost of a proof then does not grow with the number of rounds.",
        "A certificate of it is checked by a recursion over rounds.",
    ),
    "shift": _method(
        _THEOREM,
        "What hidden nodes do in reaction is covered by shifting their noise, for every map with slopes in the ball.",
        "A matrix inequality, which a certificate carries and a verifier checks, says how much shift is enough.",
        "It holds for training and rests on smooth.",
    ),
    "memory-one": _method(
        _THEOREM,
        "The shift theorem with shifts that look back one round alone.",
        "It has a closed form, so many targets are bounded at once.",
        "It is never below what longer memory proves.",
    ),
    "twins": _method(
        "docs/learning.md#topologies-for-deep-networks",
        "Nodes that every node weighs alike cannot be told apart by sums, so each hides among them.",
        "About a node with s hidden twins, itself counted, an observer of sums has 1/s of Δ² of local DP.",
        "It holds for any model and any loss, given honest noise.",
    ),
    "unreached": _method(
        _SENSITIVITY,
        "Nothing that the target contributes can arrive at the observer within the rounds.",
        "Δ² is 0, and so are μ and ε.",
        "More rounds will end that.",
    ),
    "told": _method(
        "docs/guide.md#some-rounds-only",
        "Records take part by coins, and the bound is that of an observer who is told how often the coin fell.",
        "δ is averaged over that count, with the tail added.",
        "It holds in every view.",
    ),
    "amplified": _method(
        "docs/guide.md#some-rounds-only",
        "Records take part by secret coins, and every message is seen: the subsampled Gaussian mechanism.",
        "Its privacy loss is composed numerically and rounded up, as accountants of central training do.",
        "It holds while nobody learns the coins.",
    ),
    "epsilon": _number(
        _EPSILON,
        "However an observer looks at what it saw, odds that a record was used change by at most the factor e^ε, "
        "up to a failure probability δ.",
        "The upper end is proved; the lower end is attained by some data, so the truth lies between.",
        "An upper end is never below the truth, and it is rounded up where it is shown.",
    ),
    "delta": _number(
        _EPSILON,
        "The probability with which the promise of ε may fail.",
        "Take it well below one over the number of records that are protected.",
        "The same run has an ε for each δ, and a report draws the curve.",
    ),
    "mu": _number(
        _EPSILON,
        "The observer cannot tell the two worlds apart better than N(0, 1) from N(μ, 1), with one draw.",
        "μ is the sensitivity Δ over the noise multiplier, twice that for replace-one.",
        "Every ε at every δ follows from it without loss.",
    ),
    "sensitivity": _number(
        _SENSITIVITY,
        "Δ² says how far a record moves what is seen, in units of the noise that hides it.",
        "Local DP over T rounds has Δ² = T; averaging among hidden nodes makes it smaller.",
        "It belongs to graph, protocol, view and pair, and not to the amount of noise.",
    ),
    "interval": _number(
        "README.md#how-to-read-an-interval",
        "Every privacy number has two ends, with the truth between them.",
        "The lower end is attained by some data, the witness; the upper end is proved, rounding included.",
        "What a person is promised comes from the upper end.",
    ),
    "witness": _number(
        "README.md#how-to-read-an-interval",
        "A stream of contributions that attains the lower end of Δ².",
        "No correct bound for that view can be smaller.",
        "An audit simulates it and says which ε it must leak.",
    ),
    "gap": _number(
        "docs/guide.md#weights",
        "The spectral gap γ of the gossip weights: 1 less the second largest modulus of their eigenvalues.",
        "The larger it is, the faster nodes agree, and the more of them hide a target.",
        "It describes the network, and no guarantee rests on it.",
    ),
    "rate": _number(
        "docs/mathematics.md#8-rates",
        "What Δ² grows by in each round in the long run: the limit of Δ²/T as the rounds T grow.",
        "At a finite T the quotient can be larger.",
        "A guarantee over T rounds comes from account, not from the rate.",
    ),
    "noise-multiplier": _number(
        "docs/guide.md#how-much-noise-is-enough",
        "The standard deviation of each node's noise in each round, in units of the clipping norm.",
        "Twice the noise halves μ.",
        "The command calibrate finds the least that keeps a budget.",
    ),
}
