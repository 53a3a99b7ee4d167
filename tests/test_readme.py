# SPDX-License-Identifier: Apache-2.0
"""Everything that README and guides tell a reader to type is typed here, and what they show is compared."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.studies.small import quick

from sottovoce import Program
from sottovoce.cli import main
from sottovoce.explanations import EXPLANATIONS
from sottovoce.studies import catalogue, utility
from sottovoce.views import VIEW_NAMES

if TYPE_CHECKING:
    from sottovoce.studies import Study
    from sottovoce.studies.results import Progress, StudyResult

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/guide.md",
    "docs/certificates.md",
    "docs/auditing.md",
    "docs/learning.md",
    "docs/paper.md",
    "docs/page.md",
    "docs/peers.md",
    "docs/protocols.md",
    "docs/scale.md",
    "docs/training.md",
)
# What people read first is typed as they would, one process a command.
TYPED = ("README.md",)
EVERY_DOCUMENT = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.load] if name in TYPED else []) for name in DOCUMENTS]
)
METHODS = {name for name, each in EXPLANATIONS.items() if each.kind == "method"}


class Block(NamedTuple):
    """A fenced block: its language, its text and the line that it starts on."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


def steps(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown below it."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"line {block.line}: a console block starts with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def commands(path: Path) -> list[str]:
    """Every command of every console block."""
    return [command for block in blocks(path) if block.language == "console" for command, _ in steps(block)]


def environment() -> dict[str, str]:
    """The shell of a reader: this Python's programs first, 80 columns, no settings of Sottovoce."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SOTTOVOCE")}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    settings = {"PATH": programs, "COLUMNS": "80", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
    return {**kept, **settings}


class Outcome(NamedTuple):
    """The exit code of a command, and all that it wrote."""

    code: int
    text: str


def typed(command: str, folder: Path, last_code: int = 0) -> Outcome:
    """What a shell makes of a command; `$?` is the code of the one before."""
    done = subprocess.run(
        ["bash", "-c", f"(exit {last_code}); {command}"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout)


WORDS = re.compile(r"((?:SOTTOVOCE_\w+=\S+ )*)sottovoce ([^|&;<>$~*`]*?)(?: > (\S+))?")
"""A command for Sottovoce alone: settings before it, and a file that its output may go to."""


def carried_out(command: str, folder: Path) -> Outcome:
    """What a command for Sottovoce alone does, in the process of the test."""
    found = WORDS.fullmatch(command)
    assert found is not None
    settings = dict(each.split("=", 1) for each in found[1].split())
    return called(shlex.split(found[2]), folder, settings, into=found[3])


def called(
    words: list[str], folder: Path, settings: dict[str, str] | None = None, into: str | None = None
) -> Outcome:
    """What the command line makes of the words of a command, and what of that is seen if a file takes its output."""
    with (
        pytest.MonkeyPatch.context() as patched,
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) as stream,
        (folder / into).open("w", encoding="utf-8") if into else contextlib.nullcontext(stream) as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(stream),
    ):
        patched.chdir(folder)
        for name in os.environ.keys() - environment().keys():
            patched.delenv(name)
        for name, value in {**environment(), **(settings or {})}.items():
            patched.setenv(name, value)
        code = main(words)
        stream.seek(0)
        return Outcome(code, stream.read())


def as_pattern(shown: str) -> str:
    """The output that is shown as a regular expression, in which a line of three dots is any lines."""
    return "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown.splitlines())


def is_for_make_or_pip(command: str) -> bool:
    """Whether a command is checked to exist instead of being run."""
    return command.startswith(("make ", "pip "))


def is_for_a_shell(command: str) -> bool:
    """Whether a command is more than words for Sottovoce."""
    return WORDS.fullmatch(command) is None


def run_console(block: Block, folder: Path, *, in_shell: bool) -> None:
    """Run the commands of a block one by one and compare: all in a shell, or only those that need one."""
    code, asked = 0, [command for command, _ in steps(block)][1:]
    for (command, shown), following in zip(steps(block), [*asked, ""], strict=True):
        if is_for_make_or_pip(command):
            continue
        if in_shell or is_for_a_shell(command):
            code, text = typed(command, folder, code)
        else:
            code, text = carried_out(command, folder)
        assert code == 0 or following == "echo $?", f"{command}\n{text}"
        if shown:
            assert re.fullmatch(as_pattern(shown), text), f"{command}\n{text}"


def run_python(block: Block, name: str, names: dict[str, Any]) -> None:
    """Run a block as a doctest that shares its names with the blocks before it."""
    test = doctest.DocTestParser().get_doctest(block.text, names, name, name, block.line)
    assert test.examples, f"line {block.line}: a python block holds examples with >>>"
    report: list[str] = []
    test.globs = names
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    assert outcome.failed == 0, "".join(report)


def found_before(study: Study, config: Any, progress: Progress | None) -> StudyResult:
    """What a study found: in its quick size it is run once a process, with the tests of studies."""
    found: StudyResult = quick(study.name) if config == study.quick else study.run(config, progress)
    return found


@EVERY_DOCUMENT
def test_what_is_shown_is_what_happens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = {study.name: replace(study, run=partial(found_before, study)) for study in catalogue.STUDIES}
    monkeypatch.setattr(catalogue, "STUDIES", tuple(known.values()))
    monkeypatch.setattr(utility, "run", lambda config: known["utility"].run(config, None))
    if "import torch" in (ROOT / name).read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    names: dict[str, Any] = {}
    for block in blocks(ROOT / name):
        if block.language == "console":
            run_console(block, tmp_path, in_shell=name in TYPED)
        elif block.language == "toml":
            assert Program.from_json(tomllib.loads(block.text)).exchanges
        else:
            assert block.language == "python", f"{name}, line {block.line}: nothing runs {block.language!r}"
            run_python(block, name, names)


@EVERY_DOCUMENT
def test_targets_of_make_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    spoken = set(re.findall(r"[`$] ?make (?:[A-Z]+=\S+ )?([a-z]+)", text))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert spoken <= targets


def test_the_two_commands_come_first() -> None:
    assert commands(README)[:2] == ["make demo", "make test"]


def test_what_is_installed_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = README.read_text(encoding="utf-8")
    lines = [command for command in commands(README) if command.startswith("pip ")]
    extras = {extra for line in lines for extra in re.findall(r"\.\[(\w+)\]", line)}
    assert lines[0] == "pip install ."
    assert {"frames", "events"} <= extras <= set(project["optional-dependencies"])
    needed = [re.split(r"[<>=]", requirement)[0] for requirement in project["dependencies"]]
    assert f"the package needs {', '.join(needed[:-1])} and {needed[-1]}." in " ".join(text.split())
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11 or newer" in text


def names(requirements: list[str]) -> set[str]:
    """The packages that a list of requirements or pins names, spelt one way."""
    kept = [re.match(r"[\w.-]+", each) for each in requirements if each[:1].isalnum()]
    return {re.sub(r"[-_.]+", "-", found[0]).lower() for found in kept if found}


def test_the_demo_needs_the_first_list_of_versions_and_the_tests_the_second() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
    files = ("requirements.txt", "requirements-test.txt")
    first, second = (names((ROOT / each).read_text(encoding="utf-8").splitlines()) for each in files)
    assert names(project["project"]["dependencies"] + project["build-system"]["requires"]) <= first
    assert names(extras + project["dependency-groups"]["dev"]) <= second
    assert not first & second
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo: \$\(READY\)", makefile, re.MULTILINE)
    assert re.search(r"^check: \$\(TESTABLE\)", makefile, re.MULTILINE)


def test_the_demo_is_what_the_readme_says() -> None:
    recipe = re.search(r"^demo:.*\n\t(.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    assert "account florentine " in recipe[1]
    assert "--observer" not in recipe[1]
    assert "--view" not in recipe[1]
    assert recipe[1].endswith(" --report demo.html")
    said = " ".join(README.read_text(encoding="utf-8").split())
    assert f"`make demo` accounts for all {15 * 14} pairs of the families above" in said
    assert "ends in a report, `demo.html`" in said


MEASURED = re.findall(
    r"^\| `(sottovoce [^`]*)` \| ([\d.]+) \|", README.read_text(encoding="utf-8"), re.MULTILINE
)


def test_measured_commands_are_there() -> None:
    assert len(MEASURED) >= 5


@pytest.mark.parametrize(("command", "epsilon"), MEASURED, ids=range(len(MEASURED)))
def test_measured_commands_give_their_epsilon(command: str, epsilon: str, tmp_path: Path) -> None:
    code, text = called(shlex.split(command)[1:], tmp_path)
    assert code == 0, text
    assert text.startswith(f"ε ≤ {epsilon} at δ = 1e-05")


def test_every_view_and_every_method_has_its_row() -> None:
    text = README.read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert rows == METHODS | set(VIEW_NAMES)
    rooms = [ROOT / "src/sottovoce" / room for room in ("sensitivities", "feedback", "accounting")]
    sources = "".join(path.read_text(encoding="utf-8") for room in rooms for path in room.rglob("*.py"))
    assert all(f'"{method}"' in sources for method in METHODS)


@pytest.mark.parametrize("in_shell", [True, False])
def test_a_changed_output_would_be_noticed(in_shell: bool, tmp_path: Path) -> None:
    def run(text: str) -> None:
        run_console(Block("console", text, 1), tmp_path, in_shell=in_shell)

    run("$ printf 'a\\nb\\nc\\n'\na\n...\nc\n$ false\n$ echo $?\n1\n")
    run(
        "$ SOTTOVOCE_GRAPH_WEIGHTS=lazy sottovoce graph ring:n=5 > ring.txt\n"
        "$ grep --only-matching lazy ring.txt\nlazy\n"
    )
    dishonest_words = ["$ echo a\nb\n", "$ false\n"]
    if not in_shell:
        # To a shell every program that fails is like false, and every one that prints is like echo.
        run("$ sottovoce graph ring:n=5 --rules > rules.txt\n...\n$ echo $?\n2\n")
        dishonest_words += ["$ sottovoce graph ring:n=5\nb\n", "$ sottovoce graph ring:n=x\n"]
    for dishonest in dishonest_words:
        with pytest.raises(AssertionError):
            run(dishonest)
    with pytest.raises(AssertionError):
        run_python(Block("python", ">>> 1 + 1\n3\n", 1), "x", {})
