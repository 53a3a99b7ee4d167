"""Attacks on what real runs put on the wire and into the hands of a receiver: nobody does better than the account says.

Noise is drawn for each number by itself. So of one wide message every number is a trial of its own: a canary as long as
the clip is in half of them, and the attack is to tell in which.
"""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.peers.networks import complete, identities, network
from tests.peers.wires import Wires

from sottovoce.auditing import Evidence, evidence
from sottovoce.peers import Deadlines, Network, TaskFacts, read_transcript
from sottovoce.peers.exchanges import Masking
from sottovoce.peers.letters import PostOffice
from sottovoce.peers.messages import Masked
from sottovoce.peers.notes import Begun
from sottovoce.peers.spending import costs_of

WIDTH, TARGET, OBSERVER = 8000, 1, 0
BITS = np.random.default_rng(4).permutation(np.arange(WIDTH) % 2)


def agreed(sums: str) -> Network:
    usual: dict[str, Any] = {"edges": complete(4), "unit": "node", "rounds": 1, "noise_multiplier": 0.5}
    task = TaskFacts(loss="quadratic", features=WIDTH, shard_size=1, step="0.5")
    return network(4, sums=sums, task=task, deadlines=Deadlines(join=20.0, round=10.0, lost=0.5), **usual)


class Canaries:
    """A contribution of the length of the clip, number by number, where a canary is."""

    def __init__(self, run: Network, there: np.ndarray) -> None:
        self.step, self.there = float(run.steps[0]) * run.settings.clip, there

    def contribution(self, round_: int, model: np.ndarray) -> np.ndarray:
        assert (round_, model.shape) == (0, (1, WIDTH))
        return self.step * self.there[None, :].astype(np.float64)


def watched(run: Network, folder: Path, bits: np.ndarray = BITS) -> Wires:
    wires, nobody = Wires(run, folder), np.zeros(WIDTH)
    wires.own = lambda i: Canaries(run, bits if i == TARGET else nobody)
    wires.all()
    assert {each.reason for each in wires.found.values()} == {"finished"}
    return wires


def shown(scores: np.ndarray) -> Evidence:
    """What scores prove, number by number."""
    return evidence(
        scores[BITS == 0].astype(np.float64),
        scores[BITS == 1].astype(np.float64),
        delta=1e-5,
        confidence=1 - 1e-6,
    )


def opened(run: Network, wires: Wires, kind: str) -> list[bytes]:
    """What the target wrote to the observer, as the observer reads it."""
    identity = identities(4)[OBSERVER]
    key = identity.card.signing_key
    first = read_transcript(wires.folder / "site-0" / "transcript.jsonl", key)[0]
    assert isinstance(first, Begun)
    office = PostOffice(run.joined(first.parts), identity)
    found = []
    for sender, receiver, wire in wires.sent:
        if (sender, receiver) == (TARGET, OBSERVER) and len(wire) > 8 * WIDTH:
            letter = office.opened(sender, wire)
            assert letter.header.kind == kind
            found.append(letter.body)
    assert found
    return found


def test_whoever_taps_the_wire_cannot_tell_and_a_receiver_no_better_than_accounted_for(
    tmp_path: Path,
) -> None:
    run = agreed("plain")
    wires = watched(run, tmp_path / "mixed")
    tapped = [wire for sender, _, wire in wires.sent if sender == TARGET and len(wire) > 8 * WIDTH]
    for wire in tapped:
        assert shown(np.frombuffer(wire[-16 - 8 * WIDTH : -16], dtype="<i8")).mu_lower == 0
    # How long letters are says nothing of what is in them.
    other = watched(run, tmp_path / "none", np.zeros(WIDTH))
    lengths = [{len(wire) for sender, _, wire in each.sent if sender == TARGET} for each in (wires, other)]
    assert max(lengths[0]) == max(lengths[1])
    claimed = 1 / run.settings.noise_multiplier
    attack = shown(np.frombuffer(opened(run, wires, "values")[0], dtype="<f8"))
    # Of what is there an attack on so many numbers shows the most part.
    assert 0.7 * claimed < attack.mu_lower <= claimed


def test_a_receiver_of_masked_sums_learns_the_sum_and_nothing_of_its_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sums = agreed("masked"), dict[int, np.ndarray]()
    plain = Masking.received

    def kept(self: Masking) -> np.ndarray:
        assert self._summed is not None
        sums[self.me] = self._summed.values.copy()
        return plain(self)

    monkeypatch.setattr(Masking, "received", kept)
    wires = watched(run, tmp_path)
    claimed = next(
        math.sqrt(cost.squared) / run.settings.noise_multiplier
        for cost in costs_of(run, TARGET, 1)
        if cost.observers == (OBSERVER,)
    )
    assert claimed < 0.7 / run.settings.noise_multiplier
    attack = shown(sums[OBSERVER])
    assert 0.6 * claimed < attack.mu_lower <= claimed
    for frame in opened(run, wires, "to-sum"):
        masked = msgspec.msgpack.decode(frame[64:], type=Masked)
        words = np.frombuffer(masked.words, dtype="<u8")
        # High bits, low bits, and what two numbers have in common.
        for scores in (words.view(np.int64), words & np.uint64(0xFFFF), words ^ np.roll(words, 1)):
            assert shown(scores).mu_lower == 0
