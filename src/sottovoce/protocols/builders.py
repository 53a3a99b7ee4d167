# SPDX-License-Identifier: Apache-2.0
"""The protocols people use, each a few instructions; a new one is a new `Program`, no code."""

from __future__ import annotations

import math
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from sottovoce.errors import GraphError, InputError, at_least, at_most, one_of
from sottovoce.graphs import (
    GossipWeights,
    Quotients,
    Sums,
    as_graph,
    as_weights,
    canonical_matrix,
    check_sums,
    is_symmetric,
    row_indices,
    spectrum,
)
from sottovoce.protocols.program import Combine, Draw, Exchange, Program
from sottovoce.protocols.protocol import Protocol
from sottovoce.protocols.rationals import Number, PerNode, exact, plain_number, plain_numbers
from sottovoce.protocols.updates import Slopes, checked_updates

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import ArrayLike
    from scipy.sparse import csr_array

    from sottovoce.protocols.updates import Updates

__all__ = [
    "chebyshev",
    "clean_state",
    "exact_diffusion",
    "gossip",
    "gradient_tracking",
    "momentum",
    "once",
    "pairwise_noise",
    "push_sum",
    "repeated",
    "round_weights",
    "scheduled",
]

FRESH: dict[str, PerNode] = {"contribution": 1, "u": 1}
# Exchanges of a round: after so many every network that is connected at all has mixed.
MOST_STEPS = 1000


def gossip(
    weights: GossipWeights | np.ndarray | csr_array,
    *,
    rounds: int,
    damping: ArrayLike | None = None,
    noise_levels: PerNode | None = None,
    encoder: Sequence[Number] | None = None,
    updates: Updates | Slopes | None = None,
) -> Protocol:
    """Gossip averaging with a fixed gossip matrix: s_t = D W s_{t−1} + x_t + u_t for t = 1..rounds.

    `weights` is a `GossipWeights` (from `metropolis_weights(graph)`, say) or a matrix, dense or sparse, whose
    row i holds what node i gives to each message it receives.

    `damping` is D, one number for all nodes or one a node in index order, each between −1 and 1; left out, D = I.
    Gradient descent of step η on quadratic losses of scalar curvature h_k has D_k = 1 − ηh_k, and x_t is then the part
    of the step that does not depend on the state. This is exact where no clipping acts and the record that differs has
    a gradient that does not depend on the state either.

    `noise_levels` scale the noise, for all nodes or one a node. `encoder` correlates it over the rounds: it is the
    first column of a Toeplitz C, and the noise is C⁻¹ξ with fresh ξ.

    `updates` makes it training: s_t = g_t(W s_{t−1}) + x_t + u_t with maps g_t of each node's own whose slopes lie
    between its ends (lower, upper), one pair or one a node, or maps of which nothing is known ("any"). Steps of size η
    on convex losses of smoothness L have (1 − ηL, 1); (1, 1) is averaging, and (d, d) is damping by d.

    Source: Section 3.1 and Eq. 3.1 of Koskela & Kulkarni for D = I.

    >>> import numpy as np
    >>> gossip(np.full((3, 3), 1 / 3), rounds=10).n
    3
    >>> gossip(np.full((2, 2), 1 / 2), rounds=10, damping=[1, 0.5]).transition.toarray().tolist()
    [[0.5, 0.5], [0.25, 0.25]]
    """
    at_least(1, rounds=rounds)
    checked = as_weights(weights)
    maps = None if updates is None else checked_updates(updates, checked.n)
    if maps is not None and damping is not None:
        raise InputError(
            "damping and updates say the same thing twice; give (d, d) as updates, or damping alone"
        )
    if isinstance(maps, Slopes) and (maps.lower == maps.upper).all() and (maps.reach <= 1).all():
        damping, maps = maps.upper, None
    kept = 1 if damping is None else _checked_damping(damping, checked.labels)
    program = Program(
        keeps=("model",),
        draws=(Draw("u", level=1 if noise_levels is None else plain_numbers(noise_levels, "noise_levels")),),
        instructions=(Combine("message", {"model": kept, **FRESH}), Exchange("message", "model")),
    )
    code: Any = (1,) if encoder is None else encoder
    return Protocol(
        weights=checked, program=program, rounds=rounds, encoder=code, name="gossip", updates=maps
    )


