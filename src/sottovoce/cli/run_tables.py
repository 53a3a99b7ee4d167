# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a training run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from sottovoce._version import __version__
from sottovoce.cli.layout import (
    estimate,
    facts,
    infinite_words,
    named,
    network_words,
    of_pairs,
    paragraph,
    who,
)
from sottovoce.cli.printing import as_given, both_ends, rounded_up
from sottovoce.cli.sampled import coin_rows
from sottovoce.documents import pairs_possible
from sottovoce.scenarios import RELATION_SENTENCES, protocol_sentences
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from sottovoce.graphs import WeightedGraph
    from sottovoce.interval import Interval
    from sottovoce.learning import Run, StepCost, Task

__all__ = ["run_text"]

UNITS = {"record": "one record", "node": "all data of a node"}
OF_ANY = {"record": "one record of any node", "node": "all data of any node"}


SHAPES = {
    "convex": "convex",
    "clipped": "convex, with gradients clipped as vectors",
    "smooth": "not taken to be convex",
}


def run_text(
    console: Console,
    run: Run,
    task: Task,
    network: WeightedGraph,
    cost: StepCost | None,
    written: Path | None,
) -> None:
    """What was learnt, what it gives away and under which assumption, and what it rests on."""
    paragraph(console, _headline(run, task), style="bold")
    paragraph(console, _epsilons(run), style="bold")
    for sentence in (*_meanings(run), *_costs(run, cost)):
        paragraph(console, sentence)
    if run.cut:
        asked = run.settings["rounds"]
        paragraph(
            console,
            f"The budget ended the run after {run.rounds} of {asked} rounds, as was known beforehand.",
        )
    if len(run.history.loss) and run.history.loss[-1] > task.risk(0 * run.model):
        paragraph(
            console, "The loss did not fall: the noise outweighs what is learnt, or the step is too large."
        )
    console.print()
    console.print(facts(_measured(run)))
    console.print()
    console.print(facts(_terms(run, task, network, written)))


def _headline(run: Run, task: Task) -> str:
    """Accuracy or loss after how many rounds on how many nodes."""
    where = f"after {run.rounds} {'round' if run.rounds == 1 else 'rounds'} on {task.nodes} nodes"
    if run.accuracy is None or task.test is None:
        return f"Loss {run.loss if run.loss is not None else float('nan'):.4g} {where}."
    return f"Accuracy {100 * run.accuracy:.1f}% on {task.test.records} held-out records {where}."


def _epsilons(run: Run) -> str:
    """ε that is certified for the view with the name of what it rests on, and beside it that of local DP."""
    delta = as_given(run.settings["target_delta"])
    everyone = _at_most(run.unconditional_epsilon)
    if run.one_number:
        at = "" if math.isinf(run.unconditional_epsilon.lower) else f" at δ = {delta}"
        return (
            f"{everyone.replace('an ', 'An ', 1)}{at} for {OF_ANY[run.settings['unit']]}, {_whoever(run)}: nothing is "
            "assumed about how gradients arise."
        )
    named_so = "nothing" if run.account.assumption == "none" else run.account.assumption
    if run.account.assumption == "none" and _at_most(run.epsilon) == everyone:
        at = "" if math.isinf(run.unconditional_epsilon.lower) else f" at δ = {delta}"
        return (
            f"{everyone.replace('an ', 'An ', 1)}{at} assuming nothing (local DP); in the {run.account.view} view no "
            "less is proved."
        )
    seen = _at_most(run.epsilon).replace("an ", "An ", 1)
    finite = not (math.isinf(run.epsilon.lower) and math.isinf(run.unconditional_epsilon.lower))
    return (
        f"{seen} assuming {named_so} ({run.account.view} view), "
        f"{everyone} assuming nothing (local DP){f', both at δ = {delta}' if finite else ''}."
    )


def _at_most(epsilon: Interval) -> str:
    """The upper end of ε, or that no δ makes it finite."""
    return "an infinite ε at every δ" if math.isinf(epsilon.lower) else f"ε ≤ {rounded_up(epsilon.upper)}"


