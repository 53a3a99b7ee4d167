# SPDX-License-Identifier: Apache-2.0
"""The rows and columns of the tables that answers consist of, each in three sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.explanations.words import explained

if TYPE_CHECKING:
    from sottovoce.explanations.words import Explanation

__all__ = ["ROWS"]


def _row(read_on: str, *sentences: str) -> Explanation:
    return explained("row", sentences, read_on)


_NETWORK = "docs/guide.md#your-network"
_WEIGHTS = "docs/guide.md#weights"
_LEARNS = "docs/guide.md#who-learns-what"
_VIEWS = "docs/guide.md#choosing-a-view"
_ROUNDS = "docs/guide.md#some-rounds-only"
_PROOF = "docs/guide.md#a-proof-to-hand-over"
_COALITION = "docs/guide.md#the-worst-coalition"
_RATES = "docs/mathematics.md#8-rates"
_NOT_PRIVATE = "docs/learning.md#what-is-not-private"
_ROUND = "docs/learning.md#what-a-round-is"
_CERTIFIED = "docs/learning.md#what-is-certified-and-what-it-assumes"
_PROGRAM = "docs/protocols.md#a-program"

ROWS: dict[str, Explanation] = {
    "observer": _row(
        _LEARNS,
        "The node that sees something, or everyone, or the members of a coalition.",
        "What it sees is said by the view.",
        "Option --observer asks about one node; without it each node observes in turn.",
    ),
    "target": _row(
        _LEARNS,
        "The node whose record is protected.",
        "A node whose own noise the observer knows is no target of that observer.",
        "Option --target asks about one node; without it all are protected in turn.",
    ),
    "bound": _row(
        "README.md#how-to-read-an-interval",
        "The method that proved the upper end of Δ².",
        "Each method has a name, such as dual, cap or exact, and explain says what each does.",
        "All of them hold; another may be closer.",
    ),
    "worst": _row(
        _LEARNS,
        "The pair of observer and target with the largest certified ε.",
        "It is the number to report: no pair that was asked about is above it.",
        "Ties go to the pair that comes first.",
    ),
    "median": _row(
        _LEARNS,
        "The pair in the middle when all pairs stand in the order of their ε.",
        "Half of the pairs are no worse.",
        "It describes the network and protects nobody in particular.",
    ),
    "best": _row(
        _LEARNS,
        "The pair with the smallest certified ε.",
        "It is mostly far apart in the graph.",
        "It says what distance and many hidden nodes can do.",
    ),
    "network": _row(
        _NETWORK,
        "How many nodes and edges the graph has.",
        "A self-loop counts as an edge of its own.",
        "The command graph says more about it.",
    ),
    "weights": _row(
        _WEIGHTS,
        "Where the gossip weights come from: a rule on the graph, the graph itself, or a matrix file.",
        "Row i holds what node i gives to each message that it receives.",
        "Other weights have other numbers, which the hash tells.",
    ),
    "run": _row(
        "docs/guide.md#how-much-noise-is-enough",
        "How many rounds there are, and the noise multiplier of each round's noise.",
        "In training also the step and the norm that gradients are clipped to.",
        "Numbers hold for all of these rounds together.",
    ),
    "same noise": _row(
        _LEARNS,
        "What others would get from as much noise: local DP, where all is seen, and central aggregation.",
        "Central aggregation is a trusted server that sees all and publishes the mean with all noise in it.",
        "The numbers of an answer lie between the two or show that its view hides nothing.",
    ),
    "relation": _row(
        "docs/guide.md#neighbouring-inputs",
        "Which inputs are neighbours: add-remove, replace-one or zero-out.",
        "Replace-one moves a contribution twice as far, and its μ is twice as large.",
        "Two numbers are comparable under the same relation alone.",
    ),
    "contribution": _row(
        "docs/mathematics.md#3-sensitivity",
        "What a target may add in a round: a vector of norm 1, a number of at most 1, or vectors bounded in energy.",
        "Vectors allow for every dimension.",
        "Numbers and energy can have a smaller Δ².",
    ),
    "participation": _row(
        _ROUNDS,
        "In which rounds a target contributes.",
        "Fewer rounds give away less, and spacing matters too.",
        "Full is the default and covers all others.",
    ),
    "hash": _row(
        _PROOF,
        "The SHA-256 of the gossip weights with the names of nodes, or of a certificate.",
        "Equal hashes mean equal weights to the last bit.",
        "Compare it with what the command graph says of your network.",
    ),
    "version": _row(
        "README.md#installation",
        "The version of Sottovoce that computed the answer.",
        "Another version may prove closer bounds.",
        "No version may prove one below the truth.",
    ),
    "written": _row(
        "docs/guide.md#for-other-programs",
        "The file that was written, and what it holds.",
        "Tables of pairs hold all digits.",
        "Runs are readable by their owner alone.",
    ),
    "frequency": _row(
        _RATES,
        "The frequency of contributions that leak as much as the rate says, in radians a round.",
        "At 0 contributions never change, at π they alternate.",
        "A frequency between them is a slow or fast swing.",
    ),
    "constant": _row(
        _RATES,
        "The rate of contributions that never change.",
        "It is what closed forms of the literature give.",
        "The rate itself may be larger, at another frequency.",
    ),
    "average": _row(
        _RATES,
        "One over the number of nodes that are hidden from the observer, the target counted.",
        "At every frequency the rates of all hidden targets have at least this mean.",
        "A rate near it hides a target among all of them.",
    ),
    "coalition": _row(
        _COALITION,
        "The nodes that together learn most about the target, of those that were looked at.",
        "They pool what the view says that they see.",
        "Whether any other learns more stands under proved.",
    ),
    "any other": _row(
        _COALITION,
        "What no coalition of that size exceeds, whether it was looked at or not.",
        "The gap says how far above the best one this lies.",
        "A gap near 0 means that the best one was found.",
    ),
    "proved": _row(
        _COALITION,
        "Whether the coalition is proved to be the worst of its size.",
        "If it is not, the search ended early, by the time limit or an interrupt.",
        "The bound under any other holds in either case.",
    ),
    "searched": _row(
        _COALITION,
        "For how many coalitions what they see was computed, out of how many there are.",
        "The others are covered by bounds.",
        "A longer --time-limit looks at more.",
    ),
    "accuracy": _row(
        _NOT_PRIVATE,
        "The share of held-out records that models classify correctly.",
        "It is given for the mean of all models, and for the worst and the mean node.",
        "It is measured without noise, and therefore not private.",
    ),
    "loss": _row(
        _NOT_PRIVATE,
        "The training loss of the mean model, with regularisation.",
        "It is measured without noise, and therefore not private.",
        "If it does not fall, noise outweighs what is learnt, or the step is too large.",
    ),
    "excess risk": _row(
        _NOT_PRIVATE,
        "By how much the loss exceeds the smallest there is.",
        "It is given for the mean model, and for the average over rounds.",
        "It is measured without noise, and therefore not private.",
    ),
    "consensus": _row(
        _NOT_PRIVATE,
        "The root mean square distance of the nodes' models from their mean.",
        "Noise keeps it above 0.",
        "It is measured without noise, and therefore not private.",
    ),
    "clipped": _row(
        _NOT_PRIVATE,
        "The share of gradients that were shortened to the clipping norm in the last round.",
        "Records are scaled so that it is mostly 0.",
        "It is measured without noise, and therefore not private.",
    ),
    "data": _row(
        "docs/learning.md#your-own-data",
        "What was learnt from, how many parameters the model has, and by which loss.",
        "The weight l2 of the regularisation stands there too.",
        "Privacy depends on the loss through its public smoothness alone.",
    ),
    "noise": _row(
        _ROUND,
        "The noise multiplier, the standard deviation of a coordinate, and whence the noise is drawn.",
        "A seed is for simulations: whoever knows it can take the noise away.",
        "Without a seed keys come from the system's cryptographic generator.",
    ),
    "divided by": _row(
        _ROUND,
        "The public shard size, by which each node divides the sum of its gradients.",
        "It is also the most records that a node has.",
        "Were it the true count, the count would leak.",
    ),
    "local steps": _row(
        "docs/learning.md#local-steps",
        "How many steps a node takes between two messages.",
        "A record can move all of them, which the noise is scaled for.",
        "Noise is added once, to what they make together.",
    ),
    "batches": _row(
        "docs/learning.md#batches",
        "In which rounds a record takes part, by coins or in an order of its own.",
        "Coins and orders are secret, unless a seed tells them.",
        "One epoch costs one participation.",
    ),
    "updates": _row(
        "docs/training.md#what-smooth-asks-of-you",
        "The numbers between which the slopes of every node's update map lie.",
        "They follow from the step and the public smoothness of the loss.",
        "The assumption smooth rests on them.",
    ),
    "protects": _row(
        _CERTIFIED,
        "What one privacy unit is: one record, or all records of a node.",
        "The relation says how two inputs may differ in it.",
        "Several records of one person count several times.",
    ),
    "full": _row(
        _ROUNDS,
        "ε as if every record took part in every round.",
        "It is what the coins are worth less than.",
        "It holds also for who knows the coins.",
    ),
    "program": _row(
        _PROGRAM,
        "What nodes do in a round, instruction by instruction.",
        "Accountant, trainer and verifier run the same program.",
        "The protocol is its name, the protocol hash its fingerprint.",
    ),
    "protocol": _row(
        "docs/protocols.md#the-protocols-that-have-a-name",
        "The name of what nodes do each round, such as gossip or momentum.",
        "Its program says it in instructions.",
        "Two protocols of one name and parameters are one.",
    ),
    "protocol hash": _row(
        _PROGRAM,
        "The SHA-256 of the weights, the program, the rounds and the encoder.",
        "Equal hashes mean the same protocol on the same network.",
        "Certificates carry it.",
    ),
    "damping": _row(
        "docs/guide.md#quadratic-losses",
        "What 1 - step * curvature is, for each node.",
        "It accounts for gradient steps on quadratic losses exactly.",
        "At 1 contributions do not depend on states.",
    ),
    "clipping": _row(
        "docs/training.md#what-smooth-asks-of-you",
        "Whether gradients may be shortened, and what that takes of the losses.",
        "It decides which slopes update maps have.",
        "Option --losses says it to account.",
    ),
    "records": _row(
        "docs/training.md#what-smooth-asks-of-you",
        "What one record may change in its node's update.",
        "It moves it by no more than the clipping norm.",
        "Noise is counted in units of that norm.",
    ),
}
