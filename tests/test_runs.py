# SPDX-License-Identifier: Apache-2.0
"""The file and the JSON form of training runs."""

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce import documents, gossip, graphs, train
from sottovoce.documents.runs import check_run_path, read_run, run_document, write_run
from sottovoce.errors import FileError, InputError
from sottovoce.learning import Run, load_data, synthetic_task, task_from

RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=6)


def unfinished() -> Run:
    kept: list[Run] = []
    train(
        synthetic_task(5, dimension=3),
        RING,
        view="secure-sum",
        noise_multiplier=2.0,
        seed=1,
        checkpoint=kept.append,
        checkpoint_every=4,
    )
    return kept[1]


def finished() -> Run:
    return train(task_from(load_data("breast-cancer"), 5), RING, target_epsilon=3.0, seed=1)


def same(first: Run, second: Run) -> bool:
    """Whether two runs are equal to the last bit, field by field; the table of all pairs stays out of files."""
    for field in fields(Run):
        if field.name == "table":
            continue
        mine, theirs = getattr(first, field.name), getattr(second, field.name)
        if field.name in {"state", "history"}:
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(mine, theirs, strict=True)):
                return False
        elif field.name in {"keys", "before"}:
            if (mine is None) != (theirs is None) or (mine is not None and not np.array_equal(mine, theirs)):
                return False
        elif mine != theirs:
            return False
    return True


@pytest.mark.parametrize("make", [unfinished, finished])
def test_a_run_returns_from_its_file(make: Callable[[], Run], tmp_path: Path) -> None:
    run = make()
    file = write_run(run, tmp_path / "run.npz")
    assert same(read_run(file), run)
    other = read_run(file)
    assert not same(other, train(synthetic_task(5, dimension=3), RING, noise_multiplier=2.0, seed=2))


