# SPDX-License-Identifier: Apache-2.0
"""Files to which lines are added whole or not at all: the transcript of a node, and its ledger.

A transcript is what the node will be asked about: who sent, who dropped out, which weights counted in which round, and
what neighbours signed. Every line names the digest of the line before it and is signed, so that nothing can be changed,
left out or put in between later on without the node's key; receipts bear the neighbours' signatures besides.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cryptography.exceptions import InvalidSignature

from sottovoce.errors import FileError, InputError
from sottovoce.forms import Form, read_form, strict_json
from sottovoce.peers.notes import AnyNote, Note

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

__all__ = ["Ledger", "Lines", "Transcript", "line_of", "read_transcript"]

_CONTEXT = b"sottovoce transcript 1\n"


class Lines:
    """A text file that grows by whole lines; what a crash left of a line is taken away."""

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it."""
        self.path = path
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(path, len(whole))
        self.lines = whole.splitlines()

    def add(self, lines: Iterable[bytes]) -> None:
        """Add lines by one write, and wait until they are on the disk."""
        content = b"".join(line + b"\n" for line in lines)
        if not content:
            return
        try:
            opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                written = os.write(opened, content)
                if written < len(content):
                    os.ftruncate(opened, os.fstat(opened).st_size - written)
                    raise OSError(28, "No space left on device")
                os.fsync(opened)
            finally:
                os.close(opened)
        except OSError as error:
            raise FileError(
                f"{self.path}: cannot be written: {error.strerror or error} (make room)"
            ) from None


class Transcript:
    """The signed lines of one node; numbers count up by one, and a number that is there is not written again."""

    def __init__(self, path: Path, key: Ed25519PrivateKey) -> None:
        """Go on after the last whole line; a file in which anything was changed is refused."""
        self._lines, self._key = Lines(path), key
        found = _checked(path, self._lines.lines, key.public_key())
        self._before = hashlib.sha256(self._lines.lines[-1]).hexdigest() if found else ""
        self.number = len(found)
        self.first = found[0] if found else None

    def add(self, notes: Iterable[Note]) -> None:
        """Add what the node noted and is not there yet."""
        lines = []
        for note in notes:
            if note.number > self.number:
                said = msgspec.structs.replace(note, before=self._before, signature=msgspec.UNSET)
                signature = self._key.sign(_CONTEXT + _written(said))
                line = _written(msgspec.structs.replace(said, signature=signature))
                self._before, self.number = hashlib.sha256(line).hexdigest(), note.number
                lines.append(line)
        self._lines.add(lines)


def line_of(line: bytes) -> AnyNote:
    """The note in a line of a transcript, which is spelled in one way alone; whose it is has yet to be checked."""
    what = "a line of a transcript"
    # A union of forms is a type too, but not one that `type` speaks of.
    said: AnyNote = read_form(strict_json(line.decode(errors="replace"), what), AnyNote, what)  # type: ignore[arg-type]
    try:
        same = _written(said) == line
    except UnicodeEncodeError:
        same = False
    if not same:
        raise InputError(
            f"{what} must be spelled as nodes write it; this one is not (take the original file)"
        )
    return said


def read_transcript(path: Path, key: Ed25519PublicKey) -> list[AnyNote]:
    """The lines of a transcript, every one of them checked: form, signature, order, and that none is missing between.

    Guarantee: each was signed, to the last byte, by whose key it is, and holds the digest of the one before it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error} (check the path)") from None
    # Lines end in a newline and in nothing else, so that no byte of the file stands unread.
    return _checked(path, content.removesuffix(b"\n").split(b"\n"), key)


def _checked(path: Path, lines: Iterable[bytes], key: Ed25519PublicKey) -> list[AnyNote]:
    """The notes in the lines of a file, each of them as `read_transcript` has it."""
    found: list[AnyNote] = []
    before = ""
    for number, line in enumerate(lines, start=1):
        try:
            said = line_of(line)
        except InputError as error:
            raise FileError(f"{path}: line {number}: {error} (take the original file)") from None
        bare = msgspec.structs.replace(said, signature=msgspec.UNSET)
        try:
            key.verify(said.signature or b"", _CONTEXT + _written(bare))
        except InvalidSignature:
            raise FileError(
                f"{path}: line {number} is not signed by its node (take the original file)"
            ) from None
        if (said.before, said.number) != (before, number):
            raise FileError(
                f"{path}: line {number} does not follow the line before it (take the original file)"
            )
        before = hashlib.sha256(line).hexdigest()
        found.append(bare)
    return found


class LedgerLine(Form, frozen=True, kw_only=True):
    """A line of a ledger: ε of an observer so far, null if it has no bound, and in how many rounds the node sent."""

    round: Annotated[int, msgspec.Meta(ge=0)]
    sent: Annotated[int, msgspec.Meta(ge=0)]
    observer: str
    epsilon: float | None
    delta: float


class Ledger:
    """ε so far, round by round and for each observer: a CSV file, and the same as lines of JSON."""

    COLUMNS = LedgerLine.__struct_fields__

    def __init__(self, folder: Path) -> None:
        """Go on after the last round that is there."""
        self._csv, self._json = Lines(folder / "ledger.csv"), Lines(folder / "ledger.jsonl")
        if not self._csv.lines:
            self._csv.add([",".join(self.COLUMNS).encode()])
        self._last = {id(file): self._sent(file) for file in (self._csv, self._json)}

    def _sent(self, file: Lines) -> int:
        """How many rounds in which the node sent are in a file."""
        last = file.lines[-1:]
        if not last:
            return 0
        if file is self._json:
            what = "a line of a ledger"
            try:
                return read_form(strict_json(last[0].decode(errors="replace"), what), LedgerLine, what).sent
            except InputError as error:
                raise FileError(f"{file.path}: the last line: {error} (take the original file)") from None
        columns = last[0].split(b",")
        if len(columns) != len(self.COLUMNS):
            raise FileError(
                f"{file.path}: the last line must have {len(self.COLUMNS)} columns; it has {len(columns)} (take the "
                "original file)"
            )
        return int(columns[1]) if columns[1].isdigit() else 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Add the rows of one round to both files, unless they are there."""
        sent = int(rows[0]["sent"])
        if sent > self._last[id(self._csv)]:
            self._csv.add(",".join(str(row[name]) for name in self.COLUMNS).encode() for row in rows)
        if sent > self._last[id(self._json)]:
            self._json.add(msgspec.json.encode(LedgerLine(**row)) for row in rows)
        self._last = dict.fromkeys(self._last, sent)


def _written(note: Note) -> bytes:
    """A line as it stands in the file and under a signature: fields by name, bytes in base64."""
    return msgspec.json.encode(note, order="sorted")
