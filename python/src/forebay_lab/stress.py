"""Jobs of `forebay-bench` against one server, with the traffic on both sides of it second by second."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import LabError
from .memory import AFTER, BEFORE, file_system, need_room, refaults
from .process import service_directory
from .programs import Programs
from .run import Row
from .servers import Server, Servers, settle

LOAD_SECONDS = 7200
COPY_SECONDS = 600


@dataclass(frozen=True)
class Load:
    """The load of a job. Numbers, lengths and offsets of ranges are random; ranges have up to 128 KiB."""

    files_per_job: float
    file_mib: int
    visits: int
    ranges: int
    vector: int
    """Most ranges of one read; with 1 each range is a read of its own."""

    def files(self, jobs: int) -> int:
        """Files that so many jobs choose from."""
        return max(1, round(self.files_per_job * jobs))


@dataclass(frozen=True)
class Data:
    """The files that jobs choose from."""

    directory: Path
    paths: list[str]


def prepare(programs: Programs, directory: Path, load: Load, files: int, say: Callable[[str], None]) -> Data:
    """Makes the files that are not there yet. Their contents follow from their names, so that jobs can compare them."""
    folder = service_directory(directory / "stress" / f"{load.file_mib}MiB")
    paths = [f"/stress-{number}" for number in range(files)]
    for path in paths:
        file = folder / path[1:]
        if file.is_file() and file.stat().st_size == load.file_mib << 20:
            continue
        command: list[str | Path] = [programs.bench, "make-file", file, f"{load.file_mib}MiB"]
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=COPY_SECONDS, check=True)
        file.chmod(0o644)
    say(f"{files} files of {load.file_mib} MiB in {folder}")
    return Data(folder, paths)


class Scene:
    """An origin of the files, and caches in front of it. Use as a context manager."""

    def __init__(self, servers: Servers, data: Data, load: Load) -> None:
        self.servers = servers
        self.data = data
        self.load = load
        self._stack = ExitStack()
        self._filled: dict[str, Server] = {}
        self._held: dict[str, int] = {}
        """How many of the files, from the first on, each warm cache holds."""

    def __enter__(self) -> Scene:
        self.origin = self._stack.enter_context(self.servers.origin(self.data.directory))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def measure(self, setup: str, jobs: int, seed: int) -> Row:
        """Runs the jobs in a set-up. The row records a server that does not survive them."""
        paths = self.data.paths[: self.load.files(jobs)]
        with self._target(setup, paths) as server:
            settle(self.origin, server)
            before, origin_before = server.usage(), self.origin.usage()
            client_before, lost = _children_cpu_s(), refaults()
            rows, taken = self._run(server, paths, jobs, seed)
            lost_after = refaults()
            survived = server.process.is_running()
            settle(self.origin, *([server] if survived else []))
            origin_after = self.origin.usage()
            (summary,) = (row for row in rows if row["kind"] == "summary")
            each = [row for row in rows if row["kind"] == "job"]
            wall_s = float(summary["wall_s"])
            return {
                "setup": setup,
                "jobs": jobs,
                **self.servers.path.facts,
                "files": len(paths),
                **asdict(self.load),
                "xcache": self.servers.xcache_settings,
                "warm_store": file_system(self.servers.warm_directory),
                BEFORE: lost,
                AFTER: lost_after,
                "wall_s": wall_s,
                "cpu_s": _children_cpu_s() - client_before,
                "server_cpu_s": server.usage().cpu_since(before) if survived else None,
                "server_survived": survived,
                "origin_cpu_s": origin_after.cpu_since(origin_before),
                "origin_bytes": origin_after.bytes_since(origin_before),
                "read_bytes": summary["bytes"],
                "megabytes_per_s": summary["bytes"] / wall_s / 1e6,
                "reads": summary["reads"],
                "read_p99_us": summary["read_p99_us"],
                "jobs_failed": sum(row["error"] is not None for row in each),
                "first_error": summary["first_error"],
                "out_per_s": [row["received_bytes"] for row in rows if row["kind"] == "second"],
                "in_per_s": taken,
            }

    def _run(
        self, server: Server, paths: Sequence[str], jobs: int, seed: int
    ) -> tuple[list[dict[str, Any]], list[int]]:
        """The rows of the jobs, and the bytes from the origin in each second."""
        with tempfile.TemporaryDirectory(prefix="forebay-lab-") as directory:
            out = Path(directory) / "rows.jsonl"
            command = [
                *self.servers.path.near.enter,
                str(self.servers.programs.bench),
                "jobs",
                f"root://{server.address}",
            ]
            command += [*paths, "--file-size", f"{self.load.file_mib}MiB", "--jobs", str(jobs)]
            command += ["--visits", str(self.load.visits), "--ranges", str(self.load.ranges)]
            command += ["--seed", str(seed), "--out", str(out)]
            command += ["--vector", str(self.load.vector)] if self.load.vector > 1 else []
            with (Path(directory) / "log").open("w+") as log:
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                try:
                    taken = self._watch_origin(child)
                finally:
                    child.kill()
                    child.wait()
                log.seek(0)
                if child.returncode != 0:
                    raise LabError(f"the jobs against {server.kind} ended early: {log.read()[-2000:]}")
            return [json.loads(line) for line in out.read_text().splitlines()], taken

    def _watch_origin(self, child: subprocess.Popen[bytes]) -> list[int]:
        taken: list[int] = []
        last = self.origin.usage()
        started = time.monotonic()
        while child.poll() is None:
            if len(taken) > LOAD_SECONDS:
                raise LabError(f"the jobs have not ended after {LOAD_SECONDS} s")
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, started + len(taken) + 1 - time.monotonic()))
            now = self.origin.usage()
            taken.append(now.bytes_since(last))
            last = now
        return taken

    @contextmanager
    def _target(self, setup: str, paths: Sequence[str]) -> Iterator[Server]:
        cache, _, state = setup.partition("-")
        start = self.servers.forebay if cache == "forebay" else self.servers.xcache
        if setup == "direct":
            yield self.origin
        elif state == "cold":
            with start(self.origin) as server:
                yield server
        else:
            filled = self._filled.get(setup)
            if filled is None or not filled.process.is_running():
                filled = self._stack.enter_context(start(self.origin, warm=True))
                self._filled[setup], self._held[setup] = filled, 0
            new = paths[self._held[setup] :]
            if new:
                need_room(self.servers.warm_directory, len(new) * self.load.file_mib << 20)
                self.servers.copy_all(filled, new)
                self._held[setup] += len(new)
            yield filled


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
