# SPDX-License-Identifier: Apache-2.0
"""A worker process: reads tasks from stdin, one after another, and writes progress and results to stdout.

A message is its length in four bytes and then MessagePack. Whatever arrives while a task is computed means that it is
to be given up: an order to stop, or the end of a server that is gone.
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
from sottovoce.web.answers import ProblemKind  # noqa: TC001 - read when messages are decoded
from sottovoce.web.limits import Limits  # noqa: TC001
from sottovoce.web.work import KINDS, LimitError, perform

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.web.requests import Request

__all__ = ["HEAD", "Failed", "Message", "Moved", "Ready", "Result", "Stop", "Stopped", "Task", "framed"]

HEAD = struct.Struct(">I")
_EVERY = 0.05


class Task(msgspec.Struct, frozen=True, tag="task"):
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

    kind: ProblemKind
    message: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The task was given up."""


Message = Ready | Moved | Result | Failed | Stopped


class _GivenUp(BaseException):
    """Ends a task from within; nothing that computes may catch it."""


def framed(message: msgspec.Struct) -> bytes:
    """A message as it goes through a pipe."""
    content = msgspec.msgpack.encode(message)
    return HEAD.pack(len(content)) + content


def main() -> None:
    """Serve tasks until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever a library prints must not end up among the messages.
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Without a buffer, what has not been read can be seen by `select`.
    orders = io.FileIO(0, closefd=False)
    send = _sender(pipe)
    try:
        send(Ready())
        while head := _exactly(orders, HEAD.size):
            order = msgspec.msgpack.decode(_exactly(orders, *HEAD.unpack(head)), type=Task | Stop)
            if isinstance(order, Task):
                send(answer(order, send, lambda: bool(select.select([orders], [], [], 0)[0])))
    except BrokenPipeError:
        # The server is gone, and nobody wants an answer.
        os._exit(0)


def _exactly(stream: io.FileIO, size: int) -> bytes:
    """The next bytes of a stream; none if it has ended."""
    content = bytearray()
    while len(content) < size:
        part = stream.read(size - len(content))
        if not part:
            return b""
        content += part
    return bytes(content)


def answer(
    task: Task, send: Callable[[Message], None], interrupted: Callable[[], bool] = lambda: False
) -> Result | Failed | Stopped:
    """What becomes of a task; nothing that happens in it ends the process."""
    _bound_memory(task.limits.memory)
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY:
            last = now
            send(Moved(int(done), int(total)))
            if interrupted():
                raise _GivenUp

    try:
        request: Request = msgspec.json.decode(task.request, type=KINDS[task.kind][0])
        content = perform(task.kind, request, task.limits, progress)
        if len(content) > task.limits.answer:
            most = f"this server gives at most {task.limits.answer} bytes in one answer; this one has {len(content)}"
            return Failed("limit", f"{most} (name fewer observers or targets, or use sottovoce sweep)")
        return Result(content)
    except _GivenUp:
        return Stopped()
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


def _sender(pipe: BinaryIO) -> Callable[[Message], None]:
    def send(message: Message) -> None:
        pipe.write(framed(message))
        pipe.flush()

    return send


if __name__ == "__main__":
    main()
