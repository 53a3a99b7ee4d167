# SPDX-License-Identifier: Apache-2.0
"""How a node's training reacts to what it received: the slopes of its update maps, round by round, from public numbers.

In round t a node maps what it received to θ − η_t(∇f(θ) + h∘θ). Divided by its step, as noise and contributions are,
its message obeys

    s̃_t = g_t(W s̃_{t−1}) + x_t + u_t,   slopes of g_t in (η_{t−1}/η_t)·[1 − η_t(L + h), 1 − η_t h]

for convex losses of smoothness L. That is what `sottovoce.feedback` bounds Δ² for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sottovoce.errors import InputError
from sottovoce.feedback import composed_growth, composed_slopes, update_slopes
from sottovoce.learning.coins import most_heads
from sottovoce.learning.rounding import SLOPE_ROOM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.learning.recipes import Recipe
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Losses

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Reaction", "reaction_of"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reaction:
    """What is public of all nodes' update maps: `slopes` holds the ends of round t's ball in row t, divided by steps.

    None where nothing is known of the loss. `smoothness` is L of what a node's records do together: that of one record,
    or more where a batch may hold more records than it is divided by. `losses` says what clipping leaves of convexity.
    With several local steps a round, slopes are those of all of them together, and `growth` is how many times as far as
    one step a record can move what they make. `varies` says that steps differ from round to round: even where slopes do
    not, what a node remembers of an earlier round is divided by another step than what it hears.
    """

    slopes: Array | None = None
    smoothness: float | None = None
    losses: Losses | None = None
    growth: float = 1.0
    varies: bool = False

    def hull(self, skipped: int, rounds: int) -> tuple[float, float] | None:
        """One ball for the maps of all rounds up to `rounds` but the first `skipped`, of a run that begins after those.

        The first of its rounds has received nothing that differs, so its map does not count.
        """
        if self.slopes is None:
            return None
        used = self.slopes[skipped + 1 : rounds] if rounds > skipped + 1 else self.slopes[skipped:rounds]
        return float(used[:, 0].min()), float(used[:, 1].max())

    @property
    def settings(self) -> dict[str, Any]:
        """What a run keeps of it."""
        hull = self.hull(0, 0 if self.slopes is None else len(self.slopes))
        return {
            "smoothness": self.smoothness,
            "losses": self.losses,
            "slopes": None if hull is None else list(hull),
            "growth": self.growth,
        }


def reaction_of(task: Task, steps: Array, recipe: Recipe) -> Reaction:
    """The slopes of a task's update maps for these steps, from what is public of its loss.

    Of the recipe its clip, its unit, its batches and its local steps count: noise plays no role, and neither does its
    step, which `steps` holds round by round.

    Guarantee: the maps of every node lie in the balls, whatever its records, as long as no more of them are summed than
    the public shard size, and of a batch no more than its cap: `most_heads(nominal, q)` where it is divided by
    q·nominal, and ⌈nominal/B⌉ places of an epoch where it is divided by nominal/B. L grows by the quotient.
    With `unit="node"` the target's own map without its data is θ − ηhθ, which lies in them too.
    Local steps compose: `composed_slopes` for their maps, and `composed_growth` for what a record adds to each of them,
    which the steps after it carry on. Without the data of a node these are θ − ηhθ, which let nothing grow.
    Source: `sottovoce.feedback.update_slopes`; docs/training.md for steps that vary.

    >>> from sottovoce.learning import Recipe, load_data, task_from
    >>> digits = task_from(load_data("digits"), 10, l2=0)
    >>> reaction_of(digits, np.full(3, 2.0), Recipe(noise_multiplier=1)).slopes[1].round(9).tolist()
    [0.5, 1.0]
    """
    record = task.loss.smoothness
    if record is None:
        _check_local_steps(task, recipe)
        return Reaction(growth=float(recipe.local_steps))
    excess = _excess(task.shards.nominal, recipe.batch_fraction, recipe.batches)
    smoothness = float(record) * excess
    # The sum of a node is divided before it is clipped, and may be as many times as long as a gradient.
    node = recipe.unit == "node"
    shape = task.loss.shape(recipe.clip / excess if node else recipe.clip, whole=node)
    least, most = float(task.linear.min()), float(task.linear.max())
    balls = {size: _ball(size, smoothness, shape, least, most) for size in set(steps.tolist())}
    reach = 1.0 if node else max(abs(end) for ends in balls.values() for end in ends)
    balls = {size: composed_slopes(ends, recipe.local_steps) for size, ends in balls.items()}
    slopes = np.array([balls[size] for size in steps.tolist()])
    slopes[1:] *= (steps[:-1] / steps[1:])[:, None]
    slopes += SLOPE_ROOM * np.abs(slopes) * np.array([-1.0, 1.0])
    growth = composed_growth(reach, recipe.local_steps)
    varies = bool((steps != steps[0]).any())
    return Reaction(slopes=slopes, smoothness=smoothness, losses=shape, growth=growth, varies=varies)


def _check_local_steps(task: Task, recipe: Recipe) -> None:
    """Refuse several local steps on losses of which nothing is known: what a record changes, the others may amplify."""
    if recipe.local_steps > 1 and recipe.unit == "record":
        raise InputError(
            f"local_steps must be 1 for the loss {task.loss.name}, of which no smoothness is known: what a record "
            f"changed in one step, the gradients of all others may amplify in the next; got {recipe.local_steps} "
            "(declare smoothness=, protect whole nodes, or take more rounds)"
        )


def _excess(nominal: int, batch_fraction: float, batches: int) -> float:
    """How many times as many records a batch may hold as it is divided by, rounded up; 1 where all take part."""
    if batches > 1:
        return -(-nominal // batches) * batches / nominal * (1 + SLOPE_ROOM)
    if batch_fraction < 1:
        return most_heads(nominal, batch_fraction) / (batch_fraction * nominal) * (1 + SLOPE_ROOM)
    return 1.0


def _ball(size: float, smoothness: float, shape: Losses, least: float, most: float) -> tuple[float, float]:
    """The ends for one step; h∘θ with h between `least` and `most` adds a ball of its own."""
    uneven = size * (most - least)
    if smoothness == 0:
        room = SLOPE_ROOM * (1 + size * most)
        return 1 - size * most - room, 1 - size * least + room
    lower, upper = update_slopes(step=size, smoothness=smoothness, losses=shape, ridge=least)
    return lower - uneven * (1 + SLOPE_ROOM), upper
