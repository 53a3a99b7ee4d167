"""Records with clients of their own: read from a column, never dealt, at the node that is called like them."""

from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import FileError, InputError
from sottovoce.learning import Data, held_out, load_data, split, task_from

SCHOOLS = "score,school,hours,passed\n1,north,2,no\n3,south,4,yes\n5,north,6,yes\n7,east,8,no\n9,east,1,yes\n"


@pytest.fixture
def schools(tmp_path: Path) -> Path:
    file = tmp_path / "schools.csv"
    file.write_text(SCHOOLS)
    return file


def test_a_column_says_whose_a_record_is_and_is_no_feature(schools: Path) -> None:
    data = load_data(schools, split_by="school", classification=True)
    assert data.clients == ("east", "north", "south")
    assert data.owner is not None
    assert data.owner.tolist() == [1, 2, 1, 0, 0]
    assert data.features.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 1]]
    assert data.labels.tolist() == [0, 1, 1, 0, 1]


def test_the_last_column_that_is_not_the_clients_holds_the_labels(tmp_path: Path) -> None:
    file = tmp_path / "last.csv"
    file.write_text("x,y,site\n1,2,b\n3,4,a\n")
    data = load_data(file, split_by="site")
    assert (data.features.tolist(), data.labels.tolist(), data.clients) == ([[1], [3]], [2, 4], ("a", "b"))


def test_numbered_clients_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "numbered.csv"
    file.write_text("x,y,site\n" + "".join(f"1,2,{site}\n" for site in (10, 2, 9, 1)))
    assert load_data(file, split_by="site").clients == ("1", "2", "9", "10")


def test_each_client_has_its_own_node(schools: Path) -> None:
    data = load_data(schools, split_by="school", classification=True)
    shards = split(data, 3, nominal=4)
    assert shards.counts.tolist() == [2, 2, 1]
    assert [sorted(shards.features[k, shards.present[k], 0].tolist()) for k in range(3)] == [
        [7, 9],
        [1, 5],
        [3],
    ]
    moved = split(data.clients_at(["south", "east", "north"]), 3, nominal=4)
    assert moved.counts.tolist() == [1, 2, 2]
    assert moved.features[0, 0].tolist() == [3, 4]


def test_the_share_of_each_client_is_held_out_and_never_all_of_one() -> None:
    owner = np.repeat([0, 1, 2], [50, 10, 1])
    data = Data(
        name="d", features=np.arange(61.0)[:, None], labels=owner, clients=("a", "b", "c"), owner=owner
    )
    learnt, test = held_out(data, 0.2, seed=3)
    assert test is not None
    assert np.bincount(learnt.labels.astype(int)).tolist() == [40, 8, 1]
    assert np.bincount(test.labels.astype(int)).tolist() == [10, 2]
    assert sorted([*learnt.features[:, 0], *test.features[:, 0]]) == list(range(61))
    assert held_out(data, 0.9)[0].records == 5 + 1 + 1
    task = task_from(data, 3, loss="ridge", nominal=60)
    assert task.shards.counts.tolist() == [40, 8, 1]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"split_by": "town"}, r"no column is called 'town' \(its columns: score, school, hours, passed\)"),
        (
            {"split_by": "school", "label": "school"},
            r"cannot hold labels and clients; got 'school' \(name another",
        ),
    ],
)
def test_columns_that_do_not_fit(words: dict[str, str], complaint: str, schools: Path) -> None:
    with pytest.raises(FileError, match=complaint):
        load_data(schools, classification=True, **words)


def test_a_record_without_a_client_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("x,site,y\n1,a,2\n1, ,2\n")
    with pytest.raises(
        FileError, match=r"line 3: the column 'site' says whose a record is; it is empty \(leave"
    ):
        load_data(file, split_by="site")


def test_what_does_not_fit_is_named(schools: Path) -> None:
    data = load_data(schools, split_by="school", classification=True)
    with pytest.raises(
        InputError, match=r"one node for each client; got 4 nodes and 3 clients \(take a graph of 3"
    ):
        split(data, 4, nominal=4)
    with pytest.raises(
        InputError, match=r"than the public shard size, 1; east has 2 \(give a larger one, or leave"
    ):
        split(data, 3, nominal=1)
    with pytest.raises(InputError, match=r"are not dealt; got a skew of 0.5 \(leave it out\)"):
        split(data, 3, nominal=4, skew=0.5)
    with pytest.raises(
        InputError, match=r"1 client with no node: south; 1 node with no records: west \(rename"
    ):
        data.clients_at(["east", "north", "west"])
    with pytest.raises(
        InputError, match=r"split_by must name a column of a CSV file; got 'school' with digits \(leave"
    ):
        load_data("digits", split_by="school")
    with pytest.raises(
        InputError, match=r"owner must hold, for each of 2 records, the place .* among 1 \(count"
    ):
        Data(name="d", features=np.eye(2), labels=np.zeros(2), clients=("a",), owner=np.array([0, 1]))
