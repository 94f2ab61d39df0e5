"""Client programs that pause half-way, report it, and wait for a signal to continue."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .clients import CLIENT_SECONDS, DRIVERS, IMPATIENT, ClientFailed


class PausingClient:
    """A driver that prints `half` in the middle of its work. Use as a context manager."""

    def __init__(self, python: str | Path, driver: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._driver = driver
        self._child = subprocess.Popen(
            [python, DRIVERS / driver, *arguments],
            env={**os.environ, **IMPATIENT, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> PausingClient:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.communicate()

    def until_half(self) -> None:
        """Waits until the client has come half-way."""
        self._until("half")

    def go_on(self, until: str = "") -> None:
        """Lets it continue, and waits until it reports this point."""
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        if until:
            self._until(until)

    def finish(self) -> str:
        """Lets it run to its end; returns its last output."""
        try:
            printed, _ = self._communicated = self._child.communicate("\n", timeout=CLIENT_SECONDS)
        except subprocess.TimeoutExpired as expired:
            raise ClientFailed(f"{self._driver} did not end within {CLIENT_SECONDS} s") from expired
        if self._child.returncode != 0:
            self._fail(printed, self._communicated[1])
        return printed

    def _until(self, word: str) -> None:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if line != f"{word}\n":
            self._fail(line)

    def _fail(self, printed: str, errors: str | None = None) -> None:
        if errors is None:
            printed, errors = self._child.communicate()
        raise ClientFailed(f"{self._driver} ended with {self._child.returncode}: {printed}{errors}"[-2000:])
