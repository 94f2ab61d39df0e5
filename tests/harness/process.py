"""Running a server program: start it, wait for its announcement, stop it by its process id, keep its output."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .waiting import until

SERVICE_USER = "daemon"
STOP_SECONDS = 35.0
LOG_TAIL_BYTES = 6000

running: list[Process] = []
"""Every process started and not yet stopped, oldest first: a failing test shows the tail of their output."""


class ProcessDied(AssertionError):
    """A server ended although it should have gone on."""


class Process:
    """One running program. Started by root, it runs as an unprivileged user: xrootd refuses to run as root."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | os.PathLike[str]],
        directory: Path,
        *,
        env: Mapping[str, str] | None = None,
        keep_root: bool = False,
        before_exec: Callable[[], None] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.argv = [os.fspath(part) for part in argv]
        self.stdout_path = directory / f"{name}.stdout"
        self.stderr_path = directory / f"{name}.stderr"
        ids = None if keep_root else service_ids()
        with self.stdout_path.open("wb") as stdout, self.stderr_path.open("wb") as stderr:
            self._child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=directory,
                env={**os.environ, **(env or {})},
                preexec_fn=before_exec,
                user=ids and ids[0],
                group=ids and ids[1],
                extra_groups=[] if ids else None,
                pass_fds=pass_fds,
            )
        running.append(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    def output(self) -> str:
        """The output of the program so far, standard output first."""
        return self.stdout_path.read_text(errors="replace") + self.stderr_path.read_text(errors="replace")

    def wait_for_line(self, pattern: str, *, within: float = 60.0) -> re.Match[str]:
        """Waits until a line of the output matches, and returns the match. Fails at once if the program ends."""
        expression = re.compile(pattern, re.MULTILINE)

        def matched() -> re.Match[str] | None:
            ended = not self.is_running()
            found = expression.search(self.output())
            if not found and ended:
                raise ProcessDied(f"{self.name} ended with {self._child.returncode}:\n{self.tail()}")
            return found

        return until(matched, f"{self.name} prints /{pattern}/", within=within)

    def is_running(self) -> bool:
        """Whether the program still runs."""
        return self._child.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to this process alone."""
        try:
            self._child.send_signal(number)
        except PermissionError:
            subprocess.run(as_root("kill", f"-{number.value}", str(self.pid)), check=True)

    def wait(self, *, within: float = STOP_SECONDS) -> int:
        """Waits for the end and returns the exit status, negative for a signal."""
        status = self._child.wait(timeout=within)
        self._forget()
        return status

    def stop(self) -> int | None:
        """SIGTERM, then SIGKILL if that is not obeyed; returns the exit status. Harmless when already ended."""
        if self.is_running():
            self.signal(signal.SIGTERM)
            try:
                self._child.wait(timeout=STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self._forget()
        return self._child.returncode

    def kill(self) -> None:
        """SIGKILL, and waits until the process is gone."""
        self._child.kill()
        self._child.wait()
        self._forget()

    def tail(self) -> str:
        """The last lines of the output, for a failure report."""
        return self.output()[-LOG_TAIL_BYTES:]

    def _forget(self) -> None:
        if self in running:
            running.remove(self)


def as_root(*command: str) -> list[str]:
    """A command run as root; other users need `sudo` without a password, as for installing the tools."""
    return list(command) if os.geteuid() == 0 else ["sudo", "-n", *command]


def service_ids() -> tuple[int, int] | None:
    """User and group id that servers run as when the suite itself runs as root; None when it does not."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(SERVICE_USER)
    return entry.pw_uid, entry.pw_gid


def give_to_service(path: Path) -> Path:
    """Makes a directory tree belong to the user that servers run as, so that they can write in it."""
    ids = service_ids()
    if ids is not None:
        os.chown(path, *ids)
        for directory, folders, files in os.walk(path):
            for entry in folders + files:
                os.chown(os.path.join(directory, entry), *ids, follow_symlinks=False)
    return path
