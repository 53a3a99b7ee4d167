# SPDX-License-Identifier: Apache-2.0
"""What a node keeps in its folder, so that it goes on after whatever ended it; one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

from sottovoce.errors import FileError
from sottovoce.files import put_whole
from sottovoce.peers.actions import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Kept", "check_newest", "locked", "opened_alone", "read_kept", "write_kept"]


_DIGEST = hashlib.sha256().digest_size


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file from which a node goes on: what it drew for the run, and, once it is in it, all that it holds.

    `letters` have no receipt yet; `heard` are the signed headers of the last messages of others.
    """

    own: bytes
    parts: tuple[bytes, ...] = ()
    memory: Memory | None = None
    letters: list[tuple[int, int, int, bytes]] = []
    heard: dict[int, bytes] = {}


def read_kept(path: Path) -> Kept | None:
    """What a node kept in its folder, as it was written to the last bit; None before it kept anything."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[_DIGEST:]).digest() != content[:_DIGEST]:
            raise msgspec.DecodeError("it is not as this node wrote it")
        return msgspec.msgpack.decode(content[_DIGEST:], type=Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise FileError(
            f"{path}: cannot be read: {error} (a node that has sent must go on from what it kept; if the file is lost, "
            "agree on a new run, and add up the accounts of both)"
        ) from None


def write_kept(folder: Path, kept: Kept) -> None:
    """Put it on the disk behind its digest, whole or not at all."""
    content = msgspec.msgpack.encode(kept)
    try:
        put_whole([hashlib.sha256(content).digest(), content], folder, lambda: "state", rights=0o600)
    except OSError as error:
        raise FileError(
            f"{folder}: the state cannot be kept, and nothing is sent that is not: {error.strerror or error} "
            "(make room, and start the node again)"
        ) from None


def check_newest(folder: Path, kept: Kept | None, noted: int) -> None:
    """Refuse a state or a transcript that is not the last one, by what the one says of the other."""
    memory = None if kept is None else kept.memory
    written = 0 if memory is None else memory.noted - len(memory.notes)
    if noted < written:
        raise FileError(
            f"{folder / 'transcript.jsonl'}: must have the {written} lines that this node has written; it has {noted} "
            "(take the original file)"
        )
    if noted > (0 if memory is None else memory.noted):
        raise FileError(
            f"{folder}: the transcript knows more than the state, which is missing or an old copy (a node goes on from "
            "what it kept last; if that is lost, agree on a new run, and add up the accounts of both)"
        )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder, for one process alone: two that go on from the same state would send unlike things."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = opened_alone(folder / "lock")
    except BlockingIOError:
        raise FileError(f"{folder}: another process runs this node (end it first)") from None
    except OSError as error:
        raise FileError(
            f"{folder}: cannot be used: {error.strerror or error} (choose another folder)"
        ) from None
    try:
        yield
    finally:
        os.close(opened)


def opened_alone(path: Path) -> int:
    """A file, made if there is none, that no other process holds until it is closed; BlockingIOError if one does."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened
