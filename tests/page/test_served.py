# SPDX-License-Identifier: Apache-2.0
"""The served page in a browser: recomputation, graphs of one's own, jobs that end early, a server that is gone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.page.acts import (
    choose,
    drop,
    everyone,
    idle,
    load,
    looked,
    noticed,
    opened,
    press_node,
    shown,
    until,
    words,
)
from tests.page.test_accessibility import violations
from tests.servers import Server, serving

from sottovoce.accounting import account, account_all, local_account
from sottovoce.cli.printing import rounded_up
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights, parse_graph, weights_by_rule
from sottovoce.protocols import gossip, momentum
from sottovoce.protocols.spelling import parse_protocol
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    Visit = Callable[..., Page]

EDGES = "anna ben\nben cora\ncora dan\ndan anna\nben dan\n"
GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="anna"/><node id="ben"/><node id="cora"/><node id="dan"/>
<edge source="anna" target="ben"/><edge source="ben" target="cora"/><edge source="cora" target="dan"/>
<edge source="dan" target="anna"/><edge source="ben" target="dan"/></graph></graphml>
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose limits are soon reached."""
    with serving("--max-pairs", "6000", "--time-limit", "40") as found:
        yield found


def test_the_first_network_is_computed_by_itself(page: Page) -> None:
    larger, smaller = (words(everyone(view=view).worst()) for view in ("neighbourhood", "secure-sum"))
    assert shown(page) == larger
    assert page.locator("#sides dd").all_inner_texts() == [", ".join(larger), ", ".join(smaller)]
    assert f"secure sums would give {smaller[0]}" in page.inner_text("#headline-otherwise")
    assert page.is_checked("#view input[value=both]")
    page.click("#tab-curves")
    page.wait_for_selector("#curves svg")
    assert page.input_value("#graph") == "florentine"
    assert violations(page) == []


def test_view_own_noise_and_rounds_are_recomputed(page: Page) -> None:
    choose(page, "view", "Secure sum")
    idle(page)
    assert shown(page) == words(everyone(view="secure-sum").worst())
    assert page.is_hidden("#sides")
    choose(page, "view", "Messages")
    idle(page)
    assert shown(page) == words(everyone().worst())
    assert "neighbourhood, own noise known" in page.inner_text("#headline-terms")
    choose(page, "own-noise", "hidden")
    idle(page)
    assert shown(page) == words(everyone(own_noise="hidden").worst())
    page.fill("#rounds", "7")
    page.press("#rounds", "Enter")
    idle(page)
    assert shown(page) == words(everyone(own_noise="hidden", rounds=7).worst())
    choose(page, "view", "Single node")
    idle(page)
    assert "single-node" in page.inner_text("#headline-terms")
    choose(page, "view", "Everything")
    idle(page)
    assert shown(page) == words(everyone(view="everyone", rounds=7).worst())
    assert page.is_disabled("#observer")
    page.fill("#rounds", "2.5")
    page.press("#rounds", "Enter")
    assert page.inner_text("#notice-text") == "rounds must be a whole number of at least 1; got 2.5 (20, say)"


