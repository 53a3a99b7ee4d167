"""`completion`: what may stand at the cursor, as the function says it and as a real bash shows it."""

import os
import pty
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import pytest
from cyclopts import Argument
from tests.cli.test_commands import Run

from sottovoce.cli.application import commands
from sottovoce.cli.candidates import candidates, choices, words_of
from sottovoce.cli.values import VALUES

# Text that only its writer knows.
FREE = {
    "--exchanges",
    "--label",
    "--split-by",
    "--step",
    "--steps",
    "--epsilons",
    "--host",
    "--proxy",
    "--token",
    "--address",
    "--listen",
    "--me",
    "NAME",
    "LINE",
}


def following(line: str) -> list[str]:
    return [found.word for found in candidates(words_of(f"sottovoce {line}"))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("acc", ["account"]),
        ("account ri", ["ring:"]),
        ("account ring:", ["ring:n="]),
        ("account ring:n=", []),
        ("account ring:n=12", ["ring:n=12"]),
        ("account erdos-renyi:n=100", ["erdos-renyi:n=100,"]),
        ("account erdos-renyi:n=100,", ["erdos-renyi:n=100,p=", "erdos-renyi:n=100,seed="]),
        ("account erdos-renyi:seed=1,n=100,", ["erdos-renyi:seed=1,n=100,p="]),
        ("account erdos-renyi:n=100,n=1,", []),
        ("account erdos-renyi:n=100,p=0.1", ["erdos-renyi:n=100,p=0.1"]),
        ("account cliques:", ["cliques:base=", "cliques:size="]),
        ("account cliques:base=hy", ["cliques:base=hypercube,"]),
        ("account cliques:base=hypercube,", ["cliques:base=hypercube,dim=", "cliques:base=hypercube,size="]),
        (
            "account topohub:topozoo/Geant20",
            [f"topohub:topozoo/Geant20{year}" for year in ("01", "09", "10", "12")],
        ),
        ("account karate --view s", ["secure-sum", "single-node"]),
        ("account karate --view=coa", ["--view=coalition-sums", "--view=coalition-messages"]),
        ("account karate --protocol mo", ["momentum:"]),
        ("account karate --protocol momentum:", ["momentum:beta=", "momentum:noise="]),
        ("account karate --protocol momentum:beta=0.9", ["momentum:beta=0.9"]),
        ("account karate --protocol=pairwise-noise:local=1", ["--protocol=pairwise-noise:local=1,"]),
        ("account karate --protocol gossip", ["gossip", "gossip:"]),
        ("account karate --weights l", ["lazy", "laplacian:"]),
        ("account karate --participation every:4", ["every:4"]),
        ("account karate --participation every:4,", ["every:4,offset="]),
        ("account karate --updates ", ["any"]),
        ("account karate --losses ", ["convex", "clipped", "smooth"]),
        ("account florentine --observer Me", ["Medici"]),
        ("train digits --graph florentine --observer Me", ["Medici"]),
        ("account karate --json --ou", ["--output"]),
        ("account karate --rounds 5 --rou", []),
        ("account karate --observer 1 --obs", ["--observer"]),
        ("account karate --no-", ["--no-json"]),
        ("account karate --delta ", []),
        ("account karate --nonsense=", []),
        ("compare ring:n=4 karate gr", ["grid:"]),
        ("train d", ["digits", "diabetes"]),
        ("train synthetic:dim", ["synthetic:dimension="]),
        ("train digits --loss ", ["auto", "ridge", "huber", "logistic", "softmax", "quadratic"]),
        ("frontier digits --graph ring:n=10 co", ["complete:"]),
        ("frontier digits --graph ring:n=10 --vie", ["--views"]),
        ("frontier digits --views everyone,se", ["everyone,secure-sum"]),
        ("reproduce st", ["strengths"]),
        ("explain obl", ["oblivious"]),
        ("explain vi", ["view"]),
        ("peers ch", ["check"]),
        ("completion f", ["fish"]),
        ("nonsense ", []),
        ("account --he", ["--help"]),
    ],
)
def test_what_may_stand_at_the_cursor(
    line: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert following(line) == expected


def test_a_command_without_a_place_left_offers_its_options() -> None:
    assert following("explain view ") == ["--json"]


def test_files_of_the_right_kind_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("lab.edgelist", "lab.csv.gz", "lab.toml", "lab.npy", "lab two.csv", ".lab.csv", "lab\nnew.csv")
    for name in names:
        Path(name).touch()
    Path("laboratory").mkdir()
    (Path("laboratory") / "inner.mtx").touch()
    assert following("account lab") == ["lab two.csv", "lab.csv.gz", "lab.edgelist", "lab.npy", "laboratory/"]
    assert following("account laboratory/") == ["laboratory/inner.mtx"]
    assert following("account nowhere/") == []
    assert following("account .la") == [".lab.csv"]
    assert following("account ring:n=5 --protocol lab") == ["lab.toml", "laboratory/"]
    assert following("account ring:n=5 --weights lab") == ["lab.npy", "laboratory/"]
    assert following("train lab") == ["lab two.csv", "lab.csv.gz", "laboratory/"]
    for name in ("lab.json", "lab.html", "lab.jsonl"):
        Path(name).touch()
    assert following("verify lab") == ["lab.html", "lab.json", "laboratory/"]
    assert following("verify lab.json --transcript lab") == ["lab.jsonl", "laboratory/"]
    assert following("account ring:n=5 --report lab") == ["lab.html", "laboratory/"]
    assert following("account --config lab") == ["lab.toml", "laboratory/"]
    # A graph that cannot be read, or is too large to look at, has no names to offer.
    assert following("account lab.npy --observer ") == []
    assert following("account ring:n=5000000 --observer ") == []
    Path("hostile.edgelist").write_text("a$(touch${IFS}gone) b\nb \x1b[2Jc\n", encoding="utf-8")
    assert following("account hostile.edgelist --observer ") == ["a$(touch${IFS}gone)", "b"]


def test_a_line_is_split_as_a_shell_splits_it() -> None:
    assert words_of("cat x | sottovoce account 'my file.csv' --view=s") == [
        "account",
        "my file.csv",
        "--view=s",
    ]
    assert words_of('A=1 sottovoce account "my fi') == ["account", "my fi"]
    assert words_of(r"sottovoce account my\ ") == ["account", "my "]
    assert words_of("sottovoce account it's") == ["account", "its"]
    assert words_of("sottovoce") == [""]
    assert words_of("") == [""]


def takes_text(argument: Argument) -> bool:
    return str in {argument.hint, *get_args(argument.hint)}


def test_every_text_that_is_not_free_has_words_to_offer() -> None:
    arguments = {
        argument.name: argument
        for _, command in commands()
        for argument in command.assemble_argument_collection()
        if takes_text(argument) and not list(choices(argument.hint))
    }
    assert set(arguments) - set(VALUES) - {"--observer", "--target"} == FREE
    # And nothing stands in the table that no command has.
    every = {
        argument.name for _, command in commands() for argument in command.assemble_argument_collection()
    }
    assert set(VALUES) <= every


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_the_program(shell: str, sottovoce: Run) -> None:
    code, out, err = sottovoce("completion", shell)
    assert (code, err) == (0, "")
    assert f"completion {shell}" in out


def test_words_go_to_each_shell_in_its_own_form(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "two words.csv").touch()
    assert sottovoce("completion", "bash", "sottovoce account two") == (0, "two\\ words.csv \n", "")
    assert sottovoce("completion", "fish", "sottovoce account two") == (0, "two words.csv\tfile\n", "")
    assert sottovoce("completion", "zsh", "sottovoce account ri") == (0, "ring:\tgraph\n", "")
    described = sottovoce("completion", "zsh", "sottovoce account karate --delta").out
    assert described == "--delta\tThe δ at which ε is given\n"


def test_a_real_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "sottovoce"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sottovoce "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    settings = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "}
    here, there = pty.openpty()
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(shell, stdin=there, stdout=there, stderr=there, env=settings, cwd=tmp_path) as bash:
        os.close(there)
        typed = 'eval "$(sottovoce completion bash)"\nsottovoce account ri\tn=5 --view se\t--protocol=momentum:b\t0.9'
        # The line is shown to us and not run: to its beginning, and echo before it.
        os.write(here, f"{typed}\x01echo typed: \nexit\n".encode())
        shown, end = b"", time.monotonic() + 60
        # What it said last may be read after it has ended: a terminal that nobody writes to any more is an error.
        while time.monotonic() < end:
            if select.select([here], [], [], 0.2)[0]:
                try:
                    shown += os.read(here, 4096)
                except OSError:
                    break
        bash.kill()
    os.close(here)
    expected = "typed: sottovoce account ring:n=5 --view secure-sum --protocol=momentum:beta=0.9"
    assert expected in [line.strip() for line in shown.decode().splitlines()]
