# SPDX-License-Identifier: Apache-2.0
"""What commands write takes the place of nothing that they read, of no other output, and of no file of another kind."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cli.application import commands
from sottovoce.cli.outputs import KINDS, KNOWN_BY_THEMSELVES, WRITTEN, interrupted_name

Run = Callable[..., Any]
ENDINGS = {"--report": ".html", "--plot": ".svg"}
OF_OUTPUT = {
    "certify": ".json",
    "peers certify": ".json",
    "train": ".npz",
    "frontier": ".svg",
    "graph": ".edgelist",
}
CERTIFY = ("certify", "ring:n=4", "--rounds", "2", "--view", "secure-sum", "--observer", "0", "--target", "1")
SHORT = ("--rounds", "2", "--noise-multiplier", "4")


def writing() -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every command with each option that names what it writes, and its arguments."""
    for words, command in commands():
        arguments = command.assemble_argument_collection()
        for argument in arguments:
            if argument.name in WRITTEN:
                yield words, argument.name, arguments


def ending(words: tuple[str, ...], option: str) -> str:
    return ENDINGS.get(option) or OF_OUTPUT.get(" ".join(words), ".csv")


def given(argument: Any, value: str) -> list[str]:
    """The words that give a value to an argument, named or not."""
    return [argument.name, value] if argument.name.startswith("-") else [value]


def test_it_is_known_of_every_output_what_may_lie_in_its_place() -> None:
    outputs = {" ".join(words) for words, option, _ in writing() if option == "--output"}
    assert outputs == {command for command, _ in KINDS} | set(KNOWN_BY_THEMSELVES)
    assert len(list(writing())) > 20


def test_no_command_writes_what_it_reads(sottovoce: Run, tmp_path: Path) -> None:
    tried = 0
    for words, option, arguments in writing():
        file = tmp_path / f"file{ending(words, option)}"
        file.write_bytes(b"")
        links = [tmp_path / f"link{file.suffix}", tmp_path / f"hard{file.suffix}"]
        if not links[0].exists():
            links[0].symlink_to(file)
            os.link(file, links[1])
        for argument in arguments:
            if argument.name in {*WRITTEN, "--config", "*"} or argument.is_flag():
                continue
            for name in (file, *links):
                code, out, err = sottovoce(*words, *given(argument, str(name)), option, str(file))
                assert (code, out) == (2, ""), (words, argument.name)
                assert f"it is the file {name} that the command reads as {argument.name} (choose" in err, err
                tried += 1
    assert tried > 100


def test_no_two_outputs_of_a_command_are_one_file(sottovoce: Run, tmp_path: Path) -> None:
    outputs: dict[tuple[str, ...], list[str]] = {}
    for words, option, _ in writing():
        outputs.setdefault(words, []).append(option)
    several = {words: options for words, options in outputs.items() if len(options) > 1}
    assert len(several) > 5
    for words, options in several.items():
        for first in options:
            for other in options:
                if first != other:
                    code, _, err = sottovoce(*words, first, "one", other, str(tmp_path / "." / "one"))
                    assert code == 2
                    assert "must be a file of its own" in err, err
                    assert "that the command writes as" in err
    for name in ("a.svg", "b.html"):
        (tmp_path / name).symlink_to("there")
    code, _, err = sottovoce("account", "ring:n=4", *SHORT, "--plot", "a.svg", "--report", "b.html")
    assert (code, (tmp_path / "there").exists()) == (2, False)
    assert "must be a file of its own" in err
    code, _, err = sottovoce("reproduce", "figure-2", "--quick", "--output", ".", "--report", "index.html")
    assert (code, list(tmp_path.glob("index*"))) == (2, [])
    assert "--report index.html must be a file of its own" in err


