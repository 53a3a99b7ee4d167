# SPDX-License-Identifier: Apache-2.0
"""The documentation names what exists, all that exists is documented, and its picture and examples are current."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import runpy
import sys
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import house

import sottovoce
from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.cli.application import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PROOFS = sorted((ROOT / "docs" / "proofs").glob("*.md"))
MATHEMATICS = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")
EXAMPLES = {
    "own_graph.py": "  anna learns at most ε = 4.922 about ben\n",
    "calibrate_for_coalition.py": "node 0: noise multiplier 5.517, ε ≤ 1 about node 31\n",
    "certificate_review.py": "forged: verified is False\n",
    "audit_training.py": "Huber steps: ε ≥ 1.142 with confidence 0.999: refuted\n",
    "own_protocol.py": "takes-back: ε ≤ 5.437 about a neighbour, ε ≤ 0.0775 about the node across\n",
    "train_with_shared_noise.py": "a curious neighbour, who knows the draws of its edges: ε ≤ 2.77",
    "train_own_loss.py": "ε ≤ 2 assuming smooth, ",
    "train_in_batches.py": "each record by a coin, one round in four: ε ≤ 1.65 (amplified), accuracy 0.939;\n",
    "train_by_site.py": "complete:n=8: noise multiplier 1.83, ",
    "car_makers.py": "secure-sum: noise multiplier 0.92, accuracy 0.9",
    "torch_peers.py": "site-3: finished after 2 rounds, accuracy ",
    "torch_sites.py": "noise multiplier 0.32, ε ≤ 8 assuming none, ε ≤ 27.82 whoever sees whatever\n",
}
GUARANTEED = (
    "sottovoce.account",
    "sottovoce.account_all",
    "sottovoce.audit",
    "sottovoce.calibrate",
    "sottovoce.certify",
    "sottovoce.rate",
    "sottovoce.sensitivity",
    "sottovoce.verify",
    "sottovoce.Interval",
    "sottovoce.Account.delta",
    "sottovoce.Account.epsilon",
    "sottovoce.Account.to_dp_event",
    "sottovoce.AccountTable.calibrated_noise",
    "sottovoce.Participation.largest_sum",
    "sottovoce.accounting.central_account",
    "sottovoce.accounting.local_account",
    "sottovoce.auditing.attack.fitted_attack",
    "sottovoce.auditing.attack.likelihood_attack",
    "sottovoce.auditing.audit_simulator",
    "sottovoce.auditing.confidence.clopper_pearson",
    "sottovoce.auditing.confidence.epsilon_shown",
    "sottovoce.auditing.confidence.evidence",
    "sottovoce.auditing.confidence.mu_shown",
    "sottovoce.feedback.attacks.best_attack",
    "sottovoce.feedback.barrier.minimise",
    "sottovoce.feedback.closed.memory_one",
    "sottovoce.feedback.closed.twins",
    "sottovoce.feedback.training_pairs",
    "sottovoce.feedback.training_sensitivity",
    "sottovoce.feedback.update_slopes",
    "sottovoce.filtering.decorrelation.seen_view",
    "sottovoce.filtering.elimination.hidden_system",
    "sottovoce.filtering.innovations.innovations",
    "sottovoce.filtering.kalman.filter_gains",
    "sottovoce.filtering.riccati.doublings",
    "sottovoce.filtering.rounding.eigenvalue_ends",
    "sottovoce.filtering.rounding.gram_error",
    "sottovoce.filtering.rounding.is_above",
    "sottovoce.filtering.rounding.power_sum",
    "sottovoce.filtering.rounding.spectral_norm",
    "sottovoce.filtering.rounding.transform_error",
    "sottovoce.filtering.rounding.turned_rows",
    "sottovoce.filtering.rowspace.independent_rows",
    "sottovoce.gaussian.advantage",
    "sottovoce.gaussian.delta",
    "sottovoce.gaussian.epsilon",
    "sottovoce.gaussian.log_delta",
    "sottovoce.gaussian.mu",
    "sottovoce.gaussian.rdp",
    "sottovoce.gaussian.trade_off",
    "sottovoce.gaussian.true_positive_rate",
    "sottovoce.gaussian.zcdp",
    "sottovoce.graphs.GossipWeights.exact_row",
    "sottovoce.graphs.laplacian_weights",
    "sottovoce.graphs.lazy_weights",
    "sottovoce.graphs.maximum_degree_weights",
    "sottovoce.graphs.metropolis_weights",
    "sottovoce.graphs.twins",
    "sottovoce.graphs.uniform_weights",
    "sottovoce.krylov.krylov_bases",
    "sottovoce.krylov.power_error",
    "sottovoce.krylov.proved_power_error",
    "sottovoce.learning.Exposure.everyone",
    "sottovoce.learning.Exposure.rounds_within",
    "sottovoce.learning.Exposure.table",
    "sottovoce.learning.central_descent",
    "sottovoce.learning.quadratic_damping",
    "sottovoce.learning.gradient_sensitivity",
    "sottovoce.learning.sites.Accountant",
    "sottovoce.learning.sites.ModuleLoss.clipped_sums",
    "sottovoce.learning.sites.train_module",
    "sottovoce.learning.train",
    "sottovoce.rates.limits.response_spectrum",
    "sottovoce.rates.taylor_pieces.taylor_cover",
    "sottovoce.rates.rounding.form_units",
    "sottovoce.rates.rounding.inverse_norm",
    "sottovoce.rates.rounding.off_average",
    "sottovoce.rates.rounding.peak_error",
    "sottovoce.rates.rounding.range_beside_average",
    "sottovoce.rates.rounding.series_error",
    "sottovoce.rates.rounding.sign_error",
    "sottovoce.rates.rounding.solve_residual",
    "sottovoce.rates.reduction.spectral_range",
    "sottovoce.rates.sign_streams.sign_limits",
    "sottovoce.rates.steady_filter.steady_state",
    "sottovoce.rates.supremum.suprema",
    "sottovoce.sensitivities.absolute_bound",
    "sottovoce.sensitivities.one_form.dual.is_dominated",
    "sottovoce.sensitivities.one_form.dual.solve_dual",
    "sottovoce.sensitivities.long_horizons.round_by_round.solve_followed",
    "sottovoce.sensitivities.long_horizons.start_and_rate.solve_horizon",
    "sottovoce.sensitivities.one_form.patterns.solve_largest",
    "sottovoce.sensitivities.one_form.patterns.solve_participation",
    "sottovoce.protocols.compiled.compile_round",
    "sottovoce.sensitivities.one_form.energy.solve_energy",
    "sottovoce.sensitivities.programs.program_sensitivity",
    "sottovoce.sensitivities.one_form.solution.solve_form",
    "sottovoce.sensitivities.spectral_bound",
    "sottovoce.sensitivities.one_form.witnesses.best_signs",
    "sottovoce.sensitivities.one_form.witnesses.enumerated_signs",
    "sottovoce.verification.forms.dense_form",
    "sottovoce.verification.forms.dominating",
    "sottovoce.verification.definition.program_form",
    "sottovoce.verification.hidden.hidden_nodes",
    "sottovoce.verification.horizon.dominates",
    "sottovoce.verification.horizon.filtered",
    "sottovoce.verification.loops.hidden_loop",
    "sottovoce.verification.reduction.distortion",
    "sottovoce.verification.reduction.models",
    "sottovoce.verification.shift.check_shift",
)


def named(path: str) -> Any:
    """The module, class or function that a dotted path leads to."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


