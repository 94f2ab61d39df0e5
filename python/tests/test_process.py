"""Servers run by the lab: their directories, their ends, and their use of resources."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay_lab.errors import LabError
from forebay_lab.process import Process, Usage, free_port, service_directory


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    """New directories are private."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_servers_get_to_their_directories(tmp_path: Path, narrow_umask: None) -> None:
    made = service_directory(tmp_path / "data" / "work" / "1")
    for folder in (made, made.parent, made.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o755, folder


def test_process_is_awaited_and_ended(tmp_path: Path) -> None:
    program = "import time; print('ready on port 7', flush=True); time.sleep(3600)"
    with Process("sleeper", [sys.executable, "-c", program], tmp_path, keep_user=True) as process:
        assert process.wait_for_line(r"^ready on port (\d+)$")[1] == "7"
        assert process.usage().ticks_s >= 0
    assert not process.is_running()
    with pytest.raises(LabError, match="sleeper has ended"):
        process.usage()


def test_process_that_ends_early_is_told_with_its_output(tmp_path: Path) -> None:
    with Process("failing", [sys.executable, "-c", "print('no such thing')"], tmp_path, keep_user=True) as process:
        with pytest.raises(LabError, match="no such thing"):
            process.wait_for_line("^ready$")


def test_time_of_threads_that_have_ended_is_told_in_ticks() -> None:
    earlier = Usage({1: 100, 2: 200}, ticks_s=0.05, read_bytes=10)
    assert Usage({1: 150, 2: 200, 3: 7}, ticks_s=0.06, read_bytes=15).cpu_since(earlier) == pytest.approx(57e-9)
    assert Usage({1: 150}, ticks_s=0.08, read_bytes=15).cpu_since(earlier) == pytest.approx(0.03)
    assert Usage({1: 150}, ticks_s=0.08, read_bytes=15).bytes_since(earlier) == 5


def test_ports_are_below_those_of_outgoing_connections() -> None:
    assert 21000 <= free_port() < 29000
