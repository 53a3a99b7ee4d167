"""What lies in a folder is held against network, keys and transcript before a node says a word; nothing is lost."""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.peers.networks import complete, identities, network
from tests.peers.test_runs import lines_of, three
from tests.peers.wires import Killed, Wires, records

from sottovoce.errors import InputError
from sottovoce.peers import Deadlines, Local, Policy, Site, create_identity, read_earlier
from sottovoce.peers.node import Node
from sottovoce.peers.notes import Begun, Resumed, Stopped
from sottovoce.peers.running import ended_before
from sottovoce.peers.standing import standing_of


@pytest.fixture(scope="module")
def run_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which three nodes have been through a run."""
    folder = tmp_path_factory.mktemp("run")
    wires = Wires(three(), folder, spent=folder)
    wires.all()
    assert {each.reason for each in wires.found.values()} == {"finished"}
    assert not any(each.had_finished for each in wires.found.values())
    return folder


@pytest.fixture
def folder(run_before: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(run_before, tmp_path / "run"))


def contents(folder: Path) -> dict[str, str]:
    """What lies in a folder; of no interest is which file is locked."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def complaint(wires: Wires) -> str:
    """Why the first node does not start; it has said nothing and changed nothing."""
    before = contents(wires.folder)
    wires.one(0)
    assert isinstance(wires.errors[0], InputError)
    assert not wires.sent
    assert contents(wires.folder) == before
    return str(wires.errors[0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"noise_multiplier": 5.0}, "noise_multiplier is 5.0 and was 4.0"),
        ({"rounds": 4}, "rounds is 4 and was 3"),
        ({"clip": 2.0, "unit": "record"}, "clip is 2.0 and was 1.0; unit is 'record' and was 'node'"),
        ({"edges": complete(3)[:2]}, "edges lacks [('site-1', 'site-2')]"),
        ({"edges": complete(3)[::-1]}, "the order of edges is another"),
        ({"name": "other"}, "name is 'other' and was 'test'"),
        ({"deadlines": Deadlines()}, "deadlines.join is 60.0 and was 5.0"),
        ({"port": 19000}, "must be those that the network pins for it; they differ in address, signing"),
    ],
)
def test_another_network_than_that_of_the_run_is_refused_and_told_apart(
    changes: dict[str, Any], sentence: str, folder: Path
) -> None:
    found = complaint(Wires(three(**changes), folder, spent=folder))
    assert sentence in found
    if "port" not in changes:
        assert found.startswith(
            f"{folder / 'site-0'}: holds a run of a network that was agreed on otherwise: "
        )
        assert "(put that back to go on with the run; for a new one take another folder" in found
    # Put back, it is the run that it was.
    before = contents(folder)
    again = Wires(three(), folder, spent=folder)
    again.all()
    assert {(each.reason, each.had_finished) for each in again.found.values()} == {("finished", True)}
    for i in range(3):
        spent = f"site-{i}.spent.jsonl"
        assert contents(folder)[spent] == before[spent]
        # Of a goodbye that came too late there may be a line more, and of nothing else.
        assert sum(isinstance(line, Begun | Resumed | Stopped) for line in lines_of(folder, i)) == 2


def test_keys_of_another_node_in_the_network_are_told_apart(folder: Path) -> None:
    agreed = three()
    other = create_identity("site-1", agreed.settings.nodes[1].address)
    nodes = (agreed.settings.nodes[0], other.card, agreed.settings.nodes[2])
    found = complaint(Wires(three(nodes=nodes), folder, spent=folder))
    assert "nodes.site-1.signing is " in found
    assert "nodes.site-1.sealing is " in found


def test_without_what_tells_how_networks_differ_they_still_do(folder: Path) -> None:
    file = folder / "site-0" / "network.json"
    assert file.read_bytes() == three().agreed
    for text in (b"{}", three(rounds=4).agreed):
        file.write_bytes(text)
        assert "network.json beside it, which tells how, " in complaint(Wires(three(rounds=4), folder))
    file.unlink()
    assert "is missing or was changed" in complaint(Wires(three(rounds=4), folder))


def test_keys_that_are_not_those_of_the_network_are_refused(folder: Path) -> None:
    run = three()
    for address, sentence in (
        (run.settings.nodes[0].address, "they differ in signing, sealing, certificate ("),
        ("127.0.0.1:1", "they differ in address, signing, sealing, certificate ("),
    ):
        site = Site(
            identity=create_identity("site-0", address),
            contributor=Local(run, run.local_task(records(0))),
            folder=folder / "site-0",
        )
        with pytest.raises(InputError) as error:
            ended_before(run, site)
        assert sentence in str(error.value)
        assert "(take the file that its public lines came from" in str(error.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda lines: lines[:2], "must have the .* lines that this node has written; it has 2"),
        (lambda lines: lines[:0], "must have the .* lines that this node has written; it has 0"),
        (lambda lines: lines[:3] + lines[4:], "line 4 does not follow the line before it"),
        (lambda lines: [*lines[:2], lines[2].replace(b"0", b"1", 1), *lines[3:]], "line 3"),
        (lambda lines: lines[1:], "line 1 does not follow the line before it"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "line .* is not JSON"),
    ],
)
def test_a_transcript_in_which_something_was_changed_is_refused(
    change: Any, sentence: str, folder: Path
) -> None:
    file = folder / "site-0" / "transcript.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in change(file.read_bytes().splitlines())))
    found = complaint(Wires(three(), folder, spent=folder))
    assert found.startswith(str(file))
    assert found.endswith("(take the original file)")
    assert re.search(sentence, found)


