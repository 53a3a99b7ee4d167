# SPDX-License-Identifier: Apache-2.0
"""Whether laws notice a change of the package, and whether they would on more examples.

One place of a function at a time is changed: a sign or a factor turned round, a summand left out, a comparison turned
round, the smaller taken for the larger. The laws about its module are tried until one fails, on MORE times as many
examples as every day; what these notice is tried on those of every day. Each change lives in a process of its own.

    python -m benchmarks.laws [--count 10] [--seed 1] [group …]

What `--count 6` showed of all groups but the last two, whose laws take half a minute a change: of 36 changes laws
noticed 13 on 2.5 times as many examples, and 12 on the 50 to 80 of every day. The one between is in the filter of
programs, where an index goes wrong in rare shapes; their two laws are tried on 120 examples since. Most changes of
allowances pass on any number: they are what tests in 256 bits are for.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import random
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "sottovoce", ROOT / "tests"
NOT_MADE = "not made"
EVERYDAY, MORE = 50, 2.5
"""On how many examples a law is tried at least unless they cost much, and how many times as many are tried here."""

SECONDS = 300
"""How much processor time one change may take; who takes more has been noticed."""

GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "interval": (("interval.py",), ("test_interval.py",)),
    "rows": (("filtering/rowspace.py",), ("filtering/test_rowspace.py",)),
    "programs": (
        tuple(f"filtering/{name}.py" for name in ("decorrelation", "innovations", "program_forms", "stages")),
        ("laws/test_program_laws.py", "laws/test_program_certificate_laws.py"),
    ),
    "gaussian": (("gaussian/*.py",), ("laws/test_gaussian_laws.py",)),
    "coalitions": (("coalitions/*.py",), ("laws/test_coalition_laws.py",)),
    "verification": (
        tuple(f"verification/{name}.py" for name in ("forms", "definition", "checking", "ends", "hidden")),
        ("laws/test_verification_laws.py",),
    ),
    "forms": (
        ("sensitivities/rounding.py", "sensitivities/one_form/*.py"),
        ("sensitivities/one_form/test_dual.py", "laws/test_sensitivity_laws.py"),
    ),
    "filtering": (
        tuple(f"filtering/{name}.py" for name in ("kalman", "response", "rounding")),
        ("laws/test_sensitivity_laws.py",),
    ),
}
"""What is changed, and the tests whose laws are about it."""

TURNED: dict[type[ast.AST], Any] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
EXCHANGED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True)
class Change:
    """One place of one function, and the code of the function with it."""

    file: Path
    line: int
    what: str
    code: CodeType

    def make(self) -> None:
        """Give every function that has the old code the new one."""
        gc.unfreeze()
        found = [
            each for each in gc.get_objects() if isinstance(each, FunctionType) and self._is_of(each.__code__)
        ]
        assert found, f"nobody has imported {self.code.co_qualname} of {self.file}"
        for each in found:
            each.__code__ = self.code

    def _is_of(self, code: CodeType) -> bool:
        here = (code.co_filename, code.co_qualname, code.co_firstlineno)
        return here == (str(self.file), self.code.co_qualname, self.code.co_firstlineno)


@dataclass(frozen=True)
class Place:
    """One way to change one place of a function."""

    file: Path
    function: tuple[str, int]
    number: int
    way: int

    def changed(self) -> Change:
        """The change, and the code of the function with it."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        function = next(each for each in _functions(tree) if (each.name, each.lineno) == self.function)
        node = list(ast.walk(function))[self.number]
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        what, line = _change(node, self.way), getattr(node, "lineno", 0)
        codes = _codes(compile(ast.fix_missing_locations(tree), str(self.file), "exec"))
        code = next(each for each in codes if (each.co_name, each.co_firstlineno) == (function.name, first))
        return Change(self.file, line, what, code)


def places(file: Path) -> list[Place]:
    """Every change of a module that the laws may be tried on."""
    return [
        Place(file, (function.name, function.lineno), number, way)
        for function in _functions(ast.parse(file.read_text(encoding="utf-8")))
        for number, node in enumerate(ast.walk(function))
        for way in range(_ways(node))
    ]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions and methods of a module; what stands in a function belongs to it."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (each for each in inside if isinstance(each, ast.FunctionDef))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _name(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _ways(node: ast.AST) -> int:
    """In how many ways a place can be changed."""
    if isinstance(node, ast.BinOp) and type(node.op) in TURNED:
        return 2 if isinstance(node.op, ast.Add | ast.Sub) else 1
    if isinstance(node, ast.Compare):
        return int(type(node.ops[0]) in TURNED)
    return int(isinstance(node, ast.Call) and _name(node) in EXCHANGED)


