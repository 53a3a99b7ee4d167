# SPDX-License-Identifier: Apache-2.0
"""A worker process as the server sees it: started, sent a task, asked to stop, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from sottovoce.threads import PINNED
from sottovoce.web.worker import HEAD, Message, Ready, Stop, WorkOrder, framed

if TYPE_CHECKING:
    from sottovoce.web.limits import Limits

__all__ = ["Worker", "WorkerDied"]

_START_SECONDS = 60.0
_MORE_THAN_AN_ANSWER = 2**20


class WorkerDied(Exception):  # noqa: N818 - an event, not a mistake of ours
    """A worker process that ended, or speaks nonsense, without having been told to."""


@dataclass(eq=False)
class Worker:
    """A process that computes one task after another.

    Attributes:
        process: the process.
        limits: the limits of the server.
        tasks: how many tasks it was sent.
        told_to_end: whether its end was ordered.
    """

    process: asyncio.subprocess.Process
    limits: Limits
    tasks: int = 0
    told_to_end: bool = False

    @classmethod
    async def start(cls, limits: Limits) -> Worker:
        """A worker that is ready; WorkerDied if it does not become so."""
        environment = {**os.environ, **dict.fromkeys(PINNED, "1")}
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                # The package imports the module for its messages before it runs: nothing of it is done twice.
                "-W",
                "ignore::RuntimeWarning:runpy",
                "-m",
                "sottovoce.web.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerDied(f"it could not be started: {error.strerror or error}") from None
        worker = cls(process, limits)
        try:
            async with asyncio.timeout(_START_SECONDS):
                first = await worker.read()
            if not isinstance(first, Ready):
                raise WorkerDied("it spoke before it was ready")
        except TimeoutError:
            await worker.end()
            raise WorkerDied(f"it was not ready after {_START_SECONDS:g} seconds") from None
        except BaseException:
            await worker.end()
            raise
        return worker

    @property
    def alive(self) -> bool:
        """Whether the process runs and is meant to."""
        return self.process.returncode is None and not self.told_to_end

    async def read(self) -> Message:
        """The next message."""
        stream = self.process.stdout
        assert stream is not None
        try:
            (size,) = HEAD.unpack(await stream.readexactly(HEAD.size))
            if size > self.limits.answer + _MORE_THAN_AN_ANSWER:
                raise WorkerDied(f"it announced a message of {size} bytes")
            message: Message = msgspec.msgpack.decode(await stream.readexactly(size), type=Message)
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self.process.wait()
            raise WorkerDied(f"it ended with code {code}") from None
        except msgspec.DecodeError as error:
            raise WorkerDied(f"it sent what is no message: {error}") from None
        return message

    def send(self, kind: str, request: bytes) -> None:
        """Give the worker a task."""
        self.tasks += 1
        self._write(WorkOrder(kind, request, self.limits))

    def stop(self) -> None:
        """Ask the worker to give up its task."""
        self._write(Stop())

    def _write(self, order: WorkOrder | Stop) -> None:
        assert self.process.stdin is not None
        # A pipe that is broken is noticed where the answer is read.
        with contextlib.suppress(OSError):
            self.process.stdin.write(framed(order))

    async def end(self) -> None:
        """End the process and its child; not by `process.kill`, which may take the exit code from who waits for it."""
        self.told_to_end = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
