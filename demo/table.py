"""The output of the demo."""

from __future__ import annotations

from pathlib import Path

from .reading import Pass
from .servers import Server

HEADER = f"{'pass':<10}{'time':>9}{'rate':>13}{'read':>11}{'from origin':>14}{'hit ratio':>12}\n{'-' * 69}"


def row(step: str, result: Pass) -> str:
    """One line of the table."""
    rate = result.client_bytes / result.seconds / 1e6
    ratio = result.hit_bytes / result.client_bytes if result.client_bytes else 0.0
    return (
        f"{step:<10}{result.seconds:>7.2f} s{rate:>8.0f} MB/s{result.client_bytes / 1e6:>8.0f} MB"
        f"{result.origin_bytes / 1e6:>11.0f} MB{ratio:>11.1%}"
    )


def explanation(file: Path, url: str, cache: Server, directory: Path) -> str:
    """An interpretation of the table, and commands to try next."""
    return f"""
All three passes added up to the same sum. The origin is on this machine, and much of a pass is uproot unpacking
baskets: with an origin far away the first pass becomes slower, the others stay as they are.

Try the cache with any XRootD client while it runs:

  xrdcp -f {url} /tmp/events.root && cmp /tmp/events.root {file}
  python -c 'import uproot; print(uproot.open("{url}")["Events"])'
  root -l {url}

Metrics:  curl {cache.admin_url}/metrics
Cached:   {directory / "store"}
Logs:     {directory / "origin.log"}, {directory / "cache.log"}"""