def _change(node: Any, way: int) -> str:  # noqa: ANN401
    """Change a place; say how."""
    before = ast.unparse(node)
    if isinstance(node, ast.Call):
        name = EXCHANGED[_name(node)]
        setattr(node.func, "attr" if isinstance(node.func, ast.Attribute) else "id", name)
    elif isinstance(node, ast.Compare):
        node.ops[0] = TURNED[type(node.ops[0])]()
    elif way:
        zero = ast.BinOp(left=node.right, op=ast.Mult(), right=ast.Constant(0))
        node.right = zero
    else:
        node.op = TURNED[type(node.op)]()
    return f"{before} → {ast.unparse(node)}"


class Trial:
    """In place of running the tests: runs their laws once for every change, in a child each."""

    def __init__(self, chosen: Sequence[Change]) -> None:
        self.chosen = chosen
        self.ends: list[tuple[Change, list[str]]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every change on many examples, and what these notice on few."""
        laws: list[Any] = [
            item for item in session.items if getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        ]
        assert _tried(laws, None, 1.0) == "", "a law fails without any change"
        for change in self.chosen:
            begun = time.process_time() + _children()
            ends = [_tried(laws, change, MORE)]
            if ends[0]:
                ends.append(_tried(laws, change, 1.0))
            self.ends.append((change, ends))
            where = f"{change.file.relative_to(SOURCE)}:{change.line}"
            spent = time.process_time() + _children() - begun
            told = " | ".join(end or "-" for end in ends)
            print(
                f"{spent:6.1f} s  {where}  {change.what[:90]}\n          {told}",
                file=sys.__stdout__,
                flush=True,
            )
        return True


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tried(laws: Sequence[Any], change: Change | None, factor: float) -> str:
    """The first law that a child finds broken; none if all hold."""
    heard, told = os.pipe()
    child = os.fork()
    if not child:
        end = NOT_MADE
        try:
            if change is not None:
                change.make()
            end = _first_broken(laws, factor)
        finally:
            os.write(told, end.encode())
            os._exit(0)
    os.close(told)
    _, status = os.waitpid(child, 0)
    with os.fdopen(heard) as reader:
        end = reader.read()
    assert end != NOT_MADE, f"{end}: {change}"
    return end or ("out of time or killed" if status else "")


def _first_broken(laws: Sequence[Any], factor: float) -> str:
    # Whoever imports it before pytest does is warned.
    from hypothesis import Phase, settings

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    for law in laws:
        function = getattr(law.obj, "__func__", law.obj)
        asked = function._hypothesis_internal_use_settings
        tried = asked.max_examples
        function._hypothesis_internal_use_settings = settings(
            asked,
            max_examples=round(tried * factor) if tried >= EVERYDAY else tried,
            phases=(Phase.explicit, Phase.generate),
        )
        try:
            law.obj(**(law.callspec.params if hasattr(law, "callspec") else {}))
        except BaseException as error:
            return f"{law.name}: {type(error).__name__}"
    return ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Change the package in some places of every group, and count what laws notice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], default=[])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for group in options.groups or GROUPS:
        patterns, tests = GROUPS[group]
        rng = random.Random(f"{group} {options.seed}")
        every = [place for each in patterns for file in sorted(SOURCE.glob(each)) for place in places(file)]
        trial = Trial([place.changed() for place in rng.sample(every, min(options.count, len(every)))])
        pytest.main(
            ["-q", "-p", "no:cacheprovider", "-s", *(str(TESTS / test) for test in tests)], plugins=[trial]
        )
        more, few = (sum(len(ends) > k and bool(ends[k]) for _, ends in trial.ends) for k in range(2))
        print(
            f"{group}: {len(trial.ends)} of {len(every)} changes, {few} noticed, {more} on {MORE} times the examples"
        )


if __name__ == "__main__":
    main()
