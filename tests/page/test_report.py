# SPDX-License-Identifier: Apache-2.0
"""The report in a browser, opened from disk: every control that it has, and what it must not do."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce import documents
from sottovoce.accounting import Account, account, account_all, compared, local_account
from sottovoce.accounting.curves import table_curves
from sottovoce.cli import main
from sottovoce.cli.printing import rounded_down, rounded_up
from sottovoce.documents import page_document
from sottovoce.documents.runs import read_run
from sottovoce.graphs import WeightedGraph, as_graph, weights_by_rule
from sottovoce.protocols import clean_state, gossip
from sottovoce.report.html import Section, write_report
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.page.conftest import Windows

    from sottovoce.accounting import AccountTable

    Visit = Callable[..., Page]


def shown(page: Page) -> tuple[str, str]:
    """The ends of the headline's interval."""
    return page.inner_text("#headline-epsilon"), page.inner_text("#headline-least")


def words(account: Account, delta: float | None = None) -> tuple[str, str]:
    """The same from the library."""
    ends = account.epsilon(delta)
    return f"ε ≤ {rounded_up(ends.upper)}", f"at least {rounded_down(ends.lower)}"


def looked(page: Page) -> tuple[str, str]:
    """The ends of the second line's interval: the chosen observer, and perhaps the chosen target."""
    found = re.fullmatch(
        r"Chosen observer .*?: (ε ≤ [\d.]+), (at least [\d.]+), about .*",
        page.inner_text("#headline-observer"),
    )
    assert found is not None, page.inner_text("#headline-observer")
    return found[1], found[2]


def settled(page: Page) -> None:
    """Wait until the page has drawn and written its link."""
    page.wait_for_timeout(30)
    page.wait_for_selector("body[data-settled=yes]")


@pytest.fixture
def page(windows: Windows, families_report: Path) -> Iterator[Page]:
    """The report of the families, which is led back to its beginning for every test."""
    yield from windows.turn(families_report.as_uri(), settled)


def press_node(page: Page, name: str, **settings: Any) -> None:
    # The network lies below the first page, and learns in the next frame that it was moved.
    page.locator("#network").scroll_into_view_if_needed()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    place = page.evaluate(
        "(name) => sottovoce.network.positionOf(sottovoce.model.labels.indexOf(name))", name
    )
    page.click("#network", position=place, **settings)
    settled(page)


def test_the_headline_says_what_the_command_line_says(page: Page, families: AccountTable) -> None:
    worst = families.worst()
    assert shown(page) == words(worst)
    assert page.title() == "Families & friends"
    text = page.inner_text("#verdict")
    assert f"is what {worst.observers[0]} can learn about {worst.target}, the worst of 210 pairs" in text
    assert page.locator("#verdict.answer").count() == 1
    assert page.is_hidden("#coverage")
    assert "method dual" in text
    assert "Assumption oblivious: contributions are fixed in advance" in text
    assert "δ = 1e-5" in text
    assert "20 rounds" in text


def test_sections_are_text_and_not_markup(page: Page) -> None:
    assert "ε ≤ 4.934 <b>bold</b>" in page.inner_text("#sections p >> nth=0")
    assert "</script>" in page.inner_text("#sections table")
    assert page.locator("#sections b").count() == 0


def test_noise_and_delta_change_epsilon_at_once(page: Page, families: AccountTable) -> None:
    page.fill("#noise", "7.5")
    page.press("#noise", "Enter")
    settled(page)
    assert shown(page) == words(families.with_noise(7.5).worst())
    page.fill("#delta", "1e-9")
    page.press("#delta", "Enter")
    settled(page)
    assert shown(page) == words(families.with_noise(7.5).worst(), 1e-9)
    assert "δ = 1e-9 · noise multiplier 7.5" in page.inner_text("#headline-terms")


