"""Running the command line inside the test, in a directory of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sottovoce.cli import main


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def sottovoce(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """A function that runs `sottovoce` with the given words."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "COLUMNS", "SOTTOVOCE_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Outcome:
        code = main(words)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
