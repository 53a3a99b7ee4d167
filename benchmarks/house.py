# SPDX-License-Identifier: Apache-2.0
"""Figures of the house itself: how much code there is, how much of it explains, and what it repeats.

`python -m benchmarks.house --before FOLDER` puts another checkout beside this one. Seconds of tests are read from what
`pytest --junitxml=FILE` writes. The table of docs/architecture.md, from a checkout of the commit that it names first:

    python -m benchmarks.house --before FOLDER --seconds FILE --seconds-before FILE --table
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.test_architecture import DOORS

HERE = Path(__file__).parent.parent
MATHEMATICAL = (
    "interval",
    "rounding",
    "gaussian",
    "krylov",
    "participation",
    "filtering",
    "rates",
    "sensitivities",
    "feedback",
    "verification",
    "theory",
    "accounting",
    "coalitions",
)
# The words of a question and of the effort spent on it.
QUESTION = (
    "protocol",
    "view",
    "observers",
    "own_noise",
    "targets",
    "contribution",
    "participation",
    "relation",
)
WORDS = frozenset((*QUESTION, "rounds", "delta", "noise_multiplier", "engine", "effort", "workers"))
FEW, SHARED = 6, 5
# So many lines of code in a row that stand in two places count as a pair of duplicated places.
ALIKE = 6


@dataclass(kw_only=True)
class Figures:
    """What is counted, over all modules or over those of some rooms."""

    modules: int = 0
    code: int = 0
    documented: int = 0
    commented: int = 0
    public: int = 0
    guaranteed: int = 0
    long_signatures: list[str] = field(default_factory=list)
    repeated_words: list[str] = field(default_factory=list)
    past_doors: list[str] = field(default_factory=list)
    lines: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, other: Figures) -> None:
        """Count the modules of another as well."""
        for name, more in vars(other).items():
            held = getattr(self, name)
            setattr(self, name, held | more if isinstance(held, dict) else held + more)

    @property
    def documentation(self) -> float:
        """Lines of docstrings, without comments, a line of code."""
        return self.documented / self.code

    @property
    def duplicates(self) -> list[str]:
        """Pairs of places that share `ALIKE` lines of code or more, spaces, comments and imports apart."""
        starts: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        for name, lines in self.lines.items():
            for k in range(len(lines) - ALIKE + 1):
                starts[tuple(text for _, text in lines[k : k + ALIKE])].append((name, k))
        pairs = {pair for places in starts.values() for pair in itertools.combinations(places, 2)}
        # A pair that goes on from one line before is the same pair.
        return [
            f"{a}:{self.lines[a][i][0]} and {b}:{self.lines[b][j][0]}"
            for (a, i), (b, j) in sorted(pairs)
            if ((a, i - 1), (b, j - 1)) not in pairs and not (a == b and j - i < ALIKE)
        ]


def modules(folder: Path) -> dict[str, Figures]:
    """The figures of each module of a checkout, by its path."""
    source = folder / "src" / "sottovoce"
    names = {path.relative_to(source).with_suffix("").as_posix(): path for path in source.rglob("*.py")}
    return {name: _counted(path.read_text(encoding="utf-8"), name) for name, path in sorted(names.items())}


def figures(counted: dict[str, Figures], rooms: tuple[str, ...] | None = None) -> Figures:
    """The figures of all modules together, or of those of some rooms."""
    found = Figures()
    for name, one in counted.items():
        if rooms is None or name.partition("/")[0] in rooms:
            found.add(one)
    return found


def _counted(text: str, name: str) -> Figures:
    """The figures of one module."""
    nodes = list(ast.walk(ast.parse(text)))
    documented = _docstring_lines(nodes)
    comments, code = _lines(text)
    found = Figures(
        modules=1, documented=len(documented), commented=len(comments), code=len(code - documented)
    )
    kept = code - documented - _imported_lines(nodes)
    found.lines[name] = [
        (number, " ".join(line.split()))
        for number, line in enumerate(text.splitlines(), start=1)
        if number in kept and any(letter.isalnum() for letter in line)
    ]
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            _signature(found, node, name)
        elif isinstance(node, ast.ClassDef):
            held = {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
            _words(found, held, f"{name}:{node.name}")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sottovoce."):
            parts = node.module.split(".")
            if len(parts) > 2 and parts[1] != name.partition("/")[0] and ".".join(parts[1:]) not in DOORS:
                found.past_doors.append(f"{name}: {node.module}")
    return found


def _signature(found: Figures, node: ast.FunctionDef, name: str) -> None:
    """Add one function: its parameters, and whether it says what it guarantees."""
    named = (one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    # Nobody who calls a method writes its first one.
    arguments = [one for one in named if one not in {"self", "cls"}]
    if len(arguments) > FEW:
        found.long_signatures.append(f"{name}:{node.name}")
    _words(found, set(arguments), f"{name}:{node.name}")
    stub = any(getattr(each, "id", "") == "overload" for each in node.decorator_list)
    if not node.name.startswith("_") and not stub and not _reads(node):
        found.public += 1
        found.guaranteed += "Guarantee" in (ast.get_docstring(node) or "")


def _reads(node: ast.FunctionDef) -> bool:
    """Whether this is a property that only reads what is stored: another name for it, with nothing to guarantee."""
    if not any(getattr(each, "id", "") == "property" for each in node.decorator_list):
        return False
    done = node.body[1:] if ast.get_docstring(node) is not None else node.body
    value = done[0].value if len(done) == 1 and isinstance(done[0], ast.Return) else None
    while isinstance(value, ast.Attribute):
        value = value.value
        if isinstance(value, ast.Name):
            return value.id == "self"
    return False


def _words(found: Figures, held: set[str], name: str) -> None:
    """Add one list of names if it repeats the question."""
    if len(held & WORDS) >= SHARED:
        found.repeated_words.append(name)


def _docstring_lines(nodes: list[ast.AST]) -> set[int]:
    """The lines that docstrings fill, those of fields too."""
    return {
        line
        for node in nodes
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _imported_lines(nodes: list[ast.AST]) -> set[int]:
    """The lines of imports and of `__all__`, which are alike where modules take the same names."""
    return {
        line
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _lines(text: str) -> tuple[set[int], set[int]]:
    """The lines that hold nothing but a comment, and those that hold anything else."""
    comments: set[int] = set()
    code: set[int] = set()
    passed = {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in passed:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments - code, code


def test_seconds(report: Path) -> float:
    """What all tests of a report of `pytest --junitxml` took together, each by its own clock."""
    return sum(float(case.get("time", 0)) for case in ET.parse(report).iter("testcase"))


# What grows with every change; a table is held to it within `DRIFT` alone, and to the other rows exactly.
SIZES = ("modules", "lines of ", "public functions ", "… that state ")
DRIFT = 0.02


def agrees(name: str, told: str, counted: str) -> bool:
    """Whether a table tells a row as it is counted, or a size within `DRIFT` of it."""
    if name.startswith(SIZES):
        return abs(float(told) - float(counted)) <= DRIFT * float(counted)
    return told == counted


def rows(folder: Path, report: Path | None = None) -> dict[str, str]:
    """What is printed of a checkout, by its name."""
    counted = modules(folder)
    whole, mathematics = figures(counted), figures(counted, MATHEMATICAL)
    tests = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in (folder / "tests").rglob("*.py")
    )
    return {
        "modules": f"{whole.modules}",
        "lines of code": f"{whole.code}",
        "lines of docstrings": f"{whole.documented}",
        "lines of comments": f"{whole.commented}",
        "lines of docstrings a line of code, mathematical rooms": f"{mathematics.documentation:.2f}",
        "public functions of the mathematical rooms": f"{mathematics.public}",
        "… that state a guarantee": f"{mathematics.guaranteed}",
        f"functions of more than {FEW} parameters": f"{len(whole.long_signatures)}",
        "… that are commands": f"{sum(place.startswith('cli/') for place in whole.long_signatures)}",
        f"signatures and classes with {SHARED} words of the question": f"{len(whole.repeated_words)}",
        f"pairs of places with {ALIKE} lines alike": f"{len(whole.duplicates)}",
        "imports past a front door": f"{len(whole.past_doors)}",
        "lines of tests": f"{tests}",
        **({} if report is None else {"seconds of tests": f"{test_seconds(report):.0f}"}),
    }


def table(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Both as docs/architecture.md shows them."""
    return [
        "| what | before | now |",
        "|---|---|---|",
        *(f"| {name} | {before[name]} | {now[name]} |" for name in now if name in before),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Print the figures, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--before", type=Path, metavar="FOLDER", help="another checkout to put beside this one")
    add("--seconds", type=Path, metavar="FILE", help="the report of pytest --junitxml on this checkout")
    add("--seconds-before", type=Path, metavar="FILE", help="the same on the other checkout")
    add("--table", action="store_true", help="as a table of docs/architecture.md")
    add("--rooms", action="store_true", help="the mathematical rooms one by one")
    add("--list", action="store_true", help="name the places as well")
    options = parser.parse_args(arguments)
    now = rows(HERE, options.seconds)
    before = rows(options.before, options.seconds_before) if options.before else None
    if options.table and before:
        print("\n".join(table(before, now)))
        return
    for name, value in now.items():
        print(f"{name:58}" + (f"{before.get(name, ''):>13} →" if before else "") + f"{value:>13}")
    counted = modules(HERE) if options.rooms or options.list else {}
    if options.rooms:
        print(f"\n{'a line of code':20}docstrings  comments  guarantees")
        for room in MATHEMATICAL:
            found = figures(counted, (room,))
            comments = found.commented / found.code
            print(f"{room:20}{found.documentation:10.2f}{comments:10.2f}{found.guaranteed:8}/{found.public}")
    if options.list:
        whole = figures(counted)
        for name, places in (
            ("long signatures", whole.long_signatures),
            ("words of the question", whole.repeated_words),
            ("lines alike", whole.duplicates),
            ("past a front door", whole.past_doors),
        ):
            print(f"\n{name}\n  " + "\n  ".join(places))


if __name__ == "__main__":
    main()