def test_the_slider_moves_noise_on_a_logarithmic_scale(page: Page, families: AccountTable) -> None:
    page.fill("#noise-slider", "1")
    settled(page)
    assert page.input_value("#noise") == "10"
    assert shown(page) == words(families.with_noise(10.0).worst())
    page.focus("#noise-slider")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert float(page.input_value("#noise")) > 10


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("#noise", "-1", "the noise multiplier must be a finite number above 0; got -1 (4, say)"),
        ("#noise", "many", "the noise multiplier must be a finite number above 0; got many (4, say)"),
        ("#delta", "1", "δ must lie strictly between 0 and 1; got 1 (1e-5, say)"),
        ("#delta", "", "δ must lie strictly between 0 and 1; got nothing (1e-5, say)"),
    ],
)
def test_bad_numbers_are_refused_in_words(
    field: str, value: str, rule: str, page: Page, families: AccountTable
) -> None:
    page.fill(field, value)
    page.press(field, "Enter")
    settled(page)
    assert page.inner_text("#notice-text") == rule
    assert page.get_attribute(field, "aria-invalid") == "true"
    # No answer stands beside what cannot be asked, and there is nothing to download.
    assert shown(page) == ("…", "")
    assert page.is_disabled("#save-json")
    assert page.is_hidden("#notice-close")
    page.click("#notice-action")
    settled(page)
    assert page.is_hidden("#notice")
    assert page.get_attribute(field, "aria-invalid") == "false"
    assert shown(page) == words(families.worst())


def test_noise_is_found_for_a_budget(page: Page, families: AccountTable) -> None:
    page.fill("#target-epsilon", "0.5")
    page.click("#find-noise")
    settled(page)
    noise = float(page.input_value("#noise"))
    enough = families.calibrated_noise(0.5, 1e-5)
    assert enough <= noise <= enough * (1 + 2e-5)
    assert f"A noise multiplier of {page.input_value('#noise')} keeps every pair" in page.inner_text(
        "#find-answer"
    )
    page.fill("#target-epsilon", "0")
    settled(page)
    assert page.inner_text("#find-answer") == ""
    page.click("#find-noise")
    settled(page)
    assert page.inner_text("#find-answer") == "ε must be a finite number above 0."


@pytest.mark.parametrize(("field", "value"), [("#noise", "3"), ("#delta", "1e-7"), ("#target-epsilon", "2")])
def test_what_was_found_goes_with_what_it_was_found_for(field: str, value: str, page: Page) -> None:
    page.click("#find-noise")
    settled(page)
    assert "A noise multiplier of" in page.inner_text("#find-answer")
    page.fill(field, value)
    page.press(field, "Tab")
    settled(page)
    assert page.inner_text("#find-answer") == ""


def test_a_calibrated_run_shows_its_target(visit: Visit, families: AccountTable, tmp_path: Path) -> None:
    table = families.with_noise(families.calibrated_noise(1.0, 1e-5))
    document = page_document(
        table, WeightedGraph(graph=as_graph("florentine"), weights=table.protocol.weights)
    )
    page = visit(write_report(tmp_path / "one.html", title="r", account=document).as_uri())
    settled(page)
    assert page.inner_text("#headline-epsilon") == "ε ≤ 1"
    page.fill("#noise", gaussian_neighbour(table.noise_multiplier))
    page.press("#noise", "Enter")
    settled(page)
    assert page.inner_text("#headline-epsilon") == "ε ≤ 1.001"


def gaussian_neighbour(noise: float) -> str:
    """A little less noise than that, as text."""
    return repr(noise * (1 - 1e-6))


def test_views_stand_side_by_side_until_one_is_chosen(
    visit: Visit, families: AccountTable, tmp_path: Path
) -> None:
    messages = account_all(families.protocol, "neighbourhood", noise_multiplier=4.0, delta=1e-5)
    document = page_document(
        messages,
        WeightedGraph(graph=as_graph("florentine"), weights=families.protocol.weights),
        beside=[families],
    )
    page = visit(write_report(tmp_path / "both.html", title="r", account=document).as_uri())
    settled(page)
    larger, smaller = words(messages.worst()), words(families.worst())
    assert shown(page) == larger
    assert page.locator("#sides dd").all_inner_texts() == [", ".join(larger), ", ".join(smaller)]
    assert page.locator("#sides dt").all_inner_texts() == ["messages in the clear", "secure sums"]
    assert f"secure sums would give {smaller[0]}" in page.inner_text("#headline-otherwise")
    page.click("#view label:has-text('Secure sum')")
    settled(page)
    assert shown(page) == smaller
    assert page.is_hidden("#sides")
    assert "secure sums would give" not in page.inner_text("#verdict")


