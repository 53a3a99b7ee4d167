"""`network.toml`: what is agreed on, what is refused, and its hash."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.networks import identities, network

from sottovoce.errors import FileError, InputError
from sottovoce.learning import Data
from sottovoce.peers import Deadlines, TaskFacts, read_network
from sottovoce.peers.weighting import Weighting

TOP = """
name = "test"
rounds = 5
noise_multiplier = 4.0
weights = "uniform"
edges = [["site-0", "site-1"], ["site-1", "site-2"], ["site-2", "site-3"], ["site-3", "site-0"]]
task = { loss = "logistic", features = 3, classes = 2, shard_size = 20 }
deadlines = { join = 20, round = 5.0, lost = 0.5 }
"""


def written(path: Path, top: str = TOP) -> Path:
    file = path / "network.toml"
    file.write_text(top + "".join(each.public_text for each in identities(4)))
    return file


def test_a_file_is_the_value_and_its_hash_does_not_depend_on_spelling(tmp_path: Path) -> None:
    made = network()
    assert read_network(written(tmp_path)).hash == made.hash
    spelled = TOP.replace("4.0", "4").replace('"test"', "'test'") + 'sums = "plain"\n'
    assert read_network(written(tmp_path, spelled)).hash == made.hash
    assert network(noise_multiplier=4.1).hash != made.hash
    assert (made.denominator, made.numerators[0]) == (3, {0: 1, 1: 1, 3: 1})
    assert (made.senders(0), made.receivers(0), made.neighbours(2)) == ((1, 3), (1, 3), (1, 3))


def test_weights_may_be_given_as_integers() -> None:
    rows = {
        f"site-{k}": {f"site-{k}": 4, f"site-{(k + 1) % 4}": 1, f"site-{(k - 1) % 4}": 1} for k in range(4)
    }
    given = network(edges=(), weights=Weighting(denominator=6, rows=rows))
    assert (given.denominator, given.numerators[1]) == (6, {0: 1, 1: 4, 2: 1})
    assert given.protocol.schedule[0].exact_row(1)[1] == Fraction(2, 3)
    rows["site-2"]["site-2"] = 3
    with pytest.raises(InputError, match=r"must sum to the denominator 6; those of site-2 sum to 5"):
        network(edges=(), weights=Weighting(denominator=6, rows=rows))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a finite number above 0"),
        ({"delta": 2.0}, "delta must lie strictly between 0 and 1"),
        ({"edges": (("site-0", "nobody"),)}, "edges must join nodes of the network; got 'nobody'"),
        ({"edges": (("site-0", "site-0"),)}, "edges must join two nodes; got 'site-0' twice"),
        ({"deadlines": Deadlines(lost=20.0)}, "deadlines.lost must be at most deadlines.round"),
        ({"deadlines": Deadlines(round=-1.0)}, "round must be a finite number above 0"),
        ({"protocol": "pairwise-noise:local=1,shared=1"}, "noise every node draws by itself"),
        ({"protocol": "clean-state:keep=1/2"}, "training cannot run the protocol"),
        ({"protocol": "waves"}, "protocol must be one of"),
        ({"weights": (Weighting(denominator=1, rows={}),) * 2}, "same in all rounds.*got a schedule of 2"),
        ({"nodes": (identities(4)[0].card,) * 4}, "nodes must differ in their name"),
        ({"nodes": (identities(4)[0].card,)}, "nodes must be at least two"),
        (
            {"task": TaskFacts(loss="logistic", features=3, classes=3, shard_size=20)},
            "the loss logistic does not fit",
        ),
        (
            {
                "protocol": "momentum:beta=0.9,noise=message",
                "task": TaskFacts(loss="logistic", features=3, classes=2, shard_size=20, step="0.5/sqrt(t)"),
            },
            "change their step only where noise enters beside each contribution",
        ),
    ],
)
def test_what_makes_no_run_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        network(**changes)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("rounds = 5", "rounds = 0", "rounds must be a whole number of at least 1; got 0"),
        ("rounds = 5", "", "a network lacks the field rounds"),
        ("rounds = 5", "rounds = 5\nround = 5", "a network has an unknown field round"),
        ("rounds = 5", "rounds = ", "is no TOML file"),
        ('"logistic"', '"magic"', "task.loss must be one of"),
        ('"uniform"', "[{ denominator = 1, rows = {} }]", "got a schedule of 1"),
    ],
)
def test_a_file_that_is_not_right_says_where(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    with pytest.raises(FileError, match=rf"network.toml: .*{sentence}"):
        read_network(written(tmp_path, TOP.replace(old, new)))


def test_records_must_be_those_that_were_agreed_on() -> None:
    agreed = network()
    fitting = Data(name="mine", features=np.eye(3), labels=np.array([0, 1, 1]), classes=2)
    task = agreed.local_task(fitting)
    assert (task.nodes, task.shards.nominal) == (1, 20)
    # In the order of the file: nothing is dealt.
    assert task.shards.labels.tolist() == [[0, 1, 1]]
    with pytest.raises(InputError, match="must have the 3 features"):
        agreed.local_task(Data(name="mine", features=np.eye(4), labels=np.array([0, 1, 1, 0]), classes=2))
    many = Data(name="mine", features=np.ones((21, 3)), labels=np.array([0, 1, 1] * 7), classes=2)
    with pytest.raises(InputError, match="no node may hold more records than the public shard size, 20"):
        agreed.local_task(many)
