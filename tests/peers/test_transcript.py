"""Transcripts and ledgers: whole lines, in order, signed; whatever is changed is found."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import UNSET, structs
from tests.peers.networks import identities

from sottovoce.errors import FileError, InputError
from sottovoce.peers.notes import AnyNote, Receipt
from sottovoce.peers.transcript import Ledger, Transcript, line_of, read_transcript

ONE = identities(4)[0]
KEY = ONE.card.signing_key
NOTES = [Receipt(number=k, peer="é", signed=bytes([k]), body=bytes([k, k])) for k in range(1, 9)]
LINES: list[dict[str, Any]] = [
    {"what": "begun", "run": "AA==", "me": "site-0", "parts": ["AQ=="]},
    {"what": "resumed", "round": 1},
    {"what": "sent", "round": 0, "exchange": 0, "receivers": [1]},
    {
        "what": "closed",
        "round": 0,
        "exchange": 0,
        "survivors": ["a"],
        "missing": [],
        "denominator": 3,
        "weights": {"a": 3},
    },
    {"what": "summed", "round": 0, "exchange": 0, "receiver": "a", "survivors": ["a"], "receipt": ["AQ=="]},
    {"what": "given", "round": 0, "exchange": 0, "receiver": "a", "survivors": ["a"], "receipt": ["AQ=="]},
    {
        "what": "failed",
        "round": 0,
        "exchange": 0,
        "receiver": "a",
        "phase": "opened",
        "reason": "late",
        "dealers": ["a"],
    },
    {"what": "receipt", "peer": "a", "signed": "AA==", "body": "AQ=="},
    {"what": "told", "peer": "a", "signed": "AA==", "body": "AQ=="},
    {"what": "farewell", "peer": "a", "signed": "AA==", "body": "AQ=="},
    {"what": "refused", "peer": "a", "reason": "odd"},
    {"what": "skipped", "first": 1, "last": 2},
    {"what": "stopped", "reason": "finished", "round": 3},
]


def written(folder: Path) -> Path:
    file = folder / "transcript.jsonl"
    Transcript(file, ONE.signing).add(NOTES)
    return file


def test_lines_are_added_once_and_a_torn_one_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    Transcript(file, ONE.signing).add(NOTES[:5])
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    again = Transcript(file, ONE.signing)
    assert again.number == 4
    again.add(NOTES)
    again.add(NOTES)
    found = read_transcript(file, KEY)
    assert [line.number for line in found] == list(range(1, 9))
    assert [structs.replace(line, before=UNSET) for line in found] == NOTES
    assert file.read_bytes().startswith(whole)


def test_every_change_of_a_transcript_is_found(tmp_path: Path) -> None:
    file, rng = written(tmp_path), random.Random(2)
    lines = file.read_bytes().splitlines()
    for _ in range(300):
        changed = [bytearray(line) for line in lines]
        place = rng.randrange(len(changed) - 1)
        match rng.randrange(4):
            case 0:
                changed[place][rng.randrange(len(changed[place]))] ^= 1 << rng.randrange(7)
            case 1:
                del changed[place]
            case 2:
                changed.insert(place, changed[place])
            case 3:
                changed[place], changed[place + 1] = changed[place + 1], changed[place]
        file.write_bytes(b"\n".join(map(bytes, changed)) + b"\n")
        with pytest.raises(InputError):
            read_transcript(file, KEY)
    written(tmp_path / "..")
    with pytest.raises(InputError, match="not signed by its node"):
        read_transcript(tmp_path.parent / "transcript.jsonl", identities(4)[1].card.signing_key)


def signed(said: dict[str, Any]) -> bytes:
    """The first line of a transcript, signed by its node, whatever stands in it."""
    said = {"number": 1, "before": "", **said}
    content = msgspec.json.encode(said, order="sorted")
    signature = ONE.signing.sign(b"sottovoce transcript 1\n" + content)
    return msgspec.json.encode({**said, "signature": signature}, order="sorted")


def test_every_kind_of_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert {line["what"] for line in LINES} == {kind.__struct_config__.tag for kind in get_args(AnyNote)}
    for said in LINES:
        file = tmp_path / said["what"]
        file.write_bytes(signed(said) + b"\n")
        (found,) = read_transcript(file, KEY)
        again = tmp_path / "again"
        again.unlink(missing_ok=True)
        Transcript(again, ONE.signing).add([found])
        assert again.read_bytes() == file.read_bytes()


WRONG: dict[type, list[Any]] = {
    str: [None, True, 1, 1.5, ["A"], {}],
    int: [None, True, 1.5, "1", [1], {}],
    list: [None, 1, "A", {}, [None], [[["a"]]], [1.5]],
    dict: [None, 1, "a", ["a"], {"a": "3"}, {"a": 1.5}, {"a": None}],
}


def others(said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What no line says: fields of other types, out of their range, fewer or more of them."""
    for name, value in said.items():
        yield {key: each for key, each in said.items() if key != name}
        wrong = [*WRONG[type(value)]]
        wrong += ["A", "AQ", "AR==", "AQ==\n"] if name in {"run", "signed", "body"} else []
        wrong += [["A"], ["AR=="]] if name in {"parts", "receipt"} else []
        wrong += [-1] if name in {"round", "exchange", "first", "last"} else []
        wrong += ["A"] if name in {"what", "phase"} or (name, value) == ("reason", "finished") else []
        for each in wrong:
            yield {**said, name: each}
    yield {**said, "more": 1}


