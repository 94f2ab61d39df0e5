"""The two servers of the demo: started, awaited until ready, and stopped by process id."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from types import TracebackType

READY_SECONDS = 20.0
STOP_SECONDS = 35.0
POLL_SECONDS = 0.05

# Budget of the cache: more than the demo reads, regardless of the file system's fill level.
BUDGET = "1TiB"


class ServerError(Exception):
    """A server failed; the text has the reason and the place of the log."""


class Server:
    """A running `forebay serve`. Use as a context manager."""

    def __init__(self, name: str, binary: Path, arguments: list[str], directory: Path) -> None:
        self._name = name
        self._log = directory / f"{name}.log"
        directory.mkdir(parents=True, exist_ok=True)
        argv = [str(binary), "serve", "--listen", "127.0.0.1:0", *arguments]
        try:
            with self._log.open("wb") as log:
                self._child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except OSError as error:
            raise ServerError(f"cannot start {binary}: {error.strerror}; run `make build`") from error
        try:
            self.url = self._await(r"^ready (root://\S+)$")
            self.admin_url = self._await(r"^admin (http://\S+)$") if "--admin-listen" in arguments else ""
        except BaseException:
            self.stop()
            raise

    @classmethod
    def origin(cls, binary: Path, files: Path, directory: Path) -> Server:
        """A read-only server of a directory."""
        return cls("origin", binary, ["--export-dir", str(files)], directory)

    @classmethod
    def cache(cls, binary: Path, origin_url: str, store: Path, directory: Path) -> Server:
        """A cache in front of it, with its metrics on a port of their own."""
        store.mkdir(parents=True, exist_ok=True)
        arguments = ["--origin", origin_url, "--store", str(store), "--budget", BUDGET, "--admin-listen", "127.0.0.1:0"]
        return cls("cache", binary, arguments, directory)

    def __enter__(self) -> Server:
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

    def _await(self, line: str) -> str:
        """Waits for a line of the output and returns its captured part."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            ended = self._child.poll()
            output = self._log.read_text(errors="replace")
            found = re.search(line, output, re.MULTILINE)
            if found:
                return found[1]
            if ended is not None:
                raise ServerError(f"the {self._name} ended with status {ended}:\n{output.strip()[-2000:]}")
            if time.monotonic() > deadline:
                raise ServerError(f"the {self._name} was not ready within {READY_SECONDS:.0f} s; see {self._log}")
            time.sleep(POLL_SECONDS)
