"""The clients of the matrix: each copies one URL to a local file, with a bound on its time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from .ground import Ground, program, proxy_plugin

CLIENT_SECONDS = 120.0
DRIVERS = Path(__file__).with_name("drivers")

# Stock clients try a dead host for minutes; a test wants to know sooner.
IMPATIENT = {
    "XRD_CONNECTIONWINDOW": "10",
    "XRD_CONNECTIONRETRY": "2",
    "XRD_REQUESTTIMEOUT": "45",
    "XRD_TIMEOUTRESOLUTION": "1",
    "XRD_STREAMERRORWINDOW": "0",
}

Fetch = Callable[[Ground, str, Path, Mapping[str, str]], "subprocess.CompletedProcess[bytes]"]


class ClientFailed(AssertionError):
    """A client ended with an error; the text is its output."""


def run_client(
    argv: list[str | Path], env: Mapping[str, str] | None = None, *, stdout: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs a client program to its end; kills it after a minute."""
    environment = {**os.environ, **IMPATIENT, **(env or {})}
    try:
        if stdout is None:
            return subprocess.run(argv, env=environment, capture_output=True, timeout=CLIENT_SECONDS, check=False)
        with stdout.open("wb") as out:
            return subprocess.run(
                argv, env=environment, stdout=out, stderr=subprocess.PIPE, timeout=CLIENT_SECONDS, check=False
            )
    except subprocess.TimeoutExpired as expired:
        raise ClientFailed(f"{argv[0]} did not end within {CLIENT_SECONDS} s: {expired.stderr!r}") from expired


def _xrdcp(_: Ground, url: str, to: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return run_client([program("xrdcp"), "--force", "--nopbar", url, to], env)


def _xrdcp_to_stdout(_: Ground, url: str, to: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return run_client([program("xrdcp"), "--nopbar", url, "-"], env, stdout=to)


def _xrdfs_cat(_: Ground, url: str, to: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    parts = urlsplit(url)
    server = f"{parts.scheme}://{parts.netloc}"
    return run_client([program("xrdfs"), server, "cat", url.split(parts.netloc, 1)[1][1:]], env, stdout=to)


def _pyxrootd(_: Ground, url: str, to: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return run_client([sys.executable, DRIVERS / "pyxrootd_copy.py", url, to], env)


def _forebay_get(ground: Ground, url: str, to: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return run_client([ground.forebay, "get", url, "-o", to], env)


FETCHERS: dict[str, Fetch] = {
    "xrdcp": _xrdcp,
    "xrdcp-to-stdout": _xrdcp_to_stdout,
    "xrdfs-cat": _xrdfs_cat,
    "pyxrootd": _pyxrootd,
    "forebay-get": _forebay_get,
}
COPIERS = ["xrdcp", "xrdfs-cat", "pyxrootd", "forebay-get"]
"""The clients of the matrix."""


def fetch(client: str, ground: Ground, url: str, env: Mapping[str, str] | None = None) -> bytes:
    """Fetches a URL with a client of the matrix and returns the file."""
    destination = ground.directory("download") / "file"
    result = FETCHERS[client](ground, url, destination, env or {})
    if result.returncode != 0:
        printed = (result.stdout or b"") + (result.stderr or b"")
        raise ClientFailed(f"{client} {url} ended with {result.returncode}: {printed.decode(errors='replace')[-2000:]}")
    fetched = destination.read_bytes()
    # Thousands of copies would fill the disk of a small machine before the run ends.
    shutil.rmtree(destination.parent)
    return fetched


def through_plugin(proxy_url: str) -> dict[str, str]:
    """The environment that sends every file that a stock client opens through a forwarding proxy.

    The plug-in of 5.5 does not know page reads, and it sends local files to the proxy too: let xrdcp write to stdout.
    """
    return {"XRD_PLUGIN": str(proxy_plugin()), "XROOT_PROXY": f"{proxy_url}//", "XRD_CPUSEPGWRTRD": "0"}
