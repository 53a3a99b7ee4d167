# SPDX-License-Identifier: Apache-2.0
"""The worker process: messages in, messages out, and errors that do not end it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from sottovoce.errors import NotCertified
from sottovoce.web.limits import Limits
from sottovoce.web.worker import HEAD, Failed, Message, Moved, Ready, Result, Task, answer, framed

if TYPE_CHECKING:
    from collections.abc import Iterator


def task(kind: str, limits: Limits | None = None, **request: Any) -> Task:
    return Task(kind, json.dumps(request).encode(), limits or Limits(memory=100_000))


RING = {"kind": "name", "name": "ring:n=5"}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "sottovoce.web.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


def read(process: subprocess.Popen[bytes]) -> Message:
    assert process.stdout is not None
    (size,) = HEAD.unpack(process.stdout.read(HEAD.size))
    message: Message = msgspec.msgpack.decode(process.stdout.read(size), type=Message)
    return message


def send(process: subprocess.Popen[bytes], sent: Task) -> list[Message]:
    """All messages up to the last one of a task."""
    assert process.stdin is not None
    process.stdin.write(framed(sent))
    process.stdin.flush()
    found = [read(process)]
    while isinstance(found[-1], Moved):
        found.append(read(process))
    return found


def test_one_task_after_another_and_an_end(process: subprocess.Popen[bytes]) -> None:
    assert isinstance(read(process), Ready)
    *moved, last = send(process, task("page", graph=RING, rounds=3))
    assert isinstance(last, Result)
    assert json.loads(last.content)["rounds"] == 3
    assert all(isinstance(each, Moved) and each.done <= each.total == 20 for each in moved)
    *_, wrong = send(process, task("graph", graph={"kind": "name", "name": "rign:n=5"}))
    assert isinstance(wrong, Failed)
    assert (wrong.kind, "did you mean ring?" in wrong.message) == ("input", True)
    *_, again = send(process, task("graph", graph=RING))
    assert isinstance(again, Result)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (MemoryError(), "limit", "not enough memory for this request"),
        (RecursionError(), "input", "nested too deeply"),
        (NotCertified("no finite noise (ask for less)"), "not-certified", "no finite noise (ask for less)"),
        (ZeroDivisionError("by zero"), "internal", "ZeroDivisionError: by zero (please report it)"),
    ],
)
def test_whatever_happens_is_an_answer(
    raised: Exception, kind: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise raised

    monkeypatch.setattr("sottovoce.web.worker.perform", fail)
    monkeypatch.setattr("sottovoce.web.worker._bound_memory", lambda _: None)
    found = answer(task("graph", graph=RING), lambda _: None)
    assert isinstance(found, Failed)
    assert found.kind == kind
    assert message in found.message


def test_memory_is_bounded(process: subprocess.Popen[bytes]) -> None:
    read(process)
    few = Limits(memory=600, nodes=100_000, edges=10_000_000, rounds=100_000)
    *_, found = send(process, task("graph", few, graph={"kind": "name", "name": "complete:n=9000"}))
    assert isinstance(found, Failed)
    assert (found.kind, "not enough memory" in found.message) == ("limit", True)
