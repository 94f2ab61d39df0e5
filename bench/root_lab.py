"""Servers on the hosts of an emulated network, and a client that records its waits, for `root_jobs.py`."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from root_scripts import JOBS

PORTS = {"origin": 21094, "cache": 21095, "admin": 21096}
START_SECONDS = 30.0
# Installed programs of XCache, by the name of the way.
XCACHES = {"xcache": Path("/usr")}
LOCAL = """congestion_control = "{congestion}"
[[path]]
ends = ["client", "cache"]
preset = "local"
"""
FAR = """[[path]]
ends = ["{end}", "origin"]
preset = "FZU-Pilsen"
rtt_ms = {rtt}
"""


def plan_of(rtt: str, congestion: str = "bbr") -> str:
    """The paths between client, cache and origin, with a round trip to the origin in milliseconds."""
    far = (FAR.format(end=end, rtt=rtt) for end in ("cache", "client"))
    return LOCAL.format(congestion=congestion) + "".join(far)


class Lab:
    """The hosts of the emulated network, and the servers on them."""

    def __init__(self, directory: Path, forebay: str, wan: str) -> None:
        self.directory, self.forebay, self.wan = directory, forebay, wan
        self.plan = json.loads(Path(os.environ["FOREBAY_WAN"]).read_text())

    def address(self, host: str, seen_from: str) -> str:
        """The address of a host on the path from another one."""
        for path in self.plan["paths"]:
            ends = {end["host"]: end["address"] for end in path["ends"]}
            if host in ends and seen_from in ends:
                return str(ends[host])
        raise SystemExit(f"no path from {seen_from} to {host}")

    def round_trip_s(self) -> float:
        """The round trip between cache and origin."""
        ends = ({end["host"] for end in path["ends"]} for path in self.plan["paths"])
        times = (path["rtt_ms"] for path in self.plan["paths"])
        return float(next(time for hosts, time in zip(ends, times, strict=True) if hosts == {"cache", "origin"})) / 1000

    def start(self, host: str, command: list[str], log: str) -> subprocess.Popen[bytes]:
        """Starts a program on a host."""
        with (self.directory / log).open("ab") as output:
            return subprocess.Popen([self.wan, "in", host, "--", *command], stdout=output, stderr=output)

    @contextmanager
    def origin(self, data: Path) -> Iterator[None]:
        """An xrootd with the files."""
        state = self.directory / "origin"
        state.mkdir()
        shutil.chown(state, "nobody")
        config = self.directory / "origin.cfg"
        paths = f"all.adminpath {state}\nall.pidpath {state}\n"
        config.write_text(f"all.export /\noss.localroot {data}\nxrd.port {PORTS['origin']}\n{paths}")
        as_nobody = ["runuser", "-u", "nobody", "--"]
        server = self.start("origin", [*as_nobody, "xrootd", "-c", str(config), "-n", "o"], "origin.log")
        try:
            wait_for_port(self.address("origin", "client"), PORTS["origin"])
            yield
        finally:
            stop(server)

    @contextmanager
    def xcache(self, way: str) -> Iterator[str]:
        """A cold XCache, as it is by default or with a longer prefetch (`NAME-tuned`)."""
        name, _, tuned = way.partition("-")
        store = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="root-jobs-"))
        shutil.chown(store, "nobody")
        origin = f"{self.address('origin', 'cache')}:{PORTS['origin']}"
        config = store.with_suffix(".cfg")
        state = self.directory / "xcache"
        state.mkdir(exist_ok=True)
        shutil.chown(state, "nobody")
        config.write_text(
            f"all.export /\nofs.osslib libXrdPss.so\npss.cachelib libXrdPfc.so\npss.origin {origin}\n"
            + ("pfc.prefetch 64\npfc.blocksize 512k\n" if tuned else "")
            + f"oss.localroot {store}\nall.adminpath {state}\nall.pidpath {state}\n"
            f"xrd.port {PORTS['cache']}\npfc.ram 1g\npfc.diskusage 0.98 0.99\n"
        )
        as_nobody = ["runuser", "-u", "nobody", "--"]
        program = [
            "env",
            f"LD_LIBRARY_PATH={XCACHES[name] / 'lib'}",
            str(XCACHES[name] / "bin" / "xrootd"),
        ]
        server = self.start("cache", [*as_nobody, *program, "-c", str(config), "-n", "x"], "xcache.log")
        try:
            address = self.address("cache", "client")
            wait_for_port(address, PORTS["cache"])
            yield f"root://{address}:{PORTS['cache']}/"
        finally:
            stop(server)
            shutil.rmtree(store)
            config.unlink()

    @contextmanager
    def forebay_cache(self, kind: str) -> Iterator[str]:
        """A cold cache; yields its URL."""
        store = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="root-jobs-"))
        origin = f"{self.address('origin', 'cache')}:{PORTS['origin']}"
        config = store.with_suffix(".toml")
        structure = kind.partition("-")[2]
        blocks = ""
        if structure == "off1m":
            structure, blocks = "off", 'block_size = "1MiB"\n'
        config.write_text(
            f'[server]\nlisten = ["0.0.0.0:{PORTS["cache"]}"]\n[admin]\nlisten = "0.0.0.0:{PORTS["admin"]}"\n'
            f'[store]\npath = "{store}"\n{blocks}[read_ahead]\nstructure = "{structure}"\n'
            f'[[export]]\norigins = ["root://{origin}"]\n'
        )
        server = self.start("cache", [self.forebay, "serve", "--config", str(config)], "cache.log")
        try:
            address = self.address("cache", "client")
            wait_for(f"http://{address}:{PORTS['admin']}/readyz")
            yield f"root://{address}:{PORTS['cache']}/"
        finally:
            stop(server)
            shutil.rmtree(store)
            config.unlink()

    def sent_bytes(self) -> int:
        """Bytes that the origin has sent, with headers of packets."""
        command = [self.wan, "in", "origin", "--", "cat", "/proc/self/net/dev"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [line.split() for line in shown.stdout.splitlines() if line.strip().startswith("wan")]
        return sum(int(line[9]) for line in lines)

    def origin_reads(self) -> int:
        """Read requests that the origin has got, of any kind."""
        server = f"root://{self.address('origin', 'client')}:{PORTS['origin']}"
        shown = subprocess.run(["xrdfs", server, "query", "stats", "p"], capture_output=True, text=True, check=True)
        return sum(int(count) for count in re.findall(r"<(?:rd|pr|rv|pg)>(\d+)</", shown.stdout))

    def metrics(self) -> dict[str, float]:
        """Requests to the origin, and megabytes in whole blocks that were fetched ahead in vain, as Forebay counts."""
        address = self.address("cache", "client")
        with urlopen(f"http://{address}:{PORTS['admin']}/metrics") as page:
            lines = page.read().decode().splitlines()

        def total(*parts: str) -> float:
            return sum(float(line.split()[-1]) for line in lines if all(part in line for part in parts))

        return {
            "origin_requests": total("forebay_origin_requests_total{"),
            "wasted_mb": total("forebay_read_ahead_bytes_total{", 'event="wasted"') / 1e6,
        }


def stop(server: subprocess.Popen[bytes]) -> None:
    """Ends a server."""
    server.terminate()
    server.wait()


def wait_for(url: str) -> None:
    """Waits until a page can be had."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(url):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def wait_for_port(host: str, port: int) -> None:
    """Waits until a server accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with socket.create_connection((host, port)):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Client:
    """Runs jobs, and has the XRootD client record when each of its calls began and ended."""

    def __init__(self, directory: Path, python: dict[str, str], round_trip_s: float) -> None:
        self.directory, self.python, self.round_trip_s = directory, python, round_trip_s
        self.recorders = {
            name: subprocess.run(
                [program, "-c", f"import {module}; print({module}.__path__[0])"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()[-1]
            for (name, program), module in zip(python.items(), ("pyxrootd", "ROOT"), strict=True)
        }

    def run(self, job: str, url: str) -> dict[str, object]:
        """The seconds of one job, and those in which it waited for an answer."""
        columns, script = JOBS[job]
        name = "uproot" if "uproot" in script else "root"
        (library,) = Path(self.recorders[name]).rglob("libXrdClRecorder-*.so")
        record = self.directory / "record.csv"
        record.unlink(missing_ok=True)
        plugins = self.directory / "plugins"
        plugins.mkdir(exist_ok=True)
        server = url.split("//")[1]
        (plugins / "recorder.conf").write_text(
            f"url = root://{server}\nlib = {library}\nenable = true\noutput = {record}\n"
        )
        done = subprocess.run(
            [self.python[name], "-c", script, url, str(columns)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "XRD_PLUGINCONFDIR": str(plugins)},
        )
        if done.returncode != 0:
            raise SystemExit(f"{job}: {done.stderr}")
        calls = calls_of(record)
        waits = waits_of(calls)
        far = [wait for wait in waits if wait >= self.round_trip_s]
        return {
            "job_s": round(float(done.stdout.split()[-1]), 3),
            "wait_s": round(sum(waits), 3),
            # Times at which it waited for a round trip or longer, and the whole round trips in them.
            "far_waits": len(far),
            "round_trips": sum(int(wait / self.round_trip_s) for wait in far),
            "read_mb": round(read_bytes(calls) / 1e6, 2),
        }


def calls_of(record: Path) -> list[list[str]]:
    """The calls of the client: their names in column 1, begin and end in 2 and 4, arguments in 3."""
    with record.open() as lines:
        return [line for line in csv.reader(lines) if line[1] != "Close"]


def waits_of(calls: list[list[str]]) -> list[float]:
    """The times in which any call was under way, in seconds."""
    waits: list[tuple[float, float]] = []
    for begin, end in sorted((float(call[2]), float(call[4])) for call in calls):
        if waits and begin <= waits[-1][1]:
            waits[-1] = (waits[-1][0], max(waits[-1][1], end))
        else:
            waits.append((begin, end))
    return [end - begin for begin, end in waits]


def read_bytes(calls: list[list[str]]) -> int:
    """Bytes of the file that were read, each once."""
    ranges: list[tuple[int, int]] = []
    for call in calls:
        if call[1] not in {"Read", "PgRead", "VectorRead"}:
            continue
        numbers = [int(number) for number in re.findall(r"\d+", call[3])]
        pairs = zip(numbers[0::2], numbers[1::2], strict=False)
        ranges += [(offset, offset + length) for offset, length in pairs]
    count, position = 0, 0
    for start, end in sorted(ranges):
        count += max(0, end - max(start, position))
        position = max(position, end)
    return count
