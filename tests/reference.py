# SPDX-License-Identifier: Apache-2.0
"""Sensitivities straight from the definition, in whole numbers: no rounding, no pseudoinverse, no filter.

Everything here is written from the model s_t = W s_{t−1} + x_t + u_t alone and shares no code with the package, except
the `View` values it reads.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from flint import fmpq_mat, fmpz_mat
from hypothesis import strategies as st

from sottovoce.graphs import GossipWeights, Graph, matrix_weights
from sottovoce.protocols import Combine, Draw, Exchange, Program
from sottovoce.views import View

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "sensitivity.json").read_text())[
    "cases"
]

Rows = list[list[Fraction]]


def gossip_program(damping: Any = None) -> Program:
    """The program of gossip, with one number a node on the model."""
    factor = 1 if damping is None else tuple(float(x) for x in damping)
    return Program(
        keeps=("model",),
        draws=(Draw("u"),),
        instructions=(
            Combine("message", {"model": factor, "contribution": 1, "u": 1}),
            Exchange("message", "model"),
        ),
    )


@dataclass(frozen=True)
class ExactForm:
    """M = numerators / denominator, exactly."""

    numerators: np.ndarray
    denominator: int

    @property
    def floats(self) -> np.ndarray:
        return np.array(
            [[float(Fraction(int(x), self.denominator)) for x in row] for row in self.numerators]
        ).reshape(self.numerators.shape)

    def value(self, signs: np.ndarray) -> Fraction:
        """cᵀMc for whole c."""
        c = np.array([int(x) for x in signs], dtype=object)
        return Fraction(int(c @ self.numerators @ c), self.denominator)

    def within(self, rounds: np.ndarray) -> ExactForm:
        """M restricted to some of the rounds."""
        return ExactForm(self.numerators[np.ix_(rounds, rounds)], self.denominator)

    def scalar_maximum(self) -> Fraction:
        """The largest cᵀMc over signs, all of them tried."""
        rounds = len(self.numerators)
        rest = list(itertools.product((1, -1), repeat=rounds - 1))
        signs = np.array([(1, *signs) for signs in rest], dtype=object).reshape(len(rest), rounds)
        return Fraction(int(((signs @ self.numerators) * signs).sum(axis=1).max()), self.denominator)


def exact_form(
    W: Rows, C: Rows, known: list[int], target: int, rounds: int, stream: np.ndarray | None = None
) -> ExactForm:
    """M = Gᵀ(N Nᵀ)⁻G in whole numbers, by p-adic solution of (N Nᵀ) X = G; rows that add nothing are left out.

    Row t of H_T is multiplied by a power of the common denominator, which leaves M as it is. With a `stream` c of
    whole numbers only the one entry cᵀMc is worked out.
    """
    n, m = len(W), len(C)
    D, whole = _whole(W)
    _, rows = _whole(C)
    powers = [rows]
    for _ in range(rounds - 1):
        powers.append(powers[-1] @ whole)
    H = np.zeros((m * rounds, n * rounds), dtype=object)
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = powers[t - s] * D**s
    G = H[:, target::n]
    if stream is not None:
        G = G @ np.array([[int(x)] for x in stream], dtype=object)
    N = fmpz_mat(H[:, [s * n + k for s in range(rounds) for k in range(n) if k not in known]].tolist())
    K = N * N.transpose()
    # K is positive semidefinite, so its pivot columns are rows of N that no others make up, all there are.
    echelon, _, rank = K.rref()
    kept = [next(j for j in range(K.ncols()) if echelon[i, j]) for i in range(rank)]
    if not kept:
        return ExactForm(numerators=np.zeros((G.shape[1],) * 2, dtype=object), denominator=1)
    given = fmpz_mat(G[kept].tolist())
    chosen = fmpq_mat(fmpz_mat([[K[i, j] for j in kept] for i in kept]))
    solved = chosen.solve(fmpq_mat(given))
    numerators, denominator = (fmpq_mat(given.transpose()) * solved).numer_denom()
    entries = [[int(x) for x in row] for row in numerators.tolist()]
    return ExactForm(numerators=np.array(entries, dtype=object), denominator=int(denominator))


def _whole(rows: Rows) -> tuple[int, np.ndarray]:
    """The common denominator of all entries, and the whole numbers above it."""
    common = math.lcm(1, *(x.denominator for row in rows for x in row))
    width = len(rows[0]) if rows else 0
    numbers = np.array([[int(x * common) for x in row] for row in rows], dtype=object)
    return common, numbers.reshape(len(rows), width)


def rational(matrix: Any) -> Rows:
    """A float matrix as the rationals that its entries are."""
    return [[Fraction(float(x)) for x in row] for row in np.asarray(matrix)]


def exact_weights(weights: GossipWeights) -> Rows:
    """The gossip matrix of weights built by a rule, in rationals."""
    rows = [[Fraction(0)] * weights.n for _ in range(weights.n)]
    for i in range(weights.n):
        for j, x in weights.exact_row(i).items():
            rows[i][j] = x
    return rows


def seen_and_known(view: View, W: Rows) -> tuple[Rows, list[int]]:
    """What a view observes (rows over the nodes) and whose noise it knows: the table of threat models, read anew."""
    n = len(W)
    unit = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    if view.name == "everyone":
        return unit, []
    if view.name == "custom":
        return rational(view.observation), [int(str(k)) for k in view.known_noise]
    who = [int(str(k)) for k in view.observers]
    known = who if view.own_noise == "known" else []
    senders = sorted({j for i in who for j in range(n) if W[i][j] and j != i})
    match view.name:
        case "neighbourhood":
            return [unit[j] for j in sorted({*who, *senders})], known
        case "single-node":
            return [unit[i] for i in who], known
        case "coalition-messages":
            return [unit[j] for j in senders if j not in who], known
        case _:
            return [W[i] for i in who], known


def definition(weights: GossipWeights, view: View, target: int, rounds: int) -> ExactForm:
    """M of one target of a view, exactly."""
    W = exact_weights(weights)
    rows, known = seen_and_known(view, W)
    return exact_form(W, rows, known, target, rounds)


def exact_value(weights: GossipWeights, view: View, target: int, stream: np.ndarray) -> Fraction:
    """cᵀMc for one stream of whole numbers, exactly; cheaper than the whole form."""
    W = exact_weights(weights)
    rows, known = seen_and_known(view, W)
    return exact_form(W, rows, known, target, len(stream), stream).value(np.ones(1))


def semidefinite_maximum(form: np.ndarray) -> float:
    """max ⟨M, X⟩ over X ⪰ 0, X_tt = 1, by a general solver, to about 1e-7."""
    given, problem = _semidefinite(len(form))
    given.value = (form + form.T) / 2
    problem.solve(solver="CLARABEL", warm_start=False, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return float(problem.value)


@cache
def _semidefinite(rounds: int) -> tuple[Any, Any]:
    """The matrix M and the problem that it is put into, which is brought into standard form once for each size."""
    cvxpy: Any = importlib.import_module("cvxpy")
    given, X = cvxpy.Parameter((rounds, rounds)), cvxpy.Variable((rounds, rounds), PSD=True)
    problem = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(given, X))), [cvxpy.diag(X) == 1])
    return given, problem


def graph_of(case: dict[str, Any]) -> Graph:
    """The graph of a stored case."""
    adjacency = np.zeros((case["n"], case["n"]))
    for a, b in case["edges"]:
        adjacency[a, b] = adjacency[b, a] = 1
    return Graph(
        adjacency=scipy.sparse.csr_array(adjacency), labels=range(case["n"]), directed=False, weighted=False
    )


def named_view(case: dict[str, Any]) -> View:
    """The view that a stored case calls by its threat."""
    threat, _, noise = case["threat"].partition(", own noise ")
    own: Any = noise or ("hidden" if threat == "single-node" else "known")
    who = case["observer"]
    match threat:
        case "everyone":
            return View.everyone
        case "secure-sum":
            return View.secure_sum(who[0], own_noise=own)
        case "single-node":
            return View.single_node(who[0], own_noise=own)
        case "neighbourhood":
            return View.neighbourhood(who[0], own_noise=own)
        case "coalition-sums":
            return View.coalition_sums(who, own_noise=own)
        case "coalition-messages":
            return View.coalition_messages(who, own_noise=own)
        case _:
            return View(observation=np.eye(case["n"])[who], known_noise=who if own == "known" else [])


def custom_view(case: dict[str, Any]) -> View:
    """The same view, as the stored rows and known nodes."""
    return View(observation=case["observation"], known_noise=case["known_noise"])


@dataclass(frozen=True)
class Scene:
    """A small protocol and a view of it, with every number exact in floats."""

    weights: GossipWeights
    view: View
    target: int
    rounds: int

    @functools.cached_property
    def form(self) -> ExactForm:
        return definition(self.weights, self.view, self.target, self.rounds)


@st.composite
def dyadic_weights(draw: Any, symmetric: bool | None = None) -> GossipWeights:
    """Connected gossip weights on 2 to 6 nodes in 64ths, which floats hold exactly; symmetric or row-stochastic."""
    n = draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    links = np.triu(rng.random((n, n)) < draw(st.sampled_from([0.2, 0.5, 0.9])), 1)
    order = rng.permutation(n)
    for a, b in itertools.pairwise(order):
        links[min(a, b), max(a, b)] = True
    links = links | links.T
    even = draw(st.booleans())
    most = 64 // n
    shares = np.where(links, most if even else rng.integers(1, most + 1, (n, n)), 0)
    if draw(st.booleans()) if symmetric is None else symmetric:
        shares = np.triu(shares, 1) + np.triu(shares, 1).T
    else:
        # Some links become one-way; a directed ring keeps every node within reach of every other.
        shares = np.where(rng.random((n, n)) < 0.3, 0, shares)
        for a, b in itertools.pairwise([*order, order[0]]):
            shares[a, b] = max(shares[a, b], 1) if a != b else shares[a, b]
    shares[np.diag_indices(n)] = 0
    shares[np.diag_indices(n)] = 64 - shares.sum(axis=1)
    return matrix_weights(shares / 64)


@st.composite
def views(draw: Any, n: int) -> View:
    """Any view of n nodes that leaves at least one node's noise hidden."""
    kind = draw(
        st.sampled_from(
            [
                "everyone",
                "neighbourhood",
                "secure-sum",
                "single-node",
                "coalition-sums",
                "coalition-messages",
                "rows",
            ]
        )
    )
    if kind == "everyone":
        return View.everyone
    own: Any = draw(st.sampled_from(["known", "hidden"]))
    nodes = draw(st.permutations(range(n)))
    several = nodes[: draw(st.integers(1, max(1, n - 1)))]
    match kind:
        case "neighbourhood":
            return View.neighbourhood(nodes[0], own_noise=own)
        case "secure-sum":
            return View.secure_sum(nodes[0], own_noise=own)
        case "single-node":
            return View.single_node(nodes[0], own_noise=own)
        case "coalition-sums":
            return View.coalition_sums(several, own_noise=own)
        case "coalition-messages":
            return View.coalition_messages(several, own_noise=own)
    entries = st.sampled_from([-1.0, 0.0, 0.0, 0.5, 1.0, 2.0])
    row = st.lists(entries, min_size=n, max_size=n)
    rows = draw(st.lists(row, min_size=1, max_size=3).filter(lambda some: any(map(any, some))))
    return View(observation=rows, known_noise=nodes[: draw(st.integers(0, n - 1))])


@st.composite
def scenes(draw: Any, most_rounds: int = 6, symmetric: bool | None = None) -> Scene:
    """A small protocol, any view of it, and a target whose noise the view does not know."""
    weights = draw(dyadic_weights(symmetric=symmetric))
    view = draw(views(weights.n))
    known = seen_and_known(view, exact_weights(weights))[1]
    target = draw(st.sampled_from([k for k in range(weights.n) if k not in known]))
    return Scene(weights, view, target, draw(st.integers(1, most_rounds)))


def relabelled(weights: GossipWeights, order: np.ndarray) -> GossipWeights:
    """The same weights with node order[k] called k."""
    return matrix_weights(scipy.sparse.csr_array(weights.matrix.toarray()[np.ix_(order, order)]))
