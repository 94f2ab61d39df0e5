"""Processor time of a cache for one GiB: cold, warm, and after a start, with and without checks. Usage: measure.py FOREBAY"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZE = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A running `forebay serve`."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            ready = re.match(r"ready (root://.+)$", line)
            if ready:
                self.url = ready[1]
                return
        raise SystemExit(f"{argv} did not start")

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def read(self) -> float:
        """Processor time of one whole read by a stock client, including the work after it."""
        before = self.cpu_seconds()
        subprocess.run(["xrdcp", "-f", "-s", f"{self.url}//file", "/dev/null"], check=True)
        time.sleep(8)
        return self.cpu_seconds() - before

    def stop(self) -> None:
        """Ends it as an administrator does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def main() -> None:
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "data").mkdir()
        (root / "data" / "file").write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
        origin = Server([binary, "serve", "--listen", "127.0.0.1:0", "--export-dir", str(root / "data")])

        def cache(store: str, integrity: str, more: str = "") -> Server:
            configuration = root / "forebay.toml"
            configuration.write_text(
                f'[server]\nlisten = ["127.0.0.1:0"]\n[store]\npath = "{root / store}"\n'
                f'[[export]]\npath = "/"\norigins = ["{origin.url}"]\n[origin]\npage_reads = true\n{more}'
                f"[integrity]\n{integrity}\n"
            )
            return Server([binary, "serve", "--config", str(configuration)])

        print("round,row,cpu_s_per_gib")
        for number in range(3):
            for row, integrity in [("cold, no checksums of the file", "checksums = []"), ("cold", "")]:
                server = cache(f"{row}-{number}".replace(" ", "_"), integrity)
                print(f"{number},{row},{server.read():.2f}", flush=True)
                if row == "cold":
                    print(f"{number},warm,{server.read():.2f}", flush=True)
                server.stop()
            for row, integrity in [("after a start, first-read", ""), ("after a start, never", 'check = "never"')]:
                server = cache(f"cold-{number}", integrity)
                print(f"{number},{row},{server.read():.2f}", flush=True)
                print(f"{number},{row}, read again,{server.read():.2f}", flush=True)
                server.stop()
        origin.stop()


main()
