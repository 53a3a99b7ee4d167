# SPDX-License-Identifier: Apache-2.0
"""The rooms of the package and what each may import, read from the sources."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SOURCE = Path(__file__).parent.parent / "src" / "sottovoce"

# Rooms in rows; a room may import only rooms of earlier rows.
ROWS = (
    ("errors",),
    ("files",),
    ("spellings",),
    ("interval",),
    ("forms",),
    ("gaussian",),
    ("krylov",),
    ("graphs",),
    ("protocols",),
    ("views",),
    ("participation",),
    ("scenarios",),
    ("certificates",),
    ("verification",),
    ("filtering",),
    ("feedback",),
    ("rates",),
    ("sensitivities",),
    ("theory",),
    ("accounting",),
    ("coalitions",),
    ("sweeps",),
    ("learning",),
    ("auditing",),
    ("studies",),
    ("documents",),
    ("page",),
    ("report",),
    ("web",),
    ("cli",),
)
ORDER = {room: place for place, row in enumerate(ROWS) for room in row}
FORBIDDEN = {
    "verification": {"filtering", "rates", "sensitivities"},
    "feedback": {"filtering", "rates", "sensitivities"},
    "theory": {"sensitivities"},
    "auditing": {"krylov", "filtering", "rates", "verification"},
}
# The package's facade and its entry point stand outside the rooms, and so does the version that any room may read.
FACADE = {"__init__", "__main__", "_version"}

NUMERICAL = {"numpy", "scipy"}
OUTSIDE: dict[str, set[str]] = {room: set(NUMERICAL) for room in ORDER}
OUTSIDE["errors"] = set()
OUTSIDE["files"] = set()
OUTSIDE["spellings"] = set()
OUTSIDE["interval"] = set()
OUTSIDE["page"] = set()
for room in ("forms", "certificates", "sweeps", "documents", "web"):
    OUTSIDE[room] |= {"msgspec"}
OUTSIDE["graphs"] |= {"networkx"}
OUTSIDE["verification"] |= {"flint"}
OUTSIDE["accounting"] |= {"pandas", "dp_accounting"}
OUTSIDE["sweeps"] |= {"pyarrow", "dask", "distributed"}
OUTSIDE["learning"] |= {"sklearn", "torch"}
OUTSIDE["report"] |= {"matplotlib"}
OUTSIDE["web"] |= {"starlette", "uvicorn", "h11"}
OUTSIDE["cli"] |= {"cyclopts", "rich"}

MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    """The first part of a module's path within the package."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported(tree: ast.AST, path: Path) -> list[str]:
    """The full names of all that is imported anywhere in a module, in functions and for type checking too."""
    package = ["sottovoce", *path.relative_to(SOURCE).parent.parts]
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names += [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _names_a_loader(node.func):
            names += [
                word.value
                for word in node.args
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
    return names


def _names_a_loader(function: ast.expr) -> bool:
    """Whether a call loads a module by its name."""
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return called in {"import_module", "__import__"}


def violations(tree: ast.AST, path: Path) -> list[str]:
    """What a module imports against the table."""
    room = room_of(path)
    found = []
    for name in imported(tree, path):
        first, _, rest = name.partition(".")
        if first == "sottovoce":
            other = rest.partition(".")[0]
            if other in ORDER and other != room and ORDER[other] >= ORDER[room]:
                found.append(f"{room} imports {other}, which stands in a later row")
            if other in FORBIDDEN.get(room, ()):
                found.append(f"{room} must not know {other}")
            if other not in ORDER and other != "_version":
                found.append(f"{room} imports {name}, which is no room")
        elif first not in sys.stdlib_module_names and first not in OUTSIDE[room]:
            found.append(f"{room} imports the outside package {first}")
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def breaking(rule: Callable[[Path], Iterable[str]]) -> list[str]:
    """Every breach of a rule by a module of the package, so that all are shown together."""
    assert len(MODULES) > 100
    return [f"{path.relative_to(SOURCE)}: {breach}" for path in MODULES for breach in rule(path)]


def test_every_module_has_a_place() -> None:
    def misplaced(path: Path) -> Iterator[str]:
        if room_of(path) not in ORDER.keys() | FACADE:
            yield "is in no room"
        if room_of(path) in FACADE and path.parent != SOURCE:
            yield "bears a name of the facade"

    assert breaking(misplaced) == []


def test_rooms_import_only_what_stands_before_them() -> None:
    assert breaking(lambda path: [] if room_of(path) in FACADE else violations(parsed(path), path)) == []


def test_only_the_command_line_prints() -> None:
    def printing(path: Path) -> Iterator[str]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"prints in line {node.lineno}"

    assert breaking(lambda path: [] if room_of(path) == "cli" else printing(path)) == []


def test_no_module_outgrows_its_room() -> None:
    def outgrown(path: Path) -> Iterator[str]:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > 500:
            yield f"has {lines} lines"

    assert breaking(outgrown) == []


def test_every_module_names_its_licence_first() -> None:
    def unlicensed(path: Path) -> Iterator[str]:
        if not path.read_text(encoding="utf-8").startswith("# SPDX-License-Identifier: Apache-2.0\n"):
            yield "does not begin with its licence"

    assert breaking(unlicensed) == []


def test_the_table_names_each_room_once() -> None:
    rooms = [room for row in ROWS for room in row]
    assert len(rooms) == len(set(rooms))
    assert set(OUTSIDE) == set(rooms)


@pytest.mark.parametrize(
    ("room", "code"),
    [
        ("filtering/x.py", "from sottovoce.sensitivities import sensitivity"),
        ("filtering/x.py", "def late():\n    import sottovoce.accounting.verbs"),
        (
            "filtering/x.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sottovoce import rates",
        ),
        ("filtering/x.py", "from ..rates import rate"),
        ("filtering/x.py", "import importlib\nimportlib.import_module('sottovoce.cli')"),
        ("filtering/x.py", "from sottovoce import sensitivity"),
        ("verification/x.py", "from sottovoce.filtering import hidden_system"),
        ("verification/x.py", "from sottovoce.rates import rate"),
        ("theory/x.py", "from sottovoce.sensitivities import absolute_bound"),
        ("errors.py", "import numpy"),
        ("protocols.py", "import networkx as nx"),
        ("accounting/x.py", "from rich.table import Table"),
        ("documents/x.py", "def late():\n    import pandas"),
        ("studies/x.py", "import matplotlib.pyplot"),
    ],
)
def test_an_import_against_the_table_is_found(room: str, code: str) -> None:
    assert len(violations(ast.parse(code), SOURCE / room)) >= 1


@pytest.mark.parametrize(
    ("room", "code"),
    [
        ("filtering/x.py", "from sottovoce.krylov import krylov_bases\nimport numpy as np\nimport math"),
        ("filtering/x.py", "from . import kalman\nfrom .gram import Impulses"),
        (
            "accounting/x.py",
            "def late():\n    import dp_accounting\nfrom sottovoce._version import __version__",
        ),
        ("verification/x.py", "from sottovoce.certificates import Certificate\nfrom scipy import linalg"),
        ("cli/x.py", "from rich.console import Console\nfrom sottovoce.documents import accounts"),
    ],
)
def test_an_import_within_the_table_is_let_through(room: str, code: str) -> None:
    assert violations(ast.parse(code), SOURCE / room) == []
