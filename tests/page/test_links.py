# SPDX-License-Identifier: Apache-2.0
"""What a link or a field says is what is answered: what cannot be asked has a notice, no answer, and stays as given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.page.acts import begun, choose, idle, load, noticed, shown, until, words
from tests.page.acts import everyone as accounted
from tests.page.test_accessibility import violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Visit = Callable[..., Page]

SAVED = ("copy-link", "save-csv", "save-json", "save-png", "save-report")
NOISE = "the noise multiplier must be a finite number above 0; got "
ROUNDS = "rounds must be a whole number of at least 1; got "
ODD = [
    ("graph=karate&noise=x", f"{NOISE}x (4, say)"),
    ("graph=karate&noise=NaN", f"{NOISE}NaN (4, say)"),
    ("graph=karate&noise=1e999", f"{NOISE}1e999 (4, say)"),
    ("graph=karate&noise=0x10", f"{NOISE}0x10 (4, say)"),
    ("graph=karate&noise=%zz", f"{NOISE}%zz (4, say)"),
    ("graph=karate&noise=", "noise must have a value in a link; got noise= (give it one, or leave it out)"),
    ("graph=karate&delta=1", "δ must lie strictly between 0 and 1; got 1 (1e-5, say)"),
    ("graph=karate&rounds=-3", f"{ROUNDS}-3 (20, say)"),
    ("graph=karate&rounds=2.5", f"{ROUNDS}2.5 (20, say)"),
    ("graph=karate&rounds=%e0", f"{ROUNDS}\ufffd (20, say)"),
    ("graph=karate&rounds=1" + "0" * 400, f"{ROUNDS}1{'0' * 59}… (20, say)"),
    ("graph=karate&rounds=3&rounds=4", "rounds must stand once in a link; got 3 and 4 (leave one out)"),
    ("graph=karate&round=3", "a link of this page has no word round; got round=3"),
    ("nowhere", "a link of this page has no word nowhere; got nowhere= (mend the word"),
    ("graph=", "graph must have a value in a link"),
    ("graph=karate&text=a%20b", "a link has one graph; got karate and a text"),
    ("graph=karate&view=foo", "view must be one of coalition, neighbourhood, "),
    ("graph=karate&view=coalition", "a coalition has members; got view=coalition without"),
    ("graph=karate&view=everyone&observer=0", "whoever sees every message learns the same"),
    ("graph=karate&observer=nobody", "no node is called nobody (choose who observes in the list)"),
    ("graph=karate&target=nobody", "no node is called nobody (choose who observes in the list)"),
    ("graph=karate&observer=3&target=3", "there is no pair of 3 and 3"),
    ("graph=karate&observer=3&observer=4", "one node observes unless the view is that of a coalition"),
    ("graph=karate&observer=3&targets=3", "3 is the only one who is protected"),
    ("graph=karate&targets=,", "targets must name a node; got ,"),
    ("graph=karate&own-noise=loud", "own-noise must be one of known, hidden; got loud"),
    ("graph=karate&weights=laplacian:0.1", "weights must be one of auto, metropolis, "),
    ("graph=karate&engine=dense", "engine must be one of auto, filter, reduced; got dense"),
    ("graph=karate&tolerance=2", "the tolerance must be a number above 0 and at most 1"),
    ("graph=karate&tolerance=Infinity", "the tolerance must be a number above 0 and at most 1"),
    ("graph=karate&step-smoothness=fast", "step × smoothness must be a number above 0 and at most 1e300"),
    ("graph=karate&tab=foo", "tab must be one of network, ranking, compare, curves; got foo"),
    ("graph=karate&tab=compare&by=size", "by must be one of views, weights, topologies, protocols; got size"),
    (
        "file=x.csv&kept=1",
        "The graph x.csv is not kept in this browser (drop it here again, or load another).",
    ),
]


def unanswered(page: Page) -> None:
    """Nothing of an answer is seen, and there is nothing to take away."""
    assert shown(page) == ("…", "")
    assert page.inner_text("#headline-who") == "There is no answer to what is set; the notice says why."
    for name in SAVED:
        assert page.is_disabled(f"#{name}"), name
    for part in ("#heat", "#facts", "#sides", "#coverage", "#work"):
        assert page.is_hidden(part), part


def asked(page: Page, link: str) -> None:
    """Type a link, and wait for what comes of it."""
    page.evaluate("(link) => { location.hash = link; }", link)
    page.wait_for_timeout(30)
    idle(page)


@pytest.mark.parametrize(("link", "why"), ODD, ids=[link[:40] for link, _ in ODD])
def test_what_a_link_cannot_ask_has_a_notice_and_no_answer(link: str, why: str, page: Page) -> None:
    asked(page, link)
    assert page.inner_text("#notice-text").startswith(why)
    unanswered(page)
    assert page.url.partition("#")[2] == link


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("graph=karate&targets=nobody", "no node is called 'nobody'"),
        ("graph=karate&participation=foo&noise=3", "participation must be spelled like one of"),
        ("graph=%zz", "there is no family of graphs called '%zz'"),
        ("graph=karate&rounds=10001", "this server takes at most 10000 rounds; got 10001"),
        ("graph=karate&rounds=99999999999999999999999", "rounds must be a whole number; got 1e+23"),
    ],
)
def test_what_the_server_refuses_stays_as_given(link: str, why: str, visit: Visit, page: Page) -> None:
    other = visit(page.url.partition("#")[0] + f"#{link}", expected=("400",))
    noticed(other)
    assert why in other.inner_text("#notice-text")
    unanswered(other)
    assert other.url.partition("#")[2] == link
    # However the noise is set, why there is no answer stays in sight.
    other.fill("#noise", "5")
    other.press("#noise", "Enter")
    idle(other)
    assert why in other.inner_text("#notice-text")
    unanswered(other)


def test_all_that_is_amiss_is_told_and_mended_where_it_stands(page: Page, visit: Visit) -> None:
    other = visit(page.url.partition("#")[0] + "#graph=karate&rounds=-3&noise=x&observer=33")
    noticed(other)
    assert other.inner_text("#notice-text") == f"{NOISE}x (4, say) · {ROUNDS}-3 (20, say)"
    assert (other.input_value("#noise"), other.input_value("#rounds")) == ("x", "-3")
    assert other.input_value("#graph") == "karate"
    assert violations(other) == []
    other.fill("#rounds", "3")
    other.press("#rounds", "Enter")
    idle(other)
    assert other.inner_text("#notice-text") == f"{NOISE}x (4, say)"
    unanswered(other)
    other.fill("#noise", "2")
    other.press("#noise", "Enter")
    begun(other)
    assert other.is_hidden("#notice")
    assert shown(other) == words(accounted("karate", rounds=3).with_noise(2.0).worst())
    assert other.url.endswith("#graph=karate&rounds=3&observer=33&noise=2&delta=1e-5")


def test_what_cannot_be_asked_is_left_out_on_demand(page: Page) -> None:
    asked(page, "graph=karate&rounds=5&noise=x&foo=1&observer=33")
    unanswered(page)
    assert page.inner_text("#notice-action") == "Leave it out"
    page.click("#notice-action")
    begun(page)
    assert page.is_hidden("#notice")
    assert shown(page) == words(accounted("karate", rounds=5).worst())
    assert page.url.endswith("#graph=karate&rounds=5&observer=33&noise=4&delta=1e-5")


@pytest.mark.parametrize(
    "link", ["graph=karate&rounds=5&observer=nobody", "graph=karate&rounds=5&target=nobody"]
)
def test_somebody_is_chosen_in_the_place_of_nobody(link: str, page: Page) -> None:
    asked(page, link)
    unanswered(page)
    assert page.evaluate("document.getElementById('observer').selectedIndex") == -1
    page.select_option("#observer", label="7")
    begun(page)
    assert page.is_hidden("#notice")
    assert page.inner_text("#headline-observer").startswith("Chosen observer 7: ")


@pytest.mark.parametrize(
    ("field", "bad", "why", "usual"),
    [
        ("noise", "0", f"{NOISE}0 (4, say)", "4"),
        ("delta", "2", "δ must lie strictly between 0 and 1; got 2 (1e-5, say)", "1e-5"),
        ("rounds", "abc", f"{ROUNDS}abc (20, say)", "20"),
        ("tolerance", "2", "the tolerance must be a number above 0 and at most 1, or be left out; got 2", ""),
        ("participation", "foo", "participation must be spelled like one of", "full"),
        (
            "participation",
            "poisson:7",
            "poisson participation must lie strictly between 0 and 1; got 7",
            "full",
        ),
        ("targets", "nobody", "no node is called 'nobody'", ""),
    ],
)
def test_a_field_that_cannot_be_asked_keeps_what_it_says(
    field: str, bad: str, why: str, usual: str, page: Page
) -> None:
    before = shown(page)
    page.fill(f"#{field}", bad)
    page.press(f"#{field}", "Enter")
    noticed(page)
    assert why in page.inner_text("#notice-text")
    page.click("h1")
    idle(page)
    assert page.input_value(f"#{field}") == bad
    unanswered(page)
    page.fill(f"#{field}", usual)
    page.press(f"#{field}", "Enter")
    begun(page)
    assert page.is_hidden("#notice")
    assert shown(page) == before


def test_pairs_in_the_background_go_on_when_a_field_is_mended(page: Page) -> None:
    page.evaluate("location.hash = 'graph=ring:n=70&rounds=30&observer=3'")
    until(page, "sottovoce.model.rows.size >= 1 && !sottovoce.model.coverage().complete")
    page.fill("#noise", "0")
    page.press("#noise", "Enter")
    noticed(page)
    unanswered(page)
    page.wait_for_timeout(300)
    page.fill("#noise", "4")
    page.press("#noise", "Enter")
    until(page, "sottovoce.model.coverage()?.complete")
    idle(page)
    assert page.is_hidden("#notice")
    assert shown(page) == words(accounted("ring:n=70", rounds=30).worst())


def test_a_link_means_the_same_whatever_was_shown_before(page: Page) -> None:
    load(page, "karate", 34)
    for field, value in (("rounds", "7"), ("noise", "9"), ("tolerance", "0.3")):
        page.fill(f"#{field}", value)
        page.press(f"#{field}", "Enter")
        idle(page)
    choose(page, "view", "Secure sum")
    idle(page)
    asked(page, "rounds=3")
    assert page.input_value("#graph") == "florentine"
    assert shown(page) == words(accounted(rounds=3).worst())


def test_of_links_in_quick_succession_the_last_is_answered(page: Page) -> None:
    links = [
        "graph=karate&rounds=40",
        "graph=karate&noise=x",
        "graph=nowhere",
        "file=x.csv&kept=1",
        "rounds=4",
    ]
    for last in ("graph=karate&rounds=-1", "graph=karate&rounds=5&noise=4"):
        page.evaluate("(links) => links.forEach((link) => (location.hash = link))", [*links, last])
        until(page, "document.querySelector('#graph').value === 'karate'")
        idle(page)
        page.wait_for_timeout(300)
        idle(page)
        if "-1" in last:
            unanswered(page)
            assert page.inner_text("#notice-text") == f"{ROUNDS}-1 (20, say)"
        else:
            assert page.is_hidden("#notice")
            assert shown(page) == words(accounted("karate", rounds=5).worst())


def test_back_and_forward_lead_to_what_was_shown(page: Page, visit: Visit) -> None:
    other = visit(page.url.partition("#")[0] + "#graph=karate&rounds=5")
    begun(other)
    first = shown(other)
    asked(other, "graph=karate&rounds=5&noise=x")
    unanswered(other)
    asked(other, "graph=karate&rounds=6&view=secure-sum")
    second = shown(other)
    assert second != first
    other.go_back()
    noticed(other)
    unanswered(other)
    assert other.input_value("#noise") == "x"
    other.go_back()
    until(other, "sottovoce.model.document?.rounds === 5")
    idle(other)
    assert other.is_hidden("#notice")
    assert shown(other) == first
    other.go_forward()
    noticed(other)
    unanswered(other)
    other.go_forward()
    until(other, "sottovoce.model.document?.rounds === 6")
    idle(other)
    assert shown(other) == second


def test_a_place_on_the_page_asks_nothing(page: Page, visit: Visit) -> None:
    asked(page, "graph=karate&rounds=5&view=secure-sum")
    before, link = shown(page), page.url
    page.focus(".skip")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id === 'main'")
    idle(page)
    assert shown(page) == before
    assert page.is_hidden("#notice")
    assert page.url == link
    other = visit(page.url.partition("#")[0] + "#main")
    begun(other)
    assert shown(other) == words(accounted().worst())


def test_the_number_stands_before_the_sentence_that_goes_on_from_it(page: Page) -> None:
    for width in (1280, 1800, 600):
        page.set_viewport_size({"width": width, "height": 900})
        idle(page)
        bar, number, sentence = page.evaluate(
            "['.bar', '#headline-epsilon', '.who'].map((each) => document.querySelector(each).getBoundingClientRect())"
        )
        assert number["y"] >= bar["bottom"]
        assert sentence["y"] >= number["y"]
        assert sentence["y"] >= bar["bottom"] + 4


def test_the_lightness_of_colours_falls_all_the_way(page: Page) -> None:
    """The relative luminance of WCAG, which is what is left of a colour where its hue is not seen."""
    for theme, falls in (("light", True), ("dark", False)):
        page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
        colours = page.evaluate("Array.from({ length: 201 }, (_, k) => sottovoce.scale.rgb(k / 200))")
        linear = [
            [v / 255 / 12.92 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in c] for c in colours
        ]
        light = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in linear]
        assert light == sorted(light, reverse=falls)
        assert min(abs(a - b) for a, b in zip(light, light[10:], strict=False)) > 0.001
