"""Options that several experiments share."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from .deadline import Deadline
from .errors import LabError
from .memory import default_directory, remove_stale
from .process import service_directory
from .programs import Programs
from .servers import Work

REPETITIONS = 10
REPETITIONS_QUICK = 1
SEED = 13

NUMBERS = count()


@dataclass(frozen=True)
class Place:
    """The directories and the name of an experiment."""

    run: Path
    data: Path
    memory: Path

    @contextmanager
    def work(self) -> Iterator[Work]:
        """Directories for servers and their stores, which are removed at the end."""
        remove_stale(self.memory)
        name = f"{os.getpid()}-{next(NUMBERS)}"
        disk, warm = service_directory(self.data / "work" / name), service_directory(self.memory / name)
        try:
            yield Work(disk, warm)
        finally:
            shutil.rmtree(disk, ignore_errors=True)
            shutil.rmtree(warm, ignore_errors=True)


def add_place(parser: argparse.ArgumentParser) -> None:
    """Where results go and input files are kept."""
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="directory of all runs (default: %(default)s)"
    )
    parser.add_argument(
        "--name", help="this run's directory there; one that exists is gone on with (default: the date)"
    )
    add_data(parser)
    parser.add_argument(
        "--memory-dir",
        type=Path,
        default=default_directory(),
        help="a directory on a tmpfs for local files and the stores of warm caches (%(default)s)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help="begin no measurement after this time; the same command resumes (default: no limit)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="does everything once with little data; times mean nothing"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """The directory of input files, and their seed."""
    default = Path(f"/var/tmp/forebay-lab-{os.getuid()}")
    parser.add_argument(
        "--data-dir", type=Path, default=default, help="input files and caches, on a disk all may reach (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="seed of inputs and orders (%(default)s)")


def add_programs(parser: argparse.ArgumentParser) -> None:
    """Which programs take part."""
    parser.add_argument("--forebay", type=Path, default=Programs.default_forebay(), help="the binary (%(default)s)")
    parser.add_argument(
        "--root-python", type=Path, default=Programs.default_root_python(), help="a Python with ROOT (%(default)s)"
    )
    parser.add_argument(
        "--bench-dir",
        type=Path,
        default=Programs.default_benchmarks(),
        help="where forebay-bench and forebay-wan are (%(default)s)",
    )
    parser.add_argument(
        "--xcache",
        choices=("lab", "default"),
        default="lab",
        help="XCache without prefetching, for cold reads, or with its defaults (default: %(default)s)",
    )


def add_repetitions(parser: argparse.ArgumentParser) -> None:
    """How often each measurement is repeated."""
    parser.add_argument(
        "--repetitions",
        type=positive,
        help=f"of each measurement (default: {REPETITIONS}; {REPETITIONS_QUICK} if quick)",
    )


def repetitions(options: argparse.Namespace) -> int:
    """How often each measurement is repeated."""
    given: int | None = options.repetitions
    return given or (REPETITIONS_QUICK if options.quick else REPETITIONS)


def place(options: argparse.Namespace) -> Place:
    """Reads what `add_place` has added."""
    name = options.name or f"{datetime.now(UTC):%Y-%m-%d}{'-quick' if options.quick else ''}"
    if "/" in name or name.startswith("."):
        raise LabError(f"--name {name}: a name, not a path; --runs-dir chooses the directory")
    return Place(options.runs_dir / name, options.data_dir.resolve(), options.memory_dir.resolve())


def deadline(options: argparse.Namespace) -> Deadline:
    """The end of the time for measuring, from now."""
    return Deadline.after(options.minutes)


def programs(options: argparse.Namespace) -> Programs:
    """Reads what `add_programs` has added."""
    return Programs.find(options.forebay, options.root_python, options.bench_dir)


def positive(text: str) -> int:
    """A whole number above 0."""
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def numbers(text: str) -> list[int]:
    """A list such as `1,100,1000`."""
    return [positive(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    """A list such as `direct,forebay-warm`."""
    return text.split(",")


def known(option: str, given: list[str], names: Collection[str]) -> list[str]:
    """The given names, all of which must be known."""
    for name in given:
        if name not in names:
            raise LabError(f"{option} {name}: not one of {', '.join(names)}")
    return given


def milliseconds(text: str) -> list[float]:
    """A list such as `0.2,9,150`."""
    values = [float(part) for part in text.split(",")]
    if min(values) < 0:
        raise argparse.ArgumentTypeError("must not be below 0")
    return values
