# SPDX-License-Identifier: Apache-2.0
"""Sums that hide their terms: exact whoever dies, never opened over two lists, and deaf to forgers."""

import itertools
import random
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from benchmarks import sums as benchmark
from scipy import stats
from tests.peers.circle import Circle, group_of, identity, random_values, weighted

from sottovoce.errors import InputError
from sottovoce.peers import masks, messages, shares, sums
from sottovoce.peers.groups import Group, hiding, least_threshold
from sottovoce.peers.messages import (
    Agreed,
    Agreement,
    Deals,
    Keys,
    Masked,
    Message,
    Opened,
    Refused,
    Roster,
    Survivors,
)
from sottovoce.peers.sums import Failed, Given, Receiver, Remember, Send, Sender, Summed


def said(circle: Circle, kind: type[Any]) -> dict[str, Any]:
    """What each node said last of one kind."""
    read = [messages.read_any(frame, circle.group) for _, _, frame in circle.sent]
    return {message.sender: message for message in read if isinstance(message, kind)}


@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_a_sum_is_exact(size: int) -> None:
    rng = np.random.default_rng(size)
    weights = [int(weight) for weight in rng.choice([-7, -1, 1, 2, 300], size)]
    group = group_of(weights, largest=(2**63 - 1) // sum(map(abs, weights)))
    values = random_values(group, rng)
    circle = Circle(group, values)
    end = circle.run()
    assert isinstance(end, Summed)
    assert end.survivors == group.names
    assert end.values.tolist() == weighted(group, values, group.names).tolist()
    assert all(isinstance(circle.ends[name], Given) for name in group.names)


def test_a_sum_is_exact_or_fails_wherever_senders_die() -> None:
    rng = np.random.default_rng(1)
    found = {Summed: 0, Failed: 0}
    lists = set()
    for _ in range(40):
        size = int(rng.integers(2, 7))
        group = group_of([int(weight) for weight in rng.integers(1, 9, size)], length=3)
        values = random_values(group, rng)
        # A sender says five things; it falls silent before any of them, or never.
        dies = {name: int(rng.integers(0, 5)) for name in group.names if rng.random() < 0.4}
        circle = Circle(group, values, dies=dies)
        end = circle.run()
        found[type(end)] += 1
        sent_masked = {name for name in group.names if dies.get(name, 5) >= 3}
        if isinstance(end, Summed):
            assert len(end.survivors) >= group.threshold
            assert set(end.survivors) == sent_masked
            assert end.values.tolist() == weighted(group, values, end.survivors).tolist()
            lists.add(len(group.names) - len(end.survivors))
        else:
            # Only too few senders stop a sum: those who say all five things are fewer than the threshold.
            assert sum(dies.get(name, 5) >= 5 for name in group.names) < group.threshold
    assert found[Summed] > 10
    assert found[Failed] > 3
    assert lists >= {0, 1, 2}


def test_nobody_shows_both_kinds_of_shares_of_one_peer() -> None:
    group = group_of([1, 2, 3, 4, 5])
    circle = Circle(group, random_values(group, np.random.default_rng(2)), dies={"site-1": 2, "site-3": 3})
    assert isinstance(circle.run(), Summed)
    opened = said(circle, Opened)
    assert len(opened) >= group.threshold
    for message in opened.values():
        assert set(message.seeds) == {"site-0", "site-2", "site-3", "site-4"}
        assert set(message.keys) == {"site-1"}


def test_a_sender_whose_masked_message_came_late_stays_masked() -> None:
    group = group_of([1, 1, 1, 1])
    values = random_values(group, np.random.default_rng(3))
    circle = Circle(group, values)
    late: list[bytes] = []
    while circle.queue:
        who, to, frame = circle.queue.popleft()
        if who == "site-2" and isinstance(messages.read_any(frame, group), Masked):
            late.append(frame)
            continue
        circle.deliver(to, frame)
    circle.carry_out("hub", circle.receiver.expire("masked"))
    circle.queue.append(("site-2", "hub", late[0]))
    end = circle.run()
    assert isinstance(end, Summed)
    assert "site-2" not in end.survivors
    assert end.values.tolist() == weighted(group, values, end.survivors).tolist()
    # It cannot know what others were told, so it says with whom it may have been summed.
    assert isinstance(circle.ends["site-2"], Failed)
    assert circle.ends["site-2"].dealers == group.names
    # All pairwise masks of the late one are known now, and its own mask still hides its message.
    seeds = [message.seeds for message in said(circle, Opened).values()]
    assert all("site-2" not in each for each in seeds)


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The same secrets in every run from here on."""
    drawn = random.Random(0)

    def again() -> None:
        drawn.seed(1)

    monkeypatch.setattr(secrets, "token_bytes", lambda count: drawn.randbytes(count))
    monkeypatch.setattr(secrets, "randbelow", lambda bound: drawn.randrange(bound))
    return again


def masked_words(circle: Circle) -> dict[str, np.ndarray]:
    return {name: np.frombuffer(message.words, dtype="<u8") for name, message in said(circle, Masked).items()}


def test_a_masked_message_is_uniform_and_its_mask_does_not_depend_on_what_it_hides(
    repeatable: Callable[[], None],
) -> None:
    group = group_of([1, 2, 3], length=20_000, largest=2**50)
    rng = np.random.default_rng(4)
    runs = []
    for values in (
        random_values(group, rng),
        {name: np.zeros(20_000, dtype=np.int64) for name in group.names},
    ):
        repeatable()
        circle = Circle(group, values)
        assert isinstance(circle.run(), Summed)
        runs.append((values, masked_words(circle)))
    (full, first), (_, bare) = runs
    for name in group.names:
        counts = np.bincount(bare[name].view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
        # One word a place, not one for all, and none that any two senders share.
        assert len(np.unique(bare[name])) == group.length
        moved = (first[name] - bare[name]).view(np.int64)
        assert moved.tolist() == (group.member(name).weight * full[name]).tolist()
    assert all(not np.any(bare[a] == bare[b]) for a, b in itertools.combinations(group.names, 2))


def test_masks_of_two_sums_have_nothing_in_common() -> None:
    values = {f"site-{k}": np.zeros(5, dtype=np.int64) for k in range(3)}
    seen: set[int] = set()
    for place in range(4):
        circle = Circle(group_of([1, 1, 1], round=place), values)
        circle.run()
        seen |= {int(value) for words in masked_words(circle).values() for value in words}
    assert len(seen) == 4 * 3 * 5


class Hostile:
    """A receiver that signs whatever it likes, and holds what senders said up to their masked messages."""

    def __init__(self, group: Group, *, upto: str = "survivors") -> None:
        self.group = group
        self.values = random_values(group, np.random.default_rng(5))
        self.circle = Circle(group, self.values)
        self.senders = self.circle.senders
        while self.circle.queue:
            who, to, frame = self.circle.queue.popleft()
            if who == group.receiver and self.senders[to].phase == upto:
                continue
            self.circle.deliver(to, frame)
        self.dealers = ""

    def frames(self, kind: type[Message], *, of: str | None = None) -> tuple[bytes, ...]:
        return tuple(
            frame
            for who, _, frame in self.circle.sent
            if isinstance(messages.read_any(frame, self.group), kind) and of in (None, who)
        )

    def signed(self, kind: type[Message], **fields: Any) -> bytes:
        message = kind(group=self.group.digest, sender=self.group.receiver, **fields)
        return messages.signed(message, identity(self.group.receiver))

    def answers(self, name: str, frame: bytes) -> list[bytes]:
        return [effect.frame for effect in self.senders[name].receive(frame) if isinstance(effect, Send)]


def test_two_lists_of_survivors_cannot_both_be_opened() -> None:
    group = group_of([1, 1, 1, 1, 1])
    hostile = Hostile(group)
    names = group.names
    agreed: dict[tuple[str, ...], list[bytes]] = {names: [], names[1:]: []}
    for told, hearers in ((names, names[:3]), (names[1:], names[3:])):
        for name in hearers:
            agreed[told] += hostile.answers(name, hostile.signed(Survivors, names=told))
    # Enough for one list alone; the rest open nothing, whatever they are shown.
    mixed = tuple(itertools.chain(*agreed.values()))
    for name in names:
        with pytest.raises(Refused, match="other lists"):
            hostile.answers(name, hostile.signed(Agreement, agreed=mixed))
    few = hostile.signed(Agreement, agreed=tuple(agreed[names[1:]]))
    doubled = hostile.signed(Agreement, agreed=tuple(agreed[names[1:]]) * 2)
    for name in names[3:]:
        with pytest.raises(Refused, match="needs 3 senders; got 2"):
            hostile.answers(name, few)
        with pytest.raises(Refused, match="out of place"):
            hostile.answers(name, doubled)
        with pytest.raises(Refused, match="second, different Survivors"):
            hostile.answers(name, hostile.signed(Survivors, names=names))
    whole = hostile.signed(Agreement, agreed=tuple(agreed[names]))
    assert all(len(hostile.answers(name, whole)) == 1 for name in names[:3])
    # And having opened one list, a sender opens no other.
    for name in names[:3]:
        with pytest.raises(Refused, match="second, different Agreement"):
            hostile.answers(name, hostile.signed(Agreement, agreed=tuple(agreed[names[1:]])))


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (("site-0", "site-1"), "needs 3 survivors; got 2"),
        (("site-1", "site-0", "site-2"), "in the order of names"),
        (("site-0", "site-0", "site-1", "site-2"), "each once"),
        (("hub", "site-0", "site-1", "site-2"), "must be dealers"),
    ],
)
def test_a_list_of_survivors_that_would_hide_less_is_refused(told: tuple[str, ...], sentence: str) -> None:
    hostile = Hostile(group_of([1, 1, 1, 1, 1]))
    with pytest.raises(Refused, match=sentence):
        hostile.answers("site-0", hostile.signed(Survivors, names=told))


def test_a_receiver_cannot_put_its_own_keys_between_two_senders() -> None:
    group = group_of([1, 1, 1])
    hostile = Hostile(group, upto="roster")
    honest = hostile.frames(Keys)
    forged = Keys(
        group=group.digest, sender="site-1", sealing=secrets.token_bytes(32), masking=secrets.token_bytes(32)
    )
    for frame in (messages.signed(forged, identity("hub")), honest[1][:64] + msgspec.msgpack.encode(forged)):
        with pytest.raises(Refused, match="must be signed by the pinned key of 'site-1'"):
            hostile.answers("site-0", hostile.signed(Roster, keys=(honest[0], frame, honest[2])))
    mine = messages.signed(msgspec.structs.replace(forged, sender="hub"), identity("hub"))
    with pytest.raises(Refused, match="'hub' is out of place"):
        hostile.answers("site-0", hostile.signed(Roster, keys=(*honest, mine)))
    with pytest.raises(Refused, match="must hold the keys of 'site-0' as they were sent"):
        hostile.answers("site-0", hostile.signed(Roster, keys=honest[1:]))
    with pytest.raises(Refused, match="needs 2 senders; got 1"):
        hostile.answers("site-0", hostile.signed(Roster, keys=honest[:1]))
    # Two keys of one sender are a signed lie; the other senders see that it is one sender.
    second = messages.signed(forged, identity("site-1"))
    with pytest.raises(Refused, match="'site-1' is out of place"):
        hostile.answers("site-0", hostile.signed(Roster, keys=(*honest, second)))
    copied = messages.signed(
        msgspec.structs.replace(messages.read(honest[0], group, Keys), sender="site-1"), identity("site-1")
    )
    with pytest.raises(Refused, match="nobody else advertises"):
        hostile.answers("site-0", hostile.signed(Roster, keys=(honest[0], copied, honest[2])))
    assert hostile.answers("site-0", hostile.signed(Roster, keys=honest))


def test_unlike_rosters_or_dealers_open_nothing() -> None:
    group = group_of([1, 1, 1, 1, 1])
    hostile = Hostile(group, upto="roster")
    keys = hostile.frames(Keys)
    dealt = {}
    for name, told in zip(group.names, (keys, keys, keys, keys[1:], keys[1:]), strict=True):
        (dealt[name],) = hostile.answers(name, hostile.signed(Roster, keys=told))
    said_shares = {name: messages.read(frame, group, messages.Shares) for name, frame in dealt.items()}
    with pytest.raises(Refused, match="'site-3' dealt shares over another roster"):
        hostile.answers(
            "site-0",
            hostile.signed(
                Deals,
                dealt=tuple(each.dealt for each in said_shares.values()),
                sealed={
                    name: each.sealed.get("site-0", b"")
                    for name, each in said_shares.items()
                    if name != "site-0"
                },
            ),
        )


def changed(sealed: bytes) -> bytes:
    """The same but for the last bit."""
    return sealed[:-1] + bytes([sealed[-1] ^ 1])


def test_shares_cannot_be_swapped_altered_or_left_out() -> None:
    group = group_of([1, 1, 1])
    hostile = Hostile(group, upto="deals")
    frame = next(
        frame
        for who, to, frame in hostile.circle.sent
        if to == "site-0" and isinstance(messages.read_any(frame, group), Deals)
    )
    honest = messages.read(frame, group, Deals)
    other = messages.read(
        next(
            frame
            for who, to, frame in hostile.circle.sent
            if to == "site-2" and isinstance(messages.read_any(frame, group), Deals)
        ),
        group,
        Deals,
    )
    for sealed, sentence in (
        (honest.sealed | {"site-1": other.sealed["site-1"]}, "does not open"),
        (honest.sealed | {"site-1": honest.sealed["site-2"]}, "does not open"),
        (honest.sealed | {"site-1": changed(honest.sealed["site-1"])}, "does not open"),
        ({"site-1": honest.sealed["site-1"]}, "a sealed share of every dealer"),
        (honest.sealed | {"hub": b""}, "a sealed share of every dealer"),
    ):
        with pytest.raises(Refused, match=sentence):
            hostile.answers("site-0", hostile.signed(Deals, dealt=honest.dealt, sealed=sealed))
    assert hostile.answers("site-0", frame)


def test_a_sum_is_opened_with_what_was_committed_to_or_not_at_all() -> None:
    group = group_of([1, 1, 1])
    circle = Circle(group, random_values(group, np.random.default_rng(6)))
    while circle.queue:
        who, to, frame = circle.queue.popleft()
        message = messages.read_any(frame, group)
        if isinstance(message, Opened) and who == "site-0":
            value = int.from_bytes(message.seeds["site-1"], "big")
            wrong = ((value + 1) % shares.PRIME).to_bytes(shares.SHARE_BYTES, "big")
            message = msgspec.structs.replace(message, seeds=message.seeds | {"site-1": wrong})
            frame = messages.signed(message, identity("site-0"))
        circle.deliver(to, frame)
    end = circle.ends["hub"]
    assert isinstance(end, Failed)
    assert "seed of 'site-1'" in end.reason or "larger number" in end.reason


def mutated(frame: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A frame that nobody signed: a bit, a byte, the end, the signature or the body of another."""
    match rng.randrange(6):
        case 0 | 1:
            place = rng.randrange(8 * len(frame))
            changed = bytearray(frame)
            changed[place // 8] ^= 1 << (place % 8)
            return bytes(changed)
        case 2:
            return frame[: rng.randrange(len(frame))]
        case 3:
            return frame + rng.randbytes(1 + rng.randrange(9))
        case 4:
            return frame[:64] + rng.choice([other for other in others if other[64:] != frame[64:]])[64:]
        case _:
            place = 64 + rng.randrange(len(frame) - 64)
            return frame[:place] + rng.randbytes(1 + rng.randrange(4)) + frame[place:]


def test_a_thousand_mutations_are_refused_and_change_nothing() -> None:
    rng = random.Random(7)
    group = group_of([3, 1, 2, 5], length=4)
    values = random_values(group, np.random.default_rng(7))
    # Frames of another sum are as good as forged ones.
    old = Circle(group_of([3, 1, 2, 5], length=4, round=2), values)
    old.run()
    strange = [frame for _, _, frame in old.sent]
    circle = Circle(group, values)
    tried = 0
    while circle.queue:
        _, to, frame = circle.queue.popleft()
        for _ in range(28):
            forged = mutated(frame, rng, strange)
            if forged == frame:
                continue
            tried += 1
            with pytest.raises(Refused):
                circle.deliver(to, forged)
        with pytest.raises(Refused, match="another sum"):
            circle.deliver(to, rng.choice(strange))
        circle.deliver(to, frame)
        circle.deliver(to, frame)  # a second time: nothing happens
    assert tried >= 1000
    end = circle.ends["hub"]
    assert isinstance(end, Summed)
    assert end.values.tolist() == weighted(group, values, group.names).tolist()


def test_what_a_sender_says_twice_unlike_is_refused() -> None:
    group = group_of([1, 1, 1])
    receiver = Receiver(group, identity("hub"))
    first, second = (Sender(group, "site-0", identity("site-0")).start()[1] for _ in range(2))
    assert isinstance(first, Send)
    assert isinstance(second, Send)
    assert receiver.receive(first.frame) == ()
    assert receiver.receive(first.frame) == ()
    with pytest.raises(Refused, match="second, different Keys"):
        receiver.receive(second.frame)
    assert receiver.awaited == ("site-1", "site-2")


def test_keys_of_small_order_are_refused() -> None:
    group = group_of([1, 1, 1])
    weak = Keys(group=group.digest, sender="site-0", sealing=bytes(32), masking=secrets.token_bytes(32))
    with pytest.raises(Refused, match="small order"):
        Receiver(group, identity("hub")).receive(messages.signed(weak, identity("site-0")))


def test_a_slot_is_remembered_before_anything_is_sent_and_never_used_again() -> None:
    group = group_of([1, 1])
    effects = Sender(group, "site-0", identity("site-0")).start()
    assert [type(effect) for effect in effects] == [Remember, Send]
    assert isinstance(effects[0], Remember)
    remembered = {effects[0].slot}
    # Nor with other terms in the same place of the run.
    for again in (group, group_of([1, 2]), group_of([1, 1, 1])):
        with pytest.raises(InputError, match="takes part in a sum twice"):
            Sender(again, "site-0", identity("site-0"), remembered=remembered)
    for other in (group_of([1, 1], round=4), group_of([1, 1], exchange=1), group_of([1, 1], run=bytes(32))):
        Sender(other, "site-0", identity("site-0"), remembered=remembered)


def waits(sender: Sender) -> str:
    return sender.phase


def test_every_wait_ends_and_an_ended_sender_has_no_secrets() -> None:
    group = group_of([1, 1, 1])
    for upto in ("roster", "deals", "survivors", "agreement"):
        hostile = Hostile(group, upto=upto)
        for name, sender in hostile.senders.items():
            assert waits(sender) == upto
            assert sender.expire("keys") == ()
            (end,) = sender.expire(sender.phase)
            assert isinstance(end, Failed)
            assert end.dealers == (group.names if upto in {"survivors", "agreement"} else ()), name
            assert waits(sender) == "done"
            assert sender.expire("done") == ()
            kept = [value for value in vars(sender).values() if value is not None]
            assert not any(isinstance(value, sums._Secrets) for value in kept)
    receiver = Receiver(group, identity("hub"))
    (end,) = receiver.expire("keys")
    assert isinstance(end, Failed)
    assert "0 of 2" in end.reason
    assert receiver.expire("done") == ()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (np.zeros(4, dtype=np.int64), "must be 5 whole numbers"),
        (np.zeros(5), "must be 5 whole numbers"),
        (np.array([0, 0, 0, 0, 2**40 + 1]), "at most 1099511627776 in size"),
        (np.array([0, 0, 0, 0, -(2**63)]), "at most 1099511627776 in size"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: Any, sentence: str) -> None:
    sender = Sender(group_of([1, 1]), "site-0", identity("site-0"))
    sender.start()
    with pytest.raises(InputError, match=sentence):
        sender.contribute(values)
    sender.contribute(np.zeros(5, dtype=np.int64))
    with pytest.raises(InputError, match="given once"):
        sender.contribute(np.zeros(5, dtype=np.int64))


@pytest.mark.parametrize(
    ("weights", "changes", "sentence"),
    [
        ([1], {"threshold": 1}, "at least two senders; 'hub' has 1"),
        ([1, 1, 1, 1], {"threshold": 2}, "more than half of its 4 senders"),
        ([1, 1], {"threshold": 3}, "at most all of them; got 3"),
        ([1, 0], {}, "must not be 0"),
        ([2**22, 2**22], {}, "must stay below 2\\^63"),
        ([1, 1], {"receiver": "site-0"}, "different nodes"),
        ([1, 1], {"receiver_key": bytes(32), "run": b"x"}, "named by 32 bytes"),
        ([1, 1], {"denominator": 2**64}, "denominator must be at most 9223372036854775808"),
        ([1, 1], {"length": 0}, "length must be a whole number of at least 1"),
        ([1, 1], {"length": 2**40}, "at most 17179869184 words"),
    ],
)
def test_terms_that_hide_less_or_overflow_are_refused(
    weights: list[int], changes: Any, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        group_of(weights, **changes)


def test_only_pinned_identities_take_part() -> None:
    group = group_of([1, 1])
    with pytest.raises(InputError, match="must be the one that is pinned"):
        Sender(group, "site-0", identity("site-1"))
    with pytest.raises(InputError, match="must be the one that is pinned"):
        Receiver(group, identity("site-1"))
    with pytest.raises(InputError, match="'hub' sends nothing in this sum"):
        Sender(group, "hub", identity("hub"))


def test_the_threshold_is_the_least_at_which_colluders_cannot_make_two_lists() -> None:
    for size, fallen in itertools.product(range(1, 9), range(4)):
        honest = size - fallen
        # Honest senders agree to one list; colluders to both. Two lists need t each.
        if honest < 2:
            with pytest.raises(InputError, match="hides nothing"):
                least_threshold(size, colluders=fallen)
            continue
        least = next(
            t
            for t in range(1, size + 1)
            if not any(min(left, honest - left) + fallen >= t for left in range(honest + 1))
        )
        assert least_threshold(size, colluders=fallen) == least


def test_what_a_sum_hides() -> None:
    group = group_of([1, 1, 1, 1], threshold=3)
    assert hiding(group).together == group.names
    assert hiding(group, colluders={"hub", "site-0"}).together == group.names[1:]
    two = hiding(group, colluders={"site-0", "site-1"})
    assert (two.together, two.clear) == ((), ("site-2", "site-3"))
    assert "two lists" in two.reason
    pair = group_of([1, 1])
    assert hiding(pair).together == pair.names
    alone = hiding(pair, colluders={"site-0"})
    assert (alone.together, alone.clear) == ((), ("site-1",))
    assert "one honest term" in alone.reason
    with pytest.raises(InputError, match="needs 3 survivors; got 2"):
        hiding(group, survivors=["site-0", "site-1"])
    with pytest.raises(InputError, match="'ghost' sends nothing"):
        hiding(group, colluders={"ghost"})


def test_the_benchmark_of_sums_counts_every_part() -> None:
    end: list[Summed] = []
    spent = benchmark.timed(lambda: end.append(benchmark.one_sum(5, 20_000, dead=1)))
    assert end[0].values.tolist() == [1 + 2 + 3 + 4] * 20_000
    assert all(spent[part] > 0 for part in benchmark.PARTS)
    assert sum(spent[part] for part in benchmark.PARTS) <= spent["all"]


@pytest.mark.parametrize(
    ("kind", "lie", "sentence"),
    [
        (Keys, {"sealing": b"short"}, "must be a point of X25519"),
        (messages.Shares, {"sealed": {}}, "must seal a share for every other sender"),
        (messages.Shares, {"dealt": b"\0" * 100}, "must hold a message"),
        (Masked, {"words": bytes(8)}, "must have 5 words"),
        (Masked, {"dealers": bytes(32)}, "another list of dealers"),
        (Agreed, {"names": ("site-0", "site-1")}, "agreed to other lists"),
        (Agreed, {"dealers": bytes(32)}, "agreed to other lists"),
        (Opened, {"seeds": {}}, "must open a seed of every survivor"),
        (Opened, {"keys": {"site-1": bytes(33)}}, "a key of everyone else"),
    ],
)
def test_what_a_lying_sender_signs_is_refused_and_its_truth_still_taken(
    kind: type[Message], lie: dict[str, Any], sentence: str
) -> None:
    group = group_of([1, 1, 1])
    values = random_values(group, np.random.default_rng(8))
    circle = Circle(group, values)
    lied = False
    while circle.queue:
        who, to, frame = circle.queue.popleft()
        message = messages.read_any(frame, group)
        if isinstance(message, kind) and who == "site-0":
            lied = True
            forged = messages.signed(msgspec.structs.replace(message, **lie), identity("site-0"))
            with pytest.raises(Refused, match=sentence):
                circle.deliver(to, forged)
        circle.deliver(to, frame)
    assert lied
    end = circle.ends["hub"]
    assert isinstance(end, Summed)
    assert end.values.tolist() == weighted(group, values, group.names).tolist()


def test_one_sender_cannot_speak_for_another() -> None:
    group = group_of([1, 1, 1])
    circle = Circle(group, random_values(group, np.random.default_rng(9)))
    with pytest.raises(Refused, match="listens to the receiver alone"):
        circle.senders["site-0"].receive(circle.queue[1][2])
    stranger = Keys(group=group.digest, sender="ghost", sealing=bytes(32), masking=bytes(32))
    with pytest.raises(Refused, match="'ghost' has no part in this sum"):
        circle.receiver.receive(messages.signed(stranger, identity("site-0")))
    early = Agreed(group=group.digest, sender="site-0", dealers=bytes(32), names=())
    with pytest.raises(Refused, match="Agreed of 'site-0' came while waiting for 'keys'"):
        circle.receiver.receive(messages.signed(early, identity("site-0")))


def test_a_survivor_that_was_told_other_dealers_spoils_the_sum_and_shows_nothing() -> None:
    """The receiver keeps a dealer from the last sender, and opens the list that the others agreed to."""
    group = group_of([1, 1, 1, 1, 1])
    hostile = Hostile(group, upto="deals")
    names, last = group.names, group.names[-1]
    for _, to, frame in list(hostile.circle.sent):
        message = messages.read_any(frame, group)
        if isinstance(message, Deals):
            if to == last:
                sealed = {name: text for name, text in message.sealed.items() if name != "site-0"}
                frame = hostile.signed(Deals, dealt=message.dealt[1:], sealed=sealed)
            hostile.circle.carry_out(to, hostile.senders[to].receive(frame))
    masked = said(hostile.circle, Masked)
    assert masked[last].dealers != masked["site-0"].dealers == masked["site-1"].dealers
    with pytest.raises(Refused, match="must be dealers"):
        hostile.answers(last, hostile.signed(Survivors, names=names))
    agreed = [hostile.answers(name, hostile.signed(Survivors, names=names))[0] for name in names[:3]]
    agreement = hostile.signed(Agreement, agreed=tuple(agreed))
    opened = {name: messages.read(hostile.answers(name, agreement)[0], group, Opened) for name in names[:3]}
    bare = {}
    for name in names:
        held = {group.place(opener): message.seeds[name] for opener, message in opened.items()}
        key = masks.bound_key(
            shares.joined(held, threshold=3), purpose="mask of one", context=masked[name].dealers
        )
        bare[name] = np.frombuffer(masked[name].words, dtype="<u8").copy()
        masks.add_mask(bare[name], key, -1)
    # All own masks are off, and no set of messages tells anything: 5 words agree by chance with 2^-320.
    for size in range(1, 6):
        for chosen in itertools.combinations(names, size):
            total = sum((bare[name] for name in chosen), np.zeros(5, dtype=np.uint64))
            assert not np.any(total.view(np.int64) == weighted(group, hostile.values, chosen))


def test_a_sum_beyond_what_was_agreed_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of([1, 2, 1])
    liar = group_of([1, 2, 1], largest=2**60)
    for value, kind in ((2**40, Summed), (2**42, Failed)):
        values = {name: np.full(5, 2**40, dtype=np.int64) for name in group.names}
        with monkeypatch.context() as patched:
            # A sender that does not look at its own values.
            patched.setattr(Group, "digest", group.digest)
            circle = Circle(liar, values | {"site-1": np.full(5, -value, dtype=np.int64)})
            circle.receiver.group = group
            end = circle.run()
        assert isinstance(end, kind)
    assert isinstance(end, Failed)
    assert "larger than all agreed on" in end.reason


def test_frames_of_an_earlier_sum_of_equal_terms_are_of_no_use() -> None:
    group = group_of([1, 1, 1])
    old, new = Hostile(group, upto="deals"), Hostile(group, upto="roster")
    mixed = (new.frames(Keys)[0], old.frames(Keys, of="site-1")[0], new.frames(Keys)[2])
    with pytest.raises(Refused, match="must hold the keys of 'site-1' as they were sent"):
        new.answers("site-1", new.signed(Roster, keys=mixed))
    dealt = {
        name: messages.read(new.answers(name, new.signed(Roster, keys=mixed))[0], group, messages.Shares)
        for name in ("site-0", "site-2")
    }
    before = messages.read(old.frames(messages.Shares, of="site-1")[0], group, messages.Shares)
    told = new.signed(
        Deals,
        dealt=(dealt["site-0"].dealt, before.dealt, dealt["site-2"].dealt),
        sealed={"site-1": before.sealed["site-0"], "site-2": dealt["site-2"].sealed["site-0"]},
    )
    with pytest.raises(Refused, match="'site-1' dealt shares over another roster"):
        new.answers("site-0", told)


def test_a_letter_vouches_for_its_own_sender_and_never_for_what_is_handed_on() -> None:
    """The signature of a letter stands for that of a frame, but not for what other senders have to believe."""
    group = group_of([1, 1, 1])
    receiver = Receiver(group, identity("hub"))
    frames = {name: Sender(group, name, identity(name)).start()[1] for name in group.names}
    keys = {name: each.frame for name, each in frames.items() if isinstance(each, Send)}
    forged = bytes(64) + keys["site-0"][64:]
    with pytest.raises(Refused, match="came from 'site-1'"):
        receiver.receive(keys["site-0"], vouched="site-1")
    # Others read these keys out of the roster: a bad signature would spoil it for all.
    with pytest.raises(Refused, match="signed by the pinned key"):
        receiver.receive(forged, vouched="site-0")
    assert receiver.awaited == group.names
    receiver.receive(keys["site-0"], vouched="site-0")
    assert receiver.awaited == ("site-1", "site-2")
    circle = Circle(group, {name: np.zeros(5, dtype=np.int64) for name in group.names})
    assert isinstance(circle.run(), Summed)
    for who, frame in [(who, frame) for who, to, frame in circle.sent if to == "hub"]:
        altered = frame[:64] + bytes([frame[64] ^ 1]) + frame[65:]
        with pytest.raises(Refused):
            Receiver(group, identity("hub")).receive(altered, vouched=who)


def test_a_letter_does_not_vouch_for_an_agreement_that_others_have_to_believe() -> None:
    """The proof that opens masks is made of these frames: a bad signature would spoil it for all."""
    group = group_of([1, 1, 1])
    circle = Circle(group, {name: np.zeros(5, dtype=np.int64) for name in group.names})
    circle.run()
    receiver, refused = Receiver(group, identity("hub")), 0
    for who, frame in [(who, frame) for who, to, frame in circle.sent if to == "hub"]:
        if receiver.phase == "agreed" and isinstance(messages.read_any(frame, group), Agreed):
            with pytest.raises(Refused, match="signed by the pinned key"):
                receiver.receive(bytes(64) + frame[64:], vouched=who)
            refused += 1
        receiver.receive(frame, vouched=who)
    assert refused >= group.threshold
