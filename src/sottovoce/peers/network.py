# SPDX-License-Identifier: Apache-2.0
"""`network.toml`: all that the peers of a run have agreed on, as one frozen value with a hash."""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np

from sottovoce.errors import FileError, InputError, positive, probability
from sottovoce.forms import Form, read_form
from sottovoce.learning import Data, GradientLoss, Task, plan, shards_of, task_from
from sottovoce.peers.grid import Grid, Messages, chosen_grid, grid_excess, largest_value, view_excess
from sottovoce.peers.groups import least_threshold
from sottovoce.peers.identity import Card, check_public
from sottovoce.peers.messages import Refused
from sottovoce.peers.naming import name_of, read_part
from sottovoce.peers.rounding import few_above, pull_above
from sottovoce.peers.weighting import Weighting, weights_of, whole_weights
from sottovoce.peers.whole import check_ported, ported
from sottovoce.protocols import Protocol, parse_protocol, unencoded
from sottovoce.scenarios import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from sottovoce.learning import Exposure, Plan
    from sottovoce.views import View

__all__ = ["Deadlines", "Network", "Settings", "TaskFacts", "read_network", "read_table"]

Count = Annotated[int, msgspec.Meta(ge=1, le=10**6)]


class Deadlines(Form, frozen=True, kw_only=True):
    """Seconds that are waited at most: for neighbours at the start, for a message, for a peer that was lost."""

    join: float = 60.0
    round: float = 10.0
    lost: float = 1.0


class TaskFacts(Form, frozen=True, kw_only=True):
    """What is learnt: the public facts of a task of `train`; every node has records of its own.

    Of a "module", which nodes train in Python, `features` is how many parameters it has, and `start` a digest of them.
    """

    loss: Literal["ridge", "huber", "logistic", "softmax", "quadratic", "module"]
    features: Count
    shard_size: Count
    classes: Annotated[int, msgspec.Meta(ge=0, le=10**4)] = 0
    l2: float = 1e-3
    step: str | None = None
    start: str = ""


