"""Two runs of one network are two: nothing of one is understood in the other, and a run that goes on is the same."""

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.peers.networks import complete, identities, network
from tests.peers.wires import Killed, Wires

from sottovoce.errors import FileError, InputError
from sottovoce.peers import Deadlines, Network, certify_run, read_run, read_transcript, verify_run
from sottovoce.peers.joining import Lobby, read_hello
from sottovoce.peers.letters import Letter, PostOffice
from sottovoce.peers.messages import Refused
from sottovoce.peers.naming import drawn_part
from sottovoce.peers.notes import AnyNote, Begun, Receipt
from sottovoce.peers.transport import Happening

QUICK = Deadlines(join=5.0, round=2.0, lost=0.2)


def three(**changes: Any) -> Network:
    usual: dict[str, Any] = {
        "edges": complete(3),
        "unit": "node",
        "rounds": 3,
        "deadlines": QUICK,
        "quorum": 2,
    }
    return network(3, **{**usual, **changes})


def lines_of(folder: Path, i: int) -> list[AnyNote]:
    return read_transcript(folder / f"site-{i}" / "transcript.jsonl", identities(3)[i].card.signing_key)


def run_of(run: Network, folder: Path, i: int) -> Network:
    """The run that a node's transcript says it was in."""
    first = lines_of(folder, i)[0]
    assert isinstance(first, Begun)
    return run.joined(first.parts)


def letters_of(run: Network, wires: Wires) -> list[Letter]:
    """All letters of a run that went over the wires."""
    offices, found = [PostOffice(run, each) for each in identities(3)], []
    for sender, receiver, wire in wires.sent:
        try:
            found.append(offices[receiver].opened(sender, wire))
        except Refused:
            continue
    return found


def test_what_was_said_in_one_run_is_not_understood_in_the_next(tmp_path: Path) -> None:
    run = three()
    first = Wires(run, tmp_path / "first")
    first.all()
    assert {each.reason for each in first.found.values()} == {"finished"}
    second = Wires(run, tmp_path / "second")
    # Everything that was sent is there again before anybody has said a word.
    for sender, receiver, wire in first.sent:
        second.queues[receiver].put(Happening("wire", sender, wire))
    second.all()
    assert {each.reason for each in second.found.values()} == {"finished"}
    names = {run_of(run, wires.folder, i).run_name for wires in (first, second) for i in range(3)}
    assert len(names) == 2
    this = run_of(run, second.folder, 0)
    values = {
        (each.sender, each.header.receiver, each.header.round): each.header.digest
        for each in letters_of(this, second)
        if each.header.kind == "values"
    }
    assert len(values) == 18
    for i in range(3):
        told = [line for line in lines_of(second.folder, i) if isinstance(line, Receipt)]
        digests = {(line.peer, line.body[:32]) for line in told}
        assert digests == {(f"site-{j}", values[i, j, t]) for j in range(3) if j != i for t in range(3)}


@pytest.mark.load
@pytest.mark.parametrize("sums", ["plain", "masked"])
@pytest.mark.parametrize("step", [1, 2, 4, 7, 10, 14, 19, 25])
def test_killed_at_any_step_a_node_goes_on_in_the_same_run_and_says_nothing_otherwise(
    sums: str, step: int, tmp_path: Path
) -> None:
    run = three(sums=sums)
    wires, steps = Wires(run, tmp_path), 0

    def before(i: int) -> None:
        nonlocal steps
        steps += i == 1
        if i == 1 and steps == step:
            raise Killed

    wires.before = before
    wires.all(again=1)
    assert not wires.errors
    assert {each.reason for each in wires.found.values()} == {"finished"}
    assert len({run_of(run, tmp_path, i).run_name for i in range(3)}) == 1
    said = defaultdict(set)
    for letter in letters_of(run_of(run, tmp_path, 1), wires):
        header = letter.header
        if header.kind == "values":
            said[header.sender, header.receiver, header.round].add(header.digest)
        if header.kind == "to-sum" and b"Masked" in letter.body[64:80]:
            said[header.sender, header.receiver, header.round].add(header.digest)
    assert said
    assert all(len(digests) == 1 for digests in said.values())


@pytest.mark.load
def test_who_lost_its_folder_is_in_no_run_and_sends_nothing(tmp_path: Path) -> None:
    run = three(rounds=40, quorum=1, deadlines=Deadlines(join=2.0, round=1.0, lost=0.2))
    wires, steps = Wires(run, tmp_path), 0

    def before(i: int) -> None:
        nonlocal steps
        steps += i == 1
        if i == 1 and steps == 20:
            shutil.rmtree(tmp_path / "site-1")
            raise Killed

    wires.before = before
    wires.all(again=1)
    assert {i: each.reason for i, each in wires.found.items()} == {0: "finished", 1: "apart", 2: "finished"}
    assert wires.found[1].sent == 0