def test_a_report_of_some_observers_says_what_it_does_not_know(visit: Visit, tmp_path: Path) -> None:
    graph = as_graph("florentine")
    weights = weights_by_rule(graph, "metropolis")
    table = account_all(
        gossip(weights, rounds=20), "secure-sum", noise_multiplier=4.0, delta=1e-5, observers=["Medici"]
    )
    document = page_document(table, WeightedGraph(graph=graph, weights=weights))
    page = visit(write_report(tmp_path / "one.html", title="r", account=document).as_uri())
    settled(page)
    assert "14 of 210 pairs computed; the worst may be higher." in page.inner_text("#coverage")
    assert page.inner_text("#headline-epsilon").endswith(" in part")
    assert page.locator("#verdict.answer").count() == 0
    partial = page.evaluate("getComputedStyle(document.getElementById('headline-epsilon')).color")
    assert partial != page.evaluate("getComputedStyle(document.body).color")
    assert page.is_hidden("#find-noise")
    assert "this report does not hold them: run sottovoce calibrate" in page.inner_text("#find-answer")


def test_a_click_on_a_node_makes_it_the_observer(page: Page, families: AccountTable) -> None:
    press_node(page, "Medici")
    assert page.input_value("#observer") == str(families.protocol.index("Medici"))
    assert looked(page) == words(families.pair("Medici", "Acciaiuoli"))
    assert shown(page) == words(families.worst())
    assert "Colours show what Medici can learn" in page.inner_text("#network-note")


def test_the_list_chooses_an_observer_too(page: Page, families: AccountTable) -> None:
    page.select_option("#observer", label="Strozzi")
    settled(page)
    row = families.observers.index(("Strozzi",))
    places = [k for k in range(len(families)) if families.observer_of[k] == row]
    worst = max(places, key=lambda k: families.mu_upper[k])
    assert looked(page) == words(families.pair("Strozzi", families.targets[worst]))


