"""Running event loops: each in a fresh process, so that nothing of an earlier one is left in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from .engines.job import PREFIX, Job, Result
from .errors import LabError
from .programs import Programs

ENGINES = {"pyroot": "pyroot", "rdataframe": "rdataframe", "uproot": "uproot_loop"}
"""Names of engines, and the modules that are them."""

JOB_SECONDS = 3600
SOURCES = Path(__file__).resolve().parents[1]


def supports(engine: str, kind: str) -> bool:
    """Whether an engine reads a kind of file: the loop over entries of a TTree reads nothing else."""
    return kind == "ttree" or (kind == "rntuple" and engine != "pyroot")


def run(programs: Programs, engine: str, job: Job, *, enter: Sequence[str] = ()) -> Result:
    """Runs a job to its end, where the command `enter` leads."""
    python, paths = str(programs.root_python), [str(SOURCES)]
    if engine == "uproot":
        # Our own interpreter, with whatever this process was given.
        python, paths = sys.executable, [*paths, *filter(None, [os.environ.get("PYTHONPATH")])]
    module = f"forebay_lab.engines.{ENGINES[engine]}"
    with tempfile.TemporaryDirectory(prefix="forebay-lab-") as directory:
        whole = replace(job, output=str(Path(directory) / "histograms.root"))
        command = [*enter, python, "-W", "ignore", "-m", module, json.dumps(asdict(whole))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                cwd=directory,
                timeout=JOB_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{engine} did not read {job.url} within {JOB_SECONDS} s") from error
    lines = [line for line in done.stdout.splitlines() if line.startswith(PREFIX)]
    if done.returncode != 0 or len(lines) != 1:
        raise LabError(f"{engine} failed on {job.url}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return Result(**json.loads(lines[0].removeprefix(PREFIX)))
