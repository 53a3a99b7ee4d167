"""Reports of training on other programs than gossip: proved by what they carry, and no forged line of ε passes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sottovoce.cli import main
from sottovoce.documents import read_report
from sottovoce.documents.carried import Result
from sottovoce.forms import strict_json
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Combine, Program, parse_protocol
from sottovoce.report import proof_section, result_html
from sottovoce.verification.meaning import closes_loop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Any]

TRAIN = (
    "train",
    "breast-cancer",
    "--graph",
    "ring:n=4",
    "--rounds",
    "6",
    "--noise-multiplier",
    "4",
    "--seed",
    "1",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Momentum behind sums, under smoothness."""
    file = tmp_path_factory.mktemp("page") / "run.html"
    asked = ("--protocol", "momentum:beta=0.5", "--view", "secure-sum", "--report", str(file))
    assert main((*TRAIN, *asked)) == 0
    return file.read_text(encoding="utf-8")


@pytest.fixture
def report(page: str, tmp_path: Path) -> Path:
    """That report in the folder of the test, which may change it."""
    (tmp_path / "run.html").write_text(page, encoding="utf-8")
    return tmp_path / "run.html"


def rewritten(file: Path, change: Callable[[Any], Any]) -> None:
    """The same report of another document, as somebody would write it who knows this program well."""
    read = read_report(file)
    assert read.result is not None
    texts: Any = strict_json(
        file.read_text().partition('id="certificates">')[2].partition("<")[0], "certificates"
    )
    result = Result(occasion=read.result.occasion, document=change(read.result.document))
    held: Any = [_Held()]
    title = file.read_text().partition("<title>")[2].partition("<")[0]
    text = result_html(result, title=title, account=read.page, proofs=texts, proof=proof_section(held))
    file.write_text(text, encoding="utf-8")


class _Held:
    """Stands for a proof that is carried."""

    certificates = (None,)


def lowered(document: Any, column: str, share: float) -> Any:
    """A run whose line lies lower by this share before the last round."""
    values = document.history[column]
    line = [value * share for value in values[:-1]]
    return msgspec.structs.replace(document, history={**document.history, column: [*line, values[-1]]})


def test_a_run_with_memory_is_verified_and_its_line_with_it(sottovoce: Run, report: Path) -> None:
    code, out, err = sottovoce("verify", "run.html", "--graph", "ring:n=4")
    assert (code, err) == (0, "")
    assert "12 of 12 pairs are proved no worse" in " ".join(out.split())
    assert "before the last round" not in out
    rewritten(report, lambda document: document)
    assert sottovoce("verify", "run.html", "--graph", "ring:n=4").code == 0


@pytest.mark.parametrize("share", [0.6, 0.9995])
def test_a_line_that_lies_too_low_is_not_verified(sottovoce: Run, report: Path, share: float) -> None:
    for column, said in (
        ("epsilon", "ε of the view before the last round, which does not follow"),
        ("unconditional", "the number without any assumption"),
    ):
        before = report.read_text()
        rewritten(report, partial(lowered, column=column, share=share))
        code, _, err = sottovoce("verify", "run.html", "--graph", "ring:n=4")
        assert code == 3
        assert said in err
        report.write_text(before)


def test_a_run_whose_worst_pair_needs_no_assumption_is_verified(sottovoce: Run) -> None:
    asked = ("--protocol", "momentum:beta=0.5", "--view", "neighbourhood", "--report", "r.html")
    assert sottovoce(*TRAIN, *asked).code == 0
    assert sottovoce("verify", "r.html", "--graph", "ring:n=4").code == 0


@pytest.mark.parametrize("view", ["everyone", "secure-sum"])
def test_shared_noise_is_proved_for_whoever_hears_every_message(sottovoce: Run, view: str) -> None:
    asked = ("--protocol", "pairwise-noise:local=0.5,shared=1", "--view", view, "--report", "r.html")
    assert sottovoce(*TRAIN, *asked).code == 0
    code, out, _ = sottovoce("verify", "r.html", "--graph", "ring:n=4")
    assert code == 0
    assert "not verified" not in out


