"""Defaults: command line before environment before file, and a misspelt key is an error with its remedy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
WORDS = ("account", "ring:n=5", "--json", "--observer", "0")
FILE = """
[account]
rounds = 4
noise-multiplier = 3
delta = 1e-6

[graph]
weights = "lazy"
"""


def facts(sottovoce: Run, *words: str) -> dict[str, Any]:
    code, out, err = sottovoce(*WORDS, *words)
    assert (code, err) == (0, "")
    return dict(json.loads(out))


def test_a_file_gives_defaults_and_satisfies_what_is_required(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "sottovoce.toml").write_text(FILE)
    found = facts(sottovoce)
    assert (found["rounds"], found["noise_multiplier"], found["delta"]) == (4, 3.0, 1e-6)
    assert json.loads(sottovoce("graph", "ring:n=5", "--json").out)["weights"]["rule"] == "lazy metropolis"


def test_a_file_further_up_counts(sottovoce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sottovoce.toml").write_text(FILE)
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    assert facts(sottovoce)["delta"] == 1e-6


def test_the_command_line_wins_over_the_environment_over_the_file(
    sottovoce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sottovoce.toml").write_text(FILE)
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_DELTA", "1e-7")
    assert facts(sottovoce)["delta"] == 1e-7
    assert facts(sottovoce, "--delta", "1e-8")["delta"] == 1e-8


def test_the_environment_alone(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_ROUNDS", "6")
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_NOISE_MULTIPLIER", "2")
    found = facts(sottovoce)
    assert (found["rounds"], found["noise_multiplier"]) == (6, 2.0)
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_DELTA", "small")
    code, _, err = sottovoce(*WORDS)
    assert code == 2
    assert 'SOTTOVOCE_ACCOUNT_DELTA from env: unable to convert "small" into float' in err


def test_settings_of_nothing_are_told(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*WORDS, "--rounds", "2", "--noise-multiplier", "1")
    monkeypatch.setenv("SOTTOVOCE_ACOUNT_DELTA", "1e-7")
    monkeypatch.setenv("SOTTOVOCE_COLOUR", "red")
    monkeypatch.setenv("SOTTOVOCE_SWEEP_OWN_NOISE", "hidden")
    monkeypatch.setenv("SOTTOVOCE_DEBUG", "0")
    code, out, err = sottovoce(*words)
    assert (code, json.loads(out)["delta"]) == (0, 1e-5)
    assert err == (
        "sottovoce: warning: the environment variable SOTTOVOCE_ACOUNT_DELTA sets nothing (did you mean "
        "SOTTOVOCE_ACCOUNT_DELTA?)\n"
        "sottovoce: warning: the environment variable SOTTOVOCE_COLOUR sets nothing (settings are "
        "called SOTTOVOCE_COMMAND_OPTION)\n"
    )


def test_a_file_that_is_named(sottovoce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sottovoce.toml").write_text(FILE)
    (tmp_path / "other.toml").write_text(FILE.replace("1e-6", "1e-9"))
    assert facts(sottovoce, "--config", "other.toml")["delta"] == 1e-9
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_CONFIG", "other.toml")
    assert facts(sottovoce)["delta"] == 1e-9


def test_lists_and_switches(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "sottovoce.toml").write_text(
        FILE.replace("[graph]", 'observer = [1, "2"]\njson = true\n[graph]')
    )
    pairs = json.loads(sottovoce("account", "ring:n=5").out)["pairs"]
    assert {tuple(pair["observer"]) for pair in pairs} == {(1,), (2,)}
    assert sottovoce("account", "ring:n=5", "--no-json").out.startswith("ε ≤ ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[acount]\ndelta = 1",
            "'acount' is not a table of defaults; each command has one (did you mean account?)",
        ),
        ("delta = 1", "'delta' is not a table of defaults; each command has one (known: account,"),
        ("[account]\ndelt = 1", "[account] has no key 'delt' (did you mean delta?)"),
        ("[account]\nnoise_multiplier = 1", "no key 'noise_multiplier' (did you mean noise-multiplier?)"),
        ("[account]\nzzz = 1", "[account] has no key 'zzz' (known: view, observer,"),
        ("[account]\nconfig = 'x'", "[account] has no key 'config'"),
        ("[account", "cannot be read as TOML: Expected ']'"),
        ("[account]\nrounds = 2.5\nnoise-multiplier = 1", '"2.5" from bad.toml into a whole number'),
        ("[account]\nrounds = 2\nnoise-multiplier = 'x'", 'from bad.toml: unable to convert "x" into float'),
        (
            "[account]\nrounds = 2\nnoise-multiplier = 1\nview = 'all'",
            'Invalid value "all" for [view] from bad.toml',
        ),
    ],
)
def test_a_wrong_file_is_refused(text: str, sentence: str, sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(text)
    code, out, err = sottovoce("account", "ring:n=5", "--config", "bad.toml")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert sentence in err


def test_a_wrong_value_is_blamed_on_where_it_stands(
    sottovoce: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*WORDS, "--rounds", "2", "--noise-multiplier", "1")
    (tmp_path / "sottovoce.toml").write_text("[account]\ndelta = 0\n")
    code, _, err = sottovoce(*words)
    assert code == 2
    assert err.startswith(
        f"sottovoce: error: --delta, from {tmp_path / 'sottovoce.toml'}, must lie strictly between"
    )
    assert "error: --delta must lie" in sottovoce(*words, "--delta", "0").err
    monkeypatch.setenv("SOTTOVOCE_ACCOUNT_DELTA", "3")
    err = sottovoce(*words).err
    assert "error: --delta, from the environment variable SOTTOVOCE_ACCOUNT_DELTA, must lie" in err
