"""The virtual file system of desktops (gvfs) reads through the cache."""

from __future__ import annotations

import os
import subprocess

import pytest

from harness.content import assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program

from .conftest import FILE, FILES


@pytest.mark.parametrize("scheme", ["dav", "http"])
def test_gio_lists_and_copies(scheme: str, cache: Forebay, ground: Ground) -> None:
    home = ground.directory("desktop")
    env = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "XDG_DATA_HOME": str(home)}
    url = f"{scheme}://{cache.address}"
    steps = [f"gio copy {url}{FILE} {home}/{temperature}" for temperature in ("cold", "warm")]
    if scheme == "dav":
        steps = [f"gio mount {url}/", f"gio list --long {url}/data/", *steps]
    done = subprocess.run(
        [program("dbus-run-session"), "--", "sh", "-ec", "\n".join(steps)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for temperature in ("cold", "warm"):
        assert_same((home / temperature).read_bytes(), FILES[FILE].all(), temperature)
    if scheme == "dav":
        listed = {line.split("\t")[0]: line.split("\t")[1:3] for line in done.stdout.splitlines()}
        assert listed["file.bin"] == [str(FILES[FILE].size), "(regular)"]
        assert listed["sub"][1] == "(directory)"
