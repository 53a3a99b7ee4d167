"""Files that are no graph files are named as what they are."""

import json
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from sottovoce import graphs
from sottovoce.errors import FileError
from sottovoce.graphs.contents import foreign_kind

CLUB = nx.Graph(nx.karate_club_graph().edges)
LINKS = json.dumps({"directed": False, "nodes": [{"id": k} for k in range(34)], "links": list(CLUB.edges)})
GEXF = "\n".join(nx.generate_gexf(CLUB))
GRAPHML = "\n".join(nx.generate_graphml(CLUB))
PAJEK = "\n".join(nx.generate_pajek(CLUB))
PICKLE = r"found a Python pickle, which is never opened, since opening it runs what is in it \(unpickle it yourself"
MATRIX = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("club.pkl", pickle.dumps(CLUB), PICKLE),
        ("club.csv", pickle.dumps(CLUB), PICKLE),
        ("club.npy", pickle.dumps(CLUB), PICKLE),
        ("club.txt", pickle.dumps({"a": 1}, protocol=0), PICKLE),
        ("club.gexf", GEXF, r"found GEXF \(write it as GraphML: networkx.write_graphml\(networkx.read_gexf"),
        (
            "club.graphml",
            GEXF,
            r"club.graphml: graphml was expected by its ending; found GEXF \(write it as GraphML",
        ),
        ("club.edgelist", GEXF, "an edge list was expected by its ending; found GEXF"),
        (
            "club.json",
            LINKS,
            r"club.json: an edge list, GraphML, GML or a matrix was expected; found JSON \(read it",
        ),
        ("club.csv", LINKS, "an edge list was expected by its ending; found JSON"),
        ("club.npy", LINKS, "a matrix was expected by its ending; found JSON"),
        ("pairs.csv", "[[0, 1], [1, 2]]", "found JSON"),
        ("club.net", PAJEK, r"found Pajek \(write it as GraphML"),
        ("club.txt", GRAPHML, r"found GraphML \(give it the ending .graphml\)"),
        (
            "page.csv",
            "<!DOCTYPE html>\n<html><body>Not found</body></html>",
            r"found HTML \(download the file itself",
        ),
        ("drawing.txt", "<?xml version='1.0'?><svg/>", "found XML of the kind 'svg'"),
        (
            "book.csv",
            b"PK\x03\x04\0\0[Content_Types].xml\0",
            r"found an Excel workbook \(save the sheet as CSV\)",
        ),
        ("w.txt", b"PK\x03\x04\0\0w.npy\0", r"found a zip archive \(give a matrix of numpy the ending .npz"),
        ("w.dat", MATRIX, r"found a numpy array \(give it the ending .npy\)"),
        (
            "w.npy",
            "0,1\n1,0\n",
            r"w.npy: not a whole .npy file: an array of numpy begins otherwise",
        ),
    ],
)
def test_what_was_found_is_said(name: str, content: bytes | str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match=sentence):
        graphs.as_graph(path)


def test_text_that_a_client_sends_is_named_too() -> None:
    with pytest.raises(
        FileError, match=r"graph.edgelist: an edge list was expected by its ending; found JSON"
    ):
        graphs.parse_graph(LINKS, "graph.edgelist")


def test_long_files_are_told_by_their_beginning() -> None:
    assert foreign_kind(LINKS.encode()[:400]) == foreign_kind(LINKS.encode())


def test_a_directory_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "club.csv").mkdir()
    with pytest.raises(
        FileError, match=r"club.csv: a graph is read from a file; found a directory \(name a file\)"
    ):
        graphs.as_graph(tmp_path / "club.csv")
    (tmp_path / "b.graphml").touch()
    with pytest.raises(
        FileError, match=r"found a directory \(name a file in it, such as b.graphml, club.csv\)"
    ):
        graphs.as_graph(tmp_path)


@pytest.mark.parametrize(
    "text", ["[a] [b]\n[b] [c]\n", "{1} {2}\n", "<a> <b>\n<b> <c>\n", "(d p0\n", "*x y\n"]
)
def test_names_may_stand_in_brackets(text: str) -> None:
    assert graphs.parse_graph(text, "friends.edgelist").edges >= 1


NAMES = "source,target\nMüller,Bär\nBär,Gößl\n"


def test_an_older_encoding_is_named_with_the_word_that_tells(tmp_path: Path) -> None:
    for encoding in ("latin-1", "cp1252"):
        (tmp_path / "names.csv").write_bytes(NAMES.encode(encoding))
        with pytest.raises(
            FileError,
            match=r"names.csv, line 2: a text file in UTF-8 was expected; found 'Müller' in another encoding, read "
            r"here as Latin-1 \(Windows-1252\) \(save the file as UTF-8, as in: iconv -f WINDOWS-1252 -t UTF-8\)",
        ):
            graphs.read_graph(tmp_path / "names.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_that_say_what_they_are_are_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_bytes(NAMES.encode(encoding))
    assert graphs.read_graph(tmp_path / "names.csv").labels == ("Müller", "Bär", "Gößl")


def test_what_is_read_is_not_mistaken(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.full((3, 3), 1 / 3))
    np.savez(tmp_path / "w.npz", w=np.full((3, 3), 1 / 3))
    (tmp_path / "club.graphml").write_text(GRAPHML)
    assert graphs.as_graph(tmp_path / "w.npy").n == graphs.as_graph(tmp_path / "w.npz").n == 3
    assert graphs.as_graph(tmp_path / "club.graphml").edges == 78