def test_a_line_that_says_what_none_says_is_refused_even_if_the_node_signs_it(tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    for said in LINES:
        for other in others(said):
            file.write_bytes(signed(other) + b"\n")
            with pytest.raises(InputError, match=r"transcript.jsonl: line 1: ."):
                read_transcript(file, KEY)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b'{"what": "resumed", "what": "resumed"}', "a field stands twice in the same JSON object"),
        (b'{"number": NaN}', "holds finite numbers only; this file holds NaN"),
        (b'{"number": 1e999}', "holds finite numbers only; this file holds 1e999"),
        (b"9" * 500, "a number has at most 400 digits"),
        (b"[" * 100_000, "this is not JSON"),
        (b"", "this is not JSON"),
        (b"\xff", "this is not JSON"),
        (b"[]", "a line of a transcript must be a JSON object; got a list of 0"),
        (b"{}", "a line of a transcript lacks the field what"),
        (b'{"what": "won"}', "what must be one of begun, resumed, .*, stopped; got 'won'"),
        (b'{"what":"refused","peer":"\\ud800","reason":""}', "must be spelled as nodes write it"),
        (b'{"what": "resumed", "round": 1}', "must be spelled as nodes write it"),
        (b'{"what":"refused","peer":"\\u0061","reason":""}', "must be spelled as nodes write it"),
    ],
)
def test_what_is_no_line_is_refused(text: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        line_of(text)
    (tmp_path / "transcript.jsonl").write_bytes(text + b"\n")
    with pytest.raises(FileError, match=f"transcript.jsonl: line 1: .*{sentence}"):
        Transcript(tmp_path / "transcript.jsonl", ONE.signing)


def test_a_ledger_has_every_round_once(tmp_path: Path) -> None:
    def rows(sent: int) -> list[dict[str, object]]:
        common = {"round": sent + 2, "sent": sent, "delta": 1e-5}
        return [common | {"observer": name, "epsilon": sent / 10} for name in ("b", "everyone")]

    for sent in (1, 2):
        Ledger(tmp_path).add(rows(sent))
    both = Ledger(tmp_path)
    both.add(rows(2))
    both.add(rows(3))
    lines = (tmp_path / "ledger.csv").read_text().splitlines()
    assert lines[0] == "round,sent,observer,epsilon,delta"
    assert lines[1:3] == ["3,1,b,0.1,1e-05", "3,1,everyone,0.1,1e-05"]
    assert [line.split(",")[1] for line in lines[1:]] == ["1", "1", "2", "2", "3", "3"]
    held = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [each["sent"] for each in held] == [1, 1, 2, 2, 3, 3]
    for last in ('{"sent": 4, "sent": 4}', '{"sent": 1e999}', '{"sent": 4}', "[]", "4"):
        (tmp_path / "ledger.jsonl").write_text(last + "\n")
        with pytest.raises(InputError, match=r"ledger.jsonl"):
            Ledger(tmp_path)
