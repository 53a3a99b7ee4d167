# SPDX-License-Identifier: Apache-2.0
"""Numpy's files: plain arrays come back to the bit, and any damage is an error with the file's name and a remedy."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.arrays import check_declared, read_npy, read_npz
from sottovoce.documents.runs import read_run, write_run
from sottovoce.errors import FileError, InputError
from sottovoce.graphs import metropolis_weights, read_graph
from sottovoce.learning import load_data, synthetic_task, train
from sottovoce.protocols import gossip

RNG = np.random.default_rng(5)
PLAIN = [
    RNG.normal(size=(3, 4)),
    np.asfortranarray(RNG.normal(size=(2, 3, 4))),
    np.array("words"),
    np.array(["a", "über"]),
    np.zeros((0, 3)),
    np.arange(5, dtype=">i2"),
    np.array([True, False]),
]


def npy(array: Any, **words: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **words)
    return buffer.getvalue()


def npz(**named: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **named)
    return buffer.getvalue()


def test_plain_arrays_come_back_to_the_bit(tmp_path: Path) -> None:
    named: dict[str, Any] = {f"a{place}": array for place, array in enumerate(PLAIN)}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "all.npz", **named)
        for source in (tmp_path / "all.npz", (tmp_path / "all.npz").read_bytes()):
            found = read_npz(source, "all.npz", "again")
            assert found.keys() == named.keys()
            for name, array in named.items():
                assert found[name].dtype == array.dtype
                assert np.array_equal(found[name], array)
                assert found[name].flags.writeable
    for array in PLAIN:
        assert np.array_equal(read_npy(npy(array), "a.npy", "again"), array)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (npz(a=np.array([{}], dtype=object)), "found Python objects, which are never opened"),
        (npy(np.zeros(9))[:-1], "an array of 72 bytes was announced, and 71 are there"),
        (npy(np.zeros(9)) + b"\0", "an array of 72 bytes was announced, and 73 are there"),
        (npy(np.zeros(9)).replace(b"(9,)", b"(99999999999,)"), "bytes was announced|header"),
        (b"\x93NUMPY\x09\x00", r"version \(9, 0\) of the format is not known"),
        (b"", "an array of numpy begins otherwise"),
    ],
)
def test_what_is_no_plain_array_is_refused(content: bytes, said: str) -> None:
    read = read_npz if content.startswith(b"PK") else read_npy
    with pytest.raises(FileError, match=rf"^w: .*(?:{said})") as caught:
        read(content, "w", "write it again")
    assert "allow_pickle" not in str(caught.value)
    assert "(" in str(caught.value)


def bomb(file: Path, *, member: str = "features.npy") -> Path:
    """An archive of a few kB that announces 10 GB of zeros."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, npy(np.zeros(1000)))
    content = bytearray(file.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    for place in (22, directory + 24):
        content[place : place + 4] = (4_294_967_294).to_bytes(4, "little")
    file.write_bytes(content)
    return file


def test_a_bomb_is_refused_by_what_it_announces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpacked(*_: object) -> bytes:
        raise AssertionError("a member was read")

    file = bomb(tmp_path / "b.npz")
    monkeypatch.setattr(zipfile.ZipFile, "read", unpacked)
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_npz(file, "b.npz", "again"),
        lambda: load_data(file),
        lambda: read_graph(file),
        lambda: read_run(file),
        lambda: check_declared(file),
    )
    for read in readers:
        with pytest.raises(
            FileError, match=r"b\.npz: its arrays must hold at most 4000000000 bytes together"
        ):
            read()


def made(folder: Path) -> dict[Path, Callable[[Path], object]]:
    """A file of each sort that the package reads, and what reads it."""
    ring = gossip(metropolis_weights("ring:n=4"), rounds=4)
    kept: list[Any] = []
    train(synthetic_task(4), ring, noise_multiplier=2.0, seed=1, checkpoint=kept.append, checkpoint_every=2)
    write_run(kept[-1], folder / "run.npz")
    np.savez_compressed(folder / "data.npz", features=RNG.normal(size=(20, 3)), labels=np.arange(20) % 2)
    W = metropolis_weights("ring:n=6").matrix
    scipy.sparse.save_npz(folder / "graph.npz", scipy.sparse.csr_array(W))
    np.save(folder / "graph.npy", W.toarray())
    return {
        folder / "run.npz": read_run,
        folder / "data.npz": load_data,
        folder / "graph.npz": read_graph,
        folder / "graph.npy": read_graph,
    }


def refused_or_read(read: Callable[[Path], object], file: Path) -> bool:
    """Whether a damaged file is refused; nothing but a word that names it may come of the damage."""
    said = ""
    try:
        read(file)
    except InputError as error:
        said = str(error)
    assert not said or (file.name in said and "(" in said and "allow_pickle" not in said), said
    return bool(said)


def test_damage_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    for file, read in made(tmp_path).items():
        whole = file.read_bytes()
        read(file)
        for cut in np.linspace(0, len(whole) - 1, 50).astype(int):
            file.write_bytes(whole[:cut])
            assert refused_or_read(read, file), (file.name, cut)
        spoilt = 0
        for place in RNG.integers(len(whole), size=200):
            content = bytearray(whole)
            content[place] ^= int(RNG.integers(1, 256))
            file.write_bytes(content)
            spoilt += refused_or_read(read, file)
        # Numbers of a plain array can be others and still be numbers.
        assert spoilt > (20 if file.suffix == ".npy" else 100), (file.name, spoilt)


@pytest.mark.parametrize("name", ["run.npz", "data.npz", "graph.npz"])
def test_members_that_lack_or_are_of_other_kinds_are_refused(name: str, tmp_path: Path) -> None:
    files = made(tmp_path)
    file = tmp_path / name
    read = files[file]
    whole: dict[str, Any] = read_npz(file, name, "")
    wrong = [
        np.array([{}], dtype=object),
        np.array("text"),
        np.zeros((0,)),
        np.zeros((2, 3, 4, 5)),
        np.ones(2) * 1j,
    ]
    optional = {"_is_array"}
    for member in whole.keys() - optional:
        np.savez(file, **{key: array for key, array in whole.items() if key != member})
        assert refused_or_read(read, file), member
        for other in [*wrong, np.array(["2020-01-01"], dtype="datetime64[D]")]:
            np.savez(file, **{**whole, member: other})
            assert refused_or_read(read, file), (member, other)
