#!/usr/bin/env python3
"""Opens of many files, single streams, random lengths, page reads and cold reads: servers in turn, on one machine.

    forebay-bench and the programs are named by options; see --help. Needs root, an idle machine, and memory for --dir.

Servers: xrootd as a file server (also the origin of all caches), XCache, and builds of Forebay, each with a name. All files and stores lie
on a file system in memory. The data files of all stores are hard links to the same files, so that many take little memory; records are
copies. Warm rows run on servers that stay up; each cold sample has a new server with an empty store. The servers take turns within a
round, in an order that rotates. Each row has the CPU of its server for each operation, with 1.5 s after the load: closed files leave the
table then. Uses are written to records ten minutes later, which is not included. `refaults` are pages that the machine read again
during the sample (`workingset_refault_file`): a sample with many of them is not one of memory.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERTZ = os.sysconf("SC_CLK_TCK")
USER = "daemon"  # xrootd refuses to run as root

FEW = 2000
LARGE_MIB = 64
COLD_FILES = 4000
COLD_MIB = 512
SETTLE_S = 1.5

LARGE = ["/large", "--file-size", f"{LARGE_MIB}MiB"]
OPENS = ["--operation", "open-stat-close", "--connections", "8"]
WARM_ROWS: dict[str, list[str]] = {
    "opens-few": ["--store-files", str(FEW), *OPENS],
    "opens-many": ["--store-files", "MANY", *OPENS],
    "synchronous": [*LARGE, "--size", "4KiB"],
    "random-lengths": [*LARGE, "--size", "128KiB", "--order", "random-lengths", "--connections", "64"],
    "pgread-1m": [*LARGE, "--size", "1MiB", "--operation", "pgread", "--order", "sequential", "--connections", "8"],
}
COLD_SEQUENTIAL = ["/cold", "--file-size", f"{COLD_MIB}MiB", "--size", "8MiB", "--order", "sequential", "--pipeline", "4"]
COLD_ROWS: dict[str, list[str]] = {
    "cold-small": [
        *["--store-files", str(COLD_FILES), "--operation", "open-read-close", "--connections", "8"],
        *["--operations", str(COLD_FILES)],
    ],
    "cold-sequential": [*COLD_SEQUENTIAL, "--operations", str(COLD_MIB // 8)],
}
# Row, what is compared, with which server, and the factor that is not to be exceeded (rates: to be reached).
GOALS = [
    ("opens-few", "cpu_us", "plain", 1.1),
    ("opens-many", "cpu_us", "plain", 1.1),
    ("synchronous", "cpu_us", "plain", 1.1),
    ("synchronous", "p50_us", "plain", 1.1),
    ("random-lengths", "cpu_us", "plain", 1.0),
    ("pgread-1m", "cpu_us", "xcache", 0.5),
    ("cold-small", "rate", "xcache", 10.0),
    ("cold-sequential", "rate", "xcache", 1.3),
    ("cold-sequential", "cpu_us", "xcache", 0.8),
]


@dataclass
class Setup:
    bench: str
    directory: Path
    many: int
    memory: str
    programs: dict[str, str]

    @property
    def files(self) -> Path:
        return self.directory / "files"

    @property
    def records(self) -> Path:
        return self.directory / "records"


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def make_files(setup: Setup) -> None:
    """The origin's files, and the records that say of them that they are cached."""
    most = max(setup.many, FEW, COLD_FILES)
    state = os.statvfs(setup.directory)
    caches = len(setup.programs) - 1
    needed = most * (2 + caches)  # data, records, and copies of these
    if state.f_favail and state.f_favail < needed + 10_000:
        sys.exit(f"{setup.directory} has {state.f_favail} inodes left, {needed} are needed: use a smaller --many, or a tmpfs with more")
    run(setup.bench, "make-store", setup.files, "--files", str(most))
    for folder in sorted((setup.files / "bench").iterdir()):
        target = setup.records / "bench" / folder.name
        target.mkdir(parents=True)
        for record in folder.glob("*.cinfo"):
            record.rename(target / record.name)
    run(setup.bench, "make-file", setup.files / "large", f"{LARGE_MIB}MiB")
    run(setup.bench, "make-file", setup.files / "cold", f"{COLD_MIB}MiB")
    own(setup.files)


