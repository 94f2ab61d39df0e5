"""Times analysis jobs on a cold ROOT file over an emulated path: direct, and through caches.

Runs on the first host of `forebay-wan up` with paths `client:cache`, `cache:origin` and `client:origin`: see README.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

KINDS = ("flat", "fat", "ntuple")
# Files of a dataset: one content under several names.
FILES = 10
PORTS = {"origin": 21094, "cache": 21095, "admin": 21096}
START_SECONDS = 30.0
SETTLING_SECONDS = 0.5

# Each prints the seconds that its loop took.
PROLOGUE = """import sys, time
url, n = sys.argv[1], int(sys.argv[2])
names = [f'x{37 * i * i % 320:03}' for i in range(1, n + 1)]
"""
# fsspec-xrootd passes on offsets of NumPy, which the client refuses.
UPROOT = """import uproot
from XRootD.client import File
read = File.read
File.read = lambda self, offset=0, size=0, *rest, **named: read(self, int(offset), int(size), *rest, **named)
begin = time.monotonic()
"""
PYROOT = "import ROOT\nROOT.gErrorIgnoreLevel = 3000\nbegin = time.monotonic()\n"
REPORT = "print(time.monotonic() - begin)\n"
LOOP = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
t.SetCacheSize({cache})
t.SetBranchStatus('*', 0)
for name in names:
    t.SetBranchStatus(name, 1)
for i in range(t.GetEntries()):
    t.GetEntry(i)
"""
# Three columns, or all, of few long ones.
FAT = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
t.SetCacheSize(30_000_000)
t.SetBranchStatus('*', 0)
for name in [f'y{number}' for number in range(n)]:
    t.SetBranchStatus(name, 1)
for i in range(t.GetEntries()):
    t.GetEntry(i)
"""
# Three columns for each entry, and twenty more for one of 2000.
RARE = """
f = ROOT.TFile.Open(url)
t = f.Get('Events')
always = [t.GetBranch(name) for name in names]
rare = [t.GetBranch(f'x{n:03}') for n in range(5, 305, 15)]
for i in range(t.GetEntries()):
    for branch in always:
        branch.GetEntry(i)
    if i % 2000 == 0:
        for branch in rare:
            branch.GetEntry(i)
