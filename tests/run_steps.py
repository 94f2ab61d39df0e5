"""Runs the steps of `make test` in three lanes, and ends with a table of steps, tests and times.

Two lanes compile, the third mostly waits for programs that it drives. Each step is a target of the Makefile and can be
run alone. The output of a step goes to target/steps/STEP.log, and to the terminal when the step fails.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LOGS = REPOSITORY / "target" / "steps"
LAST_LINES = 120
# How the tools of the steps report tests that passed.
COUNTS = (
    r"^test result: ok\. (\d+) passed",
    r"^=+ .*?(\d+) passed",
    r"^100% tests passed.* out of (\d+)",
)
NEEDS = """\
make test installs, where missing, Debian packages ({packages}),
Python packages into .venv and others (2.3 GB), and compiles into target/ (4 GB). Files of tests are below /tmp.
On 2 cores it takes {minutes} minutes from a clean clone; the disk needs {disk_gb} GB ({free_gb} GB are free)."""
MINUTES = "25 to 60"
DISK_GB = 45


@dataclass(eq=False)
class Step:
    """A target of the Makefile, and the steps that must have passed before it starts."""

    name: str
    after: tuple[str, ...] = ()
    seconds: float = 0.0
    processor_seconds: float = 0.0
    tests: int = 0
    state: str = "not run"
    passed: threading.Event = field(default_factory=threading.Event)

    @property
    def log(self) -> Path:
        """The output of the step."""
        return LOGS / f"{self.name}.log"


@dataclass(frozen=True)
class Lane:
    """Steps that run one after the other, and how far they give way to other lanes."""

    steps: Sequence[str]
    niceness: int


LANES = [
    # It gives way: programs under test answer clients that wait for them.
    Lane(["format", "tidy", "bench-tools", "clippy", "unit", "doc"], 15),
    # The programs wait for it. Most of it runs on one processor.
    Lane(["build"], 0),
    Lane(["setup", "python-lint", "plugin", "deb", "blackbox", "lab-test", "costs"], 0),
]
AFTER = {"deb": ("build",), "blackbox": ("build", "bench-tools")}


class Run:
    """The steps of one run."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.steps = {name: Step(name, AFTER.get(name, ())) for lane in lanes for name in lane.steps}
        self.lanes = lanes
        self.failed: Step | None = None
        self.running: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()

    def run(self) -> bool:
        """Runs all lanes side by side; says whether every step passed."""
        LOGS.mkdir(parents=True, exist_ok=True)
        threads = [threading.Thread(target=self._run_lane, args=(lane,)) for lane in self.lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.failed is None

    def _run_lane(self, lane: Lane) -> None:
        for name in lane.steps:
            step = self.steps[name]
            for other in filter(self.steps.get, step.after):
                while not self.steps[other].passed.wait(0.2):
                    if self.failed is not None:
                        return
            if self.failed is not None or not self._run_step(step, lane.niceness):
                return

    def _run_step(self, step: Step, niceness: int) -> bool:
        say(f"{step.name} ...")
        started = time.monotonic()
        with step.log.open("wb") as log:
            command = ["nice", "-n", str(niceness), "make", "--no-print-directory", "READY=1", step.name]
            with self.lock:
                if self.failed is not None:
                    return False
                process = subprocess.Popen(
                    command, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
                self.running.add(process)
            status, step.processor_seconds = wait_with_usage(process)
        step.seconds = time.monotonic() - started
        step.tests = count_tests(step.log.read_text(errors="replace"))
        with self.lock:
            self.running.discard(process)
            if status != 0:
                is_first = self.failed is None
                step.state = "FAILED" if is_first else "stopped"
                if is_first:
                    self.failed = step
                    self._stop_others()
                return False
        step.state = "passed"
        say(f"{step.name}: passed in {step.seconds:.0f} s")
        step.passed.set()
        return True

    def stop(self) -> None:
        """Ends everything that runs."""
        with self.lock:
            self.failed = self.failed or next(iter(self.steps.values()))
            self._stop_others()

    def _stop_others(self) -> None:
        for process in self.running:
            # The step's programs are in its session, and stop what they have started.
            os.killpg(process.pid, signal.SIGTERM)

    def table(self) -> str:
        """Steps, tests and times."""
        rows = [f"{'step':<14}{'result':<10}{'tests':>7}{'seconds':>9}{'processor':>11}"]
        for step in self.steps.values():
            tests = str(step.tests) if step.tests else ""
            rows.append(f"{step.name:<14}{step.state:<10}{tests:>7}{step.seconds:>9.0f}{step.processor_seconds:>11.0f}")
        return "\n".join(rows)


def wait_with_usage(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Waits for a process; its status, and the processor time of it and its descendants in seconds."""
    _, status, used = os.wait4(process.pid, 0)
    # So that nothing else waits for it, or sends a signal to another process of this number.
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def count_tests(output: str) -> int:
    """Tests that passed, as the tools report them."""
    return sum(int(count) for pattern in COUNTS for count in re.findall(pattern, output, flags=re.MULTILINE))


def say(line: str) -> None:
    """Prints at once, also into a file."""
    print(line, flush=True)


def announce() -> None:
    """States what will be installed, how long it takes, and how much disk space it needs."""
    listing = subprocess.run(
        [REPOSITORY / "tests" / "install-tools.sh", "--list"], check=True, capture_output=True, text=True
    )
    free_gb = shutil.disk_usage(REPOSITORY).free // 10**9
    packages = " ".join(listing.stdout.split()) or "none is missing"
    say(NEEDS.format(packages=packages, minutes=MINUTES, disk_gb=DISK_GB, free_gb=free_gb))


def main() -> int:
    """Runs the steps that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("steps", nargs="*", help="run only these steps")
    chosen = parser.parse_args().steps
    lanes = [Lane([name for name in lane.steps if not chosen or name in chosen], lane.niceness) for lane in LANES]
    announce()
    started = time.monotonic()
    # Before the lanes part: the compiler does not wait for all that the tests need.
    subprocess.run([REPOSITORY / "tests" / "install-tools.sh", "--build-only"], check=True)
    run = Run([lane for lane in lanes if lane.steps])
    signal.signal(signal.SIGTERM, lambda *_: run.stop())
    try:
        passed = run.run()
    except KeyboardInterrupt:
        run.stop()
        return 130
    if run.failed is not None:
        lines = run.failed.log.read_text(errors="replace").splitlines()
        say("\n".join(lines[-LAST_LINES:]))
    say(run.table())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tests = sum(step.tests for step in run.steps.values())
    minutes = (time.monotonic() - started) / 60
    processor_minutes = (used.ru_utime + used.ru_stime) / 60
    say(f"{tests} tests, {minutes:.1f} minutes, {processor_minutes:.1f} minutes of processor time")
    if run.failed is not None:
        say(f"make test: {run.failed.name} failed, its output is in {run.failed.log.relative_to(REPOSITORY)}")
    else:
        say("make test: every step passed")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