class Settings(Form, frozen=True, kw_only=True):
    """The file as it is written, every default filled in."""

    name: str
    rounds: Count
    noise_multiplier: float
    task: TaskFacts
    nodes: tuple[Card, ...]
    edges: tuple[tuple[str, str], ...] = ()
    weights: str | Weighting | tuple[Weighting, ...] = "metropolis"
    protocol: str = "gossip"
    sums: Literal["plain", "masked"] = "plain"
    clip: float = 1.0
    unit: Literal["record", "node"] = "record"
    relation: Literal["add-remove", "replace-one", "zero-out"] = "add-remove"
    delta: float = 1e-5
    quorum: Annotated[int, msgspec.Meta(ge=1, le=10**4)] = 1
    colluders: Annotated[int, msgspec.Meta(ge=0, le=10**4)] = 1
    missing: Literal["receiver", "survivors"] = "receiver"
    deadlines: Deadlines = Deadlines()


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """A run that peers have agreed on: who they are, what they do, and for how many rounds.

    `protocol` is what the accountant reads. Row i of the weights is the integers `numerators[i]` over `denominator`.
    """

    settings: Settings
    protocol: Protocol
    denominator: int
    numerators: tuple[dict[int, int], ...]
    parts: tuple[bytes, ...] = ()
    """What every node drew for this run, signed, in index order; nothing before they have met."""

    @classmethod
    def of(cls, settings: Settings) -> Network:
        """The network of a file's settings, checked."""
        _check_numbers(settings)
        _check_nodes(settings.nodes)
        weights = weights_of(settings)
        protocol = parse_protocol(settings.protocol, weights, rounds=settings.rounds)
        _check_protocol(protocol)
        denominator, numerators = whole_weights(protocol.schedule[0])
        found = cls(settings=settings, protocol=protocol, denominator=denominator, numerators=numerators)
        _ = found._whole
        found._check_steps()
        if settings.sums == "masked":
            found._check_masks()
        return found

    @cached_property
    def _whole(self) -> Plan:
        """What all messages give away, and all that follows from public numbers on the way there."""
        return self.plan("everyone")

    def _check_steps(self) -> None:
        """Refuse steps that change where what a register holds meets the noise of a later round, perhaps a smaller one.

        An account presumes that all rounds happen in order; a node that misses some would send it with less noise.
        """
        if not self.ported and float(self.steps.min()) < float(self.steps.max()):
            raise InputError(
                f"peers change their step only where noise enters beside each contribution; in {self.protocol.name!r} "
                f"it does not, and got the step {self.settings.task.step!r} (take a constant step, or "
                "another protocol)"
            )

    def _check_masks(self) -> None:
        """Refuse masks where messages are not whole numbers, or do not fit."""
        check_ported(self.protocol)
        _ = self.grid

    @cached_property
    def ported(self) -> bool:
        """Whether a round in which a node sends costs it Δ² ≤ 1, whatever others do."""
        return ported(self.protocol)

    @cached_property
    def _messages(self) -> Messages:
        """What messages are made of, at the largest step: of another program than gossip, how they grow as well."""
        step, plain = float(self.steps.max()), self.protocol.plain
        return Messages(
            rounds=self.settings.rounds,
            clip=step * self.settings.clip,
            noise_std=step * self.noise_std,
            program=None if plain else self.protocol.programs[0],
            pull=Fraction(0) if plain else pull_above(float(self.exposure.damping.min())),
        )

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return len(self.settings.nodes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes, in index order."""
        return tuple(node.name for node in self.settings.nodes)

    def signing_keys(self, members: Iterable[int]) -> tuple[str, ...]:
        """What nodes sign with, as the file has it: who a node is from run to run."""
        return tuple(self.settings.nodes[i].signing for i in members)

    def index(self, name: str) -> int:
        """The place of the node of that name."""
        if name not in self.names:
            raise InputError(f"no node of the network is called {name!r} (it has {', '.join(self.names)})")
        return self.names.index(name)

    def holder(self, card: Card) -> int:
        """The place of the node whose keys belong to this card; refused unless the network pins the very same."""
        found = self.index(card.name)
        pinned = self.settings.nodes[found]
        other = [name for name in Card.__struct_fields__ if getattr(pinned, name) != getattr(card, name)]
        if other:
            address = (
                f": {pinned.address} there, {card.address} with the keys" if other == ["address"] else ""
            )
            raise InputError(
                f"the keys of {card.name!r} must be those that the network pins for it; they differ in "
                f"{', '.join(other)}{address} (take the file that its public lines came from, or paste "
                f"{card.name}.public.toml into the network again)"
            )
        return found

    def senders(self, i: int) -> tuple[int, ...]:
        """Whom node i receives from, itself left out, ascending."""
        return tuple(j for j in sorted(self.numerators[i]) if j != i)

    def receivers(self, i: int) -> tuple[int, ...]:
        """Who receives from node i, itself left out, ascending."""
        return tuple(j for j in range(self.n) if j != i and i in self.numerators[j])

    def row(self, i: int, heard: Iterable[int]) -> dict[int, int]:
        """The weights with which node i takes up what it heard, as whole numbers over their sum, itself included.

        The weight of who is missing stays with the receiver, or, if `missing` says "survivors", is spread over all that
        are there in proportion to theirs. Who hears nobody keeps what it has.
        """
        found = {j: self.numerators[i][j] for j in sorted(heard)}
        spread = self.settings.missing == "survivors" and bool(found)
        own = self.numerators[i].get(i, 0) if spread else self.denominator - sum(found.values())
        return {**found, i: own} if own else found

    def neighbours(self, i: int) -> tuple[int, ...]:
        """Whom node i is linked with."""
        return tuple(sorted({*self.senders(i), *self.receivers(i)}))

    @cached_property
    def run(self) -> Protocol:
        """The protocol as nodes run it: an encoder is written out as registers."""
        return unencoded(self.protocol)

    @cached_property
    def agreed(self) -> bytes:
        """What was agreed on: the settings as JSON, every default filled in, however the file spells them."""
        return msgspec.json.encode(self.settings, order="sorted")

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of what was agreed on."""
        return hashlib.sha256(b"sottovoce network\n" + self.agreed).digest()

    def joined(self, parts: Iterable[bytes]) -> Network:
        """The network in the run of these parts, one signed by each node; `Refused` if one is not."""
        frames, cards = tuple(parts), self.settings.nodes
        found = [read_part(self.hash, cards, frame).node for frame in frames]
        if found != list(range(self.n)):
            raise Refused(
                f"a run needs the part of each of its {self.n} nodes, in order; got those of {found}"
            )
        made = replace(self, parts=frames)
        # What was found from the settings alone is the same in every run.
        vars(made).update({name: value for name, value in vars(self).items() if name not in vars(made)})
        vars(made).pop("run_name", None)
        return made

    @cached_property
    def run_name(self) -> bytes:
        """What names this run and no other: 32 bytes of what was agreed on and of what every node drew."""
        if not self.parts:
            raise Refused("a run has no name before every node has drawn its part (join the network first)")
        return name_of(self.hash, self.parts)

    @property
    def dimension(self) -> int:
        """How many numbers a message has."""
        return self._public_task.dimension

    def threshold(self, receiver: int) -> int:
        """How many senders must survive in the sum of a receiver, so that `colluders` of them cannot open two."""
        count, settings = len(self.senders(receiver)), self.settings
        return max(
            least_threshold(count, colluders=min(settings.colluders, count - 2)), min(settings.quorum, count)
        )

    def unmasks(self, members: tuple[int, ...]) -> bool:
        """Whether nodes that pool what they hold can open a masked message: a receiver with enough of its senders."""
        for receiver in members:
            senders = self.senders(receiver)
            colluding = len(set(members) & set(senders))
            if len(senders) > 1 and colluding >= 2 * self.threshold(receiver) - len(senders):
                return True
        return False

    @cached_property
    def steps(self) -> NDArray[np.float64]:
        """The step size of every round."""
        return self._whole.schedule.sizes(self.settings.rounds)

    @property
    def exposure(self) -> Exposure:
        """How the run moves: steps, damping and slopes, from public numbers."""
        return self._whole.exposure

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on a gradient; on what is sent it is that times the step."""
        return self._whole.noise_std

    @cached_property
    def grid(self) -> Grid:
        """The multiples of a power of two on which masked messages lie: the finest that a run fits on."""
        steps = self.steps
        return chosen_grid(
            self._messages,
            sensitivity=float(steps.min() / steps.max())
            * self._whole.gradient_sensitivity
            / self.settings.clip,
            excess=max(self.grid_excess((i,)) for i in range(self.n))
            if self.protocol.plain
            else self.local_excess(self.settings.rounds),
            weight_total=self.denominator,
        )

    @cached_property
    def largest(self) -> int:
        """A bound of every masked message, in units of the grid.

        Guarantee: as for `largest_value`: exceeded only by noise beyond 40 standard deviations.
        """
        return largest_value(self._messages, self.grid)

    def grid_excess(self, members: tuple[int, ...], *, sums: bool = True) -> float:
        """By how much the grid makes what `members` see more sensitive, in its units: docs/proofs/grid.md.

        They see the sums that they receive, or else each message.

        Guarantee: as for `view_excess`, of the rounds as they were agreed on: nobody drops out.
        """
        hidden = [j for j in range(self.n) if j not in members]
        senders = {j for i in members for j in self.senders(i)} - set(members)
        seen = [[self.numerators[i].get(j, 0) for j in hidden] for i in members]
        return view_excess(
            seen if sums else [[int(j == sender) for j in hidden] for sender in sorted(senders)],
            mixing=[[self.numerators[i].get(j, 0) for j in hidden] for i in hidden],
            denominator=self.denominator,
            rounds=self.settings.rounds,
            dimension=self.dimension,
            lipschitz=self.lipschitz,
        )

    def grid_mu(self, excess: float) -> float:
        """What an excess in units of the grid adds to μ, rounded up; nothing where messages are not on one.

        Guarantee: an upper bound if the excess is one: it is divided by the least noise of any round.
        Source: docs/proofs/grid.md, "The allowance".
        """
        if self.settings.sums == "plain":
            return 0.0
        return few_above(excess * self.grid.unit / (float(self.steps.min()) * self.noise_std))

    def local_excess(self, rounds: int) -> float:
        """The excess for whoever reads every message: a message of the node's own may be rounded otherwise.

        Guarantee: as for `grid_excess`, of so many rounds in which the node sends.
        """
        return grid_excess([0.0] * rounds, hidden=1, dimension=self.dimension, lipschitz=0.0)

    @property
    def lipschitz(self) -> float | None:
        """By how much messages stretch differences of what was received, at most; None if nothing is known.

        Guarantee: an upper bound for every hidden node, whatever its records, if the slopes of the loss hold. Those are
        of messages over their steps; steps never grow, so that messages themselves stretch no more.
        """
        # Damping alone shrinks; of losses of which nothing is known, nothing is used.
        exposure = self.exposure
        hull = (0.0, 1.0) if exposure.state_free else exposure.reaction.hull(0, self.settings.rounds)
        return None if hull is None else max(1.0, *map(abs, hull))

    def plan(self, view: View | str, *, rounds: int | None = None, delta: float | None = None) -> Plan:
        """What training of so many rounds gives away in a view, from public numbers alone.

        Guarantee: that of `sottovoce.learning.plan`, for the loop without a grid; `grid_mu` is what one adds.
        """
        settings = self.settings
        protocol = self.protocol if rounds is None else replace(self.protocol, rounds=rounds)
        asked = Scenario(protocol=protocol, view=view, relation=settings.relation)
        return plan(
            self._public_task,
            asked,
            noise_multiplier=settings.noise_multiplier,
            target_delta=settings.delta if delta is None else delta,
            clip=settings.clip,
            unit=settings.unit,
            step=settings.task.step,
        )

    @cached_property
    def _public_task(self) -> Task:
        """The task of all nodes with records that say nothing: accounts and step sizes follow from public facts."""
        problem, n = self.settings.task, self.n
        if problem.loss == "module":
            return _module_task(problem, n)
        features = np.zeros((n, problem.features))
        labels = np.arange(n) % 2 if problem.classes else np.zeros(n)
        records = Data(name="public", features=features, labels=labels, classes=problem.classes)
        return replace(self._task(records, n), name=problem.loss)

    def local_task(self, data: Data) -> Task:
        """The task of one node with records of its own."""
        problem = self.settings.task
        if problem.loss == "module":
            raise InputError(
                f"{data.name}: the network trains a PyTorch module, which no file of records says (run the node in "
                "Python: Peer(network, me).train(module, loader, criterion))"
            )
        width = data.features.shape[1]
        if width != problem.features:
            raise InputError(
                f"{data.name}: records must have the {problem.features} features that the network agreed on; they have "
                f"{width} (take the columns that were agreed on)"
            )
        if problem.classes and data.classes > problem.classes:
            raise InputError(
                f"{data.name}: labels must be of the {problem.classes} classes that the network agreed on; there are "
                f"{data.classes} (agree on more classes)"
            )
        mine = np.zeros(data.records, dtype=np.int64)
        return self._task(replace(data, classes=problem.classes, clients=(data.name,), owner=mine), 1)

    def _task(self, data: Data, nodes: int) -> Task:
        problem = self.settings.task
        return task_from(
            data,
            nodes,
            loss=problem.loss,
            l2=problem.l2,
            nominal=problem.shard_size,
            test_share=0.0,
            clip=self.settings.clip,
        )


def _module_task(problem: TaskFacts, nodes: int) -> Task:
    """A task of so many parameters, of whose loss nothing is known, with records that say nothing."""
    if problem.step is None or not problem.start:
        raise InputError(
            "task of a module must say step and start, as neither follows from anything else (take what "
            "module_facts(module, shard_size=…, step=…) says)"
        )
    nothing = GradientLoss(
        gradients=lambda _, features, __: np.zeros((len(features), problem.features)),
        dimension=problem.features,
        name="module",
    )
    places = shards_of([np.zeros((1, 1))] * nodes, [np.zeros(1)] * nodes, nominal=problem.shard_size)
    return Task(name="module", loss=nothing, shards=places, l2=problem.l2)


def read_table(path: Path) -> dict[str, object]:
    """What stands in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error} (check the path)") from None
    except ValueError as error:
        raise FileError(f"{path}: is no TOML file: {error} (mend it there)") from None


