"""Warm data in memory: its file system, the room for it, and what rows say about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forebay_lab import memory
from forebay_lab.errors import LabError


def test_the_file_system_of_a_path_is_known(memory_dir: Path) -> None:
    assert memory.file_system(memory_dir) == "tmpfs"
    assert memory.file_system(Path("/proc/self")) == "proc"
    assert memory.file_system(Path("/")) not in ("", "tmpfs", "proc")


def test_too_little_room_names_the_option(tmp_path: Path) -> None:
    memory.need_room(tmp_path, 1)
    with pytest.raises(LabError, match="--memory-dir"):
        memory.need_room(tmp_path, 1 << 60)


def test_the_counter_of_refaults_is_that_of_the_kernel() -> None:
    before = memory.refaults()
    [line] = [text for text in Path("/proc/vmstat").read_text().splitlines() if text.startswith(f"{memory.REFAULTS} ")]
    assert before <= int(line.split()[1]) <= memory.refaults()


def test_directories_of_ended_processes_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale, own, other = tmp_path / f"{ended.pid}-0", tmp_path / f"{os.getpid()}-0", tmp_path / "not-a-number"
    for directory in (stale, own, other):
        directory.mkdir()
    memory.remove_stale(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([own, other])


def test_rows_that_were_not_in_memory_are_counted() -> None:
    row = {"setup": "forebay-warm", "warm_store": "tmpfs", memory.BEFORE: 5}
    rows = [{**row, memory.AFTER: after} for after in (5, 1005, 1006)]
    cold = {**rows[-1], "setup": "forebay-cold"}
    assert memory.note([*rows, cold]).endswith("1 of 3 rows with warm data had more than 1000 refaults.")
    assert "on tmpfs" in memory.note(rows)
    assert memory.note([{"setup": "local"}]) == "The rows do not record workingset_refault_file."
    assert memory.note([cold]) == ""
