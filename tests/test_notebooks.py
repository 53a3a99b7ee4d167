"""What values show of themselves in a notebook, and the notebook of the examples, run cell by cell.

The cells run in one namespace of this process: what a notebook shows is `_repr_html_` of the last expression of a cell,
and no kernel has to be installed or started for that.
"""

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from sottovoce.accounting import Account, AccountTable, account_all, compare
from sottovoce.frontiers.results import Arm, Frontier, Point
from sottovoce.graphs import metropolis_weights
from sottovoce.interval import Interval, rounded_down, rounded_up
from sottovoce.learning import parse_synthetic, train
from sottovoce.protocols import gossip
from sottovoce.scenarios import Scenario
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View

NOTEBOOK = Path(__file__).parent.parent / "examples" / "families.ipynb"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def table() -> AccountTable:
    graph = nx.relabel_nodes(nx.path_graph(4), {0: HOSTILE, 1: "b", 2: "c", 3: "d"})
    run = gossip(metropolis_weights(graph), rounds=4)
    return account_all(run, "secure-sum", noise_multiplier=3.0, delta=1e-5)


class Balanced(HTMLParser):
    """Refuses tags that are not those of a table, and tags that are not closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        # No colour and no style of its own: the theme of whoever shows it decides.
        assert {name for name, _ in attrs} <= {"scope"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(value: Any) -> str:
    found: str = value._repr_html_()
    parser = Balanced()
    parser.feed(found)
    parser.close()
    assert parser.open == []
    return found


def test_a_table_and_an_account_show_intervals_and_the_assumption(table: AccountTable) -> None:
    found = checked(table)
    worst = table.worst()
    ends = f"{rounded_down(worst.epsilon().lower)}–{rounded_up(worst.epsilon().upper)}"
    assert ends in found
    assert "Assumption oblivious: " in found
    assert "<script" not in found
    assert "&lt;script&gt;" in found
    alone = checked(worst)
    assert ends in alone
    assert f"ε ≤ {rounded_up(worst.epsilon().upper)} at δ = 1e-05, view secure-sum" in alone
    assert "Assumption oblivious: " in alone


def test_an_account_without_a_delta_shows_its_mu() -> None:
    week = Account(mu=Interval(0.5, 0.6), relation="add-remove", method="exact")
    assert "0.5–0.6" in checked(week)


def test_sensitivities_and_comparisons_show_themselves(table: AccountTable) -> None:
    found = sensitivity(table.protocol, View.everyone)
    assert "<td>4</td>" in checked(found)
    asked = {name: Scenario(protocol=table.protocol, view="secure-sum") for name in (HOSTILE, "again")}
    contender = compare(asked, noise_multiplier=3.0)[0]
    assert rounded_up(contender.table.worst().epsilon().upper) in checked(contender)


def test_a_run_shows_what_holds_without_an_assumption_too() -> None:
    run = gossip(metropolis_weights("ring:n=4"), rounds=3)
    done = train(parse_synthetic("synthetic:dimension=2,records=5", 4), run, noise_multiplier=5.0, seed=1)
    found = checked(done)
    assert rounded_up(done.unconditional.epsilon().upper) in found
    assert rounded_up(done.epsilon.upper) in found


def test_a_frontier_shows_a_row_for_each_line() -> None:
    point = Point(
        epsilon=1.0,
        accuracy=0.8125,
        deviation=0.01,
        node_accuracy=0.8,
        accuracies=(0.8,),
        step="0.5",
        scores=(),
        assumption="smooth",
    )
    arms = (Arm(network=HOSTILE, protocol="gossip", view="secure-sum", points=(point,)),)
    central = (Arm(network="ring", protocol=None, view=None, points=(point,)),)
    found = checked(Frontier(arms=arms, central=central, no_noise=(), tuning="Nobody.", settings={}))
    assert "<td>0.812 ± 0.010</td><td>smooth</td>" in found
    assert "trusted server" in found


def test_the_notebook_runs_and_every_value_shows_itself() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        # What is kept is what is run: a notebook without outputs cannot show an old number.
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        *before, last = ast.parse("".join(cell["source"])).body
        assert isinstance(last, ast.Expr)
        exec(compile(ast.Module(before, []), str(NOTEBOOK), "exec"), names)
        value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
        assert re.search(r"ε ≤ [\d.]+ at δ = 1e-05", checked(value))
        shown += 1
    assert shown == 4
    assert names["noise"] > 4
