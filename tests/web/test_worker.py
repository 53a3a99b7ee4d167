# SPDX-License-Identifier: Apache-2.0
"""The worker process: messages in, messages out, and errors that do not end it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from sottovoce.errors import NotCertified
from sottovoce.web.limits import Limits
from sottovoce.web.worker import (
    ENDED,
    HEAD,
    Failed,
    Message,
    Moved,
    Ready,
    Result,
    Stop,
    Stopped,
    WorkOrder,
    answer,
    framed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.load


def task(kind: str, limits: Limits | None = None, **request: Any) -> WorkOrder:
    return WorkOrder(kind, json.dumps(request).encode(), limits or Limits(memory=100_000))


RING = {"kind": "name", "name": "ring:n=5"}
# A minute of work in many small parts, the first of which is told within a second.
PARTS: dict[str, Any] = {"graph": {"kind": "name", "name": "ring:n=300"}, "rounds": 300}


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


def order(process: subprocess.Popen[bytes], sent: WorkOrder | Stop) -> None:
    assert process.stdin is not None
    process.stdin.write(framed(sent))
    process.stdin.flush()


def send(process: subprocess.Popen[bytes], sent: WorkOrder) -> list[Message]:
    """All messages up to the last one of a task."""
    order(process, sent)
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


def test_a_task_is_given_up_when_told_and_the_next_one_is_not(process: subprocess.Popen[bytes]) -> None:
    assert isinstance(read(process), Ready)
    order(process, task("page", **PARTS))
    assert isinstance(read(process), Moved)
    order(process, Stop())
    while isinstance(found := read(process), Moved):
        pass
    assert isinstance(found, Stopped)
    # An order that comes too late is for nothing.
    order(process, Stop())
    *_, last = send(process, task("page", graph=RING, rounds=3))
    assert isinstance(last, Result)


def test_a_worker_ends_when_the_server_is_gone(process: subprocess.Popen[bytes]) -> None:
    assert isinstance(read(process), Ready)
    order(process, task("page", **PARTS))
    assert isinstance(read(process), Moved)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    assert process.wait(timeout=60) == 0


def test_a_child_that_dies_is_told_and_the_worker_goes_on(process: subprocess.Popen[bytes]) -> None:
    assert isinstance(read(process), Ready)
    order(process, task("page", **PARTS))
    assert isinstance(read(process), Moved)
    for child in psutil.Process(process.pid).children():
        child.kill()
    while isinstance(found := read(process), Moved):
        pass
    assert isinstance(found, Failed)
    assert (found.kind, found.message) == ("internal", ENDED)
    *_, last = send(process, task("page", graph=RING, rounds=3))
    assert isinstance(last, Result)


def test_an_answer_that_is_too_large_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sottovoce.web.worker._bound_memory", lambda _: None)
    few = Limits(answer=2000)
    found = answer(task("account", few, graph=RING, rounds=3, noise_multiplier=2), lambda _: None)
    assert isinstance(found, Failed)
    assert found.kind == "limit"
    assert found.message.startswith("this server gives at most 2000 bytes in one answer; this one has ")
    assert found.message.endswith(" (name fewer observers or targets, or use sottovoce sweep)")


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
    few = Limits(memory=600, nodes=100_000, edges=100_000_000, rounds=100_000)
    *_, found = send(process, task("graph", few, graph={"kind": "name", "name": "complete:n=9000"}))
    assert isinstance(found, Failed)
    assert (found.kind, "not enough memory" in found.message) == ("limit", True)
