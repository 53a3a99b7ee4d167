# SPDX-License-Identifier: Apache-2.0
"""What an observer sees and whose noise it knows: the two sets that define a threat model.

A `View` is a description in the user's node names; `observe` turns it into rows and indices for one protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
from scipy import sparse

from sottovoce.errors import InputError, ViewError, at_least, one_of, several
from sottovoce.vocabulary import OwnNoise, ViewName

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike

    from sottovoce.protocols import Protocol

__all__ = [
    "ASSUMPTIONS",
    "METHOD_NAMES",
    "ONE_OBSERVER",
    "VIEW_NAMES",
    "Assumption",
    "ExactRow",
    "Observation",
    "OwnNoise",
    "View",
    "assumption_of",
    "checked_exchanges",
    "observe",
    "place_among",
    "rests_on",
    "seen_exchanges",
    "seen_part",
    "target_indices",
    "training_assumption",
]

Assumption = Literal["none", "smooth", "oblivious", "quadratic", "hidden-state"]
ExactRow = dict[int, Fraction]

ASSUMPTIONS: dict[Assumption, str] = {
    "none": (
        "every message is seen, or the bound holds for update maps of any kind, so nothing is assumed about how "
        "contributions arise"
    ),
    "smooth": (
        "every node updates what it received by a map with slopes in the given ball, such as gradient steps on losses "
        "whose smoothness is public; the record that differs moves its node by no more than the clipping norm"
    ),
    "oblivious": "contributions are fixed in advance or depend only on what the observer has seen",
    "quadratic": (
        "contributions depend on hidden states as gradient steps on quadratic losses of the given damping do; what is "
        "clipped, and the gradient of the record that differs, do not depend on the state"
    ),
    "hidden-state": (
        "contributions of other nodes, and of the target's other records, are taken to carry nothing of the record "
        "that differs on, although in training they depend on states that the observer does not see; what holds "
        "without this assumption is the number of the everyone view, or one that rests on smooth"
    ),
}
"""What a guarantee rests on; a later entry asks for more."""

METHOD_NAMES = "<U11"
"""The numpy type of the names of bounds, and of `unreached`, where nothing of the target arrives in time."""

UNCONDITIONAL = frozenset({"cap", "twins", "unreached"})
"""What proves a bound for training without any knowledge of the update maps."""

VIEW_NAMES: tuple[str, ...] = get_args(ViewName)
ONE_OBSERVER = ("neighbourhood", "secure-sum", "single-node")
"""The views that belong to one node, so that each node in turn can have one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What is observed (the rows `observation` of the messages, in every round) and whose noise is known.

    Build one by name (`View.secure_sum(i)`), or from a matrix with a column for each node:
    `View(observation=C, known_noise=[…])`.

    >>> View.secure_sum(3)
    View(secure-sum of 3, own noise known)
    """

    observation: ArrayLike | None = None
    known_noise: Sequence[Hashable] = ()
    name: str = "custom"
    observers: tuple[Hashable, ...] = ()
    own_noise: OwnNoise = "known"
    exchanges: tuple[int, ...] | None = None
    """Which exchanges of a round are seen, counted from 1; all of them if None."""

    everyone: ClassVar[View]
    """Every message of every round: the view of local differential privacy."""

    def __post_init__(self) -> None:
        """Refuse a view that says nothing, or a word that is not in its vocabulary."""
        one_of(("custom", *VIEW_NAMES), view=self.name)
        one_of(("known", "hidden"), own_noise=self.own_noise)
        if self.exchanges is not None:
            object.__setattr__(self, "exchanges", _counted(self.exchanges))
        if self.name == "custom" and self.observation is None:
            raise ViewError(
                "a custom view needs observation=C, a matrix with one column for each node "
                "(or take a named view, such as View.secure_sum(i))"
            )
        if self.name == "custom" and self.observers:
            raise ViewError(
                f"a custom view names whose noise is known, not observers; got {list(self.observers)} "
                "(use known_noise=[…])"
            )
        if self.name != "custom" and (self.observation is not None or len(self.known_noise)):
            raise ViewError(
                f"the {self.name} view has its own rows and known noise; got observation or known_noise as well "
                "(leave them out, or leave name out for a custom view)"
            )
        if self.name not in {"custom", "everyone"} and not self.observers:
            raise ViewError(f"the {self.name} view needs at least one observer; got none (name a node)")
        if self.name in ONE_OBSERVER and len(self.observers) > 1:
            raise ViewError(
                f"the {self.name} view has one observer; got {list(self.observers)} "
                "(several observers that pool what they see are a coalition: View.coalition_sums)"
            )

    @classmethod
    def neighbourhood(
        cls, node: Hashable, *, own_noise: OwnNoise = "known", exchanges: Sequence[int] | None = None
    ) -> View:
        """The messages of `node` and of all that send to it (pairwise network DP, Cyffers et al. 2022)."""
        return cls(name="neighbourhood", observers=(node,), own_noise=own_noise, exchanges=_some(exchanges))

    @classmethod
    def secure_sum(
        cls, node: Hashable, *, own_noise: OwnNoise = "known", exchanges: Sequence[int] | None = None
    ) -> View:
        """The weighted sum that `node` receives in each of the T rounds, and no single message."""
        return cls(name="secure-sum", observers=(node,), own_noise=own_noise, exchanges=_some(exchanges))

    @classmethod
    def single_node(
        cls, node: Hashable, *, own_noise: OwnNoise = "known", exchanges: Sequence[int] | None = None
    ) -> View:
        """The messages that `node` itself sends: the paper's single-node view, S = e_iᵀ.

        With its own noise known this says what the secure sums of rounds 1..T−1 say; the sum of round T is not
        in it. The paper's figures use `own_noise="hidden"`.
        """
        return cls(name="single-node", observers=(node,), own_noise=own_noise, exchanges=_some(exchanges))

    @classmethod
    def coalition_sums(
        cls,
        nodes: Iterable[Hashable],
        *,
        own_noise: OwnNoise = "known",
        exchanges: Sequence[int] | None = None,
    ) -> View:
        """The weighted sums that all `nodes` receive, pooled (the paper's Section 3.3)."""
        several(nodes=nodes)
        return cls(
            name="coalition-sums", observers=tuple(nodes), own_noise=own_noise, exchanges=_some(exchanges)
        )

    @classmethod
    def coalition_messages(
        cls,
        nodes: Iterable[Hashable],
        *,
        own_noise: OwnNoise = "known",
        exchanges: Sequence[int] | None = None,
    ) -> View:
        """The messages of every node outside the coalition that sends to one of its `nodes`, pooled."""
        several(nodes=nodes)
        return cls(
            name="coalition-messages", observers=tuple(nodes), own_noise=own_noise, exchanges=_some(exchanges)
        )

    def __repr__(self) -> str:
        """Name, observers and what is known of their noise."""
        part = "" if self.exchanges is None else f", exchanges {list(self.exchanges)}"
        if self.name == "everyone":
            return f"View(everyone{part})"
        if self.name == "custom":
            return f"View(custom, known noise {list(self.known_noise)}{part})"
        return f"View({self.name} of {', '.join(map(str, self.observers))}, own noise {self.own_noise}{part})"


View.everyone = View(name="everyone")


def assumption_of(view: View | str, damping: object) -> Assumption:
    """What a guarantee about a view rests on: nothing if all is seen, an open loop, or one that quadratic losses close.

    `damping` is that of the protocol, None where nothing is damped.

    >>> assumption_of("everyone", None), assumption_of(View.secure_sum(0), None), assumption_of("secure-sum", 0.5)
    ('none', 'oblivious', 'quadratic')
    """
    if (view.name if isinstance(view, View) else view) == "everyone":
        return "none"
    return "oblivious" if damping is None else "quadratic"


def rests_on(protocol: Protocol, view: View | str, methods: Iterable[str] | None = None) -> Assumption:
    """What a guarantee about a view of any protocol rests on; of training it depends on the `methods` that prove it.

    A program may carry contributions on without noise, so that seeing all is not all. Bounds that use no slopes hold
    for update maps of any kind; without `methods` the slopes count as used.

    >>> from sottovoce.protocols import gossip
    >>> pair = gossip(np.full((2, 2), 0.5), rounds=3, updates=(0, 1))
    >>> rests_on(pair, "secure-sum"), rests_on(pair, "secure-sum", ["cap", "twins"])
    ('smooth', 'none')
    """
    if protocol.updates is None:
        return assumption_of(view, protocol.damping) if protocol.plain else "oblivious"
    return training_assumption(methods, known=not isinstance(protocol.updates, str))


def training_assumption(methods: Iterable[str] | None, *, known: bool = True) -> Literal["none", "smooth"]:
    """What bounds of training by these methods rest on; without them, slopes count as used if any are `known`."""
    named = {"shift"} if methods is None else set(methods)
    return "smooth" if known and not named <= UNCONDITIONAL else "none"


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """A view in index form: sparse rows over the nodes, `exact(k)` giving row k in rationals, and the known nodes."""

    rows: sparse.csr_array
    exact: Callable[[int], ExactRow]
    known: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def seen_part(exchanges: Sequence[int] | None) -> str:
    """The words behind the name of a view that is restricted to some exchanges; none if it sees all of them.

    >>> seen_part([1]), seen_part(None)
    (', exchanges [1] of a round alone', '')
    """
    return "" if exchanges is None else f", exchanges {list(exchanges)} of a round alone"


def observe(protocol: Protocol, view: View, *, round_index: int = 0) -> Observation:
    """The rows C that `view` sees of the messages of an exchange, and the indices of the nodes whose draws it knows.

    For a directed W a neighbour is an in-neighbour: whoever sends to the observer. In a schedule it is a neighbour of
    the round with this 0-based index.
    """
    if not isinstance(view, View):
        raise ViewError(f"a view must be a View, such as View.secure_sum(0); got {view!r}")
    checked_exchanges(protocol, view.exchanges)
    weights = protocol.round_of(round_index)[0]
    if view.name == "everyone":
        return _unit_rows(protocol.n, range(protocol.n), ())
    if view.name == "custom":
        return _custom(protocol, view)
    observers = _distinct([protocol.index(label) for label in view.observers], view)
    known = observers if view.own_noise == "known" else []
    match view.name:
        case "neighbourhood":
            (node,) = observers
            return _unit_rows(protocol.n, sorted({node, *weights.neighbours(node).tolist()}), known)
        case "single-node":
            return _unit_rows(protocol.n, observers, known)
        case "coalition-messages":
            senders = {j for i in observers for j in weights.neighbours(i).tolist()} - set(observers)
            return _unit_rows(protocol.n, sorted(senders), known)
        case _:
            return Observation(
                rows=weights.matrix[observers],
                exact=lambda k: weights.exact_row(observers[k]),
                known=np.asarray(known, dtype=np.int64),
            )


def seen_exchanges(protocol: Protocol, view: View, round_index: int) -> list[int]:
    """The 0-based exchanges that a view sees of the round with this 0-based index."""
    count = len(protocol.round_of(round_index)[1].exchanges)
    return [k for k in range(count) if view.exchanges is None or k + 1 in view.exchanges]


def target_indices(
    protocol: Protocol, view: View, known: np.ndarray, targets: Sequence[Hashable] | None
) -> np.ndarray:
    """The indices of the targets in ascending order: all nodes whose noise is not known, or those asked for.

    Asking for one whose noise the observer knows is an error.
    """
    if targets is None:
        return np.setdiff1d(np.arange(protocol.n), known)
    several(targets=targets)
    indices = np.array(sorted({protocol.index(label) for label in targets}), dtype=np.int64)
    if indices.size == 0:
        raise InputError("targets must name at least one node; got none (leave it out for all nodes)")
    for index in np.intersect1d(indices, known):
        or_else = "" if view.name == "custom" else ", or own_noise='hidden'"
        raise InputError(
            f"node {protocol.labels[index]!r} cannot be a target of {view!r}: the observer knows its noise "
            f"(choose another target{or_else})"
        )
    return indices


def place_among(protocol: Protocol, view: View, indices: np.ndarray, label: Hashable) -> int:
    """Where the node called `label` stands in the ascending `indices` of a view's targets; an error if it does not."""
    index = protocol.index(label)
    place = int(indices.searchsorted(index))
    if place == len(indices) or indices[place] != index:
        raise InputError(
            f"node {label!r} is not among the targets of {view!r} "
            "(its noise is known to the observer, or it was not asked for)"
        )
    return place


def checked_exchanges(protocol: Protocol, exchanges: Iterable[int] | None) -> tuple[int, ...] | None:
    """Exchanges of a round, distinct and ascending; those that no round has are refused. None means all of them."""
    if exchanges is None:
        return None
    most, found = max(len(program.exchanges) for program in protocol.programs), _counted(exchanges)
    for number in found:
        if number > most:
            raise ViewError(
                f"exchanges of a view must be exchanges of the program, 1 to {most} of a round; got {number} "
                "(leave exchanges out to see all)"
            )
    return found


def _some(exchanges: Sequence[int] | None) -> tuple[int, ...] | None:
    """Exchanges as a tuple, or None for all."""
    return None if exchanges is None else _counted(exchanges)


def _counted(exchanges: object) -> tuple[int, ...]:
    """Distinct whole numbers from 1 on, ascending."""
    if isinstance(exchanges, str) or not isinstance(exchanges, Iterable):
        raise ViewError(
            f"exchanges of a view must be a list of numbers from 1 on; got {exchanges!r} (write [1], say)"
        )
    numbers = list(exchanges)
    for number in numbers:
        at_least(1, **{"an exchange of a view": number})
    if not numbers:
        raise ViewError(
            "exchanges of a view must name at least one exchange; got none (leave it out for all)"
        )
    return tuple(sorted({int(number) for number in numbers}))


def _distinct(indices: list[int], view: View) -> list[int]:
    """The observers in ascending order; a repeated one is an error."""
    if len(set(indices)) < len(indices):
        raise ViewError(f"the observers of a view must differ from each other; got {list(view.observers)}")
    return sorted(indices)


def _unit_rows(n: int, nodes: Iterable[int], known: Iterable[int]) -> Observation:
    """The view of the messages of `nodes`, one unit row each."""
    chosen = np.asarray(list(nodes), dtype=np.int64)
    rows = sparse.csr_array(
        (np.ones(chosen.size), chosen, np.arange(chosen.size + 1, dtype=np.int64)), shape=(chosen.size, n)
    )
    return Observation(
        rows=rows,
        exact=lambda k: {int(chosen[k]): Fraction(1)},
        known=np.asarray(list(known), dtype=np.int64),
    )


def _custom(protocol: Protocol, view: View) -> Observation:
    """A user's observation matrix, its numbers taken as the exact rationals that floats are."""
    rows = sparse.csr_array(view.observation, dtype=np.float64, copy=True)
    if rows.ndim != 2 or rows.shape[1] != protocol.n:
        raise ViewError(
            f"an observation matrix needs one column for each of the {protocol.n} nodes; got shape {rows.shape} "
            "(put 0 in the columns of nodes that a row does not show)"
        )
    if not np.isfinite(rows.data).all():
        raise ViewError(
            "an observation matrix must hold finite numbers; got NaN or infinity (mend its entries)"
        )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    several(known_noise=view.known_noise)
    known = sorted({protocol.index(label) for label in view.known_noise})
    return Observation(
        rows=rows, exact=lambda k: _rationals(rows, k), known=np.asarray(known, dtype=np.int64)
    )


def _rationals(rows: sparse.csr_array, k: int) -> ExactRow:
    """Row k of a float matrix as exact rationals."""
    span = slice(rows.indptr[k], rows.indptr[k + 1])
    return {int(j): Fraction(float(x)) for j, x in zip(rows.indices[span], rows.data[span], strict=True)}
