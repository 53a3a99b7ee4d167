# SPDX-License-Identifier: Apache-2.0
"""No number that misleads: what is known of a network, what goes with what it was derived from, and late answers."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any

from tests.page.acts import choose, drop, idle, looked, noticed, press_node, shown, until, words
from tests.page.test_accessibility import violations

from sottovoce.accounting import account_all, calibrate
from sottovoce.cli import main
from sottovoce.cli.printing import rounded_up
from sottovoce.graphs import graph_weights, metropolis_weights, parse_graph
from sottovoce.protocols import gossip
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Route

    Visit = Callable[..., Page]

RANDOM = "erdos-renyi:n=70,p=0.15,seed=1"
RING = "".join(f"friend{k} friend{(k + 1) % 70}\n" for k in range(70))
REFUSE = "IDBFactory.prototype.open = () => { throw new DOMException('refused', 'SecurityError'); };"


class Gate:
    """Holds requests to an address back, those that `stops` says, until it is opened."""

    def __init__(self, page: Page, address: str, stops: Callable[[Any], bool] = lambda _: True) -> None:
        self.held: list[Route] = []
        self.shut = True
        self.stops = stops
        page.route(f"**/{address}", self._take)

    def _take(self, route: Route) -> None:
        if self.shut and self.stops(route.request.post_data_json):
            self.held.append(route)
        else:
            route.continue_()

    def open(self) -> None:
        self.shut = False
        for route in self.held:
            route.continue_()


def command(verb: str, *options: str) -> Any:
    """What the command line says, as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main([verb, *options, "--json"]) == 0
    return json.loads(said.getvalue())


def answered(page: Page) -> None:
    """Wait until all pairs are known and drawn."""
    until(page, "document.getElementById('verdict').classList.contains('answer')")
    idle(page)


def test_the_headline_is_the_worst_of_all_pairs_and_says_until_when_it_is_not(
    page: Page,
) -> None:
    gate = Gate(page, "api/page", lambda body: len(body["observers"] or ()) > 1)
    page.evaluate(f"location.hash = 'graph={RANDOM}&rounds=6&view=secure-sum'")
    until(page, "sottovoce.model.labels.length === 70 && sottovoce.model.rows.size === 1")
    idle(page)
    assert page.inner_text("#coverage-text").strip() == "69 of 4830 pairs computed; the worst may be higher."
    assert page.inner_text("#headline-epsilon").endswith(" so far")
    assert "the worst of the 69 pairs that are computed" in page.inner_text("#headline-who")
    colour = "getComputedStyle(document.getElementById('headline-epsilon')).color"
    partial = page.evaluate(colour)
    assert violations(page) == []
    gate.open()
    answered(page)
    options = (RANDOM, "--rounds", "6", "--view", "secure-sum")
    found = command("account", *options, "--noise-multiplier", "4", "--delta", "1e-5")
    largest = max(pair["epsilon"]["upper"] for pair in found["pairs"])
    assert len(found["pairs"]) == 4830
    assert page.inner_text("#headline-epsilon") == f"ε ≤ {rounded_up(largest)}"
    assert "the worst of 4830 pairs" in page.inner_text("#headline-who")
    assert page.is_hidden("#coverage")
    assert page.evaluate(colour) != partial
    page.click("#find-noise")
    until(page, "document.getElementById('find-answer').textContent.includes('keeps')")
    noise = command("calibrate", *options, "--target-epsilon", "1")["noise_multiplier"]
    assert page.input_value("#noise") == rounded_up(noise, 6)
    text = f"A noise multiplier of {rounded_up(noise, 6)} keeps every pair of the network within ε = 1"
    assert page.inner_text("#find-answer").startswith(text)
    idle(page)
    assert page.inner_text("#headline-epsilon") == "ε ≤ 1"


def test_the_chosen_observer_is_the_second_line_and_is_named_by_find(page: Page) -> None:
    choose(page, "view", "Secure sum")
    idle(page)
    before = shown(page)
    press_node(page, "Strozzi")
    idle(page)
    protocol = gossip(metropolis_weights("florentine"), rounds=20)
    table = account_all(protocol, "secure-sum", noise_multiplier=4.0, delta=1e-5, observers=["Strozzi"])
    assert looked(page).startswith(f"Chosen observer Strozzi: {', '.join(words(table.worst()))}, about ")
    assert shown(page) == before
    page.select_option("#find-scope", "one")
    page.click("#find-noise")
    until(page, "document.getElementById('find-answer').textContent.includes('keeps')")
    noise = calibrate(protocol, View.secure_sum("Strozzi"), target_epsilon=1.0, target_delta=1e-5)
    assert page.inner_text("#find-answer") == (
        f"A noise multiplier of {rounded_up(noise, 6)} keeps what Strozzi can learn within ε = 1 at δ = 1e-5. "
        "This observer only: others may learn more."
    )
    idle(page)
    assert float(page.inner_text("#headline-epsilon").removeprefix("ε ≤ ")) > 1


