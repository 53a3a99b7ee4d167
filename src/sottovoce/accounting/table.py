# SPDX-License-Identifier: Apache-2.0
"""`AccountTable`: what one or many observers learn about many targets, as arrays.

Arrays in, arrays out: what an `Account` says of one pair the columns say of all, by the same functions, so that a
table of a million pairs costs a few evaluations of arrays. Rows are pairs, in the order in which views were computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce import gaussian
from sottovoce.accounting.room import roomy
from sottovoce.accounting.values import Account, mu_ends
from sottovoce.errors import InputError, NotCertified, at_least, needs, one_of, positive, probability
from sottovoce.interval import Interval, as_given, both_ends, rounded_up
from sottovoce.markup import MOST_ROWS, shown
from sottovoce.protocols import missing_noise
from sottovoce.rounding import barely_below
from sottovoce.scenarios import RELATIONS, Answer
from sottovoce.views import ASSUMPTIONS, View, rests_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray
    from pandas import DataFrame

    from sottovoce.scenarios import Scenario
    from sottovoce.views import Assumption

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["AccountTable"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AccountTable(Answer):
    """Accounts of many (observer, target) pairs: Δ² as arrays, and with them μ and ε at one noise and one δ.

    `scenario` is what was asked; pair k is what the view of `observers[observer_of[k]]` shows of `target_indices[k]`.
    `table[target]` is the `Account` of that target, for its worst observer if there are many;
    `table[observer, target]` is one pair. For training, whose contributions depend on hidden states, take
    `dataclasses.replace(table, assumption="hidden-state")`.

    >>> from sottovoce import graphs
    >>> from sottovoce.accounting import account_all
    >>> from sottovoce.protocols import gossip
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    >>> table = account_all(ring, "secure-sum", noise_multiplier=2.0, delta=1e-5)
    >>> len(table), round(table[0, 2].epsilon().upper, 3), round(table[2].epsilon().upper, 3)
    (30, 0.653, 2.421)
    """

    scenario: Scenario
    noise_multiplier: float
    delta: float
    observers: Sequence[tuple[Hashable, ...]]
    observer_of: NDArray[np.int64]
    target_indices: NDArray[np.int64]
    squared_lower: Array
    squared_upper: Array
    method: NDArray[np.str_]
    assumption: Assumption = "oblivious"

    def __post_init__(self) -> None:
        """Refuse an empty table, columns of unlike length, and settings that make no guarantee."""
        positive(noise_multiplier=self.noise_multiplier)
        probability(delta=self.delta)
        one_of(ASSUMPTIONS, assumption=self.assumption)
        columns = (self.observer_of, self.target_indices, self.squared_lower, self.squared_upper, self.method)
        lengths = {len(column) for column in columns}
        if lengths == {0}:
            raise InputError(
                "a table of accounts must hold at least one pair; got none "
                "(name a target whose noise the observer does not know)"
            )
        if len(lengths) > 1:
            raise InputError(
                "the columns of a table of accounts must have the same length; got lengths "
                f"{', '.join(str(len(column)) for column in columns)} (one entry for each pair)"
            )

    @property
    def view(self) -> str:
        """What the view is called."""
        return self.scenario.view_name

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.target_indices)

    def __repr__(self) -> str:
        """View, size and noise."""
        noun = "pair" if len(self) == 1 else "pairs"
        return f"AccountTable({self.view}, {len(self)} {noun}, noise multiplier {self.noise_multiplier!r})"

    @cached_property
    def targets(self) -> NDArray[np.int64] | NDArray[np.object_]:
        """The name of each pair's target."""
        return self._names[self.target_indices]

    @cached_property
    def _names(self) -> NDArray[np.int64] | NDArray[np.object_]:
        """The name of each node, in index order."""
        return self.protocol.names(np.arange(self.protocol.n))

    @cached_property
    def _mu(self) -> tuple[Array, Array]:
        return mu_ends(
            self.squared_lower,
            self.squared_upper,
            relation=self.relation,
            noise_multiplier=self.noise_multiplier,
        )

    @property
    def mu_lower(self) -> Array:
        """Lower ends of μ = factor·Δ/noise_multiplier.

        Guarantee: lower bounds, for some neighbouring streams of each pair do leak that much; those of `mu_ends`.
        """
        return self._mu[0]

    @property
    def mu_upper(self) -> Array:
        """Upper ends of μ.

        Guarantee: upper bounds under `assumption`, rounding included; those of `mu_ends`.
        """
        return self._mu[1]

    @cached_property
    def epsilon_lower(self) -> Array:
        """Lower ends of ε at the table's δ.

        Guarantee: lower bounds of the smallest ε, 0 where nothing is proved.
        Source: Balle & Wang 2018, Theorem 8, inverted; docs/proofs/profile.md, "Lower ends".
        """
        return np.asarray(gaussian.epsilon_lower(self.mu_lower, self.delta))

    @cached_property
    def epsilon_upper(self) -> Array:
        """Upper ends of ε at the table's δ: what a person is shown.

        Guarantee: upper bounds under `assumption`: the view of each pair is (ε, δ)-private, rounding included.
        Source: Balle & Wang 2018, Theorem 8, inverted.
        """
        return np.asarray(gaussian.epsilon(self.mu_upper, self.delta))

    def view_of(self, row: int) -> View:
        """The view that `observers[row]` has."""
        if isinstance(self.scenario.view, View):
            return self.scenario.view
        return View(
            name=self.view,
            observers=tuple(self.observers[row]),
            own_noise=self.own_noise,
            exchanges=self.scenario.exchanges,
        )

    def question(self, place: int) -> Scenario:
        """The scenario of one pair alone."""
        target = self.protocol.labels[int(self.target_indices[place])]
        return self.scenario.of(self.view_of(int(self.observer_of[place])), [target])

    def __getitem__(self, key: Hashable) -> Account:
        """`table[target]`, or `table[observer, target]`; a key that names a node is a target.

        Where nodes are themselves named by pairs, `pair` and `about` say which is meant.
        """
        if isinstance(key, tuple) and len(key) == 2 and not self._is_label(key):
            return self.pair(*key)
        return self.about(key)

    def about(self, target: Hashable) -> Account:
        """What the worst observer learns about `target`.

        Guarantee: the upper end holds for every observer of the table, each alone; two that pool what they see are a
        coalition.
        """
        places = np.flatnonzero(self.target_indices == self.protocol.index(target))
        if places.size == 0:
            raise InputError(
                f"node {target!r} is not among the targets of this table "
                "(its noise is known to the observer, or it was not asked for)"
            )
        return self._account(places[np.argmax(self.mu_upper[places])])

    def pair(self, observer: Hashable, target: Hashable) -> Account:
        """What `observer`, a node or the nodes of a coalition, learns about `target`.

        Guarantee: that of `Account.of`, under the table's assumption, or a weaker one where the pair's own bound
        needs less.
        """
        row = self._row(observer)
        index = self.protocol.index(target)
        places = np.flatnonzero((self.observer_of == row) & (self.target_indices == index))
        if places.size == 0:
            raise InputError(
                f"node {target!r} is not among the targets of the observer {observer!r} "
                "(its noise is known to the observer, or it was not asked for)"
            )
        return self._account(places[0])

    def worst(self) -> Account:
        """The pair that learns most: the largest upper end of μ, the first of equals.

        Guarantee: the upper end of its ε bounds that of every pair of the table, since ε grows with μ. Its lower end
        is its own: another pair of a wider interval may truly learn more.
        """
        return self._account(np.argmax(self.mu_upper))

    def median(self) -> Account:
        """The middle pair by the upper end of μ; the lower of two, so that it is a pair of the table.

        Guarantee: at least half of the pairs have an upper end that is no larger.
        """
        order = np.argsort(self.mu_upper, kind="stable")
        return self._account(order[(len(self) - 1) // 2])

    def best(self) -> Account:
        """The pair that learns least, by the upper end of μ.

        Guarantee: that of its own account; which pair truly learns least may be another one.
        """
        return self._account(np.argmin(self.mu_upper))

    def most_exposed(self, count: int = 10) -> list[tuple[Hashable, Account]]:
        """The targets about which most is learnt, worst first, each with its worst observer's account.

        Guarantee: no target that is left out has a larger upper end than one that is named.
        """
        at_least(1, count=count)
        order = np.argsort(-self.mu_upper, kind="stable")
        # In descending order the first pair of a target is its worst.
        first = np.unique(self.target_indices[order], return_index=True)[1]
        chosen = [self._account(place) for place in order[np.sort(first)[: int(count)]]]
        return [(account.target, account) for account in chosen]

    def with_noise(self, noise_multiplier: float) -> AccountTable:
        """The same pairs at another noise level.

        Guarantee: exact: Δ² does not depend on the noise multiplier, so that nothing is computed again but μ and ε.
        """
        return replace(self, noise_multiplier=noise_multiplier)

    def _repr_html_(self) -> str:
        """What a notebook shows: the most exposed nodes, each with who learns most about it."""
        rows = [
            (
                account.target,
                both_ends(account.epsilon()),
                ", ".join(map(str, account.observers)) or "everyone",
                account.method,
            )
            for _, account in self.most_exposed(MOST_ROWS)
        ]
        worst = rounded_up(float(self.epsilon_upper.max()))
        # Up: with what is read here, ε is no larger.
        noise = rounded_up(self.noise_multiplier, 6)
        return shown(
            f"ε ≤ {worst} at δ = {as_given(self.delta)}, view {self.view}, noise multiplier {noise}",
            ("target", "ε", "observer", "method"),
            rows,
            [
                f"{len(self)} pairs; of each target shown the observer that learns most, the most exposed first.",
                f"Assumption {self.assumption}: {ASSUMPTIONS[self.assumption]}.",
            ],
        )

    def calibrated_noise(self, target_epsilon: float, target_delta: float) -> float:
        """The smallest noise multiplier at which every pair is provably (target_epsilon, target_delta)-private.

            noise_multiplier = factor·Δ/μ(ε, δ),   Δ the largest upper end over the pairs, with the room of `roomy`.

        Guarantee: rounded up and re-checked; with it every `epsilon_upper` is at most `target_epsilon`, and so is ε of
        what a report's certificate claims of the worst pair. That counts rounds exactly where the bound does.
        Source: Balle & Wang 2018, Algorithm 1 (the analytic Gaussian mechanism).
        """
        positive(target_epsilon=target_epsilon)
        probability(target_delta=target_delta)
        largest = float(self.squared_upper.max())
        if largest == 0:
            raise InputError(
                f"noise is calibrated to what is seen; no target reaches the {self.view} view within "
                f"{self.protocol.rounds} rounds (participation {self.participation}), so no noise is needed "
                "(ask for more rounds, or another view)"
            )
        self._refuse_bare()
        # Rounding may put ε of a pair that all but equals the worst above the worst's.
        near = np.unique(self.squared_upper[self.squared_upper >= barely_below(largest)])
        claimed = largest if self._counts_exactly(largest) else roomy(largest, self.protocol.rounds)
        near = np.append(near, claimed)
        allowed = gaussian.mu(target_epsilon, target_delta)
        noise = RELATIONS[self.relation] * math.sqrt(claimed) / allowed
        if math.isinf(noise):
            raise NotCertified(
                f"no finite noise is certified to reach epsilon {target_epsilon!r} at delta {target_delta!r} "
                f"in the {self.view} view (ask for a larger epsilon or delta)"
            )
        step = math.ulp(noise)
        while not self._suffices(near, noise, target_epsilon, target_delta):
            noise, step = noise + step, 2 * step
        return noise

    def _counts_exactly(self, squared: float) -> bool:
        """Whether a certificate claims no more than this Δ²: a count of rounds; reports carry none of energies."""
        if self.contribution == "energy":
            return True
        rounds = self.participation.largest_count(self.protocol.rounds)
        gossips = replace(self.protocol, updates=None).plain
        # Of training another proof than the count may come down to it, but for rounding.
        return squared >= rounds and gossips and (self.protocol.updates is None or self.view == "everyone")

    def _refuse_bare(self) -> None:
        """Refuse to look for a noise multiplier where some contribution stands beside no noise at all."""
        why = self.bare
        if why is not None:
            place = int(np.flatnonzero(self.method == "infinite")[0])
            label = self.protocol.labels[int(self.target_indices[place])]
            raise NotCertified(
                f"no noise multiplier hides node {label!r} in the {self.view} view: its sensitivity is infinite, as "
                f"{why} (add a draw of that node to what it sends, at a level above 0)"
            )

    @property
    def bare(self) -> str | None:
        """Which noise is missing where a sensitivity is infinite, said of the first such pair; None if none is."""
        places = np.flatnonzero(self.method == "infinite")
        return missing_noise(self.protocol, int(self.target_indices[places[0]])) if places.size else None

    def _suffices(self, squared: Array, noise: float, epsilon: float, delta: float) -> bool:
        """Whether pairs of these Δ² are (ε, δ)-private at this noise.

        The same functions as those behind `epsilon_upper`, so that what is checked here is what the table will show.
        """
        upper = mu_ends(squared, squared, relation=self.relation, noise_multiplier=noise)[1]
        return bool(np.all(gaussian.epsilon(upper, delta) <= epsilon))

    def to_frame(self) -> DataFrame:
        """One row for each pair, as a pandas DataFrame. Needs the extra `frames`.

        An observer is a node's name, a tuple of names for a coalition, or the view's name if it has none.
        """
        try:
            import pandas as pd
        except ImportError:
            raise needs("to_frame", "pandas", "frames") from None
        return pd.DataFrame(
            {
                "observer": self._observer_names[self.observer_of],
                "target": self.targets,
                "sensitivity_squared_lower": self.squared_lower,
                "sensitivity_squared_upper": self.squared_upper,
                "method": self.method,
                "mu_lower": self.mu_lower,
                "mu_upper": self.mu_upper,
                "epsilon_lower": self.epsilon_lower,
                "epsilon_upper": self.epsilon_upper,
            }
        )

    @cached_property
    def _observer_names(self) -> NDArray[np.int64] | NDArray[np.object_]:
        """What a frame calls each observer."""
        if all(len(names) == 1 for names in self.observers):
            return self._names[[self.protocol.index(name) for (name,) in self.observers]]
        shown = np.empty(len(self.observers), dtype=object)
        for row, names in enumerate(self.observers):
            shown[row] = names[0] if len(names) == 1 else names or self.view
        return shown

    def _account(self, place: np.intp) -> Account:
        """The account of one pair."""
        return Account.of(
            Interval(float(self.squared_lower[place]), float(self.squared_upper[place])),
            method=str(self.method[place]),
            relation=self.relation,
            noise_multiplier=self.noise_multiplier,
            delta=self.delta,
            contribution=self.contribution,
            assumption=self._assumption(place),
            view=self.view,
            observers=self.observers[self.observer_of[place]],
            target=self.protocol.labels[int(self.target_indices[place])],
            participation=str(self.participation),
        )

    def _assumption(self, place: np.intp) -> Assumption:
        """What the account of one pair rests on: in training perhaps less than the table does."""
        if self.protocol.updates is None or self.assumption != "smooth":
            return self.assumption
        return rests_on(self.protocol, self.view, [str(self.method[place])])

    def _row(self, observer: Hashable) -> int:
        """Which view belongs to `observer`; the everyone view belongs to all."""
        if self.view == "everyone":
            return 0
        names: Iterable[Hashable] = (observer,)
        if isinstance(observer, tuple | list | set | frozenset) and not self._is_label(observer):
            names = observer
        row = self._rows.get(frozenset(map(self.protocol.index, names)))
        if row is None:
            raise InputError(
                f"{observer!r} is not among the observers of this table "
                f"(it has {len(self.observers)}, such as {self.observers[0]!r})"
            )
        return row

    @cached_property
    def _rows(self) -> dict[frozenset[int], int]:
        """From the nodes of a view to its place in `observers`."""
        index = self.protocol.index
        return {frozenset(map(index, names)): row for row, names in enumerate(self.observers)}

    def _is_label(self, name: object) -> bool:
        """Whether a tuple or another collection is itself the name of a node."""
        labels = self.protocol.labels
        return not isinstance(labels, range) and name in labels
