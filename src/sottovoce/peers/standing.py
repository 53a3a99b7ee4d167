# SPDX-License-Identifier: Apache-2.0
"""What lies in a node's folder before it runs, held against what it is to run by.

All of it is looked at before a link is open: a network that was agreed on otherwise than that of the run in the folder,
keys that are not those of the network, a transcript or a file of spending in which something was changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from sottovoce.errors import FileError, InputError
from sottovoce.files import put_whole
from sottovoce.forms import read_form, strict_json
from sottovoce.peers.earlier import NOTHING, Earlier, read_earlier
from sottovoce.peers.keeping import check_newest, read_kept
from sottovoce.peers.messages import Refused
from sottovoce.peers.naming import read_part
from sottovoce.peers.network import Settings
from sottovoce.peers.notes import Begun
from sottovoce.peers.policy import Budget
from sottovoce.peers.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sottovoce.peers.earlier import EarlierRun
    from sottovoce.peers.keeping import Kept
    from sottovoce.peers.network import Network
    from sottovoce.peers.sites import Site

__all__ = ["Standing", "standing_of", "write_agreed"]

_AGREED = "network.json"
# Of a value that differs, so many characters are shown; of differences, so many.
_SHOWN, _MOST = 48, 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """Where a node stands before it runs: what it kept, what it wrote, and what it spent in this run and in others.

    `network` is what was `agreed` on, in the run that the node is in, if it is in one.
    """

    agreed: Network
    network: Network
    me: int
    kept: Kept | None
    transcript: Transcript
    earlier: Earlier
    written: EarlierRun | None

    @property
    def finished(self) -> bool:
        """Whether the node has gone through all rounds of its run."""
        memory = None if self.kept is None else self.kept.memory
        return memory is not None and memory.phase == "done" and memory.round >= self.network.settings.rounds

    @property
    def over(self) -> bool:
        """Whether it has, and everybody has what it sent."""
        return self.kept is not None and self.finished and not self.kept.letters

    @property
    def deserted(self) -> bool:
        """Whether all neighbours have said goodbye."""
        memory = None if self.kept is None else self.kept.memory
        return memory is not None and memory.left.keys() >= set(self.network.neighbours(self.me))


def standing_of(network: Network, site: Site) -> Standing:
    """Where a node stands; refused if what lies in its folder is not of this network and these keys, or was changed.

    Guarantee: of a transcript that is taken, no byte was changed since it was written, and no line is missing; of this
    run no less is taken as spent than it cost.
    """
    agreed, me = network, network.holder(site.identity.card)
    kept = read_kept(site.folder / "state")
    if kept is not None and kept.memory is not None:
        network = _run_in(network, site.folder, kept)
    elif kept is not None and not _drawn_for(network, kept.own):
        # Nothing was sent in the run of which this is a part, and none of this network has it.
        kept = None
    transcript = Transcript(site.folder / "transcript.jsonl", site.identity.signing)
    check_newest(site.folder, kept, transcript.number)
    _check_first(transcript, network, site)
    earlier = NOTHING if site.spent is None else read_earlier(site.spent, network)
    name = network.run_name.hex() if network.parts else ""
    written = earlier.of_run(name)
    if site.spent is not None and kept is not None and kept.memory is not None:
        _check_spent(site.spent, network, written, kept.memory.sent)
    return Standing(
        agreed=agreed,
        network=network,
        me=me,
        kept=kept,
        transcript=transcript,
        earlier=earlier.without(name),
        written=written,
    )


def write_agreed(folder: Path, network: Network) -> None:
    """Write what was agreed on for the run in a folder: the bytes whose hash is that of the network."""
    try:
        put_whole([network.agreed], folder, lambda: _AGREED, rights=0o600)
    except OSError as error:
        raise FileError(f"{folder}: cannot be used: {error.strerror or error} (make room)") from None


def _run_in(network: Network, folder: Path, kept: Kept) -> Network:
    """The network in the run that a folder holds; refused if that run is of another network."""
    try:
        found = network.joined(kept.parts)
    except Refused:
        raise FileError(
            f"{folder}: holds a run of a network that was agreed on otherwise: {_unlike(network, folder)} (put that "
            "back to go on with the run; for a new one take another folder, or move this one away: what the run gave "
            "away stays counted)"
        ) from None
    assert kept.memory is not None
    if kept.memory.run != found.run_name:
        raise FileError(
            f"{folder}: the state is of another run than the parts that it holds (take the original file)"
        )
    return found


def _drawn_for(network: Network, frame: bytes) -> bool:
    """Whether what a node drew for a run is of this network."""
    try:
        read_part(network.hash, network.settings.nodes, frame)
    except Refused:
        return False
    return True


def _check_first(transcript: Transcript, network: Network, site: Site) -> None:
    """Refuse a transcript of another run than that of the state."""
    first = transcript.first
    if first is not None and not (isinstance(first, Begun) and first.parts == network.parts):
        raise FileError(
            f"{site.folder}: the transcript is of another run than the state (take the original files)"
        )


def _check_spent(path: Path, network: Network, written: EarlierRun | None, sent: int) -> None:
    """Refuse a file of spending that says less of this run than it cost."""
    said = 0 if written is None else written.sent
    if said < sent:
        raise FileError(
            f"{path}: must tell of the {sent} rounds of this run in which the node sent; it tells of {said} (give the "
            "file that this run was begun with, as it was)"
        )
    if written is None:
        return
    least = Budget.mus_of(network)[min(said, network.settings.rounds)]
    if not written.mu >= least:
        raise FileError(
            f"{path}: must count μ = {least!r} for this run after {said} rounds; it says {written.mu!r} (take the "
            "original file)"
        )
    if written.nodes != network.signing_keys(range(network.n)):
        raise FileError(f"{path}: must name the nodes of this run; it names others (take the original file)")


def _unlike(network: Network, folder: Path) -> str:
    """What a network differs in from the one in a folder, in words."""
    path = folder / _AGREED
    try:
        before = read_form(strict_json(path.read_text(encoding="utf-8"), _AGREED), Settings, _AGREED)
    except (OSError, UnicodeDecodeError, InputError):
        return f"{_AGREED} beside it, which tells how, is missing or was changed"
    found = list(_changes(msgspec.to_builtins(before), msgspec.to_builtins(network.settings), ""))
    if not found:
        return f"{_AGREED} beside it, which tells how, is of another run"
    more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more


def _changes(before: object, now: object, name: str) -> Iterator[str]:
    """What of a value of settings was otherwise, field by field.

    >>> list(_changes({"rounds": 4, "edges": [["a", "b"]]}, {"rounds": 5, "edges": []}, ""))
    ['rounds is 5 and was 4', "edges lacks [['a', 'b']]"]
    """
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _changes(before.get(key), now.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(before, list | tuple) and isinstance(now, list | tuple):
        named = [{each["name"]: each for each in side} for side in (before, now) if _is_named(side)]
        if len(named) == 2 and named[0] and named[1]:
            yield from _changes(named[0], named[1], name)
            if list(named[0]) != list(named[1]) and set(named[0]) == set(named[1]):
                yield f"the order of {name} is another"
            return
        for sides, word in (((now, before), "has, and had not,"), ((before, now), "lacks")):
            more = [each for each in sides[0] if each not in sides[1]]
            if more:
                yield f"{name} {word} {_short(more)}"
        if sorted(map(repr, before)) == sorted(map(repr, now)):
            yield f"the order of {name} is another"
    else:
        yield f"{name} {_is(now)} and {_is(before, 'was')}"


def _is_named(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        isinstance(each, dict) and "name" in each for each in values
    )


def _is(value: object, word: str = "is") -> str:
    return f"{word} not there" if value is None else f"{word} {_short(value)}"


def _short(value: object) -> str:
    """A value as it is shown; of one that is long its beginning, of a node its address."""
    text = repr(value.get("address", value) if isinstance(value, dict) else value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
