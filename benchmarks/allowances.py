# SPDX-License-Identifier: Apache-2.0
"""Whether tests notice that an allowance for rounding is a hundredth of what its proof asks for.

Every function that a `rounding` module exports is cut in turn, wherever it was imported, and every method of its
classes: one that returns an error, a room or units returns a hundredth of it; any other counts in units that are a
hundredth as large, and one that counts in none is said to have nothing to cut. The tests about its room then run until
one fails, in a process of their own. `--callers` cuts, module by module, what one module counts
with, and leaves all others as they are.

    python -m benchmarks.allowances [--only NAME] [--callers] [--seconds 60] [room …]

    python -m benchmarks.allowances --only product_error
    python -m benchmarks.allowances --callers --only filtering.windows
"""

from __future__ import annotations

import argparse
import dis
import importlib
import inspect
import os
import pkgutil
import resource
import sys
import time
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest

import sottovoce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    Place = tuple[ModuleType | type, str, Any]
    """A module or class, a name in it, and what stands there instead."""

ROOT = Path(__file__).parent.parent
SHARE = 0.01
ROOMS: dict[str, tuple[str, ...]] = {
    "rounding": ("test_rounding.py", "filtering/test_rounding.py", "sensitivities/test_rounding.py"),
    "krylov": ("test_krylov.py", "test_reduction.py"),
    "gaussian": ("test_gaussian_rounding.py", "test_gaussian.py"),
    "filtering": ("filtering/test_rounding.py", "filtering"),
    "rates": ("rates", "test_rates.py", "test_program_rates.py"),
    "sensitivities": ("sensitivities/test_rounding.py", "sensitivities"),
    "coalitions": ("test_coalition_rounding.py", "test_common_prices.py"),
    "accounting": ("test_accounting.py", "test_sampling.py", "protocols/test_verbs.py"),
    "participation": ("test_participation.py",),
    "feedback": ("feedback",),
    "graphs": ("graphs",),
    "studies": ("studies",),
    "learning": ("learning/test_rounding.py", "learning"),
    "peers": ("peers/test_rounding.py", "peers/test_grid.py", "peers/test_earlier.py"),
    "verification": ("test_verification_rounding.py", "test_balls.py", "test_verification.py"),
}
"""The tests about a room, those that are about its allowances alone first."""

AMOUNTS = (
    "_error",
    "_errors",
    "_room",
    "_units",
    "_margin",
    "_residual",
    "roundings",
    "gamma",
    "gamma_above",
)
"""How names of functions end whose result is an allowance and nothing else."""