def test_find_names_those_that_are_protected_whoever_observes(page: Page) -> None:
    """Noise that is enough for some targets may be too little for others: the sentence claims no more."""
    choose(page, "view", "Secure sum")
    idle(page)
    press_node(page, "Strozzi")
    page.fill("#targets", "Medici, Pazzi")
    page.press("#targets", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)

    def found() -> str:
        page.click("#find-noise")
        until(page, "document.getElementById('find-answer').textContent.includes('keeps')")
        return page.inner_text("#find-answer")

    told = found()
    assert "keeps what anyone can learn about Medici, Pazzi within" in told
    assert told.endswith("δ = 1e-5. Other nodes may give away more.")
    page.select_option("#find-scope", "one")
    told = found()
    assert "keeps what Strozzi can learn about Medici, Pazzi within" in told
    assert told.endswith("This observer only: others may learn more. Other nodes may give away more.")
    page.check("#coalition")
    idle(page)
    press_node(page, "Albizzi")
    idle(page)
    told = found()
    assert "keeps what Strozzi and Albizzi together can learn about Medici, Pazzi within" in told
    assert told.endswith("Other coalitions may learn more. Other nodes may give away more.")


def test_without_a_view_the_noise_is_found_for_both(page: Page) -> None:
    page.click("#find-noise")
    until(page, "document.getElementById('find-answer').textContent.includes('keeps')")
    protocol = gossip(metropolis_weights("florentine"), rounds=20)
    larger, smaller = (
        rounded_up(calibrate(protocol, view, target_epsilon=1.0, target_delta=1e-5), 6)
        for view in ("neighbourhood", "secure-sum")
    )
    assert page.inner_text("#find-answer") == (
        f"A noise multiplier of {larger} keeps every pair of the network within ε = 1 at δ = 1e-5 with messages in "
        f"the clear. With secure sums {smaller} would do."
    )
    assert page.input_value("#noise") == larger


def change_field(field: str, value: str) -> Callable[[Page], None]:
    def change(page: Page) -> None:
        page.fill(field, value)
        page.press(field, "Tab")

    return change


def ask_for_karate(page: Page) -> None:
    page.fill("#graph", "karate")
    page.click("#load-graph")


# In an order in which each can still be made: those to other networks come late.
CHANGES: dict[str, Callable[[Page], object]] = {
    "weights": lambda page: page.select_option("#weights", "lazy"),
    "rounds": change_field("#rounds", "9"),
    "noise": change_field("#noise", "9"),
    "delta": change_field("#delta", "1e-7"),
    "target": change_field("#target-epsilon", "2"),
    "scope": lambda page: page.select_option("#find-scope", "one"),
    "observer": lambda page: page.select_option("#observer", label="Ginori"),
    "own noise": lambda page: choose(page, "own-noise", "hidden"),
    "view": lambda page: choose(page, "view", "Single node"),
    "graph": ask_for_karate,
    "file": lambda page: drop(page, "friends.edgelist", "anna ben\nben cora\ncora anna\n"),
    "coalition": lambda page: page.check("#coalition"),
}


def test_what_find_said_goes_with_what_it_was_said_of(page: Page) -> None:
    for what, change in CHANGES.items():
        page.click("#find-noise")
        until(page, "document.getElementById('find-answer').textContent.includes('keeps')")
        page.evaluate("sottovoce.messages.say('A notice.')")
        change(page)
        idle(page)
        assert page.inner_text("#find-answer") == "", what
        assert page.is_hidden("#notice"), what


def test_a_slow_server_leaves_no_number_of_another_question(page: Page) -> None:
    gate = Gate(page, "api/page")
    before = shown(page)
    choose(page, "view", "Single node")
    until(page, "document.body.classList.contains('blank')")
    page.wait_for_timeout(200)
    assert page.inner_text("#headline-epsilon") == "…"
    assert before[0] not in page.inner_text("#verdict")
    for part in ("#exposed", "#heat", "#curves", "#facts", "#legend", "#network-note", "#sides", "#coverage"):
        assert page.is_hidden(part), part
    page.hover("#network", position={"x": 300, "y": 200})
    assert violations(page) == []
    page.click("#cancel")
    idle(page)
    assert page.inner_text("#notice-text") == "Cancelled. What is shown is the run before."
    assert shown(page) == before
    assert page.is_checked("#view input[value=both]")
    gate.open()
    page.wait_for_timeout(300)
    assert shown(page) == before


