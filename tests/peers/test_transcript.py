"""Transcripts and ledgers: whole lines, in order, signed; whatever is changed is found."""

import random
from pathlib import Path

import pytest
from tests.peers.networks import identities

from sottovoce.errors import InputError
from sottovoce.peers.transcript import Ledger, Transcript, read_transcript

ONE = identities(4)[0]
KEY = ONE.card.signing_key
NOTES = [
    {"number": k, "what": "sent", "round": k, "body": bytes([k]), "names": ("a", "b")} for k in range(1, 9)
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
    assert [line["number"] for line in found] == list(range(1, 9))
    assert found[0]["names"] == ["a", "b"]
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
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 6
