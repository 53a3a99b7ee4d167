# SPDX-License-Identifier: Apache-2.0
"""Graphs by specification: a family and its parameters in one string, as in "ring:n=10"."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.errors import GraphError
from sottovoce.graphs import families, random_families
from sottovoce.spellings import Spelling, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sottovoce.graphs.model import Graph

__all__ = ["FAMILIES", "Family", "Parameter", "generate_graph", "graph_size", "nearest_family"]

NODE_LIMIT = 50_000_000


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A number that a family asks for, between `lowest` and `highest`."""

    whole: bool = True
    lowest: int = 1
    highest: int = NODE_LIMIT
    default: int | None = None

    @property
    def rule(self) -> str:
        """What the parameter must be, in words."""
        return f"a {'whole ' if self.whole else ''}number from {self.lowest} to {self.highest}"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A kind of graph: the function that makes it, its size, its parameters, and a rule that ties them together.

    `size` tells the nodes and the edges from the parameters; chance yields fewer edges with a probability below
    1e-20. `conflict` returns the broken rule and its remedy, or None.
    """

    make: Callable[..., Graph]
    size: Callable[..., tuple[int, int]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    conflict: Callable[..., str | None] = lambda **_: None


def _preferential_conflict(*, n: int, core: int, links: int, **_: object) -> str | None:
    if links > core:
        return (
            f"links must be at most core; got links={links}, core={core} (take fewer links or a larger core)"
        )
    if core > n:
        return f"core must be at most n; got core={core}, n={n} (take a smaller core)"
    return None


def _regular_conflict(*, n: int, d: int, **_: object) -> str | None:
    if d >= n:
        return f"d must be below n; got d={d}, n={n} (a node has at most {n - 1} neighbours)"
    if n * d % 2:
        return f"n times d must be even; got n={n}, d={d} (take d={d + 1} or n={n + 1})"
    return None


def _small_world_conflict(*, n: int, k: int, **_: object) -> str | None:
    if k % 2:
        return f"k must be even, half of it to each side; got k={k} (take k={k + 1})"
    if k >= n:
        return f"k must be below n; got k={k}, n={n} (take a smaller k)"
    return None


def _grid_conflict(*, rows: int, cols: int) -> str | None:
    if rows * cols < 2:
        return f"there must be at least 2 nodes; got rows={rows}, cols={cols} (take a longer side)"
    if rows * cols > NODE_LIMIT:
        return f"there must be at most {NODE_LIMIT} nodes; got rows={rows}, cols={cols} (take shorter sides)"
    return None


def _cliques_conflict(*, base: tuple[int, int], size: int) -> str | None:
    if base[0] * size > NODE_LIMIT:
        return f"there must be at most {NODE_LIMIT} nodes; got {base[0]} cliques of size={size} (take smaller ones)"
    return None


def _cliques_size(*, base: tuple[int, int], size: int) -> tuple[int, int]:
    nodes, edges = base
    return nodes * size, edges * size**2 + nodes * size * (size - 1) // 2


def _erdos_renyi_size(*, n: int, p: float, **_: object) -> tuple[int, int]:
    mean = p * n * (n - 1) / 2
    # Chernoff: a sum of independent chances stays below its mean by 10 √mean with probability at most e⁻⁵⁰.
    return n, max(0, int(mean - 10 * math.sqrt(mean)))


def _exponential_size(*, n: int) -> tuple[int, int]:
    steps = [1 << k for k in range((n - 1).bit_length())]
    return n, n * len({step % n for step in steps} | {-step % n for step in steps}) // 2


_NODES = Parameter(lowest=2)
_SEED = Parameter(lowest=0, highest=2**63 - 1, default=0)
_CHANCE = Parameter(whole=False, lowest=0, highest=1)
_SIDE = Parameter(lowest=3)

FAMILIES: Mapping[str, Family] = {
    "erdos-renyi": Family(
        make=random_families.erdos_renyi,
        size=_erdos_renyi_size,
        parameters={"n": _NODES, "p": _CHANCE, "seed": _SEED},
    ),
    "preferential": Family(
        make=random_families.preferential,
        size=lambda n, core, links, **_: (n, core * (core - 1) // 2 + (n - core) * links),
        parameters={"n": _NODES, "core": Parameter(lowest=2), "links": Parameter(), "seed": _SEED},
        conflict=_preferential_conflict,
    ),
    "ring": Family(make=families.ring, size=lambda n: (n, n if n > 2 else 1), parameters={"n": _NODES}),
    "path": Family(make=families.path, size=lambda n: (n, n - 1), parameters={"n": _NODES}),
    "star": Family(make=families.star, size=lambda n: (n, n - 1), parameters={"n": _NODES}),
    "complete": Family(
        make=families.complete, size=lambda n: (n, n * (n - 1) // 2), parameters={"n": _NODES}
    ),
    "grid": Family(
        make=families.grid,
        size=lambda rows, cols: (rows * cols, rows * (cols - 1) + (rows - 1) * cols),
        parameters={"rows": Parameter(), "cols": Parameter()},
        conflict=_grid_conflict,
    ),
    "torus": Family(
        make=families.torus,
        size=lambda rows, cols: (rows * cols, 2 * rows * cols),
        parameters={"rows": _SIDE, "cols": _SIDE},
        conflict=_grid_conflict,
    ),
    "hypercube": Family(
        make=families.hypercube,
        size=lambda dim: (1 << dim, dim << dim >> 1),
        parameters={"dim": Parameter(highest=24)},
    ),
    "random-regular": Family(
        make=random_families.random_regular,
        size=lambda n, d, **_: (n, n * d // 2),
        parameters={"n": _NODES, "d": Parameter(), "seed": _SEED},
        conflict=_regular_conflict,
    ),
    "small-world": Family(
        make=random_families.small_world,
        size=lambda n, k, **_: (n, n * k // 2),
        parameters={"n": _NODES, "k": Parameter(lowest=2), "p": _CHANCE, "seed": _SEED},
        conflict=_small_world_conflict,
    ),
    "exponential": Family(make=families.exponential, size=_exponential_size, parameters={"n": _NODES}),
    # Its base is another family, whose parameters stand beside `size`; the rules are told the size of the base.
    "cliques": Family(
        make=families.cliques,
        size=_cliques_size,
        parameters={"size": Parameter()},
        conflict=_cliques_conflict,
    ),
    "karate": Family(make=families.karate, size=lambda: (34, 78)),
    "les-miserables": Family(make=families.les_miserables, size=lambda: (77, 254)),
    "florentine": Family(make=families.florentine, size=lambda: (15, 20)),
}


def generate_graph(spec: str) -> Graph:
    """The graph that a specification "family:name=value,…" describes; a seed left out is 0.

    Families and their parameters: erdos-renyi (n, p, seed), preferential (n, core, links, seed), ring,
    path, star, complete and exponential (n), grid and torus (rows, cols), hypercube (dim), random-regular
    (n, d, seed), small-world (n, k, p, seed), and the real graphs karate, les-miserables and florentine.
    In cliques (base, size, and the parameters of the base) every node of another family is a clique.

    >>> generate_graph("torus:rows=3,cols=4").edges
    24
    >>> generate_graph("cliques:base=ring,n=20,size=5").n
    100
    """
    return replace(_described(spelled(spec, GraphError)).make(), name=spec.strip())


def graph_size(spec: str) -> tuple[int, int]:
    """How many nodes and edges the graph of a specification will have; of edges drawn by chance, rather too few.

    >>> graph_size("grid:rows=2000,cols=2000")
    (4000000, 7996000)
    """
    return _described(spelled(spec, GraphError)).size


class _Described(NamedTuple):
    """What a specification describes: how to make the graph, and how large it will be."""

    make: Callable[[], Graph]
    size: tuple[int, int]


def _described(given: Spelling, within: str = "") -> _Described:
    """The graph that a specification describes; `within` stands before the parameters of a base."""
    name = given.name
    if name not in FAMILIES:
        near = nearest_family(name)
        guess = f"did you mean {near}? " if near else ""
        raise GraphError(
            f"there is no family of graphs called {name!r} ({guess}families are {', '.join(FAMILIES)})"
        )
    if name == "cliques":
        return _blown_up(given)
    values = _values(given, FAMILIES[name], within)
    _check(name, **values)
    return _Described(partial(FAMILIES[name].make, **values), FAMILIES[name].size(**values))


def _blown_up(given: Spelling) -> _Described:
    """The cliques that a specification describes: its `base` with the parameters that are left, and their `size`."""
    remedy = "write cliques:base=ring,n=20,size=5 or the like"
    own, passed = {}, dict(given.keyed)
    for key in ("base", "size"):
        if key not in passed:
            raise GraphError(f"cliques: the parameter {key} is missing ({remedy})")
        own[key] = passed.pop(key)
    if own["base"] == "cliques":
        raise GraphError(
            f"cliques: base must be another family; got 'cliques' (take a larger size: {remedy})"
        )
    size = int(_number("cliques", "size", own["size"], FAMILIES["cliques"].parameters["size"]))
    base = _described(Spelling(own["base"], given.plain, passed), f"cliques:base={own['base']},size={size}")
    _check("cliques", base=base.size, size=size)
    return _Described(
        lambda: families.cliques(base.make(), size), FAMILIES["cliques"].size(base=base.size, size=size)
    )


def _check(name: str, **values: object) -> None:
    """Refuse parameters that do not go together."""
    broken = FAMILIES[name].conflict(**values)
    if broken is not None:
        raise GraphError(f"{name}: {broken}")


def nearest_family(name: str) -> str | None:
    """The family whose name comes nearest to `name`, if any comes near."""
    return next(iter(difflib.get_close_matches(name.strip().lower(), FAMILIES, n=1)), None)


def _values(given: Spelling, family: Family, within: str) -> dict[str, float]:
    """The parameters of a specification, checked one by one."""
    name = given.name
    example = ",".join(f"{key}=…" for key in family.parameters)
    opening = f"{within}," if within else f"{name}:"
    remedy = f"write {opening}{example}" if example else f"write {within or name} alone"
    values: dict[str, float] = {}
    for item in given.plain:
        raise GraphError(f"{name}: parameters are written name=value; got {item!r} ({remedy})")
    for key, text in given.keyed.items():
        if key not in family.parameters:
            raise GraphError(f"{name}: there is no parameter {key!r} ({remedy})")
        values[key] = _number(name, key, text, family.parameters[key])
    for key, parameter in family.parameters.items():
        if key not in values:
            if parameter.default is None:
                raise GraphError(f"{name}: the parameter {key} is missing ({remedy})")
            values[key] = parameter.default
    return values


def _number(family: str, key: str, text: str, parameter: Parameter) -> float:
    try:
        value = int(text) if parameter.whole else float(text)
    except ValueError:
        value = math.nan
    if not parameter.lowest <= value <= parameter.highest:
        raise GraphError(
            f"{family}: {key} must be {parameter.rule}; got {text!r} (as in {key}={_example(parameter)})"
        )
    return value


def _example(parameter: Parameter) -> str:
    return str(max(parameter.lowest, 10 if parameter.highest > 24 else 4)) if parameter.whole else "0.1"
