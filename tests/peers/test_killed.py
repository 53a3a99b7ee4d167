"""A node that is killed with SIGKILL and started again goes on, and what it sent is never sent otherwise."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from sottovoce.peers import (
    Outcome,
    Whereabouts,
    places_beside,
    read_network,
    read_transcript,
    run_all,
    write_example,
)
from sottovoce.peers.keeping import locked
from sottovoce.peers.letters import checked_header
from sottovoce.peers.local import Place, _child, process_context
from sottovoce.peers.notes import Receipt, Resumed, Sent

pytestmark = pytest.mark.load
CONTEXT = process_context()
ROUNDS = 12


def begun(place: Place) -> tuple[Any, Connection]:
    mine, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_child, args=(place, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, mine


def said(pipe: Connection, until: float) -> Any:
    """What a node says next; never waited for longer than the test has time."""
    assert pipe.poll(max(0.0, until - time.monotonic())), "a node hangs"
    return pipe.recv()


@pytest.mark.parametrize("masked", [False, True])
def test_a_killed_node_goes_on_and_sends_the_same_or_nothing(masked: bool, tmp_path: Path) -> None:
    file = write_example(tmp_path / "swarm", nodes=3, rounds=ROUNDS, masked=masked)
    # Both neighbours are needed, so that the others wait for the one that was killed.
    text = file.read_text().replace('weights = "uniform"', 'weights = "uniform"\nquorum = 2')
    file.write_text(text.replace("lost = 1", "lost = 0.2"))
    places, until = places_beside(file), time.monotonic() + 200
    running = {place.name: begun(place) for place in places}
    try:
        process, pipe = running["site-1"]
        while not (isinstance(moment := said(pipe, until), Whereabouts) and moment.round >= 3):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
        pipe.close()
        running["site-1"] = begun(places[1])
        ends = {}
        for name, (_, pipe) in running.items():
            while isinstance(end := said(pipe, until), Whereabouts):
                pass
            ends[name] = end
    finally:
        for process, pipe in running.values():
            process.kill()
            process.join(10)
            pipe.close()
    assert {name: getattr(end, "reason", end) for name, end in ends.items()} == dict.fromkeys(
        ends, "finished"
    )
    assert time.monotonic() < until - 100, "somebody waited for far too long"
    network = read_network(file)
    back: set[str] = set()
    digests = defaultdict(set)
    killed: list[int] = []
    for place in places:
        card = network.settings.nodes[network.index(place.name)]
        lines = read_transcript(place.folder / "transcript.jsonl", card.signing_key)
        resumed = [line.round for line in lines if isinstance(line, Resumed)]
        back |= {place.name} if resumed else set()
        for line in lines:
            if isinstance(line, Receipt):
                peer = network.settings.nodes[network.index(line.peer)]
                header = checked_header(line.signed, peer.signing_key)
                digests[place.name, header.round].add(line.body[:32])
        killed = resumed or killed
        rounds = [line.round for line in lines if isinstance(line, Sent)]
        assert rounds == sorted(set(rounds)), "a round was sent in twice"
    assert "site-1" in back
    # All receivers of a round were sent the same values, before and after the kill.
    assert all(len(found) == 1 for found in digests.values())
    # A receipt can be lost with the node that was to write or to keep it, and no other.
    every = {(place.name, t) for place in places for t in range(0 if masked else ROUNDS)}
    assert {t for _, t in every - set(digests)} <= {killed[0] - 1, killed[0], killed[0] + 1}


def test_nodes_end_without_a_word_when_who_started_them_is_killed_and_go_on_later(tmp_path: Path) -> None:
    file = write_example(tmp_path / "swarm", nodes=3, rounds=ROUNDS, masked=False)
    places, until = places_beside(file), time.monotonic() + 100
    ledger = places[0].folder / "ledger.jsonl"
    words = [sys.executable, "-m", "sottovoce", "peers", "local", str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (ledger.exists() and ledger.read_text().count("everyone") >= 2):
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                assert time.monotonic() < until, "no round is over"
                time.sleep(0.01)
        finally:
            process.kill()
        # The pipes end with the last process that holds them.
        out, err = process.communicate(timeout=30)
    assert (out, err) == ("", "")
    for place in places:
        with locked(place.folder):
            pass
    sent = ledger.read_text().count("everyone")
    assert sent < ROUNDS
    found = run_all(places)
    assert {name: end.reason for name, end in found.items() if isinstance(end, Outcome)} == {
        place.name: "finished" for place in places
    }
    assert ledger.read_text().count("everyone") == ROUNDS