def read_network(path: Path) -> Network:
    """The network in a TOML file; errors name the file, the value, the rule and the remedy."""
    data = read_table(path)
    try:
        return Network.of(read_form(data, Settings, "a network"))
    except InputError as error:
        raise FileError(f"{path}: {error}") from None


def _check_numbers(settings: Settings) -> None:
    """Refuse numbers that make no run."""
    positive(noise_multiplier=settings.noise_multiplier, clip=settings.clip)
    probability(delta=settings.delta)
    waits = settings.deadlines
    positive(join=waits.join, round=waits.round, lost=waits.lost)
    if waits.lost > waits.round:
        raise InputError(
            f"deadlines.lost must be at most deadlines.round, {waits.round!r}; got {waits.lost!r} (a peer that is gone "
            "is not waited for longer than one that is there)"
        )


def _check_nodes(nodes: tuple[Card, ...]) -> None:
    """Refuse nodes that are too few, or two that share what must be their own."""
    if len(nodes) < 2:
        raise InputError(f"nodes must be at least two; got {len(nodes)} (paste the public file of each node)")
    for node in nodes:
        check_public(node)
    for one, other in itertools.combinations(nodes, 2):
        for field in ("name", "address", "signing", "sealing"):
            if getattr(one, field) == getattr(other, field):
                raise InputError(
                    f"nodes must differ in their {field}; {one.name} and {other.name} have {getattr(one, field)!r} "
                    "(every node makes an identity of its own)"
                )


def _check_protocol(protocol: Protocol) -> None:
    """Refuse what real peers do not run."""
    if any(draw.each == "edge" for program in protocol.programs for draw in program.draws):
        raise InputError(
            f"peers run protocols whose noise every node draws by itself; got {protocol.name!r}, in which two nodes "
            "share a draw (take another protocol)"
        )
