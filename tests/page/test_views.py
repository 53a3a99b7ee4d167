# SPDX-License-Identifier: Apache-2.0
"""The views of the served page, every question of the command line, jobs that outlive a reload, saved reports."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.page.acts import choose, drop, everyone, idle, load, noticed, opened, shown, until, words
from tests.page.test_accessibility import SCHEMES, violations

from sottovoce.accounting import Account, account_all, calibrate, compared, local_account, sampled_account
from sottovoce.cli import main
from sottovoce.cli.printing import rounded_down, rounded_up
from sottovoce.feedback import gradient_steps
from sottovoce.graphs import metropolis_weights, parse_graph
from sottovoce.page import FOLDER, SCRIPTS
from sottovoce.protocols import gossip, parse_protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page
    from tests.servers import Server

    from sottovoce.interval import Interval

    Visit = Callable[..., Page]

TABS = ("network", "ranking", "compare", "curves")


def both(ends: Interval) -> str:
    """Both ends as the page writes them, rounded outwards; one number where they are written alike."""
    low, high = rounded_down(ends.lower), rounded_up(ends.upper)
    return high if low == high else f"{low}–{high}"


def strips(page: Page, host: str) -> list[tuple[str, str]]:
    """The names and numbers of a table of intervals."""
    rows = page.locator(f"#{host} tbody tr")
    return [
        (rows.nth(k).locator("th").inner_text(), rows.nth(k).locator("td").last.inner_text())
        for k in range(rows.count())
    ]


def test_no_script_is_long_and_none_is_left_out() -> None:
    found = {
        f"{room.name}/{file.name}"
        for room in FOLDER.iterdir()
        if room.name in {"tools", "state", "jobs", "panels"}
        for file in room.iterdir()
    }
    assert found == {name for name in SCRIPTS if "/" in name and not name.startswith("vendor/")}
    lengths = {name: len(FOLDER.joinpath(name).read_text().splitlines()) for name in (*found, "main.js")}
    assert max(lengths.values()) <= 300, lengths


def test_tabs_go_by_keyboard_and_stay_after_a_reload(page: Page) -> None:
    page.focus("#tab-network")
    for key, name in (
        ("ArrowLeft", "curves"),
        ("ArrowRight", "network"),
        ("End", "curves"),
        ("Home", "network"),
        ("ArrowRight", "ranking"),
    ):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{name}"
        assert [each for each in TABS if page.is_visible(f"#view-{each}")] == [name]
        assert page.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        assert page.locator("#tabs [tabindex='0']").count() == 1
    idle(page)
    assert "tab=ranking" in page.url
    page.reload()
    until(page, "sottovoce.model.document !== null")
    idle(page)
    assert page.is_visible("#ranking table")
    assert page.is_hidden("#network")


def test_every_view_is_accessible_and_fits_a_phone(visit: Visit, server: Server) -> None:
    """Each view in both themes, each at both widths, and each width in both themes."""
    page = opened(visit, server.address)
    for place, width in enumerate((1280, 390)):
        page.set_viewport_size({"width": width, "height": 844})
        for turn, name in enumerate(TABS):
            page.emulate_media(color_scheme=SCHEMES[(place + turn) % 2])
            page.click(f"#tab-{name}")
            if name == "compare":
                until(page, "document.querySelectorAll('#compare tbody tr').length === 4")
            if name == "curves":
                page.wait_for_selector("#curves svg")
            page.wait_for_timeout(120)
            idle(page)
            assert violations(page) == [], (name, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_the_ranking_is_the_dot_plot_of_the_command_line(page: Page) -> None:
    page.click("#tab-ranking")
    table = everyone()
    exposed = table.most_exposed(40)
    found = strips(page, "ranking")
    assert [(name.splitlines()[0], text) for name, text in found] == [
        (target, both(account.epsilon(1e-5))) for target, account in exposed
    ]
    legend = page.inner_text("#ranking .marks")
    for key, name in (("local", "local DP"), ("central", "central")):
        beside = compared(table)[key]
        assert isinstance(beside, Account)
        assert f"{name}: ε ≤ {rounded_up(beside.epsilon().upper)}" in legend
    assert "reference ε = 1" in legend
    # A dot stands where its number is on the scale, and its line begins at the lower end.
    drawn = page.locator("#ranking tbody svg").first
    dot = drawn.locator(".certified").get_attribute("cx") or ""
    start = drawn.locator(".attained").get_attribute("x1") or ""
    top = 5.0
    worst = table.worst().epsilon(1e-5)
    assert float(dot.rstrip("%")) == pytest.approx(100 * worst.upper / top)
    assert float(start.rstrip("%")) == pytest.approx(100 * worst.lower / top, rel=1e-3)
    choose(page, "ranking-scope", "Chosen observer")
    assert len(strips(page, "ranking")) == 14
    page.click("#ranking tbody button >> nth=3")
    idle(page)
    assert page.locator("#ranking tr.current").count() == 1


def test_views_weights_topologies_and_protocols_stand_on_one_scale(page: Page, visit: Visit) -> None:
    page.click("#tab-compare")
    until(page, "document.querySelectorAll('#compare tbody tr').length === 4")
    found = dict(strips(page, "compare"))
    tables = {
        name: everyone(view=view)
        for name, view in (
            ("Messages", "neighbourhood"),
            ("Secure sum", "secure-sum"),
            ("Single node", "single-node"),
            ("Everything", "everyone"),
        )
    }
    assert {name.splitlines()[0]: text for name, text in found.items()} == {
        name: both(table.worst().epsilon(1e-5)) for name, table in tables.items()
    }
    assert all("assumes " in name for name in found)
    choose(page, "view", "Secure sum")
    idle(page)
    choose(page, "compare-by", "Topologies")
    page.fill("#compare-add", "path:n=15")
    page.press("#compare-add", "Enter")
    until(page, "document.querySelectorAll('#compare tbody tr').length === 5")
    by_name = {name.splitlines()[0]: text for name, text in strips(page, "compare")}
    ring = everyone("ring:n=15", view="secure-sum").worst()
    assert by_name["ring:n=15"] == both(ring.epsilon(1e-5))
    # At the same ε the noise is enough, by the library too.
    choose(page, "compare-at", "Same ε")
    by_name = {name.splitlines()[0]: text for name, text in strips(page, "compare")}
    enough = float(by_name["ring:n=15"].removesuffix(" is enough"))
    asked = calibrate(ring_gossip(), "secure-sum", target_epsilon=1, target_delta=1e-5)
    assert asked <= enough <= 1.00001 * asked
    page.fill("#noise", "2")
    page.press("#noise", "Enter")
    choose(page, "compare-at", "Same noise")
    choose(page, "compare-by", "Protocols")
    page.uncheck("#compare-choices label:has-text('momentum') input")
    until(page, "!document.getElementById('compare-note').textContent.includes('not computed yet')")
    by_name = {name.splitlines()[0]: text for name, text in strips(page, "compare")}
    chosen = parse_protocol("chebyshev:steps=3", metropolis_weights("florentine"), rounds=20)
    cheby = account_all(chosen, "secure-sum", noise_multiplier=2.0, delta=1e-5)
    assert by_name["chebyshev:steps=3"] == both(cheby.worst().epsilon(1e-5))
    assert not any(name.startswith("momentum") for name in by_name)
    choose(page, "compare-by", "Weights")
    page.fill("#compare-add", "laplacian:9")
    page.press("#compare-add", "Enter")
    until(page, "document.getElementById('compare').textContent.includes('refused')")
    idle(page)
    again = opened(visit, page.url)
    until(again, "document.querySelectorAll('#compare tbody tr').length === 5")
    assert strips(again, "compare") == strips(page, "compare")


def ring_gossip() -> Any:
    return gossip(metropolis_weights("ring:n=15"), rounds=20)


def test_curves_show_intervals_the_budget_and_the_noise(page: Page) -> None:
    page.fill("#target-epsilon", "2")
    page.click("#tab-curves")
    page.wait_for_selector("#curves svg")
    page.click("#noises summary")
    assert "reference ε = 2" in page.inner_text("#curves")
    assert page.locator("#noises .rule").count() == 2
    rows = page.locator("#noises tbody tr")
    noise = float(rows.nth(4).locator("th").inner_text())
    worst = everyone().worst()
    table = everyone().with_noise(noise)
    assert rows.nth(4).locator("td").all_inner_texts()[1] == both(table.worst().epsilon(1e-5))
    local = local_account(
        gossip(metropolis_weights("florentine"), rounds=20), noise_multiplier=noise, delta=1e-5
    )
    assert rows.nth(4).locator("td").all_inner_texts()[0] == both(local.epsilon())
    page.fill("#target-epsilon", "50")
    page.wait_for_timeout(120)
    assert "The line of reference ε = 50 lies above what is shown." in page.inner_text("#curves-note")
    assert worst.epsilon().upper < 50


def test_wide_intervals_are_drawn_and_written_as_intervals(page: Page) -> None:
    choose(page, "view", "Secure sum")
    idle(page)
    page.select_option("#effort", "bulk")
    idle(page)
    table = account_all(
        gossip(metropolis_weights("florentine"), rounds=20),
        "secure-sum",
        noise_multiplier=4.0,
        delta=1e-5,
        effort="bulk",
    )
    assert shown(page) == words(table.worst())
    page.click("#tab-ranking")
    for (_, text), (_, account) in zip(strips(page, "ranking"), table.most_exposed(40), strict=True):
        ends = account.epsilon(1e-5)
        numbers = [float(number) for number in text.split("–")]
        assert numbers[0] <= ends.lower or len(numbers) == 1
        assert numbers[-1] >= ends.upper
    assert "effort=bulk" in page.url


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"participation": "every:4"}, {"participation": "every:4"}),
        (
            {"relation": "replace-one", "contribution": "scalar"},
            {"relation": "replace-one", "contribution": "scalar"},
        ),
        ({"contribution": "energy", "engine": "filter"}, {"contribution": "energy", "engine": "filter"}),
    ],
)
def test_the_page_asks_what_the_command_line_asks(
    changes: dict[str, str], settings: dict[str, Any], page: Page, visit: Visit
) -> None:
    for name, value in changes.items():
        if name == "participation":
            page.fill("#participation", value)
            page.press("#participation", "Enter")
        else:
            page.select_option(f"#{name}", value)
        idle(page)
    expected = max(
        (everyone(view=view, **settings).worst() for view in ("neighbourhood", "secure-sum")),
        key=lambda account: account.epsilon().upper,
    )
    assert shown(page) == words(expected)
    again = opened(visit, page.url)
    assert shown(again) == words(expected)
    told = page.evaluate("sottovoce.asking.command()")
    assert all(f"--{name} {value}" in told for name, value in changes.items())


def test_gradient_steps_and_damping_are_asked_for(page: Page) -> None:
    weights = metropolis_weights("florentine")
    choose(page, "view", "Secure sum")
    idle(page)
    page.select_option("#training", "damping")
    page.fill("#damping", "0.5")
    page.press("#damping", "Tab")
    idle(page)
    damped = gossip(weights, rounds=20, damping=0.5)
    table = account_all(damped, "secure-sum", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())
    lines = "".join(f"{label},{0.5 + 0.02 * k}\n" for k, label in enumerate(weights.labels))
    page.fill("#damping", lines)
    page.press("#damping", "Tab")
    idle(page)
    values = [0.5 + 0.02 * k for k in range(15)]
    table = account_all(
        gossip(weights, rounds=20, damping=values), "secure-sum", noise_multiplier=4.0, delta=1e-5
    )
    assert shown(page) == words(table.worst())
    page.fill("#damping", "Medici,0.5\n")
    page.press("#damping", "Tab")
    noticed(page)
    assert "has no damping (give every node a line" in page.inner_text("#notice-text")
    page.select_option("#training", "steps")
    page.fill("#step-smoothness", "0.1")
    page.press("#step-smoothness", "Enter")
    idle(page)
    page.select_option("#losses", "smooth")
    idle(page)
    trained = gossip(weights, rounds=20, updates=gradient_steps(0.1, "smooth", 15))
    local = local_account(trained, noise_multiplier=4.0, delta=1e-5).epsilon().upper
    assert f"ε ≤ {rounded_up(local)} assuming nothing" in page.inner_text("#headline-epsilon")
    assert "smooth losses, step times smoothness 0.1" in page.inner_text("#facts")
    assert "step-smoothness=0.1&losses=smooth" in page.url
    page.select_option("#training", "none")
    idle(page)
    assert shown(page) == words(everyone(view="secure-sum").worst())


def test_coins_have_one_number_beside_the_run(page: Page) -> None:
    before = shown(page)
    page.fill("#participation", "poisson:0.1")
    page.press("#participation", "Enter")
    until(page, "document.getElementById('coins-answer').textContent.includes('an upper end')")
    protocol = gossip(metropolis_weights("florentine"), rounds=20)
    told = page.inner_text("#coins-answer")
    for view, title in (("neighbourhood", "messages in the clear"), ("secure-sum", "secure sums")):
        sampled = sampled_account(
            protocol, view, noise_multiplier=4.0, delta=1e-5, participation="poisson:0.1"
        )
        assert f"ε ≤ {rounded_up(sampled.epsilon())} with {title} ({sampled.method()}: " in told
    assert shown(page) == before
    page.fill("#noise", "5")
    page.press("#noise", "Enter")
    idle(page)
    assert page.inner_text("#coins-answer") == ""


def test_a_job_survives_a_reload_and_can_be_cancelled_after_it(alone: Page) -> None:
    asked: list[str] = []
    alone.fill("#rounds", "9000")
    alone.press("#rounds", "Enter")
    until(alone, "Object.keys(sessionStorage).filter((key) => key.includes('9000')).length === 2")
    alone.wait_for_timeout(150)
    assert "rounds=9000" in alone.url
    tickets = alone.evaluate("Object.values(sessionStorage).sort()")
    alone.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    alone.reload()
    until(alone, "document.getElementById('work').hidden === false")
    until(alone, "Object.keys(sessionStorage).filter((key) => key.includes('9000')).length === 2")
    assert alone.evaluate("Object.values(sessionStorage).sort()") == tickets
    assert not any(each.startswith("POST") and each.endswith("api/page") for each in asked)
    until(alone, "document.getElementById('rounds').value === '9000'")
    alone.click("#cancel")
    idle(alone)
    until(alone, "fetch('api/status').then((r) => r.json()).then((s) => s.workers.running === 0)", 20)
    assert alone.evaluate("Object.keys(sessionStorage).length") == 0


def test_the_report_that_is_saved_is_verified(page: Page, tmp_path: Path, capsys: Any) -> None:
    page.fill("#target-epsilon", "6")
    page.check("#report-budget")
    with page.expect_download() as saved:
        page.click("#save-report")
    file = tmp_path / "saved.html"
    saved.value.save_as(file)
    assert saved.value.suggested_filename == "sottovoce-report.html"
    assert main(["verify", str(file), "--graph", "florentine"]) == 0
    said = capsys.readouterr().out
    assert "Verified: neighbourhood: the page shows ε ≤ 4.984 for its worst pair" in said
    assert "Verified: secure-sum" in said
    text = file.read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])  # type: ignore[index]
    command = (
        "sottovoce account florentine --rounds 20 --noise-multiplier 4.0 --delta 1e-05 --max-epsilon 6.0"
    )
    assert data["occasion"]["command"] == command
    # A smaller number in the file is found out.
    file.write_text(text.replace('"epsilon_upper":4.9', '"epsilon_upper":3.9'))
    assert main(["verify", str(file), "--graph", "florentine"]) != 0


def test_a_ring_is_a_circle_and_coordinates_are_where_they_say(page: Page) -> None:
    load(page, "ring:n=12", 12)
    places = page.evaluate("[...Array(12).keys()].map((node) => sottovoce.network.positionOf(node))")
    xs, ys = sorted(place["x"] for place in places), sorted(place["y"] for place in places)
    centre = ((xs[0] + xs[-1]) / 2, (ys[0] + ys[-1]) / 2)
    shape = [
        ((p["x"] - centre[0]) / (xs[-1] - xs[0])) ** 2 + ((p["y"] - centre[1]) / (ys[-1] - ys[0])) ** 2
        for p in places
    ]
    assert max(shape) - min(shape) < 1e-6
    nodes = "".join(
        f'<node id="{name}"><data key="x">{x}</data><data key="y">{y}</data></node>'
        for name, x, y in (("west", 0, 0), ("east", 10, 0), ("north", 5, 8))
    )
    edges = '<edge source="west" target="east"/><edge source="east" target="north"/>'
    drop(page, "map.graphml", graphml(nodes, edges))
    until(page, "sottovoce.model.labels.includes('north')")
    idle(page)
    west, east, north = (
        page.evaluate("(name) => sottovoce.network.positionOf(sottovoce.model.labels.indexOf(name))", name)
        for name in ("west", "east", "north")
    )
    assert west["x"] < north["x"] < east["x"]
    assert north["y"] < west["y"] == east["y"]


def graphml(nodes: str, edges: str) -> str:
    """A file whose nodes have coordinates."""
    keys = "".join(f'<key id="{c}" for="node" attr.name="{c}" attr.type="double"/>' for c in "xy")
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    return f'{head}{keys}<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'


HOSTILE = (
    "<img/src=x/onerror=document.title='owned'> __proto__\n"
    "__proto__ constructor\nconstructor </script><script>document.title='owned'</script>\n"
    "toString __proto__\n"
)


def test_names_of_a_hostile_file_are_only_names(page: Page) -> None:
    drop(page, "constructor.edgelist", HOSTILE)
    until(page, "sottovoce.model.labels.includes('__proto__')")
    idle(page)
    for name in TABS:
        page.click(f"#tab-{name}")
        page.wait_for_timeout(150)
    idle(page)
    assert page.title() == "Sottovoce"
    assert page.locator("img[src=x]").count() == 0
    assert page.evaluate("({}).polluted === undefined && Object.keys(Object.prototype).length === 0")
    assert any(name.startswith("<img/src=x/onerror=") for name, _ in strips(page, "ranking"))
    weights = metropolis_weights(parse_graph(HOSTILE, "hostile.edgelist"))
    table = account_all(gossip(weights, rounds=20), "neighbourhood", noise_multiplier=4.0, delta=1e-5)
    assert shown(page) == words(table.worst())


def test_places_that_are_none_and_crowds_are_harmless(page: Page) -> None:
    crowd = "".join(f"{k} {k + 1}\n" for k in range(100_000))
    drop(page, "crowd.edgelist", crowd)
    page.wait_for_selector("#notice", state="visible", timeout=60_000)
    assert "this server takes at most 2000 nodes; got 100001" in page.inner_text("#notice-text")
    million = page.evaluate_handle("Array.from({ length: 1e6 }, (_, k) => `${k} ${k + 1}\\n`).join('')")
    drop(page, "million.edgelist", million)
    until(page, "document.getElementById('notice-text').textContent.includes('and this server takes')")
    assert shown(page) == ("…", "")
    nodes = "".join(
        f'<node id="{name}"><data key="x">{x}</data><data key="y">0</data></node>'
        for name, x in (("a", "NaN"), ("b", "inf"), ("c", "1e400"))
    )
    edges = '<edge source="a" target="b"/><edge source="b" target="c"/>'
    drop(page, "nowhere.graphml", graphml(nodes, edges))
    until(page, "sottovoce.model.labels.length === 3")
    idle(page)
    assert page.evaluate("sottovoce.model.positions") is None
    places = page.evaluate("Object.values(sottovoce.network.positionOf(0))")
    assert all(map(math.isfinite, places))


def test_names_stand_beside_nodes_and_not_over_them(page: Page) -> None:
    nodes = [
        {"x": 100 + 30 * (k % 5), "y": 100 + 26 * (k // 5), "half": 8, "wide": 44, "must": k == 0}
        for k in range(25)
    ]
    placed = dict(
        page.evaluate("([n, s]) => [...sottovoce.labels.place(n, s)]", [nodes, {"width": 400, "height": 400}])
    )
    assert 0 in placed
    boxes = {k: box(nodes[k], side) for k, side in placed.items() if k != 0}
    discs = [(n["x"] - 8, n["y"] - 8, 16, 16) for n in nodes]
    for k, found in boxes.items():
        assert not any(cover(found, disc) for j, disc in enumerate(discs) if j != k)
        assert not any(cover(found, other) for j, other in boxes.items() if j < k)
    assert len(boxes) >= 8


def box(node: dict[str, Any], side: str) -> tuple[float, float, float, float]:
    x, y, half, wide = (node[key] for key in ("x", "y", "half", "wide"))
    left = {"left": x - half - 3 - wide, "right": x + half + 3}.get(side, x - wide / 2)
    top = {"top": y - half - 16, "bottom": y + half + 3}.get(side, y - 6.5)
    return left, top, wide, 13


def cover(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def test_a_network_at_rest_asks_for_no_frames(page: Page) -> None:
    picture = "document.querySelector('#network [data-id=layer2-node]').toDataURL()"
    until(page, "!sottovoce.frames.awake()")
    asked = page.evaluate("""async () => {
      const [before, asked] = [requestAnimationFrame, []];
      globalThis.requestAnimationFrame = (action) => asked.push(action);
      await new Promise((later) => setTimeout(later, 100));
      globalThis.requestAnimationFrame = before;
      return asked.length;
    }""")
    assert asked == 0
    before = page.evaluate(picture)
    page.focus("#network")
    page.keyboard.press("+")
    assert page.evaluate("sottovoce.frames.awake()")
    until(page, "!sottovoce.frames.awake()")
    assert page.evaluate(picture) != before


def test_nodes_of_a_cluster_stand_together(page: Page) -> None:
    load(page, "cliques:base=ring,n=5,size=4", 20)
    order = page.evaluate("sottovoce.heatmap.orderedNodes()")
    assert sorted(order) == list(range(20))
    neighbours = page.evaluate("sottovoce.model.neighbours")
    steps = sum(b in neighbours[a] for a, b in itertools.pairwise(order))
    assert steps >= 15
    assert order == page.evaluate("sottovoce.clusters.order(sottovoce.model.neighbours)")
    choose(page, "heat-order", "As given")
    assert page.evaluate("sottovoce.heatmap.orderedNodes()") == list(range(20))
    assert page.inner_text("#heat-legend").startswith("ε at most")
    assert page.evaluate("sottovoce.scale.position(1, 4)") == 0.25