def test_late_answers_to_an_old_question_are_not_shown(page: Page) -> None:
    gate = Gate(page, "api/page", lambda body: body["view"] == "secure-sum")
    choose(page, "view", "Secure sum")
    until(page, "document.body.classList.contains('blank')")
    page.wait_for_timeout(100)
    choose(page, "view", "Single node")
    idle(page)
    assert len(gate.held) == 1
    before = page.inner_text("#verdict")
    gate.open()
    page.wait_for_timeout(500)
    assert "single-node" in before
    assert page.inner_text("#verdict") == before


def test_a_late_calibration_changes_nothing(page: Page) -> None:
    gate = Gate(page, "api/calibrate")
    page.click("#find-noise")
    until(page, "document.getElementById('find-answer').textContent === 'Asking the server…'")
    choose(page, "view", "Secure sum")
    idle(page)
    assert page.inner_text("#find-answer") == ""
    gate.open()
    page.wait_for_timeout(500)
    assert page.inner_text("#find-answer") == ""
    assert page.input_value("#noise") == "4"


def test_a_graph_dropped_during_a_job_is_what_is_shown(page: Page) -> None:
    gate = Gate(page, "api/page", lambda body: body["graph"]["kind"] == "name")
    ask_for_karate(page)
    until(page, "sottovoce.model.labels.length === 34")
    drop(page, "friends.edgelist", "anna ben\nben cora\ncora anna\n")
    until(page, "sottovoce.model.labels.length === 3 && sottovoce.model.document !== null")
    gate.open()
    page.wait_for_timeout(400)
    idle(page)
    assert page.evaluate("sottovoce.model.labels") == ["anna", "ben", "cora"]
    assert "the worst of 6 pairs" in page.inner_text("#headline-who")
    assert page.input_value("#graph") == "friends.edgelist"


def test_the_rest_can_be_stopped_and_taken_up_again(page: Page) -> None:
    gate = Gate(page, "api/page", lambda body: len(body["observers"] or ()) > 1)
    page.evaluate("location.hash = 'graph=ring:n=70&rounds=5'")
    until(page, "sottovoce.model.rows.size === 1")
    idle(page)
    assert page.inner_text("#coverage-action") == "Stop"
    page.click("#coverage-action")
    idle(page)
    assert "69 of 4830 pairs computed in each view; the worst may be higher." in page.inner_text("#coverage")
    assert page.inner_text("#coverage-action") == "Compute the rest"
    gate.open()
    page.wait_for_timeout(300)
    assert page.locator("#verdict.answer").count() == 0
    page.click("#coverage-action")
    answered(page)
    table = account_all(
        gossip(metropolis_weights("ring:n=70"), rounds=5), "neighbourhood", noise_multiplier=4.0, delta=1e-5
    )
    assert shown(page) == words(table.worst())


def test_an_answer_that_fails_leaves_the_number_in_part(page: Page) -> None:
    failed = {"id": "x", "state": "failed", "error": {"kind": "time", "message": "It took too long."}}

    def fail(route: Route) -> None:
        asked: Any = route.request.post_data_json
        if len(asked["observers"] or ()) > 1:
            route.fulfill(json=failed)
        else:
            route.continue_()

    page.route("**/api/page", fail)
    page.evaluate("location.hash = 'graph=ring:n=70&rounds=5&view=secure-sum'")
    until(page, "document.getElementById('coverage-text').textContent.includes('It took too long.')")
    idle(page)
    assert "69 of 4830 pairs computed; the worst may be higher." in page.inner_text("#coverage")
    assert page.locator("#verdict.answer").count() == 0


def test_a_dropped_graph_survives_a_reload(page: Page) -> None:
    text = RING * 2
    assert len(text) > 1500
    drop(page, "friends.edgelist", text)
    until(page, "sottovoce.model.labels.includes('friend7')")
    answered(page)
    before = page.inner_text("#verdict")
    page.reload()
    until(page, "sottovoce.model.document !== null")
    answered(page)
    assert page.input_value("#graph") == "friends.edgelist"
    assert page.evaluate("sottovoce.model.labels.length") == 70
    assert page.inner_text("#verdict") == before
    assert page.is_hidden("#notice")
    protocol = gossip(metropolis_weights(parse_graph(text, "friends.edgelist")), rounds=20)
    table = account_all(protocol, "neighbourhood", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())


def test_two_tabs_keep_their_own_graphs(page: Page) -> None:
    other = page.context.new_page()
    other.goto(page.url)
    until(other, "sottovoce.model.document !== null")
    for tab, name in ((page, "ours"), (other, "theirs")):
        drop(tab, f"{name}.edgelist", RING.replace("friend", name) * 2)
        until(tab, f"sottovoce.model.labels.includes('{name}7')")
        idle(tab)
    for tab, name in ((page, "ours"), (other, "theirs")):
        tab.reload()
        until(tab, f"sottovoce.model.labels.includes('{name}7')")
        idle(tab)


