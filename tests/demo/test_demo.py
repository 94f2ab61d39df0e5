"""The demo: a cold pass saves nothing, warm ones everything, and the printed commands work as printed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from harness.ground import REPOSITORY, Ground
from harness.process import Process

COMMAND_SECONDS = 400.0


def test_demo_prints_an_honest_table_and_commands_that_work(ground: Ground, tmp_path: Path) -> None:
    directory = ground.directory("demo")
    # As root it must be able to read the interpreter, which may be below a home directory.
    argv = [sys.executable, "-u", "-m", "demo", str(ground.forebay), str(directory)]
    demo = Process("demo", argv, directory, env={"PYTHONPATH": str(REPOSITORY)}, keep_root=True)
    try:
        demo.wait_for_line("^Both servers stay up", within=COMMAND_SECONDS)
        output = demo.output()
        ratios = re.findall(r"^(cold|warm|once more) .* (\d+)%$", output, re.MULTILINE)
        assert ratios == [("cold", "0"), ("warm", "100"), ("once more", "100")], output
        commands = re.findall(r"^  (\S.*)$", output, re.MULTILINE)
        assert len(commands) >= 2, output
        for command in commands:
            done = subprocess.run(
                command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    finally:
        demo.signal(signal.SIGINT)
        assert demo.wait() == 0, demo.tail()