def texts() -> list[Path]:
    """The files that people read or run, without what tools leave behind."""
    folders = [ROOT / name for name in ("src", "tests", "docs", "examples", "benchmarks", ".ci")]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    # In a worktree `.git` is a file, which git wrote.
    top = [path for path in sorted(ROOT.iterdir()) if path.is_file() and path.name != ".git"]
    return [path for path in [*top, *files] if "__pycache__" not in path.parts]


def test_every_public_name_has_a_docstring() -> None:
    names = [name for name in sottovoce.__all__ if name != "__version__"]
    assert [name for name in names if not inspect.getdoc(getattr(sottovoce, name))] == []


def test_every_public_name_is_documented() -> None:
    everything = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    assert [
        name for name in sottovoce.__all__ if not re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", everything)
    ] == []


def test_every_command_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^## (\S+)$", reference, re.MULTILINE))
    assert {name for name in app if not name.startswith("-")} == headings


PATHS = sorted(set(re.findall(r"`(sottovoce(?:\.\w+)+)`", MATHEMATICS)))


def test_the_mathematics_names_functions() -> None:
    assert len(PATHS) > 40


def test_every_function_that_the_mathematics_names_exists() -> None:
    assert [path for path in PATHS if not inspect.getdoc(named(path))] == []


def test_a_path_that_leads_nowhere_is_noticed() -> None:
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        named("sottovoce.sensitivities.guess")


def astray(text: str) -> list[str]:
    """The files of Python that a text names, from the top or within the package, and that lead nowhere."""
    found = []
    for file, name in re.findall(r"`(?:python )?([\w./-]+\.py)(?:::(\w+))?`", text):
        places = [place / file for place in (ROOT, ROOT / "src" / "sottovoce") if (place / file).is_file()]
        if not places or (name and f"def {name}(" not in places[0].read_text(encoding="utf-8")):
            found.append(f"{file}::{name}" if name else file)
    return found


