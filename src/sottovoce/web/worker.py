# SPDX-License-Identifier: Apache-2.0
"""A worker process: reads tasks from stdin, one after another, and writes progress and results to stdout.

Each task is computed by a child of the worker, which has everything imported and forks in milliseconds. So a task can
be given up at any moment, by ending the child, and the next one finds nothing of it. A message is its length in four
bytes and then MessagePack.
"""

from __future__ import annotations

import io
import os
import select
import signal
import struct
import time
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from sottovoce.errors import InputError, NotCertified
from sottovoce.web.limits import Limits
from sottovoce.web.replies import FaultKind
from sottovoce.web.requests import NamedGraph, PageRequest
from sottovoce.web.work import KINDS, LimitError, perform

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.web.requests import Request

__all__ = [
    "ENDED",
    "HEAD",
    "Failed",
    "Message",
    "Moved",
    "Ready",
    "Result",
    "Stop",
    "Stopped",
    "WorkOrder",
    "framed",
]

HEAD = struct.Struct(">I")
ENDED = "the process that computed this was ended (take fewer rounds, observers or targets)"
_EVERY = 0.05


class WorkOrder(msgspec.Struct, frozen=True, tag="work"):
    """A request of some kind, as JSON, and the limits of the server."""

    kind: str
    request: bytes
    limits: Limits


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """The order to give up the task, if there still is one."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker has started."""


class Moved(msgspec.Struct, frozen=True, tag="progress"):
    """So much of so much is done."""

    done: int
    total: int


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The result as JSON."""

    content: bytes


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """Why there is no result."""

    kind: FaultKind
    message: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The task was given up."""


Message = Ready | Moved | Result | Failed | Stopped


def framed(message: msgspec.Struct) -> bytes:
    """A message as it goes through a pipe."""
    content = msgspec.msgpack.encode(message)
    return HEAD.pack(len(content)) + content


def main() -> None:
    """Serve tasks until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever a library prints must not end up among the messages.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    # Without a buffer, what has not been read can be seen by `select`.
    orders = io.FileIO(0, closefd=False)
    # What is imported late is imported now, once for all children.
    perform("page", PageRequest(graph=NamedGraph(name="florentine"), rounds=2), Limits(), lambda *_: None)
    try:
        _write(answers, framed(Ready()))
        while frame := _frame(orders):
            order = msgspec.msgpack.decode(frame[HEAD.size :], type=WorkOrder | Stop)
            if isinstance(order, WorkOrder):
                _attend(order, orders, answers)
    except BrokenPipeError:
        # The server is gone, and nobody wants an answer.
        os._exit(0)


def _attend(task: WorkOrder, orders: io.FileIO, answers: BinaryIO) -> None:
    """Let a child compute a task, and pass on what it says; end it on any order, or when there are no more."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answers.close()
            os.close(inlet)
            pipe = os.fdopen(outlet, "wb", buffering=0)
            _write(pipe, framed(answer(task, lambda message: _write(pipe, framed(message)))))
        finally:
            # Whatever happens, the child must not go on as a worker.
            os._exit(0)
    os.close(outlet)
    try:
        with io.FileIO(inlet) as messages:
            while True:
                if orders in select.select([orders, messages], [], [])[0]:
                    _frame(orders)
                    return _write(answers, framed(Stopped()))
                frame = _frame(messages)
                _write(answers, frame or framed(Failed("internal", ENDED)))
                if not frame or not isinstance(_message(frame), Moved):
                    return None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _message(frame: bytes) -> Message:
    message: Message = msgspec.msgpack.decode(memoryview(frame)[HEAD.size :], type=Message)
    return message


def _frame(stream: io.FileIO) -> bytes:
    """The next message of a stream with its length; nothing if the stream has ended."""
    head = _exactly(stream, HEAD.size)
    content = _exactly(stream, *HEAD.unpack(head)) if head else b""
    return head + content if content else b""


def _exactly(stream: io.FileIO, size: int) -> bytes:
    """The next bytes of a stream; none if it has ended."""
    content = bytearray()
    while len(content) < size:
        part = stream.read(size - len(content))
        if not part:
            return b""
        content += part
    return bytes(content)


def _write(stream: BinaryIO, content: bytes) -> None:
    """Write everything, however little a pipe takes at a time."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def answer(task: WorkOrder, send: Callable[[Message], None]) -> Result | Failed:
    """What becomes of a task; nothing that happens in it ends the process."""
    _bound_memory(task.limits.memory)
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY:
            last = now
            send(Moved(int(done), int(total)))

    try:
        request: Request = msgspec.json.decode(task.request, type=KINDS[task.kind].request)
        content = perform(task.kind, request, task.limits, progress)
        if len(content) > task.limits.answer:
            most = f"this server gives at most {task.limits.answer} bytes in one answer; this one has {len(content)}"
            return Failed("limit", f"{most} (name fewer observers or targets, or use sottovoce sweep)")
        return Result(content)
    except LimitError as error:
        return Failed("limit", str(error))
    except InputError as error:
        return Failed("input", str(error))
    except NotCertified as error:
        return Failed("not-certified", str(error))
    except MemoryError:
        return Failed("limit", "not enough memory for this request (take fewer rounds, observers or targets)")
    except RecursionError:
        return Failed("input", "the graph file is nested too deeply (write an edge list)")
    except Exception as error:
        return Failed("internal", f"{type(error).__name__}: {error} (please report it)")


def _bound_memory(mebibytes: int) -> None:
    """Let an allocation beyond the limit fail, where the system can do that."""
    try:
        import resource
    except ImportError:
        return
    most = mebibytes * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


if __name__ == "__main__":
    main()
