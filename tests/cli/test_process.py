"""The program as a process: what it imports, how it ends when interrupted, and pipes that close early."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.test_commands import COMMANDS

pytestmark = pytest.mark.load

HEAVY = {
    *("numpy", "scipy", "networkx", "pandas", "pyarrow", "dask", "distributed", "sklearn", "matplotlib"),
    *("torch", "zenoh", "cryptography", "starlette", "uvicorn", "sottovoce.graphs", "sottovoce.learning"),
    "sottovoce.studies",
}
# What an account starts without as well; scipy.optimize and networkx alone take a sixth of its start.
SPARED = HEAVY - {"numpy", "scipy", "sottovoce.graphs"} | {
    "scipy.optimize",
    "scipy.ndimage",
    "urllib.request",
}
SOTTOVOCE = (sys.executable, "-m", "sottovoce")
RING = ("account", "ring:n=5", "--rounds", "4", "--noise-multiplier", "3")
# One observer who takes longer than the test waits, so that nothing is finished.
LONG = (
    *("account", "erdos-renyi:n=400,p=0.05,seed=1", "--rounds", "2000", "--noise-multiplier", "4"),
    *("--view", "neighbourhood", "--observer", "0"),
)


# Says when the work begins; a shell may have started the tests with interrupts ignored.
DRIVER = """
import signal, sys
import sottovoce.accounting as accounting
from sottovoce.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
work = accounting.account_all

def begin(*settings, **more):
    print("begun", file=sys.stderr, flush=True)
    return work(*settings, **more)

accounting.account_all = begin
sys.exit(main(sys.argv[1:]))
"""
DRIVEN = (sys.executable, "-c", DRIVER)


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SOTTOVOCE, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **settings},
        check=False,
    )


def test_exit_codes() -> None:
    done = run(*RING)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert run(*RING, "--delta", "2").returncode == 2
    assert run(*RING, "--max-epsilon", "0.01").returncode == 3


def test_a_certificate_travels_from_one_process_to_another(tmp_path: Path) -> None:
    file = str(tmp_path / "claim.json")
    pair = ("--rounds", "6", "--view", "secure-sum", "--observer", "0", "--target", "1")
    assert run("certify", "ring:n=5", *pair, "--output", file).returncode == 0
    done = run("verify", file, "--graph", "ring:n=5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Verified: ")
    other = run("verify", file, "--graph", "path:n=5")
    assert other.returncode == 3
    assert other.stdout.startswith("Not verified: ")
    assert other.stderr.startswith("sottovoce: not verified: this certificate speaks of another graph")


def test_help_imports_nothing_heavy_and_an_account_little() -> None:
    code = (
        "import sys; from sottovoce.cli import main; main(['--help']); "
        f"[main([name, '--help']) for name in {COMMANDS}]\n"
        f"print('of help', sorted({HEAVY} & set(sys.modules))); main({RING})\n"
        f"print('of an account', sorted({SPARED} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: sottovoce ") >= len(COMMANDS)
    assert {"of help []", "of an account []"} <= set(done.stdout.splitlines())


def test_a_stream_without_greek_letters_is_no_error() -> None:
    done = run(*RING, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert done.stdout.startswith("\\u03b5 \\u2264 ")


def test_an_interrupt_is_quiet() -> None:
    with subprocess.Popen(
        [*DRIVEN, *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "sottovoce: interrupted\n")


def test_an_interrupt_gives_the_terminal_back() -> None:
    pty = pytest.importorskip("pty")
    above, below = pty.openpty()
    with subprocess.Popen(
        [*DRIVEN, *LONG], stdin=below, stdout=below, stderr=below, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(below)
        shown = b""
        while b"pairs" not in shown:
            shown += os.read(above, 4096)
        process.send_signal(signal.SIGINT)
        while True:
            # A terminal that nobody holds any more says so with an error.
            try:
                shown += os.read(above, 4096)
            except OSError:
                break
    os.close(above)
    text = shown.decode()
    assert process.returncode == 130
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1
    assert text.endswith("sottovoce: interrupted\r\n")
    assert "Traceback" not in text


@pytest.mark.parametrize(("budget", "code"), [("1000", 0), ("0.01", 3)])
def test_a_reader_that_leaves_early_is_no_error(budget: str, code: int) -> None:
    words = (
        "account",
        "ring:n=40",
        "--rounds",
        "3",
        "--noise-multiplier",
        "3",
        "--json",
        "--max-epsilon",
        budget,
    )
    with subprocess.Popen([*SOTTOVOCE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read().decode()
    assert process.returncode == code
    assert "Broken" not in complaint
    assert "Exception" not in complaint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_is_said_once() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*SOTTOVOCE, *RING], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert (
        done.stderr == "sottovoce: error: the result cannot be written: No space left on device (make room)\n"
    )