def test_everyone_of_plain_gossip_is_verified_with_local_dp(sottovoce: Run) -> None:
    assert sottovoce(*TRAIN, "--view", "everyone", "--report", "r.html").code == 0
    assert sottovoce("verify", "r.html", "--graph", "ring:n=4").code == 0


@pytest.mark.parametrize("graph", ["ring:n=4", "star:n=5"])
def test_the_line_of_quadratic_losses_follows_from_the_proof_of_all_rounds(
    sottovoce: Run, tmp_path: Path, graph: str
) -> None:
    asked = ("train", "synthetic", "--graph", graph, *TRAIN[4:], "--view", "secure-sum", "--report", "r.html")
    assert sottovoce(*asked).code == 0
    code, out, err = sottovoce("verify", "r.html", "--graph", graph)
    assert (code, err) == (0, "")
    assert "before the last round" not in out
    rewritten(tmp_path / "r.html", partial(lowered, column="epsilon", share=0.6))
    code, _, err = sottovoce("verify", "r.html", "--graph", graph)
    assert code == 3
    assert "ε of the view before the last round, which does not follow" in err


@pytest.mark.parametrize(
    ("data", "protocol", "further"),
    [
        ("synthetic", "momentum:beta=0.5", ()),
        ("synthetic", "gradient-tracking", ()),
        ("breast-cancer", "momentum:beta=0.5", ("--max-epsilon", "1.5")),
    ],
)
def test_a_report_tells_the_program_that_its_pairs_are_about(
    sottovoce: Run, tmp_path: Path, data: str, protocol: str, further: tuple[str, ...]
) -> None:
    asked = ("--protocol", protocol, "--view", "secure-sum", *further, "--report", "r.html")
    assert sottovoce("train", data, *TRAIN[2:], *asked).code == 0
    code, out, err = sottovoce("verify", "r.html", "--graph", "ring:n=4")
    assert (code, err) == (0, "")
    document: Any = read_report(tmp_path / "r.html").result
    assert document.document.rounds < 6 if further else "model_before" in document.document.program
    assert "12 of 12 pairs are proved no worse" in " ".join(out.split())


def test_only_a_pull_on_every_contribution_speaks_of_quadratic_losses() -> None:
    """Without it, or with less of it in one place, Δ² may lie below that of the losses that a page names."""
    heavy = parse_protocol("momentum:beta=0.5", metropolis_weights("ring:n=4"), rounds=2).programs[0]
    first, _, exchange = heavy.instructions
    send = Combine("message", {"model": 1, "v": 1, "contribution": 1})
    twice = replace(heavy, instructions=(first, send, exchange))

    def pulled(program: Program, pulls: Any, keep: Any = 1) -> Program:
        steps = list(program.instructions)
        places = [k for k, step in enumerate(steps) if "contribution" in getattr(step, "terms", {})]
        for k, pull in zip(places, pulls, strict=False):
            steps[k] = Combine(steps[k].into, {**steps[k].terms, "before": pull})  # type: ignore[union-attr]
        return replace(program, instructions=(Combine("before", {"model": keep}), *steps))

    assert closes_loop(pulled(heavy, [-0.5]), 4)
    assert closes_loop(pulled(heavy, [(-0.5, -0.25, -1, -0.125)]), 4)
    assert not closes_loop(heavy, 4)
    assert not closes_loop(pulled(heavy, [-0.5], keep=0.5), 4)
    for wrong in ([], [0], [0.5], [-2], [(-0.5, 0, -0.5, -0.5)], [(-0.5, -0.5)]):
        assert not closes_loop(pulled(heavy, wrong), 4)
    assert closes_loop(pulled(twice, [-0.5, -0.5]), 4)
    assert not closes_loop(pulled(twice, [-0.5]), 4)
    assert not closes_loop(pulled(twice, [-0.5, -0.25]), 4)
    late = pulled(heavy, [-0.5])
    moved = (late.instructions[0], Combine("before", {"model": 0}), *late.instructions[1:])
    assert not closes_loop(replace(late, instructions=moved), 4)
