"""Numbers shown to a person are never below what is certified, and nothing shown can steer a terminal."""

import io
import math
import re
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from tests.cli.test_commands import Run

from sottovoce.cli.layout import facts, plain_table
from sottovoce.cli.printing import both_ends, readable, rounded_down, rounded_up
from sottovoce.interval import Interval


def shown_at(width: int, what: RenderableType) -> str:
    """What a console of this width prints, as plain lines."""
    page = io.StringIO()
    Console(file=page, width=width, highlight=False, markup=False, emoji=False).print(what)
    return page.getvalue()


NUMBERS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@given(NUMBERS, st.integers(1, 8))
def test_rounding_goes_outward_and_not_far(value: float, digits: int) -> None:
    lower, upper = Fraction(rounded_down(value, digits)), Fraction(rounded_up(value, digits))
    assert lower <= Fraction(value) <= upper
    # One unit in the last shown digit is at most 10^(1 − digits) of the number.
    assert upper - lower <= Fraction(value) * Fraction(10) ** (1 - digits)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.0, "0", "0"),
        (1.0, "1", "1"),
        (3.0000000000000004, "3.001", "3"),
        (9.9999, "10", "9.999"),
        (0.000123456, "0.0001235", "0.0001234"),
        (1.23456e-7, "1.235e-7", "1.234e-7"),
        (123456.0, "123500", "123400"),
        (1.5e12, "1.5e+12", "1.5e+12"),
        (math.inf, "∞", "∞"),
        (math.nan, "undefined", "undefined"),
    ],
)
def test_how_numbers_look(value: float, up: str, down: str) -> None:
    assert rounded_up(value) == up
    assert rounded_down(value) == down


def test_an_interval_shows_both_ends_unless_they_are_one() -> None:
    assert both_ends(Interval(1.23456, 2.34567)) == "1.234–2.346"
    assert both_ends(Interval.exactly(20.0)) == "20"
    assert both_ends(Interval(0.5, math.inf)) == "0.5–∞"


def test_names_cannot_steer_the_terminal() -> None:
    assert readable("\x1b[31mred\r\n") == "\\x1b[31mred\\r\\n"
    assert readable("Žižek ε") == "Žižek ε"


WORDS = st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=60)
SHOWN = st.builds(
    lambda lower, more: both_ends(Interval(lower, lower + more)),
    st.floats(0, 1e9, allow_subnormal=False),
    st.floats(0, 1e9),
)
CELLS = st.one_of(WORDS, SHOWN, st.builds("ε ≤ {} for {}".format, SHOWN, WORDS))


def numbers(text: str) -> Counter[str]:
    """All numbers in a text."""
    return Counter(re.findall(r"\d[\d.]*(?:e[+-]?\d+)?", text))


def without_hashes(text: str, wide: str) -> str:
    """A text without the hashes in the wide one, which are longer than a line may be."""
    for found in re.findall(r"[0-9a-f]{16,}", wide):
        text = re.sub(r"\s*".join(found), "", text)
    return text


@given(
    st.integers(40, 200),
    st.lists(st.tuples(st.booleans(), st.sampled_from(["left", "right"])), min_size=2, max_size=5),
    st.data(),
)
def test_no_table_breaks_a_number_or_leaves_one_out(
    width: int, columns: list[tuple[bool, str]], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(*(CELLS for _ in columns)), min_size=1, max_size=4))
    table = plain_table()
    for place, (whole, side) in enumerate(columns):
        numeric = whole and all(not row[place][0].isalpha() for row in rows)
        table.add_column(
            f"column {'abcde'[place]}",
            justify="right" if side == "right" else "left",
            no_wrap=numeric,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    shown = shown_at(width, table)
    assert numbers(shown) == numbers(" ".join(cell for row in rows for cell in row))
    assert "…" not in shown
    assert max(map(len, map(str.rstrip, shown.splitlines()))) <= width


@given(st.integers(40, 200), st.lists(CELLS, min_size=1))
def test_no_list_of_facts_breaks_a_number(width: int, values: list[str]) -> None:
    shown = shown_at(width, facts(("participation", value) for value in values))
    assert numbers(shown) == numbers(" ".join(values))


ASKED = ("--rounds", "4", "--view", "secure-sum")
COMMANDS = {
    "account": ("account", "path:n=4", "--rounds", "4", "--noise-multiplier", "4"),
    "one view": ("account", "path:n=4", *ASKED, "--noise-multiplier", "4"),
    "calibrate": ("calibrate", "path:n=4", *ASKED, "--target-epsilon", "1"),
    "compare": ("compare", "ring:n=5", "star:n=6", *ASKED, "--noise-multiplier", "4"),
    "rate": ("rate", "ring:n=5", "--view", "secure-sum"),
    "coalition": (
        "coalition",
        "ring:n=5",
        "--target",
        "0",
        "--size",
        "2",
        "--rounds",
        "4",
        "--view",
        "coalition-sums",
    ),
    "graph": ("graph", "florentine"),
    "audit": ("audit", "ring:n=5", *ASKED, "--noise-multiplier", "4", "--seed", "1", "--trials", "1000"),
    "train": (
        *("train", "synthetic", "--graph", "ring:n=4", "--rounds", "3", "--seed", "1"),
        *("--noise-multiplier", "9", "--view", "secure-sum"),
    ),
    "explain": ("explain", "number"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_narrow_terminal_shows_the_numbers_of_a_wide_one(
    words: tuple[str, ...], sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = {}
    for width in (200, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        code, shown[width], err = sottovoce(*words)
        assert (code, err) == (0, "")
        assert "\x1b" not in shown[width]
        assert max(map(len, shown[width].splitlines())) <= width
    wide, narrow = (without_hashes(text, shown[200]) for text in shown.values())
    assert numbers(narrow) == numbers(wide)
    assert narrow.count("…") == wide.count("…")