def test_a_coalition_is_put_together_by_clicks(page: Page) -> None:
    press_node(page, "Medici")
    idle(page)
    page.check("#coalition")
    idle(page)
    press_node(page, "Strozzi")
    idle(page)
    protocol = gossip(metropolis_weights("florentine"), rounds=20)
    members = ["Medici", "Strozzi"]
    sums = account(protocol, View.coalition_sums(members), noise_multiplier=4.0, delta=1e-5)
    messages = account(protocol, View.coalition_messages(members), noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == max(words(sums.worst()), words(messages.worst()))
    assert page.locator("#members li").all_inner_texts() == ["Medici×", "Strozzi×"]
    choose(page, "view", "Secure sum")
    idle(page)
    assert shown(page) == words(sums.worst())
    choose(page, "view", "Messages")
    idle(page)
    assert shown(page) == words(messages.worst())
    page.select_option("#observer", label="Pazzi")
    idle(page)
    three = account(protocol, View.coalition_messages([*members, "Pazzi"]), noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(three.worst())
    page.click("#members button >> nth=0")
    idle(page)
    assert page.locator("#members li").count() == 2
    page.uncheck("#coalition")
    idle(page)
    assert "neighbourhood" in page.inner_text("#headline-terms")
    assert page.locator("#members li").count() == 0


def test_a_click_with_shift_starts_a_coalition(page: Page) -> None:
    press_node(page, "Strozzi", modifiers=["Shift"])
    idle(page)
    assert "coalition-messages" in page.inner_text("#headline-terms")
    assert page.locator("#members li").count() == 2


def test_another_graph_and_other_weights(page: Page) -> None:
    page.fill("#graph", "ring:n=9")
    page.click("#load-graph")
    idle(page)
    assert shown(page) == words(everyone("ring:n=9").worst())
    page.select_option("#weights", "lazy")
    idle(page)
    protocol = gossip(weights_by_rule("ring:n=9", "lazy"), rounds=20)
    lazy = account_all(protocol, "neighbourhood", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(lazy.worst())
    assert "lazy metropolis: lazy metropolis rule on the graph of ring:n=9" in page.inner_text("#facts")


def test_some_nodes_are_protected_and_the_ends_may_stay_apart(page: Page, visit: Visit) -> None:
    """What --target and --tolerance ask on the command line; a node that is protected alone has nobody to observe."""
    choose(page, "view", "Secure sum")
    idle(page)
    page.fill("#targets", "Medici, Strozzi")
    page.press("#targets", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)
    some = account_all(
        gossip(metropolis_weights("florentine"), rounds=20),
        "secure-sum",
        noise_multiplier=4.0,
        delta=1e-5,
        targets=["Medici", "Strozzi"],
    )
    assert shown(page) == words(some.worst())
    assert f"the worst of {len(some)} pairs with the chosen targets." in page.inner_text("#headline-who")
    other = opened(visit, page.url)
    assert other.input_value("#targets") == "Medici, Strozzi"
    assert shown(other) == shown(page)
    page.fill("#targets", "Medici")
    page.press("#targets", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)
    assert shown(page) == words(some.about("Medici"))
    assert "the worst of 14 pairs with the chosen target." in page.inner_text("#headline-who")
    page.fill("#tolerance", "2")
    page.press("#tolerance", "Enter")
    assert "the tolerance must be a number above 0 and at most 1" in page.inner_text("#notice-text")
    page.fill("#tolerance", "0.3")
    page.press("#tolerance", "Enter")
    idle(page)
    assert "tolerance=0.3" in page.url
    asked = page.evaluate("sottovoce.asking.command()")
    assert "--target Medici" in asked
    assert "--tolerance 0.3" in asked
    page.fill("#targets", "Nobody")
    page.press("#targets", "Enter")
    noticed(page)
    assert "no node is called 'Nobody'" in page.inner_text("#notice-text")
    # What is refused stays to be mended, and no answer to another question stands beside it.
    assert page.input_value("#targets") == "Nobody"
    assert shown(page) == ("…", "")
    page.fill("#graph", "ring:n=9")
    page.click("#load-graph")
    idle(page)
    assert page.input_value("#targets") == ""
    assert violations(page) == []


def test_a_hub_that_is_protected_alone_is_not_whom_a_large_network_is_looked_at_from(page: Page) -> None:
    load(page, "star:n=70", 70)
    page.fill("#targets", "0")
    page.press("#targets", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)
    assert page.is_hidden("#notice")
    assert page.input_value("#targets") == "0"
    some = everyone("star:n=70", targets=(0,))
    assert shown(page) == words(some.worst())
    assert f"the worst of {len(some)} pairs with the chosen target." in page.inner_text("#headline-who")


def test_a_name_that_holds_a_comma_is_protected_in_quotes(page: Page, visit: Visit) -> None:
    drop(page, "names.csv", 'source,target\n"Doe, Ann",Bob\nBob,"Jo ""J"" Fox"\n"Jo ""J"" Fox","Doe, Ann"\n')
    until(page, "sottovoce.model.labels.length === 3")
    idle(page)
    page.fill("#targets", ' "Doe, Ann",Jo "J" Fox ')
    page.press("#targets", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)
    assert page.is_hidden("#notice")
    assert page.input_value("#targets") == '"Doe, Ann", "Jo ""J"" Fox"'
    assert "the worst of 4 pairs with the chosen targets." in page.inner_text("#headline-who")
    other = opened(visit, page.url)
    assert other.evaluate("sottovoce.state.question.targets") == ["Doe, Ann", 'Jo "J" Fox']
    assert shown(other) == shown(page)


def test_real_networks_and_matrices_are_asked_for(page: Page) -> None:
    page.fill("#graph", "topohub:sndlib/abilene")
    page.click("#load-graph")
    until(page, "sottovoce.model.labels.length === 12")
    idle(page)
    assert shown(page) == words(everyone("topohub:sndlib/abilene").worst())
    matrix = "%%MatrixMarket matrix array real general\n2 2\n0.5\n0.25\n0.5\n0.75\n"
    drop(page, "two.mtx", matrix)
    until(page, "sottovoce.model.labels.length === 2")
    idle(page)
    assert "as given in two.mtx" in page.inner_text("#facts")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("friends.edgelist", EDGES),
        ("friends.csv", "source,target\n" + EDGES.replace(" ", ",")),
        ("friends.graphml", GRAPHML),
    ],
)
def test_a_graph_is_dropped_on_the_page(name: str, text: str, page: Page) -> None:
    drop(page, name, text)
    until(page, "sottovoce.model.labels.includes('cora')")
    idle(page)
    protocol = gossip(weights_by_rule(parse_graph(text, name), "metropolis"), rounds=20)
    table = account_all(protocol, "neighbourhood", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())
    assert page.input_value("#graph") == name


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("friends.exe", "x", "friends.exe: the ending must be one of"),
        ("friends.csv", " \n", "friends.csv: the file is empty"),
        ("friends.csv", "a,b\na\n", "an edge is written as source, target and perhaps a weight"),
        ("friends.graphml", '<!DOCTYPE x [<!ENTITY a "b">]><graphml/>', "must not declare a DOCTYPE"),
        (
            "friends.csv",
            "x" * 2_000_001,
            "friends.csv: the file has 2000001 bytes, and this server takes 2000000",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_words(
    name: str, text: str, message: str, page: Page
) -> None:
    before = shown(page)
    drop(page, name, text)
    noticed(page)
    assert message in page.inner_text("#notice-text")
    # What was not even read is not asked; what the server refuses is, and has no answer.
    asked = page.input_value("#graph") == name
    assert shown(page) == (("…", "") if asked else before)
    assert page.is_disabled("#save-csv") == asked
    assert violations(page) == []


def test_a_file_is_opened_with_the_button(page: Page, tmp_path: Path) -> None:
    (tmp_path / "path.txt").write_text("1 2\n2 3\n")
    with page.expect_file_chooser() as chooser:
        page.click("#open-file")
    chooser.value.set_files(tmp_path / "path.txt")
    until(page, "sottovoce.model.labels.length === 3")


def test_the_link_leads_to_the_same_run(page: Page, visit: Visit) -> None:
    drop(page, "friends.edgelist", EDGES)
    until(page, "sottovoce.model.labels.includes('cora')")
    idle(page)
    choose(page, "view", "Messages")
    idle(page)
    page.fill("#rounds", "6")
    page.press("#rounds", "Enter")
    idle(page)
    page.fill("#noise", "2.5")
    page.press("#noise", "Enter")
    press_node(page, "dan")
    idle(page)
    other = opened(visit, page.url)
    assert other.inner_text("#verdict") == page.inner_text("#verdict")
    assert other.url == page.url
    named = opened(
        visit,
        page.url.partition("#")[0] + "#graph=ring:n=7&rounds=3&view=coalition-sums&observer=1&observer=3",
    )
    protocol = gossip(metropolis_weights("ring:n=7"), rounds=3)
    table = account(protocol, View.coalition_sums([1, 3]), noise_multiplier=4.0, delta=1e-5)
    assert shown(named) == words(table.worst())


def test_a_job_is_cancelled_and_the_run_before_stays(page: Page) -> None:
    before = shown(page)
    page.fill("#rounds", "9000")
    page.press("#rounds", "Enter")
    page.wait_for_selector("#work", state="visible")
    page.click("#cancel")
    idle(page)
    assert page.inner_text("#notice-text") == "Cancelled. What is shown is the run before."
    assert shown(page) == before
    page.click("h1")
    idle(page)
    assert page.input_value("#rounds") == "20"
    page.fill("#rounds", "5")
    page.press("#rounds", "Enter")
    idle(page)
    assert shown(page) == words(everyone(rounds=5).worst())


def test_progress_is_shown_in_pairs(page: Page) -> None:
    page.fill("#graph", "erdos-renyi:n=55,p=0.2,seed=3")
    page.fill("#rounds", "150")
    page.click("#load-graph")
    until(page, "/^\\d+ of \\d+ pairs$/.test(document.getElementById('work-text').textContent)")
    assert page.get_attribute("#main", "aria-busy") == "true"
    page.click("#cancel")
    idle(page)


def test_limits_are_told(page: Page) -> None:
    page.fill("#rounds", "10001")
    page.press("#rounds", "Enter")
    noticed(page)
    assert "this server takes at most 10000 rounds; got 10001" in page.inner_text("#notice-text")
    page.fill("#graph", "ring:n=5000")
    page.click("#load-graph")
    until(page, "document.getElementById('notice-text').textContent.includes('2000 nodes')")
    page.fill("#graph", "rnig:n=5")
    page.click("#load-graph")
    until(page, "document.getElementById('notice-text').textContent.includes('did you mean ring?')")


def test_a_network_that_is_too_large_says_so_beside_the_number(page: Page) -> None:
    page.fill("#rounds", "3")
    page.press("#rounds", "Enter")
    page.fill("#graph", "preferential:n=1200,core=5,links=3,seed=1")
    page.click("#load-graph")
    until(page, "sottovoce.model.labels.length === 1200")
    idle(page)
    assert page.evaluate("sottovoce.model.rows.size") == 1
    assert page.evaluate("sottovoce.network.nodesDrawn()") <= 161
    text = page.inner_text("#coverage")
    assert "1199 of 1438800 pairs computed in each view; the worst may be higher." in text
    assert "This server answers for at most 6000 pairs: for all of them run sottovoce account" in text
    assert page.is_hidden("#coverage-action")
    assert page.inner_text("#headline-epsilon").endswith(" so far")
    assert page.locator("#verdict.answer").count() == 0
    page.select_option("#observer", label="777")
    idle(page)
    assert page.evaluate("sottovoce.model.rows.size") == 2
    assert looked(page).startswith("Chosen observer 777: ε ≤ ")
    page.click("#heat-all")
    idle(page)
    assert page.evaluate("sottovoce.model.rows.size") >= 5
    assert "Each tile shows the largest ε" in page.inner_text("#heat-note")
    page.click("#find-noise")
    until(page, "document.getElementById('find-answer').textContent.includes('at most 6000 pairs')")


def test_a_server_that_is_gone_is_noticed_and_found_again(visit: Visit) -> None:
    with serving("--workers", "1") as first:
        page = opened(
            visit,
            first.address,
            expected=("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"),
        )
        before = shown(page)
        first.kill()
        choose(page, "view", "Secure sum")
        noticed(page)
        assert "The server does not answer" in page.inner_text("#notice-text")
        assert shown(page) == before
        assert page.is_checked("#view input[value=both]")
        assert "neighbourhood" in page.inner_text("#headline-terms")
        with serving("--workers", "1", port=first.port):
            page.click("#notice-action")
            until(page, "document.getElementById('headline-terms').textContent.includes('secure-sum')")
            idle(page)
            assert page.is_hidden("#notice")


def test_the_token_is_asked_for(visit: Visit) -> None:
    token = "a-token-of-some-length"
    with serving("--workers", "1", SOTTOVOCE_SERVE_TOKEN=token) as server:
        page = visit(server.address, expected=("401",))
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", "not the token")
        page.press("#token", "Enter")
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", token)
        page.press("#token", "Enter")
        until(page, "sottovoce.model.document !== null")
        idle(page)
        assert shown(page) == words(everyone().worst())
        assert token not in page.url


def test_a_protocol_is_chosen_with_its_parameters(page: Page, visit: Visit) -> None:
    """The page asks what --protocol asks, says the program and its hash, and its link leads back to it."""
    choose(page, "view", "Secure sum")
    idle(page)
    page.select_option("#protocol", "momentum")
    idle(page)
    weights = metropolis_weights("florentine")
    heavy = momentum(weights, rounds=20, beta="0.9")
    table = account_all(heavy, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())
    assert page.input_value("#parameters") == "beta=0.9"
    assert page.inner_text("#protocol-hint") == heavy.sentence
    facts = page.inner_text("#facts")
    assert f"momentum: {heavy.sentence}" in facts
    assert heavy.hash in facts
    local = local_account(heavy, noise_multiplier=4.0, delta=1e-5).epsilon().upper
    assert f"ε ≤ {rounded_up(local)} with local DP" in facts
    page.fill("#parameters", "beta=0.5,noise=message")
    page.press("#parameters", "Enter")
    idle(page)
    late = momentum(weights, rounds=20, beta="0.5", noise="message")
    table = account_all(late, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())
    assert "no central aggregation to compare with" in page.inner_text("#facts")
    page.click("#tab-curves")
    page.wait_for_selector("#curves svg")
    assert "local DP" not in page.inner_text("#curves")
    assert "protocol=momentum%3Abeta%3D0.5%2Cnoise%3Dmessage" in page.url
    again = opened(visit, page.url)
    assert shown(again) == words(table.worst())
    assert again.input_value("#parameters") == "beta=0.5,noise=message"
    assert violations(page) == []


def test_a_protocol_that_is_refused_stays_and_has_no_answer(page: Page) -> None:
    before = shown(page)
    page.select_option("#protocol", "momentum")
    idle(page)
    page.fill("#parameters", "beta=fast")
    page.press("#parameters", "Enter")
    noticed(page)
    assert "must be a finite number, or a rational such as '1/3'; got 'fast'" in page.inner_text(
        "#notice-text"
    )
    assert page.input_value("#parameters") == "beta=fast"
    assert shown(page) == ("…", "")
    page.select_option("#protocol", "gossip")
    idle(page)
    assert shown(page) == before


@pytest.mark.parametrize("said", ["fast", "beta", "beta=", "steps=3", "beta=0.5,", "gossip:beta=0.5"])
def test_parameters_are_written_as_the_box_takes_them(said: str, page: Page) -> None:
    page.select_option("#protocol", "momentum")
    idle(page)
    before = shown(page)
    assert page.get_attribute("#parameters", "placeholder") == "beta=0.9,noise=message, say"
    page.fill("#parameters", said)
    page.press("#parameters", "Enter")
    noticed(page)
    assert page.inner_text("#notice-text") == (
        "the parameters of momentum are written KEY=VALUE, with commas between them; its keys are beta, noise; "
        f"got {said} (beta=0.9,noise=message, say)"
    )
    assert page.input_value("#parameters") == said
    assert shown(page) == ("…", "")
    page.fill("#parameters", "beta=0.9")
    page.press("#parameters", "Enter")
    idle(page)
    assert page.is_hidden("#notice")
    assert shown(page) == before


def test_a_box_that_is_cleared_leaves_no_notice(page: Page) -> None:
    before = shown(page)
    for said in ("updates=0.9,1", "noise_levels=none"):
        page.fill("#parameters", said)
        page.press("#parameters", "Enter")
        noticed(page)
        page.fill("#parameters", "")
        page.press("#parameters", "Enter")
        idle(page)
        assert page.is_hidden("#notice")
        assert shown(page) == before


def test_the_parameters_of_a_box_are_those_of_the_library(page: Page) -> None:
    """What the box offers can be asked; the library knows no others but those that stand elsewhere on the page."""
    offered = page.evaluate(
        "[...document.getElementById('protocol').options].filter(({ dataset }) => dataset.possible)"
        ".map(({ value, dataset }) => [value, dataset.possible.split(', '), dataset.example, dataset.rounds])"
    )
    assert len(offered) == 9
    weights = metropolis_weights("florentine")
    for name, keys, example, rounds in offered:
        asked = parse_protocol(f"{name}:{example}", weights, rounds=int(rounds or 3))
        assert asked.rounds
        with pytest.raises(InputError) as caught:
            parse_protocol(f"{name}:foo=1", weights, rounds=int(rounds or 3))
        known = re.search(r"knows (.*); got", str(caught.value))
        assert known is not None
        assert [key for key in known[1].split(", ") if key != "updates"] == keys


def test_a_program_of_ones_own_without_noise_is_infinite_and_says_why(page: Page) -> None:
    page.fill("#rounds", "3")
    page.press("#rounds", "Enter")
    idle(page)
    page.select_option("#protocol", "own")
    assert page.input_value("#program").startswith('keeps = ["model"]')
    page.fill(
        "#program",
        'keeps = ["model"]\ninstructions = [{ combine = "message", terms = { model = 1, contribution = 1 } }, '
        '{ exchange = "message", into = "model" }]',
    )
    page.click("#use-program")
    idle(page)
    assert page.inner_text("#headline-epsilon") == "ε is infinite"
    assert page.inner_text("#headline-least") == ""
    assert "the program draws no noise" in page.inner_text("#headline-guess")
    assert "Δ and ε: the program draws no noise" in page.inner_text("#facts")
    assert page.inner_text("#protocol-hint").startswith(
        "message = model + contribution; exchange message → model"
    )
    assert violations(page) == []


def test_once_is_one_round(page: Page) -> None:
    page.select_option("#protocol", "once")
    idle(page)
    assert page.input_value("#rounds") == "1"
    assert "once: y = contribution + u; exchange y → y;" in page.inner_text("#facts")


def test_training_is_asked_for_by_the_slopes_of_its_updates(page: Page, visit: Visit) -> None:
    """The page asks what --updates asks, says what training asks for, and its link leads back to it."""
    choose(page, "view", "Secure sum")
    idle(page)
    assert "Nodes average what they receive" in page.inner_text("#training-hint")
    page.select_option("#training", "updates")
    page.fill("#updates", "any")
    page.press("#updates", "Enter")
    idle(page)
    weights = metropolis_weights("florentine")
    found = account_all(
        gossip(weights, rounds=20, updates="any"), "secure-sum", noise_multiplier=4.0, delta=1e-5
    )
    assert shown(page) == words(found.worst())
    facts = page.inner_text("#facts")
    assert "none: every message is seen, or the bound holds for update maps of any kind" in facts
    assert "any: nothing is known of the maps" in facts
    assert page.input_value("#parameters") == ""
    page.fill("#updates", "0.9,1")
    page.press("#updates", "Enter")
    idle(page)
    training = gossip(weights, rounds=20, updates=(0.9, 1))
    table = account_all(training, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    certified, attained = words(table.worst())
    unassumed = rounded_up(local_account(training, noise_multiplier=4.0, delta=1e-5).epsilon().upper)
    # The worst pair of this network is bounded by its rounds alone, which holds for any maps.
    assert certified == f"ε ≤ {unassumed}"
    headline = (f"{certified} assuming nothing", attained)
    assert shown(page) == headline
    facts = page.inner_text("#facts")
    assert "smooth: every node updates what it received by a map with slopes in the given ball" in facts
    assert "slopes in [0.9, 1]" in facts
    assert "each node sums no more records than the public number" in facts
    assert training.hash in facts
    assert "updates=0.9%2C1" in page.url
    again = opened(visit, page.url)
    assert shown(again) == headline
    assert again.input_value("#updates") == "0.9,1"
    assert violations(page) == []
    page.fill("#updates", "1,0.9")
    page.press("#updates", "Enter")
    noticed(page)
    assert "slopes must be finite with lower ≤ upper" in page.inner_text("#notice-text")
