# SPDX-License-Identifier: Apache-2.0
"""One tile: the sensitivities of a range of observers as an Arrow table, in bytes that travel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import InputError, ViewError, one_of
from sottovoce.scenarios import Answer
from sottovoce.sensitivities import carried, portion_of, sensitivity
from sottovoce.sweeps.extras import pyarrow
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.graphs import Orbits
    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities import Sensitivities

__all__ = ["VIEWS", "Work", "arrow_schema", "default_tile", "expected_pairs", "read_tile", "tile_bytes"]

VIEWS = ("neighbourhood", "secure-sum", "single-node")
PART_ROWS = 100_000
FEWEST_PARTS = 32
# So many pairs of answers that are carried to others are kept: 60 bytes each.
KEPT_PAIRS = 10**6


@dataclass(frozen=True, kw_only=True, eq=False)
class Work(Answer):
    """What every tile of a sweep is computed from; it travels to each worker once."""

    scenario: Scenario
    effort: Effort

    def __post_init__(self) -> None:
        """Refuse what is not a sweep: a view that is no one observer's, some pairs alone."""
        scenario = self.scenario
        if scenario.view_name.startswith("coalition"):
            raise ViewError(
                f"view must belong to one observer at a time to be swept; got {scenario.view_name!r} "
                f"(choose one of {', '.join(VIEWS)})"
            )
        one_of(VIEWS, view=scenario.view)
        for word in ("observers", "targets"):
            if getattr(scenario, word) is not None:
                raise InputError(
                    f"{word} must be left out of a sweep, which goes through all pairs; got "
                    f"{list(getattr(scenario, word))} (ask account_all about some)"
                )

    @cached_property
    def _orbits(self) -> Orbits:
        """Which observers share their answers, the same in every process."""
        return self.protocol.symmetries.orbits(range(self.protocol.n))

    @cached_property
    def _lent(self) -> dict[int, Sensitivities | None]:
        """The observers whose answers are carried to others, and what was found of those that came last."""
        firsts = map(self._orbits.first, range(self.protocol.n))
        return {first: None for node, first in enumerate(firsts) if first != node}

    @property
    def _of_one(self) -> Effort:
        """What may be spent on one observer, whose question is not shared out any further."""
        return replace(self.effort, workers=1)

    def answer_of(self, observer: int, progress: Callable[[int, int], None] | None = None) -> Sensitivities:
        """What the node at an index sees: if others are like it, what the first of them sees, carried to it.

        Guarantee: that of `sottovoce.sensitivity`; carrying an answer along a relabelling of the network is exact.
        """
        question = self.question_of(observer)
        if not self.scenario.takes_turns:
            return sensitivity(question, effort=self._of_one, progress=progress)
        first = self._orbits.first(observer)
        found = self._lent.get(first)
        if found is None:
            found = sensitivity(self.question_of(first), effort=self._of_one, progress=progress)
            if first in self._lent:
                self._keep(first, found)
        return carried(found, question, self._orbits.images(observer), question.target_indices)

    def _keep(self, first: int, found: Sensitivities) -> None:
        """Keep the ends of an answer for others, and as many of those before it as may be kept."""
        # Nobody asks for streams here, which would keep the whole filter.
        self._lent[first] = replace(found, witness_of=_no_stream)
        kept = [node for node, answer in self._lent.items() if answer is not None and node != first]
        for node in kept[: max(0, len(kept) + 1 - KEPT_PAIRS // self.protocol.n)]:
            self._lent[node] = None

    def question_of(self, observer: int) -> Scenario:
        """What is asked about the node at an index."""
        label = self.protocol.labels[observer]
        view = View(
            name=self.scenario.view_name,
            observers=(label,),
            own_noise=self.scenario.own_noise,
            exchanges=self.scenario.exchanges,
        )
        return self.scenario.of(view)


def _no_stream(place: int) -> np.ndarray:
    raise AssertionError(f"a sweep keeps no streams; that of place {place} was asked for")


def default_tile(nodes: int) -> int:
    """Observers to a part: about 100 000 pairs, but at least 32 parts where there are as many nodes."""
    return max(1, min(-(-PART_ROWS // nodes), nodes // FEWEST_PARTS))


def arrow_schema(fingerprint: str) -> Any:  # noqa: ANN401 - the package carries no types
    """The columns of a part, and the sweep that it belongs to."""
    pa = pyarrow()
    return pa.schema(
        [
            pa.field("observer", pa.int32(), nullable=False),
            pa.field("target", pa.int32(), nullable=False),
            pa.field("squared_lower", pa.float64(), nullable=False),
            pa.field("squared_upper", pa.float64(), nullable=False),
            pa.field("method", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        ],
        metadata={"sottovoce.sweep": fingerprint},
    )


def expected_pairs(span: range, nodes: int, own_noise: str) -> tuple[np.ndarray, np.ndarray]:
    """The indices of observers and targets that a tile holds, in its order.

    Guarantee: exact; a part that holds other pairs, or fewer, is not taken for finished.
    """
    observers = np.repeat(np.arange(span.start, span.stop, dtype=np.int32), nodes)
    targets = np.tile(np.arange(nodes, dtype=np.int32), len(span))
    kept = observers != targets if own_noise == "known" else np.ones(len(observers), dtype=bool)
    return observers[kept], targets[kept]


def tile_bytes(
    work: Work, span: range, fingerprint: str, progress: Callable[[int, int], None] | None = None
) -> bytes:
    """The pairs of the observers in `span` as an Arrow stream; `progress` hears (pairs done, pairs in all).

    The numbers are those of `sensitivity` for the first observer of each orbit, and so of `account_all`; in training
    every observer's own worst target is sharpened.
    """
    pa = pyarrow()
    found = []
    targets = work.protocol.n - (work.scenario.own_noise == "known")
    for place, observer in enumerate(span):
        found.append(
            work.answer_of(observer, portion_of(progress, place * targets, targets, len(span) * targets))
        )
        if progress is not None:
            progress((place + 1) * targets, len(span) * targets)
    table = pa.table(
        [
            np.repeat(np.arange(span.start, span.stop, dtype=np.int32), [len(each) for each in found]),
            np.concatenate([each.indices for each in found]).astype(np.int32),
            np.concatenate([each.squared_lower for each in found]),
            np.concatenate([each.squared_upper for each in found]),
            pa.array(np.concatenate([each.method for each in found]).astype(object)).dictionary_encode(),
        ],
        schema=arrow_schema(fingerprint),
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def read_tile(content: bytes) -> Any:  # noqa: ANN401 - the package carries no types
    """The Arrow table in a stream that `tile_bytes` made."""
    return pyarrow().ipc.open_stream(content).read_all()
