"""Measures a start on a store full of small files: until the first hit is served, until the index is ready, and the memory.

    forebay-bench make-store --files 1000000 STORE
    python3 bench/startup.py --store STORE --files 1000000 --forebay FOREBAY --load FOREBAY-BENCH > raw.csv

Each start is a process of its own. The first hit is one open, read and close of a file in the middle of the store, by the
load generator, which compares every byte; its own start and login are counted as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

POLL_S = 0.005


def main() -> None:
    """Measures Forebay with an index, after a kill, without an index and on an empty store; then XCache."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--forebay", type=Path, required=True)
    parser.add_argument("--load", type=Path, required=True)
    parser.add_argument("--xcache-seconds", type=float, default=120.0)
    options = parser.parse_args()
    print("server,start,measure,value,unit", flush=True)
    index = options.store / ".forebay" / "index"
    with suppress(FileNotFoundError):
        index.unlink()
    with tempfile.TemporaryDirectory() as empty:
        forebay(options, Path(empty), "empty store", signal.SIGTERM)
    forebay(options, options.store, "without an index", signal.SIGTERM)
    for n in range(3):
        forebay(options, options.store, f"after a clean end {n}", signal.SIGKILL)
        forebay(options, options.store, f"after kill -9 {n}", signal.SIGTERM)
    row("forebay", "size", "index", index.stat().st_size / 1e6, "MB")
    if shutil.which("xrootd"):
        xcache(options)


def row(server: str, start: str, measure: str, value: float, unit: str) -> None:
    """Prints a row."""
    print(f"{server},{start},{measure},{value:.3f},{unit}", flush=True)


def forebay(options: argparse.Namespace, store: Path, start: str, end: signal.Signals) -> None:
    """One start of Forebay, ended by the signal `end`."""
    port, admin = free_port(), free_port()
    command = [str(options.forebay), "serve", "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}"]
    command += ["--store", str(store), "--budget", "100TiB", "--origin", f"root://127.0.0.1:{free_port()}"]
    began = time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            if store == options.store:
                first_hit("forebay", start, options, port, began)
            while 'state="ready"} 1' not in metrics(admin):
                time.sleep(POLL_S)
            row("forebay", start, "index ready", time.monotonic() - began, "s")
            time.sleep(5)
            memory("forebay", start, process.pid)
        finally:
            process.send_signal(end)
            process.wait()


def xcache(options: argparse.Namespace) -> None:
    """One start of XCache on the same store, watched for some time."""
    port, origin = free_port(), free_port()
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "xcache.cfg"
        config.write_text(
            f"xrd.port {port}\nall.adminpath {scratch}\nall.pidpath {scratch}\nall.export /\n"
            "ofs.osslib libXrdPss.so\npss.cachelib libXrdPfc.so\n"
            f"pss.origin 127.0.0.1:{origin}\noss.localroot {options.store}\n"
            "pfc.ram 1g\npfc.prefetch 0\npfc.blocksize 64k\npfc.trace info\n"
            "pfc.diskusage 0.98 0.99 files 12g 14g 16g purgeinterval 60\n"
        )
        os.chmod(scratch, 0o755)
        if os.geteuid() == 0:
            subprocess.run(["chown", "-R", "daemon:daemon", scratch, str(options.store)], check=True)
        log = Path(scratch) / "log"
        began = time.monotonic()
        command = ["xrootd", *(["-R", "daemon"] if os.geteuid() == 0 else []), "-c", str(config), "-l", str(log)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            first_hit("xcache", "as it is", options, port, began)
            memory("xcache", "as it is", process.pid)
            while time.monotonic() - began < options.xcache_seconds:
                time.sleep(1)
            row("xcache", "as it is", "processor after the watch", processor_seconds(process.pid), "s")
            memory("xcache", "after the watch", process.pid)
            for line in log.read_text(errors="replace").splitlines():
                if "Purge" in line or "purge" in line or "scan" in line:
                    print(f"# {line}", file=sys.stderr)
        finally:
            process.kill()
            process.wait()


def first_hit(server: str, start: str, options: argparse.Namespace, port: int, began: float) -> None:
    """Waits until the port takes connections, and for one file."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(POLL_S)
    row(server, start, "accepts connections", time.monotonic() - began, "s")
    file = options.files // 2
    command = [str(options.load), "load", f"127.0.0.1:{port}", f"/bench/{file // 1000:06}/{file:09}.root"]
    command += ["--file-size", "4KiB", "--size", "4KiB", "--operation", "open-read-close", "--operations", "1"]
    # A server may take connections before it takes logins.
    while subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        time.sleep(POLL_S)
    row(server, start, "first hit served", time.monotonic() - began, "s")


def metrics(port: int) -> str:
    """The metrics, or nothing when there are none yet."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())
    return ""


def memory(server: str, start: str, pid: int) -> None:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            row(
                server,
                start,
                {"VmRSS": "resident", "VmHWM": "resident at most"}[name],
                int(value.split()[0]) / 1e3,
                "MB",
            )


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
