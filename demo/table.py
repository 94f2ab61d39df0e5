"""The output of the demo."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from .reading import Pass
from .servers import Server

HEADER = f"{'pass':<10}{'time':>9}{'rate':>13}{'read':>11}{'from origin':>14}{'hit ratio':>12}\n{'-' * 69}"


def row(step: str, result: Pass) -> str:
    """One line of the table."""
    rate = result.client_bytes / result.seconds / 1e6
    # As `forebay status` computes it: the share of the bytes that the origin did not have to send.
    ratio = max(0.0, 1 - result.origin_bytes / result.client_bytes) if result.client_bytes else 0.0
    return (
        f"{step:<10}{result.seconds:>7.2f} s{rate:>8.0f} MB/s{result.client_bytes / 1e6:>8.0f} MB"
        f"{result.origin_bytes / 1e6:>11.0f} MB{ratio:>12.0%}"
    )


EXPLANATION = """
All three passes added up to the same sum. The origin is on this machine, and much of a pass is uproot unpacking
baskets: with an origin far away the first pass becomes slower, the others stay as they are."""


def commands(binary: Path, file: Path, url: str, cache: Server, directory: Path) -> str:
    """Commands to try next, of the programs that are installed. They can be pasted as printed, in any directory."""
    here, copy = shlex.quote(str(file.resolve())), shlex.quote(str(directory.resolve() / "copy.root"))
    program = shlex.quote(str(binary.resolve()))
    read = f'import uproot; print(uproot.open("{url}")["Events"])'
    lines = [
        f"{program} get --force --output {copy} {url} && cmp {copy} {here}",
        f"{shlex.quote(sys.executable)} -c {shlex.quote(read)}",
    ]
    if shutil.which("xrdcp"):
        lines.insert(0, f"xrdcp -f {url} {copy} && cmp {copy} {here}")
    if shutil.which("root"):
        lines.append(f"root -l {url}")
    if shutil.which("curl"):
        lines.append(f"curl {cache.admin_url}/metrics")
    listed = "\n".join(f"  {line}" for line in lines)
    logs = f"{directory / 'origin.log'}, {directory / 'cache.log'}"
    return f"\nTry the cache while it runs:\n\n{listed}\n\nCached:   {directory / 'store'}\nLogs:     {logs}"