def test_the_keyboard_reaches_nodes_and_cells(page: Page) -> None:
    page.focus("#network")
    before = page.input_value("#observer")
    page.keyboard.press("ArrowRight")
    said = page.inner_text("#announce")
    assert re.fullmatch(r"\w+: ε ≤ [\d.]+, at least [\d.]+ \(\w+\)", said)
    page.keyboard.press("Enter")
    settled(page)
    assert page.input_value("#observer") != before
    name = page.evaluate("sottovoce.model.names(sottovoce.model.chosen)")
    assert said.startswith(f"{name}:")
    page.focus("#heat")
    for key in ("ArrowDown", "ArrowUp", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    settled(page)
    assert " about " in page.inner_text("#announce")
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate("sottovoce.model.target") is not None
    assert page.inner_text("#announce") == ""


def test_a_click_on_the_heat_map_chooses_row_and_target(page: Page, families: AccountTable) -> None:
    cell = page.evaluate("sottovoce.heatmap.cellOf(1, 0)")
    page.click("#heat", position={"x": cell["x"], "y": cell["y"]})
    settled(page)
    labels = families.protocol.labels
    assert looked(page) == words(families.pair(labels[1], labels[0]))
    assert shown(page) == words(families.worst())
    assert page.inner_text("#headline-observer").endswith(f", about {labels[0]}.")
    page.hover("#heat", position={"x": cell["x"], "y": cell["y"]})
    assert page.inner_text("#tip").startswith(f"{labels[1]} about {labels[0]}: ε ≤ ")


def test_the_table_lists_the_worst_pairs_and_chooses_them(page: Page, families: AccountTable) -> None:
    rows = page.locator("#exposed tbody tr")
    assert rows.count() == 10
    order = sorted(range(len(families)), key=lambda k: -families.mu_upper[k])
    for k, place in enumerate(order[:3]):
        cells = rows.nth(k).locator("td").all_inner_texts()
        assert cells[0] == families.targets[place]
        assert cells[1] == families.observers[families.observer_of[place]][0]
        assert cells[2] == rounded_up(float(families.epsilon_upper[place]))
        assert cells[5] == families.method[place]
    rows.nth(2).locator("button").click()
    settled(page)
    third = order[2]
    pair = families.pair(families.observers[families.observer_of[third]][0], families.targets[third])
    assert looked(page) == words(pair)
    page.click("#more-pairs")
    assert rows.count() == 30
    page.click("#exposed-scope label:has-text('Chosen observer')")
    assert rows.count() == 14


def both_ends(account: Account) -> str:
    """An interval as the page writes it, rounded outwards."""
    ends = account.epsilon()
    low, high = rounded_down(ends.lower), rounded_up(ends.upper)
    return high if low == high else f"{low}–{high}"


def test_curves_show_the_worst_beside_local_and_central(page: Page, families: AccountTable) -> None:
    page.click("#curves summary")
    table = page.locator("#curves table")
    head = table.locator("thead th").all_inner_texts()
    assert head == [
        "rounds",
        "ε, local DP",
        "ε, worst target",
        "ε, median target",
        "ε, best target",
        "ε, central",
    ]
    last = table.locator("tbody tr").last
    worst = families.worst()
    cells = last.locator("td").all_inner_texts()
    assert last.locator("th").inner_text() == "20"
    assert cells[1] == both_ends(worst)
    middle = table.locator("tbody tr").nth(3)
    rounds = int(middle.locator("th").inner_text())
    fewer = account(
        gossip(families.protocol.weights, rounds=rounds),
        View.secure_sum(worst.observers[0]),
        noise_multiplier=4.0,
        delta=1e-5,
    )
    expected = [both_ends(each) for each in (fewer.worst(), fewer.median(), fewer.best())]
    assert middle.locator("td").all_inner_texts()[1:4] == expected
    page.select_option("#observer", label="Lamberteschi")
    settled(page)
    held = page.evaluate(
        "[...sottovoce.model.curves.values()].map((c) => sottovoce.model.names(c.observers))"
    )
    assert ("Lamberteschi" in held) == (page.locator("#curves svg").count() == 1)


def test_the_link_leads_back_to_what_was_shown(page: Page, visit: Visit) -> None:
    press_node(page, "Medici")
    page.fill("#noise", "9")
    page.press("#noise", "Enter")
    page.fill("#delta", "1e-7")
    page.press("#delta", "Enter")
    page.locator("#exposed-scope label:has-text('Chosen observer')").click()
    page.locator("#exposed tbody button").nth(1).click()
    settled(page)
    other = visit(page.url)
    settled(other)
    assert "#observer=Medici" in page.url
    assert shown(other) == shown(page)
    assert other.inner_text("#verdict") == page.inner_text("#verdict")
    assert other.url == page.url


def test_a_link_that_is_typed_in_is_followed(page: Page, families: AccountTable) -> None:
    page.evaluate("location.hash = 'observer=Medici&noise=6&delta=1e-6&target=Pazzi'")
    settled(page)
    pair = families.with_noise(6.0).pair("Medici", "Pazzi")
    assert looked(page) == words(pair, 1e-6)
    for link, why in (
        ("observer=Nobody", "this report holds no account of what Nobody can learn"),
        ("observer=Medici&target=Medici", "this report holds no pair of Medici and Medici"),
        (
            "noise=-3&delta=x",
            "the noise multiplier must be a finite number above 0; got -3 (4, say) · δ must lie",
        ),
        ("rounds=5", "a link of this page has no word rounds; got rounds=5"),
    ):
        page.evaluate("(link) => { location.hash = link; }", link)
        settled(page)
        assert page.inner_text("#notice-text").startswith(why)
        assert shown(page) == ("…", "")
        assert page.url.endswith(f"#{link}")
        page.click("#notice-action")
        settled(page)
        assert shown(page) == words(families.with_noise(6.0).worst(), 1e-6)


def test_downloads_are_the_files_of_the_command_line(
    page: Page, families: AccountTable, tmp_path: Path
) -> None:
    page.fill("#noise", "5")
    page.press("#noise", "Enter")
    table = families.with_noise(5.0)
    for button in ("csv", "json", "png"):
        with page.expect_download() as download:
            page.click(f"#save-{button}")
        download.value.save_as(tmp_path / f"pairs.{button}")
    expected = {(pair.observer, pair.target): pair for pair in documents.pairs.table_pairs(table)}
    from_csv = documents.read_account_csv(tmp_path / "pairs.csv")[table.view]
    from_json = documents.read_account_json(tmp_path / "pairs.json")
    assert isinstance(from_json.pairs, tuple)
    assert from_json.noise_multiplier == 5.0
    assert from_json.assumption == "oblivious"
    assert (from_json.worst.observer, from_json.worst.target) == (
        table.worst().observers,
        table.worst().target,
    )
    beside = compared(table)
    for name in ("local", "central"):
        account, ends = beside[name], getattr(from_json.baselines, name)
        assert isinstance(account, Account)
        assert account.epsilon().upper <= ends.upper <= account.epsilon().upper * (1 + 1e-9)
    for pairs in (from_csv, from_json.pairs):
        assert len(pairs) == len(expected)
        for pair in pairs:
            exact = expected[pair.observer, pair.target]
            assert pair.sensitivity_squared == exact.sensitivity_squared
            found, proved = pair.epsilon.interval, exact.epsilon.interval
            assert proved.upper <= found.upper <= proved.upper * (1 + 1e-9)
            assert proved.lower * (1 - 1e-9) <= found.lower <= proved.lower * (1 + 1e-11)
            assert pair.mu.interval.lower <= exact.mu.interval.upper
            assert pair.mu.interval.upper >= exact.mu.interval.lower
    assert (tmp_path / "pairs.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_light_and_dark(page: Page, visit: Visit, families_report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("#theme")
    dark = page.evaluate(background)
    assert light != dark
    page.click("#theme")
    assert page.evaluate(background) == light
    assert visit(families_report.as_uri(), color_scheme="dark").evaluate(background) == dark


def test_on_paper_there_are_no_controls(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print")
    assert page.is_hidden("#controls")
    assert page.is_hidden("#copy-link")
    assert page.is_visible("#sheet")
    # It says the same as the headline.
    assert page.is_hidden("#verdict")
    assert page.is_visible("#exposed")
    page.emulate_media(media="screen")
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    content = (tmp_path / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    # Network and heat map are on the paper, each as a picture.
    assert content.count(b"/Subtype /Image") >= 2


def test_what_needs_the_server_is_off_and_says_so(page: Page, families: AccountTable) -> None:
    for part in ("#rounds", "#view input >> nth=0", "#own-noise input >> nth=0", "#coalition"):
        assert page.is_disabled(part), part
    assert page.is_hidden("#graph")
    assert "sottovoce serve" in page.inner_text("#static-hint")
    press_node(page, "Medici", modifiers=["Shift"])
    assert "run sottovoce serve" in page.inner_text("#notice-text")
    assert shown(page) == words(families.worst())


def test_a_coalition_and_everyone_are_shown_as_they_are(visit: Visit, tmp_path: Path) -> None:
    graph = as_graph("ring:n=6")
    weights = weights_by_rule(graph, "metropolis")
    protocol = gossip(weights, rounds=4)
    for view in (View.coalition_sums([0, 2]), View.everyone):
        table = account(protocol, view, noise_multiplier=2.0, delta=1e-5, relation="replace-one")
        document = page_document(
            table, WeightedGraph(graph=graph, weights=weights), curves=table_curves(table)
        )
        path = write_report(tmp_path / f"{view.name}.html", title="r", account=document)
        page = visit(path.as_uri())
        settled(page)
        assert shown(page) == words(table.worst())
        who = "0 and 2 together" if view.name == "coalition-sums" else "whoever sees every message"
        assert f"is what {who} can learn" in page.inner_text("#headline-who")
        assert page.inner_text("#exposed tbody tr >> nth=0").count("everyone") == (view.name == "everyone")


def test_a_large_network_is_shown_in_parts(visit: Visit, tmp_path: Path) -> None:
    graph = as_graph("preferential:n=1200,core=5,links=3,seed=1")
    weights = weights_by_rule(graph, "metropolis")
    table = account_all(
        gossip(weights, rounds=3),
        "secure-sum",
        noise_multiplier=4.0,
        delta=1e-5,
        observers=list(range(100, 103)),
    )
    document = page_document(table, WeightedGraph(graph=graph, weights=weights))
    path = write_report(tmp_path / "large.html", title="large", account=document)
    page = visit(path.as_uri())
    settled(page)
    assert looked(page) == words(table.worst())
    assert page.evaluate("sottovoce.network.nodesDrawn()") == 160
    assert "160 of 1200 nodes are drawn, those nearest to the observer" in page.inner_text("#network-note")
    page.click("#scope label:has-text('Sample by degree')")
    settled(page)
    assert 300 <= page.evaluate("sottovoce.network.nodesDrawn()") <= 302
    assert "Each tile shows the largest ε of up to 1 × 20 pairs" in page.inner_text("#heat-note")
    # By cluster, so that the targets of a tile belong together.
    first = set(page.evaluate("sottovoce.heatmap.orderedNodes()")[:20])
    assert first != set(range(20))
    observer = table.protocol.index(table.observers[1][0])
    tile = page.evaluate("([a, b]) => sottovoce.heatmap.cellOf(a, b)", [observer, min(first)])
    page.hover("#heat", position={"x": tile["x"], "y": tile["y"]})
    row = [k for k in range(len(table)) if table.observer_of[k] == 1 and table.target_indices[k] in first]
    assert page.inner_text("#tip") == f"largest ε ≤ {rounded_up(float(table.epsilon_upper[row].max()))}"
    page.click("#heat", position={"x": tile["x"], "y": tile["y"]})
    settled(page)
    assert "Rows observe" in page.inner_text("#heat-note")
    page.click("#heat-back")
    settled(page)
    assert "Each tile" in page.inner_text("#heat-note")


def test_a_report_may_hold_sections_alone(visit: Visit, tmp_path: Path) -> None:
    figure = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><style>rect{fill:red}</style>'
        '<rect width="9" height="9"/></svg>'
    )
    sections = [
        Section(heading="Figure", text="First.\n\nSecond.", figure=figure, figure_text="a red square")
    ]
    page = visit(write_report(tmp_path / "only.html", title="A study", sections=sections).as_uri())
    assert page.is_hidden("main")
    assert page.is_hidden("#verdict")
    assert page.inner_text("h1") == "A study"
    assert page.locator("#sections p").all_inner_texts() == ["First.", "Second."]
    assert page.locator("#sections svg.plot").get_attribute("viewBox") == "0 0 40 30"
    assert page.locator("#sections svg.plot").get_attribute("aria-label") == "a red square"
    assert page.locator("#sections svg.plot style, #sections img").count() == 0


def test_names_cannot_break_out_of_the_report(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    evil = '"</script><img src=x onerror=alert(1)>"'
    file.write_text(f'source,target\n{evil},=b\n=b,"a;c"\n"a;c",{evil}\n')
    graph = as_graph(file)
    weights = weights_by_rule(graph, "metropolis")
    table = account_all(gossip(weights, rounds=3), "secure-sum", noise_multiplier=2.0, delta=1e-5)
    document = page_document(table, WeightedGraph(graph=graph, weights=weights))
    page = visit(write_report(tmp_path / "odd.html", title="<i>odd</i>", account=document).as_uri())
    settled(page)
    assert page.locator("img:not(.paper), i").count() == 0
    assert page.title() == "<i>odd</i>"
    assert json.loads(page.inner_text("#data") or page.text_content("#data") or "")["graph"]["labels"][
        0
    ].startswith("</script>")
    with page.expect_download() as download:
        page.click("#save-csv")
    download.value.save_as(tmp_path / "pairs.csv")
    names = {pair.observer for pair in documents.read_account_csv(tmp_path / "pairs.csv")["secure-sum"]}
    assert names == {(str(label),) for label in graph.labels}


@pytest.mark.parametrize("view", ["everyone", "secure-sum"])
def test_a_calibrated_run_shows_its_target_and_what_assumes_nothing(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    """The page of a training report, against the JSON of the same run."""
    monkeypatch.chdir(tmp_path)
    words = ("train", "breast-cancer", "--graph", "ring:n=5", "--rounds", "8", "--seed", "1", "--view", view)
    assert main((*words, "--target-epsilon", "4", "--report", "run.html", "--output", "run.npz")) == 0
    run = read_run("run.npz")
    page = visit((tmp_path / "run.html").as_uri())
    settled(page)
    bound = f"ε ≤ {rounded_up(run.epsilon.upper)}"
    assert bound == "ε ≤ 4"
    if view == "secure-sum":
        everyone = rounded_up(run.unconditional_epsilon.upper)
        bound = f"ε ≤ 4 assuming smooth, ε ≤ {everyone} assuming nothing"
    assert page.inner_text("#headline-epsilon") == bound
    assert page.inner_text("#exposed tbody tr:first-child td:nth-child(3)") == "4"
    assert f"Assumption {run.account.assumption}: " in page.inner_text("#verdict")


def test_local_dp_of_training_counts_the_noise_that_nodes_draw(visit: Visit, tmp_path: Path) -> None:
    weights = weights_by_rule(as_graph("ring:n=5"), "metropolis")
    protocol = gossip(weights, rounds=3, updates=(0, 0.5), noise_levels=0.5)
    table = account_all(protocol, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    unassumed = local_account(protocol, noise_multiplier=4.0, delta=1e-5).epsilon().upper
    assert table.epsilon_upper.max() < unassumed
    words = ("account", "ring:n=5", "--rounds", "3", "--view", "secure-sum", "--noise-multiplier", "4")
    report = str(tmp_path / "r.html")
    assert main((*words, "--protocol", "gossip:updates=0+0.5,noise_levels=0.5", "--report", report)) == 0
    page = visit((tmp_path / "r.html").as_uri())
    settled(page)
    certified = rounded_up(float(table.epsilon_upper.max()))
    headline = f"ε ≤ {certified} assuming smooth, ε ≤ {rounded_up(unassumed)} assuming nothing"
    assert page.inner_text("#headline-epsilon") == headline


@pytest.mark.parametrize("most", [None, 7])
def test_a_report_draws_the_budget_that_was_set_and_no_other(
    visit: Visit, tmp_path: Path, most: int | None
) -> None:
    words = ["account", "ring:n=5", "--rounds", "3", "--noise-multiplier", "4.835102780413383"]
    held = [] if most is None else ["--max-epsilon", str(most)]
    assert main([*words, *held, "--report", str(tmp_path / "r.html")]) == 0
    page = visit((tmp_path / "r.html").as_uri())
    settled(page)
    drawn = page.evaluate("sottovoce.ranking.marks().map(({ name }) => name)")
    assert [name for name in drawn if "ε = " in name] == ([] if most is None else [f"budget ε = {most}"])
    assert page.evaluate("sottovoce.state.line()?.value ?? null") == most
    assert "noise multiplier 4.83511 ·" in page.inner_text("#headline-terms")


def test_a_report_of_a_program_says_it_and_what_is_infinite(visit: Visit, tmp_path: Path) -> None:
    graph = as_graph("ring:n=6")
    weights = weights_by_rule(graph, "metropolis")
    for levels in (1, 0):
        protocol = clean_state(weights, rounds=4, keep="1/2", noise_levels=levels)
        table = account_all(protocol, "neighbourhood", noise_multiplier=2.0, delta=1e-5)
        document = page_document(
            table, WeightedGraph(graph=graph, weights=weights), curves=table_curves(table)
        )
        page = visit(write_report(tmp_path / f"{levels}.html", title="r", account=document).as_uri())
        settled(page)
        assert page.input_value("#protocol") == "clean-state"
        assert page.is_disabled("#protocol")
        assert page.inner_text("#protocol-hint") == protocol.sentence
        facts = page.inner_text("#facts")
        assert f"clean_state: {protocol.sentence}" in facts
        assert protocol.hash in facts
        json_file = json.loads(page.evaluate("sottovoce.files.json()"))
        assert (json_file["protocol"], json_file["protocol_hash"]) == ("clean_state", protocol.hash)
        if levels:
            assert shown(page) == words(table.worst())
            assert "infinite" not in json_file
            continue
        assert shown(page) == ("ε is infinite", "")
        assert "the draw 'u' has level 0 at node 1" in page.inner_text("#headline-guess")
        assert "ε ≤ ∞ with local DP, ε ≤ ∞ with central aggregation" in facts
        assert json_file["infinite"] == table.bare
        assert json_file["pairs"][0]["epsilon"] == {"lower": None, "upper": None}
        line = page.evaluate("sottovoce.files.csv()").splitlines()[1].split(",")
        assert line[3:10] == ["inf", "inf", "infinite", "inf", "inf", "inf", "inf"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_on_the_first_page_lies_over_something_else(width: int, page: Page) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    boxes = page.evaluate(
        "[...document.querySelectorAll('#sheet h2, #sheet li, #sheet figcaption, #sheet dd, #sheet .claim, #sheet p')]"
        ".map((each) => { const box = each.getBoundingClientRect();"
        " return [box.left, box.top, box.right, box.bottom, each.textContent]; })"
    )
    assert len(boxes) > 20
    for place, (left, top, right, bottom, words) in enumerate(boxes):
        assert right <= width
        for other in boxes[place + 1 :]:
            apart = (
                other[0] >= right - 1 or other[2] <= left + 1 or other[1] >= bottom - 1 or other[3] <= top + 1
            )
            assert apart or other[4] in words, (words, other[4])
