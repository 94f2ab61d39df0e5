"""Programs of an experiment: started, awaited, measured, and stopped by their process ids."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from .errors import LabError

T = TypeVar("T")

SERVICE_USER = "daemon"
READY_SECONDS = 60.0
STOP_SECONDS = 40.0
POLL_SECONDS = 0.02
PORTS = range(21000, 29000)
"""Below the range from which systems take the ports of connections that go out."""


@dataclass(frozen=True)
class Usage:
    """Resources used by a process since its start."""

    threads_ns: dict[int, int]
    ticks_s: float
    read_bytes: int

    def cpu_since(self, earlier: Usage) -> float:
        """Seconds of processor time used in between: in ticks if a thread took its account along."""
        if not self.threads_ns or not earlier.threads_ns.keys() <= self.threads_ns.keys():
            return max(0.0, self.ticks_s - earlier.ticks_s)
        return sum(spent - earlier.threads_ns.get(thread, 0) for thread, spent in self.threads_ns.items()) / 1e9

    def bytes_since(self, earlier: Usage) -> int:
        """Bytes read in between."""
        return self.read_bytes - earlier.read_bytes


class Process:
    """A running program with its output in a file. Use as a context manager.

    Started by root it runs as an unprivileged user, because `xrootd` refuses root. The kernel ends it if the lab dies.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        directory: Path,
        *,
        before: Sequence[str] = (),
        keep_user: bool = False,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        ids = None if keep_user else service_ids()
        user = ["--reuid", str(ids[0]), "--regid", str(ids[1]), "--clear-groups"] if ids else []
        # Each of these programs becomes the next one, so the process id is the server's.
        command = [*before, "setpriv", *user, "--pdeathsig", "TERM", "--", *(str(part) for part in argv)]
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory, start_new_session=True
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def is_running(self) -> bool:
        """Whether it still runs."""
        return self._child.poll() is None

    def wait_for_line(self, pattern: str) -> re.Match[str]:
        """Waits until a line of the output matches; fails at once when the program ends."""
        expression = re.compile(pattern, re.MULTILINE)

        def matched() -> re.Match[str] | None:
            ended = not self.is_running()
            output = self.log.read_text(errors="replace")
            found = expression.search(output)
            if ended and not found:
                raise LabError(f"{self.name} ended with status {self._child.returncode}:\n{output[-2000:]}")
            return found

        return until(matched, f"{self.name} is ready (its output: {self.log})", READY_SECONDS)

    def usage(self) -> Usage:
        """Resources used so far."""
        if not self.is_running():
            raise LabError(f"{self.name} has ended with status {self._child.returncode}; see {self.log}")
        return usage_of(self.pid)

    def stop(self) -> None:
        """Asks it to end, and ends it if it does not."""
        if self.is_running():
            self._child.terminate()
            try:
                self._child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()


def until(condition: Callable[[], T | None], what: str, within_s: float) -> T:
    """Polls until the condition gives something true."""
    deadline = time.monotonic() + within_s
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise LabError(f"not within {within_s:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


def usage_of(pid: int) -> Usage:
    """Processor time of all threads, and bytes read by system calls, `sendfile` included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    accounts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    threads_ns = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread that ends while we look is one that has ended.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            threads_ns[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return Usage(threads_ns, ticks_s, int(accounts["rchar"]))


def free_port() -> int:
    """A port for a server that cannot choose its own."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("::", port))
            except OSError:
                continue
        return port
    raise LabError(f"no port is free from {PORTS.start} to {PORTS.stop}")


def service_ids() -> tuple[int, int] | None:
    """User and group of servers when the lab is run by root; None when it is not."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(SERVICE_USER)
    return entry.pw_uid, entry.pw_gid


def service_directory(path: Path) -> Path:
    """Makes a directory that servers may write in, and that they may get to, whatever the umask."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in {path, *new}:
        folder.chmod(0o755)
    ids = service_ids()
    if ids is not None:
        os.chown(path, *ids)
    return path
