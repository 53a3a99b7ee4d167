# SPDX-License-Identifier: Apache-2.0
"""Figures of the house itself: how much code there is, how much of it explains, and what it repeats.

`python -m benchmarks.house --before FOLDER` puts another checkout beside this one.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent.parent
MATHEMATICAL = (
    "gaussian",
    "krylov",
    "filtering",
    "rates",
    "sensitivities",
    "feedback",
    "verification",
    "theory",
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


@dataclass(kw_only=True)
class Figures:
    """What is counted, over all modules or over those of some rooms."""

    modules: int = 0
    code: int = 0
    explained: int = 0
    public: int = 0
    guaranteed: int = 0
    long_signatures: list[str] = field(default_factory=list)
    repeated_words: list[str] = field(default_factory=list)
    past_doors: list[str] = field(default_factory=list)


def figures(folder: Path, rooms: tuple[str, ...] | None = None) -> Figures:
    """The figures of a checkout, or of some of its rooms."""
    source = folder / "src" / "sottovoce"
    found = Figures()
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).with_suffix("").as_posix()
        if rooms is None or name.partition("/")[0] in rooms:
            _count(found, path.read_text(encoding="utf-8"), name)
    return found


def _count(found: Figures, text: str, name: str) -> None:
    """Add one module."""
    tree = ast.parse(text)
    documented = _docstring_lines(tree)
    comments, code = _lines(text)
    found.modules += 1
    found.explained += len(documented | comments)
    found.code += len(code - documented)
    for node in ast.walk(tree):
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
            if len(parts) > 2 and parts[1] != name.partition("/")[0]:
                found.past_doors.append(f"{name}: {node.module}")


def _signature(found: Figures, node: ast.FunctionDef, name: str) -> None:
    """Add one function: its parameters, and whether it says what it guarantees."""
    arguments = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if len(arguments) > FEW:
        found.long_signatures.append(f"{name}:{node.name}")
    _words(found, set(arguments), f"{name}:{node.name}")
    if not node.name.startswith("_"):
        found.public += 1
        found.guaranteed += "Guarantee" in (ast.get_docstring(node) or "")


def _words(found: Figures, held: set[str], name: str) -> None:
    """Add one list of names if it repeats the question."""
    if len(held & WORDS) >= SHARED:
        found.repeated_words.append(name)


def _docstring_lines(tree: ast.AST) -> set[int]:
    """The lines that docstrings fill, those of fields too."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
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


def rows(folder: Path) -> dict[str, str]:
    """What is printed of a checkout, by its name."""
    whole, mathematics = figures(folder), figures(folder, MATHEMATICAL)
    tests = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in (folder / "tests").rglob("*.py")
    )
    return {
        "modules": f"{whole.modules}",
        "lines of code": f"{whole.code}",
        "lines that explain": f"{whole.explained}",
        "… a line of code, mathematical rooms": f"{mathematics.explained / mathematics.code:.2f}",
        "public functions of the mathematical rooms": f"{mathematics.public}",
        "… that state a guarantee": f"{mathematics.guaranteed}",
        f"functions of more than {FEW} parameters": f"{len(whole.long_signatures)}",
        f"signatures and classes with {SHARED} words of the question": f"{len(whole.repeated_words)}",
        "imports past a front door": f"{len(whole.past_doors)}",
        "lines of tests": f"{tests}",
    }


def main(arguments: list[str] | None = None) -> None:
    """Print the figures, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout to put beside this one"
    )
    parser.add_argument(
        "--rooms", action="store_true", help="lines that explain a line of code, room by room"
    )
    parser.add_argument("--list", action="store_true", help="name the places as well")
    options = parser.parse_args(arguments)
    now, before = rows(HERE), rows(options.before) if options.before else None
    for name, value in now.items():
        print(f"{name:58}" + (f"{before[name]:>8} →" if before else "") + f"{value:>8}")
    if options.rooms:
        for room in MATHEMATICAL:
            found = figures(HERE, (room,))
            print(
                f"{room:20}{found.explained / found.code:6.2f}  guarantees {found.guaranteed}/{found.public}"
            )
    if options.list:
        whole = figures(HERE)
        for name, places in (
            ("long signatures", whole.long_signatures),
            ("words of the question", whole.repeated_words),
            ("past a front door", whole.past_doors),
        ):
            print(f"\n{name}\n  " + "\n  ".join(places))


if __name__ == "__main__":
    main()
