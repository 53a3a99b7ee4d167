"""`sottovoce sweep` and `sottovoce summary`: folders, exit codes and what a person sees."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.interrupts import interrupted_after

from sottovoce import documents

Run = Callable[..., Any]
LOOSE = ("sweep", "florentine", "--rounds", "5", "--output", "pairs")
SWEEP = (*LOOSE, "--view", "secure-sum")
SUMMARY = ("summary", "pairs", "--noise-multiplier", "3")
ACCOUNT = ("account", "florentine", "--rounds", "5", "--noise-multiplier", "3", "--view", "secure-sum")


def test_a_summary_says_what_account_says(sottovoce: Run) -> None:
    code, out, err = sottovoce(*SWEEP)
    assert (code, err) == (0, "")
    assert out == "210 pairs in 15 parts: pairs (sottovoce summary reads them)\n"
    code, out, err = sottovoce(*SUMMARY)
    assert (code, err) == (0, "")
    assert out == sottovoce(*ACCOUNT).out + "pairs          pairs (every pair, all digits)\n"


def test_json_is_that_of_an_account_too_large_for_its_pairs(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sottovoce(*SWEEP)
    monkeypatch.setattr("sottovoce.documents.accounts.PAIRS_IN_JSON", 10)
    options = ("--relation", "replace-one", "--delta", "1e-6", "--json")
    expected = json.loads(sottovoce(*ACCOUNT, *options).out)
    code, out, _ = sottovoce(*SUMMARY, *options)
    assert code == 0
    assert expected.pop("command").startswith("sottovoce account ")
    assert json.loads(out) == {**expected, "pairs_file": "pairs"}
    assert documents.read_account_json(out).pairs_file == "pairs"


def test_resuming(sottovoce: Run) -> None:
    assert sottovoce(*SWEEP, "--tile", "4").code == 0
    code, out, err = sottovoce(*SWEEP)
    assert (code, out) == (2, "")
    assert "something lies there (continue a sweep with --resume, or choose another folder)" in err
    Path("pairs/part-00002.parquet").unlink()
    assert sottovoce(*SUMMARY).err.endswith("3 of its 4 parts are there (finish it with --resume)\n")
    Path("pairs/part-00001.parquet").write_text("damaged")
    code, out, err = sottovoce(*SWEEP, "--resume")
    assert code == 0
    assert out == "210 pairs in 4 parts, 2 of them from before: pairs (sottovoce summary reads them)\n"
    assert err.startswith(
        "sottovoce: a damaged part was set aside as pairs/part-00001.parquet.broken and computed again: "
    )
    code, _, err = sottovoce(*SWEEP, "--resume", "--own-noise", "hidden")
    assert code == 2
    assert "its own_noise is 'known', and 'hidden' was asked for" in err


def test_a_budget_decides_the_exit_code(sottovoce: Run) -> None:
    sottovoce(*SWEEP)
    assert sottovoce(*SUMMARY, "--max-epsilon", "1000").code == 0
    code, out, err = sottovoce(*SUMMARY, "--max-epsilon", "0.1")
    assert code == 3
    assert out.startswith("ε ≤ ")
    assert err.startswith("sottovoce: budget exceeded: the certified ε goes up to ")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((*SWEEP, "--workers", "0"), "--workers must be a whole number of at least 1; got 0"),
        ((*SWEEP, "--tile", "0"), "--tile must be a whole number of at least 1; got 0"),
        ((*SWEEP, "--tile", "2.5"), 'unable to convert "2.5" into a whole number'),
        ((*SWEEP, "--cluster", "here"), "the cluster must be 'local' or an address such as tcp://host:8786"),
        ((*LOOSE, "--view", "everyone"), "--view"),
        (SUMMARY, "pairs: there is no sweep, as manifest.json is missing"),
        ((*SUMMARY, "--max-epsilon", "-1"), "--max-epsilon must be a finite number above 0"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...], complaint: str, sottovoce: Run, tmp_path: Path
) -> None:
    code, out, err = sottovoce(*words)
    assert list(tmp_path.iterdir()) == []
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


@pytest.mark.load
@pytest.mark.parametrize("where", [(), ("--cluster", "local")])
def test_an_interrupt_says_how_to_go_on(where: tuple[str, ...], tmp_path: Path, sottovoce: Run) -> None:
    write = "sottovoce.sweeps.folder:Folder.write_part"
    code, err = interrupted_after(write, *SWEEP, "--workers", "2", *where, folder=tmp_path)
    assert code == 130
    assert err == "sottovoce: interrupted: 1 part is finished in pairs (continue with --resume)\n"
    assert "1 of them from before" in sottovoce(*SWEEP, "--resume").out


def test_blas_runs_on_one_thread_from_the_start() -> None:
    code = (
        "import os; from sottovoce.threads import pin_blas; pin_blas();"
        "print([os.environ[name] for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')])"
    )
    many = {**os.environ, "OMP_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", code], env=many, capture_output=True, text=True, check=True)
    assert done.stdout == "['1', '1', '1']\n"
