# SPDX-License-Identifier: Apache-2.0
"""What a node spent in earlier runs, in a file of its own beside its keys: squares of μ add up from run to run.

The file grows by whole lines, and each line is there before the round that it speaks of is sent. It counts all runs of
the node, whatever records it had in them: nobody can tell records that stayed from records that are new.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from sottovoce.errors import FileError, InputError
from sottovoce.forms import Form, read_form, strict_json
from sottovoce.peers.keeping import opened_alone
from sottovoce.peers.rounding import squares_above
from sottovoce.peers.transcript import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sottovoce.peers.network import Network

__all__ = ["NOTHING", "Earlier", "EarlierRun", "Known", "open_earlier", "read_earlier"]


class Known(Form, frozen=True, kw_only=True):
    """What nodes with these signing keys, pooled, know of a run at most: their view is μ-Gaussian-private."""

    keys: tuple[str, ...]
    mu: Annotated[float, msgspec.Meta(ge=0)]


class EarlierRun(Form, frozen=True, kw_only=True):
    """A run so far: in how many rounds the node sent, and μ of whoever reads every message; `known` once it is over."""

    run: str
    unit: str
    relation: str
    sent: Annotated[int, msgspec.Meta(ge=0)]
    mu: Annotated[float, msgspec.Meta(ge=0)]
    nodes: tuple[str, ...]
    known: tuple[Known, ...] = ()

    def mu_of(self, keys: frozenset[str]) -> float:
        """μ of the nodes with these keys at most: that of the smallest pool known to hold all of them that were there.

        Who was not in the run saw nothing of it, as letters are sealed; nobody saw more than every message.

        **Guarantee**: an upper bound of μ for all nodes with these keys together, if each number of the line is one,
        letters are read by whom they are sealed for alone, and no other node of the run has any of these keys.
        """
        there = keys & set(self.nodes)
        if not there:
            return 0.0
        return min([self.mu, *(each.mu for each in self.known if there <= set(each.keys))])


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """The runs of a node before this one."""

    runs: tuple[EarlierRun, ...] = ()

    def squared(self, keys: Iterable[str] | None) -> float:
        """Σ μ² of all runs for the nodes with these keys at most; None is whoever reads every message.

        **Guarantee**: views of runs that begin at public values, each μ_r-Gaussian-private whatever came before, are
        √(Σ μ_r²)-Gaussian-private together. **Source**: Dong, Roth and Su 2022, Corollary 3.3.

        >>> runs = [EarlierRun(run=r, unit="node", relation="add-remove", sent=1, mu=0.5, nodes=("a",)) for r in "12"]
        >>> Earlier(runs=tuple(runs)).squared(None), Earlier(runs=tuple(runs)).squared(["b"])
        (0.5000000000000004, 0.0)
        """
        held = None if keys is None else frozenset(keys)
        mus = [each.mu if held is None else each.mu_of(held) for each in self.runs]
        return squares_above(mus)

    def of_run(self, run: str) -> EarlierRun | None:
        """What is written of one run."""
        return next((each for each in self.runs if each.run == run), None)

    def without(self, run: str) -> Earlier:
        """All other runs."""
        return Earlier(runs=tuple(each for each in self.runs if each.run != run))


NOTHING = Earlier()


def read_earlier(path: Path, network: Network) -> Earlier:
    """The runs in a file, of each what was written last; a file that is not there holds none.

    Runs that protect another unit, or by another relation, are refused: what they gave away does not add up with this.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error} (check the path)") from None
    runs: dict[str, EarlierRun] = {}
    settings = network.settings
    # A line that was cut off by a crash was of a round that was not sent.
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        try:
            said = read_form(strict_json(line.decode(errors="replace"), "a line"), EarlierRun, "a line")
        except InputError as error:
            raise FileError(f"{path}: line {number}: {error} (take the original file)") from None
        if (said.unit, said.relation) != (settings.unit, settings.relation):
            raise FileError(
                f"{path}: an earlier run protects a {said.unit} by {said.relation}, this one a {settings.unit} by "
                f"{settings.relation}, and the two do not add up (agree on the same; for records that no earlier run "
                "has seen, give another file)"
            )
        known = runs.get(said.run)
        if known is None or said.sent >= known.sent:
            runs[said.run] = said
    return Earlier(runs=tuple(runs.values()))


@contextlib.contextmanager
def open_earlier(path: Path) -> Iterator[Lines]:
    """The file to add lines to, for one process alone: two runs at a time would not know of each other."""
    try:
        opened = opened_alone(path)
    except BlockingIOError:
        raise FileError(f"{path}: another run of this node is going on (end it first)") from None
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written: {error.strerror or error} (choose another file)"
        ) from None
    try:
        yield Lines(path)
    finally:
        os.close(opened)
