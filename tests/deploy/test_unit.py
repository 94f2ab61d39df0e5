"""The systemd unit permits what the server needs, and little else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from harness import forebay
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import REPOSITORY, Ground, program
from harness.process import service_ids
from harness.xrootd import Origin

UNIT = REPOSITORY / "deploy" / "systemd" / "forebay.service"
EXPOSURE_MAX = 17
"""Tenths: 0 means no exposure, 100 all of it. Most of it is network access, which the server needs."""
PATH = "/sizes/many-blocks.bin"


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(program("systemd-analyze")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_unit_exposes_little() -> None:
    judged = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(UNIT))
    assert judged.returncode == 0, judged.stdout


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), flags=re.MULTILINE)


UNNAMED = {"syscall_0x1c3": "cachestat"}
"""Calls that are younger than strace 6.1, as that writes them."""


def calls_of(group: str) -> set[str]:
    """The system calls of a group of systemd's, or the one of this name."""
    if not group.startswith("@"):
        return {group}
    listed = analyze("syscall-filter", group).stdout.splitlines()[1:]
    names = [line.strip() for line in listed if line.strip() and not line.strip().startswith("#")]
    return set().union(*(calls_of(name) if name.startswith("@") else {name} for name in names))


def test_server_needs_no_call_that_the_unit_forbids(
    ground: Ground, plain_origin: Origin, patterns: dict[str, Pattern]
) -> None:
    allowed = calls_of("@default")
    for group in settings("SystemCallFilter"):
        allowed = allowed - calls_of(group[1:]) if group.startswith("~") else allowed | calls_of(group)
    trace = ground.directory("trace") / "calls"
    # As the unit starts it: as its user, without privileges to drop.
    ids = service_ids()
    demoted = [f"--reuid={ids[0]}", f"--regid={ids[1]}", "--clear-groups", "--bounding-set=-all"] if ids else []
    wrapper = [
        str(program("setpriv")),
        *demoted,
        "--inh-caps=-all",
        str(program("strace")),
        "-f",
        "-qq",
        "-o",
        str(trace),
    ]
    with forebay.cache(ground, plain_origin.url, wrapper=wrapper) as server:
        for turn in ("cold", "warm"):
            assert_same(fetch("xrdcp", ground, server.file_url(PATH), {}), patterns[PATH].all(), turn)
        server.metrics()
        # The process that we have started is strace, which passes no signal on.
        strace = server.process.pid
        (traced,) = Path(f"/proc/{strace}/task/{strace}/children").read_text().split()
        os.kill(int(traced), signal.SIGTERM)
        assert server.process.wait() == 0
    named = re.findall(r"^\d+\s+(\w+)\(", trace.read_text(), flags=re.MULTILINE)
    used = {UNNAMED.get(name, name) for name in named}
    assert {"openat", "sendto", "epoll_wait"} & used, "the trace is one"
    assert used - allowed - {"execve"} == set(), "calls that the unit forbids"


def test_unit_has_places_for_all_that_the_server_keeps() -> None:
    places = {
        "StateDirectory": "/var/lib",
        "CacheDirectory": "/var/cache",
        "LogsDirectory": "/var/log",
        "RuntimeDirectory": "/run",
    }
    made = {Path(root) / name for setting, root in places.items() for name in settings(setting)}
    example = (REPOSITORY / "docs" / "example.toml").read_text()
    kept = re.findall(r'^#? ?(?:path|keys_dir|socket) = "(/var/[^"]+|/run/[^"]+)"', example, flags=re.MULTILINE)
    assert kept
    for path in kept:
        assert any(Path(path).is_relative_to(place) for place in made), path
