"""Nodes as processes of this machine: what is said of one that ended without a word, and what it learnt."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.peers.networks import complete, network
from tests.peers.wires import records

from sottovoce.errors import FileError
from sottovoce.peers import Local, Network, Outcome, TaskFacts, places_beside, run_all, write_example
from sottovoce.peers.keeping import locked
from sottovoce.peers.local import _last_words


def ended(run: Network, model: np.ndarray) -> Outcome:
    return Outcome(
        me="site-0",
        reason="finished",
        rounds=1,
        sent=1,
        deviated=False,
        epsilon=1.0,
        delta=1e-5,
        refused=0,
        model=model[: run.dimension],
    )


def test_only_who_was_killed_is_told_to_start_again() -> None:
    assert _last_words(-9) == "was ended by signal 9 (start it again, and it goes on)"
    assert "with exit code 1 (please report it)" in _last_words(1)
    assert "start it again" not in _last_words(1)


def test_accuracy_is_that_of_the_model_on_own_records_where_there_are_classes() -> None:
    run, data = network(3, edges=complete(3)), records(1)
    own = Local(run, run.local_task(data))
    model = np.array([1.0, 0.5, -0.25, 0.125])
    for sign in (1, -1):
        right = own.measured(ended(run, sign * model)).accuracy
        assert right is not None
        assert 0 < right < 1
        assert right * 10 == pytest.approx(round(right * 10))
    both = [own.measured(ended(run, sign * model)).accuracy or 0.0 for sign in (1, -1)]
    # What the opposite model says is wrong where this one is right.
    assert sum(both) == pytest.approx(1.0)
    numbers = network(3, edges=complete(3), task=TaskFacts(loss="ridge", features=3, shard_size=20))
    plain = replace(data, labels=data.labels.astype(float), classes=0)
    assert Local(numbers, numbers.local_task(plain)).measured(ended(numbers, model)).accuracy is None


def test_all_places_are_checked_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_example(tmp_path / "swarm", nodes=3, rounds=2)
    places = places_beside(file)
    monkeypatch.setattr("sottovoce.peers.local.process_context", lambda: pytest.fail("a process starts"))
    places[2].folder.mkdir()
    with locked(places[2].folder), pytest.raises(FileError, match="another process runs this node"):
        run_all(places)
    (tmp_path / "swarm" / "site-2.csv").write_text("x,y,class\n1,2\n")
    with pytest.raises(FileError, match=r"site-2\.csv"):
        run_all(places)
    assert not places[0].folder.exists()