def test_what_is_of_another_kind_stays(sottovoce: Run, tmp_path: Path) -> None:
    for words, option, _ in writing():
        command = " ".join(words)
        if option == "--output" and command in KNOWN_BY_THEMSELVES:
            continue
        file = tmp_path / f"mine{ending(words, option)}"
        for content in (b"a,b\nb,c\n", b"<html>mine</html>", b'{"mine": 1}', bytes(range(256))):
            file.write_bytes(content)
            code, out, err = sottovoce(*words, option, file.name)
            assert (code, out, file.read_bytes()) == (2, "", content), (words, option)
            assert f"{file.name}: a" in err or f"{file.name}: the" in err, err
            assert "something else lies there (choose another name, or remove it)" in err


@pytest.mark.parametrize(
    "words",
    [
        ("account", "ring:n=4", *SHORT, "--output", "a.csv", "--report", "a.html", "--plot", "a.png"),
        ("account", "ring:n=4", *SHORT, "--observer", "0", "--plot", "a.pdf"),
        (
            "calibrate",
            "ring:n=4",
            "--rounds",
            "2",
            "--view",
            "everyone",
            "--target-epsilon",
            "1",
            "--output",
            "c.csv",
        ),
        ("rate", "ring:n=4", "--view", "secure-sum", "--output", "r.csv"),
        (*CERTIFY, "--output", "p.json"),
        ("compare", "ring:n=4", "ring:n=5", *SHORT, "--report", "b.html", "--plot", "b.svg"),
        ("graph", "ring:n=4", "--output", "g.edgelist"),
        ("graph", "ring:n=4", "--output", "g.graphml"),
        (
            "train",
            "synthetic",
            "--graph",
            "ring:n=4",
            *SHORT,
            "--report",
            "t.html",
            "--output",
            "t.npz",
            "--overwrite",
        ),
    ],
    ids=" ".join,
)
def test_a_command_can_be_repeated(words: tuple[str, ...], sottovoce: Run, tmp_path: Path) -> None:
    assert sottovoce(*words).code == 0
    first = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    again = sottovoce(*words)
    assert again.code == 0, again.err
    assert {path.name for path in tmp_path.iterdir()} == set(first)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    assert sottovoce(*words).code == 0
    assert all(path.stat().st_size for path in tmp_path.iterdir())


def test_another_graph_stays(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "g.edgelist").write_text("a b\n")
    code, out, err = sottovoce("graph", "ring:n=4", "--output", "g.edgelist")
    assert (code, out, (tmp_path / "g.edgelist").read_text()) == (2, "", "a b\n")
    assert "a graph takes the place of the same graph alone" in err


def test_a_finished_run_stays_until_it_is_said_otherwise(sottovoce: Run, tmp_path: Path) -> None:
    words = ("train", "synthetic", "--graph", "ring:n=4", *SHORT, "--output", "t.npz")
    assert sottovoce(*words).code == 0
    kept = (tmp_path / "t.npz").read_bytes()
    code, out, err = sottovoce(*words)
    assert (code, out, (tmp_path / "t.npz").read_bytes()) == (2, "", kept)
    assert (
        "a finished run lies there, of 2 rounds (choose another name, or replace it with --overwrite)" in err
    )
    assert sottovoce(*words, "--overwrite").code == 0
    assert (tmp_path / "t.npz").read_bytes() != kept
    code, _, err = sottovoce(*words, "--overwrite", "--resume")
    assert code == 2
    assert "--overwrite is for a new run that goes to a file" in err


def test_what_an_interrupt_would_leave_is_guarded_too(sottovoce: Run, tmp_path: Path) -> None:
    part = interrupted_name(tmp_path / "pairs.csv")
    part.write_text("a,b\nb,c\nc,a\n")
    code, _, err = sottovoce("account", str(part), *SHORT, "--output", "pairs.csv")
    assert code == 2
    assert "what --output leaves when interrupted, pairs.interrupted.csv must be a file of its own" in err
    code, _, err = sottovoce("account", "ring:n=4", *SHORT, "--output", "pairs.csv")
    assert (code, part.read_text()) == (2, "a,b\nb,c\nc,a\n")
    assert "pairs.interrupted.csv: a table of pairs takes the place of a table of pairs alone" in err