def make_store(setup: Setup, store: Path) -> None:
    """A store that holds all files of /bench: data by hard links, records by copies."""
    for folder in sorted((setup.files / "bench").iterdir()):
        target = store / "bench" / folder.name
        target.mkdir(parents=True)
        for data in os.scandir(folder):
            os.link(data.path, target / data.name)
    run("cp", "-a", setup.records / "bench", store)


def own(path: Path) -> None:
    run("chown", "-R", f"{USER}:", path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def refaults() -> int:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("workingset_refault_file"))


class Server:
    """A server that runs until it is stopped."""

    def __init__(self, setup: Setup, name: str, origin: int, *, is_cold: bool = False) -> None:
        self.setup, self.name, self.port = setup, name, free_port()
        self.directory = setup.directory / ("cold-" + name if is_cold else name)
        self.directory.mkdir()
        store, program = self.directory / "store", setup.programs[name]
        environment = dict(os.environ)
        if name != "plain":
            store.mkdir()
            if not is_cold:
                make_store(setup, store)
        if name in ("plain", "xcache"):
            lines = [f"xrd.port {self.port}", "all.export / r/o"]
            lines += [f"all.adminpath {self.directory}", f"all.pidpath {self.directory}"]
            if name == "plain":
                lines.append(f"oss.localroot {setup.files}")
            else:
                lines += [f"oss.localroot {store}", "ofs.osslib libXrdPss.so", "pss.cachelib libXrdPfc.so"]
                lines += [f"pss.origin 127.0.0.1:{origin}", "pfc.ram 1g", "pfc.diskusage 0.98 0.99", "pfc.prefetch 0"]
            (self.directory / "cfg").write_text("\n".join(lines) + "\n")
            own(self.directory)
            prefix = Path(program).resolve().parent.parent
            if not prefix.is_relative_to("/usr"):
                environment["LD_LIBRARY_PATH"] = f"{prefix}/lib:{prefix}/lib64"
            arguments, user = [program, "-c", str(self.directory / "cfg")], USER
        else:
            arguments = [program, "serve", "--listen", f"127.0.0.1:{self.port}", "--store", str(store)]
            arguments += ["--origin", f"root://127.0.0.1:{origin}", "--budget", "1TiB", "--memory", setup.memory]
            user = pwd.getpwuid(os.getuid()).pw_name
        with (self.directory / "log").open("w") as log:
            self.process = subprocess.Popen(arguments, env=environment, stdout=log, stderr=log, cwd=self.directory, user=user)
        self.await_port()

    def await_port(self) -> None:
        for _ in range(1200):
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.05)
        sys.exit(f"{self.name} does not start: see {self.directory / 'log'}")

    def load(self, arguments: list[str], settle_s: float = SETTLE_S) -> dict[str, Any]:
        before, again, start = cpu_s(self.process.pid), refaults(), time.time()
        command = [self.setup.bench, "load", f"127.0.0.1:{self.port}", *arguments]
        done = subprocess.run(command, check=True, capture_output=True)
        report: dict[str, Any] = json.loads(done.stdout)
        time.sleep(settle_s)
        report["cpu_us"] = (cpu_s(self.process.pid) - before) * 1e6 / report["operations"]
        report["rate"] = report["operations"] / report["wall_s"]
        report["refaults"] = refaults() - again
        return report | {"server": self.name, "at": round(start), "load1": os.getloadavg()[0]}

    def await_quiet(self) -> None:
        """Waits until the server is done with what it does at the start: the index of its store."""
        while True:
            before = cpu_s(self.process.pid)
            time.sleep(1)
            if cpu_s(self.process.pid) - before < 0.05:
                return

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()


def rotated(names: list[str], by: int) -> list[str]:
    by %= len(names)
    return names[by:] + names[:by]


