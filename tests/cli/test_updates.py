"""`--updates` and `--step-smoothness`: training on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import gaussian
from sottovoce.cli.printing import rounded_up

Run = Callable[..., Any]
STAR = ("star:n=3", "--view", "secure-sum", "--observer", "0", "--target", "1")
ACCOUNT = ("account", *STAR, "--rounds", "2", "--noise-multiplier", "1")


def test_an_account_of_training_says_what_it_asks_for(sottovoce: Run) -> None:
    code, out, err = sottovoce(*ACCOUNT, "--step-smoothness", "1")
    assert (code, err) == (0, "")
    assert "Δ²        1.299–1.301" in out
    assert "bound     shift" in out
    assert "assumption     smooth: every node updates what it received" in out
    assert "updates        slopes in [0, 1], convex losses, step times smoothness 1" in out
    assert "clipping       never active, or that of a scalar model such as ridge or" in out
    assert "records        each node sums no more records than the public number" in out
    local = rounded_up(gaussian.epsilon(2**0.5, 1e-5))
    assert f"same noise     ε ≤ {local} with local DP" in out
    document = json.loads(
        sottovoce(*ACCOUNT, "--step-smoothness", "0.5", "--losses", "clipped", "--json").out
    )
    assert document["assumption"] == "smooth"
    said = document["updates"]
    assert said["lower"] == pytest.approx(1 - 1.0245 * 0.5, abs=1e-4)
    assert said["upper"] == pytest.approx(1 + 0.2745 * 0.5, abs=1e-4)
    assert (said["step_smoothness"], said["losses"]) == (0.5, "clipped")
    assert said["clipping"] == "may be active, of gradients as vectors"
    assert "public number" in said["records"]


def test_maps_of_which_nothing_is_known_need_no_assumption(sottovoce: Run) -> None:
    words = ("account", "complete:n=5", "--view", "secure-sum", "--observer", "0", "--rounds", "8")
    document = json.loads(sottovoce(*words, "--noise-multiplier", "1", "--updates", "any", "--json").out)
    assert document["assumption"] == "none"
    assert document["updates"] == {"lower": None, "upper": None}
    for pair in document["pairs"]:
        assert pair["sensitivity_squared"]["method"] == "twins"
        assert pair["sensitivity_squared"]["upper"] == pytest.approx(2, rel=1e-9)
    text = sottovoce(*words, "--noise-multiplier", "1", "--updates", "any").out
    assert "updates        any: nothing is known of the maps" in text
    assert "assumption     none: every message is seen, or the bound holds for" in text


def test_both_spellings_ask_the_same(sottovoce: Run) -> None:
    def answered(*more: str) -> Any:
        document = json.loads(sottovoce(*ACCOUNT, *more, "--json").out)
        # All but the words of the command itself.
        assert document.pop("command").endswith(" ".join((*more, "--json")))
        return document

    by_option = answered("--updates", "0.5,1")
    assert by_option == answered("--protocol", "gossip:updates=0.5+1")
    assert answered("--updates", "1,1") == answered()
    louder = (*ACCOUNT, "--protocol", "gossip:noise_levels=2", "--updates", "0.5,1", "--json")
    half = json.loads(sottovoce(*louder).out)["pairs"][0]["sensitivity_squared"]["upper"]
    assert half == pytest.approx(by_option["pairs"][0]["sensitivity_squared"]["upper"] / 4, rel=1e-4)


def test_calibration_and_the_report_of_training(sottovoce: Run) -> None:
    words = ("calibrate", *STAR, "--rounds", "2", "--target-epsilon", "1", "--updates", "0,1", "--json")
    document = json.loads(sottovoce(*words).out)
    assert document["assumption"] == "smooth"
    assert document["worst"]["sensitivity_squared"]["upper"] == pytest.approx(1.3, rel=1e-4)
    assert document["worst"]["epsilon"]["upper"] <= 1
    assert sottovoce(*ACCOUNT, "--updates", "0,1", "--report", "r.html").code == 0
    page = Path("r.html").read_text(encoding="utf-8")
    assert "slopes in [0, 1]" in page
    assert "smooth" in page


def test_rates_coalitions_sweeps_and_summaries_take_it_too(sottovoce: Run) -> None:
    document = json.loads(sottovoce("rate", *STAR, "--updates", "0,1", "--json").out)
    assert document["pairs"][0]["rate"]["upper"] == pytest.approx(0.9, rel=1e-4)
    assert document["pairs"][0]["rate"]["lower"] == pytest.approx(0.9, rel=1e-6)
    assert document["assumption"] == "smooth"
    assert "updates       slopes in [0, 1]" in sottovoce("rate", *STAR, "--updates", "0,1").out
    document = json.loads(
        sottovoce(
            *("coalition", "star:n=3", "--target", "1", "--size", "1", "--rounds", "2", "--json"),
            *("--view", "coalition-sums", "--updates", "0,1"),
        ).out
    )
    assert document["sensitivity_squared"]["upper"] == pytest.approx(1.3, rel=1e-4)
    assert document["assumption"] == "smooth"
    assert document["updates"]["upper"] == 1.0
    swept = ("sweep", "star:n=3", "--rounds", "2", "--view", "secure-sum", "--output", "s")
    assert sottovoce(*swept, "--updates", "0,1").code == 0
    code, _, err = sottovoce(*swept, "--updates", "0.5,1", "--resume")
    assert code == 2
    assert "a sweep is continued with the protocol it began with" in err
    assert sottovoce(*swept, "--updates", "0,1", "--resume").code == 0
    code, out, _ = sottovoce("summary", "s", "--noise-multiplier", "1")
    assert code == 0
    assert "slopes in [0, 1]" in out
    assert "with local DP" in out
    document = json.loads(sottovoce("summary", "s", "--noise-multiplier", "1", "--json").out)
    assert document["assumption"] == "smooth"
    assert document["updates"]["lower"] == 0.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--updates", "1,nan"), "slopes must be finite with lower ≤ upper"),
        (("--updates", "1,0.9"), "slopes must be finite with lower ≤ upper"),
        (("--updates", "0.9"), "--updates must be spelled LOWER,UPPER"),
        (("--updates", "0.9,1,1"), "--updates must be spelled LOWER,UPPER"),
        (("--updates", "gentle"), "--updates must be spelled LOWER,UPPER"),
        (("--protocol", "gossip:updates=2+1"), "slopes must be finite with lower ≤ upper"),
        (("--losses", "convex"), "add --step-smoothness"),
        (("--step-smoothness", "-1"), "--step-smoothness must be a finite number above 0"),
        (("--step-smoothness", "1", "--updates", "0,1"), "say the same thing twice"),
        (("--updates", "0,1", "--damping", "0.5"), "say the same thing twice"),
        (("--updates", "0,1", "--protocol", "momentum:beta=0.5"), "updates are worked out for gossip"),
        (("--updates", "0,1", "--protocol", "gossip:encoder=1+0.5"), "updates are worked out for gossip"),
        (("--updates", "0,1", "--engine", "filter"), "--engine must be auto for training"),
        (("--updates", "0,1", "--contribution", "scalar"), "--contribution must be vector for training"),
        (("--updates", "0,1", "--contribution", "energy"), "--contribution must be vector for training"),
    ],
)
def test_what_is_wrong_or_not_built_is_refused(sottovoce: Run, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = sottovoce(*ACCOUNT, *words)
    assert (code, out) == (2, "")
    assert sentence in err


def test_an_audit_does_not_simulate_averaging_in_place_of_training(sottovoce: Run) -> None:
    code, _, err = sottovoce("audit", *STAR, "--rounds", "2", "--noise-multiplier", "1", "--updates", "0,1")
    assert code == 2
    assert "leave --updates" in err


def test_a_certificate_is_held_against_the_slopes_that_are_meant(sottovoce: Run) -> None:
    words = ("--rounds", "3", "--output", "c.json")
    assert sottovoce("certify", *STAR, *words, "--updates", "0.5,1").code == 0
    verify = ("verify", "c.json", "--graph", STAR[0])
    assert sottovoce(*verify, "--updates", "0.5,1").code == 0
    code, _, err = sottovoce(*verify, "--updates", "0,1")
    assert code == 3
    assert "this certificate speaks of another protocol" in err
    code, _, err = sottovoce("verify", "c.json", "--updates", "0.5,1")
    assert code == 2
    assert "--updates 0.5,1 needs a graph to run on; got none" in err
    assert sottovoce("certify", *STAR, *words, "--step-smoothness", "0.5").code == 0
    assert sottovoce(*verify, "--step-smoothness", "0.5").code == 0
    code, _, err = sottovoce(*verify, "--losses", "convex")
    assert (code, "their size is missing" in err) == (2, True)
