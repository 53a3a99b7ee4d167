# SPDX-License-Identifier: Apache-2.0
"""The interval holds the exact value: every protocol, every view, against an interpreter in rationals."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreter import exact_view, knowing, largest_over_signs
from tests.profiles import examples
from tests.reference import exact_form, rational
from tests.scenes import CHOICES, EVERY_CHOICE, EVERY_PROTOCOL, VIEWS

from sottovoce import sensitivity
from sottovoce.filtering import engines
from sottovoce.graphs import Graph, metropolis_weights
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip, round_weights
from sottovoce.protocols.program import unsent_draws
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import Engine

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "golden" / "programs.json").read_text()
)["cases"]


def holds(
    protocol: Protocol, view: View, targets: list[int], *, tight: float | None, engine: Engine = "auto"
) -> None:
    """Check the scalar intervals of targets against rationals; `tight` is how wide they may be, relatively."""
    found = sensitivity(protocol, view, targets, contribution="scalar", engine=engine)
    for place, target in enumerate(found.indices.tolist()):
        case = f"{view}, target {target}"
        M = exact_view(protocol, view, target).form()
        lower, upper = float(found.squared_lower[place]), float(found.squared_upper[place])
        if M is None:
            assert lower == upper == np.inf, case
            assert found.method[place] == "infinite", case
            continue
        exact = largest_over_signs(M)
        assert Fraction(lower) <= exact, case
        assert np.isinf(upper) or exact <= Fraction(upper), case
        if tight is not None:
            assert upper - lower <= tight * float(exact) + 1e-12, case


@EVERY_CHOICE
@EVERY_PROTOCOL
def test_the_interval_holds_the_exact_value(protocol: Protocol, engine: Engine) -> None:
    for view in VIEWS:
        targets = sorted(set(range(protocol.n)) - knowing(view))[-2:]
        holds(protocol, view, targets, tight=1e-8, engine=engine)


@EVERY_PROTOCOL
def test_forms_in_blocks_hold_the_exact_value(protocol: Protocol, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in plain floats, which serve larger networks than these."""
    monkeypatch.setattr(engines, "SMALLEST_QUICKLY", 0)
    for view in VIEWS:
        holds(protocol, view, sorted(set(range(protocol.n)) - knowing(view))[-2:], tight=1e-6)


NAMES = sorted({case["name"] for case in CASES})


def of_each_view(name: str, turn: int) -> Iterator[dict[str, Any]]:
    """Of the golden values of a program one of each view that is finite and one that is not, on graphs in turn."""
    kinds: dict[Any, list[dict[str, Any]]] = {}
    for case in CASES:
        if case["name"] == name:
            kinds.setdefault((case["view"], case["infinite"]), []).append(case)
    for place, cases in enumerate(kinds.values(), start=NAMES.index(name) + turn):
        yield cases[place % len(cases)]


@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize("name", NAMES)
def test_golden_values_of_programs(name: str, kind: Any) -> None:
    """All of them for numbers; for vectors, whose form is the same, those that certificates leave out, by views."""
    every = [case for case in CASES if case["name"] == name]
    for case in every if kind == "scalar" else of_each_view(name, 1):
        found = sensitivity(_protocol(case), _view(case), [case["target"]], contribution=kind)
        lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
        if case["infinite"]:
            assert lower == upper == np.inf
            continue
        least, most = (case["scalar"], case["scalar"]) if kind == "scalar" else case["vector"]
        # The stored values are floats, the vector ones from a solver.
        assert lower <= most * (1 + 1e-12) + 1e-9
        assert upper >= least * (1 - 1e-12) - 1e-9
        assert upper <= most * (1 + (1e-8 if kind == "scalar" else 3e-4)) + 1e-9
        assert lower >= least * (1 - (1e-8 if kind == "scalar" else 3e-4)) - 1e-9


@pytest.mark.parametrize("rounds", [4, 12, 30])
def test_a_mode_that_nothing_excites_never_narrows_the_interval_wrongly(rounds: int) -> None:
    """A view that knows a node's noise but not what flows into it: a filter in floats follows a mode that runs away."""
    W = np.array([[0.35, 0.6, 0.05, 0.0], [0.6, 0.0, 0.4, 0.0], [0.05, 0.4, 0.35, 0.2], [0.0, 0.0, 0.2, 0.8]])
    view = View(observation=W[[0]], known_noise=[0, 1])
    found = sensitivity(gossip(W, rounds=rounds, noise_levels=2), view, [2], contribution="scalar")
    signs = (-1.0) ** np.arange(rounds)
    attained = exact_form(rational(W), rational(W[[0]]), [0, 1], 2, rounds, signs).value(np.ones(1)) / 4
    assert attained <= Fraction(float(found.squared_upper[0]))
    assert found.squared_lower[0] <= found.squared_upper[0]
    witness = found[2].witness.ravel()
    value = exact_form(rational(W), rational(W[[0]]), [0, 1], 2, rounds, witness).value(np.ones(1)) / 4
    assert Fraction(float(found.squared_lower[0])) <= value