def _whoever(run: Run) -> str:
    """For whom the number without any assumption holds; where it is that of secret coins, not for who knows these."""
    return "whoever sees whatever" + ("" if run.unconditional.coins is None else " but the coins")


def _meanings(run: Run) -> list[str]:
    """What the numbers are about; where there is one, the headline has said it."""
    account = run.account
    if run.one_number:
        return []
    said = {
        "smooth": "It holds whatever other nodes' gradients carry on, as their steps are no steeper than said below.",
        "none": "It holds whatever other nodes' gradients carry on.",
        "quadratic": "Losses are quadratic, so the loop that they close is linear and computed as it is.",
        "oblivious": "Contributions are fixed in advance.",
    }
    if account.assumption == "none" and _at_most(run.epsilon) == _at_most(run.unconditional_epsilon):
        whose = f"{who(account.observers)} about {named(account.target)}"
        return [
            f"It holds for {OF_ANY[run.settings['unit']]}, {_whoever(run)}; that much for {whose}.",
            *_more(run),
        ]
    first = f"The first is {_most(run)}. {said[account.assumption]}"
    gossips = run.table is None or run.table.protocol.gossips
    if account.view == "everyone":
        first = "The first is for whoever hears every message, but is told no draw that two nodes share."
    elif account.assumption == "none" and not gossips:
        first += " In this program that is shown for an observer that hears every message."
    return [f"{first} The second holds for {OF_ANY[run.settings['unit']]}, {_whoever(run)}.", *_more(run)]


def _more(run: Run) -> list[str]:
    """What would give less, and what is no guarantee."""
    gossips = run.table is None or run.table.protocol.gossips
    sentences = []
    if run.settings["smoothness"] is None and gossips:
        sentences.append(
            f"Nothing is known of the smoothness of the loss {run.settings['loss']}: only nodes that nobody can tell "
            "apart hide each other (declare a public smoothness if there is one)."
        )
    if run.averaging is not None:
        bound = rounded_up(run.averaging.epsilon().upper)
        sentences.append(
            f"Averaging would give ε ≤ {bound} (assumption {run.averaging.assumption}). That is no guarantee here: it "
            "takes it that no gradient carries on what a record has changed in the models."
        )
    return sentences


def _most(run: Run) -> str:
    """Of whom the first number is the most: any observer of the view, a coalition, or those who were named."""
    account, table = run.account, run.table
    pair = f"{who(account.observers)} about {named(account.target)}"
    if table is not None and len(table) < (possible := pairs_possible(table)):
        return (
            f"what is learnt at most in {of_pairs(len(table), possible)} of the {account.view} view: {pair}"
        )
    if account.view.startswith("coalition"):
        return f"the most that this coalition learns in the {account.view} view: {pair}"
    return f"the most that any observer of the {account.view} view learns: {pair}"


def _costs(run: Run, cost: StepCost | None) -> list[str]:
    """What large steps cost, and which would not."""
    if cost is None or cost.largest_step is None:
        return []
    return [
        f"Steps of {run.settings['step']} make hidden nodes react: Δ² is {cost.share:.3g} of that of local DP, where "
        f"small steps have {cost.least:.3g}. Steps up to {cost.largest_step:g} keep 90% of that gain."
    ]


def _measured(run: Run) -> list[tuple[str, str]]:
    """What was measured without noise."""
    rows = []
    if run.accuracy is not None and run.node_accuracies is not None:
        worst, mean = run.node_accuracies
        rows.append(
            (
                "accuracy",
                f"{run.accuracy:.4f} of the mean model; nodes {worst:.4f} to {mean:.4f} (worst, mean)",
            )
        )
    if run.loss is not None:
        rows.append(("loss", f"{run.loss:.6g}"))
    if run.excess_risk is not None:
        rows.append(("excess risk", f"{run.excess_risk:.4g} of the mean model"))
    if run.average_excess_risk is not None:
        rows.append(("", f"{run.average_excess_risk:.4g} of the average over rounds"))
    rows.append(("consensus", f"{run.consensus_distance:.4g} is the distance of models from their mean"))
    if len(run.history.clipped):
        rows.append(
            ("clipped", f"{100 * float(run.history.clipped[-1]):.3g}% of gradients in the last round")
        )
    rows.append(("", "measured without noise, and therefore not private"))
    return rows


