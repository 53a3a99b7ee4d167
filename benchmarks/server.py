# SPDX-License-Identifier: Apache-2.0
"""What clients that mean no good can do to the server: connections, memory, workers, tickets, processes.

Each line is one attack on a server that is started for it, and what an honest client then meets. All traffic stays on
the loopback interface, and every attack is bounded in count and time.

    python -m benchmarks.server [--quick] [--before FOLDER]

FOLDER holds the sources of another version, which is measured beside this one in the same run.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = {"graph": {"kind": "name", "name": "ring:n=5"}, "rounds": 3}
# Many seconds of work in many small parts.
LONG = {"graph": {"kind": "name", "name": "erdos-renyi:n=300,p=0.05,seed=1"}, "rounds": 100}
PATIENCE = 20.0


class Server:
    """A server of some version: its port and its process."""

    def __init__(self, sources: str | None) -> None:
        places = {} if sources is None else {"PYTHONPATH": sources}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sottovoce", "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **places},
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split()[3].rstrip("/").rpartition(":")[2])

    def ask(
        self, method: str, path: str, body: object = None, source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, Any]:
        """The status and the content of an answer; status 0 if there is none in time."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE, source_address=(source, 0)
        )
        with contextlib.closing(connection):
            try:
                connection.request(
                    method,
                    path,
                    None if body is None else json.dumps(body),
                    {"Content-Type": "application/json", **headers},
                )
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                return 0, None
            with contextlib.suppress(ValueError):
                return answer.status, json.loads(content)
            return answer.status, None

    def done(self, body: object, kind: str = "page", seconds: float = PATIENCE) -> tuple[float, Any]:
        """How long it takes until a job is over, and how it ends; infinity if it does not in time."""
        begin = time.monotonic()
        status, job = self.ask("POST", f"/api/{kind}", body)
        while status in {200, 202} and job["state"] in {"waiting", "running"}:
            if time.monotonic() - begin > seconds:
                return float("inf"), job
            time.sleep(0.02)
            status, job = self.ask("GET", f"/api/jobs/{job['id']}")
        return time.monotonic() - begin, job

    def workers(self) -> set[int]:
        """The processes that compute."""
        return {child.pid for child in psutil.Process(self.process.pid).children()}

    def memory(self) -> float:
        """Megabytes that the server holds, without its workers."""
        return float(psutil.Process(self.process.pid).memory_info().rss / 1e6)


@contextlib.contextmanager
def serving(sources: str | None) -> Iterator[Server]:
    """A server, ended afterwards."""
    server = Server(sources)
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGINT)
        try:
            server.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def half_open(server: Server, quick: bool) -> str:
    """260 connections send half a head and no more."""
    del quick
    connections = []
    for _ in range(260):
        each = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        each.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        connections.append(each)
    time.sleep(0.5)
    held = sum(
        each.status == "ESTABLISHED" for each in psutil.Process(server.process.pid).net_connections("tcp")
    )
    begin = time.monotonic()
    status, _ = server.ask("GET", "/api/about")
    seconds = time.monotonic() - begin
    for each in connections:
        each.close()
    return f"{held} held; honest client: {status} after {seconds:.2f} s"


def unread(server: Server, quick: bool) -> str:
    """40 clients ask for a large answer and do not read it."""
    told = ""
    for length in (69,) if quick else (190, 69):
        names = [f"{number:03}{'x' * length}" for number in range(316)]
        star = "".join(f"{names[0]} {name}\n" for name in names[1:])
        body = {"graph": {"kind": "text", "text": star}, "rounds": 1, "noise_multiplier": 4}
        body["observers"] = names[:60] if quick else names
        _, job = server.done(body, "account", 60)
        if job["state"] == "done":
            break
        size = int(re.findall(r"this one has ([0-9]+)", job["error"]["message"])[0]) / 1e6
        told = f"{size:.0f} MB refused; "
    else:
        return f"{told}no answer"
    size = len(json.dumps(job["result"], separators=(",", ":"))) / 1e6
    before = server.memory()
    readers = []
    for _ in range(40):
        reader = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(f"GET /api/jobs/{job['id']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        readers.append(reader)
    for reader in readers:
        # The first byte has come, so the answer is on its way.
        reader.recv(1)
    most, begin = before, time.monotonic()
    while time.monotonic() - begin < (3 if quick else 15):
        time.sleep(0.1)
        most = max(most, server.memory())
    left = sum(
        each.status == "ESTABLISHED" for each in psutil.Process(server.process.pid).net_connections("tcp")
    )
    for reader in readers:
        reader.close()
    return f"{told}40 × {size:.0f} MB: {most - before:+.0f} MB; {left} of 40 still held at the end"


def death_at_start(server: Server, quick: bool) -> str:
    """Both workers are killed as soon as they appear."""
    del quick
    killed: set[int] = set()
    begin = time.monotonic()
    while len(killed) < 2 and time.monotonic() - begin < 10:
        for pid in server.workers() - killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.01)
    seconds, job = server.done(QUICK)
    return f"{len(killed)} killed; next job: {_ended(seconds, job)}"