@pytest.mark.parametrize("path", [*DOCUMENTS, *PROOFS], ids=lambda path: path.name)
def test_every_file_and_test_that_a_document_names_exists(path: Path) -> None:
    assert astray(path.read_text(encoding="utf-8")) == []


def test_a_file_or_a_test_that_is_not_there_is_noticed() -> None:
    text = "`views.py`, `tests/once.py`, `sensitivities/bounds.py` and `tests/test_documentation.py::test_nothing`"
    assert astray(text) == ["sensitivities/bounds.py", "tests/test_documentation.py::test_nothing"]


def test_mathematical_functions_state_their_guarantee() -> None:
    installed = [path for path in GUARANTEED if ".sites." not in path or find_spec("torch")]
    assert [
        path for path in installed if not re.search(r"\bGuarantee:", inspect.getdoc(named(path)) or "")
    ] == []


# Words that make a function of a mathematical room say what it guarantees, in its name or its docstring.
BOUNDING = re.compile(r"\b(bounds?|bounded|upper|lower|errors?|allowances?)\b")
# Functions that say such a word and neither return nor feed a bound.
NO_BOUND = {
    "accounting/values.py: dp_relation": "a name of dp-accounting; what it says is why it is never another",
    "rates/table.py: median": "a choice of a row, whose own ends hold",
    "rates/table.py: best": "a choice of a row, whose own ends hold",
    "feedback/candidates.py: stages_of": "how much is tried, in which order: speed alone",
    "feedback/phases.py: free": "which numbers are chosen; what is chosen is checked",
    "verification/checking.py: stored_weights": "reads a file",
}


def public_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public functions and methods of the mathematical rooms, and where each stands."""
    source = ROOT / "src" / "sottovoce"

    def within(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
        for each in node.body:
            if isinstance(each, ast.ClassDef):
                yield from within(each)
            elif isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
                yield each

    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        if place.with_suffix("").parts[0] in house.MATHEMATICAL:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield from ((f"{place.as_posix()}: {each.name}", each) for each in within(tree))


def test_whatever_returns_or_feeds_a_bound_says_what_it_guarantees() -> None:
    silent, seen = set(), 0
    for place, function in public_functions():
        if any(getattr(each, "id", "") == "overload" for each in function.decorator_list):
            continue
        seen += 1
        words = ast.get_docstring(function) or ""
        returned = "" if function.returns is None else ast.unparse(function.returns)
        asked = BOUNDING.search(f"{function.name.replace('_', ' ')} {words}") or "Interval" in returned
        if asked and "Guarantee" not in words:
            silent.add(place)
    assert seen > 800
    assert silent == set(NO_BOUND)


def test_the_house_in_figures_is_what_is_counted() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    told = dict(
        re.findall(
            r"^\| (.+) \| \S+ \| (\S+) \|$", text.partition("| what | before | now |")[2], re.MULTILINE
        )
    )
    counted = house.rows(ROOT)
    assert list(told) == list(counted)
    astray = {name: value for name, value in counted.items() if not house.agrees(name, told[name], value)}
    assert astray == {}, "`python -m benchmarks.house` counts otherwise"


@pytest.mark.parametrize(
    ("name", "told", "agrees"),
    [
        ("lines of tests", "1020", True),
        ("lines of tests", "1021", False),
        ("lines of tests", "979", False),
        ("imports past a front door", "1001", False),
    ],
)
def test_a_size_may_drift_and_no_other_figure(name: str, told: str, agrees: bool) -> None:
    assert house.agrees(name, told, "1000") is agrees


def anchors(path: Path) -> set[str]:
    """The anchors that a page of this text has on a code host."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*DOCUMENTS, *PROOFS], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_document_is_on_the_map() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", index.read_text("utf-8"))
    }
    pages = {path.resolve() for path in [*DOCUMENTS, *(ROOT / "examples").glob("*.py")]} - {index.resolve()}
    assert pages <= linked


def test_every_proof_is_listed_with_what_it_is_a_proof_of() -> None:
    index = ROOT / "docs" / "proofs" / "index.md"
    text = index.read_text("utf-8")
    assert {path.name for path in PROOFS} - {"index.md"} == set(re.findall(r"\]\(([\w-]+\.md)", text))
    for name in re.findall(r"`([\w.]+)`", text):
        assert named(f"sottovoce.{name}") is not None