def test_a_line_that_the_state_still_holds_is_written_again(folder: Path) -> None:
    before, file = contents(folder), folder / "site-0" / "transcript.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    run = three()
    own = Local(run, run.local_task(records(0)))
    site = Site(identity=identities(3)[0], contributor=own, folder=folder / "site-0")
    assert ended_before(run, site, alone=True) is not None
    assert contents(folder) == before


def test_files_of_another_run_do_not_go_together(folder: Path, tmp_path: Path) -> None:
    other = Wires(three(), tmp_path / "other")
    other.all()
    shutil.copy(tmp_path / "other" / "site-0" / "state", folder / "site-0" / "state")
    found = complaint(Wires(three(), folder))
    assert "the transcript is of another run than the state" in found


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mu": 0.25}, "must count μ = .* for this run after 3 rounds; it says 0.25"),
        ({"run": "00"}, "must tell of the 3 rounds of this run in which the node sent; it tells of 0"),
        ({"nodes": ("stranger",)}, "must name the nodes of this run"),
        ({"sent": 2}, "must tell of the 3 rounds of this run in which the node sent; it tells of 2"),
    ],
)
def test_a_file_of_spending_that_says_less_of_the_run_is_refused(
    changes: dict[str, Any], sentence: str, folder: Path
) -> None:
    file, run = folder / "site-0.spent.jsonl", three()
    (last,) = read_earlier(file, run).runs
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(last, **changes)) + b"\n")
    found = complaint(Wires(run, folder, spent=folder))
    assert found.startswith(str(file))
    assert re.search(sentence, found)


def test_a_state_in_which_a_bit_was_changed_is_refused(folder: Path) -> None:
    file = folder / "site-0" / "state"
    content = bytearray(file.read_bytes())
    for place in (0, 40, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        found = complaint(Wires(three(), folder))
        assert found.startswith(f"{file}: cannot be read: it is not as this node wrote it (")


def test_a_ledger_without_its_columns_is_refused(folder: Path) -> None:
    with (folder / "site-0" / "ledger.csv").open("a") as stream:
        stream.write("4\n")
    assert "must have 5 columns; it has 1" in complaint(Wires(three(), folder, spent=folder))


def test_a_run_that_never_began_binds_nobody(tmp_path: Path) -> None:
    alone = Wires(three(deadlines=Deadlines(join=0.2, round=0.2, lost=0.1)), tmp_path)
    alone.one(0)
    assert alone.found[0].reason == "alone"
    agreed = Wires(three(rounds=2), tmp_path)
    agreed.all()
    assert {each.reason for each in agreed.found.values()} == {"finished"}


def test_a_node_that_was_killed_before_its_first_line_begins_its_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, run = Node.started, three()
    killed: list[int] = []

    def once(node: Node, now: float) -> Any:
        if node.me == 1 and not killed:
            killed.append(node.me)
            raise Killed
        return started(node, now)

    monkeypatch.setattr(Node, "started", once)
    wires = Wires(run, tmp_path)
    wires.all(again=1)
    assert killed
    assert {each.reason for each in wires.found.values()} == {"finished"}
    assert isinstance(lines_of(tmp_path, 1)[0], Begun)


def test_a_run_that_is_over_is_told_again_with_nothing_sent(folder: Path) -> None:
    run, before = three(), contents(folder)
    site = Site(
        identity=identities(3)[0],
        contributor=Local(run, run.local_task(records(0))),
        folder=folder / "site-0",
        policy=Policy(),
        spent=folder / "site-0.spent.jsonl",
    )
    assert standing_of(run, site).over
    found = ended_before(run, site, alone=True)
    assert found is not None
    assert (found.had_finished, found.reason, found.sent, found.rounds) == (True, "finished", 3, 3)
    assert {each.observers for each in found.known} == {
        ("site-1",),
        ("site-2",),
        ("site-1", "site-2"),
    }
    assert found.epsilon_of_one == max(each.epsilon for each in found.known if len(each.observers) == 1)
    assert contents(folder) == before
    # A certificate that is not the node's is made again, the same to the last bit.
    (folder / "site-0" / "certificate.json").write_bytes(b"{}")
    assert ended_before(run, site, alone=True) is not None
    assert contents(folder) == before
    # Of a folder that is not there yet nothing is known, and none is made.
    fresh = Site(identity=site.identity, contributor=site.contributor, folder=folder / "new")
    assert ended_before(run, fresh) is None
    assert not (folder / "new").exists()


def test_what_earlier_runs_gave_away_is_in_what_is_known(tmp_path: Path) -> None:
    ends = []
    for name in ("first", "second"):
        wires = Wires(three(sums="masked"), tmp_path / name, spent=tmp_path)
        wires.all()
        ends.append(wires.found[0])
    assert [each.earlier_runs for each in ends] == [0, 1]
    one, two = (each.epsilon_of_one for each in ends)
    assert one is not None
    assert two is not None
    assert one < two <= ends[1].epsilon
    assert one < ends[0].epsilon


def test_only_the_holder_of_pinned_keys_has_a_place() -> None:
    with pytest.raises(InputError, match="no node of the network is called 'ward'"):
        network(3).holder(create_identity("ward", "127.0.0.1:18000").card)
    assert network(3).holder(identities(3)[2].card) == 2