def death_at_work(server: Server, quick: bool) -> str:
    """Both workers are killed while they compute."""
    del quick
    server.done(QUICK)
    for rounds in (98, 99):
        server.ask("POST", "/api/page", {**LONG, "rounds": rounds})
    time.sleep(1)
    for pid in server.workers():
        os.kill(pid, signal.SIGKILL)
    seconds, job = server.done({**QUICK, "rounds": 4})
    return f"next job: {_ended(seconds, job)}"


def _ended(seconds: float, job: dict[str, str]) -> str:
    if seconds == float("inf"):
        return f"still {job['state']} after {PATIENCE:g} s"
    return f"{job.get('state', 'refused')} after {seconds:.2f} s"


def start_and_cancel(server: Server, quick: bool) -> str:
    """Jobs are started and cancelled as soon as they run."""
    server.done(QUICK)
    time.sleep(2)
    seen = before = server.workers()
    count = 3 if quick else 10
    for rounds in range(count):
        _, job = server.ask("POST", "/api/page", {**LONG, "rounds": 200 + rounds})
        begin = time.monotonic()
        while job["state"] == "waiting" and time.monotonic() - begin < PATIENCE:
            time.sleep(0.02)
            _, job = server.ask("GET", f"/api/jobs/{job['id']}")
        server.ask("DELETE", f"/api/jobs/{job['id']}")
        seen = seen | server.workers()
    seconds, job = server.done({**QUICK, "rounds": 4})
    seen = seen | server.workers()
    return f"{count} jobs cost {len(seen - before)} workers; next job: {_ended(seconds, job)}"


def tickets(server: Server, quick: bool) -> str:
    """One address asks 1001 times and gives nothing back; another address asks once."""
    del quick
    mine = [server.ask("POST", "/api/page", LONG)[0] for _ in range(1001)]
    other, _ = server.ask("POST", "/api/page", QUICK, source="127.0.0.2")
    return f"{mine.count(202)} of 1001 taken; other client: {other}"


def large_grid(server: Server, quick: bool) -> str:
    """A grid of 2000 × 2000 is asked for."""
    del quick
    server.done(QUICK)
    before = _memory_of_workers(server)
    _, job = server.ask("POST", "/api/graph", {"graph": {"kind": "name", "name": "grid:rows=2000,cols=2000"}})
    begin, most = time.monotonic(), before
    while job is not None and job["state"] in {"waiting", "running"} and time.monotonic() - begin < PATIENCE:
        most = max(most, _memory_of_workers(server))
        time.sleep(0.005)
        _, job = server.ask("GET", f"/api/jobs/{job['id']}")
    seconds = time.monotonic() - begin
    return f"{job['state']} after {seconds:.2f} s, {(most - before) / 1e6:+.0f} MB in the workers"


def _memory_of_workers(server: Server) -> int:
    """Bytes that the workers and their children hold."""
    total = 0
    for child in psutil.Process(server.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += child.memory_info().rss
    return total


def malformed_origin(server: Server, quick: bool) -> str:
    """A request bears an origin that is none."""
    del quick
    return f"status {server.ask('GET', '/api/about', Origin='http://[::1')[0]}"


ATTACKS: dict[str, Callable[[Server, bool], str]] = {
    "260 half-open connections": half_open,
    "answers that are not read": unread,
    "workers killed at their start": death_at_start,
    "workers killed at work": death_at_work,
    "start and cancel": start_and_cancel,
    "1001 tickets of one client": tickets,
    "grid of 2000 × 2000": large_grid,
    "malformed Origin": malformed_origin,
}


def main(arguments: list[str] | None = None) -> None:
    """Attack, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller answers and fewer jobs")
    parser.add_argument(
        "--before", metavar="FOLDER", help="sources of another version, measured beside this one"
    )
    chosen = parser.parse_args(arguments)
    versions = {"before": chosen.before, "now": None} if chosen.before else {"now": None}
    for name, attack in ATTACKS.items():
        for version, sources in versions.items():
            with serving(sources) as server:
                print(f"{name:30} {version:7} {attack(server, chosen.quick)}", flush=True)


if __name__ == "__main__":
    main()
