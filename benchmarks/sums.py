# SPDX-License-Identifier: Apache-2.0
"""Where the time of a masked sum goes: masks, keys, shares, signatures, noise; and how many MB a second masks take.

`python -m benchmarks.sums --senders 4 8 16 --words 1000 1000000`
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict, deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.peers import lists, masks, shares, sums
from sottovoce.peers.groups import Group, Member, least_threshold
from sottovoce.peers.noise import rounded_gaussian
from sottovoce.peers.sums import Receiver, Send, Sender, Summed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sottovoce.peers.effects import Effect

PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "masks": ((masks, "add_mask"),),
    "keys": ((masks, "shared_secret"), (masks, "bound_key")),
    "shares": ((shares, "split"), (shares, "joined"), (shares, "sealed"), (shares, "opened")),
    "signatures": ((sums, "signed"), (sums, "read_any"), (sums, "read"), (lists, "read")),
}


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Seconds of the processor that a run of peers in this process takes: in each part of a sum, and in `all`."""
    spent: dict[str, float] = defaultdict(float)

    def counted(part: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            # What other threads do meanwhile is not this part's.
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[part] += time.thread_time() - start

        return call

    with ExitStack() as stack:
        for part, functions in PARTS.items():
            for module, name in functions:
                stack.enter_context(patch.object(module, name, counted(part, getattr(module, name))))
        start = time.process_time()
        run()
        spent["all"] = time.process_time() - start
    return {part: spent[part] for part in (*PARTS, "all")}


def one_sum(senders: int, words: int, *, dead: int = 0) -> Summed:
    """A whole sum among machines in this process; so many senders die before they send what they masked."""
    names = [f"site-{k:03}" for k in range(senders)]
    identities = {name: Ed25519PrivateKey.generate() for name in (*names, "hub")}
    keys = {name: identity.public_key().public_bytes_raw() for name, identity in identities.items()}
    group = Group(
        run=bytes(32),
        round=0,
        exchange=0,
        receiver="hub",
        receiver_key=keys["hub"],
        members=tuple(Member(name=name, weight=1, key=keys[name]) for name in names),
        denominator=senders + 1,
        threshold=least_threshold(senders),
        length=words,
        largest=2**50,
    )
    receiver = Receiver(group, identities["hub"])
    machines = {name: Sender(group, name, identities[name]) for name in names}
    queue: deque[Send] = deque()
    ends: list[Summed] = []

    def carry_out(effects: Iterable[Effect]) -> None:
        queue.extend(effect for effect in effects if isinstance(effect, Send))
        ends.extend(effect for effect in effects if isinstance(effect, Summed))

    for index, name in enumerate(names):
        carry_out(machines[name].start())
        if index >= dead:
            carry_out(machines[name].contribute(np.full(words, index, dtype=np.int64)))
    while not ends:
        while queue:
            post = queue.popleft()
            machine = receiver if post.to == "hub" else machines[post.to]
            carry_out(machine.receive(post.frame))
        carry_out(receiver.expire(receiver.phase))
    return ends[0]


def mask_rate(words: int = 2**20) -> float:
    """How many MB of a message one mask is added to in a second."""
    total, key = np.zeros(words, dtype=np.uint64), bytes(32)
    start = time.process_time()
    for _ in range(8):
        masks.add_mask(total, key, 1)
    return 8 * 8e-6 * words / (time.process_time() - start)


def noise_rate(count: int = 300_000) -> float:
    """How many numbers of noise are drawn in a second."""
    start = time.process_time()
    rounded_gaussian(count, deviation=2**40)
    return count / (time.process_time() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--senders", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--words", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--quick", action="store_true", help="four senders alone")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.senders = [4]
    print(f"one mask: {mask_rate():.0f} MB/s; noise: {noise_rate() / 1e6:.2f} million numbers/s")
    print(
        f"{'senders':>8}{'words':>9}{'dead':>6}{'ms in all':>11}" + "".join(f"{part:>12}" for part in PARTS)
    )
    for senders in asked.senders:
        for words in asked.words:
            for dead in (0, (senders - 1) // 2):
                spent = timed(lambda s=senders, w=words, d=dead: one_sum(s, w, dead=d))  # type: ignore[misc]
                shares_of = "".join(f"{spent[part] / spent['all']:12.0%}" for part in PARTS)
                print(f"{senders:8}{words:9}{dead:6}{1e3 * spent['all']:11.1f}{shares_of}")


if __name__ == "__main__":
    main()