def _check_steps(steps: int) -> None:
    """Refuse numbers of exchanges a round that are none, or more than any network needs."""
    at_least(1, steps=steps)
    at_most(MOST_STEPS, steps=steps)


def repeated(weights: GossipWeights | np.ndarray | csr_array, *, rounds: int, steps: int) -> Protocol:
    """K = `steps` exchanges a round: contributions and noise enter once, and every intermediate message is seen."""
    _check_steps(steps)
    program = Program(
        keeps=("model",),
        draws=(Draw("u"),),
        instructions=(
            Combine("y", {"model": 1, **FRESH}),
            *(Exchange("y", "y") for _ in range(steps - 1)),
            Exchange("y", "model"),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="repeated")


def chebyshev(
    weights: GossipWeights | np.ndarray | csr_array, *, rounds: int, steps: int, gamma: Number | None = None
) -> Protocol:
    """Accelerated gossip: y₁ = W y₀ and y_{k+1} = γ W y_k + (1 − γ) y_{k−1}, K = `steps` exchanges a round.

    γ is 2/(1 + √(1 − λ₂²)) if not given, λ₂ being the second largest eigenvalue of W in size.

    Source: Berthier, Bach & Gaillard 2020; Cyffers et al. 2022, Algorithm 2.
    """
    _check_steps(steps)
    checked = as_weights(weights)
    if gamma is None:
        gamma = 2 / (1 + math.sqrt(1 - min(spectrum(checked).rho, 1.0) ** 2))
    factor = exact(plain_number(gamma, "gamma"))
    further = (
        Exchange("new", "mixed"),
        Combine("next", {"mixed": gamma, "old": 1 - factor}),
        Combine("old", {"new": 1}),
        Combine("new", {"next": 1}),
    )
    program = Program(
        keeps=("model",),
        draws=(Draw("u"),),
        instructions=(
            Combine("old", {"model": 1, **FRESH}),
            Exchange("old", "new"),
            *(further * (steps - 1)),
            Combine("model", {"new": 1}),
        ),
    )
    return Protocol(weights=checked, program=program, rounds=rounds, name="chebyshev")


def momentum(
    weights: GossipWeights | np.ndarray | csr_array,
    *,
    rounds: int,
    beta: Number,
    noise: Literal["gradient", "message"] = "gradient",
) -> Protocol:
    """Gossip with momentum: v = βv + contribution + u, message = model + v.

    With `noise="message"` the noise is added to the message instead of the gradient. Momentum then carries
    contributions on without noise, and Δ² of everyone grows like ((1 − β^t)/(1 − β))² a round.
    """
    one_of(("gradient", "message"), noise=noise)
    late, beta = noise == "message", plain_number(beta, "beta")
    program = Program(
        keeps=("model", "v"),
        draws=(Draw("u"),),
        instructions=(
            Combine("v", {"v": beta, "contribution": 1} if late else {"v": beta, **FRESH}),
            Combine("message", {"model": 1, "v": 1, "u": 1} if late else {"model": 1, "v": 1}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="momentum")


def gradient_tracking(
    weights: GossipWeights | np.ndarray | csr_array,
    *,
    rounds: int,
    noise: Literal["gradient", "messages"] = "gradient",
) -> Protocol:
    """Gradient tracking: y = W y + fresh − g follows the mean gradient, and model = W (model + y).

    With `noise="messages"` the noise is added to the y that is sent instead of to the gradient. A contribution then
    shows in two rounds, and everyone's Δ² is 4T − 3, not T.

    Source: Nedić, Olshevsky & Shi 2017 (DIGing).
    """
    one_of(("gradient", "messages"), noise=noise)
    late = noise == "messages"
    followed: dict[str, PerNode] = {"y": 1, "fresh": 1, "g": -1}
    program = Program(
        keeps=("model", "y", "g"),
        draws=(Draw("u"),),
        instructions=(
            Combine("fresh", {"contribution": 1} if late else FRESH),
            Exchange("y", "y"),
            Combine("y", {**followed, "u": 1} if late else followed),
            Combine("g", {"fresh": 1}),
            Combine("message", {"model": 1, "y": 1}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="gradient_tracking")


def exact_diffusion(
    weights: GossipWeights | np.ndarray | csr_array,
    *,
    rounds: int,
    noise: Literal["gradient", "messages"] = "gradient",
) -> Protocol:
    """Exact diffusion (D²): message = 2·model − before + fresh − g, where g is the last gradient, model = W message.

    Source: Yuan et al. 2018; Tang et al. 2018 (D²).
    """
    one_of(("gradient", "messages"), noise=noise)
    late = noise == "messages"
    mixed: dict[str, PerNode] = {"model": 2, "before": -1, "fresh": 1, "g": -1}
    program = Program(
        keeps=("model", "before", "g"),
        draws=(Draw("u"),),
        instructions=(
            Combine("fresh", {"contribution": 1} if late else FRESH),
            Combine("message", {**mixed, "u": 1} if late else mixed),
            Combine("before", {"model": 1}),
            Combine("g", {"fresh": 1}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="exact_diffusion")


def pairwise_noise(
    weights: GossipWeights | np.ndarray | csr_array, *, rounds: int, local: PerNode, shared: Number
) -> Protocol:
    """DECOR: one draw a node of level `local`, and one an edge of level `shared` that cancels in the sum of all.

    Source: Allouah et al. 2024.
    """
    program = Program(
        keeps=("model",),
        draws=(
            Draw("u", level=plain_numbers(local, "local")),
            Draw("w", level=plain_number(shared, "shared"), each="edge"),
        ),
        instructions=(Combine("message", {"model": 1, **FRESH, "w": 1}), Exchange("message", "model")),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="pairwise_noise")


def once(weights: GossipWeights | np.ndarray | csr_array, *, steps: int) -> Protocol:
    """Muffliato's averaging: one contribution, one draw, K = `steps` exchanges, all in one round.

    Source: Cyffers et al. 2022, Algorithm 1.
    """
    _check_steps(steps)
    program = Program(
        keeps=("model",),
        draws=(Draw("u"),),
        instructions=(
            Combine("y", FRESH),
            *(Exchange("y", "y") for _ in range(steps)),
            Combine("model", {"y": 1}),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=1, name="once")


def clean_state(
    weights: GossipWeights | np.ndarray | csr_array, *, rounds: int, keep: Number, noise_levels: PerNode = 1
) -> Protocol:
    """Messages are noised, a node's own state is not: model = keep·model + (1 − keep)·sum + contribution.

    Source: Huang, Mitra & Dullerud 2012; Nozari, Tallapragada & Cortés 2017; Wang & Nedić 2024.
    """
    rest = 1 - exact(plain_number(keep, "keep"))
    program = Program(
        keeps=("model",),
        draws=(Draw("u", level=plain_numbers(noise_levels, "noise_levels")),),
        instructions=(
            Combine("message", {"model": 1, "u": 1}),
            Exchange("message", "sum"),
            Combine("model", {"model": keep, "sum": rest, "contribution": 1}),
        ),
    )
    return Protocol(weights=as_weights(weights), program=program, rounds=rounds, name="clean_state")


def push_sum(weights: object, *, rounds: int) -> Protocol:
    """Push-sum: column-stochastic weights on a directed graph; the sequence that undoes their bias is public.

    `weights` is a matrix P whose column j says how node j divides its message among its receivers. The model of a node
    is its register over the same entry of P^t·1, which every node can compute; dividing by it tells nothing.

    Source: Kempe, Dobra & Gehrke 2003; Assran et al. 2019.
    """
    checked = _unconnected(weights, "columns")
    program = gossip(np.full((2, 2), 0.5), rounds=1).programs[0]
    return Protocol(weights=checked, program=program, rounds=rounds, name="push_sum")


def scheduled(weights: Iterable[object], *, rounds: int, encoder: Sequence[Number] | None = None) -> Protocol:
    """Gossip whose weights change from round to round by a public schedule that repeats.

    Each entry is what `round_weights` takes. Matchings, dropout and one-peer exponential graphs are schedules; a round
    need not connect all nodes. `encoder` correlates the noise over the rounds, as that of `gossip` does.
    """
    if isinstance(weights, str | GossipWeights | Mapping) or not hasattr(weights, "__iter__"):
        raise InputError(
            f"weights must be a list of what each round mixes by, such as [W, V]; got {shortened(weights)} (put one "
            "matrix for all rounds into a list, or take gossip)"
        )
    several = tuple(round_weights(each) for each in weights)
    if not several:
        raise InputError("weights must hold at least one round; got an empty schedule")
    program = gossip(np.full((2, 2), 0.5), rounds=1).programs[0]
    code: Any = (1,) if encoder is None else encoder
    return Protocol(weights=several, program=program, rounds=rounds, encoder=code, name="scheduled")


def round_weights(source: object) -> GossipWeights:
    """The weights of one round of a schedule: weights as they are, a matrix with rows that sum to 1, or a graph.

    A graph gets Metropolis weights, as exact rationals; it may fall into pieces.

    >>> round_weights(np.eye(2)).exact_row(0)
    {0: Fraction(1, 1)}
    """
    if isinstance(source, GossipWeights):
        return source
    if isinstance(source, np.ndarray) or sparse.issparse(source):
        return _unconnected(source, "rows")
    graph = as_graph(source)
    if graph.directed:
        raise GraphError("the graph of a round must be undirected; this one is directed (give its matrix)")
    rows, columns = row_indices(graph.adjacency), graph.adjacency.indices
    rows, columns = rows[rows != columns], columns[rows != columns]
    shares = np.maximum(graph.degrees[rows], graph.degrees[columns]) + 1
    exact = Quotients(np.ones_like(shares), shares)
    off = sparse.csr_array((exact.rounded(), (rows, columns)), shape=(graph.n, graph.n))
    kept = 1.0 - np.asarray(off.sum(axis=1)).ravel()
    return GossipWeights(
        matrix=off + sparse.diags_array(kept),
        labels=graph.labels,
        rule="metropolis",
        symmetric=True,
        quotients=exact,
    )


def _unconnected(source: object, sums: Sums) -> GossipWeights:
    """A matrix as weights whose rows, or columns, sum to 1; whether it connects all nodes is not asked."""
    if isinstance(source, GossipWeights):
        matrix, labels = source.matrix, source.labels
    else:
        matrix = canonical_matrix(source)
        labels = range(matrix.shape[0])
    check_sums(matrix, labels, sums)
    if isinstance(source, GossipWeights):
        return source
    return GossipWeights(matrix=matrix, labels=labels, rule="matrix", symmetric=is_symmetric(matrix))


def _checked_damping(damping: ArrayLike, labels: Sequence[Hashable]) -> PerNode:
    """One number between −1 and 1 for each node; 1 where all are 1."""
    n = len(labels)
    try:
        given = np.array(damping, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"damping must be a number, or one number a node; got {damping!r}") from None
    if given.shape not in {(), (n,)}:
        raise InputError(
            f"damping must be one number for all nodes or one for each of the {n} nodes; got shape {given.shape}"
        )
    values = np.array(np.broadcast_to(given, n))
    outside = ~(np.abs(values) <= 1)
    if outside.any():
        worst = int(np.argmax(outside))
        raise InputError(
            f"damping must lie between -1 and 1; node {labels[worst]!r} has {float(values[worst])!r} "
            "(1 - step * curvature leaves that range where the step exceeds 2 / curvature, and the loop runs away)"
        )
    return 1 if (values == 1).all() else tuple(values.tolist())
