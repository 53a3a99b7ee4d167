"""What an observer sees is said and not assumed: two views side by side, or one that is named."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import documents, graphs
from sottovoce.accounting import AccountTable, Interrupted, account_all
from sottovoce.cli.printing import both_ends, rounded_up
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity, sharing

Run = Callable[..., Any]
FAMILIES = ("account", "florentine", "--rounds", "8", "--noise-multiplier", "4")
ONE = (*FAMILIES, "--observer", "Medici")
BOTH = ("neighbourhood", "secure-sum")


def table_of(view: str, **settings: Any) -> AccountTable:
    protocol = gossip(graphs.metropolis_weights("florentine"), rounds=8)
    return account_all(protocol, view, noise_multiplier=4.0, delta=1e-5, **settings)


def test_without_a_view_the_larger_leads_and_both_are_shown(sottovoce: Run) -> None:
    code, out, err = sottovoce(*ONE)
    clear, sums = (table_of(view, observers=["Medici"]).worst() for view in BOTH)
    said = " ".join(out.split())
    assert (code, err) == (0, "")
    assert said.startswith(
        f"ε ≤ {rounded_up(clear.epsilon().upper)} at δ = 1e-05 with messages in the clear: of the 14 pairs looked at, "
        "out of 210, node Medici can learn most, about node "
    )
    assert f"Secure sums would give ε ≤ {rounded_up(sums.epsilon().upper)}." in said
    assert clear.epsilon().upper > 2 * sums.epsilon().upper
    lines = [line.split("  ") for line in out.splitlines()]
    rows = {line[0]: [cell.strip() for cell in line[1:] if cell] for line in lines}
    assert rows["--view"] == list(BOTH)
    assert rows["ε"] == [both_ends(clear.epsilon()), both_ends(sums.epsilon())]
    assert rows["Δ²"] == [
        both_ends(each.sensitivity_squared) for each in (clear, sums) if each.sensitivity_squared
    ]
    assert "view           neighbourhood and secure-sum, own noise known; 14 pairs each\n" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_calibration_for_one_observer_does_not_speak_for_all(sottovoce: Run) -> None:
    asked = ("calibrate", "florentine", "--rounds", "8", "--view", "secure-sum", "--target-epsilon", "1")
    every, some = (" ".join(sottovoce(*asked, *more).out.split()) for more in ((), ("--observer", "Medici")))
    assert " keeps every pair within ε = 1 at δ = 1e-05." in every
    assert " keeps the 14 pairs looked at, out of 210, within ε = 1 at δ = 1e-05." in some
    document = json.loads(sottovoce(*asked, "--observer", "Medici", "--json").out)
    assert (document["pairs_computed"], document["pairs_possible"]) == (14, 210)


def test_json_carries_both_and_leads_with_the_larger(sottovoce: Run) -> None:
    found = documents.read_account_json(sottovoce(*FAMILIES, "--json").out)
    assert isinstance(found.other_views, tuple)
    (other,) = found.other_views
    assert (found.view, other.view) == BOTH
    for document in (found, other):
        expected = table_of(document.view)
        assert isinstance(document.pairs, tuple)
        assert [pair.epsilon.upper for pair in document.pairs] == list(expected.epsilon_upper)
    named = json.loads(sottovoce(*FAMILIES, "--json", "--view", "secure-sum").out)
    assert "other_views" not in named
    assert named["view"] == "secure-sum"


def test_a_budget_is_held_against_the_larger(sottovoce: Run) -> None:
    sums = float(table_of("secure-sum", observers=["Medici"]).epsilon_upper.max())
    assert sottovoce(*ONE, "--max-epsilon", repr(sums)).code == 3
    assert sottovoce(*ONE, "--max-epsilon", repr(sums), "--view", "secure-sum").code == 0


def test_the_table_of_pairs_names_the_view_of_each(sottovoce: Run) -> None:
    assert sottovoce(*ONE, "--output", "pairs.csv").code == 0
    pairs = documents.read_account_csv("pairs.csv")
    assert tuple(pairs) == BOTH
    for view, found in pairs.items():
        expected = table_of(view, observers=["Medici"])
        assert [pair.epsilon.upper for pair in found] == list(expected.epsilon_upper)


def test_views_that_tell_the_same_are_said_to(sottovoce: Run) -> None:
    out = sottovoce("account", "path:n=2", "--rounds", "3", "--noise-multiplier", "1", "--observer", "0").out
    assert (
        "with messages in the clear is what node 0 can learn about node 1. Secure sums would give as much."
        in (" ".join(out.split()))
    )


def test_a_report_shows_the_view_that_leads(sottovoce: Run) -> None:
    assert sottovoce(*ONE, "--report", "families.html").code == 0
    page = Path("families.html").read_text(encoding="utf-8")
    assert '"view": "neighbourhood"' in page or '"view":"neighbourhood"' in page
    leads = page.index("neighbourhood: what node")
    assert leads < page.index("ε ≤ 1.318") < page.index("secure-sum: what node")


NEEDED = {
    "calibrate": ("ring:n=5", "--rounds", "4", "--target-epsilon", "1"),
    "certify": ("ring:n=5", "--rounds", "4", "--observer", "0", "--target", "1", "--output", "c.json"),
    "audit": ("ring:n=5", "--rounds", "4", "--noise-multiplier", "1"),
    "sweep": ("ring:n=5", "--rounds", "4", "--output", "pairs"),
    "rate": ("ring:n=5",),
    "coalition": ("ring:n=5", "--rounds", "4", "--target", "1", "--size", "2"),
}


@pytest.mark.parametrize("command", sorted(NEEDED))
def test_every_other_command_asks_what_is_seen(command: str, sottovoce: Run) -> None:
    code, out, err = sottovoce(command, *NEEDED[command])
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--view is missing: say what an observer sees (" in err
    choices = {
        "coalition": (
            "coalition-sums: members pool the sums they receive; coalition-messages: members pool",
        ),
        "sweep": (
            "(neighbourhood: the messages of its neighbours, sent in the clear; secure-sum: the weighted",
        ),
    }.get(command, ("everyone: every message", "neighbourhood: the messages", "secure-sum: the weighted sum"))
    assert all(choice in err for choice in choices)
    assert f"(see sottovoce {command} --help)" in err
    assert not any(Path().iterdir())


def test_a_file_of_defaults_may_name_the_view(sottovoce: Run) -> None:
    Path("sottovoce.toml").write_text('[calibrate]\nview = "neighbourhood"\n')
    out = sottovoce("calibrate", *NEEDED["calibrate"], "--json").out
    assert json.loads(out)["view"] == "neighbourhood"


class TestInterrupts:
    """Ctrl-C keeps the observers that are finished, and says that the worst may be missing."""

    def stop_after(self, monkeypatch: pytest.MonkeyPatch, views: int) -> None:
        """Let Ctrl-C come after so many views."""
        begun = 0

        def measured(*arguments: Any, **settings: Any) -> Any:
            nonlocal begun
            begun += 1
            if begun > views:
                raise KeyboardInterrupt
            return sensitivity(*arguments, **settings)

        monkeypatch.setattr(sharing, "sensitivity", measured)

    def test_the_library_hands_over_what_is_finished(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = table_of("secure-sum")
        self.stop_after(monkeypatch, 3)
        with pytest.raises(Interrupted, match="interrupted after 42 of 210 pairs") as stop:
            table_of("secure-sum")
        assert stop.value.pairs == 210
        assert list(stop.value.table.epsilon_upper) == list(whole.epsilon_upper[:42])
        with pytest.raises(KeyboardInterrupt) as early:
            table_of("secure-sum")
        assert not isinstance(early.value, Interrupted)

    @pytest.mark.parametrize(
        ("views", "words", "shown", "sentence"),
        [
            (3, ("--view", "secure-sum"), {"secure-sum": 42}, "42 of 210 pairs of secure-sum are computed;"),
            (
                3,
                (),
                {"neighbourhood": 42},
                "42 of 210 pairs of neighbourhood are computed, none of secure-sum;",
            ),
            (15, (), {"neighbourhood": 210}, "no pair of secure-sum is computed;"),
            (
                17,
                (),
                {"neighbourhood": 210, "secure-sum": 28},
                "28 of 210 pairs of secure-sum are computed;",
            ),
        ],
    )
    def test_what_is_finished_is_shown_and_written(
        self,
        views: int,
        words: tuple[str, ...],
        shown: dict[str, int],
        sentence: str,
        sottovoce: Run,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        Path("pairs.csv").write_text("view,observer,target,epsilon\n", encoding="utf-8")
        self.stop_after(monkeypatch, views)
        code, out, err = sottovoce(*FAMILIES, *words, "--output", "pairs.csv")
        said = f"Interrupted: {sentence} the worst may be higher than what follows."
        assert code == 130
        assert " ".join(out.split()).startswith(f"{said} ε ≤ ")
        assert err == (
            "sottovoce: interrupted: what was finished is shown; a worse pair may be missing (sottovoce sweep can "
            "go on)\n"
        )
        kept = documents.read_account_csv("pairs.interrupted.csv")
        assert {view: len(pairs) for view, pairs in kept.items()} == shown
        assert "pairs.interrupted.csv (the pairs that were finished, all digits)" in " ".join(out.split())
        # What was whole is not replaced by a part.
        assert Path("pairs.csv").read_text(encoding="utf-8") == "view,observer,target,epsilon\n"
        self.stop_after(monkeypatch, 100)

    def test_json_says_it_too(self, sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop_after(monkeypatch, 3)
        code, out, _ = sottovoce(*FAMILIES, "--view", "secure-sum", "--json")
        document = json.loads(out)
        assert code == 130
        assert len(document["pairs"]) == 42
        assert document["interrupted"].startswith("Interrupted: 42 of 210 pairs of secure-sum are computed;")

    def test_no_picture_is_drawn_of_a_part(self, sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop_after(monkeypatch, 3)
        code, _, err = sottovoce(*FAMILIES, "--report", "part.html")
        assert code == 130
        assert "what was finished is shown and no report or figure is drawn;" in err
        assert not Path("part.html").exists()

    def test_a_calibration_is_whole_or_nothing(self, sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop_after(monkeypatch, 3)
        words = ("calibrate", "florentine", "--rounds", "8", "--view", "secure-sum", "--target-epsilon", "1")
        assert sottovoce(*words) == (130, "", "sottovoce: interrupted\n")

    @pytest.mark.load
    def test_a_process_that_is_interrupted_keeps_what_it_has(self, tmp_path: Path) -> None:
        # Says when the first observer is finished; a shell may have started the tests with interrupts ignored.
        driver = """
import signal, sys
from sottovoce.cli import main
from sottovoce.sensitivities import sharing

signal.signal(signal.SIGINT, signal.default_int_handler)
work = sharing.sensitivity

def measured(*arguments, **settings):
    found = work(*arguments, **settings)
    print("one", file=sys.stderr, flush=True)
    return found

sharing.sensitivity = measured
sys.exit(main(sys.argv[1:]))
"""
        long = ("account", "erdos-renyi:n=100,p=0.1,seed=1", "--rounds", "100", "--noise-multiplier", "4")
        with subprocess.Popen(
            [sys.executable, "-c", driver, *long, "--output", "pairs.csv"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            assert process.stderr is not None
            for _ in range(2):
                assert process.stderr.readline() == "one\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out.startswith("Interrupted: ")
        assert "sottovoce: interrupted: what was finished is shown" in err
        kept = documents.read_account_csv(tmp_path / "pairs.interrupted.csv")["neighbourhood"]
        assert len(kept) % 99 == 0
        assert len(kept) > 0