def measure_warm(setup: Setup, row: str, servers: dict[str, Server], options: argparse.Namespace) -> list[dict[str, Any]]:
    arguments = [str(setup.many) if argument == "MANY" else argument for argument in WARM_ROWS[row]]
    for server in servers.values():
        # Everything is fetched, and every record read, before anything is measured.
        if "/large" in arguments:
            once = [*LARGE, "--size", "1MiB", "--order", "sequential", "--operations", str(2 * LARGE_MIB)]
        else:
            once = [*arguments, "--operations", arguments[1]]
        server.load(once, settle_s=0)
    for server in servers.values():
        server.await_quiet()
    rows = []
    for turn in range(options.rounds):
        for name in rotated(list(servers), turn):
            report = servers[name].load([*arguments, "--seconds", str(options.seconds)])
            rows.append(report | {"row": row, "round": turn})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure_cold(setup: Setup, row: str, origin: Server, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for turn in range(rounds):
        for name in rotated(list(setup.programs), turn):
            server = origin if name == "plain" else Server(setup, name, origin.port, is_cold=True)
            try:
                report = server.load(COLD_ROWS[row])
            finally:
                if server is not origin:
                    server.stop()
                    shutil.rmtree(server.directory)
            rows.append(report | {"row": row, "round": turn})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> None:
    def middle(row: str, server: str, field: str) -> float | None:
        mine = [report[field] for report in rows if (report["row"], report["server"]) == (row, server)]
        return statistics.median(mine) if mine else None

    print("\n| row | server | CPU µs | p50 µs | p99 µs | operations/s | refaults |\n|---|---|---:|---:|---:|---:|---:|")
    for row, server in dict.fromkeys((report["row"], report["server"]) for report in rows):
        cells = [middle(row, server, field) or 0 for field in ("cpu_us", "p50_us", "p99_us", "rate")]
        most = max(report["refaults"] for report in rows if (report["row"], report["server"]) == (row, server))
        print(f"| {row} | {server} | {cells[0]:.1f} | {cells[1]:.0f} | {cells[2]:.0f} | {cells[3]:,.0f} | {most} |")
    print("\n| row | compared | with | goal | result |\n|---|---|---|---:|---|")
    forebays = [name for name in dict.fromkeys(report["server"] for report in rows) if name not in ("plain", "xcache")]
    for row, field, other, factor in GOALS:
        base = middle(row, other, field)
        results = [(name, middle(row, name, field)) for name in forebays]
        if base and all(result for _, result in results):
            ratios = ", ".join(f"{name} {(result or 0) / base:.2f}" for name, result in results)
            print(f"| {row} | {field} | {other} | {'≥' if field == 'rate' else '≤'} {factor} | {ratios} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+", metavar="NAME=PROGRAM", help="plain=…, xcache=… and builds of forebay by any name")
    parser.add_argument("--bench", required=True, help="the program forebay-bench")
    parser.add_argument("--rows", default=",".join([*WARM_ROWS, *COLD_ROWS]))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--many", type=int, default=200_000, help="files of the row opens-many")
    parser.add_argument("--memory", default="1GiB", help="memory of forebay: a quarter of it is for closed files, 1,400 to each MiB")
    parser.add_argument("--dir", type=Path, default=Path("/dev/shm/forebay-opens"))
    parser.add_argument("--out", type=Path, help="file for the raw rows")
    options = parser.parse_args()
    programs = dict(server.split("=", 1) for server in options.servers)
    if "plain" not in programs:
        parser.error("plain is needed: it is the origin")
    names = options.rows.split(",")
    many = options.many if "opens-many" in names else FEW
    setup = Setup(options.bench, options.dir, many, options.memory, programs)
    shutil.rmtree(setup.directory, ignore_errors=True)
    setup.directory.mkdir(parents=True)
    setup.directory.chmod(0o755)
    servers: dict[str, Server] = {}
    rows: list[dict[str, Any]] = []
    try:
        make_files(setup)
        servers["plain"] = Server(setup, "plain", 0)
        cold = [name for name in names if name in COLD_ROWS]
        for name in cold:
            rows += measure_cold(setup, name, servers["plain"], options.rounds)
        if len(cold) < len(names):
            for name in programs:
                if name != "plain":
                    servers[name] = Server(setup, name, servers["plain"].port)
        for name in names:
            if name in WARM_ROWS:
                rows += measure_warm(setup, name, servers, options)
    finally:
        for server in reversed(servers.values()):
            server.stop()
        shutil.rmtree(setup.directory, ignore_errors=True)
        if options.out:
            options.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    table(rows)


if __name__ == "__main__":
    main()