"""
SUMS = """
d = ROOT.RDataFrame('Events', url)
sums = [d.Sum(name) for name in names]
sums[0].GetValue()
"""
JOBS = {
    "B": (10, PROLOGUE + PYROOT + LOOP.format(cache=0) + REPORT),
    "C": (
        5,
        PROLOGUE + UPROOT + "for a in uproot.iterate(url + ':Events', names, library='np'): pass\n" + REPORT,
    ),
    "D": (
        5,
        PROLOGUE
        + UPROOT
        + "for a in uproot.iterate(url + ':Events', names, step_size=8_000, library='np'): pass\n"
        + REPORT,
    ),
    "E": (
        10,
        PROLOGUE + PYROOT + SUMS + REPORT,
    ),
    "E2": (
        10,
        PROLOGUE + PYROOT + "ROOT.EnableImplicitMT(2)\n" + SUMS + REPORT,
    ),
    # Opens a tree, for a session with the origin.
    "W": (
        1,
        PROLOGUE + PYROOT + "f = ROOT.TFile.Open(url)\nf.Get('Events').GetEntry(0)\n" + REPORT,
    ),
    "A": (3, PROLOGUE + PYROOT + RARE + REPORT),
    "F": (8, PROLOGUE + PYROOT + SUMS + REPORT),
    "H": (3, PROLOGUE + PYROOT + FAT + REPORT),
    "I": (9, PROLOGUE + PYROOT + FAT + REPORT),
    "G": (10, PROLOGUE + PYROOT + LOOP.format(cache=30_000_000) + REPORT),
}
# The files of each job; the others read `flat`.
DATASETS = {"F": "ntuple", "H": "fat", "I": "fat"}
# Installed programs of XCache, by the name of the way.
XCACHES = {"xcache": Path("/usr")}


def make_files(directory: Path, python: str) -> None:
    """Files of random numbers, of each kind one content under several names."""
    subprocess.run([python, Path(__file__).with_name("root_files.py"), directory], check=True)
    for kind in KINDS:
        for number in range(1, FILES):
            (directory / kind / f"{number}.root").hardlink_to(directory / kind / "0.root")


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
        return next(time for hosts, time in zip(ends, times, strict=True) if hosts == {"cache", "origin"}) / 1000

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
    def cache(self, kind: str) -> Iterator[str]:
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

    def metrics(self) -> dict[str, float]:
        """Requests to the origin and wasted bytes, by the metrics of Forebay."""
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
        waits = waits_of(record)
        far = [wait for wait in waits if wait >= self.round_trip_s]
        return {
            "job_s": round(float(done.stdout.split()[-1]), 3),
            "wait_s": round(sum(waits), 3),
            # Times at which it waited for a round trip or longer, and the whole round trips in them.
            "far_waits": len(far),
            "round_trips": sum(int(wait / self.round_trip_s) for wait in far),
        }


def waits_of(record: Path) -> list[float]:
    """The times in which any call was under way, in seconds."""
    with record.open() as lines:
        calls = sorted((float(line[2]), float(line[4])) for line in csv.reader(lines) if line[1] != "Close")
    waits: list[tuple[float, float]] = []
    for begin, end in calls:
        if waits and begin <= waits[-1][1]:
            waits[-1] = (waits[-1][0], max(waits[-1][1], end))
        else:
            waits.append((begin, end))
    return [end - begin for begin, end in waits]


def main() -> None:
    """Runs the jobs by each way, and prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="A,B,C,D,E,E2,F,G,H,I")
    parser.add_argument(
        "--ways",
        default="direct,xcache,forebay-off,forebay-learn,forebay-learn-and-remember",
    )
    parser.add_argument(
        "--files",
        type=int,
        default=2,
        help="files that each job reads one after the other",
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--forebay", required=True)
    parser.add_argument("--wan", required=True)
    parser.add_argument("--root-python", required=True)
    parser.add_argument("--xrootd6", type=Path, help="XRootD 6, for the ways xcache6 and xcache6-tuned")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if not (args.data / "fat" / f"{FILES - 1}.root").exists():
        make_files(args.data, args.root_python)
    if args.xrootd6:
        XCACHES["xcache6"] = args.xrootd6
    python = {"uproot": sys.executable, "root": args.root_python}
    rows = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="root-jobs-")))
        directory.chmod(0o755)
        lab = Lab(directory, args.forebay, args.wan)
        client = Client(directory, python, lab.round_trip_s())
        stack.enter_context(lab.origin(args.data))
        time.sleep(2)
        # Interleaved: a busy moment of the machine hits all ways.
        for job in args.jobs.split(","):
            for number in range(args.runs):
                for way in args.ways.split(","):
                    for row in measure(lab, client, job, way, args.files):
                        rows.append({"run": number, **row})
                        print(json.dumps(rows[-1]), flush=True)
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2) + "\n")


def measure(lab: Lab, client: Client, job: str, way: str, files: int) -> Iterator[dict[str, object]]:
    """A job on cold files of one dataset."""
    dataset = DATASETS.get(job, "flat")
    if way == "direct":
        url = f"root://{lab.address('origin', 'client')}:{PORTS['origin']}/"
        yield timed(lab, client, job, way, f"{url}/{dataset}/1.root") | {"file": 1}
        return
    is_forebay = way.startswith("forebay")
    # Without memory all files are equal.
    files = files if way == "forebay-learn-and-remember" else 1
    with lab.cache(way) if is_forebay else lab.xcache(way) as url:
        # The session with the origin is in use; of another dataset.
        other = "fat" if dataset == "flat" else "flat"
        client.run("W", f"{url}/{other}/0.root")
        for number in range(1, files + 1):
            before = lab.metrics() if is_forebay else {}
            row = timed(lab, client, job, way, f"{url}/{dataset}/{number % FILES}.root") | {"file": number}
            if is_forebay:
                # sleep: what was closed is counted and learned a moment later.
                time.sleep(SETTLING_SECONDS)
                row |= {key: round(value - before[key], 2) for key, value in lab.metrics().items()}
            yield row


def timed(lab: Lab, client: Client, job: str, way: str, url: str) -> dict[str, object]:
    """The times of a job, and the bytes that the origin has sent meanwhile."""
    before = lab.sent_bytes()
    times = client.run(job, url)
    sent = lab.sent_bytes() - before
    return {"job": job, "way": way, **times, "origin_mb": round(sent / 1e6, 1)}


if __name__ == "__main__":
    main()
