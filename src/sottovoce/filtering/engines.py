# SPDX-License-Identifier: Apache-2.0
"""Which filter answers for a view of a program: on a Krylov space, on all that is kept, or on what cannot be known.

Every one of them says how far it is off, so that the choice is a matter of speed and width, never of soundness. A
filter over all that is kept follows modes that nothing excites, as far as rounding puts something there; where these
run away, which its own bounds tell (`ProgramResponse.reach`), they are taken out in whole numbers (`restriction`).

Source: docs/protocols.md, How it is computed; docs/proofs/programs.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sottovoce.errors import NotCertified
from sottovoce.filtering.backward import reached_nodes
from sottovoce.filtering.block_forms import BlockResponse
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.innovations import SETTLED, innovations
from sottovoce.filtering.plain_steps import filtered_plainly
from sottovoce.filtering.program_forms import ProgramResponse
from sottovoce.filtering.reduction import reduced_stages
from sottovoce.filtering.restriction import known_numbers, restrictions
from sottovoce.filtering.stages import stages_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np

    from sottovoce.filtering.decorrelation import SeenView
    from sottovoce.filtering.reduction import Cut
    from sottovoce.filtering.response import Engine
    from sottovoce.filtering.restriction import Restriction
    from sottovoce.filtering.stages import Stage
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["program_response", "quick_response"]

# Speed alone: on a Krylov space gains are kept sooner: what that costs is counted like what is cut.
SOON_SETTLED, COARSELY_SETTLED = 1e-9, 1e-7
# Speed alone: the same for a filter in plain floats, by what rows show, where forms may be off by so much.
QUICKLY_SETTLED, QUICKLY_LOOSE = 4e-10, 2e-4
# Speed alone: floats rarely know forms of several registers as closely as this.
SURELY_LOOSE = 1e-5
# Speed alone: rounds times (kept numbers)², which a filter holds until it settles; more is reduced or refused.
LARGEST = 300_000_000
# Speed alone: the same for a filter that is run again, unless one over all that is kept was asked for.
LARGEST_AGAIN = 30_000_000
# Speed alone: the same for a filter in plain floats, which holds four such matrices for every round. Fewer take next to
# nothing, and keep their digits.
SMALLEST_QUICKLY, LARGEST_QUICKLY = 200_000, 20_000_000
# Speed alone: a filter whose states hold more than this of unit disturbances may follow what nothing excites.
RUNS_AWAY = 1e4


def program_response(
    protocol: Protocol, view: View, *, engine: Engine = "auto", coarse: bool = False
) -> ProgramResponse:
    """What a view of any protocol tells, ready for every target, by the engine asked for or the cheapest one.

    `filter` runs the Kalman filter on all that is kept, `reduced` on a Krylov space that is grown until what it
    cuts is at rounding level. `auto` reduces, and filters where the Krylov space would be as large as the network.
    A filter that runs away is run again on what the observer cannot know.
    A `coarse` response leaves out more and settles sooner, and says so in its `accuracy`.

    Guarantee: the bounds of `accuracy` and of `forms` hold whatever engine and effort were chosen; views that no
    engine can take are refused.
    Source: docs/proofs/programs.md; docs/mathematics.md, sections 4 to 6.
    """
    return _closely(_prepared(protocol, view, engine, coarse=coarse))


def quick_response(
    protocol: Protocol, view: View, *, engine: Engine = "auto", loose: float = QUICKLY_LOOSE
) -> BlockResponse | ProgramResponse:
    """The same in plain floats, block by block; forms that may be off by more than a share `loose` are made as above.

    Guarantee: that of `program_response`.
    Source: docs/proofs/blocks.md.
    """
    prepared = _prepared(protocol, view, engine, coarse=False)
    several = len(protocol.programs[0].keeps) > 1
    if not SMALLEST_QUICKLY <= protocol.rounds * prepared.stages[0].size ** 2 <= LARGEST_QUICKLY:
        return _closely(prepared)
    if prepared.cut is not None and prepared.cut.tail:
        return _closely(prepared)
    if any(len(stage.entering) > 1 for stage in prepared.stages) or (several and loose < SURELY_LOOSE):
        return _closely(prepared)
    try:
        settled_at = min(QUICKLY_SETTLED, loose * QUICKLY_SETTLED / QUICKLY_LOOSE)
        run = filtered_plainly(prepared.stages, period=protocol.period, settled_at=settled_at)
    except NotCertified:
        return _closely(prepared)
    return BlockResponse(
        protocol=protocol,
        run=run,
        bare=prepared.seen.bare,
        reached=prepared.reached,
        cut=prepared.cut,
        loose=loose,
        closer=partial(_closely, prepared),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Prepared:
    """What every filter of a view begins with: its rows, the nodes that they reach, and rounds in floats."""

    protocol: Protocol
    view: View
    engine: Engine
    coarse: bool
    seen: SeenView
    reached: np.ndarray
    stages: list[Stage]
    cut: Cut | None


def _prepared(protocol: Protocol, view: View, engine: Engine, *, coarse: bool) -> _Prepared:
    """The rounds of a view, on a Krylov space or on all that is kept.

    A reduction is taken where it pays, or where all that is kept does not fit; with the engine "reduced" it is
    forced.

    Guarantee: none of its own: `cut` says what a Krylov space leaves out, and forms count it. What fits in neither
    way is refused with NotCertified.
    """
    seen = seen_view(protocol, view, thrifty=True)
    reduced = None
    if engine != "filter":
        reduced = reduced_stages(protocol, seen, forced=engine == "reduced", coarse=coarse)
    if reduced is None and not _fits_filter(protocol):
        reduced = reduced_stages(protocol, seen, forced=True, coarse=coarse) if engine == "auto" else None
        if reduced is None:
            raise _too_large(protocol)
    stages, cut = (stages_of(seen), None) if reduced is None else reduced
    return _Prepared(
        protocol=protocol,
        view=view,
        engine=engine,
        coarse=coarse,
        seen=seen,
        reached=reached_nodes(protocol, seen),
        stages=stages,
        cut=cut,
    )


def _closely(prepared: _Prepared) -> ProgramResponse:
    """The response of a filter whose defects are measured, again on what cannot be known where it runs away.

    Guarantee: that of `program_response`.
    """
    protocol, seen, engine, coarse = prepared.protocol, prepared.seen, prepared.engine, prepared.coarse
    stages, cut = prepared.stages, prepared.cut
    soon = COARSELY_SETTLED if coarse else SOON_SETTLED
    settled_at = SETTLED if cut is None else soon
    respond = partial(ProgramResponse, protocol=protocol, bare=seen.bare, reached=prepared.reached)
    again = _fits_filter(protocol, LARGEST if engine == "filter" else LARGEST_AGAIN) and engine != "reduced"
    whole, failed = None, None
    try:
        plainly = coarse and cut is not None
        steps = innovations(stages, period=protocol.period, settled_at=settled_at, plainly=plainly)
        whole = respond(steps=steps, cut=cut)
    except NotCertified as error:
        failed = error
    if _runs_away(whole):
        exact = seen_view(protocol, prepared.view)
        if cut is not None:
            reduce = partial(reduced_stages, protocol, seen, forced=engine == "reduced", coarse=coarse)
            whole = _reduced_again(exact, reduce, respond, soon, whole) or whole
        if again and _runs_away(whole):
            whole = _restricted(exact, respond, whole) or whole
    if whole is None:
        raise failed or _too_large(protocol)
    return whole


def _runs_away(found: ProgramResponse | None) -> bool:
    """Whether a filter came to nothing, or may follow what nothing excites."""
    return found is None or found.reach > RUNS_AWAY


def _restricted(
    seen: SeenView, respond: partial[ProgramResponse], whole: ProgramResponse | None
) -> ProgramResponse | None:
    """The response of a filter on what the observer cannot know; None where none reaches less far than the `whole` one.

    Contributions of some nodes may enter what the observer knows otherwise. These nodes have a filter in which it
    stays, or the whole one.

    Guarantee: that of `program_response`.
    Source: docs/proofs/programs.md, "What nothing excites".
    """
    found, left = _closest(seen, (), respond, whole)
    if found is None or left is None or not left.excited:
        return found
    other = _closest(seen, left.excited, respond, whole)[0] or whole
    return None if other is None else replace(found, other=(left.excited, other))


def _reduced_again(
    exact: SeenView,
    reduce: partial[tuple[list[Stage], Cut] | None],
    respond: partial[ProgramResponse],
    settled_at: float,
    whole: ProgramResponse | None,
) -> ProgramResponse | None:
    """The response on a Krylov space of what known nodes do not keep; None where that does not reach less far.

    Guarantee: that of `program_response`.
    """
    period = respond.keywords["protocol"].period
    left_out = known_numbers(exact, period)
    made = None if left_out is None else reduce(left_out=left_out)
    if made is None:
        return None
    try:
        steps = innovations(made[0], period=period, settled_at=settled_at, plainly=reduce.keywords["coarse"])
        found = respond(steps=steps, cut=made[1])
    except NotCertified:
        return None
    return found if whole is None or found.reach < whole.reach else None


def _closest(
    seen: SeenView, nodes: Collection[int], respond: partial[ProgramResponse], whole: ProgramResponse | None
) -> tuple[ProgramResponse | None, Restriction | None]:
    """The restricted filter that reaches least far, if that is less than the `whole` one; and what it leaves out.

    A restricted filter follows fewer of the states, and a mode that runs away may be among those that it leaves out.

    Guarantee: each of them makes a valid form, so that taking the closest is a choice of width alone.
    """
    best, chosen = None, None
    least = math.inf if whole is None else whole.reach
    for left in restrictions(seen, nodes):
        try:
            found = respond(steps=innovations(left.stages(), period=respond.keywords["protocol"].period))
        except NotCertified:
            continue
        if found.reach < least:
            best, chosen, least = found, left, found.reach
        if least <= RUNS_AWAY:
            break
    return best, chosen


def _fits_filter(protocol: Protocol, most: int = LARGEST) -> bool:
    """Whether a filter over all that is kept fits into memory."""
    return protocol.rounds * (protocol.n * len(protocol.programs[0].keeps)) ** 2 <= most


def _too_large(protocol: Protocol) -> NotCertified:
    """Why a view is refused."""
    size = protocol.n * len(protocol.programs[0].keeps)
    return NotCertified(
        f"this view of the protocol {protocol.name!r} is filtered over all that the nodes keep: rounds times the "
        f"square of these numbers must be at most {LARGEST}; {protocol.rounds} rounds of {size} numbers are more "
        "(take a view of fewer rows, fewer rounds, a smaller network, or the engine auto)"
    )
