# SPDX-License-Identifier: Apache-2.0
"""What may be spent on an answer: the same options wherever they count, and they reach the verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sottovoce.cli.application import app
from sottovoce.scenarios import Effort
from sottovoce.web.requests import PageRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., Any]

SEEN = ("karate", "--view", "secure-sum")
ROUNDS = ("--rounds", "4")
OPTIONS = ("--engine", "filter", "--effort", "fine", "--tolerance", "0.25")
ALL = Effort(engine="filter", depth="fine", tolerance=0.25)
WIDTH = Effort(tolerance=0.25)

COMMANDS = {
    "sottovoce.accounting.account_all": [
        (("account", *SEEN, *ROUNDS, "--noise-multiplier", "4"), ALL),
        (("calibrate", *SEEN, *ROUNDS, "--target-epsilon", "1"), ALL),
        (("audit", *SEEN, *ROUNDS, "--noise-multiplier", "4"), ALL),
    ],
    "sottovoce.accounting.sampled_account": [
        (("account", *SEEN, *ROUNDS, "--noise-multiplier", "4", "--participation", "poisson:0.1"), ALL)
    ],
    "sottovoce.accounting.compare": [(("compare", *SEEN, *ROUNDS, "--noise-multiplier", "4"), ALL)],
    "sottovoce.coalitions.worst_coalition": [
        (("coalition", "karate", "--view", "coalition-sums", *ROUNDS, "--target", "3", "--size", "2"), ALL)
    ],
    "sottovoce.rates.rate": [(("rate", *SEEN), WIDTH)],
    "sottovoce.sensitivities.certify": [
        (("certify", *SEEN, *ROUNDS, "--observer", "3", "--target", "7", "--output", "proof.json"), WIDTH)
    ],
}


@pytest.mark.parametrize(("verb", "commands"), COMMANDS.items(), ids=COMMANDS)
def test_what_may_be_spent_reaches_the_verb(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch, verb: str, commands: list[tuple[tuple[str, ...], Effort]]
) -> None:
    def spent(*_: Any, effort: Effort, **__: Any) -> None:
        raise ValueError(f"spends {effort}")

    monkeypatch.setattr(verb, spent)
    for words, effort in commands:
        options = OPTIONS if effort == ALL else OPTIONS[-2:]
        assert f"spends {effort}" in sottovoce(*words, *options).err


def test_a_width_that_proves_nothing_is_refused_as_a_request_with_it_is(sottovoce: Run) -> None:
    for width in (0.0, -0.5, 1.5, 1e300):
        code, out, err = sottovoce(
            "account", *SEEN, *ROUNDS, "--noise-multiplier", "4", f"--tolerance={width}"
        )
        assert (code, out) == (2, ""), width
        assert "--tolerance must be" in err
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(
                {"graph": {"kind": "name", "name": "karate"}, "rounds": 4, "tolerance": width}, PageRequest
            )


def test_the_options_have_one_meaning() -> None:
    """Wherever an option of the group stands, it is the same one."""
    names = ("--engine", "--effort", "--tolerance")
    for name in names:
        found = {
            (each.parameter.help, str(each.hint))
            for command in (
                "account",
                "calibrate",
                "audit",
                "compare",
                "coalition",
                "rate",
                "certify",
                "sweep",
            )
            for each in app[command].assemble_argument_collection()
            if each.name == name
        }
        assert len(found) == 1, name