def test_a_graph_that_is_not_kept_is_said_to_be_gone(page: Page, visit: Visit) -> None:
    drop(page, "friends.edgelist", RING * 2)
    until(page, "sottovoce.model.labels.includes('friend7')")
    idle(page)
    other = visit(page.url)
    noticed(other)
    assert other.inner_text("#notice-text") == (
        "The graph friends.edgelist is not kept in this browser (drop it here again, or load another)."
    )
    assert shown(other) == ("…", "")
    assert other.url == page.url
    assert other.input_value("#graph") == "friends.edgelist"
    assert violations(other) == []
    drop(other, "friends.edgelist", RING * 2)
    answered(other)
    assert other.is_hidden("#notice")
    assert shown(other) == shown(page)


def test_a_browser_that_keeps_nothing_says_so(alone: Page) -> None:
    alone.add_init_script(REFUSE)
    alone.reload()
    until(alone, "sottovoce.model.document !== null")
    idle(alone)
    drop(alone, "friends.edgelist", RING * 2)
    noticed(alone)
    assert alone.inner_text("#notice-text") == (
        "This browser keeps nothing for this page: after a reload friends.edgelist has to be dropped again."
    )
    answered(alone)
    alone.reload()
    noticed(alone)
    assert "The graph friends.edgelist is lost, because this browser keeps nothing" in alone.inner_text(
        "#notice-text"
    )
    assert shown(alone) == ("…", "")


OWN = "anna,anna,0.75\nanna,ben,0.25\nben,ben,0.25\nben,cora,0.5\ncora,cora,0.5\n"


def test_the_weights_of_a_file_are_the_gossip_matrix(page: Page) -> None:
    text = "source,target,weight\n" + OWN
    choose(page, "view", "Secure sum")
    idle(page)
    drop(page, "friends.csv", text)
    until(page, "sottovoce.model.labels.includes('cora') && sottovoce.model.document !== null")
    idle(page)
    protocol = gossip(graph_weights(parse_graph(text, "friends.csv")), rounds=20)
    table = account_all(protocol, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())
    assert "weights: as given in friends.csv" in page.inner_text("#headline-terms")
    assert page.inner_text("#weights-hint") == "Used: as given in friends.csv."
    page.select_option("#weights", "metropolis")
    idle(page)
    assert "whose own weights are left out" in page.inner_text("#headline-terms")
    assert "whose own weights are left out" in page.inner_text("#facts")
    assert shown(page) != words(table.worst())


def test_weights_that_are_no_gossip_matrix_are_refused_with_the_choices(page: Page) -> None:
    drop(page, "friends.csv", "source,target,weight\nanna,ben,3\nben,cora,4\n")
    noticed(page)
    text = page.inner_text("#notice-text")
    assert "friends.csv" in text
    assert "metropolis, lazy, maximum-degree" in text
    assert shown(page) == ("…", "")
    assert page.input_value("#graph") == "friends.csv"
    page.select_option("#weights", "uniform")
    until(page, "sottovoce.model.labels.includes('cora') && sottovoce.model.document !== null")
    idle(page)
    assert page.is_hidden("#notice")
    assert "weights: uniform rule on the graph of friends.csv" in page.inner_text("#headline-terms")


def test_the_graph_that_was_asked_for_last_is_shown_however_long_the_other_takes_to_read(alone: Page) -> None:
    alone.evaluate("sottovoce.kept.put = () => new Promise((resolve) => setTimeout(() => resolve('x'), 600))")
    drop(alone, "slow.edgelist", RING * 2)
    drop(alone, "quick.edgelist", "anna ben\nben cora\ncora anna\n")
    until(alone, "sottovoce.model.labels.includes('cora') && sottovoce.model.document !== null")
    alone.wait_for_timeout(900)
    idle(alone)
    assert alone.input_value("#graph") == "quick.edgelist"
    assert alone.evaluate("sottovoce.model.labels.length") == 3


def test_a_file_of_some_pairs_is_called_so(page: Page) -> None:
    gate = Gate(page, "api/page", lambda body: len(body["observers"] or ()) > 1)
    page.evaluate("location.hash = 'graph=ring:n=70&rounds=5'")
    until(page, "sottovoce.model.rows.size === 1")
    idle(page)
    with page.expect_download() as download:
        page.click("#save-csv")
    assert download.value.suggested_filename == "sottovoce-pairs-69-of-4830.csv"
    gate.open()


def test_the_network_and_its_words_outlive_another_graph(page: Page) -> None:
    for name in ("ring:n=9", "karate", "ring:n=8"):
        page.hover("#network", position=page.evaluate("sottovoce.network.positionOf(1)"))
        page.wait_for_selector("#tip", state="visible")
        page.fill("#graph", name)
        page.click("#load-graph")
        idle(page)
        assert page.is_hidden("#tip")
        assert page.evaluate("sottovoce.network.nodesDrawn() === sottovoce.model.labels.length")
