"""The servers of a demo: started, awaited until ready, and stopped by process id."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

READY_SECONDS = 20.0
STOP_SECONDS = 35.0
POLL_SECONDS = 0.05

# Any free port.
LISTEN = "127.0.0.1:0"

# Budget of the cache: more than the demo reads, regardless of the file system's fill level.
BUDGET = "1TiB"

T = TypeVar("T")


class ServerError(Exception):
    """A server failed; the text has the reason and the place of the log."""


class Program:
    """A running program. Use as a context manager."""

    def __init__(self, name: str, argv: list[str], directory: Path, remedy: str) -> None:
        self._name = name
        self._log = directory / f"{name}.log"
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with self._log.open("wb") as log:
                self._child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory)
        except OSError as error:
            raise ServerError(f"cannot start {argv[0]}: {error.strerror}; run `{remedy}`") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Asks the process to end, and ends it if it does not."""
        self._child.terminate()
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def wait_until(self, condition: Callable[[str], T | None], seconds: float = READY_SECONDS) -> T:
        """Waits until a condition on the output has a value, and returns that. The program must not end meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self._child.poll()
            output = self._log.read_text(errors="replace")
            found = condition(output)
            if found:
                return found
            if ended is not None:
                raise ServerError(f"the {self._name} ended with status {ended}:\n{output.strip()[-2000:]}")
            if time.monotonic() > deadline:
                raise ServerError(f"the {self._name} was not ready within {seconds:.0f} s; see {self._log}")
            time.sleep(POLL_SECONDS)


class Server(Program):
    """A running `forebay serve`."""

    def __init__(
        self, name: str, binary: Path, arguments: list[str], directory: Path, *, has_admin: bool = False
    ) -> None:
        super().__init__(name, [str(binary.resolve()), "serve", *arguments], directory, "make build")
        try:
            self.url = self._await(r"^ready (root://\S+)$")
            self.admin_url = self._await(r"^admin (http://\S+)$") if has_admin else ""
        except BaseException:
            self.stop()
            raise

    @classmethod
    def origin(cls, binary: Path, files: Path, directory: Path) -> Server:
        """A read-only server of a directory."""
        return cls("origin", binary, ["--listen", LISTEN, "--export-dir", str(files.resolve())], directory)

    @classmethod
    def cache(cls, binary: Path, origin_url: str, store: Path, directory: Path) -> Server:
        """A cache in front of it, with its metrics on a port of their own."""
        store.mkdir(parents=True, exist_ok=True)
        arguments = ["--listen", LISTEN, "--origin", origin_url, "--store", str(store.resolve()), "--budget", BUDGET]
        return cls("cache", binary, [*arguments, "--admin-listen", LISTEN], directory, has_admin=True)

    @classmethod
    def configured(cls, name: str, binary: Path, configuration: Path, directory: Path) -> Server:
        """A server with a configuration file, which has an admin port."""
        return cls(name, binary, ["--config", str(configuration.resolve())], directory, has_admin=True)

    def _await(self, line: str) -> str:
        """Waits for a line of the output and returns its captured part."""

        def captured(output: str) -> str | None:
            found = re.search(line, output, re.MULTILINE)
            return found[1] if found else None

        return self.wait_until(captured)