def test_only_its_owner_can_read_a_run(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        file = write_run(unfinished(), tmp_path / "run.npz")
        write_run(unfinished(), file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_finished_run_keeps_no_keys(tmp_path: Path) -> None:
    with np.load(write_run(finished(), tmp_path / "done.npz")) as found:
        assert "keys" not in found.files
    with np.load(write_run(unfinished(), tmp_path / "begun.npz")) as found:
        assert found["keys"].shape == (5, 2)


def test_a_failed_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = unfinished()
    file = write_run(run, tmp_path / "run.npz")
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(FileError, match=r"the run cannot be written: No space left on device \(make room"):
        write_run(finished(), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_an_unfinished_run_is_not_written_over(tmp_path: Path) -> None:
    file = write_run(unfinished(), tmp_path / "run.npz")
    with pytest.raises(InputError, match=r"an unfinished run lies there, 4 of 6 rounds done \(continue"):
        check_run_path(file, fresh=True)
    assert check_run_path(file) == file
    write_run(finished(), file)
    with pytest.raises(
        InputError, match=r"a finished run lies there, of 6 rounds \(choose another name, or replace"
    ):
        check_run_path(file, fresh=True)
    assert check_run_path(file, fresh=True, overwrite=True) == file
    for content in (b"something else", file.read_bytes()[:3000]):
        file.write_bytes(content)
        with pytest.raises(
            FileError, match=r"what lies there is none that can be read \(choose another name"
        ):
            check_run_path(file, fresh=True, overwrite=True)
    file.write_bytes(b"")
    assert check_run_path(file, fresh=True) == file


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        read_run(tmp_path / "none.npz")
    for name, content in (("text.npz", b"not a run"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            FileError, match=r"not a whole .npz file: .* \(give what train --output wrote, or begin"
        ):
            read_run(tmp_path / name)
    np.savez(tmp_path / "other.npz", header=np.array("{}"))
    with pytest.raises(FileError, match="a run of schema 2 was expected"):
        read_run(tmp_path / "other.npz")
    with pytest.raises(FileError, match=r"a run is written to a file that ends in .npz"):
        check_run_path(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("registers", np.zeros(3), "its models and their average do not fit each other"),
        ("average", np.zeros(7), "its models and their average do not fit each other"),
        ("keys", np.zeros((2, 2), dtype=np.uint64), "its keys are not two 64-bit numbers for each node"),
        ("keys", None, "its round and its keys do not fit each other"),
        ("before", None, "its round and the models before it do not fit each other"),
        ("before", np.zeros((1, 5, 2)), "its round and the models before it do not fit each other"),
        ("history_loss", None, "history_loss"),
    ],
)
def test_a_damaged_run_is_refused(
    name: str, value: np.ndarray | None, complaint: str, tmp_path: Path
) -> None:
    file = write_run(unfinished(), tmp_path / "run.npz")
    with np.load(file) as found:
        arrays = {key: found[key] for key in found.files}
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    np.savez(file, **arrays)
    with pytest.raises(FileError, match=complaint):
        read_run(file)


def test_what_is_no_number_is_kept_too(tmp_path: Path) -> None:
    lost = replace(finished(), loss=float("inf"), excess_risk=float("nan"), average_excess_risk=-float("inf"))
    file = write_run(lost, tmp_path / "run.npz")
    with np.load(file) as found:
        assert "Infinity" not in str(found["header"])
    again = read_run(file)
    assert (str(again.loss), str(again.excess_risk), str(again.average_excess_risk)) == ("inf", "nan", "-inf")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text.replace('"rounds"', '"rounds": 6, "rounds"', 1), "a field stands twice"),
        (lambda text: text[:-1] + ', "more": 1}', "the header has an unknown field more"),
        (lambda text: text[:-1] + ', "loss": 1e999}', "finite numbers only; this file holds 1e999"),
        (lambda text: re.sub('"noise_std": [^,]*', '"noise_std": NaN', text), "this file holds NaN"),
        (
            lambda text: re.sub('"noise_std": [^,]*', '"noise_std": Infinity', text),
            "this file holds Infinity",
        ),
        (
            lambda text: re.sub('"noise_std": [^,]*', '"noise_std": "2"', text),
            "noise_std must be a number; got",
        ),
        (lambda text: re.sub('"noise_std": [^,]*, ', "", text), "the header lacks the field noise_std"),
        (
            lambda text: re.sub('"loss": [^,]*', '"loss": "NaN"', text),
            "loss must be one of inf, -inf, nan|loss",
        ),
        (lambda text: re.sub('"round": [^,]*', f'"round": 1{"0" * 400}', text), "at most 400 digits"),
        (lambda text: re.sub('"round": [^,]*', "[" * 100_000, text), "this is not JSON"),
        (lambda _: "[]", "a run of schema 2 was expected"),
        (lambda _: "4", "a run of schema 2 was expected"),
    ],
)
def test_a_header_that_is_none_is_refused(
    change: Callable[[str], str], complaint: str, tmp_path: Path
) -> None:
    file = write_run(unfinished(), tmp_path / "run.npz")
    with np.load(file) as found:
        arrays = {key: found[key] for key in found.files}
    text = str(arrays["header"])
    arrays["header"] = np.array(change(text))
    assert str(arrays["header"]) != text
    np.savez(file, **arrays)
    with pytest.raises(FileError, match=complaint):
        read_run(file)


def test_the_json_form() -> None:
    task = task_from(load_data("breast-cancer"), 5)
    run = finished()
    graph = graphs.as_graph("ring:n=5")
    document = run_document(run, task, RING, graphs.WeightedGraph(graph=graph, weights=RING.weights))
    read = json.loads(documents.as_json(document))
    assert read["accuracy"] == run.accuracy
    assert read["loss"] == run.loss
    assert read["excess_risk"] == run.excess_risk
    assert read["consensus_distance"] == run.consensus_distance
    assert read["noise_multiplier"] == run.noise_multiplier
    assert read["account"]["epsilon"]["upper"] == run.epsilon.upper == 3
    assert read["account"]["assumption"] == read["unconditional"]["assumption"] == "none"
    assert read["unconditional"]["sensitivity_squared"] == {"lower": 6.0, "upper": 6.0}
    assert read["graph"]["hash"] == RING.weights.hash
    assert read["history"]["rounds"] == [1, 2, 3, 4, 5, 6]
    assert read["history"]["loss"] == run.history.loss.tolist()
    assert set(read["not_private"]) <= set(read)