@pytest.mark.load
def test_an_old_copy_of_a_folder_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    run = three(rounds=8, quorum=1)
    wires, steps, copy = Wires(run, tmp_path), 0, tmp_path / "copy"

    def before(i: int) -> None:
        nonlocal steps
        steps += i == 1
        if i == 1 and steps == 14:
            shutil.copytree(tmp_path / "site-1", copy)
        if i == 1 and steps == 22:
            shutil.rmtree(tmp_path / "site-1")
            shutil.copytree(copy, tmp_path / "site-1")
            raise Killed

    wires.before = before
    wires.all(again=1)
    assert isinstance(wires.errors[1], FileError)
    assert "is older than what was sent" in str(wires.errors[1])
    # A state alone that is older than the transcript beside it is noticed without anybody's help.
    shutil.copy(copy / "state", tmp_path / "site-0" / "state")
    wires.one(0)
    assert "the transcript knows more than the state" in str(wires.errors[0])
    (tmp_path / "site-0" / "state").unlink()
    wires.one(0)
    assert "missing or an old copy" in str(wires.errors[0])


@pytest.mark.load
@pytest.mark.parametrize("knows", ["neighbours", "file"])
def test_a_folder_from_before_a_run_does_not_begin_it_again(knows: str, tmp_path: Path) -> None:
    run = three(rounds=8, quorum=1)
    spent = tmp_path / "spent" if knows == "file" else None
    if spent is not None:
        spent.mkdir()
    wires, steps, copies = Wires(run, tmp_path, spent=spent), 0, tmp_path / "copies"
    copied = set()

    def before(i: int) -> None:
        nonlocal steps
        if i not in copied:
            # The part is drawn and kept, and nothing has been said.
            copied.add(i)
            shutil.copytree(tmp_path / f"site-{i}", copies / f"site-{i}")
        steps += i == 1
        if i == 1 and steps == 22 and knows == "neighbours":
            shutil.rmtree(tmp_path / "site-1")
            shutil.copytree(copies / "site-1", tmp_path / "site-1")
            raise Killed

    wires.before = before
    wires.all(again=1)
    if knows == "file":
        # All three go back to before the run, so that it would have the same name again.
        for i in range(3):
            shutil.rmtree(tmp_path / f"site-{i}")
            shutil.copytree(copies / f"site-{i}", tmp_path / f"site-{i}")
        wires.all()
    assert isinstance(wires.errors[1], FileError)
    assert "the state is of before the run" in str(wires.errors[1])


def test_a_certificate_of_one_run_does_not_fit_another(tmp_path: Path) -> None:
    run, wires = three(), []
    for name in ("first", "second"):
        wires.append(Wires(run, tmp_path / name))
        wires[-1].all()
    files = [
        {f"site-{i}": each.folder / f"site-{i}" / "transcript.jsonl" for i in range(2)} for each in wires
    ]
    made = read_run(wires[0].folder / "site-0" / "certificate.json")
    assert all(each.holds for each in verify_run(made, run, {"site-0": files[0]["site-0"]}))
    with pytest.raises(InputError, match="the certificate is of the run"):
        verify_run(made, run, {"site-0": files[1]["site-0"]})
    mixed = {"site-0": files[0]["site-0"], "site-1": files[1]["site-1"]}
    with pytest.raises(InputError, match="transcripts must be of one run; these are of 2"):
        certify_run(run, identities(3)[0], mixed, delta=1e-5)


def lobbies(run: Network) -> list[Lobby]:
    return [Lobby(run, each) for each in identities(run.n)]


def talk(run: Network, nodes: list[Lobby], times: int = 8) -> None:
    """Everybody tells all neighbours what it knows, so many times."""
    for _ in range(times):
        for one in nodes:
            for j in run.neighbours(one.me):
                nodes[j].received(one.me, read_hello(one.hello(asks=False)))


def test_nodes_that_are_not_linked_agree_through_others() -> None:
    run = network(6)
    nodes = lobbies(run)
    talk(run, nodes, times=1)
    assert not all(each.ready for each in nodes)
    talk(run, nodes)
    assert all(each.ready for each in nodes)
    assert len({run.joined(each.parts).run_name for each in nodes}) == 1


def test_parts_of_an_earlier_run_give_way_to_new_ones() -> None:
    run = network(4)
    earlier, nodes = lobbies(run), lobbies(run)
    talk(run, earlier)
    # A neighbour tells again what all drew for the run before.
    for each in nodes[1:3]:
        with_old = read_hello(earlier[0].hello(asks=False))
        each.received(0 if each.me == 1 else 1, with_old)
    talk(run, nodes)
    assert all(each.ready for each in nodes)
    assert run.joined(nodes[0].parts).run_name != run.joined(earlier[0].parts).run_name
    for each in nodes:
        assert each.own in each.parts


def test_parts_that_are_not_genuine_are_refused() -> None:
    run, other = network(4), network(4, rounds=6)
    node = lobbies(run)[0]
    forged = [
        drawn_part(run.hash, 2, identities(4)[1]),
        drawn_part(other.hash, 2, identities(4)[2]),
        drawn_part(run.hash, 7, identities(4)[2]),
        drawn_part(run.hash, 2, identities(4)[2])[:-1],
    ]
    for frame in forged:
        hello = read_hello(node.hello(asks=False))
        with pytest.raises(Refused, match="a part of a run must"):
            node.received(1, type(hello)(parts=(frame,), begun=False, asks=False))
    good = [drawn_part(run.hash, i, each) for i, each in enumerate(identities(4))]
    with pytest.raises(Refused, match="a run needs the part of each of its 4 nodes"):
        run.joined(good[:3])
    with pytest.raises(Refused, match="in order"):
        run.joined(good[::-1])
    with pytest.raises(Refused, match="before every node has drawn its part"):
        _ = run.run_name
