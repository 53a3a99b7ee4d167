# SPDX-License-Identifier: Apache-2.0
"""Whether a horizon fits into memory: refused before the work, and not by the system in the midst of it.

Nothing here touches a bound. A horizon that is refused has no number at all, rather than one that was cut short;
one that is let through and does not fit after all ends in the system's own error. Up to `EXPLICIT_ROUNDS` rounds
forms are made in batches that fit; the rows behind them must fit at once.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

from sottovoce.errors import InputError
from sottovoce.filtering import BATCH_BYTES, EXPLICIT_ROUNDS

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.participation import Participation

__all__ = ["check_capacity", "check_rounds", "memory_at_hand", "room_for_forms"]

# Bytes a round, measured above 2048 rounds and rounded up: a stream and its bound hold 40; the sums over separated
# rounds, in lists, 97.
LONG, LONG_IN_LISTS = 48, 112


def check_capacity(rounds: int, participation: Participation) -> None:
    """Refuse more rounds than the memory at hand holds, and say how many it does.

    Raises InputError. Streams and y have one number a round; sums over separated rounds are kept in lists besides.
    """
    if rounds > EXPLICIT_ROUNDS:
        a_round = LONG_IN_LISTS if participation.kind == "separated" else LONG
        check_rounds(rounds, a_round, "; rate says what each further round adds")


def room_for_forms(response: FilteredResponse) -> float:
    """How many bytes a batch of forms may take, so that with all that goes with it it fits into the memory at hand.

    Raises InputError if the form of one target does not fit, with the rows behind it: it names rows, states and
    rounds, the bytes that they need and that are free.
    """
    needed, free = response.forms_bytes(), memory_at_hand()
    if needed > free:
        rows, states, rounds = len(response.rows), response.size, response.rounds
        fitting = _rounded_down(rounds * free / needed)
        raise InputError(
            f"a view must fit into memory; {rows} messages a round, followed on {states} states for {rounds} rounds, "
            f"need about {_size(needed)}, and {_size(free)} are free (take about {fitting} rounds, or "
            "a view of fewer messages such as secure-sum)"
        )
    return min(BATCH_BYTES, (free - needed) / 6)


def check_rounds(rounds: int, a_round: float, other: str = "") -> None:
    """Refuse rounds that need `a_round` bytes each if these are not at hand; `other` is a further remedy.

    Raises InputError, which names the rounds, the bytes that they need and that are free, and how many would fit.
    """
    needed, free = a_round * rounds, memory_at_hand()
    if needed > free:
        raise InputError(
            f"rounds must fit into memory; {rounds} of them need about {_size(needed)}, and {_size(free)} are free "
            f"(take at most {_rounded_down(free / a_round)}{other})"
        )


def memory_at_hand() -> float:
    """How many bytes this process can still take: what the system, its control group and its own limit leave.

    The least of the three, and infinite where the system tells none of them. An estimate:
    others take memory meanwhile.
    """
    return max(0.0, min(_free_in_system(), _free_in_group(), _free_in_limit()))


def _free_in_system() -> float:
    """The memory that the system has free, all that it has where it does not tell, infinite if it tells neither.

    Guarantee: none: other processes may take what was free a moment ago. A wrong answer costs a refusal, or memory.
    """
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _free_in_group() -> float:
    """What the control group of a container leaves; infinite without one."""
    for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        folder = "/sys/fs/cgroup" if most == "memory.max" else "/sys/fs/cgroup/memory"
        numbers = [line for name in (most, used) for line in _lines(f"{folder}/{name}")[:1]]
        if len(numbers) == 2 and all(number.isdigit() for number in numbers):
            return float(int(numbers[0]) - int(numbers[1]))
    return math.inf


def _free_in_limit() -> float:
    """What the limit on this process's addresses leaves, as a server sets it for its workers.

    Guarantee: none, as for the memory of the system; addresses that are only reserved count as taken.
    """
    try:
        import resource
    except ImportError:
        return math.inf
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    taken = _lines("/proc/self/statm")
    if soft == resource.RLIM_INFINITY or not taken:
        return math.inf
    return float(soft - int(taken[0].split()[0]) * resource.getpagesize())


def _lines(path: str) -> list[str]:
    """The lines of a file that the system may not have."""
    try:
        # Nothing is kept between questions: others take memory meanwhile. Small questions feel each layer above this.
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return []
    try:
        return os.read(file, 2**16).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    finally:
        os.close(file)


def _size(count: float) -> str:
    """Bytes in gibibytes, or mebibytes if they are few."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _rounded_down(count: float) -> int:
    """A whole number at or below `count`, of two digits that count.

    >>> _rounded_down(123456.7)
    120000
    """
    step = 10 ** max(0, int(math.log10(max(count, 1))) - 1)
    return int(count // step * step)
