"""The commands of docs/sizing.md, in their order."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from harness.ground import Ground

DOCUMENT = Path(__file__).parents[2] / "docs" / "sizing.md"


def commands() -> list[str]:
    """The blocks of commands."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    return [str(block) for block in blocks]


def test_each_command_of_the_document_works(ground: Ground) -> None:
    folder = ground.directory("document")
    environment = {**os.environ, "PATH": f"{ground.forebay.parent}:{os.environ['PATH']}"}
    printed = []
    for command in commands():
        result = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", command],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert result.returncode == 0, (command, result.stderr)
        printed.append(result.stdout)
    assert len(printed) >= 4, "the document has commands"
    simulated = next(text for text in printed if "Effect of more disk" in text)
    assert re.search(r"lru +40\.0 TB \(present\)", simulated)
    assert "20.0 TB more saves" in simulated
    assert "per TB saved" in simulated
    assert "MINIAODSIM" in simulated
    jobs = next(text for text in printed if "input from" in text)
    assert re.search(r"cache +1 +1\.0 +0\.8 +77\.2 %", jobs)
    assert re.search(r"origin +1 +1\.0 +0\.7 +70\.4 % .* 0\.1 +4\.4 %", jobs)
    anonymous = (folder / "anonymous.csv").read_text()
    assert "user000" not in anonymous
    assert "Process" not in anonymous