def _graph(nodes: int, edges: list[list[int]]) -> Graph:
    adjacency = np.zeros((nodes, nodes))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    return Graph(
        adjacency=scipy.sparse.csr_array(adjacency), labels=range(nodes), directed=False, weighted=False
    )


def _protocol(case: dict[str, Any]) -> Protocol:
    """The protocol of a stored case; cases of one protocol share it, and what it has worked out of itself."""
    told = ("nodes", "edges", "schedule", "program", "rounds", "encoder")
    return _protocol_of(json.dumps({name: case[name] for name in told if name in case}))


@functools.cache
def _protocol_of(stored: str) -> Protocol:
    case = json.loads(stored)
    weights: Any = metropolis_weights(_graph(case["nodes"], case["edges"]))
    if "schedule" in case:
        weights = tuple(round_weights(_graph(case["nodes"], edges)) for edges in case["schedule"])
    return Protocol(
        weights=weights,
        program=Program.from_json(case["program"]),
        rounds=case["rounds"],
        encoder=tuple(case["encoder"]),
    )


def _view(case: dict[str, Any]) -> View:
    name, who = case["view"], case["observers"]
    if name == "everyone":
        return View.everyone
    view: View = getattr(View, name)(who if name.startswith("coalition") else who[0])
    return view


@st.composite
def programs(draw: Any) -> Program:
    """Any program of up to two kept registers, two draws that are sent, and seven instructions."""
    keeps = ("a", "b")[: draw(st.integers(1, 2))]
    draws = [Draw("u", level=draw(st.sampled_from([1, 2, "1/2"])))]
    if draw(st.booleans()):
        draws.append(Draw("w", level=1, each=draw(st.sampled_from(["node", "edge"]))))
    numbers = st.sampled_from([1, -1, 2, "1/2", "-1/3", 0])
    held = list(keeps)
    steps: list[Combine | Exchange] = []
    for name in (*draws, None):
        sources = [*held, "contribution"]
        terms = {source: draw(numbers) for source in sources if draw(st.booleans())}
        if name is not None:
            terms[name.name] = 1
        into = draw(st.sampled_from(["a", "b", "c"][: len(keeps) + 1]))
        steps.append(Combine(into, terms))
        held = [*dict.fromkeys((*held, into))]
        if draw(st.booleans()):
            steps.append(Exchange(draw(st.sampled_from(held)), draw(st.sampled_from(held))))
    steps.append(Exchange(held[-1], held[0]))
    made = Program(keeps=keeps, draws=tuple(draws), instructions=tuple(steps), model="a")
    unsent = unsent_draws((made,))
    sent = (
        step
        if isinstance(step, Exchange)
        else Combine(step.into, {name: x for name, x in step.terms.items() if name not in unsent})
        for step in steps
    )
    return replace(
        made, draws=tuple(each for each in draws if each.name not in unsent), instructions=tuple(sent)
    )


@examples(120)
@given(st.data())
def test_the_interval_holds_the_exact_value_of_any_program(data: Any) -> None:
    weights = metropolis_weights(
        data.draw(st.sampled_from(["path:n=3", "star:n=4", "ring:n=4", "complete:n=3"]))
    )
    several = data.draw(st.integers(1, 2))
    first = data.draw(programs())
    others = (data.draw(programs().filter(lambda each: each.keeps == first.keeps)),) if several > 1 else ()
    protocol = Protocol(weights=weights, program=(first, *others), rounds=data.draw(st.integers(1, 4)))
    view = data.draw(st.sampled_from([view for view in VIEWS if view.exchanges is None]))
    nodes = {int(str(label)) for label in view.observers}
    targets = sorted(set(range(protocol.n)) - knowing(view))
    if nodes <= set(range(protocol.n)) and targets:
        engine = data.draw(st.sampled_from(CHOICES))
        holds(protocol, view, [data.draw(st.sampled_from(targets))], tight=None, engine=engine)