def cut(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a hundredth of what it allows, whatever it is wrapped in."""
    function = inspect.unwrap(function)
    assert isinstance(function, FunctionType)
    if function.__name__.endswith(AMOUNTS):
        return lambda *given, **named: SHARE * function(*given, **named)
    return _copied(function, _Cut(function.__globals__))


def holds(function: Callable[..., Any], seen: frozenset[int] = frozenset()) -> bool:
    """Whether a function counts in any unit, itself or by a function of a rounding module: else it cannot be cut."""
    function = inspect.unwrap(function)
    assert isinstance(function, FunctionType)
    if function.__name__.endswith(AMOUNTS):
        return True
    known = {name: function.__globals__.get(name) for name in _names(function.__code__)}
    if any(name.isupper() and isinstance(value, float) for name, value in known.items()):
        return True
    seen |= {id(function)}
    return any(holds(value, seen) for value in known.values() if _is_cut(value) and id(value) not in seen)


def _names(code: CodeType) -> set[str]:
    """The global names that a function asks for, those of functions within it too."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    asked = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
    return asked.union(*map(_names, inner))


def _is_cut(value: object) -> TypeGuard[FunctionType]:
    """Whether something is a function of a rounding module of the package."""
    home = getattr(value, "__module__", "") or ""
    return isinstance(value, FunctionType) and home.endswith("rounding") and home.startswith("sottovoce")


def _copied(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """The same function in a world of other names."""
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class _Cut(dict[str, Any]):
    """The names that a function knows, with units a hundredth as large and all allowances that it asks cut as well."""

    def __init__(self, names: dict[str, Any]) -> None:
        super().__init__(names)
        for name, value in names.items():
            if name.isupper() and isinstance(value, float):
                self[name] = 1 + SHARE * (value - 1) if 1 <= value < 1.1 else SHARE * value
        for name, value in names.items():
            if _is_cut(value):
                plain = inspect.unwrap(value)
                assert isinstance(plain, FunctionType)
                if plain.__name__.endswith(AMOUNTS):
                    self[name] = cut(plain)
                else:
                    # The same names serve all that one module asks of itself.
                    own = self if plain.__globals__ is names else {**plain.__globals__, **_units(plain)}
                    self[name] = _copied(plain, own)


def _units(function: FunctionType) -> dict[str, float]:
    """The constants that a function of another module counts with, a hundredth as large."""
    return {
        name: 1 + SHARE * (value - 1) if 1 <= value < 1.1 else SHARE * value
        for name, value in function.__globals__.items()
        if name.isupper() and isinstance(value, float)
    }


def modules() -> Iterator[ModuleType]:
    """Every module of the package but those that start something or need what may not be installed."""
    for info in pkgutil.walk_packages(sottovoce.__path__, "sottovoce.", onerror=lambda _: None):
        if not info.name.endswith("__main__"):
            try:
                yield importlib.import_module(info.name)
            except ImportError:
                continue


def allowances(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions that a rounding module exports."""
    for name in module.__all__:
        if inspect.isfunction(getattr(module, name)):
            yield name, getattr(module, name)


def methods(module: ModuleType) -> Iterator[tuple[type, str, Any, FunctionType]]:
    """The methods and properties that the classes of a rounding module are written with, and their functions."""
    for kind in [value for value in vars(module).values() if inspect.isclass(value)]:
        if kind.__module__ != module.__name__:
            continue
        for name, value in vars(kind).items():
            function = next(
                (found for part in ("__func__", "fget", "func") if (found := getattr(value, part, None))),
                value,
            )
            # What a dataclass makes of itself is written nowhere.
            if isinstance(function, FunctionType) and function.__code__.co_filename == module.__file__:
                yield kind, name, value, function


def instead_of(kind: type, name: str, value: object, function: FunctionType) -> object:
    """A method or property of a class with a hundredth of what its function allows."""
    if isinstance(value, cached_property):
        found = cached_property(cut(function))
        found.__set_name__(kind, name)
        return found
    wrapped = (classmethod, staticmethod, property)
    return type(value)(cut(function)) if isinstance(value, wrapped) else cut(function)


def swapped(every: Sequence[ModuleType], function: Callable[..., Any]) -> list[Place]:
    """Every place that a function was imported to, and what stands there instead."""
    instead = cut(function)
    return [
        (module, name, instead)
        for module in every
        for name, value in vars(module).items()
        if value is function
    ]


def changes(every: Sequence[ModuleType]) -> Iterator[tuple[str, str, list[Place]]]:
    """Room, name and places of every allowance; no places where there is nothing to cut."""
    for module in every:
        if module.__name__.endswith("rounding"):
            room, place = module.__name__.split(".")[1], module.__name__.removeprefix("sottovoce.")
            for name, function in allowances(module):
                yield room, f"{place}.{name}", swapped(every, function) if holds(function) else []
            for kind, name, value, function in methods(module):
                found: list[Place] = []
                if holds(function):
                    found.append((kind, name, instead_of(kind, name, value, function)))
                yield room, f"{place}.{kind.__name__}.{name}", found


def callers(every: Sequence[ModuleType]) -> Iterator[tuple[str, str, list[Place]]]:
    """Room, module and what it imported of rounding modules, for every module that imports any."""
    known = {id(f) for module in every if module.__name__.endswith("rounding") for _, f in allowances(module)}
    for module in every:
        if module.__name__.endswith(("rounding", "__init__")) or hasattr(module, "__path__"):
            continue
        found: list[Place] = [
            (module, name, cut(value)) for name, value in vars(module).items() if id(value) in known
        ]
        if found:
            yield module.__name__.split(".")[1], module.__name__.removeprefix("sottovoce."), found


class _Watch:
    """Which test failed first, if any ran."""

    def __init__(self) -> None:
        self.said = "tests did not start"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.said = f"noticed by {report.nodeid.partition('tests/')[2]}"
        elif self.said == "tests did not start":
            self.said = "not noticed"


def noticed(room: str, places: Sequence[Place], seconds: int) -> str:
    """What a process said that made the change and ran the tests of the room."""
    if not places:
        return "nothing to cut"
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        for module, name, value in places:
            setattr(module, name, value)
        watch = _Watch()
        # What pytest would rewrite was imported before it began.
        quiet = [
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        # One after the other: given a file and its folder, pytest would take the file when its turn comes in there.
        for tests in (str(ROOT / "tests" / name) for name in ROOMS[room]):
            if not watch.said.startswith("noticed"):
                pytest.main(["-x", "-q", *quiet, tests], plugins=[watch])
        os.write(tell, watch.said.encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said or f"not noticed within {seconds} s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Cut, run, and say for each what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="rooms; all if none is named")
    parser.add_argument("--only", default="", help="a name, or how it ends")
    parser.add_argument(
        "--callers", action="store_true", help="module by module instead of function by function"
    )
    parser.add_argument("--seconds", type=int, default=60, help="processor time for the tests of one change")
    given = parser.parse_args(arguments)
    every = list(modules())
    total: dict[str, int] = {}
    for room, name, places in (callers if given.callers else changes)(every):
        if (given.rooms and room not in given.rooms) or not name.endswith(given.only):
            continue
        began = time.perf_counter()
        found = noticed(room, places, given.seconds)
        word = found.partition(" by ")[0]
        total[word] = total.get(word, 0) + 1
        sys.stdout.write(f"{name} ({len(places)} places, {time.perf_counter() - began:.0f} s): {found}\n")
        sys.stdout.flush()
    sys.stdout.write("; ".join(f"{count} {word}" for word, count in sorted(total.items())) + "\n")


if __name__ == "__main__":
    main()