def test_every_allowance_of_a_rounding_module_is_listed_with_its_proof() -> None:
    text = (ROOT / "docs" / "proofs" / "index.md").read_text("utf-8")
    listed, source = set(re.findall(r"`([\w.]+)`", text)), ROOT / "src" / "sottovoce"
    modules = sorted(source.rglob("*rounding.py"))
    assert len(modules) >= 8
    missing, inner = [], []
    for path in modules:
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        module = importlib.import_module(f"sottovoce.{name}")
        for each in module.__all__:
            found = getattr(module, each)
            # Constants are said where they stand.
            if (inspect.isfunction(found) or inspect.isclass(found)) and f"{name}.{each}" not in listed:
                missing.append(f"{name}.{each}")
            assert not inspect.isfunction(found) or "Guarantee:" in (inspect.getdoc(found) or ""), each
        defined = (ast.FunctionDef, ast.ClassDef)
        inner += [
            f"{name}.{node.name}"
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, defined) and node.name not in module.__all__ and node.name[0] != "_"
        ]
    assert missing == []
    # What a module has and does not export would be found by nobody who asks for its allowances.
    assert inner == []


def test_every_allowance_is_named_on_the_page_of_its_proof() -> None:
    index = ROOT / "docs" / "proofs" / "index.md"
    silent = []
    for line in re.findall(r"^\| .*\|$", index.read_text("utf-8"), re.MULTILINE):
        for page in re.findall(r"\]\(([\w-]+\.md)", line):
            text = (index.parent / page).read_text("utf-8")
            silent += [
                f"{page}: {name}"
                for name in re.findall(r"`([\w.]+)`", line)
                if "rounding." in name and not re.search(rf"(?<!\w){name.rpartition('.')[2]}(?!\w)", text)
            ]
    assert silent == []


def test_no_text_names_a_place_on_someones_machine() -> None:
    machine = re.compile(r"(?<![\w.~>])/(?:work/|tmp\b|root\b|home/)")
    found = []
    for path in texts():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {line}" for line in text.splitlines() if machine.search(line)]
    assert found == []


# A few rounds of a network are enough.
SHORTER = {"torch_peers.py": ("2",), "torch_sites.py": ("8",)}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("torch"):
        pytest.importorskip("torch")
    script = str(ROOT / "examples" / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script, *SHORTER.get(name, ())])
    # Finds modules beside it, as `python examples/…` would.
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(script, run_name="__main__")
    assert EXAMPLES[name] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_run() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


def script_of(name: str) -> Any:
    """A script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_picture_is_what_its_script_draws() -> None:
    assert_same_drawing(script_of("draw_picture").picture(), "picture.svg")


def test_views_and_programs_are_drawn_as_their_script_draws_them() -> None:
    pictures = script_of("draw_views").pictures()
    for name, drawn in pictures.items():
        assert_same_drawing(drawn, name)
    kept = (path for folder in ("views", "programs") for path in (ROOT / "docs" / folder).iterdir())
    assert {f"{path.parent.name}/{path.name}" for path in kept} == set(pictures)


def test_the_cost_of_large_networks_is_drawn_and_told_as_it_was_measured() -> None:
    script = script_of("draw_scale")
    assert_same_drawing(script.picture().decode(), "scale.svg")
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    rows = script.table()
    assert len(rows) >= 9
    assert "\n".join(rows) in page


def assert_same_drawing(drawn: str, name: str) -> None:
    """Words, colours and every ε exactly; places to half a pixel, as layouts differ in their last digits."""
    place = re.compile(r'(?<=[" ML])-?\d+\.\d+')
    stored = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert place.sub("#", drawn) == place.sub("#", stored)
    for fresh, old in zip(place.findall(drawn), place.findall(stored), strict=True):
        assert float(fresh) == pytest.approx(float(old), abs=0.5)


def test_the_star_of_the_readme() -> None:
    """A star with two leaves, the centre seeing secure sums, T = 2: 1 as certified, 13/10 in a closed loop."""

    third, none = Fraction(1, 3), Fraction(0)

    def squared(steps: tuple[int, int]) -> Fraction:
        # The leaves alone are hidden: s_t = D A s_{t−1} + x_t + u_t, seen as their sum with weight 1/3 each.
        later = [third * Fraction(2, 3) * step for step in steps]
        noise = [[third, third, none, none], [*later, third, third]]
        signal = [[third, later[0]], [none, third]]
        (a, b), (_, d) = [[dot(p, q) for q in noise] for p in noise]
        solved = [[d * g[0] - b * g[1], a * g[1] - b * g[0]] for g in signal]
        form = [[dot(g, h) / (a * d - b * b) for h in solved] for g in signal]
        return form[0][0] + form[1][1] + 2 * abs(form[0][1])

    def dot(first: list[Fraction], second: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(first, second, strict=True)), start=none)

    assert squared((1, 1)) == 1
    assert squared((1, 0)) == Fraction(13, 10)
    star = gossip(graphs.metropolis_weights("star:n=3"), rounds=2)
    certified = sensitivity(star, View.secure_sum(0), targets=[1])[1].squared
    assert certified.lower == pytest.approx(1)
    assert certified.upper == pytest.approx(1)
    assert "13/10" in (ROOT / "README.md").read_text(encoding="utf-8")
