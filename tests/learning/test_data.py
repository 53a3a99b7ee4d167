"""Bundled sets, files of one's own, and what is refused."""

import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import FileError, InputError
from sottovoce.learning import DATA_NAMES, Data, held_out, load_data

KNOWN = {"digits": (1797, 64, 10), "breast-cancer": (569, 30, 2), "diabetes": (442, 10, 0)}


@pytest.mark.parametrize("name", DATA_NAMES)
def test_bundled_sets(name: str) -> None:
    data = load_data(name)
    assert (data.records, data.features.shape[1], data.classes) == KNOWN[name]
    assert data.published_records == data.records
    # Published ranges, so that no scaling looks at the records: all values lie within them up to their rounding.
    assert np.abs(data.features).max() <= 1.05
    assert np.abs(data.features).max() > 0.9
    if not data.classes:
        assert np.abs(data.labels).max() == 1


def test_scaling_is_that_of_the_description() -> None:
    from sklearn import datasets

    raw = datasets.load_breast_cancer().data
    scaled = load_data("breast-cancer").features
    # The description rounds to a few digits, so the ends are met to within a part in a hundred or so.
    assert np.abs(scaled.max(axis=0) - 1).max() < 0.05
    assert np.abs(scaled.min(axis=0) + 1).max() < 0.05
    for column in range(raw.shape[1]):
        assert np.corrcoef(raw[:, column], scaled[:, column])[0, 1] == pytest.approx(1)


def test_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("size,kind,weight\n1,cat,0.5\n2,dog,1.5\n3,cat,2.5\n")
    data = load_data(file, label="kind", classification=True)
    assert data.features.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert data.labels.tolist() == [0, 1, 0]
    assert (data.classes, data.published_records) == (2, None)
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("a,b\n1,2\n3,4\n")
    assert load_data(numbers).labels.tolist() == [2, 4]


def test_an_npz_file(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    np.savez(file, features=np.eye(3), labels=np.array(["b", "a", "b"]))
    data = load_data(file, classification=True)
    assert data.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "a,b\n1,x\n",
            "line 2: a number was expected in the column 'b'; got 'x' (write numbers there, or leave the column out",
        ),
        (
            "a,b\n1,2\n1\n",
            "line 3: 2 values were expected, one for each column of the header; got 1 (fill in",
        ),
        (
            "a,b\n1,nan\n",
            "line 2: a finite number was expected in the column 'b'; got 'nan' (leave the record out)",
        ),
        ("a,b\n", "a CSV file of data has a header line and records; got 1 lines"),
    ],
)
def test_bad_csv_files_are_refused(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(FileError) as caught:
        load_data(file)
    assert complaint in str(caught.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, complaint in (
        ("none.csv", "cannot be read as CSV"),
        ("none.npz", "none.npz: there is no such file"),
        (
            "mnist",
            "the data must be one of digits, breast-cancer, diabetes, or a file that ends in .csv or .npz",
        ),
    ):
        with pytest.raises(InputError, match=complaint):
            load_data(tmp_path / name if "." in name else name)
    np.savez(tmp_path / "bad.npz", X=np.eye(2))
    with pytest.raises(FileError, match="holds arrays called features and labels; it has X"):
        load_data(tmp_path / "bad.npz")
    file = tmp_path / "c.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="no column is called 'c' \\(its columns: a, b\\)"):
        load_data(file, label="c")


@pytest.mark.parametrize(
    ("features", "labels", "classes", "complaint"),
    [
        ([[1.0], [np.nan]], [0, 1], 0, "features must be finite numbers; record 1 holds NaN or infinity"),
        ([[1.0], [2.0]], [0, np.inf], 0, "labels must be finite numbers; record 1"),
        ([[1.0], [2.0]], [0], 0, "one label for each record; got 2 records and 1 labels"),
        ([1.0, 2.0], [0, 1], 0, "features must have one row a record; got shape (2,)"),
        ([[1.0], [2.0]], [[0], [1]], 0, "labels must have one number a record; got shape (2, 1)"),
        ([[]], [0], 0, "at least one record with one feature"),
        ([["a"]], [0], 0, "features must be numbers"),
        ([[1.0], [2.0]], [0, 2], 2, "labels of 2 classes must be whole numbers from 0 to 1"),
        ([[1.0], [2.0]], [0, 0.5], 2, "labels of 2 classes must be whole numbers from 0 to 1"),
    ],
)
def test_bad_data_is_refused(
    features: list[list[float]], labels: list[float], classes: int, complaint: str
) -> None:
    with pytest.raises(InputError) as caught:
        Data(name="own", features=features, labels=labels, classes=classes)  # type: ignore[arg-type]
    assert str(caught.value).startswith("own: ")
    assert complaint in str(caught.value)


def test_holding_out_keeps_every_record_once() -> None:
    data = Data(name="own", features=np.arange(10.0)[:, None], labels=np.arange(10.0), published_records=10)
    learnt, test = held_out(data, 0.3, seed=5)
    assert test is not None
    assert sorted([*learnt.labels, *test.labels]) == list(range(10))
    assert (test.records, learnt.published_records, test.published_records) == (3, 7, 3)
    assert held_out(data, 0.0) == (data, None)
    again = held_out(data, 0.3, seed=5)[0]
    assert np.array_equal(again.labels, learnt.labels)
    assert not np.array_equal(held_out(data, 0.3, seed=6)[0].labels, learnt.labels)
    for share in (-0.1, 1.0):
        with pytest.raises(InputError, match="share of records held out must lie in"):
            held_out(data, share)


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InputError, match=r"pip install '\.\[learn\]'"):
        load_data("digits")