def _terms(run: Run, task: Task, network: WeightedGraph, written: Path | None) -> list[tuple[str, str]]:
    """What every number rests on."""
    settings, account = run.settings, run.account
    squared, coins = account.sensitivity_squared, account.coins
    every = "" if coins is None else " if records took part in every round"
    rows = [
        (
            "data",
            f"{task.name}; {task.dimension} parameters, {task.loss.name} loss, l2 {as_given(settings['l2'])}",
        ),
        *network_words(network.graph.n, network.graph.edges, network.weights.origin),
        ("gap γ", estimate(network.spectrum.gap, network.spectrum.converged)),
        ("run", f"{run.rounds} rounds, step {settings['step']}, clip {as_given(settings['clip'])}"),
        ("noise", _noise(run)),
        ("divided by", f"{settings['shard_size']}, the public shard size and the most records of a node"),
        *_local_steps(run),
        *_updates(run),
        *_program(run),
        (
            "protects",
            f"{UNITS[settings['unit']]}; {settings['relation']}: {RELATION_SENTENCES[settings['relation']]}",
        ),
        ("view", f"{account.view}, own noise {settings['own_noise']}"),
        ("Δ²", "" if squared is None else f"{both_ends(squared)}{every} (bound: {account.always.method})"),
        *([] if coins is None else coin_rows(coins, account.always.epsilon().upper)),
        ("δ", as_given(settings["target_delta"])),
        ("assumption", f"{account.assumption}: {ASSUMPTIONS[account.assumption]}"),
        ("hash", settings["weights"]),
        ("version", __version__),
    ]
    rows[5:5] = _batches(run)
    if written is not None:
        rows.append(("written", f"{written} (readable by you alone)"))
    return rows


def _batches(run: Run) -> list[tuple[str, str]]:
    """In which rounds records take part, unless it is all of them, and whose bound ε is."""
    settings, coins = run.settings, run.account.coins
    if settings["batches"] > 1:
        secret = "an order that the seed tells" if run.seeded else "a secret order"
        return [("batches", f"{settings['batches']} an epoch, each record in one of them, in {secret}")]
    if settings["batch_fraction"] == 1:
        return []
    coin = "a coin of its own, which the seed tells" if run.seeded else "a secret coin of its own"
    share = f"{as_given(settings['batch_fraction'])} of the records, each by {coin}"
    bound = (
        "accounted for as all, as nodes are protected" if coins is None else f"bound: {run.account.method}"
    )
    return [("batches", f"{share}; {bound}")]


def _program(run: Run) -> list[tuple[str, str]]:
    """The program of a run on another protocol than plain gossip, and which noise it misses."""
    if run.table is None or run.table.protocol.gossips:
        return []
    protocol = run.table.protocol
    # Any maps are what the account allows for, not what nodes run: the assumption says so.
    ran = replace(protocol, updates=None) if protocol.updates == "any" else protocol
    return [*protocol_sentences(ran).items(), *infinite_words(run.table.bare)]


def _local_steps(run: Run) -> list[tuple[str, str]]:
    """How many steps lie between two messages, and what a record can change in all of them."""
    count, growth = run.settings["local_steps"], run.settings["growth"]
    if count == 1:
        return []
    return [
        (
            "local steps",
            f"{count} between two messages, noise once; a record moves what they make at most {rounded_up(growth)} "
            "times as far as one step",
        )
    ]


def _updates(run: Run) -> list[tuple[str, str]]:
    """What the certificate takes a node's update to be."""
    settings = run.settings
    if not settings["smoothness"]:
        return []
    low, high = settings["slopes"]
    return [
        (
            "updates",
            f"slopes in [{low:.4g}, {high:.4g}]: smoothness {settings['smoothness']:.4g}, "
            f"{SHAPES[settings['losses']]}",
        )
    ]


def _noise(run: Run) -> str:
    """How much noise there is, and whether it can be drawn again."""
    size = f"multiplier {rounded_up(run.noise_multiplier, 6)}, deviation {run.noise_std:.4g} a coordinate"
    return f"{size}; by {run.randomness}"
