"""The commands of docs/http.md work as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import xrootd
from harness.content import assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.root_files import make_tree

DOCUMENT = Path(__file__).parents[2] / "docs" / "http.md"


def blocks(kind: str) -> list[str]:
    """The blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def test_the_commands_of_the_document_work(cache_of: Callable[..., Forebay], ground: Ground) -> None:
    data = ground.directory("document")
    file = data / "store/data/events.root"
    file.parent.mkdir(parents=True)
    make_tree(file)
    cache = cache_of(xrootd.plain(ground, data).url)
    place = ground.directory("commands")
    path = f"{ground.forebay.parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "GFAL_PYTHONBIN": "/usr/bin/python3", "RCLONE_CONFIG": "/dev/null"}
    (commands,) = blocks("sh client")
    for line in commands.strip().splitlines():
        command = line.replace("cache.example.org:1094", cache.address)
        done = subprocess.run(
            ["bash", "-c", f"set -e; {command}"],
            cwd=place,
            env=env,
            capture_output=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    for name in ("events.root", "copy.root", "copies/events.root"):
        assert_same((place / name).read_bytes(), file.read_bytes(), name)
    (script,) = blocks("python")
    script = script.replace("cache.example.org:1094", cache.address)
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=120)
    assert shown.stdout.decode().endswith("events\n")
