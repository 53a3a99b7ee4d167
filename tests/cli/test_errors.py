"""Bad input: exit code 2, nothing on stdout, and one line on stderr that names the remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sottovoce.cli.application import app, commands
from sottovoce.cli.wording import OPTIONS, in_options
from sottovoce.errors import NotCertified

Run = Callable[..., Any]
COMMANDS = ("account", "calibrate", "rate", "certify", "verify", "train", "frontier")
RING = ("account", "ring:n=5", "--rounds", "4", "--noise-multiplier", "3")
RATE = ("rate", "ring:n=5")
SUMS = ("--view", "secure-sum")
CERTIFY = (
    *("certify", "ring:n=5", "--rounds", "4", *SUMS, "--observer", "0", "--target", "1"),
    *("--output", "c.json"),
)

MISTAKES = [
    (("acount",), 'Unknown command "acount". Did you mean "account"?'),
    (("account",), "GRAPH is missing (see sottovoce account --help)"),
    (("account", "ring:n=5"), "--rounds is missing (see sottovoce account --help)"),
    (("account", "ring:n=5", "--rounds", "4"), "--noise-multiplier is missing"),
    (("account", "ring:n=5", "--rounds"), "--rounds needs a value"),
    (
        ("account", "ring:n=5", "--round", "4", "--noise-multiplier", "3"),
        "error: Unknown option: --round. Did you mean --rounds? (see sottovoce account --help)",
    ),
    (
        ("calibrate", "ring:n=5", "--rounds=4", "--target-eps=1"),
        "Unknown option: --target-eps. Did you mean --target",
    ),
    (
        ("account", "ring:n=5", "--rounds", str(10**23), "--noise-multiplier", "3"),
        "error: --rounds must be at most 9007199254740992; got 100000000000000000000000",
    ),
    (
        ("account", "ring:n=5", "--rounds", str(10**15), "--noise-multiplier", "3"),
        "error: --rounds must fit into memory; 1000000000000000 of them need about ",
    ),
    (
        ("account", "ring:n=5", "-r", "4", "--noise-multiplier", "3"),
        "error: Unknown option: -r. (see sottovoce account --help)",
    ),
    (("account", "ring:n=5", "--rounds", "abc", "--viw", "everyone"), "--viw. Did you mean --view? ("),
    (("account", "ring:n=5", "--rounds", "--viw", "everyone"), "--viw. Did you mean --view? ("),
    ((*RING, "--view", "nonsense", "--obsrver", "3"), "--obsrver. Did you mean --observer? ("),
    (("account", "ring:n=5", "--nois", "4"), "--nois. Did you mean --noise-multiplier? ("),
    ((*RING, "--nonsense"), "Unknown option: --nonsense. ("),
    (("--verson",), "Unknown option: --verson. Did you mean --version? (see sottovoce --help)"),
    (
        ("peers", "check", "net.toml", "--m", "a"),
        "--m. Did you mean --me? (see sottovoce peers check --help)",
    ),
    ((*RING, "more"), "nothing takes more"),
    ((*RING, "--vieww", "everyone"), "Unknown option: --vieww. Did you mean --view?"),
    ((*RING, "--view", "everything"), 'Choose from: "everyone", "neighbourhood"'),
    ((*RING, "--relation", "swap"), 'Choose from: "add-remove", "replace-one", "zero-out"'),
    ((*RING, "--delta", "small"), 'unable to convert "small" into float'),
    ((*RING, "--delta", "2"), "error: --delta must lie strictly between 0 and 1; got 2.0"),
    ((*RING, "--delta", "nan"), "error: --delta must lie strictly between 0 and 1; got nan"),
    ((*RING, "--rounds", "5"), "--rounds specified multiple times"),
    ((*RING, "--max-epsilon", "0"), "error: --max-epsilon must be a finite number above 0; got 0.0"),
    (("account", "ring:n=5", "--rounds", "2.5", "--noise-multiplier", "3"), '2.5" into a whole number'),
    (("account", "ring:n=5", "--rounds", "0", "--noise-multiplier", "3"), "error: --rounds must be a whole"),
    (
        ("account", "ring:n=5", "--rounds", "4", "--noise-multiplier", "-1"),
        "error: --noise-multiplier must be a finite",
    ),
    (("account", "rign:n=5", "--rounds", "4", "--noise-multiplier", "3"), "did you mean ring?"),
    (("account", "no.edgelist", "--rounds", "4", "--noise-multiplier", "3"), "there is no such file"),
    ((*RING, "--weights", "median"), "the rule of the weights must be one of auto, metropolis"),
    ((*RING, "--observer", "9"), "no node is called '9'; the nodes are called 0 to 4"),
    ((*RING, "--target", "x"), "no node is called 'x'; the nodes are called 0 to 4"),
    (
        (*RING, "--observer", "1", "--target", "1"),
        "the only observer is node 1 itself, which knows its own noise (choose another target or observer, "
        "or --own-noise hidden)",
    ),
    (
        (*RING, "--view", "coalition-sums"),
        "coalition-sums needs the members of the coalition (repeat --observer",
    ),
    (
        (*RING, "--view", "everyone", "--observer", "1"),
        "error: --observer must be left out, as the view everyone takes no observer; got 1",
    ),
    (
        (*RING, "--output", "pairs.txt"),
        "pairs.txt: the table of pairs is written to a file that ends in .csv",
    ),
    ((*RING, "--output", "no/pairs.csv"), "there is no directory no (create it, or choose another)"),
    ((*RING, "--config", "no.toml"), "no.toml: cannot be read as TOML: No such file or directory"),
    (
        ("graph", "ring:n=5", "--output", "ring.png"),
        "a graph is written to a file that ends in .edgelist or .graphml",
    ),
    (
        ("calibrate", "ring:n=5", "--rounds", "4", *SUMS),
        "--target-epsilon is missing (see sottovoce calibrate --help)",
    ),
    (
        ("calibrate", "ring:n=5", "--rounds", "4", *SUMS, "--target-epsilon", "-1"),
        "--target-epsilon must be a finite",
    ),
    (
        (*RING, "--participation", "sometimes"),
        "error: --participation must be spelled like one of full, fixed:1,5,9, every:4",
    ),
    ((*RING, "--participation", "fixed:1,9"), "fixed:1,9 names round 9, but there are 4 rounds"),
    ((*RING, "--participation", "every:0"), "the period of every-k-th participation must be a whole number"),
    ((*RATE, "--view", "coalition-sums"), "needs the members of the coalition (repeat --observer"),
    ((*RATE, "--view", "everyone", "--observer", "1"), "the view everyone takes no observer"),
    (
        (*RATE, *SUMS, "--observer", "1", "--target", "1"),
        "its noise (choose another target, or --own-noise hidden)",
    ),
    ((*RATE, "--participation", "every:2"), "Unknown option: --participation"),
    ((*RATE, *SUMS, "--output", "rates.json"), "ends in .csv"),
    (("certify", "ring:n=5"), "--rounds is missing"),
    (CERTIFY[:-2], "--output is missing"),
    ((*CERTIFY[:-1], "claim.txt"), "a certificate is written to a file that ends in .json"),
    ((*CERTIFY[:-1], "no/claim.json"), "there is no directory no"),
    ((*CERTIFY, "--participation", "now"), "--participation must be spelled like"),
    ((*CERTIFY, "--tolerance", "0"), "error: --tolerance must be a finite number above 0; got 0.0"),
    ((*CERTIFY, "--target", "2"), "--target specified multiple times"),
    ((*CERTIFY, "--observer", "2"), "one observer; got 0 and 2 (name one with --observer)"),
    (
        ("certify", "ring:n=5", "--rounds", "4", *SUMS, "--target", "1", "--output", "claim.json"),
        "a certificate speaks of one observer; got none",
    ),
    (
        ("certify", "ring:n=5", "--rounds", "4", *SUMS, "--observer", "1", "--output", "claim.json"),
        "--target is missing (see sottovoce certify --help)",
    ),
    ((*RING, *SUMS, "--exchanges", "2"), "1 to 1 of a round; got 2 (leave --exchanges out to see all)"),
    (
        (*RING, *SUMS, "--protocol", "gossip:damping=0.5"),
        "got 'damping=0.5' in 'gossip:damping=0.5' (take it out, and give --damping beside it)",
    ),
    (
        (*RING, *SUMS, "--protocol", f"repeated:steps={'9' * 5000}"),
        "the steps of a protocol must be a whole number of at least 1 and at most 1000; got '99",
    ),
    ((*RING, *SUMS, "--participation", f"every:{'9' * 5000}"), "--participation must be spelled like one of"),
    ((*RING, *SUMS, "--target", "9" * 5000), "the nodes are called 0 to 4 (name one of them)"),
    (("verify",), "CERTIFICATE is missing"),
    (("verify", "claim.json"), "claim.json: the certificate cannot be read: No such file"),
    (("verify", "claim.json", "--weights", "lazy"), "--weights lazy needs a graph to stand on; got none"),
    (("completion", "tcsh"), 'Choose from: "bash", "zsh", "fish"'),
]


@pytest.mark.parametrize(("words", "sentence"), MISTAKES)
def test_a_mistake_and_its_remedy(words: tuple[str, ...], sentence: str, sottovoce: Run) -> None:
    code, out, err = sottovoce(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("sottovoce: error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert "(" in err or "must" in err or "cannot" in err


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("rounds must be whole", "--rounds must be whole"),
        ("targets must name at least one node", "--target must name at least one node"),
        ("no rounds must remain", "no rounds must remain"),
        ("rounds.csv: own_noise must be known", "rounds.csv: own_noise must be known"),
        ("(or own_noise='hidden')", "(or --own-noise hidden)"),
        ("the_noise='hidden' stays", "the_noise='hidden' stays"),
        ("(build them with metropolis_weights(graph))", "(build them with --weights metropolis)"),
    ],
)
def test_arguments_are_shown_as_options(said: str, shown: str) -> None:
    assert in_options(said) == shown


def test_every_option_that_a_message_may_name_exists() -> None:
    known = {
        argument.name for _, command in commands() for argument in command.assemble_argument_collection()
    }
    assert set(OPTIONS.values()) <= known


def test_an_unknown_command_is_answered_with_all_there_are(sottovoce: Run) -> None:
    for words, group in (((), app), (("peers",), app["peers"])):
        code, _, err = sottovoce(*words, "foo")
        assert code == 2
        listed = err.partition("Commands are ")[2].partition(" (see")[0].split(", ")
        assert listed == [name for name in group if not name.startswith("-")]
    assert (
        'Unknown command "acount". Did you mean "account"? Commands are account,' in sottovoce("acount").err
    )


def test_messages_name_options_as_they_are_typed(sottovoce: Run) -> None:
    asked = (*RING, "--view", "secure-sum", "--confidence", "2")
    assert "error: --confidence must lie strictly" in sottovoce("audit", *asked[1:]).err
    for option, value in (("port", "99999"), ("host", "0.0.0.0"), ("token", "short")):
        assert f"error: --{option} must " in sottovoce("serve", f"--{option}", value).err
    assert "where --target-epsilon is not" in sottovoce("compare", "ring:n=5", "--rounds", "2").err


def test_a_network_in_pieces_is_named_with_a_node_of_two(sottovoce: Run, tmp_path: Path) -> None:
    for text, said in (
        (
            "a,b\nc,d\nd,e\n",
            "g.csv: every node must be able to reach every other; the graph falls into 2 components, the "
            "largest with 3 of 5 nodes; 'a' is in another than 'c' (join",
        ),
        ("a,b\nc,d\n", "the largest with 2 of 4 nodes; 'a' is in another than 'c' (join"),
        ("a,a\n", "g.csv: gossip needs at least 2 nodes; got a graph of one node, 'a' (add nodes"),
    ):
        (tmp_path / "g.csv").write_text(text)
        code, _, err = sottovoce("account", "g.csv", "--rounds", "3", "--noise-multiplier", "2")
        assert code == 2
        assert said in err


def test_names_with_commas_stand_in_quotes_where_names_are_listed(sottovoce: Run, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text('source,target\nSt Mary,"Doe, Ann"\n"Doe, Ann",Klinik\n')
    assert "names    St Mary, 'Doe, Ann', Klinik\n" in sottovoce("graph", "g.csv").out
    out = sottovoce("account", "g.csv", "--rounds", "3", "--noise-multiplier", "2").out
    assert "node 'Doe, Ann'" in out


def test_what_rounding_leaves_of_an_eigenvalue_is_not_shown(sottovoce: Run) -> None:
    out = sottovoce("graph", "complete:n=5").out
    assert "λ₂       0\nλ_n      0\nρ        0\ngap γ    1\n" in out


def test_a_matrix_that_does_not_average_is_refused_in_words_of_the_command_line(
    sottovoce: Run, tmp_path: Path
) -> None:
    np.save(tmp_path / "weights.npy", np.full((5, 5), 0.3))
    err = sottovoce(*RING, "--weights", "weights.npy").err
    assert "(build them with --weights metropolis, or scale the rows of the matrix)" in err


def test_an_unknown_name_lists_the_closest(sottovoce: Run) -> None:
    words = ("account", "florentine", "--rounds", "3", "--noise-multiplier", "2", "--observer", "Medicci")
    assert "no node is called 'Medicci'; the closest names are 'Medici'" in sottovoce(*words).err


def test_a_line_that_a_name_would_break_stays_one_line(sottovoce: Run) -> None:
    code, _, err = sottovoce(*RING, "--observer", "a\nb\x1b[31m")
    assert code == 2
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_what_is_not_certified(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotCertified("the bound did not close (ask for fewer rounds)")

    monkeypatch.setattr("sottovoce.accounting.account_all", refuse)
    code, out, err = sottovoce(*RING)
    assert (code, out) == (3, "")
    assert err == "sottovoce: not certified: the bound did not close (ask for fewer rounds)\n"


def test_an_internal_error_is_short_unless_debugged(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a screw\nis loose")

    monkeypatch.setattr("sottovoce.accounting.account_all", fail)
    code, out, err = sottovoce(*RING)
    assert (code, out) == (1, "")
    assert err == (
        "sottovoce: internal error: RuntimeError: a screw is loose "
        "(please report it; SOTTOVOCE_DEBUG=1 shows where it arose)\n"
    )
    monkeypatch.setenv("SOTTOVOCE_DEBUG", "1")
    assert "Traceback" in sottovoce(*RING).err


def test_too_little_memory_is_said(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sottovoce.accounting.account_all", fail)
    code, _, err = sottovoce(*RING)
    assert code == 1
    assert "not enough memory (take fewer rounds" in err


def test_an_unwritable_place_is_found_before_the_work(
    sottovoce: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("the work began although its result has no place")

    monkeypatch.setattr("sottovoce.accounting.account_all", never)
    monkeypatch.setattr("os.access", lambda *_: False)
    code, _, err = sottovoce(*RING, "--output", str(tmp_path / "pairs.csv"))
    assert code == 2
    assert "cannot be written to (choose another)" in err
