# SPDX-License-Identifier: Apache-2.0
"""`compare`: several questions at the same noise, or at the noise that gives each the same ε."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.accounting.verbs import account_all
from sottovoce.errors import InputError, NotCertified, positive, probability
from sottovoce.scenarios import Effort

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sottovoce.accounting.table import AccountTable
    from sottovoce.scenarios import Scenario

__all__ = ["Contender", "compare"]

USUAL = Effort()


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """One of several questions: its table of all pairs, and why no noise gives the ε that was asked for, if none does.

    Then the table holds noise multiplier 1.
    """

    name: str
    table: AccountTable
    refused: str | None = None

    def _repr_html_(self) -> str:
        """What a notebook shows: the table under its name, and what was refused."""
        why = "" if self.refused is None else f"<p>{html.escape(self.refused)}</p>"
        return f"<div><p>{html.escape(self.name)}</p>{self.table._repr_html_()}{why}</div>"


def compare(
    scenarios: Mapping[str, Scenario],
    *,
    noise_multiplier: float | None = None,
    target_epsilon: float | None = None,
    delta: float = 1e-5,
    effort: Effort = USUAL,
    progress: Callable[[int, int], None] | None = None,
) -> list[Contender]:
    """Answer several questions at one noise multiplier, or each at the least that keeps it within `target_epsilon`.

    `progress` is called with (questions answered, questions in all).

    Guarantee: as for `account_all` and `AccountTable.calibrated_noise`, each by itself: what is compared is the upper
    end of the worst pair. Two upper ends compare guarantees; leaks are ordered only where the intervals do not overlap.

    >>> from sottovoce import Scenario, gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=10)
    >>> asked = {view: Scenario(protocol=ring, view=view) for view in ("everyone", "secure-sum")}
    >>> [(one.name, round(one.table.noise_multiplier, 2)) for one in compare(asked, target_epsilon=1)]
    [('everyone', 11.8), ('secure-sum', 8.18)]
    """
    if noise_multiplier is None and target_epsilon is None:
        raise InputError(
            "noise_multiplier must be given where target_epsilon is not (the same noise for all, or the same ε)"
        )
    if noise_multiplier is not None and target_epsilon is not None:
        raise InputError(
            f"noise_multiplier must be left out where target_epsilon is given; got {noise_multiplier!r} and "
            f"{target_epsilon!r} (the same noise for all, or the same ε)"
        )
    if len(scenarios) < 2:
        raise InputError(f"a comparison needs two questions or more; got {len(scenarios)} (add another)")
    if target_epsilon is not None:
        positive(target_epsilon=target_epsilon)
    probability(delta=delta)
    found = []
    for count, (name, scenario) in enumerate(scenarios.items()):
        if progress is not None:
            progress(count, len(scenarios))
        table = account_all(
            scenario,
            noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
            delta=delta,
            effort=effort,
        )
        refused = None
        if target_epsilon is not None:
            try:
                table = table.with_noise(table.calibrated_noise(target_epsilon, delta))
            except (InputError, NotCertified) as error:
                refused = str(error)
        found.append(Contender(name=name, table=table, refused=refused))
    return found
